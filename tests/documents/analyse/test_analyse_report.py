from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from anyrig.documents.analyse.digest import digest_document, language_shares, measure_text
from anyrig.documents.analyse.folder import Analysis, UnreadDocument, analyse
from anyrig.documents.analyse.report import html
from anyrig.errors import InvalidInputError
from anyrig.text.document import Document
from anyrig.text.tokens import split_text

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\u202e\x07.txt"
BAD = {"script", "iframe", "object", "embed", "link", "img", "base", "form", "a"}


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("p", "circle", "rect", "line"):
            return
        while self.open[-1] in ("p", "circle", "rect", "line") and self.open[-1] != tag:
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def build(name: str, text: str) -> Document:
    return Document.from_text(text, Path(name))


def made(texts: dict[str, str], **more: object) -> Analysis:
    digests = [
        digest_document(build(name, text), name=name, vectors=False) for name, text in texts.items()
    ]
    return analyse(digests, title="A folder", **more)  # type: ignore[arg-type]


def seen(page: str) -> Seen:
    found = Seen()
    found.feed(page)
    found.close()
    return found


TEXT = "The harbour gate holds the water back. A harbour gate needs steel and money. " * 4


def test_hostile_names_and_contents_stay_text() -> None:
    evil = f"{TEXT} <script>alert('body')</script> <b onclick=x>bold</b> {HOSTILE} " * 2
    found = made(
        {HOSTILE: evil, "copy.txt": evil + " And more.", "third.txt": evil},
        left=[UnreadDocument(HOSTILE, InvalidInputError(f"why {HOSTILE}", hint="None."))],
        similar_to=0,
    )
    page = html(found)
    told = seen(page)
    assert not BAD & set(told.elements)
    assert "alert(1)" in "".join(told.text)
    for name, value in told.attributes:
        assert not name.startswith("on")
        assert "javascript:" not in value
        assert "alert" not in value
    assert "\u202e" not in page
    assert "\x07" not in page


def test_the_page_fetches_nothing() -> None:
    page = html(made({"a.txt": TEXT, "b.txt": TEXT + "Another word."}))
    assert "default-src 'none'" in page
    addresses = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert "@import" not in page
    assert "url(" not in page


def test_the_map_has_a_description_and_every_other_figure_its_numbers() -> None:
    page = html(made({"a.txt": TEXT, "b.txt": "Quite another subject, with cheese. " * 9}))
    (plot,) = re.findall(r"<svg.*?</svg>", page, re.S)
    assert re.search(r"<title>[^<]+</title>\s*<desc>[^<]+</desc>", plot)
    assert 'role="img"' in plot
    tables = re.findall(r'<table class="bars">.*?</table>', page, re.S)
    assert len(tables) >= 4
    for table in tables:
        rows = re.findall(r"<tr><td>.*?</tr>", table)
        assert rows
        for row in rows:
            width = re.search(r"width:([\d.]+)%", row)
            assert width
            assert 0 <= float(width[1]) <= 100
            assert re.search(r'<td class="n">[^<]+</td>', row)


def test_lone_surrogates_can_be_written() -> None:
    page = html(made({"bad\udcff.txt": TEXT + "\ud800"}))
    assert page.encode("utf-8")


def test_languages_of_a_mixed_text() -> None:
    english = "This paragraph is written in English, and it is long enough to be told apart. " * 2
    french = "Ce paragraphe est écrit en français, et il est assez long pour que cela se voie. " * 2
    shares = language_shares(f"{english}\n\n{french}\n\n{english}")
    assert [one.language for one in shares] == ["en", "fr"]
    assert shares[0].share > 0.5
    assert sum(one.share for one in shares) == pytest.approx(1.0)


def test_a_giant_text_is_cut_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyrig.documents.analyse.digest._LONGEST", 500)
    found = digest_document(build("log.txt", TEXT * 20), name="log.txt", vectors=False)
    assert found.statistics.num_characters == 500
    assert "first 500" in found.facts.warnings[-1]


def test_counts() -> None:
    text = "One two three. Four five!\n\nSix?"
    found = measure_text(text, split_text(text, "en"), "en")
    assert (found.num_words, found.num_sentences, found.num_paragraphs) == (6, 3, 2)
    assert found.words_a_sentence == pytest.approx(2.0)
    assert found.distinct == 1.0
    assert found.reading_s > 0
