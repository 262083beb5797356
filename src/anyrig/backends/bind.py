"""How a child process is bound to one device: variables that hide the others from each library.

Set before the libraries load, a UUID leaves no doubt which card is meant, whatever order CUDA
counts in; and it is the only way to a MIG instance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from anyrig.devices.machine import Device


def bind(device: Device, environment: Mapping[str, str]) -> tuple[dict[str, str], Device]:
    """The variables for a child of this process, and the device as that child will count it.

    Args:
        device: what the child is to use.
        environment: this process's own, whose variables may hide devices already.
    """
    if device.kind == "cpu":
        return {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}, device
    variables, seen = _hide_others(device, environment)
    if device.pci_address:
        # Mesa's Vulkan layer then lists this card first: WebGPU takes the first of equal ones.
        variables["DRI_PRIME"] = f"pci-{re.sub(r'[:.]', '_', device.pci_address)}"
    return variables, seen


def _hide_others(device: Device, environment: Mapping[str, str]) -> tuple[dict[str, str], Device]:
    if device.vendor == "nvidia" and device.id.startswith(("GPU-", "MIG-")):
        return {"CUDA_VISIBLE_DEVICES": device.id}, _counted(device, "cuda")
    if device.vendor == "amd" and "rocm" in device.indices:
        shown = environment.get("HIP_VISIBLE_DEVICES", environment.get("CUDA_VISIBLE_DEVICES"))
        return {"HIP_VISIBLE_DEVICES": _entry(shown, device.indices["rocm"])}, _counted(
            device, "rocm"
        )
    if device.vendor == "intel" and "xpu" in device.indices:
        number = device.indices.get("ze", device.indices["xpu"])
        return {"ZE_AFFINITY_MASK": str(number)}, _counted(_counted(device, "xpu"), "openvino")
    return {}, device


def _entry(shown: str | None, index: int) -> str:
    """The n-th of the devices already shown; without a list, the n-th of all."""
    return shown.split(",")[index].strip() if shown else str(index)


def _counted(device: Device, library: str) -> Device:
    return replace(device, indices={**device.indices, library: 0})
