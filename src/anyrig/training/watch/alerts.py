"""What a person should be told of a run while it goes on, each once until it has passed.

Judgements are made from figures that were read already; nothing here touches a device.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from anyrig.backends.memory import MemoryUsage
from anyrig.training.watch.figures import Counted
from anyrig.training.watch.usual import Usual
from anyrig.units import format_bytes, format_duration

Kind = Literal[
    "loss-nonfinite",
    "loss-spike",
    "gradient-explodes",
    "steps-skipped",
    "data-starves",
    "memory-full",
    "stalled",
    "throughput-fell",
]
# So many steps in a row without the reason, and it counts as passed.
_PASSED_STEPS = 10
# The first steps compile, warm caches and fill queues; their times say nothing.
_WARM_UP = 3


class Alert(NamedTuple):
    """One warning."""

    kind: Kind
    text: str
    step: int
    hint: str
    """What to do."""
    time_s: float = 0.0


@dataclass(frozen=True)
class Rules:
    """When to warn."""

    window: int = 50
    """Steps that a rule looks back on."""
    fewest: int = 20
    """Steps before a rule on what is usual says anything."""
    spike_sigmas: float = 8.0
    """A loss so many robust standard deviations above the median is a spike."""
    spike_share: float = 0.2
    """And at least this share of the median."""
    learnt_share: float = 0.1
    """Below this share of its first losses nearly all is learnt, and a single hard item is more
    than all that is usual: then a spike is at least `spike_share` of those first ones."""
    explosion: float = 10.0
    """Times the usual gradient norm."""
    explosion_begun: float = 3.0
    """And times what was usual in the first steps: norms may be tiny in the end."""
    skipped_share: float = 0.2
    """Of the window's steps."""
    data_share: float = 0.25
    """Of the steps' time, spent waiting for data."""
    memory_left_share: float = 0.05
    stall_s: float = 120.0
    """No step for so long, or for 20 usual steps where that is longer."""
    slow_share: float = 0.6
    """Throughput below this share of what was usual."""
    fewest_s: float = 2.0
    """Seconds of steps before a rule on time says anything."""


class Alarm:
    """Judges step after step."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self._losses = Usual(self.rules.window)
        self._norms = Usual(self.rules.window)
        self._begun_loss = Usual(self.rules.fewest)
        self._begun_norm = Usual(self.rules.fewest)
        self._skips: deque[bool] = deque(maxlen=self.rules.window)
        self._times: deque[tuple[float, float]] = deque(maxlen=self.rules.window)
        self._took = Usual(self.rules.window)
        self._speeds = Usual(self.rules.window)
        self._block = _Block()
        self._num_slow = 0
        self._speed_now = 0.0
        self._num_steps = 0
        self._raised: dict[Kind, int] = {}
        """What was told, and how many steps ago it last held."""

    def check(self, step: Counted) -> list[Alert]:
        """What is new and wrong with this step."""
        self._num_steps += 1
        found = [one for rule in (self._loss, self._norm, self._skipping) for one in rule(step)]
        if self._num_steps > _WARM_UP and step.step_s > 0:
            found += [one for rule in (self._data, self._speed) for one in rule(step)]
        self._raised.pop("stalled", None)
        return self._new(found, step.time_s)

    def check_memory(self, memory: MemoryUsage, step: int, time_s: float) -> list[Alert]:
        """Whether memory is near its end: what is free, and what the framework holds unused."""
        total, free = memory.total_bytes, memory.free_bytes
        if not total or free is None:
            return []
        unused = max(0, (memory.reserved_bytes or 0) - (memory.allocated_bytes or 0))
        left = free + unused
        if left >= self.rules.memory_left_share * total:
            return self._new([], time_s, only="memory-full")
        text = f"memory is nearly full: {format_bytes(left)} of {format_bytes(total)} are left"
        hint = 'Take a smaller micro batch, or recompute = "selective".'
        return self._new([Alert("memory-full", text, step, hint)], time_s, only="memory-full")

    def check_stall(self, idle_s: float, step: int, time_s: float) -> list[Alert]:
        """Whether the run hangs."""
        if "stalled" in self._raised or idle_s < max(self.rules.stall_s, 20 * self._took.median()):
            return []
        self._raised["stalled"] = 0
        text = f"no step for {format_duration(idle_s)}"
        hint = "A process waits for another, or for data: `py-spy dump --pid` shows where."
        return [Alert("stalled", text, step, hint, time_s)]

    def _new(self, found: Sequence[Alert], time_s: float, only: Kind | None = None) -> list[Alert]:
        holding = {one.kind for one in found}
        new = [one._replace(time_s=time_s) for one in found if one.kind not in self._raised]
        for kind in list(self._raised):
            if only is not None and kind != only or only is None and kind == "memory-full":
                continue
            self._raised[kind] = 0 if kind in holding else self._raised[kind] + 1
            if self._raised[kind] >= _PASSED_STEPS and kind != "stalled":
                del self._raised[kind]
        self._raised.update((kind, 0) for kind in holding)
        return new

    def _loss(self, step: Counted) -> Iterator[Alert]:
        if not math.isfinite(step.loss):
            done = "the step was skipped" if step.skipped else "weights may be spoiled"
            hint = "name_nonfinite = true has the module named; lower learning_rate."
            yield Alert("loss-nonfinite", f"loss is {step.loss}: {done}", step.number, hint)
            return
        if len(self._losses) >= self.rules.fewest and self._is_spike(step.loss):
            text = f"loss jumped to {step.loss:.4g}; {self._losses.median():.4g} was usual"
            hint = "Lower learning_rate or max_norm, or look at the data of this step."
            yield Alert("loss-spike", text, step.number, hint)
        self._losses.add(step.loss)
        if len(self._begun_loss) < self.rules.fewest:
            self._begun_loss.add(step.loss)

    def _is_spike(self, loss: float) -> bool:
        usual = self._losses.median()
        begun = self._begun_loss.median()
        learnt = 0 <= usual < self.rules.learnt_share * begun
        least = self.rules.spike_share * (begun if learnt else abs(usual))
        if loss <= usual + least:
            return False
        return loss > usual + self.rules.spike_sigmas * self._losses.spread()

    def _norm(self, step: Counted) -> Iterator[Alert]:
        norm = step.grad_norm
        if norm is None or step.skipped:
            return
        if not math.isfinite(norm):
            hint = "Keep guard = true: steps with such gradients are then skipped."
            yield Alert("gradient-explodes", f"gradient norm is {norm}", step.number, hint)
            return
        if len(self._norms) >= self.rules.fewest:
            usual = self._norms.median()
            begun = self.rules.explosion_begun * self._begun_norm.median()
            if norm > max(self.rules.explosion * usual, begun) and usual > 0:
                text = f"gradient norm is {norm:.3g}; {usual:.3g} was usual"
                hint = "Lower learning_rate, warm up longer, or clip with max_norm."
                yield Alert("gradient-explodes", text, step.number, hint)
        self._norms.add(norm)
        if len(self._begun_norm) < self.rules.fewest:
            self._begun_norm.add(norm)

    def _skipping(self, step: Counted) -> Iterator[Alert]:
        self._skips.append(step.skipped)
        num = sum(self._skips)
        if num >= 5 and num >= self.rules.skipped_share * len(self._skips):
            text = f"{num} of the last {len(self._skips)} steps were skipped"
            hint = 'Gradients are not finite: try precision = "bf16", or a lower learning_rate.'
            yield Alert("steps-skipped", text, step.number, hint)

    def _data(self, step: Counted) -> Iterator[Alert]:
        self._took.add(step.step_s)
        self._times.append((step.step_s, step.phases.get("data", 0.0)))
        seconds = sum(took for took, _ in self._times)
        if len(self._times) < self.rules.fewest or seconds < self.rules.fewest_s:
            return
        share = sum(data for _, data in self._times) / seconds
        if share > self.rules.data_share:
            text = f"the device waits for data {share:.0%} of the time"
            hint = "Raise loading.num_workers, or prepare the data beforehand."
            yield Alert("data-starves", text, step.number, hint)

    def _speed(self, step: Counted) -> Iterator[Alert]:
        """Blocks of steps are compared: single ones vary by what else the machine does."""
        self._block.add(step.units, step.step_s)
        if (
            self._block.num_steps >= self.rules.fewest
            and self._block.seconds >= self.rules.fewest_s
        ):
            speed, self._block = self._block.units / self._block.seconds, _Block()
            slow = speed < self.rules.slow_share * self._speeds.median()
            self._num_slow = self._num_slow + 1 if slow else 0
            self._speed_now = speed
            if not slow:
                self._speeds.add(speed)
        if self._num_slow >= 2:
            share = self._speed_now / self._speeds.median()
            text = f"throughput fell to {share:.0%} of what was usual"
            hint = "Look for a hot device, another process on it, or slower data."
            yield Alert("throughput-fell", text, step.number, hint)


class _Block:
    """Steps whose throughput is taken together."""

    def __init__(self) -> None:
        self.num_steps = 0
        self.units = 0
        self.seconds = 0.0

    def add(self, units: int, seconds: float) -> None:
        """One more step."""
        self.num_steps += 1
        self.units += units
        self.seconds += seconds
