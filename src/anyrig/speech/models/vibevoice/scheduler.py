"""The noise schedule and its solver: DPM-Solver++ of second order, on velocities.

With the schedule fixed, a step is a line of four numbers: the clean latent is
`alpha * x - sigma * v`, and the next latent is `keep * x + now * clean + before * last clean`. They
are worked out once, in single precision as the published pipelines do, and agree with
`DPMSolverMultistepScheduler(beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction")`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyrig.errors import InvalidInputError

TRAINED_STEPS = 1000
_KNOWN: Mapping[str, object] = {
    "beta_schedule": "squaredcos_cap_v2",
    "prediction_type": "v_prediction",
    "algorithm_type": "dpmsolver++",
    "solver_order": 2,
    "solver_type": "midpoint",
    "num_train_timesteps": TRAINED_STEPS,
    "timestep_spacing": "linspace",
    "final_sigmas_type": "zero",
    "lower_order_final": True,
}


@dataclass(frozen=True)
class Step:
    """One step of the solver."""

    time: int
    alpha: float
    sigma: float
    keep: float
    now: float
    before: float


def steps(num_steps: int) -> tuple[Step, ...]:
    """The whole way from noise to a latent."""
    levels = _levels()
    times = [round((TRAINED_STEPS - 1) * n / num_steps)
             for n in range(num_steps, 0, -1)]  # fmt: skip
    noise = torch.cat([levels[times], torch.zeros(1)])
    alpha = 1 / (noise**2 + 1).sqrt()
    sigma = noise * alpha
    lam = alpha.log() - sigma.log()
    made = []
    for n, time in enumerate(times):
        gain = -alpha[n + 1] * (torch.exp(lam[n] - lam[n + 1]) - 1)
        before = torch.zeros(())
        # The first step knows no earlier one, and the last lands on the clean latent itself.
        if 0 < n < num_steps - 1:
            ratio = (lam[n] - lam[n - 1]) / (lam[n + 1] - lam[n])
            before = -0.5 * gain / ratio
        made.append(
            Step(
                time=time,
                alpha=float(alpha[n]),
                sigma=float(sigma[n]),
                keep=float(sigma[n + 1] / sigma[n]),
                now=float(gain - before),
                before=float(before),
            )
        )
    return tuple(made)


def advance(step: Step, latent: Tensor, velocity: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """The next latent, and the clean one this step believes in."""
    clean = step.alpha * latent - step.sigma * velocity
    following = step.keep * latent + step.now * clean
    if step.before:
        following = following + step.before * last
    return following, clean


def check(settings: Mapping[str, Any]) -> None:
    """That a checkpoint's `noise_scheduler_config` asks for this solver and no other."""
    for name, wanted in _KNOWN.items():
        if settings.get(name, wanted) != wanted:
            raise InvalidInputError(
                f"this model's scheduler has {name} = {settings[name]!r}; anyrig knows {wanted!r}",
                hint="Use the published checkpoint, or take the settings out of its "
                "generation_config.json if you know that they do not matter.",
            )


def _levels() -> Tensor:
    """The noise beside the signal at each of the trained steps: a squared cosine, cut at 0.999."""

    def share(part: float) -> float:
        return math.cos((part + 0.008) / 1.008 * math.pi / 2) ** 2

    betas = [
        min(1 - share((n + 1) / TRAINED_STEPS) / share(n / TRAINED_STEPS), 0.999)
        for n in range(TRAINED_STEPS)
    ]
    left = torch.cumprod(1 - torch.tensor(betas, dtype=torch.float32), dim=0)
    return ((1 - left) / left).sqrt()
