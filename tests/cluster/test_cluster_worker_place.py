"""A workplace within the test's process: what it gives back, and to whom it leaves its name."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, cast

from anyrig.cli.context import Context
from anyrig.cli.main import parse_command_line
from anyrig.cli.worker import _posts, chosen
from anyrig.cli.worker_engine import Shop, small
from anyrig.cluster.calls import Calls
from anyrig.cluster.card import Roll
from anyrig.cluster.hands import Hands
from anyrig.cluster.link import RESULT_S
from anyrig.cluster.loaded import About
from anyrig.cluster.place import Workplace
from anyrig.cluster.shard import answer_of
from anyrig.cluster.welcome import is_alive
from anyrig.speech.sound.pack import unpack
from tests.cluster.conftest import Broker, until
from tests.cluster.test_cluster_worker import order, wanted


@contextmanager
def working(broker: Broker, name: str = "w") -> Iterator[tuple[Workplace, list[Any]]]:
    """A workplace that has its name; what it told so far."""
    _, options = parse_command_line(["worker", "--name", name, "--device", "cpu", "--no-bench"])
    options.unattended = True
    context = Context(options, dict(os.environ))
    (post,) = _posts(context)
    shop = Shop(context, chosen(context), post)
    told: list[tuple[str, Mapping[str, Any]]] = []
    about = About(name, post.device.name, "cpu", "cpu", shop.offers, shop.precisions)
    with ExitStack() as stack:
        link = broker.link
        stack.callback(link.close)
        place = Workplace(
            link,
            about,
            shop.open,
            small=small,
            told=lambda event, facts: told.append((event, facts)),
        )
        stack.callback(place.close)
        assert place.claim() is None
        place.start()
        yield place, told


def test_what_takes_too_long_is_given_back(broker: Broker) -> None:
    with working(broker) as (place, told):
        wanted(broker, "r1", "s1", "s2")
        found: list[Any] = []
        slow = order("s1", "The boat, the rope and the bell.", options={"sleep_s": 1.0})
        thread = threading.Thread(target=lambda: found.append(answer_of(place.do(slow))))
        thread.start()
        until(lambda: told, 30, what="the engine")
        assert told[0][0] == "loaded"
        assert told[0][1]["model"] == "tone"
        assert place.card().status == "busy"
        assert place.leave(0.2) is False
        thread.join(20)
        assert found[0].left == (0,)
        assert not found[0].recordings
        assert broker.living()["w"].status == "draining"
        late = answer_of(place.do(order("s2", "Too late.")))
        assert (late.left, late.refused) == ((0,), "")
    assert broker.living() == {}


def sound(broker: Broker, id: str) -> bytes:
    """What lies beside an answer, which has an end."""
    with broker.redis as redis:
        assert 0 < redis.ttl(f"anyrig:result:sound-{id}") <= RESULT_S
        return cast("bytes", redis.get(f"anyrig:result:sound-{id}"))


def test_takes_travel_as_flac_where_it_is_asked_for(broker: Broker) -> None:
    with working(broker) as (place, _):
        wanted(broker, "r1", "s1", "s2")
        text = "The tide came in at noon."
        plain, packed = (
            answer_of(place.do(order(id, text, small=flac)), sound(broker, id)).recordings[0].data
            for id, flac in (("s1", False), ("s2", True))
        )
        assert b"fLaC" in packed
        assert len(packed) < len(plain)
        assert (unpack(packed).samples == unpack(plain).samples).all()


def test_one_that_was_frozen_leaves_its_name_to_who_took_it(broker: Broker) -> None:
    with working(broker) as (frozen, _):
        card = broker.living()["w"]
        with broker.link_open() as link:
            assert is_alive(link, card)
            Roll(link).remove("w")  # as if it had given no sign for long
            with working(broker) as (fresh, _):
                run = broker.living()["w"].run
                assert run != card.run
                until(frozen.drained.is_set, 15, what="that it sees it")
                assert frozen.replaced
                frozen.close()
                assert broker.living()["w"].run == run
                assert not fresh.replaced


def test_a_run_asks_only_who_can_compute_as_it_wants(broker: Broker) -> None:
    with working(broker), broker.link_open() as link:
        card = broker.living()["w"]
        offer = card.offer("tone")
        assert offer is not None
        for precision, said in (("fp32", ""), ("half", "it computes tone in fp32, not in half")):
            calls = Calls(link, offer, precision=precision, options={}, lane="bulk", small=True)
            hands = Hands(calls, patience_s=1.0)
            assert hands._why_not(card) == said
            calls.close()
