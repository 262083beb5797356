"""Text to phonemes, word by word, and IPA to the alphabet that Kokoro's family was trained on.

English is read by hibari's own dictionary and rules (`english`), Spanish, French, Italian and
Portuguese by rules of ours (`readers`), other languages by espeak-ng, which the `espeak` extra
brings (`espeak`, GPL). Between [[ and ]] is IPA.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import NamedTuple, Protocol

log = logging.getLogger(__name__)
INLINE = re.compile(r"\[\[(.+?)\]\]")


class PronouncedWord(NamedTuple):
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
    """Whether the `espeak` extra is installed."""
    return all(find_spec(name) is not None for name in ("espeakng_loader", "phonemizer"))


class PhonemeReader(Protocol):
    """Something that knows how a text is said."""

    def read(self, text: str) -> list[PronouncedWord]:
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
    sounds = re.sub("(.)\u0329", "ᵊ\\1", ipa.strip("/ "))
    sounds = sounds.replace("\u0303", "n")
    for theirs, ours in (*_SAME, *(_BRITISH if british else _AMERICAN)):
        sounds = sounds.replace(theirs, ours)
    return _stress_on_vowels(sounds)


def _stress_on_vowels(sounds: str) -> str:
    """IPA sets the stress before a syllable, these models before its vowel."""
    out, stress = [], ""
    for sign in sounds:
        if sign in "ˈˌ":
            stress = sign
        elif sign in _VOWELS and stress:
            out.append(stress + sign)
            stress = ""
        else:
            out.append(sign)
    return "".join(out)


# ---------------------------------------------------------------- words to ids


class EncodedWords(NamedTuple):
    """Words as a model takes them."""

    ids: list[int]
    """Without the zeros at both ends."""
    owners: list[int]
    """For each id, the index of its word."""


def encode(words: Sequence[PronouncedWord], vocabulary: dict[str, int]) -> EncodedWords:
    """The phonemes of words as numbers; those that the model does not have are left out."""
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
        log.info("phonemes left out, unknown to the voice: %s", " ".join(sorted(unknown)))
    while ids and ids[-1] == vocabulary.get(" "):
        ids.pop()
        owners.pop()
    return EncodedWords(ids, owners)


def split_words(
    words: Sequence[PronouncedWord], max_phonemes: int
) -> Iterator[Sequence[PronouncedWord]]:
    """Words in as few parts as keep a limit, of about one length, cut after punctuation where
    there is some. A word alone may exceed the limit.
    """
    lengths = [len(word.phonemes) + word.space for word in words]
    start, left = 0, sum(lengths)
    while start < len(words):
        num_parts = max(1, math.ceil(left / max_phonemes))  # signs without phonemes have none
        end = _find_cut(words, lengths, start, max_phonemes, left / num_parts)
        yield words[start:end]
        left -= sum(lengths[start:end])
        start = end


def _find_cut(
    words: Sequence[PronouncedWord], lengths: Sequence[int], start: int, limit: int, target: float
) -> int:
    """Where a part that begins at `start` ends: near the wanted length, below the limit."""
    ends: list[tuple[float, int]] = []
    """How far from the wanted length, and where; without punctuation a third of it is added."""
    length = 0
    for index in range(start, len(words)):
        length += lengths[index]
        if length > limit and ends:
            break
        penalty = target / 3 if words[index].spoken else 0.0
        ends.append((abs(length - target) + penalty, index + 1))
    else:
        return len(words)
    if len(ends) > 1 and not words[ends[-1][1]].spoken:
        ends.pop()  # a mark must not begin the next part
    return min(ends)[1]
