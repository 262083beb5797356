"""Files removed for good: from the index, from its bytes, and from what is cached.

Whatever was removed, a file or a folder, is remembered as excluded, and comes back only when a
person includes it again.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anyrig.documents.index import db, vectors
from anyrig.documents.index.db import IndexDatabase
from anyrig.documents.index.plan import resolve_path
from anyrig.documents.reading import digest_file
from anyrig.errors import InvalidInputError, StorageError
from anyrig.results import in_json

log = logging.getLogger(__name__)
DropTexts = Callable[[Sequence[str]], int]
"""Drops the cached vectors of texts for good; how many there were."""
DropSources = Callable[[Sequence[str]], int]
"""Drops what is cached of files for good, by their digests (`reading.digest_file`); how many."""


@dataclass(frozen=True)
class RemovalResult:
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


def remove_files(
    path: Path,
    named: Sequence[Path],
    drop_texts: DropTexts,
    drop_sources: DropSources = lambda _: 0,
) -> RemovalResult:
    """Remove files, or all files of folders, from an index. What other indexes beside it have too
    stays in the cache.
    """
    db.check_exists(path)
    others = [one for one in path.parent.glob(f"*{db.SUFFIX}") if one != path]
    with IndexDatabase(path) as index:
        places = _resolve(index, named)
        completed = index.is_unclean and index.purge()  # of a removal that was killed
        known = index.read(db.list_known)
        found = [one for one in known if db.is_under(one, places)]
        roots, excluded = index.read(db.list_roots), index.read(db.list_excluded)
        for place in places:
            here = any(db.is_under(one, [place]) for one in found)
            if not here and not completed and not db.is_under(place, [*roots, *excluded]):
                raise InvalidInputError(
                    f"{os.fsdecode(place)} is not in the index",
                    hint="`anyrig index --status` shows what is.",
                )
        texts = index.read(lambda c: _list_own_texts(c, found))
        # What is cached first: if this is killed, the same command does the rest.
        num_cached = drop_texts(list(_drop_known(texts, others)))
        num_cached += drop_sources(sorted(_find_sources(known, found, others)))
        gone_roots = [root for root in roots if db.is_under(root, places)]

        def work(connection: sqlite3.Connection) -> None:
            db.set_meta(connection, db.UNCLEAN, "1")
            ids = db.drop_files(connection, found)
            now = time.time()
            connection.executemany(
                "INSERT OR IGNORE INTO excluded VALUES (?, ?)", [(place, now) for place in places]
            )
            connection.executemany(
                "DELETE FROM roots WHERE path = ?", [(root,) for root in gone_roots]
            )
            vectors.erase_rows(path, ids)

        index.write(work)
        return RemovalResult(
            _to_paths(found), len(texts), num_cached, _to_paths(places), _to_paths(gone_roots),
            sum(known[one].content is None for one in found), index.purge(),
        )  # fmt: skip


def include_files(path: Path, named: Sequence[Path]) -> int:
    """Let removed files and folders be indexed again; returns how many of them were excluded."""
    db.check_exists(path)
    with IndexDatabase(path) as index:
        places = _resolve(index, named)

        def work(connection: sqlite3.Connection) -> int:
            excluded = db.list_excluded(connection)
            found = [one for one in excluded if db.is_under(one, places)]
            for place in places:
                above = [one for one in excluded if one not in found and db.is_under(place, [one])]
                if above:
                    raise InvalidInputError(
                        f"{os.fsdecode(place)} is in {os.fsdecode(above[0])}, which was removed",
                        hint="Include that; then remove what is to stay out of it.",
                    )
            connection.executemany("DELETE FROM excluded WHERE path = ?", [(one,) for one in found])
            for one in found:
                if not db.is_under(one, db.list_roots(connection)):
                    db.add_root(connection, one)
            return len(found)

        return index.write(work)


def delete_index(path: Path) -> None:
    """Delete an index with everything in it."""
    db.check_exists(path)
    with db.lock_index(path):
        for suffix in ("", "-wal", "-shm", "-journal", *db.EXTRA_FILES):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def _resolve(index: IndexDatabase, named: Sequence[Path]) -> list[bytes]:
    """Places as the index names them: some were reached through a link within a folder."""
    known = [*index.read(db.list_known), *index.read(db.list_excluded)]
    found = []
    for place in named:
        plain = os.fsencode(os.path.abspath(place.expanduser()))
        linked = any(db.is_under(path, [plain]) for path in known)
        found.append(plain if linked else resolve_path(place))
    return found


def _find_sources(
    known: Mapping[bytes, db.Known], going: Sequence[bytes], others: Iterable[Path]
) -> set[str]:
    """The digests of files that go, but for those of which another indexed file is a copy."""
    staying = known.keys() - set(going)
    sources = {digest for path in going if (digest := _get_source(known[path]))}
    sources -= {_get_source(known[path]) for path in staying if known[path].digest}
    for path in others if sources else ():
        try:
            sources -= db.read_index(path, _list_sources)
        except StorageError as error:  # its pages can be read again; these are to go
            log.warning("the index %s cannot be read: %s", path.stem, error.message)
    return sources


def _list_sources(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT digest FROM contents")
    return {digest.partition(" ")[0] for (digest,) in rows}


def _get_source(file: db.Known) -> str:
    """The digest of a file: as it was indexed, or of one that could not be, as it is now."""
    if file.digest:
        return file.digest.partition(" ")[0]
    try:
        return digest_file(file.stamp.path)
    except OSError:
        return ""


def _list_own_texts(connection: sqlite3.Connection, paths: Sequence[bytes]) -> set[str]:
    """Texts that stand in these files and in no other."""
    going = set(paths)
    texts: set[str] = set()
    staying: list[int] = []
    by_content: dict[int, set[bytes]] = {}
    for content, path in connection.execute("SELECT content, path FROM files"):
        by_content.setdefault(content, set()).add(path)
    for content, there in by_content.items():
        if content is not None and there <= going:
            texts |= set(_list_texts(connection, content))
        elif content is not None:
            staying.append(content)
    for content in staying if texts else ():
        texts.difference_update(_list_texts(connection, content))
    return texts


def _list_texts(connection: sqlite3.Connection, content: int) -> list[str]:
    rows = connection.execute("SELECT body FROM passages WHERE content = ?", (content,))
    return [body for (body,) in rows]


def _drop_known(texts: set[str], others: Iterable[Path]) -> set[str]:
    """The texts that no other index has."""
    left = set(texts)

    def discard_known(connection: sqlite3.Connection) -> None:
        for (body,) in connection.execute("SELECT body FROM passages"):
            left.discard(body)

    for path in others if left else ():
        try:
            db.read_index(path, discard_known)
        except StorageError as error:  # its texts can be embedded again; these are to go
            log.warning("the index %s cannot be read: %s", path.stem, error.message)
    return left


def _to_paths(found: Iterable[bytes]) -> tuple[Path, ...]:
    return tuple(Path(os.fsdecode(path)) for path in found)
