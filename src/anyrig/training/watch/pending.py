"""A step whose tensors are still on their way."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from anyrig.backends.memory import MemoryUsage
from anyrig.training.protocol import StepFacts
from anyrig.training.watch.figures import Counted
from anyrig.training.watch.phases import Reading
from anyrig.training.watch.readback import Arrival


class Pending(NamedTuple):
    """What is known of a step, and what will be."""

    known: Counted
    time: Reading
    arrival: Arrival
    """Loss, skipped, gradient norm; after them the units and samples of all processes."""
    summed: bool
    """Whether the loss is a sum over the units of all processes."""
    memory: MemoryUsage | None


def known_of(facts: StepFacts, elapsed_s: float, epoch_s: float) -> Counted:
    """What needs no reading; the tensors are not held any longer."""
    return Counted(
        number=facts.number,
        epoch=facts.epoch,
        loss=math.nan,
        units=facts.units,
        samples=facts.samples,
        own_samples=facts.samples,
        rate=facts.rate,
        micro_batch=facts.micro_batch,
        num_micro=facts.num_micro,
        precision=facts.precision,
        skipped=False,
        grad_norm=None if facts.grad_norm is None else math.nan,
        scale=facts.scale,
        num_retries=facts.num_retries,
        step_s=0.0,
        phases={},
        elapsed_s=elapsed_s,
        epoch_s=epoch_s,
        time_s=time.time(),
    )


def read(pending: Pending) -> Counted:
    """The whole step; waits where something has not arrived."""
    numbers = pending.arrival.numbers()
    took = pending.time.read()
    known = pending.known
    loss, units, samples = numbers[0], known.units, known.samples
    if pending.summed:
        units, samples = round(numbers[3]), round(numbers[4])
        loss = loss / units if units else math.nan
    return known._replace(
        loss=loss,
        units=units,
        samples=samples,
        skipped=bool(numbers[1]),
        grad_norm=None if known.grad_norm is None else numbers[2],
        step_s=took.step_s,
        phases=took.phases,
    )
