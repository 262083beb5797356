"""Text to audio, the whole way: segments, takes kept or made, trims and pauses, chunks in order.

    script = prepare(text, ...)
    with Studio(Stage(engine="hibari", found=found, placed=placed, environment=...)) as studio:
        for chunk in studio.speak(script): ...

Segments go through `work`: batches where they help, a process on each core of a CPU, all devices
that were placed. The first accepted take of a line is kept in the store and is final; a line that
stands there twice is made once.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from anyrig.backends.memory import trim_heap
from anyrig.errors import Message, WorkError
from anyrig.speech.booth import Recording
from anyrig.speech.engine import Utterance
from anyrig.speech.maker import Maker, Spoken, Vanished
from anyrig.speech.shelf import FROM, KIND, Shelf
from anyrig.storage import keys as keys
from anyrig.units import pluralize
from anyrig.work.outcome import ItemOutcome, RunReport

if TYPE_CHECKING:
    from anyrig.speech.audio import AudioChunk
    from anyrig.speech.segment import Script, Segment
    from anyrig.speech.stage import Stage
    from anyrig.work.pool import WorkerPool

log = logging.getLogger(__name__)
_OTHER_TAKE, _OTHER_PACE, _MOST_PACE = 104_729, 0.02, 0.12
LOOK_AHEAD, LOOK_AHEAD_CPU = 512, 64
"""Segments that may be made ahead of the listener. A GPU sorts many into batches of like length,
and some 100 MB of audio wait; a CPU makes one at a time, and needs no more than keeps it busy."""
_TRIM_EVERY = 256  # segments: what audio leaves behind is given back, a few milliseconds each time


@dataclass
class Tally:
    """The figures of a run, while it runs and after."""

    num_segments: int = 0
    num_kept: int = 0
    num_again: int = 0
    """Takes that were made more than once."""
    audio_s: float = 0.0
    report: RunReport | None = None
    doubtful: list[Spoken] = field(default_factory=list)
    """Segments whose best take still fails a check; their audio is not held here."""

    @property
    def devices(self) -> dict[str, int]:
        """How many segments each device made, or each worker of a cluster."""
        return dict(self.report.by_device) if self.report is not None else {}

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

    def __init__(self, stage: Stage) -> None:
        """Take over a stage, whose workers load meanwhile; it is closed with this."""
        self._stage = stage
        self._crew, self._shelf, self._store = stage.crew, stage.shelf, stage.store
        self._look_ahead = LOOK_AHEAD if stage.on_gpus else LOOK_AHEAD_CPU
        self.rate = stage.found.sample_rate
        """Samples per second."""

    @property
    def warnings(self) -> list[str]:
        """What went wrong with devices so far."""
        return self._crew.warnings

    def pools(self) -> tuple[WorkerPool, ...]:
        return (self._crew,)

    def wait_ready(self) -> None:
        """Wait until the engine is loaded everywhere."""
        self._crew.wait_ready()

    def close(self) -> None:
        """End every worker."""
        self._crew.close()

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def key(self, line: Utterance) -> str:
        """What a line's take is kept under: all that shapes it, and not the device."""
        return self._stage.key(line)

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
        tally.report = RunReport()
        named = [self.key(segment.utterance) for segment in segments]
        gone: set[str] = set()
        done = 0
        while done < len(segments):
            there = set() if anew else self._there(named[done:], gone)
            maker = Maker(self._shelf, named[done:], there, anew, early)
            try:
                for spoken in self._run(maker, segments[done:], tally.report):
                    spoken = replace(spoken, index=done)
                    done += 1
                    tally.add(spoken)
                    yield spoken
                    if done % _TRIM_EVERY == 0:
                        trim_heap()
            except Vanished as vanished:  # evicted or damaged meanwhile: made like the others
                gone.add(vanished.name)
                early = False

    def num_kept(self, segments: Sequence[Segment]) -> int:
        """How many characters of some segments need not be made, as their takes are kept."""
        named = [(self.key(segment.utterance), len(segment.utterance.text)) for segment in segments]
        there = self._shelf.there({name for name, _ in named})
        return sum(count for name, count in named if name in there)

    def again(self, segments: Sequence[Segment]) -> Generator[Spoken]:
        """Another take of each segment, kept in the place of the one there is.

        Another seed where the engine has one; else a pace that differs by a few per cent, as the
        same words at the same pace would only sound the same again.
        """
        from anyrig.speech.pack import pack

        assert self._store is not None, "a take is made again in a store"
        own = [self.key(segment.utterance) for segment in segments]
        found = [self._store.get(name) for name in own]
        made = [one.metadata.get("again") if one is not None else None for one in found]
        counts = [(number if isinstance(number, int) else 0) + 1 for number in made]
        others = [
            replace(segment, utterance=self._varied(segment.utterance, count))
            for segment, count in zip(segments, counts, strict=True)
        ]
        maker = Maker(Shelf(None, ""), [str(n) for n in range(len(own))], set(), True, False)
        for spoken in self._run(maker, others, RunReport()):
            name, count = own[spoken.index], counts[spoken.index]
            if spoken.take is not None and not spoken.hopeless:
                note: dict[str, keys.JsonValue] = {
                    "engine": self._stage.found.engine, "problems": spoken.problems,
                    "tries": spoken.tries, "again": count,
                    **({FROM: spoken.made_by} if spoken.made_by else {}),
                }  # fmt: skip
                self._store.replace(name, pack(spoken.take), kind=KIND, metadata=note)
            yield replace(spoken, segment=segments[spoken.index])

    def _varied(self, line: Utterance, count: int) -> Utterance:
        if self._stage.info.varies_with_seed:
            return replace(line, seed=(line.seed + count * _OTHER_TAKE) % 2**31)
        step = ((count + 1) // 2 * _OTHER_PACE - _OTHER_PACE) % _MOST_PACE + _OTHER_PACE
        return replace(line, rate=line.rate * (1 - step if count % 2 else 1 + step))

    def _there(self, named: Sequence[str], gone: set[str]) -> set[str]:
        """Which takes are kept. Once one has vanished, only those that can be read count."""
        there = self._shelf.there(named) - gone
        return {name for name in there if self._shelf.readable(name)} if gone else there

    def _run(
        self, maker: Maker, segments: Sequence[Segment], report: RunReport
    ) -> Generator[Spoken]:
        made = self._crew.run(
            maker.missing(segments), cost=lambda line: line.cost, look_ahead=self._look_ahead,
            report=report, on_outcome=maker.keep,
        )  # fmt: skip
        with closing(cast("Generator[ItemOutcome[Recording]]", made)) as outcomes, maker:
            for index, segment in enumerate(segments):
                yield maker.next(index, segment, outcomes)


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
        raise WorkError(
            Message(
                "{segments} could not be spoken; the first: {value!r}: {problem}",
                segments=pluralize(len(failed), "segment"),
                value=first.segment.text.strip()[:60],
                problem=first.failure.message,
            ),
            hint=first.failure.hint or "The others are cached: run the command again.",
        )


def chunk_of(spoken: Spoken, rate: int, position: int) -> AudioChunk:
    """A segment's finished audio: trimmed, at the studio's rate, with its pauses."""
    import numpy as np

    from anyrig.audio.resample import resample
    from anyrig.audio.samples import fade, silence
    from anyrig.speech.audio import AudioChunk, trim
    from anyrig.speech.engine import WordTime

    assert spoken.take is not None
    segment = spoken.segment
    take = trim(spoken.take)
    samples = fade(resample(take.samples, take.rate, rate), rate)
    before = silence(segment.pause_before_s, rate)
    after = silence(segment.pause_after_s, rate)
    offset_s = (position + len(before)) / rate
    return AudioChunk(
        np.concatenate([before, samples, after]),
        rate,
        position,
        spoken.index,
        segment.text,
        segment.span,
        tuple(WordTime(w.text, w.start_s + offset_s, w.end_s + offset_s) for w in take.words),
    )
