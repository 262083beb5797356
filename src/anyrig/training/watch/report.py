"""A run in one HTML file: figures, curves, what happened. No network, no script to run.

Made from `metrics.jsonl` alone, so it can be made at any time, of a run that is still going or that
was killed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from anyrig.errors import InvalidInputError
from anyrig.plots import NARROW, WIDE, LineChart, draw_chart, draw_legend
from anyrig.storage import files
from anyrig.training.watch.alerts import Alert
from anyrig.training.watch.curves import charts
from anyrig.training.watch.figures import Figures, RunEvent, Validation
from anyrig.training.watch.sinks import Told
from anyrig.training.watch.sinks.console import count_text
from anyrig.training.watch.sinks.lines import FILE as LINES
from anyrig.training.watch.sinks.lines import read
from anyrig.training.watch.style import CSS
from anyrig.units import format_bytes, format_duration, pluralize

FILE = "report.html"
_MOST_ROWS = 300


@dataclass(frozen=True)
class Story:
    """All that a run told, sorted by kind."""

    steps: tuple[Figures, ...]
    validations: tuple[Validation, ...]
    events: tuple[RunEvent, ...]
    alerts: tuple[Alert, ...]

    @classmethod
    def of(cls, told: Sequence[Told]) -> Story:
        """Sorted."""
        return cls(
            tuple(one for one in told if isinstance(one, Figures)),
            tuple(one for one in told if isinstance(one, Validation)),
            tuple(one for one in told if isinstance(one, RunEvent)),
            tuple(one for one in told if isinstance(one, Alert)),
        )


def report(folder: Path, *, title: str | None = None, unit: str | None = None) -> Path:
    """Write `report.html` into a run's folder, out of its `metrics.jsonl`.

    Args:
        folder: the run's.
        title: its heading; the folder's name when None.
        unit: what units are, such as tokens; samples where every sample is one, when None.
    """
    told = read(folder)
    if not told:
        raise InvalidInputError(
            f"there is nothing to report in {folder}",
            hint=f"Pass the folder of a run; its {LINES} contains what was measured.",
        )
    path = folder / FILE
    text = page(told, title=title or folder.resolve().name, unit=unit)
    # A path may hold bytes that are no text.
    files.write_atomic(path, text.encode(errors="replace").decode())
    return path


def page(told: Sequence[Told], *, title: str, unit: str | None = None) -> str:
    """The report as text."""
    story = Story.of(told)
    unit = unit or ("samples" if all(s.units == s.samples for s in story.steps) else "units")
    drawn = charts(story.steps, story.validations, story.events, story.alerts, unit)
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="sub">{escape(_subtitle(story))}</p>',
        f'<div class="tiles">{"".join(_tiles(story, unit))}</div>',
        f'<div class="charts">{"".join(_card(chart) for chart in drawn)}</div>',
        f'<div class="pair"><section><h2>Figures</h2>{_table(_figures(story, unit))}</section>',
        f"<section><h2>Settings and device</h2>{_table(_setup(story))}</section></div>",
        f"<h2>Warnings</h2>{_alerts(story.alerts)}",
        f"<h2>Events</h2>{_events(story.events)}",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _subtitle(story: Story) -> str:
    if not story.steps:
        return "No step was logged."
    first, last = story.steps[0], story.steps[-1]
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(first.time_s))
    ended = next((one for one in reversed(story.events) if one.kind == "end"), None)
    state = ended.text if ended else f"last heard of at step {last.step}"
    return f"Begun {when}; {format_duration(last.elapsed_s)}; {last.precision}; {state}."


def _tile(name: str, value: str, note: str = "") -> str:
    more = f"<em>{escape(note)}</em>" if note else ""
    return f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b>{more}</div>'


def _tiles(story: Story, unit: str) -> Iterator[str]:
    if not story.steps:
        return
    last = story.steps[-1]
    yield _tile("Step", f"{last.step:,}".replace(",", " "), f"epoch {last.epoch + 1}")
    yield _tile("Loss", f"{last.loss:.4g}", "last logged")
    best = best_validation(story.validations)
    if best is not None:
        yield _tile("Best validation", f"{best.figures['loss']:.4g}", f"loss at step {best.step}")
    speed = typical(one.units_per_s for one in story.steps)
    if speed is not None:
        yield _tile("Throughput", f"{count_text(speed)}/s", f"{unit}, median")
    yield _tile(
        "Step time", format_duration(typical(s.step_s for s in story.steps) or 0.0), "median"
    )
    mfu = typical(one.mfu for one in story.steps)
    if mfu is not None:
        yield _tile("MFU", f"{mfu:.1%}", "median, of the measured peak")
    peak = max((one.memory_peak_bytes or 0 for one in story.steps), default=0)
    if peak:
        yield _tile("Peak memory", format_bytes(peak), _of_total(last.memory_total_bytes))
    if last.total_skipped or last.total_retries:
        note = pluralize(last.total_retries, "repeat") + " after memory ran out"
        yield _tile("Skipped steps", str(last.total_skipped), note)


def _of_total(total: int | None) -> str:
    return f"of {format_bytes(total)}" if total else ""


def best_validation(validations: Sequence[Validation]) -> Validation | None:
    """The one with the lowest loss."""
    known = [one for one in validations if math.isfinite(one.figures.get("loss", math.nan))]
    return min(known, key=lambda one: one.figures["loss"], default=None)


def typical(values: Iterator[float | None]) -> float | None:
    """The median of what is known."""
    known = sorted(one for one in values if one is not None and math.isfinite(one))
    return known[len(known) // 2] if known else None


def _card(chart: LineChart) -> str:
    notes = ", ".join(filter(None, (chart.unit.name, "logarithmic" if chart.is_log else "")))
    unit = f" <small>{escape(notes)}</small>" if notes else ""
    return (
        f'<section class="card"><h3>{escape(chart.title)}{unit}</h3>'
        f"{draw_chart(chart, WIDE)}{draw_chart(chart, NARROW)}{draw_legend(chart)}</section>"
    )


def _figures(story: Story, unit: str) -> Iterator[tuple[str, str]]:
    """Totals and means of the whole run."""
    if not story.steps:
        return
    steps, last = story.steps, story.steps[-1]
    seconds = sum(one.step_s * one.num_steps for one in steps)
    finite = [one for one in steps if math.isfinite(one.loss)]
    if finite:
        lowest = min(finite, key=lambda one: one.loss)
        yield "lowest training loss", f"{lowest.loss:.6g} at step {lowest.step}"
    for name, value in story.validations[-1].figures.items() if story.validations else ():
        yield f"last validation: {name}", f"{value:.6g}"
    yield "samples", f"{sum(one.samples for one in steps):,}".replace(",", " ")
    if unit != "samples":
        yield unit, f"{sum(one.units for one in steps):,}".replace(",", " ")
    yield "time in steps", format_duration(seconds)
    yield "time in all", format_duration(last.elapsed_s)
    for name, share in shares(steps).items():
        yield f"step time: {name}", f"{share:.1%}"
    norms = typical(one.grad_norm for one in steps)
    if norms is not None:
        yield "gradient norm, median", f"{norms:.4g}"
    sizes = sorted({(one.micro_batch, one.num_micro) for one in steps})
    yield "micro batches", ", ".join(f"{num} x {size}" for size, num in sizes[:6])
    yield "precisions", ", ".join(dict.fromkeys(one.precision for one in steps))


def shares(steps: Sequence[Figures]) -> dict[str, float]:
    """Of the time in steps, by phase; `other` is what no phase covers."""
    total = sum(one.step_s * one.num_steps for one in steps)
    sums: dict[str, float] = {}
    for one in steps:
        for name, seconds in one.phases.items():
            sums[name] = sums.get(name, 0.0) + seconds * one.num_steps
    if not sums or total <= 0:
        return {}
    sums["other"] = max(0.0, total - sum(sums.values()))
    return {name: seconds / total for name, seconds in sums.items()}


def _setup(story: Story) -> Iterator[tuple[str, str]]:
    """What the run said of itself when it began, the last time it did."""
    begun = next((one for one in reversed(story.events) if one.kind == "start"), None)
    if begun is not None:
        yield from _flat(begun.facts)


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
        return '<p class="none">Nothing was told.</p>'
    return f'<div class="card scroll"><table class="facts">{"".join(lines)}</table></div>'


def _alerts(alerts: Sequence[Alert]) -> str:
    rows = [
        f'<tr><td class="n">step {one.step}</td><td><span class="warn">{escape(one.text)}</span>'
        f'<br><span class="none">{escape(one.hint)}</span></td></tr>'
        for one in alerts[-_MOST_ROWS:]
    ]
    return _list(rows, len(alerts))


def _events(events: Sequence[RunEvent]) -> str:
    told = [one for one in events if one.kind != "start"]
    rows = [
        f'<tr><td class="n">step {one.step}</td><td class="n">{format_duration(one.elapsed_s)}</td>'
        f"<td>{escape(one.text)}</td></tr>"
        for one in told[-_MOST_ROWS:]
    ]
    return _list(rows, len(told))


def _list(rows: Sequence[str], count: int) -> str:
    if not rows:
        return '<p class="none">None.</p>'
    left_out = count - len(rows)
    more = f'<p class="none">{pluralize(left_out, "earlier one")} left out.</p>' if left_out else ""
    return f'<div class="card scroll"><table>{"".join(rows)}</table></div>{more}'
