"""Files with bytes changed, cut or doubled: a document or one InvalidInputError, never anything
else."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text.document import Document
from anyrig.text.formats import docx as docx_reader
from anyrig.text.formats import fb2 as fb2_reader
from anyrig.text.formats import html, markdown, plain, rtf
from anyrig.text.formats import odt as odt_reader
from anyrig.text.formats.limits import Limits
from tests.text.formats.office_files import docx, fb2, odt, p, r

NUM_TRIES = 60
PLAIN = (
    "Contents\n\nI. One\nII. Two\n\nCHAPTER I\n\nText[1] of it,\nwrapped.\n\n[1] Note.\n\n* * *\n"
)
PAGE = "<html lang='en'><head><title>T</title></head><body><h1>A</h1><p>b<table><tr><td>c</table>"
MARKED = (
    "---\ntitle: x\n---\n# A\n\nb[^1] *c* [d](e)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[^1]: n\n"
)
RTF = r"{\rtf1\ansi{\info{\title T}}{\s1 x}Text \'e9\u8212?{\footnote n}\par\intbl a\cell\row}"
FB2 = fb2(
    "<section><title><p>A</p></title><p>b</p><poem><stanza><v>c</v></stanza></poem></section>"
)
NOTE = '<w:r><w:footnoteReference w:id="2"/></w:r>'
WORD = (
    p("One", "berschrift1")
    + p(r("x") + NOTE)
    + f"<w:tbl><w:tr><w:tc>{p('a')}</w:tc></w:tr></w:tbl>"
)
OPEN = '<text:h text:outline-level="1">A</text:h><text:p>b<text:s text:c="2"/>'
OPEN += "<text:note><text:note-body><text:p>n</text:p></text:note-body></text:note></text:p>"


def mutated(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 3, 10])):
        at = rng.randrange(len(made) + 1)
        other = rng.randrange(len(made) + 1)
        choice = rng.randrange(5)
        if choice == 0:
            made[at : at + 1] = bytes([rng.randrange(256)])
        elif choice == 1:
            made[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif choice == 2:
            del made[at : at + rng.randrange(1, 60)]
        elif choice == 3:
            made[at:at] = made[other : other + rng.randrange(200)]
        elif rng.random() < 0.3:
            del made[at:]
    return bytes(made)


def check(read: Callable[[Path, Limits], Document], path: Path) -> None:
    try:
        document = read(path, Limits())
    except InvalidInputError as error:
        if not error.hint:
            pytest.fail(f"no hint: {error}")
        return
    for chapter in document.chapters:
        for block in chapter.blocks:
            block.text.encode("utf-8")
            assert all(0 <= one.start <= one.end <= len(block.text) for one in block.inlines)


@pytest.mark.parametrize(
    ("read", "seed"),
    [
        (plain.read, PLAIN), (html.read, PAGE), (markdown.read, MARKED), (rtf.read, RTF),
        (fb2_reader.read, FB2),
    ],
    ids=["plain", "html", "markdown", "rtf", "fb2"],
)  # fmt: skip
def test_files_of_text(tmp_path: Path, read: Callable[[Path, Limits], Document], seed: str) -> None:
    rng = random.Random(5)
    path = tmp_path / "a"
    for _ in range(NUM_TRIES):
        path.write_bytes(mutated(seed.encode(), rng))
        check(read, path)


@pytest.mark.parametrize("form", ["docx", "odt"])
def test_archives_and_what_is_in_them(tmp_path: Path, form: str) -> None:
    rng = random.Random(6)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    if form == "docx":
        docx(whole, WORD, footnotes=f'<w:footnote w:id="2">{p("n")}</w:footnote>')
    else:
        odt(whole, OPEN)
    read = docx_reader.read if form == "docx" else odt_reader.read
    with zipfile.ZipFile(whole) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(NUM_TRIES):
        broken.write_bytes(mutated(whole.read_bytes(), rng))
        check(read, broken)
        with zipfile.ZipFile(broken, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, mutated(data, rng) if rng.random() < 0.4 else data)
        check(read, broken)
