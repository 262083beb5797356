"""Archives that were made to do harm, and those that are merely odd."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.zipped import open_archive

SMALL = Limits(
    member_bytes=50_000, total_bytes=120_000, members=50, ratio=100, ratio_from_bytes=20_000
)


def made(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_members_are_read_by_name_and_by_what_was_meant(tmp_path: Path) -> None:
    path = made(tmp_path / "a.zip", {"Text/Chapter One.xhtml": b"one", "b.txt": b"two"})
    with open_archive(path, Limits()) as archive:
        assert archive.names == ("Text/Chapter One.xhtml", "b.txt")
        assert archive.read("b.txt") == b"two"
        assert archive.find("text/chapter%20one.XHTML") == "Text/Chapter One.xhtml"
        assert archive.find("Text\\Chapter One.xhtml") == "Text/Chapter One.xhtml"
        assert archive.find("none") is None
        with pytest.raises(InvalidInputError, match="has no 'none' in it"):
            archive.read("none")


def test_accents_in_names_are_found_however_they_were_written(tmp_path: Path) -> None:
    unflagged = bytearray(made(tmp_path / "a.zip", {"Café.html": b"x"}).read_bytes())
    for sign, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        at = unflagged.index(sign) + offset
        struct.pack_into("<H", unflagged, at, struct.unpack_from("<H", unflagged, at)[0] & ~0x800)
    (tmp_path / "b.zip").write_bytes(unflagged)
    for name in ("a.zip", "b.zip"):
        with open_archive(tmp_path / name, Limits()) as archive:
            for wanted in ("Café.html", "Caf%C3%A9.html", "Cafe\u0301.html"):
                member = archive.find(wanted)
                assert member is not None
                assert archive.read(member) == b"x"


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "C:/evil", "..\\evil"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / "a.zip", {"fine": b"x", name: b"x"})
    with (
        pytest.raises(InvalidInputError, match="a path outside of it"),
        open_archive(path, Limits()),
    ):
        pass
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["a.zip"]


def _link(path: Path) -> None:
    member = zipfile.ZipInfo("link")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, "/etc/passwd")


def _overlapping(path: Path) -> None:
    """Two entries of the directory for one member: how a bomb holds itself many times."""
    made(path, {"a": b"x" * 1000})
    data = path.read_bytes()
    start = data.rindex(b"PK\x01\x02")
    end = data.rindex(b"PK\x05\x06")
    entry = data[start:end]
    other = entry[:46] + b"b" + entry[47:]
    tail = bytearray(data[end:])
    struct.pack_into("<HHI", tail, 8, 2, 2, 2 * len(entry))
    path.write_bytes(data[:end] + other + bytes(tail))


def twice(path: Path, first: str, second: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", first)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a", second)


def _two_of_one_name(path: Path) -> None:
    twice(path, "one", "two")


def _bzip2(path: Path) -> None:
    made(path, {"a": b"x" * 100}, zipfile.ZIP_BZIP2)


def _too_many(path: Path) -> None:
    made(path, {str(number): b"" for number in range(51)})


def _many_in_the_directory(path: Path) -> None:
    made(path, {"a": b"x"})
    data = bytearray(path.read_bytes())
    struct.pack_into("<HH", data, data.rindex(b"PK\x05\x06") + 8, 60_000, 60_000)
    path.write_bytes(data)


def _cut_short(path: Path) -> None:
    made(path, {"a": b"x" * 1000})
    path.write_bytes(path.read_bytes()[:-30])


def _no_directory(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + b"\x00" * 400)


def _bomb(path: Path) -> None:
    made(path, {"a": b"\x00" * 45_000})


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_link, "a link to another file"), (_overlapping, "overlap"),
        (_two_of_one_name, "two different members"), (_bzip2, "packed in a way"),
        (_too_many, "more than 50 members"), (_many_in_the_directory, "more than 50 members"),
        (_cut_short, "not a complete zip"), (_no_directory, "not a complete zip"),
        (_bomb, "times its size"),
    ],
)  # fmt: skip
def test_archives_made_to_do_harm_are_refused(
    tmp_path: Path, harm: Callable[[Path], None], message: str
) -> None:
    harm(tmp_path / "a.zip")
    with pytest.raises(InvalidInputError, match=message), open_archive(tmp_path / "a.zip", SMALL):
        pass


def test_sizes_are_held_to_one_by_one_and_together(tmp_path: Path) -> None:
    noise = bytes(range(256)) * 190
    path = made(tmp_path / "a.zip", {"a": noise, "b": noise, "c": noise, "d": noise * 2},
                zipfile.ZIP_STORED)  # fmt: skip
    with open_archive(path, SMALL) as archive:
        assert archive.read("a") == noise
        with pytest.raises(InvalidInputError, match="unpacks to more than"):
            archive.read("a", 100)
        with pytest.raises(InvalidInputError, match="unpacks to more than"):
            archive.read("d")
        archive.read("b")
        with pytest.raises(InvalidInputError, match=r"a\.zip unpacks to more than"):
            archive.read("c")


def test_a_header_that_lies_gives_an_error_and_not_its_bytes(tmp_path: Path) -> None:
    path = made(tmp_path / "a.zip", {"a": b"\x00" * 5_000_000})
    data = bytearray(path.read_bytes())
    for sign, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        struct.pack_into("<I", data, data.rindex(sign) + offset, 10)
    path.write_bytes(data)
    with open_archive(path, SMALL) as archive, pytest.raises(InvalidInputError, match="damaged"):
        archive.read("a")


def test_damage_in_one_member_leaves_the_others(tmp_path: Path) -> None:
    path = made(tmp_path / "a.zip", {"a": b"first" * 50, "b": b"second"}, zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"first", b"fi\x00st", 1))
    with open_archive(path, Limits()) as archive:
        assert archive.read("b") == b"second"
        with pytest.raises(InvalidInputError, match="damaged"):
            archive.read("a")


def test_a_password_is_named_as_such(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", "x")
    data = bytearray(buffer.getvalue())
    for sign, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        data[data.index(sign) + offset] |= 1
    (tmp_path / "a.zip").write_bytes(data)
    with (
        pytest.raises(ProtectedFileError, match="password"),
        open_archive(tmp_path / "a.zip", Limits()),
    ):
        pass
