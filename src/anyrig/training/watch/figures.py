"""What is kept of a training run: figures of steps, validations, events. Values and arithmetic.

`summarise` makes one `Figures` of the steps between two lines of the log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.backends.memory import MemoryUsage

if TYPE_CHECKING:
    from anyrig.training.protocol import Phase


@dataclass(frozen=True)
class Figures:
    """The steps since the last line of the log, up to `step`; one step where every one is logged.

    Times and rates are a step's own: validation and checkpoints are in `elapsed_s` alone. `None`
    is what nobody could tell.
    """

    step: int
    epoch: int
    """As the loop counts it, from 0."""
    loss: float
    """The mean over the units of all processes, without those of skipped steps."""
    rate: float
    """Learning rate."""
    step_s: float
    """Mean time of a step."""
    phases: Mapping[str, float]
    """Mean seconds of each phase in a step."""
    samples: int
    """Of all processes in these steps."""
    units: int
    samples_per_s: float | None
    units_per_s: float | None
    epoch_s: float
    """Since this epoch began, by the host's clock."""
    elapsed_s: float
    """Since the run began, what came before a resume included."""
    time_s: float
    """Seconds since 1970."""
    precision: str
    micro_batch: int
    num_micro: int
    num_steps: int = 1
    """How many steps are in here."""
    eta_s: float | None = None
    """Until the last step, at the pace of this run so far, validation and checkpoints included."""
    grad_norm: float | None = None
    """The largest before clipping."""
    scale: float = 1.0
    num_skipped: int = 0
    """Of these steps."""
    total_skipped: int = 0
    """Of the whole run."""
    num_retries: int = 0
    """How often memory ran out in these steps."""
    total_retries: int = 0
    mfu: float | None = None
    """Useful FLOPs a second of this process as a share of its device's measured peak."""
    memory_allocated_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_peak_bytes: int | None = None
    memory_total_bytes: int | None = None
    device_temperature_c: float | None = None
    device_utilisation: float | None = None
    """Share of the time in which the device computed, from 0 to 1."""
    device_power_w: float | None = None

    def plain(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Figures:
        """From plain data; what a newer version added is left out."""
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})


@dataclass(frozen=True)
class Validation:
    """What the model did on data that it did not learn from."""

    step: int
    figures: Mapping[str, float]
    elapsed_s: float
    time_s: float


@dataclass(frozen=True)
class RunEvent:
    """Something that a person should know."""

    kind: str
    text: str
    step: int
    """The last step before it."""
    elapsed_s: float
    time_s: float
    facts: Mapping[str, Any] = field(default_factory=dict)


class Counted(NamedTuple):
    """One step with its tensors read."""

    number: int
    epoch: int
    loss: float
    units: int
    """Of all processes."""
    samples: int
    own_samples: int
    """Of this process."""
    rate: float
    micro_batch: int
    num_micro: int
    precision: str
    skipped: bool
    grad_norm: float | None
    scale: float
    num_retries: int
    step_s: float
    phases: Mapping[Phase, float]
    elapsed_s: float
    epoch_s: float
    time_s: float


class Around(NamedTuple):
    """What is known beside the steps when a line of the log is made."""

    flops_per_sample: float | None = None
    peak_flops: float | None = None
    memory: MemoryUsage | None = None
    temperature_c: float | None = None
    utilisation: float | None = None
    power_w: float | None = None
    total_skipped: int = 0
    total_retries: int = 0
    eta_s: float | None = None


def summarise(steps: Sequence[Counted], around: Around) -> Figures:
    """One line of the log out of at least one step."""
    last = steps[-1]
    seconds = sum(one.step_s for one in steps)
    samples, units = sum(one.samples for one in steps), sum(one.units for one in steps)
    memory = around.memory or MemoryUsage()
    return Figures(
        step=last.number,
        epoch=last.epoch,
        loss=mean_loss(steps),
        rate=last.rate,
        step_s=seconds / len(steps),
        phases=mean_phases(steps),
        samples=samples,
        units=units,
        samples_per_s=samples / seconds if seconds > 0 else None,
        units_per_s=units / seconds if seconds > 0 else None,
        epoch_s=last.epoch_s,
        elapsed_s=last.elapsed_s,
        time_s=last.time_s,
        precision=last.precision,
        micro_batch=last.micro_batch,
        num_micro=last.num_micro,
        num_steps=len(steps),
        eta_s=around.eta_s,
        grad_norm=largest(one.grad_norm for one in steps),
        scale=last.scale,
        num_skipped=sum(one.skipped for one in steps),
        total_skipped=around.total_skipped,
        num_retries=sum(one.num_retries for one in steps),
        total_retries=around.total_retries,
        mfu=mfu(around.flops_per_sample, sum(one.own_samples for one in steps), seconds,
                around.peak_flops),
        memory_allocated_bytes=memory.allocated_bytes,
        memory_reserved_bytes=memory.reserved_bytes,
        memory_peak_bytes=memory.peak_bytes,
        memory_total_bytes=memory.total_bytes,
        device_temperature_c=around.temperature_c,
        device_utilisation=around.utilisation,
        device_power_w=around.power_w,
    )  # fmt: skip


def joined(parts: Sequence[Figures]) -> Figures:
    """Neighbouring figures as one: what is counted is added up, what is a mean stays one."""
    last = parts[-1]
    num = sum(one.num_steps for one in parts)
    seconds = sum(one.step_s * one.num_steps for one in parts)
    samples, units = sum(one.samples for one in parts), sum(one.units for one in parts)
    names = dict.fromkeys(name for one in parts for name in one.phases)
    sums = {n: sum(one.phases.get(n, 0.0) * one.num_steps for one in parts) for n in names}
    shares = [one.mfu * one.step_s * one.num_steps for one in parts if one.mfu is not None]
    return replace(
        last,
        loss=sum(one.loss * one.units for one in parts if one.units) / units
        if units
        else last.loss,
        step_s=seconds / num,
        phases={name: total / num for name, total in sums.items()},
        samples=samples,
        units=units,
        samples_per_s=samples / seconds if seconds > 0 else None,
        units_per_s=units / seconds if seconds > 0 else None,
        num_steps=num,
        grad_norm=largest(one.grad_norm for one in parts),
        num_skipped=sum(one.num_skipped for one in parts),
        num_retries=sum(one.num_retries for one in parts),
        mfu=sum(shares) / seconds if len(shares) == len(parts) and seconds > 0 else None,
        memory_peak_bytes=max(one.memory_peak_bytes or 0 for one in parts) or None,
    )


def mean_loss(steps: Sequence[Counted]) -> float:
    """Over units; skipped steps count only where there is nothing else."""
    counted = [one for one in steps if not one.skipped] or list(steps)
    units = sum(one.units for one in counted)
    if units == 0:
        return math.nan
    # A process without units has no loss: 0 x NaN must not spoil the others'.
    return sum(one.loss * one.units for one in counted if one.units) / units


def mean_phases(steps: Sequence[Counted]) -> dict[str, float]:
    """Seconds of each phase in a step."""
    sums: dict[str, float] = {}
    for one in steps:
        for name, seconds in one.phases.items():
            sums[name] = sums.get(name, 0.0) + seconds
    return {name: seconds / len(steps) for name, seconds in sums.items()}


def largest(norms: Iterable[float | None]) -> float | None:
    """The largest of what is known; one that is not a number beats all."""
    known = [norm for norm in norms if norm is not None]
    if any(math.isnan(norm) for norm in known):
        return math.nan
    return max(known, default=None)


def mfu(
    flops_per_sample: float | None, samples: int, seconds: float, peak_flops: float | None
) -> float | None:
    """Useful FLOPs a second as a share of the device's measured peak; None without one."""
    if flops_per_sample is None or not peak_flops or seconds <= 0:
        return None
    return flops_per_sample * samples / seconds / peak_flops
