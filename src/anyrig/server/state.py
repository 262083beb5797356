"""What the server works with, built by `anyrig serve` and handed to every route.

Routes open no models and read no environment. Everything here is synchronous and safe to use from
several threads; what takes a while is a `concurrent.futures.Future`, or is called in a thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future

    from anyrig.app.devices import MonitoredMachine
    from anyrig.app.keys import ApiKeys
    from anyrig.app.rig import Rig
    from anyrig.app.settings import ServerSettings
    from anyrig.documents.protocol import Use
    from anyrig.jobs import JobHandler, JobQueue
    from anyrig.server.keeper import Keeper
    from anyrig.server.metrics import Metrics
    from anyrig.server.routes.cluster import MonitoredCluster
    from anyrig.server.speaking import Speaking
    from anyrig.server.uploads import Uploads
    from anyrig.server.waiting import Piece
    from anyrig.work.live import Lane


class Embedding(Protocol):
    """Embeds the texts of many clients together."""

    def models(self) -> Sequence[Mapping[str, Any]]:
        """The available models: `id`, `dimension`, `longest`, `languages`."""

    def named(self, model: str = "") -> Mapping[str, Any]:
        """The model with a name, as in `models`; `note` if another one is used in its place."""

    def submit(
        self, texts: Sequence[str], *, model: str = "", use: Use = "passage", lane: Lane = "live"
    ) -> Sequence[Future[Any]]:
        """A vector (fp32, one row) for each text. May load the model: call it in a thread."""

    def tokens(self, texts: Sequence[str], *, model: str = "") -> int:
        """The number of tokens of some texts."""

    def text_of(self, tokens: Sequence[int], *, model: str = "") -> str:
        """Decode tokens."""


class Clerks(Protocol):
    """Runs tasks on documents in worker processes."""

    def submit(
        self, task: str, arguments: Mapping[str, Any], *, lane: Lane = "live", turn: float = 0.0
    ) -> Piece[Any]:
        """Run a task by name, JSON in and out. May start a process: call it in a thread."""


@dataclass
class ServerState:
    """What the server works with."""

    rig: Rig
    settings: ServerSettings
    data_folder: Path
    """The only folder that requests may read from or write to."""
    jobs: JobQueue
    metrics: Metrics
    models: Keeper
    keys: ApiKeys
    uploads: Uploads
    machine: MonitoredMachine
    speech: Speaking
    embedding: Embedding
    documents: Clerks
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
