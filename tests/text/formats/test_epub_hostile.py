"""EPUBs made to do harm: one error that says what is wrong, or a reading; nothing is written."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text.document import Document
from anyrig.text.files import read
from tests.text.epub_maker import Line, Page, epub, write

_LAUGHS = '<!DOCTYPE html [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><html><body>&b;</body></html>'
_REFUSED: dict[str, tuple[bytes, str]] = {
    "deep": (b"<div>" * 100_000, "too deep"),
    "deep and closed": (b"<b>" * 100_000 + b"x" + b"</b>" * 100_000, "too deep"),
    "entities": (_LAUGHS.encode(), "entity bomb"),
    "tags": (b"<i/>" * 700_000, "more than 600,000 tags"),
    "zeros": (b"\x00" * 30_000_000, "zip bomb"),
    "a few zeros": (b"\x00" * 3_000_000, "no text"),
    "comments without an end": (b"<html>" + b"<!--" * 100_000, "no text"),
    "noise": (random.Random(1).randbytes(20_000), ""),
}


def attempt(path: Path) -> tuple[Document | None, str]:
    """What was read, or what was said; never what the last net says of a fault nobody foresaw."""
    try:
        return read(path), ""
    except InvalidInputError as error:
        message, hint = error.message, error.hint
    assert hint
    assert "cannot be read as" not in message
    return None, message


@pytest.mark.parametrize("harm", _REFUSED)
def test_a_page_made_to_do_harm(tmp_path: Path, harm: str) -> None:
    data, message = _REFUSED[harm]
    path = epub(tmp_path / "a.epub", [Page("c.xhtml", "", raw=data)])
    document, said = attempt(path)
    assert message in said
    assert bool(document) != bool(said)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.epub", "home", "work"]


@pytest.mark.parametrize("name", ["META-INF/container.xml", "OEBPS/content.opf", "OEBPS/nav.xhtml"])
@pytest.mark.parametrize("harm", ["deep", "entities", "noise", "a few zeros"])
def test_any_piece_may_be_the_one(tmp_path: Path, name: str, harm: str) -> None:
    pages = [Page("c.xhtml", "<p>The text.</p>")]
    path = epub(tmp_path / "a.epub", pages, files={name: _REFUSED[harm][0]})
    document, _ = attempt(path)
    if document is None:
        assert name == "OEBPS/content.opf"
    else:
        assert [block.text for block in document.chapters[0].blocks] == ["The text."]


def test_what_is_repeated_without_end_is_read_once(tmp_path: Path) -> None:
    path = epub(
        tmp_path / "a.epub",
        [Page("c.xhtml", "<p>Once.</p>")],
        spine='<itemref idref="p0"/><itemref idref="gone"/>' * 20_000,
        contents=[Line(f"Chapter {number}", f"c.xhtml#{number}") for number in range(20_000)],
    )
    document = read(path)
    assert [block.text for each in document.chapters for block in each.blocks] == ["Once."]
    assert all(len(warning) < 500 for warning in document.warnings)


def test_damage_anywhere_is_an_error_or_a_reading(tmp_path: Path) -> None:
    whole = epub(
        tmp_path / "a.epub",
        [
            Page("c1.xhtml", '<h1>One</h1><p>Text<sup><a href="c2.xhtml#n">1</a></sup> and</p>'
                 "<table><tr><td>a</td><td>b</td></tr></table>"),
            Page("c2.xhtml", '<p id="n"><a href="c1.xhtml">1</a> A note.</p>'),
        ],
    ).read_bytes()  # fmt: skip
    chance = random.Random(5)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 3, 20))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        (tmp_path / "b.epub").write_bytes(bytes(data) or b"x")
        attempt(tmp_path / "b.epub")


def test_an_archive_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="without a package file and without pages"):
        read(write(tmp_path / "a.epub", {}))
    with pytest.raises(InvalidInputError, match="has no pages"):
        read(epub(tmp_path / "b.epub", [], contents=[]))
