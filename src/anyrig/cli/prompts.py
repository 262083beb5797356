"""Questions to the person at the terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from anyrig.cli.output import EventPrinter, PlainEventPrinter, paint
from anyrig.devices.choose import choose_device, match_devices, suggest_workers
from anyrig.errors import DeviceNotFoundError, MissingVoiceError
from anyrig.units import format_bytes, format_flops, is_whole_number, pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.devices.choose import MeasuredDevices
    from anyrig.devices.machine import Device, Machine


def can_ask() -> bool:
    """Whether somebody is at the terminal: a job in the background would be stopped for asking."""
    streams = (sys.stdin, sys.stderr)  # None if the shell closed them
    if not all(stream is not None and stream.isatty() for stream in streams):
        return False
    if sys.platform == "win32":
        return True
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:  # a terminal that controls no processes
        return True


def confirm(question: str) -> bool:
    """Ask for a yes; no answer is a no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def read_answer(question: str) -> str:
    """What a person types; `q` at the end of the input. Standard output is left to the result."""
    print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
    return line.strip() if line else "q"


def offer_voice(error: MissingVoiceError, rig: Rig, printer: EventPrinter, *, ask: bool) -> None:
    """Download a voice for the language of a text, or raise the error.

    Args:
        error: no voice speaks the language.
        rig: this machine.
        printer: shows its events.
        ask: whether a person may be asked; else the error is raised.
    """
    from anyrig.app.engines import find_offer
    from anyrig.app.voice_downloads import VoiceDownloadRequest, download_voice

    offer = find_offer(rig, error.language) if ask and can_ask() else None
    if offer is None:
        raise error
    with printer.hold():
        if read_answer(f"Get {offer.describe()}? [Y/n] ").lower() not in ("", "y", "yes"):
            raise error
        with PlainEventPrinter() as own:
            download_voice(rig, VoiceDownloadRequest(language=error.language), own)


def ask_device(machine: Machine, measured: MeasuredDevices) -> str | None:
    """The id of the device that a person picks; Enter takes the recommended one.

    The end of the input, or `q`, picks nothing.
    """
    best = choose_device(machine, measured=measured).device
    devices = list(machine.devices)
    print("Which device should anyrig use?\n", file=sys.stderr)
    for number, device in enumerate(devices):
        mark = paint("  (recommended)", "good", sys.stderr) if device is best else ""
        print(f"  {number}  {device.name}{mark}", file=sys.stderr)
        print(f"     {_describe(device, measured)}", file=sys.stderr)
    default = devices.index(best)
    while True:
        answer = read_answer(f"\nNumber or name, q to quit [{default}]: ")
        if answer.lower() in ("q", "quit"):
            return None
        if not answer:
            return best.id
        if is_whole_number(answer) and int(answer) < len(devices):
            return devices[int(answer)].id
        try:
            return match_devices(machine, answer)[0].id
        except DeviceNotFoundError:
            print(f"Enter a number from 0 to {len(devices) - 1}, or a name.", file=sys.stderr)


def _describe(device: Device, measured: MeasuredDevices) -> str:
    """What speaks for a device, or against it, in one line."""
    if device.id in measured.broken:
        return measured.broken[device.id]
    if not device.usable and device.kind == "gpu":
        return f"not usable: {device.block_reason}"
    total = device.memory.total_bytes
    parts = [
        device.architecture or "architecture unknown",
        format_bytes(total) if total is not None else "memory unknown",
    ]
    if device.id in measured.speeds:
        parts.append(f"measured {format_flops(measured.speeds[device.id] * 1e12)}")
    if device.features.bf16:
        parts.append("bf16")
    elif device.features.fp16 in ("matrix", "fast"):
        parts.append("fp16, no bf16")
    parts.append(pluralize(suggest_workers(device), "worker"))
    return ", ".join(parts)
