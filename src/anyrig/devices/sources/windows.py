"""GPUs that DirectX shows: DXGI and the registry on Windows, DXCore in WSL2.

The registry's HardwareInformation.qwMemorySize is 64 bits wide; Win32_VideoController.AdapterRAM is
32 and saturates at 4 GiB, so it is never asked. Registry keys outlive the card they describe and
stand in an order of their own: they are paired with DXGI's adapters by PCI numbers, not by place.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

from anyrig.devices.describe import Device, Features, Memory, Pool, SourceReport
from anyrig.devices.parts import amd, intel
from anyrig.devices.sources.system import NotThere, Silent, System
from anyrig.units import MIB, format_bytes, pluralize

_DISPLAY_CLASS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
_VENDORS = {
    0x10DE: "nvidia",
    0x1002: "amd",
    0x1022: "amd",
    0x8086: "intel",
    0x5143: "qualcomm",
    0x4D4F4351: "qualcomm",
}
_MICROSOFT = 0x1414
_SOFTWARE_FLAG = 2  # DXGI_ADAPTER_FLAG_SOFTWARE
# An adapter with less memory of its own than this lives on the processor and borrows the rest.
_INTEGRATED_BYTES = 1024 * MIB


class Adapter(NamedTuple):
    """One adapter, whichever interface told of it."""

    name: str
    vendor: int
    device: int
    dedicated: int
    shared: int
    budget: int | None
    used: int | None
    place: int | None
    """Its place in DXGI's order, which DirectML counts by."""
    integrated: bool | None
    driver_version: str = ""
    installed: int = 0
    """The registry's qwMemorySize, beside what DXGI lets programs have of it."""
    via: str = "dxgi"

    @property
    def pci_id(self) -> str:
        """`1002:744c`."""
        return f"{self.vendor:04x}:{self.device:04x}"


def find(
    system: System, others: list[Device], system_memory: Memory
) -> tuple[list[Device], SourceReport]:
    """Every adapter that no vendor's own source has already described.

    Args:
        system: the machine to ask.
        others: what other sources found, so that a card seen by NVML is not listed twice.
        system_memory: what an integrated part shares.
    """
    registry = _registry_adapters(system)
    try:
        listed = [_from_dxgi(row, n) for n, row in enumerate(system.adapters("dxgi"))]
        told = "DXGI"
    except Silent as silence:
        listed, told = registry, f"the registry alone ({silence})"
    adapters, ignored = _real(listed)
    adapters = [_with_registry(adapter, registry) for adapter in adapters]
    devices = _unclaimed(adapters, others, system_memory)
    present = {adapter.pci_id for adapter in adapters}
    absent = [entry for entry in registry if entry.pci_id not in present]
    return devices, _report("windows", told, adapters, ignored, absent)


def find_in_wsl(
    system: System, others: list[Device], system_memory: Memory
) -> tuple[list[Device], SourceReport]:
    """The same through DXCore: the Windows side's adapters as a WSL2 guest sees them."""
    try:
        listed = [_from_dxcore(row, n) for n, row in enumerate(system.adapters("dxcore"))]
    except NotThere as silence:
        return [], SourceReport("wsl", "nothing", str(silence))
    except Silent as silence:
        return [], SourceReport("wsl", "failed", str(silence))
    adapters, ignored = _real(listed)
    devices = _unclaimed(adapters, others, system_memory)
    return devices, _report("wsl", "DXCore", adapters, ignored)


def _report(
    name: str, told: str, adapters: list[Adapter], ignored: int, absent: list[Adapter] | None = None
) -> SourceReport:
    text = f"{pluralize(len(adapters), 'adapter')} in {told}"
    for entry in absent or []:
        size = format_bytes(entry.dedicated) if entry.dedicated else "memory unknown"
        text += f", {entry.name} ({size}, driver {entry.driver_version}) only remembered"
    if ignored:
        text += f", {pluralize(ignored, 'software adapter')} ignored"
    return SourceReport(name, "found" if adapters else "nothing", text)


def _real(listed: list[Adapter]) -> tuple[list[Adapter], int]:
    real = [adapter for adapter in listed if adapter.vendor != _MICROSOFT]
    return real, len(listed) - len(real)


def _unclaimed(
    adapters: list[Adapter], others: list[Device], system_memory: Memory
) -> list[Device]:
    """Adapters left after each one that another source described has been taken out once."""
    claims = [device.pci_id for device in others if device.part != "mig"]
    names = [device.name for device in others]
    devices: list[Device] = []
    for adapter in adapters:
        if adapter.pci_id in claims:
            claims.remove(adapter.pci_id)
        elif adapter.name in names and not any(claims):
            names.remove(adapter.name)
        else:
            twins = sum(device.pci_id == adapter.pci_id for device in devices)
            devices.append(_describe(adapter, twins, system_memory))
    return devices


def with_dxgi_numbers(system: System, devices: list[Device]) -> list[Device]:
    """The devices with their numbers in DXGI, which DirectML counts by."""
    try:
        rows = system.adapters("dxgi")
    except Silent:
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


def _describe(adapter: Adapter, twin: int, system_memory: Memory) -> Device:
    """An adapter as a device. LUIDs change at every start, so the id is made of PCI numbers."""
    vendor = _VENDORS.get(adapter.vendor, "unknown")
    architecture, target, features = _part(vendor, adapter.device)
    return Device(
        id=f"pci-{adapter.pci_id}" + (f"#{twin}" if twin else ""),
        kind="gpu",
        vendor=vendor,
        name=adapter.name,
        architecture=architecture,
        capability=target,
        memory=_memory(adapter, vendor, target, system_memory),
        driver="WDDM" if adapter.via != "dxcore" else "WDDM of Windows",
        driver_version=adapter.driver_version or None,
        pci_id=adapter.pci_id,
        features=features,
        indices={} if adapter.place is None else {"dxgi": adapter.place},
        notes=_notes(adapter, vendor),
    )


def _notes(adapter: Adapter, vendor: str) -> tuple[str, ...]:
    notes = []
    if vendor == "nvidia":
        notes.append("NVML does not answer for it")
    if adapter.via == "registry":
        notes.append("the registry remembers it; it may have been taken out")
    return tuple(notes)


def _part(vendor: str, device: int) -> tuple[str | None, str | None, Features]:
    if vendor == "amd":
        target = amd.target_of_pci(device)
        architecture, features = amd.describe(target)
        return architecture, target, features
    if vendor == "intel":
        part = intel.describe(device)
        return part.architecture, None, part.features
    return None, None, Features()


def _memory(adapter: Adapter, vendor: str, target: str | None, system_memory: Memory) -> Memory:
    integrated = adapter.integrated
    if vendor == "amd" and target:
        integrated = amd.is_apu(target)
    elif vendor == "intel" and intel.describe(adapter.device).integrated is not None:
        integrated = intel.describe(adapter.device).integrated
    elif integrated is None:
        integrated = adapter.dedicated < _INTEGRATED_BYTES
    free = None
    if adapter.budget is not None and adapter.used is not None:
        free = max(0, adapter.budget - adapter.used)
    if not integrated:
        return Memory(
            "dedicated" if adapter.dedicated else "unknown",
            adapter.dedicated or None,
            None if free is None else min(free, adapter.dedicated),
            (Pool("installed", adapter.installed),) if adapter.installed else (),
        )
    if not adapter.shared:
        return Memory("unified", None, None, note="the share of system memory is not told")
    total = adapter.dedicated + adapter.shared
    note = (
        f"{format_bytes(adapter.dedicated)} of its own and "
        f"{format_bytes(adapter.shared)} shared with the system"
    )
    pools = (Pool("dedicated", adapter.dedicated), Pool("shared", adapter.shared))
    if system_memory.free_bytes is not None:
        left = min(adapter.shared, system_memory.free_bytes)
        free = left if free is None else min(free, adapter.dedicated + left)
    return Memory("unified", total, free, pools, note)


def _from_dxgi(row: dict[str, Any], number: int) -> Adapter:
    software = bool(int(row.get("Flags", 0)) & _SOFTWARE_FLAG)
    return Adapter(
        name=str(row.get("Description", "adapter of unknown name")).strip(),
        vendor=_MICROSOFT if software else int(row.get("VendorId", 0)),
        device=int(row.get("DeviceId", 0)),
        dedicated=int(row.get("DedicatedVideoMemory", 0)),
        shared=int(row.get("SharedSystemMemory", 0)),
        budget=_number(row, "Budget"),
        used=_number(row, "CurrentUsage"),
        place=number,
        integrated=None,
        driver_version=str(row.get("DriverVersion", "")),
    )


def _from_dxcore(row: dict[str, Any], number: int) -> Adapter:
    hardware = row.get("HardwareID") or {}
    real = bool(row.get("IsHardware", True))
    integrated = row.get("IsIntegrated")
    return Adapter(
        name=str(row.get("DriverDescription", "adapter of unknown name")).strip(),
        vendor=int(hardware.get("vendorID", 0)) if real else _MICROSOFT,
        device=int(hardware.get("deviceID", 0)),
        dedicated=int(row.get("DedicatedAdapterMemory", 0)),
        shared=int(row.get("SharedSystemMemory", 0)),
        budget=None,
        used=None,
        place=number,
        integrated=None if integrated is None else bool(integrated),
        driver_version=_version(row.get("DriverVersion", "")),
        via="dxcore",
    )


def _version(value: object) -> str:
    """DXCore packs four numbers of 16 bits into one."""
    if isinstance(value, int) and value > 0xFFFF:
        return ".".join(str(value >> shift & 0xFFFF) for shift in (48, 32, 16, 0))
    return str(value or "")


def _number(row: dict[str, Any], key: str) -> int | None:
    value = row.get(key)
    return int(value) if value is not None else None


def _registry_adapters(system: System) -> list[Adapter]:
    found = []
    for key in system.subkeys(_DISPLAY_CLASS):
        if not re.fullmatch(r"\d{4}", key):
            continue
        try:
            values = system.registry(f"{_DISPLAY_CLASS}\\{key}")
        except Silent:
            continue
        numbers = re.search(
            r"VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})", str(values.get("MatchingDeviceId", "")).upper()
        )
        if numbers:
            found.append(_from_registry(values, int(numbers[1], 16), int(numbers[2], 16)))
    return found


def _from_registry(values: dict[str, Any], vendor: int, device: int) -> Adapter:
    size = values.get("HardwareInformation.qwMemorySize", 0)
    return Adapter(
        name=str(values.get("DriverDesc", "adapter of unknown name")),
        vendor=vendor,
        device=device,
        dedicated=int(size) if isinstance(size, int) else 0,
        shared=0,
        budget=None,
        used=None,
        place=None,
        integrated=None,
        driver_version=str(values.get("DriverVersion", "")),
        via="registry",
    )


def _with_registry(adapter: Adapter, registry: list[Adapter]) -> Adapter:
    """The adapter with the registry's driver version, and its memory where DXGI's is not whole."""
    same = [entry for entry in registry if entry.pci_id == adapter.pci_id]
    if not same:
        return adapter
    entry = next((e for e in same if e.driver_version == adapter.driver_version), same[0])
    return adapter._replace(
        driver_version=adapter.driver_version or entry.driver_version,
        dedicated=adapter.dedicated or entry.dedicated,
        installed=entry.dedicated,
    )
