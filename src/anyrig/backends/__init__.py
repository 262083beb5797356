"""A device through a framework, torch or ONNX Runtime: one file per framework.

`open_device` gives what work needs of a device, `open_runner` the kernels that test and measure it.
Neither framework is imported before one of them is called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from anyrig.errors import MissingPackageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.backends.memory import MemoryUsage
    from anyrig.devices.machine import Device, DeviceBackend, Precision

# ONNX Runtime sends telemetry unless this is set before it loads.
NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1"}


class DeviceHandle(Protocol):
    """A device that this process uses through one framework."""

    name: str
    """The framework's name for it: `cuda:0`, `CPUExecutionProvider`."""
    on_host: bool
    """Whether its memory is the host's."""

    def synchronize(self) -> None:
        """Wait until the device has finished all work."""

    def memory(self) -> MemoryUsage: ...

    def reset_peak(self) -> None:
        """Start measuring the peak anew."""

    def release(self) -> None:
        """Return the framework's cached memory to the device."""

    def limit(self, num_bytes: int) -> bool:
        """Limit this process's memory on the device; whether the framework can."""


class KernelRunner(Protocol):
    """Kernels on one device through one framework."""

    ran_on: str
    """Where the framework reports that the work ran."""
    architectures: tuple[str, ...]
    """Those that the framework has kernels for: sm_ or gfx names."""
    precisions: tuple[Precision, ...]

    def product(self, left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
        """Multiply two fp32 matrices."""

    def time_products(self, size: int, precision: Precision, num_products: int) -> float:
        """Seconds for products of square matrices that are on the device already."""

    def time_copies(self, num_bytes: int, num_copies: int) -> float:
        """Seconds for copies within the device's memory."""


def open_device(
    device: Device, backend: DeviceBackend, *, threads: int | None = None
) -> DeviceHandle:
    """Open a device through a framework, which is imported.

    Args:
        threads: of the host, for the framework; None leaves it to the framework.
    """
    with _report_missing_package(backend):
        if backend.library == "torch":
            from anyrig.backends.torch import TorchHandle

            return TorchHandle(device, backend, threads=threads)
        from anyrig.backends.onnx import OnnxHandle

        return OnnxHandle(device, backend, threads=threads)


def open_runner(device: Device, backend: DeviceBackend) -> KernelRunner:
    """Open the kernels of a device through a framework, which is imported."""
    with _report_missing_package(backend):
        if backend.library == "torch":
            from anyrig.backends.torch import TorchRunner

            return TorchRunner(device, backend)
        from anyrig.backends.onnx import OnnxRunner

        return OnnxRunner(device, backend)


@contextlib.contextmanager
def _report_missing_package(backend: DeviceBackend) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(
            f"cannot import {backend.library}: {error}", hint=backend.fix or "Run `anyrig doctor`."
        ) from error
