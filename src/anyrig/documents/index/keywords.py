"""Texts by their words: what FTS5 ranks, in a time that does not grow with how common a word is.

FTS5 takes some 2 µs for each text it ranks, so a word that stands in 70,000 texts costs 0.2 s and
tells little. The rarest words of a question are taken while their texts are few enough; the common
ones count where they come together.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from anyrig.documents.index import words

MOST_RANKED = 8_000
"""Texts that are ranked for a question."""


class Asked(NamedTuple):
    """A question in words."""

    words: tuple[str, ...]
    """Those that say what it is about: they are shown bright."""
    expression: str
    """For FTS5; empty where there is nothing to ask."""


def asked(connection: sqlite3.Connection, question: str, *, most: int = MOST_RANKED) -> Asked:
    """What to ask FTS5 for, by how common each word is in this index."""
    told = words.telling(words.terms(question))
    counted = [(_num_texts(connection, word), word) for word in told[: 4 * words.MOST_WORDS]]
    # Those that stand nowhere come last: they cost nothing, and we may only have folded them amiss.
    there = sorted(counted, key=lambda one: (not one[0], one[0]))[: words.MOST_WORDS]
    rare, total = [], 0
    for num_texts, word in there:
        if total + num_texts > most:
            break
        total += num_texts
        rare.append(word)
    common = [word for _, word in there[len(rare) :]]
    parts = [words.any_of(rare)] if rare else []
    if common:
        parts.append("(" + " AND ".join(words.quoted(word) for word in common[:4]) + ")")
    return Asked(tuple(told), " OR ".join(parts))


def ranked(
    connection: sqlite3.Connection, expression: str, most: int, *, ranked: int = MOST_RANKED
) -> list[int]:
    """Texts in order, the best first."""
    if not expression:
        return []
    rows = connection.execute(
        "SELECT rowid FROM (SELECT rowid, rank FROM words WHERE words MATCH ? LIMIT ?) "
        "ORDER BY rank, rowid LIMIT ?",
        (expression, 2 * ranked, most),
    )
    return [number for (number,) in rows]


def _num_texts(connection: sqlite3.Connection, term: str) -> int:
    """How many texts a word stands in; for several characters or parts, the rarest of them."""
    pieces = words.tokens(term)
    if not pieces:
        return 0
    found = [
        connection.execute("SELECT doc FROM frequencies WHERE term = ?", (piece,)).fetchone()
        for piece in pieces
    ]
    return min((int(row[0]) if row else 0) for row in found)
