"""Measure memory and speed over batch sizes. Running out of memory at some size is part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from anyrig.errors import InvalidInputError
from anyrig.memory.batch_size import (
    BatchSizeResult,
    BatchTrial,
    MemoryMeter,
    TrialRunner,
    best_rate,
    find_batch_size,
    forecast_trials,
)

_STEPS = 3  # the first warms up, the fastest of the others gives the speed
_MAX_SWEPT = 4096
_MAX_SEARCH_TRIALS = 12


def profile_batch_sizes(
    step: Callable[[int], object],
    device: MemoryMeter,
    *,
    sizes: Sequence[int] = (),
    budget_bytes: int | None = None,
    max_size: int | None = None,
    max_trial_s: float = 60.0,
    on_progress: Callable[[str, int, int], None] = lambda message, done, total: None,
) -> BatchSizeResult:
    """Measure the peak memory and the speed of a step; each trial of the result is one size.

    Args:
        step: runs a whole step of a given batch size, as in `find_batch_size`.
        device: where the step runs, from `anyrig.backends.open_device`.
        sizes: batch sizes to run, until one fails; by default powers of two, followed by a search
            for the largest size that fits.
        budget_bytes: the most that may be taken of the device's memory.
        max_size: no larger size than this.
        max_trial_s: no size is run that would take longer.
        on_progress: called with a message, the items that are done and those expected in total.
    """
    swept = sorted(set(sizes)) or _powers_of_two(min(max_size or _MAX_SWEPT, _MAX_SWEPT))
    if swept[0] < 1:
        raise InvalidInputError(f"invalid batch sizes: {list(sizes)}", hint="Sizes start at 1.")
    runner = TrialRunner(step, device, budget_bytes, _STEPS)
    trials: list[BatchTrial] = []
    done = total = 0
    for size in swept:
        top = _largest_worth_running(
            trials, swept[-1], max_trial_s, None if sizes else budget_bytes
        )
        if size > top:
            break
        total = sum(one for one in swept if one <= top) + (0 if sizes else 2 * top)
        on_progress(f"batch size {size}", done, total)
        trials.append(runner.run(size, best_rate(trials)))
        done += size
        if not trials[-1].ran:
            break
    return find_batch_size(
        step,
        device,
        budget_bytes=budget_bytes,
        max_size=max_size,
        start=swept[0],
        max_trials=len(trials) + (0 if sizes else _MAX_SEARCH_TRIALS),
        verify_steps=_STEPS,
        probe_steps=_STEPS,
        max_trial_s=max_trial_s,
        trials=trials,
        on_progress=lambda message: on_progress(message, done, total),
    )


def _powers_of_two(top: int) -> list[int]:
    return [1 << power for power in range(top.bit_length())]


def _largest_worth_running(
    trials: Sequence[BatchTrial], largest: int, max_trial_s: float, budget_bytes: int | None
) -> int:
    """The largest size that can fit the budget and the time, as far as the trials tell."""
    ends = [largest]
    forecast = forecast_trials(trials, budget_bytes)
    if forecast is not None and forecast.max_size is not None:
        ends.append(forecast.max_size)
    if trials and trials[-1].steady_s > 0:
        ends.append(int(trials[-1].size * max_trial_s / trials[-1].steady_s))
    return min(ends)


def plot_profile(profile: BatchSizeResult, subtitle: str) -> str:
    """An SVG document: peak memory with the budget, and items per second, by batch size."""
    from anyrig.plots import (
        AxisUnit,
        ChartMark,
        ChartSeries,
        LineChart,
        choose_byte_unit,
        draw_document,
    )

    trials = sorted(profile.trials, key=lambda one: one.size)
    peaks = [(one.size, one.peak_bytes) for one in trials if one.peak_bytes is not None]
    rates = [(one.size, one.rate) for one in trials if one.rate]
    budget = profile.budget_bytes
    unit = choose_byte_unit(max([peak for _, peak in peaks] + [budget or 0]))
    memory = "peak memory" if peaks else "peak memory: not reported by this device"
    charts = [
        LineChart(
            memory,
            unit if peaks else AxisUnit(1.0, ""),
            (ChartSeries("peak", "c0", peaks, "dots"),),
            limit=(budget, f"budget {budget / unit.size:.4g} {unit.name}") if budget else None,
        ),
        LineChart(
            "items per second", AxisUnit(1.0, ""), (ChartSeries("rate", "c1", rates, "dots"),)
        ),
    ]
    marks = [ChartMark(one.size, one.outcome, severe=True) for one in trials if not one.ran]
    marks.append(ChartMark(profile.batch_size, "largest that worked"))
    x_values = tuple(float(one.size) for one in trials)
    failed = [str(one.size) for one in trials if not one.ran]
    title = f"Memory and speed by batch size: largest {profile.batch_size}"
    return draw_document(
        title + (f", failed {', '.join(failed)}" if failed else ""),
        subtitle,
        [
            replace(chart, marks=tuple(marks), x_values=x_values, x_name="batch size")
            for chart in charts
        ],
    )
