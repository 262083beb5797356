"""docx: styles by name and level, notes, changes, fields, tables, boxes, metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.text.document import Block, Document
from anyrig.text.formats import docx as reader
from anyrig.text.formats.limits import Limits
from tests.text.formats.office_files import docx, p, r

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def made(tmp_path: Path, body: str, **parts: str) -> Document:
    return reader.read(docx(tmp_path / "a.docx", body, **parts), Limits())  # type: ignore[arg-type]


def blocks(document: Document) -> list[Block]:
    return [block for chapter in document.chapters for block in chapter.blocks]


@pytest.mark.parametrize("strict", [False, True])
def test_headings_by_name_whatever_the_id_and_by_outline_level(
    tmp_path: Path, strict: bool
) -> None:
    body = (
        p("The Book", "Titel") + p("One", "berschrift1") + p("Text.") + p("Own", "Eigen") + p("x.")
    )
    document = reader.read(docx(tmp_path / "a.docx", body, strict=strict), Limits())
    assert document.metadata.title == "The Book"
    assert [(each.level, each.title) for each in document.chapters] == [
        (1, "The Book"), (1, "One"), (2, "Own"),
    ]  # fmt: skip


def test_insertions_stay_and_deletions_go(tmp_path: Path) -> None:
    body = p(
        r("It was ") + f"<w:del>{r('bad').replace('w:t', 'w:delText')}</w:del>"
        f"<w:ins>{r('good')}</w:ins><w:moveFrom>{r('gone')}</w:moveFrom>" + r(" hid", "<w:vanish/>")
    )
    assert blocks(made(tmp_path, body))[0].text == "It was good"


def test_footnotes_follow_their_paragraph_and_endnotes_come_last(tmp_path: Path) -> None:
    body = p(r("One") + '<w:r><w:footnoteReference w:id="2"/></w:r>') + p(
        r("Two") + '<w:r><w:endnoteReference w:id="5"/></w:r>'
    )
    document = made(
        tmp_path, body,
        footnotes=f'<w:footnote w:type="separator" w:id="0">{p("-")}</w:footnote>'
        f'<w:footnote w:id="2">{p("Foot.")}</w:footnote>',
        endnotes=f'<w:endnote w:id="5">{p("End.")}</w:endnote>',
    )  # fmt: skip
    assert [(block.kind, block.text, block.id) for block in blocks(document)] == [
        ("paragraph", "One1", ""), ("note", "Foot.", "footnote-2"),
        ("paragraph", "Two1", ""), ("note", "End.", "endnote-5"),
    ]  # fmt: skip
    assert document.chapters[-1].role == "notes"
    first = document.chapters[0].blocks[0].inlines[0]
    assert (first.start, first.end, first.kind, first.value) == (3, 4, "noteref", "footnote-2")


def test_tables_nest_and_a_frame_of_one_cell_is_text(tmp_path: Path) -> None:
    def table(*rows: tuple[str, ...]) -> str:
        inner = "".join(
            "<w:tr>" + "".join(f"<w:tc>{cell}</w:tc>" for cell in row) + "</w:tr>" for row in rows
        )
        return f"<w:tbl>{inner}</w:tbl>"

    inside = table((p("x"), p("y")))
    body = table((p("a"), p("b") + p("c")), (inside, p("d"))) + table((p("Framed text."),))
    assert [(block.kind, block.text) for block in blocks(made(tmp_path, body))] == [
        ("table", "a\tb c\nx y\td"), ("paragraph", "Framed text."),
    ]  # fmt: skip


def test_fields(tmp_path: Path) -> None:
    def field(instruction: str, result: str) -> str:
        begin, middle, end = (
            f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'
            for kind in ("begin", "separate", "end")
        )
        return f"{begin}<w:r><w:instrText>{instruction}</w:instrText></w:r>{middle}{r(result)}{end}"

    body = p(field(' TOC \\o "1-3" ', "Chapter 1") + r("")) + p("Chapter 2", "TOC1")
    body += p("One", "berschrift1") + p(r("Page ") + field("PAGE", "7") + field("DATE", "Monday"))
    document = made(tmp_path, body)
    assert [each.role for each in document.chapters] == ["contents", "body"]
    assert document.chapters[1].blocks[1].text == "Page Monday"


def test_text_boxes_once_and_pictures_by_what_is_said_of_them(tmp_path: Path) -> None:
    box = f"<w:txbxContent>{p('In the box.')}</w:txbxContent>"
    drawing = (
        f'<w:r><mc:AlternateContent><mc:Choice><w:drawing><wp:docPr descr="A cat"/>{box}'
        f"</w:drawing></mc:Choice><mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )
    found = blocks(made(tmp_path, p(r("Text.") + drawing)))
    assert [(block.kind, block.text) for block in found] == [
        ("paragraph", "Text."), ("image", "A cat"), ("paragraph", "In the box."),
    ]  # fmt: skip


def test_lists_quotes_verse_and_languages(tmp_path: Path) -> None:
    item = (
        '<w:p><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>i</w:t></w:r></w:p>'
    )
    french = p(r("He said ") + r("bonjour", '<w:lang w:val="fr-FR"/>') + r("."))
    whole = p(r("Guten Tag", '<w:lang w:val="de-DE"/>'))
    body = item + p("Said.", "Zitat") + p("one", "Vers") + p("two", "Vers") + french + whole
    found = blocks(made(tmp_path, body))
    assert [block.kind for block in found] == ["item", "quote", "poem", "paragraph", "paragraph"]
    assert found[2].text == "one\ntwo"
    assert [(one.start, one.end, one.value) for one in found[3].inlines] == [(8, 15, "fr-FR")]
    assert found[4].language == "de-DE"


def test_lines_ended_by_hand_and_indents_of_listings_stay(tmp_path: Path) -> None:
    end = "<w:r><w:br/></w:r>"
    address = p(end.join(map(r, ("1 High Street", "Ely", "England"))))
    code = p(r("if x:"), "Code") + p(r("    run()"), "Code")
    found = blocks(made(tmp_path, address + code + p(r("One") + end + r("line."))))
    assert [(block.kind, block.text) for block in found] == [
        ("poem", "1 High Street\nEly\nEngland"), ("code", "if x:\n    run()"),
        ("paragraph", "One line."),
    ]  # fmt: skip


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    core = "<dc:title>T</dc:title><dc:creator>A; B</dc:creator><dc:description>D</dc:description>"
    path = docx(tmp_path / "a.docx", p("x"), core=core, thumbnail=PNG)
    document = reader.read(path, Limits())
    about = document.metadata
    assert (about.title, about.authors, about.language) == ("T", ("A", "B"), "en-GB")
    assert document.cover is not None
    assert document.cover.media_type == "image/png"
