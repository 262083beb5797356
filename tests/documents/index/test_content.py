"""What of a file is searched: no navigation, no contents, no headings without their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.documents.index.content import Content, build_content, content_from_json, extract
from anyrig.documents.index.files import FolderReader
from anyrig.text.document import Block, Chapter, Document, Metadata

PAGE = """<html lang="de"><head><title>Garden rules</title></head><body>
<nav><a href="/">Home</a> <a href="/shop">Rent a bike</a> <a href="/c">Contact us</a></nav>
<h1>Garden rules</h1><h2>Cutting</h2>
<p>Hedges are cut in June, and roses in March. Nobody should do it in the rain.</p>
<footer>Rent a bike. All rights are reserved.</footer></body></html>"""


def read(path: Path) -> Content:
    (found,) = FolderReader().read([path])
    assert isinstance(found, Content)
    return found


def test_the_navigation_of_a_web_page_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE)
    content = read(tmp_path / "page.html")
    (passage,) = content.passages
    assert passage.body == (
        "Cutting\n\nHedges are cut in June, and roses in March. Nobody should do it in the rain."
    )
    assert {"garden", "rules", "rule"} <= set(passage.stems.split()), "of the heading above"
    assert content.title == "Garden rules"
    assert content.language == "en", "as it is written, whatever it declares"
    assert "hedg" in passage.stems.split()


def build(*chapters: Chapter) -> Document:
    return Document(Metadata(), chapters, format="epub", path=Path("book.epub"))


def heading(text: str) -> Block:
    return Block(text, "heading", 1)


def test_covers_and_contents_are_left_out_where_there_is_more() -> None:
    cover = Chapter("Cover", (heading("The Lighthouse"), Block("A novel")), role="cover")
    contents = Chapter("Contents", (Block("I. The storm\n\nII. The calm"),), role="contents")
    body = Chapter("The storm", (heading("The storm"), Block("It rained for three days on end.")))
    found = build_content(build(cover, contents, body))
    assert [one.body for one in found.passages] == ["The storm\n\nIt rained for three days on end."]
    text = build(cover, contents, body).text
    (passage,) = found.passages
    assert text[passage.file_start :] == passage.body
    assert [one.body for one in build_content(build(cover)).passages], "there is nothing else"


def test_a_page_of_headings_and_one_of_leaders_are_left_out() -> None:
    part = Chapter("Part one", (heading("Part one"), heading("The sea")))
    leaders = "\n".join(f"{n}. The chapter of that name {'. ' * 12}{n * 7}" for n in range(1, 9))
    body = Chapter("The storm", (Block("It rained for three days on end."),))
    found = build_content(build(part, Chapter("", (Block(leaders, "poem"),)), body))
    assert [one.body for one in found.passages] == ["It rained for three days on end."]


def test_a_heading_is_not_parted_from_its_text() -> None:
    blocks = [
        block
        for number in range(12)
        for block in (heading(f"Section {number}"), Block("Some words of it, and a few more. " * 9))
    ]
    found = build_content(build(Chapter("", tuple(blocks))))
    assert len(found.passages) > 3
    for passage in found.passages:
        assert not passage.body.rstrip().splitlines()[-1].startswith("Section")


@pytest.mark.parametrize("text", ["Words.", ""])
def test_content_travels_between_processes(text: str) -> None:
    document = build(Chapter("", (Block(text),)))
    assert content_from_json(extract(document)) == build_content(document)
