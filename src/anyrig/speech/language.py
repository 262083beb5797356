"""In which language each paragraph is spoken, and the refusal of what no voice here speaks.

A text is never read with a foreign voice: a text, or a whole paragraph of it, in a language that
the engine lacks is refused. A foreign sentence or title among others is too short to be sure of,
and is read with the rest, with a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from anyrig.errors import Message, OptionRef, UnsupportedLanguageError
from anyrig.text.language import Detected, detect, num_words

PARAGRAPH_WORDS = 20
"""A foreign stretch of so many words is no quotation any more."""
_SWITCH_WORDS = 6
"""So many are enough where the engine speaks both: a slip then costs an accent, not the text."""
_CONFIDENT = 0.9
_LOOKED_AT = 600  # characters of a paragraph: a hundred words tell as surely as a thousand


def build_language_error(
    language: str, candidates: Sequence[str], *, what: str = ""
) -> UnsupportedLanguageError:
    """The error for a text in `language`, where `candidates` are what the engine speaks.

    `what` is the beginning of the paragraph, when it is not the whole text.
    """
    spoken = ", ".join(map(name_language, candidates)) or "another language"
    where = f"a paragraph ({what!r}) is" if what else "the text is"
    hint = Message(
        "Choose an engine that speaks {name}. If that is wrong, pass {language}.",
        name=name_language(language), language=OptionRef("language", (candidates or ("en",))[0]),
    )  # fmt: skip
    return UnsupportedLanguageError(
        f"{where} in {name_language(language)}, but this voice speaks {spoken}",
        hint=hint, language=language,
    )  # fmt: skip


def name_language(language: str) -> str:
    """The English name of a language: `French` for `fr`."""
    from babel import Locale, UnknownLocaleError

    try:
        return Locale.parse(language, sep="-").english_name or language
    except (UnknownLocaleError, ValueError):
        return language


def match_language(language: str, languages: Sequence[str]) -> str:
    """What the engine calls a language, or nothing when it does not speak it.

    `en-GB` is spoken by a voice for `en-gb`, else for `en`, else for any English.
    """
    language = language.lower()
    base = language.partition("-")[0]
    if not languages or language in languages:
        return language
    if base in languages:
        return base
    return next((each for each in languages if each.lower().partition("-")[0] == base), "")


@dataclass(frozen=True)
class ParagraphLanguages:
    """The language of each paragraph, of those that the engine speaks."""

    main: str
    each: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def use_language(language: str, languages: Sequence[str], count: int) -> ParagraphLanguages:
    """The language that the user named, for every paragraph."""
    main = match_language(language, languages)
    if not main:
        raise build_language_error(language, languages)
    return ParagraphLanguages(main, (main,) * count)


def detect_languages(
    texts: Sequence[str], languages: Sequence[str], default: str
) -> ParagraphLanguages:
    """The languages of paragraphs, as detected; `default` for text that tells nothing."""
    fallback = match_language(default, languages) or (languages[0] if languages else default)
    each = [_detect(text[:_LOOKED_AT], fallback) for text in texts]
    counts: Counter[str] = Counter()
    for text, detected in zip(texts, each, strict=True):
        counts[detected.language] += len(text) if detected.sure else 0
    main = counts.most_common(1)[0][0] if counts.total() else _detect_together(texts, fallback)
    spoken = match_language(main, languages)
    if not spoken:
        raise build_language_error(main, languages)
    warnings: dict[str, None] = {}
    chosen = [
        _choose(text, detected, main, languages, warnings)
        for text, detected in zip(texts, each, strict=True)
    ]
    return ParagraphLanguages(spoken, tuple(chosen), tuple(warnings))


def _detect(text: str, fallback: str) -> Detected:
    """What is too short to be refused is not worth loading the model for."""
    return detect(text, default=fallback, thorough=num_words(text) >= PARAGRAPH_WORDS)


def _detect_together(texts: Sequence[str], fallback: str) -> str:
    """Many short lines may tell together what none tells alone."""
    sample = " ".join(texts[:200])[:4000]
    return detect(sample, default=fallback).language


def _choose(
    text: str, detected: Detected, main: str, languages: Sequence[str], warnings: dict[str, None]
) -> str:
    spoken = match_language(main, languages)
    if detected.language == main or not detected.sure:
        return spoken
    other = match_language(detected.language, languages)
    confident = detected.confidence >= _CONFIDENT
    if other and confident and num_words(text) >= _SWITCH_WORDS:
        return other
    if not other and confident and num_words(text) >= PARAGRAPH_WORDS:
        raise build_language_error(detected.language, languages, what=excerpt(text))
    named = f"{name_language(detected.language)} and is read as {name_language(main)}"
    warnings[f"{excerpt(text)!r} seems to be {named}"] = None
    return spoken


def choose_language(text: str, marked: str, main: str, languages: Sequence[str]) -> str:
    """What a paragraph among others is spoken in; empty when no voice here speaks it.

    Files mark languages wrongly as often as not, so where a paragraph is long enough to tell its
    language, that counts; else its mark; else it is in the main language.

    Args:
        text: the paragraph.
        marked: what its file says, or nothing.
        main: the language of the whole, which the engine speaks.
        languages: what the engine speaks.
    """
    words = num_words(text)
    named = marked or main
    strange = not _is_same_language(named, main)
    several = len({each.partition("-")[0] for each in languages}) > 1
    if strange or words >= (_SWITCH_WORDS if several else PARAGRAPH_WORDS):
        detected = _detect(text[:_LOOKED_AT], main)
        enough = _SWITCH_WORDS if match_language(detected.language, languages) else PARAGRAPH_WORDS
        if detected.sure and detected.confidence >= _CONFIDENT and words >= enough:
            named = named if _is_same_language(named, detected.language) else detected.language
    spoken = main if _is_same_language(named, main) else match_language(named, languages)
    return spoken or ("" if words >= PARAGRAPH_WORDS else main)


def _is_same_language(one: str, other: str) -> bool:
    return one.lower().partition("-")[0] == other.lower().partition("-")[0]


def excerpt(text: str) -> str:
    """The first words of a text, for messages."""
    words = " ".join(text[:200].split())
    return words if len(words) <= 40 else words[:40].rsplit(" ", 1)[0] + "..."
