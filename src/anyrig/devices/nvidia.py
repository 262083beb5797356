"""NVIDIA: devices through NVML, the compute capability table, CUDA through torch and ONNX Runtime.

Capabilities and names: NVIDIA's list of CUDA GPUs. fp16, TF32, bf16, FP8, FP4 by capability: CUDA
programming guide (arithmetic throughput, tensor-core input types). A capability that is not in the
table is unknown; it is not guessed from its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from anyrig.devices import pci, wheels
from anyrig.devices.machine import (
    BlockCode,
    BlockReason,
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
from anyrig.devices.probe import PYNVML_MISSING, NotFound, System, Unavailable
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


def describe_capability(capability: Capability, name: str) -> tuple[str | None, Features]:
    """Architecture and features; unknown for a capability that is not listed."""
    architecture, features = CAPABILITIES.get(capability, (None, Features()))
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
    system: System, controllers: tuple[pci.Controller, ...], memory: Memory, platform: Platform
) -> tuple[list[Device], SourceReport]:
    """Every NVIDIA device, usable or not, and what NVML reported.

    Args:
        system: the machine to ask.
        controllers: the PCI bus, to see cards that NVML does not list.
        memory: the machine's, which systems on a chip share.
        platform: the operating system, for advice.
    """
    cards = [c for c in controllers if c.vendor == pci.NVIDIA]
    try:
        system.nvml("nvmlInit")
        driver = str(_query(system, "nvmlSystemGetDriverVersion") or "") or None
        count = int(system.nvml("nvmlDeviceGetCount"))
    except Unavailable as error:
        blocked = [_describe_without_nvml(system, card, error, platform) for card in cards]
        # On Windows pynvml itself looks for the library, and reports an NVML error.
        missing = isinstance(error, NotFound) or error.code == "NVML_ERROR_LIBRARY_NOT_FOUND"
        state: SourceState = "nothing" if missing and not cards else "failed"
        return blocked, SourceReport("nvidia", state, str(error), _nvml_fix(error))
    devices, errors = _describe_all(system, count, driver, memory)
    listed = {device.pci_address for device in devices}
    unlisted = [card for card in cards if card.address not in listed]
    report = f"driver {driver or 'of unknown version'}, {pluralize(count, 'GPU')} in NVML"
    if errors:
        report += f"; {errors[0]}"
        # Cards bound to NVIDIA's driver that NVML does not describe are the failed ones, if their
        # number matches.
        bound = [card for card in unlisted if card.driver in ("nvidia", "")]
        failed = bound if len(bound) == len(errors) else []
        devices += _describe_lost(system, failed, errors, platform)
        unlisted = [card for card in unlisted if card not in failed]
    if unlisted and platform.container:
        # The bus shows all cards of the host, NVML only those of the container.
        report += f"; {pluralize(len(unlisted), 'more card')} of the host not in this container"
    else:
        missing_in_nvml = Unavailable("NVML does not list this PCI device")
        devices += [_describe_without_nvml(system, c, missing_in_nvml, platform) for c in unlisted]
    return devices, SourceReport("nvidia", "found" if devices else "nothing", report)


def read_cuda_version(system: System) -> str:
    """The newest CUDA that the driver supports: `13.0`, or an empty string."""
    version = _query(system, "nvmlSystemGetCudaDriverVersion")
    return f"{int(version) // 1000}.{int(version) % 1000 // 10}" if version else ""


def _nvml_fix(error: Unavailable) -> str:
    return _NVML_FIXES.get(error.code, "nvidia-smi")


def _query(system: System, function: str, handle: str = "") -> Any:
    """An answer, or None if NVML has none for this device."""
    try:
        return system.nvml(function, handle)
    except Unavailable:
        return None


def _describe_all(
    system: System, count: int, driver: str | None, memory: Memory
) -> tuple[list[Device], list[str]]:
    """The GPUs that NVML describes, and why it cannot describe the others."""
    devices: list[Device] = []
    errors: list[str] = []
    for index in range(count):
        try:
            if _query(system, "nvmlDeviceGetUUID", str(index)) is None:
                system.nvml("nvmlDeviceGetName", str(index))
            devices += _describe(system, index, driver, memory)
        except Unavailable as error:
            errors.append(f"GPU {index} is not responding: {error}")
    return devices, errors


def _describe(system: System, index: int, driver: str | None, memory: Memory) -> list[Device]:
    """One GPU, then its MIG instances."""
    query = partial(_query, system, handle=str(index))
    name = str(query("nvmlDeviceGetName") or "unknown NVIDIA GPU")
    answer = query("nvmlDeviceGetCudaComputeCapability")
    capability = (int(answer[0]), int(answer[1])) if answer and len(answer) == 2 else None
    architecture, features = (
        describe_capability(capability, name) if capability else (None, Features())
    )
    if architecture is None:
        number = query("nvmlDeviceGetArchitecture")
        architecture = _NVML_ARCHITECTURES.get(number) if isinstance(number, int) else None
    address, pci_id = _read_pci(query("nvmlDeviceGetPciInfo"))
    is_vgpu = query("nvmlDeviceGetVirtualizationMode") == _VGPU_GUEST
    gpu = Device(
        id=str(query("nvmlDeviceGetUUID") or address or f"nvml-{index}"),
        kind="gpu",
        vendor="nvidia",
        name=name,
        architecture=architecture,
        capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory=_read_memory(system, index, capability, memory),
        driver="nvidia",
        driver_version=driver,
        pci_address=address,
        pci_id=pci_id,
        features=features,
        part="vgpu" if is_vgpu else "whole",
        units=query("nvmlDeviceGetNumGpuCores"),
        indices={"nvml": index},
    )
    mode = query("nvmlDeviceGetMigMode") or [0, 0]
    enabled, pending = mode[0] == 1, mode[-1] == 1
    instances = list(_describe_instances(system, gpu, index)) if enabled else []
    if query("nvmlDeviceGetComputeMode") == _COMPUTE_PROHIBITED:
        fix = f"sudo nvidia-smi -i {index} -c DEFAULT"
        reason = BlockReason(BlockCode.COMPUTE_PROHIBITED, "compute mode is Prohibited", fix)
        gpu = replace(gpu, blocked=reason)
    if enabled != pending:
        text = f"MIG mode will be {'enabled' if pending else 'disabled'} at the next GPU reset"
        gpu = replace(gpu, notes=(DeviceNote(NoteCode.MIG_PENDING, text),))
    if instances:
        text = f"partitioned into {pluralize(len(instances), 'MIG instance')}: use those instead"
        reason = BlockReason(BlockCode.MIG_PARENT, text, f"anyrig use {index}:0")
        gpu = replace(gpu, blocked=reason)
    elif enabled:
        fix = f"sudo nvidia-smi mig -i {index} -lgip"
        reason = BlockReason(BlockCode.MIG_EMPTY, "MIG mode is enabled but has no instance", fix)
        gpu = replace(gpu, blocked=reason)
    return [gpu, *instances]


def _read_pci(info: Any) -> tuple[str | None, str | None]:
    if not isinstance(info, dict):
        return None, None
    number = int(info.get("pciDeviceId", 0))
    pci_id = f"{number & 0xFFFF:04x}:{number >> 16:04x}" if number else None
    return normalize_pci_address(str(info.get("busId", ""))) or None, pci_id


def _read_memory(
    system: System, index: int, capability: Capability | None, system_memory: Memory
) -> Memory:
    try:
        answer, failure = system.nvml("nvmlDeviceGetMemoryInfo", str(index)), ""
    except Unavailable as error:
        answer, failure = None, f" (NVML: {error})"
    if capability in _INTEGRATED:
        note = f"shared with the system{failure}"
        return Memory("unified", system_memory.total_bytes, system_memory.free_bytes, note=note)
    if isinstance(answer, dict) and answer.get("total"):
        free = answer.get("free")
        return Memory("dedicated", int(answer["total"]), None if free is None else int(free))
    return Memory(note=f"NVML does not report this device's memory{failure}")


def _describe_instances(system: System, gpu: Device, index: int) -> Iterator[Device]:
    for number in range(int(_query(system, "mig", str(index)) or 0)):
        query = partial(_query, system, handle=f"{index}/{number}")
        info = query("nvmlDeviceGetMemoryInfo")
        memory = Memory(note="NVML does not report this instance's memory")
        if isinstance(info, dict):
            memory = Memory("dedicated", int(info["total"]), int(info["free"]))
        yield replace(
            gpu,
            id=str(query("nvmlDeviceGetUUID") or f"{gpu.id}/{number}"),
            name=str(query("nvmlDeviceGetName") or f"{gpu.name} MIG {number}"),
            memory=memory,
            part="mig",
            parent=gpu.id,
            units=None,
            indices={"nvml": index, "mig": number},
        )


def _describe_lost(
    system: System, cards: list[pci.Controller], errors: list[str], platform: Platform
) -> list[Device]:
    """Cards that NVML counts but cannot describe: off the bus, or in need of a reset."""
    reasons = [BlockReason(BlockCode.LOST, text, "sudo reboot") for text in errors]
    if cards:
        found = [_describe_without_nvml(system, c, Unavailable(""), platform) for c in cards]
        return [replace(d, blocked=r) for d, r in zip(found, reasons, strict=True)]
    return [
        Device(f"nvml-lost-{number}", "gpu", "nvidia", "unresponsive NVIDIA GPU", blocked=reason)
        for number, reason in enumerate(reasons)
    ]


def _describe_without_nvml(
    system: System, card: pci.Controller, error: Unavailable, platform: Platform
) -> Device:
    """A card on the bus that the driver does not answer for."""
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
        blocked=_driver_block(card, error, platform),
    )


def _driver_block(card: pci.Controller, error: Unavailable, platform: Platform) -> BlockReason:
    if card.driver in ("nouveau", "nova_core"):
        text = f"it uses the {card.driver} driver, which does not support CUDA"
        fix = f"{_driver_command(platform)} && sudo reboot"
        return BlockReason(BlockCode.WRONG_DRIVER, text, fix)
    block = card.driver_block("nvidia")
    if block and block.code is BlockCode.PASSED_THROUGH:
        return block
    missing = isinstance(error, NotFound)
    if missing and platform.container:
        text = f"the NVIDIA driver is not available in this {platform.container} container"
        fix = "docker run --gpus all ... (with nvidia-container-toolkit on the host)"
        return BlockReason(BlockCode.NOT_IN_CONTAINER, text, fix)
    text = f"the NVIDIA driver is not responding: {error}"
    fix = _driver_command(platform) if missing else _nvml_fix(error)
    return BlockReason(BlockCode.DRIVER_FAILED, text, fix)


def _driver_command(platform: Platform) -> str:
    if "Ubuntu" in platform.distribution:
        return "sudo ubuntu-drivers install"
    if "Debian" in platform.distribution:
        return "sudo apt install nvidia-driver"
    return "install the NVIDIA driver from your distribution"


# -- backends ------------------------------------------------------------------------------------

# Boards whose torch comes with JetPack: the wheels on the index for ARM are for servers.
_JETSON = frozenset({(5, 3), (6, 2), (7, 2), (8, 7)})
# Newest, and the last for CUDA 12 and for GPUs before Turing.
ONNX_RELEASES = (("onnxruntime-gpu", "1.31.1"), ("onnxruntime-gpu==1.26.0", "1.26.0"))
COMPUTE_FIX = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ..."


def list_backends(device: Device, host: HostFacts) -> list[DeviceBackend]:
    backends = [_torch_cuda(device, host), _onnx_cuda(device, host)]
    versions = host.installed.versions
    tensorrt = next((name for name in versions if name.startswith("tensorrt")), "")
    if tensorrt and backends[1].usable:
        selector = backends[1].selector.replace("cuda", "tensorrt", 1)
        reason = f"{backends[1].reason} with {tensorrt} {versions[tensorrt]}"
        provider = "TensorrtExecutionProvider"
        backends.append(DeviceBackend("onnx", selector, provider, True, reason))
    return backends


def lacks_compute(host: HostFacts) -> bool:
    """Whether the container was given the driver without CUDA."""
    given = host.driver_capabilities
    return bool(given) and {"compute", "all"}.isdisjoint(given.split(","))


def torch_fix(device: Device, host: HostFacts) -> str:
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
        return host.torch_command("'torch<2.12'", "cu128")
    if capability < (7, 5) or driver == 12:
        return host.torch_command("'torch<2.15'", "cu126")
    return host.torch_command("torch", "cu130")


def _torch_cuda(device: Device, host: HostFacts) -> DeviceBackend:
    torch, fix = host.installed.torch, torch_fix(device, host)
    cuda = partial(DeviceBackend, "torch", device.selector_for("cuda"), "cuda")
    if torch is None:
        return cuda(False, "torch is not installed", fix)
    if lacks_compute(host):
        return cuda(False, _no_compute_text(host), COMPUTE_FIX)
    if torch.flavour != "cuda":
        return cuda(False, f"{torch.title} was built without CUDA", fix)
    problem = _find_mismatch(device, host, torch.title, torch.runtime, torch.kernels)
    if problem:
        return cuda(False, problem, fix)
    if torch.kernels is None:
        return cuda(True, f"{torch.title}; run `anyrig doctor` to check its kernels")
    return cuda(True, torch.title)


def _onnx_cuda(device: Device, host: HostFacts) -> DeviceBackend:
    provider = "CUDAExecutionProvider"
    cuda = partial(DeviceBackend, "onnx", device.selector_for("cuda"), provider)
    package = host.installed.package_of(provider)
    if not package:
        return cuda(False, "onnxruntime-gpu is not installed", _onnx_fix(device, host))
    if lacks_compute(host):
        return cuda(False, _no_compute_text(host), COMPUTE_FIX)
    version = host.installed.versions[package]
    runtime, kernels = _onnx_build(host, version)
    problem = _find_mismatch(device, host, f"{package} {version}", runtime, kernels)
    if problem:
        return cuda(False, problem, _onnx_fix(device, host))
    return cuda(True, host.onnx_title(package))


def _no_compute_text(host: HostFacts) -> str:
    return f"NVIDIA_DRIVER_CAPABILITIES={host.driver_capabilities} excludes compute"


def _find_mismatch(
    device: Device, host: HostFacts, title: str, runtime: str, kernels: tuple[str, ...] | None
) -> str:
    """Why a build does not run on this driver or device; empty if it does."""
    # Any driver of a major version of CUDA runs all of that version.
    have, need = parse_version(host.cuda_driver), parse_version(runtime)
    if have and need and have[0] < need[0]:
        return f"the driver supports CUDA {host.cuda_driver}, {title} requires {runtime}"
    capability = parse_capability(device.capability)
    if capability and kernels is not None and not can_run(capability, kernels):
        return f"{title} has no kernels for compute capability {device.capability}"
    return ""


def _onnx_build(host: HostFacts, version: str) -> tuple[str, tuple[str, ...] | None]:
    windows = host.platform.system == "Windows"
    return wheels.onnx_gpu(version, arm=host.platform.is_arm, windows=windows)


def _onnx_fix(device: Device, host: HostFacts) -> str:
    """Install the newest release that runs on this driver and device, if there is one."""
    for requirement, version in ONNX_RELEASES:
        runtime, kernels = _onnx_build(host, version)
        if kernels and not _find_mismatch(device, host, requirement, runtime, kernels):
            return host.onnx_command(requirement)
    return ""
