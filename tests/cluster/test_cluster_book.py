"""A book that is spread over workers is the book that one machine makes."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.conftest import Broker, Spread, Workers, story, until


def test_a_book_over_two_workers_is_the_same_to_the_byte(
    broker: Broker, workers: Workers, spread: Spread
) -> None:
    workers(2)
    Path("b.txt").write_text(story(), encoding="utf-8")
    order = ("book", "b.txt", "--engine", "tone", "--set", "sleep_s=0.001")
    done = spread(*order, "-o", "cluster.m4b")
    assert done.returncode == 0, done.stderr
    local = spread(*order, "-o", "local.m4b", cluster="", home="alone")
    assert local.returncode == 0, local.stderr
    assert Path("cluster.m4b").read_bytes() == Path("local.m4b").read_bytes()
    until(lambda: all(card.beat > 3 for card in broker.living().values()))
    cards = broker.living()
    assert all(cards[name].shards_done for name in ("w1", "w2")), cards
