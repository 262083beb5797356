"""What a sound file says of itself: tags, a picture, chapters.

Tags have one name each here, whatever the format; `aac`, `id3`, `vorbis` and `wave` know where
their format keeps them, and leave out what it has no place for.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from anyrig.text.document import Picture

NAMES = (
    "title", "artist", "album", "album_artist", "composer", "genre", "date", "track", "comment",
    "description", "synopsis", "publisher", "language", "grouping", "series", "series_part",
    "media_type",
)  # fmt: skip
"""`track` is `3` or `3/12`; `language` is of ISO 639-2; `composer` is the narrator of a book."""

_LINES = ("comment", "description", "synopsis")


class ChapterMark(NamedTuple):
    """Where a chapter lies, in samples."""

    title: str
    start: int
    end: int


@dataclass(frozen=True)
class Labels:
    """All of it."""

    tags: Mapping[str, str] = field(default_factory=dict)
    picture: Picture | None = None
    chapters: tuple[ChapterMark, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tags) or self.picture is not None or bool(self.chapters)


def cleaned(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags that have a name and a value, without what breaks formats: NUL, lone surrogates."""
    kept = {name: clean(tags.get(name, ""), lines=name in _LINES) for name in NAMES}
    return {name: text for name, text in kept.items() if text}


def clean(text: str, *, lines: bool = False) -> str:
    """The text as one line, or with its lines kept, and no control characters."""
    if text.isprintable():  # nearly always, and much faster
        return " ".join(text.split())
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    rows = text.split("\n") if lines else [text]
    return "\n".join(" ".join("".join(map(_shown, row)).split()) for row in rows).strip()


def _shown(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Cs":
        return "\ufffd"
    return " " if kind in ("Cc", "Zl", "Zp") else character
