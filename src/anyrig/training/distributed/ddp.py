"""Data parallel: every process has the whole model and a share of each batch.

Gradients are added up, not averaged: a loss is weighted by its share of the global batch's units
before it runs backwards, so shares may differ in size. They travel in buckets while the backward
pass still runs.

Why not torch's DistributedDataParallel: its reducer starts a bucket only from the backward pass. A
process whose memory runs out in the middle of that pass never starts the rest of its buckets, the
others wait for them until the time-out, and the reducer of the failed one refuses the next
forward. Here the rest can be started from outside (`Reducer.finish`), with zeros.

Buffers are the same at the start and local from then on: statistics of BatchNorm are those of this
process' items. A checkpoint has the first process', and all processes measure with them. Where
items of a process are few, convert the model with
`torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)` before it is prepared (GPUs only, and shares
and numbers of micro batches must then be equal: it waits inside the forward pass).

Shares start equal. With measured ones the processes compare after a few steps how many items a
second they computed, and the next batches are cut so that all would end at the same time, with at
least one item each. They compare again ever more rarely, and move only where a step gets shorter by
a twentieth or more: noise alone does not shift anything. A loader takes batches ahead of the loop,
one process further than another, so new shares hold from the first batch that no process has taken.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import nn

from anyrig.errors import InvalidInputError, PeerLostError
from anyrig.training.distributed.group import Group, StepTotals, plain_name

if TYPE_CHECKING:
    from torch.distributed import Work
    from torch.utils.hooks import RemovableHandle


# -- gradients ------------------------------------------------------------------------------------


BUCKET_BYTES = 25 << 20
_LOOKS = 3
"""Steps that are looked at for the order of gradients before the model's own is left."""
_ALIGNED_BYTES = 64
"""Where each gradient starts, so that optimizers' kernels can read whole words of it."""


@dataclass(eq=False)
class Bucket:
    """Parameters whose gradients travel together."""

    parameters: list[torch.Tensor]
    starts: list[int]
    """Where each begins, counted in elements."""
    num_elements: int
    come: set[int] = field(default_factory=set)
    """Those whose gradient is there, by identity."""
    used: set[int] = field(default_factory=set)
    """Those that had a gradient when it set off."""
    work: Work | None = None
    flat: torch.Tensor | None = None


class Reducer:
    """Adds up the gradients of parameters over a group of processes.

    Args:
        parameters: those that are trained, in the model's order, the same in all processes.
        bucket_bytes: how much travels at once.
        overlap: start buckets during the backward pass; False starts all at its end, for loops
            that run several backward passes in one micro batch.
    """

    def __init__(
        self,
        parameters: Iterable[torch.Tensor],
        *,
        bucket_bytes: int = BUCKET_BYTES,
        overlap: bool = True,
    ) -> None:
        self._parameters = list(parameters)
        self._bucket_bytes = bucket_bytes
        self.ordered = not overlap
        """Whether buckets follow the order in which gradients come."""
        self._came: list[int] = []
        self._looks = 0
        self._started = 0
        self._armed = False
        # The last layers' gradients come first.
        self._arrange(list(range(len(self._parameters)))[::-1])
        self._hooks: list[RemovableHandle] = []
        for number, parameter in enumerate(self._parameters if overlap else ()):
            register = parameter.register_post_accumulate_grad_hook
            self._hooks.append(register(self._hook(number)))  # type: ignore[no-untyped-call]

    def _arrange(self, order: Sequence[int]) -> None:
        self.buckets = build_buckets([self._parameters[one] for one in order], self._bucket_bytes)
        self._bucket_of = {id(one): made for made in self.buckets for one in made.parameters}

    def reorder(self) -> None:
        """Arrange buckets, once, as gradients came in the first process; collective."""
        import torch.distributed as dist

        if self.ordered:
            return
        known = dict.fromkeys(self._came)
        rest = [one for one in reversed(range(len(self._parameters))) if one not in known]
        order = torch.tensor([len(known), *known, *rest])
        dist.broadcast(order, 0)
        if int(order[0]):  # none where the first process had no items, or no hook was called
            self._arrange(order[1:].tolist())
        self._looks += 1
        self.ordered = bool(int(order[0])) or self._looks == _LOOKS
        self._came.clear()

    def arm(self) -> None:
        """From now on a gradient that comes is complete: the last backward pass begins."""
        self._armed = True
        self._came.clear()
        for bucket in self.buckets:
            bucket.come.clear()

    def _hook(self, number: int) -> Callable[[torch.Tensor], None]:
        def record_gradient(parameter: torch.Tensor) -> None:
            if not self._armed:
                return
            bucket = self._bucket_of[id(parameter)]
            if bucket.work is not None:
                raise InvalidInputError(
                    "a gradient came a second time in the last micro batch of a step",
                    hint="Checkpoint with use_reentrant=False and run one backward pass in a "
                    "micro batch, or open the group with overlap=False.",
                )
            if not self.ordered:
                self._came.append(number)
            bucket.come.add(id(parameter))
            self._start_ready()

        return record_gradient

    def _start_ready(self) -> None:
        while self._started < len(self.buckets):
            bucket = self.buckets[self._started]
            if len(bucket.come) < len(bucket.parameters):
                return
            self._start(bucket, zeros=False)

    def _start(self, bucket: Bucket, *, zeros: bool) -> None:
        """Counted as started only once it is: memory may run out in here too."""
        import torch.distributed as dist

        first = bucket.parameters[0]
        make = torch.zeros if zeros else torch.empty
        flat = make(bucket.num_elements, dtype=first.dtype, device=first.device)
        views = bucket_views(bucket, flat)
        if not zeros:
            _copy_gradients(bucket, views)
        work = dist.all_reduce(flat, async_op=True)
        bucket.work, bucket.flat = work, flat
        self._started += 1
        # The sum is where the gradient was: the copy that the backward pass made is free again.
        for parameter, view in zip(bucket.parameters, views, strict=True):
            parameter.grad = view

    def finish(self, *, zeros: bool) -> None:
        """Start what has not started and wait for the sums; they are the parameters' gradients.

        On a GPU it is the device that waits, not the host.

        Args:
            zeros: this process' gradients are worth nothing: they are dropped and zeros sent, a
                bucket at a time, since memory is short.
        """
        self._armed = False
        if zeros:
            self._drop(self.buckets[self._started :])
        while self._started < len(self.buckets):
            bucket = self.buckets[self._started]
            self._start(bucket, zeros=zeros)
            if zeros:
                self._wait(bucket)
                self._drop([bucket])
        for bucket in self.buckets:
            self._wait(bucket)
        self._started = 0

    @property
    def used(self) -> list[bool]:
        """Which parameters had a gradient in this process in the step just finished."""
        return [id(one) in self._bucket_of[id(one)].used for one in self._parameters]

    def drop_unused(self, used: Sequence[int]) -> None:
        """Leave no gradient where no process had one."""
        for parameter, anywhere in zip(self._parameters, used, strict=True):
            if not anywhere:
                parameter.grad = None

    def _wait(self, bucket: Bucket) -> None:
        if bucket.work is not None:
            bucket.work.wait()
        bucket.work = bucket.flat = None
        bucket.come.clear()

    def _drop(self, buckets: Sequence[Bucket]) -> None:
        for bucket in buckets:
            for parameter in bucket.parameters:
                parameter.grad = None

    def close(self) -> None:
        """Leave the parameters as they were found."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()


def build_buckets(parameters: Sequence[torch.Tensor], bucket_bytes: int) -> list[Bucket]:
    """Parameters of one device and format together, about so many bytes at a time."""
    made: list[Bucket] = []
    open_ones: dict[tuple[torch.device, torch.dtype], Bucket] = {}
    for parameter in parameters:
        kind = parameter.device, parameter.dtype
        bucket = open_ones.get(kind)
        if bucket is None:
            bucket = open_ones[kind] = Bucket([], [], 0)
            made.append(bucket)
        grain = max(1, _ALIGNED_BYTES // parameter.element_size())
        bucket.parameters.append(parameter)
        bucket.starts.append(bucket.num_elements)
        bucket.num_elements += -(-parameter.numel() // grain) * grain
        if bucket.num_elements * parameter.element_size() >= bucket_bytes:
            del open_ones[kind]
    return made


def bucket_views(bucket: Bucket, flat: torch.Tensor) -> list[torch.Tensor]:
    """Each parameter's part of a flat tensor, laid out in memory as the parameter is."""
    views = []
    for parameter, start in zip(bucket.parameters, bucket.starts, strict=True):
        part = flat[start : start + parameter.numel()]
        if _is_dense(parameter):
            views.append(part.as_strided(parameter.size(), parameter.stride()))
        else:
            views.append(part.view(parameter.size()))
    return views


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill a stretch of memory, each once, in whatever order of sides."""
    expected = 1
    for stride, side in sorted(zip(tensor.stride(), tensor.size(), strict=True)):
        if side != 1:
            if stride != expected:
                return False
            expected *= side
    return True


def _copy_gradients(bucket: Bucket, views: Sequence[torch.Tensor]) -> None:
    into, of = [], []
    bucket.used.clear()
    for parameter, view in zip(bucket.parameters, views, strict=True):
        gradient = parameter.grad
        if gradient is None:
            view.zero_()
            continue
        bucket.used.add(id(parameter))
        if gradient.is_sparse:
            gradient = gradient.to_dense()  # rows differ between processes: only whole ones add up
        into.append(view)
        of.append(gradient)
    if into:
        torch._foreach_copy_(into, of)


# -- shares ---------------------------------------------------------------------------------------


WAITS = (3, 3, 5, 10, 20, 50)
"""Steps between two comparisons; the last number goes on for ever."""
GAIN = 0.05
"""How much shorter a step must get for shares to move."""


def divide_items(num_items: int, speeds: Sequence[float]) -> list[int]:
    """Whole numbers that add up to the items, so that the slowest ends as early as it can.

    Each process gets at least one item where there are enough.
    """
    size, whole = len(speeds), sum(speeds)
    least = 1 if num_items >= size else 0
    # Rounded down nobody is late; what is left goes where it is done soonest.
    counts = [max(least, int(num_items * speed / whole)) for speed in speeds]
    while sum(counts) > num_items:
        latest = max(
            (one for one in range(size) if counts[one] > least),
            key=lambda one: (counts[one] / speeds[one], one),
        )
        counts[latest] -= 1
    for _ in range(num_items - sum(counts)):
        soonest = min(range(size), key=lambda one: ((counts[one] + 1) / speeds[one], one))
        counts[soonest] += 1
    return counts


def step_time(counts: Sequence[int], speeds: Sequence[float]) -> float:
    """How long the last process computes."""
    return max(count / speed for count, speed in zip(counts, speeds, strict=True))


class Stopwatch:
    """How long a process computed since it was last asked, without waiting for a GPU before."""

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device if device is not None and device.type in ("cuda", "xpu") else None
        self._seconds = 0.0
        self._marks: list[tuple[torch.Event, torch.Event]] = []

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Around what is measured; waits for others stay outside."""
        if self._device is None:
            start = time.perf_counter()
            yield
            self._seconds += time.perf_counter() - start
            return
        pair = (
            torch.Event(self._device, enable_timing=True),
            torch.Event(self._device, enable_timing=True),
        )
        pair[0].record()
        yield
        pair[1].record()
        self._marks.append(pair)

    def read(self) -> float:
        """Seconds since the last reading. Waits for the device's last mark."""
        if self._marks:
            self._marks[-1][1].synchronize()
            self._seconds += sum(a.elapsed_time(b) for a, b in self._marks) / 1000
        seconds, self._seconds = self._seconds, 0.0
        self._marks.clear()
        return seconds


class _SpeedPlan(NamedTuple):
    first_batch: int
    """Counted from 0: the batch from which these speeds hold."""
    speeds: tuple[float, ...]


class Shares:
    """Who gets which items of a batch.

    Args:
        size: number of processes.
        kind: `equal`, or `measured`.
        device: what computes, for measuring it.
    """

    def __init__(
        self,
        size: int,
        kind: Literal["equal", "measured"] = "equal",
        device: torch.device | None = None,
    ) -> None:
        self.size = size
        self.watch = Stopwatch(device if kind == "measured" else None)
        self._measured = kind == "measured"
        self._plans = [_SpeedPlan(0, (1.0,) * size)]
        self._taken = 0
        self._batch = size
        self._samples = 0
        self._steps = -1  # the first step warms up and is not counted
        self._comparisons = 0

    @property
    def speeds(self) -> tuple[float, ...]:
        """Relative speeds that the newest shares follow."""
        return self._plans[-1].speeds

    def counts(self, num_items: int) -> list[int]:
        """Items of each process in a batch of this size, by the newest speeds."""
        return divide_items(num_items, self.speeds)

    def next(self, num_items: int, rank: int) -> tuple[int, int]:
        """First and number of a process' items in the next batch; called once for each batch."""
        while len(self._plans) > 1 and self._plans[1].first_batch <= self._taken:
            del self._plans[0]
        counts = divide_items(num_items, self._plans[0].speeds)
        self._taken += 1
        self._batch = num_items
        return sum(counts[:rank]), counts[rank]

    def note(self, samples: int, group: Collective) -> None:
        """A step is done, with so many items of this process. All call it after each of them."""
        if not self._measured:
            return
        self._steps += 1
        if self._steps == 0:
            self.watch.read()
            return
        self._samples += samples
        wait = WAITS[min(self._comparisons, len(WAITS) - 1)]
        if self._steps >= wait:
            self._compare(group)

    def _compare(self, group: Collective) -> None:
        table = torch.zeros(2, group.size, dtype=torch.float64)
        table[0, group.rank] = self._samples / max(self.watch.read(), 1e-9)
        table[1, group.rank] = self._taken
        group.sum(table)
        self._steps, self._samples = 0, 0
        self._comparisons += 1
        speeds = tuple(table[0].tolist())
        if min(speeds) <= 0:  # a process without items has no speed to tell
            return
        new, old = divide_items(self._batch, speeds), self.counts(self._batch)
        if step_time(new, speeds) < (1 - GAIN) * step_time(old, speeds):
            self._plans.append(_SpeedPlan(int(table[1].max()), speeds))


# -- the group ------------------------------------------------------------------------------------


@contextlib.contextmanager
def peer_errors(doing: str) -> Iterator[None]:
    """What a library says when another process is gone or late leaves as an error in words."""
    from torch.distributed import DistError

    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if not isinstance(error, DistError) and not _is_about_peers(text):
            raise
        late = "time" in text.lower() and "out" in text.lower()
        why = "did not answer in time" if late else "ended"
        raise PeerLostError(
            f"another process of the group {why} while {doing}",
            hint="Look for the first error among the processes' output; then resume the run. "
            "Where steps are slow by nature, give the group a longer time-out.",
        ) from error


def _is_about_peers(text: str) -> bool:
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
    table = [
        (plain_name(name), tuple(one.shape), str(one.dtype), one.requires_grad)
        for name, one in tensors.items()
    ]
    print_ = int.from_bytes(hashlib.sha256(repr(table).encode()).digest()[:7], "big")
    mine = torch.tensor([print_, -print_])
    with peer_errors("comparing models"):
        dist.all_reduce(mine, dist.ReduceOp.MAX)
    if int(mine[0]) != -int(mine[1]):
        raise InvalidInputError(
            "the processes have different models: names, shapes, formats or what is trained differ",
            hint="Make the model from the same settings in every process.",
        )
    with torch.no_grad(), peer_errors("handing out the first process' weights"):
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


class Collective(Group):
    """What every group of several processes does alike. The process group is torch's default one.

    Args:
        rank: of this process among all.
        size: how many there are.
        shares: how batches are cut.
    """

    def __init__(self, rank: int, size: int, shares: Shares | None = None) -> None:
        self.rank = rank
        self.size = size
        self.shares = shares or Shares(size)

    def share(self, num_items: int) -> tuple[int, int]:
        return self.shares.next(num_items, self.rank)

    def counts(self, num_items: int) -> list[int]:
        return self.shares.counts(num_items)

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        import torch.distributed as dist

        with peer_errors("adding up"):
            dist.all_reduce(tensor)
        return tensor

    def max(self, tensor: torch.Tensor) -> torch.Tensor:
        import torch.distributed as dist

        with peer_errors("agreeing"):
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor

    def min(self, number: int) -> int:
        """The smallest number; on the host, so that no device is waited for."""
        return -int(self.max(torch.tensor([-number])).item())

    def broadcast_buffers(self, model: nn.Module) -> None:
        with torch.no_grad(), peer_errors("handing out the first process' buffers"):
            for buffer in model.buffers():
                _broadcast(buffer)

    def barrier(self) -> None:
        self.sum(torch.zeros(1))


class Ddp(Collective):
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

    @contextlib.contextmanager
    def _computing(self, last: bool) -> Iterator[None]:
        if last:
            self._reducer.arm()
        with self.shares.watch.computing():
            yield

    def accumulate(self, *, last: bool) -> AbstractContextManager[object]:
        """Around a micro batch; in the last one gradients set off as soon as they are complete."""
        return self._computing(last)

    def finish(self, *, ran_out: bool, sums: Sequence[float] = ()) -> StepTotals:
        """Wait for the sums; whether any process ran out.

        A process that ran out frees what its failed step held before it calls this, and sends
        zeros. The answer travels between hosts, since shortages are known there: no device is
        waited for.
        """
        with peer_errors("adding up gradients"):
            self._reducer.finish(zeros=ran_out)
        used = self._reducer.used
        row = torch.tensor([float(ran_out), *sums, *used], dtype=torch.float64)
        short, *rest = self.sum(row).tolist()
        if not short:
            self._reducer.drop_unused([int(one > 0) for one in rest[len(sums) :]])
            with peer_errors("ordering gradients"):
                self._reducer.reorder()
        return StepTotals(short > 0, rest[: len(sums)])

    def record_speed(self, samples: int) -> None:
        self.shares.note(samples, self)

    def close(self) -> None:
        self._reducer.close()
