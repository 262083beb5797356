"""Find the module that made a number that is not finite, by running a step again with hooks.

It is slow, as every tensor is read, so it is for after the fact. Weights and buffers are checked
first, then outputs in the order of the forward pass, then gradients in the order of the backward
pass; the first one that is not finite is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from anyrig.training import rng
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
    found = _inspect_state(model)
    if found is not None:
        return found
    search = _NonfiniteFinder(model)
    with _restore_after(model), search.hook_modules():
        try:
            loss = run()
        except _StopSearch:
            loss = None
    if search.found is None and loss is not None and not bool(torch.isfinite(loss).all()):
        return _inspect(loss, "", "loss", "loss")
    return search.found


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


def _inspect_state(model: nn.Module) -> NotFinite | None:
    for path, module in model.named_modules():
        kind = type(module).__name__
        for name, weight in module.named_parameters(recurse=False):
            found = _inspect(weight, path, kind, "weight", name)
            if found is not None:
                return found
        for name, buffer in module.named_buffers(recurse=False):
            found = _inspect(buffer, path, kind, "buffer", name)
            if found is not None:
                return found
    return None


class _NonfiniteFinder:
    """Hooks on every module; the first find ends the forward pass."""

    def __init__(self, model: nn.Module) -> None:
        from torch.utils.weak import WeakTensorKeyDictionary

        self._model = model
        self.found: NotFinite | None = None
        # Who made a tensor and who takes it: of those the innermost is the one to name.
        self._owners: Any = WeakTensorKeyDictionary()

    @contextmanager
    def hook_modules(self) -> Iterator[None]:
        """Check the inputs, outputs and gradients of all modules meanwhile."""
        handles: list[Any] = []
        try:
            for path, module in self._model.named_modules():
                handles += self._watch(path, module)
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _watch(self, path: str, module: nn.Module) -> Iterator[Any]:
        kind = type(module).__name__

        def before(_: nn.Module, args: Any, kwargs: Any) -> None:
            for tensor in _tensors((args, kwargs)):
                if path == "":
                    self._stop_at(_inspect(tensor, path, kind, "input"))
                self._follow(tensor, path, kind, is_input=True)

        def after(_: nn.Module, args: Any, output: Any) -> None:
            for tensor in _tensors(output):
                self._stop_at(_inspect(tensor, path, kind, "output"))
                self._follow(tensor, path, kind, is_input=False)

        yield module.register_forward_pre_hook(before, with_kwargs=True)
        yield module.register_forward_hook(after)
        for name, weight in module.named_parameters(recurse=False):
            if weight.requires_grad:
                hook = self._hook_gradient(path, kind, "weight gradient", name)
                yield weight.register_hook(hook)  # type: ignore[no-untyped-call]  # torch's own

    def _stop_at(self, found: NotFinite | None) -> None:
        if found is not None and self.found is None:
            self.found = found
            raise _StopSearch

    def _follow(self, tensor: torch.Tensor, path: str, kind: str, *, is_input: bool) -> None:
        """Have a tensor's gradient looked at once, in the name of whoever computed it."""
        if not tensor.requires_grad or self.found is not None:
            return
        owners = self._owners.get(tensor)
        if owners is None:
            owners = self._owners[tensor] = []
            hook = self._hook_owned_gradient(owners)
            tensor.register_hook(hook)  # type: ignore[no-untyped-call]  # torch's own
        owners.append((path, kind, is_input))

    def _hook_gradient(
        self, path: str, kind: str, role: TensorRole, name: str
    ) -> Callable[[torch.Tensor], None]:
        def inspect(gradient: torch.Tensor) -> None:
            if self.found is None:
                self.found = _inspect(gradient, path, kind, role, name)

        return inspect

    def _hook_owned_gradient(
        self, owners: list[tuple[str, str, bool]]
    ) -> Callable[[torch.Tensor], None]:
        def inspect(gradient: torch.Tensor) -> None:
            if self.found is None:
                # A module's backward pass makes the gradient of what it took; where no module took
                # the tensor, what follows its maker did.
                path, kind, _ = next((one for one in reversed(owners) if one[2]), owners[0])
                self.found = _inspect(gradient, path, kind, "gradient")

        return inspect


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    from torch.utils._pytree import tree_leaves

    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))


@contextmanager
def _restore_after(model: nn.Module) -> Iterator[None]:
    """Gradients, buffers and random states as they were, whatever happens inside."""
    gradients = [(weight, weight.grad) for weight in model.parameters()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = {weight.device for weight in model.parameters()} or {torch.device("cpu")}
    states = [(rng.capture(device), device) for device in devices]
    try:
        for weight, _ in gradients:
            weight.grad = None
        with torch.enable_grad():
            yield
    finally:
        for weight, gradient in gradients:
            weight.grad = gradient
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        for state, device in states:
            rng.restore({0: state}, 0, device)
