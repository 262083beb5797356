"""The `Rig` of a command, as its common flags and the terminal want it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from anyrig.app.compute import DeviceOptions
from anyrig.app.events import OnEvent
from anyrig.app.rig import Rig
from anyrig.app.settings import WARNED_VARIABLE
from anyrig.cli import log
from anyrig.cli.ask import ask_device, can_ask
from anyrig.cli.output import EventPrinter

DEVICE_FLAGS = ("device", "strict", "no_bench")


def open_rig(
    arguments: argparse.Namespace, on_event: OnEvent | None = None, *, ask: bool = True
) -> Rig:
    """Set up the log, load the settings and report what is wrong with them.

    Args:
        arguments: of the command.
        on_event: shows events in another way.
        ask: whether somebody at a terminal may be asked which GPU to use.
    """
    log_file = getattr(arguments, "log_file", None) or ""
    log.configure(getattr(arguments, "verbose", 0), log_file)
    machine = getattr(arguments, "machine", None)
    rig = Rig(
        config=getattr(arguments, "config", None),
        machine=Path(machine) if machine else None,
        on_event=on_event or EventPrinter(),
        ask_device=_ask_device if ask and can_ask() else None,
    )
    if rig.settings.log_file and not log_file:
        log.configure(getattr(arguments, "verbose", 0), rig.settings.log_file)
    if not rig.environment.get(WARNED_VARIABLE):
        for warning in rig.loaded_settings.warnings:
            rig.warn(warning)
        rig.environment[WARNED_VARIABLE] = "1"
    return rig


def read_device_options(rig: Rig, arguments: argparse.Namespace) -> DeviceOptions:
    return rig.request(DeviceOptions, **read_device_flags(arguments))


def read_device_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """The flags of every command that say something about the device, if they were given."""
    return {name: value for name in DEVICE_FLAGS if (value := getattr(arguments, name, None))}


def _ask_device(rig: Rig) -> str | None:
    return ask_device(rig.machine, rig.evidence)
