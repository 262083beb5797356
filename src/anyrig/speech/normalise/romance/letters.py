"""Initials and acronyms: which are said as a word, which are spelt letter by letter."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from anyrig.speech.normalise.romance.sentences import ends
from anyrig.speech.normalise.rules import Rule, rule

_CAPITAL = "A-ZÁÉÍÓÚÜÑÀÂÄÇÈÊËÎÏÔÖÙÛŸŒÆ"
_VOWELS = frozenset("AEIOUYÁÉÍÓÚÜÀÂÄÈÊËÎÏÔÖÙÛŒÆ")
_LIQUID = re.compile(r"(?:[PBTDCGFK][RL]|[CPGTS]H|QU|ST|SC|SP|SM|SN|GN|PS)")
_CODA = re.compile(r"[RLN][KTDPCGN]$")
_LONGEST = 6
# J. R. R. before a name; U. S. A. by itself, its last full stop written or not.
_ROW = rf"(?<![\w.])(?:[{_CAPITAL}]\.[ \u00a0]?-?){{2,6}}"
_ABBREVIATED = (
    rf"{_ROW}(?![{_CAPITAL}]\b)(?<=\.)|(?<![\w.])(?:[{_CAPITAL}]\.){{1,5}}[{_CAPITAL}](?![\w.])"
)


class Known(NamedTuple):
    """What a language knows of its acronyms."""

    said: Collection[str]
    """Read as a word, short or odd as they look."""
    spelt: Collection[str]
    """Spelt although they could be said."""
    words: Collection[str]
    """Plain short words, which stand in capitals now and then."""
    full: Mapping[str, str]
    """Said in full."""


def letters(known: Known) -> tuple[Rule, ...]:
    """The rules for one language."""

    def initials(match: re.Match[str]) -> str | None:
        plain = re.sub(r"[^\w]", "", match.group())
        words = _acronym(plain, known) or plain
        return f"{words}." if ends(match) else words

    def acronym(match: re.Match[str]) -> str | None:
        written = match[1]
        if written in known.full:
            return known.full[written]
        if shouted(match) and (written in known.words or sayable(written)):
            return None
        words = _acronym(written, known)
        return None if words is None else words

    return (
        rule("initials", rf"{_ROW}(?=[{_CAPITAL}][a-zà-ÿ])")(_row),
        rule("initials", _ABBREVIATED)(initials),
        rule("initials", rf"(?<![\w.])([{_CAPITAL}])\.(?=[ \u00a0][{_CAPITAL}][a-zà-ÿ])")(_initial),
        rule("acronym", rf"(?<![\w'@.-])([{_CAPITAL}]{{2,6}})s?(?![\w@])")(acronym),
        rule("acronym", rf"(?<![\w@])([{_CAPITAL}]{{2,6}})s?(?![\w@])")(acronym),
        rule("acronym", rf"(?<![\w@])([{_CAPITAL}]{{2,5}})(?=[ -]?\d)")(acronym),
    )  # fmt: skip


# A letter after one of these is its name, and a full stop after the letter ends the sentence.
_LETTERED = re.compile(
    r"(?:Plan|Vitamin[ae]|Gr[uo]upo?|Clas[se]e?|Tipo|Type|Letra|Lettre|Anexo|Annexe|Opción|Option|"
    r"Serie|Série|Zona|Zone|Bloque|Bloc|Apartado|Hepatitis|Hépatite) $"
)
_NAMED = re.compile(r"(?:^|\W)[A-ZÁÉÍÓÚÑÀÂÇÈÊËÎÏÔÛ][a-zà-ÿ]+[ \u00a0]$")

# A name follows these, where no letter was named just before: de A. Camus, but entre A et B.
_LEADING = re.compile(
    r"(?:^|[\s(])(?:de|par|avec|selon|chez|con|por|según|(?<!\b[A-Z] )(?:et|y))[ \u00a0]$"
)


def _row(match: re.Match[str]) -> str:
    return " ".join(re.findall(r"\w", match.group())) + " "


def _initial(match: re.Match[str]) -> str | None:
    """A single initial stands before a name, at the start or after another name."""
    before = match.string[max(0, match.start() - 30) : match.start()]
    named = _NAMED.search(before)
    if _LEADING.search(before):
        return match[1]
    return match[1] if not before or (named and not _LETTERED.search(named.group())) else None


def _acronym(written: str, known: Known) -> str | None:
    """The letters with spaces between them; None where it is said as it stands."""
    if written in known.said or written in known.words or not written.isascii():
        return None  # Letters of an acronym carry no accents: it is a word in capitals.
    if written in known.spelt or len(written) <= 3 or not sayable(written):
        return " ".join(written) if len(written) <= _LONGEST else None
    return None


def sayable(written: str) -> bool:
    """Whether letters can be read as a word: vowels among them, no heap of consonants."""
    plain = _CODA.sub("T", _LIQUID.sub("T", written.upper()))
    shape = "".join("v" if one in _VOWELS else "c" for one in plain)
    return "v" in shape and "ccc" not in shape and not re.match("cc|.*cc$", shape)


def shouted(match: re.Match[str]) -> bool:
    """Whether the line is all in capitals, as titles are."""
    text = match.string
    left = text.rfind("\n", 0, match.start()) + 1
    right = text.find("\n", match.end())
    line = text[
        max(left, match.start() - 80) : match.end() + 80
        if right < 0
        else min(right, match.end() + 80)
    ]
    return (
        line.isupper()
        and len(re.findall(r"[^\W\d_]+", line)) > 1
        and sum(map(str.isalpha, line)) > 7
    )
