"""A simulated device with a memory curve, a speed curve and a clock. Real hardware cannot be told
to spill, to jump or to report nothing, so the search is tested on this and then on a real device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from anyrig.backends.memory import MemoryUsage
from anyrig.units import GIB, MIB


@dataclass
class Simulated:
    """A device and a step over one curve."""

    name: str = "simulated"
    capacity_bytes: int = 24 * GIB
    fixed_bytes: int = 2 * GIB
    slope_bytes: int = 256 * MIB
    optimizer_peak_bytes: int = 0
    """The optimizer's own peak above idle memory, whatever the batch."""
    cached: float = 0.0
    """What the allocator caches beside a batch's live tensors, as a share of them."""
    stuck: float = 0.0
    """How much of the cache it cannot free when memory is short."""
    refilled: float = 0.0
    """What a step needs more if it finds the cache of an earlier one, as a share of its batch."""
    max_retries: int = 1 << 60
    """How often in a row the cache can be emptied, before what is left of it is in pieces."""
    jump_at: int = 1 << 60
    jump_bytes: int = 0
    """A workspace that appears from a size on."""
    rounding_bytes: int = 2 * MIB
    spills: bool = False
    """Continues in host memory, twenty times slower, instead of failing."""
    reports_memory: bool = True
    sticky: bool = False
    """Never releases anything, like ONNX Runtime's arena."""
    seconds_per_item: float = 0.001
    noise: Callable[[], float] = lambda: 1.0
    now: float = 0.0
    steps: list[int] = field(default_factory=list)
    failures: int = 0
    on_host: bool = False
    num_retries: int = 0
    _in_a_row: int = 0
    _cache_filled: bool = False
    _peak: tuple[int, int] = (0, 0)
    _stays: int = 0

    def live(self, size: int) -> int:
        batch = self.slope_bytes * size + (self.jump_bytes if size >= self.jump_at else 0)
        batch = -(-batch // self.rounding_bytes) * self.rounding_bytes
        return self.fixed_bytes + max(batch, self.optimizer_peak_bytes)

    def need(self, size: int) -> int:
        """The least that a size needs, if the cache is emptied in every step."""
        refilled = self.refilled if self._cache_filled else 0.0
        return self._with_cache(size, self.cached * self.stuck + refilled)

    def reserved(self, size: int) -> int:
        """What a size takes of the device if nothing limits the cache."""
        return self._with_cache(size, self.cached + self.refilled)

    def taken(self, size: int) -> int:
        return max(self.need(size), min(self._wanted(size), self._ceiling))

    def _wanted(self, size: int) -> int:
        """What the allocator would take in this step, with or without an earlier one's cache."""
        refilled = self.refilled if self._cache_filled else 0.0
        return self._with_cache(size, self.cached + refilled)

    def _with_cache(self, size: int, cached: float) -> int:
        return int(self.live(size) + (self.live(size) - self.fixed_bytes) * cached)

    @property
    def _ceiling(self) -> int:
        return 1 << 60 if self.spills else self.capacity_bytes

    def largest(self, budget_bytes: int | None = None) -> int:
        """The true maximum by bisection: its cache fits, too."""
        cap = self.capacity_bytes if budget_bytes is None else budget_bytes
        low, high = 0, 1 << 30
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.reserved(middle) <= cap else (low, middle)
        return low

    def step(self, size: int) -> object:
        self.steps.append(size)
        self.now += 0.0005
        spilt = self.need(size) > self.capacity_bytes
        if self._wanted(size) > self.capacity_bytes and not self.spills:
            self.num_retries += 1
            self._in_a_row += 1
        else:
            self._in_a_row = 0
        if (spilt and not self.spills) or self._in_a_row > self.max_retries:
            self.failures += 1
            raise MemoryError(f"no room for {size}")
        slower = 20.0 if spilt else 1.0
        self.now += size * self.seconds_per_item * slower * self.noise()
        self._peak = (max(self._peak[0], self.live(size)), max(self._peak[1], self.taken(size)))
        self._stays = max(self._stays, self.taken(size)) if self.sticky else self.fixed_bytes
        self._cache_filled = True
        return bytearray(8)

    # -- as a device --

    def synchronize(self) -> None:
        pass

    def memory(self) -> MemoryUsage:
        if not self.reports_memory:
            return MemoryUsage(total_bytes=self.capacity_bytes)
        live, taken = (max(self._stays, one) for one in self._peak)
        free = self.capacity_bytes - self._stays
        return MemoryUsage(
            self._stays, self._stays, live, taken, free, self.capacity_bytes, self.num_retries
        )

    def reset_peak(self) -> None:
        self._peak = (0, 0)

    def release(self) -> None:
        self._cache_filled, self._in_a_row = False, 0

    def limit(self, num_bytes: int) -> bool:
        return False

    def clock(self) -> float:
        return self.now
