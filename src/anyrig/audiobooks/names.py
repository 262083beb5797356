"""Names that every system and player takes: of chapters in a file, and of files in a folder."""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anyrig.audio.tags import clean_text
from anyrig.audiobooks.tags import shortened
from anyrig.audiobooks.timeline import Mark
from anyrig.errors import InvalidInputError

PATTERN = "{number} {title}"
"""How a chapter's file is called, without its ending."""
FIELDS = ("number", "title", "book", "author")

_LONGEST_TITLE = 120
_TITLE_BYTES = 250  # a list of chapters in mp4 holds 255
_NAME_BYTES = 140  # leaves room for an ending, a name beside it, and encrypted folders
_FORBIDDEN = set('<>:"/\\|?*')
_RESERVED = {"con", "prn", "aux", "nul", "clock$", "conin$", "conout$"} | {
    f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"
}


def chapter_titles(marks: Sequence[Mark]) -> list[str]:
    """A title for each mark, in one flat list.

    A nested chapter keeps its own title as long as no other has the same: players show the
    beginning of a title. Where two are alike ("Chapter 1" of each part), their parents' stand in
    front ("Part Two: Chapter 1"). One without a title is called by its number.
    """
    own = [clean_text(mark.title) or f"Chapter {number}" for number, mark in enumerate(marks, 1)]
    seen = Counter(title.casefold() for title in own)
    titles = []
    above: list[tuple[int, str]] = []
    for mark, title in zip(marks, own, strict=True):
        above = [(level, over) for level, over in above if level < mark.level]
        parents = [over for _, over in above] if seen[title.casefold()] > 1 else []
        whole = ": ".join([*parents, title])
        if len(whole) > _LONGEST_TITLE and parents:
            whole = f"{shortened(': '.join(parents), 50)}: {title}"
        titles.append(shortened(whole, _LONGEST_TITLE, num_bytes=_TITLE_BYTES))
        above.append((mark.level, title))
    return titles


class Tracks(NamedTuple):
    """The chapters that become files, as they stand in the whole book."""

    numbers: tuple[int, ...]
    """From 1; a chapter has the same whether it is written alone or with all others."""
    titles: tuple[str, ...]
    num_all: int
    """How many the whole book has."""

    @property
    def whole(self) -> bool:
        """Whether they are all."""
        return len(self.numbers) == self.num_all


def all_tracks(marks: Sequence[Mark]) -> Tracks:
    """The tracks of a book that is written whole."""
    titles = tuple(chapter_titles(marks))
    return Tracks(tuple(range(1, len(titles) + 1)), titles, len(titles))


def file_names(tracks: Tracks, pattern: str, about: Mapping[str, str]) -> list[str]:
    """A safe name for each, no two alike on any system, the same in every run.

    The pattern may hold `{number}`, `{title}`, `{book}` and `{author}`, of which `about` has the
    last two; a number is put in front where the pattern has none.
    """
    used = _fields(pattern)
    if "number" not in used:
        pattern = "{number} " + pattern
    width = max(2, len(str(tracks.num_all)))
    names = []
    for number, title in zip(tracks.numbers, tracks.titles, strict=True):
        values = {"title": title, "number": f"{number:0{width}d}"}
        values |= {name: about.get(name, "") for name in ("book", "author")}
        names.append(_fitted(pattern, values))
    alike = len({_folded(name) for name in names}) < len(names)
    return _numbered(names, tracks) if alike else names


def safe_name(text: str) -> str:
    """One file name of a text: no folder, nothing hidden, nothing that Windows keeps to itself."""
    text = unicodedata.normalize("NFC", clean_text(text))
    kept = "".join(" " if sign in _FORBIDDEN or _unseen(sign) else sign for sign in text)
    kept = " ".join(kept.split()).strip(" .").lstrip("#-~ .")
    if kept.partition(".")[0].rstrip().casefold() in _RESERVED:
        kept = f"_{kept}"
    while len(kept.encode()) > _NAME_BYTES:
        kept = kept[:-1]
    return kept.rstrip(" .") or "untitled"


def _unseen(sign: str) -> bool:
    """Marks that turn the direction of writing and the like: two names must not look alike."""
    return unicodedata.category(sign) in ("Cf", "Co") and sign not in "\u200c\u200d"


def _fields(pattern: str) -> set[str]:
    hint = f"A name may contain {', '.join('{' + name + '}' for name in FIELDS)}."
    if "/" in pattern or "\\" in pattern:
        raise InvalidInputError(
            f"{pattern!r} names a folder", hint=f"{hint} Folders are named apart."
        )
    try:
        parsed = list(string.Formatter().parse(pattern))
    except ValueError as error:
        raise InvalidInputError(
            f"{pattern!r} is not a valid pattern: {error}", hint=hint
        ) from error
    used = {field for _, field, _, _ in parsed if field is not None}
    if used - set(FIELDS) or any(form or change for _, _, form, change in parsed):
        raise InvalidInputError(f"{pattern!r} is not a valid pattern", hint=hint)
    return used


def _fitted(pattern: str, values: Mapping[str, str]) -> str:
    """The name with its longest parts cut, so that the number always stays."""
    for most in (200, 100, 60, 40, 24, 12, 4):
        cut = {
            name: text if name == "number" else safe_name(text)[:most] if text else ""
            for name, text in values.items()
        }
        made = pattern.format(**cut)
        if len(made.encode()) <= _NAME_BYTES:
            return safe_name(made)
    return safe_name(values["number"])


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _numbered(names: Sequence[str], tracks: Tracks) -> list[str]:
    """A pattern may be so long that the number was cut off it."""
    width = max(2, len(str(tracks.num_all)))
    return [
        f"{number:0{width}d} {name}"[:_NAME_BYTES]
        for number, name in zip(tracks.numbers, names, strict=True)
    ]
