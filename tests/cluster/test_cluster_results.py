"""Answers in the broker: large ones are written once, small ones are told to who waits as well."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from anyrig.cluster.app import made
from anyrig.cluster.link import RESULT_S
from tests.cluster.conftest import Broker, until


@pytest.mark.parametrize(("size", "told"), [(10, True), (50_000, False)])
def test_only_small_answers_are_sent_to_whoever_listens(
    broker: Broker, size: int, told: bool
) -> None:
    app: Any = made(broker.url)
    redis: Any = broker.redis
    with closing(redis), redis.pubsub() as listening:
        listening.psubscribe("*")
        until(lambda: listening.get_message(timeout=1) is not None)
        app.backend.store_result("a-task", "x" * size, "SUCCESS")
        assert bool(listening.get_message(timeout=0.5)) == told
        (key,) = redis.scan_iter("anyrig:result:*a-task")
        assert size < redis.strlen(key) < size + 500
        assert 0 < redis.ttl(key) <= RESULT_S
        assert app.AsyncResult("a-task").result == "x" * size
    app.close()
