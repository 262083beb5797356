"""How tokens are read aloud.

    units = verbalize(tokenize("He left at 5 p.m.", "en"), "en")
    join_readable(units)      # He left at five P M.

One module per language makes words of typed values: `speak(value) -> str`. In its result letters
that are said by their names are marked with `spell`, so that they stay apart from words: "C I A"
must not be read with the article "a". Texts of the units follow each other without anything between
them; they hold their own spaces.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from anyrig.speech.phonemes.letters import spell_ipa
from anyrig.text.tokens import Token, tokenize

if TYPE_CHECKING:
    from anyrig.text.values import Value

LANGUAGES = {
    "en": "anyrig.speech.normalize.english",
    "es": "anyrig.speech.normalize.spanish",
    "fr": "anyrig.speech.normalize.french",
}
"""The verbalizers: modules with `speak(value: Value) -> str`."""
_SUFFIXED = re.compile(r"(.*?)((?:'?(?:s|es|ed|d|ing))?)\Z", re.DOTALL)
_SPELLED = re.compile("\ue000([^\ue001]*)\ue001")


@dataclass(frozen=True, slots=True)
class SpokenUnit:
    """Something to say, and where in the source it stood; units of one token share its place."""

    kind: Literal["words", "letters", "ipa"]
    text: str
    """Words with spaces and marks; letters in capitals, with an ending (`CIA`, `PCs`); IPA."""
    start: int
    end: int
    readable: str
    """The unit for people: letters apart (`P Cs`), no IPA."""
    plain: bool = False
    """Whether the text is the source's own, character for character."""


def verbalize(
    tokens: Sequence[Token], language: str = "en", reads: Collection[str] = ()
) -> list[SpokenUnit]:
    """What is said for tokens, in order.

    Args:
        tokens: of `tokenize`, or a slice of them.
        language: of the text.
        reads: what the engine reads; with `ipa`, letters become units of IPA.
    """
    base = language.partition("-")[0].lower()
    units: list[SpokenUnit] = []
    for token in tokens:
        start, end = token.start, token.end
        if isinstance(token.value, str):
            plain = len(token.value) == end - start
            units.append(SpokenUnit("words", token.value, start, end, token.value, plain))
            continue
        for kind, text in _split_spelled(_verbalizer(base)(token.value)):
            if kind == "words":
                units.append(SpokenUnit("words", text, start, end, text))
            else:
                units.append(_spell_unit(text, start, end, language, reads))
        if token.stop in ("end", "both"):
            units.append(SpokenUnit("words", ".", start, end, "."))
    return units


def _spell_unit(
    letters: str, start: int, end: int, language: str, reads: Collection[str]
) -> SpokenUnit:
    spelled = _SUFFIXED.match(letters)
    readable = " ".join(spelled[1]) + spelled[2] if spelled else letters
    if "ipa" in reads and (ipa := spell_ipa(letters, language)):
        return SpokenUnit("ipa", ipa, start, end, readable)
    return SpokenUnit("letters", letters, start, end, readable)


def join_readable(units: Sequence[SpokenUnit]) -> str:
    """What is said, in one line, for people to read."""
    return " ".join("".join(unit.readable for unit in units).split())


def normalize(text: str, language: str = "en") -> str:
    """A text as it is read aloud; as it stands in a language without a verbalizer."""
    return join_readable(verbalize(tokenize(text, language), language))


def split_exponent(written: str) -> tuple[str, list[str]]:
    """The digits that `-2x` begins with, and its letters, spelled; the sign is the caller's."""
    plain = written.lstrip("-−+")
    digits = re.match(r"\d*", plain)
    assert digits is not None
    return digits[0], [spell(one.upper()) for one in plain[digits.end() :] if one.isalnum()]


def spell(letters: str) -> str:
    """Letters that are said by their names, marked in a verbalizer's result."""
    return f"\ue000{letters}\ue001"


def _split_spelled(spoken: str) -> Iterator[tuple[str, str]]:
    position = 0
    for match in _SPELLED.finditer(spoken):
        if match.start() > position:
            yield "words", spoken[position : match.start()]
        if match[1]:
            yield "letters", match[1]
        position = match.end()
    if position < len(spoken) or not spoken:
        yield "words", spoken[position:]


@lru_cache(maxsize=8)
def _verbalizer(language: str) -> Callable[[Value], str]:
    speak: Callable[[Value], str] = importlib.import_module(LANGUAGES[language]).speak
    return speak
