"""`anyrig doctor`: every check, a real kernel on each device, the command that mends each fault."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from anyrig.cli.context import Context
from anyrig.cli.pick import save_measurements
from anyrig.cli.show import Progress, paint, print_json, wrapped
from anyrig.devices.choose import describe_choice
from anyrig.devices.doctor import Finding, KernelResult, State, diagnose
from anyrig.devices.machine import Device
from anyrig.errors import AnyrigError, InvalidInputError, InvalidRecordError
from anyrig.install import format_install, localize_install_commands
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.bench.process import SelfTestSummary

HELP = """Check platform, drivers, packages, limits and permissions; run a real kernel on every
usable device and compare it with the CPU. Each finding is good, a warning or broken,
with the command that mends it. Exits with 1 when something is broken."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("--machine", metavar="FILE", help="a recorded machine instead of this one")
    parser.add_argument("--no-kernels", action="store_true", help="run nothing on the devices")
    parser.add_argument(
        "--selftest",
        action="store_true",
        help="also compare every attention backend and number format of torch; what is wrong"
        " is not used from then on (up to a minute a GPU)",
    )


def run(options: argparse.Namespace) -> int:
    """Print the findings."""
    context = Context(options)
    if options.selftest and (options.machine or options.no_kernels):
        raise InvalidInputError(
            "--selftest computes; --machine and --no-kernels do not", hint="Leave one of them out."
        )
    devices = context.machine.devices
    if options.device and options.device.strip().lower() != "auto":
        devices = context.resolve(options.device)
    probes = _recorded(context) if context.record is not None else ()
    if context.record is None and not options.no_kernels:
        probes = _prove(context, devices)
        _keep(context, probes)
    tested = _self_test(context, devices) if options.selftest else ()
    verdicts = [*_verdicts(tested)]
    if options.selftest and not tested:
        fix = format_install("anyrig[torch]")
        verdicts.append(Finding("self-test", "warning", "not run: torch drives no device", fix))
    findings = (*diagnose(context.machine, probes), *verdicts, *_choice(context))
    broken = [finding for finding in findings if finding.state == "broken"]
    if options.json:
        rows = {"findings": [asdict(f) for f in findings], "probes": [asdict(p) for p in probes]}
        tests = {"selftests": [asdict(test) for test in tested]} if options.selftest else {}
        print_json({**rows, **tests, "broken": len(broken)})
    else:
        _print(findings, live=context.record is None, proven=bool(probes))
    return 1 if broken else 0


def _self_test(context: Context, devices: Sequence[Device]) -> tuple[SelfTestSummary, ...]:
    """Every device that torch drives, each in a child of its own."""
    from anyrig.bench.process import run_self_test

    pairs = [
        (device, backend)
        for device in devices
        for backend in device.backends
        if backend.usable and not device.blocked and backend.library == "torch"
    ]
    found = []
    with Progress(len(pairs), "self-test") as progress:
        for device, backend in pairs:
            progress.step(device.name)
            path = context.folders.selftests
            found.append(run_self_test(device, backend, path, context.environment))
            progress.done()
    return tuple(found)


def _verdicts(tested: Sequence[SelfTestSummary]) -> Iterator[Finding]:
    """What the self-tests found, one line for each fault."""
    for test in tested:
        if test.error:
            yield Finding("self-test", "warning", f"{test.name}: not run: {test.error}")
            continue
        for message in test.messages:
            yield Finding("self-test", "warning", f"{test.name}: {message}")
        for precision, seen in test.failed.items():
            yield Finding("self-test", "warning", f"{test.name}: {precision} is not used: {seen}")
        if not test.messages and not test.failed:
            right = sum(row[4] == "right" for row in test.rows)
            told = f"{right} comparisons agree, in {format_duration(test.seconds)}"
            yield Finding("self-test", "good", f"{test.name}: {told}")


def _choice(context: Context) -> Iterator[Finding]:
    """Which device would be used, and whether what was asked for can be had."""
    try:
        choice = context.choose(quiet=True)
    except AnyrigError as error:
        yield Finding("choice", "broken", error.message, error.hint)
        return
    state: State = "warning" if choice.warnings else "good"
    text = "; ".join([f"using {describe_choice(choice)}", *choice.warnings])
    yield Finding("choice", state, text)


def _print(findings: Sequence[Finding], *, live: bool, proven: bool) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        line = wrapped(f"{finding.state:<7}  {finding.check:<{width}}  ", finding.message)
        print(paint(finding.state, finding.state) + line[len(finding.state) :])
        if finding.fix:
            fix = localize_install_commands(finding.fix) if live else finding.fix
            # In one piece, for copying: the terminal folds it by itself.
            print(paint(f"{'':<9}{'':<{width}}  -> {fix}", "dim"))
    counts = {state: sum(f.state == state for f in findings) for state in ("broken", "warning")}
    last = "" if proven else " No kernel was run."
    if counts["broken"]:
        broken, warnings = (
            pluralize(counts["broken"], "thing"),
            pluralize(counts["warning"], "warning"),
        )
        print(f"\n{broken} broken, {warnings}.{last}")
    elif any(finding.check == "usable" for finding in findings):
        print(f"\nNo GPU can be used; {pluralize(counts['warning'], 'warning')}.{last}")
    elif counts["warning"]:
        print(f"\nNothing is broken; {pluralize(counts['warning'], 'warning')}.{last}")
    else:
        print(f"\nAll is well.{last}")


def _prove(context: Context, devices: Sequence[Device]) -> tuple[KernelResult, ...]:
    """A kernel on every device through every backend that claims it."""
    from anyrig.bench.process import check_kernel

    pairs = [
        (device, backend)
        for device in devices
        for backend in device.backends
        if backend.usable and not device.blocked
    ]
    found = []
    with Progress(len(pairs), "kernel") as progress:
        for device, backend in pairs:
            progress.step(f"{device.name} through {backend.library}")
            found.append(check_kernel(device, backend, context.environment))
            progress.done()
    return tuple(found)


def _keep(context: Context, probes: Sequence[KernelResult]) -> None:
    """Save which devices compute wrong results or nothing, and clear it for the others."""
    from anyrig.bench.measurements import DeviceMeasurements, Measurements, describe_versions
    from anyrig.devices.doctor import describe_wrong_result

    saved = before = Measurements.load(context.folders.measurements)
    for device in context.machine.devices:
        mine = [probe for probe in probes if probe.device == device.id]
        if not mine or device.kind == "cpu":
            continue
        fault = next(
            (describe_wrong_result(probe) for probe in mine if describe_wrong_result(probe)), ""
        )
        if not any(probe.ok for probe in mine):
            fault = f"no kernel runs on it: {mine[0].error}"
        known = saved.find(device, context.machine)
        if (known.broken if known else "") != fault:
            versions = describe_versions(device, context.machine)
            known = known or DeviceMeasurements(device.id, device.name, versions)
            saved = saved.add(replace(known, broken=fault))
    if saved is not before:
        save_measurements(context, saved)


def _recorded(context: Context) -> tuple[KernelResult, ...]:
    rows: dict[str, Any] = (context.record or {}).get("probes", {})
    found = []
    for key, row in rows.items():
        backend, _, device = key.partition(" ")
        values = {**row, "kernels": tuple(row.get("kernels", ()))}
        error = row.get("max_error")
        if isinstance(error, float) and error != error:  # JSON has no NaN, files have
            values |= {"max_error": None, "finite": False}
        try:
            found.append(KernelResult(backend=backend, device=device, **values))
        except TypeError as error:
            raise InvalidRecordError(
                f"probe {key!r} is not one: {error}",
                hint="docs/recorded-machines.md has the format.",
            ) from error
    return tuple(found)
