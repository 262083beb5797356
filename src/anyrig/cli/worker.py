"""`anyrig worker`: this machine's device helps a cluster."""

from __future__ import annotations

import argparse
import logging
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute, speaker, voicing
from anyrig.cli.context import Context
from anyrig.cli.pick import pick
from anyrig.cli.show import print_warning

if TYPE_CHECKING:
    from anyrig.cluster.card import Offer
    from anyrig.cluster.loaded import Loaded
    from anyrig.speech.protocol import Value
    from anyrig.speech.stage import Stage

log = logging.getLogger(__name__)
HELP = """Join a cluster: take shards of work from a broker, do them on this machine's device, and
give the audio back. The engine is loaded once, when the first shard needs it, and kept."""
_MANY = 1 << 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("--broker", metavar="URL", help="such as redis://HOST:6379/0")
    parser.add_argument("--name", metavar="NAME", help="this machine's name when not given")
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Work until told to stop."""
    from anyrig.cluster.app import made, named
    from anyrig.cluster.link import Link, checked, open_to_the_world
    from anyrig.cluster.loaded import About
    from anyrig.cluster.place import Workplace
    from anyrig.cluster.tasks import open_at

    context = Context(options)
    url = checked(options.broker or named(context.environment))
    link = Link(url)
    link.check()
    if open := open_to_the_world(url):
        print_warning(open)
    name = options.name or socket.gethostname()
    device = pick(context).device
    about = About(name, device.name, device.kind, "cpu", _offers(context))
    place = Workplace(link, about, lambda *words: _open(context, *words), small=_small)
    open_at(place)
    app = made(url)
    worker = app.Worker(
        hostname=f"{name}@{socket.gethostname()}", pool="threads", concurrency=8,
        queues=[f"anyrig.{name}"], without_gossip=True, without_mingle=True,
        loglevel=logging.WARNING, quiet=True,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.callback(place.close)
        place.start()
        print(f"{name} is ready on {device.name}", flush=True)
        worker.start()
    return 0


def _offers(context: Context) -> tuple[Offer, ...]:
    """The engines that are ready here."""
    from anyrig.cluster.card import offer_of
    from anyrig.errors import AnyrigError
    from anyrig.speech import engines

    found = []
    for name in engines.names():
        try:
            kind = engines.engine_class(name)
            if not kind.spec.cloud:
                found.append(offer_of(speaker.found(context, name, kind)))
        except (AnyrigError, ImportError):
            continue
    return tuple(found)


def _small(data: bytes) -> bytes:
    from anyrig.speech.sound.pack import pack, unpack

    return pack(unpack(data), small=True)


class _Engine:
    """A stage with a counter over it."""

    def __init__(self, stage: Stage, offer: Offer) -> None:
        from anyrig.work.live import Live

        self.offer = offer
        self.voices = frozenset(voice.name for voice in stage.found.voices)
        stage.crew.wait_ready()
        self.live: Any = Live(
            stage.crew, cost=lambda line: line.cost, ahead=max(16, 4 * stage.lines_at_once)
        )

    def close(self) -> None:
        """End its processes."""
        self.live.close()


def _open(context: Context, engine: str, precision: str, options: Mapping[str, Value]) -> Loaded:
    """An engine on this worker's device."""
    from anyrig.cluster.card import offer_of
    from anyrig.speech.engines import engine_class
    from anyrig.speech.stage import Stage

    kind = engine_class(engine)
    found = speaker.found(context, engine, kind)
    chosen = speaker.Chosen(engine, kind, found, dict(options), True)
    placed = voicing.placed(context, chosen, _MANY)
    stage = Stage(
        engine=engine, found=found, placed=placed, environment=context.environment, options=options,
        stamp=voicing.stamp(context, placed),
    )  # fmt: skip
    return _Engine(stage, offer_of(found))
