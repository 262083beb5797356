"""An engine that computes nothing, at any speed and with any fault: to rehearse work without a GPU.

Each item is a number, the seconds it takes on a device of speed 1; its result is twice the number.
Anyone may name it: `Recipe("anyrig.work.rehearse:Rehearsal", {"speeds": {"cpu": 0.5}})`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anyrig.work.engine import Usual

if TYPE_CHECKING:
    from anyrig.placement import Placement


class Rehearsal(Usual):
    """Sleeps for as long as its items say."""

    name = "rehearsal"
    version = "1"
    pads = False
    batch_invariant = True

    def __init__(
        self,
        placement: Placement,
        *,
        speeds: Mapping[str, float] | None = None,
        most_items: int = 1,
        call_s: float = 0.0,
        load_s: float = 0.0,
        fits: float = float("inf"),
        deadly: Sequence[float] = (),
        bad: Sequence[float] = (),
        cursed: Sequence[float] = (),
        small: Mapping[str, float] | None = None,
        broken: Sequence[str] = (),
        losing: Mapping[str, int] | None = None,
    ) -> None:
        """Load.

        Args:
            placement: where it runs.
            speeds: by device id; 1 when none is given.
            most_items: in one call.
            call_s: what a call takes beside its items; batches grow where there is some.
            load_s: how long loading takes.
            fits: the most that may be in one call; more runs out of memory.
            deadly: items whose worker dies.
            bad: items that raise an error.
            cursed: items that break the device for this process.
            small: by device id, the most that may be in one call there.
            broken: devices on which every worker dies at its first item.
            losing: by device id, after how many calls its worker reports the device lost.
        """
        device = placement.device.id
        time.sleep(load_s)
        self.most_items, self._call_s = most_items, call_s
        self._speed = (speeds or {}).get(device, 1.0)
        self._fits = (small or {}).get(device, fits)
        self._deadly, self._bad, self._cursed = map(frozenset, (deadly, bad, cursed))
        self._broken = device in broken
        self._calls_left = (losing or {}).get(device)

    def run(self, batch: Sequence[float]) -> list[float]:
        """Each number doubled, after its time."""
        if self._broken or self._deadly.intersection(batch):
            os._exit(9)
        if self._calls_left is not None:
            self._calls_left -= 1
            if self._calls_left < 0:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if self._cursed.intersection(batch):
            raise RuntimeError("CUDA error: device-side assert triggered")
        if sum(batch) > self._fits:
            raise MemoryError(f"{sum(batch)} does not fit into {self._fits}")
        if self._bad.intersection(batch):
            raise ValueError("a bad item")
        time.sleep(self._call_s + sum(batch) / self._speed)
        return [2 * number for number in batch]
