"""Text to audio, the whole way: segments, takes kept or made, trims and pauses, chunks in order.

    script = prepare(text, ...)
    with Studio(engine="hibari", found=found, placed=placed, environment=environment) as studio:
        for chunk in studio.speak(script): ...

Segments go through `work`: batches where they help, a process on each core of a CPU, all devices
that were placed. The first accepted take of a line is kept in the store and is final; a line that
stands there twice is made once.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from anyrig.errors import StoreFailed, WorkFailed
from anyrig.speech.booth import Recording
from anyrig.speech.engines import engine_class
from anyrig.speech.engines.packaged import hash_now
from anyrig.speech.protocol import Found, Line, Value, options_of
from anyrig.store import key as keys
from anyrig.units import plural
from anyrig.work.engine import Recipe
from anyrig.work.outcome import Failure, Outcome, Report
from anyrig.work.pool import Pool

if TYPE_CHECKING:
    from anyrig.memory.limits import Limits
    from anyrig.placement import Placed, Placement
    from anyrig.speech.audio import AudioChunk, Take
    from anyrig.speech.script import Script, Segment
    from anyrig.store.protocol import Results

log = logging.getLogger(__name__)
KIND = "speech"
"""What its results are called in the store."""
LOOK_AHEAD, LOOK_AHEAD_CPU = 512, 64
"""Segments that may be made ahead of the listener. A GPU sorts many into batches of like length,
and some 100 MB of audio wait; a CPU makes one at a time, and needs no more than keeps it busy."""


@dataclass(frozen=True)
class Spoken:
    """A segment with its take, or why there is none."""

    index: int
    segment: Segment
    take: Take | None
    problems: tuple[str, ...] = ()
    """What the checks still have against the take."""
    tries: int = 1
    kept: bool = False
    """Whether it was in the store already."""
    device: str = ""
    failure: Failure | None = None


@dataclass
class Tally:
    """The figures of a run, while it runs and after."""

    num_segments: int = 0
    num_kept: int = 0
    num_again: int = 0
    """Takes that were made more than once."""
    audio_s: float = 0.0
    report: Report | None = None
    doubtful: list[Spoken] = field(default_factory=list)
    """Segments whose best take still fails a check; their audio is not held here."""

    def add(self, spoken: Spoken) -> None:
        """One more segment is through."""
        self.num_segments += 1
        self.num_kept += spoken.kept
        self.num_again += spoken.tries > 1
        if spoken.take is not None:
            self.audio_s += spoken.take.duration_s
        if spoken.problems:
            self.doubtful.append(replace(spoken, take=None))


class Studio:
    """An engine on every device that was placed."""

    def __init__(
        self,
        *,
        engine: str,
        found: Found,
        placed: Placed,
        environment: Mapping[str, str],
        options: Mapping[str, Value] | None = None,
        store: Results | None = None,
        limits: Limits | None = None,
        stamp: str = "",
    ) -> None:
        """Start the workers; they load while this goes on.

        Args:
            engine: its name.
            found: its weights, from the engine's `find`.
            placed: where its workers sit.
            environment: this process's own.
            options: of the engine, as typed with `--set`.
            store: where takes are kept; none makes everything anew.
            limits: batch sizes that earlier runs found.
            stamp: driver and library versions, under which those hold.
        """
        self._kind = engine_class(engine)
        self._found, self._store = found, store
        self._options = options_of(self._kind.spec, options or {})
        self._precision = _precision_class(placed.placements)
        gpu = any(placement.device.kind == "gpu" for placement in placed.placements)
        self._look_ahead = LOOK_AHEAD if gpu else LOOK_AHEAD_CPU
        recipe = Recipe(
            "anyrig.speech.booth:Booth",
            {
                "engine": engine,
                "folder": found.folder,
                "environment": found.environment,
                "options": self._options,
            },
            name=f"speech {engine}",
            version=f"{found.version} {found.fingerprint[:12]}",
        )
        self._pool = Pool(
            placed.placements, recipe, environment=environment, fallback=placed.fallback,
            limits=limits, stamp=stamp,
        )  # fmt: skip
        self.rate = found.sample_rate
        """Samples per second."""

    @property
    def warnings(self) -> list[str]:
        """What went wrong with devices so far."""
        return self._pool.warnings

    def wait_ready(self) -> None:
        """Wait until the engine is loaded everywhere."""
        self._pool.wait_ready()

    def close(self) -> None:
        """End every worker."""
        self._pool.close()

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def key(self, line: Line) -> str:
        """What a line's take is kept under: all that shapes it, and not the device."""
        found, spec = self._found, self._kind.spec
        return keys.Segment(
            KIND, line.text, found.engine, found.version, found.fingerprint, line.voice,
            self._precision, line.seed if spec.seeded else None,
            {"language": line.language, "rate": line.rate, **self._options, **self._made_of(line)},
        ).key  # fmt: skip

    def _made_of(self, line: Line) -> dict[str, Value]:
        """The recording behind a voice: another one under the same name is another voice."""
        if line.voice and Path(line.voice).is_file():
            return {"recording": hash_now(Path(line.voice))}
        for voice in self._found.voices:
            if voice.digest and line.voice in (voice.name, ""):
                return {"recording": voice.digest}
        return {}

    def speak(
        self,
        script: Script,
        *,
        tally: Tally | None = None,
        anew: bool = False,
        early: bool = False,
    ) -> Iterator[AudioChunk]:
        """The whole text as audio, each chunk as soon as all before it are there.

        A segment that could not be made ends it with an error, after the others were made and kept.

        Args:
            script: what to speak.
            tally: is filled with the figures of the run.
            anew: make everything again, and keep that.
            early: somebody listens: the first segment is made alone, before all others.
        """
        position = 0
        for spoken in whole(self.takes(script.segments, tally=tally, anew=anew, early=early)):
            chunk = chunk_of(spoken, self.rate, position)
            position += len(chunk.samples)
            yield chunk

    def takes(
        self,
        segments: Sequence[Segment],
        *,
        tally: Tally | None = None,
        anew: bool = False,
        early: bool = False,
    ) -> Generator[Spoken]:
        """A take of each segment, in order: from the store, or made.

        Args:
            segments: what to speak.
            tally: is filled with the figures of the run.
            anew: make everything again, and keep that.
            early: make the first alone, so that it has not to wait for a whole batch.
        """
        tally = tally if tally is not None else Tally()
        tally.report = Report()
        named = [self.key(segment.line) for segment in segments]
        gone: set[str] = set()
        done = 0
        while done < len(segments):
            there = set() if anew else self._there(named[done:], gone)
            maker = _Maker(self._store, named[done:], there, anew, early, self._found.engine)
            try:
                for spoken in self._run(maker, segments[done:], tally.report):
                    spoken = replace(spoken, index=done)
                    done += 1
                    tally.add(spoken)
                    yield spoken
            except _Vanished as vanished:  # evicted or damaged meanwhile: made like the others
                gone.add(vanished.name)
                early = False

    def _there(self, named: Sequence[str], gone: set[str]) -> set[str]:
        """Which takes are kept. Once one has vanished, only those that can be read count."""
        if self._store is None:
            return set()
        there = self._store.has(set(named)) - gone
        return {name for name in there if self._store.get(name) is not None} if gone else there

    def _run(self, maker: _Maker, segments: Sequence[Segment], report: Report) -> Generator[Spoken]:
        made = self._pool.run(
            maker.missing(segments), cost=lambda line: line.cost, look_ahead=self._look_ahead,
            report=report,
        )  # fmt: skip
        with closing(cast("Generator[Outcome[Recording]]", made)) as outcomes, maker:
            for index, segment in enumerate(segments):
                yield maker.next(index, segment, outcomes)


class _Vanished(Exception):
    """A take that was kept when the run began, and cannot be read any more."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _Maker:
    """Which takes are made and which are found, one after the other."""

    def __init__(
        self,
        store: Results | None,
        named: Sequence[str],
        there: set[str],
        anew: bool,
        early: bool,
        engine: str,
    ) -> None:
        self._store, self._named, self._there, self._anew = store, named, there, anew
        self._engine = engine
        self._first_made = threading.Event()
        if not early:
            self._first_made.set()
        self._uses = Counter(named)
        self._held: dict[str, tuple[Recording, str]] = {}
        """What was made and is wanted again."""
        self._failed: dict[str, Outcome[Recording]] = {}

    def missing(self, segments: Sequence[Segment]) -> Iterator[Line]:
        """The lines to be made, each once."""
        seen = set(self._there)
        for name, segment in zip(self._named, segments, strict=True):
            if name not in seen:
                seen.add(name)
                yield segment.line
                self._first_made.wait()

    def __enter__(self) -> _Maker:
        return self

    def __exit__(self, *_: object) -> None:
        self._first_made.set()  # whoever leaves early leaves no thread waiting

    def next(self, index: int, segment: Segment, made: Iterator[Outcome[Recording]]) -> Spoken:
        """The take of one segment; they are asked for in order."""
        from anyrig.speech.sound.pack import unpack

        name = self._named[index]
        if name in self._held:
            recording, device = self._again(name)
            return Spoken(
                index, segment, unpack(recording.data), recording.problems, device=device,
                kept=True,
            )  # fmt: skip
        if name in self._there:
            return self._found(index, segment, name)
        outcome = self._failed.get(name) or next(made)
        self._first_made.set()
        if outcome.failure is not None or outcome.result is None:
            self._failed[name] = outcome
            return Spoken(index, segment, None, failure=outcome.failure, device=outcome.device)
        recording = outcome.result
        self._keep(name, recording, outcome.device)
        return Spoken(
            index, segment, unpack(recording.data), recording.problems, recording.tries,
            device=outcome.device,
        )  # fmt: skip

    def _again(self, name: str) -> tuple[Recording, str]:
        self._uses[name] -= 1
        return self._held[name] if self._uses[name] else self._held.pop(name)

    def _found(self, index: int, segment: Segment, name: str) -> Spoken:
        from anyrig.speech.sound.pack import unpack

        assert self._store is not None
        result = self._store.get(name)
        if result is None:
            raise _Vanished(name)
        try:
            take = unpack(result.data)
        except StoreFailed as error:
            log.warning("a kept take is made again: %s", error.message)
            self._store.drop(name)
            raise _Vanished(name) from error
        problems = cast("Sequence[str]", result.note.get("problems", ()))
        return Spoken(index, segment, take, tuple(problems), kept=True)

    def _keep(self, name: str, recording: Recording, device: str) -> None:
        self._uses[name] -= 1
        if self._uses[name]:
            self._held[name] = (recording, device)
        if self._store is None or recording.hopeless:
            return  # the next run tries again
        note: dict[str, keys.Plain] = {
            "engine": self._engine, "problems": recording.problems, "tries": recording.tries,
        }  # fmt: skip
        put = self._store.replace if self._anew else self._store.put
        put(name, recording.data, kind=KIND, note=note)


def whole(takes: Iterable[Spoken]) -> Iterator[Spoken]:
    """Takes up to the first that failed; the rest is still made and kept, then comes the error."""
    failed: list[Spoken] = []
    for spoken in takes:
        if spoken.failure is not None or failed:
            failed += [spoken] if spoken.failure is not None else []
            continue
        yield spoken
    if failed:
        first = failed[0]
        assert first.failure is not None
        raise WorkFailed(
            f"{plural(len(failed), 'segment')} could not be spoken; the first: "
            f"{first.segment.text.strip()[:60]!r}: {first.failure.said}",
            hint=first.failure.hint or "The others are kept: run the command again.",
        )


def chunk_of(spoken: Spoken, rate: int, position: int) -> AudioChunk:
    """A segment's finished audio: trimmed, at the studio's rate, with its pauses."""
    import numpy as np

    from anyrig.speech.audio import AudioChunk, WordTime
    from anyrig.speech.sound import join
    from anyrig.speech.sound.resample import resample

    assert spoken.take is not None
    segment = spoken.segment
    take = join.trim(spoken.take)
    samples = join.faded(resample(take.samples, take.rate, rate), rate)
    before = join.pause(segment.pause_before_s, rate)
    after = join.pause(segment.pause_after_s, rate)
    offset_s = (position + len(before)) / rate
    return AudioChunk(
        np.concatenate([before, samples, after]),
        rate,
        position,
        spoken.index,
        segment.text,
        (segment.spans[0][0], segment.spans[-1][1]),
        tuple(WordTime(w.text, w.start_s + offset_s, w.end_s + offset_s) for w in take.words),
    )


def _precision_class(placements: Sequence[Placement]) -> str:
    precision = placements[0].precision if placements else "fp32"
    return "half" if precision in ("fp16", "bf16") else precision.replace("tf32", "fp32")
