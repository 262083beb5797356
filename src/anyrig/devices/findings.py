"""What a check of the doctor finds, and what child processes report to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from anyrig.devices.machine import Device, Machine
from anyrig.devices.reasons import DeviceReason

State = Literal["good", "warning", "broken"]


@dataclass(frozen=True)
class Finding:
    check: str
    state: State
    message: str
    fix: str = ""
    """A command, or where to read on."""
    device: str = ""
    """The id of the device it is about."""


@dataclass(frozen=True)
class KernelResult:
    """What a child process reported after running a kernel on a device."""

    backend: str
    device: str
    ok: bool
    error: str = ""
    """Why the kernel did not run, in the library's own words."""
    max_error: float | None = None
    """Largest difference to the CPU's result, relative to its largest value."""
    finite: bool = True
    """Whether the result has finite numbers only."""
    ran_on: str = ""
    """Where the library says that it ran."""
    kernels: tuple[str, ...] = ()
    """What the library itself lists: sm_ or gfx names."""
    seconds: float = 0.0
    provider: str = ""
    """The backend's name for its way to the device: `cuda`, `DmlExecutionProvider`."""


Findings = Iterator[Finding]


def _finding(state: State, message: str, fix: str = "", device: Device | None = None) -> Finding:
    return Finding("", state, message, fix, device.id if device else "")


good, warning, broken = (partial(_finding, state) for state in get_args(State))


def unusable(machine: Machine, reason: DeviceReason) -> Finding:
    """A GPU that cannot be used is broken; beside another that works it is a warning."""
    make = warning if any(gpu.usable for gpu in machine.gpus) else broken
    return make(reason.message, reason.fix)


def title_of(device: Device) -> str:
    """`GPU 0 (NVIDIA H200)`."""
    if device.kind == "cpu":
        return "the CPU"
    return f"GPU {device.number_text} ({device.name})"


def check_access(machine: Machine, blocks: list[DeviceReason], paths: tuple[str, ...]) -> Findings:
    """This user may open the device files of a vendor's GPUs."""
    for block in blocks:
        yield unusable(machine, block)
    if not blocks:
        yield good(f"{' and '.join(paths)}: accessible")
