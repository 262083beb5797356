"""Find every device of a machine: ask each source, then add indices and backends.

Never raises and never prints: a source that fails says why in its report.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from anyrig.devices import cpu, pci, visibility, wheels, windows
from anyrig.devices.advice import advise
from anyrig.devices.machine import (
    Cpu,
    Device,
    DeviceAdvice,
    DeviceBackend,
    DeviceNode,
    HostFacts,
    Machine,
    Memory,
    Platform,
    SourceReport,
)
from anyrig.devices.probe import HostProbe, LiveProbe, RecordedProbe, RecordingProbe
from anyrig.devices.vendors import SHARED, SOURCES, VENDORS, select_variables, vendor_of

log = logging.getLogger(__name__)
_DIRECTX_NODE = "/dev/dxg"  # in WSL2


def discover(
    environment: Mapping[str, str] | None = None, *, system: HostProbe | None = None
) -> Machine:
    """Every device of a machine, with the backends that can use it.

    Args:
        environment: the variables that hide and order devices; entry points pass os.environ.
        system: another machine than this one, such as a recorded one.
    """
    if system is None:
        system = HostProbe(environment=environment)
    elif environment is not None:
        system.environment = {**system.environment, **environment}
    reports: list[SourceReport] = []
    guard = partial(_guard, reports)
    info: dict[str, Any] = guard("host", {}, system.host)
    platform = guard("platform", Platform(), cpu.read_platform, system)
    unknown = Cpu("unknown processor", "unknown", "", 1, 1, Memory())
    processor = guard("cpu", unknown, cpu.read_cpu, system)
    reports.append(SourceReport("cpu", "found", processor.name))
    host = guard("packages", HostFacts(platform), _read_host, system, platform)
    gpus = guard("devices", (), _find_gpus, system, host, processor.memory, reports)
    machine = Machine(
        host=host,
        cpu=processor,
        gpus=gpus,
        cpu_device=replace(cpu.describe_device(processor), backends=cpu.list_backends(host)),
        groups=guard("groups", (), lambda: tuple(map(str, info.get("groups") or ()))),
        root=bool(info.get("root", False)),
        disk_free_bytes=guard("disk", None, system.disk_free),
        unmatched=guard("visible", (), visibility.find_unmatched, gpus, system.environment),
    )
    for report in reports:
        log.info("source %s: %s (%s)", report.source, report.state, report.reason)
    for gpu in gpus:
        for backend in gpu.backends:
            log.debug("%s as %s: %s", gpu.name, backend.selector, backend.reason)
    return replace(machine, sources=tuple(reports))


def record(environment: Mapping[str, str]) -> tuple[Machine, dict[str, object]]:
    """This machine, and the raw answers that describe it."""
    recorder = RecordingProbe(LiveProbe(), select_variables(environment))
    machine = discover(environment, system=HostProbe(recorder))
    return machine, recorder.record


def from_record(data: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Machine:
    """A recorded machine, in the environment of the record."""
    recorded = {str(k): str(v) for k, v in data.get("environment", {}).items()}
    return discover(environment, system=HostProbe(RecordedProbe(data), recorded))


def _guard(
    reports: list[SourceReport], name: str, default: Any, ask: Callable[..., Any], *arguments: Any
) -> Any:
    """The answer, or a report of the failure: a broken driver must not look absent."""
    try:
        return ask(*arguments)
    except Exception as error:  # noqa: BLE001 - any source may meet unforeseen hardware
        log.debug("source %s failed", name, exc_info=True)
        reports.append(SourceReport(name, "failed", f"{type(error).__name__}: {error}"))
        return default


# -- the host ------------------------------------------------------------------------------------


def _read_host(system: HostProbe, platform: Platform) -> HostFacts:
    facts = {name: fact for one in SOURCES for name, fact in one.read_facts(system).items() if fact}
    return HostFacts(
        platform=platform,
        installed=wheels.read_installed(system, platform, VENDORS.values(), SOURCES),
        environment=select_variables(system.environment),
        nodes=tuple(_list_nodes(system)),
        facts=facts,
    )


def _list_nodes(system: HostProbe) -> Iterator[DeviceNode]:
    renders = [name for name in system.list_names("/dev/dri") if name.startswith("render")]
    own = [path for vendor in VENDORS.values() for path in vendor.device_nodes]
    for path in (_DIRECTX_NODE, *own, *(f"/dev/dri/{name}" for name in renders)):
        status = system.read_node(path)
        if status is not None:
            yield DeviceNode(path, status.get("access", ""), status.get("group", ""))


# -- GPUs ----------------------------------------------------------------------------------------


def _find_gpus(
    system: HostProbe, host: HostFacts, memory: Memory, reports: list[SourceReport]
) -> tuple[Device, ...]:
    """Every GPU with its indices and backends."""
    guard, platform = partial(_guard, reports), host.platform
    found = _ask_sources(system, platform, memory, reports)
    if platform.system == "Windows":
        found = windows.add_dxgi_indices(system, found)
    distinct = tuple(_make_ids_distinct(found))
    apply = visibility.apply_visibility
    visible = guard("visible", distinct, apply, distinct, system.environment, platform)
    gpus = [
        replace(gpu, backends=guard("backends", (), list_backends, gpu, host))
        for gpu in _number(visible)
    ]
    num_vendors = len({gpu.vendor for gpu in gpus if not gpu.hardware_block})
    return tuple(
        replace(gpu, advice=guard("advice", DeviceAdvice(), advise, gpu, host, num_vendors))
        for gpu in gpus
    )


def _ask_sources(
    system: HostProbe, platform: Platform, memory: Memory, reports: list[SourceReport]
) -> list[Device]:
    """Every GPU that a source of this platform finds, each once."""
    found: list[Device] = []

    def ask(name: str, find: Callable[..., Any], *arguments: Any) -> None:
        failed = ((), SourceReport(name, "failed", ""))
        devices, report = _guard(reports, name, failed, find, system, *arguments)
        found.extend(devices)
        if report.reason:
            reports.append(report)

    pci_devices: tuple[pci.PciDevice, ...] = ()
    if platform.system == "Linux":
        makers = [vendor for vendor in VENDORS.values() if vendor.makes_accelerators]
        accelerators = {number for vendor in makers for number in vendor.pci_vendors}
        pci_devices = _guard(reports, "pci", (), pci.list_pci_devices, system, accelerators)
        if not platform.wsl:  # in WSL the bus shows virtual devices, not cards
            known = {number for vendor in VENDORS.values() for number in vendor.pci_vendors}
            reports += pci.report_display_only(pci_devices, known)
    for vendor in VENDORS.values():
        if platform.system in vendor.found_on:
            ask(vendor.name, vendor.find_devices, pci_devices, memory, platform)
    if platform.wsl == 2:
        ask("wsl", windows.find_devices_in_wsl, list(found), memory)
    elif platform.system == "Windows":
        ask("windows", windows.find_devices, list(found), memory)
    return found


def _make_ids_distinct(gpus: list[Device]) -> Iterator[Device]:
    """Some machines give one id to several dies or cards: their addresses or order differ."""
    seen: set[str] = set()
    renamed: dict[str, str] = {}
    for gpu in gpus:
        number, device_id = 1, gpu.id
        while device_id in seen:
            at = gpu.pci_address if number == 1 else None
            device_id = f"{gpu.id}@{at}" if at else f"{gpu.id}#{number}"
            number += 1
        seen.add(device_id)
        renamed[gpu.id] = device_id  # instances follow the device that they are a part of
        parent = gpu.parent and renamed.get(gpu.parent, gpu.parent)
        yield replace(gpu, id=device_id, parent=parent)


def _number(gpus: tuple[Device, ...]) -> Iterator[Device]:
    """The GPUs with the index that users select them by; a MIG instance has its parent's."""
    number = -1
    seen: dict[str, int] = {}
    for gpu in gpus:
        number += gpu.part != "mig"
        indices = {**gpu.indices, "gpu": number, "webgpu": number}
        twins = sum(other.pci_id == gpu.pci_id and other.part != "mig" for other in gpus)
        if gpu.pci_id and gpu.part != "mig" and twins > 1:
            # Its place among cards of one model, which some libraries do not tell apart.
            indices["same_model"] = seen[gpu.pci_id] = seen.get(gpu.pci_id, -1) + 1
        yield replace(gpu, indices=indices)


# -- backends ------------------------------------------------------------------------------------


def list_backends(device: Device, host: HostFacts) -> tuple[DeviceBackend, ...]:
    """Every backend of a GPU, usable or not, the fastest kind first.

    Nothing is imported or started: this is what package metadata tell. `anyrig doctor` checks it by
    running a kernel.
    """
    vendor = vendor_of(device)
    # On macOS other vendors' GPUs have WebGPU alone.
    own = host.platform.system != "macOS" or host.platform.system in vendor.found_on
    backends = vendor.list_backends(device, host) if own else []
    for source in SHARED:
        for backend in source.list_backends(device, host):
            if backend.usable and vendor.needs_render_node:
                backend = replace(backend, blocked=host.render_block)
            backends.append(backend)
    return tuple(
        replace(one, package="", blocked=one.blocked or device.hardware_block)
        if one.blocked or device.hardware_block
        else one
        for one in backends
    )
