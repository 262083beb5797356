"""Find the largest batch size that works within a memory budget, in a few trials.

`find_batch_size` runs a step at a few sizes, reads the peak memory of each, and predicts the next
one. The first trial runs several steps, because an optimizer's state appears with the first one;
trials on the way run one, and the answer is run for several again, so it is never untested. A size
is too large if it runs out of memory; if it ran and took more than the budget, as where a driver
spills into host memory and never fails; or if its speed drops by half, the last resort where the
device does not report its memory.

With memory figures the search takes small probes, then what they safely allow, then steps that may
fail at most once on a curve that is nearly a line. Without figures it doubles, then bisects.
"""

from __future__ import annotations

import gc
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from anyrig.backends.memory import trim_heap
from anyrig.errors import DeviceLostError, InvalidInputError, OutOfMemoryError
from anyrig.memory.estimate import MemoryForecast, PeakMemory, forecast_memory
from anyrig.memory.recovery import run_with_recovery
from anyrig.units import MIB, format_bytes, format_duration

if TYPE_CHECKING:
    from anyrig.backends.memory import MemoryUsage
    from anyrig.memory.oom import MemoryShortage

log = logging.getLogger(__name__)
TrialOutcome = Literal["ran", "out of memory", "over budget", "slow"]
_FAILURES = {
    "out of memory": "ran out of memory",
    "over budget": "exceeded the budget",
    "slow": "ran at less than half the best speed",
}
# How far below the largest possible size the answer may lie.
_TOLERANCE = 0.05
# A size slower than this share of the best speed has spilled out of the device's memory. With
# memory figures that takes a batch that fills this much of the budget.
_SPILL_SPEED, _SPILL_MIN_SHARE = 0.5, 0.5
# A slow step is repeated so often before it counts: another program may have used the device.
_SLOW_REPEATS = 2
# A trial this close to the budget is likely the answer.
_FILLED_SHARE = 0.98
# How many times larger than the largest tested size the next may be, by what that one added to the
# memory: much, little, or nothing, as with a runtime that never releases what it once took.
_GROWTH_MUCH, _GROWTH_LITTLE, _GROWTH_NOTHING = 32, 16, 4
_MUCH_SHARE, _NOTHING_BYTES = 1 / 64, 4 * MIB
# After a failed prediction: this much of it; if it was this many times off, the geometric mean.
_BACK_OFF, _FAR_OFF = 0.95, 8
# Trials that added this much of the budget predict well, however far off the failure was.
_TRUSTED_SHARE = 1 / 20
_SHRINK = 4


class MemoryMeter(Protocol):
    """What the search needs of a device; `anyrig.backends.DeviceHandle` is one."""

    on_host: bool

    def synchronize(self) -> None: ...

    def memory(self) -> MemoryUsage: ...

    def reset_peak(self) -> None: ...

    def release(self) -> None: ...


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
    def rate(self) -> float | None:
        """Items per second."""
        return self.size / self.step_s if self.step_s else None

    @property
    def steady_s(self) -> float:
        """Seconds that the trial would take again, warmed up."""
        return (self.step_s or 0.0) * self.num_steps

    @property
    def ran(self) -> bool:
        return self.outcome == "ran"

    def __str__(self) -> str:
        speed = f", {self.rate:.4g} items/s" if self.rate else ""
        result = "ran" if self.ran else _FAILURES[self.outcome]
        return (
            f"batch size {self.size}: {result}{_peak_text(self, None)} "
            f"in {format_duration(self.seconds)}{speed}"
        )


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


@dataclass(frozen=True)
class SearchBounds:
    budget_bytes: int | None
    max_size: int | None = None
    start: int = 1
    multiple: int = 1

    def round_down(self, size: float) -> int:
        """The next lower multiple, but at least one."""
        return max(self.multiple, int(size) // self.multiple * self.multiple)


def find_batch_size(
    step: Callable[[int], object],
    device: MemoryMeter,
    *,
    budget_bytes: int | None,
    max_size: int | None = None,
    start: int = 1,
    multiple: int = 1,
    max_trials: int = 24,
    verify_steps: int = 2,
    probe_steps: int = 1,
    max_trial_s: float = 120.0,
    trials: Sequence[BatchTrial] = (),
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
        verify_steps: steps of a full trial; at least two, because the first creates an optimizer's
            state.
        probe_steps: steps of the trials on the way; more than one measure their speed, too.
        max_trial_s: no size is tried that would take longer.
        trials: what a `TrialRunner` ran already under the same budget; the search continues there.
        on_progress: called with a message before each trial.
        clock: the time in seconds.
    """
    if (
        start < 1
        or multiple < 1
        or max_trials < 1
        or (max_size is not None and max_size < multiple)
    ):
        raise InvalidInputError(
            f"invalid batch sizes: start {start}, multiple {multiple}, maximum {max_size}",
            hint="Sizes start at 1, and the maximum is at least one multiple.",
        )
    if budget_bytes is not None and budget_bytes < 1:
        raise InvalidInputError(
            f"invalid memory budget: {budget_bytes} bytes", hint="Pass None if it is unknown."
        )
    if not max_trial_s > 0:
        raise InvalidInputError(f"invalid trial time: {max_trial_s} s", hint="Use a time above 0.")
    bounds = SearchBounds(budget_bytes, max_size, start, multiple)
    runner = TrialRunner(step, device, budget_bytes, max(2, verify_steps), clock)
    done = list(trials)
    max_step_s = max_trial_s / max(2, verify_steps)
    while True:
        last = len(done) >= max_trials - 1
        wanted = next_size(done, bounds)
        size = None if wanted is None else _affordable(wanted, done, bounds, max_step_s)
        why_stop = "" if size is None else _why_stop(size, done, max_trials, runner)
        filled = bool(done) and runner.fills_budget(done[-1])  # likely the answer: verify it warm
        if runner.is_unverified(largest_working(done)) and (
            size is None or why_stop or last or filled
        ):
            runner.verify(done, on_progress)
        elif size is None or why_stop:
            return _build_result(done, bounds, why_stop, runner.shortage)
        else:
            on_progress(_progress_text(size, done, budget_bytes))
            # On the way one step is enough; the last possible trial must verify itself.
            num_steps = probe_steps if done and not last else None
            done.append(runner.run(size, best_rate(done), num_steps=num_steps))
            log.info("%s", done[-1])


class TrialRunner:
    """Runs batch sizes one after the other and keeps only figures of them."""

    def __init__(
        self,
        step: Callable[[int], object],
        device: MemoryMeter,
        budget_bytes: int | None,
        num_steps: int = 2,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._step, self._device, self._budget_bytes = step, device, budget_bytes
        self._num_steps, self._clock = num_steps, clock
        # A CPU has nowhere to spill to: a slow batch there is slow for another reason.
        self._spill_speed = 0.0 if device.on_host else _SPILL_SPEED
        self.shortage: MemoryShortage | None = None
        """Of the last trial that failed."""

    def run(self, size: int, best_rate: float = 0.0, *, num_steps: int | None = None) -> BatchTrial:
        """Run one size for all its steps or until it fails.

        Args:
            size: the batch size.
            best_rate: items per second of the fastest size so far.
            num_steps: how many steps; as many as an answer needs if None.
        """
        self.release()
        self._device.reset_peak()
        return self._continue(size, best_rate, num_steps or self._num_steps)

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

    def exceeds_budget_idle(self) -> bool:
        """Whether the runtime holds more than the budget between steps, after a release."""
        if self._budget_bytes is None:
            return False
        self.release()
        held = self._device.memory().allocated_bytes
        return held is not None and held > self._budget_bytes

    def fills_budget(self, trial: BatchTrial) -> bool:
        if self._budget_bytes is None or trial.peak_bytes is None or not trial.ran:
            return False
        return trial.peak_bytes >= _FILLED_SHARE * self._budget_bytes

    def is_unverified(self, answer: BatchTrial | None) -> bool:
        """Whether a possible answer has run fewer steps than an answer must."""
        return answer is not None and answer.num_steps < self._num_steps

    def verify(self, trials: list[BatchTrial], on_progress: Callable[[str], None]) -> None:
        """Run the largest working size for the rest of its steps; it stays, or fails after all.

        If it was the last to run, it continues where it is, and is still one trial.
        """
        answer = largest_working(trials)
        assert answer is not None
        on_progress(f"batch size {answer.size}, for {self._num_steps} steps")
        rate = best_rate([one for one in trials if one is not answer])
        if trials[-1] is not answer:
            verified = self.run(answer.size, rate)
        else:
            more = self._continue(answer.size, rate, self._num_steps - answer.num_steps)
            verified = replace(
                more,
                num_steps=answer.num_steps + more.num_steps,
                seconds=answer.seconds + more.seconds,
            )
        if trials[-1] is answer or not verified.ran:
            trials.remove(answer)
        trials.append(verified)
        log.info("%s", verified)

    def _continue(self, size: int, best_rate: float, num_steps: int) -> BatchTrial:
        start = self._clock()
        times: list[float] = []
        ended = run_with_recovery(lambda: self._steps(size, times, best_rate, num_steps), self)
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
        self.release()  # on a CPU, idle memory is known only then
        idle = self._device.memory().allocated_bytes
        peak = _reserved(usage)
        live = usage.peak_bytes if usage.peak_bytes is not None else peak
        return BatchTrial(size, ended.result, len(times), seconds, _pace(times), live, peak, idle)

    def _steps(
        self, size: int, times: list[float], best_rate: float, num_steps: int
    ) -> TrialOutcome:
        repeats = 0
        while len(times) < num_steps + repeats:
            times.append(self._time_step(size))
            share = self._budget_share(_reserved(self._device.memory()))
            if share > 1:
                return "over budget"
            done = len(times) == num_steps + repeats
            slow = size < self._spill_speed * best_rate * _pace(times)
            if done and slow and share >= _SPILL_MIN_SHARE:
                if repeats == _SLOW_REPEATS:
                    return "slow"
                repeats += 1
        return "ran"

    def _budget_share(self, taken: int | None) -> float:
        """How full the budget is; just full if it is unknown."""
        if self._budget_bytes is None or taken is None:
            return 1.0
        return taken / self._budget_bytes

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


def _reserved(usage: MemoryUsage) -> int | None:
    """What counts against the budget: the peak, or what is held if no peak is reported."""
    peaks = [n for n in (usage.peak_reserved_bytes, usage.peak_bytes) if n is not None]
    held = [n for n in (usage.reserved_bytes, usage.allocated_bytes) if n is not None]
    return max(peaks or held, default=None)


# -- which size is next: pure functions of what was tried ------------------------------------------


def largest_working(trials: Sequence[BatchTrial]) -> BatchTrial | None:
    """The trial of the largest size that ran; of two trials of it, the longer one."""
    ran = (one for one in trials if one.ran)
    return max(ran, key=lambda one: (one.size, one.num_steps), default=None)


def best_rate(trials: Sequence[BatchTrial]) -> float:
    """The most items per second so far."""
    return max((one.rate or 0.0 for one in trials if one.ran), default=0.0)


def next_size(trials: Sequence[BatchTrial], bounds: SearchBounds) -> int | None:
    """The size to try next; None if the search is over, or if nothing fits at all."""
    if not trials:
        return min(bounds.round_down(bounds.start), _max_size(bounds) or 1 << 60)
    working = largest_working(trials)
    failed = min((one.size for one in trials if not one.ran), default=None)
    if working is None:
        assert failed is not None
        return bounds.round_down(failed / _SHRINK) if failed > bounds.multiple else None
    forecast = forecast_trials(trials, bounds.budget_bytes)
    upper = _upper_bound(failed, forecast, bounds)
    size = working.size
    if upper is not None and (upper - size < bounds.multiple or size >= (1 - _TOLERANCE) * upper):
        return None
    target = bounds.round_down(_target(trials, size, upper, forecast, bounds))
    target = max(size + bounds.multiple, target)
    return target if upper is None else min(target, upper)


def forecast_trials(
    trials: Sequence[BatchTrial], budget_bytes: int | None
) -> MemoryForecast | None:
    """Forecast which sizes fit the budget, if the trials have memory figures."""
    peaks = {
        one.size: PeakMemory(one.size, one.live_bytes or one.peak_bytes, one.peak_bytes)
        for one in trials
        if one.peak_bytes is not None and one.outcome in ("ran", "over budget")
    }
    working = largest_working(trials)
    if budget_bytes is None or working is None or working.size not in peaks:
        return None
    # A framework that is capped at the budget cannot exceed it.
    capped = not any(one.outcome == "over budget" for one in trials)
    idle = working.rest_bytes or 0
    return forecast_memory(list(peaks.values()), budget_bytes, idle_bytes=idle, capped=capped)


def _max_size(bounds: SearchBounds) -> int | None:
    return None if bounds.max_size is None else bounds.round_down(bounds.max_size)


def _upper_bound(
    failed: int | None, forecast: MemoryForecast | None, bounds: SearchBounds
) -> int | None:
    """The largest size that may still work; None if nothing bounds it yet."""
    ends = [failed - bounds.multiple] if failed is not None else []
    largest = _max_size(bounds)
    ends += [largest] if largest is not None else []
    if forecast is not None and forecast.max_size is not None:
        ends.append(bounds.round_down(forecast.max_size))
    return min(ends, default=None)


def _target(
    trials: Sequence[BatchTrial],
    size: int,
    upper: int | None,
    forecast: MemoryForecast | None,
    bounds: SearchBounds,
) -> float:
    """Where to go from the largest working size."""
    last = trials[-1]
    # A trial over the budget shows where it ends; if that was wrong, bisect.
    misled = len(trials) > 1 and not trials[-2].ran
    if not last.ran and (last.outcome != "over budget" or misled):
        return _back_off(size, last.size, None if misled else forecast, bounds)
    failed = min(
        (one.size for one in trials if one.outcome in ("out of memory", "slow")), default=0
    )
    if forecast is None:
        return (size + failed) / 2 if failed else size * 2
    # No further than where a failure would already be close enough to the answer: one is enough.
    careful = size / (1 - _TOLERANCE) + bounds.multiple
    if upper is not None:
        careful = min(careful, (size + upper) / 2)
    if failed and forecast.safe_size >= (1 - _TOLERANCE) * failed:
        # Where a working size is close enough to the one that failed.
        return max(careful, math.ceil((1 - _TOLERANCE) * failed))
    return max(careful, min(forecast.safe_size, size * _growth(forecast, bounds.budget_bytes or 0)))


def _growth(forecast: MemoryForecast, budget_bytes: int) -> int:
    if forecast.batch_bytes < _NOTHING_BYTES:
        return _GROWTH_NOTHING
    much = forecast.batch_bytes >= _MUCH_SHARE * budget_bytes
    return _GROWTH_MUCH if much else _GROWTH_LITTLE


def _back_off(
    size: int, failed: int, forecast: MemoryForecast | None, bounds: SearchBounds
) -> float:
    """Where to go after a failure."""
    if forecast is None:
        return (size + failed) / 2
    trusted = forecast.batch_bytes >= _TRUSTED_SHARE * (bounds.budget_bytes or 0)
    if failed <= size * _FAR_OFF or trusted:
        # A little below a prediction that was nearly right, never below the middle.
        return max(failed * _BACK_OFF, (size + failed) / 2)
    return math.sqrt(size * failed)


def _affordable(
    wanted: int, trials: Sequence[BatchTrial], bounds: SearchBounds, max_step_s: float
) -> int:
    """The wanted size, or as much of it as can run in the time for a step."""
    working = largest_working(trials)
    if working is None or not working.step_s or wanted <= working.size:
        return wanted
    return min(wanted, bounds.round_down(working.size * max_step_s / working.step_s))


def _why_stop(size: int, trials: Sequence[BatchTrial], max_trials: int, runner: TrialRunner) -> str:
    """Why no other size is tried; empty if the search may continue."""
    if len(trials) >= max_trials:
        return f"all {max_trials} trials are used"
    working = largest_working(trials)
    if working is not None and size <= working.size:
        return f"a trial takes {format_duration(working.steady_s)}"
    if trials and trials[-1].outcome == "over budget" and runner.exceeds_budget_idle():
        # A smaller size would be judged by the memory of the larger one.
        return "the runtime does not release memory"
    return ""


# -- messages --------------------------------------------------------------------------------------


def _build_result(
    trials: Sequence[BatchTrial],
    bounds: SearchBounds,
    why_stop: str,
    shortage: MemoryShortage | None,
) -> BatchSizeResult:
    working = largest_working(trials)
    if working is None:
        smallest = min(trials, key=lambda one: one.size)
        raise _nothing_fits(smallest, bounds, why_stop, shortage)
    failed = min((one for one in trials if not one.ran), key=lambda one: one.size, default=None)
    peak = _peak_text(working, bounds.budget_bytes)
    parts = [f"{working.size} ran {working.num_steps} steps{peak}"]
    if failed is not None:
        parts.append(f"{failed.size} {_FAILURES[failed.outcome]}")
    elif bounds.max_size is not None and working.size + bounds.multiple > bounds.max_size:
        parts.append(f"{bounds.max_size} is the requested maximum")
    elif not why_stop:
        parts.append("larger sizes would exceed the budget")
    if why_stop:
        parts.append(f"search stopped: {why_stop}")
    return BatchSizeResult(working.size, tuple(trials), "; ".join(parts), bounds.budget_bytes)


def _nothing_fits(
    smallest: BatchTrial, bounds: SearchBounds, why_stop: str, shortage: MemoryShortage | None
) -> OutOfMemoryError:
    cause = (shortage.message if shortage else "") or "out of memory"
    if smallest.outcome == "over budget" and smallest.peak_bytes and bounds.budget_bytes:
        budget = format_bytes(bounds.budget_bytes)
        cause = f"it took {format_bytes(smallest.peak_bytes)} of a budget of {budget}"
    message = f"batch size {smallest.size} does not fit: {cause}"
    if smallest.size > bounds.multiple:
        return OutOfMemoryError(
            f"{message}; smaller sizes were not tried: {why_stop}",
            hint=f"Start below {smallest.size}.",
        )
    return OutOfMemoryError(
        message,
        hint="Use shorter inputs, a smaller model or a larger budget; for training also bf16 or "
        "fp16, gradient checkpointing, or an optimizer with less state.",
    )


def _peak_text(trial: BatchTrial, budget_bytes: int | None) -> str:
    if trial.peak_bytes is None:
        return ""
    of = f" of {format_bytes(budget_bytes)}" if budget_bytes is not None else ""
    return f" and took {format_bytes(trial.peak_bytes)}{of}"


def _progress_text(size: int, trials: Sequence[BatchTrial], budget_bytes: int | None) -> str:
    working = largest_working(trials)
    known = f", {working.size} worked{_peak_text(working, budget_bytes)}" if working else ""
    return f"batch size {size}{known}"
