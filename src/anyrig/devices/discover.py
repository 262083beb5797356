"""Find every device of a machine: ask each source, then add indices and backends.

Never raises and never prints: a source that fails says why in its report.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from anyrig.devices import cpu, nvidia, pci, visibility, wheels
from anyrig.devices.machine import (
    Cpu,
    Device,
    DeviceBackend,
    DeviceNode,
    HostFacts,
    Machine,
    Memory,
    Platform,
    SourceReport,
)
from anyrig.devices.probe import LiveProbe, RecordedProbe, RecordingProbe, System, select_variables
from anyrig.install import format_install

log = logging.getLogger(__name__)
T = TypeVar("T")

_NODES = ("/dev/kfd", "/dev/dxg", "/dev/nvidiactl", "/dev/nvidia0")
_VULKAN_MANIFESTS = (
    "/usr/share/vulkan/icd.d",
    "/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
)
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
)  # fmt: skip
_ROCDXG = ("/opt/rocm/lib/librocdxg.so", "/usr/lib/wsl/lib/librocdxg.so")


def discover(
    environment: Mapping[str, str] | None = None, *, system: System | None = None
) -> Machine:
    """Every device of a machine, with the backends that can use it.

    Args:
        environment: the variables that hide and order devices; entry points pass os.environ.
        system: another machine than this one, such as a recorded one.
    """
    if system is None:
        system = System(environment=environment)
    elif environment is not None:
        system.environment = {**system.environment, **environment}
    reports: list[SourceReport] = []
    host_info: dict[str, Any] = _guard(reports, "host", system.host, {})
    platform = _guard(reports, "platform", lambda: cpu.read_platform(system), Platform())
    unknown = Cpu("unknown processor", "unknown", "", 1, 1, Memory())
    processor = _guard(reports, "cpu", lambda: cpu.read_cpu(system), unknown)
    reports.append(SourceReport("cpu", "found", processor.name))
    host = _guard(reports, "packages", lambda: _read_host(system, platform), HostFacts(platform))
    none: tuple[Device, ...] = ()
    gpus = _guard(
        reports, "devices", lambda: _find_gpus(system, host, processor.memory, reports), none
    )
    machine = Machine(
        host=host,
        cpu=processor,
        gpus=gpus,
        cpu_device=replace(cpu.describe_device(processor), backends=cpu.list_backends(host)),
        environment=select_variables(system.environment),
        nodes=_guard(reports, "nodes", lambda: tuple(_list_nodes(system)), ()),
        groups=_guard(
            reports, "groups", lambda: tuple(map(str, host_info.get("groups") or ())), ()
        ),
        root=bool(host_info.get("root", False)),
        disk_free_bytes=_guard(reports, "disk", lambda: system.disk_free(""), None),
        unmatched=_guard(
            reports, "visible", lambda: visibility.find_unmatched(gpus, system.environment), ()
        ),
    )
    for report in reports:
        log.info("source %s: %s (%s)", report.source, report.state, report.reason)
    for gpu in gpus:
        for backend in gpu.backends:
            log.debug("%s as %s: %s", gpu.name, backend.selector, backend.reason)
    return replace(machine, sources=tuple(reports))


def record(environment: Mapping[str, str]) -> tuple[Machine, dict[str, object]]:
    """This machine, and the raw answers that describe it."""
    recorder = RecordingProbe(LiveProbe(), environment)
    machine = discover(environment, system=System(recorder))
    return machine, recorder.record


def from_record(data: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Machine:
    """A recorded machine, in the environment of the record."""
    recorded = {str(k): str(v) for k, v in data.get("environment", {}).items()}
    return discover(environment, system=System(RecordedProbe(data), recorded))


def _guard(reports: list[SourceReport], name: str, ask: Callable[[], T], default: T) -> T:
    """The answer, or a report of the failure: a broken driver must not look absent."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - any source may meet unforeseen hardware
        log.debug("source %s failed", name, exc_info=True)
        reports.append(SourceReport(name, "failed", f"{type(error).__name__}: {error}"))
        return default


# -- the host ------------------------------------------------------------------------------------


def _read_host(system: System, platform: Platform) -> HostFacts:
    kfd = system.node("/dev/kfd")
    renders = [system.node(path) for path in _list_render_nodes(system)]
    return HostFacts(
        platform=platform,
        installed=wheels.read_installed(system),
        cuda_driver=nvidia.read_cuda_version(system),
        gfx_override=system.environment.get("HSA_OVERRIDE_GFX_VERSION", ""),
        kfd_access=kfd["access"] if kfd else None,
        render_access=max((node["access"] for node in renders if node), key=len, default=None),
        has_rocdxg=any(system.node(path) is not None for path in _ROCDXG),
        has_vulkan=_has_vulkan(system),
        driver_capabilities=system.environment.get("NVIDIA_DRIVER_CAPABILITIES", ""),
        rocm_version=system.peek("/opt/rocm/.info/version"),
        nvidia_module=system.peek("/proc/driver/nvidia/version").partition("\n")[0],
    )


def _has_vulkan(system: System) -> bool:
    """A loader in a library folder, and a driver's manifest in a folder or a variable."""
    manifests = any(system.names(folder) for folder in _VULKAN_MANIFESTS)
    if not manifests and {"VK_ICD_FILENAMES", "VK_DRIVER_FILES"}.isdisjoint(system.environment):
        return False
    folders = (*_LIBRARY_FOLDERS, *system.environment.get("LD_LIBRARY_PATH", "").split(":"))
    return any(system.node(f"{folder}/libvulkan.so.1") is not None for folder in folders if folder)


def _list_render_nodes(system: System) -> list[str]:
    return [f"/dev/dri/{name}" for name in system.names("/dev/dri") if name.startswith("render")]


def _list_nodes(system: System) -> Iterator[DeviceNode]:
    for path in (*_NODES, *_list_render_nodes(system)):
        status = system.node(path)
        if status is not None:
            yield DeviceNode(path, status.get("access", ""), status.get("group", ""))


# -- GPUs ----------------------------------------------------------------------------------------


def _find_gpus(
    system: System, host: HostFacts, memory: Memory, reports: list[SourceReport]
) -> tuple[Device, ...]:
    """Every GPU with its indices and backends."""
    platform = host.platform
    found = _ask_sources(system, platform, memory, reports)
    if platform.system == "Windows":
        from anyrig.devices import windows

        found = windows.add_dxgi_indices(system, found)
    distinct = _make_ids_distinct(found)
    visible = _guard(
        reports,
        "visible",
        lambda: visibility.apply_visibility(distinct, system.environment, platform),
        tuple(distinct),
    )
    gpus = []
    for gpu in _number(visible):
        none: tuple[DeviceBackend, ...] = ()
        backends = _guard(reports, "backends", partial(list_backends, gpu, host), none)
        gpus.append(replace(gpu, backends=backends))
    return tuple(gpus)


def _ask_sources(
    system: System, platform: Platform, memory: Memory, reports: list[SourceReport]
) -> list[Device]:
    """Every GPU that a source of this platform finds, each once."""
    controllers: tuple[pci.Controller, ...] = ()
    if platform.system == "Linux":
        controllers = _guard(reports, "pci", lambda: pci.list_controllers(system), ())
        if not platform.wsl:  # in WSL the bus shows virtual devices, not cards
            reports += pci.report_display_only(controllers)
    found: list[Device] = []
    for name, find in _list_sources(system, platform, controllers, memory, found):
        failed: tuple[list[Device], SourceReport] = ([], SourceReport(name, "failed", ""))
        devices, report = _guard(reports, name, find, failed)
        found += devices
        if report.reason:
            reports.append(report)
    return found


def _list_sources(
    system: System,
    platform: Platform,
    controllers: tuple[pci.Controller, ...],
    memory: Memory,
    found: list[Device],
) -> Iterator[tuple[str, Callable[[], tuple[list[Device], SourceReport]]]]:
    """The sources of a platform, in order; only their modules are imported."""
    if platform.system == "macOS":
        from anyrig.devices import apple

        yield "apple", lambda: apple.find_devices(system, memory)
        return
    yield "nvidia", lambda: nvidia.find_devices(system, controllers, memory, platform)
    if platform.system == "Linux":
        from anyrig.devices import amd, intel

        yield "amd", lambda: amd.find_devices(system, controllers, memory)
        yield "intel", lambda: intel.find_devices(system, controllers, memory)
    if platform.wsl == 2 or platform.system == "Windows":
        from anyrig.devices import windows

        if platform.wsl == 2:
            yield "wsl", lambda: windows.find_devices_in_wsl(system, list(found), memory)
        else:
            yield "windows", lambda: windows.find_devices(system, list(found), memory)


def _make_ids_distinct(gpus: list[Device]) -> list[Device]:
    """Some machines give one id to two dies or cards."""
    seen: set[str] = set()
    found = []
    for gpu in gpus:
        if gpu.id in seen:
            gpu = replace(gpu, id=f"{gpu.id}@{gpu.pci_address or len(seen)}")
        seen.add(gpu.id)
        found.append(gpu)
    return found


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
            indices["equal"] = seen[gpu.pci_id] = seen.get(gpu.pci_id, -1) + 1
        yield replace(gpu, indices=indices)


# -- backends ------------------------------------------------------------------------------------


def list_backends(device: Device, host: HostFacts) -> tuple[DeviceBackend, ...]:
    """Every backend of a GPU, usable or not, the fastest kind first.

    Nothing is imported or started: this is what package metadata tell. `anyrig doctor` checks it by
    running a kernel.
    """
    backends: list[DeviceBackend] = []
    vendor = device.vendor
    # Macs with Intel's, AMD's or NVIDIA's graphics have WebGPU alone.
    if host.platform.system == "macOS":
        if vendor == "apple":
            from anyrig.devices import apple

            backends += apple.list_backends(host)
    elif vendor == "nvidia":
        backends += nvidia.list_backends(device, host)
    elif vendor == "amd":
        from anyrig.devices import amd

        backends += amd.list_backends(device, host)
    elif vendor == "intel":
        from anyrig.devices import intel

        backends += intel.list_backends(device, host)
    if host.platform.system == "Windows" or host.platform.wsl == 2:
        from anyrig.devices import windows

        backends += windows.list_directml(device, host)
    if device.part != "mig":
        backends.append(_webgpu(device, host))
    blocked = device.blocked
    if blocked:
        backends = [
            replace(one, usable=False, reason=blocked.message, fix=blocked.fix)
            if one.usable
            else one
            for one in backends
        ]
    return tuple(backends)


def torch_fix(device: Device, host: HostFacts) -> str:
    """The command that installs a torch for a GPU; empty if there is none."""
    if host.platform.system == "macOS":
        return format_install("anyrig[torch]") if device.vendor == "apple" else ""
    from anyrig.devices import amd, intel

    fixes = {"nvidia": nvidia.torch_fix, "amd": amd.torch_fix, "intel": intel.torch_fix}
    return fixes[device.vendor](device, host) if device.vendor in fixes else ""


def _webgpu(device: Device, host: HostFacts) -> DeviceBackend:
    """ONNX Runtime on WebGPU runs on any brand with Vulkan, D3D12 or Metal."""
    selector = device.selector_for("webgpu")
    webgpu = partial(DeviceBackend, "onnx", selector, "WebGpuExecutionProvider")
    if not host.installed.has_webgpu:
        reason = f"{wheels.WEBGPU_PACKAGE} is not installed"
        return webgpu(False, reason, format_install("anyrig[webgpu]"))
    if host.platform.system == "Linux" and not host.has_vulkan:
        fix = "sudo apt install libvulkan1 mesa-vulkan-drivers"
        return webgpu(False, "no Vulkan loader or driver found", fix)
    block = host.render_block if device.vendor in ("amd", "intel") else None
    if block:
        return webgpu(False, block.message, block.fix)
    version = host.installed.versions[wheels.WEBGPU_PACKAGE]
    return webgpu(True, f"{wheels.WEBGPU_PACKAGE} {version}")
