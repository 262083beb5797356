"""Reading a document in parts, at a passage that was found in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig import Rig
from anyrig.app.reader import ReadRequest, read_part
from anyrig.documents.passages import split_passages
from anyrig.errors import InvalidInputError
from tests.text.formats.office_files import docx, p
from tests.text.page_reading import read_pages

HEADING = "berschrift1"


def test_a_part_is_the_chapter_with_the_passage(tmp_path: Path) -> None:
    body = p("The lease", HEADING) + p("The rent is due on Monday.") + p("It is 850 euros.")
    body += p("The roof", HEADING) + p("The landlord mends the roof.")
    file = docx(tmp_path / "lease.docx", body)
    passage = next(one for one in split_passages(read_pages(file)) if "mends" in one.text)
    request = ReadRequest(file=file, start=passage.file_start, words=passage.text[:20])
    found = read_part(Rig(), request)
    assert (found.type, found.part, found.num_parts) == ("docx", 2, 2)
    assert found.language == "en-gb"
    assert found.start == passage.file_start
    shown = [(one.text, one.heading) for one in found.blocks]
    assert shown == [("The roof", True), ("The landlord mends the roof.", False)]
    text = read_pages(file).text
    assert all(text[one.start :].startswith(one.text) for one in found.blocks)
    first = read_part(Rig(), ReadRequest(file=file, part=1))
    assert [one.text for one in first.blocks][0] == "The lease"
    assert first.start is None


def test_a_long_chapter_is_cut_between_paragraphs(tmp_path: Path) -> None:
    sentences = [f"Sentence {number} is about the harbour." for number in range(6000)]
    lines = [" ".join(sentences[start : start + 50]) for start in range(0, 3000, 50)]
    lines.append(" ".join(sentences[3000:]))  # longer than a part
    file = tmp_path / "long.html"
    file.write_text("<html><body>" + "".join(f"<p>{line}</p>" for line in lines))
    rig = Rig()
    first = read_part(rig, ReadRequest(file=file))
    parts = [
        read_part(rig, ReadRequest(file=file, part=number))
        for number in range(1, first.num_parts + 1)
    ]
    assert len(parts) > 3
    sizes = [sum(len(block.text) for block in part.blocks) for part in parts]
    assert max(sizes) <= 20_000
    words = [word for part in parts for block in part.blocks for word in block.text.split()]
    assert words == " ".join(lines).split()
    late = "Sentence 5500 is about"
    found = read_part(
        rig, ReadRequest(file=file, start=read_pages(file).text.find(late), words=late)
    )
    assert any(late in block.text for block in found.blocks)


def test_a_passage_that_has_moved_is_found_or_said_to_be_missing(tmp_path: Path) -> None:
    file = tmp_path / "note.html"
    file.write_text("<p>Something new.</p><p>The rent is due on Monday.</p>")
    found = read_part(Rig(), ReadRequest(file=file, start=0, words="The rent is"))
    assert found.start == read_pages(file).text.find("The rent")
    found = read_part(Rig(), ReadRequest(file=file, start=0, words="The roof is"))
    assert found.start is None
    assert found.blocks[0].text == "Something new."
    # A place beyond the end, and a part that is not there.
    assert read_part(Rig(), ReadRequest(file=file, start=10**6, part=99)).part == 1


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    file = tmp_path / "torn.docx"
    file.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(InvalidInputError, match=r"torn\.docx"):
        read_part(Rig(), ReadRequest(file=file))
