"""A model cut over processes (FSDP2): each keeps a part of every weight, gradient and state.

The repeated blocks are gathered one at a time while they compute, the rest of the model as one.
Gradients are added up: losses are weighted by their share of the global units.

They wait for each other inside every block. So all run the same number of micro batches, and
a process that runs out of memory in the middle of a step leaves the others waiting inside a block:
that cannot be settled within the step. It asks for a smaller micro batch and ends with the exit
code `RESTART_CODE`; `launch` then starts all of them again, and they resume from the last
checkpoint with the smaller size.

Buffers stay local, as under data parallel (`ddp`).
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training.distributed.ddp import Collective, broadcast_from_first
from anyrig.training.distributed.group import (
    StepTotals,
    check_weights,
    load_optimizer_state,
    named_optimizer_state,
    parameter_names,
    plain_state_dict,
)

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule


class Fsdp(Collective):
    """Processes with a part of the model each.

    Args:
        rank: of this process.
        size: how many there are.
        device: what this process computes on.
    """

    lockstep = True

    def __init__(self, rank: int, size: int, device: torch.device | None = None) -> None:
        super().__init__(rank, size)
        self._device = device or torch.device("cpu")
        self._root: nn.Module | None = None
        self._before: dict[str, weakref.ref[torch.Tensor]] = {}

    def prepare(self, model: nn.Module) -> nn.Module:
        """The same model with the first process' weights, cut into parts in place; one that an
        earlier run has cut stays so.

        Its parameters are new ones: make the optimizer after this, or let it be adopted.
        """
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        from anyrig.training.memory import find_blocks

        if _list_shards(model):
            self._root = model
            return model
        broadcast_from_first(model)
        self._before = {name: weakref.ref(one) for name, one in model.named_parameters()}
        mesh = init_device_mesh(self._device.type, (self.size,))
        for block in find_blocks(model).values():  # else it is gathered as one
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        for part in _list_shards(model):
            # Sums, not means: and as plain sums, since gloo knows no sum of multiples.
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)
        self._root = model
        return model

    def adopt_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Point an optimizer that was made before `prepare` at the parts, by name."""
        assert self._root is not None, "prepare the model first"
        now = dict(self._root.named_parameters())
        new = {id(old()): now[name] for name, old in self._before.items() if old() is not None}
        weights = [one for group in optimizer.param_groups for one in group["params"]]
        stale = [one for one in weights if id(one) in new and new[id(one)] is not one]
        if any(optimizer.state.get(one) for one in stale):
            raise InvalidInputError(
                "the optimizer has taken steps with the whole model already",
                hint="Prepare the model first, or load the optimizer's state after it.",
            )
        for group in optimizer.param_groups:
            group["params"] = [new.get(id(one), one) for one in group["params"]]
        for one in stale:
            optimizer.state.pop(one, None)

    def share(self, num_items: int) -> tuple[int, int]:
        """The first and the number of this process' items: as many as everybody's.

        With equal shares all have the same number of micro batches. Else one would wait inside a
        block for others that are done.
        """
        if num_items % self.size:
            raise InvalidSettingError(
                f"a batch of {num_items} cannot be cut evenly over {self.size} processes, which "
                "wait for each other in every block",
                hint=f"Take a batch that is a multiple of {self.size} and drop_last = true, or "
                'strategy = "ddp".',
            )
        return super().share(num_items)

    def accumulate(self, *, last: bool) -> AbstractContextManager[object]:
        """Around a micro batch; gradients are added up and cut in the last one."""
        return self._set_sync(last)

    @contextlib.contextmanager
    def _set_sync(self, sync: bool) -> Iterator[None]:
        for part in _list_shards(self._root)[-1:]:
            part.set_requires_gradient_sync(sync)
        yield

    def finish(self, *, ran_out: bool, sums: Sequence[float] = ()) -> StepTotals:
        """Whether this process ran out; the others cannot know, they wait inside a block.

        Gradients are reduced already. After running out this process can only ask for a new start
        of all (`launch.request_restart`).
        """
        if ran_out or not sums:
            return StepTotals(ran_out, list(sums))
        return StepTotals(False, self.sum(torch.tensor(sums, dtype=torch.float64)).tolist())

    def state_dict(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """Whole weights on the host in the first process, none in the others."""
        _reshard(model)
        return self.gather(plain_state_dict(model))

    def gather(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        whole = {name: self._gather_whole(value) for name, value in tensors.items()}
        return {name: value for name, value in whole.items() if value is not None}

    def _gather_whole(self, value: torch.Tensor) -> torch.Tensor | None:
        """One tensor at a time is whole on the device."""
        from torch.distributed.tensor import DTensor

        whole = value.full_tensor() if isinstance(value, DTensor) else value
        return whole.detach().cpu() if self.rank == 0 else None

    def optimizer_state_dict(
        self, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> dict[str, Any]:
        """The whole state on the host in the first process; in the others it has no tensors."""
        _reshard(model)
        state = named_optimizer_state(model, optimizer)
        whole: dict[str, dict[str, Any]] = {}
        for name, values in state["state"].items():
            made = {
                key: self._gather_whole(value) if isinstance(value, torch.Tensor) else value
                for key, value in values.items()
            }
            whole[name] = {key: value for key, value in made.items() if value is not None}
        return {**state, "state": whole}

    def load_state_dict(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        weights: Mapping[str, torch.Tensor],
        optimizer_state: Mapping[str, Any] | None,
    ) -> None:
        """Cut whole weights and state as this group is cut; every process reads them all."""
        _reshard(model)
        check_weights(model, weights)
        with torch.no_grad():
            for name, value in plain_state_dict(model).items():
                if name in weights:
                    value.copy_(shard_like(value, weights[name]))
        if optimizer is not None and optimizer_state is not None:
            load_optimizer_state(
                model, optimizer, self._shard_state(model, optimizer, optimizer_state)
            )

    def _shard_state(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]
    ) -> dict[str, Any]:
        weights = [one for group in optimizer.param_groups for one in group["params"]]
        named = dict(zip(parameter_names(model, optimizer), weights, strict=True))
        inner = {
            name: {
                key: shard_like(named[name], value)
                if isinstance(value, torch.Tensor) and value.shape == named[name].shape
                else value
                for key, value in values.items()
            }
            for name, values in state["state"].items()
            if name in named
        }
        return {**state, "state": inner}


def _list_shards(model: nn.Module | None) -> Sequence[FSDPModule]:
    """What is gathered as one, blocks first, the root last."""
    from torch.distributed.fsdp import FSDPModule

    if model is None:
        return []
    return [one for one in model.modules() if isinstance(one, FSDPModule)][::-1]


def _reshard(model: nn.Module) -> None:
    """After a forward pass without a backward one the root's weights are still whole."""
    for part in _list_shards(model):
        part.reshard()


def shard_like(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """This process' part of a whole tensor that every process has; nothing travels."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(part, DTensor):
        return whole
    whole = whole.to(part.device)
    cut: torch.Tensor = distribute_tensor(
        whole, part.device_mesh, part.placements, src_data_rank=None
    )
    return cut
