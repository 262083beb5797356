"""A store's results in one file to carry elsewhere, and back.

The archive is a zip without compression (sound and vectors hardly shrink): `data/00000001` and so
on, and `manifest.jsonl`, a line of what it is and a line for each file with its key, kind, note and
SHA-256. Any zip program can look into it.

An import looks at everything first and takes all or nothing: an archive that is cut off, altered or
made to do harm is refused whole. Names in it are never used as paths, and what it would take
in memory and on disk is bounded by its own size, as nothing is compressed. What it says of a
result is believed: import what comes from people you trust.

A database that was set aside as malformed can be imported too; there what is whole is taken.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from anyrig.errors import BadArchive, BadInput, StoreFailed
from anyrig.store import atomic, rows
from anyrig.store.protocol import Entry, Tell
from anyrig.store.results import Store
from anyrig.store.schema import open_to_read
from anyrig.units import bytes_text

_FORMAT, _VERSION = "anyrig results", 1
_MANIFEST = "manifest.jsonl"
_MANIFEST_MOST = 2 << 30
_LINE_MOST = 1 << 20
_SQLITE = b"SQLite format 3\0"
# What zipfile raises over a file that is no zip, or a wrong one.
_UNREADABLE = (
    zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, UnicodeDecodeError,
    struct.error,
)  # fmt: skip


class Exported(NamedTuple):
    """What went into an archive."""

    num_results: int
    data_bytes: int


class Imported(NamedTuple):
    """What came out of an archive."""

    num_results: int
    """In the archive."""
    num_new: int
    """Kept; of the others a result was kept before."""
    num_bad: int = 0
    """Not whole, in a database that was set aside."""


class _Line(NamedTuple):
    """A result in the manifest."""

    file: str
    entry: Entry
    """Without its data."""
    size: int
    sha256: str


def export(
    store: Store, path: Path, *, kind: str | None = None, tell: Tell | None = None
) -> Exported:
    """Write results to an archive, which is there whole or not at all."""
    count = total = 0
    try:
        with (
            atomic.replacing(path) as file,
            tempfile.TemporaryFile() as manifest,
            zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        ):
            manifest.write(_line({"format": _FORMAT, "version": _VERSION}))
            for result in store.each(kind, tell):
                count += 1
                total += len(result.data)
                name = f"data/{count:08d}"
                archive.writestr(zipfile.ZipInfo(name), result.data)
                about = {"key": result.key, "kind": result.kind, "note": result.note}
                digest = hashlib.sha256(result.data).hexdigest()
                size = {"size": len(result.data), "sha256": digest}
                manifest.write(_line({"file": name, **about, **size}))
            manifest.write(_line({"end": count}))
            _append(archive, manifest)
    except OSError as error:
        raise StoreFailed(
            f"cannot write {path}: {error.strerror or error}",
            hint="Look at the disk's space and the folder's permissions, or name another file.",
        ) from error
    return Exported(count, total)


def import_(store: Store, path: Path, *, tell: Tell | None = None) -> Imported:
    """Keep an archive's results, all or none; those kept already stay as they are."""
    try:
        with path.open("rb") as file:
            if file.read(len(_SQLITE)) == _SQLITE:
                return _salvage(store, path, tell)
            with zipfile.ZipFile(file) as archive:
                return _import(store, archive, path, tell)
    except OSError as error:
        raise BadArchive(
            f"cannot read {path}: {error.strerror or error}",
            hint="Name a file that `anyrig cache export` wrote.",
        ) from error
    except _UNREADABLE as error:
        raise _refused(path, str(error).rstrip(".") or "it is cut off") from error


def _import(store: Store, archive: zipfile.ZipFile, path: Path, tell: Tell | None) -> Imported:
    infos = _files(archive, path)
    lines = list(_manifest(archive, infos, path))
    named = {line.file for line in lines}
    if len(named) != len(lines) or named != set(infos) - {_MANIFEST}:
        raise _refused(path, "its manifest does not name its files one by one")
    total = sum(line.size for line in lines)
    if total > store.limit_bytes:
        raise BadInput(
            f"{path} holds {bytes_text(total)}, the store's limit is"
            f" {bytes_text(store.limit_bytes)}",
            hint="Raise cache.limit_gb (ANYRIG_CACHE_LIMIT_GB) and import again.",
        )
    steps = 2 * len(lines)
    for number, line in enumerate(lines, 1):
        rows.written(line.entry._replace(data=_data(archive, line, path)))
        if tell:
            tell(number, steps)
    new = 0
    for number, line in enumerate(lines, len(lines) + 1):
        entry = line.entry._replace(data=_data(archive, line, path))
        new += store.put(entry.key, entry.data, kind=entry.kind, note=entry.note)
        if tell:
            tell(number, steps)
    return Imported(len(lines), new)


def _files(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The members by name: plain, none twice, together no larger than the file they are in."""
    infos: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        plain = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
        ours = info.filename == _MANIFEST or (
            info.filename.startswith("data/") and info.filename[5:].isalnum()
        )
        if not plain or not ours or info.flag_bits & 1 or info.filename in infos:
            raise _refused(path, f"{info.filename[:60]!r} has no place in it")
        infos[info.filename] = info
    if sum(info.file_size for info in infos.values()) > path.stat().st_size:
        raise _refused(path, "its files overlap")
    if _MANIFEST not in infos or infos[_MANIFEST].file_size > _MANIFEST_MOST:
        raise _refused(path, "it has no manifest")
    return infos


def _manifest(
    archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo], path: Path
) -> Iterator[_Line]:
    with archive.open(_MANIFEST) as file:
        head = _object(file.readline(_LINE_MOST), path)
        if head.get("format") != _FORMAT:
            raise _refused(path, "it holds no results of anyrig")
        if head.get("version") != _VERSION:
            raise _refused(path, f"it is of form {head.get('version')}, known is {_VERSION}")
        count = 0
        while text := file.readline(_LINE_MOST):
            row = _object(text, path)
            if "end" in row:
                if row["end"] != count:
                    raise _refused(path, "lines of its manifest are missing")
                return
            count += 1
            yield _checked(row, infos, path)
    raise _refused(path, "its manifest is cut off")


def _checked(row: dict[str, Any], infos: dict[str, zipfile.ZipInfo], path: Path) -> _Line:
    try:
        line = _Line(row["file"], Entry(row["key"], b"", row["kind"], row["note"]),
                     row["size"], row["sha256"])  # fmt: skip
        texts = (line.file, line.entry.key, line.entry.kind, line.sha256)
        right = all(isinstance(text, str) for text in texts) and isinstance(line.entry.note, dict)
        if right and infos[line.file].file_size == line.size:
            rows.written(line.entry)
            return line
    except (KeyError, BadInput) as error:
        raise _refused(path, f"a line of its manifest is wrong: {error}") from error
    raise _refused(path, "a line of its manifest does not fit its file")


def _data(archive: zipfile.ZipFile, line: _Line, path: Path) -> bytes:
    data = archive.read(line.file)
    if hashlib.sha256(data).hexdigest() != line.sha256:
        raise _refused(path, f"{line.file} is not what was exported")
    return data


def _salvage(store: Store, path: Path, tell: Tell | None) -> Imported:
    """What is whole in a database that was set aside."""
    if path.resolve() == store.path.resolve():
        raise BadArchive(f"{path} is the store itself", hint="Name another file.")
    connection = open_to_read(path)
    looked = new = bad = 0
    try:
        numbers = _numbers(connection)
        for done, number in enumerate(numbers, 1):
            try:
                row = rows.by_number(connection, number)
                result = row.result if row else None
            except (sqlite3.DatabaseError, ValueError):
                result = None
            looked += 1
            if result is None:
                bad += 1
            else:
                new += store.put(result.key, result.data, kind=result.kind, note=result.note)
            if tell:
                tell(done, len(numbers))
    finally:
        connection.close()
    return Imported(looked, new, bad)


def _numbers(connection: sqlite3.Connection) -> list[int]:
    """The numbers of the rows, as many as can be read of them."""
    found: list[int] = []
    try:
        # Not over an index: it may be what is damaged.
        found.extend(n for (n,) in connection.execute("SELECT id FROM results NOT INDEXED"))
    except sqlite3.DatabaseError as error:
        if not found:
            raise BadArchive(
                f"nothing can be read of it: {error}", hint="Delete it; the results can be remade."
            ) from error
    return found


def _append(archive: zipfile.ZipFile, manifest: IO[bytes]) -> None:
    manifest.seek(0)
    with archive.open(zipfile.ZipInfo(_MANIFEST), "w", force_zip64=True) as member:
        while part := manifest.read(1 << 20):
            member.write(part)


def _line(row: dict[str, object]) -> bytes:
    return json.dumps(row, sort_keys=True).encode() + b"\n"


def _object(text: bytes, path: Path) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise _refused(path, "its manifest cannot be read")
    return row


def _refused(path: Path, why: str) -> BadArchive:
    return BadArchive(
        f"{path} was not imported: {why}",
        hint="Export it again with `anyrig cache export`; nothing was changed here.",
    )
