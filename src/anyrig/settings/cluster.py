"""How this machine stands to a cluster, as a person sets it once: `[cluster]`."""

from __future__ import annotations

from dataclasses import dataclass

from anyrig.errors import InvalidSettingError
from anyrig.settings.restricted import restricted


@dataclass(frozen=True)
class ClusterSettings:
    """Which cluster, and what this machine is in it."""

    broker: str = restricted("")
    """Where its machines meet: redis://HOST:6379/0, or a token; empty takes this machine's own."""
    spread: bool = False
    """Whether books and speech go to its workers also without --cluster."""
    name: str = ""
    """What a worker on this machine is called; empty takes the machine's name."""
    nodes: int = 1
    """How many nodes a worker starts on each device."""
    patience: float = 60.0
    """Seconds that work waits for a worker that can do it, where none is there."""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 64:
            raise InvalidSettingError(f"cluster.nodes is {self.nodes}", hint="From 1 to 64.")
        if not 0 <= self.patience <= 7 * 24 * 3600:
            raise InvalidSettingError(
                f"cluster.patience is {self.patience}", hint="Seconds, up to a week of them."
            )
