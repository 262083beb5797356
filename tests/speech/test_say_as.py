"""How say-as reads, in the languages that have rules."""

from __future__ import annotations

import pytest

from anyrig.speech.say_as import say_as

WAYS = [
    ("characters", "ñu9", "es", "Ñ U nueve"),
    ("ordinal", "2", "fr", "deuxième"),
    ("ordinal", "1,000", "en", "one thousandth"),
    ("digits", "042", "fr", "zéro quatre deux"),
    ("cardinal", "21", "es", "veintiuno"),
    ("number", "-3.5", "en", "minus three point five"),
    ("telephone", "06 12", "fr", "zéro six, un deux"),
    ("date dmy", "1/5/1999", "es", "uno de mayo de mil novecientos noventa y nueve"),
    ("date dmy", "14/7/1999", "fr", "quatorze juillet mille neuf cent quatre-vingt-dix-neuf"),
    ("date md", "12/25", "en", "December twenty-fifth"),
    ("time", "14:30", "en", "fourteen thirty"),
    ("currency", "$1.50", "en", "one dollar and fifty cents"),
    ("fraction", "3/4", "en", "three quarters"),
    ("unit", "5 km", "en", "five kilometers"),
    ("expletive", "tonto", "es", "bip"),
    ("characters", "", "en", ""),
    ("ordinal", "many", "en", "many"),
]  # fmt: skip


def test_ways(subtests: pytest.Subtests) -> None:
    for interpret, text, language, said in WAYS:
        with subtests.test(interpret=interpret, text=text):
            assert say_as(text, interpret, language) == said


def test_a_date_that_is_none_stays() -> None:
    assert say_as("32/13/2024", "date dmy", "en") is not None
    assert "soon" in (say_as("soon", "date dmy", "en") or "")


def test_what_there_is_not() -> None:
    assert say_as("x", "nonsense", "en") is None
