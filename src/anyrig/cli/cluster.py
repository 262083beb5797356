"""`anyrig cluster`: the workers of a cluster, and letting them leave."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING

from anyrig.app.cluster import (
    connect,
    drain_workers,
    forget_workers,
    read_status,
    wait_until_drained,
)
from anyrig.cli.escape import esc
from anyrig.cli.output import format_table, paint, print_json
from anyrig.cli.rig import open_rig
from anyrig.errors import InvalidInputError
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.cluster.broker import BrokerClient
    from anyrig.cluster.registry import ClusterStatus, WorkerRow

HELP = """The state of a cluster. `status` lists its workers: device, models, measured speed, what
they have done, and those that are lost. `drain NAME` lets a worker finish what it has and leave,
for an upgrade; the name of a machine means all its workers; with --wait the command ends when they
have nothing left. `undrain NAME` takes that back; `forget NAME` takes a lost worker off the
list."""
MIXED = True
_ACTIONS = ("status", "drain", "undrain", "forget")
_STYLES = {"ready": "good", "busy": "good", "lost": "broken", "draining": "warning"}
_HEAD = ["worker", "status", "device", "GPUs", "free MB", "models", "characters/s", "segments",
         "version", "host", "last sign"]  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help=f"{', '.join(_ACTIONS)}; then names of workers"
    )
    parser.add_argument(
        "--broker", metavar="URL", help="redis://HOST:6379/0, or a token; default: this machine's"
    )
    parser.add_argument(
        "--watch", action="store_true", help="with status: refresh until interrupted"
    )
    parser.add_argument(
        "--interval",
        type=float,
        metavar="S",
        default=2.0,
        help="with --watch: seconds between refreshes",
    )
    parser.add_argument(
        "--wait", action="store_true", help="with drain: wait until the workers are idle"
    )
    parser.add_argument(
        "--timeout", type=float, metavar="S", default=3600.0, help="with --wait: maximum seconds"
    )


def run(arguments: argparse.Namespace) -> int:
    action, *names = arguments.words or ["status"]
    if action not in _ACTIONS:
        raise InvalidInputError(
            f"unknown action {action!r}", hint=f"Actions: {', '.join(_ACTIONS)}."
        )
    if bool(names) == (action == "status"):
        wanted = "no name" if names else "the name of a worker"
        raise InvalidInputError(
            f"cluster {action} takes {wanted}", hint="anyrig cluster drain NAME"
        )
    client = connect(open_rig(arguments), arguments.broker or "")
    try:
        if action == "status":
            return _show_status(client, arguments)
        return _change(client, action, names, arguments)
    finally:
        client.close()


def _show_status(client: BrokerClient, arguments: argparse.Namespace) -> int:
    if not arguments.watch:
        status = read_status(client)
        print_json(status.describe()) if arguments.json else print(format_status(status))
        return 0
    while True:
        status = client.retry(lambda: read_status(client))
        if arguments.json:
            print(json.dumps(status.describe()))
        else:
            mark = esc(sys.stdout)
            clear = f"{mark}[2J{mark}[H" if sys.stdout.isatty() else ""
            print(f"{clear}{format_status(status)}\n")
        sys.stdout.flush()
        time.sleep(max(0.1, arguments.interval))


def _change(
    client: BrokerClient, action: str, names: list[str], arguments: argparse.Namespace
) -> int:
    if action == "forget":
        forget_workers(client, names)
    else:
        names = drain_workers(client, names, on=action == "drain")
    waited = action == "drain" and arguments.wait
    if waited:
        wait_until_drained(client, names, arguments.timeout)
    if arguments.json:
        print_json({"action": action, "workers": names})
        return 0
    what = {"drain": "finishes what it has and leaves", "undrain": "may work again",
            "forget": "is off the list"}[action]  # fmt: skip
    print("\n".join(f"{name} {'has nothing left to do' if waited else what}" for name in names))
    return 0


def format_status(status: ClusterStatus) -> str:
    coordinator = status.coordinator
    lines = [
        f"coordinator {coordinator.host} (anyrig {coordinator.version})" if coordinator
        else "no coordinator is running; the workers go on without it"
    ]  # fmt: skip
    if not status.rows:
        return "\n".join([*lines, "", "No worker has joined. `anyrig worker --join TOKEN` does."])
    table = format_table([_HEAD, *map(_format_row, status.rows)], right=(3, 4, 6, 7))
    head, *rest = table.splitlines()
    lines += ["", paint(head, "bold")]
    for row, line in zip(status.rows, rest, strict=True):
        painted = paint(row.status, _STYLES.get(row.status, "warning"))
        lines.append(line.replace(row.status, painted, 1) if row.status not in row.name else line)
    usable = sum(not row.trouble for row in status.rows)
    lines += ["", f"{usable} of {pluralize(len(status.rows), 'worker')} can be given work"]
    return "\n".join(
        [*lines, *(f"{row.name}: {row.trouble}" for row in status.rows if row.trouble)]
    )


def _format_row(row: WorkerRow) -> list[str]:
    info = row.info
    if info is None:
        return [row.name, row.status, "?", "", "", "", "", "", "?", "?", _format_age(row)]
    free = info.gpu_memory_free_mb
    return [
        row.name, row.status,
        f"{info.device_type} ({info.device})" if info.device else info.device_type,
        str(info.gpu_count) if info.gpu_available else "-",
        str(free) if info.gpu_available and free is not None else "-",
        ", ".join(info.cached_models) or "-",
        ", ".join(f"{name} {speed:,.0f}" for name, speed in info.speeds.items()) or "-",
        f"{info.segments_done:,}", info.version, info.host, _format_age(row),
    ]  # fmt: skip


def _format_age(row: WorkerRow) -> str:
    seconds = row.last_sign_s
    if seconds is None:
        return "?"
    return f"{seconds:.0f} s ago" if seconds < 60 else f"{format_duration(seconds)} ago"
