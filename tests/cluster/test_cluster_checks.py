"""Which results of other machines are checked on this one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anyrig.cluster.checks import ResultChecker
from anyrig.cluster.embedding import EmbeddingCodec


class _Outcome:
    def __init__(self, result: bytes) -> None:
        self.result = result


class _Pool:
    """Computes every item as twice its bytes."""

    def __init__(self) -> None:
        self.num_computed = 0

    def run(self, payloads: Iterable[bytes], **_: Any) -> list[_Outcome]:
        payloads = list(payloads)
        self.num_computed += len(payloads)
        return [_Outcome(payload * 2) for payload in payloads]


class _Codec(EmbeddingCodec):
    def compare(self, payload: bytes, mine: bytes, theirs: bytes) -> str:
        return "" if mine == theirs else "another result"


def _items(start: int, count: int) -> dict[int, bytes]:
    return {index: b"item %d" % index for index in range(start, start + count)}


def _twice(items: dict[int, bytes]) -> dict[int, bytes]:
    return {index: item * 2 for index, item in items.items()}


def test_a_worker_with_equal_results_is_checked_less_and_never_not_at_all() -> None:
    pool = _Pool()
    checker = ResultChecker(_Codec(), lambda: pool)  # type: ignore[arg-type, return-value]
    first = _items(0, 1)
    assert checker.must_examine(first[0], "one")
    assert checker.find_difference(first, _twice(first), "one") == ""
    assert pool.num_computed == 1  # the first result of every worker
    for start in range(1, 400, 4):
        items = _items(start, 4)
        assert checker.find_difference(items, _twice(items), "one") == ""
    early, pool.num_computed = pool.num_computed, 0
    assert 6 <= early <= 20
    for start in range(400, 8400, 4):
        items = _items(start, 4)
        assert checker.find_difference(items, _twice(items), "one") == ""
    assert 10 <= pool.num_computed <= 70  # about one of 256
    examined = sum(checker.must_examine(item, "one") for item in _items(0, 800).values())
    assert 60 <= examined <= 150  # about one of 8
    assert all(checker.must_examine(item, "another") for item in _items(0, 50).values())
    wrong = dict.fromkeys(_items(0, 2000), b"wrong")
    assert checker.find_difference(_items(0, 2000), wrong, "one") == "another result"


def test_all_results_are_examined_where_none_can_be_compared() -> None:
    checker = ResultChecker(_Codec())
    items = _items(0, 50)
    assert checker.find_difference(items, _twice(items), "one") == ""
    assert all(checker.must_examine(item, "one") for item in items.values())
