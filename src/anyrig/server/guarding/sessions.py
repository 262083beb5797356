"""People who showed a key on the login page: a cookie in place of the key.

The cookie is a random word that means something to this process alone; logging out, removing the
key and ending the server all end it.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from anyrig.app.keys import ApiKey, ApiKeys
from anyrig.server.auth import widen_for_page

LASTS_S = 7 * 24 * 3600
_MOST = 1000


class Sessions:
    """Those of one server; touched on the event loop alone.

    Args:
        keys: a session is as good as its key.
        port: cookies are shared by all servers of a machine, so each has a name of its own.
        clock: seconds that only go forward.
    """

    def __init__(
        self, keys: ApiKeys, port: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.cookie = f"anyrig_session_{port}" if port else "anyrig_session"
        self._keys, self._clock = keys, clock
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def begin(self, key: ApiKey) -> str:
        """A new session; the value of its cookie."""
        word = secrets.token_urlsafe(32)
        self._open[_digest(word)] = (key.id, self._clock() + LASTS_S)
        while len(self._open) > _MOST:
            self._open.popitem(last=False)
        return word

    def key(self, word: str) -> ApiKey | None:
        """The key that a session stands for, as the page has it, while both hold."""
        if not word:
            return None
        key_id, until = self._open.get(_digest(word), ("", 0.0))
        key = self._keys.get(key_id) if self._clock() < until else None
        return None if key is None else widen_for_page(key)

    def end(self, word: str) -> None:
        """Forget one."""
        self._open.pop(_digest(word), None)

    def set_cookie(self, word: str, *, secure: bool) -> str:
        """The header that gives a browser its cookie; an empty word takes it back."""
        lasts = LASTS_S if word else 0
        safe = "; Secure" if secure else ""
        return f"{self.cookie}={word}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{safe}"


def cookies(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """What a browser carries."""
    found: dict[str, str] = {}
    for name, value in headers:
        if name == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                key, _, word = pair.strip().partition("=")
                found.setdefault(key, word.strip('"'))
    return found


def _digest(word: str) -> str:
    # Looked up by its hash: how long a dictionary takes tells nothing of the words in it.
    return hashlib.sha256(word.encode("latin-1", "replace")).hexdigest()
