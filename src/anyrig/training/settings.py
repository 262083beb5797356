"""How a model is trained: every field typed, explained, and refused when it makes no sense.

`Settings.of` reads the `[train]` table of a TOML file; an unknown key is an error with the nearest
known name.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from anyrig.devices.machine import parse_precision
from anyrig.errors import InvalidSettingError
from anyrig.precision.policy import FallbackSettings
from anyrig.precision.scaler import ScalerSettings
from anyrig.training.checks import RENAMED, check, renamed

Recompute = Literal["none", "blocks", "selective"]
Strategy = Literal["auto", "ddp", "fsdp"]
Schedule = Literal["constant", "linear", "cosine", "trapezoid"]
Optimiser = Literal["adamw", "adam", "sgd", "momentum", "lion", "adafactor"]
Auto = Literal["auto"]


@dataclass(frozen=True)
class Loading:
    """How data comes in. `auto` is measured; a value wins."""

    num_workers: int | Auto = "auto"
    """Processes that read; 0 reads in the main one."""
    pin_memory: bool | Auto = "auto"
    """Batches lie in memory that a GPU can fetch by itself."""
    prefetch_factor: int | Auto = "auto"
    """Batches that each worker makes ahead."""
    persistent_workers: bool | Auto = "auto"
    """Workers stay from one epoch to the next."""


@dataclass(frozen=True)
class Keeping:
    """Which checkpoints are written and which stay."""

    every_steps: int = 0
    """Steps between two; 0 leaves it to `every_s`."""
    every_s: float = 300.0
    """Seconds between two; 0 leaves it to `every_steps`."""
    last: int = 2
    """How many of the newest stay."""
    every_kept: int = 0
    """Those whose step is a multiple of this stay for good; 0 keeps none so."""
    best: int = 1
    """How many of those with the lowest validation loss stay."""
    asynchronous: bool = True
    """Written by a thread while training goes on, from a copy in the host's memory."""


@dataclass(frozen=True)
class Settings:
    """A training run."""

    # How long, and in what portions.
    batch: int = 32
    """Items in a step over all processes; accumulation keeps it whatever fits at once."""
    micro_batch: int | Auto = "auto"
    """Items computed at once by a process; `auto` fits them to the memory."""
    steps: int = 0
    """Steps of the optimiser; 0 runs `epochs`."""
    epochs: int = 1
    """Times through the data, where `steps` is 0."""
    seed: int = 0
    """Of the order of the data and of all that is drawn at random."""
    shuffle: bool = True
    """Another order in every epoch."""
    drop_last: bool = True
    """Leave out an epoch's last, smaller batch."""

    # The optimiser.
    learning_rate: float = 3e-4
    """The highest one; `schedule` says how it rises and falls."""
    schedule: Schedule = "cosine"
    """constant, linear, cosine, or trapezoid: flat, then linear over the last fifth."""
    warmup: float = 0.02
    """Steps of warm-up: a share of the run below 1, a number of steps from 1 on."""
    final_rate: float = 0.1
    """What the rate falls to, as a share of its peak."""
    weight_decay: float = 0.01
    """Of matrices; biases, norms and other vectors have none."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Of adamw, adam and lion."""
    momentum: float = 0.9
    """Of the optimiser `momentum`."""
    max_norm: float = 1.0
    """Gradients are clipped to this norm; 0 leaves them."""
    guard: bool = True
    """Skip steps whose gradients are not finite, in every precision."""

    # Precisions.
    precision: str = "auto"
    """auto, fp32, tf32, bf16, fp16 or fp8; fp8 is for linear layers, the rest is in bf16."""
    dynamic: bool = True
    """Leave fp16 for a safer format when it keeps overflowing."""
    half_weights: bool = False
    """Compute with weights and activations in bf16 and keep fp32 masters for the optimiser."""
    scaler: ScalerSettings = field(default_factory=ScalerSettings)
    """How the loss is scaled in fp16."""
    moving: FallbackSettings = field(default_factory=FallbackSettings)
    """When fp16 is left."""

    # Memory.
    memory_gb: float = 0.0
    """Take no more of a device than this many GiB; 0 leaves it to `memory_fraction`."""
    memory_fraction: float = 0.0
    """Or this share of it; 0 leaves it to the profile."""
    recompute: Recompute = "none"
    """Activations are computed again in backward: of whole blocks, or of cheap operations."""
    recompute_types: tuple[str, ...] = ()
    """Class names of the blocks; found by themselves when empty."""
    offload_optimizer: bool = False
    """Keep the optimiser's state in the host's memory."""
    offload_activations: bool = False
    """Keep activations in the host's memory until the backward pass wants them."""
    loss_chunks: int | Auto = "auto"
    """Pieces in which a language model's logits and loss are computed; 1 computes them at once."""

    # Speed.
    compile: bool | Auto = "auto"
    """torch.compile, with a fall-back that says why; `auto` where a GPU gains from it."""
    cuda_graphs: bool | Auto = "auto"
    """Record a step's kernels and play them back, where shapes are fixed."""
    cudnn_benchmark: bool | Auto = "auto"
    """Let cuDNN try its ways of a convolution; `auto` where shapes are fixed."""
    fused_optimizer: bool | Auto = "auto"
    """One kernel for all weights; `auto` where a small trial of it works."""
    loading: Loading = field(default_factory=Loading)
    """How data comes in."""

    # Several processes.
    strategy: Strategy = "auto"
    """ddp: every process has the whole model; fsdp: a part of it each; `auto` is ddp."""
    shares: Literal["equal", "measured"] = "equal"
    """Items of a step to each process: equal, or by measured speed for unequal devices."""

    # What is kept and shown.
    keeping: Keeping = field(default_factory=Keeping)
    """Which checkpoints are written and which stay."""
    validate_every: int = 0
    """Steps between two measurements on the validation data; 0 measures at the end of an epoch."""
    log_every: int = 1
    """Steps between two lines of the log."""
    tensorboard: bool = False
    """Write TensorBoard's files into the run's folder."""
    prometheus: bool = False
    """Write the figures to `metrics.prom` in the run's folder, for a node exporter's text files."""
    name_nonfinite: bool = True
    """Name the module when something is not finite, by running its batch again with hooks."""

    def __post_init__(self) -> None:
        precision = parse_precision(self.precision) or self.precision
        object.__setattr__(self, "precision", precision)
        check(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Settings:
        """Settings from a parsed TOML table."""
        found: Settings = _read(cls, values, "train")
        return found


def _accept_other_spellings(kind: type[Settings]) -> None:
    """`Settings(dtype=torch.float16, offload_optimiser=True)`; old names can be read as well."""
    plain = kind.__init__

    @functools.wraps(plain)
    def initialise(self: Settings, *args: Any, **values: Any) -> None:
        plain(self, *args, **renamed(values))

    kind.__init__ = initialise  # type: ignore[method-assign]
    for other, usual in RENAMED.items():
        if usual in {one.name for one in dataclasses.fields(kind)}:
            setattr(kind, other, property(operator.attrgetter(usual)))


_accept_other_spellings(Settings)
TABLES = {"scaler": ScalerSettings, "moving": FallbackSettings, "loading": Loading,
           "keeping": Keeping}  # fmt: skip


def _read(kind: type[Any], values: Mapping[str, Any], where: str) -> Any:
    if kind is Settings:
        values = renamed(values)
    known = {one.name: one for one in dataclasses.fields(kind)}
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(known)}."
            raise InvalidSettingError(f"[{where}] has no setting {name!r}", hint=hint)
        if name in TABLES and kind is Settings:
            if not isinstance(value, Mapping):
                raise InvalidSettingError(f"[{where}] {name} is {value!r}", hint="It is a table.")
            value = _read(TABLES[name], value, f"{where}.{name}")
        elif isinstance(value, list):
            value = tuple(value)
        given[name] = value
    return kind(**given)
