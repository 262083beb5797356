"""What the server works with, built by `anyrig serve` and handed to every route.

Routes open no models and read no environment. Everything here is synchronous and safe to use from
several threads; what takes a while is a `concurrent.futures.Future`, or is called in a thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.app.devices import MonitoredMachine
    from anyrig.app.document_worker import DocumentWorkers
    from anyrig.app.keys import ApiKeys
    from anyrig.app.live_embedding import LiveEmbedding
    from anyrig.app.live_speech import LiveSpeech
    from anyrig.app.models import ModelCache
    from anyrig.app.rig import Rig
    from anyrig.app.settings import ServerSettings
    from anyrig.app.uploads import Uploads
    from anyrig.jobs import JobHandler, JobQueue
    from anyrig.server.metrics import Metrics
    from anyrig.server.routes.cluster import MonitoredCluster


@dataclass
class ServerState:
    """What the server works with."""

    rig: Rig
    settings: ServerSettings
    data_folder: Path
    """The only folder that requests may read from or write to."""
    jobs: JobQueue
    metrics: Metrics
    models: ModelCache
    keys: ApiKeys
    uploads: Uploads
    machine: MonitoredMachine
    speech: LiveSpeech
    embedding: LiveEmbedding
    documents: DocumentWorkers
    cluster: MonitoredCluster | None = None
    """None if all work is done on this machine."""
    job_handler: JobHandler | None = None
    """Runs a job of the queue; None if other processes do (`--no-jobs`)."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 if it is not known, as in tests."""
    keys_required: bool = False
    """Whether every client needs an API key. Otherwise only those who come through a proxy do."""
    insecure: bool = False
    """Whether nobody needs a key (`--insecure`)."""
    page_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """Authenticates requests that the page makes on behalf of its visitors."""

    preload: Sequence[str] = ()
    """What to load before the server is ready."""
    preloaded: Sequence[str] = ()
    """Models that were loaded at the start."""
    preload_error: str = ""
    is_ready: bool = False
    is_ending: bool = False
