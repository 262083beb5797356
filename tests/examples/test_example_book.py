"""The example book: it is what its script makes, and it is sound."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from lxml import etree
from PIL import Image, ImageChops, ImageStat

from anyrig.audiobooks.cast import load_cast
from anyrig.audiobooks.casting import Casting
from anyrig.text.files import read
from examples.make_book import BOOK, SPANISH_BOOK, TITLES, build, draw_cover

EPUBCHECK = "/usr/share/java/epubcheck.jar"


def committed_cover(book: Path) -> bytes:
    with zipfile.ZipFile(book) as archive:
        return archive.read("EPUB/cover.jpg")


@pytest.mark.parametrize("book", TITLES, ids=lambda book: book.stem)
def test_a_book_is_what_its_script_makes(book: Path) -> None:
    made = build(book, committed_cover(book))
    assert made == book.read_bytes(), "run: python examples/make_book.py"


@pytest.mark.parametrize("book", TITLES, ids=lambda book: book.stem)
def test_the_cover_is_what_the_script_draws(book: Path) -> None:
    """Within what another version of a JPEG library may change."""
    with (
        Image.open(io.BytesIO(committed_cover(book))) as kept,
        Image.open(io.BytesIO(draw_cover(book))) as drawn,
    ):
        assert kept.size == drawn.size
        apart = ImageStat.Stat(ImageChops.difference(kept.convert("RGB"), drawn.convert("RGB")))
        assert max(apart.mean) < 1.0


def test_it_has_one_of_everything() -> None:
    with zipfile.ZipFile(BOOK) as archive:
        first = archive.infolist()[0]
        names = [name for name in archive.namelist() if name.endswith(".xhtml")]
        trees = [etree.fromstring(archive.read(name)) for name in names]
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
    spaces = {"x": "http://www.w3.org/1999/xhtml", "e": "http://www.idpf.org/2007/ops"}
    for path in (
        "//x:a[@e:type='noteref']", "//x:aside[@e:type='footnote']", "//x:table", "//x:img[@alt]",
        "//x:*[@lang='fr']", "//x:div[@class='poem']", "//x:nav/x:ol/x:li/x:ol/x:li",
        "//x:span[@e:type='pagebreak']",
    ):  # fmt: skip
        assert any(tree.xpath(path, namespaces=spaces) for tree in trees), path


def test_it_is_read_as_it_was_meant() -> None:
    book = read(BOOK)
    assert book.metadata.title == "The Tide Clock"
    assert (book.metadata.series, book.metadata.series_index) == ("Stories to Try a Voice On", "1")
    assert book.cover is not None
    assert [(chapter.level, chapter.title) for chapter in book.chapters if chapter.level == 2] == [
        (2, "One Hand"), (2, "Three Mornings"), (2, "High Water"), (2, "Four Lines"),
    ]  # fmt: skip
    kinds = {block.kind for chapter in book.chapters for block in chapter.blocks}
    assert {"heading", "paragraph", "image", "note", "table", "poem"} <= kinds
    words = sum(len(block.text.split()) for c in book.chapters for block in c.blocks)
    assert 500 <= words <= 620  # about three minutes, without notes and front matter


def test_the_spanish_book_is_read_as_it_was_meant() -> None:
    book = read(SPANISH_BOOK)
    assert (book.metadata.title, book.metadata.language) == ("La campana de niebla", "es")
    assert book.cover is not None
    assert [chapter.title for chapter in book.chapters][-3:] == [
        "La carta", "Noventa y seis peldaños", "Una vez cada quince segundos"
    ]  # fmt: skip
    words = sum(len(block.text.split()) for c in book.chapters for block in c.blocks)
    assert 300 <= words <= 420  # about two and a half minutes


def test_the_cast_finds_all_its_speeches() -> None:
    casting = Casting(load_cast(BOOK.with_suffix(".cast.toml")))
    said: dict[float, list[str]] = {}
    for number, chapter in enumerate(read(BOOK).chapters, 1):
        for block, stretches in zip(
            chapter.blocks, casting.list_voice_spans(chapter.blocks, number), strict=True
        ):
            for start, end, style in stretches:
                said.setdefault(style.rate, []).append(block.text[start:end])
    mara, tobias = said[1.08], said[0.9]
    assert (len(mara), mara[0]) == (7, "“It is a clock,”")
    assert (len(tobias), tobias[-1]) == (7, "“Somebody who once lived in the lower street,”")


@pytest.mark.system("epubcheck", EPUBCHECK)
@pytest.mark.parametrize("book", TITLES, ids=lambda book: book.stem)
def test_epubcheck_finds_nothing_in_the_examples(book: Path) -> None:
    java = shutil.which("java")
    assert java, "epubcheck is here and java is not"
    done = subprocess.run(
        [java, "-XX:TieredStopAtLevel=1", "-jar", EPUBCHECK, str(book)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No errors or warnings detected" in done.stdout
