"""Web and mail addresses, names with an at sign, tags, codes: said sign by sign."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from anyrig.speech.normalise.rules import Rule, rule

_ENDINGS = (
    "com|org|net|edu|gov|gob|gouv|info|io|es|fr|mx|ar|co|cl|pe|uk|de|it|pt|eu|us|be|ch|ca|br|cat|"
    "gal|eus|tv|app|dev|ai|me|biz|int|museum|paris|bzh|ve|ec|uy|bo|lu|jp|cn|ru|nl|xyz|site|online|"
    "blog|store|shop|tech"
)
_HOST = rf"(?:[a-zA-Z0-9\u00c0-\u00ff](?:[\w-]{{0,61}}\w)?\.){{1,6}}(?:{_ENDINGS})(?![\w-])(?!\.\w)"
_ANY_HOST = r"[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}"
_PATH = (
    r"(?::\d{2,5})?(?:/[^\s<>\"\u00ab\u00bb\u201c\u201d()\[\]]{0,500})?(?:\?[^\s<>\"()]{1,300})?"
)
_TOKEN = re.compile(r"\d+|[^\W\d_]+|.", re.S)
_DROPPED = ".,;:!?'\u2019\u2026*_"


class Words(NamedTuple):
    """How a language says the signs of an address."""

    signs: Mapping[str, str]
    hashtag: str
    number: Callable[[str], str]
    """Says a run of digits."""
    spelt: Callable[[str], bool]
    """Whether a run of letters is spelt: `www`, and what cannot be said."""


def codes(digits: Callable[[str], str]) -> Rule:
    """Numbers of cards, accounts and books: digit by digit, in the groups they are written in."""

    def say(match: re.Match[str]) -> str:
        return ", ".join(digits(one) for one in re.findall(r"\d+", match.group()))

    card = r"\d{4}(?:[ \u00a0-]\d{4}){2,5}"
    return rule("code", rf"(?<![\w.,+-])(?:{card}|\d{{1,5}}(?:-\d{{1,7}}){{3,5}})(?![\w-]|[.,]\d)")(
        say
    )


def addresses(words: Words) -> tuple[Rule, ...]:
    """The rules for one language."""

    def spoken(written: str) -> str:
        return " ".join(_said(one, words) for one in _TOKEN.findall(written))

    def mail(match: re.Match[str]) -> str:
        return spoken(match[1])

    def site(match: re.Match[str]) -> str | None:
        written = re.sub(r"^[a-zA-Z]{2,6}://", "", match.group())
        kept = written.rstrip(_DROPPED)
        return f"{spoken(kept.rstrip('/'))}{written[len(kept) :].strip('*_')}"

    def handle(match: re.Match[str]) -> str:
        return f"{words.signs['@']} {spoken(match[1])}"

    def tag(match: re.Match[str]) -> str:
        return f"{words.hashtag} {re.sub(r'(?<=[a-z0-9])(?=[A-Z])|_', ' ', match[1])}"

    box = r"[\w.+%\u00c0-\u00ff-]{1,64}"
    return (
        rule("email", rf"(?<![\w.@])(?:mailto:)?({box}@(?:{_HOST}|{_ANY_HOST}))", needs="@")(mail),
        rule("url", r"(?:https?|ftp)://[^\s<>\"\u00ab\u00bb\u201c\u201d()\[\]]{1,800}")(site),
        rule("url", rf"(?<![\w@./-])www\.{_ANY_HOST}{_PATH}", flags=re.I)(site),
        rule("url", rf"(?<![\w@./-]){_HOST}{_PATH}")(site),
        rule("handle", r"(?<![\w.@])@([A-Za-z_][\w.]{0,40}\w)")(handle),
        rule("tag", r"(?<![\w&#])#([^\W\d_]\w{1,60})")(tag),
    )  # fmt: skip


def _said(token: str, words: Words) -> str:
    if token.isdecimal():
        return words.number(token)
    if token.isalpha():
        return " ".join(token.upper()) if words.spelt(token) else token
    return words.signs.get(token, "")
