"""The server's clerks: one process for what is quick, one for what takes long, one for what is to
be deleted; each started at need and kept by the model cache.

Pools of one each, rather than one of several: what waits for the quick one is never behind a long
task, and a task that kills its process takes nothing of the other kinds with it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from anyrig.app.models import ModelCache
from anyrig.cli import clerk, compute
from anyrig.cli.context import Context
from anyrig.errors import AnyrigError
from anyrig.server.waiting import Piece
from anyrig.work.live import ItemFuture, LiveQueue

if TYPE_CHECKING:
    from anyrig.work.live import Lane
    from anyrig.work.worker import LocalWorkers

_NAMES: dict[Lane, str] = {"live": "documents", "bulk": "documents, long tasks"}
"""What each clerk is called in the model cache, and in `/health`."""
_APART = dict.fromkeys(("index_delete", "index_remove"), "documents, deletions")
"""Tasks with a clerk of their own. What is deleted is overwritten on the disk, and searches must
not wait for it; nor must it wait for long work, which may take hours."""


def made(context: Context, stack: ExitStack, models: ModelCache) -> HiredClerks:
    """The part."""
    return HiredClerks(context, models, stack)


class HiredClerks:
    """Fits `server.parts.Clerks`: tasks go to the clerk of their lane, which starts at need.

    Args:
        context: of the server.
        models: has the processes ended when nobody asks.
        stack: what is taken away at the end.
        factory: what the processes become, where that is no plain clerk.
    """

    def __init__(
        self, context: Context, models: ModelCache, stack: ExitStack, factory: str = clerk.FACTORY
    ) -> None:
        self._context, self._models, self._factory = context, models, factory
        self._leashes = Path(stack.enter_context(TemporaryDirectory(prefix="anyrig-clerks-")))
        """A file for each task that somebody waits for: a clerk looks whether it is still there."""
        self._numbers = count()

    def submit(
        self,
        task: str,
        arguments: Mapping[str, Any],
        *,
        lane: Lane = "live",
        turn: float = 0.0,
    ) -> Piece[Any]:
        """A future of the task's answer. The first one starts a process: call it in a thread.

        Args:
            task: one of `clerk.TASKS`.
            arguments: plain JSON.
            lane: `bulk` for whatever may take more than a second or so.
            turn: lower ones come first: a file's number in its request.
        """
        settings = self._context.loaded.settings.server
        leash = self._leashes / str(next(self._numbers))
        with ExitStack() as stack:
            live = self._open(stack, lane, _APART.get(task, _NAMES[lane]))
            leash.touch()
            stack.callback(_let_go, leash)
            work = live.submit(
                {"task": task, "arguments": dict(arguments), "leash": str(leash)}, lane=lane,
                turn=turn, deadline=time.monotonic() + settings.deadline_s,
            )  # fmt: skip
            held = stack.pop_all()
        return _answer(work, held, leash)

    def _open(self, stack: ExitStack, lane: Lane, name: str) -> LiveQueue[Any, Any]:
        """A clerk's counter; another where the last one broke down."""
        live = stack.enter_context(self._models.borrow(name, lambda: self._started(lane)))
        if not live.open:
            self._models.discard(name, live)
            stack.close()
            live = stack.enter_context(self._models.borrow(name, lambda: self._started(lane)))
        return live

    def _started(self, lane: Lane) -> Counter:
        from anyrig.devices.choose import DeviceRequest, choose_device
        from anyrig.placement import Workload
        from anyrig.work.worker import LocalWorkers

        context = self._context
        cpu = choose_device(context.machine, (DeviceRequest("cpu", "flag"),))
        need = Workload("documents", gpu=False, cores=1, most_workers=1)
        placed = compute.placed(context, cpu, need)
        recipe = clerk.recipe(context, bulk=lane == "bulk", factory=self._factory)
        clerks = LocalWorkers(placed.placements[:1], recipe, environment=context.environment)
        live = Counter(clerks, context.loaded.settings.server.queue)
        # A process that has answered once is known to be good: if it dies, the task is to blame.
        try:
            clerk.raised(live.submit({"task": "ready", "arguments": {}}).result())
        except AnyrigError:
            live.close()
            raise
        return live


class Counter(LiveQueue[Any, Any]):
    """Where tasks wait for a clerk; its models can be let go one by one."""

    def __init__(self, clerks: LocalWorkers, most_waiting: int) -> None:
        from anyrig.work.pool import WorkerPool

        super().__init__(
            WorkerPool(clerks), cost=lambda _: 1.0, max_in_flight=1, max_waiting=most_waiting
        )
        self._clerks = clerks

    def unload_model(self, name: str) -> None:
        """Have a model closed, also while a task is at work with others."""
        self._clerks.unload_model(name)


def _let_go(leash: Path) -> None:
    """Nobody waits any more."""
    with suppress(OSError):
        leash.unlink(missing_ok=True)


def _answer(work: ItemFuture[Any], held: ExitStack, leash: Path) -> Piece[Any]:
    """The task's own answer or error; cancelled with it, and the clerk given back at its end."""
    answer: Piece[Any] = Piece(lambda: work.began)

    def done(found: Future[Any]) -> None:
        held.close()
        if found.cancelled() or not answer.set_running_or_notify_cancel():
            return
        try:
            answer.set_result(clerk.raised(found.result()))
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            answer.set_exception(error)

    def left(found: Future[Any]) -> None:
        if found.cancelled() and not work.cancel():
            _let_go(leash)  # it has begun: long tasks look for this between two steps

    answer.add_done_callback(left)
    work.add_done_callback(done)
    return answer
