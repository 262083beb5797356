"""A `Device` in a framework's own words: how it is named, awaited, freed. One file per framework.

`attach` gives what work needs of a framework (`Bound`); `open_runner` the kernels that prove and
measure a device. Nothing heavy is imported before one of them is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from anyrig.backends.memory import MemoryNow
from anyrig.errors import MissingPackageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.devices.machine import BackendName, Device, DeviceBackend, Precision

__all__ = ["QUIET", "Bound", "MemoryNow", "Runner", "attach", "open_runner"]
# ONNX Runtime reports to its maker unless this is set before it loads.
QUIET = {"ORT_DISABLE_TELEMETRY": "1"}


class Bound(Protocol):
    """A device bound to this process through one framework."""

    name: str
    """The framework's own word for it: `cuda:0`, `CPUExecutionProvider`."""
    backend: BackendName
    on_host: bool
    """Whether its memory is the host's own."""

    def synchronise(self) -> None:
        """Wait until the device has done all it was given."""

    def memory(self) -> MemoryNow:
        """What is held now, and at most since the last `reset_peak`."""

    def reset_peak(self) -> None:
        """Begin to measure the peak anew."""

    def release(self) -> None:
        """Give back what the framework keeps and no tensor uses."""

    def limit(self, num_bytes: int) -> bool:
        """Hold this process to so many bytes of the device; whether the framework can."""


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


def attach(device: Device, drive: DeviceBackend, *, threads: int | None = None) -> Bound:
    """A device bound to this process. Imports the framework.

    Args:
        device: what to use.
        drive: through which backend.
        threads: how many the framework may use on the host; its own choice when None.
    """
    try:
        if drive.backend == "torch":
            from anyrig.backends.torch import TorchBound

            return TorchBound(device, drive, threads=threads)
        from anyrig.backends.onnx import OnnxBound

        return OnnxBound(device, drive, threads=threads)
    except ImportError as error:
        raise _missing(drive, error) from error


def open_runner(device: Device, drive: DeviceBackend) -> Runner:
    """Kernels for a device through one of its drives. Imports the framework."""
    try:
        if drive.backend == "torch":
            from anyrig.backends.torch_kernels import TorchRunner

            return TorchRunner(device, drive)
        from anyrig.backends.onnx_kernels import OnnxRunner

        return OnnxRunner(device, drive)
    except ImportError as error:
        raise _missing(drive, error) from error


def _missing(drive: DeviceBackend, error: ImportError) -> MissingPackageError:
    return MissingPackageError(
        f"{drive.backend} cannot be imported: {error}", hint=drive.fix or "Run `anyrig doctor`."
    )
