"""Numbers that name a thing: rooms, flights, houses, versions, postal codes."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.shortened import STATES
from anyrig.speech.normalise.english.words import (
    DIGITS,
    cardinal,
    digits,
    label_number,
    number,
    pairs,
)
from anyrig.speech.normalise.rules import Rule, rule

_STREET = (
    r"(?:Street|Avenue|Road|Drive|Lane|Boulevard|Way|Court|Place|Terrace|Square|Highway|"
    r"Parkway|Circle|Row|"
    r"St|Ave|Rd|Dr|Ln|Blvd|Ct|Pl|Sq|Hwy|Pkwy)\b"
)


@rule(
    "version",
    r"(?<![\w.])[vV](?:ersion |er\. ?|\.? ?)?(\d+(?:\.\d+){0,4})(?![\w]|\.\d)",
    needs="vV",
)
def _version(match: re.Match[str]) -> str:
    return f"version {_dotted(match[1])}"


@rule(
    "version",
    r"(?<![\w.,])(\d{1,4}(?:\.\d{1,4}){2,4})(?::(\d{2,5})(?![\d:]))?(?![\w]|\.\d)",
    needs=".",
)
def _dots(match: re.Match[str]) -> str | None:
    parts = match[1].split(".")
    if len(parts) == 4 and all(int(part) < 256 for part in parts):
        port = f", port {label_number(match[2])}" if match[2] else ""
        return " dot ".join(label_number(part) for part in parts) + port
    return None if match[2] else _dotted(match[1])


@rule("version", r"(?<=\bPython )(\d\.\d{1,2})(?![\w]|\.\d)", needs=".")
def _python(match: re.Match[str]) -> str:
    return _dotted(match[1])


def _dotted(text: str) -> str:
    return " point ".join(number(part) for part in text.split("."))


@rule("number", r"(?<![\w.-])([A-Z][a-z]+)-(\d{3})(?![\w,-]|\.\d)", needs="-")
def _named(match: re.Match[str]) -> str:
    return f"{match[1]} {label_number(match[2])}"


_SHORT = {"Apt.": "Apartment", "apt.": "apartment", "Hwy": "Highway", "Rte": "Route"}


@rule(
    "number",
    r"\b(Room|room|Flight|flight|Route|route|Highway|highway|Interstate|Boeing|Airbus|[Aa]partment|"
    r"[Aa]pt\.|[Ss]uite|[Bb]us|[Uu]nit|Hwy\.?|Rte\.?|Porsche|Peugeot|Cessna|Fahrenheit|Airlines|"
    r"Airways|Delta|Lufthansa) (\d{3,4})(?![\d,%]|\.\d)(?! (?:million|billion|percent|people|men))",
    needs=DIGITS,
)
def _label(match: re.Match[str]) -> str:
    name = _SHORT.get(match[1]) or _SHORT.get(match[1].rstrip(".")) or match[1]
    return f"{name} {label_number(match[2])}"


@rule("number", rf"(?<![\w.,$£€#-])(\d{{3,5}})([A-Z])?(?= (?:[NSEW]\.? |North |South |East |West )?"
      rf"(?:[A-Z][\w'-]+ ){{1,3}}{_STREET}|(?: (?:[NSEW]\.? )?\d+(?:st|nd|rd|th) {_STREET}))",
      needs=DIGITS)  # fmt: skip
def _house(match: re.Match[str]) -> str:
    said = label_number(match[1]) if len(match[1]) < 5 else digits(match[1])
    value = int(match[1])
    if len(match[1]) == 4 and value % 100 == 0 and value % 1000:
        said = f"{cardinal(value // 100)} hundred"
    return f"{said} {match[2]}" if match[2] else said


@rule("number", r"(?<=, )([A-Z]{2}) (\d{5})(?:-(\d{4}))?(?!\d)", needs=DIGITS)
def _zip(match: re.Match[str]) -> str:
    state = STATES.get(match[1]) or " ".join(match[1])
    rest = f", {digits(match[3])}" if match[3] else ""
    return f"{state} {digits(match[2])}{rest}"


@rule("number", r"(?:(?<=\bZIP )|(?<=\b[Zz]ip )|(?<=\b[Zz]ip code )|(?<=\bZIP code ))"
      r"(\d{5})(?:-(\d{4}))?(?!\d)|"
      r"(?<![\w.,$£€#-])(\d{5})-(\d{4})(?![\w,.-]\d|[\w%-])", needs=DIGITS)  # fmt: skip
def _bare_zip(match: re.Match[str]) -> str:
    rest = match[2] or match[4]
    return digits(match[1] or match[3]) + (f", {digits(rest)}" if rest else "")


@rule("number", r"(?<=\b(?:[Tt]he|his|her) )(7[0-8]7)(?![\w,%]|\.\d)(?! [a-z]+s\b)", needs="7")
def _airliner(match: re.Match[str]) -> str:
    return pairs(int(match[1]))


RULES: tuple[Rule, ...] = (
    _version, _python, _dots, _zip, _bare_zip, _house, _label, _named, _airliner,
)  # fmt: skip
