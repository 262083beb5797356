"""A token: the broker's address with its password, in one word that a person can copy.

    text = JoinToken("redis://anyrig:PASSWORD@192.168.1.5:6379/0").text     # anyrig1_...
    read(text).broker

Whoever has it can do what the password allows. It is shown to the person who started the
coordinator and written to no log.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass

from anyrig.errors import InvalidInputError

PREFIX = "anyrig1_"
_MAX_CHARACTERS = 4096
_CHECKSUM_BYTES = 4
"""In front: they show that a token was not copied whole."""


@dataclass(frozen=True)
class JoinToken:
    broker: str
    """With its password."""

    @property
    def text(self) -> str:
        """One word of letters, digits, - and _."""
        data = json.dumps({"broker": self.broker}).encode()
        whole = zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big") + data
        return PREFIX + base64.urlsafe_b64encode(whole).decode("ascii").rstrip("=")


def is_token(text: str) -> bool:
    """Whether a text is meant as a token, not as an address."""
    return _find_word(text).startswith(PREFIX)


def _find_word(text: str) -> str:
    """People copy the whole line that a token is in."""
    return next((word for word in text.split() if word.startswith(PREFIX)), text.strip())


def read(text: str) -> JoinToken:
    """Raises `InvalidInputError` for what is not a token."""
    word = _find_word(text)
    if len(word) > _MAX_CHARACTERS:
        raise _invalid("it is too long")
    if not word.startswith(PREFIX):
        raise _invalid("it does not begin as one")
    body = word.removeprefix(PREFIX)
    try:
        whole = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        data = whole[_CHECKSUM_BYTES:]
        if zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big") != whole[:_CHECKSUM_BYTES]:
            raise _invalid("a part of it is missing or wrong")
        broker = json.loads(data)["broker"]
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError):
        raise _invalid("a part of it is missing or wrong") from None
    if not isinstance(broker, str):
        raise _invalid("it has no address")
    return JoinToken(broker)


def _invalid(reason: str) -> InvalidInputError:
    # Without the text itself: errors go into logs.
    return InvalidInputError(
        f"not a valid token of a cluster: {reason}",
        hint=f"Copy the whole line that `anyrig coordinator` printed; it begins with {PREFIX}",
    )
