"""Where an index meets what others do: odd models, equal files, removals in the middle of work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyrig.documents.cache.shelf import Marks, Shelf
from anyrig.documents.index import folders
from anyrig.documents.index.database import IndexFile
from anyrig.documents.index.progress import Progress
from anyrig.documents.index.search import Searcher
from anyrig.documents.index.snapshot import Filters
from anyrig.errors import InvalidInputError, StorageError, WorkError
from anyrig.storage.cache import ResultCache
from tests.documents.index.bag import Bag
from tests.documents.index.folder import index, search, write


class Loud(Bag):
    """Vectors of any length, as models without a Normalize give them."""

    def __init__(self) -> None:
        super().__init__("loud")
        self.model = replace(self.model, normalise=False)

    def vector(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        made: np.ndarray[tuple[int], np.dtype[np.float32]] = super().vector(text)
        return made * np.float32(len(text))


def test_a_model_that_does_not_normalise_is_searched_by_cosine(tmp_path: Path) -> None:
    write(tmp_path / "docs", {
        "near.txt": "apples and pears",
        "long.txt": "apples " + " ".join(f"word{n} other{n}" for n in range(60)),
    })  # fmt: skip
    path, loud = tmp_path / "i.sqlite", Loud()
    index(path, tmp_path / "docs", loud)
    hits = search(path, "apples and pears", loud, mode="vectors").hits
    assert hits[0].place.file.name == "near.txt"
    assert hits[0].similarity == pytest.approx(1.0, abs=1e-5)
    index(path, tmp_path / "docs", Bag())
    index(path, tmp_path / "docs", loud)  # every text anew, by the other way
    again = search(path, "apples and pears", loud, mode="vectors").hits
    assert again[0].similarity == pytest.approx(1.0, abs=1e-5)


def test_a_file_that_a_filter_leaves_out_is_not_shown_for_its_twin(tmp_path: Path) -> None:
    write(tmp_path / "docs", {"a/one.txt": "Equal words.", "b/two.txt": "Equal words."})
    path, bag = tmp_path / "i.sqlite", Bag()
    index(path, tmp_path / "docs", bag)
    only = Filters(folders=(os.fsencode((tmp_path / "docs" / "b").resolve()),))
    (hit,) = search(path, "equal words", bag, filters=only).hits
    assert [place.file.name for place in hit.places] == ["two.txt"]


def test_what_is_removed_while_a_graph_is_made_is_not_in_it(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    write(tmp_path / "docs", {f"{n}.txt": f"File number{n} says word{n}." for n in range(60)})
    path, bag, gone = tmp_path / "i.sqlite", Bag(), list[bool]()
    victim = tmp_path / "docs" / "7.txt"

    def tell(now: Progress) -> None:
        if now.stage == "linking" and not gone:
            gone.append(True)
            folders.remove_files(path, [victim], lambda texts: 0)

    index(path, tmp_path / "docs", bag, threshold=20, tell=tell)
    assert gone
    graph = path.with_name(f"{path.name}.hnsw").read_bytes()
    assert bag.vector("File number8 says word8.").tobytes() in graph
    assert bag.vector("File number7 says word7.").tobytes() not in graph
    with Searcher(path, threshold=20) as searcher:
        found = searcher.search("number7", bag).hits
    assert "7.txt" not in [hit.place.file.name for hit in found]


def test_a_damaged_neighbour_stops_no_removal(tmp_path: Path) -> None:
    write(tmp_path / "docs", {"a.txt": "Words to be removed."})
    path = tmp_path / "indexes" / "i.sqlite"
    index(path, tmp_path / "docs", Bag())
    (path.parent / "other.sqlite").write_bytes(b"no database at all" * 400)
    asked: list[str] = []

    def forget(texts: Sequence[str]) -> int:
        asked.extend(texts)
        return len(texts)

    removed = folders.remove_files(path, [tmp_path / "docs" / "a.txt"], forget)
    assert (removed.num_texts, removed.num_cached, asked) == (1, 1, ["Words to be removed."])


@pytest.mark.parametrize("then", ["remove", "index"])
def test_a_removal_that_was_killed_before_its_bytes_were_gone_is_made_good(
    then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "docs", {"a.txt": "The quokkaberg covenant.", "b.txt": "Other words."})
    write(tmp_path / "more", {"c.txt": "More of it."})
    path, bag = tmp_path / "i.sqlite", Bag()
    index(path, tmp_path / "more", bag)
    index(path, tmp_path / "docs", bag)

    def killed(_: IndexFile) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(IndexFile, "purge", killed)
        with pytest.raises(KeyboardInterrupt):
            folders.remove_files(path, [tmp_path / "docs"], lambda texts: 0)
    assert b"quokkaberg" in path.read_bytes()  # FTS5 has it still
    if then == "remove":
        assert folders.remove_files(path, [tmp_path / "docs"], lambda texts: 0).clean
    else:
        index(path, tmp_path / "more", bag)
    assert b"quokkaberg" not in path.read_bytes()
    assert folders.remove_files(path, [tmp_path / "docs"], lambda texts: 0).files == ()


def test_a_model_that_has_changed_is_told_from_another_one(tmp_path: Path) -> None:
    write(tmp_path / "docs", {"a.txt": "Some words."})
    path, bag = tmp_path / "i.sqlite", Bag()
    index(path, tmp_path / "docs", bag, reference=str(tmp_path / "bag"))
    bag.model = replace(bag.model, fingerprint="another")
    with pytest.raises(InvalidInputError, match="bag has changed since"):
        search(path, "words", bag)
    with pytest.raises(InvalidInputError, match="not with sack"):
        search(path, "words", Bag("sack"))


def test_vectors_that_a_shared_store_may_have_are_not_said_to_be_forgotten(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    from anyrig.storage.redis import LayeredCache, RedisCache

    far = RedisCache("redis://127.0.0.1:1/0", timeout_s=0.5)
    with LayeredCache(ResultCache(tmp_path / "results.sqlite"), far) as store:
        shelf = Shelf(store, Marks("bag", ""), 64)
        with pytest.raises(StorageError, match="does not answer"):
            shelf.forget(["words that only the others keep"])


def test_a_text_that_another_model_cannot_embed_stops_no_other(tmp_path: Path) -> None:
    write(tmp_path / "docs", {f"{n}.txt": f"File number{n} says word{n}." for n in range(30)})
    path = tmp_path / "i.sqlite"
    index(path, tmp_path / "docs", Bag())
    write(tmp_path / "docs", {"later.txt": "It comes later."})
    done = index(path, tmp_path / "docs", Bag("sack", bad="word7."))
    assert (done.num_new, done.num_embedded) == (1, 30)
    assert [one.split(":")[0] for one in done.warnings] == ["a passage has no vector"]
    answer = search(path, "number8", Bag("sack"))
    assert answer.hits[0].place.file.name == "8.txt"
    assert "1 passages have no vector" in answer.notes[0]
    with Searcher(path) as searcher:
        assert searcher.snapshot().num_lacking == 1
        assert index(path, tmp_path / "docs", Bag("sack")).num_embedded == 1
        assert searcher.snapshot().num_lacking == 0
    with pytest.raises(WorkError):  # none can be made: that is not the texts' fault
        index(path, tmp_path / "docs", Bag("third", bad="word"))
