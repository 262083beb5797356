"""One step of the optimiser, in micro batches that fit, and again when memory runs out in it.

    step = Step(model, optimiser, loss, applied, device, micro_batch=8)
    for batch in batches:
        done = step(batch)

Whatever runs out, runs out before the weights change: the gradients are dropped, random numbers
and buffers (batch statistics) are put back, the micro batch is halved, and the step is made again
from its first item. A step's gradients are those of its whole batch, however it was cut.
"""

from __future__ import annotations

import contextlib
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import nn

from anyrig.errors import DeviceLostError, OutOfMemoryError
from anyrig.memory.oom import MemoryShortage
from anyrig.memory.recovery import ReleasableDevice, run_with_recovery
from anyrig.precision.scaler import clip_gradients, collect_gradients, gradient_norm
from anyrig.training.before import Before
from anyrig.training.checks import accept_other_spellings, scalar_loss
from anyrig.training.nests import cut, size_of, to_device
from anyrig.training.protocol import Batch, Group, Loss, Units, Unwatched, Watch
from anyrig.training.saving.offload_state import is_offloaded
from anyrig.training.skipping import skip_on_device, supports_found_inf
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.precision.policy import PrecisionPolicy
    from anyrig.precision.scaler import StepOutcome
    from anyrig.training.compiling import Compiled
    from anyrig.training.graphs import Recorded
    from anyrig.training.masters import Masters

_EVEN = 0.75
"""A micro batch that cuts a batch evenly is taken when it is at least this share of what fits."""


@dataclass(frozen=True)
class Stepped:
    """What a step came to. Tensors are on the device."""

    loss: torch.Tensor
    """The mean over this process' units."""
    units: int
    samples: int
    micro_batch: int
    num_micro: int
    skipped: bool | torch.Tensor = False
    grad_norm: torch.Tensor | None = None
    scale: float = 1.0
    num_retries: int = 0


class Step:
    """Makes steps of one model.

    Args:
        model: already on the device, cast and prepared by the group.
        optimizer: of its weights, or of their masters.
        loss: of a batch, a mean over its units.
        applied: the precision at work.
        device: where it computes.
        micro_batch: items at once; halved when memory runs out.
        group: the processes that train together; this one alone when None.
        units: how many units a batch has; its items when None.
        max_norm: gradients are clipped to it; None leaves them.
        guard: skip a step whose gradients are not finite without a wait, where the optimiser's
            kernels can; a guard in `applied` is for the others.
        masters: the fp32 weights behind a model in half.
        handle: what gives memory back after a shortage.
        around: a context for the forward pass, such as one that offloads activations.
        compiled: what was compiled, to go on without where that fails in a step.
        cuda_graphs: record a micro batch's kernels and play them back, see `graphs`.
        watch: is told of phases and events.
    """

    @accept_other_spellings
    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        applied: PrecisionPolicy,
        device: torch.device | str,
        *,
        micro_batch: int,
        group: Group | None = None,
        units: Units | None = None,
        max_norm: float | None = None,
        guard: bool = False,
        masters: Masters | None = None,
        handle: ReleasableDevice | None = None,
        around: AbstractContextManager[object] | None = None,
        compiled: Compiled | None = None,
        cuda_graphs: bool | Literal["auto"] = False,
        watch: Watch | None = None,
    ) -> None:
        if group is None:
            from anyrig.training.distributed.alone import Alone

            group = Alone()
        self.model, self.optimiser, self.applied = model, optimizer, applied
        self.micro_batch = micro_batch
        self._loss, self._units, self._device = loss, units or size_of, torch.device(device)
        self._group, self._watch = group, watch or Unwatched()
        self._max_norm, self._handle, self._masters = max_norm, handle, masters
        self._compiled = compiled
        self._around = around or contextlib.nullcontext()
        self._quiet = guard and supports_found_inf(optimizer)
        self.before = Before(self._device, model, loss)
        self._recorded = self._recording(cuda_graphs)

    def _recording(self, how: bool | Literal["auto"]) -> Recorded | None:
        # The loss scale of fp16 is a number that changes: a recording would keep the old one.
        if how is False or self.applied.precision == "fp16":
            return None
        from anyrig.training.graphs import record_model

        return record_model(
            self._unwatched,
            self.model,
            how,
            self._device,
            num_processes=self._group.size,
            tell=lambda text: self._watch.event("recording", text),
        )

    def __call__(self, batch: Batch, *, samples: int | None = None) -> Stepped:
        """Make a step.

        Args:
            batch: this process' items, on the host or the device.
            samples: how many of them count; 0 for a process that only takes part.
        """
        size = size_of(batch)
        samples = size if samples is None else samples
        units = self._units(batch) if samples else 0
        whole = units
        if self._group.size > 1:
            told = torch.tensor([units], dtype=torch.int64)
            whole = int(self._group.total(told).item())
        self.before.take()
        retries = 0
        while True:
            work = _Work(batch, pieces(size, self.micro_batch), whole, samples > 0)
            tried = self._tried(work)
            with self._watch.phase("communicate"):
                again = self._group.settle(ran_out=tried.loss is None)
            if not again:
                break
            retries += 1
            self._shrink(work, tried.shortage)
        done = tried.loss
        assert done is not None
        skipped, norm, scale = self._optimised()
        loss = done if not units else done * (whole / units)
        return Stepped(
            loss, units, samples, self.micro_batch, len(work.cuts), skipped, norm, scale, retries
        )

    def _tried(self, work: _Work) -> _Tried:
        """The loss, or what it ran out of; a step whose compiling failed is one more to repeat."""
        try:
            outcome = run_with_recovery(lambda: self._computed(work), self._handle)
            return _Tried(outcome.result, outcome.shortage)
        except Exception as error:
            if self._compiled is None or not self._compiled.gave_up(error):
                raise
        return _Tried(None, None)

    def gradients(self, piece: Batch) -> torch.Tensor:
        """Forward and backward of one micro batch on the device, as in a step; its loss.

        Never from a recording: it runs no hooks, and is of one size alone.
        """
        piece = self.applied.cast_inputs(piece)
        return self._gathered(self._passes(piece, 1.0 if self._units(piece) else 0.0))

    def _computed(self, work: _Work) -> torch.Tensor:
        """Gradients of all micro batches; the loss as this process' part of the whole step's."""
        if work.weightless:
            work = work.first()
        total: torch.Tensor | None = None
        for number, (start, stop) in enumerate(work.cuts):
            piece = cut(work.batch, start, stop)
            share = self._share(piece, work)  # on the host, where counting waits for no device
            piece = self.applied.cast_inputs(to_device(piece, self._device))
            last = number == len(work.cuts) - 1
            with self._group.micro(last=last):
                part = self._one(piece, share)
            total = part if total is None else total + part
            del piece, part
        assert total is not None
        return total

    def _share(self, piece: Batch, work: _Work) -> float:
        units = self._units(piece) if work.counts else 0
        # A batch without a unit that counts (all padding) has a loss of nothing at all.
        return units / work.units if work.units else 0.0

    def _one(self, piece: Batch, share: float) -> torch.Tensor:
        if share and self._recorded is not None and self._recorded.used:
            with self._watch.phase("backward"):
                weighted = self._recorded(piece, share, self.applied.precision)
        else:
            weighted = self._passes(piece, share)
        return self._gathered(weighted)

    def _gathered(self, weighted: torch.Tensor) -> torch.Tensor:
        if self._masters is not None:
            with self._watch.phase("backward"):
                self._masters.gather()
        return weighted

    def _passes(self, piece: Batch, share: float) -> torch.Tensor:
        """Forward and backward; the loss times its share."""
        if not share and not self._group.lockstep:
            # A mean over nothing may be NaN, and its gradients too, whatever it is multiplied by.
            nothing = torch.zeros((), device=self._device, requires_grad=True)
            self.applied.backward(nothing)
            return nothing.detach()
        with self._watch.phase("forward"), self._around, self.applied.autocast():
            loss = scalar_loss(self._loss(self.model, piece))
            if not share:
                loss = torch.nan_to_num(loss, 0.0, 0.0, 0.0)
            weighted = loss * share
        with self._watch.phase("backward"):
            self.applied.backward(weighted)
        return weighted.detach()

    def _unwatched(self, piece: Batch, share: torch.Tensor) -> torch.Tensor:
        """The same without a clock in between, to be recorded as one."""
        with self._around, self.applied.autocast():
            weighted = self._loss(self.model, piece) * share
        self.applied.backward(weighted)
        return weighted.detach()

    def _shrink(self, work: _Work, shortage: MemoryShortage | None) -> None:
        """Drop what the step made, and take a smaller micro batch, all processes the same."""
        self.release()
        if shortage is not None and shortage.fatal:
            raise DeviceLostError(
                f"the device was lost when memory ran out: {shortage.message}",
                hint="Resume the run; it continues from its last checkpoint.",
            )
        before = self.micro_batch
        largest = max(stop - start for start, stop in work.cuts)
        if self._group.lockstep and shortage is not None:
            # The others wait inside the step: nothing can be agreed on any more.
            if largest > 1:
                raise StartAgain(math.ceil(largest / 2))
            raise _too_large(shortage)
        mine = math.ceil(largest / 2) if largest > 1 else 0
        wanted = mine if shortage is not None else before
        self.micro_batch = self._group.least(wanted)
        if self.micro_batch < 1:
            self.micro_batch = before
            raise _too_large(shortage)
        self.before.put_back()
        if self.micro_batch == before:
            return
        self._watch.event(
            "smaller batch",
            f"out of memory with {pluralize(largest, 'item')} at once: repeating the step "
            f"with {self.micro_batch}",
            before=before,
            after=self.micro_batch,
        )

    def release(self) -> None:
        """Drop what is held between steps: gradients and recordings."""
        self.forget()
        if self._recorded is not None:
            self._recorded.release()

    def forget(self) -> None:
        """Drop all gradients."""
        self.optimiser.zero_grad(set_to_none=True)
        self.model.zero_grad(set_to_none=True)

    def _optimised(self) -> tuple[bool | torch.Tensor, torch.Tensor | None, float]:
        with self._watch.phase("optimise"):
            # fp16 has a guard of its own in the loss scaler; what it moves to has not.
            quiet = self._quiet and self.applied.precision != "fp16"
            found = self._guarded() if quiet else self._plainly()
            if self._masters is not None:
                self._masters.publish()
            self.forget()
        return found

    def _plainly(self) -> tuple[bool | torch.Tensor, torch.Tensor | None, float]:
        """One that asks for memory in its midst may leave neither the old weights nor the new."""

        def step() -> StepOutcome:
            return self.applied.step(self.optimiser, None, self._max_norm)

        tried = run_with_recovery(step, self._handle)
        if tried.result is None:
            raise _no_state(tried.shortage)
        return tried.result.skipped, tried.result.grad_norm, tried.result.scale

    def _guarded(self) -> tuple[bool | torch.Tensor, torch.Tensor | None, float]:
        """Step unless the gradients' norm is not finite; the kernels look, the host does not."""
        gradients = collect_gradients((self.optimiser,), None)
        if self._max_norm is not None:
            norm = clip_gradients(gradients.clipped, self._max_norm)
        else:
            norm = gradient_norm(gradients.clipped)
        if norm is None:
            self.optimiser.step()
            return torch.zeros((), dtype=torch.bool), None, 1.0
        bad = torch.isfinite(norm).logical_not()
        with skip_on_device(self.optimiser, bad.float()):
            self._stepped()
        return bad, norm, 1.0

    def _stepped(self) -> None:
        """A step of fused kernels; once more where they ran out before they changed anything.

        Their state is all that they ask for, before the first weight is written. With the state on
        the host they go piece by piece, and the pieces before would be stepped twice.
        """
        whole = self._group.size == 1 and not is_offloaded(self.optimiser)
        for _ in range(2 if whole else 1):
            outcome = run_with_recovery(self.optimiser.step, self._handle)
            if outcome.shortage is None:
                return
        raise _no_state(outcome.shortage)


def _too_large(shortage: MemoryShortage | None) -> OutOfMemoryError:
    return OutOfMemoryError(
        "a single item does not fit in memory" + (f": {shortage.message}" if shortage else ""),
        hint='Set recompute = "blocks" or offload_activations = true, use shorter items, '
        "a smaller model, or several devices with strategy = fsdp.",
    )


def _no_state(shortage: MemoryShortage | None) -> OutOfMemoryError:
    return OutOfMemoryError(
        "out of memory in the optimizer's step" + (f": {shortage.message}" if shortage else ""),
        hint="Set offload_optimizer = true, use an optimizer with less state (sgd, lion, "
        "adafactor) or strategy = fsdp, and resume: the last checkpoint is valid.",
    )


class _Tried(NamedTuple):
    loss: torch.Tensor | None
    shortage: MemoryShortage | None


class StartAgain(Exception):  # noqa: N818 - it is a request, and the launcher's to answer
    """Memory ran out where processes wait for each other: only a new start of all helps."""

    def __init__(self, micro_batch: int) -> None:
        super().__init__(f"start again with {micro_batch} items at once")
        self.micro_batch = micro_batch


@dataclass(frozen=True)
class _Work:
    """A step's items and how they are cut."""

    batch: Batch
    cuts: tuple[tuple[int, int], ...]
    units: int
    """Of the whole step, over all processes."""
    counts: bool

    @property
    def weightless(self) -> bool:
        return not self.counts

    def first(self) -> _Work:
        """One item, for a process that only takes part."""
        return _Work(self.batch, self.cuts[:1], self.units, False)


def pieces(size: int, micro_batch: int) -> tuple[tuple[int, int], ...]:
    """Where a batch is cut: in as few pieces as fit, and equal ones where that costs little.

    Equal pieces have one shape, which compiled code and recorded kernels need.
    """
    micro_batch = min(micro_batch, size)
    count = -(-size // micro_batch)
    for more in range(count, int(count / _EVEN) + 1):
        if size % more == 0:
            count = more
            break
    ends = [size * number // count for number in range(count + 1)]
    return tuple(zip(ends, ends[1:], strict=False))
