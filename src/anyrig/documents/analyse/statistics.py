"""How a text reads: words, sentences, their lengths, how long it takes and how hard it is.

Each language has the formula that was fitted to it: Flesch's for English, Kandel and Moles' for
French, Szigriszt's for Spanish, Amstad's for German. All give 0 (hard) to 100 (easy); a language
without one gets none, and so does a text of a few words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from anyrig.documents.analyse.words import plain, unspaced, words
from anyrig.text.tokens import Span

_WORDS_A_MINUTE = {"en": 238, "es": 278, "fr": 214, "de": 260, "it": 285, "pt": 260}
"""Of silent reading, in the means that Brysbaert's review of 2019 gives; 230 elsewhere."""
_SIGNS_A_MINUTE = 500  # of Chinese or Japanese, where a character counts as a word
_FEWEST_WORDS = 30
_LONGEST_SHOWN = 3
_TTR_WINDOW = 500
_VOWELS = re.compile("[aeiouyáéíóúàâäèêëîïôöùûüœæÿ]+")
_SPANISH = re.compile("[aeiouáéíóúü]+|y(?![aeiouáéíóú])")
_HIATUS = re.compile("[aeo](?=[aeoáéíóú])|[áéíóú](?=[aeo])|[íú](?=[aeo])|[aeo](?=[íú])")
_SCALES = (
    (80.0, "very easy"), (65.0, "easy"), (55.0, "plain"), (40.0, "fairly hard"),
    (25.0, "hard"), (float("-inf"), "very hard"),
)  # fmt: skip


@dataclass(frozen=True)
class LongSentence:
    """A sentence that a reader must hold in mind for long."""

    start: int
    end: int
    num_words: int
    text: str


@dataclass(frozen=True)
class Statistics:
    """What a text is like to read."""

    num_characters: int
    num_words: int
    num_sentences: int
    num_paragraphs: int
    words_a_sentence: float
    letters_a_word: float
    distinct: float
    """Different words among all, as the mean over stretches of 500: long texts compare with short
    ones."""
    reading_s: float
    ease: float | None
    """0 (hard) to 100 (easy); None where no formula fits."""
    formula: str
    level: str
    """`plain`, `hard` ..., or nothing without a formula."""
    longest: tuple[LongSentence, ...]


def statistics(text: str, spans: Sequence[Span], language: str) -> Statistics:
    """The figures of a text whose sentences were cut, in a language that is known."""
    found = list(words(text))
    starts = [word.start for word in found]
    counts = _counts(starts, spans)
    kept = [(count, span) for count, span in zip(counts, spans, strict=True) if count]
    said = [plain(word.text) for word in found]
    num_words, num_sentences = len(found), len(kept)
    ease, formula = _ease(said, num_sentences, language)
    letters = sum(map(len, said))
    return Statistics(
        len(text), num_words, num_sentences, text.count("\n\n") + 1 if text.strip() else 0,
        num_words / num_sentences if num_sentences else 0.0,
        letters / num_words if num_words else 0.0,
        _distinct(said), _reading_s(said, language),
        None if ease is None else round(ease, 1), formula, _level(ease),
        tuple(_long(text, count, span) for count, span in
              sorted(kept, key=lambda one: (-one[0], one[1]))[:_LONGEST_SHOWN]),
    )  # fmt: skip


def syllables(word: str, language: str) -> int:
    """About how many syllables a plain word has; at least one."""
    if language == "es":
        return max(1, len(_SPANISH.findall(word)) + len(_HIATUS.findall(word)))
    count = len(_VOWELS.findall(word))
    if language == "en" and count > 1:
        count -= word.endswith("e") and not word.endswith(("le", "ee", "ye"))
        count -= word.endswith(("es", "ed")) and not word.endswith(
            ("ces", "ses", "zes", "ges", "xes", "ches", "shes", "les", "ted", "ded")
        )
    if language == "fr" and count > 1 and re.search("(?:e|es|ent)\\Z", word):
        count -= not word.endswith("ment")
    return max(1, count)


def _ease(said: Sequence[str], num_sentences: int, language: str) -> tuple[float | None, str]:
    """The score and the name of the formula."""
    base = language.partition("-")[0]
    counted = [word for word in said if any(map(str.isalpha, word))]
    if base not in ("en", "es", "fr", "de") or len(counted) < _FEWEST_WORDS or not num_sentences:
        return None, ""
    per_word = sum(syllables(word, base) for word in counted) / len(counted)
    per_sentence = len(counted) / num_sentences
    if base == "en":
        return 206.835 - 1.015 * per_sentence - 84.6 * per_word, "Flesch"
    if base == "fr":
        return 207.0 - 1.015 * per_sentence - 73.6 * per_word, "Kandel-Moles"
    if base == "es":
        return 206.835 - 62.3 * per_word - per_sentence, "Szigriszt"
    return 180.0 - per_sentence - 58.5 * per_word, "Amstad"


def _level(ease: float | None) -> str:
    return "" if ease is None else next(name for least, name in _SCALES if ease >= least)


def _reading_s(said: Sequence[str], language: str) -> float:
    signs = sum(map(unspaced, said))
    pace = _WORDS_A_MINUTE.get(language.partition("-")[0], 230)
    return 60.0 * ((len(said) - signs) / pace + signs / _SIGNS_A_MINUTE)


def _distinct(said: Sequence[str]) -> float:
    if not said:
        return 0.0
    edges = range(0, max(1, len(said) - _TTR_WINDOW // 2), _TTR_WINDOW)
    shares = []
    for start in edges:
        part = said[start : start + _TTR_WINDOW]
        shares.append(len(set(part)) / len(part))
    return sum(shares) / len(shares)


def _counts(starts: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[int]:
    """How many words begin in each span; both are in order."""
    from bisect import bisect_left

    return [bisect_left(starts, end) - bisect_left(starts, start) for start, end in spans]


def _long(text: str, count: int, span: tuple[int, int]) -> LongSentence:
    start, end = span
    shown = " ".join(text[start : min(end, start + 400)].split())
    return LongSentence(start, end, count, shown + ("…" if end > start + 400 else ""))
