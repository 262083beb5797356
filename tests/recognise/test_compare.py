"""Spelling is no error, and what was said wrongly is."""

from __future__ import annotations

import pytest

from anyrig.recognise.compare import word_errors

SAME = [
    ("Mr. Bennett paid $3.50.", "Mister Bennett paid three dollars and fifty cents"),
    ("On March 15, 1998, it rained.", "on March fifteenth nineteen ninety-eight it rained"),
    ("On March 15, 1998, it rained.", "On March the 15th 1998, it rained."),
    ("In 2008 it began.", "In two thousand and eight it began."),
    ("In 2008 it began.", "In twenty oh eight it began"),
    ("It was 1905.", "It was nineteen oh five."),
    ("The train leaves at 7:45 a.m. sharp.", "The train leaves at seven forty five AM sharp"),
    ("He came at 6:00.", "He came at six o'clock."),
    ("About 75% passed.", "About seventy-five percent passed."),
    ("About 75 per cent passed.", "About 75% passed"),
    ("It cost $400 million.", "It cost four hundred million dollars."),
    ("a profit of $3.5 million", "a profit of three point five million dollars"),
    ("nearly 10,000 people", "nearly ten thousand people"),
    ("I have 1,250 books.", "I have one thousand two hundred and fifty books"),
    ("What would you do with $1,000?", "What would you do with a thousand dollars?"),
    ("He was the 3rd.", "He was the third"),
    ("King Henry VIII had six wives.", "King Henry the eighth had 6 wives."),
    ("Chapter XII begins.", "Chapter twelve begins"),
    ("St. Mary's on Main St.", "Saint Mary's on Main Street"),
    ("Dr. Lee lives at 48 Park Ave.", "Doctor Lee lives at forty eight Park Avenue"),
    ("Room 405 is free.", "Room four oh five is free"),
    ("Call 555-0199.", "Call five five five zero one nine nine."),
    ("I don't know, we'll see.", "I do not know, we will see"),
    ("It's over; they can't come.", "It is over. They cannot come."),
    ("OK, colour the harbour grey.", "Okay, color the harbor gray."),
    ("They organised a well-known show.", "They organized a well known show"),
    ("The lighthouse keeper", "the light house keeper"),
    ("The U.S. and the BBC", "the US and the BBC"),
    ("“Quite,” said Emily’s aunt…", "quite said Emily's aunt"),
    ("Smith & Sons", "Smith and sons"),
    ("in the 1990s", "in the nineteen nineties"),
    ("", ""),
]  # fmt: skip

OTHERS = [
    ("Hay 25 gatos.", "Hay veinticinco gatos", "es"),
    ("El 50% de la gente.", "el cincuenta por ciento de la gente", "es"),
    ("Il y a 3,5 litres.", "il y a trois virgule cinq litres", "fr"),
    ("Das kostet 12 Mark.", "Das kostet zwölf Mark", "de"),
]


def test_what_is_written_otherwise_is_the_same(subtests: pytest.Subtests) -> None:
    for said, heard in SAME:
        with subtests.test(said=said, heard=heard):
            assert word_errors(said, heard).pairs == ()
            assert word_errors(said, heard).errors == 0
            assert word_errors(heard, said).errors == 0, "either way round"


@pytest.mark.parametrize(("said", "heard", "language"), OTHERS)
def test_other_languages_count_in_their_own_words(said: str, heard: str, language: str) -> None:
    assert word_errors(said, heard, language).errors == 0


@pytest.mark.parametrize(
    ("said", "heard", "pairs"),
    [
        ("The cat sat down.", "The cat sat.", [("down", "")]),
        ("The cat sat.", "The the cat sat.", [("", "the")]),
        ("The cat sat.", "The hat sat.", [("cat", "hat")]),
        ("I can hear.", "I can't hear.", [("", "not")]),
        ("It was 1998.", "It was nineteen ninety nine.", [("eight", "nine")]),
        ("Pay $5.", "Pay five pounds.", [("dollars", "pounds")]),
        ("He was the 3rd.", "He was the fourth.", [("third", "fourth")]),
        ("Mr. Lee", "Mrs. Lee", [("mister", "missus")]),
    ],
)
def test_real_errors_are_seen(said: str, heard: str, pairs: list[tuple[str, str]]) -> None:
    found = word_errors(said, heard)
    assert list(found.pairs) == pairs
    assert found.errors == len(pairs)


def test_the_rate_is_of_what_should_be_said() -> None:
    found = word_errors("one two three four", "one two five")
    assert (found.errors, found.words, found.rate) == (2, 4, 0.5)
    assert word_errors("one two", "").rate == 1.0
    assert word_errors("", "one").rate == 1.0
    assert word_errors("", "").rate == 0.0


def test_numbers_that_nobody_reads_do_not_break_it() -> None:
    for odd in ("1.2.3.4", "00:61", "9" * 40, "1e9", "$", "%%", "0.0.0", "1,2,3", "50%%", "²³½"):
        assert word_errors(odd, odd).errors == 0
