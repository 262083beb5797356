"""How SSML's `say-as` reads a text.

| interpret-as | `text` | said |
|---|---|---|
| `characters`, `spell-out`, `verbatim` | `a1` | A one |
| `digits` | `2024` | two zero two four |
| `cardinal`, `number` | `1,234` | one thousand, two hundred and thirty-four |
| `ordinal` | `3` | third |
| `telephone` | `555-0100` | five five five, zero one zero zero |
| `date` with `format` (`mdy dmy ymd md dm my y ...`) | `4/5/2024` | as the date in full |
| `time`, `currency`, `fraction`, `unit`, `address` | `2:30pm` | by the language's own rules |
| `expletive` | anything | bleep |
"""

from __future__ import annotations

import re
from collections.abc import Callable

from anyrig.speech.normalise import normalise
from anyrig.speech.normalise.numbers import digits, ordinal, whole

_BLEEPS = {"es": "bip", "fr": "bip", "it": "bip", "de": "piep"}
_PLAIN = frozenset({"time", "currency", "fraction", "unit", "address", "name", "net", "money"})
_FORMATS = frozenset("mdy dmy ymd md dm ym my y m d yyyymmdd".split())
_MOST = 400


def say_as(text: str, interpret: str, language: str) -> str | None:
    """The words, or None when there is no such way of reading.

    Args:
        text: what stands in the element.
        interpret: `interpret-as`, and `format` after a space.
        language: whose words are used.
    """
    kind, _, form = interpret.partition(" ")
    base = language.partition("-")[0]
    text = text.strip()
    if way := _WAYS.get(kind):
        return way(text, base)
    if kind == "date":
        return normalise(_date(text, form.strip(), base), language)
    return normalise(text, language) if kind in _PLAIN else None


def _characters(text: str, language: str) -> str:
    named = (_character(one, language) for one in text[:_MOST] if not one.isspace())
    return " ".join(name for name in named if name)


def _character(one: str, language: str) -> str:
    if one.isdecimal():
        return digits(one, language)
    if one.isalpha():
        return one.upper() if len(one.upper()) == 1 else one
    # A sign by itself is often no word; between words the rules may know its name.
    said = normalise(f"x {one} x", language).strip("x ").strip()
    return said if any(map(str.isalnum, said)) else ""


def _digits(text: str, language: str) -> str:
    return digits(text[:_MOST], language)


def _cardinal(text: str, language: str) -> str:
    if re.fullmatch(r"\d+", text):
        return whole(text, language)
    return normalise(text, language)


def _ordinal(text: str, language: str) -> str:
    found = re.search(r"\d{1,30}", re.sub(r"(?<=\d)[,. ](?=\d{3})", "", text))
    return ordinal(int(found[0]), language) if found else normalise(text, language)


def _telephone(text: str, language: str) -> str:
    groups = [digits(group, language) for group in re.findall(r"\d+", text[:_MOST])]
    plus = "plus " if text.startswith("+") else ""
    return plus + ", ".join(groups)


def _expletive(text: str, language: str) -> str:
    return _BLEEPS.get(language, "bleep")


_WAYS: dict[str, Callable[[str, str], str]] = {
    "characters": _characters, "spell-out": _characters, "verbatim": _characters,
    "character": _characters, "digits": _digits, "cardinal": _cardinal, "number": _cardinal,
    "ordinal": _ordinal, "telephone": _telephone, "expletive": _expletive,
}  # fmt: skip


def _date(text: str, form: str, language: str) -> str:
    """A date of figures as it is written in full; what is none stays as it is."""
    form = "ymd" if form == "yyyymmdd" else form
    parts = re.findall(r"\d+", text)
    if len(parts) == 1 and len(parts[0]) == 8 and form in ("", "ymd"):
        parts, form = [parts[0][:4], parts[0][4:6], parts[0][6:]], "ymd"
    if form not in _FORMATS or len(parts) != len(form) or len(form) < 2:
        return text
    found = {letter: int(part[:6]) for letter, part in zip(form, parts, strict=True)}
    year, month, day = found.get("y"), found.get("m"), found.get("d")
    return _written(year, month, day, language) or text


def _written(year: int | None, month: int | None, day: int | None, language: str) -> str:
    """The date with its month in words, as the language writes it."""
    from datetime import date

    from babel import UnknownLocaleError
    from babel.dates import format_date, format_skeleton

    skeleton = ("y" if year else "") + ("MMMM" if month else "") + ("d" if day else "")
    try:
        when = date(year or 2000, month or 1, day or 1)
        if skeleton == "yMMMMd":
            return str(format_date(when, "long", locale=language))
        return str(format_skeleton(skeleton, when, locale=language))
    except (ValueError, UnknownLocaleError, KeyError):
        return ""
