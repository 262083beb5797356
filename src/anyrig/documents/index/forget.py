"""Documents removed for good: from the index, from its file's bytes, and from what is cached.

Whatever was removed, a file or a folder, is remembered as excluded, and comes back only when a
person includes it again.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.documents.index import rows, schema
from anyrig.documents.index.database import UNCLEAN, put, translated
from anyrig.documents.reading import digest_file
from anyrig.errors import InvalidInputError, StorageError
from anyrig.results import in_json

if TYPE_CHECKING:
    from anyrig.documents.index.database import IndexFile

log = logging.getLogger(__name__)
Forget = Callable[[Sequence[str]], int]
"""Drops the kept vectors of texts for good; how many there were."""
ForgetSources = Callable[[Sequence[str]], int]
"""Drops what is cached of files for good, by their digests (`reading.digest_file`); how many."""


@dataclass(frozen=True)
class Removed:
    """What was removed."""

    files: tuple[Path, ...]
    num_texts: int = field(metadata=in_json("passages"))
    """Passages that no other file has."""
    num_cached: int = field(metadata=in_json("kept_vectors"))
    excluded: tuple[Path, ...]
    """What is left out from now on."""
    roots: tuple[Path, ...] = field(metadata=in_json("folders"))
    """Folders that are not indexed any more."""
    num_unread: int = field(default=0, metadata=in_json("unread"))
    """Of the files, those that the index knew as not readable."""
    clean: bool = True
    """Whether no byte of it is left; else another process reads, and its end clears the rest."""


def remove(
    index: IndexFile,
    places: Sequence[bytes],
    *,
    forget: Forget,
    forget_sources: ForgetSources = lambda _: 0,
    others: Iterable[Path] = (),
) -> Removed:
    """Remove files, or all files of folders.

    Args:
        index: is written.
        places: as `plan.whole` names them.
        forget: drops kept vectors.
        forget_sources: drops what is cached of the files.
        others: indexes whose texts keep their vectors, and whose files what is cached of them.
    """
    rest = index.unclean and index.purge()  # of a removal that was killed
    known = index.read(rows.known)
    found = [path for path in known if rows.is_under(path, places)]
    roots, out = index.read(rows.roots), index.read(rows.excluded)
    for place in places:
        here = any(rows.is_under(path, [place]) for path in found)
        if not here and not rest and not rows.is_under(place, [*roots, *out]):
            raise InvalidInputError(
                f"{os.fsdecode(place)} is not in the index",
                hint="`anyrig index --status` shows what is.",
            )
    texts = index.read(lambda c: _only_in(c, found))
    # The kept vectors first: if this is killed, the same command does the rest.
    num_cached = forget(list(_not_in(texts, others)))
    num_cached += forget_sources(sorted(_find_sources(known, found, others)))
    gone_roots = [root for root in roots if rows.is_under(root, places)]

    def work(connection: sqlite3.Connection) -> None:
        put(connection, UNCLEAN, "1")
        rows.drop_files(connection, found)
        for place in places:
            connection.execute("INSERT OR IGNORE INTO excluded VALUES (?, ?)", (place, time.time()))
        for root in gone_roots:
            connection.execute("DELETE FROM roots WHERE path = ?", (root,))

    index.write(work)
    return Removed(
        _paths(found), len(texts), num_cached, _paths(places), _paths(gone_roots),
        sum(known[path].content is None for path in found), index.purge(),
    )  # fmt: skip


def include(index: IndexFile, places: Sequence[bytes]) -> int:
    """Let files and folders be indexed again that were removed; how many rules went."""

    def work(connection: sqlite3.Connection) -> int:
        out = rows.excluded(connection)
        found = [path for path in out if rows.is_under(path, places)]
        for place in places:
            above = [path for path in out if path not in found and rows.is_under(place, [path])]
            if above:
                raise InvalidInputError(
                    f"{os.fsdecode(place)} is in {os.fsdecode(above[0])}, which was removed",
                    hint="Include that; then remove what is to stay out of it.",
                )
        connection.executemany("DELETE FROM excluded WHERE path = ?", [(path,) for path in found])
        for path in found:
            if not rows.is_under(path, rows.roots(connection)):
                rows.add_root(connection, path)
        return len(found)

    return index.write(work)


def _find_sources(
    known: Mapping[bytes, rows.Known], going: Sequence[bytes], others: Iterable[Path]
) -> set[str]:
    """The digests of files that go, but for those of which another indexed file is a copy."""
    staying = known.keys() - set(going)
    sources = {digest for path in going if (digest := _get_source(known[path]))}
    sources -= {_get_source(known[path]) for path in staying if known[path].digest}
    for path in others if sources else ():
        try:
            with translated(path), closing(schema.connect_to_read(path)) as connection:
                there = connection.execute("SELECT digest FROM contents").fetchall()
            sources -= {digest.partition(" ")[0] for (digest,) in there}
        except StorageError as error:  # its pages can be read again; these are to go
            log.warning("what the index %s has is not known: %s", path.stem, error.message)
    return sources


def _get_source(file: rows.Known) -> str:
    """The digest of a file: as it was indexed, or of one that could not be, as it is now."""
    if file.digest:
        return file.digest.partition(" ")[0]
    try:
        return digest_file(file.stamp.path)
    except OSError:
        return ""


def _only_in(connection: sqlite3.Connection, paths: Sequence[bytes]) -> dict[bytes, str]:
    """Texts, by digest, that stand in these files and in no other."""
    going = set(paths)
    found: dict[bytes, str] = {}
    for path in paths:
        for text, digest, body in connection.execute(
            "SELECT DISTINCT texts.id, digest, body FROM files "
            "JOIN passages ON passages.content = files.content "
            "JOIN texts ON texts.id = passages.text WHERE path = ?",
            (path,),
        ).fetchall():
            if digest not in found and _stands_in(connection, text) <= going:
                found[digest] = body
    return found


def _stands_in(connection: sqlite3.Connection, text: int) -> set[bytes]:
    files = connection.execute(
        "SELECT path FROM passages JOIN files ON files.content = passages.content WHERE text = ?",
        (text,),
    )
    return {path for (path,) in files}


def _not_in(texts: dict[bytes, str], others: Iterable[Path]) -> Iterable[str]:
    left = dict(texts)
    for path in others:
        try:
            for digest in _there(path, left):
                del left[digest]
        except StorageError as error:  # its texts can be embedded again; these are to go
            log.warning("what the index %s has is not known: %s", path.stem, error.message)
    return left.values()


def _there(path: Path, digests: Iterable[bytes]) -> list[bytes]:
    """Those of the texts that an index has."""
    with translated(path):
        connection = schema.connect_to_read(path)
        try:
            ask = "SELECT 1 FROM texts WHERE digest = ?"
            return [one for one in digests if connection.execute(ask, (one,)).fetchone()]
        finally:
            connection.close()


def _paths(found: Iterable[bytes]) -> tuple[Path, ...]:
    return tuple(Path(os.fsdecode(path)) for path in found)
