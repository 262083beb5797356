"""Searching an index: by vectors, by words, or by both; with file, page and what to show bright.

    with Searcher(path) as searcher:
        found = searcher.search("when is the rent due", vectors)

A searcher lives as long as its owner wants: it sees what is indexed meanwhile, and any number of
threads may ask it at once.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.documents.index import keywords, nearest, schema, words
from anyrig.documents.index.database import get, translated
from anyrig.documents.index.fuse import fused
from anyrig.documents.index.near import near
from anyrig.documents.index.snapshot import FileRow, Filters, Snapshot, taken
from anyrig.errors import InvalidInputError, Message, OptionRef

if TYPE_CHECKING:
    from anyrig.documents.protocol import Vectors

Mode = Literal["hybrid", "vectors", "keywords"]
DEPTH = 100
"""How far down each list is looked at."""
_KEYWORDS = OptionRef("mode", "keywords")
_ALIKE = 0.9  # of their words in common: one of them is shown


@dataclass(frozen=True)
class Place:
    """Where a passage stands."""

    file: Path
    page: int
    """From 1; 0 in a file without pages."""
    start: int
    """In the page, in characters."""
    file_start: int
    """In the text of the file."""
    title: str = ""
    """Of the chapter, the sheet, the message."""
    format: str = ""
    language: str = ""
    modified: float = 0.0


@dataclass(frozen=True)
class Hit:
    """A passage that was found."""

    text: str
    score: float
    """From 0 to 1: how near the top of the lists it stood."""
    places: tuple[Place, ...]
    """The first is shown; the others are files that say the same."""
    matches: tuple[tuple[int, int], ...]
    """What to show bright, in the text."""
    similarity: float | None = None
    """The cosine to the question, where vectors were asked."""
    num_more: int = 0
    """Further passages of the file that were found, when files are asked for."""

    @property
    def place(self) -> Place:
        """Where it stands first."""
        return self.places[0]


@dataclass(frozen=True)
class Answer:
    """What a search found."""

    hits: tuple[Hit, ...]
    words: tuple[str, ...]
    """What was looked for word by word."""
    nearest: Hit | None = None
    """Where nothing is near enough: what is nearest."""
    num_far: int = 0
    """Passages that were left out as not near enough, of those looked at."""
    notes: tuple[str, ...] = ()
    """What a person should know of how it was searched."""


class Searcher:
    """An index that is asked.

    Args:
        path: the file of the index.
        threshold: passages above which a graph answers.
        gpu: whether a GPU may be opened, for a searcher that lives long.
    """

    def __init__(
        self, path: Path, *, threshold: int = nearest.THRESHOLD, gpu: bool = False
    ) -> None:
        if not path.is_file():
            raise InvalidInputError(
                f"there is no index {path.stem!r}",
                hint="`anyrig index FOLDER` makes one; `anyrig index --list` shows what there is.",
            )
        self.path = path
        self._threshold, self._gpu = threshold, gpu
        self._lock = threading.Lock()
        self._free: list[sqlite3.Connection] = []
        self._snapshot: Snapshot | None = None
        self._words_only: Snapshot | None = None
        self._aside = ThreadPoolExecutor(4, thread_name_prefix="anyrig-words")

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; nobody may be asking."""
        self._aside.shutdown()
        with self._lock:
            for connection in self._free:
                connection.close()
            self._free.clear()

    @property
    def model(self) -> str:
        """The name of the model whose vectors are in it; empty before any."""
        with self._connection() as connection:
            return get(connection, "model")

    def search(
        self,
        question: str,
        vectors: Vectors | None,
        *,
        mode: Mode = "hybrid",
        limit: int = 10,
        filters: Filters = Filters(),  # noqa: B008 - it is frozen
        per_file: bool = False,
        least: float | None = None,
    ) -> Answer:
        """The passages that answer a question best.

        Args:
            question: whatever a person writes.
            vectors: of the model that the index was made with; not needed for keywords alone.
            mode: both ways, or one of them.
            limit: the most hits.
            filters: which files may be found.
            per_file: the best passage of each file, with the number of others.
            least: the cosine that a passage without a word of the question must have, see `near`;
                None shows all.
        """
        if not any(map(str.isalnum, question)):
            return Answer((), (), notes=("there is no word in the question",))
        snapshot = self.snapshot(vectors=mode != "keywords")
        if mode != "keywords":
            _check_model(snapshot, vectors, self.path)
        contents = snapshot.allowed_contents(filters) if filters.given else None
        depth = max(DEPTH, 4 * limit)
        asked = _Asked(question, depth, snapshot, contents, filters)
        by_words: dict[int, float] = {}
        similar: dict[int, float] = {}
        if mode == "vectors":
            assert vectors is not None
            similar = asked.by_vectors(vectors)
            told = tuple(words.telling(words.terms(question)))
        else:
            waiting = self._aside.submit(self._by_words, asked)
            if mode == "hybrid":
                assert vectors is not None
                similar = asked.by_vectors(vectors)  # while SQLite ranks in its thread
            told, by_words = waiting.result()
        order = fused(list(similar), by_words, mode)
        chosen = order if least is None else near(order, by_words, similar, least)
        hits = self._hits(chosen, asked, told, similar, limit, per_file)
        first = [] if hits or least is None else self._hits(order, asked, told, similar, 1, False)
        return Answer(
            tuple(hits), told, next(iter(first), None), len(order) - len(chosen),
            _notes(snapshot, mode),
        )  # fmt: skip

    def snapshot(self, *, vectors: bool = True) -> Snapshot:
        """The present state of the index; read anew when it has changed."""
        with self._connection() as connection:
            changed = get(connection, "changed")
            held = self._snapshot if vectors else self._snapshot or self._words_only
            if held is not None and held.changed == changed:
                return held
            with self._lock:  # one reads, the others wait for it
                held = self._snapshot if vectors else self._words_only
                if held is not None and held.changed == changed:
                    return held
                connection.execute("BEGIN")
                try:
                    new = taken(
                        connection, self.path, held, threshold=self._threshold, gpu=self._gpu,
                        vectors=vectors,
                    )  # fmt: skip
                finally:
                    connection.execute("ROLLBACK")
                if vectors:
                    self._snapshot = new
                else:
                    self._words_only = new
                return new

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread has."""
        with translated(self.path):
            with self._lock:
                connection = self._free.pop() if self._free else None
            if connection is None:
                connection = schema.connect_to_read(self.path)
            try:
                yield connection
            finally:
                with self._lock:
                    self._free.append(connection)

    def _by_words(self, asked: _Asked) -> tuple[tuple[str, ...], dict[int, float]]:
        with self._connection() as connection:
            told = keywords.asked(connection, asked.question, known=asked.snapshot.counted)
            among = None if asked.contents is None else asked.texts.tolist()
            return told.words, keywords.ranked(connection, told, asked.depth, among)

    def _hits(
        self,
        order: Sequence[tuple[int, float]],
        asked: _Asked,
        told: Sequence[str],
        similar: dict[int, float],
        limit: int,
        per_file: bool,
    ) -> list[Hit]:
        hits: list[Hit] = []
        shown: list[tuple[frozenset[str], frozenset[str]]] = []
        by_file: dict[Path, int] = {}
        with self._connection() as connection:
            for text, score in order:
                if len(hits) >= limit and not per_file:
                    break
                hit = _hit(connection, text, score, asked, told, similar)
                if hit is None:
                    continue
                said = _said(hit)
                twin = next((n for n, one in enumerate(shown) if _alike(one, said)), None)
                at = by_file.get(hit.place.file) if per_file else None
                if twin is not None:
                    hits[twin] = replace(hits[twin], places=hits[twin].places + hit.places)
                elif at is not None:
                    hits[at] = replace(hits[at], num_more=hits[at].num_more + 1)
                elif len(hits) < limit:
                    by_file[hit.place.file] = len(hits)
                    hits.append(hit)
                    shown.append(said)
        return hits


class _Asked:
    """A question on its way."""

    def __init__(
        self,
        question: str,
        depth: int,
        snapshot: Snapshot,
        contents: set[int] | None,
        filters: Filters,
    ) -> None:
        self.filters = filters
        self.question, self.depth, self.snapshot, self.contents = (
            question, depth, snapshot, contents,
        )  # fmt: skip
        if contents is not None:
            self.texts = snapshot.allowed_texts(contents)

    def by_vectors(self, vectors: Vectors) -> dict[int, float]:
        """Texts and their cosines, the nearest first."""
        (made,) = vectors.matrix([self.question], use="query")
        query = nearest.unit(made, vectors.model)
        snapshot = self.snapshot
        allowed = None if self.contents is None else snapshot.allowed_rows(self.texts)
        rows, scores = snapshot.vectors.nearest(query, self.depth, allowed)
        return dict(zip(snapshot.ids[rows].tolist(), scores.tolist(), strict=True))


def _hit(
    connection: sqlite3.Connection,
    text: int,
    score: float,
    asked: _Asked,
    told: Sequence[str],
    similar: dict[int, float],
) -> Hit | None:
    """A text with its places; None where it is gone since the lists were made."""
    row = connection.execute("SELECT body FROM texts WHERE id = ?", (text,)).fetchone()
    if row is None:
        return None
    found = connection.execute(
        "SELECT content, page, start, file_start, title FROM passages WHERE text = ? "
        "ORDER BY content, number",
        (text,),
    ).fetchall()
    places = tuple(
        _place(file, *rest)
        for content, *rest in found
        if asked.contents is None or content in asked.contents
        for file in asked.snapshot.files.get(content, ())
        if asked.filters.lets(file)  # another file may say the same and not be asked for
    )
    if not places:
        return None
    matches = tuple(words.matches(row[0], told))
    return Hit(row[0], round(score, 4), places, matches, similar.get(text))


def _place(file: FileRow, page: int, start: int, file_start: int, title: str) -> Place:
    path = Path(os.fsdecode(file.path))
    return Place(path, page, start, file_start, title, file.format, file.language, file.modified)


def _said(hit: Hit) -> tuple[frozenset[str], frozenset[str]]:
    """The words of a hit, and those of them that were asked for."""
    bright = (words.folded(hit.text[start:end]) for start, end in hit.matches)
    return words.said(hit.text), frozenset(bright)


def _alike(
    one: tuple[frozenset[str], frozenset[str]], other: tuple[frozenset[str], frozenset[str]]
) -> bool:
    """Whether two say the same, and the same of what was asked: forms differ by a number."""
    if one[1] != other[1]:
        return False
    return len(one[0] & other[0]) >= _ALIKE * max(1, len(one[0] | other[0]))


def _notes(snapshot: Snapshot, mode: Mode) -> tuple[str, ...]:
    notes = [snapshot.note] if snapshot.note else []
    if mode != "keywords" and snapshot.num_lacking > 0:
        notes.append(
            f"{snapshot.num_lacking:,} passages have no vector yet: run `anyrig index` to the end"
        )
    return tuple(notes)


def _check_model(snapshot: Snapshot, vectors: Vectors | None, path: Path) -> None:
    if vectors is None:
        hint = Message("{mode} needs none.", mode=_KEYWORDS)
        raise InvalidInputError("vectors are needed for this", hint=hint)
    if not snapshot.fingerprint or vectors.model.fingerprint == snapshot.fingerprint:
        return
    if Path(snapshot.model).name == vectors.model.name:
        raise InvalidInputError(
            f"the model {vectors.model.name} has changed since the index {path.stem!r} was made",
            hint=Message(
                "`anyrig index` embeds every passage again; {mode} needs no model.", mode=_KEYWORDS
            ),
        )
    raise InvalidInputError(
        f"the index {path.stem!r} was made with the model {snapshot.model},"
        f" not with {vectors.model.name}",
        hint=Message(
            "Search with {model}, or index again with {other}; {mode} needs no model.",
            model=OptionRef("model", snapshot.model),
            mode=_KEYWORDS,
            other=OptionRef("model", vectors.model.name),
        ),
    )
