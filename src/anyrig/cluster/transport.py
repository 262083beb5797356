"""kombu's Redis transport, for queues that anybody with the password may write to.

kombu and Celery trust their broker: a message that is not JSON, lacks a field or has one of another
type ends the worker that reads it, and so does a key that is not a list. Here it is dropped with a
warning. This is selected with `broker_transport`; nothing of kombu is patched.
"""

from __future__ import annotations

import logging
from typing import Any

from kombu.transport import redis
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

log = logging.getLogger(__name__)
_MAX_CHARACTERS = 32 << 20
"""Of a message's body; the largest of ours is much smaller."""
_OUTAGE = (ConnectionError, TimeoutError, OSError)
_INVALID = (ValueError, TypeError, KeyError, RecursionError)
"""Raised while a message is decoded, before it is delivered."""


class Channel(redis.Channel):
    do_restore = False
    """Nothing goes back into the queue when the connection is lost: its sender sends it again."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]
        except _INVALID as error:
            _warn_dropped(error)
        except ResponseError as error:
            if "WRONGTYPE" not in str(error):
                raise
            self._delete_wrong_types()
        return True

    def _receive_one(self, c: Any) -> Any:
        try:
            return super()._receive_one(c)  # type: ignore[misc]
        except _INVALID as error:
            _warn_dropped(error)
            return True

    def _delete_wrong_types(self) -> None:
        """Delete what has the name of one of this worker's queues and is not a list."""
        with self.conn_or_acquire() as client:
            for queue in self.active_queues:
                if client.type(queue) not in (b"none", b"list"):
                    client.delete(queue)
                    log.warning("deleted the key %s: it was not a queue", queue)


class Transport(redis.Transport):
    Channel = Channel

    def _deliver(self, message: Any, queue: str | None) -> None:
        try:
            if len(message["body"]) > _MAX_CHARACTERS:
                raise ValueError("it is too large")
            super()._deliver(message, queue)
        except _OUTAGE:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the next message may be valid
            _warn_dropped(error)


def _warn_dropped(error: Exception) -> None:
    # Not the message itself: it may contain texts.
    log.warning("dropped an invalid message: %s", type(error).__name__)
