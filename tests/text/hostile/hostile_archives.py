"""Archives that unpack without end, lie about themselves, or lead out of their folder."""

from __future__ import annotations

import io
import stat
import struct
import warnings
import zipfile
import zlib
from pathlib import Path

from tests.text.epub_maker import PNG, Page, epub, package, write
from tests.text.hostile.hostile_kinds import hostile

STORY = "<h1>One</h1><p>It was a dark night, and the clock struck nine.</p>"
PAGES = [Page("c1.xhtml", STORY)]


def honest(path: Path, **options: object) -> Path:
    """A small book, with what the test wants wrong in it."""
    return epub(path, PAGES, **options)  # type: ignore[arg-type]


def zeros(num_bytes: int) -> bytes:
    """A deflated run of zeros, made without the run."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = bytes(1 << 20)
    made = b"".join(packer.compress(block) for _ in range(num_bytes >> 20))
    return made + packer.flush()


def raw_zip(
    members: list[tuple[bytes, bytes, int, int]], *, num_members: int | None = None
) -> bytes:
    """An archive of deflated members as they are: name, packed bytes, size and checksum as told."""
    out, directory = bytearray(), bytearray()
    for name, packed, size, crc in members:
        head = struct.pack("<HHHHHIIIHH", 20, 0x800, 8, 0, 33, crc, len(packed), size, len(name), 0)
        place = len(out)
        out += b"PK\x03\x04" + head + name + packed
        directory += b"PK\x01\x02\x14\x00" + head + struct.pack("<HHHII", 0, 0, 0, 0, place) + name
    count = len(members) if num_members is None else num_members
    start = len(out)
    out += directory
    out += b"PK\x05\x06" + struct.pack(
        "<HHHHIIH", 0, 0, count & 0xFFFF, count & 0xFFFF, len(directory), start, 0
    )
    return bytes(out)


def deflated(name: str, data: bytes) -> tuple[bytes, bytes, int, int]:
    """A member as it should be."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return name.encode(), packer.compress(data) + packer.flush(), len(data), zlib.crc32(data)


def members_of(path: Path) -> list[tuple[bytes, bytes, int, int]]:
    """Of a small book, to put something beside."""
    with zipfile.ZipFile(path) as archive:
        return [deflated(name, archive.read(name)) for name in archive.namelist()]


def with_members(folder: Path, *more: tuple[bytes, bytes, int, int], replaced: str = "") -> Path:
    """A small book with members of any kind."""
    path = honest(folder / "book.epub")
    kept = [member for member in members_of(path) if member[0] != replaced.encode()]
    path.write_bytes(raw_zip([*kept, *more]))
    return path


@hostile("refused")
def flat_zip_bomb(folder: Path) -> Path:
    packed = zeros(160 << 20)
    return with_members(
        folder, (b"OEBPS/c1.xhtml", packed, 160 << 20, 0), replaced="OEBPS/c1.xhtml"
    )


@hostile("refused", slow=True)
def many_small_zip_bombs(folder: Path) -> Path:
    """Each below every limit, all together far above."""
    page = b"<html><body><p>" + b" " * 7_900_000 + b"word</p></body></html>"
    pages = [Page(f"b{number}.xhtml", "", raw=page) for number in range(40)]
    return epub(folder / "book.epub", pages)


@hostile("refused")
def zip_that_lies_small(folder: Path) -> Path:
    """Says 100 bytes, holds 160 MB."""
    packed = zeros(160 << 20)
    return with_members(folder, (b"OEBPS/c1.xhtml", packed, 100, 0), replaced="OEBPS/c1.xhtml")


@hostile("either")
def zip_that_lies_large(folder: Path) -> Path:
    """Says 4 GB, holds a line."""
    _, packed, _, crc = deflated("", b"<p>A line.</p>")
    return with_members(
        folder, (b"OEBPS/c1.xhtml", packed, 0xFFFFFFF0, crc), replaced="OEBPS/c1.xhtml"
    )


@hostile("refused")
def overlapping_members(folder: Path) -> Path:
    """A thousand names for the same bytes, as in the best known bomb."""
    path = honest(folder / "book.epub")
    data = path.read_bytes()
    place = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    first = data[place : data.index(b"PK\x01\x02", place + 4)]
    directory = data[place:end] + first * 1000
    tail = struct.pack("<HHHHIIH", 0, 0, 1006, 1006, len(directory), place, 0)
    path.write_bytes(data[:place] + directory + b"PK\x05\x06" + tail)
    return path


@hostile("refused")
def sixty_thousand_members(folder: Path) -> Path:
    members = [deflated(f"OEBPS/{number}", b"") for number in range(60_000)]
    path = folder / "book.epub"
    path.write_bytes(raw_zip([*members_of(honest(folder / "small.epub")), *members]))
    return path


@hostile("refused")
def members_beyond_the_count(folder: Path) -> Path:
    """The end says 3, the directory has 52,000."""
    members = [deflated(f"OEBPS/{number}", b"") for number in range(52_000)]
    path = folder / "book.epub"
    path.write_bytes(raw_zip(members, num_members=3))
    return path


@hostile("refused")
def zip64_lies(folder: Path) -> Path:
    """A large end that tells of 2^60 members."""
    path = honest(folder / "book.epub")
    data = path.read_bytes()
    end = data.index(b"PK\x05\x06")
    large = b"PK\x06\x06" + struct.pack(
        "<QHHIIQQQQ", 44, 45, 45, 0, 0, 1 << 60, 1 << 60, 1 << 50, 0
    )
    where = b"PK\x06\x07" + struct.pack("<IQI", 0, end, 1)
    tail = struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(data[:end] + large + where + b"PK\x05\x06" + tail)
    return path


@hostile("either")
def nested_zips(folder: Path) -> Path:
    """Archives in archives, three deep, beside a book and as its chapter."""
    inner = zlib.compress(bytes(1 << 20))
    for _ in range(3):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(16):
                archive.writestr(f"{number}.zip", inner)
        inner = file.getvalue()
    return epub(folder / "book.epub", [*PAGES, Page("z.xhtml", "", raw=inner)])


@hostile("either")
def quine_zip(folder: Path) -> Path:
    """An fb2 archive that holds an archive of its own name."""
    path = folder / "book.fb2.zip"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("book.fb2", b"PK\x03\x04" + bytes(40))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("book.fb2", file.getvalue())
    return path


def _named(folder: Path, name: str) -> Path:
    return honest(folder / "book.epub", files={name: "<p>Out!</p>"})


@hostile("refused")
def members_that_climb(folder: Path) -> Path:
    return _named(folder, "../../../escaped.xhtml")


@hostile("refused")
def absolute_members(folder: Path) -> Path:
    return _named(folder, str(folder.parent / "escaped.xhtml"))


@hostile("refused")
def members_on_a_drive(folder: Path) -> Path:
    return _named(folder, "C:\\escaped.xhtml")


@hostile("either")
def members_with_control_characters(folder: Path) -> Path:
    return with_members(
        folder,
        deflated("a\nb.xhtml", b"<p>x</p>"),
        deflated("a\x00b.xhtml", b"<p>x</p>"),
        deflated("\x1b]0;title\x07.xhtml", b"<p>x</p>"),
        deflated("\u202egnp.exe", b"<p>x</p>"),
        (b"\xff\xfe\xed\xa0\x80.xhtml", b"", 0, 0),
    )


@hostile("refused")
def symbolic_link_member(folder: Path) -> Path:
    path = honest(folder / "book.epub", files={"OEBPS/c1.xhtml": None})
    link = zipfile.ZipInfo("OEBPS/c1.xhtml")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    return path


@hostile("refused")
def two_members_of_one_name(folder: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = honest(folder / "book.epub")
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("OEBPS/content.opf", package(PAGES, version=2, metadata=""))
    return path


@hostile("refused")
def empty_zip(folder: Path) -> Path:
    return write(folder / "book.epub", {}, mimetype=None)


@hostile("refused")
def zip_of_nothing_readable(folder: Path) -> Path:
    return write(folder / "book.epub", {"a.bin": bytes(1000), "b.png": PNG}, mimetype=None)


@hostile("refused")
def mimetype_alone(folder: Path) -> Path:
    return write(folder / "book.epub", {})


@hostile("refused")
def half_a_zip(folder: Path) -> Path:
    path = honest(folder / "book.epub")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


@hostile("either")
def wrong_checksums(folder: Path) -> Path:
    name, packed, size, crc = deflated("OEBPS/c1.xhtml", STORY.encode())
    return with_members(folder, (name, packed, size, crc ^ 1), replaced="OEBPS/c1.xhtml")


@hostile("refused")
def encrypted_members(folder: Path) -> Path:
    path = honest(folder / "book.epub")
    data = bytearray(path.read_bytes())
    place = data.find(b"PK\x01\x02")
    while place >= 0:
        data[place + 8] |= 1
        place = data.find(b"PK\x01\x02", place + 4)
    path.write_bytes(data)
    return path
