"""What unfinished jobs need, and must therefore not be evicted.

A job holds results by name in the file, so every process heeds it, and a killed job keeps its
results until it is resumed or its hold lapses.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence

LAPSE_S = 3 * 86400.0
_SEEN_S = 60.0


class Holds:
    """The jobs that this store works for."""

    def __init__(self, clock: Callable[[], float], lapse_s: float) -> None:
        self._clock, self._lapse_s = clock, lapse_s
        self._jobs: list[str] = []
        self._safe: set[str] = set()
        """Keys that are known to be held for every one of the jobs."""
        self._seen = self._signing = float("-inf")

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def enter(self, job: str) -> None:
        """Work for a job from now on; what was held before is held for it when it is used."""
        self._jobs.append(job)
        self._safe.clear()
        self._seen = self._signing = float("-inf")

    def leave(self, job: str) -> None:
        """Work for it no longer; what it holds stays held."""
        self._jobs.remove(job)

    def lacking(self, keys: Iterable[str]) -> list[str]:
        """Those of the keys that are not known to be held."""
        return [key for key in keys if key not in self._safe] if self._jobs else []

    def forget(self, keys: Iterable[str]) -> None:
        """The results of these keys may be gone: hold them anew when they are used."""
        self._safe.difference_update(keys)

    def hold(self, connection: sqlite3.Connection, keys: Sequence[str]) -> None:
        """Hold results within the caller's transaction; call `held` once that is kept."""
        new = self.lacking(keys)
        for job in dict.fromkeys(self._jobs) if new else ():
            # There already, unless the file was begun anew; a hold without its job would never end.
            connection.execute("INSERT OR IGNORE INTO jobs VALUES (?, ?)", (job, self._clock()))
            connection.executemany(
                "INSERT OR IGNORE INTO held SELECT id, ? FROM results WHERE key = ?",
                [(job, key) for key in new],
            )

    def held(self, keys: Iterable[str]) -> None:
        """The transaction is kept: the holds of these keys and the sign of life are on the disk."""
        self._seen = self._signing
        if self._jobs:
            self._safe.update(keys)

    def sign(self, connection: sqlite3.Connection) -> None:
        """Say that the jobs are alive, when that was not said for a while."""
        now = self._clock()
        if self._jobs and now - self._seen > _SEEN_S:
            rows = [(job, now) for job in dict.fromkeys(self._jobs)]
            connection.executemany("INSERT OR REPLACE INTO jobs VALUES (?, ?)", rows)
            self._signing = now

    def lapse(self, connection: sqlite3.Connection) -> None:
        """Forget the jobs that gave no sign of life for long."""
        before = self._clock() - self._lapse_s
        jobs = connection.execute("SELECT job FROM jobs WHERE seen < ?", (before,)).fetchall()
        for (job,) in jobs:
            release(connection, job)


def release(connection: sqlite3.Connection, job: str) -> None:
    """Let go of everything that a job holds."""
    connection.execute("DELETE FROM held WHERE job = ?", (job,))
    connection.execute("DELETE FROM jobs WHERE job = ?", (job,))
