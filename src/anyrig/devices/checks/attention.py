"""Advice per architecture: which flash-attention exists for it, and whether bf16 is native."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anyrig.devices.checks.system import Probes
from anyrig.devices.describe import Device, Machine
from anyrig.devices.diagnose import Finding, of
from anyrig.devices.parts import nvidia as parts
from anyrig.install import install_line

# flash-attn holds native kernels for 12.x from this release; older ones have none.
_FIRST_FOR_RTX_BLACKWELL = (2, 8, 3, 1)
_AMD_TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx11", "gfx12")


def flash_attention(machine: Machine, probes: Probes) -> Iterator[Finding]:
    """Which flash-attention runs on each GPU, where it comes from, and what to build with."""
    installed = machine.packages.get("flash-attn")
    seen: set[str | None] = set()
    for gpu in machine.gpus:
        if gpu.vendor not in ("nvidia", "amd") or not gpu.capability or gpu.capability in seen:
            continue
        seen.add(gpu.capability)
        advice, fix, runs = _advice(gpu)
        misplaced = bool(installed) and not (runs and _new_enough(gpu, installed))
        if misplaced:
            yield Finding(
                "flash-attention",
                "warning",
                f"{of(gpu)}: flash-attn {installed} has no kernels for {gpu.capability}; {advice}",
                fix or "pip uninstall -y flash-attn",
                gpu.id,
            )
        else:
            yield Finding("flash-attention", "good", f"{of(gpu)}: {advice}", fix, gpu.id)


def _advice(gpu: Device) -> tuple[str, str, bool]:
    """What to say, the build line, and whether FlashAttention 2 runs at all."""
    if gpu.vendor == "amd":
        runs = (gpu.capability or "").startswith(_AMD_TARGETS)
        told = "FlashAttention 2 builds for it (CK)" if runs else "no flash-attention; SDPA serves"
        return told, "", runs
    capability = parts.parse(gpu.capability) or (0, 0)
    line = install_line("flash-attn", options="--no-build-isolation")
    build = f'TORCH_CUDA_ARCH_LIST="{gpu.capability}" {line}'
    if capability < (7, 5):
        return "no flash-attention for it; torch's SDPA serves with its plain kernels", "", False
    if capability < (8, 0):
        return "no flash-attention for Turing; torch's SDPA serves (memory-efficient)", "", False
    if capability[0] == 8:
        return (
            "FlashAttention 2 is inside torch's SDPA; the package is built from source",
            build,
            True,
        )
    if capability[0] == 9:
        return (
            (
                "FlashAttention 2 is inside torch's SDPA; 3 is built from source (hopper/), 4 is a"
                " beta flash-attn-4"
            ),
            build,
            True,
        )
    if capability[0] in (10, 11):
        return (
            "FlashAttention 2 is inside torch's SDPA; 4 is the beta flash-attn-4; 3 does not run",
            build,
            True,
        )
    if capability[0] == 12:
        return (
            (
                "FlashAttention 2 runs (package from 2.8.3.post1); 3 does not; 4 is the beta"
                " flash-attn-4"
            ),
            build,
            True,
        )
    return "which flash-attention runs on it is not known; torch's SDPA serves", "", False


def _new_enough(gpu: Device, installed: str | None) -> bool:
    capability = parts.parse(gpu.capability)
    if not installed or not capability or capability[0] != 12:
        return True
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed.partition("+")[0]))
    return numbers >= _FIRST_FOR_RTX_BLACKWELL


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
