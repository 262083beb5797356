r"""Tables of what is written, a tab, and how it is read; all lines that are wrong are shown.

A line that begins with `#!` or `# ` and has no tab is a remark; `\n` in a line is a line's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.speech.normalise import LANGUAGES as ALL
from anyrig.speech.normalise import normalise, read

LANGUAGES = [name for name in ALL if name != "en"]
_TABLES = Path(__file__).parent
_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too
_SIGNS = st.text(
    st.sampled_from("0123456789.,:;/-–'\"$£€%°&@#*_|<>[]()`~^=+ \n\tIVXaAhmpsStDr²½é👍\u0301")
)
_PIECES = (
    "Dr. St. No. p. pp. vol. Chapter IV Henry VIII 5 km 3:05 p.m. $3.50 1/2 1905 '90s 4 May 2021 "
    "05/04/2021 555-1234 https://x.com/a?b=1 a@b.com **x** <b> &amp; | - … 😀 U.S. J. R. R. "
    "Tolkien 10-20 5'11\" -5°C 2.5M 1e9 x² under-\nstanding 1.2.3 C:\\x #tag € kg ISBN 007 100 % "
    "24/7 III"
).split(" ")
_WORDS = st.lists(st.sampled_from(_PIECES))


_ROWS = [
    piece * (4000 // len(piece))
    for piece in (
        "7", "1,", "1.", "1-", "1 ", "a.", "A ", "I", "*", "_a", "<", "[", "(", "http://", "@",
        "\x00\x1f", "אבג 123 ", "e\u0301", "\n-", "|", "Mr. ", "$", "1/", "a-\n", "'", "A", "Aa ",
        ". ", "&amp;", "M", "\u0660\u0661", "x_", "a/", "12:", "-", "#", "5 km ", "aB", " ", "\n",
    )
]  # fmt: skip


class _Pair(NamedTuple):
    language: str
    category: str
    written: str
    spoken: str


def _pairs() -> Iterator[_Pair]:
    for path in sorted(_TABLES.glob("*/*.tsv")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "\t" in line:
                written, _, spoken = line.partition("\t")
                yield _Pair(path.parent.name, path.stem, written.replace("\\n", "\n"), spoken)
            else:
                assert not line or line.startswith("#"), f"{path.name}: no tab in {line!r}"


_PAIRS = list(_pairs())


@pytest.mark.parametrize("language", LANGUAGES)
def test_reads_as_the_table_says(language: str) -> None:
    wrong = [
        f"{pair.category}: {pair.written!r} is read as {spoken!r}, not {pair.spoken!r}"
        for pair in _PAIRS
        if pair.language == language
        and (spoken := normalise(pair.written, language)) != pair.spoken
    ]
    assert not wrong, "\n".join(wrong)


def _whole(text: str, language: str) -> None:
    """Every character is in exactly one stretch, and reading again says the same."""
    said = read(text, language)
    assert [one.start for one in said] == [0, *(one.end for one in said)][: len(said)]
    assert all(one.end > one.start for one in said)
    assert (said[-1].end if said else 0) == len(text)
    for one in said:
        assert one.kind or one.text == text[one.start : one.end]


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=50, deadline=None)
@given(text=_TEXT | _SIGNS | _WORDS.map(" ".join) | _WORDS.map("".join))
def test_any_text_is_read_and_no_character_is_lost(language: str, text: str) -> None:
    _whole(text, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_long_rows_of_anything_are_read(language: str, subtests: pytest.Subtests) -> None:
    for text in _ROWS:
        with subtests.test(text=text[:8]):
            _whole(text, language)


def test_a_language_without_rules_is_left_as_it_stands() -> None:
    assert normalise("5 km", "tlh") == "5 km"


def test_tells_where_each_stretch_stood() -> None:
    text = "**Pay** 5&nbsp;km"
    kinds = [(text[one.start : one.end], one.text, one.kind) for one in read(text) if one.kind]
    assert kinds == [
        ("**", "", "markup"), ("**", "", "markup"), ("5&nbsp;km", "five kilometers", "unit"),
    ]  # fmt: skip
