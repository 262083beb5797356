"""Searching an index: by vectors, by words, or by both; with file, page and what to mark.

    with Searcher(path) as searcher:
        answer = searcher.search("when is the rent due", embedder)

A searcher lives as long as its owner wants: it sees what is indexed meanwhile, and any number of
threads may ask it at once.

How the lists are joined. The nearest passage counts 1 by its vector, the hundredth 0, those
between by their cosines: models differ in how far apart theirs are. How much of the question its
words cover is added: a code that only one passage has outweighs every vector, and one common word
of seven none. Measured as nDCG@10 on the questions of Debian's FAQ in three languages and of
Python's, with minilm: vectors alone 0.413 and 0.873, words alone 0.428 and 0.709, the sum 0.523 and
0.846, about the same with weights from 0.8 to 1.25. The fusion of ranks that was here before had
0.481 and 0.806.

What is shown. By its vector every passage is found: something is nearest to any question, however
far. So a passage is shown only if its cosine is above a minimum of the model and not far below the
best, or if its words cover nearly as much of the question as those of the best do: at least half of
it where its vector is far away.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np  # noqa: TID253 - arrays are what it searches

from anyrig.documents.index import db, vectors
from anyrig.documents.index.keywords import (
    KeywordQuery,
    Query,
    Term,
    TermFinder,
    build_keyword_query,
    find_matching,
    find_names,
    find_similar_word,
    parse_question,
    rank_passages,
    split_words,
)
from anyrig.documents.words import fold
from anyrig.errors import InvalidInputError, Message, OptionRef
from anyrig.storage.sqlite import SqliteFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyrig.documents.protocol import Vectors

    Matrix = NDArray[np.float32]
    Ids = NDArray[np.int64]
    Mask = NDArray[np.bool_]

Mode = Literal["hybrid", "vectors", "keywords"]
DEPTH = 100
"""How far down each list is looked at."""
MIN_SIMILARITY = {
    "minilm": 0.24,
    "all-MiniLM-L6-v2": 0.24,
    "multilingual": 0.19,
    "use-multilingual": 0.19,
    "hashing": 0.36,
}
"""Cosines by the name of the model; of another, nothing is known but the share of the best."""
_WORDS_WEIGHT = 1.0
"""What a passage that covers the whole question counts, to 1 for the nearest vector."""
_NAMES_WEIGHT = 1.5
_MIN_NAME_SHARE = 0.5
"""Of a question: what the name or title of a file has to say of it, to be a hit by that."""
_SIMILARITY_OF_BEST = 0.6
_WORDS_OF_BEST = 0.6
_MIN_WORDS = 0.15
_FAR = 0.4
"""Of the best cosine, or of the minimum: what is further away needs most words of the question."""
_MIN_WORDS_FAR, _WORDS_OF_BEST_FAR = 0.5, 0.9
_SAME_WORDS = 0.9  # of their words in common: one of them is shown
_MAX_NAMES = 20
_KEYWORDS = OptionRef("mode", "keywords")


@dataclass(frozen=True)
class Filters:
    """Which files may be found; what is not given lets all through."""

    folders: tuple[bytes, ...] = ()
    types: tuple[str, ...] = ()
    """Formats or endings of names: pdf, docx, eml."""
    after: float | None = None
    """Changed at or after, in seconds since 1970."""
    before: float | None = None
    """Changed before."""
    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Parts of a path, in any case; each must be in it."""
    excluded_paths: tuple[str, ...] = ()
    excluded_types: tuple[str, ...] = ()

    def match(self, file: FileRow) -> bool:
        if self.folders and not db.is_under(file.path, self.folders):
            return False
        if self.after is not None and file.modified < self.after:
            return False
        if self.before is not None and file.modified >= self.before:
            return False
        if self.languages and file.language not in self.languages:
            return False
        name = os.fsdecode(file.path)
        if self.paths and not all(fold(part) in fold(name) for part in self.paths):
            return False
        if any(fold(part) in fold(name) for part in self.excluded_paths):
            return False
        types = {file.format, os.path.splitext(name)[1].lstrip(".").lower()}
        if types.intersection(self.excluded_types):
            return False
        return not self.types or bool(types.intersection(self.types))


class FileRow(NamedTuple):
    """A file that can be found."""

    path: bytes
    content: int
    modified: float
    """In seconds since 1970."""
    format: str
    language: str


@dataclass(frozen=True)
class HitPlace:
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

    @property
    def link(self) -> str:
        """A URL that opens the file, at the page where its viewer can."""
        url = self.file.absolute().as_uri()
        return f"{url}#page={self.page}" if self.page and self.format == "pdf" else url


@dataclass(frozen=True)
class Hit:
    """A passage that was found."""

    text: str
    score: float
    """From 0 to 1: how near its vector is beside those of others, and how much of the question its
    words cover."""
    places: tuple[HitPlace, ...]
    """The first is shown; the others are files that say the same."""
    matches: tuple[tuple[int, int], ...]
    """What to mark, in the text."""
    sentence: tuple[int, int] | None = None
    """The sentence that says most of what was asked; None where none has a word of it."""
    similarity: float | None = None
    """The cosine to the question, where vectors were asked."""
    num_more: int = 0
    """Further passages of the file that were found, when files are asked for."""

    @property
    def place(self) -> HitPlace:
        """Where it stands first."""
        return self.places[0]


@dataclass(frozen=True)
class SearchResult:
    """What a search found."""

    hits: tuple[Hit, ...]
    words: tuple[str, ...]
    """What was looked for word by word."""
    nearest: Hit | None = None
    """Where nothing is near enough: what is nearest."""
    num_far: int = 0
    """Passages that were left out as too weak, of those looked at."""
    notes: tuple[str, ...] = ()
    """What a person should know of how it was searched."""


class _HitWords(NamedTuple):
    """What two hits are compared by."""

    words: frozenset[str]
    marked: frozenset[str]
    """Those that were asked for."""


@dataclass(frozen=True)
class IndexSnapshot:
    """What a search needs in memory, of one state of the index."""

    changed: str
    fingerprint: str
    model: str
    dimension: int
    contents: Ids
    """By row: the content of the passage `row + 1`; 0 where there is none."""
    last_content: int
    num_passages: int
    languages: tuple[str, ...]
    """Of the files, the most frequent first."""
    is_incomplete: bool
    """Whether passages lack vectors."""
    matrix: Matrix | None = field(repr=False, default=None)
    matrix_file: tuple[int, int] = (0, 0)
    terms: dict[str, Term] = field(default_factory=dict, repr=False, compare=False)
    """How common words are, as far as they were looked up."""
    allowed: dict[Filters, set[int]] = field(default_factory=dict, repr=False, compare=False)


class Searcher:
    """An index that is searched."""

    def __init__(self, path: Path) -> None:
        db.check_exists(path)
        self.path = path
        self._lock, self._refreshing = threading.Lock(), threading.Lock()
        self._idle: list[SqliteFile] = []
        self._snapshot: IndexSnapshot | None = None
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="anyrig-words")

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; nobody may be asking."""
        self._threads.shutdown()
        with self._lock:
            for file in self._idle:
                file.close()
            self._idle.clear()
            self._snapshot = None

    def search(
        self,
        question: str,
        embedder: Vectors | None,
        *,
        mode: Mode = "hybrid",
        limit: int = 10,
        filters: Filters = Filters(),  # noqa: B008 - it is frozen
        per_file: bool = False,
        min_similarity: float | None = None,
    ) -> SearchResult:
        """The passages that answer a question best.

        Args:
            question: as people write it, see `keywords.parse_question`.
            embedder: of the model that the index was made with; not needed for keywords alone.
            mode: both ways, or one of them.
            limit: the most hits.
            filters: which files may be found, besides those that the question names.
            per_file: the best passage of each file, with the number of others.
            min_similarity: the cosine that a passage found by its vector must have; None shows
                weak ones too.
        """
        query = parse_question(question)
        if query.is_empty:
            return SearchResult((), (), notes=("there is no word in the question",))
        snapshot = self.refresh(matrix=mode != "keywords")
        if mode != "keywords":
            _check_model(snapshot, embedder, self.path)
        depth = max(DEPTH, 4 * limit)
        search = _OpenSearch(snapshot, query, _join_filters(filters, query), depth)

        def run(connection: sqlite3.Connection) -> SearchResult:
            search.prepare(connection)
            similar: dict[int, float] = {}
            by_words: dict[int, float] = {}
            by_names: dict[int, float] = {}
            if mode == "vectors":
                assert embedder is not None
                similar = search.rank_by_vectors(connection, embedder)
            else:
                waiting = self._threads.submit(self._read, search.rank_by_words)
                if mode == "hybrid":
                    assert embedder is not None
                    similar = search.rank_by_vectors(connection, embedder)  # SQLite ranks meanwhile
                by_words = waiting.result()
                by_names = search.rank_by_names(connection, similar, by_words)
            order = chosen = fuse(similar, by_words, by_names, mode)
            if mode != "keywords" and min_similarity is not None:
                chosen = _drop_weak(order, by_words, by_names, similar, min_similarity)
            hits = search.build_hits(connection, chosen, similar, limit, per_file)
            nearest = None
            if not hits and len(chosen) < len(order):
                nearest = next(iter(search.build_hits(connection, order, similar, 1, False)), None)
            notes = _list_notes(connection, snapshot, mode)
            if mode != "vectors":
                notes += search.list_remarks(connection)
            num_far = len(order) - len(chosen)
            return SearchResult(tuple(hits), search.keywords.words, nearest, num_far, notes)

        return self._read(run)

    def refresh(self, *, matrix: bool = True) -> IndexSnapshot:
        """The present state of the index. Of one that has changed only what is new is read."""

        def get_current(connection: sqlite3.Connection) -> IndexSnapshot | None:
            one = self._snapshot
            is_current = one and one.changed == db.get_meta(connection, "changed")
            return one if one and is_current and (one.matrix is not None or not matrix) else None

        def take(connection: sqlite3.Connection) -> IndexSnapshot:
            return _take_snapshot(connection, self.path, self._snapshot, matrix=matrix)

        if (current := self._read(get_current)) is not None:
            return current
        with self._refreshing:  # one reads, the others wait for it
            current = self._read(get_current) or self._read(take, is_snapshot=True)
            self._snapshot = current
            return current

    def list_files(self) -> list[FileRow]:
        """The files that can be found."""
        return self._read(_list_files)

    @property
    def model(self) -> str:
        """The name of the model whose vectors are in it; empty before any."""
        return self._read(db.read_model)[1]

    def _read(self, work: db.Work[db.T], *, is_snapshot: bool = False) -> db.T:
        """What the work answers, on a connection that no other thread has."""
        with self._lock:
            file = self._idle.pop() if self._idle else db.open_file(self.path)
        try:
            return file.read_snapshot(work) if is_snapshot else file.read(work)
        finally:
            with self._lock:
                self._idle.append(file)


class _OpenSearch:
    """A question on its way."""

    def __init__(self, snapshot: IndexSnapshot, query: Query, filters: Filters, depth: int) -> None:
        self.snapshot, self.query, self.filters, self.depth = snapshot, query, filters, depth
        self._filter = filters.match if filters != Filters() else lambda _: True
        self.contents: set[int] | None = None
        """The only ones that may be found."""
        self.keywords = KeywordQuery((), (), (), 0.0)
        self._finders: dict[str, TermFinder] = {}
        """By language."""

    def prepare(self, connection: sqlite3.Connection) -> None:
        snapshot = self.snapshot
        if self.filters != Filters():
            if self.filters not in snapshot.allowed:
                snapshot.allowed[self.filters] = {
                    file.content for file in _list_files(connection) if self.filters.match(file)
                }
            self.contents = snapshot.allowed[self.filters]
        self.keywords = build_keyword_query(
            connection, self.query, snapshot.languages, snapshot.num_passages, known=snapshot.terms
        )

    def rank_by_words(self, connection: sqlite3.Connection) -> dict[int, float]:
        """Passages and the share of the question that their words cover, the best first."""
        return rank_passages(connection, self.keywords, self.depth, self.contents)

    def list_remarks(self, connection: sqlite3.Connection) -> tuple[str, ...]:
        """Filters that let no file through, and words that may be misspelt."""
        if self.contents is not None and not self.contents:
            parts = [f"path:{part}" for part in self.query.paths]
            parts += [f"type:{part}" for part in self.query.types]
            which = f": {' '.join(parts)}" if parts else ""
            return (f"no indexed file matches the filters{which}",)
        remarks = []
        for term in self.keywords.terms:
            if not (term.is_prefix or term.num_passages) and (
                near := find_similar_word(connection, term.word, self.snapshot.num_passages)
            ):
                remarks.append(f"{term.word!r} is in no indexed file; did you mean {near!r}?")
        return tuple(remarks)

    def rank_by_vectors(
        self, connection: sqlite3.Connection, embedder: Vectors
    ) -> dict[int, float]:
        """Passages and their cosines, the nearest first."""
        matrix = self.snapshot.matrix
        assert matrix is not None
        (vector,) = vectors.normalize_rows(
            embedder.matrix([self.query.text], use="query"), embedder.model
        )
        if not len(matrix):
            return {}
        rows, scores = vectors.find_nearest(
            matrix, vector, self.depth, self._find_allowed_rows(connection, len(matrix))
        )
        return dict(zip((rows + 1).tolist(), scores.tolist(), strict=True))

    def _find_allowed_rows(self, connection: sqlite3.Connection, count: int) -> Mask | None:
        contents = self.snapshot.contents[:count]
        allowed: Mask | None = None
        if self.contents is not None:
            wanted = np.zeros(self.snapshot.last_content + 1, np.bool_)
            wanted[[one for one in self.contents if one < len(wanted)]] = True
            allowed = np.zeros(count, np.bool_)
            allowed[: len(contents)] = wanted[contents]
        for expression in self.keywords.required:
            mask = _build_mask(find_matching(connection, expression), count)
            allowed = mask if allowed is None else allowed & mask
        for expression in self.keywords.excluded:
            mask = ~_build_mask(find_matching(connection, expression), count)
            allowed = mask if allowed is None else allowed & mask
        return allowed

    def rank_by_names(
        self,
        connection: sqlite3.Connection,
        similar: Mapping[int, float],
        by_words: Mapping[int, float],
    ) -> dict[int, float]:
        """The best passage of each file whose name or title has the words."""
        if self.keywords.required or self.keywords.excluded:
            return {}
        named = [
            (content, share) for content, share in find_names(connection, self.keywords, _MAX_NAMES)
            if share >= _MIN_NAME_SHARE and (self.contents is None or content in self.contents)
        ]  # fmt: skip
        if not named:
            return {}
        best: dict[int, int] = {}
        contents = self.snapshot.contents
        for passage in (*by_words, *similar):
            if passage <= len(contents):
                best.setdefault(int(contents[passage - 1]), passage)
        found: dict[int, float] = {}
        for content, share in named:
            if content not in best:
                row = connection.execute(
                    "SELECT id FROM passages WHERE content = ? ORDER BY number LIMIT 1", (content,)
                ).fetchone()
                if row is None:
                    continue
                best[content] = row[0]
            found[best[content]] = share
        return found

    def build_hits(
        self,
        connection: sqlite3.Connection,
        order: Sequence[tuple[int, float]],
        similar: Mapping[int, float],
        limit: int,
        per_file: bool,
    ) -> list[Hit]:
        """The passages with their places; those that say the same as one."""
        hits: list[Hit] = []
        shown: list[_HitWords] = []
        by_file: dict[Path, int] = {}
        for passage, score in order:
            if len(hits) >= limit and not per_file:
                break
            found = self._build_hit(connection, passage, score, similar)
            if found is None:
                continue
            hit, words = found
            twin = next((n for n, one in enumerate(shown) if _says_same(one, words)), None)
            at = by_file.get(hit.place.file) if per_file else None
            if twin is not None:
                places = dict.fromkeys((*hits[twin].places, *hit.places))
                hits[twin] = replace(hits[twin], places=tuple(places))
            elif at is not None:
                hits[at] = replace(hits[at], num_more=hits[at].num_more + 1)
            elif len(hits) < limit:
                if per_file:
                    by_file[hit.place.file] = len(hits)
                hits.append(hit)
                shown.append(words)
        return [
            replace(hit, sentence=self._get_finder(hit.place.language).find_best_sentence(
                hit.text, hit.matches
            ))
            for hit in hits
        ]  # fmt: skip

    def _build_hit(
        self,
        connection: sqlite3.Connection,
        passage: int,
        score: float,
        similar: Mapping[int, float],
    ) -> tuple[Hit, _HitWords] | None:
        """A passage with its places; None where it is gone since the lists were made."""
        rows = connection.execute(
            "SELECT body, page, start, file_start, passages.title, path, files.content, mtime_ns,"
            " format, language FROM passages JOIN files ON files.content = passages.content"
            " JOIN contents ON contents.id = passages.content WHERE passages.id = ? ORDER BY path",
            (passage,),
        ).fetchall()
        files = [(row, _build_file(row[5:])) for row in rows]
        # Another file may say the same and be none of those that may be found.
        places = tuple(_build_place(file, row[1:5]) for row, file in files if self._filter(file))
        if not places:
            return None
        text = rows[0][0]
        words = frozenset(split_words(text))
        matches = tuple(self._get_finder(places[0].language).find_matches(text, words))
        marked = frozenset(fold(text[start:end]) for start, end in matches)
        hit = Hit(text, round(score, 4), places, matches, None, similar.get(passage))
        return hit, _HitWords(words, marked)

    def _get_finder(self, language: str) -> TermFinder:
        if language not in self._finders:
            self._finders[language] = TermFinder(self.keywords, language)
        return self._finders[language]


def fuse(
    similar: Mapping[int, float],
    by_words: Mapping[int, float],
    by_names: Mapping[int, float],
    mode: Mode = "hybrid",
) -> list[tuple[int, float]]:
    """Passages with their scores, the best first; 1 is the best in every list that was asked.

    Args:
        similar: passages with their cosines, the nearest first.
        by_words: passages in order, with the share of the question that their words cover.
        by_names: passages of files whose name has words of the question, with that share.
        mode: what was asked.
    """
    cosines = list(similar.values())
    scores: dict[int, float] = {}
    if cosines:
        nearest = cosines[0]
        # In a small index the last may be nearly as near as the first: that says little.
        least = cosines[DEPTH - 1] if len(cosines) >= DEPTH else min(cosines[-1], nearest / 2)
        spread = max(nearest - least, 1e-6)
        scores = {passage: 1 - (nearest - one) / spread for passage, one in similar.items()}
    last = min(0.0, *scores.values()) if scores else 0.0
    for passage, share in by_words.items():
        scores[passage] = scores.get(passage, last) + _WORDS_WEIGHT * share
    for passage, share in by_names.items():
        scores[passage] = scores.get(passage, last) + _NAMES_WEIGHT * share**2
    most = {"hybrid": 1 + _WORDS_WEIGHT, "vectors": 1.0, "keywords": _WORDS_WEIGHT}[mode]
    order = sorted(scores.items(), key=lambda pair: -pair[1])  # equal ones stay as they were
    return [(passage, max(0.0, min(1.0, score / most))) for passage, score in order]


def _drop_weak(
    order: Sequence[tuple[int, float]],
    by_words: Mapping[int, float],
    by_names: Mapping[int, float],
    similar: Mapping[int, float],
    min_similarity: float,
) -> list[tuple[int, float]]:
    shares = {passage: min(1.0, share) for passage, share in by_words.items()}
    best, most = max(similar.values(), default=0.0), max(shares.values(), default=0.0)
    least = max(min_similarity, _SIMILARITY_OF_BEST * best)
    far = _FAR * max(min_similarity, best)
    least_words = max(_MIN_WORDS, _WORDS_OF_BEST * most)
    least_words_far = max(_MIN_WORDS_FAR, _WORDS_OF_BEST_FAR * most)

    def is_strong(passage: int) -> bool:
        similarity = similar.get(passage, -1.0)
        if passage in by_names or similarity >= least:
            return True
        return shares.get(passage, 0.0) >= (least_words if similarity >= far else least_words_far)

    return [one for one in order if is_strong(one[0])]


def _join_filters(filters: Filters, query: Query) -> Filters:
    types = list_types(query.types)
    both = tuple(one for one in types if not filters.types or one in filters.types)
    return replace(
        filters, paths=filters.paths + query.paths,
        types=both or (("",) if query.types else filters.types),
        excluded_paths=query.excluded_paths, excluded_types=list_types(query.excluded_types),
    )  # fmt: skip


def list_types(names: Sequence[str]) -> tuple[str, ...]:
    """Formats and endings of types as people name them: `pdf`, `*.txt`, `pictures`."""
    from anyrig.text.formats.picture import FORMATS

    found: list[str] = []
    for name in names:
        name = name.lower().lstrip("*.")
        found += FORMATS if name in ("picture", "image", "pictures", "images") else (name,)
    return tuple(found)


def _build_file(row: Sequence[Any]) -> FileRow:
    path, content, mtime_ns, format, language = row
    return FileRow(path, content, mtime_ns / 1e9, format, language)


def _build_place(file: FileRow, row: Sequence[Any]) -> HitPlace:
    page, start, file_start, title = row
    path = Path(os.fsdecode(file.path))
    return HitPlace(path, page, start, file_start, title, file.format, file.language, file.modified)


def _build_mask(passages: Sequence[int], count: int) -> Mask:
    mask = np.zeros(count, np.bool_)
    rows = np.asarray(passages, np.int64) - 1
    mask[rows[rows < count]] = True
    return mask


def _says_same(one: _HitWords, other: _HitWords) -> bool:
    """Whether two say the same, and the same of what was asked: forms differ by a number."""
    if one.marked != other.marked:
        return False
    sizes = sorted((len(one.words), len(other.words)))
    if sizes[0] < _SAME_WORDS * sizes[1]:  # cannot be: need not be compared
        return False
    common = len(one.words & other.words)
    return common >= _SAME_WORDS * max(1, sum(sizes) - common)


def _list_files(connection: sqlite3.Connection) -> list[FileRow]:
    rows = connection.execute(
        "SELECT path, files.content, mtime_ns, format, language FROM files "
        "JOIN contents ON contents.id = files.content ORDER BY path"
    )
    return list(map(_build_file, rows))


def _take_snapshot(
    connection: sqlite3.Connection, path: Path, previous: IndexSnapshot | None, *, matrix: bool
) -> IndexSnapshot:
    """The present state; the caller's transaction holds it still.

    Ids of contents only grow, so passages with a later one are what is new; rows of passages that
    are gone are zero in the matrix, and not in FTS5 any more.
    """
    fingerprint, model, dimension = db.read_model(connection)
    after = previous.last_content if previous is not None else 0
    new = np.array(
        connection.execute(
            "SELECT id, content FROM passages WHERE content > ?", (after,)
        ).fetchall() or np.zeros((0, 2)), np.int64,
    )  # fmt: skip
    contents = previous.contents if previous is not None else np.zeros(0, np.int64)
    if len(new):
        grown = np.zeros(max(len(contents), int(new[:, 0].max())), np.int64)
        grown[: len(contents)] = contents
        grown[new[:, 0] - 1] = new[:, 1]
        contents = grown
    rows, file = (previous.matrix, previous.matrix_file) if previous is not None else (None, (0, 0))
    if matrix or rows is not None:
        now = vectors.identify_file(path)
        is_mapped = isinstance(rows, np.memmap)
        same_model = previous is not None and previous.fingerprint == fingerprint
        if not (same_model and is_mapped and now == file):
            rows = vectors.open_matrix(connection, path, writing=db.is_locked(path))
            file = now
    return IndexSnapshot(
        db.get_meta(connection, "changed"), fingerprint, model, dimension, contents,
        int(new[:, 1].max(initial=after)), int(np.count_nonzero(contents)),
        tuple(db.list_languages(connection)), bool(db.get_meta(connection, db.INCOMPLETE)),
        rows, file,
    )  # fmt: skip


def _list_notes(
    connection: sqlite3.Connection, snapshot: IndexSnapshot, mode: Mode
) -> tuple[str, ...]:
    if mode == "keywords" or not snapshot.is_incomplete:
        return ()
    count = db.count_missing_vectors(connection)
    have = "passage has" if count == 1 else "passages have"
    return (f"{count:,} {have} no vector yet: run `anyrig index` to the end",)


def _check_model(snapshot: IndexSnapshot, embedder: Vectors | None, path: Path) -> None:
    if embedder is None:
        hint = Message("{mode} needs none.", mode=_KEYWORDS)
        raise InvalidInputError("vectors are needed for this", hint=hint)
    if not snapshot.fingerprint or embedder.model.fingerprint == snapshot.fingerprint:
        return
    if Path(snapshot.model).name == embedder.model.name:
        raise InvalidInputError(
            f"the model {embedder.model.name} has changed since the index {path.stem!r} was made",
            hint=Message(
                "`anyrig index` embeds every passage again; {mode} needs no model.", mode=_KEYWORDS
            ),
        )
    raise InvalidInputError(
        f"the index {path.stem!r} was made with the model {snapshot.model},"
        f" not with {embedder.model.name}",
        hint=Message(
            "Search with {model}, or index again with {other}; {mode} needs no model.",
            model=OptionRef("model", snapshot.model),
            mode=_KEYWORDS,
            other=OptionRef("model", embedder.model.name),
        ),
    )
