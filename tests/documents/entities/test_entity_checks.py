"""Check digits by property: what is made right is found, one digit changed is not."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.documents.entities import grammar
from anyrig.documents.entities.grammars import iban
from anyrig.documents.entities.grammars.digits import luhn
from anyrig.documents.entities.grammars.iban import lengths
from anyrig.documents.entities.merge import merged
from anyrig.documents.entities.reading import read
from anyrig.documents.entities.stretches import Stretch, cuts, stretches

_FORMS = iban._FORMS  # the registry itself: numbers are drawn from its forms
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PLAIN = settings(max_examples=50, deadline=None)


@st.composite
def ibans(draw: st.DrawFn) -> str:
    country = draw(st.sampled_from(sorted(_FORMS)))
    body = ""
    for count, kind in re.findall(r"([0-9]+)([nac])", _FORMS[country]):
        signs = {"n": "0123456789", "a": _LETTERS, "c": "0123456789" + _LETTERS}[kind]
        body += draw(st.text(signs, min_size=int(count), max_size=int(count)))
    digits = "".join(str(int(character, 36)) for character in f"{body}{country}00")
    return f"{country}{98 - int(digits) % 97:02d}{body}"


def grouped(number: str) -> str:
    return " ".join(number[at : at + 4] for at in range(0, len(number), 4))


@_PLAIN
@given(ibans(), st.booleans())
def test_an_account_is_found_and_holds(number: str, spaced: bool) -> None:
    text = f"Pay to {grouped(number) if spaced else number}, please."
    told = [one for one in merged(grammar.found(read(text))) if one.kind == "iban"]
    assert [(one.value, one.valid) for one in told] == [(number, True)]
    assert len(number) == lengths()[number[:2]]


@_PLAIN
@given(ibans(), st.integers(0, 1000), st.integers(1, 9))
def test_one_digit_changed_is_refused(number: str, at: int, by: int) -> None:
    places = [place for place, character in enumerate(number) if character.isdigit()]
    place = places[at % len(places)]
    wrong = number[:place] + str((int(number[place]) + by) % 10) + number[place + 1 :]
    text = f"Pay to {grouped(wrong)}, please."
    told = merged(grammar.found(read(text)))
    assert not [one for one in told if one.kind == "iban"]
    flagged = merged(grammar.found(read(text)), unchecked=True)
    assert all(one.valid is False for one in flagged if one.kind == "iban")


@_PLAIN
@given(st.integers(0, 99_999_999))
def test_a_spanish_number_and_its_letter(number: int) -> None:
    right = "TRWAGMYFPDXBNJZSQVHLCKE"[number % 23]
    for letter in "TRWAGMYFPDXBNJZSQVHLCKE":
        told = merged(grammar.found(read(f"NIF {number:08d}{letter}", "es")))
        assert [one.kind for one in told] == (["tax"] if letter == right else [])


@_PLAIN
@given(st.text("0123456789", min_size=14, max_size=14))
def test_a_card_and_its_digit(body: str) -> None:
    number = "4" + body
    check = next(digit for digit in "0123456789" if luhn(number + digit))
    for digit in "0123456789":
        told = merged(grammar.found(read(f"Visa {grouped(number + digit)}")))
        assert ("card" in [one.kind for one in told]) == (digit == check)


_PIECES = st.sampled_from(
    ["14 July", "31/02/2024", "$5", "1.234,56 €", "+33 1", "a@b.co", "ES91 ", "12345678Z", "%", " ",
     "\n\n", "é", "5 mai", "-", "(", "'", "٣", "𝟙𝟚", "İ", "ß", "\u0301", "tel ",
     "one hundred ", "NIF ",
     "Mr. A. ", "Acme Ltd", "\u202f", "\x00", "４", "de ", "2024-", "VAT no "]
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(_PIECES | st.text(max_size=12), max_size=24).map("".join))
def test_offsets_slice_to_the_text_and_nothing_overlaps(text: str) -> None:
    reading = read(text, {part.start: part.language for part in stretches(text)})
    assert len(reading.plain) == len(reading.lower) == len(text)
    told = merged(grammar.found(reading), unchecked=True)
    assert all(text[one.start : one.end] == one.text and one.text for one in told)
    assert all(one.end <= two.start for one, two in zip(told, told[1:], strict=False))


@pytest.mark.parametrize("text", ["[" * 9000, "$ " * 5000, "a\t" * 5000, "1 _ 2\n" * 900, " \n"])
def test_a_model_is_not_asked_where_no_word_stands(text: str) -> None:
    assert cuts(stretches(text, language="en"), text, 1000) == []
    assert cuts([Stretch(0, len(text) + 3, "en")], text + " Li", 1000)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["word", "a", ".", "\n", "\n\n", "x" * 90]), max_size=200),
       st.integers(20, 400))  # fmt: skip
def test_windows_cover_a_text_and_each_place_has_one_owner(words: list[str], size: int) -> None:
    text = " ".join(words)
    made = cuts(stretches(text, language="en"), text, size)
    for at in range(len(text)):
        owners = [cut for cut in made if cut.own_start <= at < cut.own_end]
        lone = not (text[at : at + 2].isalpha() and text[at + 1 : at + 2])
        assert len(owners) == 1 or (lone and not owners)
        assert all(cut.start <= at < cut.end for cut in owners)
    assert all(cut.end - cut.start <= max(size, 1) for cut in made)


HOSTILE = {
    "digits": "1234567890", "pairs": "12 34 56 78 90 ", "ats": "@", "mails": "a@",
    "dots": "1.2.3.4.",
    "commas": "1,234,", "brackets": "((((", "marks": ".,;:!?-'\"", "heads": "ES91 ", "plus": "+1",
    "words": "one hundred and ", "vingt": "vingt-", "dollars": "$1", "days": "1 May ",
    "tel": "tel ",
    "labels": "VAT no ", "dashes": "1-1-1-", "letters": "A.", "names": "Mr. A. ", "new lines": "\n",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_twice_as_much_takes_no_more_than_a_few_times_as_long(name: str) -> None:
    from anyrig.documents.entities import marks

    def cost(size: int) -> float:
        text = HOSTILE[name] * (size // len(HOSTILE[name]))
        begin = time.process_time()
        reading = read(text, {part.start: part.language for part in stretches(text)})
        merged([*grammar.found(reading), *marks.find(reading)])
        return time.process_time() - begin

    cost(2_000)  # patterns are made on first use
    small = min(cost(20_000) for _ in range(2))
    # Quadratic work would take 16 times as long; noise of a busy machine is allowed for.
    assert cost(80_000) < 10 * small + 0.3
