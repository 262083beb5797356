"""What to install for a GPU on its system: the one answer that every command and page gives.

`advise` is for the environment that anyrig runs in, `find_torch_wheel` for one that is still to be
made, such as that of a speech engine with packages of its own.
"""

from __future__ import annotations

from anyrig.devices.machine import Device, DeviceAdvice, HostFacts, Library, Machine
from anyrig.devices.vendor import TorchWheel
from anyrig.devices.vendors import vendor_of
from anyrig.devices.webgpu import WEBGPU
from anyrig.devices.wheels import CPU_FLAVOUR
from anyrig.install import format_install


def advise(device: Device, host: HostFacts, num_vendors: int = 1) -> DeviceAdvice:
    """What makes a GPU usable, through torch and through ONNX Runtime.

    Args:
        device: with its backends.
        host: what is installed.
        num_vendors: of GPUs in the machine. Vendors' packages of ONNX Runtime overwrite each other,
            so only WebGPU serves several at once.
    """
    if device.hardware_block:
        return DeviceAdvice(device.hardware_block.fix)
    torch = _list_fixes(device, "torch")
    onnx = _list_fixes(device, "onnx")
    shared = [fix for selector, fix in onnx if selector in WEBGPU.libraries]
    own = [fix for selector, fix in onnx if selector in vendor_of(device).libraries]
    fixes = [*shared, *own] if num_vendors > 1 else [*own, *shared]
    for_onnx = next(iter([*fixes, *(fix for _, fix in onnx)]), "")
    for_torch = next((fix for _, fix in torch), "")
    command = ""
    if not device.usable:
        # Without torch the small step is ONNX Runtime, which is installed with anyrig.
        command = for_torch or for_onnx if host.installed.torch else for_onnx or for_torch
    return DeviceAdvice(command, for_torch, for_onnx)


def _list_fixes(device: Device, library: Library) -> list[tuple[str, str]]:
    """Selectors of a library's backends with what would make them usable, if none is."""
    backends = [backend for backend in device.backends if backend.library == library]
    if any(backend.usable for backend in backends):
        return []
    return [(one.selector.partition(":")[0], one.fix) for one in backends if one.fix]


def find_torch_install(machine: Machine) -> str:
    """What installs the extra `torch`, with the build of torch for this machine's GPU, or for the
    CPU; empty if there are no wheels of torch for the system.
    """
    host, extra = machine.host, format_install("anyrig[torch]")
    if host.platform.system == "macOS":
        return extra if host.platform.machine == "arm64" else ""
    if host.platform.system not in ("Linux", "Windows"):
        return ""
    gpus = [gpu for gpu in machine.gpus if not gpu.hardware_block]
    fixes = [vendor_of(gpu).find_torch_fix(gpu, host) for gpu in gpus]
    torch = next(filter(None, fixes), "")
    if not torch and host.platform.system == "Linux":  # elsewhere the usual build is the CPU's
        torch = host.torch_command("torch", CPU_FLAVOUR)
    if not torch or extra in torch:
        return torch or extra
    return f"{torch} && {extra}" if torch.startswith("pip ") else f"{torch}, then {extra}"


def find_torch_wheel(machine: Machine, torch: str) -> TorchWheel:
    """The build of a version of torch for the best GPU that has one, else the CPU's."""
    gpus = [gpu for gpu in machine.gpus if not gpu.hardware_block]
    for gpu in sorted(gpus, key=lambda gpu: gpu.memory.kind != "dedicated"):
        vendor = vendor_of(gpu)
        on_mac = machine.platform.system == "macOS"
        wheel = None
        if not on_mac or "macOS" in vendor.found_on:
            wheel = vendor.find_torch_wheel(gpu, machine.host, torch)
        if wheel is not None:
            return wheel
    return TorchWheel(CPU_FLAVOUR, CPU_FLAVOUR)
