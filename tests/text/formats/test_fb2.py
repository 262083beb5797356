"""FictionBook: nested sections, poems, notes, cover, series, encodings, zipped."""

from __future__ import annotations

import base64
import zipfile
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, Document
from anyrig.text.formats import fb2 as reader
from anyrig.text.formats.limits import Limits
from tests.text.formats.office_files import fb2

JPEG = b"\xff\xd8\xff\xe0" + b"0" * 30


def made(tmp_path: Path, text: str, encoding: str = "utf-8") -> Document:
    path = tmp_path / "a.fb2"
    path.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>{text}'.encode(encoding))
    return reader.read(path, Limits())


def blocks(document: Document) -> list[Block]:
    return [block for chapter in document.chapters for block in chapter.blocks]


def test_sections_nest(tmp_path: Path) -> None:
    body = (
        "<title><p>The Book</p></title><section><title><p>Part</p><p>One</p></title>"
        "<section><title><p>First</p></title><p>a.</p></section><section><p>untitled.</p></section>"
        "</section>"
    )
    document = made(tmp_path, fb2(body))
    assert [(each.level, each.title, each.role) for each in document.chapters] == [
        (1, "The Book", "title"), (1, "Part. One", "body"), (2, "First", "body"),
    ]  # fmt: skip
    assert document.chapters[-1].blocks[-1].text == "untitled."


def test_kinds(tmp_path: Path) -> None:
    body = (
        "<section><title><p>T</p></title><epigraph><p>Said.</p>"
        "<text-author>Ann</text-author></epigraph>"
        "<p>He <emphasis>was</emphasis>\n there.</p><empty-line/><subtitle>* * *</subtitle>"
        "<poem><title><p>Ode</p></title><stanza><v>one</v><v>two</v></stanza></poem>"
        "<cite><p>Cited.</p></cite><table><tr><th>a</th><td>b</td></tr></table></section>"
    )
    assert [(block.kind, block.text) for block in blocks(made(tmp_path, fb2(body)))] == [
        ("heading", "T"), ("quote", "Said."), ("quote", "Ann"), ("paragraph", "He was there."),
        ("rule", "* * *"), ("heading", "Ode"), ("poem", "one\ntwo"), ("quote", "Cited."),
        ("table", "a\tb"),
    ]  # fmt: skip


def test_notes(tmp_path: Path) -> None:
    text = fb2(
        '<section><p>Text<a l:href="#n1" type="note">[1]</a>.</p></section>',
        notes='<title><p>Notes</p></title><section id="n1"><title><p>1</p></title>'
        "<p>It.</p></section>",
    )
    document = made(tmp_path, text)
    assert [(one.start, one.end, one.value) for one in blocks(document)[0].inlines] == [
        (4, 7, "n1")
    ]
    assert document.chapters[-1].role == "notes"
    assert [(block.kind, block.id) for block in document.chapters[-1].blocks] == [
        ("heading", ""), ("note", "n1"), ("note", "n1"),
    ]  # fmt: skip


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    info = (
        "<genre>sf</genre><author><first-name>Иван</first-name><last-name>Петров</last-name>"
        "</author>"
        '<book-title>Книга</book-title><lang>ru</lang><sequence name="Ряд" number="2"/>'
        '<date>1999</date><coverpage><image l:href="#c.jpg"/></coverpage>'
    )
    binary = f'<binary id="c.jpg">{base64.b64encode(JPEG).decode()}</binary>'
    text = fb2("<section><p>Привет.</p></section>", info=info, binary=binary)
    document = made(tmp_path, text, "windows-1251")
    about = document.metadata
    assert (about.title, about.authors, about.language) == ("Книга", ("Иван Петров",), "ru")
    assert (about.series, about.series_index, about.year) == ("Ряд", "2", "1999")
    assert document.cover is not None
    assert document.cover.data == JPEG
    assert blocks(document)[0].text == "Привет."


def test_zipped(tmp_path: Path) -> None:
    path = tmp_path / "a.fb2.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("book.fb2", fb2("<section><p>Hello.</p></section>"))
    assert blocks(reader.read(path, Limits()))[0].text == "Hello."


@pytest.mark.parametrize("text", ["<html/>", "<FictionBook/>", "no mark-up"])
def test_what_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.fb2"
    path.write_text(text)
    with pytest.raises(InvalidInputError):
        reader.read(path, Limits())
