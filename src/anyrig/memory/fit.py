"""The largest batch that works under a budget, found in a few tries and never untested.

`fit` runs a step at a few sizes, reads the peak of each, and predicts (`estimate`, `seek`). The
first try runs several steps, because an optimiser's state appears with the first one; those on the
way run one, and the answer is run for several again. A size counts as too large when it runs out of
memory; when it ran and took more than the budget, as where a driver spills into the host's memory
and never fails; or when its speed falls off a cliff, the last resort where nobody tells the
memory. It knows no framework: the meter and the recogniser of out-of-memory errors are handed in.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from anyrig.errors import DeviceLostError, InvalidInputError, OutOfMemoryError
from anyrig.memory.recover import Recognise, attempt
from anyrig.memory.seek import Outcome, Rules, Try, best, next_size
from anyrig.units import format_bytes, format_duration

if TYPE_CHECKING:
    from anyrig.backends.memory import MemoryUsage
    from anyrig.memory.oom import Shortage

log = logging.getLogger(__name__)
Clock = Callable[[], float]
# With memory figures, only a batch that fills this much of the budget can have left it.
_FULL = 0.5
_FILLED = 0.98
# A slow step is run again so often before it counts: somebody else may have used the device.
_SECOND_LOOKS = 2


class Meter(Protocol):
    """What `fit` asks of a device; `anyrig.backends.DeviceHandle` is one."""

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""

    def memory(self) -> MemoryUsage:
        """What is held now, and at most since the last `reset_peak`."""

    def reset_peak(self) -> None:
        """Begin to measure the peak anew."""

    def release(self) -> None:
        """Give back what the framework keeps and no tensor uses."""


@dataclass(frozen=True)
class Fit:
    """The largest batch that worked, and how it was found."""

    batch: int
    tries: tuple[Try, ...]
    """Every size that was run, in order; `batch` is one of them."""
    reason: str
    budget_bytes: int | None = None

    @property
    def answer(self) -> Try:
        """The try of the answer itself."""
        found = best([one for one in self.tries if one.size == self.batch])
        assert found is not None
        return found

    @property
    def throughput(self) -> float | None:
        """Items a second at the answer."""
        return self.answer.rate

    @property
    def fastest(self) -> Try:
        """The try with the most items a second; a smaller batch may be as fast."""
        return max((one for one in self.tries if one.ran), key=lambda one: one.rate or 0.0)

    @property
    def num_out_of_memory(self) -> int:
        """How many tries ran out of memory."""
        return sum(one.outcome == "out of memory" for one in self.tries)

    @property
    def seconds(self) -> float:
        """All tries together."""
        return sum(one.seconds for one in self.tries)


def fit(
    step: Callable[[int], object],
    *,
    meter: Meter,
    budget_bytes: int | None,
    recognise: Recognise,
    most: int | None = None,
    start: int = 1,
    multiple: int = 1,
    max_trials: int = 24,
    verify_steps: int = 2,
    probe_steps: int = 1,
    longest_trial_s: float = 120.0,
    tolerance: float = 0.05,
    cliff: float = 0.5,
    tried: Sequence[Try] = (),
    tell: Callable[[str], None] = lambda _: None,
    clock: Clock = time.perf_counter,
) -> Fit:
    """The largest batch that works; an error when the smallest does not.

    Args:
        step: runs one step of a given batch size, as the real work will: forward, backward and the
            optimiser's step for training.
        meter: the device the step runs on.
        budget_bytes: the most that may be taken of it; None where nothing is known.
        recognise: what an error says of memory; None for any other error, which is raised.
        most: the largest size that makes sense, such as the number of items there are.
        start: where to begin: 1, or a size that is known to have worked.
        multiple: sizes are multiples of this.
        max_trials: the most sizes to run.
        verify_steps: steps a try runs; two at least, an optimiser's state comes with the first.
        probe_steps: steps of the tries on the way; more than one tells their speed, too.
        longest_trial_s: no size is tried that would take longer.
        tolerance: how far below the largest size that works the answer may lie.
        cliff: a size slower than this share of the best speed has left the device's own memory; 0
            where that cannot be, as on a CPU that tells its memory.
        tried: what `Trial` ran already under the same budget; the search goes on from there.
        tell: is told what is being tried.
        clock: the time in seconds.
    """
    if start < 1 or multiple < 1 or max_trials < 1 or (most is not None and most < multiple):
        raise InvalidInputError(
            f"no batch size: start {start}, multiple {multiple}, most {most}",
            hint="Sizes count from 1, and `most` is at least one multiple.",
        )
    if budget_bytes is not None and budget_bytes < 1:
        raise InvalidInputError(
            f"a budget of {budget_bytes} bytes", hint="Give None where none is known."
        )
    if not 0 < tolerance < 1 or not longest_trial_s > 0 or not 0 <= cliff <= 1:
        raise InvalidInputError(
            f"tolerance {tolerance}, longest_trial_s {longest_trial_s}, cliff {cliff}",
            hint="A share between 0 and 1, seconds above 0, a share up to 1.",
        )
    rules = Rules(budget_bytes, most, start, multiple, tolerance)
    trial = Trial(step, meter, budget_bytes, recognise, max(2, verify_steps), cliff, clock)
    tries = list(tried)
    longest_step_s = longest_trial_s / max(2, verify_steps)
    while True:
        last = len(tries) >= max_trials - 1
        wished = next_size(tries, rules)
        size = None if wished is None else _affordable(wished, tries, rules, longest_step_s)
        why = "" if size is None else _enough(size, tries, max_trials, meter, budget_bytes)
        full = bool(tries) and trial.full(tries[-1])  # likely the answer: go on while it runs
        if trial.unproven(best(tries)) and (size is None or why or last or full):
            trial.prove(tries, tell)
        elif size is None or why:
            return _answer(tries, rules, why, trial.shortage)
        else:
            tell(_asking(size, tries, budget_bytes))
            # On the way one step is enough; where no try is left for a proof, it is its own.
            num_steps = probe_steps if tries and not last else None
            tries.append(trial.run(size, best_rate(tries), num_steps=num_steps))
            log.info("%s", try_text(tries[-1]))


class Trial:
    """Runs sizes, one after the other, and keeps nothing of them but figures."""

    def __init__(
        self,
        step: Callable[[int], object],
        meter: Meter,
        budget_bytes: int | None,
        recognise: Recognise,
        num_steps: int = 2,
        cliff: float = 0.5,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._step, self._meter, self._budget_bytes = step, meter, budget_bytes
        self._recognise, self._num_steps, self._clock = recognise, num_steps, clock
        self._cliff = cliff
        self.shortage: Shortage | None = None
        """What the last failure said of memory."""

    def run(self, size: int, best_rate: float = 0.0, *, num_steps: int | None = None) -> Try:
        """One size, for all its steps or until it fails.

        Args:
            size: the batch.
            best_rate: items a second of the fastest size so far.
            num_steps: how many steps; as many as an answer must run when None.
        """
        self._meter.release()
        self._meter.reset_peak()
        return self._further(size, best_rate, num_steps or self._num_steps)

    def full(self, one: Try) -> bool:
        """Whether a size ran and left nothing of the budget worth speaking of."""
        if self._budget_bytes is None or one.peak_bytes is None or not one.ran:
            return False
        return one.peak_bytes >= _FILLED * self._budget_bytes

    def unproven(self, answer: Try | None) -> bool:
        """Whether what would be the answer has run fewer steps than an answer must."""
        return answer is not None and answer.num_steps < self._num_steps

    def prove(self, tries: list[Try], tell: Callable[[str], None]) -> None:
        """Run the largest size that ran for the rest of its steps: it stays, or fails after all.

        One that was the last to be run goes on where it stands, and is still one try.
        """
        answer = best(tries)
        assert answer is not None
        tell(f"batch {answer.size}, for {self._num_steps} steps")
        rate = best_rate([one for one in tries if one is not answer])
        if tries[-1] is not answer:
            proven = self.run(answer.size, rate)
        else:
            more = self._further(answer.size, rate, self._num_steps - answer.num_steps)
            proven = replace(
                more,
                num_steps=answer.num_steps + more.num_steps,
                seconds=answer.seconds + more.seconds,
            )
        if tries[-1] is answer or not proven.ran:
            tries.remove(answer)
        tries.append(proven)
        log.info("%s", try_text(proven))

    def _further(self, size: int, best_rate: float, num_steps: int) -> Try:
        begun = self._clock()
        times: list[float] = []
        ended = attempt(
            lambda: self._steps(size, times, best_rate, num_steps), self._recognise, self._meter
        )
        seconds = self._clock() - begun
        if ended.result is None:
            self.shortage = ended.shortage
            self._refuse_lost(size)
            return Try(size, "out of memory", len(times), seconds)
        seen = self._meter.memory()
        self._meter.release()  # on a CPU, what rests shows only then
        rest = self._meter.memory().allocated_bytes
        return Try(
            size, ended.result, len(times), seconds, _pace(times), _live(seen), _taken(seen), rest
        )

    def _refuse_lost(self, size: int) -> None:
        if self.shortage is not None and self.shortage.fatal:
            raise DeviceLostError(
                f"the device was lost at a batch of {size}: {self.shortage.said}",
                hint="Begin anew in a new process, with a smaller start or budget.",
            )

    def _steps(self, size: int, times: list[float], best_rate: float, num_steps: int) -> Outcome:
        looks = 0
        while len(times) < num_steps + looks:
            times.append(self._timed(size))
            taken = _taken(self._meter.memory())
            if self._share(taken) > 1:
                return "over budget"
            done = len(times) == num_steps + looks
            slow = size < self._cliff * best_rate * _pace(times)
            if done and slow and self._share(taken) >= _FULL:
                if looks == _SECOND_LOOKS:
                    return "slow"
                looks += 1
        return "ran"

    def _share(self, taken: int | None) -> float:
        """How full the budget is; just full where nobody can tell."""
        if self._budget_bytes is None or taken is None:
            return 1.0
        return taken / self._budget_bytes

    def _timed(self, size: int) -> float:
        before = self._clock()
        result = self._step(size)
        self._meter.synchronize()
        after = self._clock()
        del result
        return after - before


def _pace(times: Sequence[float]) -> float:
    """The fastest step but the first, which also warms up."""
    return min(times[1:] or times)


def _taken(seen: MemoryUsage) -> int | None:
    """What counts against the budget: the peak, or what is held where no peak is told."""
    peaks = [n for n in (seen.peak_reserved_bytes, seen.peak_bytes) if n is not None]
    held = [n for n in (seen.reserved_bytes, seen.allocated_bytes) if n is not None]
    return max(peaks or held, default=None)


def _live(seen: MemoryUsage) -> int | None:
    return seen.peak_bytes if seen.peak_bytes is not None else _taken(seen)


def best_rate(tries: Sequence[Try]) -> float:
    """The most items a second so far."""
    return max((one.rate or 0.0 for one in tries if one.ran), default=0.0)


def _affordable(wished: int, tries: Sequence[Try], rules: Rules, longest_step_s: float) -> int:
    """The size, or as much of it as can be run in the time there is for a step."""
    good = best(tries)
    if good is None or not good.step_s or wished <= good.size:
        return wished
    return min(wished, rules.down(good.size * longest_step_s / good.step_s))


def _enough(
    size: int, tries: Sequence[Try], max_trials: int, meter: Meter, budget_bytes: int | None
) -> str:
    """Why no other size is tried; nothing when the search may go on."""
    if len(tries) >= max_trials:
        return f"all {max_trials} tries are used"
    good = best(tries)
    if good is not None and size <= good.size:
        return f"a try takes {format_duration(good.steady_s)}"
    if tries and tries[-1].outcome == "over budget" and budget_bytes is not None:
        meter.release()
        held = meter.memory().allocated_bytes
        if held is not None and held > budget_bytes:
            # Some runtimes never shrink: a smaller size would be judged by the larger one's memory.
            return "the runtime keeps what it once took"
    return ""


def _answer(tries: Sequence[Try], rules: Rules, why: str, shortage: Shortage | None) -> Fit:
    good = best(tries)
    if good is None:
        raise _nothing(min(tries, key=lambda one: one.size), rules, why, shortage)
    failed = min((one for one in tries if not one.ran), key=lambda one: one.size, default=None)
    parts = [f"{good.size} ran {good.num_steps} steps{_took(good, rules.budget_bytes)}"]
    if failed is not None:
        parts.append(f"{failed.size} {_FAILED[failed.outcome]}")
    elif rules.most is not None and good.size + rules.multiple > rules.most:
        parts.append(f"{rules.most} is all that was asked for")
    elif not why:
        parts.append("larger ones would leave the budget")
    if why:
        parts.append(f"no more was tried: {why}")
    return Fit(good.size, tuple(tries), "; ".join(parts), rules.budget_bytes)


def _nothing(smallest: Try, rules: Rules, why: str, shortage: Shortage | None) -> OutOfMemoryError:
    message = f"a batch of {smallest.size} does not fit: {_failure(smallest, rules, shortage)}"
    if smallest.size > rules.multiple:
        hint = f"Start smaller than {smallest.size}."
        return OutOfMemoryError(f"{message}; no smaller one was tried: {why}", hint=hint)
    return OutOfMemoryError(
        message,
        hint="Take shorter inputs, a smaller model or a larger budget; for training also bf16 or "
        "fp16, gradient checkpointing, or an optimiser with less state.",
    )


_FAILED = {
    "out of memory": "ran out of memory",
    "over budget": "took more than the budget",
    "slow": "was less than half as fast",
}


def _failure(one: Try, rules: Rules, shortage: Shortage | None) -> str:
    if one.outcome == "over budget" and one.peak_bytes and rules.budget_bytes:
        return f"it took {format_bytes(one.peak_bytes)} of {format_bytes(rules.budget_bytes)}"
    return (shortage.said if shortage else "") or "out of memory"


def _took(one: Try, budget_bytes: int | None) -> str:
    if one.peak_bytes is None:
        return ""
    of = f" of {format_bytes(budget_bytes)}" if budget_bytes is not None else ""
    return f" and took {format_bytes(one.peak_bytes)}{of}"


def _asking(size: int, tries: Sequence[Try], budget_bytes: int | None) -> str:
    good = best(tries)
    known = f", {good.size} worked{_took(good, budget_bytes)}" if good else ""
    return f"batch {size}{known}"


def try_text(one: Try) -> str:
    """A try in one line, for the log."""
    speed = f", {one.rate:.4g} items/s" if one.rate else ""
    result = "ran" if one.ran else _FAILED[one.outcome]
    return f"batch {one.size}: {result}{_took(one, None)} in {format_duration(one.seconds)}{speed}"
