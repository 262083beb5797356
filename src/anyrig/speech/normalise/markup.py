"""The dress of a text, in any language: Markdown, HTML, entities, cut words, odd spaces and quotes.

These rules make no words. They take off what a reader would not say, or put one plain sign for
several ways of writing it, so that the rules of a language see `5 km` where `**5&nbsp;km**` stood.
"""

from __future__ import annotations

import html
import re

from anyrig.speech.normalise.rules import Rule

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
_PLAIN = _QUOTES | {ord("…"): "..."}
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")


def _drop(kind: str, pattern: str, words: str = "", flags: int = 0, needs: str = "") -> Rule:
    return Rule(kind, re.compile(pattern, flags), lambda match: words, frozenset(needs))


def _tag(match: re.Match[str]) -> str:
    if alt := re.search(r"""\balt=["']([^"']{1,300})["']""", match[0]):
        return alt[1]
    return "\n" if match[1].lower() in _BLOCKS else ""


def _entity(match: re.Match[str]) -> str | None:
    sign = html.unescape(match[0])
    if sign == match[0]:
        return None
    return " " if sign.isspace() else sign.replace("\u00ad", "").translate(_PLAIN)


def _cut_word(match: re.Match[str]) -> str:
    before, after = match[1], match[2]
    # A compound keeps its hyphen: a first part that is a word of its own, or a capital after it.
    compound = before.lower() in _PREFIXES and after.lower() not in _ENDINGS
    if compound or len(before) == 1 or after[0].isupper():
        return f"{before}-{after}"
    return before + after


def _row(match: re.Match[str]) -> str:
    cells = (cell.strip() for cell in match[0].strip().strip("|").split("|"))
    return ", ".join(cell for cell in cells if cell)


def _link(match: re.Match[str]) -> str:
    return match[1]


CLEAN: tuple[Rule, ...] = (
    _drop("markup", r"<!--[\s\S]{0,5000}?-->", needs="<"),
    _drop("markup", r"<(script|style)\b[^<>]{0,300}>[^<]{0,20000}</\1\s*>", " ", re.I, "<"),
    Rule("markup", re.compile(
        rf"</?({'|'.join(_TAGS)}){_ATTRIBUTES}\s{{0,9}}/?>", re.I), _tag, frozenset("<")),
    _drop("markup", r"<(?=(?:https?://|mailto:|[\w.+-]{1,64}@)[^<>\s]{1,300}>)", needs="<"),
    _drop("markup", r"(?<=[\w/])>(?=[\s.,;:!?)]|$)(?<=\S\.\w\w>|\.\w\w\w>|\w\w\w/>)", needs=">"),
    Rule("markup", _ENTITY, _entity, frozenset("&")),
    _drop("markup", r"^[ \t]*(?:`{3,}|~{3,})[ \t]*\w*[ \t]*$", "", _LINE, "`~"),
    _drop("markup", r"^[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|={3,}|~{3,})$", "",
          _LINE, "-*_=~"),
    _drop("markup", r"^[ \t]{0,9}\|?(?:[ \t]{0,9}:?-{2,}:?[ \t]{0,9}\|)+(?:[ \t]{0,9}:?-{2,}:?)?"
          r"[ \t]{0,9}$", "", _LINE, "|"),
    Rule("markup", re.compile(r"^[ \t]*\|[^\n|]*\|[^\n]*$|^[^\n|]+ \| [^\n|]+ \| [^\n]*$", _LINE),
         _row, frozenset("|")),
    Rule("markup", re.compile(
        r"!?\[([^\[\]\n]{0,300})\]\([^()\s]{0,500}(?:\s\"[^\"\n]{0,200}\")?\)"),
         _link, frozenset("[")),
    Rule("markup", re.compile(r"!?\[([^\[\]\n]{1,300})\] ?\[[^\[\]\n]{0,50}\]"), _link,
         frozenset("[")),
    _drop("markup", r"\[\^[^\[\]\s]{1,30}\]:?", needs="["),
    _drop("markup", r"^[ \t]*[-*+][ \t]+\[[ xX]\][ \t]+", "", _LINE, "["),
    _drop("markup", r"^[ \t]{0,3}#{1,6}[ \t]+", "", _LINE, "#"),
    _drop("markup", r"(?<=\S)[ \t]{1,9}#{1,6}[ \t]{0,9}$", "", _LINE, "#"),
    _drop("markup", r"^[ \t]*(?:>[ \t]?)+(?=[^\s\d=])", "", _LINE, ">"),
    _drop("markup", r"^[ \t]*(?:[-*][ \t]+(?=\S)|\+[ \t]+(?=[A-Za-z])|[•‣◦▪●○■□➤►✓✔–][ \t]*(?=\S))",
          "", _LINE, "-*+•‣◦▪●○■□➤►✓✔–"),
    _drop("markup", r"[•‣◦▪●■]", " ", needs="•‣◦▪●■"),
    _drop("markup", r"\\(?=[*_`#\[\]~>])", needs="\\"),
    _drop("markup", r"`+", needs="`"),
    _drop("markup", r"(?<![\w*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w*])", needs="*"),
    _drop("markup", r"(?<=\w)\*{2,3}(?=\w)(?!\d)", needs="*"),
    _drop("markup", r"(?<![\w_])_{1,3}(?=[^\s_](?:[^_\n]{0,300}[^\s_])?_{1,3}(?!\w))", needs="_"),
    _drop("markup", r"(?<=[^\s_])_{1,3}(?![\w_])", needs="_"),
    _drop("markup", r"~~(?=\S)|(?<=\S)~~", needs="~"),
    Rule("hyphen", re.compile(r"\b([^\W\d_]{1,40})[-‐\u00ad][ \t]*\r?\n[ \t]*([^\W\d_]{1,40})"),
         _cut_word, frozenset("\n")),
    _drop("control", "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufff9-\ufffb]",
          needs="\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061"
          "\u2062\u2063\u2064\ufeff\ufff9\ufffa\ufffb"),
    _drop("control", r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]"),
    _drop("space", "[\u00a0\u2000-\u200a\u202f\u205f\u3000]+", " "),
    Rule("quote", re.compile("[“”„‟«»″‘’‚‛′ʼ＂＇]"), lambda match: match[0].translate(_QUOTES)),
    Rule("symbol", re.compile("[\uff01-\uff5e]"), lambda match: chr(ord(match[0]) - 0xFEE0)),
    _drop("ellipsis", r"…|(?<=\S)(?: ?\. ?){3,}(?= )|(?<!\.)\.(?: \.){2,}|\.{4,}", "...",
          needs="….")
)  # fmt: skip
