"""Where answers lie until they are fetched: Celery's own place, without sending sound twice.

Celery writes a result and then sends it once more to whoever listens for it. Nobody listens for a
shard's: its run is told by the worker and fetches it (`place.answered`).
"""

from __future__ import annotations

from typing import Any

from celery.backends.redis import RedisBackend

_SENT = 8192
"""Bytes of a result that is sent as well: that of the health task has fewer."""


class Results(RedisBackend):
    """Answers in the broker, each with an end."""

    def _set(self, key: Any, value: Any, expires: Any = None) -> None:
        whole: Any = self  # its types leave out how long results are kept
        pipe = self.client.pipeline()
        pipe.set(key, value, ex=expires or whole.expires)
        if len(value) <= _SENT:
            pipe.publish(key, value)
        pipe.execute()
