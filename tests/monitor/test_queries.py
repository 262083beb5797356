"""Queries: reasons are kept, expensive queries are throttled, counters become rates."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from anyrig.monitor import queries as module
from anyrig.monitor.queries import CounterRates, DeviceGone, Queries, UnsupportedQuery


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Time and CPU time that move when told."""
    clock = SimpleNamespace(now=0.0, cpu=0.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now, thread_time=lambda: clock.cpu)
    monkeypatch.setattr(module, "time", fake)
    return clock


def fail(error: Exception) -> int:
    raise error


def test_an_answer_or_none_with_the_reason() -> None:
    queries = Queries()
    assert queries.run("power", lambda unit: 412 * unit, 2) == 824
    assert queries.errors == {}
    assert queries.run("power", fail, PermissionError("only root")) is None
    assert queries.errors == {"power": "only root"}
    assert queries.run("power", lambda: 1) == 1
    assert queries.errors == {}
    with pytest.raises(DeviceGone):
        queries.run("power", fail, DeviceGone("lost"))


def test_errors_are_shared_and_never_changed() -> None:
    """Samples hold on to the mapping: it must stay the same object while nothing changes."""
    queries = Queries()
    queries.run("fan", fail, OSError())
    first = queries.errors
    queries.run("fan", fail, OSError())
    assert queries.errors is first
    queries.run("fan", lambda: 1)
    assert first == {"fan": "OSError"}


def test_an_unsupported_query_is_not_repeated() -> None:
    queries, calls = Queries(), []

    def query() -> int:
        calls.append(1)
        raise UnsupportedQuery("Not Supported")

    assert [queries.run("fan", query) for _ in range(5)] == [None] * 5
    assert len(calls) == 1
    assert queries.errors["fan"] == "Not Supported"


@pytest.mark.parametrize(("cost_s", "num_queries"), [(0.020, 2), (0.001, 10), (0.0001, 40)])
def test_throttled_queries_stay_within_the_budget(
    cost_s: float, num_queries: int, clock: SimpleNamespace
) -> None:
    queries = Queries(0.004)

    def query() -> object:
        clock.cpu += cost_s
        return clock.now

    seconds = 600
    for _ in range(seconds):
        for number in range(num_queries):
            queries.run_throttled(f"q{number}", query)
        clock.now += 1.0
    first_two = 2 * num_queries * cost_s  # before the cost is known
    assert clock.cpu - first_two <= 0.004 * seconds * 1.1
    assert clock.cpu > first_two


def test_between_two_queries_the_last_answer_is_used(clock: SimpleNamespace) -> None:
    queries = Queries(0.001)
    answers = iter(range(100))

    def query() -> int:
        clock.cpu += 0.005
        return next(answers)

    seen: list[int] = []
    for _ in range(12):
        seen.append(queries.run_throttled("processes", query) or 0)
        clock.now += 1.0
    assert seen[:2] == [0, 1]
    assert seen == sorted(seen)
    assert len(set(seen)) < 8


def test_a_query_that_only_waits_is_throttled_too(clock: SimpleNamespace) -> None:
    queries, times = Queries(), []

    def query() -> None:
        times.append(clock.now)
        clock.now += 0.5

    for _ in range(40):
        queries.run_throttled("slow", query)
        clock.now += 0.5
    assert len(times) < 8


def test_rates_of_counters() -> None:
    rates = CounterRates()
    assert rates.update(0.0, (0, 100)) is None
    assert rates.update(2.0, (10, 120)) == (5.0, 10.0)
    assert rates.update(2.0, (10, 120)) == (5.0, 10.0)  # the same reading
    assert rates.update(3.0, (4, 121)) is None  # a counter was reset
    assert rates.update(4.0, (5, 121)) == (1.0, 0.0)
    assert rates.update(4.01, (9, 9)) == (1.0, 0.0)  # too soon to tell
    limited = CounterRates(max_rate=100.0)
    limited.update(0.0, (0,))
    assert limited.update(1.0, (1_000_000,)) is None  # it wrapped
