"""Who is at fault when a worker dies: the items it computed, or its device? A pure ledger.

An item that kills three workers is set aside. A device whose workers die twice is set aside. Both
can be true of one death, so the third try of a suspect is made on another device where there is
one: if it kills there as well, the item is guilty and the device's deaths are forgiven. So are the
deaths of a device that has done much good work since: a server's pool lives for weeks, and two of
them a week apart say nothing of the device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

DEADLY = 3
"""Deaths after which an item is set aside."""
STRIKES = 2
"""Deaths after which a device is."""
FORGIVEN = 200
"""Items computed on a device since its last death: then its deaths are forgotten."""


@dataclass
class Ledger:
    """Deaths by item, and by device with the items that were there."""

    deaths: dict[int, int] = field(default_factory=dict)
    places: dict[int, list[str]] = field(default_factory=dict)
    """The devices that an item's workers died on."""
    strikes: dict[str, list[frozenset[int]]] = field(default_factory=dict)
    streaks: dict[str, int] = field(default_factory=dict)
    """By device: deaths since something was last computed on it, those explained left out."""
    proven: set[str] = field(default_factory=set)
    """Devices that have computed something."""
    good: dict[str, int] = field(default_factory=dict)
    """By device with strikes: items computed on it since the last of them."""

    def died(self, device: str, suspects: Iterable[int]) -> None:
        """A worker on a device died while it computed these items, or while it loaded."""
        there = frozenset(suspects)
        for index in there:
            self.deaths[index] = self.deaths.get(index, 0) + 1
            self.places.setdefault(index, []).append(device)
        self.strikes.setdefault(device, []).append(there)
        self.good[device] = 0
        self.streaks[device] = self.streaks.get(device, 0) + 1

    def guilty(self, index: int) -> bool:
        """Whether an item has killed so many that it must be set aside."""
        return self.deaths.get(index, 0) >= DEADLY

    def suspect(self, index: int) -> bool:
        """Whether an item was there when a worker died."""
        return index in self.deaths

    def out(self, device: str) -> bool:
        """Whether a device has had its chances."""
        return len(self.strikes.get(device, ())) >= STRIKES

    def hopeless(self, device: str) -> bool:
        """Whether nothing was computed on a device between many deaths, whatever it was given."""
        return self.streaks.get(device, 0) >= STRIKES * DEADLY

    def shaky(self, device: str) -> bool:
        """Whether a device died with one thing and another: time to look at those alone."""
        return self.streaks.get(device, 0) >= STRIKES

    def avoid(self, index: int) -> str:
        """The device a suspect should be kept from, once it has died there twice; else empty."""
        places = self.places.get(index, [])
        return places[-1] if len(places) >= STRIKES and len(set(places)) == 1 else ""

    def convict(self, index: int) -> list[str]:
        """An item is set aside: deaths it explains are forgiven; the devices that profit."""
        freed = []
        for device, strikes in self.strikes.items():
            kept = [there for there in strikes if index not in there]
            explained = len(strikes) - len(kept)
            if device in self.proven:  # what never worked is not excused by what it was given
                self.streaks[device] = max(0, self.streaks.get(device, 0) - explained)
            if len(kept) < STRIKES <= len(strikes):
                freed.append(device)
            self.strikes[device] = kept
        return freed

    def absolve(self, index: int, device: str) -> None:
        """A death that was counted was none."""
        if device in self.places.get(index, ()):
            self.places[index].remove(device)
            self.deaths[index] -= 1
        if self.deaths.get(index) == 0:
            del self.deaths[index], self.places[index]

    def acquit(self, index: int, device: str) -> None:
        """An item was computed after all, on a device that therefore works."""
        self.streaks[device] = 0
        self.proven.add(device)
        if device in self.good:
            self.good[device] += 1
            if self.good[device] >= FORGIVEN:
                del self.good[device]
                self.strikes.pop(device, None)  # a roster may have forgiven it before
        self.deaths.pop(index, None)
        self.places.pop(index, None)
