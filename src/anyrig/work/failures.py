"""Which item, or which device, is at fault when a worker crashes.

An item that crashes three workers is a poison item and fails. A device whose workers crash twice is
suspended. One crash may be either's fault, so the third try of a suspect is made on another device
where there is one: if it crashes there as well, it is poison, and the device's crashes are
forgiven. So are the crashes of a device that has computed many items since: a server's pool lives
for weeks, and two crashes a week apart say nothing about the device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

POISON_CRASHES = 3
"""Crashes after which an item fails."""
DEVICE_CRASHES = 2
"""Crashes after which a device is suspended."""
FORGIVE_AFTER = 200
"""Items computed on a device since its last crash after which its crashes are forgotten."""


@dataclass
class _DeviceRecord:
    crashes: list[frozenset[int]] = field(default_factory=list)
    """For each crash, the items that were being computed."""
    num_since: int = 0
    """Items computed since the last crash."""
    streak: int = 0
    """Unexplained crashes since an item was last computed."""
    proven: bool = False
    """Whether it has ever computed anything."""


class FailureTracker:
    """Crashes by item and by device."""

    def __init__(self) -> None:
        self._crashed_on: dict[int, list[str]] = {}
        """By item: the devices its workers crashed on."""
        self._devices: defaultdict[str, _DeviceRecord] = defaultdict(_DeviceRecord)

    def record_crash(self, device: str, items: Iterable[int]) -> None:
        """A worker crashed while it computed these items, or while it loaded (none)."""
        suspects = frozenset(items)
        for index in suspects:
            self._crashed_on.setdefault(index, []).append(device)
        record = self._devices[device]
        record.crashes.append(suspects)
        record.num_since = 0
        record.streak += 1

    def record_success(self, index: int, device: str) -> None:
        """An item was computed, on a device that therefore works."""
        record = self._devices[device]
        record.streak, record.proven = 0, True
        record.num_since += 1
        if record.crashes and record.num_since >= FORGIVE_AFTER:
            record.crashes.clear()
        self._crashed_on.pop(index, None)

    def num_crashes(self, index: int) -> int:
        return len(self._crashed_on.get(index, ()))

    def is_suspect(self, index: int) -> bool:
        return index in self._crashed_on

    def is_poison(self, index: int) -> bool:
        return self.num_crashes(index) >= POISON_CRASHES

    def device_to_avoid(self, index: int) -> str:
        """The device a suspect must not be tried on again; empty if there is none."""
        devices = self._crashed_on.get(index, [])
        same = len(devices) >= DEVICE_CRASHES and len(set(devices)) == 1
        return devices[-1] if same else ""

    def is_suspended(self, device: str) -> bool:
        return len(self._devices[device].crashes) >= DEVICE_CRASHES

    def is_unstable(self, device: str) -> bool:
        """Whether it crashed with different items: time to try suspects on it alone."""
        return self._devices[device].streak >= DEVICE_CRASHES

    def exceeds_crash_limit(self, device: str) -> bool:
        """Whether nothing was computed between many crashes, whatever it was given."""
        return self._devices[device].streak >= DEVICE_CRASHES * POISON_CRASHES

    def forgive_devices(self, poison: int) -> list[str]:
        """Forget the crashes that a poison item explains; the devices usable again by that."""
        freed = []
        for device, record in self._devices.items():
            kept = [suspects for suspects in record.crashes if poison not in suspects]
            if record.proven:  # a device that never worked is not excused by its items
                record.streak = max(0, record.streak - len(record.crashes) + len(kept))
            if len(kept) < DEVICE_CRASHES <= len(record.crashes):
                freed.append(device)
            record.crashes = kept
        return freed

    def forgive_item(self, index: int, device: str) -> None:
        """A crash that was recorded was none: the worker has come back."""
        devices = self._crashed_on.get(index, [])
        if device in devices:
            devices.remove(device)
        if not devices:
            self._crashed_on.pop(index, None)
