"""A studio for many at once: everybody's segments are made together, and each gets their own.

    with LiveStudio(Stage(engine="hibari", found=found, placed=placed, ...)) as studio:
        with studio.read(script.segments) as recital:
            for spoken in recital: ...

First segments of all come before anybody's second; where nobody listens (`bulk`), after those who
do. A line that several want at the same time is made once, a kept take is not made at all, and
fresh ones are kept. Nobody is served further ahead than a few segments, and what somebody who
left had asked for is not begun.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from anyrig.backends.memory import trim_heap
from anyrig.errors import (
    AnyrigError,
    Message,
    PoisonItemError,
    StorageError,
    UnspeakableTextError,
    WorkError,
    is_disk_full,
    to_disk_full_error,
)
from anyrig.speech.booth import Recording
from anyrig.speech.engine import Utterance
from anyrig.speech.maker import Spoken
from anyrig.work.live import MAX_WAITING, ItemFuture, Lane, LiveQueue

if TYPE_CHECKING:
    from anyrig.speech.segment import Segment
    from anyrig.speech.stage import Stage

log = logging.getLogger(__name__)
AHEAD, AHEAD_GPU = 4, 16
"""Segments of one listener that are asked for at a time. Two would keep a core busy; batches on a
GPU are filled by several, and by few listeners where there are no more."""
_LINES_PER_THREAD, _HELD_GPU = 4, 64
"""What the pool holds at once: as much as one call of a booth takes, so that what comes in between
waits for no more than that; on a GPU, for each worker."""
_TRIM_EVERY = 256  # segments: what audio leaves behind is given back
_TOLD = 60  # characters of a line that could not be spoken


@dataclass(eq=False)
class _Making:
    """A line that is being made, or waits to be, and everybody who wants it."""

    line: Utterance
    lane: Lane
    priority: float
    future: ItemFuture[Recording]
    client: str
    wanted: list[Future[Recording]] = field(default_factory=list)
    answered: bool = False
    """Whether it is made, and on its way to the shelf."""


class Asked(NamedTuple):
    """A segment that was asked for: its name, and a future of it or the take that was kept."""

    name: str
    future: Future[Recording] | None
    kept: Spoken | None = None


@dataclass(frozen=True)
class Given:
    """A segment that is there; packed, as the thread that brings it has others to serve."""

    number: int
    segment: Segment
    kept: Spoken | None = None
    recording: Recording | None = None

    def spoken(self) -> Spoken:
        """It with its take."""
        from anyrig.speech.pack import unpack

        if self.kept is not None:
            return self.kept
        assert self.recording is not None
        made = self.recording
        return Spoken(
            self.number, self.segment, unpack(made.data), made.problems, made.tries,
            hopeless=made.hopeless,
        )  # fmt: skip


class LiveStudio:
    """An engine on every device that was placed, for as many readers as come."""

    def __init__(
        self, stage: Stage, *, most_waiting: int = MAX_WAITING, client_share: float = 1.0
    ) -> None:
        """Wait until the engine is loaded everywhere.

        Args:
            stage: is closed with this.
            most_waiting: segments of a lane that may wait; over it readers are told
            `OverloadedError`.
            client_share: how much of that one client may use.
        """
        self.engine = stage.info.name
        self._stage = stage
        self.rate = stage.found.sample_rate
        """Samples per second."""
        self._lock = threading.Lock()
        self._making: dict[str, _Making] = {}
        self._num_asked = 0
        try:
            self._stage.crew.wait_ready()
        except BaseException:
            self._stage.crew.close()
            raise
        self._keeping = ThreadPoolExecutor(1, thread_name_prefix="anyrig-keep")
        held = _HELD_GPU * stage.on_gpus or _LINES_PER_THREAD * max(
            self._stage.lines_at_once, self._stage.crew.size
        )
        self.live: LiveQueue[Utterance, Recording] = LiveQueue(
            self._stage.crew,
            cost=lambda line: line.cost,
            max_in_flight=held,
            max_waiting=most_waiting,
            client_share=client_share,
        )
        """The counter; it says how many wait."""

    @property
    def is_open(self) -> bool:
        """Whether it takes anything; not after its workers have failed for good."""
        return self.live.is_open

    @property
    def warnings(self) -> list[str]:
        """What went wrong with devices so far."""
        return self._stage.crew.warnings

    def close(self) -> None:
        """End every worker; whoever waits is told so."""
        self.live.close()
        self._keeping.shutdown(wait=True)

    def __enter__(self) -> LiveStudio:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(
        self,
        segments: Sequence[Segment],
        *,
        lane: Lane = "live",
        wait_s: float | None = None,
        ahead: int = 0,
        client: str = "",
    ) -> Recital:
        """A text for one listener.

        Args:
            segments: what to speak.
            lane: `live` where somebody listens.
            wait_s: how long a segment may wait for its turn.
            ahead: segments that are asked for before they are listened to.
            client: for whom it is; clients take turns.
        """
        ahead = ahead or (AHEAD_GPU if self._stage.on_gpus else AHEAD)
        return Recital(self, segments, lane, wait_s, ahead, client)

    # -- one line ---------------------------------------------------------------------------------

    def ask(
        self, number: int, segment: Segment, lane: Lane, wait_s: float | None, client: str = ""
    ) -> Asked:
        """A segment's take where it is kept, else a future of it."""
        self._num_asked += 1  # by several threads: it need not be exact
        if self._num_asked % _TRIM_EVERY == 0:
            trim_heap()
        name = self._stage.key(segment.utterance)
        kept = self._stage.shelf.find(name)
        if kept is not None:
            return Asked(name, None, Spoken(number, segment, kept.take, kept.problems, kept=True))
        deadline = None if wait_s is None else time.monotonic() + wait_s
        mine: Future[Recording] = Future()
        with self._lock:
            making = self._making.get(name)
            if making is None:
                future = self.live.submit(
                    segment.utterance, lane=lane, priority=number, deadline=deadline,
                    admitted=number > 0, client=client,
                )  # fmt: skip
                making = _Making(segment.utterance, lane, number, future, client, [mine])
                self._making[name] = making
            elif making.answered:
                mine.set_result(making.future.result())
                return Asked(name, mine)
            else:
                making.wanted.append(mine)
                if not self._hastened(name, making, lane, number, deadline):
                    return Asked(name, mine)
            future = making.future
        future.add_done_callback(lambda done: self._made(name, making, done))
        return Asked(name, mine)

    def _hastened(
        self, name: str, making: _Making, lane: Lane, priority: float, deadline: float | None
    ) -> bool:
        """Whether a line that still waits was put further to the front for another who wants it.

        One that is only wanted for longer keeps its place: asked for again and again it would never
        come to its turn.
        """
        before = making.future.deadline
        if before is not None and (deadline is None or deadline > before):
            making.future.deadline = before = deadline
        sooner = (lane != "live", priority) < (making.lane != "live", making.priority)
        if not sooner or not making.future.cancel():
            return False
        making.lane, making.priority = lane, priority
        try:
            making.future = self.live.submit(
                making.line, lane=lane, priority=priority, deadline=before, admitted=True,
                client=making.client,
            )  # fmt: skip
        except AnyrigError as error:  # closed: nobody may be left waiting
            self._forget(name, making)
            making.future = ItemFuture()
            making.future.set_exception(error)
        return True

    def leave(self, name: str, mine: Future[Recording]) -> None:
        """Somebody wants a line no more; one that nobody wants is not begun."""
        mine.cancel()
        with self._lock:
            making = self._making.get(name)
            if making is None or mine not in making.wanted:
                return
            making.wanted.remove(mine)
            if not making.wanted and making.future.cancel():
                del self._making[name]

    def _made(self, name: str, making: _Making, done: Future[Recording]) -> None:
        """A line is there, or was given up; called by the thread that hears the workers."""
        if done.cancelled():  # asked for anew, or nobody wants it
            return
        with self._lock:
            wanted, making.wanted = making.wanted, []
            making.answered = True
            failed = done.exception() is not None
            if failed:
                self._forget(name, making)
        self._pass_on(done, wanted, making.line)
        if not failed:
            try:
                self._keeping.submit(self._keep, name, making, done.result())
            except RuntimeError:  # it is being closed
                log.info("a take was made too late to be kept")

    def _keep(self, name: str, making: _Making, recording: Recording) -> None:
        try:
            self._stage.shelf.keep(name, recording)
        except (StorageError, OSError) as error:
            log.warning("a take is not kept: %s", error)
        except Exception:
            log.exception("a take is not kept")
        with self._lock:  # until now others were given it from here
            self._forget(name, making)

    def _pass_on(
        self, done: Future[Recording], wanted: Sequence[Future[Recording]], line: Utterance
    ) -> None:
        """What became of a line, to everybody who wants it; an error of its own for each."""
        error = done.exception()
        alone = self.live.is_open
        for mine in wanted:
            if not mine.set_running_or_notify_cancel():
                continue
            if error is None:
                mine.set_result(done.result())
            else:
                mine.set_exception(_told(error, line, alone=alone))

    def _forget(self, name: str, making: _Making) -> None:
        if self._making.get(name) is making:
            del self._making[name]


class Recital:
    """A text on its way to one listener, a few segments ahead of them. For one thread at a time."""

    def __init__(
        self,
        studio: LiveStudio,
        segments: Sequence[Segment],
        lane: Lane,
        wait_s: float | None,
        ahead: int,
        client: str = "",
    ) -> None:
        self._client = client
        self._studio, self._segments = studio, segments
        self._lane, self._wait_s, self._ahead = lane, wait_s, max(1, ahead)
        self._asked: deque[Asked] = deque()
        self._num_asked = self._num_given = 0
        self._closed = False
        self._given: Asked | None = None

    @property
    def done(self) -> bool:
        """Whether every segment was given."""
        return self._num_given == len(self._segments)

    def next(self) -> Future[Given]:
        """A future of the next segment; the one before is taken to have been listened to.


        It may read from the store: call it in a thread. `OverloadedError` where too many
        segments wait;
        a segment that cannot be spoken ends its future with `UnspeakableTextError`.
        """
        assert not self.done, "there is no further segment"
        self._given = None
        while not self._closed and self._wants_more():
            number = self._num_asked
            asked = self._studio.ask(
                number, self._segments[number], self._lane, self._wait_s, self._client
            )
            self._asked.append(asked)
            self._num_asked += 1
        if self._closed:
            raise _nobody()
        number, self._num_given = self._num_given, self._num_given + 1
        self._given = self._asked.popleft()
        told: Future[Given] = Future()
        told.set_running_or_notify_cancel()
        segment = self._segments[number]
        if self._given.future is None:
            told.set_result(Given(number, segment, self._given.kept))
        else:
            self._given.future.add_done_callback(lambda made: _give(told, number, segment, made))
        return told

    def _wants_more(self) -> bool:
        """Somebody who listens asks for the first alone: others' firsts come before the rest."""
        first = self._num_given == 0 and self._lane == "live"
        most = 1 if first else self._num_given + self._ahead
        return self._num_asked < min(len(self._segments), most)

    def close(self) -> None:
        """The listener leaves: what was asked for and not begun is not made."""
        self._closed = True
        left = [*([self._given] if self._given else []), *self._asked]
        self._asked.clear()
        for asked in left:
            if asked.future is not None:
                self._studio.leave(asked.name, asked.future)

    def __iter__(self) -> Iterator[Spoken]:
        """Every segment in order, each as soon as it is there."""
        while not self.done:
            yield self.next().result().spoken()

    def __enter__(self) -> Recital:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _give(told: Future[Given], number: int, segment: Segment, made: Future[Recording]) -> None:
    if made.cancelled():
        told.set_exception(_nobody())
        return
    error = made.exception()
    if error is not None:
        told.set_exception(error)
    else:
        told.set_result(Given(number, segment, recording=made.result()))


def _told(error: BaseException, line: Utterance, *, alone: bool) -> AnyrigError:
    """An error for one who wants a line; `alone` where the others are made all the same."""
    if is_disk_full(error):
        return to_disk_full_error(error)
    if alone and isinstance(error, WorkError) and type(error) in (WorkError, PoisonItemError):
        said = Message(
            "{value!r} could not be spoken: {problem}",
            value=line.text.strip()[:_TOLD],
            problem=error.message,
        )
        kind = PoisonItemError if isinstance(error, PoisonItemError) else UnspeakableTextError
        return kind(said, hint=error.hint)
    if isinstance(error, AnyrigError):
        return type(error)(error.message, hint=error.hint)
    return WorkError(f"{type(error).__name__}: {error}", hint="The log says more.")


def _nobody() -> WorkError:
    return WorkError("the client disconnected", hint="Send the request again.")
