"""How problems are worded for those who ask over HTTP.

What anyrig says of itself speaks of a command line: `--language` is the field `language` here. What
the framework says of a body speaks of Python: of unions, of value errors, of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anyrig.errors import format_mentions, mention

_COMMAND = r"`[^`]*`|\b(?:anyrig [a-z]|pip install )(?:[^.;,]|\.(?! |$))*"
_FLAG = re.compile(rf"({_COMMAND})|(?<![\w-])--([a-z][a-z0-9-]*)")
_INSTEAD = {"list": "POST /books/plan"}
"""Flags that no field stands for."""
_TAG = re.compile(
    r"(str|int|float|bool|none|constrained-\w+|(list|dict|function-\w+)\[.*|[A-Z]\w*)"
)
"""Among the places of an error: which form of several was tried."""


_NO_OBJECT = "the body must be a JSON object"
_WHOLE_BODY = {
    "missing": "the body is empty", "model_attributes_type": _NO_OBJECT, "model_type": _NO_OBJECT,
    "dict_type": _NO_OBJECT,
}  # fmt: skip


class Misfit(NamedTuple):
    """A field that does not fit."""

    where: list[str]
    """`body`, then the names of fields, from the outside in."""
    said: str

    @property
    def field(self) -> str:
        """Its name; empty where it is the body as a whole."""
        return ".".join(self.where[1:])

    @property
    def title(self) -> str:
        """What is wrong, in one line."""
        return f"{self.field}: {self.said}" if self.field else self.said


def plain(text: str) -> str:
    """A text that JSON can carry: half a character, which a client may send, cannot be written."""
    return text.encode("utf-8", "replace").decode("utf-8")


def spoken(text: str) -> str:
    """A hint for the command line as one for HTTP; whole commands stay as they are."""
    for option, instead in _INSTEAD.items():
        text = text.replace(mention(option), instead)
    text = format_mentions(text, "http")
    text = re.sub(r"-vv (?:says|shows) more", "the server's log says more", text)
    text = text.replace("Run with -vv for details", "The server's log has the details")
    return _FLAG.sub(lambda found: found[1] or _field(found[2]), text)


def _field(flag: str) -> str:
    return _INSTEAD.get(flag) or f"`{flag.replace('-', '_')}`"


def misfits(errors: Sequence[Mapping[str, Any]], most: int = 20) -> list[Misfit]:
    """What does not fit, a line for each field; never the value, which may be long or secret."""
    found: dict[tuple[str, ...], list[str]] = {}
    for one in errors:
        where, said = _told(one)
        words = found.setdefault(where, [])
        if said not in words:
            words.append(said)
    return [Misfit(list(where), _joined(words)) for where, words in list(found.items())[:most]]


def _told(one: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    place = [plain(str(part)) for part in one["loc"]]
    message = plain(str(one["msg"]))
    if one["type"] == "json_invalid":
        more = plain(str(one.get("ctx", {}).get("error", "")))
        return (place[0] if place else "body",), f"the body is not valid JSON: {more or message}"
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if len(place) == 1 and one["type"] in _WHOLE_BODY:
        return (place[0],), _WHOLE_BODY[one["type"]]
    message = "is required" if one["type"] == "missing" else message
    message = message.removeprefix("Input ")
    first, rest = place[:1], place[1:]
    return (*first, *(part for part in rest if not _TAG.fullmatch(part))), message


def _joined(words: Sequence[str]) -> str:
    """`should be a valid string or a valid array`."""
    start = "should be "
    if len(words) > 1 and all(word.startswith(start) for word in words):
        return start + " or ".join(word.removeprefix(start) for word in words)
    return "; or ".join(words)
