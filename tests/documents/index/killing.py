"""Kills an indexing process at many statements of SQL, and looks at what is left each time.

    python killing.py FOLDER SEED COUNT

A process of its own, as it forks: whoever tests may have threads. Each child brings a copy of an
older index up to date, with a new model as well, and kills itself with SIGKILL at a statement drawn
at random, in the middle of a transaction mostly. The next child goes on, and may be killed as well.
What the last one leaves must be what a run leaves that was never killed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from anyrig.text.language import detect
from tests.documents.index.bag import Bag
from tests.documents.index.folder import ALICE, contents, index, write

_connect = sqlite3.connect


def main(folder: Path, seed: int, count: int) -> None:
    dice = random.Random(seed)
    detect("Loaded here once, else by every child.", thorough=True)
    detect("zzz qqq xxx yyy www")
    docs, old = folder / "docs", folder / "old.sqlite"
    write(docs, {f"{n}.txt": ALICE[n * 700 : n * 700 + 2500] for n in range(12)})
    _run(lambda: index(old, docs, Bag()), 0)
    _change(docs)
    for bag in (Bag(), Bag("other", 32)):
        _survive(folder, docs, old, bag, dice, count)


def _survive(
    folder: Path, docs: Path, old: Path, bag: Bag, dice: random.Random, count: int
) -> None:
    name = bag.model.name
    clean = folder / f"{name}-clean.sqlite"
    shutil.copy(old, clean)
    total = _run(partial(index, clean, docs, bag), 0)
    wanted = contents(clean)
    assert wanted["files"] != contents(old)["files"]
    for number in range(count):
        path = folder / f"{name}-{number}.sqlite"
        if number % 3:
            shutil.copy(old, path)
        num_kills = 0
        while _run(partial(index, path, docs, bag), _drawn(dice, total, num_kills)) < 0:
            num_kills += 1
            if path.exists() and path.stat().st_size:
                _whole(path)
        assert contents(path) == wanted, f"{number}: killed {num_kills} times"
        path.unlink()
    print(f"{name}: {count} indexes survived, {total} statements")


def _drawn(dice: random.Random, total: int, num_kills: int) -> int:
    return dice.randint(1, total) if num_kills < 3 else 0


def _change(docs: Path) -> None:
    write(docs, {"0.txt": "All new. " * 30, "1.txt": ALICE[700:3400], "new.txt": ALICE[:9000]})
    (docs / "2.txt").rename(docs / "moved.txt")
    (docs / "3.txt").unlink()
    shutil.copy(docs / "4.txt", docs / "twin.txt")
    (docs / "broken.txt").write_bytes(b"\xff\xfe\xff")


def _run(work: Callable[[], object], kill_at: int) -> int:
    """The number of statements of a child that did it; -1 of one that was killed."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        _child(work, kill_at, send)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        told = pipe.read()
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        assert os.WTERMSIG(ended) == signal.SIGKILL
        return -1
    assert os.WEXITSTATUS(ended) == 0, "the child failed"
    return int(told)


def _child(work: Callable[[], object], kill_at: int, send: int) -> None:
    num = 0

    def count(_: str) -> None:
        nonlocal num
        num += 1
        if num == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(*args, **options):  # type: ignore[no-untyped-def]
        connection = _connect(*args, **options)
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = connect
    try:
        work()
        os.write(send, b"%d" % num)
        os._exit(0)
    finally:
        import traceback

        traceback.print_exc()
        os._exit(1)


def _whole(path: Path) -> None:
    """What a kill leaves is an index: whole files, each once; only vectors may be on their way."""
    connection = sqlite3.connect(path)
    try:
        ask = connection.execute
        assert ask("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not ask("PRAGMA user_version").fetchall()[0][0]:
            return
        assert not ask(
            "SELECT id FROM contents WHERE num_passages != "
            "(SELECT count(*) FROM passages WHERE content = contents.id)"
        ).fetchall()
        assert not ask("SELECT passage FROM vectors EXCEPT SELECT id FROM passages").fetchall()
        assert not ask("SELECT id FROM passages EXCEPT SELECT rowid FROM words").fetchall()
        assert not ask("SELECT id FROM contents EXCEPT SELECT content FROM files").fetchall()
    finally:
        connection.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
