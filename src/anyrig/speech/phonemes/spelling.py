"""Text read by the rules of a language's spelling: tokens, clauses, numbers, IPA in brackets.

The rules of a language are a function from the words of a clause to the phonemes of each: what a
word sounds like depends on its neighbours (liaison, softened consonants, voiced s), and never on a
word beyond a pause. Phonemes are written as espeak-ng writes them, because Kokoro's voices were
trained on its output; no code or data of it is used.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anyrig.speech.phonemes import INLINE, PronouncedWord
from anyrig.speech.phonemes.letters import spell_ipa

ReadClause = Callable[[Sequence[str]], Sequence[str]]
"""Phonemes of each word of a clause. Words are in NFC, with straight apostrophes; the parts of a
compound are words, and keep their hyphens. An empty one stands for something whose sound is known.
"""

_TOKEN = re.compile(
    INLINE.pattern
    + r"|(?P<number>\d{1,2}:\d\d(?!\d)|\d{1,3}(?:[.\u00a0\u202f]\d{3})+(?:,\d+)?|\d+(?:,\d+)?)"
    r"(?P<sign>\s?%)?"
    r"|(?P<word>[^\W\d_]+(?:['’-][^\W\d_]+)*['’]?)"
    r"|(?P<mark>\S)"
)
_MARKS = {"«": "“", "»": "”", "„": "“", "‹": "“", "›": "”", "–": "—", "―": "—", "‒": "—", "-": "—",
          "[": "(", "]": ")"}  # fmt: skip
_SILENT_MARKS = frozenset("¿¡*_#'’‘`´|\\/~^<>{}")
# In a language without a verbalizer numbers and abbreviations reach the reader as they are written.
_PER_CENT = {"es": "por ciento", "fr": "pour cent", "it": "per cento", "pt": "por cento"}
_TIME_JOINS = {"es": "y", "fr": "heures", "it": "e", "pt": "e"}
_NUM2WORDS = {"pt": "pt_BR"}
_LETTERS = re.compile("[B-DF-HJ-NP-TV-XZ]{1,5}")
"""A word without a vowel, in capitals."""


@dataclass
class _SpellingToken:
    """A stretch of text: words that are read together, or something whose phonemes are known."""

    text: str
    words: list[str]
    phonemes: str
    """Of a mark or of IPA; empty for words, which the rules read."""
    pause: bool
    space: bool
    joint: str = ""
    """Between the phonemes of its words."""


class SpellingReader:
    """Reads texts in one language.

    Args:
        read_clause: the language's rules.
        language: without a region.
        from_ipa: from IPA between brackets to the model's alphabet.
    """

    def __init__(
        self, read_clause: ReadClause, *, language: str, from_ipa: Callable[[str], str] = str
    ) -> None:
        self._read_clause, self._language, self._from_ipa = read_clause, language, from_ipa

    def read(self, text: str) -> list[PronouncedWord]:
        """Its words with their phonemes."""
        tokens = self._tokenize(unicodedata.normalize("NFC", text))
        words: list[PronouncedWord] = []
        clause: list[_SpellingToken] = []
        for token in tokens:
            clause.append(token)
            if token.pause:
                words += self._read_tokens(clause)
                clause = []
        return words + self._read_tokens(clause)

    def _tokenize(self, text: str) -> list[_SpellingToken]:
        tokens = []
        for match in _TOKEN.finditer(text):
            space = text[match.end() : match.end() + 1].isspace()
            token = self._build_token(match, space)
            if token is not None:
                tokens.append(token)
            elif space and tokens:
                tokens[-1].space = True
        return tokens

    def _build_token(self, match: re.Match[str], space: bool) -> _SpellingToken | None:
        if match[1]:
            ipa = match[1].strip()
            return _SpellingToken(ipa, [""], self._from_ipa(ipa.strip("/")), False, space)
        if match["number"]:
            return _SpellingToken(match[0], self._spell_number(match), "", False, space, " ")
        if _LETTERS.fullmatch(match["word"] or ""):
            sounds = self._from_ipa(_stress_vowels(spell_ipa(match["word"], self._language)))
            return _SpellingToken(match[0], [""], sounds, False, space)
        if match["word"]:
            plain = match["word"].replace("’", "'")
            return _SpellingToken(match[0], re.findall("[^-]+-?", plain), "", False, space)
        if match["mark"] in _SILENT_MARKS:
            return None
        mark = _MARKS.get(match["mark"], match["mark"])
        return _SpellingToken(match["mark"], [], mark, True, space)

    def _spell_number(self, match: re.Match[str]) -> list[str]:
        from num2words import num2words

        language = _NUM2WORDS.get(self._language, self._language)
        digits = re.sub(r"[.\u00a0\u202f]", "", match["number"])
        hours, is_time, minutes = digits.partition(":")
        if is_time:
            parts = [num2words(int(hours), lang=language), _TIME_JOINS[self._language]]
            parts += [num2words(int(minutes), lang=language)] if int(minutes) else []
            spoken = " ".join(parts if int(minutes) or self._language == "fr" else parts[:1])
        else:
            whole, is_decimal, decimals = digits.partition(",")
            number = float(f"{whole}.{decimals}") if is_decimal else int(whole)
            spoken = num2words(number, lang=language)
        if match["sign"]:
            spoken += f" {_PER_CENT[self._language]}"
        return re.findall(r"[^\W\d_]+", spoken)

    def _read_tokens(self, tokens: Sequence[_SpellingToken]) -> list[PronouncedWord]:
        sounds = iter(self._read_clause([word for token in tokens for word in token.words]))
        words = []
        for token in tokens:
            joined = token.joint.join([next(sounds) for _ in token.words])
            words.append(PronouncedWord(token.text, token.phonemes or joined, token.space))
        return words


def _stress_vowels(ipa: str) -> str:
    """IPA sets the stress before a syllable, Kokoro before its vowel."""
    return re.sub("([ˈˌ])([^aeiouyɔɛə ]+)", r"\2\1", ipa)


# ---------------------------------------------------------------- syllables


def mark_stress(
    units: Sequence[str], nuclei: Sequence[int], stressed: int, second: Sequence[int] = ()
) -> str:
    """Units joined, with the stress marks before vowels.

    Args:
        units: sounds in order; a diphthong is one unit.
        nuclei: which units are the vowels of syllables.
        stressed: which of the nuclei has the main stress; -1 for none.
        second: which have the second stress.
    """
    marks = {nuclei[index]: "ˌ" for index in second}
    if stressed >= 0:
        marks[nuclei[stressed]] = "ˈ"
    return "".join(marks.get(index, "") + unit for index, unit in enumerate(units))


def strip_accents(word: str) -> str:
    """Letters without acute, grave and circumflex accents; ñ, ç, ã, õ and ü stay."""
    plain = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", re.sub("[\u0300\u0301\u0302]", "", plain))
