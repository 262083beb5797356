"""DirectML: GPUs of any vendor on Windows through ONNX Runtime.

torch-directml is recognised so that it can be explained: its last release keeps torch at 2.4.1,
which anyrig's engines and training cannot use.
"""

from __future__ import annotations

from dataclasses import replace

from anyrig.devices.findings import Findings, warning
from anyrig.devices.machine import Device, DeviceBackend, HostFacts, Machine
from anyrig.devices.reasons import ReasonCode, explain
from anyrig.devices.vendor import BackendSource
from anyrig.devices.wheels import FIRST_TORCH
from anyrig.install import format_install

_TORCH_PACKAGE = "torch-directml"
_ONNX_PACKAGE = "onnxruntime-directml"
_PROVIDER = "DmlExecutionProvider"
_PINNED_TORCH = "2.4.1"


def _check_torch(machine: Machine) -> Findings:
    installed = machine.host.installed
    if version := installed.versions.get(_TORCH_PACKAGE):
        text = f"{_TORCH_PACKAGE} {version} keeps torch at {_PINNED_TORCH}, has no autocast and is"
        text += f" not developed any more; anyrig needs torch {FIRST_TORCH} or newer"
        fix = f"pip uninstall -y {_TORCH_PACKAGE}"
        if installed.torch and installed.torch.version.startswith(_PINNED_TORCH):
            fix += f" && {format_install('torch', options='--upgrade')}"
        yield warning(text, fix)


class DirectML(BackendSource):
    libraries = {"dml": "DirectML device"}
    synonyms = {"directml": "dml"}
    packages = (_TORCH_PACKAGE,)
    onnx_packages = {_ONNX_PACKAGE: (_PROVIDER,), "onnxruntime-windowsml": (_PROVIDER,)}
    checks = {"obsolete-packages": _check_torch}

    def list_backends(self, device: Device, host: HostFacts) -> list[DeviceBackend]:
        # Without DXGI's order DirectML's numbers are unknown.
        selector = f"dml:{device.indices['dxgi']}" if "dxgi" in device.indices else "dml"
        backends = []
        if host.platform.system == "Windows":
            fix = host.onnx_command(_ONNX_PACKAGE)
            onnx = host.onnx_backend(selector, _PROVIDER, _ONNX_PACKAGE, fix)
            if host.platform.is_arm and not onnx.usable:
                where = f"Windows on {host.platform.machine}"
                missing = explain(ReasonCode.NO_WHEEL, package=_ONNX_PACKAGE, platform=where)
                onnx = replace(onnx, blocked=missing)
            backends.append(onnx)
        version = host.installed.versions.get(_TORCH_PACKAGE)
        if version and (host.platform.system == "Windows" or host.platform.wsl == 2):
            blocked = explain(
                ReasonCode.TORCH_TOO_OLD,
                package=f"{_TORCH_PACKAGE} {version}",
                installed=_PINNED_TORCH,
                required=FIRST_TORCH,
            )
            backends.append(DeviceBackend("torch", selector, "privateuseone", blocked=blocked))
        return backends


DIRECTML = DirectML()
