"""A device that is not there: a memory curve, a speed curve, a clock. Hardware cannot be told to
spill, to jump or to keep silent, so `fit` is proved on this and then run on a real one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from anyrig.backends.memory import MemoryUsage
from anyrig.memory.oom import Shortage
from anyrig.units import GIB, MIB


class Full(Exception):
    """What this device raises when its memory is full."""


def recognise(error: BaseException) -> Shortage | None:
    return Shortage("device", said=str(error)) if isinstance(error, Full) else None


@dataclass
class Simulated:
    """A meter and a step over one curve."""

    capacity_bytes: int = 24 * GIB
    fixed_bytes: int = 2 * GIB
    slope_bytes: int = 256 * MIB
    optimiser_peak_bytes: int = 0
    """The optimiser's own peak above what rests, whatever the batch."""
    kept: float = 0.0
    """What the allocator keeps beside a batch's live tensors, as a share of them."""
    stuck: float = 0.0
    """How much of what it keeps it cannot give back when memory is short."""
    jump_at: int = 1 << 60
    jump_bytes: int = 0
    """A workspace that appears from a size on."""
    rounding_bytes: int = 2 * MIB
    spills: bool = False
    """Goes on in the host's memory, twenty times as slowly, instead of failing."""
    told: bool = True
    sticky: bool = False
    """Never gives anything back, as ONNX Runtime's arena."""
    seconds_an_item: float = 0.001
    noise: Callable[[], float] = lambda: 1.0
    now: float = 0.0
    steps: list[int] = field(default_factory=list)
    failures: int = 0
    _peak: tuple[int, int] = (0, 0)
    _stays: int = 0

    def live(self, size: int) -> int:
        batch = self.slope_bytes * size + (self.jump_bytes if size >= self.jump_at else 0)
        batch = -(-batch // self.rounding_bytes) * self.rounding_bytes
        return self.fixed_bytes + max(batch, self.optimiser_peak_bytes)

    def need(self, size: int) -> int:
        """What cannot be done without."""
        return self._with_kept(size, self.kept * self.stuck)

    def taken(self, size: int) -> int:
        return max(self.need(size), min(self._with_kept(size, self.kept), self._ceiling))

    def _with_kept(self, size: int, kept: float) -> int:
        return int(self.live(size) + (self.live(size) - self.fixed_bytes) * kept)

    @property
    def _ceiling(self) -> int:
        return 1 << 60 if self.spills else self.capacity_bytes

    def largest(self, budget_bytes: int | None = None) -> int:
        """The true maximum by bisection."""
        cap = self.capacity_bytes if budget_bytes is None else budget_bytes
        low, high = 0, 1 << 30
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.need(middle) <= cap else (low, middle)
        return low

    def step(self, size: int) -> object:
        self.steps.append(size)
        self.now += 0.0005
        spilt = self.need(size) > self.capacity_bytes
        if spilt and not self.spills:
            self.failures += 1
            raise Full(f"no room for {size}")
        slower = 20.0 if spilt else 1.0
        self.now += size * self.seconds_an_item * slower * self.noise()
        self._peak = (max(self._peak[0], self.live(size)), max(self._peak[1], self.taken(size)))
        self._stays = max(self._stays, self.taken(size)) if self.sticky else self.fixed_bytes
        return bytearray(8)

    # -- the meter --

    def synchronize(self) -> None:
        pass

    def memory(self) -> MemoryUsage:
        if not self.told:
            return MemoryUsage(total_bytes=self.capacity_bytes)
        live, taken = (max(self._stays, one) for one in self._peak)
        free = self.capacity_bytes - self._stays
        return MemoryUsage(self._stays, self._stays, live, taken, free, self.capacity_bytes)

    def reset_peak(self) -> None:
        self._peak = (0, 0)

    def release(self) -> None:
        pass

    def clock(self) -> float:
        return self.now
