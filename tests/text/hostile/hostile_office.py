"""docx, odt, fb2, spreadsheets, slides and messages that nest, repeat, fetch or lie."""

# ruff: noqa: E501 - a hostile text is a line, however long
from __future__ import annotations

import base64
import gzip
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.text.epub_maker import PNG
from tests.text.formats.office_binary import msg, ods, ole, pptx, shape, xlsx
from tests.text.formats.office_files import docx, fb2, odt, p
from tests.text.hostile.hostile_kinds import ALL, Hostile, Outcome, hostile

CELL = "<w:tbl><w:tr><w:tc>"
RUN = "<w:r><w:t>word </w:t></w:r>"
WORD: dict[str, str] = {
    "tables_2000_deep": CELL * 2000 + p("x") + "</w:tc></w:tr></w:tbl>" * 2000,
    "tables_60_deep": (CELL + p("word")) * 60 + "</w:tc></w:tr></w:tbl>" * 60,
    "text_boxes_deep": "<w:p><w:r><w:txbxContent>" * 80 + p("x") + "</w:txbxContent></w:r></w:p>" * 80,
    "empty_paragraphs": "<w:p/>" * 50_000,
    "runs": f"<w:p>{RUN * 15_000}</w:p>",
    "one_word_of_500000": p("x" * 500_000),
    "fields_without_end": "<w:p>" + '<w:r><w:fldChar w:fldCharType="begin"/></w:r>' * 2_000 + RUN + "</w:p>",
    "notes_that_are_none": "<w:p>" + '<w:r><w:footnoteReference w:id="99"/></w:r>' * 5_000 + RUN + "</w:p>",
    "numbers_absurd": '<w:p><w:pPr><w:outlineLvl w:val="99999999999"/><w:numPr><w:ilvl w:val="-5"/><w:numId w:val="x"/></w:numPr></w:pPr>' + RUN + "</w:p>",
    "cells_that_span": CELL + '<w:tcPr><w:gridSpan w:val="2000000000"/></w:tcPr>' + p("x") + "</w:tc></w:tr></w:tbl>",
    "headings": p("Chapter", "berschrift1") * 1_500,
    "alternates_deep": "<mc:AlternateContent><mc:Choice>" * 100 + p("x") + "</mc:Choice></mc:AlternateContent>" * 100,
    "alternates_doubled": "<mc:AlternateContent><mc:Choice>" + p("x") + "</mc:Choice><mc:Fallback>" + p("x") * 1000 + "</mc:Fallback></mc:AlternateContent>",
    "nothing": "",
    "symbols": "<w:p><w:r>" + '<w:sym w:char="FFFFFFFF"/><w:sym w:char="D800"/><w:sym/>' * 1000 + "</w:r></w:p>" + p("word"),
}  # fmt: skip
OPEN: dict[str, str] = {
    "lists_2000_deep": "<text:list><text:list-item>" * 2000 + "x" + "</text:list-item></text:list>" * 2000,
    "sections_100_deep": "<text:section>" * 100 + "<text:p>word</text:p>" + "</text:section>" * 100,
    "a_billion_spaces": '<text:p>a<text:s text:c="1000000000"/>b</text:p>',
    "many_spaces": '<text:p>a<text:s text:c="1000000"/>b</text:p>' * 1000,
    "negative_spaces": '<text:p>a<text:s text:c="-5"/>b<text:s text:c="x"/></text:p>',
    "a_billion_rows": '<table:table><table:table-row table:number-rows-repeated="1000000000"><table:table-cell table:number-columns-repeated="1000000000"><text:p>word</text:p></table:table-cell></table:table-row></table:table>',
    "empty_paragraphs": "<text:p/>" * 50_000,
    "headings_absurd": '<text:h text:outline-level="99999999999999">x</text:h><text:h text:outline-level="-1">y</text:h><text:p>word</text:p>',
    "notes_deep": "<text:p>a<text:note><text:note-body>" * 70 + "<text:p>x</text:p>" + "</text:note-body></text:note></text:p>" * 70,
    "spans": "<text:p>" + "<text:span>a </text:span>" * 10_000 + "</text:p>",
    "tabs": "<text:p>a" + "<text:tab/>" * 20_000 + "b</text:p>",
    "scripts": '<office:event-listeners/><text:p>word<text:script script:language="x" xmlns:script="urn:s">format()</text:script></text:p>',
    "changes": "<text:tracked-changes>" + "<text:changed-region/>" * 5_000 + "</text:tracked-changes><text:p>word</text:p>",
}  # fmt: skip
FICTION: dict[str, str] = {
    "sections_100000_deep": "<section>" * 10_000 + "<p>x</p>" + "</section>" * 10_000,
    "sections_200_deep": "<section><title><p>T</p></title>" * 200 + "<p>word</p>" + "</section>" * 200,
    "sections": "<section><title><p>T</p></title><p>word</p></section>" * 1_500,
    "sections_without_end": "<section><p>word" * 200,
    "poems_deep": "<section>" + "<poem><stanza><v>" * 60 + "x" + "</v></stanza></poem>" * 60 + "</section>",
    "cites": "<section><cite>" * 100 + "<p>word</p>" + "</cite></section>" * 100,
    "empty_lines": "<section>" + "<empty-line/>" * 50_000 + "<p>word</p></section>",
    "notes": "<section>" + '<p>word<a l:href="#n" type="note">1</a></p>' * 1_500 + "</section>",
    "emphasis": "<section><p>" + "<emphasis>" * 240 + "word" + "</emphasis>" * 240 + "</p></section>",
    "images": "<section>" + '<image l:href="#x"/>' * 10_000 + "<p>word</p></section>",
    "one_word_of_500000": f"<section><p>{'x' * 500_000}</p></section>",
    "tables": "<section><table>" + "<tr><td>x</td></tr>" * 3_000 + "</table></section>",
}  # fmt: skip


CORNER = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
WIDE = "<row><c><v>1</v></c></row>" * 40_000 + "<row>" + "<c/>" * 16_000 + "<c><v>1</v></c></row>"
SHEETS: dict[str, str] = {
    "far_corner": '<row r="1"><c r="A1"><v>1</v></c></row>' + CORNER,
    "wide_and_high": WIDE,
    "same_long_text": '<row><c t="s"><v>0</v></c></row>' * 20_000,
    "numbers_absurd": '<row r="99999999999"><c r="ZZZ0"><v>1e999</v></c></row>',
    "dates_absurd": '<row><c s="1"><v>1e300</v></c><c s="1"><v>-5</v></c></row>',
    "not_closed": "<row><c>" * 2_000,
    "cells": '<row><c t="inlineStr"><is><t>word</t></is></c></row>' * 30_000,
}  # fmt: skip
REPEATS = '<table:table-row table:number-rows-repeated="{0}"><table:table-cell table:number-columns-repeated="{1}"><text:p>{2}</text:p></table:table-cell></table:table-row>'
TABLES: dict[str, str] = {
    "a_billion_rows": REPEATS.format(10**9, 10**9, "word"),
    "empty_to_the_end": REPEATS.format(1, 1, "word") + REPEATS.format(1048575, 16384, ""),
    "rows_between": REPEATS.format(1, 1, "a") + REPEATS.format(10**6, 9000, "") + REPEATS.format(1, 1, "b"),
    "long_text_repeated": REPEATS.format(900, 900, "x" * 100_000),
    "numbers_absurd": REPEATS.format(10**17, 1, "x") * 3,
}  # fmt: skip
SLIDES: dict[str, str] = {
    "groups_deep": "<p:grpSp>" * 200 + shape("word") + "</p:grpSp>" * 200,
    "groups_20000_deep": "<p:grpSp>" * 20_000 + shape("word") + "</p:grpSp>" * 20_000,
    "boxes": shape("word") * 20_000,
    "table_deep": "<a:tbl><a:tr><a:tc>" * 60 + shape("word") + "</a:tc></a:tr></a:tbl>" * 60,
}


@hostile("read")
def msg_that_attaches_itself(folder: Path) -> Path:
    streams = msg("Outer", "")
    for depth in range(1, 60):
        place = "__attach_version1.0_#00000000/__substg1.0_3701000D/" * depth
        streams |= msg("Inner", "", place=place)
    path = folder / "a.msg"
    path.write_bytes(ole(streams))
    return path


@hostile("either")
def msg_whose_sectors_run_in_a_circle(folder: Path) -> Path:
    data = bytearray(ole(msg("The subject", "The words of it. " * 2000)))
    data[-512:] = b"\0\0\0\0" * 128  # every sector leads to the first
    path = folder / "a.msg"
    path.write_bytes(data)
    return path


@hostile("refused")
def gzip_bomb(folder: Path) -> Path:
    path = folder / "book.txt.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(200):
            file.write(b"a" * 1_000_000)
    return path


@hostile("refused")
def slides_without_end(folder: Path) -> Path:
    return pptx(folder / "a.pptx", [""] * 3_000)


def _maker(form: str, body: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        if form == "docx":
            return docx(folder / "book.docx", body)
        if form == "odt":
            return odt(folder / "book.odt", body)
        if form == "xlsx":
            return xlsx(folder / "book.xlsx", {"A": body}, shared=["x" * 100_000])
        if form == "ods":
            return ods(folder / "book.ods", f"<table:table>{body}</table:table>")
        if form == "pptx":
            return pptx(folder / "book.pptx", [body])
        path = folder / "book.fb2"
        path.write_text(fb2(body), encoding="utf-8")
        return path

    return make


def _listed() -> None:
    outcome: Outcome = "either"
    for form, bodies in (
        ("docx", WORD),
        ("odt", OPEN),
        ("fb2", FICTION),
        ("xlsx", SHEETS),
        ("ods", TABLES),
        ("pptx", SLIDES),
    ):
        for name, body in bodies.items():
            ALL[f"{form}_of_{name}"] = Hostile(f"{form}_of_{name}", _maker(form, body), outcome)


_listed()


@hostile("either")
def fb2_with_a_giant_picture(folder: Path) -> Path:
    path = folder / "book.fb2"
    cover = '<coverpage><image l:href="#c"/></coverpage>'
    binary = f'<binary id="c" content-type="image/png">{base64.b64encode(PNG + bytes(8_000_000)).decode()}</binary>'
    path.write_text(fb2("<section><p>Some words.</p></section>", info=cover, binary=binary))
    return path


@hostile("read")
def fb2_with_a_broken_picture(folder: Path) -> Path:
    path = folder / "book.fb2"
    cover = '<coverpage><image l:href="#c"/></coverpage>'
    binary = '<binary id="c" content-type="image/png">=====!!!!\u00e9</binary>' * 1000
    path.write_text(fb2("<section><p>Some words.</p></section>", info=cover, binary=binary))
    return path


@hostile("read")
def fb2_of_thousands_of_authors(folder: Path) -> Path:
    path = folder / "book.fb2"
    info = "<author><first-name>A</first-name><last-name>\x9b2J</last-name></author>" * 4_000
    info += f"<book-title>{'long ' * 100_000}</book-title>"
    path.write_text(fb2("<section><p>Some words.</p></section>", info=info))
    return path


def _changed(path: Path, files: Mapping[str, str | bytes | None]) -> Path:
    with zipfile.ZipFile(path) as archive:
        members: dict[str, str | bytes | None] = {n: archive.read(n) for n in archive.namelist()}
    members.update(files)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            if data is not None:
                archive.writestr(name, data)
    return path


@hostile("read")
def docx_that_fetches(folder: Path) -> Path:
    path = docx(folder / "book.docx", p("Some words."))
    links = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1" TargetMode="External" Target="http://127.0.0.1:9/x" Type="x/attachedTemplate"/>'
        '<Relationship Id="r2" TargetMode="External" Target="file:///etc/passwd" Type="x/footnotes"/>'
        '<Relationship Id="r3" Target="../../../../etc/passwd" Type="x/styles"/>'
        '<Relationship Id="r4" Target="document.xml" Type="x/aFChunk"/></Relationships>'
    )
    return _changed(
        path, {"word/_rels/document.xml.rels": links, "word/embeddings/ole.bin": bytes(99)}
    )


@hostile("either")
def docx_that_begins_outside(folder: Path) -> Path:
    path = docx(folder / "book.docx", p("Some words."))
    links = (
        "<Relationships><Relationship Type='http://schemas.openxmlformats.org/officeDocument/2006/"
        "relationships/officeDocument' Target='../../../../etc/passwd'/></Relationships>"
    )
    return _changed(path, {"_rels/.rels": links})


@hostile("either")
def docx_whose_styles_lead_in_a_circle(folder: Path) -> Path:
    path = docx(folder / "book.docx", p("Some words.", "A"))
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{a}"><w:basedOn w:val="{b}"/></w:style>'
        for a, b in [("A", "B"), ("B", "A"), *((f"S{n}", f"S{n + 1}") for n in range(5000))]
    )
    return _changed(path, {"word/styles.xml": f'<w:styles xmlns:w="{space}">{styles}</w:styles>'})


@hostile("either")
def odt_whose_styles_lead_in_a_circle(folder: Path) -> Path:
    path = odt(folder / "book.odt", '<text:p text:style-name="A">Some words.</text:p>')
    with zipfile.ZipFile(path) as archive:
        text = archive.read("content.xml").decode()
    styles = '<style:style style:name="A" style:parent-style-name="B"/><style:style style:name="B" style:parent-style-name="A"/>'
    styles += "".join(
        f'<style:style style:name="S{n}" style:parent-style-name="S{n + 1}"/>' for n in range(5000)
    )
    made = text.replace("<office:automatic-styles>", f"<office:automatic-styles>{styles}")
    return _changed(path, {"content.xml": made})


@hostile("refused")
def docx_without_a_document(folder: Path) -> Path:
    return _changed(docx(folder / "book.docx", ""), {"word/document.xml": None})


@hostile("either")
def docx_truncated(folder: Path) -> Path:
    path = docx(folder / "book.docx", p("Some words.") * 50)
    return _changed(
        path, {"word/document.xml": zipfile.ZipFile(path).read("word/document.xml")[:900]}
    )


@hostile("read")
def docx_called_epub(folder: Path) -> Path:
    return docx(folder / "book.epub", p("Some words."))


@hostile("read")
def odt_called_docx(folder: Path) -> Path:
    return odt(folder / "book.docx", "<text:p>Some words.</text:p>")


@hostile("either")
def odt_with_macros(folder: Path) -> Path:
    path = odt(folder / "book.odt", "<text:p>Some words.</text:p>")
    return _changed(
        path, {"Basic/Standard/Module1.xml": "<x>Shell(1)</x>", "Scripts/python/x.py": "1/0"}
    )


@hostile("either")
def docx_with_titles_that_escape(folder: Path) -> Path:
    core = (
        "<dc:title>Title\x9b2J &#10;&#13; x</dc:title><dc:creator>"
        + "A;" * 50_000
        + "</dc:creator>"
    )
    return docx(folder / "book.docx", p("Some words."), core=core)
