"""What is good, doubtful or broken on a machine, each with the command that mends it.

Checks are pure functions of a `Machine` and of what child processes answered (`Probe`); they live
in `checks/`, one file per theme. This file names their shapes and runs them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from anyrig.devices.describe import Device, Machine
from anyrig.devices.words import number_text

State = Literal["good", "warning", "broken"]


@dataclass(frozen=True)
class Finding:
    """What one check saw."""

    check: str
    state: State
    message: str
    fix: str = ""
    """A command to type, or where to read on."""
    device: str = ""
    """The id of the device it is about."""


@dataclass(frozen=True)
class Probe:
    """What a child process answered after running a kernel on a device."""

    backend: str
    device: str
    ok: bool
    error: str = ""
    """Why the kernel did not run, in the library's own words."""
    max_error: float | None = None
    """Largest difference to the CPU's result, relative to its largest value."""
    finite: bool = True
    """Whether the device's result was made of finite numbers."""
    ran_on: str = ""
    """Where the library says the work really happened."""
    kernels: tuple[str, ...] = ()
    """What the library itself lists: sm_ or gfx names."""
    seconds: float = 0.0
    provider: str = ""
    """What the backend calls the way it took: `cuda`, `DmlExecutionProvider`."""


Check = Callable[[Machine, Sequence[Probe]], Iterable[Finding]]


def diagnose(machine: Machine, probes: Iterable[Probe] = ()) -> tuple[Finding, ...]:
    """Every check's findings, in the order a person would look."""
    from anyrig.devices.checks import CHECKS, EXPLAINS, usable

    answers = tuple(probes)
    found = [finding for check in CHECKS for finding in check(machine, answers)]
    if not any(finding.state == "broken" and finding.check in EXPLAINS for finding in found):
        found += usable(machine, answers)
    return tuple(found)


def listed_kernels(machine: Machine, probes: Sequence[Probe], device: Device) -> tuple[str, ...]:
    """The machine code in torch: what it lists itself, else what the table of wheels says."""
    told = [
        p.kernels for p in probes if p.backend == "torch" and p.device == device.id and p.kernels
    ]
    return told[0] if told else tuple(machine.facts.get("torch_kernels", "").split())


def torch_fix(machine: Machine, device: Device) -> str:
    """The command that brings a torch built for a device, if there is one."""
    from anyrig.devices import reach

    flavour = machine.facts.get("torch_flavour", "") if "torch" in machine.packages else None
    driver = machine.facts.get("cuda_driver", "")
    return reach.torch_fix(device, reach.TorchHost(machine.platform, driver, flavour))


def severity(machine: Machine) -> State:
    """How bad a fault of one GPU is: none of anybody's trouble beside another that works."""
    return "warning" if any(gpu.usable for gpu in machine.gpus) else "broken"


def join_fix(machine: Machine, group: str) -> str:
    """How a user gets at a device file of a group, which may be a bare number."""
    if machine.platform.container:
        return f"docker run --group-add {group or 'render'} ..."
    if not group or group.isdigit():
        group = "render"
    return f"sudo usermod -aG {group} $USER && newgrp {group}"


def of(device: Device) -> str:
    """A device's name with its number, as findings print it."""
    if device.kind == "cpu":
        return "the CPU"
    return f"GPU {number_text(device)} ({device.name})"
