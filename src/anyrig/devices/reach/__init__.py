"""Which installed backend can drive which device, or exactly why not. Facts in, `Drive`s out.

Every way to run on a device is listed, open or shut, with the command that would open it. Nothing
is imported or started: the doctor proves in a child process what stands here as a claim.
"""

from __future__ import annotations

from dataclasses import replace

from anyrig.devices.describe import Device, Drive
from anyrig.devices.reach import amd, general, intel, nvidia
from anyrig.devices.reach.ground import Ground, TorchHost
from anyrig.install import format_install

__all__ = ["Ground", "TorchHost", "drives", "torch_fix"]


def torch_fix(device: Device, host: TorchHost) -> str:
    """The command that brings a torch built for a device, whoever may open the device."""
    if host.platform.system == "macOS":
        return format_install("anyrig[torch]") if device.vendor == "apple" else ""
    fixes = {
        "nvidia": nvidia.torch_cuda_fix,
        "amd": amd.torch_rocm_fix,
        "intel": intel.torch_xpu_fix,
    }
    return fixes[device.vendor](device, host) if device.vendor in fixes else ""


def drives(device: Device, ground: Ground) -> tuple[Drive, ...]:
    """Every way to drive a device, the fastest kind first."""
    if device.kind == "cpu":
        return tuple(general.cpu(ground))
    ways: list[Drive] = []
    if ground.platform.system == "macOS" and device.vendor != "apple":
        pass  # Macs with Intel's or AMD's graphics have no backend but WebGPU
    elif device.vendor == "nvidia":
        ways += [nvidia.torch_cuda(device, ground), nvidia.onnx_cuda(device, ground)]
        ways += nvidia.onnx_tensorrt(device, ground)
    elif device.vendor == "amd":
        ways += [amd.torch_rocm(device, ground), amd.onnx_rocm(device, ground)]
    elif device.vendor == "intel":
        ways += [intel.torch_xpu(device, ground), intel.onnx_openvino(device, ground)]
    elif device.vendor == "apple":
        ways += [general.torch_mps(ground), general.onnx_coreml(ground)]
    if ground.platform.system == "Windows" or ground.platform.wsl == 2:
        ways += list(general.directml(device, ground))
    if device.part != "mig":
        ways.append(general.webgpu(device, ground))
    if device.blocked:
        ways = [
            replace(way, usable=False, reason=device.blocked, fix=device.blocked_fix)
            if way.usable
            else way
            for way in ways
        ]
    return tuple(ways)
