"""Where answers lie until they are fetched: Celery's own place, without sending sound twice.

Celery writes a result and then sends it once more to whoever may listen for it. Nobody listens for
a shard's: its run is told by the worker and fetches it (`place.answered`). So it is asked first.
"""

from __future__ import annotations

from typing import Any

from celery.backends.redis import RedisBackend


class Results(RedisBackend):
    """Answers in the broker, each with an end."""

    def _set(self, key: Any, value: Any, expires: Any = None) -> None:
        whole: Any = self  # its types leave out how long results are kept
        pipe = self.client.pipeline(transaction=False)
        pipe.set(key, value, ex=expires or whole.expires)
        pipe.pubsub_numsub(key)
        # Who begins to listen after this looks for what is there already.
        (_, listeners) = pipe.execute()[-1][0]
        if listeners:
            self.client.publish(key, value)
