"""A micro batch's kernels recorded once and played back, for models that wait for their launches.

    recorded = record_model(compute, model, "auto", device, tell=print)
    loss = recorded(batch, share)

Forward and backward are recorded whole, with inputs and gradients at fixed places. It is done where
shapes stay the same and the host is what holds the device up; everywhere else the function is
called as it is, and `reason` says why. Random numbers go on from replay to replay as they would
without. Compiled models are recorded just so, once their compiling is over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from anyrig.errors import AnyrigError
from anyrig.memory.oom import detect_device_loss, detect_oom
from anyrig.training.nests import leaves, mapped, tensors_of
from anyrig.training.protocol import Batch
from anyrig.training.tape import CudaTape, Tape

Compute = Callable[[Batch, torch.Tensor], torch.Tensor]
"""Forward and backward of (batch, share): the gradients are added up in the weights, the loss times
its share comes back. Whatever changes from call to call must be in these two or in the key."""
How = bool | Literal["auto"]
_BOUND_BY_HOST = 0.8
"""The host's share of a micro batch's time from which on recording helps."""
_MOST = 4
"""Recordings of other shapes before it is left."""


class Decision(NamedTuple):
    """Whether something is done, and why."""

    used: bool
    reason: str


def decide(how: How, device_type: str, *, num_processes: int = 1, fixed: bool = True) -> Decision:
    """Whether recording may be tried.

    Args:
        how: true records whatever it gains; `auto` only where the host holds the device up.
        device_type: where it runs.
        num_processes: in the group; gradients that travel in the backward pass are not recorded.
        fixed: whether batches are known to have one shape.
    """
    if how is False:
        return Decision(False, "kernels are not recorded, as set")
    if device_type != "cuda":
        return Decision(False, f"kernels are not recorded: {device_type} has no CUDA graphs")
    if num_processes > 1:
        why = "gradients travel between processes in the backward pass"
        return Decision(False, f"kernels are not recorded: {why}")
    if not fixed:
        return Decision(False, "kernels are not recorded: the shapes of batches vary")
    return Decision(True, "kernels will be recorded" + (" if that helps" if how == "auto" else ""))


def record_model(
    compute: Compute,
    model: nn.Module,
    how: How,
    device: torch.device | str,
    *,
    num_processes: int = 1,
    fixed: bool = True,
    tell: Callable[[str], None] | None = None,
) -> Recorded:
    """A function of a batch and its share that records itself where it can; see `Recorded`."""
    place = torch.device(device)
    decision = decide(how, place.type, num_processes=num_processes, fixed=fixed)
    tape = CudaTape(place) if decision.used else None
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return Recorded(compute, weights, decision, tape, always=how is True, tell=tell)


class Recorded:
    """Computes a micro batch, recorded as soon as its shape has come a few times in a row.

    Args:
        compute: see `Compute`.
        weights: whose gradients it adds up.
        decision: of `decide`.
        tape: what records; None never does.
        always: record also where the device is the slower one.
        tell: is told what becomes of it.
        num_trials: calls of one shape before it is recorded; compilers and cuDNN settle in them.
    """

    def __init__(
        self,
        compute: Compute,
        weights: Sequence[torch.Tensor],
        decision: Decision,
        tape: Tape | None,
        *,
        always: bool = False,
        tell: Callable[[str], None] | None = None,
        num_trials: int = 3,
    ) -> None:
        self.used, self.reason = decision
        self._compute, self._weights, self._tape = compute, list(weights), tape
        self._always, self._tell, self._num_trials = always, tell, num_trials
        self._coming: Hashable = None
        self._seen = self._num_recordings = 0
        self._touched: list[torch.Tensor] = []
        self._playing: _Recording | None = None

    @property
    def recorded(self) -> bool:
        """Whether there is a recording."""
        return self._playing is not None

    def __call__(self, batch: Batch, share: float, key: Hashable = None) -> torch.Tensor:
        """Forward and backward of a batch on the device; its loss times its share.

        Args:
            batch: whose first side may differ from call to call, at the price of no recording.
            share: what the loss is multiplied by.
            key: all else that the computing depends on, such as loss scale and precision.
        """
        tape = self._tape
        if not self.used or tape is None:
            return self._plain(batch, share)
        shape = (key, _shape_of(batch))
        if self._playing is not None and self._playing.shape == shape:
            return self._playing.play(batch, share)
        if shape != self._coming:
            self._coming, self._seen = shape, 0
        self._seen += 1
        if self._seen <= self._num_trials:
            return self._try(tape, batch, share)
        if not self._record(tape, shape, batch):
            return self._plain(batch, share)
        assert self._playing is not None
        return self._playing.play(batch, share)

    def release(self) -> None:
        """Give the recording's memory back; it is made anew when the same shape keeps coming."""
        self._playing, self._coming = None, None
        if self._tape is not None:
            self._tape.erase()

    def _plain(self, batch: Batch, share: float) -> torch.Tensor:
        return self._compute(batch, _number(share, batch))

    def _try(self, tape: Tape, batch: Batch, share: float) -> torch.Tensor:
        trial = tape.trial(lambda: self._plain(batch, share))
        if self._seen < self._num_trials:  # compilers and cuDNN still look around
            return trial.loss
        # An optimiser passes weights without a gradient over: they must not get one of zeros.
        self._touched = [weight for weight in self._weights if weight.grad is not None]
        quick = trial.host_s < _BOUND_BY_HOST * trial.device_s
        if trial.waited:
            self._stop("the model waits for the device in the midst of its work")
        elif quick and not self._always:
            self._stop("launches do not hold the device up, so nothing is to be gained")
        return trial.loss

    def _record(self, tape: Tape, shape: Hashable, batch: Batch) -> bool:
        self._playing = None
        tape.erase()
        self._num_recordings += 1
        if self._num_recordings > _MOST:
            self._stop("the shapes of batches keep changing")
            return False
        try:
            self._playing = _Recording(self._compute, self._touched, tape, shape, batch)
        except Exception as error:
            if isinstance(error, AnyrigError) or detect_device_loss(error) is not None:
                raise
            short = detect_oom(error) is not None
            why = "memory ran out while they were" if short else f"they cannot be: {_line(error)}"
        else:
            self._say("kernels are recorded and played back")
            return True
        # Outside of the handler: the error holds the tensors of the failed recording.
        tape.erase()
        self._stop(why)
        return False

    def _stop(self, why: str) -> None:
        self.used = False
        self.release()
        self._say(f"kernels are not recorded: {why}")

    def _say(self, text: str) -> None:
        self.reason = text
        if self._tell is not None:
            self._tell(text)


class _Recording:
    """Kernels with inputs and gradients at fixed places."""

    def __init__(
        self,
        compute: Compute,
        weights: Sequence[torch.Tensor],
        tape: Tape,
        shape: Hashable,
        batch: Batch,
    ) -> None:
        self.shape = shape
        self._batch = mapped(batch, _own_copy)
        self._inputs = list(tensors_of(self._batch))
        self._share = _number(1.0, batch)
        self._weights = weights
        self._gradients = [torch.zeros_like(weight) for weight in weights]
        self._attach()
        self._play, self._loss = tape.record(lambda: compute(self._batch, self._share))

    def play(self, batch: Batch, share: float) -> torch.Tensor:
        """The same for another batch of the same shape."""
        given = list(tensors_of(batch))
        if given:
            torch._foreach_copy_(self._inputs, given)
        self._share.fill_(share)
        self._attach()
        self._play()
        return self._loss.clone()

    def _attach(self) -> None:
        """Gradients where the kernels add to them, with what the loop has in them now."""
        empty = []
        for weight, place in zip(self._weights, self._gradients, strict=True):
            if weight.grad is place:
                continue
            if weight.grad is None:
                empty.append(place)
            else:
                place.copy_(weight.grad)
            weight.grad = place
        if empty:
            torch._foreach_zero_(empty)


def _own_copy(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def _number(value: float, batch: Batch) -> torch.Tensor:
    device = next((tensor.device for tensor in tensors_of(batch)), torch.device("cpu"))
    return torch.full((), value, device=device)


def _shape_of(batch: Batch) -> Hashable:
    """What must be equal for a recording to be right; what is no tensor counts by its value."""
    return tuple(
        (path, leaf.shape, leaf.dtype, leaf.stride(), leaf.device)
        if isinstance(leaf, torch.Tensor)
        else (path, _value(leaf))
        for path, leaf in leaves(batch)
    )


def _value(leaf: object) -> Hashable:
    if leaf is None or isinstance(leaf, (str, bytes, int, float)):
        return leaf
    if isinstance(leaf, (list, tuple)):
        return tuple(_value(one) for one in leaf)
    return object()  # equal to nothing: what cannot be compared cannot be recorded


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]


@contextlib.contextmanager
def cudnn_benchmark(how: How, device_type: str, *, fixed: bool) -> Iterator[Decision]:
    """Let cuDNN try its ways of a convolution and keep the quickest; put back afterwards.

    Args:
        how: `auto` does it where shapes are fixed, as each new shape is tried anew.
        device_type: where it runs.
        fixed: whether batches have one shape.
    """
    if how == "auto":
        used = device_type == "cuda" and fixed
        why = "shapes are fixed" if fixed else "shapes vary, and each would be tried again"
        why = why if device_type == "cuda" else f"{device_type} has no cuDNN"
    else:
        used, why = how, "as set"
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = used
    try:
        yield Decision(used, f"cuDNN {'tries' if used else 'does not try'} its ways: {why}")
    finally:
        torch.backends.cudnn.benchmark = before
