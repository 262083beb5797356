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
from typing import Literal

from anyrig.text.tokens import Token, tokenize
from anyrig.text.values import Value

LANGUAGES = {"en": "anyrig.speech.normalize.english"}
"""The verbalizers: modules with `speak(value: Value) -> str`."""
_SPELLED = re.compile("\ue000([^\ue001]*)\ue001")


@dataclass(frozen=True, slots=True)
class SpokenUnit:
    """Something to say, and where in the source it stood; units of one token share its place."""

    kind: Literal["words", "letters", "ipa"]
    text: str
    """Words with their spaces and marks; letters in capitals without spaces (`CIA`); IPA."""
    start: int
    end: int
    plain: bool = False
    """Whether the text is the source's own, character for character."""

    @property
    def readable(self) -> str:
        """The unit for people: letters apart."""
        return " ".join(self.text) if self.kind == "letters" else self.text


def verbalize(
    tokens: Sequence[Token], language: str = "en", reads: Collection[str] = ()
) -> list[SpokenUnit]:
    """What is said for tokens, in order.

    Args:
        tokens: of `tokenize`, or a slice of them.
        language: of the text.
        reads: what the engine reads (`EngineInfo.reads`); `ipa` makes letters IPA.
    """
    speak = _verbalizer(language.partition("-")[0].lower())
    units: list[SpokenUnit] = []
    for token in tokens:
        if isinstance(token.value, str):
            plain = len(token.value) == token.end - token.start
            if token.value or token.end > token.start:
                units.append(SpokenUnit("words", token.value, token.start, token.end, plain))
        else:
            units += _split_spelled(speak(token.value), token)
            if token.stop in ("end", "both"):
                units.append(SpokenUnit("words", ".", token.start, token.end))
    return units


def join_readable(units: Sequence[SpokenUnit]) -> str:
    """What is said, in one line, for people to read."""
    return " ".join("".join(unit.readable for unit in units).split())


def normalize(text: str, language: str = "en") -> str:
    """A text as it is read aloud; as it stands in a language without a verbalizer."""
    return join_readable(verbalize(tokenize(text, language), language))


def spell(letters: str) -> str:
    """Letters that are said by their names, marked in a verbalizer's result."""
    return f"\ue000{letters}\ue001"


def _split_spelled(spoken: str, token: Token) -> Iterator[SpokenUnit]:
    position = 0
    for match in _SPELLED.finditer(spoken):
        if match.start() > position:
            yield SpokenUnit("words", spoken[position : match.start()], token.start, token.end)
        if match[1]:
            yield SpokenUnit("letters", match[1], token.start, token.end)
        position = match.end()
    if position < len(spoken) or not spoken:
        yield SpokenUnit("words", spoken[position:], token.start, token.end)


@lru_cache(maxsize=8)
def _verbalizer(language: str) -> Callable[[Value], str]:
    speak: Callable[[Value], str] = importlib.import_module(LANGUAGES[language]).speak
    return speak
