"""The one line that lets a machine join: where the broker is, with its password, in one word.

    text = Token("redis://:PASSWORD@192.168.1.5:6379/0").text     # anyrig1_...
    read(text).broker

A token is no more than that address, so whoever has it can do what whoever has the password can. It
is shown to the person who started the coordinator, and written into no log.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass

from anyrig.errors import InvalidInputError

PREFIX = "anyrig1_"
_LONGEST = 4096
_CHECK = 4
"""Bytes in front that tell a token which was not copied whole."""


@dataclass(frozen=True)
class Token:
    """What a machine must know to join."""

    broker: str
    """With its password."""
    box_key: str = ""
    """Opens the coordinator's box; without it a worker asks the broker for it."""

    @property
    def text(self) -> str:
        """One word: letters, digits, - and _."""
        data = json.dumps({"broker": self.broker, "box_key": self.box_key}).encode()
        whole = zlib.crc32(data).to_bytes(_CHECK, "big") + data
        return PREFIX + base64.urlsafe_b64encode(whole).decode("ascii").rstrip("=")


def is_token(text: str) -> bool:
    """Whether somebody meant a token, and no address."""
    return _word(text).startswith(PREFIX)


def _word(text: str) -> str:
    """The token of a text; people copy the whole line that it stands in."""
    return next((word for word in text.split() if word.startswith(PREFIX)), text.strip())


def read(text: str) -> Token:
    """What a token says; `InvalidInputError` for what is none."""
    word = _word(text)
    if not is_token(word) or len(word) > _LONGEST:
        raise _bad("it does not begin as one" if len(word) <= _LONGEST else "it is too long")
    body = word.removeprefix(PREFIX)
    try:
        whole = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        data = whole[_CHECK:]
        if zlib.crc32(data).to_bytes(_CHECK, "big") != whole[:_CHECK]:
            raise _bad("a part of it is missing or wrong")
        found = json.loads(data)
        broker, key = found["broker"], found.get("box_key", "")
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError):
        raise _bad("a part of it is missing or wrong") from None
    if not isinstance(broker, str) or not isinstance(key, str):
        raise _bad("it says something else")
    return Token(broker, key)


def _bad(why: str) -> InvalidInputError:
    # Not with the text itself: errors go into logs.
    return InvalidInputError(
        f"this is no token of a cluster: {why}",
        hint=f"Copy the whole line that `anyrig coordinator` printed; it begins with {PREFIX}",
    )
