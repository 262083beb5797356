"""Measuring devices: kernels in child processes, whose results are saved and used to choose.

Everything that runs `anyrig.bench` is here.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.app.compute import resolve_devices
from anyrig.app.files import check_writable
from anyrig.app.speech import SynthesisOptions
from anyrig.devices.choose import explain_backend_fallback, select_backend
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import DeviceUnusableError, KernelError
from anyrig.events import OnEvent, ProgressEvent
from anyrig.install import format_install
from anyrig.options import option

if TYPE_CHECKING:
    from anyrig.app.compute import DeviceOptions
    from anyrig.app.rig import Rig
    from anyrig.bench.measurements import DeviceMeasurements, Measurements
    from anyrig.bench.process import SelfTestSummary
    from anyrig.devices.doctor import KernelResult

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class BenchRequest(SynthesisOptions):
    """Measuring."""

    quick: bool = option(False, "a few seconds per device, without the large matrix product")
    plot: Path | None = option(None, "also write a plot as SVG", http=False, metavar="FILE")
    speech: bool = option(
        False, "measure a speech engine instead: load time, first audio, real-time factor"
    )
    no_save: bool = option(False, "do not save the measurements", http=False)


@dataclass(frozen=True)
class BenchReport:
    devices: tuple[DeviceMeasurements, ...]


def bench(rig: Rig, request: BenchRequest, on_event: OnEvent) -> BenchReport:
    """Measure the requested devices, or all that are usable, and save the results."""
    devices = choose_devices(rig, request)
    if request.plot is not None:
        check_writable(request.plot)
    measured = measure_devices(
        rig, devices, on_event, selector=request.device, quick=request.quick,
        save=not request.no_save,
    )  # fmt: skip
    if not any(one.measurements for one in measured):
        names = ", ".join(one.name for one in measured)
        raise KernelError(f"{names} could not be measured", hint="Run `anyrig doctor`.")
    if request.plot is not None:
        from anyrig.bench.measurements import plot_measurements
        from anyrig.storage.files import write_atomic

        write_atomic(request.plot, plot_measurements(measured))
    return BenchReport(tuple(measured))


def choose_devices(rig: Rig, options: DeviceOptions) -> list[Device]:
    """The requested devices; or all usable GPUs, and the CPU."""
    machine, selector = rig.machine, options.device
    if not selector:
        return [*(gpu for gpu in machine.gpus if gpu.usable), machine.cpu_device]
    if selector.strip().lower() == "auto":
        return [rig.preview_device(options).device]
    devices = list(resolve_devices(rig, options))
    if selector.strip().lower() != "all":
        devices = devices[:1]
    for device in devices:
        fallback = explain_backend_fallback(device, selector)
        if fallback and device.usable:
            hint = "Name the device without a backend to measure it."
            raise DeviceUnusableError(fallback.message, hint=hint)
        if reason := device.block_reason:
            raise DeviceUnusableError(
                f"{device.name} cannot be measured: {reason}",
                hint=reason.fix or "Run `anyrig doctor`.",
            )
    return devices


def find_backend(device: Device, selector: str = "") -> DeviceBackend:
    """The backend that a selector names, else torch if it can use the device, else ONNX Runtime."""
    backend = select_backend(device, selector)
    if backend is None:
        reason = device.block_reason
        raise DeviceUnusableError(
            f"no usable backend for {device.name}: {reason}",
            hint=(reason.fix if reason else "") or format_install("onnxruntime"),
        )
    return backend


def measure_devices(
    rig: Rig,
    devices: Sequence[Device],
    on_event: OnEvent,
    *,
    selector: str = "",
    quick: bool = False,
    save: bool = True,
) -> list[DeviceMeasurements]:
    """Measure devices one after the other; each is saved at once, and a failure stops nothing."""
    measured = []
    for count, device in enumerate(devices):
        on_event(ProgressEvent("measuring", count, len(devices), device.name))

        def report(text: str, name: str = device.name, count: int = count) -> None:
            on_event(ProgressEvent("measuring", count, len(devices), f"{name}, {text}"))

        one = _measure(rig, device, find_backend(device, selector), report, quick=quick)
        measured.append(one)
        if save:
            # Loaded again: another process may have measured meanwhile.
            save = _save(rig, _load(rig).add(one))
    return measured


def _measure(
    rig: Rig,
    device: Device,
    backend: DeviceBackend,
    report: Callable[[str], None],
    *,
    quick: bool,
) -> DeviceMeasurements:
    from anyrig.bench.measurements import DeviceMeasurements, describe_versions
    from anyrig.bench.process import measure_device
    from anyrig.devices.doctor import describe_wrong_result

    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    report(f"starting {backend.library}")
    result = measure_device(device, backend, rig.environment, quick=quick, on_progress=report)
    broken = describe_wrong_result(result.kernel)
    if broken:
        rig.warn(f"{device.name} through {backend.provider}: {broken}; it is never chosen")
    elif not result.kernel.ok:
        error = result.kernel.error
        rig.warn(f"no kernel runs on {device.name} through {backend.provider}: {error}")
        # One backend of several, or a failure that may pass, says nothing about the device.
        if not result.transient and sum(one.usable for one in device.backends) == 1:
            broken = f"no kernel runs on it: {error}"
    versions = describe_versions(device, rig.machine)
    return DeviceMeasurements(device.id, device.name, versions, result.measurements, broken, when)


# -- checks ----------------------------------------------------------------------------------------


def check_kernels(
    rig: Rig, devices: Sequence[Device], on_event: OnEvent
) -> tuple[KernelResult, ...]:
    """Run a kernel on every device through each usable backend, and save which devices fail."""
    from anyrig.bench import process

    pairs = list(_list_backends(devices))
    results = []
    for count, (device, backend) in enumerate(pairs):
        detail = f"{device.name} through {backend.library}"
        on_event(ProgressEvent("running kernels", count, len(pairs), detail))
        results.append(process.check_kernel(device, backend, rig.environment))
    _save_faults(rig, results)
    return tuple(results)


def test_devices(
    rig: Rig, devices: Sequence[Device], on_event: OnEvent
) -> tuple[SelfTestSummary, ...]:
    """Run the whole self-test of torch on every device that it can use."""
    from anyrig.bench import process

    pairs = [pair for pair in _list_backends(devices) if pair[1].library == "torch"]
    results = []
    for count, (device, backend) in enumerate(pairs):
        on_event(ProgressEvent("testing", count, len(pairs), device.name))
        results.append(
            process.run_self_test(device, backend, rig.folders.selftests, rig.environment)
        )
    return tuple(results)


def _list_backends(devices: Sequence[Device]) -> Iterator[tuple[Device, DeviceBackend]]:
    for device in devices:
        for backend in device.backends:
            if backend.usable and not device.hardware_block:
                yield device, backend


def _save_faults(rig: Rig, results: Sequence[KernelResult]) -> None:
    """Save which GPUs compute wrongly or not at all, and clear it from those that work again."""
    from anyrig.bench.measurements import DeviceMeasurements, describe_versions
    from anyrig.devices.doctor import describe_wrong_result

    saved = before = _load(rig)
    for device in rig.machine.gpus:
        own = [result for result in results if result.device == device.id]
        if not own:
            continue
        fault = next(filter(None, map(describe_wrong_result, own)), "")
        if not any(result.ok for result in own):
            fault = f"no kernel runs on it: {own[0].error}"
        known = saved.find(device, rig.machine)
        if (known.broken if known else "") != fault:
            versions = describe_versions(device, rig.machine)
            known = known or DeviceMeasurements(device.id, device.name, versions)
            saved = saved.add(replace(known, broken=fault))
    if saved is not before:
        _save(rig, saved)


# -- saved measurements ----------------------------------------------------------------------------


def _load(rig: Rig) -> Measurements:
    from anyrig.bench.measurements import Measurements

    return Measurements.load(rig.folders.measurements)


def _save(rig: Rig, measurements: Measurements) -> bool:
    """Save measurements; if that fails, they are used by this process only."""
    rig.measurements = measurements
    path = rig.folders.measurements
    try:
        measurements.save(path)
    except OSError as error:
        rig.warn(f"the measurements could not be saved to {path}: {error.strerror}")
        return False
    return True
