"""Memory and speed of any training step by micro batch, measured: a table and a plot.

Running out of memory at some size is part of it: the sweep ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.memory.fit import Fit, Meter, Trial, best_rate, fit
from anyrig.memory.host import Trimming
from anyrig.memory.oom import recognise
from anyrig.memory.plot import svg
from anyrig.memory.seek import Try
from anyrig.storage import files

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle

_STEPS = 3  # the first warms up, the fastest of the others tells the speed
_SIZES = (1, 2, 4, 8, 16, 32, 64)
_MORE = 12


def profile(
    step: Callable[[int], object],
    bound: DeviceHandle,
    *,
    sizes: Sequence[int] = _SIZES,
    budget_bytes: int | None = None,
    find: bool = False,
    longest_s: float = 60.0,
    plot: Path | None = None,
    title: str = "a training step",
    tell: Callable[[str], None] = lambda _: None,
) -> Fit:
    """The peak and the speed of a step at several micro batches; its tries are the figures.

    Args:
        step: runs a whole step of a size: forward, backward and the optimiser.
        bound: the device it runs on, from `anyrig.backends.open_device`.
        sizes: micro batches to run, from the smallest up.
        budget_bytes: the most that may be taken of the device.
        find: go on from there to the largest that fits the budget.
        longest_s: no size is tried that would take longer.
        plot: write an SVG there.
        title: what is measured, for the plot.
        tell: is told what is being tried.
    """
    ordered = sorted(set(sizes))
    if not ordered or ordered[0] < 1:
        raise InvalidInputError(f"no micro batches: {list(sizes)}", hint="Give sizes from 1 up.")
    meter: Meter = Trimming(bound) if bound.on_host else bound
    cliff = 0.0 if bound.on_host else 0.5
    trial = Trial(step, meter, budget_bytes, recognise, _STEPS, cliff)
    tries: list[Try] = []
    for size in ordered:
        if tries and tries[-1].steady_s * size / tries[-1].size > longest_s:
            break
        tell(f"micro batch {size}")
        tries.append(trial.run(size, best_rate(tries)))
        if not tries[-1].ran:
            break
    found = fit(
        step, meter=meter, budget_bytes=budget_bytes, recognise=recognise,
        start=ordered[0], max_trials=len(tries) + (_MORE if find else 0), verify_steps=_STEPS,
        probe_steps=_STEPS, longest_trial_s=longest_s, cliff=cliff, tried=tries, tell=tell,
    )  # fmt: skip
    if plot is not None:
        files.write_atomic(plot, svg(found, f"{title} on {bound.name}"))
    return found
