"""PDFs whose words can be found: read back by PDFium, in any script and however a page lies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pypdfium2 as pdfium
import pytest
from PIL import Image, ImageDraw

from anyrig.documents.ocr import hocr, pdf
from anyrig.documents.ocr.page import Line, ReadPage, Word, box
from anyrig.text.pages import pages
from tests.documents.ocr.ocr_pages import png

WORDS = "Señor ¡Æther! œuvre «été» Ωμέγα Привет 漢字 😀 l'été".split()


def read_page(turned: int = 0) -> ReadPage:
    """A picture of 600 x 400 with a line of words, as it would be read."""
    words = tuple(
        Word(text, ((x, 100.0), (x + 50, 100.0), (x + 50, 130.0), (x, 130.0)), 0.9)
        for text, x in zip(WORDS, range(20, 600, 60), strict=False)
    )
    line = Line(" ".join(WORDS), (*words[0].box[:1], *words[-1].box[1:3], words[0].box[3]), 0.9,
                words)  # fmt: skip
    return ReadPage((line,), 600, 400, turned, language="es", engine="test")


def words_of(path: Path, index: int = 0) -> tuple[str, tuple[float, float, float, float]]:
    """The text of a page, and where `œuvre` stands on it."""
    document = pdfium.PdfDocument(path)
    try:
        page = document[index]
        textpage = page.get_textpage()
        place, count = textpage.search("œuvre").get_next()
        textpage.count_rects(place, count)
        return textpage.get_text_range(), textpage.get_rect(0)
    finally:
        document.close()


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_picture_becomes_a_page_whose_words_are_found(tmp_path: Path, form: str) -> None:
    target = tmp_path / "made.pdf"
    data = png(Image.new("L", (600, 400), 200), form)
    assert pdf.write(target, [pdf.Picture(data, read_page(), 100.0)] * 2) == 2
    for index in (0, 1):
        text, (left, bottom, right, top) = words_of(target, index)
        assert text.split() == WORDS
        assert (left, right) == pytest.approx((140 * 0.72, 190 * 0.72), abs=1)
        assert (bottom, top) == pytest.approx(((400 - 130) * 0.72, (400 - 100) * 0.72), abs=1)
    document = pdfium.PdfDocument(target)
    assert document[0].get_size() == pytest.approx((432, 288), abs=0.1)
    shown = document[0].render(scale=1).to_pil().convert("L")
    assert shown.getextrema() == (200, 200)  # the words are not seen
    document.close()


def test_a_page_that_stood_on_its_head_is_shown_upright(tmp_path: Path) -> None:
    target = tmp_path / "turned.pdf"
    data = png(Image.new("L", (600, 400), 255))
    pdf.write(target, [pdf.Picture(data, read_page(turned=180), 100.0)])
    document = pdfium.PdfDocument(target)
    assert document[0].get_rotation() == 180
    document.close()


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_a_pdf_keeps_its_pages_and_gains_words(tmp_path: Path, turned: int) -> None:
    source, target = tmp_path / "in.pdf", tmp_path / "out.pdf"
    made = pdfium.PdfDocument.new()
    page = made.new_page(600, 400) if turned % 180 == 0 else made.new_page(400, 600)
    page.set_rotation(turned)
    page.gen_content()
    made.new_page(50, 60)
    made.save(source)
    made.close()
    with pdf.Document(source) as document:
        document.layer(0, read_page())
        document.save(target)
    text, _ = words_of(target)
    assert text.split() == WORDS
    kept = pdfium.PdfDocument(target)
    assert (len(kept), kept[0].get_rotation(), kept[1].get_size()) == (2, turned, (50, 60))
    # As the page is shown, a word lies where it was read.
    textpage = kept[0].get_textpage()
    place, count = textpage.search("Señor").get_next()
    textpage.count_rects(place, count)
    left, bottom, right, top = textpage.get_rect(0)
    wide, high = right - left, top - bottom
    assert (wide > high) == (turned % 180 == 0)
    kept.close()


def test_hocr_holds_every_word_with_its_box() -> None:
    made = hocr.written("a <b>", [(1, read_page())])
    assert "a &lt;b&gt;" in made
    assert made.count("ocrx_word") == len(WORDS) + 1
    assert 'title="bbox 20 100 70 130; x_wconf 90">Señor</span> ' in made


def drawn(*lines: str) -> tuple[Image.Image, list[Word]]:
    """A picture of 600 x 400 with words on it, and where each stands."""
    image = Image.new("L", (600, 400), 255)
    draw = ImageDraw.Draw(image)
    words = []
    for row, line in enumerate(lines):
        x = 30.0
        for text in line.split():
            wide = draw.textlength(text, font_size=20)
            y = 40.0 + 40 * row
            draw.text((x, y), text, fill=0, font_size=20)
            right = x + wide
            words.append(Word(text, ((x, y), (right, y), (right, y + 24), (x, y + 24)), 0.9))
            x = right + 8
    return image, words


def layered(path: Path, image: Image.Image, words: list[Word]) -> Path:
    lines = tuple(Line(word.text, word.box, 0.9, (word,)) for word in words)
    pdf.write(path, [pdf.Picture(png(image), ReadPage(lines, 600, 400), 100.0)])
    return path


def test_a_short_layer_is_trusted_where_it_covers_what_is_seen(tmp_path: Path) -> None:
    image, words = drawn("Warranty card", "two years from the day of purchase", "page 12")
    (whole,) = pages(layered(tmp_path / "whole.pdf", image, words)).pages
    assert (whole.source, whole.lack) == ("text", "")
    assert whole.text.split() == [word.text for word in words]
    turned = [replace(word, box=box([(400 - y, x) for x, y in word.box])) for word in words]
    lines = tuple(Line(word.text, word.box, 0.9, (word,)) for word in turned)
    picture = pdf.Picture(
        png(image.rotate(270, expand=True)), ReadPage(lines, 400, 600, 270), 100.0
    )
    pdf.write(tmp_path / "turned.pdf", [picture])
    assert pages(tmp_path / "turned.pdf").pages[0].source == "text"
    (number,) = pages(layered(tmp_path / "number.pdf", image, words[-2:])).pages
    assert number.lack == "a picture with little text on it"


def test_words_are_not_laid_twice(tmp_path: Path) -> None:
    image, words = drawn("Warranty card")
    source = layered(tmp_path / "one.pdf", image, words)
    with pdf.Document(source) as document:
        lines = tuple(Line(word.text, word.box, 0.9, (word,)) for word in words)
        document.layer(0, ReadPage(lines, 600, 400))
        document.save(tmp_path / "two.pdf")
    assert pages(tmp_path / "two.pdf").text.split() == ["Warranty", "card"]
