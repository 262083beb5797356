"""A folder of texts, an index of it, and all that is in the index, for comparison."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from anyrig.documents.index import folders
from anyrig.documents.index.plan import Found
from anyrig.documents.index.search import Answer, Searcher
from anyrig.documents.index.update import Indexed, Ways
from anyrig.documents.protocol import Vectors
from anyrig.documents.reading import Unread
from anyrig.text.document import Document
from tests.text.page_reading import build_document

ALICE = (Path(__file__).parents[2] / "texts" / "alice.txt").read_text(encoding="utf-8")


def read_texts(paths: Iterable[Path]) -> Iterator[Document | Unread]:
    """Text files as they are, in this process: most tests here are not about reading."""
    for path in paths:
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            yield Unread(path, f"{path.name} cannot be read: {error}", "Mend it.")
            continue
        parts = text.split("\f")
        yield build_document(*parts, path=path, numbered=len(parts) > 1)


def look(root: Path) -> Found:
    return folders.build_look()(root)


def ways(**more: Any) -> Ways:
    return Ways(look, read_texts, **more)


def index(path: Path, folder: Path, vectors: Vectors, **more: Any) -> Indexed:
    options = {name: more.pop(name) for name in ("retry", "how") if name in more}
    return folders.index_folders(
        path, folders.resolve_folders([folder]), vectors, ways(**options), **more
    )


def search(path: Path, question: str, vectors: Vectors | None, **more: Any) -> Answer:
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
            "SELECT path, size, error, digest FROM files LEFT JOIN contents ON id = content"
        ).fetchall()
        passages = ask(
            "SELECT contents.digest, number, texts.digest, body, page, start, file_start, data "
            "FROM passages JOIN contents ON contents.id = passages.content "
            "JOIN texts ON texts.id = passages.text JOIN vectors ON vectors.text = texts.id"
        ).fetchall()
        counts = {name: ask(f"SELECT count(*) FROM {name}").fetchall()[0][0]
                  for name in ("passages", "texts", "vectors", "contents")}  # fmt: skip
        assert counts["passages"] == len(passages), "every passage has its text and its vector"
        assert counts["texts"] == counts["vectors"] == len({row[2] for row in passages})
        assert counts["contents"] == len({row[3] for row in files} - {None})
        # Every text is found by its words, and no word leads to a text that is gone.
        words = ask("SELECT term, doc FROM frequencies ORDER BY term").fetchall()
        assert not ask("SELECT id FROM texts EXCEPT SELECT rowid FROM words").fetchall()
        return {"files": sorted(files), "passages": sorted(passages), "words": words, **counts}
    finally:
        connection.close()
