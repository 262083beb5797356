"""`anyrig ocr` from files to files: formats, pages, what fails, what was kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pytest
from PIL import Image

from anyrig.cli.main import main
from tests.documents.ocr.ocr_pages import page

pytest.importorskip("rapidocr")
LONG = (
    "A page with few words may be a picture with a caption. This one has several lines, as pages"
    " of books and letters have, so that whoever opens the file afterwards finds that there is"
    " nothing left to read on it."
)
LINES = ("The first page has one line.", "And here is the second one.", "A third ends the file.")


@pytest.fixture
def scans() -> list[Image.Image]:
    return [page(line, dpi=100, name="", inches=4)[0] for line in LINES]


def test_a_scanned_pdf_becomes_one_that_is_searched_and_a_bad_file_stops_nothing(
    anyrig: Callable[..., Any], scans: list[Image.Image], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    image, text = page(LONG, dpi=100, name="")
    image.save(folder / "scan.pdf", save_all=True, append_images=scans[1:2], resolution=100)
    scans[2].convert("RGB").save(folder / "third.jpg", dpi=(100, 100))
    (folder / "notes.txt").write_text("No page.")
    (folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    done = anyrig("ocr", str(folder), "-o", "out/", "--format", "pdf", "--language", "en",
                  "--engine", "rapidocr")  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "bad.png" in done.stderr
    assert "skipped 1 file without pages: .txt" in done.stderr
    assert "notes" not in done.stderr
    texts = []
    for name in ("scan.pdf", "third.pdf"):
        document = pdfium.PdfDocument(Path("out") / name)
        texts += [document[n].get_textpage().get_text_range().split() for n in range(len(document))]
        document.close()
    assert texts == [text.split(), LINES[1].split(), LINES[2].split()]
    again = anyrig("ocr", "out/scan.pdf", "-o", "own.json", "--json")  # its own text is there now
    assert json.loads(again.stdout)["files"][0]["pages"][0]["source"] == "text", again.stderr
    both = anyrig("ocr", "out/third.pdf", "out/scan.pdf", "--pages", "1")  # a short one as well
    heads = [line for line in both.stdout.splitlines() if line.startswith("==> ")]
    assert heads == ["==> out/third.pdf <==", "==> out/scan.pdf <=="], both.stderr
    assert f"<==\n{LINES[2]}\n\n==>" in both.stdout


def test_mistakes_are_reported_at_once(
    capsys: pytest.CaptureFixture[str], scans: list[Image.Image]
) -> None:
    scans[0].save("one.png")
    for words, problem in (
        (["none.png"], "no such file or folder: none.png"),
        (["one.png", "-o", "one.docx"], "unknown format 'docx'"),
        (["one.png", "--pages", "x"], "--pages must be page numbers"),
        (["one.png", "--format", "pdf"], "a PDF must be written to a file"),
        (["one.png", "-o", "one.png", "--format", "txt"], "one.png would be overwritten"),
    ):
        assert main(["ocr", *words]) == 2, words
        assert problem in capsys.readouterr().err
