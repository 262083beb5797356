"""PDFs for tests, written by hand: text at places, lines set to a measure, outlines, encryption.

Times is drawn with its true widths, so that lines are as long as a typesetter would make them.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from pathlib import Path

_WIDTHS = [
    250, 333, 408, 500, 500, 833, 778, 180, 333, 333, 500, 564, 250, 333, 250, 278, 500, 500, 500,
    500, 500, 500, 500, 500, 500, 500, 278, 278, 564, 564, 564, 444, 921, 722, 667, 667, 722, 611,
    556, 722, 722, 333, 389, 722, 611, 889, 722, 722, 556, 722, 667, 556, 611, 722, 722, 944, 722,
    722, 611, 333, 278, 333, 469, 500, 333, 444, 500, 444, 500, 444, 333, 500, 500, 278, 278, 500,
    278, 778, 500, 500, 500, 500, 333, 389, 278, 500, 500, 722, 500, 500, 444, 480, 200, 480, 541,
]  # fmt: skip
_FONTS = {"F1": "Times-Roman", "F2": "Times-Bold", "F3": "Courier"}
_PAD = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


def width_of(text: str, size: float, font: str = "F1") -> float:
    if font == "F3":
        return 0.6 * size * len(text)
    known = (_WIDTHS[ord(letter) - 32] if 32 <= ord(letter) < 127 else 500 for letter in text)
    return sum(known) * size / 1000


@dataclass
class Leaf:
    width: float = 420
    height: float = 600
    rotate: int = 0
    drawn: list[str] = field(default_factory=list)

    def put(
        self, left: float, base: float, text: str, size: float = 10, font: str = "F1",
        turn: str = "1 0 0 1", mode: int = 0,
    ) -> Leaf:  # fmt: skip
        safe = text.encode("cp1252", "replace")
        said = b"".join(b"\\" + bytes([b]) if b in b"()\\" else bytes([b]) for b in safe)
        self.drawn.append(
            f"BT /{font} {size} Tf {mode} Tr {turn} {left:.2f} {base:.2f} Tm"
            f" ({said.decode('latin-1')}) Tj ET"
        )
        return self

    def centre(self, base: float, text: str, size: float = 10, font: str = "F1") -> Leaf:
        return self.put((self.width - width_of(text, size, font)) / 2, base, text, size, font)

    def set(
        self, left: float, base: float, text: str, measure: float = 300, size: float = 10,
        leading: float = 12, indent: float = 0, font: str = "F1",
    ) -> float:  # fmt: skip
        """A paragraph, justified but for its last line; gives the base line under it."""
        lines = broken(text, measure, size, indent, font)
        for number, line in enumerate(lines):
            place = left + (indent if number == 0 else 0)
            room = measure - (indent if number == 0 else 0)
            words = line.split(" ")
            slack = room - width_of(line, size, font)
            last = number == len(lines) - 1 and not text.endswith("~")
            spread = 0.0 if last or len(words) < 2 else slack / (len(words) - 1)
            for word in words:
                self.put(place, base, word, size, font)
                place += width_of(word + " ", size, font) + spread
            base -= leading
        return base


def broken(
    text: str, measure: float, size: float, indent: float = 0, font: str = "F1"
) -> list[str]:
    """Lines of a measure; `|` is a place where a word may be broken with a hyphen."""
    lines: list[str] = []
    line = ""
    room = measure - indent
    for word in text.rstrip("~").split():
        plain = word.replace("|", "")
        joined = f"{line} {plain}" if line else plain
        if width_of(joined, size, font) <= room:
            line = joined
            continue
        head, _, tail = word.partition("|")
        broken_line = f"{line} {head}-" if line else f"{head}-"
        if tail and width_of(broken_line, size, font) <= room:
            lines.append(broken_line)
            line = tail.replace("|", "")
        else:
            lines.append(line)
            line = plain
        room = measure
    return [*lines, line] if line else lines


def pdf(
    leaves: list[Leaf],
    *,
    about: dict[str, str] | None = None,
    outline: list[tuple[int, str, int, float]] | None = None,
    language: str = "",
    password: str | None = None,
    extra_fonts: dict[str, str] | None = None,
    objects: list[bytes] | None = None,
) -> bytes:
    """The file. An outline's entry is level, title, page from 1, height."""
    made = _Writer(password)
    fonts = " ".join(
        f"/{name} {made.add(_font(base))} 0 R"
        for name, base in {**_FONTS, **(extra_fonts or {})}.items()
    )
    for each in objects or []:
        made.add(each)
    tree = made.room()
    pages = []
    for leaf in leaves:
        content = made.stream("\n".join(leaf.drawn).encode("latin-1"))
        pages.append(
            made.add(
                f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 {leaf.width} {leaf.height}]"
                f" /Rotate {leaf.rotate} /Contents {content} 0 R"
                f" /Resources << /Font << {fonts} >> >> >>".encode()
            )
        )
    kids = " ".join(f"{page} 0 R" for page in pages)
    made.fill(tree, f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    roots = f"/Pages {tree} 0 R"
    if outline:
        roots += f" /Outlines {_outline(made, outline, pages)} 0 R"
    if language:
        roots += f" /Lang ({language})"
    root = made.add(f"<< /Type /Catalog {roots} >>".encode())
    info = made.info(about or {})
    return made.whole(root, info)


def write(path: Path, leaves: list[Leaf], **options: object) -> Path:
    path.write_bytes(pdf(leaves, **options))  # type: ignore[arg-type]
    return path


def _font(base: str) -> bytes:
    if base.startswith("<<"):
        return base.encode("latin-1")
    widths = " ".join("600" if base == "Courier" else str(width) for width in _WIDTHS)
    return (
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{base} /Encoding /WinAnsiEncoding"
        f" /FirstChar 32 /LastChar 126 /Widths [{widths}] >>".encode()
    )


def _outline(made: _Writer, entries: list[tuple[int, str, int, float]], pages: list[int]) -> int:
    numbers = [made.room() for _ in entries]
    root = made.room()
    parents: list[int] = []
    for place, (level, _, _, _) in enumerate(entries):
        above = [n for n in range(place) if entries[n][0] < level]
        parents.append(above[-1] if above else -1)
    for place, (_, title, page, height) in enumerate(entries):
        kids = [n for n, parent in enumerate(parents) if parent == place]
        peers = [n for n, parent in enumerate(parents) if parent == parents[place]]
        after = peers[peers.index(place) + 1 :]
        text = (b"\xfe\xff" + title.encode("utf-16-be")).hex()
        up = numbers[parents[place]] if parents[place] >= 0 else root
        said = (
            f"<< /Title <{text}> /Parent {up} 0 R /Dest [{pages[page - 1]} 0 R /XYZ 0 {height} 0]"
        )
        if after:
            said += f" /Next {numbers[after[0]]} 0 R"
        if kids:
            said += f" /First {numbers[kids[0]]} 0 R /Last {numbers[kids[-1]]} 0 R"
        made.fill(numbers[place], f"{said} >>".encode())
    top = [n for n, parent in enumerate(parents) if parent == -1]
    made.fill(
        root,
        f"<< /Type /Outlines /First {numbers[top[0]]} 0 R /Last {numbers[top[-1]]} 0 R >>".encode(),
    )
    return root


class _Writer:
    """Numbers objects and puts them in a file; streams and strings locked if there is a key."""

    def __init__(self, password: str | None) -> None:
        self._objects: list[bytes] = []
        self._id = bytes(range(16))
        self._key = b""
        self._owner = b""
        if password is not None:
            padded = (password.encode() + _PAD)[:32]
            self._owner = _rc4(hashlib.md5((b"owner" + _PAD)[:32]).digest()[:5], padded)
            start = padded + self._owner + (0xFFFFFFFC).to_bytes(4, "little") + self._id
            self._key = hashlib.md5(start).digest()[:5]

    def room(self) -> int:
        self._objects.append(b"null")
        return len(self._objects)

    def fill(self, number: int, body: bytes) -> None:
        self._objects[number - 1] = body

    def add(self, body: bytes) -> int:
        number = self.room()
        self.fill(number, body)
        return number

    def stream(self, data: bytes) -> int:
        number = self.room()
        packed = self._locked(number, zlib.compress(data))
        head = f"<< /Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode()
        self.fill(number, head + packed + b"\nendstream")
        return number

    def info(self, about: dict[str, str]) -> int:
        number = self.room()
        said = "".join(
            f"/{name} <{self._locked(number, _string(text)).hex()}> "
            for name, text in about.items()
        )
        self.fill(number, f"<< {said}>>".encode())
        return number

    def _locked(self, number: int, data: bytes) -> bytes:
        if not self._key:
            return data
        key = hashlib.md5(self._key + number.to_bytes(3, "little") + b"\x00\x00").digest()[:10]
        return _rc4(key, data)

    def whole(self, root: int, info: int) -> bytes:
        trailer = f"/Root {root} 0 R /Info {info} 0 R"
        if self._key:
            user = _rc4(self._key, _PAD)
            lock = self.add(
                f"<< /Filter /Standard /V 1 /R 2 /O <{self._owner.hex()}> /U <{user.hex()}>"
                f" /P -4 >>".encode()
            )
            trailer += f" /Encrypt {lock} 0 R /ID [<{self._id.hex()}> <{self._id.hex()}>]"
        out = bytearray(b"%PDF-1.4\n")
        places = []
        for number, body in enumerate(self._objects, 1):
            places.append(len(out))
            out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
        start = len(out)
        out += f"xref\n0 {len(places) + 1}\n0000000000 65535 f \n".encode()
        out += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
        out += f"trailer\n<< /Size {len(places) + 1} {trailer} >>\n".encode()
        out += f"startxref\n{start}\n%%EOF\n".encode()
        return bytes(out)


def _string(text: str) -> bytes:
    return text.encode("ascii") if text.isascii() else b"\xfe\xff" + text.encode("utf-16-be")


def _rc4(key: bytes, data: bytes) -> bytes:
    box = list(range(256))
    far = 0
    for near in range(256):
        far = (far + box[near] + key[near % len(key)]) % 256
        box[near], box[far] = box[far], box[near]
    near = far = 0
    out = bytearray()
    for byte in data:
        near = (near + 1) % 256
        far = (far + box[near]) % 256
        box[near], box[far] = box[far], box[near]
        out.append(byte ^ box[(box[near] + box[far]) % 256])
    return bytes(out)
