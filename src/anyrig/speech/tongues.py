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


def refusal(
    language: str, candidates: Sequence[str], *, hint: str = "", what: str = ""
) -> UnsupportedLanguageError:
    """The error for a text in `language`, where `candidates` are what the engine speaks.

    `hint` says what would speak it, such as an install line, not how to insist; `what` is the
    beginning of the paragraph, when it is not the whole text.
    """
    spoken = ", ".join(map(title, candidates)) or "another language"
    where = f"A paragraph ({what!r}) is" if what else "The text is"
    insist = Message(
        "Choose an engine that speaks {name}. If that is wrong, pass {language}.",
        name=title(language), language=OptionRef("language", (candidates or ("en",))[0]),
    )  # fmt: skip
    return UnsupportedLanguageError(
        f"{where} in {title(language)}, and this voice speaks {spoken}",
        hint=hint or insist, language=language,
    )  # fmt: skip


def title(language: str) -> str:
    """The English name of a language: `French` for `fr`."""
    from babel import Locale, UnknownLocaleError

    try:
        return Locale.parse(language, sep="-").english_name or language
    except (UnknownLocaleError, ValueError):
        return language


def matched(language: str, languages: Sequence[str]) -> str:
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
class Tongues:
    """The language of each paragraph, of those that the engine speaks."""

    main: str
    each: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def settled(language: str, languages: Sequence[str], count: int) -> Tongues:
    """The language that the user named, for every paragraph."""
    main = matched(language, languages)
    if not main:
        raise refusal(language, languages)
    return Tongues(main, (main,) * count)


def found(texts: Sequence[str], languages: Sequence[str], default: str) -> Tongues:
    """The languages of paragraphs, as detected; `default` for text that tells nothing."""
    fallback = matched(default, languages) or (languages[0] if languages else default)
    each = [_detected(text[:_LOOKED_AT], fallback) for text in texts]
    counts: Counter[str] = Counter()
    for text, detected in zip(texts, each, strict=True):
        counts[detected.language] += len(text) if detected.sure else 0
    main = counts.most_common(1)[0][0] if counts.total() else _whole(texts, fallback)
    spoken = matched(main, languages)
    if not spoken:
        raise refusal(main, languages)
    warnings: dict[str, None] = {}
    chosen = [
        _chosen(text, detected, main, languages, warnings)
        for text, detected in zip(texts, each, strict=True)
    ]
    return Tongues(spoken, tuple(chosen), tuple(warnings))


def _detected(text: str, fallback: str) -> Detected:
    """What is too short to be refused is not worth loading the model for."""
    return detect(text, default=fallback, thorough=num_words(text) >= PARAGRAPH_WORDS)


def _whole(texts: Sequence[str], fallback: str) -> str:
    """Many short lines may tell together what none tells alone."""
    sample = " ".join(texts[:200])[:4000]
    return detect(sample, default=fallback).language


def _chosen(
    text: str, detected: Detected, main: str, languages: Sequence[str], warnings: dict[str, None]
) -> str:
    spoken = matched(main, languages)
    if detected.language == main or not detected.sure:
        return spoken
    other, confident = matched(detected.language, languages), detected.confidence >= _CONFIDENT
    if other and confident and num_words(text) >= _SWITCH_WORDS:
        return other
    if not other and confident and num_words(text) >= PARAGRAPH_WORDS:
        raise refusal(detected.language, languages, what=beginning(text))
    named = f"{title(detected.language)} and is read as {title(main)}"
    warnings[f"{beginning(text)!r} seems to be {named}"] = None
    return spoken


def spoken_in(text: str, marked: str, main: str, languages: Sequence[str]) -> str:
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
    strange = not _same(named, main)
    several = len({each.partition("-")[0] for each in languages}) > 1
    if strange or words >= (_SWITCH_WORDS if several else PARAGRAPH_WORDS):
        told = _detected(text[:_LOOKED_AT], main)
        enough = _SWITCH_WORDS if matched(told.language, languages) else PARAGRAPH_WORDS
        if told.sure and told.confidence >= _CONFIDENT and words >= enough:
            named = named if _same(named, told.language) else told.language
    spoken = main if _same(named, main) else matched(named, languages)
    return spoken or ("" if words >= PARAGRAPH_WORDS else main)


def _same(one: str, other: str) -> bool:
    return one.lower().partition("-")[0] == other.lower().partition("-")[0]


def beginning(text: str) -> str:
    """The first words of a text, for messages."""
    words = " ".join(text[:200].split())
    return words if len(words) <= 40 else words[:40].rsplit(" ", 1)[0] + "..."
