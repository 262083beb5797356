"""Segments to audio: one `Synthesizer` for commands, the server, batches and books.

    with Synthesizer(engine="hibari", weights=weights, plan=plan, ...) as synthesizer:
        for spoken in synthesizer.read(script.segments): ...       # the take of each, in order
        for chunk in synthesizer.read(script.segments, lane="live").chunks(): ...  # audio, in parts

A reading asks a few segments ahead of whoever takes them. A take that is cached is not made, and
one that several readings want at once is made once (`take_jobs.py`). In the lane `live` somebody
listens: the first segment is made alone, before all others, and an engine that streams is heard
part by part.

A book is one reading in the lane `bulk` of all its segments in order. Segments that could not be
spoken come with their `failure`, the others are made all the same. `ScriptReading.stats` has the
figures, by device too. What is read again (to write what was recorded) comes from the cache.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from anyrig.errors import (
    AnyrigError,
    Message,
    PoisonItemError,
    StorageError,
    UnspeakableTextError,
    WorkError,
)
from anyrig.speech.engine import (
    EngineInfo,
    EngineWeights,
    OptionValue,
    Take,
    Utterance,
    resolve_options,
)
from anyrig.speech.engines import describe_engine, engine_class
from anyrig.speech.take_jobs import TakeJobs, TakeReader, Ticket
from anyrig.speech.takes import CachedTake, TakeCache, decode_take, precision_class
from anyrig.units import pluralize
from anyrig.work.dispatch import SILENCE_LIMIT_S
from anyrig.work.engine import EngineFactory
from anyrig.work.live import MAX_WAITING, Lane, LiveQueue
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.memory.known_sizes import KnownBatchSizes
    from anyrig.placement import PlacementPlan
    from anyrig.speech.chunks import AudioChunk
    from anyrig.speech.quality import CheckedTake
    from anyrig.speech.segment import Script, Segment
    from anyrig.storage.cache import Cache

LIVE_AHEAD, LIVE_AHEAD_GPU = 4, 16
"""Segments of one of many readers that are requested at a time. Two would keep a core busy; batches
on a GPU are filled by several, and by few readers where there are no more."""
LOOK_AHEAD, LOOK_AHEAD_GPU = 64, 512
"""The same where there is one reader. A GPU sorts many into batches of like length, and some 100 MB
of audio wait; a CPU makes one at a time, and needs no more than keeps it busy."""
_PER_THREAD, _PER_GPU_WORKER = 4, 64
"""What the pool holds for many readers: as much as one call of an engine takes, so that what comes
in between waits for no more than that."""
_OTHER_SEED = 104_729
_OTHER_PACES = (0.95, 1.05, 0.88, 1.14)
"""Measured on the default voice: nearer to 1, short sentences last as many frames as before, and
are the same; all four differ from each other (correlation under 0.45)."""
_SHOWN_CHARACTERS = 60
_POLL_S = 0.5


@dataclass(frozen=True)
class SpokenSegment:
    """A segment with its take, or why there is none."""

    index: int
    segment: Segment
    take: Take | None
    problems: tuple[str, ...] = ()
    """What the checks found wrong with the take."""
    tries: int = 1
    cached: bool = False
    """Whether it was made before this reading."""
    device: str = ""
    """Id of the device that made it; of a cluster, name of the worker."""
    failure: AnyrigError | None = None
    unusable: bool = False
    """Whether nothing of the text can be heard in the take: it is not cached."""


@dataclass
class SynthesisStats:
    """The figures of a reading, while it runs and after."""

    num_segments: int = 0
    num_cached: int = 0
    num_retried: int = 0
    """Takes that were bad, and made again."""
    audio_s: float = 0.0
    devices: dict[str, int] = field(default_factory=dict)
    """How many segments each device made, or each worker of a cluster."""
    doubtful: list[SpokenSegment] = field(default_factory=list)
    """Segments whose best take still fails a check; without their audio."""

    def add(self, spoken: SpokenSegment) -> None:
        self.num_segments += 1
        self.num_cached += spoken.cached
        self.num_retried += spoken.tries > 1
        if spoken.device and spoken.failure is None:
            self.devices[spoken.device] = self.devices.get(spoken.device, 0) + 1
        if spoken.take is not None:
            self.audio_s += spoken.take.duration_s
        if spoken.problems:
            self.doubtful.append(replace(spoken, take=None))


class Synthesizer:
    """An engine on every device of a plan, and the cache of its takes.

    Args:
        engine: its name.
        weights: what its `find_weights` found.
        plan: where its workers run; they load while this goes on.
        environment: of this process.
        options: of the engine, as typed with `--set`.
        cache: where takes are stored; None stores none.
        known_sizes: batch sizes that earlier runs found.
        stamp: driver and library versions under which those hold.
        silence_limit_s: a worker without a heartbeat for so long is replaced.
        open_pool: opens other workers than processes on the placed devices; the plan then only
            says in which precision takes are made.
        shared: many readings at once: the pool holds little, so that a new one is served soon.
        max_waiting: segments of a lane that may wait; more raise `OverloadedError`.
        client_share: how much of that one client may use.
    """

    def __init__(
        self,
        *,
        engine: str,
        weights: EngineWeights,
        plan: PlacementPlan,
        environment: Mapping[str, str],
        options: Mapping[str, OptionValue] | None = None,
        cache: Cache | None = None,
        known_sizes: KnownBatchSizes | None = None,
        stamp: str = "",
        silence_limit_s: float = SILENCE_LIMIT_S,
        open_pool: Callable[[EngineFactory], WorkerPool] | None = None,
        shared: bool = False,
        max_waiting: int = MAX_WAITING,
        client_share: float = 1.0,
    ) -> None:
        kind = engine_class(engine)
        self.info, self.engine, self.rate = kind.info, engine, weights.sample_rate
        complete = resolve_options(kind.info, options or {})
        self.takes = TakeCache(
            kind.info, weights, precision_class(plan.placements), complete, cache
        )
        self._gpu_workers = sum(one.workers for one in plan.placements if one.device.kind == "gpu")
        self.num_parallel = sum(
            one.workers * max(1, min(one.threads, kind.cores or 1)) for one in plan.placements
        )
        """Utterances that are made at the same moment on a CPU."""
        self.is_shared, self._max_waiting, self._client_share = shared, max_waiting, client_share
        factory = EngineFactory(
            "anyrig.speech.quality:CheckedEngine",
            {
                "engine": describe_engine(kind, engine),
                "folder": weights.folder,
                "options": complete,
            },
            name=f"speech {engine}",
            version=f"{weights.version} {weights.fingerprint[:12]}",
            interpreter=weights.interpreter,
        )
        self.pool = open_pool(factory) if open_pool is not None else WorkerPool(
            LocalWorkers(
                plan.placements, factory, environment=environment, fallback=plan.fallback,
                known_sizes=known_sizes, stamp=stamp,
            ),
            silence_limit_s=silence_limit_s,
        )  # fmt: skip
        self.jobs = TakeJobs(self.takes, self._open_queue)

    def __enter__(self) -> Synthesizer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def live(self) -> LiveQueue[Utterance, CheckedTake]:
        """The queue of all readings."""
        return self.jobs.queue

    def _open_queue(self) -> LiveQueue[Utterance, CheckedTake]:
        return LiveQueue(
            self.pool, cost=lambda utterance: utterance.cost,
            max_in_flight=self._max_in_flight, follow_pool=not self.is_shared,
            max_waiting=self._max_waiting, client_share=self._client_share,
        )  # fmt: skip

    @property
    def is_open(self) -> bool:
        """Whether it accepts anything; not after its workers have failed for good."""
        return self.live.is_open

    @property
    def warnings(self) -> list[str]:
        """What went wrong with devices so far."""
        return self.pool.warnings

    @property
    def seconds_per_character(self) -> float:
        """What the engine needed so far; 0 before its first take."""
        report = self.live.report if self.jobs.has_queue else None
        return report.busy_s / report.real_cost if report and report.real_cost else 0.0

    @property
    def look_ahead(self) -> int:
        """Segments that a reading requests before they are taken."""
        if self.is_shared:
            return LIVE_AHEAD_GPU if self._gpu_workers else LIVE_AHEAD
        return max(LOOK_AHEAD_GPU if self._gpu_workers else LOOK_AHEAD, self.pool.look_ahead)

    @property
    def _max_in_flight(self) -> int:
        if not self.is_shared:
            return LOOK_AHEAD_GPU if self._gpu_workers else LOOK_AHEAD
        threads = max(self.num_parallel, self.pool.size)
        return _PER_GPU_WORKER * self._gpu_workers or _PER_THREAD * threads

    def pools(self) -> tuple[WorkerPool, ...]:
        return (self.pool,)

    def wait_ready(self) -> None:
        """Wait until the engine is loaded everywhere; only before the first reading."""
        assert not self.jobs.has_queue, "a reading has begun"
        self.pool.wait_ready()

    def close(self) -> None:
        """End every worker; whoever waits gets an error."""
        if not self.jobs.has_queue:
            self.pool.close()
        self.jobs.close()

    def read(
        self,
        segments: Sequence[Segment],
        *,
        lane: Lane = "bulk",
        fresh: bool = False,
        look_ahead: int = 0,
        wait_s: float | None = None,
        client: str = "",
    ) -> ScriptReading:
        """A text for one reader.

        Args:
            segments: what to speak.
            lane: `live` if somebody listens: parts of a take are given while the rest is made, if
                the engine streams.
            fresh: make everything again, and cache that.
            look_ahead: segments that are requested before they are taken.
            wait_s: how long a segment may wait for its turn.
            client: for whom it is; clients take turns.
        """
        streams = lane == "live" and self.info.streams
        return ScriptReading(
            self, segments, TakeReader(lane, client, streams, fresh, wait_s), look_ahead
        )

    def read_scripts(
        self, scripts: Sequence[Script], *, fresh: bool = False
    ) -> Iterator[list[SpokenSegment]]:
        """The takes of each text, as soon as all of them are there; all share the workers."""
        segments = [segment for script in scripts for segment in script.segments]
        with self.read(segments, fresh=fresh) as reading:
            takes = iter(reading)
            for script in scripts:
                yield [next(takes) for _ in script.segments]

    def retake(self, segments: Sequence[Segment]) -> Iterator[SpokenSegment]:
        """Another take of each segment, cached in the place of the one there is."""
        keys = [self.takes.make_key(segment.utterance) for segment in segments]
        counts = [self.takes.count_retakes(key) + 1 for key in keys]
        others = [
            replace(segment, utterance=vary(segment.utterance, count, self.info))
            for segment, count in zip(segments, counts, strict=True)
        ]
        reading = ScriptReading(
            self, others, TakeReader("bulk", fresh=True), keys=keys, retakes=counts
        )
        with closing(reading):
            for spoken in reading:
                yield replace(spoken, segment=segments[spoken.index])

    def count_cached_characters(self, segments: Sequence[Segment]) -> int:
        """How many characters of some segments need not be spoken, as their takes are cached."""
        keys = [(self.takes.make_key(one.utterance), len(one.utterance.text)) for one in segments]
        existing = self.takes.find_existing({key for key, _ in keys})
        return sum(count for key, count in keys if key in existing)


@dataclass(frozen=True)
class SegmentPart:
    """What a reading gives: new audio of a take that is not whole yet, or the take."""

    index: int
    segment: Segment
    samples: Samples | None = None
    """Audio that follows on what was given of this take; None with the take itself."""
    checked: CheckedTake | None = None
    cached: CachedTake | None = None
    device: str = ""
    repeated: bool = False
    """Whether an earlier segment had the same take."""

    @property
    def is_last(self) -> bool:
        """Whether the take is whole."""
        return self.samples is None

    def decode(self) -> SpokenSegment:
        """The segment with its take; of the last part."""
        if self.cached is not None:
            take, problems = self.cached
            return SpokenSegment(self.index, self.segment, take, problems, cached=True)
        made = self.checked
        assert made is not None
        return SpokenSegment(
            self.index, self.segment, decode_take(made.data), made.problems,
            1 if self.repeated else made.tries, device="" if self.repeated else self.device,
            unusable=made.unusable,
        )  # fmt: skip


class ScriptReading:
    """A text on its way to one reader, some segments ahead of them. For one thread at a time.

    Take it by iterating (`SpokenSegment`s, with the failures among them), as audio (`chunks`), or
    part by part (`next`).
    """

    def __init__(
        self, synthesizer: Synthesizer, segments: Sequence[Segment], reader: TakeReader,
        look_ahead: int = 0, keys: Sequence[str] = (), retakes: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.stats = SynthesisStats()
        self._synthesizer, self._segments, self._reader = synthesizer, segments, reader
        self._look_ahead = look_ahead
        self._keys: list[str] = list(keys)
        self._retakes = dict(enumerate(retakes))
        self._existing: set[str] = set()
        self._uses: Counter[str] = Counter()
        """Of each key, what is still to come; not in the lane `live`, where nobody may wait."""
        self._shared: dict[str, Ticket] = {}
        """Takes that come again."""
        self._tickets: deque[Ticket] = deque()
        self._num_requested = self._num_started = 0
        self._current: Ticket | None = None
        self._part: Future[SegmentPart] | None = None
        """The one that `next` returned last."""
        self._num_heard = 0
        """Samples of the current take that were given."""
        self._is_first, self._closed = True, False
        if reader.lane == "bulk":
            self._extend_keys(len(segments))
            self._uses.update(self._keys)

    @property
    def done(self) -> bool:
        """Whether every segment was given to its end."""
        return self._num_started == len(self._segments) and self._is_current_done

    @property
    def _is_current_done(self) -> bool:
        part = self._part
        if part is None or not part.done():
            return part is None
        return part.exception() is not None or part.result().is_last

    def next(self) -> Future[SegmentPart]:
        """A future of the next part; the one before is taken to have been heard.

        It may read the cache: call it in a thread. `OverloadedError` if too many segments wait. A
        segment that cannot be spoken ends its future with the error; the next one goes on.
        """
        assert not self.done, "there is no further segment"
        if not self._is_current_done:
            assert self._part is not None
            samples = self._part.result().samples
            self._num_heard += len(samples) if samples is not None else 0
        self.request_ahead()
        if self._closed:
            raise _disconnected_error()
        if self._is_current_done:
            self._current, self._num_heard = self._tickets.popleft(), 0
            self._num_started += 1
        self._part = self._follow_current()
        return self._part

    def __iter__(self) -> Iterator[SpokenSegment]:
        """Each segment as soon as it and all before it are there, those that failed as well.

        An error of the workers as a whole, or of the disk, is raised.
        """
        for _, spoken in self._take_parts():
            if spoken is not None:
                self.request_ahead()
                yield spoken

    def chunks(self) -> Iterator[AudioChunk]:
        """The audio, each chunk as soon as all before it are there.

        A segment that could not be spoken ends it with an error, after the rest was made.
        """
        self.request_ahead()
        from anyrig.speech.chunks import ChunkBuilder  # late: NumPy loads while workers compute

        builder = ChunkBuilder(self._synthesizer.rate)
        failed: list[SpokenSegment] = []
        for part, spoken in self._take_parts():
            if part is None:
                assert spoken is not None
                failed.append(spoken)
            if part is None or failed:
                continue
            chunk = builder.add(part, spoken)
            self.request_ahead()
            if spoken is not None or len(chunk.samples):
                yield chunk
        if failed:
            raise _build_error(failed)

    def _take_parts(self) -> Iterator[tuple[SegmentPart | None, SpokenSegment | None]]:
        """Each part, the last of a segment with its take; no part of a segment that failed."""
        while not self.done:
            try:
                part = _wait(self.next())
            except AnyrigError as error:
                if isinstance(error, StorageError) or not self._synthesizer.is_open:
                    raise
                number = self._num_started - 1
                failed = SpokenSegment(number, self._segments[number], None, failure=error)
                self.stats.add(failed)
                yield None, failed
                continue
            spoken = part.decode() if part.is_last else None
            if spoken is not None:
                self.stats.add(spoken)
            yield part, spoken

    def close(self) -> None:
        """The reader leaves: what was requested and not begun is not made."""
        self._closed = True
        left = [*([self._current] if self._current else []), *self._tickets]
        self._tickets.clear()
        for ticket in left:
            self._synthesizer.jobs.leave(ticket)

    def __enter__(self) -> ScriptReading:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request_ahead(self) -> None:
        """Request the segments that follow. Whoever listens requests the first one alone."""
        alone = self._is_first and self._reader.lane == "live"
        most = 1 if alone else self._num_started + self._ahead
        while not self._closed and self._num_requested < min(len(self._segments), most):
            number = self._num_requested
            if number >= len(self._keys):
                self._extend_keys(1 if self._num_started == 0 else self._ahead)
            key = self._keys[number]
            self._uses[key] -= 1
            ticket = self._shared.get(key)
            if ticket is None and key in self._existing:
                ticket = Ticket(key)
            elif ticket is None:
                ticket = self._synthesizer.jobs.request(
                    self._segments[number].utterance, key, self._reader, number,
                    self._retakes.get(number, 0),
                )  # fmt: skip
            if self._uses[key] > 0:
                self._shared[key] = ticket
            else:
                self._shared.pop(key, None)
            self._tickets.append(ticket)
            self._num_requested += 1

    @property
    def _ahead(self) -> int:
        return max(1, self._look_ahead or self._synthesizer.look_ahead)

    def _extend_keys(self, count: int) -> None:
        """The keys of some more segments, and which of them are cached."""
        takes, known = self._synthesizer.takes, len(self._keys)
        new = self._segments[known : known + count]
        self._keys += [takes.make_key(one.utterance) for one in new]
        if not self._reader.fresh:
            self._existing |= takes.find_existing(self._keys[known:])

    def _follow_current(self) -> Future[SegmentPart]:
        """What comes next of the current segment: the rest of it, or a part before."""
        number, ticket = self._num_started - 1, self._current
        assert ticket is not None
        segment, heard = self._segments[number], self._num_heard
        part: Future[SegmentPart] = Future()
        part.set_running_or_notify_cancel()
        if ticket.future is None:
            cached = self._synthesizer.takes.load(ticket.key)
            if cached is not None:
                self._is_first = False
                part.set_result(SegmentPart(number, segment, cached=cached))
                return part
            # Evicted or damaged meanwhile: it is made like the others.
            made = self._synthesizer.jobs.request(
                segment.utterance, ticket.key, self._reader, number, self._retakes.get(number, 0)
            )
            ticket.future, ticket.job = made.future, made.job
        assert ticket.future is not None
        assert ticket.job is not None
        job, streamed, repeated = ticket.job, ticket.job.streamed, ticket.taken
        ticket.taken = True

        def finish(done: Future[CheckedTake]) -> None:
            self._is_first = False
            if done.cancelled():
                _set(part, error=_disconnected_error())
            elif (error := done.exception()) is not None:
                _set(part, error=self._describe(error, segment.utterance))
            else:
                checked, device = done.result(), job.device
                _set(part, SegmentPart(number, segment, None, checked, None, device, repeated))

        def give_part() -> None:
            assert streamed is not None
            samples = streamed.read_from(heard)
            self._is_first = False
            _set(part, SegmentPart(number, segment, samples))

        ticket.future.add_done_callback(finish)
        if streamed is not None and self._reader.streams:
            streamed.call_when_longer(heard, give_part)
        return part

    def _describe(self, error: BaseException, utterance: Utterance) -> BaseException:
        """For one of many clients: only this segment failed, and which one that is."""
        synthesizer = self._synthesizer
        if synthesizer.is_shared and synthesizer.is_open:
            return _describe_failure(error, utterance)
        return error


def _set(
    part: Future[SegmentPart],
    result: SegmentPart | None = None,
    *,
    error: BaseException | None = None,
) -> None:
    """Whichever comes first, the whole take or a part of it, is the answer."""
    with suppress(InvalidStateError):
        if error is not None:
            part.set_exception(error)
        else:
            assert result is not None
            part.set_result(result)


def _wait(future: Future[SegmentPart]) -> SegmentPart:
    """Polls, so that Ctrl-C is handled on every system."""
    while True:
        try:
            return future.result(timeout=_POLL_S)
        except TimeoutError:
            if future.done():
                raise


def _describe_failure(error: BaseException, utterance: Utterance) -> BaseException:
    """An error of one segment, for whoever listens to the others."""
    if not isinstance(error, WorkError) or type(error) not in (WorkError, PoisonItemError):
        return error
    message = Message(
        "{value!r} could not be spoken: {problem}",
        value=utterance.text.strip()[:_SHOWN_CHARACTERS],
        problem=error.message,
    )
    kind = PoisonItemError if isinstance(error, PoisonItemError) else UnspeakableTextError
    return kind(message, hint=error.hint)


def _disconnected_error() -> WorkError:
    return WorkError("the client disconnected", hint="Send the request again.")


def _build_error(failed: Sequence[SpokenSegment]) -> WorkError:
    first = failed[0]
    assert first.failure is not None
    return WorkError(
        Message(
            "{segments} could not be spoken; the first: {value!r}: {problem}",
            segments=pluralize(len(failed), "segment"),
            value=first.segment.text.strip()[:_SHOWN_CHARACTERS],
            problem=first.failure.message,
        ),
        hint=first.failure.hint or "The others are cached: run the command again.",
    )


def vary_script(script: Script, number: int, info: EngineInfo) -> Script:
    """A text for another take, where the seeds of its segments would not give one."""
    if not number or info.varies_with_seed:
        return script
    return replace(script, segments=tuple(
        replace(one, utterance=vary(one.utterance, number, info)) for one in script.segments
    ))  # fmt: skip


def vary(utterance: Utterance, number: int, info: EngineInfo) -> Utterance:
    """What gives another take: another seed, or a pace that differs by some per cent.

    Where takes do not vary with their seed, the same words at the same pace would only sound the
    same again.
    """
    if not number:
        return utterance
    if info.varies_with_seed:
        return replace(utterance, seed=(utterance.seed + number * _OTHER_SEED) % 2**31)
    pace = _OTHER_PACES[(number - 1) % len(_OTHER_PACES)]
    return replace(utterance, rate=utterance.rate * pace)
