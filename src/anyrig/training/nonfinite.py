"""Find the module that made a number that is not finite, by running a step again with hooks.

It is slow, as every tensor is read, so it is for after the fact. Weights and buffers are checked
first, then outputs in the order of the forward pass, then gradients in the order of the backward
pass; the first one that is not finite is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from anyrig.training.batch import tensors_of
from anyrig.training.step import StepSnapshot
from anyrig.units import pluralize

TensorRole = Literal["weight", "buffer", "input", "output", "gradient", "weight gradient", "loss"]


class NotFinite(NamedTuple):
    """Where something stopped being finite."""

    module: str
    """Its qualified name; empty for the model itself."""
    kind: str
    """Its class."""
    role: TensorRole
    name: str
    """Of the weight or buffer, else empty."""
    num_bad: int
    num_values: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def text(self) -> str:
        """One sentence."""
        where = f"{self.module} ({self.kind})" if self.module else f"the model ({self.kind})"
        part = f"{self.role} {self.name}" if self.name else self.role
        sizes = "x".join(str(side) for side in self.shape) or "a single number"
        count = f"{self.num_bad} of {pluralize(self.num_values, 'value')}"
        if self.role == "loss":
            return f"the loss is not finite though every module's output is ({self.dtype})"
        return f"{where}: {part} is not finite: {count} ({sizes}, {self.dtype})"


def find_nonfinite(model: nn.Module, run: Callable[[], torch.Tensor | None]) -> NotFinite | None:
    """The first module where something is not finite; None when all is.

    Gradients, buffers and random states are afterwards what they were.

    Args:
        model: whose modules are looked at.
        run: a forward and a backward pass of the batch in question, as the step does them (with its
            precision and loss scale). If it gives back the loss, that is looked at too.
    """
    for tensors, role in _OWN.items():
        found = _inspect_own(model, tensors, role)
        if found is not None:
            return found
    watch = _ModuleWatch()
    with _preserve_state(model), watch.on(model):
        try:
            loss = run()
        except _StopSearch:
            loss = None
        if watch.found is None and loss is not None:
            watch.found = _inspect(loss, "", "loss", "loss")
        return watch.found or _inspect_own(model, _gradients_of, "weight gradient")


class _StopSearch(Exception):  # noqa: N818 - not an error: it ends the forward pass early
    pass


def _inspect(
    tensor: torch.Tensor, module: str, kind: str, role: TensorRole, name: str = ""
) -> NotFinite | None:
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0:
        return None
    tensor = tensor.detach()
    num_bad = int((~torch.isfinite(tensor)).sum())
    if num_bad == 0 or (tensor.dim() and _is_mask(tensor)):
        return None
    dtype = str(tensor.dtype).removeprefix("torch.")
    return NotFinite(
        module, kind, role, name, num_bad, tensor.numel(), tuple(tensor.shape), dtype
    )  # fmt: skip


def _is_mask(tensor: torch.Tensor) -> bool:
    """Zeros and minus infinities: what attention is masked with, on purpose."""
    if tensor.is_complex():
        return False
    return bool(((tensor == 0) | (tensor == -torch.inf)).all())


def _inspect_own(
    model: nn.Module,
    tensors: Callable[[nn.Module], Iterator[tuple[str, torch.Tensor]]],
    role: TensorRole,
) -> NotFinite | None:
    for path, module in model.named_modules():
        for name, tensor in tensors(module):
            found = _inspect(tensor, path, type(module).__name__, role, name)
            if found is not None:
                return found
    return None


def _gradients_of(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, weight in module.named_parameters(recurse=False):
        if weight.grad is not None:
            yield name, weight.grad


_OWN: dict[Callable[[nn.Module], Iterator[tuple[str, torch.Tensor]]], TensorRole] = {
    partial(nn.Module.named_parameters, recurse=False): "weight",
    partial(nn.Module.named_buffers, recurse=False): "buffer",
}


class _ModuleWatch:
    """Hooks on every module; the first output that is not finite ends the forward pass."""

    def __init__(self) -> None:
        from torch.utils.weak import WeakTensorKeyDictionary

        self.found: NotFinite | None = None
        self._owners: Any = WeakTensorKeyDictionary()
        """Path and class of the innermost module that takes a tensor: its backward pass makes the
        tensor's gradient. Of a tensor that no module takes, the innermost that made it."""

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[None]:
        handles: list[Any] = []
        try:
            for path, module in model.named_modules():
                owner = path, type(module).__name__
                before, after = (partial(one, owner) for one in (self._before, self._after))
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                handles.append(module.register_forward_hook(after))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _before(self, owner: tuple[str, str], _: nn.Module, args: Any, kwargs: Any) -> None:
        for tensor in tensors_of((args, kwargs)):
            if owner[0] == "":
                self._stop_at(_inspect(tensor, *owner, "input"))
            if tensor.requires_grad:
                self._follow(tensor)[:] = owner

    def _after(self, owner: tuple[str, str], _: nn.Module, args: Any, output: Any) -> None:
        for tensor in tensors_of(output):
            self._stop_at(_inspect(tensor, *owner, "output"))
            if tensor.requires_grad and not (followed := self._follow(tensor)):
                followed[:] = owner

    def _stop_at(self, found: NotFinite | None) -> None:
        if found is not None:
            self.found = found
            raise _StopSearch

    def _follow(self, tensor: torch.Tensor) -> list[str]:
        """The owner of a tensor whose gradient is looked at; empty as long as it has none."""
        owner: list[str] | None = self._owners.get(tensor)
        if owner is None:
            owner = self._owners[tensor] = []
            hook = partial(self._look_at_gradient, owner)
            tensor.register_hook(hook)  # type: ignore[no-untyped-call]  # torch's own
        return owner

    def _look_at_gradient(self, owner: list[str], gradient: torch.Tensor) -> None:
        if self.found is None:
            path, kind = owner
            self.found = _inspect(gradient, path, kind, "gradient")


@contextmanager
def _preserve_state(model: nn.Module) -> Iterator[None]:
    """Gradients, buffers and random states as they were, whatever happens inside."""
    gradients = [(weight, weight.grad) for weight in model.parameters()]
    device = gradients[0][0].device if gradients else torch.device("cpu")
    snapshot = StepSnapshot(device, model)
    snapshot.take()
    try:
        for weight, _ in gradients:
            weight.grad = None
        with torch.enable_grad():
            yield
    finally:
        for weight, gradient in gradients:
            weight.grad = gradient
        snapshot.restore()
