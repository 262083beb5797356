"""`anyrig cluster`: who works in a cluster and how, and letting workers leave."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import time
from typing import TYPE_CHECKING

from anyrig.cli import cluster_show
from anyrig.cli.cluster_link import linked
from anyrig.cli.context import Context
from anyrig.cli.escape import esc
from anyrig.cli.output import print_json
from anyrig.errors import InvalidInputError, WorkError

if TYPE_CHECKING:
    from anyrig.cluster.link import Link
    from anyrig.cluster.status import Status

HELP = """How a cluster is. `status` lists its workers: device, models, measured speed, what they
have done, and those that are lost. `drain NAME` lets a worker finish what it has and gives it no
more, for an upgrade; with --wait the command ends when it has nothing left. `undrain NAME` takes
that back. `forget NAME` takes a lost worker off the list."""
MIXED = True
_ACTIONS = ("status", "drain", "undrain", "forget")
_LOOK_S = 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help=f"{', '.join(_ACTIONS)}; then names of workers"
    )
    parser.add_argument(
        "--broker",
        metavar="URL",
        help="such as redis://HOST:6379/0, or a token; this machine's own",
    )
    parser.add_argument("--watch", action="store_true", help="with status: again and again")
    parser.add_argument(
        "--interval", type=float, metavar="S", default=2.0, help="with --watch: seconds between"
    )
    parser.add_argument(
        "--wait", action="store_true", help="with drain: until the worker has nothing left"
    )
    parser.add_argument(
        "--timeout", type=float, metavar="S", default=3600.0, help="with --wait: at most so long"
    )


def run(options: argparse.Namespace) -> int:
    """Show or change."""
    context = Context(options)
    action, *names = options.words or ["status"]
    if action not in _ACTIONS:
        raise InvalidInputError(
            f"cluster {action}: no such thing", hint=f"There are: {', '.join(_ACTIONS)}."
        )
    if bool(names) == (action == "status"):
        wanted = "no name" if names else "the name of a worker"
        raise InvalidInputError(
            f"cluster {action} takes {wanted}", hint="anyrig cluster drain NAME"
        )
    link = linked(context, options.broker)
    try:
        if action == "status":
            return _status(context, link)
        return _change(context, link, action, names)
    finally:
        link.close()


def _status(context: Context, link: Link) -> int:
    from anyrig.cluster.status import look

    options = context.options
    if not options.watch:
        found = look(link)
        if options.json:
            print_json(found.plain())
        else:
            print(cluster_show.told(found))
        return 0
    while True:
        found = link.patiently(lambda: look(link))
        if options.json:
            print(json.dumps(found.plain()))
        else:
            mark = esc(sys.stdout)
            clear = f"{mark}[2J{mark}[H" if sys.stdout.isatty() else ""
            print(f"{clear}{cluster_show.told(found)}\n")
        sys.stdout.flush()
        time.sleep(max(0.1, options.interval))


def _change(context: Context, link: Link, action: str, names: list[str]) -> int:
    from anyrig.cluster import status
    from anyrig.cluster.card import Roll

    found = status.look(link)
    _check(found, names)
    roll = Roll(link)
    for name in names:
        if action == "forget":
            _forget(link, found, name)
        else:
            roll.drain(name, on=action == "drain")
    if action == "drain" and context.options.wait:
        _wait(link, names, context.options.timeout)
    if context.options.json:
        print_json({"action": action, "workers": names})
    else:
        told = {"drain": "finishes what it has and gets no more", "undrain": "may work again",
                "forget": "is off the list"}[action]  # fmt: skip
        if action == "drain" and context.options.wait:
            told = "has nothing left to do"
        print("\n".join(f"{name} {told}" for name in names))
    return 0


def _check(found: Status, names: list[str]) -> None:
    known = [row.name for row in found.rows]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"Did you mean {near[0]}? " if near else ""
            raise InvalidInputError(
                f"there is no worker {name!r}", hint=f"{meant}There are: {', '.join(known) or '-'}."
            )


def _forget(link: Link, found: Status, name: str) -> None:
    from anyrig.cluster import status

    row = next(row for row in found.rows if row.name == name)
    if row.status != status.LOST:
        raise InvalidInputError(
            f"{name} is there and would come back by itself",
            hint=f"`anyrig cluster drain {name}` lets it leave.",
        )
    status.forget(link, name)


def _wait(link: Link, names: list[str], timeout_s: float) -> None:
    """Until none of them has anything left to do: it is draining and idle, or gone."""
    from anyrig.cluster.card import Roll

    roll = Roll(link)
    end = time.monotonic() + timeout_s
    while True:
        living = link.patiently(roll.living)
        busy = [
            name for name in names
            if name in living and (living[name].status != "draining" or living[name].holds)
        ]  # fmt: skip
        if not busy:
            return
        if time.monotonic() > end:
            raise WorkError(
                f"{', '.join(busy)} still has work after {timeout_s:g} s",
                hint="`anyrig cluster status` shows what it does; what it has can be killed: "
                "others then do it again.",
            )
        time.sleep(_LOOK_S)
