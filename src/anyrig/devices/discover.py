"""What is on this machine: every source asked, the answers put together into one `Machine`.

Never raises and never prints: a source that fails says why in its report.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from anyrig.devices import installed as packages
from anyrig.devices import reach, visible
from anyrig.devices.describe import (
    Cpu,
    Device,
    Drive,
    Features,
    Machine,
    Memory,
    Node,
    Platform,
    SourceReport,
)  # fmt: skip
from anyrig.devices.sources import cpu, nvidia, pci
from anyrig.devices.sources.live import LiveAnswers
from anyrig.devices.sources.recorded import Recorder, recorded_system, relevant
from anyrig.devices.sources.system import System

log = logging.getLogger(__name__)
T = TypeVar("T")
Found = tuple[list[Device], SourceReport]
Source = Callable[[], Found]

_NODES = ("/dev/kfd", "/dev/dxg", "/dev/nvidiactl", "/dev/nvidia0")
_VULKAN_MANIFESTS = (
    "/usr/share/vulkan/icd.d",
    "/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
)
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
)  # fmt: skip
_UNKNOWN_PLATFORM = Platform("other", "", "", "")
_UNKNOWN_CPU = Cpu("unknown processor", "unknown", "", 1, 1, Memory())
_ROCDXG = ("/opt/rocm/lib/librocdxg.so", "/usr/lib/wsl/lib/librocdxg.so")


def discover(
    environment: Mapping[str, str] | None = None,
    *,
    system: System | None = None,
    home: str = "",
) -> Machine:
    """Every device of a machine, with what can drive each and why not.

    Args:
        environment: the variables that hide and order devices; doors pass os.environ.
        system: another machine than this one, such as a recorded one.
        home: the folder whose free disk space counts.
    """
    if system is None:
        system = System(LiveAnswers(), environment or {})
    elif environment is not None:
        system.environment = {**system.environment, **environment}
    reports: list[SourceReport] = []
    nobody: dict[str, Any] = {}
    host = _guard("host", reports, system.host, nobody)
    platform = _guard("platform", reports, lambda: cpu.platform(system), _UNKNOWN_PLATFORM)
    processor = _guard("cpu", reports, lambda: cpu.describe(system), _UNKNOWN_CPU)
    reports.append(SourceReport("cpu", "found", processor.name))
    ground = _guard(
        "packages",
        reports,
        lambda: _ground(system, platform),
        reach.Ground(platform, packages.Installed({}, None)),
    )
    none: tuple[Device, ...] = ()
    gpus = _guard(
        "devices", reports, lambda: _driven_gpus(system, ground, processor, reports), none
    )
    for report in reports:
        log.info("source %s: %s (%s)", report.source, report.state, report.reason)
    for gpu in gpus:
        for drive in gpu.drives:
            log.debug("%s as %s: %s", gpu.name, drive.word, drive.reason)
    cpu_device = _cpu_device(processor)
    nothing: dict[str, str] = {}
    return Machine(
        platform=platform,
        cpu=processor,
        gpus=gpus,
        cpu_device=replace(cpu_device, drives=reach.drives(cpu_device, ground)),
        sources=tuple(reports),
        packages=_package_titles(ground.installed),
        environment=relevant(system.environment),
        facts=_guard("facts", reports, lambda: _facts(system, ground), nothing),
        nodes=_guard("nodes", reports, lambda: tuple(_nodes(system)), ()),
        groups=_guard("groups", reports, lambda: tuple(map(str, host.get("groups") or ())), ()),
        root=bool(host.get("root", False)),
        disk_free_bytes=_guard("disk", reports, lambda: system.disk_free(home), None),
        unmatched=_guard(
            "visible", reports, lambda: visible.unmatched(gpus, system.environment), ()
        ),
    )


def _guard(name: str, reports: list[SourceReport], ask: Callable[[], T], otherwise: T) -> T:
    """What a source says, or its failure in the reports: a broken driver must not look absent."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - any source may meet a machine nobody foresaw
        log.debug("source %s failed", name, exc_info=True)
        reports.append(SourceReport(name, "failed", f"{type(error).__name__}: {error}"))
        return otherwise


def _driven_gpus(
    system: System, ground: reach.Ground, processor: Cpu, reports: list[SourceReport]
) -> tuple[Device, ...]:
    """Every GPU with its numbers and with what can drive it."""
    found = _gpus(system, ground.platform, processor.memory, reports)
    if ground.platform.system == "Windows":
        from anyrig.devices.sources import windows

        found = windows.with_dxgi_numbers(system, found)
    alone = _distinct(found)
    shown = _guard(
        "visible", reports, lambda: visible.apply(alone, system.environment), tuple(alone)
    )
    driven = []
    for gpu in _numbered(shown):
        if ground.platform.system == "Windows" and gpu.blocked_fix.startswith("unset "):
            fix = f"Remove-Item Env:{gpu.blocked_fix.removeprefix('unset ')}"
            gpu = replace(gpu, blocked_fix=fix)
        none: tuple[Drive, ...] = ()
        drives = _guard("reach", reports, partial(reach.drives, gpu, ground), none)
        driven.append(replace(gpu, drives=drives))
    return tuple(driven)


def _distinct(gpus: list[Device]) -> list[Device]:
    """The GPUs with ids of their own: some machines hand one id to two dies or cards."""
    seen: set[str] = set()
    found = []
    for gpu in gpus:
        if gpu.id in seen:
            gpu = replace(gpu, id=f"{gpu.id}@{gpu.pci_address or len(seen)}")
        seen.add(gpu.id)
        found.append(gpu)
    return found


def _gpus(
    system: System, platform: Platform, memory: Memory, reports: list[SourceReport]
) -> list[Device]:
    """Every GPU that any source of this platform sees, each once."""
    controllers: tuple[pci.Controller, ...] = ()
    if platform.system == "Linux":
        controllers = _guard("pci", reports, lambda: pci.controllers(system), ())
        if not platform.wsl:  # there the bus shows doors to Windows, not cards
            _report_display_only(controllers, reports)
    found: list[Device] = []
    for name, source in _sources(system, platform, controllers, memory, found):
        nothing: Found = ([], SourceReport(name, "failed", ""))
        devices, report = _guard(name, reports, source, nothing)
        found += devices
        if report.reason:
            reports.append(report)
    return found


def _sources(
    system: System,
    platform: Platform,
    controllers: tuple[pci.Controller, ...],
    memory: Memory,
    found: list[Device],
) -> Iterator[tuple[str, Source]]:
    """The sources that a platform has, in the order they are asked; only those are imported."""
    if platform.system == "macOS":
        from anyrig.devices.sources import apple

        yield "apple", lambda: apple.find(system, memory)
        return
    yield "nvidia", lambda: nvidia.find(system, controllers, memory, platform)
    if platform.system == "Linux":
        from anyrig.devices.sources import amd, intel

        yield "amd", lambda: amd.find(system, controllers, memory)
        yield "intel", lambda: intel.find(system, controllers, memory)
    if platform.wsl == 2:
        from anyrig.devices.sources import windows

        yield "wsl", lambda: windows.find_in_wsl(system, list(found), memory)
    if platform.system == "Windows":
        from anyrig.devices.sources import windows

        yield "windows", lambda: windows.find(system, list(found), memory)


def _report_display_only(
    controllers: tuple[pci.Controller, ...], reports: list[SourceReport]
) -> None:
    for controller in controllers:
        maker = pci.DISPLAY_ONLY.get(controller.vendor)
        if controller.vendor not in pci.COMPUTING:
            what = f"{maker} adapter" if maker else "adapter of an unknown maker"
            text = f"{what} {controller.pci_id} at {controller.address} only draws: ignored"
            reports.append(SourceReport("pci", "nothing", text))


def _ground(system: System, platform: Platform) -> reach.Ground:
    kfd = system.node("/dev/kfd")
    return reach.Ground(
        platform=platform,
        installed=packages.read(system),
        cuda_driver=nvidia.cuda_of_driver(system),
        gfx_override=system.environment.get("HSA_OVERRIDE_GFX_VERSION", ""),
        kfd_access=kfd["access"] if kfd else None,
        rocdxg=any(system.node(path) is not None for path in _ROCDXG),
        vulkan=_vulkan(system),
        render_access=_render_access(system),
        nvidia_abilities=system.environment.get("NVIDIA_DRIVER_CAPABILITIES", ""),
    )


def _vulkan(system: System) -> bool:
    """A loader in a library folder, and a manifest of some driver or one named by variable."""
    manifests = any(system.names(folder) for folder in _VULKAN_MANIFESTS)
    named = {"VK_ICD_FILENAMES", "VK_DRIVER_FILES"} & set(system.environment)
    if not manifests and not named:
        return False
    folders = (*_LIBRARY_FOLDERS, *system.environment.get("LD_LIBRARY_PATH", "").split(":"))
    places = [f"{folder}/libvulkan.so.1" for folder in folders if folder]
    return any(system.node(place) is not None for place in places)


def _numbered(gpus: tuple[Device, ...]) -> Iterator[Device]:
    """The GPUs with the numbers people call them by; a MIG instance has its parent's."""
    number = -1
    seen: dict[str, int] = {}
    for gpu in gpus:
        number += gpu.part != "mig"
        indices = {**gpu.indices, "gpu": number, "webgpu": number}
        alike = sum(other.pci_id == gpu.pci_id and other.part != "mig" for other in gpus)
        if gpu.pci_id and gpu.part != "mig" and alike > 1:
            # Its place among cards of one model, which some libraries do not tell apart.
            indices["equal"] = seen[gpu.pci_id] = seen.get(gpu.pci_id, -1) + 1
        yield replace(gpu, indices=indices)


def _render_access(system: System) -> str | None:
    """What this user may do with the render nodes: the best of them; None where there is none."""
    nodes = [
        system.node(f"/dev/dri/{name}")
        for name in system.names("/dev/dri")
        if name.startswith("render")
    ]
    return max((node["access"] for node in nodes if node), key=len, default=None)


def _cpu_device(processor: Cpu) -> Device:
    fast = {"avx512_fp16", "amx_fp16", "asimdhp"} & set(processor.vectors)
    native = {"avx512_bf16", "amx_bf16", "bf16"} & set(processor.vectors)
    return Device(
        id="cpu",
        kind="cpu",
        vendor=processor.vendor,
        name=processor.name,
        architecture=processor.architecture,
        memory=processor.memory,
        features=Features("fast" if fast else "slow", False, bool(native), False, False),
        units=int(processor.cores_usable) or 1,
    )


def _package_titles(found: packages.Installed) -> dict[str, str]:
    titles = dict(found.packages)
    if found.torch:
        titles["torch"] = found.torch.title.removeprefix("torch ")
    return titles


def _facts(system: System, ground: reach.Ground) -> dict[str, str]:
    """What only the doctor reads."""
    torch = ground.installed.torch
    facts = {
        "cuda_driver": ground.cuda_driver,
        "torch_flavour": torch.flavour if torch else "",
        "torch_runtime": torch.runtime if torch else "",
        "torch_kernels": " ".join(torch.kernels or ()) if torch else "",
        "rocdxg": "yes" if ground.rocdxg else "",
        "vulkan": "yes" if ground.vulkan else "",
        "rocm": system.peek("/opt/rocm/.info/version"),
        "nvidia_module": system.peek("/proc/driver/nvidia/version").partition("\n")[0],
    }
    return {name: value for name, value in facts.items() if value}


def _nodes(system: System) -> Iterator[Node]:
    paths = list(_NODES)
    paths += [f"/dev/dri/{name}" for name in system.names("/dev/dri") if name.startswith("render")]
    for path in paths:
        status = system.node(path)
        if status is not None:
            yield Node(path, status.get("access", ""), status.get("group", ""))


def record(environment: Mapping[str, str]) -> tuple[Machine, dict[str, object]]:
    """This machine, and the raw answers it was described from."""
    recorder = Recorder(LiveAnswers(), environment)
    machine = discover(environment, system=System(recorder))
    return machine, recorder.record


def from_record(
    data: Mapping[str, object], environment: Mapping[str, str] | None = None
) -> Machine:
    """The machine that a record describes."""
    return discover(environment, system=recorded_system(data))
