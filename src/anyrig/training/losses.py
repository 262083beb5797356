"""Losses: of a model and a batch, as a criterion, and of a language model without all its logits.

A head's logits are by far the largest tensor of a small language model: 50,257 numbers for each
token, in fp32, and their gradients. `linear_cross_entropy` makes them for a piece of the tokens at
a time, turns them into the loss and its gradient, and uses them up before the next piece: backward
has nothing left to do. On an NVIDIA GPU two kernels do the softmax and its gradient
(`loss_kernels`), and the products may run in fp8: the gradient of a logit lies between -1 and 1 by
its nature, so its scale needs no measuring.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training.batch import Batch

IGNORED = -100
"""Targets that do not count."""


@dataclass
class LossOutput:
    """What a loss may return instead of a tensor."""

    loss: torch.Tensor
    num_units: int | None = None
    """What the loss is a mean over, such as tokens; None: the items of the batch."""
    outputs: Any = None
    """Of the model, for metrics."""
    whole_batch: bool = False
    """Whether items of a batch change each other's loss, as in a contrastive one."""


Loss: TypeAlias = Callable[[nn.Module, Batch], torch.Tensor | LossOutput]
"""The loss of a model and a batch: a mean over the batch's units, a scalar with a gradient. The
attribute `whole_batch` says whether items of a batch change each other's loss; such a loss is
validated on whole batches."""
TensorLoss: TypeAlias = Callable[[nn.Module, Batch], torch.Tensor]
CountUnits: TypeAlias = Callable[[Batch], int]
"""How many units a batch's loss is a mean over: items, or tokens that count. On the host."""
_CRITERION_INPUTS = ("input", "inputs", "output", "outputs", "logits", "pred", "preds",
                     "prediction", "predictions", "y_pred", "y_hat", "out", "o", "p")  # fmt: skip
_CRITERION_TARGETS = ("target", "targets", "label", "labels", "truth", "true", "y", "y_true", "t")


def resolve_loss(loss: Any) -> Loss:
    """The loss of a model and a batch.

    Args:
        loss: such a function; a criterion of outputs and targets (`nn.CrossEntropyLoss()`,
            `F.cross_entropy`), for batches of an input and a target; or None for a model that
            returns its loss itself.
    """
    if loss is None:
        return model_loss
    if not callable(loss):
        raise InvalidSettingError(
            f"the loss is a {type(loss).__name__}",
            hint="Pass a function of a model and a batch, or a criterion of outputs and targets.",
        )
    if isinstance(loss, type):
        raise InvalidSettingError(
            f"the loss {loss.__name__} is a class", hint=f"Pass an object of it: {loss.__name__}()."
        )
    if isinstance(loss, nn.modules.loss._Loss) and loss.reduction != "mean":
        raise InvalidSettingError(
            f"the loss has reduction={loss.reduction!r}",
            hint='The loss of a batch is a mean. Use reduction="mean".',
        )
    return CriterionLoss(loss) if is_criterion(loss) else cast("Loss", loss)


def is_criterion(loss: Callable[..., Any]) -> bool:
    """Whether a loss is of outputs and targets, by the names of its parameters."""
    if isinstance(loss, nn.modules.loss._Loss):
        return True
    function = loss.forward if isinstance(loss, nn.Module) else loss
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    if len(names) < 2:
        return False
    is_of_model = names[0] in ("model", "net", "network", "module", "m")
    return names[0] in _CRITERION_INPUTS or (names[1] in _CRITERION_TARGETS and not is_of_model)


class CriterionLoss:
    """A criterion of outputs and targets, for batches of an input and a target."""

    def __init__(self, criterion: Callable[..., torch.Tensor]) -> None:
        self.criterion = criterion

    def __call__(self, model: nn.Module, batch: Batch) -> LossOutput:
        inputs, targets = split_batch(batch)
        outputs = call_model(model, inputs)
        found = getattr(outputs, "logits", outputs)
        if isinstance(found, Mapping):
            raise InvalidSettingError(
                "the model returns a dict, and a criterion needs a tensor",
                hint="Pass a function: loss=lambda model, batch: criterion(model(...)[...], ...).",
            )
        return LossOutput(self.criterion(found, targets), outputs=outputs)


_TARGETS = ("labels", "label", "targets", "target", "y")


def split_batch(batch: Batch) -> tuple[Any, Any]:
    """Inputs and targets of a batch."""
    if isinstance(batch, Mapping):
        name = next((one for one in _TARGETS if one in batch), None)
        if name is not None:
            inputs = {key: value for key, value in batch.items() if key != name}
            return (next(iter(inputs.values())) if len(inputs) == 1 else inputs), batch[name]
    elif isinstance(batch, (list, tuple)) and len(batch) >= 2:
        return (batch[0] if len(batch) == 2 else batch[:-1]), batch[-1]
    raise InvalidSettingError(
        f"a batch of the type {type(batch).__name__} has no input and target for a criterion",
        hint="loss=lambda model, batch: criterion(model(...), ...)",
    )


def call_model(model: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (list, tuple)) else model(inputs)


def model_loss(model: nn.Module, batch: Batch) -> LossOutput:
    """The loss that a model returns itself, as those of transformers do."""
    try:
        found = call_model(model, batch if isinstance(batch, Mapping) else (batch,))
    except TypeError as error:
        raise InvalidSettingError(
            f"without a loss the model is called with a whole batch, which failed: {error}",
            hint="Pass `loss`, a criterion such as nn.CrossEntropyLoss(), or a function of the "
            "model and a batch.",
        ) from error
    loss = found["loss"] if isinstance(found, Mapping) else getattr(found, "loss", found)
    if not isinstance(loss, torch.Tensor) or loss.dim():
        raise InvalidSettingError(
            "the model returns no loss for a batch",
            hint="Pass `loss`, a function of the model and a batch, or a criterion.",
        )
    return LossOutput(loss, outputs=found)


def check_loss(loss: object) -> torch.Tensor:
    """A scalar that can run backwards."""
    if not isinstance(loss, torch.Tensor):
        found = "None" if loss is None else f"a {type(loss).__name__}"
    elif loss.dim():
        found = f"a tensor of the shape {tuple(loss.shape)}"
    elif not loss.requires_grad:
        found = "a number without a gradient"
    else:
        return loss
    raise InvalidSettingError(
        f"the loss is {found}",
        hint="Return one number, computed by the model with gradients, such as the mean over the "
        "batch; no .item(), .detach() or torch.no_grad() on the way. To return more than the loss, "
        "use anyrig.training.LossOutput.",
    )


# -- language models ------------------------------------------------------------------------------


_AUTO_BYTES = 1 << 30
"""What `auto` lets a piece's logits take on a GPU; twice as much gains 0.5 % on an H200."""
_AUTO_ROWS = 1024
"""On a CPU smaller pieces stay in its caches."""


class HeadPlan(NamedTuple):
    """How a loss is computed."""

    rows: int
    """Tokens in a piece."""
    kernels: bool
    """Whether our own kernels do the softmax."""
    fp8: bool
    """Whether products run in fp8."""
    trains: bool = True
    """Whether gradients are computed on the way."""


def linear_cross_entropy(
    states: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    *,
    chunks: int | Literal["auto"] = "auto",
    vocabulary: int | None = None,
    fp8: bool = False,
) -> torch.Tensor:
    """The mean cross-entropy of `states @ weight.T` to targets, over targets that count.

    Args:
        states: last hidden states, any leading sides.
        weight: of the head, a row for each token.
        targets: a token's number for each state; `IGNORED` does not count.
        chunks: pieces; 1 takes all at once, `auto` by size.
        vocabulary: rows of the weight that are tokens; those behind it are padding.
        fp8: products in fp8 where the device has it.
    """
    rows, size = states.reshape(-1, states.shape[-1]), vocabulary or weight.shape[0]
    flat = targets.reshape(-1)
    if flat.shape[0] != rows.shape[0]:
        raise InvalidInputError(
            f"{rows.shape[0]} states and {flat.shape[0]} targets", hint="Pass one for each."
        )
    plan = _plan(rows, weight, chunks, fp8)
    function: Any = _LinearCrossEntropy
    # Inside, what needs a gradient is said as if there were no `no_grad` around it.
    plan = plan._replace(trains=torch.is_grad_enabled())
    loss: torch.Tensor = function.apply(rows, weight, flat, size, plan)
    return loss


def _plan(
    rows: torch.Tensor, weight: torch.Tensor, chunks: int | Literal["auto"], fp8: bool
) -> HeadPlan:
    # Tensors without data, which FLOPs are counted on, cannot be handed to a kernel of ours.
    real = not hasattr(rows, "fake_mode")
    kernels = real and rows.device.type == "cuda" and _has_triton()
    fits = kernels and rows.shape[1] % 16 == 0 and weight.shape[0] % 16 == 0
    fp8 = fp8 and fits and _has_fp8(rows.device)
    if chunks == "auto":
        width = weight.shape[0] * (2 if kernels else 4)
        most = _AUTO_BYTES // width if rows.device.type != "cpu" else _AUTO_ROWS
        size = max(64, 1 << (most.bit_length() - 1))  # products are fast on powers of two
    else:
        size = -(-rows.shape[0] // chunks)
    if fp8:  # fp8 products take multiples of 16
        size = -(-size // 64) * 64
    return HeadPlan(max(1, min(size, _round_up(rows.shape[0], fp8))), kernels, fp8)


def _round_up(count: int, fp8: bool) -> int:
    return -(-count // 64) * 64 if fp8 else count


def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


_MIN_FP8_ROWS = 16384
"""Of a head: with fewer tokens it is a small part of a step."""


def choose_fp8_head(device: torch.device, rows: int, width: int) -> tuple[bool, str]:
    """Whether a head's products run in fp8, and why: from a test of the kernels on the device.

    Args:
        device: of the model.
        rows: tokens of the head, with padding.
        width: of its states.
    """
    if device.type != "cuda" or not _has_triton() or not _has_fp8(device):
        return False, "no fp8 products here"
    if rows < _MIN_FP8_ROWS or rows % 16 or width % 16:
        return False, f"{rows:,} tokens of width {width} are too few, or no multiples of 16"
    loss, cosine = _test_fp8_head(device, width)
    if loss > 0.01 or cosine < 0.99:
        return False, f"fp8 failed its test (loss {loss:.2%} off, gradients' cosine {cosine:.4f})"
    return (
        True,
        f"in fp8 (in a test its loss was {loss:.2%} off, its gradients' cosine {cosine:.4f})",
    )


@functools.cache
def _test_fp8_head(device: torch.device, width: int) -> tuple[float, float]:
    """How far the loss is off in fp8, and the lower cosine of both gradients, beside fp32."""
    generator = torch.Generator(device).manual_seed(0)
    states = torch.randn(1024, width, device=device, generator=generator)
    weight = torch.randn(_MIN_FP8_ROWS, width, device=device, generator=generator) / width**0.5
    targets = torch.randint(_MIN_FP8_ROWS, (1024,), device=device, generator=generator)

    def run(dtype: torch.dtype, fp8: bool) -> tuple[float, list[torch.Tensor]]:
        given = [one.to(dtype).requires_grad_() for one in (states, weight)]
        with torch.enable_grad(), torch.autocast(device.type, enabled=False):
            loss = linear_cross_entropy(given[0], given[1], targets, fp8=fp8)
            gradients = torch.autograd.grad(loss, given)
        return float(loss.detach()), [one.float().flatten() for one in gradients]

    loss, exact = run(torch.float32, False)
    found, gradients = run(torch.bfloat16, True)
    cosines = [
        float(nn.functional.cosine_similarity(one, other, dim=0))
        for one, other in zip(exact, gradients, strict=True)
    ]
    return abs(found / loss - 1), min(cosines)


def _has_fp8(device: torch.device) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 9)


class _LinearCrossEntropy(torch.autograd.Function):
    """Loss and gradients in one pass over pieces of the tokens."""

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        targets: torch.Tensor,
        vocabulary: int,
        plan: HeadPlan,
    ) -> torch.Tensor:
        kind = states.dtype
        if torch.is_autocast_enabled(states.device.type):
            kind = torch.get_autocast_dtype(states.device.type)
        elif weight.dtype != states.dtype:
            kind = weight.dtype
        with torch.autocast(states.device.type, enabled=False):
            first, second = ctx.needs_input_grad[:2]
            needs = (plan.trains and first, plan.trains and second)
            sums = _sum_pieces(states.to(kind), weight.to(kind), targets, vocabulary, plan, needs)
        total, count, of_states, of_weight = sums
        ctx.save_for_backward(of_states, of_weight, count)
        ctx.kinds = (states.dtype, weight.dtype)
        return total / count

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        of_states, of_weight, count = ctx.saved_tensors
        factor = gradients[0] / count
        first = None if of_states is None else of_states.mul_(factor).to(ctx.kinds[0])
        second = None if of_weight is None else of_weight.mul_(factor).to(ctx.kinds[1])
        return first, second, None, None, None


def _sum_pieces(
    states: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    vocabulary: int,
    plan: HeadPlan,
    needs: tuple[bool, bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """The sum of losses, how many count, and the gradients of that sum."""
    # Sums of many pieces in bf16 would lose the small ones.
    sums = torch.float64 if weight.dtype == torch.float64 else torch.float32
    of_states = torch.empty_like(states) if needs[0] else None
    of_weight = torch.zeros_like(weight, dtype=sums) if needs[1] else None
    total = torch.zeros((), dtype=sums, device=states.device)
    count = (targets != IGNORED).sum().clamp(min=1).to(sums)
    if plan.fp8:
        from anyrig.training.loss_kernels import Fp8Pieces

        piece: Any = Fp8Pieces(states, weight, vocabulary, plan.rows)
    elif plan.kernels:
        from anyrig.training.loss_kernels import kernel_piece as piece
    else:
        piece = _torch_piece
    for start in range(0, states.shape[0], plan.rows):
        stop = min(start + plan.rows, states.shape[0])
        out = None if of_states is None else of_states[start:stop]
        total += piece(states[start:stop], weight, targets[start:stop], vocabulary, out, of_weight)
    return total, count, of_states, of_weight


def _torch_piece(
    states: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    vocabulary: int,
    of_states: torch.Tensor | None,
    of_weight: torch.Tensor | None,
) -> torch.Tensor:
    """One piece with torch's own operations, on any device."""
    wide = torch.float64 if states.dtype == torch.float64 else torch.float32
    head = weight[:vocabulary]
    logits = (states @ head.t()).to(wide)
    counts = targets != IGNORED
    places = targets.clamp(min=0)
    lse = torch.logsumexp(logits, 1)
    picked = logits.gather(1, places[:, None])[:, 0]
    loss = torch.where(counts, lse - picked, 0.0).sum()
    if of_states is None and of_weight is None:
        return loss
    gradient = logits.sub_(lse[:, None]).exp_()
    gradient.scatter_add_(1, places[:, None], gradient.new_full((len(places), 1), -1.0))
    gradient.mul_(counts[:, None])
    narrow = gradient.to(states.dtype)
    if of_states is not None:
        torch.mm(narrow, head, out=of_states)
    if of_weight is not None:
        of_weight[:vocabulary] += narrow.t() @ states
    return loss


class LanguageLoss:
    """The loss of a causal language model: each token told from those before it.

    Takes our own GPT and any causal model of transformers: the model's body gives hidden states,
    and its head's weight goes into `linear_cross_entropy`. A head with a bias, or a model whose
    logits are changed on their way (scaled, capped), computes them as it likes, all at once.

    Args:
        chunks: see `linear_cross_entropy`.
        fp8: see `linear_cross_entropy`.
    """

    whole_batch = False

    def __init__(self, chunks: int | Literal["auto"] = "auto", *, fp8: bool = False) -> None:
        self.chunks, self.fp8 = chunks, fp8

    def head(self, model: nn.Module) -> tuple[int, int] | None:
        """The sides of the head's weight; None for a model that computes its logits by itself."""
        own = hasattr(model, "head") and hasattr(model, "vocabulary")
        if not own and _find_body(model) is None:
            return None
        head: Any = model.head if own else _find_head(model)
        rows, width = head.weight.shape
        return rows, width

    def core(self, model: nn.Module) -> nn.Module:
        """The part of a model that compiling is worth it for: all but the head."""
        body = _find_body(model)
        return model if body is None else body

    def __call__(self, model: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The mean over the tokens that count.

        Args:
            model: see the class.
            batch: `tokens` (items x length + 1); `labels` of the same shape where some tokens do
                not count; `positions` (items x length) of tokens in their documents where each
                sees its own document alone.
        """
        tokens = batch["tokens"]
        given = tokens[:, :-1]
        targets = batch.get("labels", tokens)[:, 1:]
        if hasattr(model, "head") and hasattr(model, "vocabulary"):
            own: Any = model
            positions = {"positions": batch["positions"]} if "positions" in batch else {}
            states, weight = own(given, hidden=True, **positions), own.head.weight
            size = own.vocabulary
        else:
            inputs: dict[str, Any] = {"input_ids": given}
            if "positions" in batch:
                inputs["position_ids"] = batch["positions"]
            if _find_body(model) is None:
                return _compute_all_logits(model, inputs, targets)
            return self._run_with_loss_as_head(model, inputs, targets)
        assert isinstance(weight, torch.Tensor)
        return linear_cross_entropy(
            states, weight, targets,
            chunks=self.chunks, vocabulary=size, fp8=self.fp8,
        )  # fmt: skip

    def _run_with_loss_as_head(
        self, model: nn.Module, inputs: Mapping[str, Any], targets: torch.Tensor
    ) -> torch.Tensor:
        """Through the model's own forward, with the loss in place of its head.

        The body alone would run outside of the forward pass in which sharded weights are whole.
        """
        head = _find_head(model)

        def loss(states: torch.Tensor) -> torch.Tensor:
            return linear_cross_entropy(
                states, head.weight, targets, chunks=self.chunks, fp8=self.fp8
            )

        with _replaced_forward(head, loss):
            found: torch.Tensor = model(**inputs, use_cache=False).logits
        return found


@contextlib.contextmanager
def _replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        del module.__dict__["forward"]


def _compute_all_logits(
    model: nn.Module, inputs: Mapping[str, Any], targets: torch.Tensor
) -> torch.Tensor:
    logits = model(**inputs, use_cache=False).logits
    return nn.functional.cross_entropy(
        logits.flatten(0, -2).float(), targets.flatten(), ignore_index=IGNORED
    )


def _find_head(model: nn.Module) -> Any:
    get = getattr(model, "get_output_embeddings", None)
    return get() if callable(get) else None


_CHANGED = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")


def _find_body(model: nn.Module) -> nn.Module | None:
    """A causal model of transformers without its head; None where its logits are more than that."""
    head, body = _find_head(model), getattr(model, "base_model", None)
    if not isinstance(head, nn.Linear) or head.bias is not None or body is model:
        return None
    config = getattr(model, "config", None)
    if any(getattr(config, name, None) for name in _CHANGED):
        return None
    return body if isinstance(body, nn.Module) else None
