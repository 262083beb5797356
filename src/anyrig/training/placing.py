"""Where a run trains: a placement from the core, for a person who gave none."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anyrig.devices.choose import DeviceRequest, choose_device, parse_kind
from anyrig.devices.discovery import discover
from anyrig.errors import InvalidInputError
from anyrig.placement import Placement, PlacementOptions, Workload, plan_placement

if TYPE_CHECKING:
    from anyrig.devices.machine import Machine
    from anyrig.training.settings import Settings

log = logging.getLogger(__name__)
NEED = Workload(
    name="training",
    libraries=("torch",),
    precisions=("bf16", "fp16", "tf32", "fp32"),
    training=True,
)


def need(precision: str = "auto") -> Workload:
    """What training asks for; fp8 is only taken when it is asked for by name."""
    if precision != "fp8":
        return NEED
    return Workload(NEED.name, NEED.libraries, ("fp8", *NEED.precisions), training=True)


def wanted(settings: Settings) -> PlacementOptions:
    """What the settings ask of a placement."""
    # Weights in bf16 meet activations in bf16, whatever would be quicker without them.
    half = settings.half_weights and settings.precision == "auto"
    return PlacementOptions(
        precision="bf16" if half else settings.precision,
        memory_gb=settings.memory_gb or None,
        memory_fraction=settings.memory_fraction or None,
        workers_per_device=1,
    )


def placed(
    settings: Settings,
    device: str | None = None,
    *,
    device_ids: Sequence[int | str] = (),
    local_rank: int = 0,
    environment: Mapping[str, str] | None = None,
    machine: Machine | None = None,
    strict: bool = False,
) -> Placement:
    """One placement: the best device, or the one that was asked for.

    A kind of device (`gpu`, `cuda`) that is not there is the CPU with a warning. One device that is
    not there, or that nothing can backend, is an error.

    Args:
        settings: precision and memory.
        device: a word such as `cuda:1`, `cpu`, or a part of a name.
        device_ids: devices by number or word, one for each process of this machine.
        local_rank: this process' number on its machine.
        environment: the variables that hide and order devices.
        machine: what `discover` found, where it is known already.
        strict: a kind that is not there, or that cannot be used, is an error too.
    """
    machine = machine or discover(environment)
    word = _own(device_ids, local_rank) if device is None or device == "" else str(device)
    wishes = [DeviceRequest(word, "flag")] if word else []
    particular = word is not None and not parse_kind(word)
    choice = choose_device(machine, wishes, strict=strict or particular)
    for warning in choice.warnings if local_rank == 0 else ():
        log.warning("%s", warning)
    found = plan_placement(machine, choice, need(settings.precision), wanted(settings))
    for warning in found.warnings if local_rank == 0 else ():
        log.warning("%s", warning)
    if word or len(found.placements) == 1 or local_rank == 0:
        return found.placements[0]
    return found.placements[local_rank % len(found.placements)]


def _own(device_ids: Sequence[int | str], local_rank: int) -> str | None:
    """The word for a process' own device."""
    if not device_ids:
        return None
    if local_rank >= len(device_ids):
        raise InvalidInputError(
            f"{len(device_ids)} device_ids for process {local_rank + 1} of this machine",
            hint="Name a device for each process, or start fewer: anyrig train --nproc N.",
        )
    return str(device_ids[local_rank])
