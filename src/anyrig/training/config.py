"""How a model is trained: every option typed, explained, and refused where it makes no sense.

`TrainConfig.from_table` reads the `[train]` table of a TOML file; an unknown key is an error with
the nearest known name. Nothing here loads torch: its allocator's variables are set after this.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import logging
import math
import operator
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from anyrig.devices.choose import DeviceChoice, DeviceRequest, choose_device, parse_kind
from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, Machine, Precision, parse_precision
from anyrig.errors import (
    DeviceUnusableError,
    InvalidInputError,
    InvalidSettingError,
    Message,
    OptionRef,
)
from anyrig.placement import (
    Placement,
    PlacementOptions,
    Workload,
    check_num_processes,
    plan_placement,
)
from anyrig.precision.settings import FallbackSettings, ScalerSettings
from anyrig.units import pluralize

log = logging.getLogger(__name__)


class NumberRange(NamedTuple):
    """What a number must be."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def holds(self, value: float) -> bool:
        return (
            math.isfinite(value)
            and (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )

    def describe(self) -> str:
        words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
        given = {name: value for name, value in self._asdict().items() if value is not None}
        return ", ".join(f"{words[name]} {value:g}" for name, value in given.items())


Auto: TypeAlias = Literal["auto"]
Count: TypeAlias = Annotated[int, NumberRange(ge=1)]
CountOrZero: TypeAlias = Annotated[int, NumberRange(ge=0)]
Positive: TypeAlias = Annotated[float, NumberRange(gt=0)]
NotNegative: TypeAlias = Annotated[float, NumberRange(ge=0)]
Fraction: TypeAlias = Annotated[float, NumberRange(ge=0, le=1)]
Beta: TypeAlias = Annotated[float, NumberRange(ge=0, lt=1)]
Recompute: TypeAlias = Literal["none", "blocks", "selective"]
Strategy: TypeAlias = Literal["auto", "ddp", "fsdp"]
Schedule: TypeAlias = Literal["constant", "linear", "cosine", "trapezoid"]
CompileMode: TypeAlias = Literal["default", "reduce-overhead", "max-autotune"]


@dataclass(frozen=True)
class LoadingConfig:
    """How data is read. `auto` is measured; a value overrides it."""

    num_workers: CountOrZero | Auto = "auto"
    """Processes that read data; 0 reads in the main process."""
    pin_memory: bool | Auto = "auto"
    """Put batches into pinned memory."""
    prefetch_factor: Count | Auto = "auto"
    """Batches that each worker prepares in advance."""
    persistent_workers: bool | Auto = "auto"
    """Keep workers between epochs."""

    def __post_init__(self) -> None:
        check_fields(self, "loading.")


@dataclass(frozen=True)
class CheckpointConfig:
    """When checkpoints are written, and which are kept."""

    every_steps: CountOrZero = 0
    """Steps between checkpoints; 0: by `every_s`."""
    every_s: NotNegative = 300.0
    """Seconds between checkpoints; 0: by `every_steps`."""
    last: Count = 2
    """Number of newest checkpoints to keep."""
    every_kept: CountOrZero = 0
    """Also keep those whose step is a multiple of this; 0 keeps none."""
    best: CountOrZero = 1
    """Number of best checkpoints to keep; see `best_metric`."""
    asynchronous: bool = True
    """Write in a thread, from a copy in host memory, while training continues."""

    def __post_init__(self) -> None:
        check_fields(self, "checkpoints.")


@dataclass(frozen=True)
class TrainConfig:
    """A training run."""

    # How long, and in what portions.
    batch: Count | Auto = "auto"
    """Items per optimizer step over all processes; `auto`: 32, or the batch of a DataLoader. With a
    DataLoader a larger one accumulates the gradients of several of its batches."""
    micro_batch: Count | Auto = "auto"
    """Items per forward pass of a process; `auto` finds a size that fits the memory."""
    steps: CountOrZero = 0
    """Optimizer steps; 0: by `epochs`."""
    epochs: Count = 1
    """Passes over the data, if `steps` is 0."""
    seed: CountOrZero = 0
    """Random seed of the data order and everything else."""
    shuffle: bool = True
    """Shuffle the data in every epoch."""
    drop_last: bool = True
    """Drop the last, smaller batch of an epoch."""
    seed_items: bool | Auto = "auto"
    """Seed random numbers for every item, so that augmentation does not depend on the number of
    workers; `auto`: where a data set says that its items are random (`random_items`)."""

    # The optimizer.
    learning_rate: Positive = 3e-4
    """Peak learning rate; see `schedule`."""
    schedule: Schedule | Auto = "auto"
    """constant, linear, cosine, or trapezoid (constant, then linear over the last fifth); `auto`:
    cosine, or the rate as it is for an optimizer that was passed as an object."""
    warmup: NotNegative = 0.02
    """Warm-up: a fraction of the run if below 1, else a number of steps."""
    final_rate: Fraction = 0.1
    """Final learning rate as a fraction of the peak."""
    weight_decay: NotNegative = 0.01
    """Weight decay of matrices; biases, norms and other vectors have none."""
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    """Betas of adamw and adam."""
    momentum: Fraction = 0.9
    """Momentum of the optimizer `momentum`."""
    max_norm: NotNegative | Auto = "auto"
    """Clip gradients to this norm; 0: no clipping; `auto`: 1, or no clipping for an optimizer that
    was passed as an object."""
    guard: bool = True
    """Skip steps whose gradients are not finite, in every precision."""
    ema: Annotated[float, NumberRange(ge=0, lt=1)] = 0.0
    """Decay of an exponential moving average of the weights, which is validated and is what the
    model has at the end; 0: none."""

    # Precision.
    precision: str = "auto"
    """auto, fp32, tf32, bf16, fp16, or fp8 (linear layers; the rest is bf16)."""
    dynamic: bool = True
    """Switch from fp16 to a safer format if it keeps overflowing."""
    half_states: bool | Auto = "auto"
    """In bf16, the states between a model's blocks in bf16 too; `auto`: for language models on an
    NVIDIA GPU, where a test with the first item shows the same loss and gradients."""
    fp8_head: bool | Auto = "auto"
    """In bf16, the products of a language model's head in fp8; `auto`: where the device has fp8 and
    its kernels pass a test."""
    scaler: ScalerSettings = field(default_factory=ScalerSettings)
    """Loss scaling in fp16."""
    moving: FallbackSettings = field(default_factory=FallbackSettings)
    """When to switch from fp16."""

    # Memory.
    memory_gb: NotNegative = 0.0
    """Use at most this many GiB of a device; 0: by `memory_fraction`."""
    memory_fraction: Fraction = 0.0
    """Use at most this fraction of a device's memory; 0: by the profile."""
    recompute: Recompute = "none"
    """Recompute activations in the backward pass: of whole `blocks`, or in compiled code
    `selective`; without torch.compile that is `blocks`."""
    recompute_types: tuple[str, ...] = ()
    """Class names of the blocks; detected if empty."""
    offload_optimizer: bool = False
    """Keep optimizer state in host memory."""
    loss_chunks: Count | Auto = "auto"
    """Compute a language model's logits and loss in this many chunks."""

    # Speed.
    compile: bool | CompileMode | Auto = "auto"
    """Use torch.compile (or a mode of it; `reduce-overhead` uses CUDA graphs), or eager mode if
    that fails; `auto`: where a GPU gains from it."""
    cudnn_benchmark: bool | Auto = "auto"
    """Let cuDNN benchmark its algorithms; `auto`: for convolutions on inputs of one size."""
    fused_optimizer: bool | Auto = "auto"
    """Use torch's fused optimizer; `auto`: if a small test of it succeeds."""
    loading: LoadingConfig = field(default_factory=LoadingConfig)
    """Data loading."""

    # Several processes.
    strategy: Strategy = "auto"
    """`ddp`: each process has the whole model; `fsdp`: a shard of it; `auto` is `ddp`."""
    shares: Literal["equal", "measured"] | Auto = "auto"
    """Items per process: `equal`, or by `measured` speed (ddp); `auto`: measured for unequal
    devices."""

    # Validation, checkpoints, logs.
    validate_every: CountOrZero = 0
    """Steps between validations; 0: at the end of each epoch."""
    best_metric: str = "loss"
    """The validation metric that says which checkpoint is the best."""
    best_is: Literal["lowest", "highest", "auto"] = "auto"
    """Whether the lowest or the highest value is the best; `auto`: the lowest of a name with loss,
    error or perplexity in it and of mae, mse, rmse, mape, wer, cer, nll, ppl and fid, the highest
    of others."""
    load_best: bool = False
    """Load the best checkpoint's weights at the end; needs a folder and validation data."""
    patience: CountOrZero = 0
    """Stop early after this many validations without a better one; 0: never."""
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    """Which checkpoints are written and kept."""
    log_every: Count = 1
    """Steps between log lines."""
    tensorboard: bool = False
    """Write TensorBoard files to the run's folder."""
    name_nonfinite: bool = True
    """If a value is not finite, run its batch again with hooks to name the module."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", parse_precision(self.precision) or self.precision)
        if isinstance(self.recompute, bool):  # as the option of other tools
            object.__setattr__(self, "recompute", "blocks" if self.recompute else "none")
        for name, kind in TABLES.items():
            if isinstance(values := getattr(self, name), Mapping):
                object.__setattr__(self, name, _read(kind, values, name))
        check_fields(self)
        _check_together(self)

    @classmethod
    def from_table(cls, values: Mapping[str, Any]) -> TrainConfig:
        """The configuration of a parsed TOML table."""
        found: TrainConfig = _read(cls, rename_keys(values), "train")
        return found

    @property
    def highest_is_best(self) -> bool:
        if self.best_is != "auto":
            return self.best_is == "highest"
        name = self.best_metric.lower()
        is_error = any(word in name for word in ("loss", "error", "perplexity"))
        return not (is_error or _ERRORS & {*re.findall("[a-z]+", name)})


_ERRORS = frozenset("err ppl nll mae mse rmse mape wer cer fid".split())
"""Metrics whose lowest value is the best."""
TABLES: dict[str, type[Any]] = {
    "scaler": ScalerSettings, "moving": FallbackSettings, "loading": LoadingConfig,
    "checkpoints": CheckpointConfig,
}  # fmt: skip

# -- other spellings, and what earlier versions had ------------------------------------------------

RENAMED = {
    "optimiser": "optimizer",
    "offload_optimiser": "offload_optimizer",
    "fused_optimiser": "fused_optimizer",
    "dtype": "precision",
    "keeping": "checkpoints",
    "max_steps": "steps",
    "max_epochs": "epochs",
    "batch_size": "batch",
    "lr": "learning_rate",
}
"""Other spellings of options: those of older files, and those of other tools."""
RENAMED_IN_TABLES = {"most_skipped": "max_skipped"}
"""Names of 0.1.0 in `[train.moving]`."""
OTHER_TOOLS = {
    "accelerator": "device",
    "accumulate_grad_batches": "batch, the items of a whole step",
    "bf16": 'precision = "bf16"',
    "ckpt_path": "folder: a run continues in its folder",
    "collate_fn": "collate",
    "compute_metrics": "metrics",
    "criterion": "loss",
    "data_collator": "collate",
    "early_stopping_patience": "patience",
    "eval_dataset": "validation",
    "eval_steps": "validate_every",
    "fp16": 'precision = "fp16"',
    "gradient_accumulation_steps": "batch, the items of a whole step",
    "gradient_checkpointing": 'recompute = "blocks"',
    "gpus": "devices",
    "gradient_clip_val": "max_norm",
    "load_best_model_at_end": "load_best",
    "log_every_n_steps": "log_every",
    "logger": "loggers",
    "logging_steps": "log_every",
    "loss_fn": "loss",
    "lr_scheduler": "scheduler",
    "max_grad_norm": "max_norm",
    "metric_for_best_model": "best_metric",
    "num_epochs": "epochs",
    "num_train_epochs": "epochs",
    "num_workers": "loading.num_workers",
    "per_device_train_batch_size": "micro_batch",
    "output_dir": "folder",
    "resume_from_checkpoint": "folder: a run continues in its folder",
    "save_steps": "checkpoints.every_steps",
    "train_dataloaders": "data, the second argument",
    "train_dataset": "data, the second argument",
    "train_loader": "data, the second argument",
    "val_dataloaders": "validation",
    "val_dataset": "validation",
    "val_loader": "validation",
    "val_check_interval": "validate_every",
    "warmup_ratio": "warmup",
    "warmup_steps": "warmup",
}
"""What Lightning and transformers call an option, and what says the same here."""
REMOVED = {
    "half_weights": 'precision = "bf16" computes in bf16, with weights in fp32',
    "cuda_graphs": 'compile = "reduce-overhead" lets torch record CUDA graphs',
    "offload_activations": 'recompute = "blocks" saves the same memory',
    "prometheus": "the metrics of a run are in metrics.jsonl",
}
"""Options of version 0.1.0 that are ignored with a warning, and what to use instead."""


def rename_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options under the names that they have here; two spellings of one must agree."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name in REMOVED:
            log.warning("train.%s is no longer an option and is ignored: %s", name, REMOVED[name])
            continue
        name_here = RENAMED.get(name, name)
        if name_here == "precision":
            value = parse_precision(value) or value
        if name_here in found and found[name_here] != value:
            other = next(one for one in values if RENAMED.get(one) == name_here)
            raise InvalidSettingError(
                f"{other} and {name_here} are both set, and differ", hint="Set one of them."
            )
        found[name_here] = value
    return found


def _accept_other_spellings(kind: type[TrainConfig]) -> None:
    """`TrainConfig(dtype=torch.float16)`; other names can be read as well."""
    plain = kind.__init__

    @functools.wraps(plain)
    def initialise(self: TrainConfig, *args: Any, **values: Any) -> None:
        plain(self, *args, **rename_keys(values))

    kind.__init__ = initialise  # type: ignore[method-assign]
    for other, name_here in RENAMED.items():
        if name_here in {one.name for one in dataclasses.fields(kind)}:
            setattr(kind, other, property(operator.attrgetter(name_here)))


_accept_other_spellings(TrainConfig)


def _read(kind: type[Any], values: Mapping[str, Any], where: str) -> Any:
    hints = _hints(kind)
    given: dict[str, Any] = {}
    for name, value in values.items():
        name = RENAMED_IN_TABLES.get(name, name)
        check_name(name, list(hints), f"[{where}]")
        if kind is TrainConfig and name in TABLES:
            if not isinstance(value, Mapping):
                raise InvalidSettingError(f"[{where}] {name} is {value!r}", hint="It is a table.")
            value = _read(TABLES[name], value, f"{where}.{name}")
        given[name] = convert_value(value, hints[name])
    return kind(**given)


# -- checks ----------------------------------------------------------------------------------------


def check_name(name: str, known: typing.Sequence[str], where: str) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Valid names: {', '.join(known)}."
        if name in OTHER_TOOLS:
            hint = f"Use {OTHER_TOOLS[name]}."
        raise InvalidSettingError(f"{where} has no setting {name!r}", hint=hint)


def check_fields(config: Any, where: str = "") -> None:
    """Refuse values that the annotations of a dataclass do not allow."""
    for name, hint in _hints(type(config)).items():
        value = getattr(config, name)
        if name == "precision":
            hint = Literal["auto", *typing.get_args(Precision)]
        check_value(value, hint, f"{where}{name}")


def check_value(value: Any, hint: Any, name: str) -> None:
    """Refuse a value that an annotation does not allow."""
    if not _fits(value, hint):
        must = f"It must be {_describe(hint)}."
        if value == "fp64":
            must += " Convert the model instead: model.double() trains in fp64."
        raise InvalidSettingError(f"{name} is {value!r}"[:300], hint=must)


def convert_value(value: Any, hint: Any) -> Any:
    """What TOML has no type for: a tuple, of a list or of a single text; a float of an integer."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, str) and typing.get_origin(hint) is tuple:
        return (value,)
    return float(value) if hint is float and type(value) is int else value


def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _fits(value: Any, hint: Any) -> bool:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _fits(value, args[0]) and args[1].holds(value)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in args)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in args)
    if origin is Mapping:
        return isinstance(value, Mapping)
    if origin is tuple:
        if not isinstance(value, tuple) or (args[-1] is not ... and len(value) != len(args)):
            return False
        return all(_fits(one, args[0]) for one in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return type(value) is int
    return isinstance(value, hint)


def _describe(hint: Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return f"{_describe(args[0])} {args[1].describe()}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(one) for one in args)
    if origin is Literal:
        return ", ".join(map(str, args))
    if origin is tuple:
        count = "a list of" if args[-1] is ... else f"{len(args)} values, each"
        return f"{count} {_describe(args[0])}"
    if origin is Mapping:
        return "a table"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return words.get(hint, f"a {getattr(hint, '__name__', hint)}")


def _check_together(config: TrainConfig) -> None:
    if config.memory_gb and config.memory_fraction:
        raise InvalidSettingError(
            "memory_gb and memory_fraction are both set", hint="Set one of them."
        )
    if config.strategy == "fsdp" and config.shares == "measured":
        raise InvalidSettingError(
            'shares = "measured" needs ddp: with fsdp processes wait for each other in every layer',
            hint='Set strategy = "ddp".',
        )


# -- where it trains -------------------------------------------------------------------------------

_WORKLOAD = Workload(
    name="training",
    libraries=("torch",),
    precisions=("bf16", "fp16", "tf32", "fp32"),
    training=True,
)


def training_workload(precision: str = "auto") -> Workload:
    """What training needs of a device; fp8 is only used where it is asked for by name."""
    if precision != "fp8":
        return _WORKLOAD
    return dataclasses.replace(_WORKLOAD, precisions=("fp8", *_WORKLOAD.precisions))


def _build_placement_options(config: TrainConfig, num_sharing: int) -> PlacementOptions:
    return PlacementOptions(
        precision=config.precision,
        memory_gb=config.memory_gb or None,
        memory_fraction=config.memory_fraction or None,
        workers_per_device=num_sharing,
    )


def choose_placement(
    config: TrainConfig,
    device: str | None = None,
    *,
    devices: typing.Sequence[int | str] = (),
    local_rank: int = 0,
    num_processes: int = 1,
    environment: Mapping[str, str] | None = None,
    machine: Machine | None = None,
) -> Placement:
    """The best device, or the one that was asked for; for several processes one for each.

    A kind of device (`gpu`, `cuda`) that is not there is the CPU with a warning. One device that is
    not there, or that no backend can use, is an error.

    Args:
        config: precision and memory.
        device: a selector such as `cuda:1`, `cpu`, or a part of a name.
        devices: one for each process of this machine.
        local_rank: this process' number on its machine.
        num_processes: how many train on this machine.
        environment: the variables that hide and order devices.
        machine: what `discover` found, where it is known already.
    """
    machine = machine or discover(environment)
    if devices and local_rank >= len(devices):
        raise InvalidInputError(
            f"{len(devices)} devices for process {local_rank + 1} of this machine",
            hint="Name a device for each process, or start fewer.",
        )
    word = str(devices[local_rank]) if devices else device or None
    requests = [DeviceRequest(word, "flag")] if word else []
    particular = word is not None and not parse_kind(word)
    choice = choose_device(machine, requests, strict=particular)
    num_sharing = devices.count(devices[local_rank]) if devices else num_processes
    if num_processes > 1 and not particular:
        others = choose_devices(machine, choice)
        choice = dataclasses.replace(choice, devices=(others[local_rank % len(others)],))
        num_sharing = -(-num_processes // len(others))
    options = _build_placement_options(config, num_sharing)
    found = plan_placement(machine, choice, training_workload(config.precision), options)
    for warning in (*choice.warnings, *found.warnings) if local_rank == 0 else ():
        log.warning("%s", warning)
    return found.placements[0]


def choose_devices(
    machine: Machine, choice: DeviceChoice, count: int | None = None, option: str = "devices"
) -> list[Device]:
    """The device of each process, all of one kind; only a CPU is shared.

    Args:
        machine: where they train.
        choice: of the device that was asked for; a single GPU stands for all of its vendor.
        count: of the processes; None is one for each device.
        option: that asks for so many.
    """
    first = choice.device
    found = [one for one in choice.devices if one.kind == first.kind]
    if first.kind == "gpu" and len(choice.devices) == 1:
        others = [one for one in machine.gpus if one.usable and one.vendor == first.vendor]
        found = [first, *(one for one in others if one.id != first.id)]
    if count is None:
        return found
    if first.kind == "gpu" and count > len(found):
        names = ", ".join(one.name for one in found)
        raise DeviceUnusableError(
            f"{count} processes were requested, but this machine has "
            f"{pluralize(len(found), 'device')} for them: {names}",
            hint=Message(
                "Pass {count} or {device}.",
                count=OptionRef(option, str(len(found))),
                device=OptionRef("device", "cpu"),
            ),
        )
    check_num_processes(machine, option, count)
    return [found[number % len(found)] for number in range(count)]
