"""The page's client at the guard: what it does for a visitor, it does with the visitor's key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INSIDE = b"x-anyrig-inside"
"""The header that tells that it is the page that asks; its word is known in this process alone."""
KEYED = b"x-anyrig-keyed"
"""The header that tells that the visitor needs a key, wherever the page asks from."""
KEY = "anyrig.key"
"""In a request's scope: the key that was shown, or None where none is needed."""
NO_KEY = "anyrig.no_key"
"""In a request's scope: whether it needs no key, wherever it goes."""
_SHOWN = (b"authorization", b"x-api-key", b"cookie")


def carried(word: str, visit: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """The headers of a request that the page makes for a visitor.

    They carry what the visitor showed and not who it was: a session that has ended is over for a
    page that is still open, too.

    Args:
        word: the value of `INSIDE`.
        visit: the scope of the request that the page was opened with. One that the guard has not
            seen needs a key.
    """
    mine = [(INSIDE, word.encode())]
    if visit.get(NO_KEY):
        return mine
    shown = [(name, value) for name, value in visit.get("headers", ()) if name in _SHOWN]
    return [*mine, (KEYED, b"1"), *shown]
