"""`anyrig devices`: every device, what can use it, and which one is chosen. Computes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from anyrig.app.devices import list_devices, list_profiles, record_machine
from anyrig.app.files import check_writable as writable
from anyrig.app.rig import Rig
from anyrig.cli.output import format_table, paint, print_json, print_warning, wrap
from anyrig.cli.rig import open_rig, read_device_options
from anyrig.devices.choose import (
    describe_choice,
    describe_memory,
    suggest_workers,
)
from anyrig.devices.machine import Device, Machine
from anyrig.install import localize_install_commands
from anyrig.units import pluralize

__all__ = ["writable"]  # for commands that are not yet on the application layer
HELP = """List every device of this machine: name, architecture, memory, driver, what can use it or
exactly why nothing can, and which one would be used. Imports no framework."""
_INDENT = " " * 8
FormatFix = Callable[[str], str]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--machine", metavar="FILE", help="a recorded machine instead of this one")
    parser.add_argument(
        "--record", metavar="FILE", help="record this machine to a file, for a bug report"
    )
    parser.add_argument(
        "--profiles", action="store_true",
        help="show precision, memory and batch of each --profile on each device",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    rig = open_rig(arguments)
    if arguments.record:
        return _record(rig, Path(arguments.record), json=arguments.json)
    if arguments.profiles:
        return _print_profiles(rig, json=arguments.json)
    found = list_devices(rig, read_device_options(rig, arguments))
    machine, choice = found.machine, found.choice
    fix = localize_install_commands if not rig.is_recorded else str
    if choice is None:
        assert found.error is not None
        if not arguments.json and not arguments.device:
            print(format_machine(machine, [], fix), flush=True)
        raise found.error
    if arguments.json:
        print_json(found.to_json())
        return 0
    print(format_machine(machine, [device.id for device in choice.devices], fix))
    print(f"\nUsing {describe_choice(choice)}.")
    for report in machine.sources:
        if report.state == "failed" and not any(machine.gpus_of(report.source)):
            print_warning(f"the {report.source} source failed: {report.reason}")
    for warning in choice.warnings:
        print_warning(warning)
    return 0


def _record(rig: Rig, path: Path, *, json: bool) -> int:
    names = record_machine(rig, path)
    if json:
        print_json({"recorded": names, "file": str(path)})
        return 0
    print(f"Recorded {', '.join(names)} in {path}.")
    print("Read it before you share it: it contains the ids of your GPUs, but no names or paths.")
    return 0


def _print_profiles(rig: Rig, *, json: bool) -> int:
    from anyrig.precision.choose import PROFILE_COLUMNS
    from anyrig.precision.profiles import PROFILES

    rows = list_profiles(rig)
    if json:
        print_json({"profiles": [dict(zip(PROFILE_COLUMNS, row, strict=True)) for row in rows]})
        return 0
    for name in dict.fromkeys(row[0] for row in rows):
        print(f"{paint(name, 'bold')}")
        own = [row[1:] for row in rows if row[0] == name]
        print(format_table([PROFILE_COLUMNS[1:5], *(row[:4] for row in own)]))
        for reason in dict.fromkeys(row[4] for row in own):
            names = ", ".join(row[0] for row in own if row[4] == reason)
            print(wrap(f"  {names}: ", reason))
        print()
    print(format_table([(name, profile.description) for name, profile in PROFILES.items()]))
    return 0


def format_machine(machine: Machine, chosen: Sequence[str], fix: FormatFix = str) -> str:
    """Every device, for people.

    Args:
        machine: what to print.
        chosen: the ids of the devices that would be used.
        fix: adapts an install command to this environment.
    """
    here = machine.platform
    system = " ".join(filter(None, (here.title, here.release)))
    titles = [system, here.distribution, here.machine, here.virtual]
    blocks = [", ".join(filter(None, titles))]
    blocks += [_format_device(gpu, gpu.id in chosen, fix) for gpu in machine.gpus]
    blocks.append(_format_cpu(machine, machine.cpu_device.id in chosen, fix))
    return "\n\n".join(blocks)


def _format_device(device: Device, chosen: bool, fix: FormatFix = str) -> str:
    """One GPU in a few lines."""
    mark = " (chosen)" if chosen else ""
    lines = [paint(f"{'GPU ' + device.number_text:<7} {device.name}{mark}", "bold")]
    lines.append(_describe_facts(device))
    lines.append(f"precisions: {_list_formats(device)}")
    lines += _list_backends(device, fix)
    if device.usable:
        lines.append(f"suggested workers: {suggest_workers(device)}")
    if device.memory.note:
        lines.append(f"memory: {device.memory.note}")
    lines += [note.message for note in device.notes]
    place = f" at {device.pci_address}" if device.pci_address not in (None, device.id) else ""
    lines.append(paint(f"id {device.id}{place}", "dim"))
    return _format_block(lines)


def _format_block(lines: list[str]) -> str:
    """A heading and the lines under it, folded to the terminal."""
    return "\n".join([lines[0], *(wrap(_INDENT, line) for line in lines[1:])])


def _describe_facts(device: Device) -> str:
    part = {"mig": "MIG instance", "vgpu": "virtual GPU", "partition": "partition"}.get(device.part)
    driver = " ".join(filter(None, (device.driver, device.driver_version)))
    architecture = device.architecture or "architecture unknown"
    if architecture == device.name:
        architecture = ""
    parts = [
        part,
        architecture,
        device.capability_title,
        describe_memory(device),
        driver and f"driver {driver}",
    ]
    return ", ".join(filter(None, parts))


def _list_formats(device: Device) -> str:
    features = device.features
    speed = {"matrix": "fp16 (matrix units)", "fast": "fp16", "slow": "fp16 (slow)"}
    names = [speed.get(features.fp16 or "", "")]
    names += [name for name in ("bf16", "tf32", "fp8", "fp4") if getattr(features, name)]
    if device.features.fnuz:
        names = ["fp8 (fnuz)" if name == "fp8" else name for name in names]
    missing = [name for name in ("bf16", "tf32", "fp8", "fp4") if getattr(features, name) is None]
    known = ", ".join(filter(None, ["fp32", *names]))
    if features.fp16 is None:
        missing.insert(0, "fp16")
    return known + (f"; unknown: {', '.join(missing)}" if missing else "")


def _list_backends(device: Device, fix: FormatFix) -> list[str]:
    opened = [backend for backend in device.backends if backend.usable]
    if device.hardware_block:
        repair = f" ({fix(device.hardware_block.fix)})" if device.hardware_block.fix else ""
        return [f"{paint('not usable', 'warning')}: {device.hardware_block}{repair}"]
    lines = [f"usable as {backend.selector} through {backend.reason}" for backend in opened]
    if not opened:
        lines = [f"{paint('not usable', 'warning')}:"]
        reasons = (f"  {backend.selector}: {backend.reason}" for backend in device.backends)
        lines += dict.fromkeys(reasons)
        if device.advice.command:
            lines.append(f"  to fix: {fix(device.advice.command)}")
    return lines


def _format_cpu(machine: Machine, chosen: bool, fix: FormatFix) -> str:
    cpu = machine.cpu
    cores = f"{cpu.cores_usable:g} of {pluralize(cpu.cores_total, 'core')}"
    if cpu.cores_usable == cpu.cores_total:
        cores = pluralize(cpu.cores_total, "core")
    memory = describe_memory(machine.cpu_device)
    lines = [paint(f"CPU     {cpu.name}{' (chosen)' if chosen else ''}", "bold")]
    lines.append(", ".join([cores, memory, *([" ".join(cpu.vectors)] if cpu.vectors else [])]))
    lines += _list_backends(machine.cpu_device, fix)
    lines.append(f"suggested workers: {suggest_workers(machine.cpu_device)}")
    lines += [limit.message for limit in cpu.limits]
    return _format_block(lines)
