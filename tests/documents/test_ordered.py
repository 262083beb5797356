"""Items whose parts are one stream come out whole and in order."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from queue import Queue

import pytest

from anyrig.documents.ordered import run_ordered
from anyrig.errors import WorkError

Run = Callable[[Iterator[int]], Iterator[int]]


def _count_up(parts: Iterator[int]) -> Iterator[int]:
    for part in parts:
        yield part * 10


def _read_ahead(parts: Iterator[int]) -> Iterator[int]:
    """From a thread of its own, as a pool of workers does."""
    waiting: Queue[int | None] = Queue(50)

    def read() -> None:
        for part in parts:
            waiting.put(part)
        waiting.put(None)

    thread = threading.Thread(target=read)
    thread.start()
    yield from _count_up(iter(waiting.get, None))
    thread.join()


@pytest.mark.parametrize("run", [_count_up, _read_ahead])
@pytest.mark.parametrize("max_pending", [1, 3, 1000])
def test_every_item_has_the_results_of_its_own_parts(run: Run, max_pending: int) -> None:
    rng = random.Random(5)
    items = [list(range(n, n + rng.choice([0, 0, 1, 2, 30]))) for n in range(300)]
    found = run_ordered(
        items, lambda item: (item, item), run, lambda item, made: (item, made),
        max_pending=max_pending,
    )  # fmt: skip
    assert list(found) == [(item, [10 * part for part in item]) for item in items]


def test_items_that_wait_are_bounded() -> None:
    taken = 0

    def items() -> Iterator[list[int]]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield [number] if number % 100 == 0 else []

    found = run_ordered(
        items(), lambda item: (item, item), _count_up, lambda item, made: made, max_pending=20
    )
    assert next(iter(found)) == [0]
    assert taken <= 40


def test_a_result_that_is_missing_is_an_error() -> None:
    def lose(parts: Iterator[int]) -> Iterator[int]:
        list(parts)
        yield 1

    with pytest.raises(WorkError, match="got no result"):
        list(run_ordered([[1], [2]], lambda item: (item, item), lose, lambda item, made: made))
