"""`anyrig doctor`: every check, a real kernel on each device, the command that mends each fault."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from anyrig.cli.context import Context
from anyrig.cli.show import Progress, paint, print_json
from anyrig.devices.choose import match
from anyrig.devices.diagnose import Finding, Probe, diagnose
from anyrig.units import plural

HELP = """Check platform, drivers, packages, limits and permissions; run a real kernel on every
usable device and compare it with the CPU. Each finding is good, a warning or broken,
with the command that mends it. Exits with 1 when something is broken."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("--machine", metavar="FILE", help="a recorded machine instead of this one")
    parser.add_argument("--no-kernels", action="store_true", help="run nothing on the devices")


def run(options: argparse.Namespace) -> int:
    """Print the findings."""
    context = Context(options)
    if options.device:
        match(context.machine, options.device)
    probes = _recorded(context) if context.record is not None else ()
    if context.record is None and not options.no_kernels:
        probes = _prove(context)
        _keep(context, probes)
    findings = diagnose(context.machine, probes)
    broken = [finding for finding in findings if finding.state == "broken"]
    if options.json:
        rows = {"findings": [asdict(f) for f in findings], "probes": [asdict(p) for p in probes]}
        print_json({**rows, "broken": len(broken)})
    else:
        _print(findings)
    return 1 if broken else 0


def _print(findings: Sequence[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        state = paint(f"{finding.state:<7}", finding.state)
        print(f"{state}  {finding.check:<{width}}  {finding.message}")
        if finding.fix:
            print(f"{'':<9}{'':<{width}}  {paint('-> ' + finding.fix, 'dim')}")
    counts = {state: sum(f.state == state for f in findings) for state in ("broken", "warning")}
    if counts["broken"]:
        print(
            f"\n{plural(counts['broken'], 'thing')} broken, {plural(counts['warning'], 'warning')}."
        )
    elif counts["warning"]:
        print(f"\nNothing is broken; {plural(counts['warning'], 'warning')}.")
    else:
        print("\nAll is well.")


def _prove(context: Context) -> tuple[Probe, ...]:
    """A kernel on every device through every backend that claims it."""
    from anyrig.bench import isolate

    machine = context.machine
    devices = machine.devices
    if context.options.device:
        devices = match(machine, context.options.device)
    pairs = [
        (device, drive)
        for device in devices
        for drive in device.drives
        if drive.usable and not device.blocked
    ]
    progress = Progress(len(pairs), "kernel")
    found = []
    for device, drive in pairs:
        progress.step(f"{device.name} through {drive.backend}")
        found.append(isolate.probe(device, drive, context.environment))
        progress.done()
    progress.close()
    return tuple(found)


def _keep(context: Context, probes: Sequence[Probe]) -> None:
    """Write down which devices answer wrongly, and take it back from those that answer rightly."""
    from anyrig.bench import figures
    from anyrig.devices.checks.kernels import wrong

    book = context.book
    for device in context.machine.devices:
        mine = [probe for probe in probes if probe.device == device.id and probe.ok]
        fault = next((wrong(probe) for probe in mine if wrong(probe)), "")
        page = book.of(device, context.machine)
        if not mine or (page.broken if page else "") == fault:
            continue
        stamp = figures.stamp(device, context.machine)
        page = page or figures.Measured(device.id, device.name, stamp)
        book = book.with_(replace(page, broken=fault))
    if book is not context.book:
        figures.save(context.folders.figures, book)


def _recorded(context: Context) -> tuple[Probe, ...]:
    rows: dict[str, Any] = (context.record or {}).get("probes", {})
    found = []
    for key, row in rows.items():
        backend, _, device = key.partition(" ")
        values = {**row, "kernels": tuple(row.get("kernels", ()))}
        found.append(Probe(backend=backend, device=device, **values))
    return tuple(found)
