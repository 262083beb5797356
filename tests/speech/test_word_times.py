"""When each written word is heard, from the times of the spoken ones."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from anyrig.speech.engine import WordTime
from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.speech.segment import Segment
from anyrig.speech.word_times import WrittenWord, place_words, time_words

_SPOKEN = re.compile(r"\[\[(.+?)\]\]|[^\W_]+(?:['’][^\W_]+)*")


def hear(segment: Segment, start_s: float = 0.0) -> list[WordTime]:
    """A second for each spoken word, as an engine with durations gives them."""
    found = _SPOKEN.finditer(segment.utterance.text)
    return [
        WordTime(match[1] or match[0], start_s + at, start_s + at + 1)
        for at, match in enumerate(found)
    ]


def place(
    text: str, *, start_s: float = 0.0, reads: tuple[str, ...] = ("ipa",)
) -> list[WrittenWord]:
    script = prepare(text, SpeechOptions(languages=("en",), reads=reads))
    words: list[WrittenWord] = []
    for segment in script.segments:
        heard = hear(segment, start_s)
        words += place_words(script.source, segment, heard, start_s, heard[-1].end_s)
        start_s = heard[-1].end_s
    return words


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The kettle is on.", ["The 0-1", "kettle 1-2", "is 2-3", "on. 3-4"]),
        # What is written short is heard long, and the next word begins after it.
        ("Dr. Lee paid $3.50 then.",
         ["Dr. 0-1", "Lee 1-2", "paid 2-3", "$3.50 3-8", "then. 8-9"]),
        # Numbers side by side have each their own words.
        ("In 1984 2024 came.", ["In 0-1", "1984 1-4", "2024 4-7", "came. 7-8"]),
        # One date, three written words.
        ("On July 4, 2024 it rained.",
         ["On 0-1", "July 1-2", "4, 2-3", "2024 3-6", "it 6-7", "rained. 7-8"]),
        ("Tom & Jerry", ["Tom 0-1", "& 1-2", "Jerry 2-3"]),
        ("Yes — no.", ["Yes 0-1", "no. 1-2"]),
        ("The CIA said so.", ["The 0-1", "CIA 1-2", "said 2-3", "so. 3-4"]),
        ("[[Kokoro|ko-KO-ro]] said.", ["Kokoro 0-3", "said. 3-4"]),
    ],
)  # fmt: skip
def test_written_words_have_the_time_of_what_is_said_for_them(text: str, wanted: list[str]) -> None:
    words = place(text)
    assert [f"{word.text} {word.start_s:g}-{word.end_s:g}" for word in words] == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The ket\u00adtle.", ["The", "ket\u00adtle."]),
        ("<speak>Tom &amp; Jerry ate.</speak>", ["Tom", "&amp;", "Jerry", "ate."]),
        ("<speak>A <sub alias='World Wide Web'>WWW</sub> page.</speak>", ["A", "WWW", "page."]),
        ("[[Kokoro|ko-KO-ro]] said.", ["Kokoro", "said."]),
    ],
)
def test_places_are_those_in_the_input(text: str, wanted: list[str]) -> None:
    assert [text[slice(*word.span)] for word in place(text)] == wanted


def test_times_rise_and_stay_inside_over_many_sentences() -> None:
    text = " ".join(f"Sentence {number} costs ${number}.25, said Dr. Lee." for number in range(60))
    words = place(text, start_s=2.0)
    assert [text[slice(*word.span)] for word in words] == text.split()
    assert words[0].start_s == 2.0
    assert all(one.start_s < one.end_s <= two.start_s for one, two in pairwise(words))


def test_words_that_a_recogniser_misheard_lie_between_those_it_heard() -> None:
    heard = [WordTime("the", 0.0, 0.2), WordTime("cattle", 0.3, 0.8), WordTime("on", 1.4, 1.6)]
    assert time_words(["The", "kettle", "is", "on"], heard, 0.0, 2.0) == [
        (0.0, 0.2), pytest.approx((0.3, 0.675)), pytest.approx((0.675, 0.8)), (1.4, 1.6),
    ]  # fmt: skip


def test_words_that_nobody_heard_share_the_gap_and_extra_ones_are_passed_over() -> None:
    heard = [WordTime("um", 0.0, 0.4), WordTime("yes", 0.5, 0.8), WordTime("no", 2.0, 2.2)]
    assert time_words(["yes", "aaaa", "bbbb", "no"], heard, 0.0, 3.0) == [
        (0.5, 0.8), pytest.approx((0.8, 1.4)), pytest.approx((1.4, 2.0)), (2.0, 2.2),
    ]  # fmt: skip
    assert time_words(["yes", "no", "more"], heard[1:], 0.0, 3.0)[-1] == (2.2, 3.0)


def test_numbers_that_a_recogniser_writes_in_digits_have_their_time() -> None:
    script = prepare("It cost $3.50 today.", SpeechOptions(languages=("en",)))
    heard = [WordTime("It", 0, 1), WordTime("cost", 1, 2), WordTime("$3.50", 2, 5),
             WordTime("today.", 5, 6)]  # fmt: skip
    words = place_words(script.source, script.segments[0], heard, 0.0, 6.0)
    assert [(word.start_s, word.end_s) for word in words] == [(0, 1), (1, 2), (2, 5), (5, 6)]


def test_scripts_without_spaces_have_a_word_for_each_sign() -> None:
    text = "早上好。"
    segment = Segment(prepare("x").segments[0].utterance, ((0, 4),), text)
    words = place_words(text, segment, [WordTime("早上", 0, 2), WordTime("好", 2, 3)], 0.0, 3.0)
    assert [(one.text, one.start_s, one.end_s) for one in words] == [
        ("早", 0, 1), ("上", 1, 2), ("好", 2, 3),
    ]  # fmt: skip
