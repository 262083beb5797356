"""Whether a finished book is what its source says: chapters, lengths, levels and words.

    report = verify(Path("book.m4b"), plan, words="sample", ears=Listeners(machine, ...))
    for line in report.lines(): ...

The file is taken as a listener gets it: decoded, with the marks it has. Nothing of how it was made
is used, so books that other programs made of the same text can be checked as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from anyrig.audiobooks.check_align import common
from anyrig.audiobooks.check_levels import Checked, all_findings, notes
from anyrig.audiobooks.check_report import Finding, FindingKind, Measured, Report
from anyrig.audiobooks.check_sound import Levels, Sound, measure
from anyrig.audiobooks.check_words import Hearing, Task, Tell, expected, listen
from anyrig.audiobooks.listen import Finished, blocks, finished
from anyrig.audiobooks.metadata import build_chapter_titles
from anyrig.audiobooks.record import ChapterSpan
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.audiobooks.check_hear import Ears
    from anyrig.audiobooks.check_passages import Passage
    from anyrig.audiobooks.listen_files import Block
    from anyrig.audiobooks.plan import Part, Plan

Words = Literal["none", "sample", "all"]
_SAID: dict[str, str] = {
    "missing": "missing",
    "doubled": "heard twice",
    "moved": "heard in another place",
    "extra": "heard, but not in the text",
    "wrong": "other words are heard",
}
_MOST_WRONG = 0.2  # wrong words for each word: no recogniser is that bad on a clear voice


class _Pairs(NamedTuple):
    """Which part of the plan each track is."""

    parts: list[tuple[int, ...]]
    """For each track, numbers of parts from 0."""
    findings: list[Finding]


def verify(
    path: Path,
    plan: Plan,
    *,
    words: Words = "sample",
    levels: Levels | None = None,
    ears: Ears | None = None,
    hearing: Hearing | None = None,
    tell: Tell | None = None,
) -> Report:
    """Check a finished book against the plan of its source.

    Args:
        path: the book, or a folder of its chapters.
        plan: what should be spoken.
        words: how much of it is heard by a recogniser.
        levels: what is asked of the sound; see `check_sound.PRESETS`.
        ears: who hears; without them the words are not checked, and the report says so.
        hearing: how large a sample is, and what counts; `words` decides between sample and all.
        tell: is told how far it is.
    """
    levels, tell = levels or Levels(), tell or _nobody
    book = finished(path)
    matched = _matched(book, plan)
    sounds, whole = measure(book, _watched(book, tell))
    chapters = [
        Checked(track, sound, tuple(plan.parts[number] for number in numbers))
        for track, sound, numbers in zip(book.tracks, sounds, matched.parts, strict=True)
    ]
    problems = [*matched.findings, *all_findings(chapters, whole, levels)]
    tasks = _tasks(chapters, matched, plan)
    unchecked = list(_unheard(chapters, words, ears))
    if words != "none" and ears is not None:
        given = hearing or Hearing()
        listen(
            [task for task in tasks if task is not None], ears,
            Hearing(words, given.sample_s, given.seed, given.least_words), tell,
        )  # fmt: skip
        problems += _passages(chapters, tasks, plan)
        unchecked += _deaf(chapters, tasks)
    rows = [_measured(*row) for row in zip(chapters, tasks, strict=True)]
    return Report(
        str(path), levels.name, tuple(sorted(problems, key=_place)), tuple(rows),
        _total(rows, whole, plan), _notes(book, levels, words), tuple(dict.fromkeys(unchecked)),
        _names(tasks, ears),
    )  # fmt: skip


def _notes(book: Finished, levels: Levels, words: Words) -> tuple[str, ...]:
    heard = ("the words were not transcribed",) if words == "none" else ()
    return (*heard, *notes(book, levels))


def _nobody(what: str, done_s: float, total_s: float) -> None:
    """Nobody wants to know."""


def _watched(book: Finished, tell: Tell) -> Iterator[tuple[int, Block]]:
    done_s, total_s = 0.0, book.duration_s
    for number, block in blocks(book):
        yield number, block
        done_s += len(block) / book.tracks[number].rate
        tell("measuring", done_s, total_s)


# -- chapters -------------------------------------------------------------------------------------


def _matched(book: Finished, plan: Plan) -> _Pairs:
    everything = tuple(range(len(plan.parts)))
    if not book.marked:
        found: list[Finding] = []
        if len(plan.parts) > 1:
            said = f"it has no chapters; there should be {len(plan.parts)}"
            found.append(Finding("chapters", said))
        return _Pairs([everything], found)
    titles = build_chapter_titles(
        [ChapterSpan(part.title, 0, 0, part.level) for part in plan.parts]
    )
    wanted, there = ([_plain(title) for title in some] for some in (titles, _titles(book)))
    pairs = {j: i for i, j in common(wanted, there)}
    findings = [*_out_of_order(pairs, wanted, there, book, plan)]
    _by_place(pairs, wanted, there)
    for j, i in sorted(pairs.items()):
        if wanted[i] != there[j]:
            said = f"it is called {book.tracks[j].title!r}, not {titles[i]!r}"
            findings.append(_finding(plan.parts[i], book, j, said))
    for i in sorted(set(everything) - set(pairs.values())):
        said = f"{titles[i]!r} is not in the file"
        findings.append(Finding("chapters", said, plan.parts[i].number, titles[i]))
    for j in sorted(set(range(len(there))) - set(pairs)):
        said = f"{book.tracks[j].title!r} is in the file, but not in the book"
        findings.append(_finding(None, book, j, said))
    return _Pairs([(pairs[j],) if j in pairs else () for j in range(len(there))], findings)


def _titles(book: Finished) -> list[str]:
    return [track.title for track in book.tracks]


def _plain(title: str) -> str:
    """As far as a file's name keeps it."""
    return " ".join("".join(c if c.isalnum() else " " for c in title.casefold()).split())


def _out_of_order(
    pairs: dict[int, int], wanted: list[str], there: list[str], book: Finished, plan: Plan
) -> Iterator[Finding]:
    """Chapters that are there, but elsewhere; they are paired as well."""
    for j in [j for j in range(len(there)) if j not in pairs]:
        free = set(range(len(wanted))) - set(pairs.values())
        same = [i for i in sorted(free) if wanted[i] == there[j]]
        if same:
            pairs[j] = same[0]
            said = f"{book.tracks[j].title!r} is out of order: chapter {j + 1} of the file"
            yield _finding(plan.parts[same[0]], book, j, said)


def _by_place(pairs: dict[int, int], wanted: list[str], there: list[str]) -> None:
    """Between two that are known, as many of the one as of the other belong together."""
    known = sorted(pairs.items())
    if [i for _, i in known] != sorted(i for _, i in known):
        return
    ends = [(-1, -1), *known, (len(there), len(wanted))]
    for (j0, i0), (j1, i1) in zip(ends, ends[1:], strict=False):
        if j1 - j0 == i1 - i0:
            pairs.update((j0 + step, i0 + step) for step in range(1, j1 - j0))


def _finding(part: Part | None, book: Finished, track: int, said: str) -> Finding:
    number = part.number if part is not None else 0
    at = book.tracks[track]
    return Finding("chapters", said, number, at.title, at.offset_s, None, 0.0)


# -- words ----------------------------------------------------------------------------------------


def _tasks(chapters: Sequence[Checked], matched: _Pairs, plan: Plan) -> list[Task | None]:
    made: list[Task | None] = []
    for chapter, numbers in zip(chapters, matched.parts, strict=True):
        row = expected(((number, plan.parts[number]) for number in numbers), plan.language)
        task = Task(chapter.track, chapter.sound.quiet, row) if row.words else None
        made.append(task)
    return made


def _unheard(chapters: Sequence[Checked], words: Words, ears: Ears | None) -> Iterator[str]:
    if words == "none":
        return
    if ears is None:
        yield "the words: no speech recognition is installed"
    else:
        for chapter in chapters:
            if not chapter.parts:
                yield f"the words of {chapter.track.title!r}, which is not in the book"


def _deaf(chapters: Sequence[Checked], tasks: Sequence[Task | None]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for chapter, task in zip(chapters, tasks, strict=True):
        for why in dict.fromkeys(task.unheard) if task is not None else ():
            by_reason.setdefault(why, []).append(str(chapter.number or repr(chapter.track.title)))
    for why, names in by_reason.items():
        yield f"words of chapter{'s' if len(names) > 1 else ''} {', '.join(names)}: {why}"


def _passages(
    chapters: Sequence[Checked], tasks: Sequence[Task | None], plan: Plan
) -> Iterator[Finding]:
    for chapter, task in zip(chapters, tasks, strict=True):
        if task is None:
            continue
        for passage in task.passages:
            yield _of_passage(chapter, passage, plan)
        if not task.passages and task.words >= 20 and task.errors > _MOST_WRONG * task.words:
            are = "is" if task.errors == 1 else "are"
            said = f"{task.errors} of {pluralize(task.words, 'word')} {are} not understood"
            yield chapter.finding("words", said)


def _of_passage(chapter: Checked, passage: Passage, plan: Plan) -> Finding:
    kind: FindingKind = passage.kind
    offset = chapter.track.offset_s
    numbers = tuple((plan.parts[part].number, segment + 1) for part, segment in passage.segments)
    said, text = _SAID[passage.kind], passage.said
    if passage.kind == "wrong":
        said += f" ({passage.heard[:80]!r})" if passage.heard else " (none that is understood)"
    if passage.kind == "extra":
        said, text, numbers = f"{said}, after segment {numbers[0][1]}" if numbers else said, "", ()
        text = passage.heard
    number = chapter.number or (plan.parts[passage.segments[0][0]].number if numbers else 0)
    return Finding(
        kind, said, number, chapter.track.title, offset + passage.start_s, offset + passage.end_s,
        passage.start_s, numbers, text,
    )  # fmt: skip


def _names(tasks: Sequence[Task | None], ears: Ears | None) -> tuple[str, ...]:
    if ears is None:
        return ()
    spoken = [code for task in tasks if task is not None and task.heard_s for code in task.codes]
    return tuple(dict.fromkeys(ears.name(code) for code in spoken))


# -- figures --------------------------------------------------------------------------------------


def _measured(chapter: Checked, task: Task | None) -> Measured:
    sound = chapter.sound
    heard = (task.heard_s, task.words, task.errors) if task is not None else (0.0, 0, 0)
    return Measured(
        chapter.number, chapter.track.title, chapter.track.offset_s, sound.duration_s,
        chapter.characters, sound.lufs, sound.true_peak_db, sound.peak_db, sound.rms_db,
        sound.noise_floor_db, sound.longest_silence_s, *heard,
    )  # fmt: skip


def _total(rows: Sequence[Measured], sound: Sound, plan: Plan) -> Measured:
    return Measured(
        0, "all", 0.0, sound.duration_s, plan.num_characters, sound.lufs, sound.true_peak_db,
        sound.peak_db, sound.rms_db, sound.noise_floor_db,
        max((row.longest_silence_s for row in rows), default=0.0),
        sum(row.heard_s for row in rows), sum(row.words for row in rows),
        sum(row.errors for row in rows),
    )  # fmt: skip


def _place(found: Finding) -> tuple[float, float]:
    """The whole first, then by chapter and time."""
    return found.chapter, -1.0 if found.start_s is None else found.start_s
