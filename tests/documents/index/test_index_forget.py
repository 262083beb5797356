"""A document is removed for good: from the index, from its bytes, from the kept vectors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from anyrig.documents.index.files import FolderReader
from anyrig.documents.index.remove import include_files, remove_files
from anyrig.documents.index.search import Searcher
from anyrig.documents.index.status import read_status
from anyrig.documents.index.update import update_index
from anyrig.documents.index.vectors import get_vector_file
from anyrig.documents.vector_cache import CachedEmbedder, VectorCache
from anyrig.errors import InvalidInputError
from anyrig.storage.cache import ResultCache
from tests.documents.index.bag import Bag
from tests.documents.index.folder import ALICE, TextReader, contents, index, search, write

SECRET = "Zyxomma and Quokkaberg signed the wrexham covenant at midnight."


def nothing(texts: Sequence[str]) -> int:
    return 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "docs"
    write(made, {f"{n}.txt": ALICE[n * 1500 : n * 1500 + 3000] for n in range(20)})
    filler = "\n\n".join(f"{SECRET} Clause {n} of the zyxomma paper." * 4 for n in range(30))
    write(made, {"secret.txt": filler, "sub/other.txt": "Harmless words."})
    return made


def _found(folder: Path, needles: Sequence[str]) -> list[tuple[str, str]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [
        (path.name, needle)
        for path in files
        for needle in needles
        if needle.lower().encode() in path.read_bytes().lower()
    ]


def test_no_byte_of_a_removed_document_is_left(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "indexes" / "i.sqlite", Bag()
    needles = ("zyxomma", "quokkaberg", "wrexham covenant", "quokka", "wrexham")
    index(path, folder, bag)
    secrets = [text for text in bag.asked if "zyxomma" in text]
    vector = bag.vector(secrets[0]).tobytes()
    assert vector in path.read_bytes() + get_vector_file(path).read_bytes()
    assert len({name for name, _ in _found(path.parent, needles)}) >= 1
    with Searcher(path) as searcher:  # one that reads now and then does not keep the log
        assert searcher.search("quokkaberg covenant", bag).hits
        removed = remove_files(path, [folder / "secret.txt"], nothing)
        assert removed.clean
        assert [one.name for one in removed.files] == ["secret.txt"]
        assert removed.num_texts > 5
        assert _found(path.parent, needles) == []
        assert vector not in path.read_bytes() + get_vector_file(path).read_bytes()
        assert not searcher.search("quokkaberg", bag, mode="keywords").hits
    fresh = tmp_path / "fresh.sqlite"
    (folder / "secret.txt").unlink()
    index(fresh, folder, Bag())
    assert contents(path) == contents(fresh)


def test_what_was_removed_stays_out_until_it_is_included(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    index(path, folder, bag)
    remove_files(path, [folder / "secret.txt"], nothing)
    done = index(path, folder, bag)
    assert (done.num_new, done.num_excluded) == (0, 1)
    assert [one.name for one in read_status(path).excluded] == ["secret.txt"]
    assert include_files(path, [folder / "secret.txt"]) == 1
    assert index(path, folder, bag).num_new == 1
    assert search(path, "quokkaberg", bag, mode="keywords").hits


def test_a_folder_is_removed(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    index(path, folder, bag)
    removed = remove_files(path, [folder / "sub"], nothing)
    assert [one.name for one in removed.files] == ["other.txt"]
    write(folder, {"sub/later.txt": "A later file in a folder that is out."})
    assert index(path, folder, bag).num_excluded == 2
    whole = remove_files(path, [folder], nothing)
    assert whole.roots == (folder.resolve(),)
    assert contents(path)["passages"] == 0
    with pytest.raises(InvalidInputError, match="no folder yet"):
        update_index(path, [], bag, FolderReader())


def test_what_is_in_no_index_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "i.sqlite"
    index(path, folder, Bag())
    with pytest.raises(InvalidInputError, match="is not in the index"):
        remove_files(path, [tmp_path / "elsewhere.txt"], nothing)
    with pytest.raises(InvalidInputError, match="there is no index"):
        remove_files(tmp_path / "none.sqlite", [folder], nothing)


def test_kept_vectors_go_unless_another_document_needs_them(folder: Path, tmp_path: Path) -> None:
    shared = "These words stand in two documents, and their vector is needed still."
    elsewhere = "These words stand in another index too."
    write(folder, {"secret.txt": f"{SECRET}\f{shared}\f{elsewhere}", "keeps.txt": shared})
    write(tmp_path / "more", {"a.txt": elsewhere})
    path = tmp_path / "indexes" / "i.sqlite"
    with ResultCache(tmp_path / "results.sqlite") as store:
        bag = Bag()
        cache = VectorCache(store, bag.model)
        vectors = CachedEmbedder(bag, cache)
        index(path, folder, vectors)
        index(tmp_path / "indexes" / "other.sqlite", tmp_path / "more", vectors)
        removed = remove_files(path, [folder / "secret.txt"], cache.forget)
        assert removed.num_cached == 1
        store.scrub()
        kept = cache.get_many(
            [cache.make_key(text, "passage") for text in (SECRET, shared, elsewhere)]
        )
        assert set(kept) == {
            cache.make_key(shared, "passage"),
            cache.make_key(elsewhere, "passage"),
        }
    data = b"".join(file.read_bytes() for file in tmp_path.glob("results.sqlite*"))
    assert bag.vector(SECRET).tobytes() not in data
    assert bag.vector(shared).tobytes() in data


def test_a_file_behind_a_link_is_removed(tmp_path: Path) -> None:
    far = tmp_path / "docs" / ".far"  # hidden, so that it is reached by the link alone
    write(far, {"note.txt": SECRET})
    try:
        (tmp_path / "docs" / "link").symlink_to(far)
    except OSError:
        pytest.skip("no links here")
    path = tmp_path / "i.sqlite"
    index(path, tmp_path / "docs", Bag())
    remove_files(path, [tmp_path / "docs" / "link" / "note.txt"], nothing)
    assert contents(path)["passages"] == 0
    assert index(path, tmp_path / "docs", Bag()).num_excluded == 1


ASKING = """
import sys
from pathlib import Path
from anyrig.documents.index.search import Searcher
from tests.documents.index.bag import Bag

with Searcher(Path(sys.argv[1])) as searcher:
    bag = Bag()
    while True:  # as fast as it can, until it is told to stop
        found = [
            any("quokkaberg" in hit.text.lower() for hit in searcher.search(
                "quokkaberg covenant", bag, mode=mode).hits)
            for mode in ("keywords", "vectors", "hybrid")
        ]
        print(int(any(found)), flush=True)
"""


def test_what_is_removed_while_another_process_searches_is_gone_for_it_too(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "i" / "i.sqlite"
    index(path, folder, Bag())
    child = subprocess.Popen(
        [sys.executable, "-c", ASKING, str(path)], stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert child.stdout is not None
    try:
        assert [child.stdout.readline() for _ in range(3)] == ["1\n"] * 3
        removed = remove_files(path, [folder / "secret.txt"], nothing)
        assert removed.clean
        assert _found(path.parent, ["quokkaberg", "zyxomma"]) == []
        # One answer may have been on its way, and the pipe holds older ones.
        said: list[str] = []
        while said[-20:] != ["0\n"] * 20:
            said.append(child.stdout.readline())
            assert said[-1], "the search died"
        assert "1" not in "".join(said).lstrip("1\n")
    finally:
        child.kill()
        child.communicate()


def test_a_folder_stays_out_as_a_file_does(folder: Path, tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    (folder / "bad.txt").write_bytes(b"\xff\xfe broken \xff")
    first = index(path, folder, bag)
    removed = remove_files(path, [folder], nothing)
    assert len(removed.files) - removed.num_unread == first.num_new
    assert removed.num_unread == 1
    assert removed.excluded == (folder.resolve(),)
    with pytest.raises(InvalidInputError, match="was removed from the index and is excluded"):
        index(path, folder, bag)
    with pytest.raises(InvalidInputError, match="is in .*, which was removed"):
        include_files(path, [folder / "secret.txt"])
    assert include_files(path, [folder]) == 1
    assert include_files(path, [folder]) == 0
    assert update_index(path, [], bag, TextReader()).num_new == first.num_new


def test_a_folder_within_one_that_is_indexed_later_stays_out(tmp_path: Path) -> None:
    path, bag = tmp_path / "i.sqlite", Bag()
    write(tmp_path / "all", {"in/a.txt": "What was removed.", "b.txt": "What was not."})
    index(path, tmp_path / "all" / "in", bag)
    remove_files(path, [tmp_path / "all" / "in"], nothing)
    done = index(path, tmp_path / "all", bag)
    assert (done.num_new, done.num_excluded) == (1, 1)
