"""One process per device, of any brand and speed at once; each pulls what it can finish soonest.

    with Pool(placements, Recipe("anyrig.speech.engines:make")) as pool:
        for outcome in pool.run(texts, cost=len): ...

Results come in order while later items are computed. A worker that dies is replaced and its items
run again (`blame`); a device that is lost or dies twice is set aside and its items go elsewhere, to
the fall-back at last. Nothing of it outlives the pool.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from anyrig.errors import WorkError
from anyrig.work import wire
from anyrig.work.engine import Recipe
from anyrig.work.outcome import Outcome, Report
from anyrig.work.pack import LOOK_AHEAD
from anyrig.work.runs import Runs
from anyrig.work.seen import Seen
from anyrig.work.shift import SILENT_S
from anyrig.work.staff import Staff
from anyrig.work.worker import Gone, Said

if TYPE_CHECKING:
    from anyrig.memory.limits import BatchSizeLimits
    from anyrig.placement import Placement

log = logging.getLogger(__name__)
T = TypeVar("T")
_PULSE_S = 0.5


class Pool:
    """Workers on devices, kept from one run to the next."""

    def __init__(
        self,
        placements: Sequence[Placement],
        recipe: Recipe,
        *,
        environment: Mapping[str, str],
        fallback: Placement | None = None,
        limits: BatchSizeLimits | None = None,
        stamp: str = "",
        deterministic: bool = False,
        beat_s: float = wire.BEAT_S,
        silent_s: float = SILENT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the workers; they load while this goes on.

        Args:
            placements: where they sit; `workers` of each.
            recipe: how each makes its engine.
            environment: this process's own.
            fallback: where items go when no device is left; usually the CPU.
            limits: batch sizes that earlier runs found; what this one finds is kept there.
            stamp: driver and library versions, under which sizes hold.
            deterministic: an item's result must not depend on its company.
            beat_s: how often each worker says that it lives.
            silent_s: a worker that does not for so long is ended, and its items run again.
            clock: seconds that only go forward.
        """
        self._events: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self._staff = Staff(
            recipe, environment, self._events, fallback=fallback, limits=limits, stamp=stamp,
            deterministic=deterministic, beat_s=beat_s, clock=clock,
        )  # fmt: skip
        self._runs = Runs(self._staff, self._events, "pool", clock=clock, silent_s=silent_s)
        if not placements and fallback is None:
            raise WorkError("a pool without a place to work", hint="Give it a placement.")
        try:
            for placement in placements:
                for _ in range(placement.workers):
                    self._staff.hire(placement)
        except BaseException:
            self._staff.dismiss()
            raise

    @property
    def warnings(self) -> list[str]:
        """What went wrong with devices so far, for the person."""
        return self._staff.warnings

    @property
    def pids(self) -> list[int]:
        """The workers' process numbers."""
        return self._staff.pids

    @property
    def size(self) -> int:
        """How many live, loading ones included."""
        return len(self._staff.pids)

    def workers(self) -> tuple[Seen, ...]:
        """Its processes as they were last seen, and the last that died; asks nobody."""
        return self._staff.seen()

    @property
    def total(self) -> Report:
        """The figures of all its runs so far."""
        return self._staff.total

    def let_go(self, name: str) -> None:
        """Have a model closed of workers that keep several; one that is in use stays."""
        for worker in list(self._staff.ready.values()):
            worker.let_go(name)

    def wait_ready(self) -> None:
        """Wait until every worker has loaded its engine or was set aside."""
        later: list[Said] = []
        while self._staff.num_loading:
            self._staff.check()
            try:
                said = self._events.get(timeout=_PULSE_S)
            except queue.Empty:
                continue
            worker = self._staff.heard(said)
            if worker is None:
                continue
            if isinstance(said.message, (Gone, wire.Lost)):
                self._staff.lose(worker, said.message.said, [])
            else:
                later.append(said)  # of an earlier run: the next one puts it right
        for said in later:
            self._events.put(said)
        self._staff.check()

    def run(
        self,
        payloads: Iterable[T],
        *,
        cost: Callable[[T], float],
        look_ahead: int = LOOK_AHEAD,
        report: Report | None = None,
        noted: Callable[[Outcome[Any]], None] | None = None,
        ordered: bool = True,
    ) -> Iterator[Outcome[Any]]:
        """An outcome for every item, in the order of the input; see `work.run.run`.

        `noted` is told of each as soon as it is there, before those that it overtook: what is kept
        then is not lost with the process. Without `ordered` outcomes come as they are made.
        """
        return self._runs.run(
            payloads, cost=cost, look_ahead=lambda: look_ahead, report=report, noted=noted,
            ordered=ordered, ended=self._staff.remember,
        )  # fmt: skip

    def close(self) -> None:
        """End every worker."""
        self._runs.close()
        self._staff.dismiss()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
