"""Cached results in one file, to move them to another machine.

The archive is a zip without compression (audio and vectors hardly shrink): `data/00000001` and so
on, and `manifest.jsonl`: a line with the format, a line for each file with its key, kind, metadata
(`note`) and SHA-256, and a line with their number.

An import checks everything before it caches anything: an archive that is truncated, altered or
malicious is refused as a whole. Names in it are never used as paths, and its needs of memory and
disk are bounded by its own size, as nothing is compressed. What it says about a result is believed:
import what comes from people you trust.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from anyrig.errors import AnyrigError, InvalidArchiveError, InvalidInputError, StorageError
from anyrig.storage.cache import CacheEntry, ProgressCallback, ResultCache, encode_entry
from anyrig.storage.files import open_atomic
from anyrig.units import format_bytes

_FORMAT, _VERSION = "anyrig results", 1
_MANIFEST = "manifest.jsonl"
_MAX_MANIFEST_BYTES = 2 << 30
_MAX_LINE_BYTES = 1 << 20
_SQLITE_MAGIC = b"SQLite format 3\0"
# What zipfile raises over a file that is not a zip, or an invalid one.
_ZIP_ERRORS = (
    zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, UnicodeDecodeError,
    struct.error,
)  # fmt: skip


class ExportResult(NamedTuple):
    """What was written to an archive."""

    num_results: int
    data_bytes: int


class ImportResult(NamedTuple):
    """What an archive contained, and how much of it was not cached before."""

    num_results: int
    num_new: int


class _Member(NamedTuple):
    """A result in the manifest."""

    file: str
    entry: CacheEntry
    """Without its data."""
    size: int
    sha256: str


def export_results(
    cache: ResultCache,
    path: Path,
    *,
    kind: str | None = None,
    on_progress: ProgressCallback | None = None,
) -> ExportResult:
    """Write results to an archive, which is written whole or not at all."""
    num_results = data_bytes = 0
    try:
        with (
            open_atomic(path) as file,
            tempfile.TemporaryFile() as manifest,
            zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        ):
            manifest.write(_to_line({"format": _FORMAT, "version": _VERSION}))
            for entry in cache.iter_results(kind, on_progress):
                num_results += 1
                data_bytes += len(entry.data)
                name = f"data/{num_results:08d}"
                archive.writestr(zipfile.ZipInfo(name), entry.data)
                digest = hashlib.sha256(entry.data).hexdigest()
                manifest.write(_to_line({
                    "file": name, "key": entry.key, "kind": entry.kind, "note": entry.metadata,
                    "size": len(entry.data), "sha256": digest,
                }))  # fmt: skip
            manifest.write(_to_line({"end": num_results}))
            manifest.seek(0)
            with archive.open(zipfile.ZipInfo(_MANIFEST), "w", force_zip64=True) as member:
                while part := manifest.read(1 << 20):
                    member.write(part)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}",
            hint="Check the disk's space and the folder's permissions, or name another file.",
        ) from error
    return ExportResult(num_results, data_bytes)


def import_results(
    cache: ResultCache, path: Path, *, on_progress: ProgressCallback | None = None
) -> ImportResult:
    """Cache an archive's results; those that are cached already stay as they are."""
    try:
        with path.open("rb") as file:
            if file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC:
                raise InvalidArchiveError(
                    f"{path} is a cache file, not an archive",
                    hint="Import a file that `anyrig cache export` wrote. The results of a damaged"
                    " cache cannot be recovered: they are computed again when they are needed.",
                )
            with zipfile.ZipFile(file) as archive:
                return _Import(archive, path).run(cache, on_progress)
    except OSError as error:
        raise InvalidArchiveError(
            f"cannot read {path}: {error.strerror or error}",
            hint="Name a file that `anyrig cache export` wrote.",
        ) from error
    except _ZIP_ERRORS as error:
        raise _invalid(path, str(error).rstrip(".") or "it is truncated") from error


class _Import:
    """An archive that is checked, then cached."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self._archive, self._path = archive, path
        self._infos = self._list_files()
        self._members = list(self._read_manifest())
        named = {member.file for member in self._members}
        if len(named) != len(self._members) or named != set(self._infos) - {_MANIFEST}:
            raise self._invalid("its manifest does not list each of its files once")

    def run(self, cache: ResultCache, on_progress: ProgressCallback | None) -> ImportResult:
        total_bytes = sum(member.size for member in self._members)
        if total_bytes > cache.limit_bytes:
            raise InvalidInputError(
                f"{self._path} contains {format_bytes(total_bytes)}, the cache is limited to"
                f" {format_bytes(cache.limit_bytes)}",
                hint="Raise cache.limit_gb (ANYRIG_CACHE_LIMIT_GB) and import again.",
            )
        count = len(self._members)
        for number, member in enumerate(self._members, 1):
            encode_entry(self._read_entry(member))
            if on_progress:
                on_progress(number, 2 * count)
        num_new = 0
        try:
            for number, member in enumerate(self._members, count + 1):
                num_new += cache.put_many((self._read_entry(member),))
                if on_progress:
                    on_progress(number, 2 * count)
        except AnyrigError as error:  # a full disk, or the archive was changed while we read it
            hint = error.hint if isinstance(error, StorageError) else "Export it again."
            raise type(error)(
                f"{error.message}: only {num_new:,} of {count:,} results were imported",
                hint=f"{hint} Then import again: results that are cached stay as they are.",
            ) from error
        return ImportResult(count, num_new)

    def _invalid(self, reason: str) -> InvalidArchiveError:
        return _invalid(self._path, reason)

    def _list_files(self) -> dict[str, zipfile.ZipInfo]:
        """The members by name: not compressed, none twice, together no larger than the archive."""
        infos: dict[str, zipfile.ZipInfo] = {}
        for info in self._archive.infolist():
            name = info.filename
            is_stored = (
                info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
            )
            is_ours = name == _MANIFEST or (name.startswith("data/") and name[5:].isalnum())
            if not is_stored or not is_ours or info.flag_bits & 1 or name in infos:
                raise self._invalid(f"it contains an unexpected file {name[:60]!r}")
            infos[name] = info
        if sum(info.file_size for info in infos.values()) > self._path.stat().st_size:
            raise self._invalid("its files overlap")
        if _MANIFEST not in infos or infos[_MANIFEST].file_size > _MAX_MANIFEST_BYTES:
            raise self._invalid("it has no manifest")
        return infos

    def _read_manifest(self) -> Iterator[_Member]:
        with self._archive.open(_MANIFEST) as file:
            header = self._parse_line(file.readline(_MAX_LINE_BYTES))
            if header.get("format") != _FORMAT:
                raise self._invalid("it was not written by anyrig")
            if header.get("version") != _VERSION:
                raise self._invalid(
                    f"its format is {header.get('version')}, this anyrig reads {_VERSION}"
                )
            count = 0
            while line := file.readline(_MAX_LINE_BYTES):
                row = self._parse_line(line)
                if "end" in row:
                    if row["end"] != count:
                        raise self._invalid("lines are missing from its manifest")
                    return
                count += 1
                yield self._parse_member(row)
        raise self._invalid("its manifest is truncated")

    def _parse_line(self, line: bytes) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise self._invalid("its manifest is not valid")
        return row

    def _parse_member(self, row: dict[str, Any]) -> _Member:
        try:
            entry = CacheEntry(row["key"], b"", row["kind"], row["note"])
            member = _Member(row["file"], entry, row["size"], row["sha256"])
            texts = (member.file, entry.key, entry.kind, member.sha256)
            is_typed = all(isinstance(text, str) for text in texts)
            if is_typed and isinstance(entry.metadata, dict):
                encode_entry(entry)
                if self._infos[member.file].file_size == member.size:
                    return member
        except (KeyError, InvalidInputError) as error:
            raise self._invalid(f"a line of its manifest is not valid: {error}") from error
        raise self._invalid("a line of its manifest does not match its file")

    def _read_entry(self, member: _Member) -> CacheEntry:
        data = self._archive.read(member.file)
        if hashlib.sha256(data).hexdigest() != member.sha256:
            raise self._invalid(f"{member.file} does not match its checksum")
        return member.entry._replace(data=data)


def _to_line(row: dict[str, object]) -> bytes:
    return json.dumps(row, sort_keys=True).encode() + b"\n"


def _invalid(path: Path, reason: str) -> InvalidArchiveError:
    return InvalidArchiveError(
        f"{path} was not imported: {reason}",
        hint="Export it again with `anyrig cache export`. Nothing was changed.",
    )
