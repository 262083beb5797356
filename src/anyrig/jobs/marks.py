"""Which jobs there are, without what they are about: that may be long, and most is not asked for.

SQLite has to walk through a row to reach what stands behind its arguments. States are therefore
read from their index, and kinds stand before the arguments; only rows that are wanted are read
whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import NamedTuple

from anyrig.jobs.job import ACTIVE, ENDED, State
from anyrig.jobs.rows import FIELDS, Row

_AT_ONCE = 500  # numbers in one question: older builds of SQLite take 999


class Mark(NamedTuple):
    """A job that is there."""

    number: int
    id: str
    kind: str
    state: State

    def fits(self, kinds: Sequence[str], states: Sequence[State]) -> bool:
        """Whether it is one of some kinds and states; none named means any."""
        return (not kinds or self.kind in kinds) and (not states or self.state in states)


class Chosen(NamedTuple):
    """Numbers of jobs, the oldest first, and where the ones before them begin."""

    numbers: list[int]
    older: int | None


def marks(connection: sqlite3.Connection, left: Callable[[Row], bool]) -> list[Mark]:
    """All jobs, the oldest first; `left` says of a row that its worker is gone."""
    running = connection.execute(f"SELECT {FIELDS} FROM jobs WHERE state = 'running'").fetchall()
    free = {row[0] for row in running if left(row)}
    states = dict(connection.execute("SELECT number, state FROM jobs ORDER BY state, number"))
    return [
        Mark(number, str(id), str(kind), "queued" if number in free else states[number])
        for number, id, kind in connection.execute(
            "SELECT number, id, kind FROM jobs ORDER BY number"
        )
    ]


def owned(connection: sqlite3.Connection, found: Sequence[Mark], client: str) -> list[Mark]:
    """Those that a client submitted."""
    numbers = {
        number for (number,) in connection.execute(
            "SELECT number FROM jobs WHERE client = ?", (client,)
        )
    }  # fmt: skip
    return [one for one in found if one.number in numbers]


def chosen(
    found: Sequence[Mark],
    most: int,
    *,
    before: int | None,
    kinds: Sequence[str],
    states: Sequence[State],
) -> Chosen:
    """The newest that fit and came before the job of a number, so many at most."""
    fit = [one.number for one in found
           if (before is None or one.number < before) and one.fits(kinds, states)]  # fmt: skip
    if not most:
        return Chosen([], None)
    return Chosen(fit[-most:], fit[-most] if len(fit) > most else None)


def counts(found: Sequence[Mark], kinds: Sequence[str]) -> dict[State, int]:
    """How many of some kinds, or of all, there are in each state."""
    told: dict[State, int] = dict.fromkeys((*ACTIVE, *ENDED), 0)
    for one in found:
        if one.fits(kinds, ()):
            told[one.state] += 1
    return told


def places(found: Sequence[Mark]) -> dict[str, int]:
    """Where each job stands that waits, by its id."""
    waiting = [one.id for one in found if one.state == "queued"]
    return {id: place for place, id in enumerate(waiting, 1)}


def rows(connection: sqlite3.Connection, numbers: Sequence[int] | None = None) -> list[Row]:
    """The whole rows of some numbers, or of all; the oldest first."""
    if numbers is None:
        return connection.execute(f"SELECT {FIELDS} FROM jobs ORDER BY number").fetchall()
    found: list[Row] = []
    for start in range(0, len(numbers), _AT_ONCE):
        some = numbers[start : start + _AT_ONCE]
        signs = ", ".join("?" * len(some))
        found += connection.execute(
            f"SELECT {FIELDS} FROM jobs WHERE number IN ({signs}) ORDER BY number", some
        )
    return found
