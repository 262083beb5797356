"""How readers ask: reasons kept once, dear questions seldom, rates from counters."""

from __future__ import annotations

import pytest

from anyrig.monitor.asking import Asker, Lost, Pool, Rates, Unsupported


class Clock:
    """Time that moves when told, and CPU time that questions spend."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cpu = 0.0


def test_an_answer_or_none_with_the_reason() -> None:
    asker = Asker()
    assert asker.ask("power", lambda: 412) == 412
    assert asker.silences == {}

    def refused() -> int:
        raise PermissionError("only root")

    assert asker.ask("power", refused) is None
    assert asker.silences == {"power": "no answer: only root"}
    assert asker.ask("power", lambda: 1) == 1
    assert asker.silences == {}


def test_reasons_are_kept_once_and_shared() -> None:
    """Samples hold on to the mapping: it must stay the same object and never change."""
    asker = Asker()

    def fails() -> int:
        raise OSError("no")

    asker.ask("fan", fails)
    first = asker.silences
    asker.ask("fan", fails)
    assert asker.silences is first
    asker.ask("fan", lambda: 1)
    assert first == {"fan": "no answer: no"}


def test_what_is_not_supported_is_not_asked_again() -> None:
    asker, times = Asker(), []

    def question() -> int:
        times.append(1)
        raise Unsupported("Not Supported")

    assert [asker.ask("fan", question) for _ in range(5)] == [None] * 5
    assert len(times) == 1
    assert asker.silences["fan"] == "no answer: Not Supported"


def test_a_lost_device_is_not_swallowed() -> None:
    def question() -> int:
        raise Lost("gone")

    with pytest.raises(Lost):
        Asker().ask("memory", question)


@pytest.mark.parametrize(("cost_s", "num_questions"), [(0.020, 2), (0.001, 10), (0.0001, 40)])
def test_dear_questions_stay_within_their_share(cost_s: float, num_questions: int) -> None:
    """Whatever an answer costs, all of them together take their share of a core and no more."""
    clock = Clock()
    asker = Asker(Pool(0.004), cpu=lambda: clock.cpu, clock=lambda: clock.now)

    def question() -> float:
        clock.cpu += cost_s
        return clock.now

    seconds = 600
    for _ in range(seconds):
        for number in range(num_questions):
            asker.seldom(f"q{number}", question)
        clock.now += 1.0
    first_two = 2 * num_questions * cost_s  # before the cost is known
    assert clock.cpu - first_two <= 0.004 * seconds * 1.1
    assert clock.cpu > first_two


def test_between_two_questions_the_last_answer_stands() -> None:
    clock = Clock()
    asker = Asker(Pool(0.001), cpu=lambda: clock.cpu, clock=lambda: clock.now)
    answers = iter(range(100))

    def question() -> int:
        clock.cpu += 0.005
        return next(answers)

    seen = []
    for _ in range(12):
        seen.append(asker.seldom("processes", question))
        clock.now += 1.0
    assert seen[:2] == [0, 1]
    assert seen == sorted(seen)  # type: ignore[type-var]  # no answer is None here
    assert len(set(seen)) < 8


def test_a_question_that_only_waits_is_spaced_too() -> None:
    clock = Clock()
    asker = Asker(cpu=lambda: 0.0, clock=lambda: clock.now)
    times = []

    def question() -> None:
        times.append(clock.now)
        clock.now += 0.5

    for _ in range(40):
        asker.seldom("slow", question)
        clock.now += 0.5
    assert len(times) < 8


def test_rates_of_counters() -> None:
    rates = Rates()
    assert rates.update(0.0, (0, 100)) is None
    assert rates.update(2.0, (10, 120)) == (5.0, 10.0)
    assert rates.update(2.0, (10, 120)) == (5.0, 10.0)  # looked at again, not read again
    assert rates.update(3.0, (4, 121)) is None  # a counter began anew
    assert rates.update(4.0, (5, 121)) == (1.0, 0.0)


def test_an_impossible_rate_is_no_rate() -> None:
    rates = Rates(most=100.0)
    rates.update(0.0, (0,))
    assert rates.update(1.0, (1_000_000,)) is None
