"""`anyrig doctor`: every check, a real kernel on each device, and how to fix each fault."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from anyrig.app.devices import DoctorRequest, diagnose, parse_recorded_probes
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import PlainEventPrinter, paint, print_json, wrap
from anyrig.cli.rig import DEVICE_FLAGS, open_rig, read_device_flags
from anyrig.devices.doctor import Finding, KernelResult
from anyrig.install import localize_install_commands
from anyrig.units import pluralize

HELP = """Check platform, drivers, packages, limits and permissions; run a real kernel on every
usable device and compare it with the CPU. Each finding is good, a warning or broken, with the
command that fixes it. Exits with 1 if something is broken."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--machine", metavar="FILE", help="a recorded machine instead of this one")
    add_flags(parser, DoctorRequest, exclude=DEVICE_FLAGS)


def run(arguments: argparse.Namespace) -> int:
    with PlainEventPrinter() as printer:
        rig = open_rig(arguments, printer)
        given = read_flags(arguments, DoctorRequest) | read_device_flags(arguments)
        request = rig.request(DoctorRequest, **given)
        probes: tuple[KernelResult, ...] = ()
        if arguments.machine:
            from anyrig.devices.probe import load_record

            probes = parse_recorded_probes(load_record(Path(arguments.machine)))
        diagnosis = diagnose(rig, request, printer, probes)
    if arguments.json:
        print_json(diagnosis.to_json())
    else:
        _print(diagnosis.findings, live=not rig.is_recorded, has_run=bool(diagnosis.probes))
    return 1 if diagnosis.num_broken else 0


def _print(findings: Sequence[Finding], *, live: bool, has_run: bool) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        line = wrap(f"{finding.state:<7}  {finding.check:<{width}}  ", finding.message)
        print(paint(finding.state, finding.state) + line[len(finding.state) :])
        if finding.fix:
            fix = localize_install_commands(finding.fix) if live else finding.fix
            # In one piece, for copying: the terminal folds it.
            print(paint(f"{'':<9}{'':<{width}}  -> {fix}", "dim"))
    num_broken = sum(finding.state == "broken" for finding in findings)
    num_warnings = sum(finding.state == "warning" for finding in findings)
    warnings = pluralize(num_warnings, "warning")
    note = "" if has_run else " No kernel was run."
    if num_broken:
        print(f"\n{pluralize(num_broken, 'thing')} broken, {warnings}.{note}")
    elif any(finding.check == "usable" for finding in findings):
        print(f"\nNo GPU can be used; {warnings}.{note}")
    elif num_warnings:
        print(f"\nNothing is broken; {warnings}.{note}")
    else:
        print(f"\nNo problems found.{note}")
