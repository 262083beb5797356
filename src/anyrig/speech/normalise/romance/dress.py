"""What is taken off before a Romance language is read: markup, cut words; and emoji."""

from __future__ import annotations

import re
from collections.abc import Callable

from anyrig.speech.normalise import markup
from anyrig.speech.normalise.rules import Rule, rule

_EMOJI = (
    "\U0001f000-\U0001faff\U0001fc00-\U0001fffd\u2600-\u26ff\u2700-\u2775\u2795-\u27bf\u231a\u231b"
    "\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2b05-\u2b07"
    "\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U000e0020-\U000e007f"
)
_PICTURE = rf"[{_EMOJI}\ufe0f\u200d\u20e3]+"
# Raised letters of 1er and Mme, and what they are on the line.
_RAISED = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"
_LOWERED = "abcdefghijklmnoprstuvwxyz"
_LETTERS = r"[^\W\d_]"


def clean(keeps_hyphen: Callable[[str, str], bool]) -> tuple[Rule, ...]:
    """The rules, in their order; `keeps_hyphen` tells a compound from a word cut in two."""

    def whole(match: re.Match[str]) -> str:
        before, after = match[1], match[2]
        kept = after[0].isupper() or keeps_hyphen(before.lower(), after.lower())
        return f"{before}-{after}" if kept else before + after

    cut = rf"(?<!\w)({_LETTERS}{{1,40}})[-\u2010\u00ad][ \t]*\r?\n[ \t]*({_LETTERS}{{1,40}})"
    shared = tuple(one for one in markup.CLEAN if one.kind != "quote")
    return (
        rule("symbol", f"[{_RAISED}]", needs=_RAISED)(lambda m: _LOWERED[_RAISED.index(m.group())]),
        rule("hyphen", cut, needs="\n")(whole),
        rule("quote", r"&(?:laquo|ldquo|bdquo|quot);(?:&nbsp;)?(?=\w)", needs="&")(_nothing),
        rule("quote", r"(?:&nbsp;)?&(?:raquo|rdquo|quot);", needs="&")(_nothing),
        rule("quote", "[\u2019\u02bc]")(lambda _: "'"),
        rule("ellipsis", r"\s{0,4}[\[(](?:\u2026|\.{3})[\])]")(lambda _: " ..."),
        rule("markup", r"(?<=[\w.,;:!?\u00bb\"])\[\d{1,3}\]|\[\^\w{1,20}\]", needs="[")(_nothing),
        *shared,
    )  # fmt: skip


def emoji() -> tuple[Rule, ...]:
    """Pictures are not read, nor faces made of signs."""
    return (
        rule("emoji", r"[0-9#*]\ufe0f?\u20e3\s?", needs="\u20e3")(_nothing),
        rule("emoji", rf"(?: {{1,4}}(?={_PICTURE}(?:[\s.,;:!?\u2026]|$)))?{_PICTURE}")(_nothing),
        rule("emoji", r" ?(?<![\w:;=])[:;=]['-]?[()DPp|](?![\w)])| ?<3(?!\d)")(_nothing),
    )  # fmt: skip


def _nothing(_: re.Match[str]) -> str:
    return ""
