"""Tags, a cover and chapters of an audio file, by one name each, and as each format wants them.

What a format has no place for is left out: chapters are in m4a alone, covers in m4a and mp3.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from anyrig.text.document import Picture

NAMES = (
    "title", "artist", "album", "album_artist", "composer", "genre", "date", "track", "comment",
    "description", "synopsis", "publisher", "language", "grouping", "series", "series_part",
    "media_type",
)  # fmt: skip
"""`track` is `3` or `3/12`; `language` is of ISO 639-2; `composer` is the narrator of a book."""
AUDIOBOOK = "2"
"""The media type of iTunes."""

_MULTILINE = ("comment", "description", "synopsis")
_MP4_NAMES = {
    **{name: name for name in (
        "title", "artist", "album", "album_artist", "composer", "genre", "date", "track",
        "comment", "description", "synopsis", "grouping", "media_type",
    )},
    # A book's series is a show with episodes.
    "series": "show", "series_part": "episode_id",
}  # fmt: skip
_SOUNDFILE_NAMES = {
    "title": "title", "artist": "artist", "album": "album", "genre": "genre", "date": "date",
    "track": "tracknumber", "publisher": "copyright",
}  # fmt: skip
_ID3_FRAMES = {
    "title": b"TIT2", "artist": b"TPE1", "album": b"TALB", "album_artist": b"TPE2",
    "composer": b"TCOM", "genre": b"TCON", "date": b"TDRC", "track": b"TRCK",
    "publisher": b"TPUB", "language": b"TLAN", "grouping": b"TIT1",
    # Of Apple, and read by many: a book of a series is a movement of a work.
    "series": b"MVNM", "series_part": b"MVIN",
}  # fmt: skip
_ID3_USER_FRAMES = {"series": "SERIES", "series_part": "SERIES-PART", "synopsis": "DESCRIPTION"}
_ID3_UTF8 = b"\x03"
_ID3_FRONT_COVER = b"\x03"


class ChapterMark(NamedTuple):
    """Where a chapter is, in samples."""

    title: str
    start: int
    end: int


@dataclass(frozen=True)
class FileTags:
    """All that an audio file says of itself."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """By `NAMES`."""
    picture: Picture | None = None
    chapters: tuple[ChapterMark, ...] = ()

    def to_mp4(self) -> dict[str, str]:
        """By FFmpeg's names."""
        return {key: self.texts[name] for name, key in _MP4_NAMES.items() if name in self.texts}

    def to_soundfile(self) -> dict[str, str]:
        """By the few names that libsndfile has: the narrator goes into the comment."""
        found = {
            key: self.texts[name] for name, key in _SOUNDFILE_NAMES.items() if name in self.texts
        }
        narrator = self.texts.get("composer", "")
        lines = (f"Narrated by {narrator}" if narrator else "", self._comment)
        comment = "\n".join(filter(None, lines))
        return found | ({"comment": comment} if comment else {})

    def to_id3(self) -> bytes:
        """ID3 2.4, as it stands in front of an mp3; libsndfile writes few names and no cover."""
        texts = self.texts
        frames = [
            _id3_frame(code, _ID3_UTF8 + texts[name].encode())
            for name, code in _ID3_FRAMES.items()
            if name in texts
        ]
        for name, title in _ID3_USER_FRAMES.items():
            if name in texts:
                value = f"{title}\0{texts[name]}".encode()
                frames.append(_id3_frame(b"TXXX", _ID3_UTF8 + value))
        if self._comment:
            language = texts.get("language", "und").encode("ascii", "replace")[:3].ljust(3, b" ")
            body = _ID3_UTF8 + language + b"\0" + self._comment.encode()
            frames.append(_id3_frame(b"COMM", body))
        if self.picture is not None:
            kind = self.picture.media_type.encode("ascii", "replace")
            head = b"\0" + kind + b"\0" + _ID3_FRONT_COVER + b"\0"
            frames.append(_id3_frame(b"APIC", head + self.picture.data))
        body = b"".join(frames)
        return b"ID3\x04\x00\x00" + _id3_size(len(body)) + body if frames else b""

    @property
    def _comment(self) -> str:
        texts = self.texts
        return texts.get("comment") or texts.get("synopsis") or texts.get("description") or ""


def clean_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags that have a name and a value, without what breaks formats: NUL, lone surrogates."""
    cleaned = {name: clean_text(tags.get(name, ""), lines=name in _MULTILINE) for name in NAMES}
    return {name: text for name, text in cleaned.items() if text}


def clean_text(text: str, *, lines: bool = False) -> str:
    """The text as one line, or with its lines kept, and no control characters."""
    if text.isprintable():  # nearly always, and much faster
        return " ".join(text.split())
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    rows = text.split("\n") if lines else [text]
    return "\n".join(" ".join("".join(map(_replace, row)).split()) for row in rows).strip()


def _replace(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Cs":
        return "\ufffd"
    return " " if kind in ("Cc", "Zl", "Zp") else character


def _id3_frame(code: bytes, body: bytes) -> bytes:
    return code + _id3_size(len(body)) + b"\0\0" + body


def _id3_size(number: int) -> bytes:
    """Seven bits a byte, so that no size looks like the beginning of audio."""
    assert number < 1 << 28
    return bytes(number >> shift & 0x7F for shift in (21, 14, 7, 0))
