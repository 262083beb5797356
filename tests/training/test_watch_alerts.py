"""Warnings come when they should, once, and again only after they had passed."""

from __future__ import annotations

import dataclasses
import math
import random
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from anyrig.backends.memory import MemoryUsage
from anyrig.training.settings import Loading, Settings
from anyrig.training.watch import alerts
from anyrig.training.watch.alerts import Alarm, Alert, Rules
from anyrig.training.watch.figures import Counted
from anyrig.training.watch.usual import Usual


def counted(number: int, **changed: Any) -> Counted:
    given: dict[str, Any] = {
        "number": number, "epoch": 1, "loss": 2.0, "units": 10, "samples": 4, "own_samples": 4,
        "rate": 0.1, "micro_batch": 2, "num_micro": 2, "precision": "bf16", "skipped": False,
        "grad_norm": 1.0, "scale": 1.0, "num_retries": 0, "step_s": 0.5, "phases": {},
        "elapsed_s": 1.0, "epoch_s": 1.0, "time_s": float(number), **changed,
    }  # fmt: skip
    return Counted(**given)


def run(steps: Iterable[dict[str, Any]]) -> list[tuple[str, int]]:
    alarm = Alarm()
    found: list[Alert] = []
    for number, changed in enumerate(steps, start=1):
        found += alarm.check(counted(number, **changed))
    assert all(one.text and one.hint.endswith(".") for one in found)
    assert all(one.time_s == one.step for one in found)
    return [(one.kind, one.step) for one in found]


def of(field: str, values: Iterable[Any]) -> list[dict[str, Any]]:
    return [{field: value} for value in values]


def test_a_run_that_has_learnt_nearly_all_may_have_a_hard_batch() -> None:
    """One item of 32 told wrong, as in the example of shapes: no reason to call anybody."""
    falling = [{"loss": 1.4 * 0.97**n, "grad_norm": 3.0 * 0.98**n} for n in range(180)]
    assert run([*falling, {"loss": 0.12, "grad_norm": 2.2}, *falling[-20:]]) == []
    spoilt = [*falling, {"loss": 0.8, "grad_norm": 12.0}, *falling[-20:]]
    assert run(spoilt) == [("loss-spike", 181), ("gradient-explodes", 181)]


def test_hints_name_settings_that_there_are() -> None:
    """Words that look like a setting's name are one."""
    known = {one.name for kind in (Settings, Loading) for one in dataclasses.fields(kind)}
    source = Path(alerts.__file__).read_text(encoding="utf-8")
    hints = re.findall(r"hint = ([\"'])(.*)\1\n", source)
    named = {word for _, hint in hints for word in re.findall(r"\b[a-z]+_[a-z_]+\b", hint)}
    assert len(hints) >= 8
    assert named <= known


def test_a_quiet_run_says_nothing() -> None:
    noise = random.Random(1)
    falls = [10 * math.exp(-n / 100) + 1 + noise.gauss(0, 0.05) for n in range(1000)]
    norms = [math.exp(noise.gauss(0, 0.4)) for _ in range(1000)]
    steps = [
        {"loss": loss, "grad_norm": norm, "step_s": 0.5 + noise.random() / 10,
         "phases": {"data": 0.05}}
        for loss, norm in zip(falls, norms, strict=True)
    ]  # fmt: skip
    assert run(steps) == []


def test_a_loss_that_is_not_finite() -> None:
    losses = [2.0, math.nan, math.nan, *[2.0] * 10, math.inf]
    assert run(of("loss", losses)) == [("loss-nonfinite", 2), ("loss-nonfinite", 14)]


def test_a_spike_is_told_once_and_a_new_level_becomes_usual() -> None:
    noise = random.Random(2)
    calm = [2 + noise.gauss(0, 0.05) for _ in range(60)]
    assert run(of("loss", [*calm, 9.0, 9.0, *calm[:20], 9.0])) == [
        ("loss-spike", 61),
        ("loss-spike", 83),
    ]
    assert run(of("loss", [*calm, *[4.0] * 200])) == [("loss-spike", 61)]
    assert run(of("loss", [*calm, 2.3])) == []


def test_too_few_steps_know_no_usual() -> None:
    assert run(of("loss", [2.0] * 10 + [50.0])) == []


def test_gradients_explode() -> None:
    assert run(of("grad_norm", [1.0] * 30 + [20.0])) == [("gradient-explodes", 31)]
    assert run(of("grad_norm", [1.0] * 30 + [math.inf])) == [("gradient-explodes", 31)]
    assert run(of("grad_norm", [None] * 30 + [5.0])) == []


def test_many_skipped_steps() -> None:
    assert run(of("skipped", [False] * 100 + [True, False, False, False, False, False] * 20)) == []
    assert run(of("skipped", [False] * 40 + [True] * 20)) == [("steps-skipped", 50)]


def test_data_that_starves_the_device() -> None:
    starved = [{"phases": {"data": 0.2}}] * 40
    assert run(starved) == [("data-starves", 23)]
    slow_start = [{"phases": {"data": 0.45}}] * 3 + [{"phases": {"data": 0.05}}] * 40
    assert run(slow_start) == []


def test_throughput_that_fell() -> None:
    assert run(of("step_s", [9.0] * 3 + [0.5] * 60)) == []
    # Two blocks of 20 steps in a row: three warm-up steps, three good blocks, two slow ones.
    fell = of("step_s", [0.5] * 63 + [1.0] * 90)
    assert run(fell) == [("throughput-fell", 103)]
    assert run([*fell, *of("step_s", [0.5] * 63 + [1.0] * 90)]) == [
        ("throughput-fell", 103),
        ("throughput-fell", 263),
    ]
    noise = random.Random(3)
    assert run(of("step_s", [1e-4 * (1 + 3 * noise.random()) for _ in range(3000)])) == []


def test_the_usual_is_the_median_of_the_newest() -> None:
    noise = random.Random(4)
    values = [noise.choice([1.0, 2.0, noise.gauss(0, 5)]) for _ in range(300)]
    usual = Usual(31)
    for number, value in enumerate(values):
        usual.add(value)
        window = values[max(0, number - 30) : number + 1]
        assert usual.median() == pytest.approx(statistics.median(window))
    middle = statistics.median(values[-31:])
    distances = [abs(value - middle) for value in values[-31:]]
    assert usual.spread() == pytest.approx(1.4826 * statistics.median(distances))
    assert Usual(3).median() == 0.0


def test_memory_near_its_end() -> None:
    alarm = Alarm()

    def kinds(allocated: int, reserved: int, free: int) -> list[str]:
        memory = MemoryUsage(allocated, reserved, None, None, free, 1000)
        return [one.kind for one in alarm.check_memory(memory, 1, 0.0)]

    assert kinds(500, 950, 40) == []  # the framework holds what no tensor uses
    assert kinds(950, 960, 30) == ["memory-full"]
    assert kinds(950, 960, 30) == []
    for _ in range(10):
        assert kinds(100, 200, 800) == []
    assert kinds(950, 960, 30) == ["memory-full"]
    assert alarm.check_memory(MemoryUsage(1, 2), 1, 0.0) == []


def test_a_step_between_two_looks_at_memory_does_not_forget_it() -> None:
    alarm = Alarm()
    full = MemoryUsage(950, 960, None, None, 30, 1000)
    told = 0
    for number in range(1, 50):
        alarm.check(counted(number))
        told += len(alarm.check_memory(full, number, 0.0))
    assert told == 1


@pytest.mark.parametrize(("step_s", "limit"), [(0.1, 10.0), (2.0, 40.0)])
def test_a_hang_is_told_after_a_while_and_again_after_a_step(step_s: float, limit: float) -> None:
    alarm = Alarm(Rules(stall_s=10.0))
    for number in range(1, 9):
        alarm.check(counted(number, step_s=step_s))
    assert alarm.check_stall(limit - 0.5, 8, 0.0) == []
    assert [one.kind for one in alarm.check_stall(limit + 0.5, 8, 0.0)] == ["stalled"]
    assert alarm.check_stall(limit + 5, 8, 0.0) == []
    alarm.check(counted(9, step_s=step_s))
    assert [one.kind for one in alarm.check_stall(limit + 0.5, 9, 0.0)] == ["stalled"]
