"""Titles in a list of chapters, and names of files."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.audiobooks.names import Tracks, chapter_titles, file_names, safe_name
from anyrig.audiobooks.timeline import Mark
from anyrig.errors import InvalidInputError


def tracks(titles: Sequence[str]) -> Tracks:
    """A whole book of chapters with these titles."""
    return Tracks(tuple(range(1, len(titles) + 1)), tuple(titles), len(titles))


def marks(*named: tuple[str, int]) -> list[Mark]:
    return [
        Mark(title, 10 * place, 10 * place + 10, level)
        for place, (title, level) in enumerate(named)
    ]  # noqa: E501


def test_nested_titles_stand_alone_unless_two_are_alike() -> None:
    given = marks(
        ("Part One", 1), ("Chapter 1", 2), ("The Storm", 2),
        ("Part Two", 1), ("chapter 1", 2), ("Afterword", 1),
    )  # fmt: skip
    assert chapter_titles(given) == [
        "Part One", "Part One: Chapter 1", "The Storm",
        "Part Two", "Part Two: chapter 1", "Afterword",
    ]  # fmt: skip


def test_titles_of_three_levels_and_of_skipped_ones() -> None:
    given = marks(("A", 1), ("B", 2), ("x", 3), ("C", 2), ("x", 3), ("D", 1), ("x", 4))
    assert chapter_titles(given)[2::2] == ["A: B: x", "A: C: x", "D: x"]


def test_titles_are_one_clean_line_of_bounded_length() -> None:
    long = "The very long account of all that befell " * 10
    made = chapter_titles(
        marks(("", 1), (" \n\t", 1), ("a\r\nb\0c", 1), (long, 1), ("漢" * 300, 1))
    )
    assert made[:3] == ["Chapter 1", "Chapter 2", "a b c"]
    assert all(len(title) <= 120 and len(title.encode()) <= 255 for title in made)
    assert made[3].endswith("of all that…")


SAFE_NAMES = [
    ("../../etc/passwd", "etc passwd"),
    ("/root", "root"),
    ("C:\\Windows\\x", "C Windows x"),
    ("CON", "_CON"),
    ("nul.txt", "_nul.txt"),
    ("com1", "_com1"),
    ("LPT¹ ", "_LPT¹"),
    ("Console", "Console"),
    (".hidden", "hidden"),
    ("ends in dots...", "ends in dots"),
    ("What? <Yes> | \"No\" *", "What Yes No"),
    ("#1: x", "1 x"),
    ("-rf", "rf"),
    ("a\nb\0c\x7f", "a b c"),
    ("evil\u202egnp.exe", "evil gnp.exe"),
    ("e\u0301", "é"),
    ("🎉 Fête", "🎉 Fête"),
    ("...", "untitled"),
    ("", "untitled"),
]  # fmt: skip


def test_names_are_safe(subtests: pytest.Subtests) -> None:
    for title, name in SAFE_NAMES:
        with subtests.test(title=title, name=name):
            assert safe_name(title) == name


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=80), min_size=1, max_size=12), st.text(max_size=200))
def test_names_are_safe_and_unlike_whatever_the_titles(titles: list[str], book: str) -> None:
    pattern = "{book} - {title}"
    names = file_names(tracks(titles), pattern, {"book": book, "author": "x"})
    assert len({name.casefold() for name in names}) == len(titles)
    for name in names:
        assert name == name.strip(" .")
        assert not set(name) & set('/\\:*?"<>|\0\n\r')
        assert 0 < len(name.encode()) <= 150
    assert names == file_names(tracks(titles), pattern, {"book": book, "author": "x"})


def test_numbers_are_as_wide_as_they_must_be() -> None:
    names = file_names(tracks(["x"] * 120), "{number} {title}", {})
    assert (names[0], names[119]) == ("001 x", "120 x")
    assert file_names(tracks(["a", "b"]), "{title} ({number})", {}) == ["a (01)", "b (02)"]
    assert file_names(tracks(["a"]), "{title}", {}) == ["01 a"]
    long = file_names(tracks(["Wort " * 80] * 3), "{book} {title} {number}", {"book": "漢" * 90})
    assert [name[-2:] for name in long] == ["01", "02", "03"]


@pytest.mark.parametrize(
    "pattern",
    [
        "{nonsense}", "{title", "a/{title}", "..\\{title}", "{title.__class__}", "{title:>9}",
        "{title!r}", "{}", "{0}",
    ],
)  # fmt: skip
def test_patterns_are_checked(pattern: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        file_names(tracks(["x"]), pattern, {})
    assert "{number}" in caught.value.hint
