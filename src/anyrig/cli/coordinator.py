"""`anyrig coordinator`: a broker for the machines of a room, and the line that lets them join."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from anyrig.cli import coordinator_place as place
from anyrig.cli.beat import Beat
from anyrig.cli.cluster_link import needs_celery
from anyrig.cli.context import Context
from anyrig.cli.output import print_warning
from anyrig.errors import AnyrigError, InvalidInputError, OverloadedError

if TYPE_CHECKING:
    from types import FrameType

    from anyrig.cluster.broker import Broker
    from anyrig.cluster.flower import Flower
    from anyrig.cluster.link import Link
    from anyrig.cluster.notice import Notice

HELP = """Lead a cluster: start a broker with a password of its own, keep its data, and print the
one line that lets other machines join with `anyrig worker`. With --broker or REDIS_URL, one that
runs is used instead. Ctrl+C ends everything that it started; started again, it has the same token
and the same data, and workers come back by themselves."""
_LOOK_S, _STEP_S = 1.0, 0.1
_PORT, _BOX_PORT = 6379, 6381
_FLOWER_MOST_S = 600.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "--broker",
        metavar="URL",
        help="use the broker there: redis://:PASSWORD@HOST:6379/0; REDIS_URL when not given",
    )
    parser.add_argument(
        "--host", metavar="ADDRESS",
        help="where it listens; this machine's address in its own network when not given",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, metavar="N",
        help=f"of the broker; that of last time, else {_PORT}; 0 any free one",
    )  # fmt: skip
    parser.add_argument(
        "--box-port", type=int, metavar="N",
        help=f"of the box for large answers; that of last time, else {_BOX_PORT}; 0 any free one",
    )  # fmt: skip
    parser.add_argument(
        "--address", metavar="NAME",
        help="what other machines call this one; its address when not given",
    )  # fmt: skip
    parser.add_argument(
        "--flower", action="store_true", help="start Flower, Celery's own page, as well"
    )
    parser.add_argument(
        "--flower-port", type=int, metavar="N", default=5555, help="of Flower; 5555 when not given"
    )


def run(options: argparse.Namespace) -> int:
    """Lead until told to stop."""
    needs_celery()
    context = Context(options)
    for name in ("port", "box_port", "flower_port"):
        number = getattr(options, name)
        if number is not None and not 0 <= number < 65536:
            flag = name.replace("_", "-")
            raise InvalidInputError(f"--{flag} {number}", hint="A port goes from 0 to 65535.")
    ending = _Ending()
    with ending, ExitStack() as stack:
        coordinator = Coordinator(context, stack)
        coordinator.start()
        coordinator.say()
        beat = Beat(context.environment, "coordinator")
        stack.callback(beat.end)
        while not ending.waited(_LOOK_S):
            beat()
            coordinator.tend()
        if not options.json:
            print("ending", file=sys.stderr)
    return 0


class Coordinator:
    """Everything that a coordinator starts; closed with the stack, the last first."""

    def __init__(self, context: Context, stack: ExitStack) -> None:
        self._context, self._stack = context, stack
        self._options = context.options
        self._folder = context.folders.cluster
        self._where = place.where(self._options.host, self._options.address)
        self._named = self._options.broker or context.environment.get("REDIS_URL", "")
        """A broker that runs; a password in the environment is read by nobody else."""
        self.broker: Broker | None = None
        self._flower: Flower | None = None
        self._next = self._flower_at = 0.0
        self._flower_wait_s = 1.0
        self._away = False

    # -- starting ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Broker, box, Flower, and the notice of them."""
        from anyrig.cluster import broker, flower, notice
        from anyrig.cluster.link import Link, checked
        from anyrig.cluster.status import Watch, exposed

        self._lock()
        flower.end_left(self._folder)
        path = self._context.folders.coordinator
        self._kept = broker.kept(path)
        if self._named:
            near = self._public = checked(self._named)
        else:
            near = self._start_broker()
        self.link: Link = Link(near)
        self._stack.callback(self.link.close)
        self.link.check()
        box = self._start_box()
        self._kept = replace(self._kept, broker=near)
        broker.keep(path, self._kept)
        self._notice = self._noticed(box, self._start_flower(near))
        self._watch = Watch(self.link)
        there = notice.read(self.link)
        others = []
        if there is not None and there.host != socket.gethostname():
            others = [f"another coordinator, on {there.host}, leads this broker: end one of them"]
        notice.write(self.link, self._notice)
        self._stack.callback(self._withdraw)
        self.warnings = [*self._where.warnings, *exposed(self.link, self._public), *others]
        host = urlsplit(self._public).hostname
        if self._named and host in ("127.0.0.1", "localhost", "::1"):
            self.warnings.append("the broker was named by an address of this machine alone: other "
                                 "machines cannot use this token")  # fmt: skip

    def _lock(self) -> None:
        """One coordinator of a user at a time; the system opens the lock of one that was killed."""
        from anyrig.storage.files import lock_file

        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        alone = lock_file(self._folder / ".lock", 0.5)
        if not self._stack.enter_context(alone):
            raise OverloadedError(
                "a coordinator runs here already", hint="`anyrig cluster status` shows its workers."
            )

    def _start_broker(self) -> str:
        """Its address for this machine; the one for others is kept as well."""
        from anyrig.cluster.broker import USER, Broker

        port = place.port_of(self._options.port, self._kept.port, _PORT)
        self.broker = Broker(
            self._folder / "broker", hosts=self._where.hosts, port=port,
            password=self._kept.password,
        )  # fmt: skip
        self._stack.callback(self.broker.stop)
        self.broker.start()
        self._kept = replace(self._kept, port=port)
        self._public, near = (
            f"redis://{USER}:{self._kept.password}@{place.bracketed(host)}:{port}/0"
            for host in (self._where.name, self._where.near)
        )
        return near

    def _start_box(self) -> str:
        from anyrig.cluster.box_server import Box, BoxServer

        port = place.port_of(self._options.box_port, self._kept.box_port, _BOX_PORT)
        doors = [place.bound(host, port, "--box-port") for host in self._where.hosts]
        server = BoxServer(Box(self._folder / "box"), self._kept.box_key, doors)
        self._stack.callback(server.close)
        server.start()
        self._kept = replace(self._kept, box_port=port)
        return f"http://{place.bracketed(self._where.name)}:{port}"

    def _start_flower(self, url: str) -> str:
        if not self._options.flower:
            return ""
        from anyrig.cluster.flower import Flower

        port = self._options.flower_port or place.free_port()
        place.bound(self._where.hosts[0], port, "--flower-port").close()
        self._flower = Flower(
            self._folder, url, host=self._where.hosts[0], port=port,
            password=self._kept.flower_password,
        )  # fmt: skip
        self._stack.callback(self._flower.stop)
        self._flower.start(self._context.environment)
        return f"http://{place.bracketed(self._where.name)}:{port}"

    def _noticed(self, box: str, flower: str) -> Notice:
        from anyrig.cluster.card import PROTOCOL
        from anyrig.cluster.notice import Notice
        from anyrig.version import __version__

        return Notice(
            __version__, PROTOCOL, box=box, box_key=self._kept.box_key, host=socket.gethostname(),
            pid=os.getpid(), flower=flower,
        )  # fmt: skip

    def _withdraw(self) -> None:
        from anyrig.cluster import notice

        with contextlib.suppress(Exception):  # a broker that is away forgets it by itself
            notice.withdraw(self.link)

    # -- going on ----------------------------------------------------------------------------------

    def tend(self) -> None:
        """Start again what died, renew the notice, tell who came and went."""
        from redis.exceptions import RedisError

        from anyrig.cluster import notice

        if self.broker is not None and not self.broker.alive:
            print_warning("the broker has died; it is started again over its data")
            try:
                self.broker.start()
            except (AnyrigError, OSError) as error:
                print_warning(f"it cannot be started: {error}")
                return
        self._tend_flower()
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + notice.RENEW_S
        try:
            notice.write(self.link, self._notice)
            for what, name, card in self._watch.look():
                self._told(what, name, card.device)
            self._away = False
        except (RedisError, OSError) as error:
            if not self._away:
                print_warning(f"the broker does not answer: {error}")
            self._away = True

    def _tend_flower(self) -> None:
        """Start it again, each time after twice as long: it may be unable to run here."""
        now = time.monotonic()
        if self._flower is None or self._flower.alive or now < self._flower_at:
            return
        self._flower_wait_s = min(_FLOWER_MOST_S, 2 * self._flower_wait_s)
        self._flower_at = now + self._flower_wait_s
        log = self._folder / "flower.log"
        print_warning(f"Flower has ended, {log} says why; it is started again")
        try:
            self._flower.start(self._context.environment)
        except (AnyrigError, OSError) as error:  # a page less; the cluster goes on
            print_warning(f"Flower cannot be started: {error}")

    def _told(self, what: str, name: str, device: str) -> None:
        if self._options.json:
            _print({"event": what, "worker": name, "device": device})
        else:
            _print(f"{name} {'is lost' if what == 'lost' else what} ({device})")

    def say(self) -> None:
        """What a person must know, and the one line for other machines."""
        from anyrig.cluster.flower import USER
        from anyrig.cluster.link import shown
        from anyrig.cluster.token import Token

        for warning in self.warnings:
            print_warning(warning)
        token = Token(self._public, self._kept.box_key).text
        flower = self._notice.flower
        if self._options.json:
            said: dict[str, Any] = {
                "event": "listening", "broker": shown(self._public), "box": self._notice.box,
                "flower": flower, "token": token, "join": f"anyrig worker --join {token}",
                "adopted": self.broker is not None and self.broker.adopted,
                "warnings": self.warnings,
            }  # fmt: skip
            if flower:
                said |= {"flower_user": USER, "flower_password": self._kept.flower_password}
            _print(said)
            return
        again = " (it was running already)" if self.broker and self.broker.adopted else ""
        lines = [f"broker  {shown(self._public)}{again}", f"box     {self._notice.box}"]
        if flower:
            lines.append(f"flower  {flower}  user {USER}, password {self._kept.flower_password}")
        lines += [
            "", "On every machine that shall help:", "", f"  anyrig worker --join {token}", "",
            "Whoever has this line can use the cluster and read its texts.  (Ctrl+C ends it)",
        ]  # fmt: skip
        _print("\n".join(lines))


def _print(what: str | dict[str, Any]) -> None:
    print(what if isinstance(what, str) else json.dumps(what))
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()


class _Ending:
    """Ctrl+C and SIGTERM end it by way of all that it has to close; twice, at once.

    No `threading.Event`: a handler that sets one in the thread that waits for it, at just that
    moment, waits for its lock for ever.
    """

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def waited(self, seconds: float) -> bool:
        """Wait so long, or until it should end; whether it should."""
        end = time.monotonic() + seconds
        while not self._asked and time.monotonic() < end:
            time.sleep(_STEP_S)
        return self._asked

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._heard)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
