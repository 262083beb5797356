"""What is written into an index, and what it knows; each function is part of a transaction."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from anyrig.documents.index.database import count, get, put
from anyrig.documents.index.words import spaced
from anyrig.documents.passages import Passage
from anyrig.errors import dump_message, load_message

_ASK = 500
_PENDING = "pending"
Connection = sqlite3.Connection


class Stamp(NamedTuple):
    """A file as the disk has it."""

    path: bytes
    size: int
    mtime_ns: int

    @property
    def file(self) -> Path:
        """Its path."""
        return Path(os.fsdecode(self.path))


class Known(NamedTuple):
    """A file as the index has it."""

    stamp: Stamp
    seen: float
    """When the stamp was taken, in seconds since 1970."""
    content: int | None
    error: str
    hint: str
    digest: str = ""
    num_ocr: int = 0
    num_unread: int = 0


@dataclass(frozen=True)
class Content:
    """What a file says, without its name and place."""

    digest: str
    """Of its bytes, and of the way they were read."""
    format: str
    language: str
    title: str
    num_pages: int
    num_ocr: int
    """Pages whose text was read off a picture."""
    num_unread: int
    """Pages that have no text because their pictures were not read."""
    passages: tuple[Passage, ...]
    warnings: tuple[str, ...] = ()


def text_digest(text: str) -> bytes:
    """The name of a text, whatever file it stands in."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


# -- what is known ---------------------------------------------------------------------------------


def known(connection: sqlite3.Connection) -> dict[bytes, Known]:
    """Every file of the index by its path."""
    rows = connection.execute(
        "SELECT path, size, mtime_ns, seen, content, error, hint, digest, num_ocr, num_unread "
        "FROM files LEFT JOIN contents ON contents.id = files.content"
    )
    return {
        row[0]: Known(
            Stamp(*row[:3]),
            row[3],
            row[4],
            load_message(row[5]),
            load_message(row[6]),
            row[7] or "",
            row[8] or 0,
            row[9] or 0,
        )
        for row in rows
    }


def roots(connection: sqlite3.Connection) -> list[bytes]:
    """The folders and files that were asked for."""
    return [path for (path,) in connection.execute("SELECT path FROM roots ORDER BY path")]


def excluded(connection: sqlite3.Connection) -> list[bytes]:
    """What was removed for good, and is not to come back by itself."""
    return [path for (path,) in connection.execute("SELECT path FROM excluded ORDER BY path")]


def set_pending(connection: sqlite3.Connection, num_files: int, seen: float) -> None:
    """Note how many files a run is about to bring in."""
    put(connection, _PENDING, f"{num_files} {seen!r}")


def clear_pending(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE name = ?", (_PENDING,))


def has_pending(connection: sqlite3.Connection) -> bool:
    """Whether a run is noted that has not been finished."""
    return bool(get(connection, _PENDING))


def count_pending(connection: sqlite3.Connection) -> int:
    """Files that the last run has found and not finished."""
    num_files, _, seen = get(connection, _PENDING).partition(" ")
    if not num_files:
        return 0
    query = "SELECT count(*) FROM files WHERE seen >= ?"
    ((num_done,),) = connection.execute(query, (float(seen),)).fetchall()
    return max(0, int(num_files) - int(num_done))


def is_under(path: bytes, folders: Iterable[bytes]) -> bool:
    """Whether a path is one of the folders or files, or lies in one of them."""
    separator = os.sep.encode()
    return any(path == one or path.startswith(one.rstrip(separator) + separator) for one in folders)


def content_of(connection: sqlite3.Connection, digest: str) -> int | None:
    """The content of a digest, if a file with it was read before."""
    row = connection.execute("SELECT id FROM contents WHERE digest = ?", (digest,)).fetchone()
    return int(row[0]) if row else None


def vectors_of(connection: sqlite3.Connection, digests: Sequence[bytes]) -> dict[bytes, bytes]:
    """Those of the texts whose vectors are there, by digest."""
    found: dict[bytes, bytes] = {}
    for start in range(0, len(digests), _ASK):
        some = digests[start : start + _ASK]
        marks = ",".join("?" * len(some))
        found |= dict(
            connection.execute(
                "SELECT digest, data FROM texts JOIN vectors ON vectors.text = texts.id "
                f"WHERE digest IN ({marks})",
                some,
            )
        )
    return found


def without_vectors(connection: sqlite3.Connection, after: int, most: int) -> list[tuple[int, str]]:
    """Texts whose vectors are still to be made, in order: after a change of the model."""
    return connection.execute(
        "SELECT id, body FROM texts WHERE id > ? AND id NOT IN (SELECT text FROM vectors) "
        "ORDER BY id LIMIT ?",
        (after, most),
    ).fetchall()


# -- the model -------------------------------------------------------------------------------------


def model(connection: sqlite3.Connection) -> tuple[str, str, int]:
    """Fingerprint, name and dimension of the model whose vectors are in it; empty before any."""
    fingerprint = get(connection, "fingerprint")
    return fingerprint, get(connection, "model"), int(get(connection, "dimension", "0"))


def set_model(connection: sqlite3.Connection, fingerprint: str, name: str, dimension: int) -> None:
    """From now on the vectors are this model's; those of another are dropped."""
    if get(connection, "fingerprint") != fingerprint:
        connection.execute("DELETE FROM vectors")
        count(connection, "removed")
    put(connection, "fingerprint", fingerprint)
    put(connection, "model", name)
    put(connection, "dimension", str(dimension))


def put_vectors(connection: sqlite3.Connection, pairs: Iterable[tuple[int, bytes]]) -> None:
    """Keep vectors of texts that have none; a text that is gone meanwhile gets none."""
    connection.executemany(
        "INSERT OR IGNORE INTO vectors SELECT id, ?2 FROM texts WHERE id = ?1", pairs
    )


# -- files -----------------------------------------------------------------------------------------


def add_root(connection: sqlite3.Connection, path: bytes) -> None:
    """A folder that is looked through from now on."""
    connection.execute("INSERT OR IGNORE INTO roots VALUES (?, ?)", (path, time.time()))


def put_error(
    connection: sqlite3.Connection, stamp: Stamp, seen: float, error: str, hint: str
) -> None:
    """A file that could not be read; what it said before is not what it says now."""
    _put_file(connection, stamp, seen, None, error, hint)


def put_link(connection: sqlite3.Connection, stamp: Stamp, seen: float, digest: str) -> bool:
    """A file whose content is known; False where it is not any more."""
    content = content_of(connection, digest)
    if content is None:
        return False
    _put_file(connection, stamp, seen, content, "", "")
    return True


def put_content(
    connection: sqlite3.Connection,
    stamp: Stamp,
    seen: float,
    content: Content,
    vectors: Mapping[bytes, bytes],
) -> None:
    """A file with all that it says; nothing is put twice, whoever was faster.

    Args:
        connection: within a transaction.
        stamp: the file.
        seen: when the stamp was taken.
        content: what it says.
        vectors: of its passages, by the digests of their texts.
    """
    number = content_of(connection, content.digest)
    if number is None:
        number = _put_contents(connection, content)
        rows = [
            (number, one.number, _put_text(connection, one.text, vectors), one.page, one.start,
             one.file_start, one.title)
            for one in content.passages
        ]  # fmt: skip
        connection.executemany("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    _put_file(connection, stamp, seen, number, "", "")


def drop_files(connection: sqlite3.Connection, paths: Iterable[bytes]) -> int:
    """Forget files, and whatever no other file says; how many there were."""
    dropped, contents = 0, set()
    for path in paths:
        row = connection.execute("SELECT content FROM files WHERE path = ?", (path,)).fetchone()
        if row is not None:
            connection.execute("DELETE FROM files WHERE path = ?", (path,))
            contents.add(row[0])
            dropped += 1
    for content in contents - {None}:
        drop_unused(connection, content)
    return dropped


def drop_unused(connection: sqlite3.Connection, content: int) -> None:
    """Drop a content that no file has, and those of its texts that stand nowhere else."""
    if connection.execute("SELECT 1 FROM files WHERE content = ?", (content,)).fetchone():
        return
    texts = connection.execute("SELECT DISTINCT text FROM passages WHERE content = ?", (content,))
    numbers = [number for (number,) in texts]
    connection.execute("DELETE FROM passages WHERE content = ?", (content,))
    connection.execute("DELETE FROM contents WHERE id = ?", (content,))
    num_dropped = sum(_drop_text(connection, number) for number in numbers)
    if num_dropped:
        count(connection, "removed")


def bodies(connection: sqlite3.Connection, paths: Iterable[bytes]) -> Iterator[str]:
    """The texts of some files, each as often as it stands there."""
    for path in paths:
        rows = connection.execute(
            "SELECT body FROM files JOIN passages ON passages.content = files.content "
            "JOIN texts ON texts.id = passages.text WHERE path = ?",
            (path,),
        )
        yield from (body for (body,) in rows)


def _put_file(
    connection: sqlite3.Connection,
    stamp: Stamp,
    seen: float,
    content: int | None,
    error: str,
    hint: str,
) -> None:
    before = connection.execute(
        "SELECT content FROM files WHERE path = ?", (stamp.path,)
    ).fetchone()
    connection.execute(
        "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)",
        (stamp.path, stamp.size, stamp.mtime_ns, seen, content, _dump(error), _dump(hint)),
    )
    if before is not None and before[0] is not None and before[0] != content:
        drop_unused(connection, before[0])


def _put_contents(connection: sqlite3.Connection, content: Content) -> int:
    cursor = connection.execute(
        "INSERT INTO contents (digest, format, language, title, num_pages, num_ocr, num_unread,"
        " num_passages, warnings) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (content.digest, content.format, content.language, _plain(content.title),
         content.num_pages, content.num_ocr, content.num_unread, len(content.passages),
         json.dumps([_plain(one) for one in content.warnings])),
    )  # fmt: skip
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _put_text(connection: sqlite3.Connection, text: str, vectors: Mapping[bytes, bytes]) -> int:
    digest = text_digest(text)
    row = connection.execute("SELECT id FROM texts WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        cursor = connection.execute(
            "INSERT INTO texts (digest, body) VALUES (?, ?)", (digest, text)
        )
        assert cursor.lastrowid is not None
        row = (cursor.lastrowid,)
        connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (row[0], spaced(text)))
    if digest in vectors:
        put_vectors(connection, [(row[0], vectors[digest])])
    return int(row[0])


def _drop_text(connection: sqlite3.Connection, number: int) -> bool:
    if connection.execute("SELECT 1 FROM passages WHERE text = ?", (number,)).fetchone():
        return False
    ((body,),) = connection.execute("SELECT body FROM texts WHERE id = ?", (number,)).fetchall()
    connection.execute(
        "INSERT INTO words (words, rowid, body) VALUES ('delete', ?, ?)", (number, spaced(body))
    )
    connection.execute("DELETE FROM vectors WHERE text = ?", (number,))
    connection.execute("DELETE FROM texts WHERE id = ?", (number,))
    return True


def _dump(text: str) -> str:
    return _plain(dump_message(text))


def _plain(text: str) -> str:
    """Without lone surrogates, which SQLite's text has no place for."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
