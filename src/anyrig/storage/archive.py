"""A store's results in one file to carry elsewhere, and back.

The archive is a zip without compression (sound and vectors hardly shrink): `data/00000001` and so
on, and `manifest.jsonl`, a line of what it is and a line for each file with its key, kind, note and
SHA-256. Any zip program can look into it.

An import looks at everything before it keeps anything: an archive that is cut off, altered or made
to do harm is refused whole. When the disk is full in the middle, the error says how many were kept.
Names in it are never used as paths, and what it would take in memory and on disk is bounded by its
own size, as nothing is compressed. What it says of a result is believed: import what comes from
people you trust.

A database that was set aside as malformed can be imported too; there what is whole is taken.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from anyrig.errors import AnyrigError, InvalidArchiveError, InvalidInputError, StorageError
from anyrig.storage import atomic, rows, salvage
from anyrig.storage.database import SET_ASIDE
from anyrig.storage.protocol import Entry, Tell
from anyrig.storage.results import Store
from anyrig.storage.schema import SCHEMA
from anyrig.units import format_bytes

_FORMAT, _VERSION = "anyrig results", 1
_MANIFEST = "manifest.jsonl"
_MANIFEST_MOST = 2 << 30
_LINE_MOST = 1 << 20
_ZIP = b"PK"
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
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}",
            hint="Look at the disk's space and the folder's permissions, or name another file.",
        ) from error
    return Exported(count, total)


def import_(store: Store, path: Path, *, tell: Tell | None = None) -> Imported:
    """Keep an archive's results, or what is whole in a damaged store; those here already stay."""
    try:
        with path.open("rb") as file:
            if _is_store(path, file.read(len(salvage.MAGIC))):
                return _salvage(store, path, tell)
            with zipfile.ZipFile(file) as archive:
                return _import(store, archive, path, tell)
    except OSError as error:
        raise InvalidArchiveError(
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
        raise InvalidInputError(
            f"{path} holds {format_bytes(total)}, the store's limit is"
            f" {format_bytes(store.limit_bytes)}",
            hint="Raise cache.limit_gb (ANYRIG_CACHE_LIMIT_GB) and import again.",
        )
    steps = 2 * len(lines)
    for number, line in enumerate(lines, 1):
        rows.written(line.entry._replace(data=_data(archive, line, path)))
        if tell:
            tell(number, steps)
    entries = (line.entry._replace(data=_data(archive, line, path)) for line in lines)
    return Imported(len(lines), _keep(store, entries, len(lines), tell, before=len(lines)))


def _is_store(path: Path, start: bytes) -> bool:
    """Whether a file is, or was, a database: by its beginning, its name, or the rows in it."""
    if start == salvage.MAGIC:
        return True
    if start.startswith(_ZIP):
        return False
    if SET_ASIDE in path.name:
        return True
    with salvage.Damaged(path) as damaged:
        return damaged.look() > 0


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
    except (KeyError, InvalidInputError) as error:
        raise _refused(path, f"a line of its manifest is wrong: {error}") from error
    raise _refused(path, "a line of its manifest does not fit its file")


def _data(archive: zipfile.ZipFile, line: _Line, path: Path) -> bytes:
    data = archive.read(line.file)
    if hashlib.sha256(data).hexdigest() != line.sha256:
        raise _refused(path, f"{line.file} is not what was exported")
    return data


def _salvage(store: Store, path: Path, tell: Tell | None) -> Imported:
    """Keep what is whole in a database that was set aside."""
    if path.resolve() == store.path.resolve():
        raise InvalidArchiveError(f"{path} is the store itself", hint="Name another file.")
    with salvage.Damaged(path) as damaged:
        if damaged.version > SCHEMA:
            raise InvalidArchiveError(
                f"{path} was written by a newer anyrig (form {damaged.version}, known is {SCHEMA})",
                hint="Update anyrig; nothing was changed here.",
            )
        count = damaged.look()
        if not count:
            raise _nothing_in(path)
        bad = 0

        def whole() -> Iterator[Entry | None]:
            nonlocal bad
            for result in damaged.results():
                bad += result is None
                yield Entry(result.key, result.data, result.kind, result.note) if result else None

        new = _keep(store, whole(), count, tell)
    return Imported(count, new, bad)


def _keep(
    store: Store, entries: Iterable[Entry | None], count: int, tell: Tell | None, before: int = 0
) -> int:
    """Put one after the other, with so many steps done before; how many are new.

    When the disk is full in the middle, what was put stays, and the error says how many.
    """
    new = 0
    try:
        for number, entry in enumerate(entries, before + 1):
            if entry is not None:
                new += store.put(entry.key, entry.data, kind=entry.kind, note=entry.note)
            if tell:
                tell(number, before + count)
    except AnyrigError as error:
        # An archive that was changed while we read it says that nothing was changed here.
        hint = f"{error.hint} " if isinstance(error, StorageError) else "Export it again. "
        raise type(error)(
            f"{error.message}: {new:,} of {count:,} were imported, the rest was not",
            hint=f"{hint}Then import again: what is here already stays as it is.",
        ) from error
    return new


def _nothing_in(path: Path) -> InvalidArchiveError:
    return InvalidArchiveError(
        f"{path} is a damaged store of which nothing could be read",
        hint="Delete it: the results can be made again. Nothing was changed here.",
    )


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


def _refused(path: Path, why: str) -> InvalidArchiveError:
    return InvalidArchiveError(
        f"{path} was not imported: {why}",
        hint="Export it again with `anyrig cache export`; nothing was changed here.",
    )
