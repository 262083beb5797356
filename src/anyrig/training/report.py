"""The report of a run: one HTML file with metrics, curves and events, without network or scripts.

It needs `metrics.jsonl` only, so it can be written at any time, of a run that is still going or
that was killed.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from anyrig import plots
from anyrig.errors import InvalidInputError
from anyrig.plots import (
    NARROW,
    WIDE,
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
    draw_chart,
    draw_legend,
    smooth,
)
from anyrig.storage import files
from anyrig.training.loggers import LINES, format_count, read_records
from anyrig.training.metrics import Alert, Record, RunEvent, StepMetrics, ValidationMetrics
from anyrig.units import format_bytes, format_duration, pluralize

FILE = "report.html"
_MAX_ROWS = 300


@dataclass(frozen=True)
class RunRecords:
    """The records of a run, sorted by kind."""

    steps: tuple[StepMetrics, ...]
    validations: tuple[ValidationMetrics, ...]
    events: tuple[RunEvent, ...]
    alerts: tuple[Alert, ...]

    @classmethod
    def of(cls, records: Sequence[Record]) -> RunRecords:
        return cls(
            tuple(one for one in records if isinstance(one, StepMetrics)),
            tuple(one for one in records if isinstance(one, ValidationMetrics)),
            tuple(one for one in records if isinstance(one, RunEvent)),
            tuple(one for one in records if isinstance(one, Alert)),
        )


def write_report(folder: Path | str, *, title: str | None = None, unit: str | None = None) -> Path:
    """Write `report.html` into a run's folder, out of its `metrics.jsonl`.

    Args:
        folder: the run's.
        title: its heading; the folder's name when None.
        unit: what units are, such as tokens; samples where every sample is one, when None.
    """
    folder = Path(folder)
    records = read_records(folder)
    if not records:
        raise InvalidInputError(
            f"there is nothing to report in {folder}",
            hint=f"Pass the folder of a run; its {LINES} contains what was measured.",
        )
    path = folder / FILE
    text = render_page(records, title=title or folder.resolve().name, unit=unit)
    # A path may hold bytes that are no text.
    files.write_atomic(path, text.encode(errors="replace").decode())
    return path


def render_page(records: Sequence[Record], *, title: str, unit: str | None = None) -> str:
    """The report as text."""
    history = RunRecords.of(records)
    unit = unit or ("samples" if all(s.units == s.samples for s in history.steps) else "units")
    drawn = build_charts(history.steps, history.validations, history.events, history.alerts, unit)
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="sub">{escape(_subtitle(history))}</p>',
        f'<div class="tiles">{"".join(_tiles(history, unit))}</div>',
        f'<div class="charts">{"".join(_card(chart) for chart in drawn)}</div>',
        f'<div class="pair"><section><h2>Metrics</h2>{_table(_totals(history, unit))}</section>',
        f"<section><h2>Settings and device</h2>{_table(_setup(history))}</section></div>",
        f"<h2>Warnings</h2>{_alerts(history.alerts)}",
        f"<h2>Events</h2>{_events(history.events)}",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _subtitle(history: RunRecords) -> str:
    if not history.steps:
        return "No step was logged."
    first, last = history.steps[0], history.steps[-1]
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(first.time_s))
    ended = next((one for one in reversed(history.events) if one.kind == "end"), None)
    state = ended.text if ended else f"last record at step {last.step}"
    return f"Started {when}; {format_duration(last.elapsed_s)}; {last.precision}; {state}."


def _tile(name: str, value: str, note: str = "") -> str:
    more = f"<em>{escape(note)}</em>" if note else ""
    return f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b>{more}</div>'


def _tiles(history: RunRecords, unit: str) -> Iterator[str]:
    if not history.steps:
        return
    last = history.steps[-1]
    yield _tile("Step", f"{last.step:,}".replace(",", " "), f"epoch {last.epoch + 1}")
    yield _tile("Loss", f"{last.loss:.4g}", "last logged")
    best = best_validation(history.validations)
    if best is not None:
        yield _tile("Best validation", f"{best.figures['loss']:.4g}", f"loss at step {best.step}")
    speed = _median(one.units_per_s for one in history.steps)
    if speed is not None:
        yield _tile("Throughput", f"{format_count(speed)}/s", f"{unit}, median")
    yield _tile(
        "Step time", format_duration(_median(s.step_s for s in history.steps) or 0.0), "median"
    )
    mfu = _median(one.mfu for one in history.steps)
    if mfu is not None:
        yield _tile("MFU", f"{mfu:.1%}", "median, of the measured peak")
    peak = max((one.memory_peak_bytes or 0 for one in history.steps), default=0)
    if peak:
        yield _tile("Peak memory", format_bytes(peak), _of_total(last.memory_total_bytes))
    if last.total_skipped or last.total_retries:
        note = pluralize(last.total_retries, "repeat") + " after memory ran out"
        yield _tile("Skipped steps", str(last.total_skipped), note)


def _of_total(total: int | None) -> str:
    return f"of {format_bytes(total)}" if total else ""


def best_validation(validations: Sequence[ValidationMetrics]) -> ValidationMetrics | None:
    """The one with the lowest loss."""
    known = [one for one in validations if math.isfinite(one.figures.get("loss", math.nan))]
    return min(known, key=lambda one: one.figures["loss"], default=None)


def _median(values: Iterator[float | None]) -> float | None:
    """The median of what is known."""
    known = [one for one in values if one is not None and math.isfinite(one)]
    return statistics.median(known) if known else None


def _card(chart: LineChart) -> str:
    notes = ", ".join(filter(None, (chart.unit.name, "logarithmic" if chart.is_log else "")))
    unit = f" <small>{escape(notes)}</small>" if notes else ""
    return (
        f'<section class="card"><h3>{escape(chart.title)}{unit}</h3>'
        f"{draw_chart(chart, WIDE)}{draw_chart(chart, NARROW)}{draw_legend(chart)}</section>"
    )


def _totals(history: RunRecords, unit: str) -> Iterator[tuple[str, str]]:
    """Totals and means of the whole run."""
    if not history.steps:
        return
    steps, last = history.steps, history.steps[-1]
    seconds = sum(one.step_s * one.num_steps for one in steps)
    finite = [one for one in steps if math.isfinite(one.loss)]
    if finite:
        lowest = min(finite, key=lambda one: one.loss)
        yield "lowest training loss", f"{lowest.loss:.6g} at step {lowest.step}"
    for name, value in history.validations[-1].figures.items() if history.validations else ():
        yield f"last validation: {name}", f"{value:.6g}"
    yield "samples", f"{sum(one.samples for one in steps):,}".replace(",", " ")
    if unit != "samples":
        yield unit, f"{sum(one.units for one in steps):,}".replace(",", " ")
    yield "time in steps", format_duration(seconds)
    yield "time in all", format_duration(last.elapsed_s)
    waited = sum(one.phases.get("data", 0.0) * one.num_steps for one in steps)
    if seconds > 0:
        yield "waiting for data", f"{waited / seconds:.1%} of the time in steps"
    norms = _median(one.grad_norm for one in steps)
    if norms is not None:
        yield "gradient norm, median", f"{norms:.4g}"
    sizes = sorted({(one.micro_batch, one.num_micro) for one in steps})
    yield "micro batches", ", ".join(f"{num} x {size}" for size, num in sizes[:6])
    yield "precisions", ", ".join(dict.fromkeys(one.precision for one in steps))


def _setup(history: RunRecords) -> Iterator[tuple[str, str]]:
    """What the last start of the run recorded."""
    start = next((one for one in reversed(history.events) if one.kind == "start"), None)
    if start is not None:
        yield from _flat(start.facts)


def _flat(facts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        path = f"{above}.{name}" if above else str(name)
        if isinstance(value, Mapping):
            yield from _flat(value, path)
        elif isinstance(value, (list, tuple)):
            yield path, "; ".join(str(one) for one in value)
        elif value is not None and value != "":
            yield path, str(value)


def _table(rows: Iterator[tuple[str, str]]) -> str:
    lines = [f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows]
    if not lines:
        return '<p class="none">Nothing was recorded.</p>'
    return f'<div class="card scroll"><table class="facts">{"".join(lines)}</table></div>'


def _alerts(alerts: Sequence[Alert]) -> str:
    rows = [
        f'<tr><td class="n">step {one.step}</td><td><span class="warn">{escape(one.text)}</span>'
        f'<br><span class="none">{escape(one.hint)}</span></td></tr>'
        for one in alerts[-_MAX_ROWS:]
    ]
    return _list(rows, len(alerts))


def _events(events: Sequence[RunEvent]) -> str:
    records = [one for one in events if one.kind != "start"]
    rows = [
        f'<tr><td class="n">step {one.step}</td><td class="n">{format_duration(one.elapsed_s)}</td>'
        f"<td>{escape(one.text)}</td></tr>"
        for one in records[-_MAX_ROWS:]
    ]
    return _list(rows, len(records))


def _list(rows: Sequence[str], count: int) -> str:
    if not rows:
        return '<p class="none">None.</p>'
    left_out = count - len(rows)
    more = f'<p class="none">{pluralize(left_out, "earlier one")} left out.</p>' if left_out else ""
    return f'<div class="card scroll"><table>{"".join(rows)}</table></div>{more}'


# -- charts ---------------------------------------------------------------------------------------


Steps = Sequence[StepMetrics]
_MAX_MARKS = 40
_MIN_SMOOTHED = 30
# These are in the list; as lines they would cover the curves.
_UNMARKED = frozenset({"start", "end", "epoch", "checkpoint"})


def build_charts(
    steps: Steps,
    validations: Sequence[ValidationMetrics],
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
        _line(steps, "Learning rate", lambda one: one.rate, choose_power_of_ten),
        _line(
            steps, "Gradient norm", lambda one: one.grad_norm,
            lambda _: AxisUnit(1.0, "before clipping"), "c3", smoothed=True, may_be_log=True,
        ),
        _step_time(steps),
        _line(
            steps, "Throughput", lambda one: one.units_per_s,
            lambda highest: choose_count_unit(highest, f"{unit}/s"), "c2", smoothed=True,
        ),
        _memory(steps),
        _line(steps, "MFU", lambda one: _times(one.mfu, 100), lambda _: AxisUnit(1.0, "%")),
        _scale(steps),
        *_others(validations),
        _device(steps),
    ]  # fmt: skip
    return [chart for chart in drawn if chart is not None]


def _marks(events: Sequence[RunEvent], alerts: Sequence[Alert]) -> Iterator[ChartMark]:
    found = [ChartMark(one.step, one.text) for one in events if one.kind not in _UNMARKED]
    found += [ChartMark(one.step, one.text, severe=True) for one in alerts]
    # Of too many the severe and newest stay.
    found.sort(key=lambda mark: (mark.severe, mark.x))
    yield from sorted(found[-_MAX_MARKS:], key=lambda mark: mark.x)


def _points(steps: Steps, value: Callable[[StepMetrics], float | None]) -> Points:
    records = [(one.step, value(one)) for one in steps]
    return [(step, number) for step, number in records if number is not None]


def _highest(*points: Points) -> float:
    values = [abs(value) for some in points for _, value in some if math.isfinite(value)]
    return max(values, default=0.0)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _loss(
    steps: Steps, validations: Sequence[ValidationMetrics], marks: tuple[ChartMark, ...]
) -> LineChart:
    series = _with_smoothed("training", "c0", _points(steps, lambda one: one.loss))
    measured = [(one.step, one.figures["loss"]) for one in validations if "loss" in one.figures]
    if measured:
        series.append(ChartSeries("validation", "c1", measured, "dots"))
    return LineChart("Loss", AxisUnit(1.0, ""), tuple(series), False, may_be_log=True, marks=marks)


def _with_smoothed(name: str, colour: str, points: Points) -> list[ChartSeries]:
    """As measured, and smoothed where there are enough points."""
    if len(points) < _MIN_SMOOTHED:
        return [ChartSeries(name, colour, points)]
    return [
        ChartSeries(name, colour, points, "faint"),
        ChartSeries(f"{name}, smoothed", colour, smooth(points)),
    ]


def _line(
    steps: Steps,
    title: str,
    value: Callable[[StepMetrics], float | None],
    unit: Callable[[float], AxisUnit],
    colour: str = "c0",
    *,
    smoothed: bool = False,
    may_be_log: bool = False,
) -> LineChart | None:
    points = _points(steps, value)
    if not points:
        return None
    name = title if title.isupper() else title.lower()
    series = [ChartSeries(name, colour, points)]
    if smoothed:
        series = _with_smoothed(name, colour, points)
    return LineChart(title, unit(_highest(points)), tuple(series), may_be_log=may_be_log)


def _step_time(steps: Steps) -> LineChart | None:
    times = average_blocks(_points(steps, lambda one: one.step_s))
    if not times:
        return None
    series = [ChartSeries("step", "c0", times, "area")]
    waits = average_blocks(_points(steps, lambda one: one.phases.get("data")))
    if waits:
        series.append(ChartSeries("waiting for data", "c1", waits, "area"))
    return LineChart("Step time", choose_time_unit(_highest(times)), tuple(series))


def _memory(steps: Steps) -> LineChart | None:
    lines = {
        "peak": ("c1", _points(steps, lambda one: one.memory_peak_bytes)),
        "reserved": ("c5", _points(steps, lambda one: one.memory_reserved_bytes)),
        "allocated": ("c0", _points(steps, lambda one: one.memory_allocated_bytes)),
    }
    records = {name: line for name, line in lines.items() if line[1]}
    if not records:
        return None
    series = tuple(ChartSeries(name, colour, points) for name, (colour, points) in records.items())
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


def _others(validations: Sequence[ValidationMetrics]) -> Iterator[LineChart]:
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
    records = tuple(one for one in lines if one.points)
    return LineChart("Device", AxisUnit(1.0, ""), records) if records else None


# -- style ----------------------------------------------------------------------------------------


CSS = plots.CSS + """
:root { --page: #f6f7f9; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.45;
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.25rem 1rem 3rem; }
h1 { font-size: 1.5rem; margin: 0 0 .15rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
h3 { font-size: .95rem; margin: 0 0 .35rem; font-weight: 600; }
h3 small { color: var(--soft); font-weight: 400; }
.sub { color: var(--soft); margin: 0 0 1.1rem; overflow-wrap: anywhere; }
.tiles { display: grid; gap: .6rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 8.2rem), 1fr)); }
.tile, .card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; }
.tile { padding: .6rem .75rem; }
.tile span { display: block; color: var(--soft); font-size: .8rem; }
.tile b { font-size: 1.2rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tile em { display: block; color: var(--soft); font-size: .78rem; font-style: normal; }
.charts { display: grid; gap: .8rem; margin-top: .8rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
.card { padding: .8rem .9rem; min-width: 0; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg.narrow { display: none; }
@media (max-width: 34rem) { svg.wide { display: none; } svg.narrow { display: block; }
  main { padding: .9rem .6rem 2rem; } .card { padding: .65rem .6rem; } }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem .9rem; margin: .3rem 0 0;
  padding: 0; font-size: .82rem; color: var(--soft); }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em;
  vertical-align: -.05em; }
.key.line, .key.faint, .key.steps { height: 3px; width: 1.1em; vertical-align: .25em; }
.key.dots { border-radius: 50%; }
.key.bad { background: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0;
  border-top: 1px solid var(--rule); overflow-wrap: anywhere; }
tr:first-child > * { border-top: 0; }
th { color: var(--soft); font-weight: 400; width: 34%; min-width: 6rem; }
td.n { white-space: nowrap; font-variant-numeric: tabular-nums; color: var(--soft); width: 1%; }
.warn { color: var(--bad); }
.pair { display: grid; gap: .8rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); align-items: start; }
.none { color: var(--soft); }
@media (max-width: 34rem) { .facts th, .facts td { display: block; width: auto; padding-right: 0; }
  .facts th { padding-bottom: 0; font-size: .82rem; } .facts td { border-top: 0; padding-top: 0; } }
@media print { body { background: none; } .card { break-inside: avoid; } }
"""  # fmt: skip
