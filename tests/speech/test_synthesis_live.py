"""Many listeners, one engine: through real worker processes, with the shipped tone engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from anyrig.errors import WorkError
from anyrig.speech.engine import Utterance
from anyrig.speech.segment import Segment
from anyrig.speech.synthesis import ScriptReading, SegmentPart
from anyrig.storage.cache import ResultCache
from tests.speech.conftest import open_tone
from tests.waiting import wait_until

SLOW = 0.01  # seconds a character


def segments(*texts: str) -> list[Segment]:
    return [Segment(Utterance(text), ((0, len(text)),), text) for text in texts]


def lines(name: str, count: int) -> list[Segment]:
    return segments(*(f"{name} number {number}" for number in range(count)))


@contextmanager
def serve(cache: ResultCache | None = None, **options: Any) -> Iterator[Any]:
    with open_tone(cache, shared=True, **options) as made:
        made.wait_ready()
        yield made


def test_each_listener_gets_their_own_text_in_order(cache: ResultCache) -> None:
    heard: dict[int, list[str]] = {}
    with serve(cache) as made:

        def listen(number: int) -> None:
            with made.read(lines(f"reader {number}", 6), lane="live") as reading:
                heard[number] = [spoken.segment.text for spoken in reading]

        threads = [threading.Thread(target=listen, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert made.live.running == made.live.waiting("live") == 0
    expected = [f"reader {{}} number {n}" for n in range(6)]
    assert heard == {n: [text.format(n) for text in expected] for n in range(16)}


def test_what_is_kept_is_not_made_and_sounds_the_same(cache: ResultCache) -> None:
    with serve(cache) as made:
        first = list(made.read(lines("a", 3), lane="live"))
        wait_until(lambda: not made.jobs.by_key)  # kept in the background
        again = list(made.read(lines("a", 3), lane="live"))
        assert made.live.report.num_items == 3
    assert [one.cached for one in first] == [False] * 3
    assert [one.cached for one in again] == [True] * 3
    for old, new in zip(first, again, strict=True):
        assert np.array_equal(old.take.samples, new.take.samples)
    with serve(cache) as other:
        assert all(one.cached for one in other.read(lines("a", 3), lane="live"))
        assert other.live.report.num_items == 0


def test_a_line_that_several_want_at_once_is_made_once() -> None:
    with serve(sleep_s=SLOW) as made:
        busy = made.read(segments("this takes a little while"), lane="live")
        first = busy.next()
        readings = [made.read(segments("wanted by all"), lane="live") for _ in range(8)]
        futures = [reading.next() for reading in readings]
        takes = [future.result(timeout=60).decode().take for future in futures]
        first.result(timeout=60)
        assert made.live.report.num_items == 2
    assert all(np.array_equal(take.samples, takes[0].samples) for take in takes)


def test_first_segments_of_all_come_before_anybodys_second() -> None:
    done: list[str] = []
    with serve(sleep_s=SLOW) as made:
        readings = {name: made.read(lines(name, 5), lane="live") for name in "abcde"}
        firsts = [reading.next() for reading in readings.values()]
        assert made.live.waiting("live") + made.live.running <= 5, "the first of each, alone"
        for first in firsts:
            first.result(timeout=60)
        for name, reading in readings.items():
            reading.next()
            for number, asked in enumerate(reading._tickets, 2):
                label = f"{name} {number}"
                asked.future.add_done_callback(lambda _, label=label: done.append(label))
        wait_until(lambda: len(done) == 15)
    # A few are taken before the others come: the pool holds as many as one call.
    assert done.index("e 2") < done.index("b 4")
    assert done.index("e 3") < done.index("e 4")


def test_a_line_of_bulk_work_that_a_listener_wants_comes_forward() -> None:
    with serve(sleep_s=SLOW) as made:
        bulk = made.read(lines("bulk", 40), lane="bulk", look_ahead=40)
        bulk.next()
        wanted = made.read(segments("bulk number 39"), lane="live")
        wanted.next().result(timeout=60)
        assert made.live.waiting("bulk") > 25
        assert made.live.waiting("live") == 0
        wait_until(bulk._tickets[-1].future.done, what="the take for who wanted it first")
        bulk.close()


def test_one_who_leaves_takes_what_has_not_begun_along() -> None:
    with serve(sleep_s=SLOW) as made:
        leaving, staying = (
            made.read(lines("a", 20), lane="live", look_ahead=20),
            made.read(lines("b", 3), lane="live"),
        )
        shared = made.read(segments("a number 19"), lane="bulk")
        leaving.next().result(timeout=60)
        leaving.next()
        shared_future = shared.next()
        leaving.close()
        leaving.close()
        assert made.live.waiting("live") + made.live.waiting("bulk") <= 1
        assert [one.segment.text for one in staying] == [f"b number {n}" for n in range(3)]
        assert shared_future.result(timeout=60).decode().take is not None
        with pytest.raises(WorkError, match="the client disconnected"):
            leaving.next()
        assert made.live.report.num_items < 15


def test_only_a_few_segments_are_asked_for_ahead_of_the_listener() -> None:
    with serve() as made:
        reading = made.read(lines("a", 100), lane="live")
        reading.next().result(timeout=60)
        wait_until(lambda: made.live.running == made.live.waiting("live") == 0)
        assert made.live.report.num_items <= 4
        reading.close()


def segment(text: str) -> Segment:
    return Segment(Utterance(text), ((0, len(text)),), text)


def test_a_line_that_is_asked_for_again_keeps_its_place() -> None:
    """Each who asks would wait for longer than the one before; the line came last, every time."""
    order: list[str] = []
    with serve(sleep_s=0.01) as made:

        def ask(text: str, wait_s: float = 60) -> Future[SegmentPart]:
            reading: ScriptReading = made.read([segment(text)], lane="live", wait_s=wait_s)
            return reading.next()

        running = [ask(f"at work, number {n}") for n in range(8)]
        time.sleep(0.1)
        popular = ask("popular")
        others = [ask(f"other {n}") for n in range(8)]
        again = [ask("popular", 60 + n) for n in range(8)]
        popular.add_done_callback(lambda _: order.append("popular"))
        others[-1].add_done_callback(lambda _: order.append("other"))
        for future in (*running, popular, *others, *again):
            future.result(timeout=60)
    assert order == ["popular", "other"]


def test_a_take_that_cannot_be_kept_is_not_held_here_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve() as made:
        called = threading.Event()

        def broken(*_: object, **__: object) -> None:
            called.set()
            raise ValueError("no such thing")

        monkeypatch.setattr(made.takes, "store", broken)
        assert [one.take is not None for one in made.read([segment("one")], lane="live")] == [True]
        assert called.wait(60)
        wait_until(lambda: not made.jobs.by_key)
