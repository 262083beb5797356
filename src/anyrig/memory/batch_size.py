"""Find the largest batch size that works within a memory budget, in a few trials.

`find_batch_size` runs a step at a few sizes, reads the peak memory of each, and predicts the next
one (`size_search.py`). The first trial runs several steps, because an optimizer's state appears
with the first one; trials on the way run one, and the answer is run for several again, so it is
never untested. `sweep_batch_sizes` measures given sizes or powers of two before it searches.

A size is too large if it runs out of memory; if it takes more than the budget, as where a driver
spills into host memory and never fails; if the framework's allocator can only serve it by emptying
its cache in every step; or if its speed drops by half, the last resort where the device does not
report its memory.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from anyrig.backends.memory import trim_heap
from anyrig.errors import DeviceLostError, InvalidInputError, OutOfMemoryError
from anyrig.memory.recovery import run_with_recovery
from anyrig.memory.size_search import SearchBounds, forecast_sizes, largest_working, next_size
from anyrig.units import format_bytes, format_duration

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle
    from anyrig.backends.memory import MemoryUsage
    from anyrig.memory.oom import MemoryShortage

log = logging.getLogger(__name__)
TrialOutcome = Literal["ran", "out of memory", "over budget", "slow"]
_FAILURES = {
    "out of memory": "ran out of memory",
    "over budget": "exceeded the budget",
    "slow": "ran at less than half the best speed",
}
# An optimizer creates its state in the first step, so an answer has run at least two.
_VERIFY_STEPS = 2
# In a sweep every size is timed: the first step warms up, the fastest of the others counts.
_SWEEP_STEPS = 3
_MAX_SWEPT, _MAX_TRIALS_AFTER_SWEEP = 4096, 12
# A size slower than this share of the best speed has spilled out of the device's memory. With
# memory figures that takes a batch that fills this much of the budget.
_SPILL_SPEED, _SPILL_MIN_SHARE = 0.5, 0.5
# A slow step is repeated so often before it counts: another program may have used the device. So is
# one in which the allocator emptied its cache: the next may find the blocks that it needs.
_MAX_REPEATS = 2
# A trial this close to the budget is likely the answer: it is verified at once, still warm.
_FILLED_SHARE = 0.98


@dataclass(frozen=True)
class BatchTrial:
    """One batch size, run for a few steps."""

    size: int
    outcome: TrialOutcome
    num_steps: int
    """Completed steps."""
    seconds: float
    """The whole trial."""
    step_s: float | None = None
    """The fastest step but the first, which also warms up."""
    live_bytes: int | None = None
    """Peak in live tensors."""
    peak_bytes: int | None = None
    """Peak taken from the device: live tensors and what the allocator reserves."""
    rest_bytes: int | None = None
    """What stayed allocated after the steps."""

    @property
    def ran(self) -> bool:
        return self.outcome == "ran"

    @property
    def rate(self) -> float | None:
        """Items per second."""
        return self.size / self.step_s if self.step_s else None

    def __str__(self) -> str:
        speed = f", {self.rate:.4g} items/s" if self.rate else ""
        result = "ran" if self.ran else _FAILURES[self.outcome]
        seconds = format_duration(self.seconds)
        return f"batch size {self.size}: {result}{_peak_text(self)} in {seconds}{speed}"


@dataclass(frozen=True)
class BatchSizeResult:
    """The largest batch size that worked, and how it was found."""

    batch_size: int
    trials: tuple[BatchTrial, ...]
    """Every size that was run, in order; `batch_size` is one of them."""
    reason: str
    budget_bytes: int | None = None

    @property
    def best(self) -> BatchTrial:
        """The trial of `batch_size` itself."""
        found = largest_working([one for one in self.trials if one.size == self.batch_size])
        assert found is not None
        return found

    @property
    def fastest(self) -> BatchTrial:
        """The trial with the most items per second; a smaller batch may be as fast."""
        return max((one for one in self.trials if one.ran), key=lambda one: one.rate or 0.0)

    @property
    def num_out_of_memory(self) -> int:
        return sum(one.outcome == "out of memory" for one in self.trials)


def find_batch_size(
    step: Callable[[int], object],
    device: DeviceHandle,
    *,
    budget_bytes: int | None,
    max_size: int | None = None,
    start: int = 1,
    multiple: int = 1,
    max_trials: int = 24,
    max_trial_s: float = 120.0,
    on_progress: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> BatchSizeResult:
    """Find the largest batch size that works; raise OutOfMemoryError if the smallest does not.

    Args:
        step: runs one step of a given batch size, as the real work will: forward, backward and the
            optimizer's step for training.
        device: where the step runs, from `anyrig.backends.open_device`.
        budget_bytes: the most that may be taken of its memory, on a CPU by the whole process; None
            if nothing is known.
        max_size: the largest useful size, such as the number of items.
        start: the first size: 1, or a size that worked before.
        multiple: sizes are multiples of this.
        max_trials: the most sizes to run.
        max_trial_s: no size is tried that would take longer.
        on_progress: called with a message before each trial.
    """
    if min(start, multiple, max_trials) < 1 or (max_size is not None and max_size < multiple):
        raise InvalidInputError(
            f"invalid batch sizes: start {start}, multiple {multiple}, maximum {max_size}",
            hint="Sizes start at 1, and the maximum is at least one multiple.",
        )
    runner = TrialRunner(step, device, budget_bytes, clock=clock)
    bounds = SearchBounds(budget_bytes, max_trial_s / _VERIFY_STEPS, max_size, start, multiple)
    with quick_collections(device):
        return _search(runner, [], bounds, max_trials, on_progress, probe_steps=1)


def sweep_batch_sizes(
    step: Callable[[int], object],
    device: DeviceHandle,
    *,
    sizes: Sequence[int] = (),
    budget_bytes: int | None = None,
    max_size: int | None = None,
    max_trial_s: float = 60.0,
    on_progress: Callable[[str, int, int], None] = lambda message, done, total: None,
) -> BatchSizeResult:
    """Measure memory and speed over batch sizes; running out of memory at one is part of it.

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
    top = min(max_size or _MAX_SWEPT, _MAX_SWEPT)
    swept = sorted(set(sizes)) or [1 << power for power in range(top.bit_length())]
    if swept[0] < 1:
        raise InvalidInputError(f"invalid batch sizes: {list(sizes)}", hint="Sizes start at 1.")
    runner = TrialRunner(step, device, budget_bytes, _SWEEP_STEPS)
    with quick_collections(device):
        trials: list[BatchTrial] = []
        done = total = 0
        end = swept[-1]
        for size in swept:
            if trials:
                last = trials[-1]
                forecast = None if sizes else forecast_sizes(trials, budget_bytes)
                if forecast is not None and forecast.max_size is not None:
                    end = min(end, forecast.max_size)
                if last.step_s:
                    end = min(end, int(last.size * max_trial_s / (last.step_s * last.num_steps)))
                if not last.ran or size > end:
                    break
            total = sum(one for one in swept if one <= end) + (0 if sizes else 2 * end)
            on_progress(f"batch size {size}", done, total)
            trials.append(runner.run(size, best_rate(trials)))
            done += size
        return _search(
            runner,
            trials,
            SearchBounds(budget_bytes, max_trial_s / _SWEEP_STEPS, max_size, swept[0]),
            len(trials) + (0 if sizes else _MAX_TRIALS_AFTER_SWEEP),
            lambda message: on_progress(message, done, total),
            probe_steps=_SWEEP_STEPS,
        )


@contextlib.contextmanager
def quick_collections(device: DeviceHandle) -> Iterator[None]:
    """Have garbage collections look at new objects only: on a CPU several are made for each trial.

    Once torch is loaded a whole one takes longer than all steps of a small model.
    """
    if not device.on_host or gc.get_freeze_count():  # by the program: `unfreeze` would undo that
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _search(
    runner: TrialRunner,
    trials: list[BatchTrial],
    bounds: SearchBounds,
    max_trials: int,
    on_progress: Callable[[str], None],
    *,
    probe_steps: int,
) -> BatchSizeResult:
    """Continue from the trials so far, which ran under the same budget."""
    if bounds.budget_bytes is not None and bounds.budget_bytes < 1:
        raise InvalidInputError(
            f"invalid memory budget: {bounds.budget_bytes} bytes",
            hint="Pass None if it is unknown.",
        )
    if not bounds.max_step_s > 0:
        raise InvalidInputError("invalid maximum time of a trial", hint="Use a time above 0.")
    while True:
        size, working = next_size(trials, bounds), largest_working(trials)
        stopped = "" if size is None else _why_stop(size, trials, max_trials, runner)
        last = len(trials) >= max_trials - 1
        ends = size is None or stopped or last or (trials and runner.fills_budget(trials[-1]))
        if working is not None and working.num_steps < runner.num_steps and ends:
            runner.verify(trials, working, on_progress)
        elif size is None or stopped:
            runner.release()
            return _build_result(trials, bounds, stopped, runner.shortage)
        else:
            known = f", {working.size} worked{_peak_text(working, bounds)}" if working else ""
            on_progress(f"batch size {size}{known}")
            # On the way one step is enough; the last possible trial must verify itself.
            num_steps = probe_steps if trials and not last else None
            trials.append(runner.run(size, best_rate(trials), num_steps=num_steps))
        log.info("%s", trials[-1])


def _why_stop(size: int, trials: Sequence[BatchTrial], max_trials: int, runner: TrialRunner) -> str:
    """Why no other size is tried; empty if the search may continue."""
    if len(trials) >= max_trials:
        return f"all {max_trials} trials are used"
    working = largest_working(trials)
    if working is not None and size <= working.size:
        return f"a trial takes {format_duration((working.step_s or 0.0) * working.num_steps)}"
    if trials and trials[-1].outcome == "over budget" and runner.exceeds_budget_idle():
        # A smaller size would be judged by the memory of the larger one.
        return "the runtime does not release memory"
    return ""


def best_rate(trials: Sequence[BatchTrial]) -> float:
    """The most items per second so far."""
    return max((one.rate or 0.0 for one in trials if one.ran), default=0.0)


class TrialRunner:
    """Runs batch sizes one after the other and keeps only figures of them."""

    def __init__(
        self,
        step: Callable[[int], object],
        device: DeviceHandle,
        budget_bytes: int | None,
        num_steps: int = _VERIFY_STEPS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._step, self._device, self._budget_bytes = step, device, budget_bytes
        self.num_steps, self._clock = num_steps, clock
        # A CPU has nowhere to spill to: a slow batch there is slow for another reason.
        self._spill_speed = 0.0 if device.on_host else _SPILL_SPEED
        self.shortage: MemoryShortage | None = None
        """Of the last trial that failed."""

    def run(self, size: int, best_rate: float = 0.0, *, num_steps: int | None = None) -> BatchTrial:
        """Run one size for all its steps or until it fails.

        Args:
            best_rate: items per second of the fastest size so far.
            num_steps: as many as an answer needs if None.
        """
        self.release()
        self._device.reset_peak()
        return self._continue(size, best_rate, num_steps or self.num_steps)

    def verify(
        self, trials: list[BatchTrial], answer: BatchTrial, on_progress: Callable[[str], None]
    ) -> None:
        """Run the largest working size for the rest of its steps; it stays, or fails after all.

        If it was the last to run, it continues where it is, and is still one trial.
        """
        on_progress(f"batch size {answer.size}, for {self.num_steps} steps")
        rate = best_rate([one for one in trials if one is not answer])
        if trials[-1] is not answer:
            verified = self.run(answer.size, rate)
        else:
            more = self._continue(answer.size, rate, self.num_steps - answer.num_steps)
            verified = replace(
                more,
                num_steps=answer.num_steps + more.num_steps,
                seconds=answer.seconds + more.seconds,
            )
        if trials[-1] is answer or not verified.ran:
            trials.remove(answer)
        trials.append(verified)

    def fills_budget(self, trial: BatchTrial) -> bool:
        if self._budget_bytes is None or trial.peak_bytes is None or not trial.ran:
            return False
        return trial.peak_bytes >= _FILLED_SHARE * self._budget_bytes

    def exceeds_budget_idle(self) -> bool:
        """Whether the runtime holds more than the budget between steps, after a release."""
        if self._budget_bytes is None:
            return False
        self.release()
        return (self._device.memory().allocated_bytes or 0) > self._budget_bytes

    def synchronize(self) -> None:
        self._device.synchronize()

    def release(self) -> None:
        """Free unused memory.

        On a CPU it is returned to the system: glibc keeps freed blocks otherwise, and a smaller
        batch could not be measured after a larger one.
        """
        if self._device.on_host:
            gc.collect()
        self._device.release()
        if self._device.on_host:
            trim_heap()

    def _continue(self, size: int, best_rate: float, num_steps: int) -> BatchTrial:
        start = self._clock()
        times: list[float] = []
        ended = run_with_recovery(lambda: self._run_steps(size, times, best_rate, num_steps), self)
        seconds = self._clock() - start
        if ended.result is None:
            self.shortage = ended.shortage
            if self.shortage is not None and self.shortage.fatal:
                raise DeviceLostError(
                    f"the device was lost at batch size {size}: {self.shortage.message}",
                    hint="Restart in a new process, with a smaller start or budget.",
                )
            return BatchTrial(size, "out of memory", len(times), seconds)
        usage = self._device.memory()
        peak = _find_reserved(usage)
        live = usage.peak_bytes if usage.peak_bytes is not None else peak
        if self._device.on_host:
            # Only then is idle memory known. On a GPU the cache stays: real work never empties it
            # between steps, and a step that finds blocks of another one may need more than a first.
            self.release()
            usage = self._device.memory()
        idle = usage.allocated_bytes
        return BatchTrial(size, ended.result, len(times), seconds, _pace(times), live, peak, idle)

    def _run_steps(
        self, size: int, times: list[float], best_rate: float, num_steps: int
    ) -> TrialOutcome:
        repeats, num_retries = 0, self._device.memory().num_alloc_retries
        while len(times) < num_steps + repeats:
            times.append(self._time_step(size))
            usage = self._device.memory()
            emptied, num_retries = usage.num_alloc_retries > num_retries, usage.num_alloc_retries
            taken, share = _find_reserved(usage), 1.0  # just full if it is unknown
            if self._budget_bytes is not None and taken is not None:
                share = taken / self._budget_bytes
            if share > 1:
                return "over budget"
            if len(times) < num_steps + repeats:
                continue
            slow = size < self._spill_speed * best_rate * _pace(times) and share >= _SPILL_MIN_SHARE
            if emptied or slow:
                if repeats == _MAX_REPEATS:
                    return "over budget" if emptied else "slow"
                repeats += 1
        return "ran"

    def _time_step(self, size: int) -> float:
        before = self._clock()
        result = self._step(size)
        self._device.synchronize()
        after = self._clock()
        del result
        return after - before


def _pace(times: Sequence[float]) -> float:
    """The fastest step but the first, which also warms up."""
    return min(times[1:] or times)


def _find_reserved(usage: MemoryUsage) -> int | None:
    """What counts against the budget: the peak, or what is held if no peak is reported."""
    peaks = [n for n in (usage.peak_reserved_bytes, usage.peak_bytes) if n is not None]
    current = [n for n in (usage.reserved_bytes, usage.allocated_bytes) if n is not None]
    return max(peaks or current, default=None)


def _build_result(
    trials: Sequence[BatchTrial],
    bounds: SearchBounds,
    stopped: str,
    shortage: MemoryShortage | None,
) -> BatchSizeResult:
    working = largest_working(trials)
    if working is None:
        smallest = min(trials, key=lambda one: one.size)
        raise _nothing_fits(smallest, bounds, stopped, shortage)
    failed = min((one for one in trials if not one.ran), key=lambda one: one.size, default=None)
    parts = [f"{working.size} ran {working.num_steps} steps{_peak_text(working, bounds)}"]
    if failed is not None:
        parts.append(f"{failed.size} {_FAILURES[failed.outcome]}")
    elif bounds.max_size is not None and working.size + bounds.multiple > bounds.max_size:
        parts.append(f"{bounds.max_size} is the requested maximum")
    elif not stopped:
        parts.append("larger sizes would exceed the budget")
    if stopped:
        parts.append(f"search stopped: {stopped}")
    return BatchSizeResult(working.size, tuple(trials), "; ".join(parts), bounds.budget_bytes)


def _nothing_fits(
    smallest: BatchTrial, bounds: SearchBounds, stopped: str, shortage: MemoryShortage | None
) -> OutOfMemoryError:
    cause = (shortage.message if shortage else "") or "out of memory"
    if smallest.outcome == "over budget" and smallest.peak_bytes and bounds.budget_bytes:
        budget = format_bytes(bounds.budget_bytes)
        cause = f"it took {format_bytes(smallest.peak_bytes)} of a budget of {budget}"
    message = f"batch size {smallest.size} does not fit: {cause}"
    if smallest.size > bounds.multiple:
        return OutOfMemoryError(
            f"{message}; smaller sizes were not tried: {stopped}",
            hint=f"Start below {smallest.size}.",
        )
    return OutOfMemoryError(
        message,
        hint="Use shorter inputs, a smaller model or a larger budget; for training also bf16 or "
        "fp16, gradient checkpointing, or an optimizer with less state.",
    )


def _peak_text(trial: BatchTrial, bounds: SearchBounds | None = None) -> str:
    if trial.peak_bytes is None:
        return ""
    budget = bounds.budget_bytes if bounds is not None else None
    of = f" of {format_bytes(budget)}" if budget is not None else ""
    return f" and took {format_bytes(trial.peak_bytes)}{of}"


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
