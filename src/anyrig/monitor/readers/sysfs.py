"""What all Linux drivers show of a card in the same way: its folder, sensors and PCIe link."""

from __future__ import annotations

from anyrig.devices.probe import System
from anyrig.monitor.asking import Lost, Unsupported

# GT/s of each PCIe generation.
_SPEEDS = {"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5, "32": 5,
           "64.0": 6, "64": 6}  # fmt: skip


class Card:
    """One card's folder in sysfs."""

    def __init__(self, system: System, address: str) -> None:
        self.system = system
        self.address = address
        self.folder = f"/sys/bus/pci/devices/{address}"
        self._hwmon: str | None = None

    def present(self) -> None:
        """Raise `Lost` when the bus no longer shows the card."""
        if not self.system.peek(f"{self.folder}/vendor"):
            raise Lost(f"{self.folder} is gone: the card fell off the bus")

    def number(self, name: str) -> int:
        """A file that holds one number."""
        found = self.system.number(f"{self.folder}/{name}")
        if found is None:
            raise Unsupported(f"no number in {self.folder}/{name}")
        return found

    @property
    def hwmon(self) -> str:
        """The folder of its sensors; nothing where the driver shows none."""
        if self._hwmon is None:
            names = self.system.names(f"{self.folder}/hwmon")
            self._hwmon = f"{self.folder}/hwmon/{names[0]}" if names else ""
        return self._hwmon

    def sensor(self, *names: str) -> int:
        """The first of several sensors that the driver has."""
        for name in names if self.hwmon else ():
            found = self.system.number(f"{self.hwmon}/{name}")
            if found is not None:
                return found
        raise Unsupported(f"no sensor {' or '.join(names)}")

    def labelled(self, kind: str) -> dict[str, str]:
        """Sensors of a kind by their labels: `{"edge": "temp1_input"}`."""
        found = {}
        for name in self.system.names(self.hwmon) if self.hwmon else ():
            if name.startswith(kind) and name.endswith("_label"):
                label = self.system.peek(f"{self.hwmon}/{name}").lower()
                found[label] = name.removesuffix("_label") + "_input"
        return found

    def link(self, when: str) -> tuple[int | None, int]:
        """PCIe generation and lanes, `current` or `max`."""
        speed = self.system.peek(f"{self.folder}/{when}_link_speed").partition(" ")[0]
        return _SPEEDS.get(speed), self.number(f"{when}_link_width")
