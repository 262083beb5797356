"""Texts by their words: what FTS5 ranks, in a time that does not grow with how common a word is.

FTS5 takes some 2 µs for each text it ranks, so a word that stands in 70,000 texts costs 0.2 s and
tells little. The rarest words of a question are taken while their texts are few enough; where all
of them are common, texts that have all of them.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from anyrig.documents.index import words

MOST_RANKED = 4_000
"""Texts that are ranked for a question."""


class Asked(NamedTuple):
    """A question in words."""

    words: tuple[str, ...]
    """Those that say what it is about: they are shown bright."""
    expression: str
    """For FTS5; empty where there is nothing to ask."""
    weight: float
    """What FTS5 would give a text of middle length that has every word once."""


def asked(
    connection: sqlite3.Connection,
    question: str,
    *,
    most: int = MOST_RANKED,
    known: dict[str, int] | None = None,
) -> Asked:
    """What to ask FTS5 for, by how common each word is in this index.

    Args:
        connection: to read.
        question: as it was written.
        most: texts that may be ranked.
        known: how common words are; what is found out is added.
    """
    told = words.telling(words.terms(question))
    some = told[: 4 * words.MOST_WORDS]
    known = {} if known is None else known
    for word in some:
        if word not in known:
            known[word] = _num_texts(connection, word)
    counted = [(known[word], word) for word in some]
    # Those that stand nowhere come last: they cost nothing, and we may only have folded them amiss.
    there = sorted(counted, key=lambda one: (not one[0], one[0]))[: words.MOST_WORDS]
    rare, ranked = [], 0
    for num_texts, word in there:
        if ranked + num_texts > most:
            break
        ranked += num_texts
        rare.append(word)
    common = [word for _, word in there[len(rare) :]]
    expression = words.any_of(rare) or " AND ".join(words.quoted(word) for word in common[:4])
    ((total,),) = connection.execute("SELECT count(*) FROM texts").fetchall()
    weight = sum(_rarity(num_texts, total) for num_texts, _ in counted)
    return Asked(tuple(told), expression, weight)


def ranked(
    connection: sqlite3.Connection, told: Asked, most: int, among: Sequence[int] | None = None
) -> dict[int, float]:
    """Texts in order, the best first, with the share of the question that their words cover.

    Args:
        connection: to read.
        told: the question.
        most: texts of the answer.
        among: the only texts that may be found; all when None.
    """
    if not told.expression:
        return {}
    # The plus: else SQLite would look for each of them by itself.
    only = "" if among is None else "AND +rowid IN (SELECT value FROM json_each(?))"
    given = [] if among is None else [json.dumps(list(among))]
    rows = connection.execute(
        f"SELECT rowid, rank FROM (SELECT rowid, rank FROM words WHERE words MATCH ? {only} LIMIT ?"
        ") ORDER BY rank, rowid LIMIT ?",
        [told.expression, *given, 2 * MOST_RANKED, most],
    )
    return {number: min(1.0, max(0.0, -rank / told.weight)) for number, rank in rows}


def _rarity(num_texts: int, total: int) -> float:
    """What FTS5 weighs a word by; it is never quite nothing."""
    return max(1e-6, math.log((total - num_texts + 0.5) / (num_texts + 0.5)))


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
