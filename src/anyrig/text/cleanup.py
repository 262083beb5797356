"""Markup, entities, cut words and odd spaces taken off a text, with a map back to where it stood.

These rules make no words. They take off what a reader would not say, or put one plain sign for
several ways of writing it, so that recognisers see `5 km` where `**5&nbsp;km**` stood. A single
line break is a space.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

_LINE = re.MULTILINE
_TAGS = (
    "a abbr article b big blockquote body br center cite code dd del div dl dt em figcaption "
    "figure font footer h1 h2 h3 h4 h5 h6 head header hr html i img ins kbd li link main mark "
    "meta nav ol p pre q s samp section small span strike strong sub sup table tbody td tfoot th "
    "thead title tr tt u ul var wbr input label button form iframe video audio source picture "
    "script style"
).split()
# Attributes have a value, or are one of these few; so `a<b and c>d` is no tag.
_ATTRIBUTES = (
    r"(?:\s{1,9}(?:[A-Za-z][\w:.-]{0,40}\s?=\s?(?:\"[^\"<>]{0,500}\"|'[^'<>]{0,500}'|[^\s\"'<>=]{1,500})"
    r"|(?:checked|disabled|hidden|controls|required|readonly|selected|async|defer|autoplay|loop|"
    r"muted|open|reversed|nowrap|allowfullscreen|noshade)(?![\w-]))){0,20}"
)
# After these the voice rests, as at the end of a line.
_BLOCKS = frozenset(
    "article blockquote body br dd div dl dt footer h1 h2 h3 h4 h5 h6 header hr li main nav ol p "
    "pre section table td th tr ul figure figcaption title".split()
)
# Words that begin a compound more often than they are the first half of a cut word.
_PREFIXES = frozenset(
    "non self well ill half anti semi cross multi high low long short full old new two three four "
    "five six seven eight nine ten twenty thirty forty fifty sixty seventy eighty ninety first "
    "second third great mother father brother sister daughter hard soft far near left right open "
    "close good bad best better light dark deep cold hot free state middle world double single "
    "tight wide quick slow upper lower ever much mid all".split()
)
_ENDINGS = frozenset(
    "ness ly ing er est ers dom ful less ment ship hood ish ning ened ens en ed s es y ance ar dle "
    "day night ry ty ward wards ual ten th".split()
)
_QUOTES = str.maketrans("“”„‟«»″‘’‚‛′ʼ＂＇", '"""""""\'\'\'\'\'\'"\'')
_SPACES = (
    "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
# Signs of one character for which a plain one is put, before any rule is tried.
_PLAIN = (
    {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys(map(ord, _SPACES), " ")
    | _QUOTES
)
# Letters raised above the line, as in Mᵐᵉ and 1ᵉʳ.
_RAISED = str.maketrans("ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", "abcdefghijklmnoprstuvwxyz")
# What follows, or stands before, a hyphen that belongs to a French word.
_FRENCH_ENDS = frozenset(
    "il ils elle elles on je tu nous vous moi toi lui leur y en ce ci là t même mêmes être midi "
    "dire vingt dix deux trois quatre cinq six sept huit neuf onze douze treize quatorze quinze "
    "seize".split()
)
_FRENCH_STARTS = frozenset(
    "peut est a y vice ex quasi semi demi mi sous sur avant après arrière contre non auto grand "
    "grands petit petite grande beau belle porte vingt trente quarante cinquante soixante quatre "
    "dix celui celle ceux celles moi toi lui elle eux nous vous qu jusque c chef rendez tout toute "
    "haut bas franco anglo nord sud".split()
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")


def _tag(match: re.Match[str]) -> str:
    if alt := re.search(r"""\balt=["']([^"']{1,300})["']""", match[0]):
        return alt[1]
    return "\n" if match[1].lower() in _BLOCKS else ""


def _entity(match: re.Match[str]) -> str | None:
    sign = html.unescape(match[0])
    if sign == match[0]:
        return None
    return (
        " " if sign.isspace() else sign.replace("\u00ad", "").translate(_QUOTES | {ord("…"): "..."})
    )


def _cut_word(match: re.Match[str]) -> str:
    before, after = match[1], match[2]
    # A compound keeps its hyphen: a first part that is a word of its own, or a capital after it.
    compound = before.lower() in _PREFIXES and after.lower() not in _ENDINGS
    if compound or len(before) == 1 or after[0].isupper():
        return f"{before}-{after}"
    return before + after


def _cut_spanish_word(match: re.Match[str]) -> str:
    return f"{match[1]}-{match[2]}" if match[2][0].isupper() else match[1] + match[2]


def _cut_french_word(match: re.Match[str]) -> str:
    before, after = match[1].lower(), match[2].lower()
    compound = after in _FRENCH_ENDS or (before in _FRENCH_STARTS and len(after) > 3)
    return f"{match[1]}-{match[2]}" if compound else _cut_spanish_word(match)


def _row(match: re.Match[str]) -> str:
    cells = (cell.strip() for cell in match[0].strip().strip("|").split("|"))
    return ", ".join(cell for cell in cells if cell)


def _link(match: re.Match[str]) -> str:
    return match[1]


@dataclass(frozen=True)
class _Rule:
    pattern: re.Pattern[str]
    replace: Callable[[re.Match[str]], str | None]
    needs: frozenset[str] = frozenset()
    """Of these characters a text must have at least one, or the rule is not tried."""


def _drop(pattern: str, words: str = "", flags: int = 0, needs: str = "") -> _Rule:
    return _Rule(re.compile(pattern, flags), lambda match: words, frozenset(needs))


_RULES: tuple[_Rule, ...] = (
    _drop(r"<!--[\s\S]{0,5000}?-->", needs="<"),
    _drop(r"<(script|style)\b[^<>]{0,300}>[^<]{0,20000}</\1\s*>", " ", re.I, "<"),
    _Rule(re.compile(
        rf"</?({'|'.join(_TAGS)}){_ATTRIBUTES}\s{{0,9}}/?>", re.I), _tag, frozenset("<")),
    _drop(r"<(?=(?:https?://|mailto:|[\w.+-]{1,64}@)[^<>\s]{1,300}>)", needs="<"),
    _drop(r"(?<=[\w/])>(?=[\s.,;:!?)]|$)(?<=\S\.\w\w>|\.\w\w\w>|\w\w\w/>)", needs=">"),
    _Rule(_ENTITY, _entity, frozenset("&")),
    _drop(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*\w*[ \t]*$", "", _LINE, "`~"),
    _drop(r"^[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|={3,}|~{3,})$", "",
          _LINE, "-*_=~"),
    _drop(r"^[ \t]{0,9}\|?(?:[ \t]{0,9}:?-{2,}:?[ \t]{0,9}\|)+(?:[ \t]{0,9}:?-{2,}:?)?"
          r"[ \t]{0,9}$", "", _LINE, "|"),
    _Rule(re.compile(r"^[ \t]*\|[^\n|]*\|[^\n]*$|^[^\n|]+ \| [^\n|]+ \| [^\n]*$", _LINE),
         _row, frozenset("|")),
    _Rule(re.compile(
        r"!?\[([^\[\]\n]{0,300})\]\([^()\s]{0,500}(?:\s\"[^\"\n]{0,200}\")?\)"),
         _link, frozenset("[")),
    _Rule(re.compile(r"!?\[([^\[\]\n]{1,300})\] ?\[[^\[\]\n]{0,50}\]"), _link,
         frozenset("[")),
    _drop(r"\[\^[^\[\]\s]{1,30}\]:?", needs="["),
    _drop(r"^[ \t]*[-*+][ \t]+\[[ xX]\][ \t]+", "", _LINE, "["),
    _drop(r"^[ \t]{0,3}#{1,6}[ \t]+", "", _LINE, "#"),
    _drop(r"(?<=\S)[ \t]{1,9}#{1,6}[ \t]{0,9}$", "", _LINE, "#"),
    _drop(r"^[ \t]*(?:>[ \t]?)+(?=[^\s\d=])", "", _LINE, ">"),
    _drop(r"^[ \t]*(?:[-*][ \t]+(?=\S)|\+[ \t]+(?=[A-Za-z])|[•‣◦▪●○■□➤►✓✔–][ \t]*(?=\S))",
          "", _LINE, "-*+•‣◦▪●○■□➤►✓✔–"),
    _drop(r"[•‣◦▪●■]", " ", needs="•‣◦▪●■"),
    _drop(r"\\(?=[*_`#\[\]~>])", needs="\\"),
    _drop(r"`+", needs="`"),
    # But "dial *67".
    _drop(
        r"(?<![\w*])(?<!ial )\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w*])",
        needs="*",
    ),
    _drop(r"(?<=\w)\*{2,3}(?=\w)(?!\d)", needs="*"),
    _drop(r"(?<![\w_])_{1,3}(?=[^\s_](?:[^_\n]{0,300}[^\s_])?_{1,3}(?!\w))", needs="_"),
    _drop(r"(?<=[^\s_])_{1,3}(?![\w_])", needs="_"),
    _drop(r"~~(?=\S)|(?<=\S)~~", needs="~"),
    _Rule(re.compile(r"\b([^\W\d_]{1,40})[-‐\u00ad][ \t]*\r?\n[ \t]*([^\W\d_]{1,40})"),
         _cut_word, frozenset("\n")),
    _drop("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufff9-\ufffb]",
          needs="\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061"
          "\u2062\u2063\u2064\ufeff\ufff9\ufffa\ufffb"),
    _drop(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]"),
    _drop(r"…|(?<=\S)(?: ?\. ?){3,}(?= )|(?<!\.)\.(?: \.){2,}|\.{4,}", "...",
          needs="…."),
    # A line that ends within a paragraph, and more spaces than one.
    _drop(r"(?<=\S)(?:[ \t]{2,}|[ \t]{1,9}\r?\n[ \t]{0,9}|\r\n[ \t]{0,9}|\n[ \t]{1,9})(?=\S)", " "),
)  # fmt: skip

_CUT_WORDS = {"es": _cut_spanish_word, "fr": _cut_french_word}

# What any of the rules could take.
_NEEDED = re.compile(
    r"[<>&`~|\[\\*_#•‣◦▪●○■□➤►✓✔…\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufff9-\ufffb"
    r"\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\r\t]|  | \n|\n |[-‐]\n|\. ?\.|^[ ]*[-+–]|={3}|-{3}",
    _LINE,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the source, and what is put for it (itself, where `changed` is False)."""

    start: int
    end: int
    text: str
    changed: bool = False


class CleanText:
    """A text without markup, and where its characters came from."""

    def __init__(self, text: str, pieces: Sequence[Piece] | None = None) -> None:
        self.text = text
        self.is_plain = pieces is None
        """Whether every character stands where it stood."""
        if pieces is not None:
            self._end = pieces[-1].end if pieces else 0
            self._pieces = [one for one in pieces if one.text]
            self._offsets = list(accumulate((len(one.text) for one in self._pieces), initial=0))

    def source_start(self, position: int) -> int:
        """Where the character at a position comes from; a changed piece is owned by its first."""
        if self.is_plain:
            return position
        if position >= len(self.text):
            return self._end
        index = bisect_right(self._offsets, position) - 1
        piece, used = self._pieces[index], position - self._offsets[index]
        if not used:
            return piece.start
        return piece.end if piece.changed else piece.start + used

    def source_end(self, position: int) -> int:
        """Where the character before a position ends."""
        if self.is_plain or position <= 0:
            return max(0, position)
        index = bisect_right(self._offsets, position - 1) - 1
        piece = self._pieces[index]
        return piece.end if piece.changed else piece.start + position - self._offsets[index]

    def cut(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """A stretch, cut where pieces meet."""
        if self.is_plain:
            yield start, end
            return
        while start < end:
            index = bisect_right(self._offsets, start) - 1
            stop = min(end, self._offsets[index + 1])
            yield start, stop
            start = stop


def clean(text: str, language: str = "en") -> CleanText:
    """Take markup off a text."""
    plain = text.translate(_PLAIN) if not text.isascii() else text
    if language in _CUT_WORDS and not text.isascii():
        plain = plain.translate(_RAISED)
    if not _NEEDED.search(plain):
        return CleanText(plain)
    taken: list[Piece] = []
    characters = set(plain)
    for rule in _RULES:
        if (not rule.needs or not rule.needs.isdisjoint(characters)) and (
            found := list(_apply(plain, _adapt(rule, language), taken))
        ):
            taken = sorted(taken + found, key=lambda piece: piece.start)
    if not taken:
        return CleanText(plain)
    pieces: list[Piece] = []
    position = 0
    for piece in taken:
        if piece.start > position:
            pieces.append(Piece(position, piece.start, plain[position : piece.start]))
        pieces.append(piece)
        position = piece.end
    if position < len(plain):
        pieces.append(Piece(position, len(plain), plain[position:]))
    return CleanText("".join(piece.text for piece in pieces), pieces)


def _adapt(rule: _Rule, language: str) -> _Rule:
    if rule.replace is _cut_word and language in _CUT_WORDS:
        return replace(rule, replace=_CUT_WORDS[language])
    return rule


def _apply(text: str, rule: _Rule, taken: Sequence[Piece]) -> Iterator[Piece]:
    """What a rule takes of the text, where no earlier rule has."""
    position = 0
    starts = [piece.start for piece in taken]
    ends = [piece.end for piece in taken]
    while match := rule.pattern.search(text, position):
        start, end = match.span()
        # The last piece that begins before this match ends is the only one it can end inside.
        index = bisect_left(starts, end) - 1
        if index >= 0 and ends[index] > start:
            position = max(ends[bisect_left(ends, start + 1)], start + 1)
            continue
        words = rule.replace(match) if end > start else None
        if words is None:
            if start >= len(text):
                return
            position = start + 1
            continue
        yield Piece(start, end, words, changed=True)
        position = end
