"""What was used, found and missed, written down in batches: a read must not cost a write.

Lost with the process: a result then looks a little older than it is, and nothing else happens.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter

_MOST = 512
_LONGEST_S = 10.0


class Uses:
    """Uses that wait to be written down."""

    def __init__(self) -> None:
        self._used: dict[str, float] = {}
        self._counts: Counter[str] = Counter()
        self._written = time.monotonic()

    def touch(self, key: str, now: float) -> None:
        """A result was used."""
        self._used[key] = now

    def count(self, name: str, number: int = 1) -> None:
        """Something happened."""
        self._counts[name] += number

    @property
    def due(self) -> bool:
        """Whether it is time to write them down."""
        if not self._used and not self._counts:
            return False
        return len(self._used) >= _MOST or time.monotonic() - self._written > _LONGEST_S

    def __bool__(self) -> bool:
        return bool(self._used or self._counts)

    def write(self, connection: sqlite3.Connection) -> None:
        """Write all of them down, within the caller's transaction."""
        connection.executemany(
            "UPDATE results SET used = ?1 WHERE key = ?2 AND used < ?1",
            [(when, key) for key, when in self._used.items()],
        )
        for name, number in self._counts.items():
            connection.execute("INSERT OR IGNORE INTO counters VALUES (?, 0)", (name,))
            connection.execute(
                "UPDATE counters SET value = value + ? WHERE name = ?", (number, name)
            )

    def clear(self) -> None:
        """They are on the disk, or cannot be put there."""
        self._used.clear()
        self._counts.clear()
        self._written = time.monotonic()
