"""`anyrig devices`: what is here, what can drive it, which is chosen. Computes nothing."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from anyrig.cli.context import Context
from anyrig.cli.show import machine_text, paint, print_json, print_warning, table, wrapped
from anyrig.devices.choose import DeviceChoice, describe_choice, suggest_workers
from anyrig.devices.machine import Machine, reason_to_json, to_json
from anyrig.errors import DeviceNotFoundError, InvalidInputError
from anyrig.install import localize_install_commands

HELP = """List every device of this machine: name, architecture, memory, driver, what can drive
it or exactly why nothing can, and which one would be used. Imports no framework."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("--machine", metavar="FILE", help="a recorded machine instead of this one")
    parser.add_argument(
        "--record", metavar="FILE", help="write down what the system's interfaces answer here"
    )

    parser.add_argument(
        "--profiles",
        action="store_true",
        help="say instead what each --profile comes to on each device: format, memory, batch",
    )


def run(options: argparse.Namespace) -> int:
    """Print the machine."""
    context = Context(options)
    if options.record:
        return _record(context, Path(options.record))
    if options.profiles:
        return _profiles(context)
    machine = context.machine
    fix = localize_install_commands if context.record is None else str
    try:
        choice = context.choose(quiet=True)
    except DeviceNotFoundError:
        # A wrong word in some file must not hide what is there.
        if not options.json and not options.device:
            print(machine_text(machine, [], fix), flush=True)
        raise
    if options.json:
        print_json(_json(machine, choice))
        return 0
    print(machine_text(machine, [device.id for device in choice.devices], fix))
    print(f"\nUsing {describe_choice(choice)}.")
    for report in machine.sources:
        if report.state == "failed" and not any(machine.of(report.source)):
            print_warning(f"the {report.source} source failed: {report.reason}")
    for warning in choice.warnings:
        print_warning(warning)
    return 0


def _profiles(context: Context) -> int:
    """Every profile on every device, by what is measured and described."""
    from anyrig.cli.compute import failures
    from anyrig.precision.choose import PROFILE_COLUMNS, profile_table
    from anyrig.precision.profiles import PROFILES

    speeds = context.measurements.speeds(context.machine)
    rows = profile_table(context.machine, speeds=speeds, failed=failures(context))
    if context.options.json:
        print_json({"profiles": [dict(zip(PROFILE_COLUMNS, row, strict=True)) for row in rows]})
        return 0
    devices = dict.fromkeys(row[0] for row in rows)
    for name in devices:
        print(f"{paint(name, 'bold')}")
        mine = [row[1:] for row in rows if row[0] == name]
        print(table([PROFILE_COLUMNS[1:5], *(row[:4] for row in mine)]))
        for reason in dict.fromkeys(row[4] for row in mine):
            names = ", ".join(row[0] for row in mine if row[4] == reason)
            print(wrapped(f"  {names}: ", reason))
        print()
    print(table([(name, profile.description) for name, profile in PROFILES.items()]))
    return 0


def _json(machine: Machine, choice: DeviceChoice) -> dict[str, Any]:
    data = to_json(machine)
    for row, device in zip(data["gpus"], machine.gpus, strict=True):
        row["suggested_workers"] = suggest_workers(device)
    data["cpu_device"]["suggested_workers"] = suggest_workers(machine.cpu_device)
    data["choice"] = choice_json(choice)
    return data


def choice_json(choice: DeviceChoice) -> dict[str, Any]:
    """A choice for programs."""
    return {
        "devices": [device.id for device in choice.devices],
        "origin": {"specifications": "described"}.get(choice.origin, choice.origin),
        "reason": choice.reason.message,
        **reason_to_json(choice.reason),
        "passed_over": [
            {
                "device": passed.device.id,
                "reason": passed.reason.message,
                **reason_to_json(passed.reason),
            }
            for passed in choice.skipped
        ],
        "warnings": list(choice.warnings),
    }


def _record(context: Context, path: Path) -> int:
    import json

    from anyrig.devices.discover import record
    from anyrig.storage import files

    if context.options.machine:
        raise InvalidInputError(
            "--record writes this machine down, --machine is another", hint="Use one of them."
        )
    writable(path)
    machine, answers = record(context.environment)
    files.write_atomic(path, json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    names = [device.name for device in machine.devices]
    if context.options.json:
        print_json({"recorded": names, "file": str(path)})
        return 0
    print(f"Recorded {', '.join(names)} in {path}.")
    print(
        "Read it through before you share it: it holds your GPUs' ids, no names or paths of yours."
    )
    return 0


def writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work that would fill it."""
    if path.is_dir():
        raise InvalidInputError(f"cannot write {path}: it is a folder", hint="Name a file in it.")
    if not path.parent.is_dir():
        raise InvalidInputError(
            f"cannot write {path}: there is no folder {path.parent}",
            hint="Make the folder or name another file.",
        )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidInputError(
            f"cannot write {path}: permission denied", hint="Name another file."
        )
