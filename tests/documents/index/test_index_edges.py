"""Where an index meets what others do: odd models, equal files, removals in the middle of work."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from PIL import Image

from anyrig.documents.index.db import IndexDatabase, Stamp
from anyrig.documents.index.files import FolderReader, resolve_folders, sample_languages
from anyrig.documents.index.progress import FileCounter, IndexProgress
from anyrig.documents.index.remove import remove_files
from anyrig.documents.index.search import Filters, Searcher
from anyrig.documents.index.status import read_status
from anyrig.documents.index.update import update_index
from anyrig.documents.reading import ReadPicture
from anyrig.documents.vector_cache import VectorCache
from anyrig.errors import InvalidInputError, StorageError, WorkError
from anyrig.storage.cache import ResultCache
from tests.documents.index.bag import Bag
from tests.documents.index.folder import aged, index, search, write


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


def test_a_damaged_neighbour_stops_no_removal(tmp_path: Path) -> None:
    write(tmp_path / "docs", {"a.txt": "Words to be removed."})
    path = tmp_path / "indexes" / "i.sqlite"
    index(path, tmp_path / "docs", Bag())
    (path.parent / "other.sqlite").write_bytes(b"no database at all" * 400)
    asked: list[str] = []

    def forget(texts: Sequence[str]) -> int:
        asked.extend(texts)
        return len(texts)

    removed = remove_files(path, [tmp_path / "docs" / "a.txt"], forget)
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

    def killed(_: IndexDatabase) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(IndexDatabase, "purge", killed)
        with pytest.raises(KeyboardInterrupt):
            remove_files(path, [tmp_path / "docs"], lambda texts: 0)
    assert b"quokkaberg" in path.read_bytes()  # FTS5 has it still
    if then == "remove":
        assert remove_files(path, [tmp_path / "docs"], lambda texts: 0).clean
    else:
        index(path, tmp_path / "more", bag)
    assert b"quokkaberg" not in path.read_bytes()
    assert remove_files(path, [tmp_path / "docs"], lambda texts: 0).files == ()


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
        shelf = VectorCache(store, Bag().model)
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
    assert "1 passage has no vector" in answer.notes[0]
    with Searcher(path) as searcher:
        assert searcher.refresh().is_incomplete
        assert index(path, tmp_path / "docs", Bag("sack")).num_embedded == 1
        assert not searcher.refresh().is_incomplete
    with pytest.raises(WorkError):  # none can be made: that is not the texts' fault
        index(path, tmp_path / "docs", Bag("third", bad="word"))


class Reads:
    """OCR that finds the same on every picture, and counts them."""

    def __init__(self, text: str = "The quokkaberg covenant was signed.") -> None:
        self.text, self.num_read = text, 0

    def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
        for _ in pictures:
            self.num_read += 1
            yield ReadPicture(self.text)


def scan(path: Path, shade: int = 250) -> None:
    made = io.BytesIO()
    Image.new("L", (400, 300), shade).save(made, "PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.getvalue())
    aged(path)


def test_scans_are_read_by_themselves_when_ocr_is_installed(tmp_path: Path) -> None:
    folder, path, bag = tmp_path / "docs", tmp_path / "i.sqlite", Bag()
    scan(folder / "scan.png")
    write(folder, {"note.txt": "A note of its own."})
    roots = resolve_folders([folder])
    first = update_index(path, roots, bag, FolderReader())
    (failed,) = first.failed
    assert "no OCR is installed" in failed.error
    assert "anyrig[ocr]" in failed.hint
    same = update_index(path, roots, bag, FolderReader())
    assert (same.failed, len(same.old_failed)) == ([], 1)
    ocr = Reads()
    read = update_index(path, roots, bag, FolderReader(ocr=ocr))
    assert (ocr.num_read, read.failed, read.old_failed) == (1, [], [])
    assert search(path, "quokkaberg", bag, mode="keywords").hits
    # What OCR has read is not thrown away where it is missing again.
    gone = update_index(path, roots, bag, FolderReader())
    assert (gone.num_same, gone.num_changed) == (2, 0)
    assert search(path, "quokkaberg", bag, mode="keywords").hits


def test_a_blank_picture_is_not_read_at_every_run(tmp_path: Path) -> None:
    folder, path, bag = tmp_path / "docs", tmp_path / "i.sqlite", Bag()
    scan(folder / "blank.png")
    roots, ocr = resolve_folders([folder]), Reads("")
    for _ in range(3):
        update_index(path, roots, bag, FolderReader(ocr=ocr))
    assert ocr.num_read == 1
    (trouble,) = read_status(path).troubles
    assert "OCR found none" in trouble.error


def test_languages_are_told_without_reading_pictures(tmp_path: Path) -> None:
    folder, ocr = tmp_path / "docs", Reads("Los perros y los gatos viven en la casa de mi hermana.")
    for number in range(6):
        scan(folder / f"{number}.png", 200 + number)
    told: list[str] = []
    roots = resolve_folders([folder])
    reader = FolderReader(ocr=ocr)
    found = sample_languages(roots, reader, on_pictures=lambda: told.append("pictures"))
    assert set(found) == {"es"}
    assert 1 <= ocr.num_read <= 3
    assert len(told) == 1
    ocr.num_read = 0
    text = "The cats and the dogs live in the house of my sister, and they like it there."
    write(folder, {"a.txt": text})
    found = sample_languages(roots, reader, on_pictures=lambda: told.append("pictures"))
    assert set(found) == {"en"}
    assert (ocr.num_read, len(told)) == (0, 1)


def test_languages_are_sampled_over_all_folders_when_time_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that comes first by name does not decide alone."""
    english = "The cats and the dogs live in the house of my sister, and they like it there."
    spanish = "Los perros y los gatos viven en la casa de mi hermana, y les gusta mucho."
    folder = tmp_path / "docs"
    write(folder, {f"a/{number}.txt": f"{number}. {spanish}" for number in range(30)})
    write(folder, {f"b/{number}.txt": f"{number}. {english}" for number in range(30)})
    monkeypatch.setattr("anyrig.documents.index.files._SAMPLES", 8)
    found = sample_languages(resolve_folders([folder]), FolderReader())
    assert set(found) == {"en", "es"}
    assert min(found.values()) >= 2


def test_languages_are_not_told_by_one_text_on_a_busy_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "en": "The cats and the dogs live in the house of my sister, and they like it there.",
        "es": "Los perros y los gatos viven en la casa de mi hermana, y les gusta mucho.",
    }
    for code, text in texts.items():
        write(
            tmp_path / "docs", {f"{code}/{number}.txt": f"{number}. {text}" for number in range(30)}
        )
    monkeypatch.setattr("anyrig.documents.index.files._SAMPLE_S", 0.0)
    found = sample_languages(resolve_folders([tmp_path / "docs"]), FolderReader())
    assert found.total() >= 16
    assert min(found["en"], found["es"]) >= 4


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def test_a_large_picture_does_not_spoil_the_time_left() -> None:
    """Thirty notes and a picture of 19 MB, a third of a second each: all is estimated in time."""
    clock = Clock()
    stamps = [Stamp(b"/a/%d.txt" % n, 2000, 0) for n in range(30)]
    stamps.append(Stamp(b"/a/scan.tiff", 19_000_000, 0))
    counter = FileCounter(stamps, clock)
    reports: list[IndexProgress] = []
    for stamp in stamps:
        clock.s += 0.3
        counter.read(stamp, 2)
        counter.num_embedded += 2
        counter.add_written(stamp)
        reports.append(counter.now)
    guessed = [(one.left_s, clock.s - one.wall_s) for one in reports if one.left_s is not None]
    assert len(guessed) > 20
    assert all(left == pytest.approx(true, abs=0.1) for left, true in guessed)
    assert [one.done for one in reports] == sorted(one.done for one in reports)
    assert (reports[-1].done, reports[-1].left_s) == (1.0, 0.0)


def test_nothing_is_estimated_before_enough_is_known() -> None:
    clock = Clock()
    stamps = [Stamp(b"/a/%d.txt" % n, 500, 0) for n in range(40)]
    counter = FileCounter(stamps, clock)
    assert (counter.now.left_s, counter.now.done) == (None, 0.0)
    for stamp in stamps[:20]:
        clock.s += 0.25
        counter.read(stamp, 30)
    assert (counter.now.num_read, counter.now.left_s) == (20, None)
    counter.num_embedded = 300  # 60 a second, and 900 of 1,200 to go
    assert counter.now.left_s == pytest.approx(15.0)


def test_a_file_is_read_while_the_time_left_is_estimated() -> None:
    clock = Clock()
    stamps = [Stamp(b"/a/%d.t%d" % (n, n % 7), 500, 0) for n in range(20_000)]
    counter = FileCounter(stamps, clock)
    clock.s = 10.0
    for stamp in stamps[:5]:
        counter.read(stamp, 3)
    counter.num_embedded = 4

    def read_others() -> None:
        for stamp in stamps[5:]:
            counter.read(stamp, 3)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reader = Thread(target=read_others)
        reader.start()
        while reader.is_alive():
            assert counter.now.left_s is not None
    finally:
        sys.setswitchinterval(interval)
        reader.join()
    assert counter.now.num_asked == 60_000
    assert counter.now.left_s == pytest.approx((60_000 - 4) * 10 / 4, rel=1e-6)


def test_the_share_of_other_languages_is_seen(tmp_path: Path) -> None:
    texts = {
        "en": "The meeting of the committee was held in the town hall, and all of them were there.",
        "es": "La reunión del comité se celebró en el ayuntamiento, y todos ellos estaban allí.",
    }
    for number in range(150):
        language = "es" if number % 3 == 0 else "en"
        (tmp_path / f"{number:03}.txt").write_text(f"{number}. {texts[language]}", encoding="utf-8")
    found = sample_languages(resolve_folders([tmp_path]), FolderReader())
    assert 0.25 <= found["es"] / found.total() <= 0.41
