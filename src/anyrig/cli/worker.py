"""`anyrig worker`: this machine's devices help a cluster."""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyrig.cli import compute
from anyrig.cli.cluster_link import broker_of, needs_celery
from anyrig.cli.context import Context
from anyrig.errors import InvalidInputError
from anyrig.units import is_whole_number

if TYPE_CHECKING:
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Device

HELP = """Join a cluster: take shards of work from a broker, speak them on this machine's best
device, and give the audio back. `anyrig coordinator` prints the line to type, with --join and a
token; --broker names a broker by its address. --device all starts a node for each device that can
be used, under names such as NAME-cuda0. A voice is loaded when the first shard needs it, and kept.
The worker leaves with Ctrl+C or SIGTERM, or when `anyrig cluster drain NAME` asks it to: it
finishes the shard at hand first, for 20 seconds at most; a second Ctrl+C ends it at once. While
the broker is away it waits for it. Of the environment it takes REDIS_URL or COORDINATOR_IP (the
broker), USE_GPU=auto|yes|no, GPU_ID and CUDA_VISIBLE_DEVICES (the device), WORKER_ID (the name)
and NUM_WORKERS (nodes on each device); flags come over them, and they over the settings."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST_NODES = 64


@dataclass(frozen=True)
class Post:
    """One node: a device under a name."""

    device: Device
    name: str
    named: bool
    """Whether a person chose the name: then another is no help."""
    share: int = 1
    """How many nodes share the device."""
    number: int = 0
    """Which of them this is."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "--broker", metavar="URL",
        help="such as redis://HOST:6379/0, or rediss://:PASSWORD@HOST:6380/0 with TLS",
    )  # fmt: skip
    parser.add_argument(
        "--join",
        metavar="TOKEN",
        help="the word that `anyrig coordinator` printed; other users of this machine do not see"
        " it in the variable ANYRIG_CLUSTER_BROKER",
    )
    parser.add_argument("--name", metavar="NAME", help="this machine's name when not given")
    parser.add_argument(
        "--nodes", type=int, metavar="N", help="so many nodes on each device; 1 when not given"
    )
    parser.add_argument(
        "--wait", type=float, metavar="S",
        help="give up when the broker has not answered for so many seconds at the start; 0 at"
        " once; for ever when not given",
    )  # fmt: skip
    # How one node of several is told what it is.
    parser.add_argument("--node", metavar="I/N", help=argparse.SUPPRESS)
    parser.add_argument("--tied", action="store_true", help=argparse.SUPPRESS)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Work until told to stop."""
    from anyrig.backends.memory import limit_arenas

    limit_arenas()  # before there are threads
    needs_celery()
    context = Context(options)
    options.unattended = True  # it finds its device by itself
    url, box_key = _broker(context)
    posts = _posts(context)
    if len(posts) == 1 or options.node:
        from anyrig.cli.worker_node import Node

        return Node(context, posts[0], url, box_key).run()
    from anyrig.cli.worker_many import Many

    return Many(context, posts, url).run()


def _broker(context: Context) -> tuple[str, str]:
    """The broker's address, and the key of the coordinator's box where a token has one."""
    from anyrig.cluster import token
    from anyrig.cluster.link import checked

    options = context.options
    if options.join and options.broker:
        raise InvalidInputError(
            "--join and --broker were both given", hint="A token holds the address."
        )
    named = broker_of(context, options.join or options.broker)
    if options.join or token.is_token(named):
        found = token.read(named)
        return checked(found.broker), found.box_key
    return checked(named), ""


def _posts(context: Context) -> list[Post]:
    """What this command starts: a node for each device, or several."""
    name, named = _name(context)
    if context.options.node:
        number, _, share = context.options.node.partition("/")
        device = chosen(context).device
        return [Post(device, name, True, int(share), int(number))]
    choice = chosen(context)
    devices: Sequence[Device] = choice.devices if choice.selector == "all" else (choice.device,)
    nodes = _nodes(context)
    several = len(devices) * nodes > 1
    found = []
    for device in devices:
        end = f"-{word_of(device).replace(':', '')}" if len(devices) > 1 else ""
        for number in range(nodes):
            last = f"-{number + 1}" if nodes > 1 else ""
            whole = f"{name}{end}{last}"
            found.append(Post(device, whole, named or several, nodes, number))
    return found


def chosen(context: Context, *, quiet: bool = False) -> DeviceChoice:
    """The device of this node.

    Args:
        context: of the command.
        quiet: it was told before, and measured.
    """
    from anyrig.cli.pick import pick

    if not any(gpu.usable for gpu in context.machine.gpus):
        context.options.no_bench = True  # nothing to choose by figures
    return context.choose(quiet=True) if quiet else pick(context)


def word_of(device: Device) -> str:
    """What its library calls a device."""
    from anyrig.devices.choose import select_backend

    backend = select_backend(device)
    return backend.selector if backend is not None else device.kind


def _name(context: Context) -> tuple[str, bool]:
    """What it is called, and whether somebody chose that."""
    given = (
        context.options.name or context.environment.get("WORKER_ID", "").strip()
        or context.loaded.settings.cluster.name
    )  # fmt: skip
    if given:
        if not _NAME.fullmatch(given):
            raise InvalidInputError(
                f"{given[:64]!r} is no name for a worker",
                hint="Letters, digits, dots, - and _; at most 64.",
            )
        return given, True
    own = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip("._-")
    return own[:48] or "worker", False


def _nodes(context: Context) -> int:
    asked = context.options.nodes
    if asked is not None:
        if not 1 <= asked <= _MOST_NODES:
            raise InvalidInputError(f"--nodes {asked}", hint=f"From 1 to {_MOST_NODES}.")
        return int(asked)
    told = context.environment.get("NUM_WORKERS", "").strip()
    if not told:
        return context.loaded.settings.cluster.nodes
    if not is_whole_number(told) or not 1 <= int(told) <= _MOST_NODES:
        raise InvalidInputError(
            f"NUM_WORKERS is {told!r}", hint=f"A number from 1 to {_MOST_NODES}."
        )
    return int(told)
