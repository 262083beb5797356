"""A TrueType font for text that is there to be found, not to be seen.

Every character has the same glyph, a block half as wide as it is high, so that a viewer that marks
a word marks all of its box. What a character means is told beside the font, by a map from its code
to Unicode. Made here, from the tables that readers insist on; it is smaller than 1 kB.
"""

from __future__ import annotations

import struct

UNITS = 1000
ADVANCE = 500
"""How wide each character is, in thousandths of the size."""


def glyphless() -> bytes:
    """The font."""
    tables = {
        b"head": _head(),
        b"hhea": struct.pack(
            ">IhhhHhhhhhhhhhhhH", 0x10000, UNITS, 0, 0, ADVANCE, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1
        ),
        b"maxp": struct.pack(">IHHHHHHHHHHHHHH", 0x10000, 2, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        b"hmtx": struct.pack(">Hhh", ADVANCE, 0, 0),
        b"cmap": _cmap(),
        b"loca": struct.pack(">HHH", 0, len(_block()) // 2, len(_block()) // 2),
        b"glyf": _block(),
        b"name": _name("Glyphless"),
        b"post": struct.pack(">IIhhIIIII", 0x30000, 0, 0, 0, 1, 0, 0, 0, 0),
        b"OS/2": _os2(),
    }
    return _font(dict(sorted(tables.items())))


def _block() -> bytes:
    """A glyph of four corners."""
    head = struct.pack(">hhhhhHH", 1, 0, 0, ADVANCE, UNITS, 3, 0)
    across = struct.pack(">hhhh", 0, 0, ADVANCE, 0)
    down = struct.pack(">hhhh", 0, UNITS, 0, -UNITS)
    glyph = head + b"\x01" * 4 + across + down
    return glyph + b"\0" * (-len(glyph) % 4)


def _head() -> bytes:
    return struct.pack(
        ">IIIIHHqqhhhhHHhhh", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, UNITS, 0, 0, 0, 0, ADVANCE, UNITS,
        0, 8, 2, 0, 0,
    )  # fmt: skip


def _cmap() -> bytes:
    """One segment, which every format 4 table must end with, and none before it."""
    table = struct.pack(">HHHHHHH", 4, 24, 0, 2, 2, 0, 0) + struct.pack(
        ">HHHhH", 0xFFFF, 0, 0xFFFF, 1, 0
    )
    return struct.pack(">HHHHI", 0, 1, 3, 1, 12) + table


def _name(text: str) -> bytes:
    said = text.encode("utf-16-be")
    records = b"".join(
        struct.pack(">HHHHHH", 3, 1, 0x409, number, len(said), 0) for number in (1, 4, 6)
    )
    return struct.pack(">HHH", 0, 3, 6 + len(records)) + records + said


def _os2() -> bytes:
    return struct.pack(
        ">HhHHHhhhhhhhhhhh10sIIII4sHHHhhhHH", 1, ADVANCE, 400, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, b"\0" * 10, 0, 0, 0, 0, b"none", 0x40, 0, 0xFFFF, UNITS, 0, 0, UNITS, 0,
    ) + struct.pack(">II", 1, 0)  # fmt: skip


def _font(tables: dict[bytes, bytes]) -> bytes:
    """Tables with their directory and checksums."""
    count = len(tables)
    power = 1 << (count.bit_length() - 1)
    out = struct.pack(
        ">IHHHH", 0x10000, count, power * 16, power.bit_length() - 1, count * 16 - power * 16
    )
    at = 12 + 16 * count
    body = b""
    for tag, data in tables.items():
        padded = data + b"\0" * (-len(data) % 4)
        out += struct.pack(">4sIII", tag, _checksum(padded), at, len(data))
        at += len(padded)
        body += padded
    whole = bytearray(out + body)
    where = whole.index(tables[b"head"]) + 8
    rest = (0xB1B0AFBA - _checksum(bytes(whole))) & 0xFFFFFFFF
    whole[where : where + 4] = struct.pack(">I", rest)
    return bytes(whole)


def _checksum(data: bytes) -> int:
    words: tuple[int, ...] = struct.unpack(f">{len(data) // 4}I", data)
    return sum(words) & 0xFFFFFFFF
