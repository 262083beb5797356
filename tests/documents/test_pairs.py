"""Pairs of texts from files as people have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.documents.pairs import Couple, pairs
from anyrig.errors import InvalidInputError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"query": "q", "passage": "p"}\n\n{"question": "r", "answer": "s"}\n'),
        ("a.json", '[{"anchor": "q", "positive": "p"}, {"Text1": "r", "Text2": "s"}]'),
        ("a.csv", "query,passage\nq,p\nr,s\n"),
        ("a.csv", "\ufeffnote;query;passage\r\n1;q;p\r\n2;r;s\r\n"),
        ("a.tsv", "sentence1\tsentence2\nq\tp\nr\ts\n"),
        ("a.txt", '{"query": "q", "passage": "p"}\n{"query": "r", "document": "s"}'),
    ],
)
def test_pairs_of_many_forms(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    told = pairs(tmp_path / name)
    assert told.found == [Couple("q", "p"), Couple("r", "s")]
    assert not told.troubles
    assert not told.scored


def test_negatives_come_as_a_list_or_in_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"query": "q", "positive": "p", "negatives": ["a", "b", "a", ""]}\n'
        '{"query": "q", "positive": "p", "negative_1": "c", "hard_negative": "d"}\n'
    )
    assert [one.negatives for one in pairs(tmp_path / "a.jsonl").found] == [("a", "b"), ("c", "d")]


def test_scores_are_numbers_from_minus_one_to_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "text1,text2,score\na,b,0.5\nc,d,4.5\ne,f,high\ng,h,nan\ni,j,-1\n"
    )
    told = pairs(tmp_path / "a.csv")
    assert told.found == [Couple("a", "b", score=0.5), Couple("i", "j", score=-1.0)]
    assert told.scored
    assert [place for place, _ in told.troubles] == [f"a.csv, line {n}" for n in (3, 4, 5)]


def test_bad_lines_are_told_of_and_the_rest_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"query": "q", "passage": "p"}\nnothing\n[1]\n{"query": "q"}\n'
        '{"query": "q", "passage": " "}'
    )
    told = pairs(tmp_path / "a.jsonl")
    assert len(told.found) == 1
    assert [place.rpartition(" ")[2] for place, _ in told.troubles] == ["2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "empty"),
        (b"one,two\n1,2\n", "does not say"),
        (b'{"query": "q"}', "no pairs"),
        (b"[1, 2", "no JSON"),
        (b'{"query": "q", "passage": "p"}\n{"query": "q", "passage": "p", "score": 1}', "without"),
    ],
)
def test_what_holds_no_pairs_is_refused(text: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(text)
    with pytest.raises(InvalidInputError, match=said):
        pairs(tmp_path / "a.txt")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        pairs(tmp_path / "none.csv")
