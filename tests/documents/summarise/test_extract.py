from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anyrig.documents.summarise.extract import Length, extract, rate_positions
from anyrig.documents.summarise.files import split_chapters, summarise_files
from anyrig.text.document import Block, Chapter, Document
from anyrig.text.formats.limits import Limits
from tests.conftest import ROOT
from tests.documents.index.bag import Bag
from tests.documents.marked_texts import load
from tests.text.page_reading import build_document, read_pages

ALICE = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")


def hits(*, vectors: Bag | None = None) -> tuple[int, int, int]:
    """Marked sentences that were taken, those among the first three, and all."""
    ours = lead = total = 0
    for one in load():
        found = extract(one.document, length=Length(sentences=3), vectors=vectors)
        ours += sum(taken.text in one.salient for taken in found.taken)
        lead += sum(sentence in one.salient for sentence in one.sentences[:3])
        total += len(one.salient)
    return ours, lead, total


def test_marked_sentences_are_found_more_often_than_by_taking_the_first() -> None:
    ours, lead, total = hits()
    assert ours >= 0.6 * total
    assert ours > 1.5 * lead


def test_each_sentence_says_where_it_stands() -> None:
    first = "First page here. Alice met the Rabbit on the lawn today."
    document = build_document(first, ALICE[:4000], ALICE[4000:8000], numbered=True)
    found = extract(document, length=Length(sentences=6))
    starts = [one.start for one in found.taken]
    assert starts == sorted(starts)
    for one in found.taken:
        assert " ".join(document.text[one.start : one.end].split()) == one.text
        page = document.parts("page")[one.page - 1]
        assert page.start <= one.start < page.start + len(page.text)


def test_no_sentence_crosses_a_page() -> None:
    document = build_document(
        "The treaty was signed by the", "ministers of both countries on Monday."
    )
    for one in extract(document).taken:
        assert "signed by the ministers" not in one.text


@pytest.mark.parametrize("words", [20, 60, 150])
def test_words_are_kept_to(words: int) -> None:
    found = extract(build_document(ALICE[:9000]), length=Length(words=words))
    assert 0 < len(found.text.split()) <= words * 1.1


@pytest.mark.parametrize("text", ["", "\n \n", "ok", "??? !!!", "one two three", "1 2 3\n\n4 5 6"])
def test_texts_that_say_little(text: str) -> None:
    found = extract(build_document(text))
    assert all(one.text for one in found.taken)


def test_what_is_said_twice_is_taken_once() -> None:
    again = "The council approved the budget for the new bridge over the river on Monday."
    other = "Residents of the harbour district had asked for a ferry and not for a bridge."
    found = extract(build_document(f"{again} {again} {other} {again}"), length=Length(sentences=2))
    assert {one.text for one in found.taken} == {again, other}


def test_headings_are_not_taken() -> None:
    text = "The budget of the bridge\n\nThe budget of the bridge was approved on Monday evening."
    found = extract(build_document(text), length=Length(sentences=1))
    assert found.taken[0].text.endswith("evening.")


def test_chapters_of_a_file_that_has_titles() -> None:
    long = "The gate was closed at night and opened in the morning by the old keeper. " * 5
    titles = ("One", "One", "Two", "Three")
    document = build_document(long, long, "Short.", long, path=Path("b.epub"), titles=titles)
    found = split_chapters(document, Limits())
    assert [one.metadata.title for one in found] == ["One", "Three"]
    assert found[1].parts("chapter")[0].start == 0


def test_chapters_of_plain_text_are_found_by_their_headings(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(ALICE, encoding="utf-8")
    found = split_chapters(Document.from_text(ALICE, path), Limits())
    assert len(found) >= 4
    assert all(one.metadata.title for one in found)


def test_a_text_without_chapters_is_one() -> None:
    one = build_document(
        "The gate was closed at night and opened in the morning by its keeper. " * 5
    )
    assert split_chapters(one, Limits()) == [one]


def test_position_is_told_for_any_number_of_sentences() -> None:
    # Counted anew for each, the openings of so many paragraphs take minutes.
    starts = rate_positions([True, False] * 100_000)
    assert starts[0] / starts[1] == pytest.approx(1.15, rel=1e-3)
    assert rate_positions([True] * 3)[0] == 1.5  # where all open one, none gains by it


def test_the_head_of_a_message_is_no_sentence_of_its_summary(tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    head = (
        "From: Alice Liddell <al@example.org>\nTo: The Rabbit <rabbit@example.org>\nSubject: Alice"
    )
    path.write_text(f"{head}\n\n{ALICE[2000:6000]}", encoding="utf-8")
    document = read_pages(path)
    [found] = summarise_files([document], length=Length(share=0.9), limits=Limits())
    assert "example.org" in document.text
    assert "example.org" not in found.summaries[0].summary.text
    table = replace(document, chapters=(Chapter("", (Block("Boats\t3.\nNets\t4.", "table"),)),))
    [found] = summarise_files([table], length=Length(sentences=2), limits=Limits())
    assert "Boats" in found.summaries[0].summary.text
