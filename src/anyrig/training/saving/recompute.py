"""Gradient checkpointing for any module: activations of its blocks are computed again in backward.

`recompute` gives the blocks another `forward`; the modules stay what they are, so names of weights,
classes and hooks do not change. Call it before `torch.compile` and before the model is shared among
processes. Two ways: `blocks` keeps what goes into a block alone; `selective` also keeps what is
dear to compute (products, attention, convolutions) and computes norms, activations, dropout and
casts again.

Gradients are those of the plain model, bit for bit where the device's kernels repeat themselves:
random states and autocast are put back for the second pass, and the statistics of a batch norm are
counted once.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from anyrig.errors import InvalidSettingError
from anyrig.training.saving.blocks import is_sequence, parts_of
from anyrig.units import pluralize

How = Literal["blocks", "selective"]
# What is dear, by operation. Not every build of torch has each of them.
_DEAR = (
    "aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten._scaled_mm", "aten._grouped_mm",
    "aten._scaled_grouped_mm", "aten.convolution", "aten.linear",
    "aten._scaled_dot_product_flash_attention", "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_cudnn_attention", "aten._scaled_dot_product_flash_attention_for_cpu",
    "aten._scaled_dot_product_fused_attention_overrideable",
    "aten._flash_attention_forward", "aten._efficient_attention_forward",
    "aten._cudnn_attention_forward", "torch_attn._varlen_attn",
)  # fmt: skip


@dataclass
class Recomputing:
    """What was changed in a model; as a context, or `undo`, puts it back."""

    how: How
    names: tuple[str, ...]
    """Of the blocks, or of the sequences of layers that are cut into segments."""
    kinds: tuple[str, ...]
    """Their class names."""
    _undo: list[Callable[[], None]] = field(default_factory=list, repr=False)

    @property
    def reason(self) -> str:
        """One sentence for the log."""
        what = "all but products, attention and convolutions" if self.how == "selective" else "all"
        return (
            f"{what} of {pluralize(len(self.names), 'block')} ({', '.join(self.kinds)}) "
            "is computed again in the backward pass"
        )

    def undo(self) -> None:
        """The model as it was; a second call does nothing."""
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> Recomputing:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def recompute(model: nn.Module, how: How = "blocks", types: Sequence[str] = ()) -> Recomputing:
    """Let a model's blocks compute their activations again in the backward pass.

    Only steps in training mode and with gradients change; an evaluation runs as before.

    Args:
        model: any module that is not compiled yet.
        how: whole `blocks`, or `selective`.
        types: class names of the blocks; found by themselves when empty. A model without repeated
            blocks is cut into segments where it is a sequence of layers; else all of it is one
            block.
    """
    if how not in ("blocks", "selective"):
        raise InvalidSettingError(f"unknown way to recompute: {how!r}", hint="blocks or selective.")
    if hasattr(model, "_orig_mod"):
        raise InvalidSettingError(
            "the model is compiled already, so its blocks cannot be changed any more",
            hint="Call recompute first, then torch.compile.",
        )
    for name, module in model.named_modules():
        if isinstance(module.__dict__.get("forward"), (_Again, _Segments)):
            raise InvalidSettingError(
                f"{name or 'the model'} is recomputed already", hint="Undo it first."
            )
    blocks = parts_of(model, types)
    kinds = tuple(dict.fromkeys(type(block).__name__ for block in blocks.values()))
    done = Recomputing(how, tuple(blocks), kinds)
    for block in {id(one): one for one in blocks.values()}.values():
        done._undo.append(_patch(block, how))
        if how == "selective" or _begins_in_place(block):
            done._undo.append(_out_of_place(block))
    return done


class _Again:
    """A block's forward that keeps little. An object and not a closure, so that models with it can
    be copied and pickled.
    """

    def __init__(self, block: nn.Module, how: How, before: Callable[..., Any] | None) -> None:
        self.block, self.how, self.before = block, how, before

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.block.training or not torch.is_grad_enabled():
            return self.plain(*args, **kwargs)
        from torch.utils.checkpoint import checkpoint

        if torch.compiler.is_compiling():
            # The compiler cuts the graph by itself: it does not run a block twice.
            if self.how == "selective":
                return checkpoint(
                    self.plain, *args, use_reentrant=False, context_fn=_contexts, **kwargs
                )
            return checkpoint(self.plain, *args, use_reentrant=False, **kwargs)
        return checkpoint(
            self._own_casts, *args, use_reentrant=False, context_fn=self._passes, **kwargs
        )

    def plain(self, *args: Any, **kwargs: Any) -> Any:
        """The forward that was there before."""
        if self.before is not None:
            return self.before(*args, **kwargs)
        return type(self.block).forward(self.block, *args, **kwargs)

    def _own_casts(self, *args: Any, **kwargs: Any) -> Any:
        """Under autocast without its memory of cast weights.

        A weight that was cast outside a block is not cast again in it, but is when the block runs
        again: the two passes would differ, and the casts would be held until the loss is known.
        """
        before = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            return self.plain(*args, **kwargs)
        finally:
            torch.set_autocast_cache_enabled(before)

    def _passes(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        """What is around the first pass, and around the second."""
        from torch.utils.checkpoint import noop_context_fn

        first, second = (_contexts if self.how == "selective" else noop_context_fn)()
        return first, _statistics_kept(self.block, second)


class _Segments:
    """The forward of a sequence of layers, cut into about as many segments as each has layers."""

    def __init__(self, whole: nn.Sequential, how: How) -> None:
        self.whole, self.how = whole, how
        self._parts: list[_Again] = []

    def __call__(self, given: Any) -> Any:
        for part in self._cut():
            part.block.training = self.whole.training
            given = part(given)
        return given

    def _cut(self) -> list[_Again]:
        layers = list(self.whole)
        held = [layer for part in self._parts for layer in part.block.children()]
        if len(held) != len(layers) or any(a is not b for a, b in zip(held, layers, strict=True)):
            size = max(1, round(math.sqrt(len(layers))))
            self._parts = [
                _Again(nn.Sequential(*layers[first : first + size]), self.how, None)
                for first in range(0, len(layers), size)
            ]
        return self._parts


def _patch(block: nn.Module, how: How) -> Callable[[], None]:
    before = block.__dict__.get("forward")
    if before is None and isinstance(block, nn.Sequential) and is_sequence(block):
        block.__dict__["forward"] = _Segments(block, how)
    else:
        block.__dict__["forward"] = _Again(block, how, before)

    def undo() -> None:
        if before is None:
            block.__dict__.pop("forward", None)
        else:
            block.__dict__["forward"] = before

    return undo


def _begins_in_place(block: nn.Module) -> bool:
    """Whether what goes into a block or a segment is overwritten there: it is needed once more."""
    if is_sequence(block):
        return True
    first = next((one for one in block.modules() if not any(True for _ in one.children())), block)
    return getattr(first, "inplace", False) is True


def _out_of_place(block: nn.Module) -> Callable[[], None]:
    """Activations that overwrite their input would overwrite a product that is kept."""
    changed = [one for one in block.modules() if getattr(one, "inplace", False) is True]
    for one in changed:
        one.inplace = False  # type: ignore[assignment]

    def undo() -> None:
        for one in changed:
            one.inplace = True  # type: ignore[assignment]

    return undo


@contextlib.contextmanager
def _statistics_kept(block: nn.Module, inner: AbstractContextManager[Any]) -> Iterator[None]:
    """The second pass writes a batch norm's statistics into copies."""
    held: list[tuple[nn.Module, dict[str, torch.Tensor | None]]] = []
    for module in block.modules():
        if isinstance(module, _NormBase) and module.track_running_stats:
            held.append((module, dict(module._buffers)))
    try:
        for module, buffers in held:
            module._buffers.update({name: _copy(one) for name, one in buffers.items()})
        with inner:
            yield
    finally:
        for module, buffers in held:
            module._buffers.update(buffers)


def _copy(buffer: torch.Tensor | None) -> torch.Tensor | None:
    return None if buffer is None else buffer.clone()


def _contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    made: tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
    made = create_selective_checkpoint_contexts(_policy)  # type: ignore[no-untyped-call]
    return made


def _policy(context: Any, operation: Any, *args: Any, **kwargs: Any) -> Any:
    from torch.utils.checkpoint import CheckpointPolicy

    dear = _packet(operation) in _DEAR
    return CheckpointPolicy.MUST_SAVE if dear else CheckpointPolicy.PREFER_RECOMPUTE


def _packet(operation: Any) -> str:
    """`aten.mm` of `aten.mm.default`; the name itself of what is no plain operation."""
    found = getattr(operation, "overloadpacket", operation)
    return str(found)


def recomputed(model: nn.Module) -> Mapping[str, How]:
    """Which modules are recomputed now, and how."""
    return {
        name: one.how for name, module in model.named_modules()
        if isinstance(one := module.__dict__.get("forward"), (_Again, _Segments))
    }  # fmt: skip
