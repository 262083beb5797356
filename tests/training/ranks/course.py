"""A few steps of training under any strategy, from a checkpoint or from the start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from anyrig.errors import InvalidSettingError
from anyrig.precision.scaler import NoOpScaler
from anyrig.training.distributed.fsdp import Fsdp
from anyrig.training.distributed.launch import join, open_group, read_rank
from tests.training.ranks import model as toy

MAX_NORM = 0.05


def train(
    environment: Mapping[str, str],
    strategy: str,
    first_step: int,
    num_steps: int,
    kept: Mapping[str, Any] | None = None,
    micro: int = 2,
) -> dict[str, Any]:
    """Norms of the gradients, and what a checkpoint keeps; fp64, so that sums are near exact."""
    group = open_group(strategy, environment, timeout_s=60)
    model = toy.Model(seed=7 + group.rank).double()
    optimiser = torch.optim.AdamW(
        [one for one in model.parameters() if one.requires_grad][::-1], lr=0.01
    )
    group.prepare(model)
    group.adopt_optimizer(optimiser)
    if kept is not None:
        group.load_state_dict(model, optimiser, kept["weights"], kept["state"])
    stepper = NoOpScaler(skip_nonfinite=True, sync_flag=group.max)
    norms = []
    for step in range(first_step, first_step + num_steps):
        assert not toy.gradients(model, group, toy.items(step), micro)
        outcome = stepper.step(optimiser, max_norm=MAX_NORM)
        assert not outcome.skipped
        assert outcome.grad_norm is not None
        norms.append(float(outcome.grad_norm))
        optimiser.zero_grad()
    if strategy == "fsdp":
        with torch.no_grad():
            model(toy.items()[:, :-1])  # a measurement on the way leaves weights gathered
    weights, state = group.state_dict(model), group.optimizer_state_dict(model, optimiser)
    skipped = _skips_a_bad_one(model, optimiser, group, stepper)
    group.barrier()
    group.close()
    return {"norms": norms, "weights": weights, "state": state, "skipped": skipped}


def _skips_a_bad_one(model: Any, optimiser: Any, group: Any, stepper: NoOpScaler) -> bool:
    """Whether all skip a step where one process' gradients are not finite."""
    assert not toy.gradients(model, group, toy.items(), 3)
    if group.rank == group.size - 1:
        gradient = next(one.grad for one in model.parameters() if one.grad is not None)
        getattr(gradient, "to_local", lambda: gradient)()[-1] = float("nan")
    return stepper.step(optimiser, max_norm=MAX_NORM).skipped


def mixed(environment: Mapping[str, str]) -> dict[str, Any]:
    """Computed in bf16, each micro batch in an autocast of its own; the rest stays in fp32."""
    place = read_rank(environment)
    join(place, torch.device("cpu"), timeout_s=60)
    group = Fsdp(place.rank, place.size)
    model = toy.Model(seed=7)
    group.prepare(model)
    seen = []
    model.head.register_forward_hook(lambda module, given, out: seen.append(out.dtype))
    model.forward = torch.autocast("cpu", torch.bfloat16)(model.forward)  # type: ignore[method-assign]
    assert not toy.gradients(model, group, toy.items(), 2)
    whole = {
        name: one.grad.full_tensor()  # type: ignore[attr-defined]
        for name, one in model.named_parameters()
        if one.grad is not None
    }
    try:
        group.share(7)
        said = ""
    except InvalidSettingError as error:
        said = str(error)
    group.close()
    return {"seen": set(seen), "grads": whole, "said": said}
