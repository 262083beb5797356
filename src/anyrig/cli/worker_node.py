"""One node of a cluster: a Celery worker on one device, until it is asked to leave."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyrig.cli.beat import Beat
from anyrig.cli.context import Context
from anyrig.cli.output import print_warning
from anyrig.cli.serve import in_container
from anyrig.cli.worker import chosen, word_of
from anyrig.cli.worker_engine import Shop, small
from anyrig.cli.worker_look import Look
from anyrig.errors import WorkError

if TYPE_CHECKING:
    from anyrig.cli.worker import Post
    from anyrig.cluster.link import Link
    from anyrig.cluster.place import Workplace

log = logging.getLogger(__name__)
THREADS = 32
"""Shards that are taken at once: of each run one at work and one ready, and those where somebody
listens, which must find a thread whoever else waits. A thread that is not needed is not made."""
LEAVE_S = 20.0
"""What is at hand may take so long when the end was asked for; then it is given back."""
_LAST_S = 10.0
_MOST_NAMES = 100
_LOOK_S = 0.5


class Node:
    """A node.

    Args:
        context: of the command.
        post: what it is.
        url: of the broker.
        box_key: of the coordinator's box, where a token brought it.
    """

    def __init__(self, context: Context, post: Post, url: str, box_key: str = "") -> None:
        self._context, self._post, self._url, self._box_key = context, post, url, box_key
        self._asked = threading.Event()
        self._beat = Beat(context.environment, post.name)
        self._signals = 0
        self._why = ""
        self._place: Workplace | None = None

    def run(self) -> int:
        """Work until asked to leave; the exit code."""
        from anyrig.cluster.link import Link

        _keep_quiet(self._context.options.verbose)
        self._share()
        link = Link(self._url)
        joined(self._context, link, self._beat)
        with ExitStack() as stack:
            stack.callback(self._beat.end)
            stack.callback(link.close)
            stack.enter_context(self._signalled())  # before it has a name that it must give back
            place = stack.enter_context(contextlib.closing(self._placed(link, stack)))
            self._place = place
            if self._context.options.tied:
                threading.Thread(target=self._tied, name="anyrig-tied", daemon=True).start()
            return self._work(place)

    # -- joining ---------------------------------------------------------------------------------

    def _share(self) -> None:
        """Nodes that share a CPU have cores of their own, as far as there are enough."""
        post = self._post
        if post.share == 1 or post.device.kind != "cpu" or not hasattr(os, "sched_setaffinity"):
            return
        cores = sorted(os.sched_getaffinity(0))
        mine = cores[post.number :: post.share] or [cores[post.number % len(cores)]]
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, mine)
            self._context.__dict__.pop("machine", None)  # looked at anew

    def _placed(self, link: Link, stack: ExitStack) -> Workplace:
        """The workplace, under a name that is its own."""
        from anyrig.cluster.loaded import About
        from anyrig.cluster.place import Workplace
        from anyrig.cluster.welcome import is_alive, taken

        context, post = self._context, self._post
        look = Look(context, post.device)
        stack.callback(look.close)
        look.start()
        choice = chosen(context, quiet=True)
        shop = Shop(context, replace(choice, devices=(post.device,)), post)
        about = About(
            post.name, post.device.name, post.device.kind, word_of(post.device), shop.offers,
            shop.precisions, self._box_key, (post.device.memory.total_bytes or 0) >> 20,
        )  # fmt: skip
        pids = not in_container(context.environment)
        for number in range(1, _MOST_NAMES + 1):
            name = post.name if number == 1 else f"{post.name}-{number}"
            place = Workplace(
                link, replace(about, name=name), shop.open, observed=look, small=small,
                told=self._tell, beat=self._beat,
            )  # fmt: skip
            while (other := place.claim()) is not None:
                if is_alive(link, other, shared_pids=pids):
                    break
                place.take_over(other)
            if other is None:
                self._post = replace(post, name=name)
                return place
            if post.named or number == _MOST_NAMES:
                raise taken(other)
        raise AssertionError("the last name was free or taken")

    # -- working ---------------------------------------------------------------------------------

    def _work(self, place: Workplace) -> int:
        from celery.app.trace import setup_worker_optimizations

        from anyrig.cluster import calm
        from anyrig.cluster.app import made
        from anyrig.cluster.tasks import HEALTH, HEALTH_CHECK, SHARD, open_at

        calm.keep()
        logging.getLogger("celery.backends.base").setLevel(logging.ERROR)  # of each new try
        open_at(place)
        app = made(self._url)
        app.loader.import_default_modules()
        name = self._post.name
        host = f"{name}@{socket.gethostname()}"
        setup_worker_optimizations(app, host)  # its threads find this application, and no other
        for task in list(app.tasks):
            if task not in (SHARD, HEALTH, HEALTH_CHECK):
                app.tasks.unregister(task)  # nothing else is ever run here

        usual: Any = app.WorkController

        def info(self: Any) -> dict[str, Any]:
            return {**usual.info(self), **place.facts()}

        node = type("Controller", (usual,), {"info": info})(
            hostname=host, pool="threads", concurrency=THREADS,
            queues=[f"anyrig.{name}"], without_gossip=True, without_mingle=True,
            loglevel=logging.WARNING, ready_callback=lambda consumer: self._ready(place),
        )  # fmt: skip
        minder = threading.Thread(target=self._mind, args=(place,), name="anyrig-mind", daemon=True)
        minder.start()
        node.start()
        if not self._asked.is_set():
            raise WorkError("the node ended by itself", hint="-vv says more; start it again.")
        if place.replaced:
            raise WorkError(
                f"another worker is called {name} by now: this one gave no sign for too long",
                hint="Start it again.",
            )
        self._tell("left", {"why": self._why})
        return 0

    def _ready(self, place: Workplace) -> None:
        """The broker answers and takes our queue: from now on others see this worker."""
        if place.started:
            return  # the broker was away, and is there again
        place.start()
        post = self._post
        offers = [offer.engine for offer in place.offers]
        self._tell(
            "ready",
            {"device": post.device.name, "word": word_of(post.device), "engines": offers},
        )

    def _tell(self, event: str, facts: Mapping[str, Any]) -> None:
        """An event for whoever started it."""
        name = self._post.name
        if self._context.options.json:
            text = json.dumps({"event": event, "name": name, **facts}, default=str)
        elif event == "ready":
            text = f"{name} is ready on {facts['device']} (Ctrl+C ends it)"
        elif event == "loaded":
            gpu = "yes" if facts["gpu_available"] else "no"
            text = (
                f"{name} loaded {facts['model']} {facts['version']} ({facts['precision']}) on "
                f"{facts['device']} as {facts['word']}; GPU available: {gpu}"
            )
        else:
            text = f"{name} left: {facts['why']}"
        with contextlib.suppress(OSError, ValueError):  # nobody reads any more
            print(text, flush=True)

    # -- leaving ---------------------------------------------------------------------------------

    def _mind(self, place: Workplace) -> None:
        """Wait until it should leave, and see to it that it does."""
        from celery.worker import state

        from anyrig.cluster.link import BEAT_S

        while not self._asked.wait(_LOOK_S):
            # Asked by name it leaves when it has nothing left; until then that can be taken back.
            if place.drained.is_set() and (place.replaced or place.idle_s > BEAT_S):
                self._leave("it was asked to" if not place.replaced else "another took its name")
        # It was asked to leave, and does: whoever starts again what failed must not.
        last = threading.Timer(LEAVE_S + _LAST_S, os._exit, (0,))
        last.daemon = True
        last.start()
        finished = place.leave(LEAVE_S)
        if not finished:
            self._why += "; what it had at hand was given back"
        end = time.monotonic() + 3.0
        while state.active_requests and time.monotonic() < end:  # answers are on the way
            time.sleep(0.05)
        state.should_stop = 0  # type: ignore[assignment]  # the exit code, where it is one

    def _leave(self, why: str) -> None:
        self._why = self._why or why
        self._asked.set()

    @contextlib.contextmanager
    def _signalled(self) -> Any:
        """SIGTERM and Ctrl+C let it leave; the second time at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._signal)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    def _signal(self, number: int, frame: object) -> None:
        self._signals += 1
        if self._signals == 1:
            self._leave(signal.Signals(number).name)
            return
        # Its engines' processes end with it: they see that nobody speaks to them any more.
        threading.Thread(target=self._off, daemon=True).start()
        threading.Timer(2.0, os._exit, (128 + number,)).start()

    def _off(self) -> None:
        if self._place is not None:
            with contextlib.suppress(Exception):  # it ends now, whatever the broker does
                self._place.withdraw()
        os._exit(130)

    def _tied(self) -> None:
        """Leave when the process that started this one is gone."""
        with contextlib.suppress(OSError, ValueError):
            # Not by way of `sys.stdin.buffer`: a process that ends while that is read is aborted.
            while os.read(sys.stdin.fileno(), 4096):
                pass
        self._leave("the process that started it ended")


def joined(context: Context, link: Link, beat: Beat) -> None:
    """Wait for the broker, and see that this worker may join."""
    from anyrig.cluster.link import BrokerUnavailableError, shown
    from anyrig.cluster.status import exposed
    from anyrig.cluster.welcome import check_version

    patience_s, told, wait_s = context.options.wait, False, 0.5
    began = time.monotonic()
    while True:
        beat()
        try:
            link.check()
            break
        except BrokerUnavailableError as error:
            if "let us in" in error.message:
                raise
            if patience_s is not None and time.monotonic() - began >= patience_s:
                raise
            if not told:
                print_warning(f"{error.message}; trying again until it does")
                told = True
            time.sleep(wait_s)
            wait_s = min(5.0, 1.5 * wait_s)
    if told:
        log.warning("the broker %s answers", shown(link.url))
    for warning in exposed(link):
        print_warning(warning)
    check_version(link)


def _keep_quiet(verbose: int) -> None:
    """Celery's log goes the way of ours. Its chatter holds the texts of shards, and is left out."""
    for name in ("celery", "kombu", "redis", "amqp"):
        logging.getLogger(name).setLevel(logging.INFO if verbose > 1 else logging.WARNING)
    logging.getLogger("celery.app.trace").setLevel(logging.WARNING)
    if verbose < 2:  # told once by us, not at each try
        logging.getLogger("celery.worker.consumer").setLevel(logging.CRITICAL)
