"""A planned book becomes files: its takes are recorded, then written. What a book reports, too.

    with open_book_cache(target, open_shared, warn) as cache:
        result = make(plan, synthesizer, target, cache, engine=engine, on_event=on_event)

What is made is cached under the name of the output, so that a run that was interrupted is continued
by the same call.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.audiobooks.plan import SKIPPED_ROLES
from anyrig.audiobooks.progress import BookProgress, BookProgressEvent, OverallProgress
from anyrig.audiobooks.record import (
    ChapterPauses,
    MissingSegment,
    Timeline,
    build_unfinished_error,
    list_missing,
    record,
    retake_segments,
)
from anyrig.audiobooks.write import BookTarget, write
from anyrig.errors import Message, OptionRef, StorageError
from anyrig.events import (
    BookUnfinishedEvent,
    LeftOut,
    NoticeEvent,
    OnEvent,
    WarningEvent,
    warn_some,
)

if TYPE_CHECKING:
    from anyrig.audiobooks.metadata import Tracks
    from anyrig.audiobooks.plan import NarrationPlan
    from anyrig.speech.choose import EngineChoice
    from anyrig.speech.segment import OmissionKind
    from anyrig.speech.synthesis import SynthesisStats, Synthesizer
    from anyrig.storage.cache import Cache

_LEFT_OUT: dict[OmissionKind, tuple[str, str, str]] = {
    "note": ("note", "notes", "inline"), "code": ("listing", "code", "speak"),
    "table": ("table", "tables", "speak"), "image": ("picture", "images", "speak"),
    "poem": ("poem", "poems", "lines"), "foreign": ("foreign passage", "foreign", "read"),
}  # fmt: skip
"""What may be left out: how it is called, and the option that has it read."""
_PROGRESS_STEPS = 10_000


@dataclass(frozen=True)
class BookResult:
    """A finished book."""

    files: tuple[Path, ...]
    extra_files: tuple[Path, ...]
    """Captions, the playlist, the read-along EPUB."""
    target: BookTarget
    engine: EngineChoice
    plan: NarrationPlan
    timeline: Timeline
    """When each chapter, segment and word is heard."""
    stats: SynthesisStats
    gaps: tuple[MissingSegment, ...]
    """Passages with silence in their place."""
    wall_s: float
    num_cached: int
    """Segments that existed before."""
    workers: str = ""
    """How many segments each worker of a cluster made; empty without a cluster."""
    loading_s: float = 0.0
    """Of `wall_s`: until the first take was made."""

    def to_json(self) -> dict[str, Any]:
        """Files, times of chapters and segments, and what may sound wrong."""
        rate, parts = self.timeline.rate, self.plan.parts
        doubtful = {one.index: list(one.problems) for one in self.stats.doubtful}
        return {
            "files": [str(path) for path in self.files],
            "extra_files": [str(path) for path in self.extra_files],
            "engine": self.engine.name,
            "reason": self.engine.reason or None,
            "language": self.plan.language,
            "audio_s": round(self.timeline.duration_s, 4),
            "wall_s": round(self.wall_s, 3),
            "cached": self.stats.num_cached,
            "made_again": self.stats.num_retried,
            "devices": self.stats.devices,
            "omitted": dict(self.plan.count_omitted()),
            "chapters": [
                {"number": part.number, "title": mark.title, "level": mark.level,
                 "start_s": round(mark.start / rate, 4), "end_s": round(mark.end / rate, 4)}
                for part, mark in zip(parts, self.timeline.chapters, strict=True)
            ],
            "segments": [
                {"chapter": parts[cue.part].number, "segment": cue.segment + 1,
                 "start_s": round(cue.start / rate, 4), "end_s": round(cue.end / rate, 4),
                 "text": cue.text, "gap": cue.is_gap, "problems": doubtful.get(number, [])}
                for number, cue in enumerate(self.timeline.cues)
            ],
        }  # fmt: skip


def make(
    plan: NarrationPlan,
    synthesizer: Synthesizer,
    target: BookTarget,
    cache: Cache,
    *,
    engine: EngineChoice,
    pauses: ChapterPauses = ChapterPauses(),  # noqa: B008 - it is frozen
    again: Sequence[str] = (),
    fresh: bool = False,
    allow_gaps: bool = False,
    tracks: Tracks | None = None,
    on_event: OnEvent,
) -> BookResult:
    """Make the takes of a book that are missing, and write its files.

    `UnfinishedBookError` if passages could not be spoken and gaps are not allowed.

    Args:
        plan: the book.
        synthesizer: with the cache.
        target: where the book goes.
        cache: of the takes; none of the book is evicted meanwhile.
        engine: why the synthesizer's engine was chosen.
        pauses: around chapters.
        again: segments to make again, as `chapter:segment`.
        fresh: make all of them again.
        allow_gaps: write silence for passages that could not be spoken.
        tracks: which chapters of the whole book a file for each chapter has; all when None.
        on_event: called with progress, notices and warnings.
    """

    def report(now: BookProgress) -> None:
        done, total = round(now.done * _PROGRESS_STEPS), _PROGRESS_STEPS
        on_event(BookProgressEvent(now.stage, done, total, now.title, now.audio_s, progress=now))

    began, progress = time.monotonic(), OverallProgress(report, target.read_along_weight)
    with cache.pin_for_job(target.job):
        if again and not synthesizer.info.varies_with_seed:
            name = synthesizer.engine
            on_event(
                NoticeEvent(
                    f"{name} gives the same take for every seed: its pace is changed instead"
                )
            )
        num_retaken = retake_segments(plan, synthesizer, again)
        recording = record(
            plan, synthesizer, loudness_lufs=target.loudness, pauses=pauses, fresh=fresh,
            on_progress=progress,
        )  # fmt: skip
        if recording.missing and not allow_gaps:
            rows = list_missing(plan, recording.missing)
            on_event(BookUnfinishedEvent(rows))
            raise build_unfinished_error(rows)
        written = write(plan, recording, synthesizer, target, tracks=tracks, progress=progress)
    for warning in written.warnings:
        on_event(WarningEvent(warning))
    return BookResult(
        written.files, written.extra_files, target, engine, plan, recording.timeline,
        recording.stats, recording.missing, time.monotonic() - began,
        # Those that were made again were in the cache before they were recorded.
        num_cached=max(0, recording.stats.num_cached - num_retaken),
        loading_s=recording.loading_s,
    )  # fmt: skip


@contextmanager
def open_book_cache(
    target: BookTarget, open_shared: Callable[[], Cache], warn: Callable[[str], None]
) -> Iterator[Cache]:
    """The user's cache; if that cannot be opened, one beside the book until it is finished."""
    beside: Path | None = None
    try:
        cache = open_shared()
        cache.has({target.job})  # it is opened by its first use
    except (StorageError, OSError) as error:
        from anyrig.storage.cache import ResultCache

        reason = error.message if isinstance(error, StorageError) else str(error)
        warn(f"takes are cached beside the book until it is finished: {reason}")
        beside = target.path.absolute().parent / f".{target.path.name}.anyrig"
        cache = ResultCache(beside / "takes.db")
    with cache:
        yield cache
    if beside is not None:  # a run that fails leaves it for the next
        shutil.rmtree(beside, ignore_errors=True)


def list_left_out(plan: NarrationPlan, *, chapters_chosen: bool) -> Iterator[LeftOut]:
    """What is not read although nobody chose so, and the options that have it read."""
    spoken = {part.number for part in plan.parts}
    titles = tuple(
        chapter.title or chapter.role
        for number, chapter in enumerate(plan.document.chapters, 1)
        if number not in spoken and chapter.role in SKIPPED_ROLES and chapter.num_characters
    )
    if titles and not chapters_chosen:
        yield LeftOut("chapters", len(titles), "matter", "speak", titles)
    counted: Counter[str] = Counter(
        block.kind for part in plan.parts for block in part.chapter.blocks
    )
    omitted = plan.count_omitted()
    for kind, (what, name, value) in _LEFT_OUT.items():
        count = len(plan.foreign) if kind == "foreign" else counted[kind]
        if omitted[kind] and count:
            yield LeftOut(what, count, name, value)


def report_problems(result: BookResult, on_event: OnEvent) -> None:
    """Warn of takes that may sound wrong, with how to make them again, and of gaps."""
    parts = result.plan.parts
    places = [
        (part.number, number)
        for part in parts
        for number in range(1, len(part.script.segments) + 1)
    ]
    gaps = {(parts[gap.part].number, gap.segment + 1): gap for gap in result.gaps}
    doubtful = []
    for spoken in result.stats.doubtful:
        chapter, number = places[spoken.index]
        if (chapter, number) not in gaps:
            text = " ".join(spoken.segment.text.split())[:50]
            doubtful.append(Message(
                "{problems}: {text!r} ({again} makes it again)",
                problems="; ".join(spoken.problems), text=text,
                again=OptionRef("again", f"{chapter}:{number}"),
            ))  # fmt: skip
    warn_some(
        on_event,
        doubtful,
        Message("may sound wrong; {json} lists them all", json=OptionRef("json")),
    )
    for (chapter, number), gap in gaps.items():
        message = Message(
            "gap at {chapter}:{number}, {text!r}: {reason}",
            chapter=chapter,
            number=number,
            text=gap.text[:50],
            reason=gap.reason,
        )
        on_event(WarningEvent(message))
