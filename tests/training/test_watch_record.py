"""The record of a run, and the report that is drawn from it."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from anyrig.backends.memory import MemoryUsage
from anyrig.devices.machine import Device, Machine
from anyrig.devices.probe import HostProbe, LiveProbe
from anyrig.errors import InvalidInputError
from anyrig.monitor import Monitor
from anyrig.monitor.processes import ProcessTable
from anyrig.monitor.readers import DeviceReader
from anyrig.monitor.sample import DeviceSample, SampleTime
from anyrig.training.protocol import PHASES, StepFacts
from anyrig.training.watch.alerts import Alert, Rules
from anyrig.training.watch.figures import (
    Around,
    Counted,
    Figures,
    RunEvent,
    Validation,
    joined,
    summarise,
)
from anyrig.training.watch.record import Recorder
from anyrig.training.watch.report import page, report
from anyrig.training.watch.sinks import Told
from anyrig.training.watch.sinks.lines import Lines, read


def facts(number: int, **changed: Any) -> StepFacts:
    given: dict[str, Any] = {
        "number": number,
        "epoch": 1,
        "loss": torch.tensor(2.0),
        "units": 10,
        "samples": 4,
        "rate": 0.1,
        "micro_batch": 2,
        "num_micro": 2,
        "precision": "fp32",
        **changed,
    }
    return StepFacts(**given)


def counted(number: int, **changed: Any) -> Counted:
    given: dict[str, Any] = {
        "number": number, "epoch": 1, "loss": 2.0, "units": 10, "samples": 4, "own_samples": 4,
        "rate": 0.1, "micro_batch": 2, "num_micro": 2, "precision": "bf16", "skipped": False,
        "grad_norm": 1.0, "scale": 1.0, "num_retries": 0, "step_s": 0.5, "phases": {},
        "elapsed_s": 1.0, "epoch_s": 1.0, "time_s": 5.0, **changed,
    }  # fmt: skip
    return Counted(**given)


class Kept:
    """A sink that keeps what it is told."""

    name = "kept"

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.closed = False
        self.threads: set[str] = set()

    def take(self, told: Told) -> None:
        self.threads.add(threading.current_thread().name)
        self.told.append(told)

    def close(self) -> None:
        self.closed = True


def test_a_line_of_the_log_adds_up_its_steps() -> None:
    steps = [
        counted(1, loss=4.0, units=10, step_s=0.5, phases={"data": 0.1, "forward": 0.2}),
        counted(2, loss=1.0, units=30, step_s=1.5, phases={"data": 0.3}, grad_norm=3.0, scale=2.0),
        counted(3, loss=math.inf, units=20, step_s=1.0, skipped=True, num_retries=2),
    ]
    memory = MemoryUsage(1, 2, 3, 4, 5, 6)
    around = Around(
        flops_per_sample=5e9, peak_flops=1e11, memory=memory, total_skipped=7, total_retries=9
    )
    got = summarise(steps, around)
    assert (got.step, got.num_steps, got.samples, got.units) == (3, 3, 12, 60)
    assert got.loss == pytest.approx((4 * 10 + 1 * 30) / 40)
    assert got.step_s == pytest.approx(1.0)
    assert got.phases == {"data": pytest.approx(0.4 / 3), "forward": pytest.approx(0.2 / 3)}
    assert got.samples_per_s == pytest.approx(12 / 3.0)
    assert got.units_per_s == pytest.approx(60 / 3.0)
    assert got.grad_norm == 3.0
    assert (got.num_skipped, got.total_skipped, got.num_retries, got.total_retries) == (1, 7, 2, 9)
    assert got.mfu == pytest.approx(5e9 * 12 / 3.0 / 1e11)
    assert (got.memory_allocated_bytes, got.memory_reserved_bytes) == (1, 2)
    assert (got.memory_peak_bytes, got.memory_total_bytes) == (3, 6)


def test_a_loss_that_is_no_number_is_not_hidden_by_the_mean() -> None:
    assert math.isnan(summarise([counted(1), counted(2, loss=math.nan)], Around()).loss)
    only = summarise([counted(1, loss=math.inf, skipped=True)], Around())
    assert only.loss == math.inf
    norms = [counted(1, grad_norm=math.nan), counted(2, grad_norm=5.0)]
    norm = summarise(norms, Around()).grad_norm
    assert norm is not None
    assert math.isnan(norm)


def test_every_step_is_recorded_as_it_was() -> None:
    kept = Kept()
    with Recorder(sinks=[kept], total_steps=3) as watch:
        accumulator = torch.tensor(0.0)
        for number in (1, 2, 3):
            for name in PHASES:
                with watch.phase(name):
                    pass
            accumulator.fill_(number * 1.5)
            watch.step(facts(number, loss=accumulator, grad_norm=torch.tensor(number * 2.0)))
        accumulator.fill_(99.0)
    history = watch.history()
    assert [one.step for one in history] == [1, 2, 3]
    assert [one.loss for one in history] == [1.5, 3.0, 4.5]
    assert [one.grad_norm for one in history] == [2.0, 4.0, 6.0]
    assert all(set(one.phases) == set(PHASES) for one in history)
    assert history[0].eta_s is None
    assert history[1].eta_s is not None
    assert history[2].eta_s == 0.0
    assert watch.latest() == history[-1]
    assert [one for one in kept.told if isinstance(one, Figures)] == history
    assert kept.threads == {"anyrig-watch"}
    assert kept.closed


def test_steps_between_two_lines_are_gathered() -> None:
    with Recorder(log_every=3) as watch:
        for number in range(1, 9):
            watch.step(facts(number, loss=torch.tensor(float(number)), skipped=number == 2))
        watch.flush()
        assert [one.step for one in watch.history()] == [3, 6]
        watch.finish()
        assert [one.step for one in watch.history()] == [3, 6, 8]
    history = watch.history()
    assert [one.step for one in history] == [3, 6, 8]
    assert [one.num_steps for one in history] == [3, 3, 2]
    assert [one.loss for one in history] == [2.0, 5.0, 7.5]
    assert [one.num_skipped for one in history] == [1, 0, 0]
    assert history[-1].total_skipped == 1


def test_steps_without_a_unit_do_not_spoil_the_mean_of_their_neighbours() -> None:
    empty = summarise([counted(1, units=0, loss=math.nan)], Around())
    assert math.isnan(empty.loss)
    assert joined([empty, summarise([counted(2, loss=3.0)], Around())]).loss == 3.0


def test_several_processes_are_added_up() -> None:
    """The other process had 30 units of loss 4 and 6 samples."""

    def total(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.add_(torch.tensor([30 * 4.0, 30, 6], dtype=tensor.dtype))

    with Recorder(total=total, flops_per_sample=100.0, peaks={"fp32": 1.0}) as watch:
        watch.step(facts(1, loss=torch.tensor(2.0)))
        time.sleep(0.001)
        watch.step(facts(2, loss=torch.tensor(2.0)))
        watch.step(facts(3, loss=torch.tensor(math.nan), units=0, samples=0))
    first, second, third = watch.history()
    assert first.loss == pytest.approx((2.0 * 10 + 4.0 * 30) / 40)
    assert (second.units, second.samples) == (40, 10)
    assert second.mfu == pytest.approx(100.0 * 4 / second.step_s)
    assert third.loss == pytest.approx(4.0)


class FixedReader(DeviceReader):
    """A reader whose devices say what it was given."""

    def __init__(self, devices: Sequence[Device], **said: float) -> None:
        super().__init__(devices, HostProbe(LiveProbe()))
        self._said: dict[str, Any] = {**said}

    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        return [DeviceSample(one.id, one.name, *at, **self._said) for one in self.devices]


def test_a_monitor_adds_the_devices_state(machine: Callable[[str], Machine]) -> None:
    found = machine("h200-linux")
    gpus = [device for device in found.devices if device.kind != "cpu"]
    reader = FixedReader(gpus, temperature_c=61.0, compute_percent=97.0, power_w=650.0)
    monitor = Monitor(found, readers=[reader])
    with Recorder(monitor=monitor, monitor_device=gpus[0].id) as watch:
        watch.step(facts(1))
        monitor.sample()
        watch.step(facts(2))
    monitor.stop()
    before, after = watch.history()
    assert before.device_temperature_c is None
    assert after.device_temperature_c == 61.0
    assert after.device_utilisation == pytest.approx(0.97)
    assert after.device_power_w == 650.0


def test_a_resumed_run_goes_on_counting(tmp_path: Path) -> None:
    with Recorder(sinks=[Lines(tmp_path)]) as watch:
        for number in range(1, 7):
            watch.step(facts(number, skipped=number < 3, num_retries=1))
        watch.validated(6, {"loss": 1.0})
    before = watch.history()[3]
    lines = Lines(tmp_path, after=4)
    with Recorder(sinks=[lines], past=lines.past) as again:
        for number in range(5, 9):
            again.step(facts(number, loss=torch.tensor(7.0)))
    assert [one.step for one in again.history()] == list(range(1, 9))
    assert again.history()[:4] == watch.history()[:4]
    assert again.history()[-1].total_skipped == 2
    assert again.history()[-1].total_retries == 4
    assert again.history()[4].elapsed_s >= before.elapsed_s
    written = [one for one in read(tmp_path) if isinstance(one, Figures)]
    assert written == again.history()
    assert again.validations() == []


def test_warnings_reach_their_receivers_once() -> None:
    told: list[Alert] = []

    def fails(_: Alert) -> None:
        raise RuntimeError("receiver")

    with Recorder(on_alert=[fails, told.append]) as watch:
        for number in range(1, 4):
            watch.step(facts(number, loss=torch.tensor(math.nan)))
    assert [(one.kind, one.step) for one in told] == [("loss-nonfinite", 1)]
    assert watch.alerts() == told
    assert told[0].hint


def test_a_run_that_hangs_is_told_and_a_validation_is_no_hang() -> None:
    told = threading.Event()

    def run(hold: Callable[[Recorder], object]) -> list[Alert]:
        watch = Recorder(rules=Rules(stall_s=0.0), on_alert=[lambda _: told.set()])
        with watch:
            watch.step(facts(1))
            hold(watch)
        return watch.alerts()

    def aside(watch: Recorder) -> None:
        with watch.aside("validation"):
            time.sleep(1.3)

    assert run(aside) == []
    assert [one.kind for one in run(lambda _: told.wait(60))] == ["stalled"]


class Fails:
    name = "fails.txt"

    def take(self, told: Told) -> None:
        raise OSError(28, "No space left on device")

    def close(self) -> None:
        raise OSError(28, "No space left on device")


def test_a_sink_that_fails_is_told_once_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = Kept()
    with caplog.at_level(logging.WARNING), Recorder(sinks=[Fails(), kept]) as watch:
        for number in range(1, 6):
            watch.step(facts(number))
    assert len([one for one in caplog.records if "fails.txt" in one.getMessage()]) == 1
    assert len([one for one in kept.told if isinstance(one, Figures)]) == 5


NASTY = "<script>alert('1')</script> & \"x\" \u202e"


def figures(step: int, **changed: Any) -> Figures:
    base = Figures(
        step=step, epoch=1, loss=4.0 / step, rate=3e-4, step_s=0.05,
        phases={"data": 0.01, "forward": 0.01, "backward": 0.02}, samples=8, units=4096,
        samples_per_s=160.0, units_per_s=81920.0, epoch_s=2.0, elapsed_s=3.0, time_s=1000.0 + step,
        precision="bf16", micro_batch=4, num_micro=2,
    )  # fmt: skip
    return replace(base, **changed)


class Checked(HTMLParser):
    """Every tag is closed, and nothing is fetched or run."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe")
        assert not any(name in ("src", "href") or name.startswith("on") for name, _ in attrs)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(html: str) -> str:
    parser = Checked()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    assert not re.search(r"url\(|@import|https?://", html)
    assert not re.search(r"\bnan\b|\binf\b", "".join(re.findall(r"<svg.*?</svg>", html)))
    for drawing in re.findall(r"<svg.*?</svg>", html):
        ElementTree.fromstring(drawing)
    return " ".join(parser.text)


def story(num_steps: int) -> list[Told]:
    told: list[Told] = [
        RunEvent("start", "begun", 0, 0.0, 1.0, {"model": NASTY, "settings": {"batch": 32}})
    ]
    for step in range(1, num_steps + 1):
        odd = math.nan if step == 40 else 4.0 / step
        scale = 2.0 ** (16 - step % 3)
        told.append(figures(step, loss=odd, num_skipped=int(step == 7), scale=scale,
                            memory_peak_bytes=2**31, grad_norm=1.0, mfu=0.5))  # fmt: skip
        if step % 10 == 0:
            told.append(Validation(step, {"loss": 5.0 / step, NASTY: 0.5}, 1.0, 1.0))
    told.append(Alert("loss-nonfinite", NASTY, 40, NASTY))
    told.append(RunEvent("batch", NASTY, 20, 1.0, 1.0))
    return told


@pytest.mark.parametrize("num_steps", [0, 1, 3000])
def test_a_report_of_any_length_is_whole_and_safe(num_steps: int) -> None:
    html = page(story(num_steps), title=NASTY, unit=NASTY)
    text = checked(html)
    assert NASTY in text
    assert "settings.batch" in text
    if num_steps >= 35:
        for title in ("Loss", "Learning rate", "Gradient norm", "Step time by phase", "Throughput",
                      "Memory", "MFU", "Loss scale"):  # fmt: skip
            assert f"<h3>{title}" in html
        assert "50.0%" in text
    assert len(html) < 300_000


def test_it_is_written_beside_its_lines(tmp_path: Path) -> None:
    lines = Lines(tmp_path)
    for told in story(50):
        lines.take(told)
    assert report(tmp_path) == tmp_path / "report.html"  # while the run is still going
    lines.close()
    text = checked((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert tmp_path.name in text


def test_units_are_called_samples_only_where_they_are() -> None:
    told = [figures(1, samples=4, units=4), figures(2, samples=4, units=4)]
    assert "<em>samples, median</em>" in page(told, title="run")
    told = [figures(1, samples=4, units=256), figures(2, samples=4, units=256)]
    assert "<em>units, median</em>" in page(told, title="run")
    assert "<em>tokens, median</em>" in page(told, title="run", unit="tokens")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="nothing to report"):
        report(tmp_path)
