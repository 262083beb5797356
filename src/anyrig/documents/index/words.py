"""Words as the index keeps them and as a person asks for them.

FTS5's tokenizer parts words at spaces and marks. Chinese, Japanese, Thai and their like have no
spaces, so each of their characters is made a word here, in texts and in questions alike; a question
in them then asks for the characters in their order. A question is never handed to FTS5 as it was
written: its words are quoted, so that nothing in it is an operator.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

MOST_WORDS = 32
"""Of a question; a longer one is asked by its rarest."""
_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_LONE = re.compile(f"[{_DENSE}]")
_RUN = re.compile(f"[{_DENSE}]+|[^\\W_{_DENSE}](?:[^\\W_{_DENSE}]|[\u0300-\u036f])*")
_PLAIN = re.compile("[a-z0-9]+")
_LONGEST = 64  # characters of a word
_STEM = 4  # letters that words with other endings have in common
# Words that say nothing of what a text is about; they are asked for when a question has no others.
STOP_WORDS = frozenset(
    "a about all also am an and any are as at be been but by can could did do does for from get "
    "had has have he her his how i if in into is it its me my no not of on or our out she "
    "should so some than that the their them then there these they this to up was we were what "
    "when where which who whom whose why will with would you your al como con de del el en es "
    "esta este la las lo los más o para pero por qué que se si sin sobre son su sus un una uno "
    "y ya cómo cuál cuándo dónde quién au aux avec ce ces cette comment dans des du elle est et "
    "il ils je le les leur mais ne nous ou où par pas pour quand quel quelle qui sa ses sont "
    "sur une vous aber als auf aus bei das dem den der die ein eine einer für im ist mit nicht "
    "oder sich sie sind und von vor war wer wie wo zu zum zur che chi da dei della di e gli nel "
    "non per più quale sono os em uma com não".split()
)


def spaced(text: str) -> str:
    """A text as it is indexed."""
    return _LONE.sub(r" \g<0> ", text)


def terms(question: str) -> list[str]:
    """What a question asks for, each once, in order: words, and runs of characters without spaces.

    The longest question is cut; it has said what it wants by then.
    """
    found: dict[str, str] = {}
    for match in _RUN.finditer(_composed(question[:20_000])):
        word = match[0][:_LONGEST]
        found.setdefault(folded(word), word)
    return list(found.values())


def telling(words: Sequence[str]) -> list[str]:
    """Those that say what a question is about; all of them where none does."""
    told = [
        word for word in words
        if word.lower() not in STOP_WORDS and (len(word) > 1 or not word.isascii())
    ]  # fmt: skip
    return told or list(words)


def quoted(term: str) -> str:
    """A term as FTS5 takes it: a phrase in quotes, in which nothing has a meaning."""
    return '"' + spaced(term).replace('"', '""').strip() + '"'


def any_of(words: Iterable[str]) -> str:
    """The expression for texts that have one of the words; the more and the rarer, the better."""
    return " OR ".join(quoted(word) for word in words)


def tokens(term: str) -> list[str]:
    """The words that FTS5 makes of a term, as it keeps them."""
    return [folded(piece) for piece in spaced(term).split()]


@lru_cache(maxsize=1 << 16)
def folded(text: str) -> str:
    """Small letters without accents, as the tokenizer compares them."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFD", text.lower())
    return "".join(one for one in parts if not unicodedata.combining(one))


def matches(text: str, words: Iterable[str]) -> list[tuple[int, int]]:
    """Where the words stand in a text, in order: what is shown bright.

    A word of the text that begins like one of the question counts as well: `tenants` for `tenant`.
    """
    wanted = list(map(folded, words))
    alike = _alike(said(text), wanted)
    dense = [word for word in wanted if _LONE.match(word)]
    if text.isascii():  # a hundred words by one expression, not one by one
        if not alike:
            return []
        expression = f"(?<![a-z0-9])(?:{'|'.join(map(re.escape, alike))})(?![a-z0-9])"
        return [match.span() for match in re.finditer(expression, text.lower())]
    found: list[tuple[int, int]] = []
    for match in _RUN.finditer(text):
        if folded(match[0]) in alike:
            found.append(match.span())
        elif dense and _LONE.match(match[0]):
            found += _within(match, dense)
    return sorted(set(found))


def said(text: str) -> frozenset[str]:
    """The words of a text, folded."""
    if text.isascii():
        return frozenset(_PLAIN.findall(text.lower()))
    return frozenset(map(folded, _RUN.findall(text)))


def _alike(there: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Those words that are wanted, or differ from one that is by an ending."""
    by_stem: dict[str, list[str]] = {}
    for word in wanted:
        by_stem.setdefault(word[:_STEM], []).append(word)
    return sorted(
        word for word in there
        if any(word == one or _related(word, one) for one in by_stem.get(word[:_STEM], ()))
    )  # fmt: skip


def _within(match: re.Match[str], wanted: Iterable[str]) -> list[tuple[int, int]]:
    run, found = match[0], []
    for one in wanted:
        at = run.find(one)
        while at >= 0:
            found.append((match.start() + at, match.start() + at + len(one)))
            at = run.find(one, at + len(one))
    return found


def _related(word: str, asked: str) -> bool:
    """Whether they differ by an ending: the stem is long, the endings are short."""
    stem = len(os.path.commonprefix((word, asked)))
    return stem >= _STEM and len(word) - stem <= 3 and len(asked) - stem <= 2


def _composed(text: str) -> str:
    """With accents joined to their letters: `e` and an accent are not two words."""
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))
