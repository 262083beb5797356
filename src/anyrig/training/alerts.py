"""When a training run warns, each warning once until its reason has passed.

Rules judge metrics that were read already; nothing here touches a device.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from statistics import median

from anyrig.training.metrics import Alert, StepMetrics

_WINDOW = 50
"""Steps that a rule looks back on."""
_FEWEST = 20
"""Steps before a rule on what is usual says anything."""
_SPIKE_SIGMAS, _SPIKE_SHARE = 8.0, 0.2
"""A loss so many robust standard deviations above the median, and at least this share of it."""
_LEARNT_SHARE = 0.1
"""Below this share of the first losses nearly all is learnt, and a single hard item is more than
all that is usual: then a spike is at least `_SPIKE_SHARE` of those first ones."""
_SKIPPED, _SKIPPED_SHARE = 5, 0.2
_DATA_SHARE, _DATA_S = 0.25, 2.0
"""Of the steps' time, spent waiting for data, in at least so many seconds of steps."""
_PASSED_STEPS = 10
"""So many steps in a row without the reason, and it counts as passed."""
_WARM_UP = 3
"""The first steps compile, warm caches and fill queues; their times say nothing."""


class AlertRules:
    """Judges step after step: `loss-nonfinite`, `loss-spike`, `steps-skipped`, `data-starves`."""

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=_WINDOW)
        self._first_losses: list[float] = []
        self._skips: deque[bool] = deque(maxlen=_WINDOW)
        self._times: deque[tuple[float, float]] = deque(maxlen=_WINDOW)
        self._num_steps = 0
        self._raised: dict[str, int] = {}
        """What was reported, and how many steps ago it last held."""

    def check(self, step: StepMetrics) -> list[Alert]:
        """What is new and wrong with this step."""
        self._num_steps += 1
        found = [*self._check_loss(step), *self._check_skipped(step)]
        if self._num_steps > _WARM_UP and step.step_s > 0:
            found += self._check_data(step)
        new = [one._replace(time_s=step.time_s) for one in found if one.kind not in self._raised]
        holding = {one.kind for one in found}
        self._raised = {
            kind: 0 if kind in holding else age + 1
            for kind, age in self._raised.items()
            if kind in holding or age + 1 < _PASSED_STEPS
        } | dict.fromkeys(holding, 0)
        return new

    def _check_loss(self, step: StepMetrics) -> Iterator[Alert]:
        if not math.isfinite(step.loss):
            done = "the step was skipped" if step.num_skipped else "weights may be spoiled"
            hint = "name_nonfinite = true has the module named; lower learning_rate."
            yield Alert("loss-nonfinite", f"loss is {step.loss}: {done}", step.step, hint)
            return
        if len(self._losses) >= _FEWEST and self._is_spike(step.loss):
            text = f"loss jumped to {step.loss:.4g}; the median is {median(self._losses):.4g}"
            hint = "Lower learning_rate or max_norm, or look at the data of this step."
            yield Alert("loss-spike", text, step.step, hint)
        self._losses.append(step.loss)
        if len(self._first_losses) < _FEWEST:
            self._first_losses.append(step.loss)

    def _is_spike(self, loss: float) -> bool:
        typical, first = median(self._losses), median(self._first_losses)
        is_learnt = 0 <= typical < _LEARNT_SHARE * first
        least = _SPIKE_SHARE * (first if is_learnt else abs(typical))
        if loss <= typical + least:
            return False
        # A standard deviation that outliers do not move.
        sigma = 1.4826 * median(abs(one - typical) for one in self._losses)
        return loss > typical + _SPIKE_SIGMAS * sigma

    def _check_skipped(self, step: StepMetrics) -> Iterator[Alert]:
        self._skips.append(step.num_skipped > 0)
        num = sum(self._skips)
        if num >= _SKIPPED and num >= _SKIPPED_SHARE * len(self._skips):
            text = f"{num} of the last {len(self._skips)} steps were skipped"
            hint = 'Gradients are not finite: try precision = "bf16", or a lower learning_rate.'
            yield Alert("steps-skipped", text, step.step, hint)

    def _check_data(self, step: StepMetrics) -> Iterator[Alert]:
        self._times.append((step.step_s, step.phases.get("data", 0.0)))
        seconds = sum(took for took, _ in self._times)
        if len(self._times) < _FEWEST or seconds < _DATA_S:
            return
        share = sum(data for _, data in self._times) / seconds
        if share > _DATA_SHARE:
            text = f"steps wait for data {share:.0%} of the time"
            hint = "Raise num_workers (loading or your DataLoader), or prepare the data beforehand."
            yield Alert("data-starves", text, step.step, hint)
