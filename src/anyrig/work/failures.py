"""Which item, or which device, is at fault when a worker crashes.

An item that crashes three workers is a poison item and fails. A device whose workers crash twice is
suspended. One crash may be either's fault, so the third try of a suspect is made on another device
where there is one: if it crashes there as well, it is poison, and the device's crashes are
forgiven. So are the crashes of a device that has computed many items since: a server's pool lives
for weeks, and two crashes a week apart say nothing about the device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

POISON_CRASHES = 3
"""Crashes after which an item fails."""
DEVICE_CRASHES = 2
"""Crashes after which a device is suspended."""
FORGIVE_AFTER = 200
"""Items computed on a device since its last crash after which its crashes are forgotten."""


@dataclass
class FailureTracker:
    """Crashes by item, and by device with the items that were being computed."""

    item_crashes: dict[int, list[str]] = field(default_factory=dict)
    """By item: the devices its workers crashed on."""
    device_crashes: dict[str, list[frozenset[int]]] = field(default_factory=dict)
    """By device: for each crash, the items that were being computed."""
    _streaks: dict[str, int] = field(default_factory=dict)
    """By device: unexplained crashes since an item was last computed on it."""
    _proven: set[str] = field(default_factory=set)
    """Devices that have computed something."""
    _since_crash: dict[str, int] = field(default_factory=dict)
    """By device that has crashed: items computed on it since."""

    def record_crash(self, device: str, items: Iterable[int]) -> None:
        """A worker crashed while it computed these items, or while it loaded (none)."""
        suspects = frozenset(items)
        for index in suspects:
            self.item_crashes.setdefault(index, []).append(device)
        self.device_crashes.setdefault(device, []).append(suspects)
        self._since_crash[device] = 0
        self._streaks[device] = self._streaks.get(device, 0) + 1

    def record_success(self, index: int, device: str) -> None:
        """An item was computed, on a device that therefore works."""
        self._streaks[device] = 0
        self._proven.add(device)
        if device in self._since_crash:
            self._since_crash[device] += 1
            if self._since_crash[device] >= FORGIVE_AFTER:
                del self._since_crash[device]
                self.device_crashes.pop(device, None)
        self.item_crashes.pop(index, None)

    def num_crashes(self, index: int) -> int:
        return len(self.item_crashes.get(index, ()))

    def is_suspect(self, index: int) -> bool:
        return index in self.item_crashes

    def is_poison(self, index: int) -> bool:
        return self.num_crashes(index) >= POISON_CRASHES

    def device_to_avoid(self, index: int) -> str:
        """The device a suspect must not be tried on again; empty if there is none."""
        devices = self.item_crashes.get(index, [])
        same = len(devices) >= DEVICE_CRASHES and len(set(devices)) == 1
        return devices[-1] if same else ""

    def is_suspended(self, device: str) -> bool:
        return len(self.device_crashes.get(device, ())) >= DEVICE_CRASHES

    def is_unstable(self, device: str) -> bool:
        """Whether it crashed with different items: time to try suspects on it alone."""
        return self._streaks.get(device, 0) >= DEVICE_CRASHES

    def is_hopeless(self, device: str) -> bool:
        """Whether nothing was computed between many crashes, whatever it was given."""
        return self._streaks.get(device, 0) >= DEVICE_CRASHES * POISON_CRASHES

    def forgive_devices(self, poison: int) -> list[str]:
        """Forget the crashes that a poison item explains; the devices usable again by that."""
        freed = []
        for device, crashes in self.device_crashes.items():
            kept = [suspects for suspects in crashes if poison not in suspects]
            if device in self._proven:  # a device that never worked is not excused by its items
                explained = len(crashes) - len(kept)
                self._streaks[device] = max(0, self._streaks.get(device, 0) - explained)
            if len(kept) < DEVICE_CRASHES <= len(crashes):
                freed.append(device)
            self.device_crashes[device] = kept
        return freed

    def forgive_item(self, index: int, device: str) -> None:
        """A crash that was recorded was none: the worker has come back."""
        devices = self.item_crashes.get(index, [])
        if device in devices:
            devices.remove(device)
        if not devices:
            self.item_crashes.pop(index, None)

    def forget_device(self, device: str) -> None:
        """Crashes of this device do not suspend it."""
        self.device_crashes.pop(device, None)
