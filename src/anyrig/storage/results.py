"""Results kept by key in one SQLite file, shared by every process of a user.

The first accepted take is final: `put` never replaces, `replace` does. The store is bounded: over
its limit the least recently used results go, down to nine tenths of it, but never what an
unfinished job needs (`holding`): then the store goes over its limit, and says so. Each result
carries a SHA-256 over its key, kind, note and data, looked at whenever it is read: one that does
not match is dropped with a warning and counts as missing.

Data lies inside the database, not in files beside it. Measured on a two-core machine with a
virtual disk, puts and gets a second with checksum, in brackets file by file with rename and
without flush: 4 KB 11,000 and 44,000 (22,000 and 60,000; 4,400 puts when flushed); 300 KB 700 and
2,500 (1,060 and 3,300); 30 MB 5 and 20 (17 and 27). Files are faster where it does not matter, as
the engine that makes a result takes far longer. One file is better where it does: a result and
what is known of it are one transaction, so a killed process leaves no half of it and nothing to
sweep, and 100,000 embeddings are not 100,000 files.

Threads share one connection, one at a time; checksums are computed outside of it.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from anyrig.errors import InvalidInputError, StorageError
from anyrig.storage import room, rows, upkeep
from anyrig.storage.database import Database
from anyrig.storage.holds import LAPSE_S, Holds, release
from anyrig.storage.key import Plain
from anyrig.storage.protocol import Entry, Pruned, Result, Size, Tell, Verified
from anyrig.storage.uses import Uses
from anyrig.units import GIB, format_bytes

log = logging.getLogger(__name__)
T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
_DOWN_TO = 0.9
_FUTILE_S = 30.0


class Store:
    """Results by key. Use it as a context manager, or close it; fits `protocol.Results`.

    Args:
        path: the database file; its folder is made.
        limit_bytes: what the store may take; more only for what unfinished jobs need.
        wal: SQLite's write-ahead log; None uses it where the drive allows.
        lapse_s: how long after its last sign of life a job's results are kept for it.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        limit_bytes: int = 10 * GIB,
        wal: bool | None = None,
        lapse_s: float = LAPSE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise StorageError(
                f"{self.path} is a folder, a store is a file",
                hint=f"Name a file in it: {self.path / 'results.sqlite'}",
            )
        if not limit_bytes >= 1:
            raise InvalidInputError(
                f"limit_bytes is {limit_bytes}, a store takes at least a byte",
                hint="Give the limit in bytes: 10 * 2**30 for 10 GiB.",
            )
        self.limit_bytes = limit_bytes
        self.database = Database(self.path, wal=wal)
        self._clock = clock
        self._holds = Holds(clock, lapse_s)
        self._uses = Uses()
        self._futile = float("-inf")
        """When an eviction last found nothing that may go."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write down what waits and close the file; whatever is asked later is refused."""
        if self.database.closed:
            return
        with self.database.alone():
            self._write_uses()
            self.database.close()

    # -- results -----------------------------------------------------------------------------------

    def get(self, key: str) -> Result | None:
        """A result, or None where there is none or only a damaged one."""
        return self.get_many((key,)).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Result]:
        """Those of the results that are kept, by key; all of them in memory at once."""
        asked = list(dict.fromkeys(keys))
        found: dict[str, Result] = {}
        for row in self._ask(lambda connection: rows.by_keys(connection, asked), asked):
            result = row.result
            if result is None:
                self.drop_bad(row)
            else:
                found[row.key] = result
        self._note_uses(found, len(asked) - len(found))
        return found

    def put(self, key: str, data: bytes, *, kind: str, note: Mapping[str, Plain] = {}) -> bool:
        """Keep a result unless one is kept already; whether it was kept."""
        return self.put_many((Entry(key, data, kind, note),)) == 1

    def put_many(self, entries: Iterable[Entry]) -> int:
        """Keep several in one step, as `put` does; how many were kept."""
        return self._keep([rows.written(entry) for entry in entries], anew=False)

    def replace(self, key: str, data: bytes, *, kind: str, note: Mapping[str, Plain] = {}) -> None:
        """Keep a new take in the place of the old one."""
        self._keep([rows.written(Entry(key, data, kind, note))], anew=True)

    def drop(self, key: str) -> bool:
        """Forget a result, its bytes written over; whether there was one.

        What was written of it into the log stays there until `scrub`.
        """
        with self.database.alone():
            self._holds.forget((key,))
            return self.database.write(lambda connection: rows.erase(connection, key))

    def makers(self) -> list[str]:
        """The workers of a cluster that made something of what is kept."""
        return sorted({maker for maker, _, _, _ in self._made()})

    def made_by(self, maker: str) -> list[str]:
        """The keys of what a worker of a cluster made."""
        return [key for found, _, key, _ in self._made() if found == maker]

    def forget_from(self, maker: str, *, dry_run: bool = False) -> Pruned:
        """Drop what a worker of a cluster made, also what unfinished jobs need.

        Args:
            maker: its name.
            dry_run: drop nothing, say what would go.
        """
        with self.database.alone():
            found = [row for row in self._made() if row[0] == maker]
            if not dry_run and found:
                self._holds.forget([key for _, _, key, _ in found])
                gone = [(number, size) for _, number, _, size in found]
                self.database.write(lambda connection: room.drop(connection, gone))
        return Pruned(len(found), sum(size for _, _, _, size in found))

    def _made(self) -> list[tuple[str, int, str, int]]:
        """What workers of a cluster made: the worker, the row's number, its key and its size."""
        with self.database.alone():
            return self.database.read(rows.made_elsewhere)

    def scrub(self) -> None:
        """Clear the log and give free pages back: no byte is left of what was dropped."""
        with self.database.alone():
            if not self.database.read_only:
                self._write_uses()
                upkeep.shrink(self.database)

    def has(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys whose results are kept; within `holding` they are safe from then on.

        A result may still turn out to be damaged when it is read: `get` then answers None.
        """
        asked = list(dict.fromkeys(keys))
        return set(self._ask(lambda connection: rows.there(connection, asked), asked))

    @contextlib.contextmanager
    def holding(self, job: str, *, release: bool = True) -> Iterator[None]:
        """A block in which everything this store is asked for or keeps is safe from eviction.

        At the end of the block the job lets go. When the block ends by an error, or its process is
        killed, the results stay safe for `lapse_s`, so that the job can be resumed under its name.

        Args:
            job: the job's name.
            release: False for a worker, whose job goes on elsewhere when the worker is done.
        """
        with self.database.alone():
            self._holds.enter(job)
            try:
                self._write_uses(always=True)
            except BaseException:
                self._holds.leave(job)
                raise
        try:
            yield
            if release:
                self._release(job)
        finally:
            if not self.database.closed:
                with self.database.alone():
                    self._holds.leave(job)

    # -- the whole ---------------------------------------------------------------------------------

    def size(self) -> Size:
        """What the store holds and takes."""
        with self.database.alone():
            self._write_uses()
            return self.database.read(
                lambda connection: upkeep.measure(connection, self.path, self.limit_bytes)
            )

    def prune(
        self,
        *,
        to_bytes: int | None = None,
        older_than_s: float | None = None,
        kind: str | None = None,
        engine: str | None = None,
        held: bool = False,
        dry_run: bool = False,
        tell: Tell | None = None,
    ) -> Pruned:
        """Drop results, the least recently used first, and give their room back to the disk.

        Args:
            to_bytes: drop until the store, or what is kept of a kind or engine, takes no more than
                this. Without it everything goes that the rest selects; without anything, what is
                over the limit.
            older_than_s: only what was not used for so long.
            kind: only results of this kind.
            engine: only results of this engine.
            held: also those that unfinished jobs need.
            dry_run: drop nothing, say what would go.
            tell: told how many are dropped, of how many.
        """
        if to_bytes is None:
            choosy = any(part is not None for part in (older_than_s, kind, engine))
            to_bytes = 0 if choosy else self.limit_bytes
        before = None if older_than_s is None else self._clock() - older_than_s
        chosen = room.Selection(kind, engine, before, held=held)
        with self.database.alone():
            self._write_uses()
            plan = self.database.read(lambda c: upkeep.plan(c, chosen, to_bytes))
        if dry_run:
            return plan
        everything = to_bytes <= 0 and chosen == room.Selection(held=held) and not plan.num_held
        if everything and not self.database.read_only and self.database.begin_anew():
            return plan
        done = self._make_room(chosen, to_bytes, tell, plan.num_results)
        upkeep.shrink(self.database)
        return done._replace(num_held=plan.num_held)

    def verify(self, tell: Tell | None = None) -> Verified:
        """Look at every result; the damaged ones are dropped and counted."""
        looked = bad = 0
        for row in upkeep.every(self.database, None, tell):
            looked += 1
            if row.result is None:
                bad += 1
                self.drop_bad(row)
        return Verified(looked, bad)

    def each(self, kind: str | None = None, tell: Tell | None = None) -> Iterator[Result]:
        """Every whole result in the order of keeping; it does not count as a use."""
        for row in upkeep.every(self.database, kind, tell):
            result = row.result
            if result is None:
                self.drop_bad(row)
            else:
                yield result

    def drop_bad(self, row: rows.Row) -> None:
        """Drop a row that is not what was kept, unless it is another one by now."""
        log.warning("%s: the result %s is damaged and counts as missing", self.path, row.key)
        with self.database.alone():
            if self.database.read_only:
                return
            self._holds.forget((row.key,))
            self._uses.count("bad")
            with contextlib.suppress(StorageError):  # a full disk: then it is found again next time
                self.database.write(lambda connection: rows.delete_same(connection, row))

    # -- beneath -----------------------------------------------------------------------------------

    def _ask(self, work: Work[list[T]], keys: Sequence[str]) -> list[T]:
        """Read; in one step with a write, where a job of ours is to hold what is found."""
        with self.database.alone():
            if self.database.read_only or not self._holds.lacking(keys):
                return self.database.read(work)

            there: list[str] = []

            def ask_and_hold(connection: sqlite3.Connection) -> list[T]:
                there[:] = rows.there(connection, self._holds.lacking(keys))
                self._holds.hold(connection, there)
                self._holds.sign(connection)
                return work(connection)

            answer = self.database.write(ask_and_hold)
            self._holds.held(there)
            return answer

    def _keep(self, written: Sequence[rows.Written], *, anew: bool) -> int:
        keys = [row.key for row in written]

        def keep(connection: sqlite3.Connection) -> tuple[list[int], int]:
            numbers = []
            for row in written:
                if anew:
                    rows.delete(connection, row.key)
                numbers.append(rows.insert(connection, row, self._clock()))
            self._holds.hold(connection, keys)
            self._holds.sign(connection)
            return [number for number in numbers if number], room.used_bytes(connection)

        with self.database.alone():
            self._holds.forget(keys)
            kept, used = self.database.write(keep)
            self._holds.held(keys)
            if self._uses.due:
                self._write_uses()
            if used > self.limit_bytes and kept:
                self._evict(before_id=min(kept))
        return len(kept)

    def _evict(self, before_id: int | None = None) -> None:
        """Make room, but for what is being kept right now; the work is done either way."""
        if self._clock() - self._futile < _FUTILE_S:
            return
        try:
            self._write_uses()
            self.database.write(self._holds.lapse)
            chosen = room.Selection(before_id=before_id)
            dropped = self._make_room(chosen, int(self.limit_bytes * _DOWN_TO))
            self._uses.count("evicted", dropped.num_results)
            used = self.database.read(room.used_bytes)
        except StorageError as error:
            log.warning("no room could be made: %s", error.message)
            return
        if used > self.limit_bytes:
            self._futile = self._clock()
            log.warning(
                "%s takes %s, over its limit of %s: the rest is new, or unfinished jobs need it",
                self.path, format_bytes(used), format_bytes(self.limit_bytes),
            )  # fmt: skip

    def _make_room(
        self, chosen: room.Selection, to_bytes: int, tell: Tell | None = None, total: int = 0
    ) -> Pruned:
        """Drop step by step, each a transaction, so that others get their turn."""

        def step(connection: sqlite3.Connection) -> list[tuple[int, int]]:
            found = room.oldest(connection, chosen, room.excess(connection, chosen, to_bytes))
            room.drop(connection, found)
            return found

        count = freed = 0
        while dropped := self.database.write(step):
            count += len(dropped)
            freed += sum(size for _, size in dropped)
            if tell:
                tell(count, max(count, total))
        return Pruned(count, freed)

    def _release(self, job: str) -> None:
        with self.database.alone():
            if self.database.read_only:
                return
            self.database.write(lambda connection: release(connection, job))
            self._futile = float("-inf")
            if self.database.read(room.used_bytes) > self.limit_bytes:
                self._evict()

    def _note_uses(self, found: Iterable[str], missed: int) -> None:
        with self.database.alone():
            now = self._clock()
            number = 0
            for key in found:
                self._uses.touch(key, now)
                number += 1
            self._uses.count("hits", number)
            self._uses.count("misses", missed)
            if self._uses.due:
                self._write_uses()

    def _write_uses(self, *, always: bool = False) -> None:
        """Write down what waits; where that cannot be done it is let go, as it is no loss."""
        if not (self._uses or always) or self.database.read_only:
            return

        def write(connection: sqlite3.Connection) -> None:
            self._uses.write(connection)
            self._holds.sign(connection)

        try:
            self.database.write(write)
        except StorageError as error:
            if always and not self.database.read_only:
                raise
            log.debug("uses were not written down: %s", error.message)
        else:
            self._holds.held(())
        self._uses.clear()
