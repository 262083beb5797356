"""The doctor's checks, in the order a person would look: one file per theme."""

from __future__ import annotations

from anyrig.devices.checks import amd, attention, intel, kernels, nvidia, packages, system
from anyrig.devices.diagnose import Check

usable = packages.usable
EXPLAINS = (
    "platform", "wsl", "nvidia-driver", "nvidia-container", "cuda-runtime", "torch-kernels",
    "nvidia-parts", "amd-access", "amd-container", "intel-access", "torch", "kernel",
)  # fmt: skip
"""Checks that say why a GPU cannot be used; without a fault in one of them `usable` does."""

CHECKS: tuple[Check, ...] = (
    system.platform,
    system.wsl,
    system.sources,
    system.limits,
    system.disk,
    nvidia.driver,
    nvidia.container,
    nvidia.cuda_runtime,
    nvidia.torch_kernels,
    nvidia.parts_finding,
    amd.access,
    amd.container,
    amd.torch_kernels,
    intel.access,
    system.visibility,
    packages.torch_build,
    packages.onnx_provider,
    packages.onnx_shadow,
    packages.leftovers,
    attention.flash_attention,
    attention.bf16,
    system.allocator,
    system.spill,
    kernels.kernel,
)
