"""What changed is read again, what moved is kept, what is gone is forgotten; nothing is twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from anyrig.documents.index import db
from anyrig.documents.index.db import IndexDatabase, lock_index
from anyrig.documents.index.files import resolve_folders
from anyrig.documents.index.progress import IndexProgress
from anyrig.documents.index.status import read_status
from anyrig.documents.index.update import update_index, watch_index
from anyrig.errors import InvalidInputError, StorageError, render
from tests.documents.index.bag import Bag
from tests.documents.index.folder import (
    ALICE,
    TextReader,
    aged,
    contents,
    index,
    search,
    write,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "docs"
    write(
        made,
        {
            "alice.txt": ALICE[:6000],
            "deep/er/queen.txt": ALICE[20_000:24_000],
            "note.md": "A short note on rabbits.",
        },
    )
    return made


def test_a_second_run_asks_for_nothing(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    first = index(path, folder, bag)
    assert (first.num_new, first.failed) == (3, [])
    assert first.num_passages == first.num_embedded == len(bag.asked) > 8
    before = contents(path)
    second = index(path, folder, bag)
    assert (second.num_same, second.num_new, second.any) == (3, 0, False)
    assert len(bag.asked) == first.num_embedded
    assert contents(path) == before


def test_an_interrupted_run_is_in_the_status_until_one_is_finished(
    folder: Path, tmp_path: Path
) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    seen: list[tuple[int, int, bool]] = []

    def interrupt(now: IndexProgress) -> None:
        if now.num_passages:  # within the first file: none is in the index
            found = read_status(path)
            seen.append((found.num_files, found.num_pending, found.indexing))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index(path, folder, bag, on_progress=interrupt)
    assert seen == [(0, 3, True)]
    found = read_status(path)
    assert (found.num_files, found.num_pending, found.indexing) == (0, 3, False)
    index(path, folder, bag)
    found = read_status(path)
    assert (found.num_files, found.num_pending, found.indexing) == (3, 0, False)


def test_only_what_changed_is_embedded(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    index(path, folder, bag)
    before = len(bag.asked)
    text = (folder / "alice.txt").read_text() + "\n\nAnd then something quite different happened."
    write(folder, {"alice.txt": text, "new.txt": "New words, never heard before."})
    done = index(path, folder, bag)
    assert (done.num_changed, done.num_new, done.num_same) == (1, 1, 2)
    assert 2 <= len(bag.asked) - before <= 3, "a new file, and the end of the changed one"
    fresh = tmp_path / "fresh.sqlite"
    index(fresh, folder, Bag())
    assert contents(path) == contents(fresh)


def test_a_moved_file_keeps_its_vectors(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    index(path, folder, bag)
    before = len(bag.asked)
    (folder / "other").mkdir()
    (folder / "alice.txt").rename(folder / "other" / "renamed.txt")
    done = index(path, folder, bag)
    assert (done.num_moved, done.num_gone, done.num_passages) == (1, 1, 0)
    assert len(bag.asked) == before
    files = [Path(os.fsdecode(row[0])).name for row in contents(path)["files"]]
    assert sorted(files) == ["note.md", "queen.txt", "renamed.txt"]


def test_equal_passages_are_embedded_and_kept_once(tmp_path: Path) -> None:
    folder, path, bag = tmp_path / "docs", tmp_path / "i.sqlite", Bag()
    same = ALICE[:3000]
    write(folder, {"a.txt": same, "b.txt": same, "c.txt": f"{same}\n\nwith another end"})
    done = index(path, folder, bag)
    assert done.num_new + done.num_moved == 3
    assert len(bag.asked) == len(set(bag.asked)) == 5
    assert contents(path)["contents"] == 2, "two files are one content"


def test_what_is_gone_is_forgotten(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    index(path, folder, bag)
    (folder / "alice.txt").unlink()
    assert index(path, folder, bag).num_gone == 1
    fresh = tmp_path / "fresh.sqlite"
    index(fresh, folder, Bag())
    assert contents(path) == contents(fresh)


def test_a_folder_that_is_not_there_loses_nothing(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    index(path, folder, bag)
    folder.rename(tmp_path / "unplugged")
    done = update_index(path, [], bag, TextReader())
    assert done.num_gone == 0
    assert "cannot be read" in done.warnings[0]
    assert read_status(path).num_files == 3
    with pytest.raises(InvalidInputError, match="no such file or folder"):
        index(path, folder, bag)


def test_files_of_other_types_are_not_taken_for_deleted(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    index(path, folder, bag)
    (folder / "alice.txt").unlink()
    some = TextReader(types=["md"])
    done = update_index(path, resolve_folders([folder]), bag, some)
    assert (done.num_gone, done.num_same) == (1, 1)
    assert read_status(path).num_files == 2


def test_errors_are_kept_and_tried_again_when_the_file_changes(
    folder: Path, tmp_path: Path
) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    bad = folder / "bad.txt"
    bad.write_bytes(b"\xff\xfe broken \xff")
    aged(bad)
    done = index(path, folder, bag)
    assert [one.file.name for one in done.failed] == ["bad.txt"]
    assert done.num_new == 3
    assert [one.file.name for one in read_status(path).troubles] == ["bad.txt"]
    again = index(path, folder, bag)
    assert (again.failed, [one.file.name for one in again.old_failed]) == ([], ["bad.txt"])
    assert [one.file.name for one in index(path, folder, bag, retry=True).failed] == ["bad.txt"]
    write(folder, {"bad.txt": "It is mended."})
    assert index(path, folder, bag).num_changed == 1
    assert read_status(path).troubles == ()


def test_a_text_that_cannot_be_embedded_costs_its_own_file(tmp_path: Path) -> None:
    folder, path = tmp_path / "docs", tmp_path / "i.sqlite"
    write(folder, {f"{n:02}.txt": f"Text number {n} says {n * n}." for n in range(30)})
    write(folder, {"12.txt": "This is poison for the model.", "20.txt": "poison too"})
    done = index(path, folder, Bag(bad="poison"))
    assert sorted(one.file.name for one in done.failed) == ["12.txt", "20.txt"]
    assert done.num_new == 28
    assert contents(path)["passages"] == 28
    mended = index(path, folder, Bag(), retry=True)
    assert (mended.num_changed, mended.failed) == (2, [])


def test_a_file_changed_within_the_clocks_tick_is_seen(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    note = folder / "note.md"
    note.write_text("one")
    index(path, folder, bag)
    state = note.stat()
    note.write_text("two")  # as long as before
    os.utime(note, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert index(path, folder, bag).num_changed == 1


def test_another_model_embeds_everything_anew(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "i.sqlite"
    index(path, folder, Bag())
    other = Bag("other", 32)
    with pytest.raises(InvalidInputError, match="was made with the model bag") as refused:
        search(path, "rabbit", other)
    assert "--model bag" in render(refused.value.hint, "command")
    done = index(path, folder, other)
    assert done.num_same == 3
    assert done.num_embedded == contents(path)["passages"] == len(other.asked)
    assert search(path, "rabbit", other).hits
    assert index(path, folder, other).num_embedded == 0


def test_a_change_of_the_model_that_was_cut_off_goes_on(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "i.sqlite"
    index(path, folder, Bag())
    other = Bag("other", 32)
    with IndexDatabase(path) as file:
        file.write(lambda c: db.set_model(c, other.model.fingerprint, "other", 32))
    answer = search(path, "rabbits", other)
    assert "have no vector yet" in answer.notes[0]
    assert answer.hits, "words are still found"
    index(path, folder, other)
    fresh = tmp_path / "fresh.sqlite"
    index(fresh, folder, Bag("other", 32))
    assert contents(path) == contents(fresh)


def test_two_at_once_are_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "i.sqlite"
    with lock_index(path), pytest.raises(StorageError, match="another process is updating"):
        index(path, folder, Bag())
    assert index(path, folder, Bag()).num_new == 3


class Between(threading.Event):
    """Waits for nothing, and does one thing before each look; then it is set."""

    def __init__(self, *actions: Callable[[], object]) -> None:
        super().__init__()
        self.left = list(actions)

    def wait(self, timeout: float | None = None) -> bool:
        if not self.left:
            return True
        self.left.pop(0)()
        return False


def test_watching_takes_what_changes_and_waits_for_what_is_written(tmp_path: Path) -> None:
    folder, path, bag = tmp_path / "docs", tmp_path / "i.sqlite", Bag()
    write(folder, {"a.txt": "The first file."})

    def grow() -> None:
        with (folder / "b.txt").open("a") as file:
            file.write(f"part {4 - len(looks.left)} ")

    looks = Between(grow, grow, grow, lambda: None, (folder / "a.txt").unlink)
    roots, reader = resolve_folders([folder]), TextReader()
    watching = watch_index(path, roots, bag, reader, stop=looks, interval_s=0.1)
    assert next(watching).num_new == 1
    assert len(looks.left) == 5
    assert next(watching).num_new == 1
    assert len(looks.left) == 1, "a file that grows is not taken before it is finished"
    answer = search(path, "part 2", bag, mode="keywords")
    assert [hit.place.file.name for hit in answer.hits] == ["b.txt"]
    assert next(watching).num_gone == 1
    assert not list(watching)
    assert not search(path, "first", bag, mode="keywords").hits
