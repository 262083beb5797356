"""Gradients added up over processes while the backward pass still runs.

Why not torch's DistributedDataParallel: its reducer starts a bucket only from the backward pass. A
process whose memory runs out in the middle of that pass starts the rest of its buckets never, the
others wait for them until the time-out, and the reducer of the failed one refuses the next
forward. Here the rest can be started from outside (`finish`), with zeros.

Every process starts its buckets in the same order, whatever order its gradients come in: a bucket
waits for those before it. A parameter that got no gradient counts as zeros;
one that got none anywhere has none afterwards, as in one process, so that no optimiser touches it.
After the first step
buckets are made anew in the order in which gradients came in the first process, so that a
parameter that is defined late and used early, or never, does not hold up the others.

Under torch.compile a whole graph's gradients come together at its end; travel and computing
overlap where blocks are compiled one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from torch.distributed import Work
    from torch.utils.hooks import RemovableHandle

BUCKET_BYTES = 25 << 20
_LOOKS = 3
"""Steps that are looked at for the order of gradients before the model's own is left."""
_ALIGNED_BYTES = 64
"""Where each gradient starts, so that optimisers' kernels can read whole words of it."""


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
        self.buckets = make_buckets([self._parameters[one] for one in order], self._bucket_bytes)
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
        def came(parameter: torch.Tensor) -> None:
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

        return came

    def _start_ready(self) -> None:
        while self._started < len(self.buckets):
            bucket = self.buckets[self._started]
            if len(bucket.come) < len(bucket.parameters):
                return
            self._start(bucket, void=False)

    def _start(self, bucket: Bucket, *, void: bool) -> None:
        """Counted as started only once it is: memory may run out in here too."""
        import torch.distributed as dist

        first = bucket.parameters[0]
        make = torch.zeros if void else torch.empty
        flat = make(bucket.num_elements, dtype=first.dtype, device=first.device)
        views = views_of(bucket, flat)
        if not void:
            _fill(bucket, views)
        work = dist.all_reduce(flat, async_op=True)
        bucket.work, bucket.flat = work, flat
        self._started += 1
        # The sum is where the gradient was: the copy that the backward pass made is free again.
        for parameter, view in zip(bucket.parameters, views, strict=True):
            parameter.grad = view

    def finish(self, *, void: bool) -> None:
        """Start what has not started and wait for the sums; they are the parameters' gradients.

        On a GPU it is the device that waits, not the host.

        Args:
            void: this process' gradients are worth nothing: they are dropped and zeros sent, a
                bucket at a time, since memory is short.
        """
        self._armed = False
        if void:
            self._drop(self.buckets[self._started :])
        while self._started < len(self.buckets):
            bucket = self.buckets[self._started]
            self._start(bucket, void=void)
            if void:
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


def make_buckets(parameters: Sequence[torch.Tensor], bucket_bytes: int) -> list[Bucket]:
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


def views_of(bucket: Bucket, flat: torch.Tensor) -> list[torch.Tensor]:
    """Each parameter's part of a flat tensor, laid out in memory as the parameter is."""
    views = []
    for parameter, start in zip(bucket.parameters, bucket.starts, strict=True):
        part = flat[start : start + parameter.numel()]
        if _dense(parameter):
            views.append(part.as_strided(parameter.size(), parameter.stride()))
        else:
            views.append(part.view(parameter.size()))
    return views


def _dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill a stretch of memory, each once, in whatever order of sides."""
    expected = 1
    for stride, side in sorted(zip(tensor.stride(), tensor.size(), strict=True)):
        if side != 1:
            if stride != expected:
                return False
            expected *= side
    return True


def _fill(bucket: Bucket, views: Sequence[torch.Tensor]) -> None:
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
