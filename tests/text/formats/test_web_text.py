"""HTML and Markdown files: metadata, what surrounds the text, nested chapters, footnotes."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, Document
from anyrig.text.files import read
from anyrig.text.formats import html, markdown
from anyrig.text.formats.limits import Limits

LONG = "It was raining all day long in the city, and nobody went out. " * 3


def page(tmp_path: Path, text: str, encoding: str = "utf-8") -> Document:
    path = tmp_path / "a.html"
    path.write_bytes(text.encode(encoding))
    return html.read(path, Limits())


def text(tmp_path: Path, source: str) -> Document:
    path = tmp_path / "a.md"
    path.write_text(source, encoding="utf-8")
    return markdown.read(path, Limits())


def blocks(document: Document) -> list[Block]:
    return [block for chapter in document.chapters for block in chapter.blocks]


def test_the_head_of_a_page(tmp_path: Path) -> None:
    head = (
        '<html lang="de"><head><meta charset="iso-8859-1"><title>Größe</title>'
        '<meta name="author" content="Ann"><meta name="description" content="D"></head>'
    )
    document = page(tmp_path, f"{head}<body><p>Käfer</p></body></html>", "latin-1")
    about = document.metadata
    assert (about.title, about.authors, about.language) == ("Größe", ("Ann",), "de")
    assert (about.description, blocks(document)[0].text) == ("D", "Käfer")


def test_what_surrounds_the_text_is_named(tmp_path: Path) -> None:
    document = page(
        tmp_path,
        "<body><header>Site</header><nav><a href='#x'>One</a></nav><script>no()</script>"
        f"<main><h1>One</h1><p>{LONG}</p><h2>Two</h2><p>x</p></main><footer>Foot</footer></body>",
    )
    assert [(each.role, each.level, each.title) for each in document.chapters] == [
        ("front", 1, ""), ("contents", 1, ""), ("body", 1, "One"), ("body", 2, "Two"),
        ("back", 1, ""),
    ]  # fmt: skip
    assert "no()" not in "".join(block.text for block in blocks(document))


@pytest.mark.parametrize("source", ["", "<script>x</script>"])
def test_a_page_without_text_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(InvalidInputError):
        page(tmp_path, source)


def test_front_matter(tmp_path: Path) -> None:
    source = (
        '---\ntitle: "A: Book"\nauthor:\n  - Ann\n  - name: Bob\nlang: en-GB\ndate: 2021-03-04\n'
        "series: Rain\ntags: [one, 'two']\ndescription: >\n  Two\n  lines.\n---\n\nText.\n"
    )
    about = text(tmp_path, source).metadata
    assert (about.title, about.authors, about.language) == ("A: Book", ("Ann", "Bob"), "en-GB")
    assert (about.year, about.series, about.subjects) == ("2021", "Rain", ("one", "two"))
    assert about.description == "Two lines."
    about = text(tmp_path, "% Rain\n% Ann; Bob\n\nText.\n").metadata
    assert (about.title, about.authors) == ("Rain", ("Ann", "Bob"))


def test_a_rule_at_the_top_is_no_front_matter(tmp_path: Path) -> None:
    assert [block.text for block in blocks(text(tmp_path, "---\n\nText.\n\n---\n\nMore.\n"))] == [
        "", "Text.", "", "More.",
    ]  # fmt: skip


def test_markdown_kinds(tmp_path: Path) -> None:
    source = (
        "# One\n\nA *b* [c](http://d) <span lang='fr'>oui</span>.\n\n- i\n\n> q\n\n"
        "```\nx = 1\n```\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n![A cat](c.png)\n\n***\n\n## Two\n\nz\n"
    )
    document = text(tmp_path, source)
    assert [(each.level, each.title) for each in document.chapters] == [(1, "One"), (2, "Two")]
    assert [(block.kind, block.text) for block in document.chapters[0].blocks] == [
        ("heading", "One"), ("paragraph", "A b c oui."), ("item", "i"), ("quote", "q"),
        ("code", "x = 1"), ("table", "a\tb\n1\t2"), ("image", "A cat"), ("rule", ""),
    ]  # fmt: skip


def test_footnotes(tmp_path: Path) -> None:
    source = "Text[^a] and [^none].\n\n[^a]: It is\n    *so*.\n\n    More.\n\nAfter.\n"
    found = blocks(text(tmp_path, source))
    assert [(block.kind, block.text) for block in found] == [
        ("paragraph", "Texta and [^none]."), ("note", "It is so."), ("note", "More."),
        ("paragraph", "After."),
    ]  # fmt: skip
    assert [(one.start, one.end, one.value) for one in found[0].inlines] == [(4, 5, found[1].id)]
    assert found[1].id == found[2].id


@pytest.mark.parametrize("source", ["---\ntitle: x\n---\n", ">" * 5000, "[" * 60_000])
def test_markdown_that_says_nothing_or_does_harm_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(InvalidInputError):
        text(tmp_path, source)


@pytest.mark.parametrize(
    ("source", "title", "chapters"),
    [
        ("# Clock\n\n## One\n\nText of it.\n\n## Two\n\nMore.", "Clock",
         [(1, "One"), (1, "Two")]),
        ("---\ntitle: Mine\n---\n# Clock\n\n## One\n\nText of it.\n\n### Sub\n\nMore.", "Mine",
         [(1, "One"), (2, "Sub")]),
        ("# Clock\n\n*by Anna Hale*\n\n## One\n\nText of it.", "Clock", [(1, "One")]),
        ("# Clock\n\nIt is a text of its own.\n\n## One\n\nMore.", "Clock",
         [(1, "Clock"), (2, "One")]),
        ("# One\n\nText of it.\n\n# Two\n\nMore.", "", [(1, "One"), (1, "Two")]),
    ],
)  # fmt: skip
def test_the_one_heading_on_top_is_the_title(
    tmp_path: Path, source: str, title: str, chapters: list[tuple[int, str]]
) -> None:
    path = tmp_path / "file.md"
    path.write_text(source, encoding="utf-8")
    document = read(path)
    assert document.metadata.title == title
    assert [(one.level, one.title) for one in document.chapters] == chapters
    words = [block.text for one in document.chapters for block in one.blocks]
    assert ("Clock" in words) == ("# Clock" in source)  # it is still heard


def test_a_page_without_a_title_is_called_as_its_only_heading(tmp_path: Path) -> None:
    path = tmp_path / "file.html"
    path.write_text("<h1>Clock</h1><p>Some text.</p><h2>One</h2><p>More text.</p>")
    assert read(path).metadata.title == "Clock"


def test_menus_of_manuals_are_named_and_signs_of_links_left_out(tmp_path: Path) -> None:
    document = page(
        tmp_path,
        '<body><div class="related" role="navigation"><h3>Navigation</h3>'
        "<a href='a'>next</a></div><div class='navheader'><p>Chapter 3</p></div>"
        f"<h1>One<a class='headerlink' href='#one'>¶</a></h1><p>{LONG}</p>"
        f"<h2>Two <a href='#two'>#</a></h2><p>See <a href='#one'>#</a> {LONG}</p>"
        "<div class='sphinxsidebar'><p>Quick search</p></div>"
        "<div role='contentinfo'>Made by hand</div></body>",
    )
    assert [(each.role, each.title) for each in document.chapters] == [
        ("contents", "Navigation"), ("body", "One"), ("body", "Two"), ("contents", ""),
        ("back", ""),
    ]  # fmt: skip
    assert "See #" in document.text
    body = " ".join(b.text for c in document.chapters if c.role == "body" for b in c.blocks)
    assert "raining" in body
    for words in ("Navigation", "Chapter 3", "Quick search", "Made by hand"):
        assert words not in body


def test_endnotes_of_a_page_are_a_chapter(tmp_path: Path) -> None:
    document = page(
        tmp_path,
        f"<body><h1>One</h1><p>{LONG}<a role='doc-noteref' href='#n1'>1</a></p>"
        "<section role='doc-endnotes'><h2>Notes</h2><ol><li id='n1'>It was.</li></ol></section>",
    )
    assert [(each.role, each.title) for each in document.chapters] == [
        ("body", "One"), ("notes", "Notes")
    ]  # fmt: skip
    assert document.chapters[-1].blocks[-1].id == "n1"
