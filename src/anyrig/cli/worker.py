"""`anyrig worker`: this machine's devices work for a cluster."""

from __future__ import annotations

import argparse
import json
from functools import partial

from anyrig.app.cluster_worker import WorkerRequest, run_worker
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter
from anyrig.cli.rig import open_rig
from anyrig.events import ClusterEvent

HELP = """Join a cluster: receive tasks from a broker, run them on this machine's best device, and
send the results back. `anyrig coordinator` prints the line to type, with --join and a token;
--broker names a broker by its address. --device all starts a worker for each usable device, under
names such as NAME-cuda0. A voice is loaded when the first task needs it, and stays loaded. It
leaves with Ctrl+C or SIGTERM, or when `anyrig cluster drain NAME` asks it to: it finishes the
current task first, for 20 seconds at most; a second Ctrl+C stops it at once. While the broker is
unavailable it waits. It reads REDIS_URL or COORDINATOR_IP (the broker), USE_GPU=auto|yes|no, GPU_ID
and CUDA_VISIBLE_DEVICES (the device), WORKER_ID (the name) and NUM_WORKERS (workers on each device)
of the environment; flags take precedence over these, and these over settings."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, WorkerRequest)


def run(arguments: argparse.Namespace) -> int:
    with EventPrinter(format_cluster=partial(_format, as_json=arguments.json)) as printer:
        rig = open_rig(arguments, printer)
        request = rig.request(WorkerRequest, **read_flags(arguments, WorkerRequest))
        return run_worker(rig, request, printer)


def _format(event: ClusterEvent, *, as_json: bool) -> str:
    name, facts = event.name, event.facts
    if as_json:
        return json.dumps({"event": event.event, "name": name, **facts}, default=str)
    if event.event == "ready":
        return f"{name} is ready on {facts['device']} (Ctrl+C stops it)"
    if event.event == "loaded":
        return (
            f"{name} loaded {facts['model']} {facts['version']} ({facts['precision']}) on"
            f" {facts['device']} as {facts['word']}; GPU available:"
            f" {'yes' if facts['gpu_available'] else 'no'}"
        )
    return f"{name} left: {facts['reason']}"
