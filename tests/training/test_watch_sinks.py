"""What is written is what was told: lines, console, TensorBoard, Prometheus."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyrig.training.watch.alerts import Alert, Rules
from anyrig.training.watch.figures import Figures, RunEvent, Validation
from anyrig.training.watch.report import report
from anyrig.training.watch.sinks import Guarded, Told
from anyrig.training.watch.sinks.console import Console, fitted
from anyrig.training.watch.sinks.lines import FILE, Lines, read
from anyrig.training.watch.sinks.prometheus import Prometheus, text


def figures(step: int, **changed: Any) -> Figures:
    base = Figures(
        step=step, epoch=1, loss=2.5, rate=3e-7, step_s=0.05, phases={"data": 0.01}, samples=8,
        units=4096, samples_per_s=160.0, units_per_s=81920.0, epoch_s=2.0, elapsed_s=3.0,
        time_s=1000.0 + step, precision="bf16", micro_batch=4, num_micro=2,
    )  # fmt: skip
    return replace(base, **changed)


ALERT = Alert("loss-spike", "loss jumped", 2, "Look.", 1002.0)
EVENT = RunEvent("batch", 'halved: "4" < 8\n', 2, 1.0, 1001.0, {"micro_batch": 4})
VALID = Validation(2, {"loss": 2.0, "accuracy": 0.5}, 1.0, 1001.5)
ALL: list[Told] = [figures(1), figures(2, loss=math.nan, grad_norm=math.inf), VALID, EVENT, ALERT]


def write(folder: Path, told: list[Told], after: int | None = None) -> Lines:
    lines = Lines(folder, after=after)
    for one in told:
        lines.take(one)
    lines.close()
    return lines


def test_lines_are_plain_json_and_come_back_as_they_were(tmp_path: Path) -> None:
    write(tmp_path, ALL)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    rows = [
        json.loads(row, parse_constant=refuse)
        for row in (tmp_path / FILE).read_bytes().splitlines()
    ]
    assert [row["kind"] for row in rows] == ["step", "step", "validation", "event", "alert"]
    assert rows[1]["loss"] is None
    assert rows[1]["nonfinite"] == {"loss": "nan", "grad_norm": "inf"}
    back = read(tmp_path)
    assert back[0] == ALL[0]
    assert back[2:] == ALL[2:]
    assert isinstance(back[1], Figures)
    assert math.isnan(back[1].loss)
    assert back[1].grad_norm == math.inf


def test_facts_of_any_kind_are_written(tmp_path: Path) -> None:
    facts = {
        "rules": Rules(window=7),
        "path": tmp_path,
        "rates": (1.0, math.nan),
        "odd": "half \udc80",
        "nest": {"deep": math.inf},
    }
    lines = write(tmp_path, [RunEvent("start", "half \udc80, whole é", 0, 0.0, 0.0, facts)])
    (back,) = read(tmp_path)
    assert isinstance(back, RunEvent)
    assert back.text == "half \udc80, whole é"
    assert back.facts["rules"]["window"] == 7
    assert back.facts["path"] == str(tmp_path)
    assert back.facts["rates"] == [1.0, None]
    assert "é".encode() in lines.path.read_bytes()
    assert report(tmp_path).read_text(encoding="utf-8")


def test_a_resume_cuts_off_what_came_after(tmp_path: Path) -> None:
    write(tmp_path, [figures(n) for n in range(1, 11)])
    lines = write(tmp_path, [figures(n, loss=9.0) for n in range(7, 9)], after=6)
    assert [one.step for one in lines.past] == [1, 2, 3, 4, 5, 6]
    back = [one for one in read(tmp_path) if isinstance(one, Figures)]
    assert [(one.step, one.loss) for one in back] == [
        *[(n, 2.5) for n in range(1, 7)], (7, 9.0), (8, 9.0),
    ]  # fmt: skip
    assert not list(tmp_path.glob(f".{FILE}*"))


@pytest.mark.parametrize("tail", [b'{"kind": "step", "st', b"\xff\xfe\x00", b"{}\n"])
def test_a_torn_line_is_passed_over_and_cut_off(tmp_path: Path, tail: bytes) -> None:
    write(tmp_path, [figures(1), figures(2)])
    with (tmp_path / FILE).open("ab") as file:
        file.write(tail)
    assert [one.step for one in read(tmp_path)] == [1, 2]
    write(tmp_path, [figures(3)], after=2)
    assert [one.step for one in read(tmp_path)] == [1, 2, 3]
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 3


def test_a_very_long_run_is_remembered_in_part_and_read_in_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyrig.training.watch.sinks.lines._MOST_READ", 100)
    write(tmp_path, [figures(n, loss=float(n), mfu=0.5) for n in range(1, 5_001)])
    lines = write(tmp_path, [VALID], after=4_500)
    assert len(lines.past) <= 4096
    assert (lines.past[0].step, lines.past[-1].step) == (1, 4_500)
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 4_501
    told = [one for one in read(tmp_path) if isinstance(one, Figures)]
    assert len(told) <= 101
    assert sum(one.num_steps for one in told) == 4_500
    assert sum(one.samples for one in told) == 8 * 4_500
    mean = sum(one.loss * one.units for one in told) / sum(one.units for one in told)
    assert mean == pytest.approx(4_501 / 2)
    assert all(one.step_s == pytest.approx(0.05) and one.mfu == pytest.approx(0.5) for one in told)
    assert all(one.phases == {"data": pytest.approx(0.01)} for one in told)


_KILLED = """
import sys, torch
from pathlib import Path
from anyrig.training.protocol import StepFacts
from anyrig.training.watch.record import Recorder
from anyrig.training.watch.sinks.lines import Lines
watch = Recorder(sinks=[Lines(Path(sys.argv[1]))])
for number in range(1, 10**9):
    watch.step(StepFacts(number, 1, torch.tensor(1.0 / number), 4, 4, 0.1, 4, 1, "fp32"))
    if number == 200:
        watch.flush()
        print("flushed", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_lines_outlive_a_kill(tmp_path: Path) -> None:
    script = [sys.executable, "-c", _KILLED, str(tmp_path)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "flushed\n"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    steps = [one.step for one in read(tmp_path) if isinstance(one, Figures)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 200


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = Lines(tmp_path)
    healthy = lines._file
    lines._file = open("/dev/full", "ab", buffering=0)  # noqa: SIM115 - closed below
    guarded = Guarded(lines)
    for number in range(1, 4):
        guarded.take(figures(number))
    assert guarded.num_failed == 3
    assert caplog.text.count("training goes on") == 1
    lines._file.close()
    lines._file = healthy
    guarded.take(figures(4))  # there is room again
    guarded.close()
    assert [one.step for one in read(tmp_path)] == [4]


def test_a_terminal_has_one_live_line_that_never_wraps() -> None:
    out: list[str] = []
    console = Console(out.append, tty=True, total_steps=10, width=40)
    console.take(figures(5))
    console.take(ALERT)
    console.take(figures(10))
    console.close()
    shown = "".join(out)
    assert out[0].startswith("\r\x1b[K[######......] step 5/10")
    assert out[1].startswith("\r\x1b[Kstep 2: warning: loss jumped. Look.\n[######")
    assert shown.endswith("\n")
    live = [part for part in shown.replace("\x1b[K", "").split("\r") if part.startswith("[")]
    assert all(len(part.rstrip("\n")) < 40 for part in live)
    assert "[############] step 10/10" in shown


def test_texts_cannot_move_the_cursor() -> None:
    assert fitted("a\x1b[2Jb\rc\n", 80) == "a [2Jb c "
    assert fitted("one  two  three", 9) == "one  two"


def test_prometheus_has_every_figure_in_base_units(tmp_path: Path) -> None:
    sink = Prometheus(tmp_path, run='r"1\n', every_s=0.0)
    for told in (figures(7, loss=math.nan, total_skipped=2), VALID, ALERT, ALERT):
        sink.take(told)
    sink.close()
    written = (tmp_path / "metrics.prom").read_text(encoding="utf-8")
    assert written == sink.text()
    label = '{run="r\\"1\\n"}'
    rows = dict(row.rsplit(" ", 1) for row in written.splitlines() if not row.startswith("#"))
    assert rows[f"anyrig_train_step{label}"] == "7"
    assert rows[f"anyrig_train_loss{label}"] == "NaN"
    assert float(rows[f"anyrig_train_learning_rate{label}"]) == 3e-7
    assert rows[f"anyrig_train_skipped_steps_total{label}"] == "2"
    assert rows['anyrig_train_phase_seconds{run="r\\"1\\n",phase="data"}'] == "0.01"
    assert rows['anyrig_train_validation{run="r\\"1\\n",figure="accuracy"}'] == "0.5"
    assert rows['anyrig_train_alerts_total{run="r\\"1\\n",kind="loss-spike"}'] == "2"
    assert f"anyrig_train_mfu_ratio{label}" not in rows
    names = [row.split()[2] for row in written.splitlines() if row.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert text(None, run="x") == ""


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from anyrig.training.watch.sinks.board import FOLDER, Board

    board = Board(tmp_path)
    for told in (
        figures(1),
        figures(2, loss=1.5, mfu=0.5),
        figures(3, loss=math.nan),
        VALID,
        ALERT,
    ):
        board.take(told)
    board.close()
    again = Board(tmp_path, after=1)
    again.take(figures(2, loss=1.25))
    again.close()
    seen = reading.EventAccumulator(str(tmp_path / FOLDER))
    seen.Reload()
    assert [(one.step, one.value) for one in seen.Scalars("train/loss")] == [(1, 2.5), (2, 1.25)]
    assert "validation/accuracy" in seen.Tags()["scalars"]
    assert seen.Scalars("phases/data_seconds")[0].value == pytest.approx(0.01)
