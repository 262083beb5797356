"""A worker's end of Celery that outlives its broker.

When a broker goes away under a worker, kombu 5.7 asks a connection that is closed to take back what
was not acknowledged, or to acknowledge it, and ends the whole worker with an `AttributeError`. Here
neither is asked of a closed connection: what is lost with a broker is given again by its run.
"""

from __future__ import annotations

from typing import Any

from kombu.transport.redis import Channel, QoS


class Calm(QoS):
    """Leaves a message alone whose connection is gone."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message."""
        if self._there():
            super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Give a message back, or away."""
        if self._there():
            super().reject(delivery_tag, requeue=requeue)

    def _there(self) -> bool:
        connection: Any = self.channel.connection
        return connection is not None and connection.client is not None


def keep() -> None:
    """Have it so in this process, from now on."""
    Channel.QoS = Calm
    Channel.do_restore = False
