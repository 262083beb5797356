"""An engine that tells which attention backends of torch were on when it was loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyrig.work.engine import Usual

if TYPE_CHECKING:
    from anyrig.placement import Placement


class Tells(Usual):
    """Each result is the names of those that are on."""

    name = "tells"
    version = "1"
    most_items = 1

    def __init__(self, placement: Placement) -> None:
        import torch

        switches: Any = torch.backends.cuda
        self._on = [
            name for name in ("flash", "mem_efficient", "cudnn", "math")
            if getattr(switches, f"{name}_sdp_enabled")()
        ]  # fmt: skip

    def run(self, batch: Sequence[Any]) -> list[Any]:
        return [self._on for _ in batch]
