"""Advice per architecture: which flash-attention exists for it, and whether bf16 is native."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anyrig.devices.checks.system import Probes
from anyrig.devices.describe import Device, Machine
from anyrig.devices.diagnose import Finding, of
from anyrig.devices.parts import nvidia as parts
from anyrig.install import format_install

# flash-attn holds native kernels for 12.x from this release; older ones have none.
_FIRST_FOR_RTX_BLACKWELL = (2, 8, 3, 1)
# Packages of FlashAttention 2, 3 and 4, with the major capabilities that each holds kernels for.
PACKAGES = {"flash-attn": (8, 9, 10, 11, 12), "flash-attn-3": (8, 9),
            "flash-attn-4": (8, 9, 10, 11, 12)}  # fmt: skip
_AMD_TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx11", "gfx12")


def flash_attention(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Which flash-attention is installed, what runs on each GPU, and what to build with."""
    windows = machine.platform.system == "Windows"
    seen: set[str | None] = set()
    for gpu in machine.gpus:
        if gpu.vendor not in ("nvidia", "amd") or not gpu.capability or gpu.capability in seen:
            continue
        seen.add(gpu.capability)
        advice, fix = _advice(gpu)
        if fix and windows:
            advice += ". The package is not built for Windows: WSL2 is the way to it"
            fix = "wsl --install"
        there = [(name, machine.packages[name]) for name in PACKAGES if name in machine.packages]
        fitting = [f"{name} {version}" for name, version in there if _runs(gpu, name, version)]
        for name, version in there:
            if not _runs(gpu, name, version):
                newer = fix if name == "flash-attn" else ""
                yield Finding(
                    "flash-attention",
                    "warning",
                    f"{of(gpu)}: {name} {version} has no kernels for {gpu.capability}; {advice}",
                    newer or f"pip uninstall -y {name}",
                    gpu.id,
                )
        if fitting:
            told = f"{' and '.join(fitting)} {'is' if len(fitting) == 1 else 'are'} installed"
            yield Finding("flash-attention", "good", f"{of(gpu)}: {told}; {advice}", "", gpu.id)
        elif not there:
            yield Finding("flash-attention", "good", f"{of(gpu)}: {advice}", fix, gpu.id)


def _runs(gpu: Device, package: str, version: str) -> bool:
    """Whether a package of FlashAttention holds kernels for a GPU."""
    if gpu.vendor == "amd":
        return package == "flash-attn" and (gpu.capability or "").startswith(_AMD_TARGETS)
    major = (parts.parse(gpu.capability) or (0, 0))[0]
    return major in PACKAGES[package] and (package != "flash-attn" or _new_enough(major, version))


def _advice(gpu: Device) -> tuple[str, str]:
    """What to say, and the line that builds FlashAttention 2 where it runs."""
    if gpu.vendor == "amd":
        runs = (gpu.capability or "").startswith(_AMD_TARGETS)
        return (
            "FlashAttention 2 builds for it (CK)" if runs else "no flash-attention; SDPA serves",
            "",
        )
    capability = parts.parse(gpu.capability) or (0, 0)
    line = format_install("flash-attn", options="--no-build-isolation")
    build = f'TORCH_CUDA_ARCH_LIST="{gpu.capability}" {line}'
    if capability < (7, 5):
        return "no flash-attention for it; torch's SDPA serves with its plain kernels", ""
    if capability < (8, 0):
        return "no flash-attention for Turing; torch's SDPA serves (memory-efficient)", ""
    told = {
        8: "FlashAttention 2 is inside torch's SDPA; the package is built from source",
        9: "FlashAttention 2 is inside torch's SDPA; 3 is built from source (hopper/), 4 is a"
        " beta flash-attn-4",
        10: "FlashAttention 2 is inside torch's SDPA; 4 is the beta flash-attn-4; 3 does not run",
        11: "FlashAttention 2 is inside torch's SDPA; 4 is the beta flash-attn-4; 3 does not run",
        12: "FlashAttention 2 runs (package from 2.8.3.post1); 3 does not; 4 is the beta"
        " flash-attn-4",
    }
    if capability[0] in told:
        return told[capability[0]], build
    return "which flash-attention runs on it is not known; torch's SDPA serves", ""


def _new_enough(major: int, version: str) -> bool:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))
    return major != 12 or numbers >= _FIRST_FOR_RTX_BLACKWELL


def bf16(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Whether bf16 is native: torch says yes where it is only emulated, slower than fp32."""
    seen: set[tuple[str, bool | None]] = set()
    for gpu in machine.gpus:
        key = (gpu.name, gpu.features.bf16)
        if key in seen or gpu.blocked:
            continue
        seen.add(key)
        if gpu.features.bf16:
            yield Finding(
                "bf16",
                "good",
                f"{of(gpu)} computes bf16 natively: no loss scaling needed",
                "",
                gpu.id,
            )
        elif gpu.features.bf16 is False:
            better = "fp16" if gpu.features.fp16 in ("matrix", "fast") else "fp32"
            yield Finding(
                "bf16",
                "warning",
                f"{of(gpu)} only emulates bf16, whatever torch says: use {better}",
                "",
                gpu.id,
            )
        else:
            yield Finding(
                "bf16",
                "good",
                f"{of(gpu)}: whether bf16 is native is not known; measured before use",
                "",
                gpu.id,
            )
