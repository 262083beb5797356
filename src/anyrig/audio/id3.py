"""The block of tags in front of an mp3: ID3 version 2.4 (id3.org/id3v2.4.0-structure).

libsndfile writes a handful of names and no pictures, so the block is made here.
"""

from __future__ import annotations

from anyrig.audio.tags import Labels

_TEXTS = {
    "title": b"TIT2", "artist": b"TPE1", "album": b"TALB", "album_artist": b"TPE2",
    "composer": b"TCOM", "genre": b"TCON", "date": b"TDRC", "track": b"TRCK",
    "publisher": b"TPUB", "language": b"TLAN", "grouping": b"TIT1",
    # Of Apple, and read by many: a book of a series is a movement of a work.
    "series": b"MVNM", "series_part": b"MVIN",
}  # fmt: skip
_OWN = {"series": "SERIES", "series_part": "SERIES-PART", "synopsis": "DESCRIPTION"}
_UTF8 = b"\x03"
_FRONT = b"\x03"  # the front cover, among the kinds of pictures


def id3_block(labels: Labels) -> bytes:
    """The whole block; empty where there is nothing to say."""
    tags = labels.tags
    frames = [_frame(code, _text(tags[name])) for name, code in _TEXTS.items() if name in tags]
    for name, title in _OWN.items():
        if name in tags:
            frames.append(_frame(b"TXXX", _text(title) + b"\0" + tags[name].encode()))
    remark = tags.get("comment") or tags.get("synopsis") or tags.get("description")
    if remark:
        language = tags.get("language", "und").encode("ascii", "replace")[:3].ljust(3, b" ")
        frames.append(_frame(b"COMM", _UTF8 + language + b"\0" + remark.encode()))
    if labels.picture is not None:
        kind = labels.picture.media_type.encode("ascii", "replace")
        head = b"\0" + kind + b"\0" + _FRONT + b"\0"
        frames.append(_frame(b"APIC", head + labels.picture.data))
    if not frames:
        return b""
    body = b"".join(frames)
    return b"ID3\x04\x00\x00" + _safe(len(body)) + body


def _text(text: str) -> bytes:
    return _UTF8 + text.encode()


def _frame(code: bytes, body: bytes) -> bytes:
    return code + _safe(len(body)) + b"\0\0" + body


def _safe(number: int) -> bytes:
    """Seven bits a byte, so that no size looks like the beginning of sound."""
    assert number < 1 << 28
    return bytes(number >> shift & 0x7F for shift in (21, 14, 7, 0))
