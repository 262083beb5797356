"""The optimiser by name: its groups, its fused kernels, its state before the first step.

Weight decay is for matrices, embeddings included (a row that is never looked up shrinks slowly, as
in GPT-2's and most others' training), and not for biases, norms and other vectors. A tied weight
is in one group once; frozen ones are in none.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.memory.oom import detect_oom
from anyrig.training.lion import Lion
from anyrig.training.optimiser_state import Materialised, materialise
from anyrig.training.skipping import skip_on_device, supports_found_inf
from anyrig.units import pluralize

__all__ = [
    "NAMES", "Made", "Materialised", "Split", "groups_of", "make", "materialise", "skip_on_device",
    "split_weights", "supports_found_inf",
]  # fmt: skip
Named: TypeAlias = Iterable[tuple[str, torch.Tensor]]
Factory: TypeAlias = Callable[..., torch.optim.Optimizer]
NAMES = ("adamw", "adam", "sgd", "momentum", "lion", "adafactor")
_FUSED = frozenset({"adamw", "adam", "sgd", "momentum"})
# torch names plug-in devices as well, but DirectML, one of them, has no such kernels.
_FUSED_DEVICES = frozenset({"cuda", "xpu", "mps", "cpu"})
_NORMS = (
    nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase,
    nn.LocalResponseNorm,
)  # fmt: skip


class Made(NamedTuple):
    """An optimiser, and why it is as it is."""

    optimiser: torch.optim.Optimizer
    reason: str


class Split(NamedTuple):
    """Weights with decay and without."""

    decayed: list[torch.Tensor]
    spared: list[torch.Tensor]


def make(
    wanted: str | Factory | torch.optim.Optimizer,
    model: nn.Module | Named,
    *,
    learning_rate: float = 3e-4,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.95),
    momentum: float = 0.9,
    fused: bool | Literal["auto"] = "auto",
) -> Made:
    """An optimiser for a model's weights.

    Args:
        wanted: one of `NAMES`; torch's or your own optimiser class; a function of the groups; or
            an optimiser, which is checked and taken as it is.
        model: or its weights by name, where the optimiser has other tensors than the model.
        learning_rate: the peak of a schedule.
        weight_decay: of matrices.
        betas: of the Adam family and lion.
        momentum: of `momentum`.
        fused: one kernel for all weights; `auto` where a small trial of it works.
    """
    split = split_weights(model)
    if isinstance(wanted, torch.optim.Optimizer):
        return Made(wanted, _checked(wanted, split))
    if not (split.decayed or split.spared):
        raise InvalidInputError(
            "the model has no weights to train", hint="Set requires_grad on those that should be."
        )
    groups = groups_of(split, weight_decay)
    if not isinstance(wanted, str):
        return Made(_by_factory(wanted, groups, learning_rate, split), f"{_name(wanted)}, as given")
    options = _options(wanted, learning_rate, betas, momentum)
    quick, why = _fused(wanted, fused, split, model)
    if quick:
        options["fused"] = True
    optimiser = _CLASSES[wanted](groups, **options)
    decay = f"weight decay {weight_decay:g} on {pluralize(len(split.decayed), 'weight')}"
    return Made(optimiser, f"{wanted}, {why}; {decay}, none on {len(split.spared)}")


_CLASSES: Mapping[str, Factory] = {
    "adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD,
    "momentum": torch.optim.SGD, "lion": Lion, "adafactor": torch.optim.Adafactor,
}  # fmt: skip


def _options(
    name: str, learning_rate: float, betas: tuple[float, float], momentum: float
) -> dict[str, Any]:
    if name not in NAMES:
        near = difflib.get_close_matches(name.lower(), NAMES, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Valid names: {', '.join(NAMES)}."
        raise InvalidSettingError(f"unknown optimizer {name!r}", hint=hint)
    options: dict[str, Any] = {"lr": learning_rate}
    if name in ("adamw", "adam", "lion"):
        options["betas"] = betas
    if name == "momentum":
        options["momentum"] = momentum
    return options


# -- groups ----------------------------------------------------------------------------------------


def split_weights(model: nn.Module | Named) -> Split:
    """The weights to train, with and without decay, each once."""
    if isinstance(model, nn.Module):
        # By name: masters stand for weights under their names, as tensors of their own.
        spared_names = {
            f"{path}.{name}" if path else name
            for path, module in model.named_modules()
            if isinstance(module, _NORMS)
            for name, _ in module.named_parameters(recurse=False)
        }
        named: Named = model.named_parameters()
    else:
        spared_names, named = set(), model
    split, seen = Split([], []), set[int]()
    for name, weight in named:
        if not weight.requires_grad or id(weight) in seen:
            continue
        seen.add(id(weight))
        spare = weight.dim() < 2 or name.endswith("bias") or name in spared_names
        (split.spared if spare else split.decayed).append(weight)
    return split


def groups_of(split: Split, weight_decay: float) -> list[dict[str, Any]]:
    """Groups as an optimiser takes them; an empty one is left out."""
    groups = [
        {"params": split.decayed, "weight_decay": weight_decay},
        {"params": split.spared, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _checked(optimiser: torch.optim.Optimizer, split: Split) -> str:
    held = {id(weight) for group in optimiser.param_groups for weight in group["params"]}
    ours = {id(weight) for weight in (*split.decayed, *split.spared)}
    if ours and not held & ours:
        raise InvalidInputError(
            "the optimizer has none of the model's weights",
            hint="Make it of the parameters of this very model, after the model was last changed.",
        )
    left = len(ours - held)
    told = (
        f"; {pluralize(left, 'trainable weight')} are not in it and stay as they are"
        if left
        else ""
    )
    return f"{type(optimiser).__name__}, as given{told}"


def _by_factory(
    factory: Factory, groups: list[dict[str, Any]], learning_rate: float, split: Split
) -> torch.optim.Optimizer:
    options: dict[str, Any] = {}
    with contextlib.suppress(TypeError, ValueError):  # some built-ins have no signature
        if "lr" in inspect.signature(factory).parameters:
            options["lr"] = learning_rate
    optimiser = factory(groups, **options)
    if not isinstance(optimiser, torch.optim.Optimizer):
        raise InvalidInputError(
            f"{_name(factory)} made {type(optimiser).__name__}, which is not an optimizer",
            hint="It is given groups of weights and must return a torch.optim.Optimizer.",
        )
    _checked(optimiser, split)
    return optimiser


def _name(factory: Factory) -> str:
    return getattr(factory, "__name__", type(factory).__name__)


# -- fused kernels ---------------------------------------------------------------------------------


def _fused(
    name: str, wanted: bool | Literal["auto"], split: Split, model: nn.Module | Named
) -> tuple[bool, str]:
    """Whether fused kernels are used, and why in words."""
    if wanted is False:
        return False, "not fused, as set"
    why_not = _why_not_fused(name, split, model)
    if not why_not:
        return True, "fused"
    if wanted is True:
        return False, f"not fused although requested: {why_not}"
    return False, f"not fused: {why_not}"


def _why_not_fused(name: str, split: Split, model: nn.Module | Named) -> str:
    if name not in _FUSED:
        return f"torch has no fused {name}"
    if isinstance(model, nn.Module) and any(getattr(m, "sparse", False) for m in model.modules()):
        return "an embedding gives sparse gradients"
    kinds = {(weight.device, weight.dtype) for weight in (*split.decayed, *split.spared)}
    for device, dtype in sorted(kinds, key=str):
        if device.type not in _FUSED_DEVICES:
            return f"{device.type} has no fused kernels"
        why_not = _trial(name, device, dtype)
        if why_not:
            return why_not
    return ""


def _trial(name: str, device: torch.device, dtype: torch.dtype) -> str:
    """What goes wrong when one small weight takes a fused step; nothing when it works."""
    if device.type == "meta":
        return ""
    weight = torch.zeros(1, device=device, dtype=dtype, requires_grad=True)
    weight.grad = torch.zeros_like(weight)
    try:
        options = {"momentum": 0.5} if name == "momentum" else {}
        _CLASSES[name]([weight], lr=0.0, fused=True, **options).step()
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        if detect_oom(error) is not None:
            raise
        said = str(error).strip().splitlines()
        return f"the kernel does not run on {device.type}: {said[0] if said else repr(error)}"
    return ""
