"""The way from noise to a latent: steps of DPM-Solver++, planned in NumPy for every runtime."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

TRAINED_STEPS = 1000
COEFFICIENTS = ("alpha", "sigma", "keep", "now", "before", "noise")
"""Of a `SolverStep`, in the order of `stack_steps`."""


@dataclass(frozen=True)
class SolverStep:
    """One step of DPM-Solver++ of second order, on velocities.

    The clean latent is `alpha * x - sigma * v`, the next one `keep * x + now * clean + before *
    last clean + noise * fresh noise`. The numbers are computed once, in single precision as the
    published pipelines do, and agree with `DPMSolverMultistepScheduler(
    beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction")`, whose `algorithm_type` is
    `dpmsolver++` without noise and `sde-dpmsolver++` with it.
    """

    time: int
    alpha: float
    sigma: float
    keep: float
    now: float
    before: float
    noise: float = 0.0


@lru_cache(maxsize=64)
def plan_steps(num_steps: int, *, stochastic: bool = False) -> tuple[SolverStep, ...]:
    """The whole way from noise to a latent; with fresh noise at each step if `stochastic`."""
    levels = _noise_levels()
    times = [round((TRAINED_STEPS - 1) * n / num_steps)
             for n in range(num_steps, 0, -1)]  # fmt: skip
    one, zero = np.float32(1), np.float32(0)
    noise = np.append(levels[times], zero)
    alpha = one / np.sqrt(noise**2 + one)
    sigma = noise * alpha
    with np.errstate(divide="ignore"):  # the last one has no noise
        lam = np.log(alpha) - np.log(sigma)
    planned = []
    for n, time in enumerate(times):
        decay = np.exp(lam[n] - lam[n + 1])
        keep, added = sigma[n + 1] / sigma[n], zero
        if stochastic:
            added = sigma[n + 1] * np.sqrt(one - decay**2)
            keep, decay = keep * decay, decay**2
        gain = alpha[n + 1] * (one - decay)
        before = zero
        # The first step knows no earlier one, and the last lands on the clean latent itself.
        if 0 < n < num_steps - 1:
            ratio = (lam[n] - lam[n - 1]) / (lam[n + 1] - lam[n])
            before = np.float32(-0.5) * gain / ratio
        planned.append(
            SolverStep(
                time=time,
                alpha=float(alpha[n]),
                sigma=float(sigma[n]),
                keep=float(keep),
                now=float(gain - before),
                before=float(before),
                noise=float(added),
            )
        )
    return tuple(planned)


def stack_steps(steps: tuple[SolverStep, ...], count: int) -> NDArray[np.float32]:
    """The numbers of some steps, and of more that change nothing: step, coefficient."""
    rows = [[getattr(step, name) for name in COEFFICIENTS] for step in steps]
    still = [float(name == "keep") for name in COEFFICIENTS]
    return np.array(rows + [still] * (count - len(steps)), np.float32)


def _noise_levels() -> NDArray[np.float32]:
    """The noise beside the signal at each of the trained steps: a squared cosine, cut at 0.999."""

    def share(part: float) -> float:
        return math.cos((part + 0.008) / 1.008 * math.pi / 2) ** 2

    betas = [
        min(1 - share((n + 1) / TRAINED_STEPS) / share(n / TRAINED_STEPS), 0.999)
        for n in range(TRAINED_STEPS)
    ]
    # Multiplied in double precision, as torch does, and rounded.
    left = np.cumprod(np.float32(1) - np.array(betas, np.float32), dtype=np.float64)
    left = left.astype(np.float32)
    return np.sqrt((np.float32(1) - left) / left)
