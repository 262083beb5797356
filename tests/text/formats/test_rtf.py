"""RTF: styles, encodings, footnotes, tables, what is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, Document
from anyrig.text.formats import rtf
from anyrig.text.formats.limits import Limits

HEAD = (
    r"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Times;}{\f1\fcharset204 Other;}}"
    r"{\stylesheet{\s0 Normal;}{\s1 heading 1;}{\s2\outlinelevel1 own;}}"
    r"{\info{\title The \'dcber Book}{\author Ann; Bob}}{\header Page head\par}"
)


def made(tmp_path: Path, body: str, end: str = "}") -> Document:
    path = tmp_path / "a.rtf"
    path.write_bytes((HEAD + body + end).encode("latin-1"))
    return rtf.read(path, Limits())


def blocks(document: Document) -> list[Block]:
    return [block for chapter in document.chapters for block in chapter.blocks]


def test_headings_paragraphs_and_metadata(tmp_path: Path) -> None:
    body = r"\pard\s1 One\par\pard\plain It \b is\b0  so.\par\pard\s2 Inside\par\pard Text.\par"
    document = made(tmp_path, body)
    assert [(each.level, each.title) for each in document.chapters] == [(1, "One"), (2, "Inside")]
    assert blocks(document)[1].text == "It is so."
    assert (document.metadata.title, document.metadata.authors) == ("The Über Book", ("Ann", "Bob"))


def test_characters(tmp_path: Path) -> None:
    body = r"caf\'e9 {\f1 \'cf\'f0} \u1055?\uc2\u-10179 xx\u-8704 xx\emdash end\~now\par"
    assert blocks(made(tmp_path, body))[0].text == "café Пр П😀—end now"


def test_footnotes_follow_their_paragraph(tmp_path: Path) -> None:
    body = r"One{\super\chftn}{\footnote\pard{\super\chftn} A note.} more.\par Two.\par"
    found = blocks(made(tmp_path, body))
    assert [(block.kind, block.text) for block in found] == [
        ("paragraph", "One1 more."), ("note", "A note."), ("paragraph", "Two."),
    ]  # fmt: skip
    assert [(one.kind, one.value) for one in found[0].inlines] == [("noteref", found[1].id)]


def test_a_note_of_one_letter_is_one_paragraph(tmp_path: Path) -> None:
    found = blocks(made(tmp_path, r"One{\footnote A}.\par Two.\par"))
    assert [(block.kind, block.text) for block in found] == [
        ("paragraph", "One1."), ("note", "A"), ("paragraph", "Two."),
    ]  # fmt: skip


def test_what_is_hidden_and_what_is_shown(tmp_path: Path) -> None:
    body = (
        r"A{\v hidden}{\deleted gone}{\*\unknown x}{\pict\bin3 }}}}"
        r'{\field{\*\fldinst{HYPERLINK "http://x"}}{\fldrslt link}}.\par'
        r"{\shp{\*\shpinst{\shptxt\pard Box.\par}}{\shprslt Box.}}"
    )
    assert [block.text for block in blocks(made(tmp_path, body))] == ["Alink.", "Box."]


def test_tables_lists_and_rules(tmp_path: Path) -> None:
    body = (
        r"\trowd\intbl a\cell b\cell\row\trowd\intbl c\cell d\cell\row\pard"
        r"{\pntext 1.\tab}one\par * * *\par"
    )
    assert [(block.kind, block.text) for block in blocks(made(tmp_path, body))] == [
        ("table", "a\tb\nc\td"), ("item", "one"), ("rule", "* * *"),
    ]  # fmt: skip


def test_a_file_cut_short_says_so(tmp_path: Path) -> None:
    document = made(tmp_path, "Some text", end="")
    assert blocks(document)[0].text == "Some text"
    assert document.warnings


@pytest.mark.parametrize("data", [b"", b"{\\rtf1 }", b"plain", b"{\\rtf1 " + b"{" * 5000])
def test_what_holds_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.rtf"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError):
        rtf.read(path, Limits())
