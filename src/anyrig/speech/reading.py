"""What is said for each stretch of a sentence: its marks as they ask, the rest by the rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from anyrig.speech.normalise import normalise
from anyrig.speech.normalise import read as read_by_rules
from anyrig.speech.normalise.rules import Said
from anyrig.speech.source_text import STAND_IN, Mark
from anyrig.speech.split import Atom
from anyrig.speech.ssml import say_as

_UNSAID = re.compile(rf"\[\[|\]\]|[{STAND_IN}\ud800-\udfff]")
_LOST = "the engine does not support IPA: the words are read as written"


def reading(mark: Mark, text: str, language: str, *, phonemes: bool) -> tuple[str | None, str]:
    """The words for a mark, None when its text is to be read as if it had none; and a warning."""
    if mark.ipa and phonemes:
        return f"[[{mark.ipa}]]", ""
    if mark.ipa and not mark.say:
        unread = mark.bare or text == STAND_IN
        return ("", f"{_LOST}, and IPA without a word is left out") if unread else (None, _LOST)
    if mark.interpret:
        words = say_as(text, mark.interpret, language)
        kind = mark.interpret.partition(" ")[0]
        return words, "" if words is not None else f"SSML: say-as {kind!r} is not supported"
    return (mark.say if mark.fixed else normalise(mark.say, language)), ""


def atoms(
    text: str, start: int, end: int, marks: Sequence[tuple[Mark, str]], language: str
) -> tuple[Atom, ...]:
    """The whole of a stretch of the text in order, its marks with the words given for them."""
    if text[start:end].isspace():
        return (Atom(start, end, text[start:end]),)
    # The rules see the marked words where they stand, since `Dr.` before one is a doctor.
    said = [
        Said(start + one.start, start + one.end, one.text, one.kind)
        for one in read_by_rules(text[start:end], language)
    ]
    if any(_crosses(text, one, mark) for one in said for mark, _ in marks):
        said = list(_apart(text, start, end, marks, language))
    return tuple(_woven(text, said, marks))


def _crosses(text: str, one: Said, mark: Mark) -> bool:
    """Whether a rule took a part of a mark together with something else."""
    overlaps = one.start < mark.end and mark.start < one.end
    inside = mark.start <= one.start and one.end <= mark.end
    return overlaps and not inside and one.text != text[one.start : one.end]


def _apart(
    text: str, start: int, end: int, marks: Sequence[tuple[Mark, str]], language: str
) -> Iterator[Said]:
    """The stretches between marks, each read by itself."""
    edges = [start, *(edge for mark, _ in marks for edge in (mark.start, mark.end)), end]
    for left, right in zip(edges[::2], edges[1::2], strict=True):
        for one in read_by_rules(text[left:right], language):
            yield Said(left + one.start, left + one.end, one.text, one.kind)


def _woven(text: str, said: Sequence[Said], marks: Sequence[tuple[Mark, str]]) -> Iterator[Atom]:
    """What the rules say, with each mark in its place."""
    waiting = list(reversed(marks))
    position = 0
    for one in said:
        position = max(position, one.start)
        while waiting and waiting[-1][0].start < one.end:
            mark, words = waiting.pop()
            yield from _plain(text, one, position, mark.start)
            yield Atom(mark.start, mark.end, words, whole=True)
            position = mark.end
        yield from _plain(text, one, position, one.end)
    for mark, words in reversed(waiting):
        yield Atom(mark.start, mark.end, words, whole=True)


def _plain(text: str, one: Said, start: int, end: int) -> Iterator[Atom]:
    """A stretch, or what marks left of it, as the rules say it."""
    if start >= end:
        return
    written = text[one.start : one.end]
    ruled = one.text != written
    words = one.text if ruled else text[start:end]
    # Doubled brackets are for IPA alone; a stand-in and half a surrogate pair are no words.
    clean = _UNSAID.sub(" ", words)
    yield Atom(start, end, clean, whole=ruled or len(clean) != end - start)
