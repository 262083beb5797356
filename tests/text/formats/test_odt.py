"""odt: outline levels, notes, annotations, changes, frames, metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import ProtectedFileError
from anyrig.text.document import Block, Document
from anyrig.text.formats import odt as reader
from anyrig.text.formats.limits import Limits
from tests.text.formats.office_files import odt


def made(tmp_path: Path, body: str, meta: str = "") -> Document:
    return reader.read(odt(tmp_path / "a.odt", body, meta=meta), Limits())


def blocks(document: Document) -> list[Block]:
    return [block for chapter in document.chapters for block in chapter.blocks]


def test_spaces_tabs_and_line_breaks(tmp_path: Path) -> None:
    body = '<text:p>a<text:s text:c="5"/>b<text:tab/>c<text:line-break/>d\n e<text:s/></text:p>'
    assert blocks(made(tmp_path, body))[0].text == "a b c d e"


def test_what_is_no_text_is_left_out(tmp_path: Path) -> None:
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p>"
        "</text:deletion></text:changed-region></text:tracked-changes>"
        "<text:p>Kept<office:annotation><text:p>remark</text:p></office:annotation>.</text:p>"
    )
    assert [block.text for block in blocks(made(tmp_path, body))] == ["Kept."]


def test_notes(tmp_path: Path) -> None:
    def note(kind: str, mark: str, text: str) -> str:
        return (
            f'<text:note text:id="n{mark}" text:note-class="{kind}"><text:note-citation>{mark}'
            f"</text:note-citation><text:note-body><text:p>{text}</text:p></text:note-body>"
            "</text:note>"
        )

    body = f"<text:p>A{note('footnote', '1', 'Foot.')} b{note('endnote', 'i', 'End.')}</text:p>"
    document = made(tmp_path, body + "<text:p>Next.</text:p>")
    assert [(block.kind, block.text, block.id) for block in blocks(document)] == [
        ("paragraph", "A1 bi", ""), ("note", "Foot.", "n1"), ("paragraph", "Next.", ""),
        ("note", "End.", "ni"),
    ]  # fmt: skip
    assert [one.value for one in blocks(document)[0].inlines] == ["n1", "ni"]
    assert document.chapters[-1].role == "notes"


def test_lists_tables_frames_quotes_and_contents(tmp_path: Path) -> None:
    def cell(text: str) -> str:
        return f"<table:table-cell><text:p>{text}</text:p></table:table-cell>"

    body = (
        "<text:table-of-content><text:index-body><text:p>One 3</text:p></text:index-body>"
        "</text:table-of-content>"
        "<text:list><text:list-item><text:p>a</text:p><text:list><text:list-item><text:p>b</text:p>"
        "</text:list-item></text:list></text:list-item></text:list>"
        f"<table:table><table:table-row>{cell('x')}{cell('y')}</table:table-row>"
        f"<table:table-row>{cell('z')}{cell('')}</table:table-row></table:table>"
        '<text:p text:style-name="P1">Said.</text:p>'
        "<text:p>See<draw:frame><draw:image/><svg:title>A cat</svg:title></draw:frame></text:p>"
        '<text:p>He said <text:span text:style-name="T1">oui</text:span>.</text:p>'
    )
    document = made(tmp_path, body)
    assert document.chapters[0].role == "contents"
    assert [(block.kind, block.text) for block in blocks(document)[1:]] == [
        ("item", "a"), ("item", "b"), ("table", "x\ty\nz"), ("quote", "Said."),
        ("paragraph", "See"), ("image", "A cat"), ("paragraph", "He said oui."),
    ]  # fmt: skip
    assert [(one.kind, one.value) for one in blocks(document)[-1].inlines] == [
        ("language", "fr-FR")
    ]


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    meta = "<dc:title>T</dc:title><meta:initial-creator>Ann</meta:initial-creator>"
    about = made(tmp_path, "<text:p>x</text:p>", meta).metadata
    assert (about.title, about.authors, about.language) == ("T", ("Ann",), "en-GB")


def test_a_password_is_named(tmp_path: Path) -> None:
    path = odt(tmp_path / "a.odt", "<text:p>x</text:p>", encrypted=True)
    with pytest.raises(ProtectedFileError):
        reader.read(path, Limits())
