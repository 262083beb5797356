"""The device for a command that computes: asked for once, measured once, then simply used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from anyrig.cli.ask import ask_device as ask
from anyrig.cli.ask import can_ask as can_ask
from anyrig.cli.ask import confirm as agreed
from anyrig.cli.context import Context
from anyrig.devices.choose import DeviceChoice
from anyrig.devices.machine import Device

__all__ = ["agreed", "can_ask", "pick", "remember"]

if TYPE_CHECKING:
    pass


def pick(context: Context) -> DeviceChoice:
    """What a computing command uses. Asks on a terminal when several GPUs could serve and none is
    saved; measures a device that has no measurements yet.
    """
    several = sum(gpu.usable for gpu in context.machine.gpus) > 1
    attended = not getattr(context.options, "unattended", False)
    if several and not context.wishes and attended and can_ask():
        word = ask(context.machine, context.evidence)
        if word is not None:
            device = context.machine.find(word)
            remember(context, word, device.name if device else word)
    choice = context.choose()
    if context.measures and choice.selector != "all":
        measure_first_use(context, choice.device)
    return choice


def remember(context: Context, word: str, name: str) -> None:
    """Save a choice and let this command see it."""
    from anyrig.settings.saved_device import SavedDevice, save_device

    choice = SavedDevice(word, name)
    save_device(context.folders.saved_device, choice)
    context.saved = choice


def measure_first_use(context: Context, device: Device) -> None:
    """Measure a device that has no measurements with its current driver: a few seconds, once."""
    known = context.measurements.find(device, context.machine)
    if known and known.measurements:
        return
    from anyrig.app.bench import measure_devices
    from anyrig.app.rig import Rig
    from anyrig.cli.output import PlainEventPrinter

    print(f"Measuring {device.name}, once (--no-bench leaves it out) ...", file=sys.stderr)
    with PlainEventPrinter() as printer:
        config = getattr(context.options, "config", None)
        rig = Rig(config=config, environment=context.environment, on_event=printer)
        rig.machine = context.machine
        measure_devices(rig, [device], printer, quick=True)
    context.measurements = rig.measurements
