"""Texts by their words, ranked by FTS5.

FTS5 takes 1 to 2 µs for each text it ranks, so a word that stands in 70,000 texts costs 0.1 s and
says little. Texts with one of the rarest words of a question are ranked first; the common words
count for those texts as well. Where that finds too few, texts with all of the common words are
ranked, and then texts with any of them. All texts of a step are ranked, however many they are:
FTS5 reads the oldest first, so a limit on them would drop the newest.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anyrig.documents.index import words

MOST_RANKED = 4_000
"""Texts with one of the rare words of a question; a word with more texts is a common one."""
_MOST_COMMON = 4
"""Common words that are looked for, the rarest of them."""


class Asked(NamedTuple):
    """A question in words."""

    words: tuple[str, ...]
    """Those that say what it is about: they are shown bright."""
    rare: tuple[str, ...]
    """Those that stand in few texts."""
    common: tuple[str, ...]
    """The rarest of those that stand in many."""
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
        most: texts that the rare words may stand in.
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
    rare: list[str] = []
    common: list[str] = []
    ranked = 0
    for num_texts, word in there:
        if not common and ranked + num_texts <= most:
            ranked += num_texts
            rare.append(word)
        else:
            (common if num_texts else rare).append(word)
    ((total,),) = connection.execute("SELECT count(*) FROM texts").fetchall()
    weight = sum(_rarity(num_texts, total) for num_texts, _ in counted)
    return Asked(tuple(told), tuple(rare), tuple(common[:_MOST_COMMON]), weight)


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
    found: dict[int, float] = {}
    enough = most // 4  # the depth of a search is at least four times what it shows
    for step in _steps(told):
        for expression in step:
            for number, rank in _ranks(connection, expression, most, among):
                found[number] = min(rank, found.get(number, 0.0))  # FTS5's best is the lowest
        if len(found) >= enough:
            break
    order = sorted(found.items(), key=lambda one: (one[1], one[0]))[:most]
    return {number: min(1.0, max(0.0, -rank / told.weight)) for number, rank in order}


def _steps(told: Asked) -> Iterator[list[str]]:
    """What to ask FTS5 for, until enough is found."""
    rare, common = words.any_of(told.rare), words.any_of(told.common)
    if rare:
        # The second gives a text that has common words as well what these add to its rank.
        yield [rare, f"({rare}) AND ({common})"] if common else [rare]
    if len(told.common) > 1:
        yield [" AND ".join(map(words.quoted, told.common))]
    if common:
        yield [common]


def _ranks(
    connection: sqlite3.Connection, expression: str, most: int, among: Sequence[int] | None
) -> list[tuple[int, float]]:
    # The plus: else SQLite would look for each of them by itself.
    only = "" if among is None else "AND +rowid IN (SELECT value FROM json_each(?))"
    given = [] if among is None else [json.dumps(list(among))]
    return connection.execute(
        f"SELECT rowid, rank FROM words WHERE words MATCH ? {only} ORDER BY rank, rowid LIMIT ?",
        [expression, *given, most],
    ).fetchall()


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
