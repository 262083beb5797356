"""Which words of a paragraph are spoken by somebody in the story.

    find_speeches("“Yes,” said Tom, “but not today.”")   two of them, with their marks

Quotation marks of any style, the dashes of Spanish and French dialogue, and a play's `NAME: words`.
A title, a scare quote or a phrase that is only cited is not speech, and the narrator's words inside
a speech (`dit-il`, `—dijo Juan—`) are the narrator's. Who speaks is found in `speakers.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from anyrig.audiobooks.dialogue_words import get_words
from anyrig.audiobooks.quotes import Quote, find_quotes, starts_with_quote

_SCRIPT_LINE = re.compile(
    r"\s*(?P<name>[^\W\d_][\w.'’\- ]{0,39}?)(?:\s*[(\[][^)\]]{1,60}[)\]])?\s*:\s+(?=\S)"
)
_NOT_ROLES = frozenset(
    "note notes nb warning caution tip tips important chapter part book section isbn ps todo fig "
    "figure table example exercise question answer date time place scene act setting source "
    "nota aviso ejemplo capítulo remarque attention exemple chapitre achtung hinweis".split()
)
_ENDS = ".!?…"
_DASHES = "—–-―"
_JOINING = frozenset("and but or y o pero et ou mais und aber".split())
_MIN_CITED_WORDS = 8
"""A cited sentence of so many words, with a capital and a full stop, is no catchword."""


@dataclass(frozen=True)
class QuotedSpeech:
    """Words that somebody speaks, with the marks around them."""

    start: int
    end: int
    continued: bool = False
    """Whether it began in an earlier paragraph, and this one only takes it up."""
    open: bool = False
    """Whether the paragraph ends before the speech does."""
    name: str = ""
    """Of a play's `NAME: words`."""


def find_speeches(
    paragraph: str, language: str = "en", *, open: bool = False, names: Collection[str] = ()
) -> tuple[QuotedSpeech, ...]:
    """The spoken stretches of a paragraph, in order and apart.

    Args:
        paragraph: Without line ends of its own.
        language: `fr`, `es-MX`; it tells what dashes and commas mean.
        open: Whether the paragraph before ended within a speech, so that a mark at the beginning of
            this one takes it up.
        names: Speakers known, in small letters: `Tom: words` is a speech where Tom is one.
    """
    if script := _parse_script(paragraph, names):
        return (script,)
    spans = split_dash_dialogue(paragraph, language)
    if spans:
        return tuple(QuotedSpeech(start, end) for start, end in spans)
    found = find_quotes(paragraph)
    if not found:
        return ()
    goes_on = open and starts_with_quote(paragraph)
    spoken = _select_speech(paragraph, found, language, taken_up=goes_on)
    made: list[QuotedSpeech] = []
    for quote in spoken:
        last = not quote.closed
        pieces = cut_french_incises(paragraph, quote.start, quote.end, language)
        for number, (start, end) in enumerate(pieces, 1):
            first = goes_on and not made
            made.append(QuotedSpeech(start, end, first, last and number == len(pieces)))
    return tuple(made)


def _parse_script(paragraph: str, names: Collection[str]) -> QuotedSpeech | None:
    match = _SCRIPT_LINE.match(paragraph)
    if match is None:
        return None
    name = match["name"].strip()
    bare = name.casefold().rstrip(".")
    capitals = name.isupper() and sum(map(str.isalpha, name)) > 1 and len(name.split()) <= 4
    if bare in names or (capitals and bare.split()[0] not in _NOT_ROLES):
        return QuotedSpeech(match.end(), len(paragraph.rstrip()), name=name)
    return None


def _select_speech(text: str, found: list[Quote], language: str, *, taken_up: bool) -> list[Quote]:
    """The quotations that are speech."""
    speeches: list[Quote] = []
    for number, quote in enumerate(found):
        follower = found[number + 1].start if number + 1 < len(found) else len(text)
        previous = (
            speeches[-1] if speeches and number and speeches[-1] is found[number - 1] else None
        )
        if (taken_up and not number) or _is_speech(text, quote, previous, follower, language):
            speeches.append(quote)
    return speeches


def _is_speech(
    text: str, quote: Quote, previous: Quote | None, follower: int, language: str
) -> bool:
    inner = text[quote.start + 1 : quote.end - quote.closed].strip(" \u00a0\u202f'’\"*_")
    if not any(map(str.isalnum, inner)):
        return bool(inner) and not text[: quote.start].strip() and inner[-1] in "!?…"
    before = text[previous.end if previous else 0 : quote.start]
    after = text[quote.end : follower]
    if not quote.closed:
        return _at_edge(before) or previous is not None
    if previous is not None and _is_interlude(text[previous.end - 2], before, inner, language):
        return True
    if not before.strip(" ([—–*_"):
        return _is_opening_speech(inner, after, language)
    last = before.rstrip(" *_\u00a0\u202f")[-1:]
    if last in _ENDS or last in '"”’)»':
        return inner[-1] in _ENDS + "," + _DASHES or _verb_after(after, language)
    if last in ",:;" or last in _DASHES:
        return _is_introduced(last, before, inner, after, language)
    return _verb_before(before, language) or (inner[-1] == "," and _verb_after(after, language))


def _at_edge(before: str) -> bool:
    """Whether a sentence could begin here."""
    bare = before.rstrip(" *_([")
    return not bare or bare[-1] in _ENDS + ',:;"”’)' + _DASHES


def _is_opening_speech(inner: str, after: str, language: str) -> bool:
    """Of a quotation that opens its paragraph."""
    if inner[-1] in _ENDS + ",;:" + _DASHES:
        return True
    rest = after.lstrip()
    return not rest.strip(".,;!?…)*_") or rest[:1] in _DASHES or _verb_after(after, language)


def _is_introduced(last: str, before: str, inner: str, after: str, language: str) -> bool:
    """Of one that stands after a comma, a colon or a dash."""
    verb = _says_before(before, language)
    if verb or _verb_after(after, language):
        return True
    whole = inner[:1].isupper() and (inner[-1] in _ENDS or after[:1] in (".", "!", "?"))
    if last == ":" or (last in _DASHES and inner[-1] in "!?"):
        return whole and len(inner.split()) > 1
    return whole and len(inner.split()) >= _MIN_CITED_WORDS


def _is_interlude(ended: str, between: str, inner: str, language: str) -> bool:
    """Whether a speech is only broken off by these words and goes on."""
    bare = between.strip(" *_")
    if not bare:
        return True
    is_attributed = _says_before(bare, language) or _verb_after(bare, language)
    if len(bare) > 300 or bare[-1] not in ",;:)" + _ENDS + _DASHES:
        return is_attributed and len(bare.split()) < _MIN_CITED_WORDS
    if bare[-1] in _ENDS:
        return inner[-1] in _ENDS + "," + _DASHES
    if bare[0] in _DASHES or bare[0] == "(":
        return True
    soon = len(bare.split()) < _MIN_CITED_WORDS and inner[-1] in _ENDS
    return is_attributed or soon or ended in ",;" + _DASHES


def _list_words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text.lower().replace("’", "'"))


def _says_before(clause: str, language: str) -> bool:
    """Whether one of the last words before a speech is a verb of saying."""
    verbs = get_words(language).verbs
    return any(_strip_pronoun(word) in verbs for word in _list_words(clause[-90:])[-10:])


def _verb_before(before: str, language: str) -> bool:
    """Whether the very last word is one, as in: he said “no” and left."""
    verbs = get_words(language).verbs
    last = _list_words(before[-40:])[-2:]
    if (
        last
        and _strip_pronoun(last[-1]) in verbs
        and last[-1] not in ("called", "llamó", "llama", "appela")
    ):
        return before.rstrip()[-1:].isalpha()
    return False


def _verb_after(after: str, language: str) -> bool:
    """Whether one of the next words is a verb of saying, in the same clause."""
    clause = re.split(r"[.;!?]", after.lstrip(" ,.!?…»”—–-\u00a0\u202f"), maxsplit=1)[0]
    verbs = get_words(language).verbs
    words = _list_words(clause[:80])[:4]
    if words and words[0] in _JOINING:
        return False
    return any(_strip_pronoun(word) in verbs for word in words)


def _strip_pronoun(word: str) -> str:
    """A verb without the pronoun that French ties to it."""
    stem, tied, _ = word.partition("-")
    return stem if tied else word


# -- narration inside a speech ---------------------------------------------------------------------

# French leaves the quotation open around `, dit-il,`, in « » and after a dash alike. It is known by
# the verb that comes before its subject right after a comma or the end of a sentence.

Span = tuple[int, int]
_PRONOUN = r"-(?:t-)?(?:il|elle|ils|elles|on|je|nous|vous)\b"
# The subject, where it is no tied pronoun: a name or a noun with its article.
_SUBJECT = (
    r"\s+(?:(?:le|la|les|un|une|mon|ma|son|sa|notre|M\.|Mr\.|Mme|Mlle)\s+\w|l['’]\w|[A-ZÉÈÀÂÎÔÇ])"
)
_SPACES = " \u00a0\u202f"


@lru_cache(maxsize=1)
def _french_incise() -> re.Pattern[str]:
    """`, dit-il en riant,` up to the comma or the full stop that ends it."""
    words = get_words("fr")
    verbs = sorted((verb.replace("'", "['’]") for verb in words.verbs), key=len, reverse=True)
    ends = r"(?P<tail>(?:M\.|Mr\.|[^.,;:!?…»«“”])*)(?P<end>[.,;:!?…]|$)"
    return re.compile(
        rf"(?<=[,!?…»”])(?P<lead>[\s»”]*)(?P<incise>(?:(?:lui|leur|me|nous)\s+)?(?:{'|'.join(verbs)})"
        rf"(?:{_PRONOUN}|(?={_SUBJECT})){ends})",
    )


def cut_french_incises(text: str, start: int, end: int, language: str) -> list[Span]:
    """A spoken stretch without what the narrator says in between."""
    if language.lower().startswith("fr"):
        return _cut_narration(_french_incise(), text, start, end)
    return [(start, end)]


def cut_english_tags(text: str, start: int, end: int) -> list[Span]:
    """The same of English that opens with a dash: `—I will not, he said.`"""
    return _cut_narration(_english_tag(), text, start, end)


@lru_cache(maxsize=1)
def _english_tag() -> re.Pattern[str]:
    verbs = "|".join(sorted(get_words("en").verbs, key=len, reverse=True))
    who = r"(?:he|she|I|they|[A-Z]\w+(?:\s[A-Z]\w+)?|[Tt]he\s\w+)"
    return re.compile(
        rf"(?<=[,!?])(?P<lead>\s*)(?P<incise>(?:{who}\s(?:{verbs})|(?:{verbs})\s{who})\b"
        r"[^.,;:!?…]*(?P<end>[.,;:!?…]|$))"
    )


def _cut_narration(pattern: re.Pattern[str], text: str, start: int, end: int) -> list[Span]:
    pieces: list[Span] = []
    position = start
    for match in pattern.finditer(text, start, end):
        low, high = match.span("incise")
        if low < position:
            continue
        pieces.append((position, match.start("lead")))
        position, more = _find_resumption(text, match, high, end)
        if not more:
            break
    if position < end:
        pieces.append((position, end))
    return [(low, high) for low, high in pieces if any(map(str.isalnum, text[low:high]))]


def _find_resumption(text: str, match: re.Match[str], high: int, end: int) -> tuple[int, bool]:
    """Where the speech goes on after an incise, and whether it does."""
    high = _extend_incise(text, match, high, end)
    rest = text[high:end].lstrip(_SPACES)
    place = end - len(rest)
    narrates = re.match(r"(?:Et |Puis |Alors )?(?:il|elle|ils|elles)\s", rest, re.IGNORECASE)
    if match["end"] == "." and narrates:
        return end, False
    return place, True


def _extend_incise(text: str, match: re.Match[str], high: int, end: int) -> int:
    """`dit-il, en tirant sa montre,`: a participle carries the incise on."""
    if match["end"] != ",":
        return high
    more = re.compile(
        r"\s*(?:en\s+\w+ant\b|d['’]un(?:e)?\s+(?:voix|ton|air)\b|\w+ant\s+(?:la|le|les|sa|son|ses)\b|"
        r"avec\s+un|sans\s+(?:se|le|la|lever)\b|après\s+un)[^.,;:!?»]*(?:[.,;:!?]|$)"
    )
    found = more.match(text, high, end)
    return found.end() if found else high


# -- dialogue with dashes --------------------------------------------------------------------------

# Spanish writes `—Hola —dijo Juan—. Adiós.`: a dash that leans on the next word begins what the
# narrator says, and one that leans on the word before ends it. French opens with a dash too, and
# sets the narrator's words apart with commas alone.

_OPENING_DASH = re.compile(r"\s*(?:[—–―]|--)[ \u00a0\u202f]*(?=\S)|\s*-[ \u00a0\u202f]+(?=\S)")
_NARRATION_DASH = re.compile(r"--|[—–―]|(?<=\s)-|(?<=\w)-(?=[.,;:!?…\s])")
_TIGHT = "[.,;:!?…]"


def split_dash_dialogue(text: str, language: str = "en") -> list[Span]:
    """The spoken stretches of a paragraph that opens with a dash; none where it does not."""
    match = _OPENING_DASH.match(text)
    if match is None or not _is_talk(text, match, language):
        return []
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    base = language.partition("-")[0].lower()
    if base == "en":
        return cut_english_tags(text, start, end)
    if base == "fr":
        return cut_french_incises(text, start, end, language)
    return _alternate_dashes(text, start, match.end(), end, language)


def _is_talk(text: str, match: re.Match[str], language: str) -> bool:
    """Whether the dash is no bullet, and the line below no verse is no author's name."""
    rest = text[match.end() :].rstrip()
    if not any(map(str.isalpha, rest)):
        return False
    english = language.partition("-")[0].lower() == "en"
    if english:
        return match[0].strip() in "—―" and rest[-1] in ".!?…" and len(rest.split()) > 2
    return match[0].strip() != "-" or rest[-1] in ".!?…,:"


def _alternate_dashes(text: str, start: int, first: int, end: int, language: str) -> list[Span]:
    """Speech and narrator in turns, parted by dashes."""
    spans: list[Span] = []
    position, telling = start, False
    for match in _NARRATION_DASH.finditer(text, first, end):
        if not telling and _starts_narration(text, match, end, language):
            spans.append((position, _strip_end(text, match.start())))
            telling = True
        elif telling and _ends_narration(text, match):
            position = re.compile(rf"{_TIGHT}*\s*").match(text, match.end()).end()  # type: ignore[union-attr]  # it matches nothing, too
            telling = False
    if not telling:
        spans.append((position, end))
    return [(low, high) for low, high in spans if any(map(str.isalnum, text[low:high]))]


def _strip_end(text: str, place: int) -> int:
    return len(text[:place].rstrip())


def _starts_narration(text: str, match: re.Match[str], end: int, language: str) -> bool:
    """Whether a dash begins the narrator's words."""
    before = text[match.start() - 1]
    after = text[match.end() : end]
    if not before.isspace() or not after.strip():
        return False
    if after[0].isspace():  # as wide on both sides: only a verb of saying tells it from a pause
        return _says_next(after, language)
    return after[0].isalpha() or after[0] in "¡¿(…"


def _says_next(after: str, language: str) -> bool:
    words = re.findall(r"[^\W\d_]+", after.lower()[:60])[:3]
    return any(word in get_words(language).verbs for word in words)


def _ends_narration(text: str, match: re.Match[str]) -> bool:
    """Whether a dash ends the narrator's words: it leans on them, or stands between spaces."""
    before = text[match.start() - 1]
    after = text[match.end() : match.end() + 1]
    return not before.isspace() or not after.strip() or after in ".,;:!?…"
