"""Whether a finished book says what it should: heard, laid beside the text, and heard once more.

    chapter -> stretches -> recogniser -> words -> differences -> the places heard again -> passages

A recogniser drops or repeats a line now and then. So every place where something seems to be wrong
is heard a second time, cut into shorter pieces, and only what is wrong again is told.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from anyrig.audiobooks import check_hear as hear
from anyrig.audiobooks.check_align import Gap
from anyrig.audiobooks.check_passages import LEAST_WORDS, Passage, Row, compare, confirmed, moved
from anyrig.audiobooks.listen import Reader
from anyrig.transcription.protocol import Recording

if TYPE_CHECKING:
    from anyrig.audiobooks.check_hear import Ears
    from anyrig.audiobooks.check_sound import Stretch
    from anyrig.audiobooks.listen import Track
    from anyrig.audiobooks.plan import Part

Tell = Callable[[str, float, float], None]
"""What is done, how many seconds of audio are through, and how many there are."""
_AROUND_S = 8.0
_MOST_AGAIN = 200  # a book in which nothing fits is not heard twice
_LONG_S = 120.0  # such a long passage is no slip of the recogniser


@dataclass(frozen=True)
class Hearing:
    """How much is heard, and what counts."""

    how: Literal["sample", "all"] = "sample"
    sample_s: float = 600.0
    """Of the whole book; every chapter gives one stretch at least."""
    seed: int = 0
    """Another one takes another sample."""
    least_words: int = LEAST_WORDS


@dataclass
class Task:
    """A track, and what should be heard in it."""

    track: Track
    quiet: tuple[Stretch, ...]
    said: Row
    heard_s: float = 0.0
    words: int = 0
    errors: int = 0
    passages: list[Passage] = field(default_factory=list)
    unheard: list[str] = field(default_factory=list)
    """What could not be checked, and why."""
    codes: list[str] = field(default_factory=list)
    """Languages it was heard in."""


@dataclass(frozen=True)
class _Piece:
    """A stretch of a task that is to be heard."""

    task: int
    stretch: Stretch
    language: str


def expected(parts: Iterable[tuple[int, Part]], main: str = "en") -> Row:
    """The words of parts, each part with its number in the plan."""
    row = Row()
    for number, part in parts:
        for place, segment in enumerate(part.script.segments):
            line = segment.utterance
            text = segment.text if "[[" in line.text else line.text
            for word in text.split():
                row.add(word, (number, place), line.language or main)
    return row


def listen(tasks: Sequence[Task], ears: Ears, hearing: Hearing, tell: Tell) -> None:
    """Hear the tasks and fill in what was found."""
    pieces = _pieces(tasks, hearing)
    texts = _heard(tasks, pieces, ears, tell, "listening")
    doubtful: list[tuple[int, Passage, str]] = []
    for number, task in enumerate(tasks):
        mine = [(one, texts.get(at)) for at, one in enumerate(pieces) if one.task == number]
        for run in _runs(mine):
            doubtful += [(number, *found) for found in _compare(task, run, hearing)]
    for number, passage in _again(tasks, doubtful, ears, hearing, tell):
        tasks[number].passages.append(passage)
    for task in tasks:
        task.passages = sorted(moved(task.passages), key=lambda one: one.start_s)


def _pieces(tasks: Sequence[Task], hearing: Hearing) -> list[_Piece]:
    whole_s = sum(task.track.duration_s for task in tasks) or 1.0
    made = []
    for number, task in enumerate(tasks):
        duration_s = task.track.duration_s
        cut = hear.stretches(task.quiet, 0.0, duration_s)
        picked: Sequence[int] = range(len(cut))
        if hearing.how == "sample":
            wanted_s = hearing.sample_s * duration_s / whole_s
            picked = hear.sampled(cut, wanted_s, f"{hearing.seed}:{number}")
        made += [_Piece(number, cut[at], _language(task, cut[at])) for at in picked]
    return made


def _language(task: Task, stretch: Stretch) -> str:
    """The language of the words that are likely heard in a stretch."""
    listed = task.said.languages
    if not listed:
        return "en"
    share = len(listed) / max(task.track.duration_s, 1e-3)
    low = max(0, min(len(listed) - 1, int(stretch[0] * share) - 10))
    return Counter(listed[low : int(stretch[1] * share) + 10]).most_common(1)[0][0]


def _heard(
    tasks: Sequence[Task], pieces: Sequence[_Piece], ears: Ears, tell: Tell, what: str
) -> dict[int, str]:
    """What was heard in each piece that could be."""
    found: dict[int, str] = {}
    total_s = sum(one.stretch[1] - one.stretch[0] for one in pieces)
    done_s = 0.0
    for language in dict.fromkeys(one.language for one in pieces):
        numbers = [at for at, one in enumerate(pieces) if one.language == language]
        why = hear.deaf(ears, language)
        if why:
            for task in {pieces[at].task for at in numbers}:
                tasks[task].unheard.append(why)
            continue
        recordings = _recordings(tasks, [pieces[at] for at in numbers])
        for at, text in zip(numbers, ears.hear(recordings, language), strict=True):
            start, end = pieces[at].stretch
            done_s += end - start
            if text is None:
                tasks[pieces[at].task].unheard.append(
                    f"the recogniser failed from {start:.0f} to {end:.0f} s"
                )
            else:
                found[at] = text
            tell(what, done_s, total_s)
    return found


def _recordings(tasks: Sequence[Task], pieces: Sequence[_Piece]) -> Iterator[Recording]:
    with contextlib.closing(Reader()) as reader:
        for piece in pieces:
            track = tasks[piece.task].track
            yield Recording(reader.mono(track, *piece.stretch), track.rate, piece.language)


def _runs(mine: list[tuple[_Piece, str | None]]) -> Iterator[list[tuple[_Piece, str]]]:
    """Pieces that follow on each other, as one."""
    run: list[tuple[_Piece, str]] = []
    for piece, text in mine:
        if run and (text is None or piece.stretch[0] > run[-1][0].stretch[1] + 1e-6):
            yield run
            run = []
        if text is not None:
            run.append((piece, text))
    if run:
        yield run


def _compare(
    task: Task, run: list[tuple[_Piece, str]], hearing: Hearing
) -> Iterator[tuple[Passage, str]]:
    """What seems to be wrong in a run, with the language it was heard in."""
    heard = task.said.beside()
    for piece, text in run:
        hear.laid_out(heard, text, piece.stretch, task.quiet, piece.language)
        task.heard_s += piece.stretch[1] - piece.stretch[0]
        task.codes.append(piece.language)
    start_s, end_s = run[0][0].stretch[0], run[-1][0].stretch[1]
    first, last = start_s <= 0.0, end_s >= task.track.duration_s - 1e-6
    found = compare(
        task.said, heard, first=first, last=last, near=_near(task, start_s, end_s),
        least=hearing.least_words,
    )  # fmt: skip
    task.words, task.errors = task.words + found.words, task.errors + found.errors
    language = run[0][0].language
    if found.lost and not _silent(task, start_s, end_s):
        said = heard.text(0, len(heard.words))
        gap = Gap(0, 0, 0, len(heard.words))
        yield Passage("wrong", gap, "", said, (), start_s, end_s), language
    for passage in found.passages:
        spoken = _spoken(task.said, passage) or language
        if spoken in {piece.language for piece, _ in run}:
            yield passage, spoken
        else:
            task.unheard.append(f"a passage in {spoken} was not compared: {passage.said[:60]!r}")


def _near(task: Task, start_s: float, end_s: float) -> tuple[int, int]:
    """Words that may be heard in a stretch, generously."""
    whole, duration_s = len(task.said.words), max(task.track.duration_s, 1e-3)
    slack = 400 + 0.15 * whole
    low, high = (int(whole * at / duration_s) for at in (start_s, end_s))
    low = 0 if start_s <= 0 else max(0, int(low - slack))
    return low, whole if end_s >= duration_s - 1e-6 else min(whole, int(high + slack))


def _silent(task: Task, start_s: float, end_s: float) -> bool:
    within = sum(max(0.0, min(end, end_s) - max(start, start_s)) for start, end in task.quiet)
    return within > 0.9 * (end_s - start_s)


def _spoken(said: Row, passage: Passage) -> str:
    """The language that a passage should be heard in; empty where nothing should be."""
    listed = [said.languages[said.of[at]] for at in range(passage.gap.i0, passage.gap.i1)]
    return Counter(listed).most_common(1)[0][0] if listed else ""


def _again(
    tasks: Sequence[Task],
    doubtful: Sequence[tuple[int, Passage, str]],
    ears: Ears,
    hearing: Hearing,
    tell: Tell,
) -> Iterator[tuple[int, Passage]]:
    """Passages that are wrong at the second hearing as well."""
    pieces: list[_Piece] = []
    mine: list[range] = []
    for number, passage, language in doubtful:
        cut: list[Stretch] = []
        if passage.end_s - passage.start_s < _LONG_S and len(mine) < _MOST_AGAIN:
            cut = _around(tasks[number], passage)
        mine.append(range(len(pieces), len(pieces) + len(cut)))
        pieces += [_Piece(number, stretch, language) for stretch in cut]
    texts = _heard(tasks, pieces, ears, tell, "listening again")
    for (number, passage, language), places in zip(doubtful, mine, strict=True):
        if not places or any(at not in texts for at in places):
            yield number, passage
            continue
        task = tasks[number]
        again = task.said.beside()
        for at in places:
            hear.laid_out(again, texts[at], pieces[at].stretch, task.quiet, language)
        first = pieces[places[0]].stretch[0] <= 0.0
        last = pieces[places[-1]].stretch[1] >= task.track.duration_s - 1e-6
        if not passage.segments:  # the whole stretch was not found in the text
            near = _near(task, passage.start_s, passage.end_s)
            if compare(task.said, again, first=first, last=last, near=near).lost:
                yield number, passage
            continue
        kept = confirmed(
            passage, task.said, again, first=first, last=last, least=hearing.least_words
        )
        if kept is not None:
            yield number, kept


def _around(task: Task, passage: Passage) -> list[Stretch]:
    """The place of a passage with some seconds beside it, in short pieces."""
    middles = [(start + end) / 2 for start, end in task.quiet if end - start >= 0.2]
    before = bisect_right(middles, passage.start_s - _AROUND_S)
    after = bisect_left(middles, passage.end_s + _AROUND_S)
    start_s = middles[before - 1] if before else 0.0
    end_s = middles[after] if after < len(middles) else task.track.duration_s
    return hear.stretches(task.quiet, start_s, end_s, hear.AGAIN_LEAST_S, hear.AGAIN_MOST_S)
