"""Previews of a book before it is made, and the check of a finished one against its source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.app.books import (
    BookRequest,
    build_book_plan,
    choose_reader,
    load_rate,
    plan_book,
    read_document,
    resolve_target,
)
from anyrig.app.cache import open_cache
from anyrig.app.engines import resolve_voice
from anyrig.app.files import check_writable
from anyrig.app.speech import (
    Speech,
    collect_speech,
    open_recogniser,
    open_synthesizer,
    resolve_format,
)
from anyrig.errors import InvalidInputError
from anyrig.events import OnEvent, ProgressEvent
from anyrig.options import option
from anyrig.results import in_json

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.audiobooks.verify import Report
    from anyrig.text.document import Document
    from anyrig.transcription.engines import Recording, Transcript

_UNSAFE = re.compile(r"[^\w.+-]+")
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min)?")


def _parse_seconds(text: str) -> str | None:
    match = _TIME.fullmatch(text.strip().lower())
    if match is None:
        return None
    return str(float(match[1]) * (60 if (match[2] or "s").startswith("m") else 1))


@dataclass(frozen=True, kw_only=True)
class SampleRequest(BookRequest):
    """Previews of a book."""

    sample: float = option(
        help="write previews of this length, such as 60s", ge=1, le=3600,
        unit="seconds, such as 60s or 2min", normalize=_parse_seconds, metavar="TIME",
    )  # fmt: skip
    voices: tuple[str, ...] = option((), "with --sample: voices to compare")


@dataclass(frozen=True, kw_only=True)
class VerifyRequest(BookRequest):
    """A finished book and its source."""

    finished: Path = option(help="the finished book, or the folder of its chapters", flag=False)
    words: Literal["none", "sample", "all"] = option(
        "sample", "with --verify: how much is transcribed"
    )


@dataclass(frozen=True)
class BookSample:
    file: Path
    engine: str
    voice: str
    audio_s: float = field(metadata=in_json(digits=3))


def sample_book(rig: Rig, request: SampleRequest, on_event: OnEvent) -> list[BookSample]:
    """Write a preview of the same passage in each voice, before hours of work."""
    resolve_format(request.format or "mp3")
    document = read_document(request, on_event)
    return [
        _write_sample(rig, replace(request, voice=voice), document, on_event)
        for voice in request.voices or (request.voice,)
    ]


def _write_sample(
    rig: Rig, request: SampleRequest, document: Document, on_event: OnEvent
) -> BookSample:
    from anyrig.audiobooks.plan import choose_passage

    target = resolve_target(rig, request)
    book = choose_reader(rig, request, document)
    engine = book.engine
    rate = load_rate(rig, request, engine)
    num_characters = round(request.sample * request.rate / rate.seconds_per_character)
    script = choose_passage(build_book_plan(rig, request, book), num_characters)
    voices = engine.weights.voices
    voice = resolve_voice(rig, request, engine) or (voices[0].name if voices else "")
    stem = "-".join(filter(None, (target.path.stem, engine.name, voice)))
    format = request.format or "mp3"
    path = target.path.with_name(f"{_UNSAFE.sub('_', stem)[:120]}.{format}")
    check_writable(path)
    with (
        open_cache(rig) as cache,
        open_synthesizer(rig, request, engine, len(script.source), cache) as synthesizer,
        synthesizer.read(script.segments) as reading,
        Speech(engine, script, synthesizer.rate, target.loudness, reading.stats) as speech,
    ):
        for _ in collect_speech(synthesizer, reading, speech, on_event):
            pass
        speech.save(path, format)
        return BookSample(path, engine.name, voice, speech.audio_s)


def verify_book(rig: Rig, request: VerifyRequest, on_event: OnEvent) -> Report:
    """Check a finished book against its source: chapters, lengths, levels and words."""
    from anyrig.app.book_chapters import load_timeline
    from anyrig.audiobooks.verify import format_clock, verify
    from anyrig.audiobooks.verify_audio import find_preset
    from anyrig.transcription.models import find_verifier

    if not request.finished.exists():
        raise InvalidInputError(
            f"no such file: {request.finished}",
            hint="The finished book comes first, then its source.",
        )
    levels = find_preset(request.levels)
    book = plan_book(rig, request, on_event)
    timeline = load_timeline(rig, request, book)

    def transcribe(recordings: Iterable[Recording], language: str) -> Iterator[Transcript | None]:
        model = find_verifier(language)
        with open_recogniser(rig, request, model, len(timeline.cues)) as recogniser:
            for outcome in recogniser.transcribe(recordings):
                yield outcome.result

    def on_progress(stage: str, done_s: float, total_s: float) -> None:
        place = f"{format_clock(done_s)} of {format_clock(total_s)}"
        on_event(ProgressEvent(stage, round(done_s), round(total_s), place))

    return verify(
        request.finished, book.plan, timeline, words=request.words, levels=levels,
        transcribe=transcribe, on_progress=on_progress,
    )  # fmt: skip
