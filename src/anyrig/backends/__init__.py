"""A `Device` in a framework's own words: how it is named, awaited, freed. One file per framework.

For now a backend can run the kernels that prove and measure a device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from anyrig.errors import MissingPackage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.devices.describe import Device, Drive

# ONNX Runtime reports to its maker unless this is set before it loads.
QUIET = {"ORT_DISABLE_TELEMETRY": "1"}

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]


class Runner(Protocol):
    """Kernels on one device through one framework."""

    ran_on: str
    """Where the framework says the work really happens."""
    kernels: tuple[str, ...]
    """The machine code the framework lists: sm_ or gfx names."""
    precisions: tuple[Precision, ...]

    def product(self, left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
        """The matrix product of two fp32 matrices."""

    def time_products(self, size: int, precision: Precision, num_products: int) -> float:
        """Seconds for products of square matrices already on the device, awaited to the end."""

    def time_copies(self, num_bytes: int, num_copies: int) -> float:
        """Seconds for copies within the device's memory, awaited to the end."""


def open_runner(device: Device, drive: Drive) -> Runner:
    """Kernels for a device through one of its drives. Imports the framework."""
    try:
        if drive.backend == "torch":
            from anyrig.backends.torch import TorchRunner

            return TorchRunner(device, drive)
        from anyrig.backends.onnx import OnnxRunner

        return OnnxRunner(device, drive)
    except ImportError as error:
        raise MissingPackage(
            f"{drive.backend} cannot be imported: {error}", hint=drive.fix or "Run `anyrig doctor`."
        ) from error
