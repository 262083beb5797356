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

from anyrig.speech.normalize import LANGUAGES, join_readable, normalize, verbalize
from anyrig.text.tokens import tokenize

_TABLES = Path(__file__).parent
_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too
_SIGNS = st.text(
    st.sampled_from("0123456789.,:;/-–'\"$£€%°&@#*_|<>[]()`~^=+ \n\tIVXaAhmpsStDr²½é👍\u0301")
)
_PIECES = (
    "Dr. St. No. p. pp. vol. Chapter IV Henry VIII 5 km 3:05 p.m. $3.50 1/2 1905 '90s 4 May 2021 "
    "05/04/2021 555-1234 https://x.com/a?b=1 a@b.com **x** <b> &amp; | - … 😀 U.S. J. R. R. "
    "Tolkien 10-20 5'11\" -5°C 2.5M 1e9 x² under-\nstanding 1.2.3 C:\\x #tag € kg ISBN 007 100 % "
    "24/7 III §3(a) Ctrl+C Na2SO4 0600 q4h"
).split(" ")
_WORDS = st.lists(st.sampled_from(_PIECES))
_ROWS = [
    piece * (4000 // len(piece))
    for piece in (
        "7", "1,", "1.", "1-", "1 ", "a.", "A ", "I", "*", "_a", "<", "[", "(", "http://", "@",
        "\x00\x1f", "אבג 123 ", "e\u0301", "\n-", "|", "Mr. ", "$", "1/", "a-\n", "'", "A", "Aa ",
        ". ", "&amp;", "M", "\u0660\u0661", "x_", "a/", "12:", "-", "#", "5 km ", "aB", " ", "\n",
        "1(a)", "A1", "5 ft ", "St. ", "U.S. ",
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
        and (spoken := normalize(pair.written, language)) != pair.spoken
    ]
    assert not wrong, "\n".join(wrong)


def _check_whole(text: str, language: str) -> None:
    """Units follow the text in order, and plain ones are its own characters."""
    position = 0
    for unit in verbalize(tokenize(text, language), language):
        assert position <= unit.start <= unit.end or unit.end == position
        position = max(position, unit.end)
    assert position == len(text)


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=50, deadline=None)
@given(text=_TEXT | _SIGNS | _WORDS.map(" ".join) | _WORDS.map("".join))
def test_any_text_is_read_and_no_character_is_lost(language: str, text: str) -> None:
    _check_whole(text, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_long_rows_of_anything_are_read(language: str, subtests: pytest.Subtests) -> None:
    for text in _ROWS:
        with subtests.test(text=text[:8]):
            _check_whole(text, language)


def test_a_language_without_a_verbalizer_is_left_as_it_stands() -> None:
    assert normalize("5 km", "tlh") == "5 km"


def test_letters_are_kept_apart_from_words() -> None:
    units = verbalize(tokenize("The CIA left at 9 a.m. PCs stayed."))
    assert [unit.text for unit in units if unit.kind == "letters"] == ["CIA", "AM", "PCs"]
    assert join_readable(units) == "The C I A left at nine A M. P Cs stayed."
    ipa = verbalize(tokenize("The CIA left at 9 a.m. PCs stayed."), "en", {"ipa"})
    assert [unit.readable for unit in ipa if unit.kind == "ipa"] == ["C I A", "A M", "P Cs"]
    assert join_readable(ipa) == join_readable(units)


def test_units_know_where_they_stood() -> None:
    text = "**Pay** 5&nbsp;km"
    units = verbalize(tokenize(text))
    assert [(text[one.start : one.end], one.text) for one in units if not one.plain] == [
        ("**", ""), ("**", ""), ("5&nbsp;km", "five kilometers"),
    ]  # fmt: skip
