"""What a step computes: FLOPs of a forward and a backward pass, counted once.

Counted on a copy of the model without memory (torch's fake tensors): nothing is computed, nothing
changes, and any batch fits. Counted are matrix products, convolutions and attention, a product of
m x k and k x n as 2 m k n. Attention counts as its products, forward and twice that backward,
whichever kernel runs it and whether or not it is causal. What is computed again (gradient
checkpointing, the scores in a fused attention's backward pass) is no useful work and is left out.

Best counted before a model is compiled, sharded or given kernels of its own: those are not seen.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from anyrig.training.batch import Batch
from anyrig.training.fake import copy_batch_as_fake, copy_loss_as_fake, copy_model_as_fake
from anyrig.training.losses import Loss, LossOutput

log = logging.getLogger(__name__)
Formula = Callable[..., int]
# Attention as each device runs it: torch's own counter does not know the last three.
_ATTENTIONS = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math_for_mps",
)


class Flops(NamedTuple):
    """What a batch costs."""

    total: int
    """Forward and backward."""
    num_samples: int
    """Items in the batch that was counted."""

    @property
    def per_sample(self) -> float:
        """Of one item; a step of n items costs n times as much."""
        return self.total / self.num_samples


def count_flops(model: nn.Module, loss: Loss, batch: Batch, num_samples: int) -> Flops | None:
    """FLOPs of one batch; None, with the reason logged, where a model cannot run on fake tensors.

    Args:
        model: the plain model.
        loss: as the loop calls it.
        batch: a small one does: the count is divided by its items.
        num_samples: how many items it has.
    """
    try:
        total = _count(_unwrap(model), loss, batch)
    except Exception as error:  # noqa: BLE001 - a model may do anything; it still can be trained
        log.info("FLOPs are not counted, so there is no MFU: %s: %s", type(error).__name__, error)
        return None
    return Flops(total, num_samples) if total > 0 and num_samples > 0 else None


def _unwrap(model: nn.Module) -> nn.Module:
    """The model below torch.compile, whose products are not seen."""
    inner = getattr(model, "_orig_mod", model)
    return inner if isinstance(inner, nn.Module) else model


def _count(model: nn.Module, loss: Loss, batch: Batch) -> int:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    # The generators' states are not touched: fake tensors draw no numbers.
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake, items = copy_model_as_fake(model, mode), copy_batch_as_fake(batch, mode)
        fake_loss = copy_loss_as_fake(loss, mode)
        counter = FlopCounterMode(display=False, custom_mapping=_formulas())
        with torch.enable_grad(), counter:
            found = fake_loss(fake, items)
            value = found.loss if isinstance(found, LossOutput) else found
            value.backward()  # type: ignore[no-untyped-call]  # torch's own
    return counter.get_total_flops()


def _formulas() -> dict[Any, Formula]:
    """torch's formulas and ours of attention, silent while something is computed again."""
    from torch.utils.flop_counter import flop_registry

    formulas = {**flop_registry, **dict(_attention())}
    return {operator: _count_first_pass(formula) for operator, formula in formulas.items()}


def _attention() -> Iterable[tuple[Any, Formula]]:
    for name in _ATTENTIONS:
        forward = getattr(torch.ops.aten, name, None)
        if forward is not None:
            yield forward, _attention_forward
        backward = getattr(torch.ops.aten, f"{name}_backward", None)
        if backward is not None:
            yield backward, _attention_backward


def _count_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> int:
    """Scores, and what they weigh. Shapes end in heads, length, width."""
    *rows, width = query.shape
    return 2 * math.prod(rows) * key.shape[-2] * (width + value.shape[-1])


def _attention_forward(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return _count_attention(query, key, value)


def _attention_backward(
    _gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any
) -> int:
    return 2 * _count_attention(query, key, value)


def _count_first_pass(formula: Formula) -> Formula:
    """A formula that gives nothing for what gradient checkpointing computes again.

    The backward pass itself runs without recording gradients; only what is computed again in it
    records them.
    """

    def count_once(*args: Any, **kwargs: Any) -> int:
        again = torch._C._current_graph_task_id() != -1 and torch.is_grad_enabled()
        return 0 if again else formula(*args, **kwargs)

    count_once._get_raw = True  # type: ignore[attr-defined]  # torch's sign for "give me the tensors"
    return count_once
