"""Intel devices on Linux under i915 and xe: hwmon, frequencies and throttle files, fdinfo.

The kernel tells a whole device's load to privileged users alone. So load and memory are summed over
the processes that this user may see, and the sample says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from anyrig.devices.machine import Device
from anyrig.devices.probe import System
from anyrig.monitor.asking import Asker, Lost, Pool, Rates, Unsupported
from anyrig.monitor.processes import Crowd
from anyrig.monitor.readers.drm import DrmClients, DrmUse, Use
from anyrig.monitor.readers.host import system_memory
from anyrig.monitor.readers.sysfs import Card
from anyrig.monitor.sample import (
    CURRENT,
    HOT,
    OTHER,
    POWER,
    Moment,
    ProcessUse,
    Sample,
    part_memory,
)  # fmt: skip

# The last word of a throttle file -> why.
_REASONS = {
    "pl1": POWER, "pl2": POWER, "pl4": CURRENT, "thermal": HOT, "prochot": HOT, "ratl": HOT,
    "vr_thermalert": HOT, "vr_tdc": CURRENT, "soc_thermal": HOT, "mem_thermal": HOT,
    "vr_thermal": HOT, "iccmax": CURRENT, "psys_pl1": POWER, "psys_pl2": POWER,
}  # fmt: skip
_SEEN = "summed over the processes that this user may see"


class IntelReader:
    """Samples of Intel devices."""

    def __init__(self, devices: Sequence[Device], system: System, root: str = "/") -> None:
        self.devices = tuple(devices)
        self._pool = Pool()
        self._asker = Asker(self._pool)
        self._cards = [_Card(device, system, self._pool) for device in devices]
        self._clients, self._use = DrmClients(root), DrmUse()

    def read(self, moment: Moment, crowd: Crowd) -> list[Sample]:
        """One sample of each device."""
        clients = self._asker.ask("processes", lambda: self._clients.look(crowd.ours)) or []
        uses = self._use.update(clients, moment.monotonic_s, ("local", "vram", "system"))
        return [card.read(moment, crowd, uses.get(card.address, {})) for card in self._cards]

    def close(self) -> None:
        """Nothing stays open."""


class _Card:
    """One card."""

    def __init__(self, device: Device, system: System, pool: Pool) -> None:
        self._device, self._asker = device, Asker(pool)
        self.address = device.pci_address or ""
        self._card = Card(system, self.address)
        self._energy = Rates(most=5e9)  # in microjoules: 5 kW
        self._clock_folder: tuple[str, str, str] | None = None

    def read(self, moment: Moment, crowd: Crowd, uses: dict[int, Use]) -> Sample:
        try:
            self._card.present()
            return self._sample(moment, crowd, uses)
        except Lost as error:
            return Sample(self._device.id, self._device.name, *moment, lost=str(error))

    def _sample(self, moment: Moment, crowd: Crowd, uses: dict[int, Use]) -> Sample:
        ask, seldom, card = self._asker.ask, self._asker.seldom, self._card
        processes = tuple(
            ProcessUse(pid, crowd.name(pid), use.memory_bytes, use.compute_percent,
                       crowd.is_ours(pid))
            for pid, use in sorted(uses.items())
        )  # fmt: skip
        total, used = ask("memory", lambda: self._memory(processes)) or (None, None)
        shares = part_memory(used, processes, all_visible=True)
        self._asker.note("memory_ours", shares.why_unknown)
        self._asker.note("utilisation", _SEEN)
        limit = seldom("power_limit", lambda: card.sensor("power1_max", "power1_rated_max"))
        generation, width = seldom("pcie", lambda: card.link("current")) or (None, None)
        best, lanes = seldom("pcie_max", lambda: card.link("max")) or (None, None)
        temperature = ask("temperature", lambda: self._temperature("pkg", "temp1_input"))
        return Sample(
            self._device.id,
            self._device.name,
            *moment,
            compute_percent=_together(processes),
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_free_bytes=None if total is None or used is None else max(0, total - used),
            memory_ours_bytes=shares.ours,
            memory_others_bytes=shares.others,
            power_w=ask("power", lambda: self._power(moment)),
            power_limit_w=None if limit is None else limit / 1e6,
            temperature_c=temperature,
            memory_temperature_c=ask("memory_temperature", lambda: self._temperature("vram")),
            fan_rpm=seldom("fan_rpm", lambda: card.sensor("fan1_input")),
            clock_mhz=ask("clock", lambda: self._clock(0)),
            clock_max_mhz=seldom("clock_max", lambda: self._clock(1)),
            throttling=seldom("throttling", self._throttling),
            pcie_generation=generation,
            pcie_width=width,
            pcie_generation_max=best,
            pcie_width_max=lanes,
            processes=processes,
            unknown=self._asker.silences,
        )

    def _memory(self, processes: Sequence[ProcessUse]) -> tuple[int | None, int]:
        if self._device.memory.kind == "unified":
            total, available = system_memory()
            return total, total - available
        self._asker.note("memory_used", _SEEN)
        return self._device.memory.total_bytes, sum(p.memory_bytes or 0 for p in processes)

    def _power(self, moment: Moment) -> float | None:
        """Watts, from the energy counted in microjoules."""
        rates = self._energy.update(moment.monotonic_s, (self._card.sensor("energy1_input"),))
        return rates[0] / 1e6 if rates else None

    def _temperature(self, label: str, otherwise: str = "") -> float:
        name = self._card.labelled("temp").get(label, otherwise)
        if not name:
            raise Unsupported(f"no sensor called {label}")
        return self._card.sensor(name) / 1000

    def _clock(self, which: int) -> int:
        """The highest of the tiles' clocks now (0) or at most (1)."""
        places = self._clocks()
        found = [self._card.system.number(place[which]) for place in places]
        known = [clock for clock in found if clock is not None]
        if not known:
            raise Unsupported("the driver shows no clock")
        return max(known)

    def _clocks(self) -> list[tuple[str, str]]:
        """Files of the clock now and at most, of every part: xe's way, then i915's two."""
        system, folder = self._card.system, self._card.folder
        found = []
        for tile in (name for name in system.names(folder) if re.fullmatch(r"tile\d+", name)):
            for part in system.names(f"{folder}/{tile}"):
                if re.fullmatch(r"gt\d+", part):
                    place = f"{folder}/{tile}/{part}/freq0"
                    found.append((f"{place}/act_freq", f"{place}/rp0_freq"))
        for drm in system.names(f"{folder}/drm"):
            place = f"{folder}/drm/{drm}"
            for part in system.names(f"{place}/gt"):
                found.append(
                    (f"{place}/gt/{part}/rps_act_freq_mhz", f"{place}/gt/{part}/rps_RP0_freq_mhz")
                )
            if not found and drm.startswith("card"):
                found.append((f"{place}/gt_act_freq_mhz", f"{place}/gt_RP0_freq_mhz"))
        return found

    def _throttling(self) -> tuple[str, ...]:
        """Which of the throttle files of any part says 1."""
        system = self._card.system
        words: list[str] = []
        seen = False
        for now, _ in self._clocks():
            place = now.rpartition("/")[0]
            folder = f"{place}/throttle" if "/freq0/" in now else place
            for name in system.names(folder):
                reason = re.fullmatch(r"(?:throttle_)?reason_(\w+)", name)
                if reason and reason[1] != "status":
                    seen = True
                    if system.number(f"{folder}/{name}") == 1:
                        words.append(_REASONS.get(reason[1], OTHER))
        if not seen:
            raise Unsupported("the driver tells no reasons")
        return tuple(dict.fromkeys(words))


def _together(processes: Sequence[ProcessUse]) -> float | None:
    shares = [p.compute_percent for p in processes if p.compute_percent is not None]
    return min(100.0, sum(shares)) if shares else None
