"""What the server is made of, handed in by whoever starts it.

The routes know these alone: no route opens a model, reads a setting or asks for the environment.
Everything here is synchronous and safe to call from many threads; answers that take a while are
futures of `concurrent.futures` or calls to be made in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from anyrig.app.document_worker import DocumentWorkers
    from anyrig.app.keys import ApiKeys
    from anyrig.app.live_embedding import LiveEmbedding
    from anyrig.app.live_speech import LiveSpeech
    from anyrig.app.models import ModelCache
    from anyrig.app.settings import ServerSettings
    from anyrig.jobs import JobHandler, JobQueue
    from anyrig.monitor import MachineSnapshot
    from anyrig.server.metrics import Metrics
    from anyrig.server.uploads import Uploads


class Rig(Protocol):
    """The machine: what is there, what is used, how it is doing."""

    def start(self) -> None:
        """Begin to sample; called once, when the app is built."""

    def devices(self) -> Mapping[str, Any]:
        """As `anyrig devices --json`, with the chosen one."""

    def use(self, device: str) -> Mapping[str, Any]:
        """Choose one from now on, as `anyrig use`."""

    def snapshot(self) -> MachineSnapshot | None:
        """The last samples as the monitor made them; None before the first."""

    def now(self) -> Mapping[str, Any]:
        """The last sample of every device: load, memory, temperature, power, processes."""

    def history(self) -> Sequence[Mapping[str, Any]]:
        """Samples of the last minutes, the oldest first."""

    def figures(self) -> Sequence[Mapping[str, Any]]:
        """What `anyrig bench` measured here."""


PRELOADS = ("speech", "embeddings", "documents", "entities", "summarise", "classify")
"""What can be loaded before the server says that it is ready."""


class Cluster(Protocol):
    """The machines that speech and books are spread over."""

    def start(self) -> None:
        """Begin to look; called once, when the app is built."""

    def now(self) -> Mapping[str, Any]:
        """How it was when last looked at: `broker`, `state`, `error`, `warnings`, `coordinator`,
        `workers`. Asks nobody.
        """

    def drain(self, name: str, *, on: bool) -> Mapping[str, Any]:
        """Let a worker finish and leave, or take that back; as `now`, after it."""

    def forget(self, name: str) -> Mapping[str, Any]:
        """Take a lost worker off the list; as `now`, after it."""


@dataclass
class Parts:
    """Handed to every route."""

    settings: ServerSettings
    data: Path
    """The only folder that requests may read from or write to."""
    jobs: JobQueue
    figures: Metrics
    models: ModelCache
    keys: ApiKeys
    uploads: Uploads
    rig: Rig
    speech: LiveSpeech
    embedding: LiveEmbedding
    clerks: DocumentWorkers
    cluster: Cluster | None = None
    """None where all work is done on this machine."""
    open: bool = True
    """Whether no key is needed: only this machine can call, or `--insecure` was said."""
    places: Mapping[str, Path] = field(default_factory=dict)
    """Folders of the user by name: indexes, classifiers, runs."""
    runner: JobHandler | None = None
    """Does a job of the queue; none where the queue is left to others (`--no-jobs`)."""
    preload: Sequence[str] = ()
    """Of `PRELOADS`: what is loaded before the server says that it is ready."""
    closing: list[Callable[[], None]] = field(default_factory=list)
    """Called in reverse when the server ends."""
    state: dict[str, Any] = field(default_factory=dict)
    """`ready` once everything of `preload` is loaded; `error` where that failed."""
