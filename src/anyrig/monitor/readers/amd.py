"""AMD devices on Linux through the amdgpu driver's sysfs, kfd's list of processes and fdinfo.

`pcie_bw` is never read: the driver counts for a whole second before it answers.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from anyrig.devices.describe import Device
from anyrig.devices.sources.system import System
from anyrig.monitor.asking import Asker, Lost, Pool, Unsupported
from anyrig.monitor.processes import Crowd
from anyrig.monitor.readers.drm import DrmClients, DrmUse, Use
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
from anyrig.units import is_whole_number

_KFD = "/sys/class/kfd/kfd"
# gpu_metrics tables whose last throttling word means the same on every chip: (format, content)
# -> where it lies (the kernel's kgd_pp_interface.h).
_THROTTLE_AT = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
# Bits of that word (amdgpu_smu.h): power, current, temperature.
_THROTTLE_BITS = ((range(0, 8), POWER), (range(16, 24), CURRENT), (range(32, 48), HOT))


class AmdReader:
    """Samples of AMD devices."""

    def __init__(self, devices: Sequence[Device], system: System, root: str = "/") -> None:
        self.devices = tuple(devices)
        self._system = system
        self._pool = Pool()
        self._asker = Asker(self._pool)
        self._cards = [_Card(device, system, root, self._pool) for device in devices]
        self._clients, self._use = DrmClients(root), DrmUse()
        self._kfd_ids: dict[str, str] | None = None

    def read(self, moment: Moment, crowd: Crowd) -> list[Sample]:
        """One sample of each device."""
        uses = self._uses(moment, crowd)
        return [card.read(moment, crowd, uses.get(card.address, {})) for card in self._cards]

    def close(self) -> None:
        """Nothing stays open."""

    def _uses(self, moment: Moment, crowd: Crowd) -> dict[str, dict[int, Use]]:
        clients = self._asker.ask("processes", lambda: self._clients.look(crowd.ours)) or []
        uses = self._use.update(clients, moment.monotonic_s, ("vram",))
        if not crowd.all_visible:
            return uses  # kfd lists processes by the host's numbers: they would count twice
        for address, rows in (self._asker.seldom("kfd", self._compute_processes) or {}).items():
            known = uses.setdefault(address, {})
            for pid, size in rows.items():
                before = known.get(pid, Use(0, None))
                # Newer kernels count a ROCm process in fdinfo as well.
                known[pid] = before._replace(memory_bytes=max(size, before.memory_bytes))
        return uses

    def _compute_processes(self) -> dict[str, dict[int, int]]:
        """ROCm's processes as kfd lists them: by GPU and process, bytes."""
        if self._kfd_ids is None:
            self._kfd_ids = _kfd_ids(self._system)
        found: dict[str, dict[int, int]] = {}
        for name in self._system.names(f"{_KFD}/proc"):
            if not is_whole_number(name):
                continue
            for gpu_id, address in self._kfd_ids.items():
                size = self._system.number(f"{_KFD}/proc/{name}/vram_{gpu_id}")
                if size:
                    found.setdefault(address, {})[int(name)] = size
        return found


def _kfd_ids(system: System) -> dict[str, str]:
    """kfd's own number of each GPU -> PCI address."""
    found = {}
    for name in system.names(f"{_KFD}/topology/nodes"):
        folder = f"{_KFD}/topology/nodes/{name}"
        gpu_id = system.peek(f"{folder}/gpu_id")
        rows = (line.split() for line in system.peek(f"{folder}/properties").splitlines())
        facts = {row[0]: int(row[1]) for row in rows if len(row) == 2 and is_whole_number(row[1])}
        if gpu_id.strip("0") and "location_id" in facts:
            place, domain = facts["location_id"], facts.get("domain", 0)
            found[gpu_id] = (
                f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"
            )
    return found


class _Card:
    """One card."""

    def __init__(self, device: Device, system: System, root: str, pool: Pool) -> None:
        self._device, self._asker = device, Asker(pool)
        self.address = device.pci_address or ""
        self._card = Card(system, self.address)
        self._metrics = f"{root.rstrip('/')}{self._card.folder}/gpu_metrics"
        self._temperatures: dict[str, str] | None = None
        self._clocks: dict[str, str] | None = None

    def read(self, moment: Moment, crowd: Crowd, uses: dict[int, Use]) -> Sample:
        try:
            self._card.present()
            return self._sample(moment, crowd, uses)
        except Lost as error:
            return Sample(self._device.id, self._device.name, *moment, lost=str(error))

    def _sample(self, moment: Moment, crowd: Crowd, uses: dict[int, Use]) -> Sample:
        ask, seldom, card = self._asker.ask, self._asker.seldom, self._card
        total, used = ask("memory", self._memory) or (None, None)
        processes = tuple(
            ProcessUse(pid, crowd.name(pid), use.memory_bytes, use.compute_percent,
                       crowd.is_ours(pid))
            for pid, use in sorted(uses.items())
        )  # fmt: skip
        shares = part_memory(used, processes, all_visible=crowd.all_visible)
        self._asker.note("memory_ours", shares.why_unknown)
        power = ask("power", lambda: card.sensor("power1_average", "power1_input"))
        limit = seldom("power_limit", lambda: card.sensor("power1_cap"))
        generation, width = seldom("pcie", lambda: card.link("current")) or (None, None)
        best, lanes = seldom("pcie_max", lambda: card.link("max")) or (None, None)
        fan = seldom("fan", lambda: 100.0 * card.sensor("pwm1") / 255)
        return Sample(
            self._device.id,
            self._device.name,
            *moment,
            compute_percent=ask("utilisation", lambda: float(card.number("gpu_busy_percent"))),
            memory_busy_percent=ask("memory_busy", lambda: float(card.number("mem_busy_percent"))),
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_free_bytes=None if total is None or used is None else max(0, total - used),
            memory_ours_bytes=shares.ours,
            memory_others_bytes=shares.others,
            power_w=None if power is None else power / 1e6,
            power_limit_w=None if limit is None else limit / 1e6,
            temperature_c=ask("temperature", lambda: self._temperature("edge", "temp1_input")),
            hotspot_c=ask("hotspot", lambda: self._temperature("junction")),
            memory_temperature_c=ask("memory_temperature", lambda: self._temperature("mem")),
            fan_percent=fan,
            fan_rpm=seldom("fan_rpm", lambda: card.sensor("fan1_input")),
            clock_mhz=ask("clock", lambda: self._clock("sclk")),
            clock_max_mhz=seldom("clock_max", lambda: self._highest("pp_dpm_sclk")),
            memory_clock_mhz=ask("memory_clock", lambda: self._clock("mclk")),
            memory_clock_max_mhz=seldom("memory_clock_max", lambda: self._highest("pp_dpm_mclk")),
            throttling=seldom("throttling", self._throttling),
            ecc_errors=seldom("ecc", self._uncorrected),
            pcie_generation=generation,
            pcie_width=width,
            pcie_generation_max=best,
            pcie_width_max=lanes,
            processes=processes,
            unknown=self._asker.silences,
        )

    def _memory(self) -> tuple[int, int]:
        """All and used; an APU's carve-out and what it maps of the system's memory together."""
        if self._device.part == "partition":
            raise Unsupported("the driver tells the whole card's memory, not a partition's")
        total, used = (
            self._card.number("mem_info_vram_total"),
            self._card.number("mem_info_vram_used"),
        )
        if self._device.memory.kind == "unified":
            total += self._card.number("mem_info_gtt_total")
            used += self._card.number("mem_info_gtt_used")
        return total, used

    def _temperature(self, label: str, otherwise: str = "") -> float:
        if self._temperatures is None:
            self._temperatures = self._card.labelled("temp")
        name = self._temperatures.get(label, otherwise)
        if not name:
            raise Unsupported(f"no sensor called {label}")
        return self._card.sensor(name) / 1000

    def _clock(self, label: str) -> int:
        if self._clocks is None:
            self._clocks = self._card.labelled("freq")
        if label not in self._clocks:
            raise Unsupported(f"no clock called {label}")
        return round(self._card.sensor(self._clocks[label]) / 1e6)

    def _highest(self, name: str) -> int:
        """The highest of a table of clocks: `2: 2371Mhz *`."""
        text = self._card.system.peek(f"{self._card.folder}/{name}")
        clocks = [int(found) for found in re.findall(r"(\d+)\s*Mhz", text, re.IGNORECASE)]
        if not clocks:
            raise Unsupported(f"no clocks in {name}")
        return max(clocks)

    def _uncorrected(self) -> int:
        """Memory errors that could not be corrected (`ue: 0`)."""
        text = self._card.system.peek(f"{self._card.folder}/ras/umc_err_count")
        found = re.search(r"^ue:\s*(\d+)", text, re.MULTILINE)
        if not found:
            raise Unsupported("the driver counts no memory errors")
        return int(found[1])

    def _throttling(self) -> tuple[str, ...]:
        try:
            with open(self._metrics, "rb") as file:
                return throttling(file.read(4096))
        except FileNotFoundError as error:
            raise Unsupported("the driver has no gpu_metrics") from error


def throttling(table: bytes) -> tuple[str, ...]:
    """What a gpu_metrics table says holds the clocks down."""
    if len(table) < 4:
        raise Unsupported("gpu_metrics is empty")
    size, shape, content = struct.unpack_from("<HBB", table)
    start = _THROTTLE_AT.get((shape, content))
    if start is None or len(table) < max(start + 8, size):
        raise Unsupported(f"gpu_metrics {shape}.{content} does not tell it the same on every chip")
    (word,) = struct.unpack_from("<Q", table, start)
    if word == 0xFFFFFFFFFFFFFFFF:  # how the driver writes "not known"
        raise Unsupported("gpu_metrics does not know it")
    found = [name for bits, name in _THROTTLE_BITS if any(word >> bit & 1 for bit in bits)]
    return tuple(found or ([OTHER] if word else []))
