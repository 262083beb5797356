"""What a batch takes of memory: a line through a few probes, and how far it may be wrong.

Peak memory is nearly `fixed + slope x batch`. Nearly: an allocator rounds (torch takes 2 MiB and
20 MiB pieces), a kernel's workspace jumps, freed pieces do not fit the next tensor, and with small
batches the optimiser's own peak hides the slope. So a forecast is a range: the steepest reading of
the probes, counting what the allocator keeps, and the flattest one, counting live tensors alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from anyrig.errors import InvalidInputError
from anyrig.units import GIB, format_bytes

if TYPE_CHECKING:
    from anyrig.backends.memory import MemoryUsage
    from anyrig.devices.machine import Precision

# Left free of what a process could have, for whoever else uses the device.
_SHARE = 0.9
_LEAST_GIB = 1 / 1024
# The flattest slope is taken this much flatter still; with a single probe it is a guess.
_FLATTER, _FLATTER_ALONE = 0.95, 0.6
# A peak this close to the budget was pressed down by the allocator: it says nothing of the slope.
_PRESSED = 0.98

OptimiserName = Literal["adamw", "adam", "sgd", "momentum", "lion", "adamw8bit", "none"]
# Bytes a parameter: state that the optimiser keeps.
_STATE: Mapping[OptimiserName, int] = {
    "adamw": 8, "adam": 8, "sgd": 0, "momentum": 4, "lion": 4, "adamw8bit": 2, "none": 0,
}  # fmt: skip
_WEIGHT: Mapping[Precision, int] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


class Point(NamedTuple):
    """What one batch size took at its peak."""

    size: int
    live_bytes: int
    """In live tensors."""
    taken_bytes: int
    """From the driver: live tensors, and what the allocator kept beside them."""


class Outlook(NamedTuple):
    """What probes say of a budget."""

    sure: int
    """The largest size that the steepest reading still puts within the budget."""
    bound: int | None
    """The largest size that the flattest reading leaves possible; None when nothing bounds it."""
    moved_bytes: int
    """What the largest probe added to what rests: a small one says little of large batches."""


class Budget(NamedTuple):
    """How many bytes a process may take of a device."""

    num_bytes: int | None
    """None: nothing is known of the device's memory."""
    reason: str


class TrainingBytes(NamedTuple):
    """An estimate of what training holds beside activations: arithmetic, not a measurement."""

    weights: int
    gradients: int
    state: int
    casts: int
    """The copies that autocast makes of the weights."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


def outlook(
    points: Sequence[Point], budget_bytes: int, *, rest_bytes: int = 0, held: bool = True
) -> Outlook:
    """What the probes say of the budget; at least one of them lies within it.

    Args:
        points: sizes that ran, one point each, within the budget or over it.
        budget_bytes: the most that may be taken.
        rest_bytes: what stays allocated when nothing runs: weights, gradients, optimiser state.
        held: whether the framework is held to the budget. If so it gives kept pieces back before it
            fails, and live tensors decide what is possible; if not, everything taken counts.
    """
    ordered = sorted(points)
    fitting = [point for point in ordered if point.taken_bytes <= budget_bytes]
    base = fitting[-1]
    around = [fitting[-2]] if len(fitting) > 1 else []
    around += [point for point in ordered if point.taken_bytes > budget_bytes][:1]
    taken = _slopes(base, around, rest_bytes, taken=True)
    live = _slopes(base, around, rest_bytes, taken=not held)
    headroom = budget_bytes - base.taken_bytes
    pressed = base.taken_bytes > budget_bytes * _PRESSED
    sure = base.size if pressed or headroom <= 0 else base.size + _more(headroom, max(taken))
    flattest = min(live) * (_FLATTER if around else _FLATTER_ALONE)
    left = budget_bytes - (base.live_bytes if held else base.taken_bytes)
    bound = base.size + _more(left, flattest) if flattest > 0 else None
    return Outlook(sure, bound, max(0, base.taken_bytes - rest_bytes))


def _slopes(
    base: Point, around: Sequence[Point], rest_bytes: int, *, taken: bool
) -> tuple[float, ...]:
    """Bytes an item: from rest to the base, and between the base and its neighbours."""

    def height(point: Point) -> int:
        return point.taken_bytes if taken else point.live_bytes

    between = [(height(base) - height(near)) / (base.size - near.size) for near in around]
    return ((height(base) - rest_bytes) / base.size, *between)


def _more(headroom: float, slope: float) -> int:
    """How many more items fit; a huge number where none takes anything."""
    return int(headroom / slope) if slope > 0 else 1 << 40


def budget(
    memory: MemoryUsage, *, gib: float | None = None, fraction: float | None = None
) -> Budget:
    """What a process may take: what was asked for, but no more than there is.

    Args:
        memory: what the device and this process hold now.
        gib: `--memory-gb`, in GiB, as memory is sold.
        fraction: `--memory-fraction` of the device's whole memory.
    """
    if gib is not None and not _LEAST_GIB <= gib < float("inf"):
        raise InvalidInputError(
            f"--memory-gb {gib:g} leaves no memory", hint="Give a number above 0."
        )
    if fraction is not None and not 0 < fraction <= 1:
        raise InvalidInputError(
            f"--memory-fraction {fraction:g} is not a share of the device's memory",
            hint="Give a number from 0 to 1, such as 0.8.",
        )
    ours = memory.reserved_bytes or memory.allocated_bytes or 0
    there = memory.total_bytes if memory.free_bytes is None else memory.free_bytes + ours
    asked, words = None, ""
    if gib is not None:
        asked, words = int(gib * GIB), f"{gib:g} GiB requested"
    elif fraction is not None and memory.total_bytes is not None:
        asked, words = int(memory.total_bytes * fraction), f"{fraction:g} of the device requested"
    if asked is not None and (there is None or asked <= there):
        return Budget(asked, words)
    if asked is not None and there is not None:
        told = f"{words}, but only {format_bytes(there)} free; {_SHARE:.0%} of that is used"
        return Budget(int(there * _SHARE), told)
    if there is not None:
        return Budget(
            int(there * _SHARE), f"{_SHARE:.0%} of the {format_bytes(there)} that are free"
        )
    return Budget(None, "nobody tells this device's memory: only speed can be watched")


def training_bytes(
    num_parameters: int, precision: Precision, optimiser: OptimiserName = "adamw"
) -> TrainingBytes:
    """What weights, gradients and optimiser hold while training with autocast.

    Arithmetic for placement, before anything is loaded. Activations are not in it, nor the
    framework's own few hundred MiB, so it is a lower end: what a step really takes is measured by
    `fit`. Weights and gradients stay in fp32 under autocast, whatever the precision.
    """
    casts = 0 if precision in ("fp32", "tf32") else num_parameters * _WEIGHT[precision]
    state = num_parameters * _STATE[optimiser]
    return TrainingBytes(num_parameters * 4, num_parameters * 4, state, casts)


def weight_bytes(num_parameters: int, precision: Precision) -> int:
    """What a model's weights hold when it only answers: activations come on top."""
    return num_parameters * _WEIGHT[precision]
