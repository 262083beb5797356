"""What is recorded of a run, and where it goes."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from anyrig.training.alerts import AlertRules
from anyrig.training.loggers import (
    LINES,
    JsonLinesLogger,
    PrintLogger,
    TensorBoardLogger,
    format_count,
    format_record,
    read_records,
)
from anyrig.training.metrics import (
    Alert,
    MetricsRecorder,
    RunEvent,
    StepMetrics,
    ThinnedHistory,
    ValidationMetrics,
    join_metrics,
)
from anyrig.training.report import write_report
from anyrig.training.step import StepResult


def metrics(step: int, loss: float = 1.0, **changed: Any) -> StepMetrics:
    values: dict[str, Any] = {
        "step": step, "epoch": 0, "loss": loss, "rate": 1e-3, "step_s": 0.1,
        "phases": {"data": 0.01}, "samples": 8, "units": 8, "samples_per_s": 80.0,
        "units_per_s": 80.0, "epoch_s": 1.0, "elapsed_s": step * 0.1, "time_s": 0.0,
        "precision": "fp32", "micro_batch": 8, "num_micro": 1, **changed,
    }  # fmt: skip
    return StepMetrics(**values)


def result(loss: float, *, skipped: bool = False, units: int = 8) -> StepResult:
    return StepResult(
        torch.tensor(loss), units, 8, units, 8, 8, 1, skipped, torch.tensor(2.0)
    )  # fmt: skip


class Kept:
    name = "kept"

    def __init__(self) -> None:
        self.records: list[Any] = []

    def log(self, record: Any) -> None:
        self.records.append(record)

    def close(self) -> None:
        self.records.append("closed")


class Broken(Kept):
    name = "broken"

    def log(self, record: Any) -> None:
        raise OSError("the disk is gone")


def test_steps_are_read_late_and_joined_by_lines(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    recorder = MetricsRecorder("cpu", loggers=[Broken(), kept], log_every=2, total_steps=5)
    for step in range(1, 6):
        recorder.record_step(result(float(step), skipped=step == 3), step=step, epoch=0,
                             rate=0.1, precision="fp32")  # fmt: skip
        assert len(recorder.steps) == (step - 1) // 2
    recorder.finish()
    recorder.close()
    assert [(row.step, row.num_steps, row.loss) for row in recorder.steps] == [
        (2, 2, 1.5), (4, 2, 4.0), (5, 1, 5.0),
    ]  # fmt: skip
    assert recorder.steps[1].num_skipped == recorder.steps[2].total_skipped == 1
    assert [row.step for row in kept.records if isinstance(row, StepMetrics)] == [2, 4, 5]
    assert kept.records[-1] == "closed"
    assert caplog.text.count("the disk is gone") == 1


def test_lines_are_cut_at_a_resume_and_read_while_they_are_written(tmp_path: Path) -> None:
    lines = JsonLinesLogger(tmp_path)
    for step in range(1, 6):
        lines.log(metrics(step, math.nan if step == 2 else float(step)))
    lines.log(ValidationMetrics(4, {"loss": 0.5}, 1.0, 2.0))
    lines.log(RunEvent("start", "started", 0, 0.0, 0.0, {"model": "x"}))
    lines.log(Alert("loss-spike", "jumped", 5, "look", 1.0))
    with (tmp_path / LINES).open("a") as file:
        file.write('{"kind": "step", "st')
    found = read_records(tmp_path)
    assert len(found) == 8
    assert math.isnan(next(one.loss for one in found if getattr(one, "step", 0) == 2))  # type: ignore[union-attr]
    lines.close()
    again = JsonLinesLogger(tmp_path, after=4)
    assert [one.step for one in again.past] == [0, 1, 2, 3, 4, 4]
    again.close()
    assert len((tmp_path / LINES).read_text().splitlines()) == 6
    for line in (tmp_path / LINES).read_text().splitlines():
        json.loads(line)


def test_metrics_of_0_1_0_are_read() -> None:
    stored = Path(__file__).parents[1] / "stored" / "0.1.0" / "training" / "run"
    found = read_records(stored)
    steps = [one for one in found if isinstance(one, StepMetrics)]
    assert [one.step for one in steps] == list(range(1, len(steps) + 1))
    assert steps[0].phases


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_lines_outlive_a_kill(tmp_path: Path) -> None:
    code = (
        "import os, sys, signal; from pathlib import Path\n"
        "from anyrig.training.loggers import JsonLinesLogger\n"
        "from anyrig.training.metrics import RunEvent\n"
        "lines = JsonLinesLogger(Path(sys.argv[1]))\n"
        "[lines.log(RunEvent('x', 'y', n, 0.0, 0.0)) for n in range(50)]\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(read_records(tmp_path)) == 50


def test_steps_are_printed_now_and_then_and_the_last_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = PrintLogger()
    for record in (metrics(1), metrics(2), ValidationMetrics(2, {"loss": 0.5}, 1.0, 2.0)):
        logger.log(record)
    logger.log(metrics(3))
    logger.close()
    lines = capsys.readouterr().out.splitlines()
    assert [line[:6] for line in lines] == ["step 1", "step 2", "step 3"]
    assert lines[1] == "step 2: validation: loss 0.5"


def test_each_record_is_a_line() -> None:
    alert = Alert("loss-spike", "the loss\njumped", 1, "Look.")
    assert format_record(alert) == "step 1: warning: the loss jumped. Look."
    assert format_record(metrics(1), 4).startswith("step 1/4  loss 1.0000")
    assert [format_count(one) for one in (7.25, 812, 12_400, 3.4e6)] == [
        "7.25", "812", "12.4k", "3.40M",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_files_are_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    board = TensorBoardLogger(tmp_path)
    board.log(metrics(1))
    board.log(ValidationMetrics(1, {"loss": 0.5}, 1.0, 2.0))
    board.close()
    assert any(os.path.getsize(path) for path in tmp_path.rglob("events.out.tfevents*"))


def kinds(rules: AlertRules, *steps: StepMetrics) -> list[str]:
    return [alert.kind for one in steps for alert in rules.check(one)]


def test_alerts_are_given_once_until_they_have_passed() -> None:
    rules = AlertRules()
    calm = [metrics(n, 1.0 + 0.01 * (n % 3)) for n in range(1, 31)]
    assert kinds(rules, *calm) == []
    assert kinds(rules, metrics(31, 9.0), metrics(32, 9.0)) == ["loss-spike"]
    assert kinds(rules, *[metrics(n, 1.0) for n in range(33, 50)]) == []
    assert kinds(rules, metrics(50, 9.0)) == ["loss-spike"]
    assert kinds(rules, metrics(51, math.nan)) == ["loss-nonfinite"]
    skipped = [metrics(n, 1.0, num_skipped=1) for n in range(1, 6)]
    assert kinds(AlertRules(), *skipped) == ["steps-skipped"]
    slow = [metrics(n, 1.0, phases={"data": 0.05}) for n in range(1, 60)]
    assert kinds(AlertRules(), *slow) == ["data-starves"]
    few = [metrics(n, 1.0, phases={"data": 0.01}) for n in range(1, 60)]
    assert kinds(AlertRules(), *few) == []


def test_joined_metrics_are_sums_and_means() -> None:
    one, other = metrics(1, 1.0, units=10, grad_norm=1.0), metrics(2, 4.0, units=5, grad_norm=3.0)
    joined = join_metrics([one, other])
    assert (joined.step, joined.num_steps, joined.units, joined.grad_norm) == (2, 2, 15, 3.0)
    assert joined.loss == pytest.approx(2.0)
    assert joined.units_per_s == pytest.approx(75)
    history = ThinnedHistory[int](16)
    for number in range(1000):
        history.add(number)
    assert len(history) <= 16
    assert (history[0], history[-1]) == (0, 999)


def test_a_report_is_one_file_without_scripts(tmp_path: Path) -> None:
    lines = JsonLinesLogger(tmp_path)
    lines.log(RunEvent("start", "started", 0, 0.0, 0.0, {"model": "<b>", "settings": {"a": 1}}))
    for step in range(1, 60):
        lines.log(metrics(step, 5.0 / step))
    lines.log(ValidationMetrics(50, {"loss": 0.5, "accuracy": 0.9}, 1.0, 2.0))
    lines.log(Alert("loss-spike", "jumped", 55, "look", 1.0))
    lines.close()
    text = write_report(tmp_path, title="<run>").read_text(encoding="utf-8")
    assert "&lt;run&gt;" in text
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "Best validation" in text
    assert "Validation: accuracy" in text
    assert "waiting for data" in text
    assert "jumped" in text
