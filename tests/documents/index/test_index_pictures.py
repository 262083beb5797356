"""Pictures in an index: OCR that comes later, and languages told without it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from PIL import Image

from anyrig.documents.index import folders
from anyrig.documents.index.status import status
from anyrig.documents.reading import ReadPicture
from tests.documents.index.bag import Bag
from tests.documents.index.folder import aged, search, write


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
    roots = folders.resolve_folders([folder])
    first = folders.index_folders(path, roots, bag, folders.build_ways())
    (failed,) = first.failed
    assert "no OCR is installed" in failed.error
    assert "anyrig[ocr]" in failed.hint
    same = folders.index_folders(path, roots, bag, folders.build_ways())
    assert (same.failed, len(same.old_failed)) == ([], 1)
    ocr = Reads()
    read = folders.index_folders(path, roots, bag, folders.build_ways(ocr=ocr))
    assert (ocr.num_read, read.failed, read.old_failed) == (1, [], [])
    assert search(path, "quokkaberg", bag, mode="keywords").hits
    # What OCR has read is not thrown away where it is missing again.
    gone = folders.index_folders(path, roots, bag, folders.build_ways())
    assert (gone.num_same, gone.num_changed) == (2, 0)
    assert search(path, "quokkaberg", bag, mode="keywords").hits


def test_a_blank_picture_is_not_read_at_every_run(tmp_path: Path) -> None:
    folder, path, bag = tmp_path / "docs", tmp_path / "i.sqlite", Bag()
    scan(folder / "blank.png")
    roots, ocr = folders.resolve_folders([folder]), Reads("")
    for _ in range(3):
        folders.index_folders(path, roots, bag, folders.build_ways(ocr=ocr))
    assert ocr.num_read == 1
    (trouble,) = status(path).troubles
    assert "OCR found none" in trouble.error


def test_languages_are_told_without_reading_pictures(tmp_path: Path) -> None:
    folder, ocr = tmp_path / "docs", Reads("Los perros y los gatos viven en la casa de mi hermana.")
    for number in range(6):
        scan(folder / f"{number}.png", 200 + number)
    told: list[str] = []
    roots = folders.resolve_folders([folder])
    found = folders.sample_languages(roots, folders.build_ways(ocr=ocr), tell=told.append)
    assert set(found) == {"es"}
    assert 1 <= ocr.num_read <= 3
    assert len(told) == 1
    ocr.num_read = 0
    text = "The cats and the dogs live in the house of my sister, and they like it there."
    write(folder, {"a.txt": text})
    assert set(folders.sample_languages(roots, folders.build_ways(ocr=ocr), tell=told.append)) == {
        "en"
    }
    assert (ocr.num_read, len(told)) == (0, 1)


def test_files_of_other_kinds_are_told(tmp_path: Path) -> None:
    folder, path = tmp_path / "docs", tmp_path / "i.sqlite"
    write(folder, {"a.txt": "Words."})
    (folder / "sound.wav").write_bytes(b"RIFF\x00\x00\x00\x00WAVEfmt " + bytes(200))
    done = folders.index_folders(
        path, folders.resolve_folders([folder]), Bag(), folders.build_ways()
    )
    assert [one.name for one in done.others] == ["sound.wav"]
    assert done.num_new == 1
