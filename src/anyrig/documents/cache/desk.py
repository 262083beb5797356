"""One desk for many threads: what they ask for at the same time is made together, and made once.

    desk = Desk(embedder, Shelf(store, marks, dimension))
    future = desk.submit(["a question"], use="query")[0]     a person waits
    for vector in desk.embed(texts): ...                     a job of many texts
    desk.close()

The model is run by one thread, or by one for each of its workers. It takes what waits, at once
where it is idle; what comes while it runs goes together into the next slice. A person's text
overtakes the work of many texts, which is cut into slices for that (`pace`). Texts that are asked
for again while they wait or are made cost nothing more. Where one text of a slice fails, the slice
is halved until only that one does.

`submit` answers with futures of `concurrent.futures`, one for each text; `asyncio.wrap_future`
makes them awaitable. One that is cancelled before its turn costs nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from anyrig.documents.cache.kept import Kept, gathered
from anyrig.documents.cache.pace import MOST_SINGLES, SINGLES_IN_A_ROW, Lane, Pace, cost
from anyrig.errors import (
    MORE_DETAILS,
    DeviceError,
    MissingPackageError,
    OutOfMemoryError,
    OverloadedError,
    WorkError,
)

if TYPE_CHECKING:
    from anyrig.documents.cache.shelf import Shelf, Vector
    from anyrig.documents.model import Model
    from anyrig.documents.protocol import Use, Vectors

AHEAD, CHUNK = 8192, 512
"""Texts of one stream that may wait here, and how many are laid down at a time."""
MOST_WAITING = 100_000
FEW = 8
"""So many texts at once are still a person's."""


@dataclass(eq=False)
class _Wanted:
    """A text that waits or is being made, and all who want its vector."""

    text: str
    use: Use
    lane: Lane
    futures: list[Future[Vector]] = field(default_factory=list)
    running: bool = False

    def join(self) -> Future[Vector]:
        """One more who wants it; never another's future, which may be cancelled."""
        future: Future[Vector] = Future()
        if self.running:
            future.set_running_or_notify_cancel()
        self.futures.append(future)
        return future

    def begin(self) -> bool:
        """Its turn has come; False where nobody wants it any more."""
        self.running = True
        self.futures = [one for one in self.futures if one.set_running_or_notify_cancel()]
        return bool(self.futures)


class Desk:
    """Takes texts of many threads to one model. Fits `protocol.Vectors`.

    Args:
        vectors: what makes vectors; run by threads of the desk alone, and not closed here.
        shelf: where vectors are kept; what lies there is answered at once.
        most_waiting: texts of a lane that may wait; over it `OverloadedError` is raised.
        threads: slices that are made at once; more than one where `vectors` may be shared.
        pace: how work is cut.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        vectors: Vectors,
        shelf: Shelf | None = None,
        *,
        most_waiting: int = MOST_WAITING,
        threads: int = 1,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._vectors = vectors if shelf is None else Kept(vectors, shelf)
        self._shelf, self._most_waiting, self._clock = shelf, most_waiting, clock
        self._pace = pace or Pace()
        self._come = threading.Condition()
        """Its lock is for all that follows."""
        self._wanted: dict[tuple[str, str], _Wanted] = {}
        self._lanes: dict[Lane, deque[_Wanted]] = {"single": deque(), "bulk": deque()}
        self._in_a_row = 0
        self._closed = False
        self._num_threads = threads
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def model(self) -> Model:
        """Whose vectors they are."""
        return self._vectors.model

    @property
    def running(self) -> int:
        """How many texts are being made."""
        with self._come:
            return sum(one.running for one in self._wanted.values())

    def waiting(self, lane: Lane) -> int:
        """How many texts of a lane wait."""
        return len(self._lanes[lane])

    # -- asking ------------------------------------------------------------------------------------

    def submit(
        self, texts: Iterable[str], *, use: Use = "passage", lane: Lane | None = None
    ) -> list[Future[Vector]]:
        """A future for the vector of each text; of an error, only those whose text failed have it.

        Args:
            texts: what is to be embedded.
            use: what for.
            lane: `single` where a person waits; without it, for a few texts.
        """
        asked = list(texts)
        lane = lane or ("single" if len(asked) <= FEW else "bulk")
        found = self._find(asked, use)
        with self._come:
            self._check_open()
            self._check_room(lane, {text for text in asked if text not in found}, use)
            futures = [self._future(text, use, lane, found) for text in asked]
            if lane == "single":
                self._pace.came(self._clock())
            self._start()
            self._come.notify()
        return futures

    def embed(
        self, texts: Iterable[str], *, use: Use = "passage", lane: Lane = "bulk"
    ) -> Iterator[Vector]:
        """A vector of each text, in order; the first error ends it."""
        waiting: deque[Future[Vector]] = deque()
        rest = iter(texts)
        try:
            while True:
                while len(waiting) < AHEAD and (some := list(islice(rest, CHUNK))):
                    waiting.extend(self.submit(some, use=use, lane=lane))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> Vector:
        """All vectors as the rows of one matrix."""
        return gathered(self.embed(texts, use=use), texts, self.model.dimension)

    def close(self) -> None:
        """End after the slice that runs; whatever waits is answered with an error."""
        with self._come:
            self._closed = True
            self._come.notify_all()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _find(self, texts: Sequence[str], use: Use) -> dict[str, Vector]:
        """What lies on the shelf; in the thread that asks, so that nobody else waits for it."""
        if self._shelf is None:
            return {}
        names = {text: self._shelf.key(text, use) for text in texts}
        found = self._shelf.find(names.values())
        return {text: found[name] for text, name in names.items() if name in found}

    def _future(self, text: str, use: Use, lane: Lane, found: dict[str, Vector]) -> Future[Vector]:
        if text in found:
            ready: Future[Vector] = Future()
            ready.set_result(found[text].copy())
            return ready
        wanted = self._wanted.get((use, text))
        if wanted is None:
            wanted = self._wanted[use, text] = _Wanted(text, use, lane)
            self._lanes[lane].append(wanted)
        elif lane == "single" and wanted.lane == "bulk" and not wanted.running:
            wanted.lane = "single"  # its place among the others is passed over
            self._lanes[lane].append(wanted)
        return wanted.join()

    def _check_open(self) -> None:
        if self._closed:
            raise _closed()

    def _check_room(self, lane: Lane, texts: set[str], use: Use) -> None:
        waiting = len(self._lanes[lane])
        if waiting + sum((use, text) not in self._wanted for text in texts) > self._most_waiting:
            raise OverloadedError(
                f"the queue is full: {waiting} texts are waiting", hint="Try again in a moment."
            )

    def _start(self) -> None:
        if not self._threads and any(self._lanes.values()):
            for _ in range(self._num_threads):
                thread = threading.Thread(target=self._work, name="embedding desk", daemon=True)
                self._threads.append(thread)
                thread.start()

    # -- the thread that runs the model ------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._come:
                while not self._closed and not any(self._lanes.values()):
                    self._come.wait()
                if self._closed:
                    return self._refuse_all()
                lane, some = self._take()
                if any(self._lanes.values()):
                    self._come.notify()  # there is something for another thread as well
            if some:
                start = self._clock()
                self._answer(some)
                now, size = self._clock(), sum(cost(one.text) for one in some)
                with self._come:
                    self._pace.took(lane, size, now - start, now)

    def _take(self) -> tuple[Lane, list[_Wanted]]:
        """The next slice: at least one text, however long."""
        singles, bulk = self._lanes["single"], self._lanes["bulk"]
        turn = bool(bulk) and self._in_a_row >= SINGLES_IN_A_ROW
        lane: Lane = "single" if singles and not turn else "bulk"
        self._in_a_row = self._in_a_row + 1 if lane == "single" else 0
        budget = self._pace.budget(lane, self._clock())
        some, left = self._taken(lane, budget, at_least=1)
        if lane == "single" and (room := self._pace.full - (budget - left)) > 0:
            some += self._taken("bulk", room)[0]
        return lane, some

    def _taken(
        self, lane: Lane, budget: float, *, at_least: int = 0
    ) -> tuple[list[_Wanted], float]:
        """The first texts of a lane that somebody still wants, and what is left of the budget."""
        queue, some = self._lanes[lane], list[_Wanted]()
        while queue and (len(some) < at_least or budget >= cost(queue[0].text)):
            if lane == "single" and len(some) >= MOST_SINGLES:
                break
            wanted = queue.popleft()
            if wanted.lane != lane:
                continue
            if wanted.begin():
                some.append(wanted)
                budget -= cost(wanted.text)
            else:
                del self._wanted[wanted.use, wanted.text]
        return some, budget

    def _answer(self, some: Sequence[_Wanted]) -> None:
        for use in dict.fromkeys(one.use for one in some):
            self._run([one for one in some if one.use == use], use)

    def _run(self, some: Sequence[_Wanted], use: Use) -> None:
        """Make the vectors of some texts, and find out whose fault it is where that fails."""
        made: list[Vector] = []
        error: Exception = WorkError("a text got no vector", hint=MORE_DETAILS)
        try:
            # To the end, so that all is on the shelf before anyone may ask for it again.
            made.extend(self._vectors.embed([one.text for one in some], use=use))
        except Exception as raised:  # noqa: BLE001 - it is the answer to those who asked
            error = raised
        for wanted, vector in zip(some, made, strict=False):
            self._settle(wanted, vector)
        rest = some[len(made) :]
        if len(rest) == 1 or _hopeless(error):
            for wanted in rest:
                self._settle(wanted, error)
        elif rest:
            half = len(rest) // 2
            self._run(rest[:half], use)
            self._run(rest[half:], use)

    def _settle(self, wanted: _Wanted, answer: Vector | Exception) -> None:
        """Tell all who wait. An error is not remembered: who asks next, asks anew."""
        with self._come:
            self._wanted.pop((wanted.use, wanted.text), None)
            futures = wanted.futures
        for number, future in enumerate(futures):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer.copy() if number else answer)

    def _refuse_all(self) -> None:
        waiting = [one for queue in self._lanes.values() for one in queue if not one.running]
        for queue in self._lanes.values():
            queue.clear()
        for wanted in dict.fromkeys(waiting):
            if wanted.begin():
                self._settle(wanted, _closed())


def _closed() -> WorkError:
    return WorkError("the embedding queue is closing", hint="Ask again later.")


def _hopeless(error: Exception) -> bool:
    """Whether it is nobody's fault: halving would only fail more often."""
    return isinstance(error, (DeviceError, MissingPackageError)) and not isinstance(
        error, OutOfMemoryError
    )
