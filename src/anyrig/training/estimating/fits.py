"""Which devices of a machine an estimate fits, and up to which micro batch. Nothing is run.

A step needs more of a device than its tensors: the driver's context, and what the caching allocator
keeps between them. Both are added here; a measurement (`profile`, `micro_batch="auto"`) decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anyrig.devices.machine import Device, Machine
from anyrig.devices.vendors import vendor_of
from anyrig.errors import InvalidInputError
from anyrig.training.estimating.estimate import Estimate
from anyrig.units import GIB, MIB, format_bytes

# A CUDA context with torch's kernels loaded takes 300-600 MiB; others have been seen near it.
_CONTEXT_BYTES = 512 * MIB
# A process with torch loaded, a tiny model trained in it: 331 MiB seen on Linux.
_PROCESS_BYTES = 320 * MIB
# What the allocator keeps beside live tensors.
_SPARE = 1.05


class Fitting(NamedTuple):
    """An estimate beside one device."""

    device: Device
    needed_bytes: int
    """What the step takes of the device, with context and spare."""
    existing_bytes: int | None
    """What is free there, or all of it where nobody tells what is free."""
    fits: bool | None
    """None where the device does not tell its memory."""
    largest: int | None
    """The largest micro batch on a line through two estimates; None where it takes two."""
    reason: str


def fits(
    estimates: Estimate | Sequence[Estimate],
    machine: Machine,
    *,
    gib: float = 0.0,
    fraction: float = 0.0,
) -> tuple[Fitting, ...]:
    """Every device of a machine beside what a step is estimated to take.

    Args:
        estimates: one, or two and more of the same step at several micro batches. The largest
            micro batch is asked for; those made for another type of device count where a device
            has none of its own.
        machine: what `discover` found.
        gib: no more of a device may be taken; 0 for all that is free.
        fraction: or no more than this share of it.
    """
    given = [estimates] if isinstance(estimates, Estimate) else list(estimates)
    if not given:
        raise InvalidInputError("no estimate to compare devices with", hint="Pass at least one.")
    return tuple(
        _fitting(device, given, _held(device, gib, fraction)) for device in machine.devices
    )


def _held(device: Device, gib: float, fraction: float) -> int | None:
    """What may be taken of a device at most; None where nothing was said."""
    if gib:
        return int(gib * GIB)
    total = device.memory.total_bytes
    return int(total * fraction) if fraction and total is not None else None


def rows(fittings: Sequence[Fitting]) -> list[list[str]]:
    """A table for people, head first."""
    head = ["device", "memory", "needed", "fits", "largest micro batch", ""]
    return [head, *(_row(one) for one in fittings)]


def largest_batch(estimates: Sequence[Estimate], existing_bytes: int, context_bytes: int) -> int:
    """How many items fit on the line through the smallest and the largest estimate; 0 for none."""
    ordered = sorted(estimates, key=lambda one: one.micro_batch)
    low, high = ordered[0], ordered[-1]
    if low.micro_batch == high.micro_batch:
        raise InvalidInputError("one micro batch makes no line", hint="Estimate it at two sizes.")
    slope = (high.peak - low.peak) / (high.micro_batch - low.micro_batch)
    room = (existing_bytes - context_bytes) / _SPARE
    if slope <= 0:  # so small that the optimiser's own peak hides it
        return high.micro_batch if room >= high.peak else 0
    return max(0, int(low.micro_batch + (room - low.peak) / slope))


def _fitting(device: Device, estimates: Sequence[Estimate], held: int | None) -> Fitting:
    kind = _type(device)
    own = [one for one in estimates if one.device_type == kind] or list(estimates)
    asked = max(own, key=lambda one: one.micro_batch)
    context = _CONTEXT_BYTES if device.kind == "gpu" else _PROCESS_BYTES
    needed = int(asked.peak * _SPARE) + context
    free, total = device.memory.free_bytes, device.memory.total_bytes
    there = free if free is not None else total
    if held is not None:
        there = held if there is None else min(there, held)
    fit = None if there is None else needed <= there
    largest = None
    if there is not None and len({one.micro_batch for one in own}) > 1:
        largest = largest_batch(own, there, context)
    return Fitting(device, needed, there, fit, largest, _reason(device, asked, fit, kind))


def _type(device: Device) -> str:
    """torch's word for a device; that of its maker where torch does not drive it now."""
    for backend in device.backends:
        if backend.library == "torch":
            return backend.provider.partition(":")[0]
    if device.kind == "cpu":
        return "cpu"
    return vendor_of(device).torch_device.partition(":")[0] or "cuda"


def _reason(device: Device, asked: Estimate, fit: bool | None, kind: str) -> str:
    words = []
    if fit is None:
        words.append("it does not tell its memory")
    if reason := device.block_reason:
        words.append(f"not usable now: {reason}")
    if asked.device_type != kind:
        words.append(f"counted by {asked.device_type}'s rules")
    return "; ".join(words)


def _row(one: Fitting) -> list[str]:
    memory = format_bytes(one.existing_bytes) if one.existing_bytes is not None else "unknown"
    answer = {True: "yes", False: "no", None: "unknown"}[one.fits]
    largest = "-" if one.largest is None else str(one.largest) if one.largest else "none"
    return [one.device.name, memory, format_bytes(one.needed_bytes), answer, largest, one.reason]
