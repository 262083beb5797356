"""Text to phonemes, word by word, and IPA to the alphabet that Kokoro's family was trained on.

English is read by hibari's own dictionary and rules (`english`): no GPL code. Other languages
are read by espeak-ng, which the `espeak` extra brings (`espeak`). Between [[ and ]] is IPA.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import NamedTuple, Protocol

log = logging.getLogger(__name__)
INLINE = re.compile(r"\[\[(.+?)\]\]")


class Word(NamedTuple):
    """A word and how it is said; punctuation is a word without letters."""

    text: str
    phonemes: str
    space: bool
    """Whether a space follows."""

    @property
    def spoken(self) -> bool:
        """Whether it is more than punctuation."""
        return any(sign.isalnum() for sign in self.text) and bool(self.phonemes)


def has_espeak() -> bool:
    """Whether other languages than English can be read: the `espeak` extra."""
    return all(find_spec(name) is not None for name in ("espeakng_loader", "phonemizer"))


class Reader(Protocol):
    """Something that knows how a text is said."""

    def read(self, text: str) -> list[Word]:
        """Its words with their phonemes."""


# ---------------------------------------------------------------- IPA to the model's alphabet

_VOWELS = frozenset("AIOQWYaeiouyæɐɑɒɔəɚɛɜɨɪøœɯʊʌᵊᵻɤɘɵɞ")
_SAME = (("͡", ""), ("‿", ""), ("g", "ɡ"), ("tʃ", "ʧ"), ("dʒ", "ʤ"), ("eɪ", "A"), ("ei", "A"),
         ("aɪ", "I"), ("ai", "I"), ("aʊ", "W"), ("au", "W"), ("ɔɪ", "Y"), ("ɔi", "Y"), ("oi", "Y"),
         ("ɫ", "l"), ("ɬ", "l"), ("r", "ɹ"), ("ʀ", "ɹ"), ("ʁ", "ɹ"), ("ɲ", "nj"), ("ʎ", "lj"),
         ("x", "k"), ("χ", "k"), ("ç", "h"), ("ɣ", "ɡ"), ("β", "b"), ("ʰ", ""), ("ʲ", "j"),
         ("ɐ", "ə"), ("ø", "ɜ"), ("œ", "ɛ"), ("y", "u"), (".", ""), ("ˑ", "ː"))  # fmt: skip
_AMERICAN = (("oʊ", "O"), ("əʊ", "O"), ("ou", "O"), ("ɜːɹ", "ɜɹ"), ("ɝː", "ɜɹ"), ("ɝ", "ɜɹ"),
             ("ɜː", "ɜɹ"), ("ɜ˞", "ɜɹ"), ("ɚ", "əɹ"), ("ə˞", "əɹ"), ("ɒ", "ɑ"), ("a", "ɑ"),
             ("ː", ""), ("e", "ɛ"), ("o", "ɔ"), ("ɾ", "T"), ("ʔ", "t"))  # fmt: skip
_BRITISH = (("əʊ", "Q"), ("oʊ", "Q"), ("ou", "Q"), ("eə", "ɛː"), ("ɚ", "ə"), ("ɝ", "ɜː"),
            ("e", "ɛ"), ("o", "ɔ"), ("ɾ", "T"), ("ʔ", "t"))  # fmt: skip


def from_ipa(ipa: str, *, british: bool = False) -> str:
    """IPA in the alphabet of the English models; a sound they never heard becomes its nearest."""
    said = re.sub("(.)\u0329", "ᵊ\\1", ipa.strip("/ "))
    said = said.replace("\u0303", "n")
    for theirs, ours in (*_SAME, *(_BRITISH if british else _AMERICAN)):
        said = said.replace(theirs, ours)
    return _stress_on_vowels(said)


def _stress_on_vowels(said: str) -> str:
    """IPA sets the stress before a syllable, these models before its vowel."""
    out, held = [], ""
    for sign in said:
        if sign in "ˈˌ":
            held = sign
        elif sign in _VOWELS and held:
            out.append(held + sign)
            held = ""
        else:
            out.append(sign)
    return "".join(out)


# ---------------------------------------------------------------- words to ids


class Ids(NamedTuple):
    """A stretch of text as a model takes it."""

    ids: list[int]
    """Without the zeros at both ends."""
    owners: list[int]
    """For each id, which word it comes from."""


def ids_of(words: Sequence[Word], vocabulary: dict[str, int]) -> Ids:
    """The words' phonemes as numbers; signs the model does not know are dropped and told."""
    ids, owners, unknown = [], [], set()
    for index, word in enumerate(words):
        for sign in word.phonemes + (" " if word.space else ""):
            number = vocabulary.get(sign)
            if number is None:
                unknown.add(sign)
                continue
            ids.append(number)
            owners.append(index)
    if unknown:
        log.info(
            "phonemes that the voice does not have are left out: %s", " ".join(sorted(unknown))
        )
    while ids and ids[-1] == vocabulary.get(" "):
        ids.pop()
        owners.pop()
    return Ids(ids, owners)


def in_parts(words: Sequence[Word], most: int) -> Iterator[Sequence[Word]]:
    """The words in as few parts as keep under so many phonemes, cut after punctuation if can be."""
    start = 0
    while start < len(words):
        end, length = start, 0
        while end < len(words):
            length += len(words[end].phonemes) + words[end].space
            if length > most and end > start:
                break
            end += 1
        if end < len(words):
            cuts = [at for at in range(end, start, -1) if not words[at - 1].spoken]
            end = cuts[0] if cuts and cuts[0] - start > (end - start) // 3 else end
        yield words[start:end]
        start = end
