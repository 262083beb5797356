"""Pages are cut into passages without losing a letter, whatever stands in them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.documents.pairs import TextPair, read_pairs
from anyrig.documents.passages import BUDGET, measure_weight, split_page, split_passages
from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, Chapter, Document, Metadata
from tests.text.page_reading import build_document

ALICE = (Path(__file__).parents[1] / "texts" / "alice.txt").read_text(encoding="utf-8")


def build(*texts: str) -> Document:
    titles = [f"page {number}" for number in range(1, len(texts) + 1)]
    return build_document(*texts, path=Path("file.pdf"), titles=titles, numbered=True)


def check(text: str, budget: int = BUDGET) -> list[tuple[int, int]]:
    """Every letter is in a passage, none is too long, each begins behind the one before."""
    found = split_page(text, budget=budget)
    covered = bytearray(len(text))
    for start, end in found:
        covered[start:end] = b"\1" * (end - start)
        assert 0 < measure_weight(text[start:end]) <= 1.3 * budget + 2
        assert not text[start].isspace()
        assert not text[end - 1].isspace()
    assert all(covered[at] for at, one in enumerate(text) if one.isalnum())
    assert all(
        one[0] < two[0] and one[1] < two[1] for one, two in zip(found, found[1:], strict=False)
    )
    return found


def test_a_book_is_cut_at_sentences() -> None:
    found = check(ALICE)
    sizes = [end - start for start, end in found]
    assert 500 < sum(sizes) / len(sizes) < BUDGET
    # Hardly anything twice: where a paragraph is cut, a sentence or two.
    assert sum(sizes) < 1.1 * len(ALICE)
    ends = [ALICE[end - 1] for _, end in found]
    assert sum(one in ".!?:;'\")-" for one in ends) > 0.95 * len(ends)


def test_places_are_in_page_and_file() -> None:
    file = build(ALICE[:3000], "", ALICE[3000:7000], "The end.")
    found = list(split_passages(file))
    assert [one.number for one in found] == list(range(len(found)))
    assert {one.page for one in found} == {1, 3, 4}
    for one in found:
        page = file.parts("page")[one.page - 1]
        assert page.text[one.start : one.end] == one.text
        assert file.text[one.file_start : one.file_start + len(one.text)] == one.text
        assert one.title == f"page {one.page}"


def test_sentences_across_a_cut_stand_in_both() -> None:
    sentences = [f"This is sentence number {n} of a paragraph without an end." for n in range(60)]
    text = " ".join(sentences)
    found = check(text)
    assert len(found) > 3
    for one, two in zip(found, found[1:], strict=False):
        assert two[0] < one[1], "the next begins within the one before"
        assert one[1] - two[0] < BUDGET / 4


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (" \n\t\n ", 0),
        ("* * *\n\n---\n\n***", 0),
        ("Yes.", 1),
        ("x" * 50_000, 50),
        ("東京は日本の首都です。" * 500, 22),
        ("word " * 5000, 25),
    ],
)  # fmt: skip
def test_odd_texts(text: str, count: int) -> None:
    found = check(text)
    assert count <= len(found) <= count * 1.2


def test_broken_characters_are_blanks_and_move_nothing() -> None:
    file = build("A \x00 zero and \ud800 half a pair, then more.")
    (one,) = split_passages(file)
    assert one.text == "A   zero and   half a pair, then more."
    assert len(one.text) == len(file.parts("page")[0].text)


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="ab .\n!?“”(é東", max_size=600), st.integers(20, 200))
def test_any_text(text: str, budget: int) -> None:
    check(text, budget)


def test_a_paragraph_of_very_many_sentences_is_cut_between_sentences() -> None:
    text = "This is one. " * 40_000
    found = split_page(text)
    assert found[0][0] == 0
    assert found[-1][1] == len(text.rstrip())
    assert all(text[start:].startswith("This") and text[end - 1] == "." for start, end in found)
    assert all(after[0] <= before[1] + 1 for before, after in pairwise(found))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"query": "q", "passage": "p"}\n\n{"question": "r", "answer": "s"}\n'),
        ("a.json", '[{"anchor": "q", "positive": "p"}, {"Text1": "r", "Text2": "s"}]'),
        ("a.csv", "\ufeffnote;query;passage\r\n1;q;p\r\n2;r;s\r\n"),
        ("a.tsv", "sentence1\tsentence2\nq\tp\nr\ts\n"),
    ],
)
def test_pairs_of_many_forms(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    told = read_pairs(tmp_path / name)
    assert told.found == [TextPair("q", "p"), TextPair("r", "s")]
    assert not told.troubles
    assert not told.scored


def test_negatives_come_as_a_list_or_in_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"query": "q", "positive": "p", "negatives": ["a", "b", "a", ""]}\n'
        '{"query": "q", "positive": "p", "negative_1": "c", "hard_negative": "d"}\n'
    )
    assert [one.negatives for one in read_pairs(tmp_path / "a.jsonl").found] == [
        ("a", "b"),
        ("c", "d"),
    ]


def test_scores_are_numbers_from_minus_one_to_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "text1,text2,score\na,b,0.5\nc,d,4.5\ne,f,high\ng,h,nan\ni,j,-1\n"
    )
    told = read_pairs(tmp_path / "a.csv")
    assert told.found == [TextPair("a", "b", score=0.5), TextPair("i", "j", score=-1.0)]
    assert told.scored
    assert [place for place, _ in told.troubles] == [f"a.csv, line {n}" for n in (3, 4, 5)]


def test_bad_lines_are_told_of_and_the_rest_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"query": "q", "passage": "p"}\nnothing\n[1]\n{"query": "q"}\n'
        '{"query": "q", "passage": " "}'
    )
    told = read_pairs(tmp_path / "a.jsonl")
    assert len(told.found) == 1
    assert [place.rpartition(" ")[2] for place, _ in told.troubles] == ["2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "empty"),
        (b"one,two\n1,2\n", "does not say"),
        (b'{"query": "q"}', "no pairs"),
        (b"[1, 2", "not valid JSON"),
        (b'{"query": "q", "passage": "p"}\n{"query": "q", "passage": "p", "score": 1}', "without"),
    ],
)
def test_what_holds_no_pairs_is_refused(text: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(text)
    with pytest.raises(InvalidInputError, match=said):
        read_pairs(tmp_path / "a.txt")


def test_passages_are_cut_by_the_language_that_was_found() -> None:
    text = "Am 3. Oktober kam der Zug nach Plan an, und wir gingen um ca. 9 Uhr zum Hafen. " * 60
    document = Document(
        Metadata(language="en"), (Chapter("", (Block(text.strip()),)),), format="html"
    )
    found = list(split_passages(document))
    assert found == list(split_passages(document, language="de"))
    assert not any(one.text.endswith(("3.", "ca.")) for one in found)
    assert found != list(split_passages(document, language="en"))
