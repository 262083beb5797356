"""NVIDIA: devices through NVML, the compute capability table, CUDA through torch and ONNX Runtime.

Capabilities and names: NVIDIA's list of CUDA GPUs. fp16, TF32, bf16, FP8, FP4 by capability: CUDA
programming guide (arithmetic throughput, tensor-core input types). A capability that is not in the
table is unknown; it is not guessed from its neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from anyrig.devices import pci, wheels
from anyrig.devices.machine import (
    Device,
    DeviceBackend,
    DeviceNote,
    Features,
    HostFacts,
    Memory,
    NoteCode,
    Platform,
    SourceReport,
    SourceState,
)
from anyrig.devices.probe import PYNVML_MISSING, HostProbe, NotFound, Unavailable
from anyrig.devices.reasons import DeviceReason, ReasonCode, explain
from anyrig.devices.wheels import parse_version
from anyrig.install import format_install
from anyrig.units import normalize_pci_address, pluralize

Capability = tuple[int, int]

# -- hardware ------------------------------------------------------------------------------------

_NONE = Features(fp16="none", tf32=False, bf16=False, fp8=False, fp4=False)
_SLOW = Features(fp16="slow", tf32=False, bf16=False, fp8=False, fp4=False)
_FAST = Features(fp16="fast", tf32=False, bf16=False, fp8=False, fp4=False)
_TENSOR = Features(fp16="matrix", tf32=False, bf16=False, fp8=False, fp4=False)
_AMPERE = Features(fp16="matrix", tf32=True, bf16=True, fp8=False, fp4=False)
_ADA = Features(fp16="matrix", tf32=True, bf16=True, fp8=True, fp4=False)
_BLACKWELL = Features(fp16="matrix", tf32=True, bf16=True, fp8=True, fp4=True)

CAPABILITIES: dict[Capability, tuple[str, Features]] = {
    (3, 0): ("Kepler", _NONE),
    (3, 5): ("Kepler", _NONE),
    (3, 7): ("Kepler", _NONE),
    (5, 0): ("Maxwell", _NONE),
    (5, 2): ("Maxwell", _NONE),
    (5, 3): ("Maxwell", _FAST),
    (6, 0): ("Pascal", _FAST),
    (6, 1): ("Pascal", _SLOW),
    (6, 2): ("Pascal", _FAST),
    (7, 0): ("Volta", _TENSOR),
    (7, 2): ("Volta", _TENSOR),
    (7, 5): ("Turing", _TENSOR),
    (8, 0): ("Ampere", _AMPERE),
    (8, 6): ("Ampere", _AMPERE),
    (8, 7): ("Ampere", _AMPERE),
    (8, 9): ("Ada", _ADA),
    (9, 0): ("Hopper", _ADA),
    (10, 0): ("Blackwell", _BLACKWELL),
    (10, 1): ("Blackwell", _BLACKWELL),
    (10, 3): ("Blackwell Ultra", _BLACKWELL),
    (11, 0): ("Blackwell", _BLACKWELL),
    (12, 0): ("Blackwell", _BLACKWELL),
    (12, 1): ("Blackwell", _BLACKWELL),
}
_NO_TENSOR_CORES = (
    "GTX 16", "T400", "T500", "T550", "T600", "T1000", "T1200", "MX450", "MX550",
)  # fmt: skip
# Systems on a chip: their memory is the machine's.
_INTEGRATED = frozenset({(3, 2), (5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)})
# Of these, the ones that share no machine code with the rest of their major version.
_OWN_CODE = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1)})
_RENAMED = ((10, 1), (11, 0))  # Thor: sm_101 in CUDA 12.9, sm_110 from 13 on
# NVML's architecture numbers, for capabilities that are not in the table.
_NVML_ARCHITECTURES = {
    2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada",
    9: "Hopper", 10: "Blackwell",
}  # fmt: skip
# pci.ids names the chip ("AD102 [GeForce RTX 4090]"); its letters give the architecture of a card
# whose driver does not respond. GB10x and GB20x are both Blackwell, with different capabilities.
_CHIPS = {
    "GK": "Kepler", "GM": "Maxwell", "GP": "Pascal", "GV": "Volta", "TU": "Turing",
    "GA": "Ampere", "AD": "Ada", "GH": "Hopper", "GB": "Blackwell",
}  # fmt: skip


def parse_capability(text: str | None) -> Capability | None:
    """`8.9` as (8, 9)."""
    major, dot, minor = (text or "").partition(".")
    return (int(major), int(minor)) if dot and major.isdigit() and minor.isdigit() else None


def describe_capability(capability: Capability | None, name: str) -> tuple[str | None, Features]:
    """Architecture and features; unknown for a capability that is not listed."""
    if capability not in CAPABILITIES:
        return None, Features()
    architecture, features = CAPABILITIES[capability]
    # The small Turing chips have no tensor cores; the capability alone does not show it.
    if capability == (7, 5) and any(part in name for part in _NO_TENSOR_CORES):
        features = _FAST
    return architecture, features


def can_run(capability: Capability, kernels: tuple[str, ...]) -> bool:
    """Whether code for `kernels` (sm_86, compute_90) runs on a capability.

    Machine code runs on its own major version from its minor version up. Systems on a chip are
    separate: they run only what was built for them, and nothing else runs that (the table
    torch.cuda.DEVICE_REQUIREMENT). PTX (compute_) is compiled by the driver for anything newer.
    Suffixed code (sm_90a) runs on that capability alone.
    """
    for kernel in kernels:
        form, _, suffixed = kernel.partition("_")
        number = suffixed.rstrip("af")
        if len(number) < 2 or not number.isdigit():
            continue
        built = (int(number[:-1]), int(number[-1]))
        exact = number != suffixed or (
            form == "sm" and not {built, capability}.isdisjoint(_OWN_CODE)
        )
        if exact:
            runs = built == capability or (built, capability) == _RENAMED
        elif form == "sm":
            runs = capability[0] == built[0] and capability[1] >= built[1]
        else:
            runs = form == "compute" and capability >= built
        if runs:
            return True
    return False


# -- discovery through NVML ----------------------------------------------------------------------

_COMPUTE_PROHIBITED = 2  # NVML_COMPUTEMODE_PROHIBITED
_VGPU_GUEST = 2  # NVML_GPU_VIRTUALIZATION_MODE_VGPU
_NVML_FIXES = {
    "NVML_ERROR_DRIVER_NOT_LOADED": "sudo modprobe nvidia",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "sudo reboot",
    "NVML_ERROR_NO_PERMISSION": "ls -l /dev/nvidia*",
    "NVML_ERROR_GPU_IS_LOST": "sudo nvidia-smi --gpu-reset",
    PYNVML_MISSING: format_install("nvidia-ml-py"),
}


def find_devices(
    system: HostProbe, pci_devices: tuple[pci.PciDevice, ...], memory: Memory, platform: Platform
) -> tuple[list[Device], SourceReport]:
    """Every NVIDIA device, usable or not, and what NVML reported.

    The PCI bus shows cards that NVML does not list; systems on a chip share the machine's memory.
    """
    cards = [c for c in pci_devices if c.vendor == pci.NVIDIA]
    try:
        system.nvml("nvmlInit")
        driver = str(_query(system, "nvmlSystemGetDriverVersion") or "") or None
        count = int(system.nvml("nvmlDeviceGetCount"))
    except Unavailable as error:
        blocked = [_describe_card(system, c, _driver_block(c, error, platform)) for c in cards]
        # On Windows pynvml itself looks for the library, and reports an NVML error.
        missing = isinstance(error, NotFound) or error.code == "NVML_ERROR_LIBRARY_NOT_FOUND"
        state: SourceState = "nothing" if missing and not cards else "failed"
        return blocked, SourceReport("nvidia", state, str(error), _nvml_fix(error))
    devices: list[Device] = []
    lost: list[DeviceReason] = []
    for index in range(count):
        try:
            if _query(system, "nvmlDeviceGetUUID", str(index)) is None:
                system.nvml("nvmlDeviceGetName", str(index))
            devices += _describe(system, index, driver, memory)
        except Unavailable as error:
            lost.append(explain(ReasonCode.LOST, "sudo reboot", index=index, error=error))
    listed = {device.pci_address for device in devices}
    unlisted = [card for card in cards if card.address not in listed]
    report = f"driver {driver or 'of unknown version'}, {pluralize(count, 'GPU')} in NVML"
    if lost:
        report += f"; {lost[0]}"
        # Cards bound to NVIDIA's driver that NVML does not describe are the lost ones, if their
        # number matches.
        bound = [card for card in unlisted if card.driver in ("nvidia", "")]
        if len(bound) == len(lost):
            devices += [_describe_card(system, c, r) for c, r in zip(bound, lost, strict=True)]
            unlisted = [card for card in unlisted if card not in bound]
        else:
            name = "unresponsive NVIDIA GPU"
            devices += [
                Device(f"nvml-lost-{number}", "gpu", "nvidia", name, hardware_block=reason)
                for number, reason in enumerate(lost)
            ]
    if unlisted and platform.container:
        # The bus shows all cards of the host, NVML only those of the container.
        report += f"; {pluralize(len(unlisted), 'more card')} of the host not in this container"
    else:
        problem = Unavailable("NVML does not list this PCI device")
        devices += [
            _describe_card(system, card, _driver_block(card, problem, platform))
            for card in unlisted
        ]
    return devices, SourceReport("nvidia", "found" if devices else "nothing", report)


def read_cuda_version(system: HostProbe) -> str:
    """The newest CUDA that the driver supports: `13.0`, or an empty string."""
    version = _query(system, "nvmlSystemGetCudaDriverVersion")
    return f"{int(version) // 1000}.{int(version) % 1000 // 10}" if version else ""


def _nvml_fix(error: Unavailable) -> str:
    return _NVML_FIXES.get(error.code, "nvidia-smi")


def _query(system: HostProbe, function: str, handle: str = "") -> Any:
    """An answer, or None if NVML has none for this device."""
    try:
        return system.nvml(function, handle)
    except Unavailable:
        return None


def _describe(system: HostProbe, index: int, driver: str | None, memory: Memory) -> list[Device]:
    """One GPU, then its MIG instances."""
    query = partial(_query, system, handle=str(index))
    name = str(query("nvmlDeviceGetName") or "unknown NVIDIA GPU")
    answer = query("nvmlDeviceGetCudaComputeCapability")
    capability = (int(answer[0]), int(answer[1])) if answer and len(answer) == 2 else None
    architecture, features = describe_capability(capability, name)
    if architecture is None:
        number = query("nvmlDeviceGetArchitecture")
        architecture = _NVML_ARCHITECTURES.get(number) if isinstance(number, int) else None
    address, pci_id = _read_pci(query("nvmlDeviceGetPciInfo"))
    mode = query("nvmlDeviceGetMigMode") or [0, 0]
    enabled, pending = mode[0] == 1, mode[-1] == 1
    num_instances = int(query("mig") or 0) if enabled else 0
    notes = []
    if enabled != pending:
        text = f"MIG mode will be {'enabled' if pending else 'disabled'} at the next GPU reset"
        notes.append(DeviceNote(NoteCode.MIG_PENDING, text))
    blocked = None
    if num_instances:
        instances = pluralize(num_instances, "MIG instance")
        blocked = explain(ReasonCode.MIG_PARENT, f"anyrig use {index}:0", instances=instances)
    elif enabled:
        blocked = explain(ReasonCode.MIG_EMPTY, f"sudo nvidia-smi mig -i {index} -lgip")
    elif query("nvmlDeviceGetComputeMode") == _COMPUTE_PROHIBITED:
        fix = f"sudo nvidia-smi -i {index} -c DEFAULT"
        blocked = explain(ReasonCode.COMPUTE_PROHIBITED, fix)
    gpu = Device(
        id=str(query("nvmlDeviceGetUUID") or address or f"nvml-{index}"),
        kind="gpu",
        vendor="nvidia",
        name=name,
        architecture=architecture,
        capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory=_read_memory(system, str(index), capability, memory),
        driver="nvidia",
        driver_version=driver,
        pci_address=address,
        pci_id=pci_id,
        features=features,
        part="vgpu" if query("nvmlDeviceGetVirtualizationMode") == _VGPU_GUEST else "whole",
        units=query("nvmlDeviceGetNumGpuCores"),
        indices={"nvml": index},
        hardware_block=blocked,
        notes=tuple(notes),
    )
    return [gpu, *(_describe_instance(system, gpu, n) for n in range(num_instances))]


def _read_pci(info: Any) -> tuple[str | None, str | None]:
    if not isinstance(info, dict):
        return None, None
    number = int(info.get("pciDeviceId", 0))
    pci_id = f"{number & 0xFFFF:04x}:{number >> 16:04x}" if number else None
    return normalize_pci_address(str(info.get("busId", ""))) or None, pci_id


def _read_memory(
    system: HostProbe, handle: str, capability: Capability | None, system_memory: Memory
) -> Memory:
    try:
        answer, failure = system.nvml("nvmlDeviceGetMemoryInfo", handle), ""
    except Unavailable as error:
        answer, failure = None, f" (NVML: {error})"
    if capability in _INTEGRATED:
        note = f"shared with the system{failure}"
        return Memory("unified", system_memory.total_bytes, system_memory.free_bytes, note=note)
    if isinstance(answer, dict) and answer.get("total"):
        free = answer.get("free")
        return Memory("dedicated", int(answer["total"]), None if free is None else int(free))
    return Memory(note=f"NVML does not report this device's memory{failure}")


def _describe_instance(system: HostProbe, gpu: Device, number: int) -> Device:
    index = gpu.indices["nvml"]
    query = partial(_query, system, handle=f"{index}/{number}")
    return replace(
        gpu,
        id=str(query("nvmlDeviceGetUUID") or f"{gpu.id}/{number}"),
        name=str(query("nvmlDeviceGetName") or f"{gpu.name} MIG {number}"),
        memory=_read_memory(system, f"{index}/{number}", None, Memory()),
        part="mig",
        parent=gpu.id,
        units=None,
        indices={"nvml": index, "mig": number},
        hardware_block=None,
        notes=(),
    )


def _describe_card(system: HostProbe, card: pci.PciDevice, blocked: DeviceReason) -> Device:
    """A card on the bus that NVML does not describe."""
    listed = system.hardware_name("pci", card.pci_id)
    title = listed.partition("[")[2].rstrip("]") or listed
    chip = listed[:2] if listed[2:5].isalnum() and listed[2:3].isdigit() else ""
    return Device(
        id=card.address,
        kind="gpu",
        vendor="nvidia",
        name=f"NVIDIA {title}" if title else f"NVIDIA GPU {card.pci_id}",
        architecture=_CHIPS.get(chip),
        memory=Memory(note="unknown without a driver"),
        driver=card.driver or None,
        pci_address=card.address,
        pci_id=card.pci_id,
        hardware_block=blocked,
    )


def _driver_block(card: pci.PciDevice, error: Unavailable, platform: Platform) -> DeviceReason:
    if "Ubuntu" in platform.distribution:
        install = "sudo ubuntu-drivers install"
    elif "Debian" in platform.distribution:
        install = "sudo apt install nvidia-driver"
    else:
        install = "install the NVIDIA driver from your distribution"
    if card.driver in ("nouveau", "nova_core"):
        fix = f"{install} && sudo reboot"
        return explain(ReasonCode.WRONG_DRIVER, fix, driver=card.driver, feature="CUDA")
    if card.driver == "vfio-pci":
        return explain(ReasonCode.PASSED_THROUGH)
    missing = isinstance(error, NotFound)
    if missing and platform.container:
        fix = "docker run --gpus all ... (with nvidia-container-toolkit on the host)"
        return explain(ReasonCode.DRIVER_NOT_IN_CONTAINER, fix, container=platform.container)
    fix = install if missing else _nvml_fix(error)
    return explain(ReasonCode.DRIVER_FAILED, fix, error=error)


# -- backends ------------------------------------------------------------------------------------

# Boards whose torch comes with JetPack: the wheels on the index for ARM are for servers.
_JETSON = frozenset({(5, 3), (6, 2), (7, 2), (8, 7)})
# Newest, and the last for CUDA 12 and for GPUs before Turing.
ONNX_RELEASES = (("onnxruntime-gpu", "1.31.1"), ("onnxruntime-gpu==1.26.0", "1.26.0"))


def list_backends(device: Device, host: HostFacts) -> list[DeviceBackend]:
    selector, torch = device.selector_for("cuda"), host.installed.torch
    unlisted = torch is not None and torch.kernels is None
    check = "; run `anyrig doctor` to check its kernels" if unlisted else ""
    onnx = _onnx_cuda(device, host, selector)
    backends = [
        DeviceBackend(
            "torch", selector, "cuda", host.torch_title + check, _torch_block(device, host)
        ),
        onnx,
    ]
    versions = host.installed.versions
    tensorrt = next((name for name in versions if name.startswith("tensorrt")), "")
    if tensorrt and onnx.usable:
        selector = selector.replace("cuda", "tensorrt", 1)
        package = f"{onnx.package} with {tensorrt} {versions[tensorrt]}"
        provider = "TensorrtExecutionProvider"
        backends.append(replace(onnx, selector=selector, provider=provider, package=package))
    return backends


def compute_block(host: HostFacts) -> DeviceReason | None:
    """The container was given the driver without CUDA."""
    given = host.environment.get("NVIDIA_DRIVER_CAPABILITIES", "")
    if not given or not {"compute", "all"}.isdisjoint(given.split(",")):
        return None
    fix = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ..."
    return explain(ReasonCode.NO_COMPUTE, fix, setting=f"NVIDIA_DRIVER_CAPABILITIES={given}")


def find_torch_fix(device: Device, host: HostFacts) -> str:
    """The command that installs a torch for this device and its driver, if there is one.

    CUDA 12.6 builds end with torch 2.14 and are the last with Maxwell, Pascal and Volta; CUDA 12.8
    builds, the only ones for Blackwell on a driver of CUDA 12, end with 2.11.
    """
    capability = parse_capability(device.capability) or (8, 0)
    arm = host.platform.is_arm
    if arm and capability in _JETSON:
        return "install torch from NVIDIA JetPack"
    if capability < ((8, 0) if arm else (5, 0)):
        return ""  # no official wheel has kernels for it
    driver = (parse_version(host.cuda_driver) or (13, 0))[0]
    if driver < 12:
        last = "580, the last for this card" if capability < (7, 5) else "580 or newer"
        return f"update the NVIDIA driver to {last}"
    if capability >= (10, 0) and driver == 12:
        return host.torch_command("torch<2.12", "cu128")
    if capability < (7, 5) or driver == 12:
        return host.torch_command("torch<2.15", "cu126")
    return host.torch_command("torch", "cu130")


def _torch_block(device: Device, host: HostFacts) -> DeviceReason | None:
    torch, fix = host.installed.torch, find_torch_fix(device, host)
    if torch is None:
        return host.torch_block("cuda", fix)
    return (
        compute_block(host)
        or host.torch_block("cuda", fix)
        or _build_block(device, host, fix, torch.title, torch.runtime, torch.kernels)
    )


def _onnx_cuda(device: Device, host: HostFacts, selector: str) -> DeviceBackend:
    provider, fix = "CUDAExecutionProvider", ""
    # The newest release that runs on this driver and device, if there is one.
    for requirement, version in reversed(ONNX_RELEASES):
        runtime, kernels = _onnx_build(host, version)
        if kernels and not _build_block(device, host, "", "", runtime, kernels):
            fix = host.onnx_command(requirement)
    blocked = None
    if package := host.installed.package_of(provider):
        version = host.installed.versions[package]
        runtime, kernels = _onnx_build(host, version)
        blocked = compute_block(host) or _build_block(
            device, host, fix, f"{package} {version}", runtime, kernels
        )
    return host.onnx_backend(selector, provider, "onnxruntime-gpu", fix, blocked)


def _onnx_build(host: HostFacts, version: str) -> tuple[str, tuple[str, ...] | None]:
    windows = host.platform.system == "Windows"
    return wheels.find_onnx_gpu_build(version, arm=host.platform.is_arm, windows=windows)


def driver_is_too_old(host: HostFacts, runtime: str) -> bool:
    """Any driver of a major version of CUDA runs all of that version."""
    have, need = parse_version(host.cuda_driver), parse_version(runtime)
    return have is not None and need is not None and have[0] < need[0]


def has_kernels(device: Device, kernels: tuple[str, ...] | None) -> bool:
    """Whether a build runs on the device; one that is not listed may."""
    capability = parse_capability(device.capability)
    return capability is None or kernels is None or can_run(capability, kernels)


def _build_block(
    device: Device,
    host: HostFacts,
    fix: str,
    package: str,
    runtime: str,
    kernels: tuple[str, ...] | None,
) -> DeviceReason | None:
    """Why a build does not run on this driver or device."""
    if driver_is_too_old(host, runtime):
        code = ReasonCode.DRIVER_TOO_OLD
        return explain(code, fix, supported=host.cuda_driver, package=package, required=runtime)
    if not has_kernels(device, kernels):
        capability = device.capability_title
        return explain(ReasonCode.NO_KERNELS, fix, package=package, capability=capability)
    return None
