"""GPUs that DirectX lists: DXGI and the registry on Windows, DXCore in WSL2.

The registry's HardwareInformation.qwMemorySize is 64 bits wide; Win32_VideoController.AdapterRAM is
32 and saturates at 4 GiB, so it is never used. Registry keys outlive the card they describe and
have an order of their own: they are matched with DXGI's adapters by PCI numbers, not by position.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

from anyrig.devices.machine import (
    Device,
    DeviceNote,
    Memory,
    MemoryPool,
    SourceReport,
    SourceState,
)
from anyrig.devices.probe import HostProbe, NotFound, Unavailable
from anyrig.devices.vendor import AdapterFacts
from anyrig.devices.vendors import find_vendor
from anyrig.units import MIB, format_bytes, pluralize

_DISPLAY_CLASS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
_MICROSOFT = 0x1414
_SOFTWARE_FLAG = 2  # DXGI_ADAPTER_FLAG_SOFTWARE
# An adapter with less memory of its own than this is on the processor and borrows the rest.
_INTEGRATED_BYTES = 1024 * MIB


class Adapter(NamedTuple):
    """One adapter, as DXGI, DXCore or the registry describes it."""

    name: str
    vendor: int
    device: int
    dedicated_bytes: int
    driver_version: str
    shared_bytes: int = 0
    free_bytes: int | None = None
    dxgi_index: int | None = None
    """Its place in DXGI's order, which is DirectML's."""
    integrated: bool | None = None
    installed_bytes: int = 0
    """The registry's qwMemorySize, beside what DXGI lets programs have of it."""
    source: str = "dxgi"

    @property
    def is_software(self) -> bool:
        return self.vendor == _MICROSOFT

    @property
    def pci_id(self) -> str:
        """`1002:744c`."""
        return f"{self.vendor:04x}:{self.device:04x}"


def find_devices(
    system: HostProbe, others: list[Device], memory: Memory
) -> tuple[list[Device], SourceReport]:
    """Every adapter that no other source has described: `others` are those of NVML."""
    registry = _read_registry(system)
    try:
        listed = [_from_dxgi(row, n) for n, row in enumerate(system.list_adapters("dxgi"))]
        source = "DXGI"
    except Unavailable as error:
        listed, source = registry, f"the registry only ({error})"
    listed = [_add_registry(adapter, registry) for adapter in listed]
    present = {adapter.pci_id for adapter in listed if not adapter.is_software}
    removed = [entry for entry in registry if entry.pci_id not in present]
    return _describe_new(listed, others, memory), _report("windows", source, listed, removed)


def find_devices_in_wsl(
    system: HostProbe, others: list[Device], memory: Memory
) -> tuple[list[Device], SourceReport]:
    """The same through DXCore: the Windows host's adapters as a WSL2 guest sees them."""
    try:
        listed = [_from_dxcore(row, n) for n, row in enumerate(system.list_adapters("dxcore"))]
    except Unavailable as error:
        state: SourceState = "nothing" if isinstance(error, NotFound) else "failed"
        return [], SourceReport("wsl", state, str(error))
    return _describe_new(listed, others, memory), _report("wsl", "DXCore", listed, [])


def add_dxgi_indices(system: HostProbe, devices: list[Device]) -> list[Device]:
    """The devices with their place in DXGI's order, which DirectML uses."""
    try:
        rows = system.list_adapters("dxgi")
    except Unavailable:
        return devices
    places: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        places.setdefault(_from_dxgi(row, number).pci_id, []).append(number)
    found = []
    for device in devices:
        numbers = places.get(device.pci_id or "", [])
        if numbers and "dxgi" not in device.indices and device.part != "mig":
            device = replace(device, indices={**device.indices, "dxgi": numbers.pop(0)})
        found.append(device)
    return found


def _report(name: str, source: str, listed: list[Adapter], removed: list[Adapter]) -> SourceReport:
    num_software = sum(adapter.is_software for adapter in listed)
    num_adapters = len(listed) - num_software
    text = f"{pluralize(num_adapters, 'adapter')} in {source}"
    for entry in removed:
        size = format_bytes(entry.dedicated_bytes) if entry.dedicated_bytes else "memory unknown"
        text += f", {entry.name} ({size}, driver {entry.driver_version}) only in the registry"
    if num_software:
        text += f", {pluralize(num_software, 'software adapter')} ignored"
    return SourceReport(name, "found" if num_adapters else "nothing", text)


def _describe_new(adapters: list[Adapter], others: list[Device], memory: Memory) -> list[Device]:
    """Adapters that other sources have not described; each of theirs accounts for one adapter."""
    known_ids = [device.pci_id for device in others if device.part != "mig"]
    known_names = [device.name for device in others]
    devices: list[Device] = []
    for adapter in adapters:
        if adapter.is_software:
            continue
        if adapter.pci_id in known_ids:
            known_ids.remove(adapter.pci_id)
        elif adapter.name in known_names and not any(known_ids):
            known_names.remove(adapter.name)
        else:
            twins = sum(device.pci_id == adapter.pci_id for device in devices)
            devices.append(_describe(adapter, twins, memory))
    return devices


def _describe(adapter: Adapter, num_twins: int, system_memory: Memory) -> Device:
    """LUIDs change at every boot, so the id is made of PCI numbers."""
    vendor = find_vendor(adapter.vendor)
    facts = vendor.describe_adapter(adapter.device) if vendor else AdapterFacts()
    notes = [facts.note] if facts.note else []
    if adapter.source == "registry":
        text = "only the registry lists it: it may have been removed"
        notes.append(DeviceNote("registry_only", text))
    return Device(
        id=f"pci-{adapter.pci_id}" + (f"#{num_twins}" if num_twins else ""),
        kind="gpu",
        vendor=vendor.name if vendor else "unknown",
        name=adapter.name,
        architecture=facts.architecture,
        capability=facts.capability,
        memory=_describe_memory(adapter, _is_integrated(adapter, facts), system_memory),
        driver="WDDM of Windows" if adapter.source == "dxcore" else "WDDM",
        driver_version=adapter.driver_version or None,
        pci_id=adapter.pci_id,
        features=facts.features,
        indices={} if adapter.dxgi_index is None else {"dxgi": adapter.dxgi_index},
        notes=tuple(notes),
    )


def _is_integrated(adapter: Adapter, facts: AdapterFacts) -> bool:
    """By the hardware tables, else by what the adapter says, else by its own memory."""
    for known in (facts.integrated, adapter.integrated):
        if known is not None:
            return known
    return adapter.dedicated_bytes < _INTEGRATED_BYTES


def _describe_memory(adapter: Adapter, integrated: bool, system_memory: Memory) -> Memory:
    dedicated, shared, free = adapter.dedicated_bytes, adapter.shared_bytes, adapter.free_bytes
    if not integrated:
        installed = adapter.installed_bytes
        return Memory(
            "dedicated" if dedicated else "unknown",
            dedicated or None,
            None if free is None else min(free, dedicated),
            (MemoryPool("installed", installed),) if installed else (),
        )
    if not shared:
        return Memory("unified", note="its share of system memory is unknown")
    if system_memory.free_bytes is not None:
        left = min(shared, system_memory.free_bytes)
        free = left if free is None else min(free, dedicated + left)
    pools = (MemoryPool("dedicated", dedicated), MemoryPool("shared", shared))
    note = f"{format_bytes(dedicated)} of its own and {format_bytes(shared)} shared with the system"
    return Memory("unified", dedicated + shared, free, pools, note)


def _from_dxgi(row: dict[str, Any], index: int) -> Adapter:
    software = bool(int(row.get("Flags", 0)) & _SOFTWARE_FLAG)
    budget, used = row.get("Budget"), row.get("CurrentUsage")
    free = None if budget is None or used is None else max(0, int(budget) - int(used))
    return Adapter(
        name=str(row.get("Description", "unknown adapter")).strip(),
        vendor=_MICROSOFT if software else int(row.get("VendorId", 0)),
        device=int(row.get("DeviceId", 0)),
        dedicated_bytes=int(row.get("DedicatedVideoMemory", 0)),
        driver_version=str(row.get("DriverVersion", "")),
        shared_bytes=int(row.get("SharedSystemMemory", 0)),
        free_bytes=free,
        dxgi_index=index,
    )


def _from_dxcore(row: dict[str, Any], index: int) -> Adapter:
    numbers = row.get("HardwareID") or {}
    integrated = row.get("IsIntegrated")
    return Adapter(
        name=str(row.get("DriverDescription", "unknown adapter")).strip(),
        vendor=int(numbers.get("vendorID", 0)) if row.get("IsHardware", True) else _MICROSOFT,
        device=int(numbers.get("deviceID", 0)),
        dedicated_bytes=int(row.get("DedicatedAdapterMemory", 0)),
        driver_version=str(row.get("DriverVersion") or ""),
        shared_bytes=int(row.get("SharedSystemMemory", 0)),
        dxgi_index=index,
        integrated=None if integrated is None else bool(integrated),
        source="dxcore",
    )


def _read_registry(system: HostProbe) -> list[Adapter]:
    found = []
    for key in system.subkeys(_DISPLAY_CLASS):
        if not re.fullmatch(r"\d{4}", key):
            continue
        try:
            values = system.registry(f"{_DISPLAY_CLASS}\\{key}")
        except Unavailable:
            continue
        hardware_id = str(values.get("MatchingDeviceId", "")).upper()
        numbers = re.search(r"VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})", hardware_id)
        if not numbers:
            continue
        size = values.get("HardwareInformation.qwMemorySize", 0)
        found.append(
            Adapter(
                name=str(values.get("DriverDesc", "unknown adapter")),
                vendor=int(numbers[1], 16),
                device=int(numbers[2], 16),
                dedicated_bytes=int(size) if isinstance(size, int) else 0,
                driver_version=str(values.get("DriverVersion", "")),
                source="registry",
            )
        )
    return found


def _add_registry(adapter: Adapter, registry: list[Adapter]) -> Adapter:
    """The registry's driver version, and its memory size if DXGI has none."""
    same = [entry for entry in registry if entry.pci_id == adapter.pci_id]
    if not same:
        return adapter
    entry = next((e for e in same if e.driver_version == adapter.driver_version), same[0])
    return adapter._replace(
        driver_version=adapter.driver_version or entry.driver_version,
        dedicated_bytes=adapter.dedicated_bytes or entry.dedicated_bytes,
        installed_bytes=entry.dedicated_bytes,
    )
