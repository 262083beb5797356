"""The bytes of results: in the broker beside the result, deleted as soon as they were fetched.

In JSON they would be a third longer and cost more on their way than everything else of a task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from anyrig.cluster.broker import RESULT_S

if TYPE_CHECKING:
    from anyrig.cluster.broker import BrokerClient

MAX_BLOB_BYTES = 64 << 20
"""Of one task: twenty minutes of audio, where a task takes about a second. Results that do not fit
are returned and computed again."""


class BlobStore:
    def __init__(self, client: BrokerClient) -> None:
        self._client = client

    def key(self, task_id: str) -> str:
        return self._client.key("blob", task_id)

    def put(self, task_id: str, data: bytes) -> None:
        key = self.key(task_id)
        self._client.retry(lambda: self._client.redis.set(key, data, ex=RESULT_S))

    def get(self, task_id: str, size: int) -> bytes:
        """At most so many bytes; none if the broker has lost them."""
        return cast("bytes", self._client.redis.getrange(self.key(task_id), 0, size))
