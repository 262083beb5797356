"""NVIDIA devices through NVML, and cards that the bus shows while NVML is silent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from anyrig.devices.describe import (
    Device,
    Features,
    Memory,
    Platform,
    SourceReport,
    SourceState,
)
from anyrig.devices.parts import nvidia as parts
from anyrig.devices.sources.pci import Controller
from anyrig.devices.sources.system import NotThere, Silent, System
from anyrig.install import format_install
from anyrig.units import normalize_pci_address, pluralize

VENDOR = 0x10DE
_PROHIBITED = 2  # NVML_COMPUTEMODE_PROHIBITED
_VGPU_GUEST = 2  # NVML_GPU_VIRTUALIZATION_MODE_VGPU
_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
}
# NVML's own names for what went wrong at start, and what mends it.
_INIT_FIXES = {
    "DRIVER_NOT_LOADED": "sudo modprobe nvidia",
    "LIB_RM_VERSION_MISMATCH": "sudo reboot",
    "nvidia-ml-py": format_install("nvidia-ml-py"),
    "NO_PERMISSION": "ls -l /dev/nvidia*",
    "GPU_IS_LOST": "sudo nvidia-smi --gpu-reset",
}


def find(
    system: System, controllers: tuple[Controller, ...], system_memory: Memory, platform: Platform
) -> tuple[list[Device], SourceReport]:
    """Every NVIDIA device, usable or not, and what NVML said."""
    cards = [c for c in controllers if c.vendor == VENDOR]
    try:
        system.nvml("nvmlInit")
        driver = str(_ask(system, "nvmlSystemGetDriverVersion") or "") or None
        count = int(system.nvml("nvmlDeviceGetCount"))
    except Silent as silence:
        silent = [_undriven(system, card, str(silence), platform) for card in cards]
        # On Windows pynvml itself looks for the library and says so in NVML's words.
        missing = isinstance(silence, NotThere) or "LIBRARY_NOT_FOUND" in str(silence)
        state: SourceState = "nothing" if missing and not cards else "failed"
        return silent, SourceReport("nvidia", state, str(silence))
    devices, lost = _answering(system, count, driver, system_memory)
    known = {device.pci_address for device in devices}
    unlisted = [card for card in cards if card.address not in known]
    report = f"driver {driver or 'of unknown version'}, {pluralize(count, 'GPU')} in NVML"
    if lost:
        report += f"; {lost[0]}"
        # Those that NVIDIA's driver holds; where their number fits they are the lost ones.
        held = [card for card in unlisted if card.driver in ("nvidia", "")]
        pairs = held if len(held) == len(lost) else []
        devices += _lost(system, pairs, lost, platform)
        unlisted = [card for card in unlisted if card not in pairs]
    if unlisted and platform.container:
        # The bus shows all of the host's cards, NVML those that the container was given.
        report += (
            f"; {pluralize(len(unlisted), 'more card')} of the host not given to this container"
        )
    else:
        silence_text = "NVML does not list it, the bus does"
        devices += [_undriven(system, card, silence_text, platform) for card in unlisted]
    return devices, SourceReport("nvidia", "found" if devices else "nothing", report)


def _answering(
    system: System, count: int, driver: str | None, system_memory: Memory
) -> tuple[list[Device], list[str]]:
    """The GPUs that NVML describes, and why it cannot describe the others."""
    devices: list[Device] = []
    lost: list[str] = []
    for index in range(count):
        try:
            if _ask(system, "nvmlDeviceGetUUID", str(index)) is None:
                system.nvml("nvmlDeviceGetName", str(index))
            devices += _describe(system, index, driver, system_memory)
        except Silent as silence:
            lost.append(f"GPU {index} does not answer: {silence}")
    return devices, lost


def _lost(
    system: System, cards: list[Controller], lost: list[str], platform: Platform
) -> list[Device]:
    """Cards that NVML counts and cannot describe: fallen off the bus, or in need of a reset."""
    if cards:
        pairs = zip(cards, lost, strict=False)
        return [
            replace(_undriven(system, card, why, platform), blocked=why, blocked_fix="sudo reboot")
            for card, why in pairs
        ]
    return [
        Device(
            f"nvml-lost-{number}",
            "gpu",
            "nvidia",
            "NVIDIA GPU that does not answer",
            blocked=why,
            blocked_fix="sudo reboot",
        )
        for number, why in enumerate(lost)
    ]


def cuda_of_driver(system: System) -> str:
    """The newest CUDA the driver can run: `13.0`, or nothing."""
    version = _ask(system, "nvmlSystemGetCudaDriverVersion")
    return f"{int(version) // 1000}.{int(version) % 1000 // 10}" if version else ""


def init_fix(reason: str) -> str:
    """The command that mends a failed start of NVML."""
    return next((fix for word, fix in _INIT_FIXES.items() if word in reason), "nvidia-smi")


def _ask(system: System, function: str, handle: str = "") -> Any:
    """An answer, or None where NVML has none for this part."""
    try:
        return system.nvml(function, handle)
    except Silent:
        return None


def _describe(
    system: System, index: int, driver: str | None, system_memory: Memory
) -> Iterator[Device]:
    """One GPU, then its MIG instances."""
    handle = str(index)
    name = str(_ask(system, "nvmlDeviceGetName", handle) or "NVIDIA GPU of unknown name")
    capability = _capability(system, handle)
    architecture, features = parts.describe(capability, name) if capability else (None, Features())
    if architecture is None:
        told = _ask(system, "nvmlDeviceGetArchitecture", handle)
        architecture = _ARCHITECTURES.get(told) if isinstance(told, int) else None
    address, pci_id = _pci(system, handle)
    uuid = _ask(system, "nvmlDeviceGetUUID", handle)
    whole = Device(
        id=str(uuid or address or f"nvml-{index}"),
        kind="gpu",
        vendor="nvidia",
        name=name,
        architecture=architecture,
        capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory=_memory(system, handle, capability, system_memory),
        driver="nvidia",
        driver_version=driver,
        pci_address=address,
        pci_id=pci_id,
        features=features,
        part="vgpu"
        if _ask(system, "nvmlDeviceGetVirtualizationMode", handle) == _VGPU_GUEST
        else "whole",
        units=_ask(system, "nvmlDeviceGetNumGpuCores", handle),
        indices={"nvml": index},
    )
    if _ask(system, "nvmlDeviceGetComputeMode", handle) == _PROHIBITED:
        whole = replace(
            whole,
            blocked="its compute mode is Prohibited",
            blocked_fix=f"sudo nvidia-smi -i {index} -c DEFAULT",
        )
    instances = list(_instances(system, whole, index))
    now, pending = _mig_mode(system, handle)
    if now != pending:
        change = "on" if pending else "off"
        whole = replace(whole, notes=(f"MIG is switched {change} at the next reset",))
    if now:
        whole = _blocked_by_mig(whole, index, len(instances))
    yield whole
    yield from instances


def _capability(system: System, handle: str) -> parts.Capability | None:
    answer = _ask(system, "nvmlDeviceGetCudaComputeCapability", handle)
    return (int(answer[0]), int(answer[1])) if answer and len(answer) == 2 else None


def _pci(system: System, handle: str) -> tuple[str | None, str | None]:
    info = _ask(system, "nvmlDeviceGetPciInfo", handle)
    if not isinstance(info, dict):
        return None, None
    number = int(info.get("pciDeviceId", 0))
    pci_id = f"{number & 0xFFFF:04x}:{number >> 16:04x}" if number else None
    return normalize_pci_address(str(info.get("busId", ""))) or None, pci_id


def _memory(
    system: System, handle: str, capability: parts.Capability | None, system_memory: Memory
) -> Memory:
    try:
        answer, silence = system.nvml("nvmlDeviceGetMemoryInfo", handle), ""
    except Silent as error:
        answer, silence = None, f" (NVML: {error})"
    if capability in parts.INTEGRATED:
        note = f"unified with the system's memory{silence}"
        return Memory("unified", system_memory.total_bytes, system_memory.free_bytes, note=note)
    if isinstance(answer, dict) and answer.get("total"):
        free = answer.get("free")
        return Memory("dedicated", int(answer["total"]), None if free is None else int(free))
    return Memory(note=f"NVML does not tell this part's memory{silence}")


def _mig_mode(system: System, handle: str) -> tuple[bool, bool]:
    """Whether MIG is on, and whether it will be after a reset."""
    mode = _ask(system, "nvmlDeviceGetMigMode", handle) or [0, 0]
    return mode[0] == 1, mode[-1] == 1


def _instances(system: System, whole: Device, index: int) -> Iterator[Device]:
    if not _mig_mode(system, str(index))[0]:
        return
    for number in range(int(_ask(system, "mig", str(index)) or 0)):
        handle = f"{index}/{number}"
        memory = _ask(system, "nvmlDeviceGetMemoryInfo", handle)
        yield replace(
            whole,
            id=str(_ask(system, "nvmlDeviceGetUUID", handle) or f"{whole.id}/{number}"),
            name=str(_ask(system, "nvmlDeviceGetName", handle) or f"{whole.name} MIG {number}"),
            memory=Memory("dedicated", int(memory["total"]), int(memory["free"]))
            if isinstance(memory, dict)
            else Memory(note="NVML does not tell this instance's memory"),
            part="mig",
            parent=whole.id,
            units=None,
            indices={"nvml": index, "mig": number},
            blocked="",
            blocked_fix="",
        )


def _blocked_by_mig(whole: Device, index: int, num_instances: int) -> Device:
    if num_instances:
        return replace(
            whole,
            blocked=f"it is cut into {pluralize(num_instances, 'MIG instance')}: use those",
            blocked_fix=f"anyrig use {index}:0",
        )
    return replace(
        whole,
        blocked="MIG is on and has no instance",
        blocked_fix=f"sudo nvidia-smi mig -i {index} -lgip",
    )


def _install_line(platform: Platform) -> str:
    """How the distribution installs NVIDIA's driver."""
    if "Ubuntu" in platform.distribution:
        return "sudo ubuntu-drivers install"
    if "Debian" in platform.distribution:
        return "sudo apt install nvidia-driver"
    return "install NVIDIA's driver as your distribution says"


def _undriven(system: System, card: Controller, silence: str, platform: Platform) -> Device:
    """A card that the bus shows while the driver does not answer for it."""
    listed = system.catalogue("pci", card.pci_id)
    title = listed.partition("[")[2].rstrip("]") or listed
    if card.driver in ("nouveau", "nova_core"):
        reason = f"the {card.driver} driver holds it, which runs no CUDA"
        fix = f"{_install_line(platform)} && sudo reboot"
    elif card.driver == "vfio-pci":
        reason, fix = "it is passed through to a virtual machine (vfio-pci)", ""
    elif platform.container and "is not on this machine" in silence:
        reason = f"the host's driver was not handed into this {platform.container} container"
        fix = "docker run --gpus all ... (with nvidia-container-toolkit on the host)"
    else:
        reason = f"NVIDIA's driver does not answer: {silence}"
        missing = "is not on this machine" in silence
        fix = _install_line(platform) if missing else init_fix(silence)
    return Device(
        id=card.address,
        kind="gpu",
        vendor="nvidia",
        name=f"NVIDIA {title}" if title else f"NVIDIA GPU {card.pci_id}",
        architecture=parts.architecture_of_chip(listed),
        memory=Memory(note="no driver tells it"),
        driver=card.driver or None,
        pci_address=card.address,
        pci_id=card.pci_id,
        blocked=reason,
        blocked_fix=fix,
    )
