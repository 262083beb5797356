"""How rules share a text: the first that takes a stretch keeps it, and places are never lost."""

from __future__ import annotations

import re

from anyrig.speech.normalise import LANGUAGES, _rules
from anyrig.speech.normalise.rules import Rule, Said, after, apply, rule

_STARS = Rule("markup", re.compile(r"\*+"), lambda match: "")
_SPACE = Rule("space", re.compile("&nbsp;"), lambda match: " ")
_PAIR = Rule("pair", re.compile("Q"), lambda match: "5 km and 3 km")
_UNIT = Rule("unit", re.compile(r"(\d) km"), lambda match: f"{match[1]} kilometers")


@rule("even", r"\d+", needs="02468")
def _even(match: re.Match[str]) -> str | None:
    return None if int(match[0]) % 2 else "even"


def test_an_earlier_rule_keeps_what_it_took() -> None:
    said = apply("12 3 km", [_UNIT, _even])
    assert [(one.text, one.kind) for one in said] == [
        ("even", "even"), (" ", ""), ("3 kilometers", "unit"),
    ]  # fmt: skip


def test_a_declined_match_is_left_as_it_stands() -> None:
    assert apply("132", [_even])[0] == Said(0, 3, "even", "even")
    assert apply("21", [_even]) == [Said(0, 2, "21")]


def test_a_rule_is_not_tried_without_its_characters() -> None:
    assert apply("135", [_even]) == [Said(0, 3, "135")]


def test_the_second_reading_sees_through_what_the_first_took_off() -> None:
    text = "a **5&nbsp;km** b"
    said = after(apply(text, [_STARS, _SPACE]), [_UNIT])
    assert [(text[one.start : one.end], one.text) for one in said] == [
        ("a ", "a "), ("**", ""), ("5&nbsp;km", "5 kilometers"), ("**", ""), (" b", " b"),
    ]  # fmt: skip


def test_what_a_first_rule_said_stays_one_stretch() -> None:
    assert after(apply("aQb", [_PAIR]), [_UNIT]) == [
        Said(0, 1, "a"), Said(1, 2, "5 kilometers and 3 kilometers", "unit"), Said(2, 3, "b"),
    ]  # fmt: skip


def test_nothing_gives_nothing() -> None:
    assert after(apply("", [_STARS]), [_UNIT]) == []
    assert after(apply("***", [_STARS]), [_UNIT]) == [Said(0, 3, "", "markup")]


def test_every_pattern_compiles() -> None:
    """They are compiled when first tried, so a slip would show late."""
    for language in LANGUAGES:
        for rules in _rules(language):
            assert all(rule.pattern for rule in rules)
