"""NVIDIA: devices through NVML, the compute capability table, CUDA through torch and ONNX Runtime,
what the doctor checks.

Capabilities and names: NVIDIA's list of CUDA GPUs. fp16, TF32, bf16, FP8, FP4 by capability: CUDA
programming guide (arithmetic throughput, tensor-core input types). A capability that is not in the
table is unknown; it is not guessed from its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from anyrig.devices import pci
from anyrig.devices.findings import Findings, broken, good, title_of, warning
from anyrig.devices.machine import (
    ONE_PROCESS,
    Device,
    DeviceBackend,
    DeviceNote,
    Features,
    HostFacts,
    Machine,
    Memory,
    Platform,
    SourceReport,
    SourceState,
)
from anyrig.devices.probe import PYNVML_MISSING, HostProbe, NotFound, Unavailable
from anyrig.devices.reasons import DeviceReason, ReasonCode, explain
from anyrig.devices.vendor import AdapterFacts, FlashAdvice, TorchWheel, Vendor, VisibleOrder
from anyrig.devices.wheels import Version, parse_version
from anyrig.install import format_install
from anyrig.units import is_whole_number, normalize_pci_address, pluralize

NAME = "nvidia"
Capability = tuple[int, int]
_PCI_VENDOR = 0x10DE
_CUDA_DRIVER = "cuda_driver"
"""The fact: the newest CUDA that the driver supports, such as `12.4`."""
_MIG_PENDING = "mig_pending"

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
_TEGRA = {
    "tegra210": ("Tegra X1", (5, 3)),
    "tegra186": ("Tegra X2", (6, 2)),
    "tegra194": ("Xavier", (7, 2)),
    "tegra234": ("Orin", (8, 7)),
    "tegra264": ("Thor", (11, 0)),
}
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

_NOT_LISTED = "NOT_LISTED"
_COMPUTE_PROHIBITED = 2  # NVML_COMPUTEMODE_PROHIBITED
_COMPUTE_EXCLUSIVE = (1, 3)  # NVML_COMPUTEMODE_EXCLUSIVE_THREAD (removed) and _PROCESS
_VGPU_GUEST = 2  # NVML_GPU_VIRTUALIZATION_MODE_VGPU
_KERNEL_LOG = "nvidia-smi; sudo dmesg | grep -i nvrm"
_DRIVER_FIXES = {
    "NVML_ERROR_DRIVER_NOT_LOADED": "sudo modprobe nvidia",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "sudo reboot",
    "NVML_ERROR_NO_PERMISSION": "ls -l /dev/nvidia*",
    "NVML_ERROR_GPU_IS_LOST": "sudo reboot",
    "NVML_ERROR_TIMEOUT": "sudo reboot",
    "NVML_ERROR_IRQ_ISSUE": "sudo reboot",
    "NVML_ERROR_RESET_REQUIRED": "sudo nvidia-smi --gpu-reset",
}
# What NVML answers for a GPU that has fallen off the bus or stopped.
_LOST = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED")


def _is_missing(error: Unavailable) -> bool:
    """Whether the driver's library is not installed, rather than failing."""
    # On Windows pynvml itself looks for the library, and reports an NVML error.
    return isinstance(error, NotFound) or error.code == "NVML_ERROR_LIBRARY_NOT_FOUND"


def _driver_fix(error: Unavailable, platform: Platform) -> str:
    """What makes the driver work on this system."""
    if error.code == PYNVML_MISSING:
        return format_install("nvidia-ml-py")
    if platform.container:
        if _is_missing(error):
            return "docker run --gpus all ... (with nvidia-container-toolkit on the host)"
        return "restart the container; if that does not help, run nvidia-smi on its host"
    if platform.wsl:
        return "docs/troubleshooting.md#wsl2"
    if platform.system == "Windows":
        return "install the NVIDIA driver: https://www.nvidia.com/drivers"
    if not _is_missing(error):
        return _DRIVER_FIXES.get(error.code, _KERNEL_LOG)
    if "Ubuntu" in platform.distribution:
        return "sudo ubuntu-drivers install"
    if "Debian" in platform.distribution:
        return "sudo apt install nvidia-driver"
    return "install the NVIDIA driver from your distribution"


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
        notes.append(DeviceNote(_MIG_PENDING, text))
    compute_mode = query("nvmlDeviceGetComputeMode")
    if compute_mode in _COMPUTE_EXCLUSIVE:
        text = "compute mode is Exclusive_Process: one process at a time"
        notes.append(DeviceNote(ONE_PROCESS, text))
    blocked = None
    if num_instances:
        instances = pluralize(num_instances, "MIG instance")
        blocked = explain(ReasonCode.MIG_PARENT, f"anyrig use {index}:0", instances=instances)
    elif enabled:
        blocked = explain(ReasonCode.MIG_EMPTY, f"sudo nvidia-smi mig -i {index} -lgip")
    elif compute_mode == _COMPUTE_PROHIBITED:
        blocked = explain(ReasonCode.COMPUTE_PROHIBITED, _reset_compute_mode(index))
    gpu = Device(
        id=str(query("nvmlDeviceGetUUID") or address or f"nvml-{index}"),
        kind="gpu",
        vendor=NAME,
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


def _reset_compute_mode(index: int) -> str:
    return f"sudo nvidia-smi -i {index} -c DEFAULT"


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


def _describe_jetson(system: HostProbe, memory: Memory) -> Iterator[Device]:
    """The GPU of a Jetson: before JetPack 6 it has no NVML, and none of them is on the bus."""
    compatible = system.read_text("/sys/firmware/devicetree/base/compatible")
    found = re.search(r"nvidia,(tegra\d+)", compatible)
    if not found or found[1] not in _TEGRA:
        return
    name, capability = _TEGRA[found[1]]
    architecture, features = describe_capability(capability, name)
    release = re.search(r"R(\d+).*?REVISION: ([\d.]+)", system.read_text("/etc/nv_tegra_release"))
    yield Device(
        id=found[1],
        kind="gpu",
        vendor=NAME,
        name=f"NVIDIA {name}",
        architecture=architecture,
        capability=f"{capability[0]}.{capability[1]}",
        memory=replace(memory, kind="unified", note="shared with the system"),
        driver="nvgpu",
        driver_version=f"L4T {release[1]}.{release[2]}" if release else None,
        features=features,
    )


def _describe_card(system: HostProbe, card: pci.PciDevice, blocked: DeviceReason) -> Device:
    """A card on the bus that NVML does not describe."""
    listed = system.hardware_name("pci", card.pci_id)
    title = listed.partition("[")[2].rstrip("]") or listed
    chip = listed[:2] if listed[2:5].isalnum() and listed[2:3].isdigit() else ""
    return Device(
        id=card.address,
        kind="gpu",
        vendor=NAME,
        name=f"NVIDIA {title}" if title else f"NVIDIA GPU {card.pci_id}",
        architecture=_CHIPS.get(chip),
        memory=Memory(note="unknown without a driver"),
        driver=card.driver or None,
        pci_address=card.address,
        pci_id=card.pci_id,
        hardware_block=blocked,
    )


def _driver_block(card: pci.PciDevice, error: Unavailable, platform: Platform) -> DeviceReason:
    """Why NVML does not describe a card on the bus."""
    fix = _driver_fix(error, platform)
    if card.driver in ("nouveau", "nova_core"):
        install = _driver_fix(NotFound("driver"), platform)
        then = " && sudo reboot" if install.startswith("sudo ") else ", then reboot"
        fix = install + then
        return explain(ReasonCode.WRONG_DRIVER, fix, driver=card.driver, feature="CUDA")
    if card.driver == "vfio-pci":
        return explain(ReasonCode.PASSED_THROUGH)
    if error.code == PYNVML_MISSING:
        return explain(ReasonCode.NOT_INSTALLED, fix, package="nvidia-ml-py")
    if error.code == _NOT_LISTED:
        return explain(ReasonCode.NOT_IN_NVML, _KERNEL_LOG)
    if _is_missing(error) and platform.container:
        return explain(ReasonCode.DRIVER_NOT_IN_CONTAINER, fix, container=platform.container)
    if _is_missing(error) and not card.driver:
        return explain(ReasonCode.NO_DRIVER, fix)
    return explain(ReasonCode.DRIVER_FAILED, fix, error=error)


def _check_answers(system: HostProbe, index: int) -> None:
    """Raise if a GPU does not answer: NVML still lists one that has fallen off the bus."""
    handle = str(index)
    if _query(system, "nvmlDeviceGetUUID", handle) is None:
        system.nvml("nvmlDeviceGetName", handle)
    for function in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability"):
        try:
            system.nvml(function, handle)
        except Unavailable as error:
            if error.code in _LOST:
                raise


# -- the order of CUDA ----------------------------------------------------------------------------


def _cuda_order(devices: Sequence[Device], rule: str) -> list[Device]:
    """By PCI address, or the fastest first."""
    by_address = sorted(devices, key=lambda d: (d.indices.get("nvml", 0), d.indices.get("mig", -1)))
    if rule == "PCI_BUS_ID":
        return by_address
    # Stable: equal GPUs keep their address order, as in CUDA. MIG instances come last.
    return sorted(by_address, key=lambda d: (d.part == "mig", *_slowness(d)))


def _slowness(device: Device) -> tuple[float, float]:
    capability = parse_capability(device.capability) or (0, 0)
    generation = capability[0] + capability[1] / 10
    return (-(device.units or 0) * max(1.0, generation), -generation)


def _cuda_visible(order: Sequence[Device], value: str) -> list[Device]:
    """What CUDA_VISIBLE_DEVICES leaves, in its order.

    Entries are indices, UUIDs or MIG ids, or unambiguous beginnings of them. The first entry that
    matches nothing ends the list, and a repeated one empties it: that is CUDA's rule.
    """
    visible: list[Device] = []
    for entry in (part.strip() for part in value.split(",")):
        device = _cuda_entry(order, entry)
        if device is None:
            break
        if device in visible:
            return []
        visible.append(device)
    return visible


def _cuda_entry(order: Sequence[Device], entry: str) -> Device | None:
    if is_whole_number(entry):
        # Indices count whole GPUs; a GPU in MIG mode is not among them.
        whole = [device for device in order if device.part != "mig"]
        if not whole:
            # Only cards in MIG mode: an index means a card's first instance.
            first = {device.parent: device for device in reversed(order)}
            whole = [first[parent] for parent in dict.fromkeys(d.parent for d in order)]
        return whole[int(entry)] if int(entry) < len(whole) else None
    if entry.startswith("MIG-GPU-"):
        # `MIG-GPU-<uuid>/<gpu instance>/<compute instance>`, the form before driver 470.
        return next((device for device in order if device.id.lower() == entry.lower()), None)
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    matches = [device for device in order if device.id.lower().startswith(entry.lower())]
    return matches[0] if len(matches) == 1 else None


# -- kernels in wheels ---------------------------------------------------------------------------

# First CUDA version and torch version of a row, to what Linux x86_64 wheels hold.
_MAXWELL_ON = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"
_VOLTA_ON = "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
_TURING_ON = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
_LINUX: tuple[tuple[Version, Version, Version, str], ...] = (
    # CUDA, first torch, last torch, kernels
    ((11, 7), (2, 0), (2, 0), "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86"),
    ((11, 8), (2, 0), (2, 7), f"sm_37 {_MAXWELL_ON}"),
    ((12, 1), (2, 1), (2, 5), _MAXWELL_ON),
    ((12, 4), (2, 4), (2, 6), _MAXWELL_ON),
    ((12, 6), (2, 6), (2, 14), _MAXWELL_ON),
    ((12, 8), (2, 7), (2, 7), _TURING_ON),
    ((12, 8), (2, 8), (2, 10), _VOLTA_ON),
    ((12, 8), (2, 11), (2, 11), _TURING_ON),
    ((12, 9), (2, 8), (2, 10), _VOLTA_ON),
    ((12, 9), (2, 11), (2, 13), _TURING_ON),
    ((13, 0), (2, 9), (2, 15), _TURING_ON),
    ((13, 2), (2, 12), (2, 15), _TURING_ON),
)
_ARM: tuple[tuple[Version, Version, Version, str], ...] = (
    ((12, 6), (2, 9), (2, 14), "sm_80 sm_90"),
    ((12, 8), (2, 7), (2, 7), "sm_90 sm_100 sm_120"),
    ((12, 8), (2, 9), (2, 11), "sm_80 sm_90 sm_100 sm_120"),
    ((12, 9), (2, 8), (2, 13), "sm_80 sm_90 sm_100 sm_120"),
    ((13, 0), (2, 9), (2, 15), "sm_80 sm_90 sm_100 sm_110 sm_120"),
    ((13, 2), (2, 12), (2, 15), "sm_80 sm_90 sm_100 sm_110 sm_120"),
)
_WINDOWS: tuple[tuple[Version, Version, Version, str], ...] = (
    ((11, 8), (2, 0), (2, 7), f"sm_37 sm_61 {_MAXWELL_ON}"),
    ((12, 1), (2, 1), (2, 5), f"sm_61 {_MAXWELL_ON}"),
    ((12, 4), (2, 4), (2, 6), f"sm_61 {_MAXWELL_ON}"),
    ((12, 6), (2, 6), (2, 14), f"sm_61 {_MAXWELL_ON}"),
    ((12, 8), (2, 8), (2, 10), _VOLTA_ON),
    ((12, 8), (2, 11), (2, 11), _TURING_ON),
    ((13, 0), (2, 9), (2, 15), _TURING_ON),
    ((13, 2), (2, 12), (2, 15), _TURING_ON),
)
# onnxruntime-gpu from this version on: CUDA, then kernels on Linux x86_64, Windows, Linux aarch64.
_ONNX_GPU: tuple[tuple[Version, str, str, str, str], ...] = (
    ((1, 18), "11.8", "", "", ""),
    ((1, 19), "12.2", "", "", ""),
    ((1, 21), "12.2", "sm_60 sm_70 sm_75 sm_80 sm_86 sm_90 compute_90",
     "sm_52 sm_61 sm_75 sm_86 sm_89 compute_90", ""),
    ((1, 24), "12.8", "sm_60 sm_70 sm_75 sm_80 sm_86 sm_90 compute_90",
     "sm_52 sm_61 sm_75 sm_86 sm_89 compute_90", ""),
    ((1, 27), "13.0", "", "", ""),
    ((1, 29), "13.0", "sm_75 sm_80 sm_86 sm_89 sm_90 sm_120",
     "sm_75 sm_80 sm_86 sm_89 sm_90 sm_120", "sm_89 sm_90 sm_120 sm_121"),
)  # fmt: skip
_NEWEST_ONNX = (1, 31)


def list_cuda_kernels(torch: str, cuda: str, *, arm: bool, windows: bool) -> tuple[str, ...] | None:
    """The sm_ names in torch's wheel of that version and CUDA; None if not listed."""
    built, runtime = parse_version(torch), parse_version(cuda)
    table = _ARM if arm else _WINDOWS if windows else _LINUX
    for row_cuda, first, last, kernels in table:
        if runtime == row_cuda and built is not None and first <= built <= last:
            return tuple(sorted(kernels.split(), key=lambda name: int(name[3:])))
    return None


def find_onnx_gpu_build(
    onnxruntime: str, *, arm: bool, windows: bool
) -> tuple[str, tuple[str, ...] | None]:
    """The CUDA that onnxruntime-gpu requires, and its kernels if known."""
    built = parse_version(onnxruntime)
    rows = [row for row in _ONNX_GPU if built is not None and row[0] <= built]
    if not rows or built is None or built > _NEWEST_ONNX:
        return "", None
    _, cuda, on_linux, on_windows, on_arm = rows[-1]
    kernels = on_arm if arm else on_windows if windows else on_linux
    return cuda, tuple(kernels.split()) or None


# -- backends ------------------------------------------------------------------------------------

# Boards whose torch comes with JetPack: the wheels on the index for ARM are for servers.
_JETSON = frozenset({(5, 3), (6, 2), (7, 2), (8, 7)})
# The CUDA of the wheels for Linux on x86_64 that the package index has.
_USUAL_CUDA: dict[Version, Version] = {
    (2, 6): (12, 4), (2, 7): (12, 6), (2, 8): (12, 8), (2, 9): (12, 8),
}  # fmt: skip
# Newest, and the last for CUDA 12 and for GPUs before Turing.
ONNX_RELEASES = (("onnxruntime-gpu", "1.31.1"), ("onnxruntime-gpu==1.26.0", "1.26.0"))


def compute_block(host: HostFacts) -> DeviceReason | None:
    """The container was given the driver without CUDA."""
    given = host.environment.get("NVIDIA_DRIVER_CAPABILITIES", "")
    if not given or not {"compute", "all"}.isdisjoint(given.split(",")):
        return None
    fix = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ..."
    return explain(ReasonCode.NO_COMPUTE, fix, setting=f"NVIDIA_DRIVER_CAPABILITIES={given}")


def _torch_block(device: Device, host: HostFacts) -> DeviceReason | None:
    torch, fix = host.installed.torch, VENDOR.find_torch_fix(device, host)
    if torch is None:
        if not fix:
            return _wheel_block(device, "torch")
        return host.torch_block(VENDOR.torch_flavour, VENDOR.torch_title, fix)
    return (
        compute_block(host)
        or host.torch_block(VENDOR.torch_flavour, VENDOR.torch_title, fix)
        or _build_block(device, host, fix, torch.title, torch.runtime, torch.kernels)
    )


def _onnx_cuda(device: Device, host: HostFacts, selector: str) -> DeviceBackend:
    provider, fix = "CUDAExecutionProvider", ""
    # The newest release that runs on this driver and device, if there is one.
    for requirement, version in reversed(ONNX_RELEASES):
        runtime, kernels = _onnx_build(host, version)
        if kernels and not _build_block(device, host, "", "", runtime, kernels):
            fix = host.onnx_command(requirement)
        elif kernels and VENDOR.has_kernels(device, kernels) and not fix:
            fix = _find_driver_update(device, host)
    package, blocked = host.installed.package_of(provider), None
    if not package and not fix and device.capability:
        blocked = _wheel_block(device, "onnxruntime-gpu")
        return DeviceBackend("onnx", selector, provider, blocked=blocked)
    if package:
        version = host.installed.versions[package]
        runtime, kernels = _onnx_build(host, version)
        blocked = compute_block(host) or _build_block(
            device, host, fix, f"{package} {version}", runtime, kernels
        )
    return host.onnx_backend(selector, provider, "onnxruntime-gpu", fix, blocked)


def _wheel_block(device: Device, package: str) -> DeviceReason:
    return explain(ReasonCode.NO_WHEEL, package=package, platform=device.capability_title)


def _onnx_build(host: HostFacts, version: str) -> tuple[str, tuple[str, ...] | None]:
    windows = host.platform.system == "Windows"
    return find_onnx_gpu_build(version, arm=host.platform.is_arm, windows=windows)


def _find_driver_update(device: Device, host: HostFacts) -> str:
    """What to do if the driver supports no CUDA that wheels are built with."""
    if not driver_is_too_old(host, "12.0"):
        return ""
    last = (parse_capability(device.capability) or (8, 0)) < (7, 5)
    return (
        f"update the NVIDIA driver to {'580, the last for this card' if last else '580 or newer'}"
    )


def driver_is_too_old(host: HostFacts, runtime: str) -> bool:
    """Any driver of a major version of CUDA runs all of that version."""
    have, need = parse_version(host.facts.get(_CUDA_DRIVER, "")), parse_version(runtime)
    return have is not None and need is not None and have[0] < need[0]


def _build_block(
    device: Device,
    host: HostFacts,
    fix: str,
    package: str,
    runtime: str,
    kernels: tuple[str, ...] | None,
) -> DeviceReason | None:
    """Why a build does not run on this driver or device."""
    runs = VENDOR.has_kernels(device, kernels)
    # Without a wheel for the card, a newer driver is no help.
    if driver_is_too_old(host, runtime) and (runs or fix):
        code = ReasonCode.DRIVER_TOO_OLD
        return explain(
            code, fix, supported=host.facts.get(_CUDA_DRIVER, ""), package=package, required=runtime
        )
    if not runs:
        capability = device.capability_title
        return explain(ReasonCode.NO_KERNELS, fix, package=package, capability=capability)
    return None


# -- checks of the doctor ------------------------------------------------------------------------


def _in_nvml(gpu: Device) -> bool:
    """Not so if only the bus or DirectX lists it."""
    return "nvml" in gpu.indices


def _is_working(gpu: Device) -> bool:
    """Whether the driver drives it: a Jetson's has no NVML."""
    return _in_nvml(gpu) or (gpu.hardware_block is None and not gpu.notes)


def _check_driver(machine: Machine) -> Findings:
    """The driver works for every card on the bus."""
    report = next((r for r in machine.sources if r.source == NAME), None)
    gpus = list(machine.gpus_of(NAME))
    for gpu in gpus:
        if _is_working(gpu) or _is_outside(gpu):
            continue  # or explained by `nvidia-container`
        reasons = [str(gpu.hardware_block)] if gpu.hardware_block else []
        reasons += [note.message for note in gpu.notes]
        text = f"{title_of(gpu)}: {'; '.join(reasons)}"
        fix = (gpu.hardware_block.fix if gpu.hardware_block else "") or (
            report.fix if report else ""
        )
        # If DirectX or the registry lists it while NVML does not, it may work all the same.
        make = warning if gpu.notes else broken
        yield make(text, fix or _KERNEL_LOG, gpu)
    working = [gpu for gpu in gpus if _is_working(gpu)]
    if working:
        cuda = machine.host.facts.get(_CUDA_DRIVER, "")
        version = working[0].driver_version or "of unknown version"
        yield good(f"driver {version}" + (f" supports CUDA up to {cuda}" if cuda else ""))
    elif not gpus and report and report.state == "failed":
        text = f"the NVIDIA driver library is installed but fails to start: {report.reason}"
        make = broken if machine.platform.container else warning
        yield make(text, report.fix)


def _is_outside(gpu: Device) -> bool:
    """Whether a container shows the host's card but not the host's driver."""
    return (
        gpu.hardware_block is not None
        and gpu.hardware_block.code is ReasonCode.DRIVER_NOT_IN_CONTAINER
    )


def _check_container(machine: Machine) -> Findings:
    if not machine.platform.container:
        return
    visible = machine.host.environment.get("NVIDIA_VISIBLE_DEVICES", "")
    outside = [gpu for gpu in machine.gpus_of(NAME) if _is_outside(gpu)]
    for gpu in outside:
        if gpu.hardware_block:
            yield broken(f"{title_of(gpu)}: {gpu.hardware_block}", gpu.hardware_block.fix, gpu)
    if outside:
        return
    if visible in ("void", "none"):
        text = f"NVIDIA_VISIBLE_DEVICES={visible} excludes all GPUs from this container"
        yield warning(text, "docker run --gpus all ...")
    elif any(_in_nvml(gpu) for gpu in machine.gpus_of(NAME)):
        if blocked := compute_block(machine.host):
            yield broken(blocked.message, blocked.fix)
        else:
            yield good("the GPU is mapped into the container")


def _check_cuda_runtime(machine: Machine) -> Findings:
    """The driver is new enough for torch's CUDA."""
    torch, have = machine.host.installed.torch, machine.host.facts.get(_CUDA_DRIVER, "")
    if torch is None or torch.flavour != VENDOR.torch_flavour or not have or not torch.runtime:
        return
    need = torch.runtime
    if driver_is_too_old(machine.host, need):
        gpus = [gpu for gpu in machine.gpus_of(NAME) if gpu.capability]
        fix = next(filter(None, (VENDOR.find_torch_fix(gpu, machine.host) for gpu in gpus)), "")
        if gpus and not fix:
            return  # no wheel supports these cards, whatever the driver: see `torch-kernels`
        text = f"torch was built with CUDA {need}, the driver supports CUDA {have} at most"
        yield broken(text, fix or "update the NVIDIA driver")
    else:
        yield good(f"torch's CUDA {need} works with a driver for CUDA {have}")


def _check_parts(machine: Machine) -> Findings:
    """MIG instances and compute modes."""
    for gpu in machine.gpus_of(NAME):
        for note in gpu.notes:
            if note.code == _MIG_PENDING:
                fix = f"sudo nvidia-smi --gpu-reset -i {gpu.indices.get('nvml', 0)}"
                yield warning(f"{title_of(gpu)}: {note.message}", fix, gpu)
            elif note.code == ONE_PROCESS:
                fix = _reset_compute_mode(gpu.indices["nvml"])
                yield warning(f"{title_of(gpu)}: {note.message}", fix, gpu)
        if gpu.hardware_block is None:
            continue
        text = f"{title_of(gpu)}: {gpu.hardware_block}"
        if gpu.hardware_block.code is ReasonCode.MIG_PARENT:
            yield good(text, device=gpu)
        elif gpu.hardware_block.code in (ReasonCode.MIG_EMPTY, ReasonCode.COMPUTE_PROHIBITED):
            yield broken(text, gpu.hardware_block.fix, gpu)


def _check_memory_fallback(machine: Machine) -> Findings:
    """NVIDIA's Windows driver may use system memory instead of reporting out-of-memory."""
    if machine.platform.system != "Windows" and machine.platform.wsl != 2:
        return
    if any(gpu.usable for gpu in machine.gpus_of(NAME)):
        text = "a full GPU spills into system memory instead of failing, and becomes slow"
        fix = "NVIDIA Control Panel: CUDA - Sysmem Fallback Policy: Prefer No Sysmem Fallback"
        yield warning(text, fix)


def _check_windows(machine: Machine) -> Findings:
    """WSL2 can do more with the same card and driver."""
    if machine.platform.system != "Windows":
        return
    cards = [gpu for gpu in machine.gpus_of(NAME) if _in_nvml(gpu)]
    if sum(gpu.usable for gpu in cards) > 1:
        text = "training on several GPUs needs NCCL, which is not built for Windows: use WSL2"
        yield warning(f"{text}, which uses the installed driver", "wsl --install")
    elif cards:
        text = "the FlashAttention package and NCCL are not built for Windows: WSL2 has both"
        yield good(f"{text} and uses the installed driver", fix="wsl --install")


# flash-attn has kernels for 12.x from this release on.
_FIRST_FOR_RTX_BLACKWELL = (2, 8, 3, 1)
# Packages of FlashAttention 2, 3 and 4, with the major capabilities that each has kernels for.
_FLASH_PACKAGES = {
    "flash-attn": (8, 9, 10, 11, 12), "flash-attn-3": (8, 9), "flash-attn-4": (8, 9, 10, 11, 12),
}  # fmt: skip
_FLASH_BLACKWELL = "FlashAttention 2 is in torch's SDPA; 4 is the beta flash-attn-4; 3 does not run"
_FLASH_ADVICE = {
    8: "FlashAttention 2 is in torch's SDPA; the package is built from source",
    9: "FlashAttention 2 is in torch's SDPA; 3 is built from source (hopper/), 4 is the beta"
    " flash-attn-4",
    10: _FLASH_BLACKWELL,
    11: _FLASH_BLACKWELL,
    12: "FlashAttention 2 runs (package from 2.8.3.post1); 3 does not; 4 is the beta flash-attn-4",
}


# -- the vendor ----------------------------------------------------------------------------------


class Nvidia(Vendor):
    name = NAME
    title = "NVIDIA"
    pci_vendors = (_PCI_VENDOR,)
    found_on = ("Linux", "Windows", "other")
    device_nodes = ("/dev/nvidiactl", "/dev/nvidia0")
    libraries = {"cuda": "CUDA device", "tensorrt": "TensorRT device"}
    synonyms = {"trt": "tensorrt"}
    visibility_variables = ("CUDA_VISIBLE_DEVICES",)
    other_variables = (
        "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
        "CUDA_LAUNCH_BLOCKING", "TORCH_CUDNN_V8_API_ENABLED", "TORCH_CUDA_ARCH_LIST",
        "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING",
    )  # fmt: skip
    packages = (
        "tensorrt", "tensorrt-cu12", "tensorrt-cu13", "nvidia-ml-py", "pynvml", "flash-attn-3",
        "flash-attn-4",
    )  # fmt: skip
    onnx_packages = {"onnxruntime-gpu": ("CUDAExecutionProvider", "TensorrtExecutionProvider")}
    torch_flavour = "cuda"
    torch_title = "CUDA"
    torch_device = "cuda:0"
    torch_tag = re.compile(r"cu(\d+)(\d)")
    allocator_variables = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    wsl_advice = "NVIDIA GPUs use the Windows driver: never install a Linux driver inside WSL"
    obsolete_packages = {
        "pynvml": (
            "the package pynvml is deprecated in favour of nvidia-ml-py",
            format_install("nvidia-ml-py", options="--force-reinstall", uninstall=["pynvml"]),
        )
    }
    checks = {
        "wsl": _check_windows,
        "nvidia-driver": _check_driver,
        "nvidia-container": _check_container,
        "cuda-runtime": _check_cuda_runtime,
        "nvidia-parts": _check_parts,
        "sysmem-fallback": _check_memory_fallback,
    }
    explaining_checks = ("nvidia-driver", "nvidia-container", "cuda-runtime", "nvidia-parts")

    def find_devices(
        self,
        system: HostProbe,
        pci_devices: tuple[pci.PciDevice, ...],
        memory: Memory,
        platform: Platform,
    ) -> tuple[list[Device], SourceReport]:
        """Every NVIDIA device, usable or not, and what NVML reported.

        The PCI bus shows cards that NVML does not list; systems on a chip share the machine's
        memory.
        """
        cards = [c for c in pci_devices if c.vendor == _PCI_VENDOR]
        try:
            system.nvml("nvmlInit")
            driver = str(_query(system, "nvmlSystemGetDriverVersion") or "") or None
            count = int(system.nvml("nvmlDeviceGetCount"))
        except Unavailable as error:
            blocked = [_describe_card(system, c, _driver_block(c, error, platform)) for c in cards]
            jetson = [] if cards else list(_describe_jetson(system, memory))
            if jetson:
                return jetson, SourceReport(NAME, "found", f"{jetson[0].name}, without NVML")
            state: SourceState = "nothing" if _is_missing(error) and not cards else "failed"
            return blocked, SourceReport(NAME, state, str(error), _driver_fix(error, platform))
        devices: list[Device] = []
        lost: list[DeviceReason] = []
        for index in range(count):
            try:
                _check_answers(system, index)
                devices += _describe(system, index, driver, memory)
            except Unavailable as error:
                fix = _driver_fix(error, platform)
                fix = "sudo reboot" if fix == _KERNEL_LOG else fix
                lost.append(explain(ReasonCode.LOST, fix, index=index, error=error))
        listed = {device.pci_address for device in devices}
        unlisted = [card for card in cards if card.address not in listed]
        report = f"driver {driver or 'of unknown version'}, {pluralize(count, 'GPU')} in NVML"
        if lost:
            report += f"; {pluralize(len(lost), 'GPU')} {lost[0]}"
            # Cards bound to NVIDIA's driver that NVML does not describe are the lost ones, if their
            # number matches.
            bound = [card for card in unlisted if card.driver in ("nvidia", "")]
            if len(bound) == len(lost):
                devices += [_describe_card(system, c, r) for c, r in zip(bound, lost, strict=True)]
                unlisted = [card for card in unlisted if card not in bound]
            else:
                name = "unresponsive NVIDIA GPU"
                devices += [
                    Device(f"nvml-lost-{number}", "gpu", NAME, name, hardware_block=reason)
                    for number, reason in enumerate(lost)
                ]
        if unlisted and platform.container:
            # The bus shows all cards of the host, NVML only those of the container.
            report += f"; {pluralize(len(unlisted), 'more card')} of the host not in this container"
        else:
            problem = Unavailable("NVML does not list this PCI device", _NOT_LISTED)
            devices += [
                _describe_card(system, card, _driver_block(card, problem, platform))
                for card in unlisted
            ]
        if any("nvml" not in device.indices for device in devices):
            devices.sort(key=lambda device: device.pci_address or "")  # NVML's order
        return devices, SourceReport(NAME, "found" if devices else "nothing", report)

    def describe_adapter(self, pci_device: int) -> AdapterFacts:
        # NVML describes NVIDIA's cards: something is wrong with one that DirectX alone lists.
        return AdapterFacts(note=DeviceNote(_NOT_LISTED, "NVML does not list it"))

    def read_facts(self, system: HostProbe) -> Mapping[str, str]:
        version = _query(system, "nvmlSystemGetCudaDriverVersion")
        cuda = f"{int(version) // 1000}.{int(version) % 1000 // 10}" if version else ""
        module = system.read_text("/proc/driver/nvidia/version").partition("\n")[0]
        return {_CUDA_DRIVER: cuda, "nvidia_module": module}

    def find_order(self, devices: list[Device], environment: Mapping[str, str]) -> VisibleOrder:
        order = _cuda_order(devices, environment.get("CUDA_DEVICE_ORDER", ""))
        value = environment.get("CUDA_VISIBLE_DEVICES")
        if value is None:
            return VisibleOrder("cuda", order, order)
        visible = _cuda_visible(order, value)
        return VisibleOrder("cuda", order, visible, self.visibility_variables)

    def read_torch_runtime(self, facts: Mapping[str, str], tag: str, system: str) -> str | None:
        found = self.torch_tag.fullmatch(tag)
        return facts.get("cuda") or (f"{found[1]}.{found[2]}" if found else None)

    def list_torch_kernels(
        self, torch: str, runtime: str, platform: Platform
    ) -> tuple[str, ...] | None:
        windows = platform.system == "Windows"
        return list_cuda_kernels(torch, runtime, arm=platform.is_arm, windows=windows)

    def list_backends(self, device: Device, host: HostFacts) -> list[DeviceBackend]:
        selector, torch = device.selector_for("cuda"), host.installed.torch
        if device.has_note(_NOT_LISTED) and not host.facts.get(_CUDA_DRIVER):
            fix = _driver_fix(Unavailable("", "NVML_ERROR_LIBRARY_NOT_FOUND"), host.platform)
            blocked = explain(ReasonCode.NOT_IN_NVML, fix)
            return [
                DeviceBackend("torch", selector, "cuda", blocked=blocked),
                DeviceBackend("onnx", selector, "CUDAExecutionProvider", blocked=blocked),
            ]
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

    def find_torch_fix(self, device: Device, host: HostFacts) -> str:
        """The command that installs a torch for this device and its driver, if there is one.

        CUDA 12.6 builds end with torch 2.14 and are the last with Maxwell, Pascal and Volta;
        CUDA 12.8 builds, the only ones for Blackwell on a driver of CUDA 12, end with 2.11.
        """
        capability = parse_capability(device.capability) or (8, 0)
        arm = host.platform.is_arm
        if arm and capability in _JETSON:
            return "install torch from NVIDIA JetPack"
        if capability < ((8, 0) if arm else (5, 0)):
            return ""  # no official wheel has kernels for it
        if update := _find_driver_update(device, host):
            return update
        driver = (parse_version(host.facts.get(_CUDA_DRIVER, "")) or (13, 0))[0]
        if capability >= (10, 0) and driver == 12:
            return host.torch_command("torch<2.12", "cu128")
        if capability < (7, 5) or driver == 12:
            return host.torch_command("torch<2.15", "cu126")
        return host.torch_command("torch", "cu130")

    def find_torch_wheel(self, device: Device, host: HostFacts, torch: str) -> TorchWheel | None:
        """The wheel on the package index if the driver and the device run it, else another."""
        platform, capability = host.platform, parse_capability(device.capability)
        if platform.is_arm and capability in _JETSON:
            return None
        usual = _USUAL_CUDA.get(parse_version(torch) or (0, 0))
        versions = {row[0] for row in (*_LINUX, *_ARM, *_WINDOWS)}
        for cuda in sorted(versions, key=lambda one: (one == usual, one), reverse=True):
            runtime = f"{cuda[0]}.{cuda[1]}"
            kernels = self.list_torch_kernels(torch, runtime, platform)
            if kernels and not _build_block(device, host, "", "", runtime, kernels):
                is_plain = cuda == usual and platform.system == "Linux" and not platform.is_arm
                return TorchWheel(self.torch_flavour, "" if is_plain else f"cu{cuda[0]}{cuda[1]}")
        return None

    def has_kernels(self, device: Device, kernels: tuple[str, ...] | None) -> bool:
        """Whether a build runs on the device; one that is not listed may."""
        capability = parse_capability(device.capability)
        return capability is None or kernels is None or can_run(capability, kernels)

    def advise_flash_attention(self, device: Device) -> FlashAdvice | None:
        capability = parse_capability(device.capability) or (0, 0)
        if capability < (7, 5):
            return FlashAdvice("no FlashAttention: torch's SDPA uses its plain kernels")
        if capability < (8, 0):
            text = "no FlashAttention for Turing: torch's SDPA uses memory-efficient attention"
            return FlashAdvice(text)
        if capability[0] not in _FLASH_ADVICE:
            return FlashAdvice("whether FlashAttention runs on it is unknown: use torch's SDPA")
        command = format_install("flash-attn", options="--no-build-isolation")
        command = f'TORCH_CUDA_ARCH_LIST="{device.capability}" {command}'
        return FlashAdvice(_FLASH_ADVICE[capability[0]], command)

    def runs_flash_attention(self, device: Device, package: str, version: str) -> bool:
        major = (parse_capability(device.capability) or (0, 0))[0]
        if major == 12 and package == "flash-attn":
            numbers = tuple(map(int, re.findall(r"\d+", version.partition("+")[0])))
            return numbers >= _FIRST_FOR_RTX_BLACKWELL
        return major in _FLASH_PACKAGES[package]


VENDOR = Nvidia()
