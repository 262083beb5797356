"""Which words of a paragraph are spoken by somebody in the story.

    speeches("“Yes,” said Tom, “but not today.”")   two of them, with their marks

Quotation marks of any style, the dashes of Spanish and French dialogue, and a play's `NAME: words`.
A title, a scare quote, a phrase that is only cited is no speech; and a narrator's words inside a
speech (`dit-il`, `—dijo Juan—`) are the narrator's. Who speaks is found in `speakers.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from anyrig.text.dashes import dashed
from anyrig.text.incises import without_incises
from anyrig.text.quotes import Quote, opens, quotes
from anyrig.text.saying import sayings

_SCRIPT = re.compile(
    r"\s*(?P<name>[^\W\d_][\w.'’\- ]{0,39}?)(?:\s*[(\[][^)\]]{1,60}[)\]])?\s*:\s+(?=\S)"
)
_NO_ROLES = frozenset(
    "note notes nb warning caution tip tips important chapter part book section isbn ps todo fig "
    "figure table example exercise question answer date time place scene act setting source "
    "nota aviso ejemplo capítulo remarque attention exemple chapitre achtung hinweis".split()
)
_ENDS = ".!?…"
_DASHES = "—–-―"
_JOINING = frozenset("and but or y o pero et ou mais und aber".split())
_FEWEST_WORDS = 8
"""A cited sentence of so many words, with a capital and a full stop, is no catchword."""


@dataclass(frozen=True)
class Speech:
    """Words that somebody speaks, with the marks around them."""

    start: int
    end: int
    continued: bool = False
    """Whether it began in an earlier paragraph, and this one only takes it up."""
    open: bool = False
    """Whether the paragraph ends before the speech does."""
    name: str = ""
    """Of a play's `NAME: words`."""


def speeches(
    paragraph: str, language: str = "en", *, open: bool = False, names: Collection[str] = ()
) -> tuple[Speech, ...]:
    """The spoken stretches of a paragraph, in order and apart.

    Args:
        paragraph: Without line ends of its own.
        language: `fr`, `es-MX`; it tells what dashes and commas mean.
        open: Whether the paragraph before ended within a speech, so that a mark at the beginning of
            this one takes it up.
        names: Speakers known, in small letters: `Tom: words` is a speech where Tom is one.
    """
    if script := _script(paragraph, names):
        return (script,)
    spans = dashed(paragraph, language)
    if spans:
        return tuple(Speech(start, end) for start, end in spans)
    found = quotes(paragraph)
    if not found:
        return ()
    goes_on = open and opens(paragraph)
    spoken = _spoken(paragraph, found, language, taken_up=goes_on)
    made: list[Speech] = []
    for quote in spoken:
        last = not quote.closed
        pieces = without_incises(paragraph, quote.start, quote.end, language)
        for number, (start, end) in enumerate(pieces, 1):
            first = goes_on and not made
            made.append(Speech(start, end, first, last and number == len(pieces)))
    return tuple(made)


def _script(paragraph: str, names: Collection[str]) -> Speech | None:
    match = _SCRIPT.match(paragraph)
    if match is None:
        return None
    name = match["name"].strip()
    bare = name.casefold().rstrip(".")
    capitals = name.isupper() and sum(map(str.isalpha, name)) > 1 and len(name.split()) <= 4
    if bare in names or (capitals and bare.split()[0] not in _NO_ROLES):
        return Speech(match.end(), len(paragraph.rstrip()), name=name)
    return None


def _spoken(text: str, found: list[Quote], language: str, *, taken_up: bool) -> list[Quote]:
    """The quotations that are speech."""
    kept: list[Quote] = []
    for number, quote in enumerate(found):
        follower = found[number + 1].start if number + 1 < len(found) else len(text)
        begun = kept[-1] if kept and number and kept[-1] is found[number - 1] else None
        if (taken_up and not number) or _is_speech(text, quote, begun, follower, language):
            kept.append(quote)
    return kept


def _is_speech(text: str, quote: Quote, begun: Quote | None, follower: int, language: str) -> bool:
    inner = text[quote.start + 1 : quote.end - quote.closed].strip(" \u00a0\u202f'’\"*_")
    if not any(map(str.isalnum, inner)):
        return bool(inner) and not text[: quote.start].strip() and inner[-1] in "!?…"
    before = text[begun.end if begun else 0 : quote.start]
    after = text[quote.end : follower]
    if not quote.closed:
        return _at_edge(before) or begun is not None
    if begun is not None and _interlude(text[begun.end - 2], before, inner, language):
        return True
    if not before.strip(" ([—–*_"):
        return _first(inner, after, language)
    last = before.rstrip(" *_\u00a0\u202f")[-1:]
    if last in _ENDS or last in '"”’)»':
        return inner[-1] in _ENDS + "," + _DASHES or _verb_after(after, language)
    if last in ",:;" or last in _DASHES:
        return _introduced(last, before, inner, after, language)
    return _verb_before(before, language) or (inner[-1] == "," and _verb_after(after, language))


def _at_edge(before: str) -> bool:
    """Whether a sentence could begin here."""
    bare = before.rstrip(" *_([")
    return not bare or bare[-1] in _ENDS + ',:;"”’)' + _DASHES


def _first(inner: str, after: str, language: str) -> bool:
    """Of a quotation that opens its paragraph."""
    if inner[-1] in _ENDS + ",;:" + _DASHES:
        return True
    rest = after.lstrip()
    return not rest.strip(".,;!?…)*_") or rest[:1] in _DASHES or _verb_after(after, language)


def _introduced(last: str, before: str, inner: str, after: str, language: str) -> bool:
    """Of one that stands after a comma, a colon or a dash."""
    verb = _says(before, language)
    if verb or _verb_after(after, language):
        return True
    whole = inner[:1].isupper() and (inner[-1] in _ENDS or after[:1] in (".", "!", "?"))
    if last == ":" or (last in _DASHES and inner[-1] in "!?"):
        return whole and len(inner.split()) > 1
    return whole and len(inner.split()) >= _FEWEST_WORDS


def _interlude(ended: str, between: str, inner: str, language: str) -> bool:
    """Whether a speech is only broken off by these words and goes on."""
    bare = between.strip(" *_")
    if not bare:
        return True
    told = _says(bare, language) or _verb_after(bare, language)
    if len(bare) > 300 or bare[-1] not in ",;:)" + _ENDS + _DASHES:
        return told and len(bare.split()) < _FEWEST_WORDS
    if bare[-1] in _ENDS:
        return inner[-1] in _ENDS + "," + _DASHES
    if bare[0] in _DASHES or bare[0] == "(":
        return True
    soon = len(bare.split()) < _FEWEST_WORDS and inner[-1] in _ENDS
    return told or soon or ended in ",;" + _DASHES


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text.lower().replace("’", "'"))


def _says(clause: str, language: str) -> bool:
    """Whether one of the last words before a speech is a verb of saying."""
    verbs = sayings(language).verbs
    return any(_base(word) in verbs for word in _words(clause[-90:])[-10:])


def _verb_before(before: str, language: str) -> bool:
    """Whether the very last word is one, as in: he said “no” and left."""
    verbs = sayings(language).verbs
    last = _words(before[-40:])[-2:]
    if last and _base(last[-1]) in verbs and last[-1] not in ("called", "llamó", "llama", "appela"):
        return before.rstrip()[-1:].isalpha()
    return False


def _verb_after(after: str, language: str) -> bool:
    """Whether one of the next words is a verb of saying, in the same clause."""
    clause = re.split(r"[.;!?]", after.lstrip(" ,.!?…»”—–-\u00a0\u202f"), maxsplit=1)[0]
    verbs = sayings(language).verbs
    words = _words(clause[:80])[:4]
    if words and words[0] in _JOINING:
        return False
    return any(_base(word) in verbs for word in words)


def _base(word: str) -> str:
    """A verb without the pronoun that French ties to it."""
    stem, tied, _ = word.partition("-")
    return stem if tied else word
