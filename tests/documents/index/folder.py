"""A folder of texts, an index of it, and all that is in the index, for comparison."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anyrig.documents.index.content import Content, build_content
from anyrig.documents.index.files import FolderReader, resolve_folders
from anyrig.documents.index.search import Searcher, SearchResult
from anyrig.documents.index.update import IndexChanges, update_index
from anyrig.documents.index.vectors import get_vector_file, open_matrix
from anyrig.documents.protocol import Vectors
from anyrig.errors import InvalidInputError
from anyrig.text.document import Document
from anyrig.text.sandbox import ReadError
from tests.text.page_reading import build_document

ALICE = (Path(__file__).parents[2] / "texts" / "alice.txt").read_text(encoding="utf-8")


def read_texts(paths: Iterable[Path]) -> Iterator[Document | ReadError]:
    """Text files as they are, in this process: most tests here are not about reading."""
    for path in paths:
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            yield ReadError(
                path, InvalidInputError(f"{path.name} cannot be read: {error}", hint="Fix it.")
            )
            continue
        parts = text.split("\f")
        yield build_document(*parts, path=path, numbered=len(parts) > 1)


class TextReader(FolderReader):
    def __init__(
        self, *, how: str = "auto", retry: bool = False, types: Sequence[str] = ()
    ) -> None:
        super().__init__(retry=retry, types=types)
        self.how = how

    def read_documents(
        self, paths: Iterable[Path], *, use_ocr: bool = True
    ) -> Iterator[Document | ReadError]:
        return read_texts(paths)

    def read(self, paths: Iterable[Path]) -> Iterator[Content | ReadError]:
        for document in read_texts(paths):
            yield document if isinstance(document, ReadError) else build_content(document)


def index(path: Path, folder: Path, vectors: Vectors, **more: Any) -> IndexChanges:
    options = {name: more.pop(name) for name in ("retry", "how") if name in more}
    return update_index(path, resolve_folders([folder]), vectors, TextReader(**options), **more)


def search(path: Path, question: str, vectors: Vectors | None, **more: Any) -> SearchResult:
    with Searcher(path) as searcher:
        return searcher.search(question, vectors, **more)


def aged(path: Path, seconds: float = 100.0) -> None:
    """As if it had been written a while ago: a fresh file is looked into again."""
    state = path.stat()
    os.utime(path, (state.st_atime - seconds, state.st_mtime - seconds))


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        aged(path)


def contents(path: Path) -> dict[str, Any]:
    """All that an index holds, without the numbers of rows; and that all of it fits together."""
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        ask = connection.execute
        files = ask(
            "SELECT path, size, error, digest FROM files "
            "LEFT JOIN contents ON contents.id = content"
        ).fetchall()
        passages = ask(
            "SELECT contents.digest, number, body, stems, page, start, file_start, data "
            "FROM passages JOIN contents ON contents.id = passages.content "
            "JOIN vectors ON vectors.passage = passages.id"
        ).fetchall()
        counts = {name: ask(f"SELECT count(*) FROM {name}").fetchall()[0][0]
                  for name in ("passages", "vectors", "contents")}  # fmt: skip
        assert counts["passages"] == counts["vectors"] == len(passages), "each has its vector"
        assert counts["contents"] == len({row[3] for row in files} - {None})
        # Every passage is found by its words, and no word leads to one that is gone.
        words = ask("SELECT term, doc FROM frequencies ORDER BY term").fetchall()
        assert not ask("SELECT id FROM passages EXCEPT SELECT rowid FROM words").fetchall()
        assert not ask("SELECT rowid FROM names EXCEPT SELECT id FROM files").fetchall()
        _check_vector_file(connection, path)
        return {"files": sorted(files), "passages": sorted(passages), "words": words, **counts}
    finally:
        connection.close()


def _check_vector_file(connection: sqlite3.Connection, path: Path) -> None:
    """The file of the vectors has those of SQLite, and zeroes elsewhere."""
    with_file = open_matrix(connection, path, writing=False)
    get_vector_file(path).rename(path.with_name("aside"))
    without = open_matrix(connection, path, writing=False)
    path.with_name("aside").rename(get_vector_file(path))
    assert isinstance(with_file, np.memmap) or not len(with_file)
    assert np.array_equal(with_file[: len(without)], without)
    assert not with_file[len(without) :].any()
