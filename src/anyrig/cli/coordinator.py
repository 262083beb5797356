"""`anyrig coordinator`: a broker for a cluster, and the line that lets machines join."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial

from anyrig.app.coordinator import CoordinatorRequest, run_coordinator
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter
from anyrig.cli.rig import open_rig
from anyrig.events import ClusterEvent

HELP = """Run a cluster's broker: start one with a password of its own, keep its data, and print the
one line that lets other machines join with `anyrig worker`. With --broker or REDIS_URL, one that
runs is used instead. Ctrl+C stops everything that it started; started again, it has the same token
and the same data, and workers reconnect by themselves. --new-token replaces a token that was
leaked: every machine must join again."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, CoordinatorRequest)


def run(arguments: argparse.Namespace) -> int:
    with EventPrinter(format_cluster=partial(_format, as_json=arguments.json)) as printer:
        rig = open_rig(arguments, printer)
        request = rig.request(CoordinatorRequest, **read_flags(arguments, CoordinatorRequest))
        run_coordinator(rig, request, printer)
    if not arguments.json:
        print("stopped", file=sys.stderr)
    return 0


def _format(event: ClusterEvent, *, as_json: bool) -> str:
    facts = event.facts
    if as_json:
        return json.dumps({"event": event.event, **facts})
    if event.event != "listening":
        what = "is lost" if event.event == "lost" else event.event
        return f"{event.name} {what} ({facts['device']})"
    adopted = " (it was running already)" if facts["adopted"] else ""
    lines = [f"broker  {facts['broker']}{adopted}"]
    if facts["flower"]:
        user, password = facts["flower_user"], facts["flower_password"]
        lines.append(f"flower  {facts['flower']}  user {user}, password {password}")
    lines += [
        "", "On every machine that is to join:", "", f"  {facts['join']}", "",
        "Whoever has this line can use the cluster and read its texts.  (Ctrl+C stops it)",
    ]  # fmt: skip
    return "\n".join(lines)
