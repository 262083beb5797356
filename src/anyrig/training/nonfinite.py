"""Which module made a number that is not finite: a step is run again with hooks that look.

It is slow (every tensor that passes a module is read), so it is for after the fact. Weights and
buffers are looked at first, then outputs in the order of the forward pass, then gradients in the
order of the backward pass; the first find is the one that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from anyrig.units import pluralize

What = Literal["weight", "buffer", "input", "output", "gradient", "weight gradient", "loss"]


class NotFinite(NamedTuple):
    """Where something stopped being finite."""

    module: str
    """Its qualified name; empty for the model itself."""
    kind: str
    """Its class."""
    what: What
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
        part = f"{self.what} {self.name}" if self.name else self.what
        sizes = "x".join(str(side) for side in self.shape) or "a single number"
        count = f"{self.num_bad} of {pluralize(self.num_values, 'value')}"
        if self.what == "loss":
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
    found = _in_state(model)
    if found is not None:
        return found
    search = _Search(model)
    with _put_back(model), search.looking():
        try:
            loss = run()
        except _Found:
            loss = None
    if search.found is None and loss is not None and not bool(torch.isfinite(loss).all()):
        return _finding(loss, "", "loss", "loss")
    return search.found


class _Found(Exception):  # noqa: N818 - it is no error: it ends the pass that was run to look
    """Enough was seen."""


def _finding(
    tensor: torch.Tensor, module: str, kind: str, what: What, name: str = ""
) -> NotFinite | None:
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0:
        return None
    tensor = tensor.detach()
    num_bad = int((~torch.isfinite(tensor)).sum())
    if num_bad == 0 or (tensor.dim() and _is_mask(tensor)):
        return None
    dtype = str(tensor.dtype).removeprefix("torch.")
    return NotFinite(
        module, kind, what, name, num_bad, tensor.numel(), tuple(tensor.shape), dtype
    )  # fmt: skip


def _is_mask(tensor: torch.Tensor) -> bool:
    """Zeros and minus infinities: what attention is masked with, on purpose."""
    if tensor.is_complex():
        return False
    return bool(((tensor == 0) | (tensor == -torch.inf)).all())


def _in_state(model: nn.Module) -> NotFinite | None:
    for path, module in model.named_modules():
        kind = type(module).__name__
        for name, weight in module.named_parameters(recurse=False):
            found = _finding(weight, path, kind, "weight", name)
            if found is not None:
                return found
        for name, buffer in module.named_buffers(recurse=False):
            found = _finding(buffer, path, kind, "buffer", name)
            if found is not None:
                return found
    return None


class _Search:
    """Hooks on every module; the first find ends the forward pass."""

    def __init__(self, model: nn.Module) -> None:
        from torch.utils.weak import WeakTensorKeyDictionary

        self._model = model
        self.found: NotFinite | None = None
        # Who made a tensor and who takes it: of those the innermost is the one to name.
        self._owners: Any = WeakTensorKeyDictionary()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """While this lasts, whatever passes a module is looked at."""
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
                    self._stop_at(_finding(tensor, path, kind, "input"))
                self._follow(tensor, path, kind, taken=True)

        def after(_: nn.Module, args: Any, output: Any) -> None:
            for tensor in _tensors(output):
                self._stop_at(_finding(tensor, path, kind, "output"))
                self._follow(tensor, path, kind, taken=False)

        yield module.register_forward_pre_hook(before, with_kwargs=True)
        yield module.register_forward_hook(after)
        for name, weight in module.named_parameters(recurse=False):
            if weight.requires_grad:
                look = self._look_at(path, kind, "weight gradient", name)
                yield weight.register_hook(look)  # type: ignore[no-untyped-call]  # torch's own

    def _stop_at(self, found: NotFinite | None) -> None:
        if found is not None and self.found is None:
            self.found = found
            raise _Found

    def _follow(self, tensor: torch.Tensor, path: str, kind: str, *, taken: bool) -> None:
        """Have a tensor's gradient looked at once, in the name of whoever computed it."""
        if not tensor.requires_grad or self.found is not None:
            return
        owners = self._owners.get(tensor)
        if owners is None:
            owners = self._owners[tensor] = []
            look = self._look_at_owned(owners)
            tensor.register_hook(look)  # type: ignore[no-untyped-call]  # torch's own
        owners.append((path, kind, taken))

    def _look_at(
        self, path: str, kind: str, what: What, name: str
    ) -> Callable[[torch.Tensor], None]:
        def look(gradient: torch.Tensor) -> None:
            if self.found is None:
                self.found = _finding(gradient, path, kind, what, name)

        return look

    def _look_at_owned(self, owners: list[tuple[str, str, bool]]) -> Callable[[torch.Tensor], None]:
        def look(gradient: torch.Tensor) -> None:
            if self.found is None:
                # A module's backward pass makes the gradient of what it took; where no module took
                # the tensor, what follows its maker did.
                path, kind, _ = next((one for one in reversed(owners) if one[2]), owners[0])
                self.found = _finding(gradient, path, kind, "gradient")

        return look


def _tensors(nest: Any) -> Iterator[torch.Tensor]:
    from torch.utils._pytree import tree_leaves

    return (leaf for leaf in tree_leaves(nest) if isinstance(leaf, torch.Tensor))


@contextmanager
def _put_back(model: nn.Module) -> Iterator[None]:
    """Gradients, buffers and random states as they were, whatever happens inside."""
    gradients = [(weight, weight.grad) for weight in model.parameters()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    states = _random_states({weight.device for weight in model.parameters()})
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
        for restore in states:
            restore()


def _random_states(devices: set[torch.device]) -> list[Callable[[], None]]:
    """What puts each random state back."""
    restores: list[Callable[[], None]] = [partial(torch.set_rng_state, torch.get_rng_state())]
    for device in devices:
        if device.type == "mps":
            restores.append(partial(torch.mps.set_rng_state, torch.mps.get_rng_state()))
        elif device.type in ("cuda", "xpu"):
            module = torch.get_device_module(device)
            restores.append(partial(module.set_rng_state, module.get_rng_state(device), device))
    return restores
