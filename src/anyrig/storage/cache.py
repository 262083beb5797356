"""Results cached by key in one SQLite file, shared by every process of a user.

The first result of a key is final: `put` never replaces, `replace` does. Over its limit the cache
drops the least recently used results, down to nine tenths of it, but never what an unfinished job
needs (`pin_for_job`): then it exceeds the limit, with a warning. Each result carries a SHA-256 over
its key, kind, metadata and data, checked whenever it is read: one that does not match is dropped
with a warning and counts as missing. A large one that this process wrote or checked before is
compared by its CRC-32 instead, which costs a ninth of the SHA-256 and finds damage as well.

Data is stored inside the database, not in files beside it. Measured on a two-core machine with a
virtual disk, puts and gets per second with checksum, in brackets file by file with rename and
without flush: 4 KB 11,000 and 44,000 (22,000 and 60,000; 4,400 puts when flushed); 300 KB 700 and
2,500 (1,060 and 3,300); 30 MB 5 and 20 (17 and 27). Files are faster where it does not matter, as
the engine that computes a result takes far longer. One file is better where it does: a result and
its metadata are one transaction, so a killed process leaves no half of it and nothing to clean up,
and 100,000 embeddings are not 100,000 files.

Threads share one connection, one at a time; checksums are computed outside of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import re
import sqlite3
import time
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from anyrig.errors import DiskFullError, InvalidInputError, StorageError
from anyrig.storage.keys import JsonValue, to_canonical_json
from anyrig.storage.sqlite import MAX_VARIABLES, DatabaseFormat, SqliteFile
from anyrig.units import GIB, format_bytes

T = TypeVar("T")

log = logging.getLogger(__name__)
ProgressCallback = Callable[[int, int], None]
"""Called with how many are done, and how many there are."""
_MAX_RESULT_BYTES = 512 << 20  # SQLite itself ends at 1 GB
_KEY = re.compile(r"[!-~]{1,200}")
_KIND = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_PAGE_BYTES = 4096
_LOG_BYTES = 16 << 20  # the write-ahead log is folded into the file at this size
_EVICT_TO = 0.9
_EVICTION_RETRY_S = 30.0
# One transaction deletes this much at most, so that other processes get their turn in between.
_STEP_RESULTS, _STEP_BYTES = 1000, 64 << 20
_ROW_OVERHEAD_BYTES = 400  # its key twice, digest, metadata, and the pages' own needs
_VACUUM_PAGES = 2000  # returned to the disk in one transaction: 8 MB, some 20 ms
_MIN_CRC_BYTES, _MAX_CRCS = 16 << 10, 20_000  # of a book of 400,000 words
_MAX_SHORT_METADATA = 200
_USAGE_BATCH, _USAGE_FLUSH_S = 512, 10.0
# A use is written down where the last one is older: noting each took a third of reading a vector.
_USAGE_PRECISION_S = 3600.0
_PIN_EXPIRY_S = 3 * 86400.0
_ENTRY = "key, kind, note, digest, coalesce(bytes, x'') FROM results LEFT JOIN data USING (id)"
_ENTRY_AND_USE = _ENTRY.replace(" FROM", ", used FROM", 1)
_WORKER = "CASE WHEN json_valid(note) THEN json_extract(note, '$.from') END"
_SOURCE = "CASE WHEN json_valid(note) THEN json_extract(note, '$.source') END"
_IS_PINNED = "EXISTS (SELECT 1 FROM held WHERE result = results.id)"
# Data is in a table of its own, so that looking for the oldest results does not read every page of
# audio. The trigger keeps the tables in step whatever deletes a row.
_FORMAT = DatabaseFormat(
    application_id=0x616E7972,  # "anyr"
    version=1,
    schema=(
        """CREATE TABLE results (
        id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, engine TEXT NOT NULL,
        size INTEGER NOT NULL, made REAL NOT NULL, used REAL NOT NULL, digest BLOB NOT NULL,
        note TEXT NOT NULL)""",
        "CREATE INDEX results_by_use ON results (used, id)",
        "CREATE TABLE data (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)",
        "CREATE TABLE jobs (job TEXT PRIMARY KEY, seen REAL NOT NULL) WITHOUT ROWID",
        "CREATE TABLE held (result INTEGER, job TEXT, PRIMARY KEY (result, job)) WITHOUT ROWID",
        "CREATE INDEX held_by_job ON held (job)",
        "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
        """CREATE TRIGGER dropped AFTER DELETE ON results BEGIN
            DELETE FROM data WHERE id = old.id;
            DELETE FROM held WHERE result = old.id;
        END""",
    ),
    new_file_pragmas=(f"page_size = {_PAGE_BYTES}", "auto_vacuum = INCREMENTAL"),
    pragmas=(
        f"wal_autocheckpoint = {_LOG_BYTES // _PAGE_BYTES}",
        f"journal_size_limit = {_LOG_BYTES}",
        "secure_delete = OFF",  # for what the limit evicts it would cost as much as writing
    ),
    disposable=True,
    damage_hint="Cached results are computed again when they are needed.",
    space_hint="Cached results can still be read; `anyrig cache prune --all` deletes them.",
    move_hint=", or set cache.folder (ANYRIG_CACHE_FOLDER) to another folder",
)


class CacheEntry(NamedTuple):
    """A result and its key."""

    key: str
    data: bytes
    kind: str
    metadata: Mapping[str, JsonValue] = {}
    """`engine` can be pruned by; `from` is the worker of a cluster that computed the result."""


class Claim(NamedTuple):
    """Results that one caller has announced to compute.

    A claim saves work and promises nothing: it expires when its holder dies, and whoever does not
    want to wait computes the result himself.
    """

    token: str
    """Unique, so that an expired claim takes nothing from the next; "" if nobody else can claim."""
    keys: frozenset[str]


class KindStats(NamedTuple):
    """What is cached of one kind."""

    kind: str
    num_results: int
    data_bytes: int
    last_used: float


@dataclass(frozen=True)
class CacheStats:
    """What a cache contains."""

    num_results: int
    used_bytes: int
    """Pages in use, which the limit is for: the data and everything beside it."""
    file_bytes: int
    """Size on disk, free pages and journal included."""
    limit_bytes: int
    kinds: tuple[KindStats, ...] = ()
    engines: tuple[str, ...] = ()
    num_pinned: int = 0
    """Results that unfinished jobs need, which are never evicted."""
    jobs: tuple[str, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    """`hits` and `misses` of get, `evicted` by the limit, `bad` by their checksum."""


class PruneResult(NamedTuple):
    """What was deleted, or would be."""

    num_results: int
    data_bytes: int
    num_pinned: int = 0
    """Not deleted, because unfinished jobs need them."""


class VerifyResult(NamedTuple):
    """How many results were checked, and how many of them were damaged and deleted."""

    num_results: int
    num_bad: int


class Cache(ABC):
    """What engines need of a cache, on this machine or shared. Use it as a context manager."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...

    def get(self, key: str) -> CacheEntry | None:
        """An entry; None where there is none, or only a damaged one."""
        return self.get_many((key,)).get(key)

    @abstractmethod
    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        """Those of the entries that are cached, by key; all of them in memory at once."""

    @abstractmethod
    def has(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys that are cached. `get` may still find an entry damaged."""

    def put(
        self, key: str, data: bytes, *, kind: str, metadata: Mapping[str, JsonValue] = {}
    ) -> bool:
        """Cache a result unless the key has one; whether it was cached."""
        return self.put_many((CacheEntry(key, data, kind, metadata),)) == 1

    @abstractmethod
    def put_many(self, entries: Iterable[CacheEntry]) -> int:
        """`put` several at once; how many were cached."""

    @abstractmethod
    def replace(
        self, key: str, data: bytes, *, kind: str, metadata: Mapping[str, JsonValue] = {}
    ) -> None:
        """Cache a result in the place of the one that the key has."""

    @abstractmethod
    def delete(self, key: str) -> bool:
        """Delete a result; whether there was one."""

    def delete_from_worker(self, worker: str) -> PruneResult:
        """Delete what a worker of a cluster computed, where that is known."""
        return PruneResult(0, 0)

    def delete_from_source(self, source: str) -> int:
        """Delete what was made of a source, which is in the metadata; how many results."""
        return 0

    def pin_for_job(self, job: str) -> AbstractContextManager[None]:
        """A block in which nothing is evicted that is read or written, where that can be prevented.

        `job` is a name under which the job can be resumed.
        """
        return contextlib.nullcontext()

    def claim(self, keys: Iterable[str], *, expires_s: float) -> Claim:
        """Those of the keys that no other machine has claimed."""
        return Claim("", frozenset(keys))

    def release(self, claim: Claim) -> None:  # noqa: B027 - a cache of one machine has nothing to do
        """Give up what of a claim has not expired."""


class EncodedEntry(NamedTuple):
    """An entry as it is stored."""

    key: str
    kind: str
    metadata: str
    digest: bytes
    data: bytes
    engine: str = ""

    @property
    def crc(self) -> int:
        """Over everything, as the digest is."""
        return zlib.crc32(self.data, zlib.crc32(_head(self.key, self.kind, self.metadata)))

    def decode(self, *, is_checked: bool = False) -> CacheEntry | None:
        """The entry; None where the checksum does not match, or the metadata is not an object."""
        key, kind, text, digest, data, _ = self
        if not is_checked and digest != _digest(key, kind, text, data):
            return None
        metadata = _decode_metadata(text)
        return None if metadata is None else CacheEntry(key, data, kind, metadata)


def check_entry(entry: CacheEntry) -> CacheEntry:
    """The entry, if key, kind and data can be cached; `InvalidInputError` else."""
    key, data, kind, _ = entry
    if not _KEY.fullmatch(key):
        raise InvalidInputError(
            f"{key[:80]!r} is not a valid cache key",
            hint="Make one with `anyrig.storage.keys.make_key`.",
        )
    if not _KIND.fullmatch(kind):
        raise InvalidInputError(
            f"{kind[:80]!r} is not a valid kind of result",
            hint="Use a lowercase word, such as `speech`.",
        )
    # Not left to bytes(): that makes zeroes of a number and fails on text without our hint.
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidInputError(
            f"data is {type(data).__name__}, not bytes",
            hint="Encode text with `.encode()`, an array with `.tobytes()`.",
        )
    if (num_bytes := memoryview(data).nbytes) > _MAX_RESULT_BYTES:
        raise InvalidInputError(
            f"a result of {num_bytes >> 20} MiB is too large for the cache",
            hint=f"Split it into parts of at most {_MAX_RESULT_BYTES >> 20} MiB.",
        )
    return entry


def encode_entry(entry: CacheEntry) -> EncodedEntry:
    """Validate an entry and compute its checksum."""
    return _encode(entry, *_encode_metadata(entry.metadata))


def _encode_entries(entries: Iterable[CacheEntry]) -> Iterator[EncodedEntry]:
    """Metadata that several share, as the vectors of a model do, is encoded once."""
    last: Mapping[str, JsonValue] | None = None
    encoded = ("", "")
    for entry in entries:
        if entry.metadata is not last:
            last, encoded = entry.metadata, _encode_metadata(entry.metadata)
        yield _encode(entry, *encoded)


def _encode(entry: CacheEntry, metadata: str, engine: str) -> EncodedEntry:
    key, data, kind, _ = check_entry(entry)
    data = bytes(data)
    return EncodedEntry(key, kind, metadata, _digest(key, kind, metadata, data), data, engine)


def _encode_metadata(metadata: Mapping[str, JsonValue]) -> tuple[str, str]:
    """As text, and the engine in it."""
    # Escaped, as SQLite's text cannot hold a lone surrogate.
    text = json.dumps(json.loads(to_canonical_json(metadata)))
    return text, str(metadata.get("engine", "")).encode("utf-8", "replace").decode()


def _decode_metadata(text: str) -> dict[str, JsonValue] | None:
    """None if it is not an object."""
    if len(text) > _MAX_SHORT_METADATA or "[" in text or text.count("{") > 1:
        return _load_object(text)
    found = _load_flat_object(text)
    return None if found is None else dict(found)


def _load_object(text: str) -> dict[str, JsonValue] | None:
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return metadata if isinstance(metadata, dict) else None


_load_flat_object = lru_cache(maxsize=256)(_load_object)


def _digest(key: str, kind: str, metadata: str, data: bytes) -> bytes:
    """Over everything, to detect a row that points at the data of another as well."""
    head = _head(key, kind, metadata)
    if len(data) < _MIN_CRC_BYTES:
        return hashlib.sha256(head + data).digest()
    digest = hashlib.sha256(head)
    digest.update(data)
    return digest.digest()


def _head(key: str, kind: str, metadata: str) -> bytes:
    return f"{key}\n{kind}\n{metadata}\n".encode("utf-8", "replace")


class _Selection(NamedTuple):
    """Some of the results: conditions of SQL, each with the value of its placeholder."""

    part: Mapping[str, object] = {}
    """Kind and engine. A size to get down to is that of this part, without them of the file."""
    further: Mapping[str, object] = {}
    include_pinned: bool = False

    def where(self) -> tuple[str, list[object]]:
        """Of those that are pinned as well."""
        terms = {**self.part, **self.further}
        return " AND ".join(terms) or "1", list(terms.values())

    def select_oldest(
        self, connection: sqlite3.Connection, to_bytes: int, *, one_step: bool
    ) -> list[tuple[int, int]]:
        """Id and size of the results to delete, the least recently used first."""
        excess = self._get_excess_bytes(connection, to_bytes)
        where, values = self.where()
        if not self.include_pinned:
            where += f" AND NOT {_IS_PINNED}"
        found: list[tuple[int, int]] = []
        freed = 0
        # Left early: the rows are sorted by an index, so only those that are taken are read.
        query = f"SELECT id, size FROM results WHERE {where} ORDER BY used, id"
        with contextlib.closing(connection.execute(query, values)) as cursor:
            for id, size in cursor:
                is_step = len(found) >= _STEP_RESULTS or freed >= _STEP_BYTES
                if freed >= excess or (one_step and is_step):
                    break
                found.append((id, size))
                freed += size + (0 if self.part else _ROW_OVERHEAD_BYTES)
        return found

    def _get_excess_bytes(self, connection: sqlite3.Connection, to_bytes: int) -> int:
        if to_bytes <= 0:
            return 1 << 62
        if not self.part:
            return _get_used_bytes(connection) - to_bytes
        where, values = _Selection(self.part).where()
        query = f"SELECT total(size) FROM results WHERE {where}"
        return int(connection.execute(query, values).fetchone()[0]) - to_bytes


class ResultCache(Cache):
    """A cache in a file.

    Pins are rows of the file, so that every process respects them, and a killed job keeps its
    results until it is resumed or its pins expire.

    Args:
        path: the database file; its folder is created.
        limit_bytes: how large the cache may get; exceeded only for what unfinished jobs need.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        limit_bytes: int = 10 * GIB,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise StorageError(
                f"{self.path} is a folder, not a cache file",
                hint=f"Name a file in it: {self.path / 'results.sqlite'}",
            )
        if not limit_bytes >= 1:
            raise InvalidInputError(
                f"limit_bytes is {limit_bytes}, it must be at least 1",
                hint="Specify the limit in bytes: 10 * 2**30 for 10 GiB.",
            )
        self.limit_bytes = limit_bytes
        self.file = SqliteFile(self.path, _FORMAT)
        self._clock = clock
        self._jobs: list[str] = []
        self._has_remnants = False
        """Whether something was deleted since the last `scrub`."""
        self._pinned: set[str] = set()
        """Keys that are known to be pinned for all of the jobs: reading them is no write."""
        self._crcs: dict[bytes, int] = {}
        """By digest, of large results that this process wrote or checked."""
        # Written in batches, as a read must not cost a write. Lost with the process: a result then
        # looks a little older than it is, and nothing else happens.
        self._used: dict[str, float] = {}
        self._counts: Counter[str] = Counter()
        self._usage_flushed = time.monotonic()
        self._eviction_failed = float("-inf")

    def close(self) -> None:
        if not self.file.closed:
            with self.file.locked():
                self._flush_usage()
                self.file.close()

    # -- results -----------------------------------------------------------------------------------

    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        requested = list(dict.fromkeys(keys))
        found: dict[str, CacheEntry] = {}
        now = self._clock()
        stale: list[str] = []
        for *row, used in self._select_and_pin(_ENTRY_AND_USE, requested):
            entry = self._decode(EncodedEntry(*row))
            if entry is not None:
                found[entry.key] = entry
                if now - used > _USAGE_PRECISION_S:
                    stale.append(entry.key)
        with self.file.locked():
            self._used.update(dict.fromkeys(stale, now))
            self._counts["hits"] += len(found)
            self._counts["misses"] += len(requested) - len(found)
            self._flush_usage_if_due()
        return found

    def has(self, keys: Iterable[str]) -> set[str]:
        return {key for (key,) in self._select_and_pin("key FROM results", list(set(keys)))}

    def put_many(self, entries: Iterable[CacheEntry]) -> int:
        return self._insert(list(_encode_entries(entries)))

    def replace(
        self, key: str, data: bytes, *, kind: str, metadata: Mapping[str, JsonValue] = {}
    ) -> None:
        self._insert([encode_entry(CacheEntry(key, data, kind, metadata))], replace=True)

    def delete(self, key: str) -> bool:
        """Delete a result and overwrite its bytes; whether there was one.

        What was written of it to the write-ahead log stays there until `scrub`.
        """

        def erase(connection: sqlite3.Connection) -> bool:
            connection.execute("PRAGMA secure_delete = ON").fetchall()
            try:
                return _delete_key(connection, key)
            finally:
                connection.execute("PRAGMA secure_delete = OFF").fetchall()

        with self.file.locked():
            self._pinned.discard(key)
            erased = self.file.write(erase)
            self._has_remnants |= erased
            return erased

    def scrub(self) -> None:
        """Leave no byte of what was deleted in the file or its log."""
        with self.file.locked():
            if not self.file.read_only:
                self._flush_usage()
                if self._has_remnants:
                    # Pages that were rearranged before keep copies of rows, which are never
                    # overwritten: only a new file has none.
                    self.file.run_script("VACUUM")
                    self._has_remnants = False
                self._release_space()

    def _select_and_pin(self, columns: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows of the results of some keys, the key first; within `pin_for_job` they are pinned."""

        def select(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            rows = []
            for start in range(0, len(keys), MAX_VARIABLES):
                some = keys[start : start + MAX_VARIABLES]
                marks = ", ".join("?" * len(some))
                query = f"SELECT {columns} WHERE key IN ({marks})"
                rows += connection.execute(query, some).fetchall()
            return rows

        def select_and_pin(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            rows = select(connection)
            self._pin(connection, [row[0] for row in rows])
            return rows

        with self.file.locked():
            if self.file.read_only or not self._jobs or self._pinned.issuperset(keys):
                return self.file.read(select)
            rows = self.file.write(select_and_pin)
            self._pinned.update(row[0] for row in rows)
            return rows

    def _decode(self, entry: EncodedEntry) -> CacheEntry | None:
        """The entry; a damaged one is deleted, unless its key has another one by now."""
        if len(entry.data) < _MIN_CRC_BYTES:
            decoded = entry.decode()
        else:
            known = self._crcs.get(entry.digest)
            decoded = entry.decode(is_checked=known is not None and known == entry.crc)
            if decoded is not None and known is None:
                self._remember_crc(entry)
        if decoded is not None:
            return decoded
        log.warning("%s: the result %s is damaged and counts as missing", self.path, entry.key)
        with self.file.locked():
            if self.file.read_only:
                return None
            self._pinned.discard(entry.key)
            self._counts["bad"] += 1
            with contextlib.suppress(StorageError):  # a full disk: it is found again next time
                self.file.write(
                    lambda connection: connection.execute(
                        "DELETE FROM results WHERE key = ? AND digest = ?",
                        (entry.key, entry.digest),
                    )
                )
        return None

    def _remember_crc(self, entry: EncodedEntry) -> None:
        if len(entry.data) >= _MIN_CRC_BYTES:
            if len(self._crcs) >= _MAX_CRCS:
                self._crcs.clear()
            self._crcs[entry.digest] = entry.crc

    def _insert(self, entries: Sequence[EncodedEntry], *, replace: bool = False) -> int:
        keys = [entry.key for entry in entries]
        for entry in entries:
            self._remember_crc(entry)

        def insert(connection: sqlite3.Connection) -> tuple[int, int, int]:
            if replace:
                connection.executemany(
                    "DELETE FROM results WHERE key = ?", [(key,) for key in keys]
                )
            first, count = _insert_entries(connection, entries, self._clock)
            self._pin(connection, keys)
            return first, count, _get_used_bytes(connection)

        with self.file.locked():
            first, count, used_bytes = self.file.write(insert)
            if self._jobs:
                self._pinned.update(keys)
            self._flush_usage_if_due()
            if used_bytes > self.limit_bytes and count:
                self._evict({"id < ?": first})
        return count

    # -- pins and usage ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def pin_for_job(self, job: str) -> Iterator[None]:
        """Pin what is read or written in a block.

        The pins are removed at its end. When the block ends by an error, or its process is killed,
        they stay for three days, so that the job can be resumed under its name.
        """
        with self.file.locked():
            self._jobs.append(job)
            self._pinned.clear()
        try:
            try:
                self._write_usage()
            except StorageError:
                if not self.file.read_only:
                    raise
            yield
        finally:
            self._jobs.remove(job)
        self._unpin(job)

    def _pin(self, connection: sqlite3.Connection, keys: Iterable[str]) -> None:
        """Within a transaction; add the keys to `_pinned` once it is committed."""
        for job in set(self._jobs):
            # Exists, unless the file was replaced; a pin without its job would never expire.
            connection.execute("INSERT OR IGNORE INTO jobs VALUES (?, ?)", (job, self._clock()))
            connection.executemany(
                "INSERT OR IGNORE INTO held SELECT id, ? FROM results WHERE key = ?",
                [(job, key) for key in keys],
            )

    def _unpin(self, job: str) -> None:
        with self.file.locked():
            if self.file.read_only:
                return
            self.file.write(partial(_delete_pins, job=job))
            self._eviction_failed = float("-inf")
            if self.file.read(_get_used_bytes) > self.limit_bytes:
                self._evict()

    def _flush_usage_if_due(self) -> None:
        late = time.monotonic() - self._usage_flushed > _USAGE_FLUSH_S
        if len(self._used) >= _USAGE_BATCH or late:
            self._flush_usage()

    def _flush_usage(self) -> None:
        """Write down which results were used; where that is not possible, forget it."""
        if (self._used or self._counts or self._jobs) and not self.file.read_only:
            try:
                self._write_usage()
            except StorageError as error:
                log.debug("usage of cached results was not written: %s", error.message)

    def _write_usage(self) -> None:
        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "UPDATE results SET used = ?1 WHERE key = ?2 AND used < ?1",
                [(when, key) for key, when in self._used.items()],
            )
            connection.executemany(
                "INSERT INTO counters VALUES (?1, ?2)"
                " ON CONFLICT (name) DO UPDATE SET value = value + ?2",
                list(self._counts.items()),
            )
            now = self._clock()
            connection.executemany(
                "INSERT OR REPLACE INTO jobs VALUES (?, ?)", [(job, now) for job in self._jobs]
            )

        with self.file.locked():
            try:
                self.file.write(write)
            finally:
                self._used.clear()
                self._counts.clear()
                self._usage_flushed = time.monotonic()

    # -- results of cluster workers ----------------------------------------------------------------

    def list_workers(self) -> list[str]:
        """The workers of a cluster that computed something of what is cached."""
        query = f"SELECT DISTINCT {_WORKER} FROM results WHERE instr(note, '\"from\"')"
        rows = self.file.read(lambda connection: connection.execute(query).fetchall())
        return sorted(worker for (worker,) in rows if isinstance(worker, str))

    def list_keys_from_worker(self, worker: str) -> list[str]:
        """The keys of what a worker of a cluster computed."""
        return [key for _, key, _ in self._select_from_worker(worker)]

    def delete_from_worker(self, worker: str, *, dry_run: bool = False) -> PruneResult:
        """Delete what a worker of a cluster computed, also what unfinished jobs need."""
        with self.file.locked():
            rows = self._select_from_worker(worker)
            if rows and not dry_run:
                self._pinned.clear()
                self.file.write(lambda connection: _delete_ids(connection, rows))
        return PruneResult(len(rows), sum(size for *_, size in rows))

    def _select_from_worker(self, worker: str) -> list[tuple[int, str, int]]:
        query = (
            "SELECT id, key, size FROM results"
            f" WHERE instr(note, '\"from\"') AND {_WORKER} = ? ORDER BY id"
        )
        return self.file.read(lambda connection: connection.execute(query, (worker,)).fetchall())

    # -- results of sources ------------------------------------------------------------------------

    def delete_from_source(self, source: str) -> int:
        query = f"SELECT key FROM results WHERE instr(note, '\"source\"') AND {_SOURCE} = ?"
        rows = self.file.read(lambda connection: connection.execute(query, (source,)).fetchall())
        return sum(self.delete(key) for (key,) in rows)

    def list_keys_without_source(self, kind: str) -> list[str]:
        """The keys of results of a kind that do not say what they were made of."""
        query = f"SELECT key FROM results WHERE kind = ? AND coalesce({_SOURCE}, '') = ''"
        rows = self.file.read(lambda connection: connection.execute(query, (kind,)).fetchall())
        return [key for (key,) in rows]

    # -- maintenance -------------------------------------------------------------------------------

    def stats(self) -> CacheStats:
        """Sizes and counters."""
        with self.file.locked():
            self._flush_usage()
            return self.file.read(self._measure)

    def _measure(self, connection: sqlite3.Connection) -> CacheStats:
        query = connection.execute
        kinds = tuple(
            KindStats(*row)
            for row in query(
                "SELECT kind, count(*), sum(size), max(used) FROM results"
                " GROUP BY kind ORDER BY kind"
            ).fetchall()
        )
        engines = query("SELECT DISTINCT engine FROM results WHERE engine != '' ORDER BY engine")
        files = [Path(f"{self.path}{suffix}") for suffix in ("", "-wal", "-journal")]
        return CacheStats(
            num_results=sum(row.num_results for row in kinds),
            used_bytes=_get_used_bytes(connection),
            file_bytes=sum(file.stat().st_size for file in files if file.exists()),
            limit_bytes=self.limit_bytes,
            kinds=kinds,
            engines=tuple(name for (name,) in engines.fetchall()),
            num_pinned=query("SELECT count(DISTINCT result) FROM held").fetchone()[0],
            jobs=tuple(job for (job,) in query("SELECT job FROM jobs ORDER BY job").fetchall()),
            counters=dict(query("SELECT name, value FROM counters ORDER BY name").fetchall()),
        )

    def prune(
        self,
        *,
        to_bytes: int | None = None,
        older_than_s: float | None = None,
        kind: str | None = None,
        engine: str | None = None,
        include_pinned: bool = False,
        dry_run: bool = False,
        on_progress: ProgressCallback | None = None,
    ) -> PruneResult:
        """Delete results, the least recently used first, and return their space to the disk.

        Args:
            to_bytes: delete until the cache, or its part of a kind or engine, is no larger. By
                default everything that the other arguments select; without any, what exceeds the
                limit.
            older_than_s: only what was not used for so long.
            kind: only results of this kind.
            engine: only results of this engine.
            include_pinned: also those that unfinished jobs need.
            dry_run: delete nothing, return what would be deleted.
            on_progress: called after each step.
        """
        part = {"kind = ?": kind, "engine = ?": engine}
        part = {term: value for term, value in part.items() if value is not None}
        further = {} if older_than_s is None else {"used < ?": self._clock() - older_than_s}
        selection = _Selection(part, further, include_pinned)
        if to_bytes is None:
            to_bytes = 0 if part or further else self.limit_bytes

        def plan(connection: sqlite3.Connection) -> tuple[PruneResult, bool]:
            rows = selection.select_oldest(connection, to_bytes, one_step=False)
            num_pinned = num_jobs = 0
            if not include_pinned:
                where, values = selection.where()
                query = f"SELECT count(*) FROM results WHERE {where} AND {_IS_PINNED}"
                num_pinned = connection.execute(query, values).fetchone()[0]
                num_jobs = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
            planned = PruneResult(len(rows), sum(size for _, size in rows), num_pinned)
            return planned, not (to_bytes > 0 or part or further or num_jobs)

        try:
            with self.file.locked():
                self._flush_usage()
                planned, is_everything = self.file.read(plan)
            if dry_run or (is_everything and not self.file.read_only and self.file.delete()):
                return planned
            num_results = data_bytes = 0
            for rows in self._delete_oldest(selection, to_bytes):
                num_results += len(rows)
                data_bytes += sum(size for _, size in rows)
                if on_progress:
                    on_progress(num_results, max(num_results, planned.num_results))
            self._release_space()
        except DiskFullError:
            if dry_run:
                raise
            return self._prune_full_disk(selection, to_bytes, plan)
        return PruneResult(num_results, data_bytes, planned.num_pinned)

    def _prune_full_disk(
        self,
        selection: _Selection,
        to_bytes: int,
        plan: Callable[[sqlite3.Connection], tuple[PruneResult, bool]],
    ) -> PruneResult:
        def delete(connection: sqlite3.Connection) -> PruneResult:
            planned, _ = plan(connection)
            _delete_ids(connection, selection.select_oldest(connection, to_bytes, one_step=False))
            return planned

        try:
            return self.file.write_in_place(delete)
        except StorageError as error:
            raise DiskFullError(
                f"No space left on device: cannot prune {self.path}: {error.message}",
                hint=f"Stop what uses the cache, and try again; or delete {self.path}. Its results"
                " are computed again when they are needed.",
            ) from error

    def verify(self, on_progress: ProgressCallback | None = None) -> VerifyResult:
        """Check every result; the damaged ones are deleted."""
        entries = Counter(entry is None for entry in self._iter_entries(None, on_progress))
        return VerifyResult(entries.total(), entries[True])

    def iter_results(
        self, kind: str | None = None, on_progress: ProgressCallback | None = None
    ) -> Iterator[CacheEntry]:
        """Every intact entry, the oldest first; it does not count as a use."""
        return (entry for entry in self._iter_entries(kind, on_progress) if entry)

    def _iter_entries(
        self, kind: str | None, on_progress: ProgressCallback | None
    ) -> Iterator[CacheEntry | None]:
        """One by one, those that still exist when their turn comes; None for a damaged one."""

        def select(connection: sqlite3.Connection, query: str, value: object) -> list[Any]:
            return connection.execute(f"SELECT {query}", (value,)).fetchall()

        query = "id FROM results WHERE kind = coalesce(?, kind) ORDER BY id"
        ids = self.file.read(partial(select, query=query, value=kind))
        for done, (id,) in enumerate(ids, 1):
            for row in self.file.read(partial(select, query=f"{_ENTRY} WHERE id = ?", value=id)):
                yield self._decode(EncodedEntry(*row))
            if on_progress:
                on_progress(done, len(ids))

    def _evict(self, further: Mapping[str, object] = {}) -> None:
        """Get below the limit, sparing what is being cached right now; failing is no error."""
        if self._clock() - self._eviction_failed < _EVICTION_RETRY_S:
            return
        try:
            self._flush_usage()
            self.file.write(self._delete_expired_pins)
            selection = _Selection(further=further)
            for rows in self._delete_oldest(selection, int(self.limit_bytes * _EVICT_TO)):
                self._counts["evicted"] += len(rows)
            used_bytes = self.file.read(_get_used_bytes)
        except StorageError as error:
            log.warning("cannot evict results from the cache: %s", error.message)
            return
        if used_bytes > self.limit_bytes:
            self._eviction_failed = self._clock()
            log.warning(
                "%s takes %s, over its limit of %s: the rest is new, or unfinished jobs need it",
                self.path, format_bytes(used_bytes), format_bytes(self.limit_bytes),
            )  # fmt: skip

    def _delete_expired_pins(self, connection: sqlite3.Connection) -> None:
        before = self._clock() - _PIN_EXPIRY_S
        jobs = connection.execute("SELECT job FROM jobs WHERE seen < ?", (before,)).fetchall()
        for (job,) in jobs:
            _delete_pins(connection, job)

    def _delete_oldest(
        self, selection: _Selection, to_bytes: int
    ) -> Iterator[list[tuple[int, int]]]:
        """Id and size of what each of several transactions deleted: others get their turn."""

        def delete_some(connection: sqlite3.Connection) -> list[tuple[int, int]]:
            rows = selection.select_oldest(connection, to_bytes, one_step=True)
            _delete_ids(connection, rows)
            return rows

        while rows := self.file.write(delete_some):
            yield rows

    def _release_space(self) -> None:
        """Return free pages to the disk, a few at a time, and fold the log into the file."""
        while before := self.file.read(_get_num_free_pages):
            self.file.run_script(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
            if self.file.read(_get_num_free_pages) >= before:
                break  # another process fills them as we go
        self.file.run_script("PRAGMA wal_checkpoint(TRUNCATE)")


# -- statements ------------------------------------------------------------------------------------


def _insert_entries(
    connection: sqlite3.Connection, entries: Sequence[EncodedEntry], clock: Callable[[], float]
) -> tuple[int, int]:
    """The id from which the new rows are numbered, and how many there are; a key that has a result
    keeps it.
    """
    # Ids are given here, so that both tables are filled by one statement each.
    ((first,),) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM results").fetchall()
    rows = [
        (id, one.key, one.kind, one.engine, len(one.data), clock(), one.digest, one.metadata)
        for id, one in enumerate(entries, first)
    ]
    cursor = connection.executemany(
        "INSERT OR IGNORE INTO results (id, key, kind, engine, size, made, used, digest, note)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8)", rows,
    )  # fmt: skip
    count = cursor.rowcount
    data = [(id, one.data) for id, one in enumerate(entries, first)]
    if count == len(rows):
        connection.executemany("INSERT OR REPLACE INTO data VALUES (?, ?)", data)
    else:
        connection.executemany(
            "INSERT OR REPLACE INTO data SELECT ?1, ?2 WHERE ?1 IN (SELECT id FROM results)", data
        )
    return first, count


def _delete_key(connection: sqlite3.Connection, key: str) -> bool:
    return connection.execute("DELETE FROM results WHERE key = ?", (key,)).rowcount > 0


def _delete_ids(connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    connection.executemany("DELETE FROM results WHERE id = ?", [row[:1] for row in rows])


def _delete_pins(connection: sqlite3.Connection, job: str) -> None:
    connection.execute("DELETE FROM held WHERE job = ?", (job,))
    connection.execute("DELETE FROM jobs WHERE job = ?", (job,))


def _get_num_free_pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def _get_used_bytes(connection: sqlite3.Connection) -> int:
    """The bytes of all pages in use."""
    num_pages = connection.execute("PRAGMA page_count").fetchone()[0]
    page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
    return int((num_pages - _get_num_free_pages(connection)) * page_bytes)


class TolerantCache(Cache):
    """A cache that costs no work when it fails: the failure is reported once, and from then on
    nothing is found, nothing is written, and the cache is not called again.
    """

    def __init__(self, cache: Cache, on_failure: Callable[[StorageError], None]) -> None:
        self._cache, self._on_failure, self._failed = cache, on_failure, False

    def close(self) -> None:
        try:
            self._cache.close()
        except StorageError as error:
            self._fail(error)

    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        return self._try(lambda: self._cache.get_many(keys), {})

    def has(self, keys: Iterable[str]) -> set[str]:
        return self._try(lambda: self._cache.has(keys), set())

    def put_many(self, entries: Iterable[CacheEntry]) -> int:
        return self._try(lambda: self._cache.put_many(entries), 0)

    def replace(
        self, key: str, data: bytes, *, kind: str, metadata: Mapping[str, JsonValue] = {}
    ) -> None:
        self._try(lambda: self._cache.replace(key, data, kind=kind, metadata=metadata), None)

    def delete(self, key: str) -> bool:
        return self._try(lambda: self._cache.delete(key), False)

    def delete_from_worker(self, worker: str) -> PruneResult:
        return self._try(lambda: self._cache.delete_from_worker(worker), PruneResult(0, 0))

    def delete_from_source(self, source: str) -> int:
        return self._cache.delete_from_source(source)

    @contextlib.contextmanager
    def pin_for_job(self, job: str) -> Iterator[None]:
        with contextlib.ExitStack() as pinned:
            self._try(lambda: pinned.enter_context(self._cache.pin_for_job(job)), None)
            yield
            try:
                pinned.close()
            except StorageError as error:
                self._fail(error)

    def claim(self, keys: Iterable[str], *, expires_s: float) -> Claim:
        requested = frozenset(keys)
        return self._try(
            lambda: self._cache.claim(requested, expires_s=expires_s), Claim("", requested)
        )

    def release(self, claim: Claim) -> None:
        self._try(lambda: self._cache.release(claim), None)

    def _try(self, call: Callable[[], T], default: T) -> T:
        if not self._failed:
            try:
                return call()
            except StorageError as error:
                self._fail(error)
        return default

    def _fail(self, error: StorageError) -> None:
        if not self._failed:
            self._failed = True
            self._on_failure(error)
