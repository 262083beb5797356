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
    """Processes that read data; 0 reads in the main process."""
    pin_memory: bool | Auto = "auto"
    """Put batches into pinned memory."""
    prefetch_factor: int | Auto = "auto"
    """Batches that each worker prepares in advance."""
    persistent_workers: bool | Auto = "auto"
    """Keep workers between epochs."""


@dataclass(frozen=True)
class Keeping:
    """Which checkpoints are written and which stay."""

    every_steps: int = 0
    """Steps between checkpoints; 0: by `every_s`."""
    every_s: float = 300.0
    """Seconds between checkpoints; 0: by `every_steps`."""
    last: int = 2
    """Number of newest checkpoints to keep."""
    every_kept: int = 0
    """Also keep those whose step is a multiple of this; 0 keeps none."""
    best: int = 1
    """Number of checkpoints with the lowest validation loss to keep."""
    asynchronous: bool = True
    """Write in a thread, from a copy in host memory, while training continues."""


@dataclass(frozen=True)
class Settings:
    """A training run."""

    # How long, and in what portions.
    batch: int = 32
    """Items per optimizer step over all processes; gradients are accumulated to reach it."""
    micro_batch: int | Auto = "auto"
    """Items per forward pass of a process; `auto` finds a size that fits the memory."""
    steps: int = 0
    """Optimizer steps; 0: by `epochs`."""
    epochs: int = 1
    """Passes over the data, if `steps` is 0."""
    seed: int = 0
    """Random seed of the data order and everything else."""
    shuffle: bool = True
    """Shuffle the data in every epoch."""
    drop_last: bool = True
    """Drop the last, smaller batch of an epoch."""

    # The optimiser.
    learning_rate: float = 3e-4
    """Peak learning rate; see `schedule`."""
    schedule: Schedule = "cosine"
    """constant, linear, cosine, or trapezoid (constant, then linear over the last fifth)."""
    warmup: float = 0.02
    """Warm-up: a fraction of the run if below 1, else a number of steps."""
    final_rate: float = 0.1
    """Final learning rate as a fraction of the peak."""
    weight_decay: float = 0.01
    """Weight decay of matrices; biases, norms and other vectors have none."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Betas of adamw, adam and lion."""
    momentum: float = 0.9
    """Momentum of the optimizer `momentum`."""
    max_norm: float = 1.0
    """Clip gradients to this norm; 0: no clipping."""
    guard: bool = True
    """Skip steps whose gradients are not finite, in every precision."""

    # Precisions.
    precision: str = "auto"
    """auto, fp32, tf32, bf16, fp16, or fp8 (linear layers; the rest is bf16)."""
    dynamic: bool = True
    """Switch from fp16 to a safer format if it keeps overflowing."""
    half_weights: bool = False
    """Weights and activations in bf16, with fp32 master weights for the optimizer."""
    scaler: ScalerSettings = field(default_factory=ScalerSettings)
    """Loss scaling in fp16."""
    moving: FallbackSettings = field(default_factory=FallbackSettings)
    """When to switch from fp16."""

    # Memory.
    memory_gb: float = 0.0
    """Use at most this many GiB of a device; 0: by `memory_fraction`."""
    memory_fraction: float = 0.0
    """Use at most this fraction of a device's memory; 0: by the profile."""
    recompute: Recompute = "none"
    """Recompute activations in the backward pass: of whole `blocks`, or `selective`."""
    recompute_types: tuple[str, ...] = ()
    """Class names of the blocks; detected if empty."""
    offload_optimizer: bool = False
    """Keep optimizer state in host memory."""
    offload_activations: bool = False
    """Keep activations in host memory until the backward pass."""
    loss_chunks: int | Auto = "auto"
    """Compute a language model's logits and loss in this many chunks."""

    # Speed.
    compile: bool | Auto = "auto"
    """Use torch.compile, or eager mode if that fails; `auto`: where a GPU gains from it."""
    cuda_graphs: bool | Auto = "auto"
    """Replay steps as CUDA graphs, where shapes are fixed."""
    cudnn_benchmark: bool | Auto = "auto"
    """Let cuDNN benchmark its algorithms; `auto`: where shapes are fixed."""
    fused_optimizer: bool | Auto = "auto"
    """Use torch's fused optimizer; `auto`: if a small test of it succeeds."""
    loading: Loading = field(default_factory=Loading)
    """Data loading."""

    # Several processes.
    strategy: Strategy = "auto"
    """`ddp`: each process has the whole model; `fsdp`: a shard of it; `auto` is `ddp`."""
    shares: Literal["equal", "measured"] = "equal"
    """Items per process: `equal`, or by `measured` speed, for unequal devices."""

    # What is kept and shown.
    keeping: Keeping = field(default_factory=Keeping)
    """Which checkpoints are written and kept."""
    validate_every: int = 0
    """Steps between validations; 0: at the end of each epoch."""
    log_every: int = 1
    """Steps between log lines."""
    tensorboard: bool = False
    """Write TensorBoard files to the run's folder."""
    prometheus: bool = False
    """Write `metrics.prom` to the run's folder, for a node exporter's textfile collector."""
    name_nonfinite: bool = True
    """If a value is not finite, run its batch again with hooks to name the module."""

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
            hint = f"Did you mean {near[0]!r}?" if near else f"Valid names: {', '.join(known)}."
            raise InvalidSettingError(f"[{where}] has no setting {name!r}", hint=hint)
        if name in TABLES and kind is Settings:
            if not isinstance(value, Mapping):
                raise InvalidSettingError(f"[{where}] {name} is {value!r}", hint="It is a table.")
            value = _read(TABLES[name], value, f"{where}.{name}")
        elif isinstance(value, list):
            value = tuple(value)
        given[name] = value
    return kind(**given)
