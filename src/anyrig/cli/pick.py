"""The device for a command that computes: asked for once, measured once, then simply used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from anyrig.cli.context import Context
from anyrig.cli.show import memory_line, paint, print_warning
from anyrig.devices.choose import (
    DeviceChoice,
    Evidence,
    choose_device,
    match_devices,
    suggest_workers,
)
from anyrig.devices.machine import Device, Machine
from anyrig.errors import DeviceNotFoundError
from anyrig.units import format_flops, is_whole_number

if TYPE_CHECKING:
    from anyrig.bench.measurements import Measurements


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


def agreed(question: str) -> bool:
    """Whether a person says yes; no answer is no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def can_ask() -> bool:
    """Whether a person sits in front of this."""
    streams = (sys.stdin, sys.stderr)  # None where the shell closed them
    return all(stream is not None and stream.isatty() for stream in streams)


def ask(machine: Machine, evidence: Evidence) -> str | None:
    """The id of the device a person picks from a list; Enter takes the recommended one.

    The end of the input, or `q`, picks nothing.
    """
    best = choose_device(machine, evidence=evidence).device
    rows = list(machine.devices)
    print("Which device should anyrig use?\n", file=sys.stderr)
    for number, device in enumerate(rows):
        mark = paint("  (recommended)", "good", sys.stderr) if device is best else ""
        print(f"  {number}  {device.name}{mark}", file=sys.stderr)
        print(f"     {advice(device, evidence)}", file=sys.stderr)
    default = rows.index(best)
    while True:
        print(f"\nNumber or name, q to leave [{default}]: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        answer = line.strip()
        if not line or answer.lower() in ("q", "quit"):
            print(file=sys.stderr)
            return None
        if not answer:
            return best.id
        if is_whole_number(answer) and int(answer) < len(rows):
            return rows[int(answer)].id
        try:
            return match_devices(machine, answer)[0].id
        except DeviceNotFoundError:
            print(f"A number from 0 to {len(rows) - 1}, or a name, please.", file=sys.stderr)


def advice(device: Device, evidence: Evidence) -> str:
    """What speaks for a device, or against it, in one line."""
    if device.id in evidence.broken:
        return evidence.broken[device.id]
    if not device.usable and device.kind == "gpu":
        return f"not usable: {device.block_reason}"
    parts = [device.architecture or "architecture unknown", memory_line(device)]
    if device.id in evidence.speeds:
        parts.append(f"measured {format_flops(evidence.speeds[device.id] * 1e12)}")
    if device.features.bf16:
        parts.append("bf16")
    elif device.features.fp16 in ("matrix", "fast"):
        parts.append("fp16, no bf16")
    workers = suggest_workers(device)
    parts.append(f"{workers} worker" + ("s" if workers > 1 else ""))
    return ", ".join(parts)


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
    from anyrig.cli.bench import measure_devices

    print(f"Measuring {device.name}, once (--no-bench leaves it out) ...", file=sys.stderr)
    measure_devices(context, [(device, "")], quick=True)


def save_measurements(context: Context, measurements: Measurements) -> bool:
    """Whether they could be saved; if not, a warning is printed and this command uses them."""
    context.measurements = measurements
    path = context.folders.measurements
    try:
        measurements.save(path)
    except OSError as error:
        print_warning(f"the measurements could not be saved in {path}: {error.strerror}")
        return False
    return True
