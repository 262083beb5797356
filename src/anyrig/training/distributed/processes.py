"""Data parallel: every process has the whole model and a share of each batch.

Gradients are added up, not averaged: a loss is weighted by its share of the global batch's units
before it runs backwards, so shares may differ in size.

Buffers are the same at the start and local from then on: statistics of BatchNorm are those of this
process' items, and a checkpoint keeps the first process'. Where items of a process are few, convert
the model with `torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)` before it is prepared (GPUs
only, and shares and numbers of micro batches must then be equal: it waits inside the forward pass).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch
from torch import nn

from anyrig.errors import InvalidInputError, PeerLostError
from anyrig.training.distributed.names import (
    WholeModel,
    plain_name,
)
from anyrig.training.distributed.reducer import BUCKET_BYTES, Reducer
from anyrig.training.distributed.shares import Shares


@contextlib.contextmanager
def together(doing: str) -> Iterator[None]:
    """What a library says when another process is gone or late leaves as an error in words."""
    from torch.distributed import DistError

    try:
        yield
    except RuntimeError as error:
        said = str(error)
        if not isinstance(error, DistError) and not _speaks_of_peers(said):
            raise
        late = "time" in said.lower() and "out" in said.lower()
        why = "did not answer in time" if late else "ended"
        raise PeerLostError(
            f"another process of the group {why} while {doing}",
            hint="Look for the first error among the processes' output; then resume the run. "
            "Where steps are slow by nature, give the group a longer time-out.",
        ) from error


def _speaks_of_peers(text: str) -> bool:
    text = text.lower()
    return any(
        word in text
        for word in (
            "gloo",
            "nccl",
            "xccl",
            "connection closed by peer",
            "connection reset",
            "timed out",
        )
    )


def broadcast_from_first(model: nn.Module) -> None:
    """Give every process the first one's weights and buffers; refuse models that differ."""
    import torch.distributed as dist

    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    told = [
        (plain_name(name), tuple(one.shape), str(one.dtype), one.requires_grad)
        for name, one in tensors.items()
    ]
    print_ = int.from_bytes(hashlib.sha256(repr(told).encode()).digest()[:7], "big")
    mine = torch.tensor([print_, -print_])
    with together("comparing models"):
        dist.all_reduce(mine, dist.ReduceOp.MAX)
    if int(mine[0]) != -int(mine[1]):
        raise InvalidInputError(
            "the processes have different models: names, shapes, formats or what is trained differ",
            hint="Make the model from the same settings in every process.",
        )
    with torch.no_grad(), together("handing out the first process' weights"):
        for tensor in tensors.values():
            _broadcast(tensor)


def _broadcast(tensor: torch.Tensor) -> None:
    import torch.distributed as dist

    whole = tensor.detach()
    if whole.is_contiguous():
        dist.broadcast(whole, 0)
        return
    packed = whole.contiguous()
    dist.broadcast(packed, 0)
    whole.copy_(packed)


class Collective:
    """What every group of several processes does alike. The process group is torch's default one.

    Args:
        rank: of this process among all.
        size: how many there are.
        shares: how batches are cut.
    """

    lockstep = False

    def __init__(self, rank: int, size: int, shares: Shares | None = None) -> None:
        self.rank = rank
        self.size = size
        self.shares = shares or Shares(size)

    def share(self, num_items: int) -> tuple[int, int]:
        """The first and the number of this process' items."""
        return self.shares.next(num_items, self.rank)

    def total(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum, in place."""
        import torch.distributed as dist

        with together("adding up"):
            dist.all_reduce(tensor)
        return tensor

    def agree(self, tensor: torch.Tensor) -> torch.Tensor:
        """The largest, in place."""
        import torch.distributed as dist

        with together("agreeing"):
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor

    def least(self, number: int) -> int:
        """The smallest number; on the host, so that no device is waited for."""
        return -int(self.agree(torch.tensor([-number])).item())

    def barrier(self) -> None:
        """Wait for all, on the host."""
        self.total(torch.zeros(1))

    def close(self) -> None:
        """Leave the group; torch's process group ends."""
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()


class Processes(WholeModel, Collective):
    """Processes with the whole model each.

    Args:
        rank: of this process.
        size: how many there are.
        shares: how batches are cut.
        bucket_bytes: how much of the gradients travels at once.
        overlap: whether gradients travel during the backward pass.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        shares: Shares | None = None,
        *,
        bucket_bytes: int = BUCKET_BYTES,
        overlap: bool = True,
    ) -> None:
        super().__init__(rank, size, shares)
        self._bucket_bytes = bucket_bytes
        self._overlap = overlap
        self._reducer = Reducer((), overlap=False)

    def prepare(self, model: nn.Module) -> nn.Module:
        """The same model with the first process' weights; its gradients will be added up.

        What is trained must be settled by now: parameters frozen later still travel, as zeros.
        """
        broadcast_from_first(model)
        self._reducer.close()
        trained = [one for one in model.parameters() if one.requires_grad]
        self._reducer = Reducer(trained, bucket_bytes=self._bucket_bytes, overlap=self._overlap)
        return model

    def adopt(self, optimiser: torch.optim.Optimizer) -> None:
        """Its parameters are the model's already."""

    @contextlib.contextmanager
    def _computing(self, last: bool) -> Iterator[None]:
        if last:
            self._reducer.arm()
        with self.shares.watch.computing():
            yield

    def micro(self, *, last: bool) -> AbstractContextManager[object]:
        """Around a micro batch; in the last one gradients set off as soon as they are complete."""
        return self._computing(last)

    def settle(self, *, ran_out: bool) -> bool:
        """Wait for the sums; whether any process ran out.

        A process that ran out frees what its failed step held before it calls this, and sends
        zeros. The answer travels between hosts, since shortages are known there: no device is
        waited for.
        """
        with together("adding up gradients"):
            self._reducer.finish(void=ran_out)
        short, *used = self.agree(torch.tensor([ran_out, *self._reducer.used]).int()).tolist()
        if not short:
            self._reducer.drop_unused(used)
            with together("ordering gradients"):
                self._reducer.reorder()
        return bool(short)

    def note_speed(self, samples: int, seconds: float | None = None) -> None:
        """Called once after each step by all processes: now and then they compare speeds."""
        self.shares.note(samples, seconds, self)

    def close(self) -> None:
        """Leave the group; the model is plain again."""
        self._reducer.close()
        super().close()
