"""`anyrig top`: what every device does right now, live or once, for people or for programs."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from anyrig.app.devices import describe_recorded, select_monitored
from anyrig.cli.output import print_json
from anyrig.cli.rig import open_rig, read_device_options
from anyrig.cli.terminal import Terminal, is_terminal, takes_unicode, wants_colours
from anyrig.cli.top_frame import SORTS, View, build_frame, render
from anyrig.devices.machine import Machine
from anyrig.errors import InvalidInputError
from anyrig.monitor import MachineSnapshot, Monitor
from anyrig.monitor.processes import AnyrigProcesses
from anyrig.monitor.prometheus import prometheus_text
from anyrig.monitor.sample import snapshot_to_json

if TYPE_CHECKING:
    from anyrig.monitor.alerts import DeviceAlert
    from anyrig.monitor.sample import DeviceSample

HELP = """Show load, memory, power, temperature and clocks of every device, the processes on them
and the host, once a second. Keys: q quits, s sorts, a shows all processes, p pauses, h helps.
Without a terminal it prints one frame. Loads no framework."""
# Between the two samples that one frame needs: load is a difference.
_LOAD_INTERVAL_S = 0.5
_KEY_TIMEOUT_S = 0.2
_WIDTH = 100


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval", metavar="S", type=_seconds, default=1.0, help="seconds between samples (1)"
    )
    parser.add_argument("--once", action="store_true", help="print one frame and exit")
    parser.add_argument("--count", metavar="N", type=_count, help="exit after N samples")
    parser.add_argument(
        "--watch", action="store_true", help="with --json or --prometheus: repeat until interrupted"
    )
    parser.add_argument(
        "--prometheus", action="store_true", help="print in Prometheus' text format"
    )
    parser.add_argument("--all", action="store_true", help="all processes, not only anyrig's")
    parser.add_argument(
        "--sort", choices=SORTS, default="memory", help="sort processes by this; default memory"
    )
    parser.add_argument(
        "--machine", metavar="FILE", help="show the fixed properties of a recorded machine"
    )


def run(options: argparse.Namespace) -> int:
    if options.json and options.prometheus:
        raise InvalidInputError(
            "--json and --prometheus cannot be combined", hint="Use one of them."
        )
    if options.once and (options.count or options.watch):
        raise InvalidInputError(
            "--once is one sample", hint="Leave it out, or --count and --watch."
        )
    rig = open_rig(options)
    machine = select_monitored(rig, read_device_options(rig, options))
    if rig.is_recorded:
        return _print(options, machine, iter([describe_recorded(machine)]))
    monitor = Monitor(machine, options.interval, find_ours=AnyrigProcesses())
    if is_terminal() and not (options.json or options.prometheus or options.once):
        return _show_live(options, machine, monitor)
    try:
        return _print(options, machine, _take_samples(options, monitor), monitor.alerts)
    finally:
        monitor.stop()


def _take_samples(options: argparse.Namespace, monitor: Monitor) -> Iterator[MachineSnapshot]:
    """As many snapshots as requested, one interval apart; the first has loads in it."""
    monitor.sample()
    time.sleep(min(_LOAD_INTERVAL_S, options.interval))
    start = time.monotonic()
    for number in itertools.count(1):
        yield monitor.sample()
        if number >= (options.count or (math.inf if options.watch else 1)):
            return
        time.sleep(max(0.0, start + number * options.interval - time.monotonic()))


def _print(
    options: argparse.Namespace,
    machine: Machine,
    snapshots: Iterator[MachineSnapshot],
    list_alerts: Callable[[], list[DeviceAlert]] = lambda: [],
) -> int:
    several = bool(options.count or options.watch)
    for snapshot in snapshots:
        alerts = list_alerts()
        if options.json and several:
            print(json.dumps(snapshot_to_json(snapshot, alerts), allow_nan=False), flush=True)
        elif options.json:
            print_json(snapshot_to_json(snapshot, alerts))
        elif options.prometheus:
            print(prometheus_text(snapshot), end="\n" if several else "", flush=True)
        else:
            width = Terminal().size[0] if sys.stdout.isatty() else _WIDTH
            view = View(width, None, takes_unicode(), options.sort, options.all, live=False)
            lines = build_frame(snapshot, {}, machine, view, alerts)
            print("\n".join(render(row, wants_colours()) for row in lines), flush=True)
    return 0


def _show_live(options: argparse.Namespace, machine: Machine, monitor: Monitor) -> int:
    """Show frames until a key or Ctrl-C ends it."""
    # The log stays off the screen; a log file still gets everything.
    for handler in logging.getLogger().handlers:
        stream = getattr(handler, "stream", None)
        if isinstance(handler, logging.StreamHandler) and stream in (sys.stderr, sys.stdout):
            handler.setLevel(logging.CRITICAL + 1)
    monitor.on_alert(lambda alert: None)  # shown in the view, not in the log
    with Terminal() as terminal, contextlib.suppress(KeyboardInterrupt, EOFError), monitor:
        _show(options, machine, monitor, terminal)
    return 0


def _show(
    options: argparse.Namespace, machine: Machine, monitor: Monitor, terminal: Terminal
) -> None:
    view = View(unicode=takes_unicode(), sort=options.sort, everybody=options.all)
    colours = wants_colours()
    shown: MachineSnapshot | None = None
    histories: dict[str, list[DeviceSample]] = {}
    alerts: list[DeviceAlert] = []
    num_samples, drawn_size = 0, (0, 0)
    while True:
        key = terminal.key(_KEY_TIMEOUT_S).lower()
        if key in ("q", "\x04"):
            return
        view = _apply_key(view, key)
        newest = monitor.latest()
        if newest is not shown and newest is not None and not view.paused:
            # Taken with the snapshot, so that a pause holds all of the picture.
            shown, alerts = newest, monitor.alerts()
            histories = {s.device: monitor.history(s.device) for s in shown.devices}
            num_samples += 1
            key = key or "new"
        if shown is None or not (key or terminal.size != drawn_size):
            continue
        drawn_size = terminal.size
        view = view._replace(width=drawn_size[0], height=drawn_size[1])
        lines = build_frame(shown, histories, machine, view, alerts)
        terminal.draw([render(row, colours) for row in lines])
        if options.count and num_samples >= options.count:
            return


def _apply_key(view: View, key: str) -> View:
    if view.help and key:
        return view._replace(help=False)
    if key == "s":
        return view._replace(sort=SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)])
    if key == "a":
        return view._replace(everybody=not view.everybody)
    if key == "p":
        return view._replace(paused=not view.paused)
    return view._replace(help=True) if key in ("h", "?") else view


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.05 <= value <= 3600:
        raise InvalidInputError(
            f"--interval {text} is not between 0.05 and 3600 s", hint="1 is usual."
        )
    return value


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise InvalidInputError(
            f"--count {text} is not a number of samples", hint="Name 1 or more."
        )
    return int(text)
