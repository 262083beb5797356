"""The one opener of zip archives that others made: every member is read into memory, none to disk.

    with open_archive(path, limits) as archive:
        archive.read("META-INF/container.xml")

Refused with one `InvalidInputError`: what is no archive or cut short, too many members, members
that lie over one another (how a small file claims to hold petabytes), names that lead out of a
folder or are absurdly long, symbolic links, two different members of one name, methods other than
stored and deflated, and more bytes than `Limits` allow, whatever the headers say of them.
"""

from __future__ import annotations

import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.formats.limits import Limits

_LABELS = {".epub": "EPUB", ".docx": "DOCX", ".odt": "ODT"}
_AGAIN = "Get another copy of the file: this one is damaged, or malicious."
_HEADER_BYTES = 30  # of a member, before its name
_ENTRY_BYTES = 46  # of the directory, before a name
_LONGEST_NAME = 300  # in the directory, on average: what bounds the directory's size
_LONGEST_PATH = 4096  # of one name: to compose accents takes the square of their number


class ZipArchive:
    """An archive that has passed every check that its directory allows."""

    def __init__(self, archive: zipfile.ZipFile, name: str, limits: Limits) -> None:
        self._archive = archive
        self._limits = limits
        self._left = limits.total_bytes
        self.name = name
        """Of the file, for errors."""
        self._members = _check_members(archive, name, limits)
        self._folded = {
            _fold_name(spelt): name
            for name, member in reversed(self._members.items())
            for spelt in _spellings(name, member)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Of all members that are no folders, as the archive lists them, with `/` between."""
        return tuple(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def find(self, name: str) -> str | None:
        """The member that is meant, also by another case, by percent signs or by backslashes."""
        if name in self._members:
            return name
        return self._folded.get(_fold_name(name))

    def size(self, name: str) -> int:
        """The bytes that a member says it has."""
        return self._members[name].file_size

    def read(self, name: str, most: int | None = None) -> bytes:
        """A member's bytes; `InvalidInputError` if it is not there, is damaged or too large.

        Args:
            name: as in `names`.
            most: of its bytes; `Limits.member_bytes` by default.
        """
        member = self._members.get(name)
        if member is None:
            raise InvalidInputError(f"{self.name} has no {_short(name)} in it", hint=_AGAIN)
        most = min(most or self._limits.member_bytes, self._limits.member_bytes)
        if member.file_size > most:
            raise _too_large(self.name, name, most)
        if member.file_size > self._left:
            raise _too_large(self.name, "", self._limits.total_bytes)
        data = self._unpack(member)
        self._left -= len(data)
        return data

    def _unpack(self, member: zipfile.ZipInfo) -> bytes:
        try:
            # Asked for by number, as a read of all would unpack all before it looks at the header:
            # a longer stream ends as a wrong checksum.
            with self._archive.open(member) as file:
                return file.read(member.file_size)
        except (
            zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError,
            struct.error, ValueError,
        ) as error:  # fmt: skip
            raise InvalidInputError(
                f"{_short(member.filename)} in {self.name} is damaged ({error})", hint=_AGAIN
            ) from error


@contextmanager
def open_archive(path: Path, limits: Limits) -> Iterator[ZipArchive]:
    """An archive, checked, for as long as it is read."""
    _count_first(path, limits)
    try:
        archive = zipfile.ZipFile(path)
    except (
        zipfile.BadZipFile, zipfile.LargeZipFile, OSError, struct.error, ValueError,
        NotImplementedError, UnicodeError, OverflowError,
    ) as error:  # fmt: skip
        raise InvalidInputError(
            f"{path.name} is not a valid zip archive ({error})", hint=_AGAIN
        ) from error
    with archive:
        yield ZipArchive(archive, path.name, limits)


def _count_first(path: Path, limits: Limits) -> None:
    """Refuse a huge directory before it is read: that alone would take minutes."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 66_000))
        tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        label = _LABELS.get(path.suffix.lower())
        valid = f"is not a valid {label} (damaged?): it is " if label else "is "
        raise InvalidInputError(
            f"{path.name} {valid}not a complete zip archive: its end is missing", hint=_AGAIN
        )
    num_members, directory_bytes = struct.unpack("<HI", tail[at + 10 : at + 16])
    large = tail.rfind(b"PK\x06\x06", 0, at)
    if large >= 0 and len(tail) >= large + 48:
        more, more_bytes = struct.unpack("<QQ", tail[large + 32 : large + 48])
        num_members, directory_bytes = (
            max(num_members, more),
            max(directory_bytes if directory_bytes != 0xFFFFFFFF else 0, more_bytes),
        )
    most_bytes = limits.members * (_ENTRY_BYTES + _LONGEST_NAME)
    if num_members > limits.members or directory_bytes > most_bytes:
        raise _too_many(path.name, limits)


def _check_members(
    archive: zipfile.ZipFile, name: str, limits: Limits
) -> dict[str, zipfile.ZipInfo]:
    members = archive.infolist()
    if len(members) > limits.members:
        raise _too_many(name, limits)
    _refuse_overlaps(members, name)
    kept: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        clean = _clean(member.filename, name)
        if clean.endswith("/") or not clean:
            continue
        _refuse_odd(member, name, limits)
        before = kept.get(clean)
        if before and (before.CRC, before.file_size) != (member.CRC, member.file_size):
            raise InvalidInputError(
                f"{name} has two different members {_short(clean)}", hint=_AGAIN
            )
        kept[clean] = member
    return kept


def _refuse_overlaps(members: list[zipfile.ZipInfo], name: str) -> None:
    end = -1
    for member in sorted(members, key=lambda each: each.header_offset):
        if member.header_offset < max(end, 0):
            raise InvalidInputError(f"the members of {name} overlap, as in a zip bomb", hint=_AGAIN)
        end = member.header_offset + _HEADER_BYTES + member.compress_size


def _refuse_odd(member: zipfile.ZipInfo, name: str, limits: Limits) -> None:
    """What no honest book has; encryption by password is said for what it is."""
    short = _short(member.filename)
    if stat.S_ISLNK(member.external_attr >> 16):
        raise InvalidInputError(f"{short} in {name} is a link to another file", hint=_AGAIN)
    if member.flag_bits & 0x1:
        raise ProtectedFileError(
            f"{name} is encrypted with a password", hint="Unpack it and pack it again without one."
        )
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidInputError(
            f"{short} in {name} is packed in a way that books do not use",
            hint="Unpack it and zip it again.",
        )
    packed = max(member.compress_size, 1)
    if member.file_size > limits.ratio_from_bytes and member.file_size / packed > limits.ratio:
        raise InvalidInputError(
            f"{short} in {name} unpacks to {member.file_size // packed} times its size, "
            "as in a zip bomb",
            hint=_AGAIN,
        )


def _clean(member: str, name: str) -> str:
    if len(member) > _LONGEST_PATH:
        raise InvalidInputError(f"{name} has a member with an absurdly long name", hint=_AGAIN)
    clean = re.sub(r"^(?:\./)+", "", member.replace("\\", "/"))
    parts = clean.split("/")
    if clean.startswith("/") or ".." in parts or ":" in parts[0][:2]:
        raise InvalidInputError(
            f"{name} has a member with a path outside of it: {_short(member)}", hint=_AGAIN
        )
    return clean


def _spellings(name: str, member: zipfile.ZipInfo) -> list[str]:
    """A name as it stands, and as it is if it was UTF-8 that no flag said so of."""
    if name.isascii() or member.flag_bits & 0x800:
        return [name]
    try:
        return [name.encode("cp437").decode("utf-8"), name]
    except UnicodeError:
        return [name]


def _fold_name(name: str) -> str:
    # Macs write accents apart from their letters.
    plain = unquote(name).replace("\\", "/")
    return unicodedata.normalize("NFC", plain).casefold()


def _short(name: str) -> str:
    return repr(name if len(name) < 80 else f"{name[:77]}...")


def _too_large(archive: str, member: str, most: int) -> InvalidInputError:
    what = f"{_short(member)} in {archive}" if member else archive
    return InvalidInputError(
        f"{what} unpacks to more than {most // 1_000_000} MB",
        hint="No book is that large; get another copy of the file.",
    )


def _too_many(name: str, limits: Limits) -> InvalidInputError:
    return InvalidInputError(
        f"{name} lists more than {limits.members:,} members",
        hint="No book has that many; get another copy of the file.",
    )
