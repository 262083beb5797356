"""Answers in the broker: written once, and sent to whoever listens for them as well."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest

from anyrig.cluster.app import made
from anyrig.cluster.link import RESULT_S
from tests.cluster.conftest import Broker, until


@pytest.mark.parametrize("listens", [True, False])
def test_an_answer_is_sent_only_where_somebody_listens_for_it(
    broker: Broker, listens: bool
) -> None:
    app: Any = made(broker.url)
    with closing(broker.redis) as redis:
        before = redis.info("stats")["total_net_output_bytes"]
        found: list[Any] = []
        taker = threading.Thread(target=lambda: found.append(app.AsyncResult("a-task").get(20)))
        if listens:
            taker.start()
            until(lambda: redis.pubsub_channels("*a-task"))
        app.backend.store_result("a-task", "x" * 500_000, "SUCCESS")
        if listens:
            taker.join(timeout=30)
            assert found == ["x" * 500_000]
        sent = redis.info("stats")["total_net_output_bytes"] - before
        assert (sent > 500_000) == listens
        (key,) = redis.scan_iter("anyrig:result:*a-task")
        assert 500_000 < redis.strlen(key) < 500_500
        assert 0 < redis.ttl(key) <= RESULT_S
        assert app.AsyncResult("a-task").result == "x" * 500_000
        received = redis.info("stats")["total_net_input_bytes"]
        app.backend.store_result("another", "x" * 500_000, "SUCCESS")
        assert redis.info("stats")["total_net_input_bytes"] - received < 600_000
    app.close()
