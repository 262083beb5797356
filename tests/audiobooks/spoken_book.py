"""A small book of the default voice, as a plan and as sound that can be damaged before writing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from anyrig.audio.limiter import Limiter
from anyrig.audio.loudness import level_whole
from anyrig.audio.samples import Samples, fade, silence
from anyrig.audiobooks.metadata import BookTags
from anyrig.audiobooks.plan import ChapterPlan, NarrationPlan
from anyrig.audiobooks.record import ChapterSpan, Cue, Timeline
from anyrig.audiobooks.write import write_book, write_chapters
from anyrig.speech.chunks import trim
from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.text.document import Block, Chapter, Document, Metadata
from anyrig.transcription.engines import Moonshine, Recording, Transcript
from anyrig.transcription.models import find_verifier
from tests.speech.takes import RATE, said

TEXTS = {
    "The Harbour": (
        "The harbour lay quiet under a thin grey mist. "
        "Two fishermen were mending their nets beside the old stone wall. "
        "A white dog slept in the shade of an empty boat. "
        "Nobody had seen the lighthouse keeper since Tuesday morning. "
        "Then a bell rang far away across the water."
    ),
    "The Letter": (
        "Margaret opened the letter with trembling hands. "
        "It had been written in 1897 by her grandfather in Lisbon. "
        "He asked her to sell the house and follow him to Brazil. "
        "Outside the window the gardener was cutting the roses. "
        "She folded the paper and put it into the silver box."
    ),
    "The Journey": (
        "The train left the station at seven in the evening. "
        "Snow covered the fields on both sides of the railway. "
        "An old soldier told stories about the war in the mountains. "
        "By midnight everyone in the carriage was asleep. "
        "When the sun came up, they could see the ocean."
    ),
}
Sound = list[list[Samples]]
"""For each chapter, each segment with its pauses."""


@lru_cache(maxsize=1)
def plan() -> NarrationPlan:
    parts, chapters = [], []
    for number, (title, text) in enumerate(TEXTS.items(), 1):
        chapter = Chapter(title, (Block(text),))
        script = prepare(text, SpeechOptions(language="en", languages=("en",)))
        parts.append(ChapterPlan(number, title, 1, chapter, script, (0,)))
        chapters.append(chapter)
    return NarrationPlan(Document(Metadata("A Book", language="en"), tuple(chapters)), tuple(parts))


@lru_cache(maxsize=1)
def _spoken() -> Sound:
    made = []
    for part in plan().parts:
        rows = []
        for segment in part.script.segments:
            take = trim(said(segment.utterance.text))
            rows.append(np.concatenate([
                silence(segment.pause_before_s, RATE), fade(take.samples, RATE),
                silence(max(0.3, segment.pause_after_s), RATE),
            ]))  # fmt: skip
        rows[0] = np.concatenate([silence(0.5, RATE), rows[0]])
        rows[-1] = np.concatenate([rows[-1], silence(1.2, RATE)])
        made.append(rows)
    lengths = [len(row) for rows in made for row in rows]
    whole = level_whole(np.concatenate([row for rows in made for row in rows]), RATE)
    whole = Limiter(RATE, -4.0).apply(whole)
    cut = iter(np.split(whole, np.cumsum(lengths)[:-1]))
    return [[next(cut) for _ in rows] for rows in made]


def spoken() -> Sound:
    """A copy that may be changed."""
    return [list(rows) for rows in _spoken()]


def timeline(sound: Sound, titles: Iterable[str] = tuple(TEXTS)) -> Timeline:
    """Where every segment of these is heard."""
    marks, cues, place = [], [], 0
    for part, (title, rows) in enumerate(zip(titles, sound, strict=False)):
        start = place
        for number, row in enumerate(rows):
            cues.append(Cue(part, number, place, place + len(row), "", (0, 0)))
            place += len(row)
        marks.append(ChapterSpan(title, start, place))
    return Timeline(RATE, tuple(marks), tuple(cues))


def write(path: Path, sound: Sound, titles: Iterable[str] = tuple(TEXTS)) -> Path:
    """A book with chapters, or a folder of chapters where the name has no ending."""
    whole = [np.concatenate(rows) for rows in sound]
    book = timeline(sound, titles)
    if path.suffix:
        write_book(path, whole, book, BookTags(title="A Book"))
    else:
        write_chapters(path, whole, book, BookTags(title="A Book"))
    return path


def transcribe(recordings: Iterable[Recording], language: str) -> Iterator[Transcript | None]:
    """The recogniser in this process: quicker to begin than a pool."""
    find_verifier(language)
    for one in recordings:
        yield _moonshine().run([one])[0]


@lru_cache(maxsize=1)
def _moonshine() -> Moonshine:
    return Moonshine()
