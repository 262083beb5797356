"""Kernels, child processes, and the file of measurements."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from anyrig.bench import process
from anyrig.bench.kernels import NUM_ROUNDS, measure_kernels
from anyrig.bench.measurements import (
    DeviceMeasurements,
    Measurement,
    Measurements,
    describe_versions,
    plot_measurements,
)
from anyrig.devices.discovery import discover
from anyrig.devices.machine import (
    Device,
    DeviceBackend,
    Machine,
    Precision,
    device_from_json,
    device_to_json,
)

Load = Callable[..., Machine]


class FakeRunner:
    """A device that computes at a known rate, and moves the clock as it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, flops: float, rate: float) -> None:
        self.now, self._flops, self._rate = 0.0, flops, rate
        self.ran_on, self.architectures = "clock", ()
        self.precisions: tuple[Precision, ...] = ("fp32", "bf16")
        self.sizes: set[int] = set()
        monkeypatch.setattr("anyrig.bench.kernels.time.perf_counter", lambda: self.now)
        monkeypatch.setattr("anyrig.bench.kernels.time.sleep", self._advance)

    def _advance(self, seconds: float) -> float:
        self.now += seconds
        return seconds

    def product(self, left: object, right: object) -> object:
        raise AssertionError("no product was requested")

    def time_products(self, size: int, precision: Precision, num_products: int) -> float:
        self.sizes.add(size)
        flops = self._flops * (2 if precision == "bf16" else 1)
        return self._advance(2 * size**3 * num_products / flops)

    def time_copies(self, num_bytes: int, num_copies: int) -> float:
        return self._advance(2 * num_bytes * num_copies / self._rate)

    def measure(self, free_gib: float, budget_s: float, quick: bool = False) -> list[Measurement]:
        free_bytes = int(free_gib * 2**30)
        return list(measure_kernels(self, free_bytes=free_bytes, budget_s=budget_s, quick=quick))  # type: ignore[arg-type]


def test_measured_speeds_are_those_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    found = FakeRunner(monkeypatch, flops=100e12, rate=2e12).measure(80, 60)
    table = {(m.kernel, m.precision, m.size): m for m in found}
    assert table["product", "fp32", 2000].value == pytest.approx(100e12)
    assert table["product", "bf16", 2000].value == pytest.approx(200e12)
    assert table["product", "bf16", 8192].value == pytest.approx(200e12)
    assert table["bandwidth", "fp32", 2**30].value == pytest.approx(2e12)
    assert table["sustained", "bf16", 8192].value == pytest.approx(200e12)
    assert all(m.rounds == NUM_ROUNDS for m in found if m.kernel != "sustained")


def test_a_slow_device_stays_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = FakeRunner(monkeypatch, flops=50e9, rate=5e9)
    found = runner.measure(8, 30)
    assert {m.size for m in found if m.kernel == "product"} == {2000}
    assert runner.now < 60


def test_the_large_product_fits_a_quarter_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = FakeRunner(monkeypatch, flops=100e12, rate=1e12)
    runner.measure(1, 60)
    assert max(runner.sizes) < 8192
    runner.sizes.clear()
    runner.measure(80, 4, quick=True)
    assert runner.sizes == {2000}


# -- child processes -------------------------------------------------------------------------------


def _cpu() -> tuple[Device, DeviceBackend]:
    cpu = discover({}).cpu_device
    return cpu, next(backend for backend in cpu.backends if backend.library == "onnx")


def test_a_child_checks_and_measures_the_cpu() -> None:
    started: list[str] = []
    result = process.measure_device(
        *_cpu(), os.environ, quick=True, budget_s=0.5, on_progress=started.append
    )
    assert result.kernel.ok
    assert result.kernel.max_error is not None
    assert result.kernel.max_error < 1e-5
    assert {m.kernel for m in result.measurements} == {"product", "bandwidth"}
    assert all(m.value > 0 and m.backend == "onnx" for m in result.measurements)
    assert "memory bandwidth" in started


def test_a_kernel_that_cannot_run_reports_why() -> None:
    gpu = Device("GPU-x", "gpu", "nvidia", "card", indices={"cuda": 0})
    backend = DeviceBackend("torch", "cuda:0", "cuda")
    result = process.measure_device(gpu, backend, os.environ, quick=True)
    assert not result.kernel.ok
    assert "torch does not see a GPU" in result.kernel.error
    assert not result.transient


@pytest.mark.parametrize(
    ("code", "words", "transient"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11", False),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9", True),
        ("import sys; sys.exit('the driver refused')", "the driver refused", False),
        ("raise MemoryError", "MemoryError", True),
        ("raise RuntimeError('an illegal memory access')", "illegal memory access", False),
        ("import time; time.sleep(600)", "no answer within 2 s", True),
    ],
)
def test_a_child_that_dies_or_hangs_is_a_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, words: str, transient: bool
) -> None:
    """A fake numpy, imported instead of the real one, does what a bad driver does."""
    package = tmp_path / "numpy"
    package.mkdir()
    (package / "__init__.py").write_text(code)
    if "600" in code:
        monkeypatch.setattr(process, "START_S", 2.0)
        monkeypatch.setattr(process, "QUICK_S", 0.0001)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = process.measure_device(*_cpu(), environment, quick=True)
    assert not result.kernel.ok
    assert words in result.kernel.error
    assert result.transient == transient


@pytest.mark.parametrize(
    "code",
    ["os.close(1); time.sleep(600)",
     "os.close(0); os.close(1); os.close(2); time.sleep(600)",
     """while True: print('{"kind": "progress", "text": "again"}', flush=True)"""],
)  # fmt: skip
def test_the_time_limit_holds_whatever_a_child_does_with_its_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import os, sys, threading, time\n{code}\n")
    monkeypatch.setattr(process, "START_S", 1.0)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found: list[process.BenchResult] = []

    def measure() -> None:
        found.append(process.measure_device(*_cpu(), environment, quick=True, budget_s=0.01))

    thread = threading.Thread(target=measure, daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert found, "it waits for the child although the limit has passed"
    assert "no answer within 1 s" in found[0].kernel.error
    assert found[0].transient


def test_output_of_start_up_hooks_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys; print('hello'); sys.stdout.flush(); sys.stderr.buffer.write(bytes([255, 10]))"
    )
    result = process.check_kernel(*_cpu(), {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert result.ok, result.error


def test_modules_in_the_working_directory_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemError('from the working directory')")
    monkeypatch.chdir(tmp_path)
    assert process.check_kernel(*_cpu(), os.environ).ok


def test_a_device_is_the_same_in_its_child(machine: Load) -> None:
    for gpu in machine("strix-halo-linux").gpus + machine("h100x8-mig").gpus:
        again = device_from_json(json.loads(json.dumps(device_to_json(gpu))))
        assert device_to_json(again) == device_to_json(gpu)
        assert again == gpu or gpu.hardware_block


# -- the file of measurements ----------------------------------------------------------------------


@pytest.fixture
def h200(machine: Load) -> DeviceMeasurements:
    here = machine("h200-linux")
    gpu = here.gpus[0]
    product = Measurement("product", "bf16", 8192, 760e12, "FLOP/s", 0.014, 0.02, 5, "torch")
    versions = describe_versions(gpu, here)
    return DeviceMeasurements(gpu.id, gpu.name, versions, (product,), when="2026-11-15")


def test_measurements_are_saved_and_loaded(tmp_path: Path, h200: DeviceMeasurements) -> None:
    path = tmp_path / "figures.json"
    Measurements().add(h200).save(path)
    assert Measurements.load(path).devices == {h200.device: h200}


def test_a_file_of_0_1_0_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text("""{"format": 1, "devices": {"cpu": {
        "device": "cpu", "name": "EPYC", "stamp": "driver -; torch 2.9.0", "broken": "",
        "when": "2026-11-15T10:00:00+00:00", "figures": [{"kernel": "product",
        "precision": "fp32", "size": 2000, "value": 88300000000.0, "unit": "FLOP/s",
        "seconds": 1.81, "spread": 0.04, "rounds": 5, "backend": "torch"}]}}}""")
    cpu = Measurements.load(path).devices["cpu"]
    assert cpu.versions == "driver -; torch 2.9.0"
    assert cpu.speeds() == {("torch", "fp32"): 88.3e9}
    again = tmp_path / "again.json"
    Measurements.load(path).save(again)
    assert json.loads(again.read_text()) == json.loads(path.read_text())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', '{"format": 1, "devices": 3}'])
def test_a_file_that_cannot_be_read_is_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "figures.json"
    path.write_text(text)
    assert Measurements.load(path) == Measurements()
    assert Measurements.load(tmp_path / "missing.json") == Measurements()


def test_measurements_are_valid_for_their_driver_and_libraries_only(
    machine: Load, h200: DeviceMeasurements
) -> None:
    here = machine("h200-linux")
    gpu = here.gpus[0]
    known = Measurements().add(replace(h200, broken="differs by 3 %"))
    assert known.measured_devices(here).speeds == {gpu.id: pytest.approx(760)}
    assert known.measured_devices(here).broken == {gpu.id: "differs by 3 %"}
    newer = replace(here, gpus=(replace(gpu, driver_version="999.1"),))
    assert known.measured_devices(newer).speeds == {}
    assert known.measured_devices(newer).broken == {}
    torch = here.host.installed.torch
    assert torch is not None
    installed = here.host.installed._replace(torch=torch._replace(version="2.99"))
    other = replace(here, host=replace(here.host, installed=installed))
    assert known.speeds(other) == {}


def test_a_quick_measurement_does_not_replace_a_full_one(h200: DeviceMeasurements) -> None:
    quick = replace(h200, measurements=(
        replace(h200.measurements[0], value=1.0, rounds=1),
        Measurement("product", "fp32", 2000, 45e12, "FLOP/s", 0.003, rounds=1, backend="torch"),
    ))  # fmt: skip
    known = Measurements().add(h200)
    merged = known.add(quick).devices[h200.device].measurements
    assert {(m.precision, m.value) for m in merged} == {("bf16", 760e12), ("fp32", 45e12)}
    other = replace(quick, versions="another driver")
    assert known.add(other).devices[h200.device] == other


def test_the_chart_has_a_bar_for_every_product(h200: DeviceMeasurements) -> None:
    slow = Measurement("product", "fp32", 2000, 88e9, "FLOP/s", 1.8)
    cpu = DeviceMeasurements("cpu", "A & B <CPU>", "", (slow, *h200.measurements))
    root = ElementTree.fromstring(plot_measurements([h200, cpu]))
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert texts.count("760 TFLOP/s") == 2
    assert "A & B <CPU>, 2000 fp32" in texts
    bars = [e for e in root.iter() if "area" in (e.get("class") or "")]
    assert len(bars) == 3
    assert float(bars[0].get("width") or 0) > float(bars[1].get("width") or 0)
