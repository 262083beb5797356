"""Apple: the GPU through system_profiler, Metal's share of unified memory, MPS and CoreML.

fp16 runs at fp32's rate on M1 to M4, not at twice it: what it saves is memory. From M5 on each core
has matrix units, which not every library uses yet: fp16's rate is unknown there until measured.
Apple documents bfloat in Metal's language but not which generations compute it natively, so bf16
is unknown; there is no TF32, FP8 or FP4.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anyrig.devices.cpu import read_sysctl
from anyrig.devices.machine import (
    Device,
    DeviceBackend,
    Features,
    HostFacts,
    Machine,
    Memory,
    Platform,
    SourceReport,
    SourceState,
)
from anyrig.devices.pci import PciDevice
from anyrig.devices.probe import HostProbe, Unavailable
from anyrig.devices.reasons import ReasonCode, explain
from anyrig.devices.vendor import TorchWheel, Vendor
from anyrig.install import format_install
from anyrig.units import GIB, MIB, format_bytes, pluralize

NAME = "apple"
_ARM_PYTHON = "uv tool install --python cpython-3.12-macos-aarch64 anyrig"
_TORCH_FIX = format_install("anyrig[torch]")
# Of GPUs in Macs with an Intel processor.
_OTHER_MAKERS = ("amd", "intel", "nvidia")
_FEATURES = Features(fp16="slow", tf32=False, bf16=None, fp8=False, fp4=False)
_WITH_MATRIX_UNITS = re.compile(r"Apple M([5-9]|[1-9]\d)\b")
# Metal's recommendedMaxWorkingSetSize as machines report it: 10.67 of 16 GiB, 27 of 36, 48 of 64,
# 107.5 of 128. Releases of macOS differ by up to a tenth; these are the smaller figures.
_WORKING_SETS = ((128 * GIB, 84, "84 %"), (36 * GIB, 75, "three quarters"))


def _describe(system: HostProbe, row: dict[str, Any], number: int, memory: Memory) -> Device:
    name = str(row.get("sppci_model") or row.get("_name") or "unknown GPU")
    maker = str(row.get("spdisplays_vendor", "")).lower()
    sysctl = read_sysctl(system)
    device = Device(
        id=f"mac-gpu-{number}",
        kind="gpu",
        vendor=next((word for word in _OTHER_MAKERS if word in maker), "unknown"),
        name=name,
        memory=Memory(note=str(row.get("spdisplays_vram", "macOS does not report its memory"))),
        driver="Metal",
        driver_version=sysctl.get("kern.osproductversion"),
    )
    if "apple" not in maker and not name.startswith("Apple"):
        return device
    # `spdisplays_metal4` is `metal4`; older systems use another key.
    metal = row.get("spdisplays_mtlgpufamilysupport") or row.get("spdisplays_metal") or ""
    has_matrix_units = _WITH_MATRIX_UNITS.match(name)
    return replace(
        device,
        vendor=NAME,
        architecture=name,
        capability=str(metal).removeprefix("spdisplays_") or None,
        memory=_limit_memory(memory, sysctl.get("iogpu.wired_limit_mb", "0")),
        features=replace(_FEATURES, fp16=None) if has_matrix_units else _FEATURES,
        units=int(str(row.get("sppci_cores", "0"))) or None,
    )


def _limit_memory(memory: Memory, wired_limit_mb: str) -> Memory:
    """Metal's working set: the share of unified memory that the GPU may hold."""
    if memory.total_bytes is None:
        return Memory("unified", note="macOS does not report its memory")
    total, rule = memory.total_bytes * 2 // 3, "two thirds of memory, Metal's working-set limit"
    for least, percent, share in _WORKING_SETS:
        if memory.total_bytes >= least:
            total = memory.total_bytes * percent // 100
            rule = f"{share} of memory, Metal's working-set limit"
            break
    if wired_limit_mb.isdigit() and int(wired_limit_mb):
        total, rule = int(wired_limit_mb) * MIB, "set by iogpu.wired_limit_mb"
    free = None if memory.free_bytes is None else min(memory.free_bytes, total)
    note = f"unified: {format_bytes(total)} of {format_bytes(memory.total_bytes)} ({rule})"
    return Memory("unified", total, free, note=note)


class Apple(Vendor):
    name = NAME
    title = "Apple"
    found_on = ("macOS",)
    libraries = {"mps": "Metal (MPS) device"}
    synonyms = {"metal": "mps"}
    other_variables = ("PYTORCH_MPS_HIGH_WATERMARK_RATIO",)
    onnx_packages = {"onnxruntime-silicon": ("CoreMLExecutionProvider",)}
    torch_flavour = "mac"
    torch_title = "macOS"
    torch_device = "mps"

    def find_devices(
        self,
        system: HostProbe,
        pci_devices: tuple[PciDevice, ...],
        memory: Memory,
        platform: Platform,
    ) -> tuple[list[Device], SourceReport]:
        """Every GPU of a Mac."""
        try:
            answer = json.loads(system.run("system_profiler", "SPDisplaysDataType", "-json"))
            rows = [row for row in answer.get("SPDisplaysDataType", []) if isinstance(row, dict)]
        except (Unavailable, ValueError, AttributeError) as error:
            return [], SourceReport(NAME, "failed", f"system_profiler: {error}")
        devices = [_describe(system, row, number, memory) for number, row in enumerate(rows)]
        state: SourceState = "found" if devices else "nothing"
        return devices, SourceReport(NAME, state, f"{pluralize(len(devices), 'GPU')}")

    def read_torch_runtime(self, facts: Mapping[str, str], tag: str, system: str) -> str | None:
        return "" if system == "Darwin" else None

    def list_backends(self, device: Device, host: HostFacts) -> list[DeviceBackend]:
        """torch on Metal, and CoreML in the plain ONNX Runtime package."""
        torch_block = host.torch_block(self.torch_flavour, self.torch_title, _TORCH_FIX)
        if host.platform.machine != "arm64":
            torch_block = explain(ReasonCode.WRONG_PYTHON, _ARM_PYTHON)
        coreml = "CoreMLExecutionProvider"
        return [
            DeviceBackend("torch", "mps", "mps", host.torch_title, torch_block),
            DeviceBackend("onnx", "mps", coreml, *host.plain_onnx()),
        ]

    def find_torch_fix(self, device: Device, host: HostFacts) -> str:
        return _TORCH_FIX if host.platform.machine == "arm64" else ""

    def find_platform_problem(self, machine: Machine) -> tuple[str, str] | None:
        here = machine.platform
        if here.system != "macOS" or here.machine != "x86_64":
            return None
        if any(limit.kind == "rosetta" for limit in machine.cpu.limits):
            text = "this Python is built for Intel and runs under Rosetta translation"
            return text, _ARM_PYTHON
        text = "ONNX Runtime and torch have no wheel for macOS on Intel"
        return text, "use a Mac with Apple silicon, or Linux"

    def find_torch_wheel(self, device: Device, host: HostFacts, torch: str) -> TorchWheel | None:
        return TorchWheel(self.torch_flavour) if host.platform.machine == "arm64" else None


VENDOR = Apple()
