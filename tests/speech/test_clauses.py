"""Where long sentences are cut, and what becomes of short ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.speech.clauses import Clause, SpokenSpan, cut_first, cut_long, join_short


def _clause(text: str, start: int = 0) -> Clause:
    return Clause((SpokenSpan(start, start + len(text), text, plain=True),))


def _cut(text: str, limit: int) -> list[str]:
    return [part.spoken for part in cut_long(_clause(text), limit)]


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("He came home late; she had gone to bed long before that.", 40,
         ["He came home late;", "she had gone to bed long before that."]),
        ("He came home, and she had gone to bed, and the fire was out.", 40,
         ["He came home, and she had gone to bed,", "and the fire was out."]),
        ("He came home late at night and she had gone to bed by then.", 40,
         ["He came home late at night", "and she had gone to bed by then."]),
        ("One two three four five six seven eight nine ten.", 30,
         ["One two three four five", "six seven eight nine ten."]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
        ("“Well!” said he. “It is so.” And then he left the house.", 40,
         ["“Well!” said he. “It is so.”", "And then he left the house."]),
    ],
)  # fmt: skip
def test_cuts(text: str, limit: int, parts: list[str]) -> None:
    assert _cut(text, limit) == parts


def test_what_one_rule_reads_is_not_cut() -> None:
    number = SpokenSpan(8, 12, "two thousand and twenty-four")
    part = Clause(
        (
            SpokenSpan(0, 8, "It is,  ", plain=True),
            number,
            SpokenSpan(12, 20, " at last", plain=True),
        )
    )
    assert [one.spoken for one in cut_long(part, 30)] == [
        "It is,", "two thousand and twenty-four", "at last",
    ]  # fmt: skip


def test_phonemes_are_not_cut() -> None:
    part = Clause((SpokenSpan(0, 5, f"[[{'kə' * 40}]]"), SpokenSpan(5, 10, " cats", plain=True)))
    assert [one.spoken for one in cut_long(part, 30)][0] == f"[[{'kə' * 40}]]"


@settings(deadline=None)
@given(st.text("ab ,;.—()\n", max_size=300), st.integers(1, 80))
def test_cuts_lose_nothing(text: str, limit: int) -> None:
    if not text:
        return
    parts = cut_long(_clause(text, start=7), limit)
    assert " ".join(" ".join(part.spoken for part in parts).split()).replace(" ", "") == "".join(
        text.split()
    )
    assert parts[0].start == 7
    assert parts[-1].end == 7 + len(text)
    for left, right in zip(parts, parts[1:], strict=False):
        assert left.end == right.start
    assert all(len(part.spoken) <= limit for part in parts)
    assert [part.ends for part in parts] == [False] * (len(parts) - 1) + [True]


def _joined(*texts: str, limit: int = 400, shortest: int = 3) -> list[str]:
    parts, position = [], 0
    for text in texts:
        parts.append(_clause(text, position))
        position += len(text) + 1
    return [part.spoken for part in join_short(parts, limit, shortest)]


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        (["Yes.", "No."], ["Yes. No."]),
        (["Yes.", "I think that it is so."], ["Yes. I think that it is so."]),
        (["I think that it is so.", "I really think so."],
         ["I think that it is so.", "I really think so."]),
        (["word " * 60 + "end.", "Yes.", "word " * 60 + "end."],
         ["word " * 60 + "end.", "Yes.", "word " * 60 + "end."]),
    ],
)  # fmt: skip
def test_joins(texts: list[str], joined: list[str]) -> None:
    assert _joined(*texts) == joined


_LONG = "When the long winter came to the valley, and the snow lay deep, nobody left the house."
_UNBROKEN = "There was nothing else that anybody could do about it because the winter came early."


@pytest.mark.parametrize(
    ("text", "seconds_per_character", "first"),
    [
        (_LONG, 0.01, "When the long winter came to the valley,"),
        (_LONG, 0.004, _LONG),  # spoken within half a second
        (_UNBROKEN, 1.0, _UNBROKEN),  # no punctuation: not cut inside a phrase
        ("At the end of the lane stood a house; it had been empty for years and years.", 0.1,
         "At the end of the lane stood a house;"),
        ("Oh, but there was nothing at all that anybody could have done about it by then.", 0.1,
         "Oh, but there was nothing at all that anybody could have done about it by then."),
    ],
)  # fmt: skip
def test_the_first_clause(text: str, seconds_per_character: float, first: str) -> None:
    parts = cut_first(_clause(text), seconds_per_character)
    assert parts[0].engine_text == first
    assert " ".join(part.engine_text for part in parts) == text
