"""What settings must be, field by field and together, and what a trainer may be given."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, get_args

from anyrig.devices.machine import Precision, parse_precision
from anyrig.errors import InvalidInputError, InvalidSettingError

if TYPE_CHECKING:
    import torch

    from anyrig.training.settings import Settings

Rule = tuple[Callable[[Any], bool], str]


def _whole(low: int) -> Rule:
    return (
        lambda value: type(value) is int and value >= low,
        f"an integer of at least {low}",
    )


def _number(low: float, high: float = math.inf, *, open_low: bool = False) -> Rule:
    def fits(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        inside = low < value if open_low else low <= value
        return inside and value <= high and math.isfinite(value)

    ends = f"above {low:g}" if open_low else f"from {low:g} up"
    return fits, f"a number {ends}" + (f", at most {high:g}" if high < math.inf else "")


def _one_of(*words: str) -> Rule:
    return lambda value: value in words, "one of " + ", ".join(words)


def _or_auto(rule: Rule) -> Rule:
    return lambda value: value == "auto" or rule[0](value), f"{rule[1]}, or auto"


_YES: Rule = (lambda value: isinstance(value, bool), "true or false")
_BETAS: Rule = (
    lambda value: (
        isinstance(value, tuple)
        and len(value) == 2
        and all(_number(0, 1)[0](one) and one < 1 for one in value)
    ),
    "two numbers at least 0 and below 1",
)
_NAMES: Rule = (
    lambda value: isinstance(value, tuple) and all(isinstance(one, str) for one in value),
    "a list of class names",
)
RULES: dict[str, Rule] = {
    "batch": _whole(1),
    "micro_batch": _or_auto(_whole(1)),
    "steps": _whole(0),
    "epochs": _whole(1),
    "seed": _whole(0),
    "shuffle": _YES,
    "drop_last": _YES,
    "learning_rate": _number(0, open_low=True),
    "schedule": _one_of("constant", "linear", "cosine", "trapezoid"),
    "warmup": _number(0),
    "final_rate": _number(0, 1),
    "weight_decay": _number(0),
    "betas": _BETAS,
    "momentum": _number(0, 1),
    "max_norm": _number(0),
    "guard": _YES,
    "precision": _one_of("auto", *get_args(Precision)),
    "dynamic": _YES,
    "half_weights": _YES,
    "memory_gb": _number(0),
    "memory_fraction": _number(0, 1),
    "recompute": _one_of("none", "blocks", "selective"),
    "recompute_types": _NAMES,
    "offload_optimizer": _YES,
    "offload_activations": _YES,
    "loss_chunks": _or_auto(_whole(1)),
    "compile": _or_auto(_YES),
    "cuda_graphs": _or_auto(_YES),
    "cudnn_benchmark": _or_auto(_YES),
    "fused_optimizer": _or_auto(_YES),
    "strategy": _one_of("auto", "ddp", "fsdp"),
    "shares": _one_of("equal", "measured"),
    "validate_every": _whole(0),
    "log_every": _whole(1),
    "tensorboard": _YES,
    "prometheus": _YES,
    "name_nonfinite": _YES,
}
LOADING: dict[str, Rule] = {
    "num_workers": _or_auto(_whole(0)),
    "pin_memory": _or_auto(_YES),
    "prefetch_factor": _or_auto(_whole(1)),
    "persistent_workers": _or_auto(_YES),
}
KEEPING: dict[str, Rule] = {
    "every_steps": _whole(0),
    "every_s": _number(0),
    "last": _whole(1),
    "every_kept": _whole(0),
    "best": _whole(0),
    "asynchronous": _YES,
}


RENAMED = {
    "optimiser": "optimizer",
    "offload_optimiser": "offload_optimizer",
    "fused_optimiser": "fused_optimizer",
    "dtype": "precision",
}
"""Other spellings of settings: those of older files, and those of other tools."""


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under the names they have here; two spellings of one must agree."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        usual = RENAMED.get(name, name)
        if usual == "precision":
            value = parse_precision(value) or value
        if usual in found and found[usual] != value:
            other = next(one for one in RENAMED if RENAMED[one] == usual)
            raise InvalidSettingError(
                f"{other} and {usual} are both set, and differ", hint="Set one of them."
            )
        found[usual] = value
    return found


_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def accept_other_spellings(function: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """Let a function be called with the other spellings of its arguments too."""

    @functools.wraps(function)
    def call(*args: _Given.args, **values: _Given.kwargs) -> _Found:
        if any(name in RENAMED for name in values):
            return function(*args, **renamed(values))
        return function(*args, **values)

    return call


def check(settings: Settings) -> None:
    """Refuse what makes no sense, by itself or together."""
    _tables(settings)
    for where, value, rules in (
        ("", settings, RULES),
        ("loading.", settings.loading, LOADING),
        ("keeping.", settings.keeping, KEEPING),
    ):
        for name, (fits, must) in rules.items():
            given = getattr(value, name)
            if not fits(given):
                raise InvalidSettingError(f"{where}{name} is {given!r}", hint=hint_for(given, must))
    _together(settings)


def hint_for(given: object, must: str) -> str:
    """What a value must be."""
    if given == "fp64":
        return f"It must be {must}. Convert the model instead: model.double() trains in fp64."
    return f"It must be {must}."


def _tables(settings: Settings) -> None:
    """A mapping where a table of settings belongs is only one after it was read."""
    from anyrig.training.settings import TABLES

    for name, kind in TABLES.items():
        given = getattr(settings, name)
        if not isinstance(given, kind):
            raise InvalidSettingError(
                f"{name} is {given!r}",
                hint=f"It must be a {kind.__name__}; Settings.of reads a table from a mapping.",
            )


def _together(settings: Settings) -> None:
    if settings.memory_gb and settings.memory_fraction:
        raise InvalidSettingError(
            "memory_gb and memory_fraction are both set", hint="Set one of them."
        )
    if settings.half_weights and settings.precision not in ("auto", "bf16", "fp8"):
        raise InvalidSettingError(
            f"half_weights goes with bf16, not with {settings.precision}",
            hint='Set precision = "bf16".',
        )
    if settings.strategy == "fsdp" and settings.shares == "measured":
        raise InvalidSettingError(
            "shares by speed go with ddp: shards of fsdp wait for each other in every layer",
            hint='Set strategy = "ddp".',
        )


def scalar_loss(loss: object) -> torch.Tensor:
    """A loss that can run backwards, or words on why it cannot."""
    import torch

    if not isinstance(loss, torch.Tensor):
        told = f"a {type(loss).__name__}"
    elif loss.dim():
        told = f"a tensor of {'x'.join(map(str, loss.shape))}"
    elif not loss.requires_grad:
        told = "a number that nothing was learnt from"
    else:
        return loss
    raise InvalidSettingError(
        f"the loss is {told}",
        hint="Pass one number, computed by the model with gradients, such as the mean over the "
        "batch; no .item(), .detach() or torch.no_grad() on the way.",
    )


def refuse_devices(
    placement: object, device: object, device_ids: object, environment: Mapping[str, str]
) -> None:
    """Refuse devices that would be passed over without a word."""
    given = {"placement": placement, "device": device, "device_ids": device_ids}
    named = [name for name, one in given.items() if one is not None and one != ()]
    if isinstance(device_ids, (str, bytes)) or not isinstance(device_ids, Sequence):
        raise InvalidInputError(
            f"device_ids is {device_ids!r}",
            hint="Pass a list with a device for each process of this machine, or device=...",
        )
    if len(named) > 1 and (device_ids or "device_ids" not in named):
        raise InvalidInputError(
            f"{' and '.join(named)} are both given", hint="Name the device once."
        )
    local = environment.get("LOCAL_WORLD_SIZE") or environment.get("WORLD_SIZE") or "1"
    num_processes = int(local) if local.isdecimal() else 1
    if len(device_ids) > num_processes:
        count = len(device_ids)
        raise InvalidInputError(
            f"device_ids names {count} devices, but {num_processes} "
            f"{'process trains' if num_processes == 1 else 'processes train'} on this machine, "
            "each on one device",
            hint=f"Start a process for each: torchrun --nproc-per-node {count} SCRIPT.py, with "
            "Trainer(..., environment=os.environ), or anyrig train CONFIG "
            f"--nproc {count}. For one device, name one.",
        )


def refuse_mistakes(model: object, loss: object, settings: object) -> None:
    """Mistakes that everybody makes once with the Trainer, in words."""
    from torch import nn

    from anyrig.training.settings import Settings

    if not isinstance(model, nn.Module):
        raise InvalidSettingError(
            f"a {type(model).__name__} is not a model", hint="Pass a torch.nn.Module."
        )
    if isinstance(loss, nn.modules.loss._Loss):
        raise InvalidSettingError(
            f"{type(loss).__name__} takes an output and a target, but `loss` is given the model "
            "and a batch",
            hint="loss=lambda model, batch: criterion(model(batch[0]), batch[1])",
        )
    if settings is not None and not isinstance(settings, Settings):
        raise InvalidSettingError(
            f"settings are a {type(settings).__name__}", hint="Give Settings(batch=64, ...)."
        )
