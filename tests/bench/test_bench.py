"""Measuring in child processes, and the book of figures."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from anyrig.bench import figures, isolate, kernels
from anyrig.bench.figures import Book, Figure, Measured
from anyrig.bench.plot import svg
from anyrig.devices.discover import discover
from anyrig.devices.doctor import KernelResult
from anyrig.devices.machine import (
    Device,
    DeviceBackend,
    Machine,
    Precision,
    device_from_json,
    to_json,
)

Load = Callable[..., Machine]


class Clock:
    """A device that computes at a known rate, and a clock that it moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, flops: float, rate: float) -> None:
        self.now, self._flops, self._rate = 0.0, flops, rate
        self.ran_on, self.architectures = "clock", ()
        self.precisions: tuple[Precision, ...] = ("fp32", "bf16")
        self.asked: list[tuple[int, str]] = []
        monkeypatch.setattr("anyrig.bench.kernels.time.perf_counter", lambda: self.now)
        monkeypatch.setattr("anyrig.bench.kernels.time.sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def product(self, left: object, right: object) -> object:
        raise AssertionError("a product was not asked for")

    def time_products(self, size: int, precision: Precision, num_products: int) -> float:
        self.asked.append((size, precision))
        seconds = 2 * size**3 * num_products / self._flops / (2 if precision == "bf16" else 1)
        self.now += seconds
        return seconds

    def time_copies(self, num_bytes: int, num_copies: int) -> float:
        seconds = 2 * num_bytes * num_copies / self._rate
        self.now += seconds
        return seconds


def test_figures_are_what_the_device_does(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, flops=100e12, rate=2e12)
    found = list(kernels.measure(clock, free_bytes=80 * 2**30, budget_s=60, quick=False))  # type: ignore[arg-type]
    table = {(f.kernel, f.precision, f.size): f for f in found}
    assert table["product", "fp32", 2000].value == pytest.approx(100e12)
    assert table["product", "bf16", 2000].value == pytest.approx(200e12)
    assert table["product", "bf16", 8192].value == pytest.approx(200e12)
    assert table["bandwidth", "fp32", 2**30].value == pytest.approx(2e12)
    assert table["sustained", "bf16", 8192].value == pytest.approx(200e12)
    assert all(f.rounds == kernels.ROUNDS for f in found if f.kernel != "sustained")


def test_a_slow_device_is_given_up_on_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, flops=50e9, rate=5e9)
    found = list(kernels.measure(clock, free_bytes=8 * 2**30, budget_s=30, quick=False))  # type: ignore[arg-type]
    assert {f.size for f in found if f.kernel == "product"} == {2000}
    assert clock.now < 60


def test_the_large_product_fits_into_a_quarter_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, flops=100e12, rate=1e12)
    list(kernels.measure(clock, free_bytes=2**30, budget_s=60, quick=False))  # type: ignore[arg-type]
    assert max(size for size, _ in clock.asked) < 8192


def test_quick_leaves_the_large_product_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, flops=100e12, rate=1e12)
    list(kernels.measure(clock, free_bytes=80 * 2**30, budget_s=4, quick=True))  # type: ignore[arg-type]
    assert {size for size, _ in clock.asked} == {2000}


# -- children --------------------------------------------------------------------------------------


def _cpu() -> tuple[Device, DeviceBackend]:
    here = discover({})
    return here.cpu_device, next(d for d in here.cpu_device.backends if d.library == "onnx")


def test_a_child_proves_and_measures_the_cpu() -> None:
    device, backend = _cpu()
    asked = isolate.Asked(measure=True, quick=True, budget_s=0.5)
    answers = list(isolate.run(device, backend, asked, dict(os.environ)))
    assert isinstance(answers[0], KernelResult)
    assert answers[0].ok
    assert answers[0].max_error is not None
    assert answers[0].max_error < 1e-5
    found = [answer for answer in answers if isinstance(answer, Figure)]
    assert {figure.kernel for figure in found} == {"product", "bandwidth"}
    assert all(figure.value > 0 and figure.backend == "onnx" for figure in found)


def test_a_child_that_cannot_run_the_kernel_says_why() -> None:
    gpu = Device("GPU-x", "gpu", "nvidia", "card", indices={"cuda": 0})
    answer = isolate.probe(gpu, DeviceBackend("torch", "cuda:0", "cuda"), dict(os.environ))
    assert not answer.ok
    assert "torch does not see a GPU" in answer.error


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11"),
        ("import sys; sys.exit('the driver said no')", "the driver said no"),
        ("import time; time.sleep(600)", "no answer within 2 s"),
    ],
)
def test_a_child_that_dies_or_hangs_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, words: str
) -> None:
    """A stand-in for the child's module, found before ours, does what a bad driver does."""
    package = tmp_path / "bad" / "numpy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    monkeypatch.setattr(isolate, "START_S", 2.0)
    device, backend = _cpu()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "bad")}
    answer = isolate.probe(device, backend, environment)
    assert not answer.ok
    assert words in answer.error


def test_what_start_up_hooks_print_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys; print('hello'); sys.stdout.flush(); sys.stderr.buffer.write(bytes([255, 10]))"
    )
    device, backend = _cpu()
    hooked = tmp_path / "hooks"
    hooked.mkdir()
    (tmp_path / "sitecustomize.py").rename(hooked / "sitecustomize.py")
    answer = isolate.probe(device, backend, {**os.environ, "PYTHONPATH": str(hooked)})
    assert answer.ok, answer.error


def test_a_module_of_the_present_folder_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemError('from the present folder')")
    monkeypatch.chdir(tmp_path)
    device, backend = _cpu()
    assert isolate.probe(device, backend, dict(os.environ)).ok


def test_a_device_survives_the_way_to_its_child(machine: Load) -> None:
    import json

    for gpu in machine("strix-halo-linux").gpus + machine("h100x8-mig").gpus:
        again = device_from_json(json.loads(json.dumps(to_json(gpu))))
        assert to_json(again) == to_json(gpu)
        assert again == gpu or gpu.blocked


# -- the book --------------------------------------------------------------------------------------


@pytest.fixture
def page(machine: Load) -> Measured:
    here = machine("h200-linux")
    gpu = here.gpus[0]
    figure = Figure("product", "bf16", 8192, 760e12, "FLOP/s", 0.014, 0.02, 5, "torch")
    return Measured(gpu.id, gpu.name, figures.stamp(gpu, here), (figure,), when="2026-11-15")


def test_the_book_is_kept(tmp_path: Path, page: Measured) -> None:
    path = tmp_path / "figures.json"
    figures.save(path, Book().with_(page))
    assert figures.load(path).devices == {page.device: page}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', '{"format": 1, "devices": 3}'])
def test_a_book_that_cannot_be_read_is_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "figures.json"
    path.write_text(text)
    assert figures.load(path) == Book()
    assert figures.load(tmp_path / "none.json") == Book()


def test_figures_are_evidence_under_their_own_driver_alone(machine: Load, page: Measured) -> None:
    here = machine("h200-linux")
    gpu = here.gpus[0]
    assert Book().with_(page).evidence(here).speeds == {gpu.id: pytest.approx(760)}
    newer = replace(here, gpus=(replace(gpu, driver_version="999.1"),))
    assert Book().with_(page).evidence(newer).speeds == {}
    torch = here.host.installed.torch
    assert torch is not None
    installed = here.host.installed._replace(torch=torch._replace(version="2.99"))
    other = replace(here, host=replace(here.host, installed=installed))
    assert Book().with_(page).evidence(other).speeds == {}


def test_a_quick_look_does_not_replace_a_long_one(page: Measured) -> None:
    quick = replace(page, figures=(
        replace(page.figures[0], value=1.0, rounds=1),
        Figure("product", "fp32", 2000, 45e12, "FLOP/s", 0.003, rounds=1, backend="torch"),
    ))  # fmt: skip
    kept = Book().with_(page).with_(quick).devices[page.device].figures
    assert {(f.precision, f.value) for f in kept} == {("bf16", 760e12), ("fp32", 45e12)}
    other = replace(quick, stamp="another driver")
    assert Book().with_(page).with_(other).devices[page.device] == other


def test_a_fault_is_evidence(machine: Load, page: Measured) -> None:
    here = machine("h200-linux")
    book = Book().with_(replace(page, broken="differs by 3 %"))
    assert book.evidence(here).broken == {page.device: "differs by 3 %"}


def test_the_plot_is_a_picture_of_every_product(page: Measured) -> None:
    slow = replace(page, device="cpu", name="A & B <CPU>", figures=(
        Figure("product", "fp32", 2000, 88e9, "FLOP/s", 1.8), *page.figures))  # fmt: skip
    root = ElementTree.fromstring(svg([page, slow]))
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert sum("760 TFLOP/s" in text for text in texts) == 2
    assert any("A & B <CPU>" in text for text in texts)
    bars = [e for e in root.iter() if e.tag.endswith("rect") and e.get("height") == "18"]
    assert len(bars) == 3
    assert float(bars[0].get("width") or 0) > float(bars[1].get("width") or 0)
    assert ElementTree.fromstring(svg([])) is not None
