"""Many listeners, one engine: through real worker processes, with the shipped tone engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from anyrig.errors import WorkError
from anyrig.speech.engine import Utterance
from anyrig.speech.live import LiveStudio
from anyrig.speech.segment import Segment
from anyrig.storage.cache import ResultCache
from tests.speech.conftest import tone_stage
from tests.waiting import wait_until

SLOW = 0.01  # seconds a character


def segments(*texts: str) -> list[Segment]:
    return [Segment(Utterance(text), ((0, len(text)),), text) for text in texts]


def lines(name: str, count: int) -> list[Segment]:
    return segments(*(f"{name} number {number}" for number in range(count)))


@contextmanager
def studio(store: ResultCache | None = None, **options: Any) -> Iterator[Any]:
    with LiveStudio(tone_stage(store, **options)) as made:
        yield made


def test_each_listener_gets_their_own_text_in_order(store: ResultCache) -> None:
    heard: dict[int, list[str]] = {}
    with studio(store) as made:

        def listen(number: int) -> None:
            with made.read(lines(f"reader {number}", 6)) as recital:
                heard[number] = [spoken.segment.text for spoken in recital]

        threads = [threading.Thread(target=listen, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert made.live.running == made.live.waiting("live") == 0
    expected = [f"reader {{}} number {n}" for n in range(6)]
    assert heard == {n: [text.format(n) for text in expected] for n in range(16)}


def test_what_is_kept_is_not_made_and_sounds_the_same(store: ResultCache) -> None:
    with studio(store) as made:
        first = list(made.read(lines("a", 3)))
        wait_until(lambda: not made._making)  # kept in the background
        again = list(made.read(lines("a", 3)))
        assert made.live.report.num_items == 3
    assert [one.kept for one in first] == [False] * 3
    assert [one.kept for one in again] == [True] * 3
    for old, new in zip(first, again, strict=True):
        assert np.array_equal(old.take.samples, new.take.samples)
    with studio(store) as other:
        assert all(one.kept for one in other.read(lines("a", 3)))
        assert other.live.report.num_items == 0


def test_a_line_that_several_want_at_once_is_made_once() -> None:
    with studio(sleep_s=SLOW) as made:
        busy = made.read(segments("this takes a little while"))
        first = busy.next()
        recitals = [made.read(segments("wanted by all")) for _ in range(8)]
        futures = [recital.next() for recital in recitals]
        takes = [future.result(timeout=60).spoken().take for future in futures]
        first.result(timeout=60)
        assert made.live.report.num_items == 2
    assert all(np.array_equal(take.samples, takes[0].samples) for take in takes)


def test_first_segments_of_all_come_before_anybodys_second() -> None:
    done: list[str] = []
    with studio(sleep_s=SLOW) as made:
        recitals = {name: made.read(lines(name, 5)) for name in "abcde"}
        firsts = [recital.next() for recital in recitals.values()]
        assert made.live.waiting("live") + made.live.running <= 5, "the first of each, alone"
        for first in firsts:
            first.result(timeout=60)
        for name, recital in recitals.items():
            recital.next()
            for number, asked in enumerate(recital._asked, 2):
                label = f"{name} {number}"
                asked.future.add_done_callback(lambda _, label=label: done.append(label))
        wait_until(lambda: len(done) == 15)
    # A few are taken before the others come: the pool holds as many as one call.
    assert done.index("e 2") < done.index("b 4")
    assert done.index("e 3") < done.index("e 4")


def test_a_line_of_bulk_work_that_a_listener_wants_comes_forward() -> None:
    with studio(sleep_s=SLOW) as made:
        bulk = made.read(lines("bulk", 40), lane="bulk", ahead=40)
        bulk.next()
        wanted = made.read(segments("bulk number 39"))
        wanted.next().result(timeout=60)
        assert made.live.waiting("bulk") > 25
        assert made.live.waiting("live") == 0
        last = bulk._asked[-1]
        assert last.future.done(), "who wanted it first has it too"
        bulk.close()


def test_one_who_leaves_takes_what_has_not_begun_along() -> None:
    with studio(sleep_s=SLOW) as made:
        leaving, staying = made.read(lines("a", 20), ahead=20), made.read(lines("b", 3))
        shared = made.read(segments("a number 19"), lane="bulk")
        leaving.next().result(timeout=60)
        leaving.next()
        shared_future = shared.next()
        leaving.close()
        leaving.close()
        assert made.live.waiting("live") + made.live.waiting("bulk") <= 1
        assert [one.segment.text for one in staying] == [f"b number {n}" for n in range(3)]
        assert shared_future.result(timeout=60).spoken().take is not None
        with pytest.raises(WorkError, match="the client disconnected"):
            leaving.next()
        assert made.live.report.num_items < 15


def test_only_a_few_segments_are_asked_for_ahead_of_the_listener() -> None:
    with studio() as made:
        recital = made.read(lines("a", 100))
        recital.next().result(timeout=60)
        wait_until(lambda: made.live.running == made.live.waiting("live") == 0)
        assert made.live.report.num_items <= 4
        recital.close()


def segment(text: str) -> Segment:
    return Segment(Utterance(text), ((0, len(text)),), text)


def test_a_line_that_is_asked_for_again_keeps_its_place() -> None:
    """Each who asks would wait for longer than the one before; the line came last, every time."""
    order: list[str] = []
    with studio(sleep_s=0.01) as made:
        running = [made.ask(0, segment(f"at work, number {n}"), "live", 60) for n in range(8)]
        time.sleep(0.1)
        popular = made.ask(0, segment("popular"), "live", 60)
        others = [made.ask(0, segment(f"other {n}"), "live", 60) for n in range(8)]
        again = [made.ask(0, segment("popular"), "live", 60 + n) for n in range(8)]
        for asked in (popular, *others):
            assert asked.future is not None
            asked.future.add_done_callback(lambda _, name=asked.name: order.append(name))
        for asked in (*running, popular, *others, *again):
            assert asked.future is not None
            asked.future.result(timeout=60)
    assert order.index(popular.name) < order.index(others[-1].name)


def test_a_take_that_cannot_be_kept_is_not_held_here_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with studio() as made:
        called = threading.Event()

        def broken(*_: object, **__: object) -> None:
            called.set()
            raise ValueError("no such thing")

        monkeypatch.setattr(made._stage.shelf, "keep", broken)
        assert [one.take is not None for one in made.read([segment("one")])] == [True]
        assert called.wait(60)
        wait_until(lambda: not made._making)
