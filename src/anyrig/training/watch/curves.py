"""Which curves a run's report shows: what belongs together on one chart, in units that fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from anyrig.plots import (
    AxisUnit,
    ChartMark,
    ChartSeries,
    LineChart,
    Points,
    average_blocks,
    choose_byte_unit,
    choose_count_unit,
    choose_power_of_ten,
    choose_time_unit,
    smooth,
)
from anyrig.training.protocol import PHASES
from anyrig.training.watch.alerts import Alert
from anyrig.training.watch.figures import Figures, RunEvent, Validation

Steps = Sequence[Figures]
_MOST_MARKS = 40
_SMOOTH_FROM = 30
# These are told in the list; as lines they would cover the curves.
_UNMARKED = frozenset({"start", "end", "epoch", "checkpoint"})
_PHASE_COLOURS = {"data": "c1", "forward": "c0", "backward": "c3", "communicate": "c4",
                  "optimise": "c2", "other": "c5"}  # fmt: skip


def charts(
    steps: Steps,
    validations: Sequence[Validation],
    events: Sequence[RunEvent],
    alerts: Sequence[Alert],
    unit: str,
) -> list[LineChart]:
    """The charts of a run, without those that would be empty."""
    if not steps:
        return []
    marks = tuple(_marks(events, alerts))
    drawn = [
        _loss(steps, validations, marks),
        _line(steps, "Learning rate", "rate", lambda one: one.rate, choose_power_of_ten),
        _norm(steps),
        _phases(steps),
        _throughput(steps, unit),
        _memory(steps),
        _line(steps, "MFU", "MFU", lambda one: _times(one.mfu, 100), lambda _: AxisUnit(1.0, "%")),
        _scale(steps),
        *_others(validations),
        _device(steps),
    ]
    return [chart for chart in drawn if chart is not None]


def _marks(events: Sequence[RunEvent], alerts: Sequence[Alert]) -> Iterator[ChartMark]:
    found = [ChartMark(one.step, one.text) for one in events if one.kind not in _UNMARKED]
    found += [ChartMark(one.step, one.text, severe=True) for one in alerts]
    # Of too many the severe and newest stay.
    found.sort(key=lambda mark: (mark.severe, mark.x))
    yield from sorted(found[-_MOST_MARKS:], key=lambda mark: mark.x)


def _points(steps: Steps, value: Callable[[Figures], float | None]) -> Points:
    told = [(one.step, value(one)) for one in steps]
    return [(step, number) for step, number in told if number is not None]


def _highest(*points: Points) -> float:
    values = [abs(value) for some in points for _, value in some if math.isfinite(value)]
    return max(values, default=0.0)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _loss(
    steps: Steps, validations: Sequence[Validation], marks: tuple[ChartMark, ...]
) -> LineChart:
    series = _both("training", "c0", _points(steps, lambda one: one.loss))
    measured = [(one.step, one.figures["loss"]) for one in validations if "loss" in one.figures]
    if measured:
        series.append(ChartSeries("validation", "c1", measured, "dots"))
    return LineChart("Loss", AxisUnit(1.0, ""), tuple(series), False, may_be_log=True, marks=marks)


def _both(name: str, colour: str, points: Points) -> list[ChartSeries]:
    """As measured, and smoothed where there are enough points."""
    if len(points) < _SMOOTH_FROM:
        return [ChartSeries(name, colour, points)]
    return [
        ChartSeries(name, colour, points, "faint"),
        ChartSeries(f"{name}, smoothed", colour, smooth(points)),
    ]


def _line(
    steps: Steps,
    title: str,
    name: str,
    value: Callable[[Figures], float | None],
    unit: Callable[[float], AxisUnit],
) -> LineChart | None:
    points = _points(steps, value)
    if not points:
        return None
    return LineChart(title, unit(_highest(points)), (ChartSeries(name, "c0", points),))


def _norm(steps: Steps) -> LineChart | None:
    points = _points(steps, lambda one: one.grad_norm)
    if not points:
        return None
    series = tuple(_both("gradient norm", "c3", points))
    return LineChart("Gradient norm", AxisUnit(1.0, "before clipping"), series, may_be_log=True)


def _phases(steps: Steps) -> LineChart | None:
    """Stacked: each area reaches from the bottom to the sum of itself and those below."""
    names = [name for name in PHASES if any(name in one.phases for one in steps)]
    if not names:
        return _line(steps, "Step time", "step", lambda one: one.step_s, choose_time_unit)
    sums = [0.0] * len(steps)
    layers: list[ChartSeries] = []
    for name in [*names, "other"]:
        for place, one in enumerate(steps):
            sums[place] += one.phases.get(name, 0.0) if name != "other" else _rest(one)
        points = average_blocks([(one.step, sums[i]) for i, one in enumerate(steps)])
        layers.append(ChartSeries(name, _PHASE_COLOURS[name], points, "area"))
    unit = choose_time_unit(_highest(layers[-1].points))
    return LineChart("Step time by phase", unit, tuple(reversed(layers)))


def _rest(one: Figures) -> float:
    return max(0.0, one.step_s - sum(one.phases.values()))


def _throughput(steps: Steps, unit: str) -> LineChart | None:
    points = _points(steps, lambda one: one.units_per_s)
    if not points:
        return None
    series = tuple(_both("throughput", "c2", points))
    return LineChart("Throughput", choose_count_unit(_highest(points), f"{unit}/s"), series)


def _memory(steps: Steps) -> LineChart | None:
    lines = {
        "peak": ("c1", _points(steps, lambda one: one.memory_peak_bytes)),
        "reserved": ("c5", _points(steps, lambda one: one.memory_reserved_bytes)),
        "allocated": ("c0", _points(steps, lambda one: one.memory_allocated_bytes)),
    }
    told = {name: line for name, line in lines.items() if line[1]}
    if not told:
        return None
    series = tuple(ChartSeries(name, colour, points) for name, (colour, points) in told.items())
    return LineChart("Memory", choose_byte_unit(_highest(*(one.points for one in series))), series)


def _scale(steps: Steps) -> LineChart | None:
    """Loss scale and skipped steps, where either tells something."""
    skipped = tuple(ChartMark(one.step, "skipped") for one in steps if one.num_skipped)
    points = _points(steps, lambda one: one.scale)
    if not skipped and all(value == 1.0 for _, value in points):
        return None
    series = ChartSeries("loss scale", "c3", points, "steps")
    return LineChart(
        "Loss scale", AxisUnit(1.0, ""), (series,), may_be_log=True, ticked=skipped,
        ticked_name="skipped steps",
    )  # fmt: skip


def _others(validations: Sequence[Validation]) -> Iterator[LineChart]:
    """Further figures of validation, each on a chart of its own."""
    names = dict.fromkeys(name for one in validations for name in one.figures if name != "loss")
    for name in names:
        points = [(one.step, one.figures[name]) for one in validations if name in one.figures]
        series = (ChartSeries(name, "c1", points, "dots"),)
        yield LineChart(f"Validation: {name}", choose_power_of_ten(_highest(points)), series, False)


def _device(steps: Steps) -> LineChart | None:
    """Degrees and per cent share an axis well enough: both run to about a hundred."""
    load = _points(steps, lambda one: _times(one.device_utilisation, 100))
    heat = _points(steps, lambda one: one.device_temperature_c)
    lines = [ChartSeries("load, %", "c0", load), ChartSeries("temperature, °C", "c1", heat)]
    told = tuple(one for one in lines if one.points)
    return LineChart("Device", AxisUnit(1.0, ""), told) if told else None
