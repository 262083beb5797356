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

from anyrig.errors import InvalidArchiveError, InvalidInputError, Message, StorageError
from anyrig.storage.cache import CacheEntry, ProgressCallback, ResultCache, encode_entry
from anyrig.storage.files import open_atomic
from anyrig.units import format_bytes

_FORMAT, _VERSION = "anyrig results", 1
_MANIFEST = "manifest.jsonl"
_MAX_MANIFEST_BYTES = 2 << 30
_MAX_LINE_BYTES = 1 << 20
_SQLITE_MAGIC = b"SQLite format 3\0"
# What zipfile raises over a file that is not a zip, or an invalid one; we raise the first.
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
    sha256: str

    def read(self, archive: zipfile.ZipFile) -> CacheEntry:
        data = archive.read(self.file)
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise zipfile.BadZipFile(f"{self.file} does not match its checksum")
        return self.entry._replace(data=data)


def export_results(
    cache: ResultCache,
    path: Path,
    *,
    kind: str | None = None,
    on_progress: ProgressCallback = lambda *_: None,
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
    cache: ResultCache, path: Path, *, on_progress: ProgressCallback = lambda *_: None
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
                sizes = _list_files(archive, path.stat().st_size)
                if sum(sizes.values()) > cache.limit_bytes:
                    raise InvalidInputError(
                        f"{path} contains {format_bytes(sum(sizes.values()))}, the cache is limited"
                        f" to {format_bytes(cache.limit_bytes)}",
                        hint="Raise cache.limit_gb (ANYRIG_CACHE_LIMIT_GB) and import again.",
                    )
                members = list(_read_manifest(archive, sizes))
                for number, member in enumerate(members, 1):
                    encode_entry(member.read(archive))
                    on_progress(number, 2 * len(members))
                return ImportResult(len(members), _cache_all(cache, archive, members, on_progress))
    except OSError as error:
        raise InvalidArchiveError(
            f"cannot read {path}: {error.strerror or error}",
            hint="Name a file that `anyrig cache export` wrote.",
        ) from error
    except _ZIP_ERRORS as error:
        raise InvalidArchiveError(
            f"{path} is not a valid archive: {str(error).rstrip('.') or 'it is truncated'}",
            hint="Export it again with `anyrig cache export`.",
        ) from error


def _cache_all(
    cache: ResultCache,
    archive: zipfile.ZipFile,
    members: list[_Member],
    on_progress: ProgressCallback,
) -> int:
    num_new, count = 0, len(members)
    try:
        for number, member in enumerate(members, count + 1):
            num_new += cache.put_many((member.read(archive),))
            on_progress(number, 2 * count)
    except StorageError as error:
        raise type(error)(
            Message(
                "{problem}: only {num_new:,} of {count:,} results were imported",
                problem=error.message,
                num_new=num_new,
                count=count,
            ),
            hint=Message(
                "{hint} Then import again: results that are cached stay as they are.",
                hint=error.hint,
            ),
        ) from error
    return num_new


def _list_files(archive: zipfile.ZipFile, archive_bytes: int) -> dict[str, int]:
    """Sizes by name: not compressed, none twice, together no larger than the archive."""
    sizes: dict[str, int] = {}
    for info in archive.infolist():
        name = info.filename
        is_stored = (
            info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
        )
        is_ours = name == _MANIFEST or (name.startswith("data/") and name[5:].isalnum())
        if not is_stored or not is_ours or info.flag_bits & 1 or name in sizes:
            raise zipfile.BadZipFile(f"it contains an unexpected file {name[:60]!r}")
        sizes[name] = info.file_size
    if sum(sizes.values()) > archive_bytes:
        raise zipfile.BadZipFile("its files overlap")
    if sizes.pop(_MANIFEST, _MAX_MANIFEST_BYTES) >= _MAX_MANIFEST_BYTES:
        raise zipfile.BadZipFile("it has no manifest")
    return sizes


def _read_manifest(archive: zipfile.ZipFile, sizes: dict[str, int]) -> Iterator[_Member]:
    """The results, each with one of the files; the sizes of those are removed."""
    with archive.open(_MANIFEST) as file:
        header = _parse_line(file.readline(_MAX_LINE_BYTES))
        if header.get("format") != _FORMAT:
            raise zipfile.BadZipFile("it was not written by anyrig")
        if header.get("version") != _VERSION:
            raise zipfile.BadZipFile(
                f"its format is {header.get('version')}, this anyrig reads {_VERSION}"
            )
        count = 0
        while line := file.readline(_MAX_LINE_BYTES):
            row = _parse_line(line)
            if "end" in row:
                if row["end"] != count:
                    raise zipfile.BadZipFile("lines are missing from its manifest")
                if sizes:
                    raise zipfile.BadZipFile("its manifest does not list each of its files once")
                return
            count += 1
            yield _parse_member(row, sizes)
    raise zipfile.BadZipFile("its manifest is truncated")


def _parse_line(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise zipfile.BadZipFile("its manifest is not valid")
    return row


def _parse_member(row: dict[str, Any], sizes: dict[str, int]) -> _Member:
    try:
        member = _Member(
            row["file"], CacheEntry(row["key"], b"", row["kind"], row["note"]), row["sha256"]
        )
        texts = (member.file, member.entry.key, member.entry.kind, member.sha256)
        if all(isinstance(text, str) for text in texts) and isinstance(row["note"], dict):
            encode_entry(member.entry)
            if sizes.pop(member.file) == row["size"]:
                return member
    except (KeyError, InvalidInputError) as error:
        raise zipfile.BadZipFile(f"a line of its manifest is not valid: {error}") from error
    raise zipfile.BadZipFile("a line of its manifest does not match its file")


def _to_line(row: dict[str, object]) -> bytes:
    return json.dumps(row, sort_keys=True).encode() + b"\n"
