"""Tags and pictures of flac and Ogg Opus: Vorbis comments, put into what libsndfile writes.

libsndfile writes a handful of names and no pictures. What it writes passes through here: the block
of comments at the front is replaced by ours, and the rest moves up (RFC 9639, 7845 and 3533).
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING

from anyrig.audio.tags import Labels
from anyrig.text.document import Picture

if TYPE_CHECKING:
    from anyrig.audio.encode import Sink

_NAMES = {
    "title": "TITLE", "artist": "ARTIST", "album": "ALBUM", "album_artist": "ALBUMARTIST",
    "composer": "COMPOSER", "genre": "GENRE", "date": "DATE", "comment": "COMMENT",
    "publisher": "PUBLISHER", "language": "LANGUAGE", "grouping": "GROUPING", "series": "SERIES",
    "series_part": "SERIES-PART",
}  # fmt: skip
_STREAMINFO_END = 42
_LARGEST_BLOCK = (1 << 24) - 1
_PAGE_HEAD = 27
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def comments(labels: Labels, vendor: bytes, *, picture: bool) -> bytes:
    """A comment block; a picture inside it is how Ogg carries one."""
    lines = [f"{name}={labels.tags[tag]}" for tag, name in _NAMES.items() if tag in labels.tags]
    described = labels.tags.get("synopsis") or labels.tags.get("description")
    if described:
        lines.append(f"DESCRIPTION={described}")
    if "composer" in labels.tags:
        lines.append(f"NARRATOR={labels.tags['composer']}")
    number, _, total = labels.tags.get("track", "").partition("/")
    lines += [f"TRACKNUMBER={number}"] if number else []
    lines += [f"TRACKTOTAL={total}"] if total else []
    if picture and labels.picture is not None:
        block = base64.b64encode(picture_block(labels.picture)).decode("ascii")
        lines.append(f"METADATA_BLOCK_PICTURE={block}")
    encoded = [line.encode() for line in lines]
    sized = b"".join(struct.pack("<I", len(line)) + line for line in encoded)
    return struct.pack("<I", len(vendor)) + vendor + struct.pack("<I", len(encoded)) + sized


def picture_block(picture: Picture) -> bytes:
    """A front cover; its measures are left unknown, as readers look into the picture itself."""
    kind = picture.media_type.encode("ascii", "replace")
    return b"".join([
        struct.pack(">II", 3, len(kind)), kind, struct.pack(">I", 0),
        struct.pack(">IIII", 0, 0, 0, 0), struct.pack(">I", len(picture.data)), picture.data,
    ])  # fmt: skip


class FlacTags:
    """A sink in front of a sink: flac's blocks of metadata become ours."""

    def __init__(self, sink: Sink, labels: Labels) -> None:
        self._sink = sink
        self._labels = labels
        self._held: bytearray | None = bytearray()
        self._moved = 0
        self._place = 0

    def write(self, data: bytes) -> int:
        """Hold the front until it is whole, then pass everything on."""
        self._place += len(data)
        if self._held is None:
            return self._sink.write(data)
        self._held += bytes(data)
        front = _front(bytes(self._held))
        if front is not None:
            info, vendor, length = front
            made = info + self._blocks(vendor)
            self._moved = len(made) - length
            self._sink.write(made + bytes(self._held[length:]))
            self._held = None
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """To a place as the writer counts."""
        assert self._held is None or (offset == 0 and not self._held), "the front is not yet whole"
        if self._held is not None:
            return 0
        if whence == 2:
            self._place = self._sink.seek(offset, 2) - self._moved
            return self._place
        self._place = offset + (self._place if whence == 1 else 0)
        moved = self._moved if self._place >= _STREAMINFO_END else 0
        self._sink.seek(self._place + moved)
        return self._place

    def tell(self) -> int:
        """Where the writer thinks it is."""
        return self._place

    def read(self, count: int = -1) -> bytes:
        """Nothing, as a sink."""
        return b""

    def _blocks(self, vendor: bytes) -> bytes:
        blocks = [(4, comments(self._labels, vendor, picture=False))]
        if self._labels.picture is not None:
            blocks.append((6, picture_block(self._labels.picture)))
        blocks = [(kind, body) for kind, body in blocks if len(body) <= _LARGEST_BLOCK]
        last = len(blocks) - 1
        return b"".join(
            bytes([kind | (0x80 if number == last else 0)]) + len(body).to_bytes(3, "big") + body
            for number, (kind, body) in enumerate(blocks)
        )


def _front(held: bytes) -> tuple[bytes, bytes, int] | None:
    """What is kept of flac's front (mark and STREAMINFO), the vendor, and how long it all was."""
    place, vendor = 4, b""
    while place + 4 <= len(held):
        kind, length = held[place], int.from_bytes(held[place + 1 : place + 4], "big")
        body = held[place + 4 : place + 4 + length]
        place += 4 + length
        if place > len(held):
            return None
        if kind & 0x7F == 4:
            vendor = body[4 : 4 + int.from_bytes(body[:4], "little")]
        if kind & 0x80:
            info = bytearray(held[:_STREAMINFO_END])
            info[4] &= 0x7F  # others follow now
            return bytes(info), vendor, place
    return None


class OpusTags:
    """A sink in front of a sink: the comment packet becomes ours, later pages are renumbered."""

    def __init__(self, sink: Sink, labels: Labels) -> None:
        self._sink = sink
        self._labels = labels
        self._held = bytearray()
        self._packet: bytes | None = b""
        """What has come of the comment packet; None once it has been replaced."""
        self._more = 0
        """How many pages there are more than the writer made."""
        self._place = 0

    def write(self, data: bytes) -> int:
        """Pass on every page that is whole."""
        self._place += len(data)
        self._held += bytes(data)
        while (length := _page_length(self._held)) is not None:
            page = bytes(self._held[:length])
            del self._held[:length]
            self._sink.write(self._changed(page))
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Ogg is written from front to back."""
        goal = (0, self._place, self._place)[whence] + offset
        assert goal == self._place, "Ogg is written in one go"
        return self._place

    def tell(self) -> int:
        """Where the writer thinks it is."""
        return self._place

    def read(self, count: int = -1) -> bytes:
        """Nothing, as a sink."""
        return b""

    def _changed(self, page: bytes) -> bytes:
        number = int.from_bytes(page[18:22], "little")
        if number == 0:
            return page
        if self._packet is None:
            return _numbered(page, number + self._more)
        lacing = page[_PAGE_HEAD : _PAGE_HEAD + page[26]]
        self._packet += page[_PAGE_HEAD + len(lacing) :]
        if lacing[-1:] == b"\xff":
            return b""
        vendor = self._packet[12 : 12 + int.from_bytes(self._packet[8:12], "little")]
        self._packet = None
        made = b"OpusTags" + comments(self._labels, vendor, picture=True)
        pages = _pages(made, page[14:18], 1)
        self._more = len(pages) - number
        return b"".join(pages)


def _page_length(held: bytearray) -> int | None:
    if len(held) < _PAGE_HEAD or len(held) < _PAGE_HEAD + held[26]:
        return None
    length = _PAGE_HEAD + held[26] + sum(held[_PAGE_HEAD : _PAGE_HEAD + held[26]])
    return length if len(held) >= length else None


def _pages(packet: bytes, serial: bytes, first: int) -> list[bytes]:
    """A packet over as many pages as it needs; none carries a position but the last."""
    lacing = [255] * (len(packet) // 255) + [len(packet) % 255]
    pages = []
    for number, start in enumerate(range(0, len(lacing), 255)):
        part = lacing[start : start + 255]
        last = start + 255 >= len(lacing)
        head = struct.pack("<4sBBq", b"OggS", 0, 1 if number else 0, 0 if last else -1)
        body = packet[255 * start : 255 * start + sum(part)]
        page = head + serial + bytes(8) + bytes([len(part), *part]) + body
        pages.append(_numbered(page, first + number))
    return pages


def _numbered(page: bytes, number: int) -> bytes:
    bare = page[:18] + struct.pack("<II", number, 0) + page[26:]
    return bare[:22] + struct.pack("<I", checksum(bare)) + bare[26:]


def checksum(page: bytes) -> int:
    """Ogg's CRC: zlib's polynomial with bits the other way round and nothing inverted."""
    mirrored = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{mirrored:032b}"[::-1], 2)
