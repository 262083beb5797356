"""What goes through the pipes of a worker: whole, and copied no more than needed."""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

import numpy as np
import pytest

from anyrig.work.engine import EngineFactory
from anyrig.work.outcome import BatchStats
from anyrig.work.pool import WorkerPool
from anyrig.work.protocol import (
    BatchDone,
    Connection,
    PickledValue,
    encode_message,
    pickle_value,
)
from anyrig.work.worker import LocalWorkers
from tests.work.helpers import placement


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


LARGE = np.arange(200_000, dtype=np.float32).reshape(400, 500)
VALUES: dict[str, Any] = {
    "large": LARGE,
    "read-only": _frozen(LARGE.copy()),
    "columns first": np.asfortranarray(LARGE),
    "every second row": LARGE[::2],
    "small": np.arange(3),
    "empty": np.empty((0, 4)),
    "no dimension": np.array(7.5),
    "records": np.zeros(9000, dtype=[("a", "i4"), ("b", "f8")]),
    "objects": np.array([{"a": 1}, None], dtype=object),
    "nested": {"vectors": [LARGE, LARGE + 1], "text": "x" * 100_000},
    "twice": [LARGE] * 2,
    "bytes": b"\x00\xff" * 100_000,
    "bytearray": bytearray(100_000),
    "nothing": None,
}


@pytest.fixture(scope="module")
def returned() -> dict[str, Any]:
    """Every value, after its way to a worker process and back."""
    factory = EngineFactory("tests.work.engines:Echo")
    with WorkerPool(LocalWorkers([placement("a")], factory, environment=os.environ)) as pool:
        outcomes = list(pool.run(list(VALUES.values()), cost=lambda _: 1.0))
    assert [outcome.failure for outcome in outcomes] == [None] * len(VALUES)
    return dict(zip(VALUES, (outcome.result for outcome in outcomes), strict=True))


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [array for part in parts for array in _arrays(part)]


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back_as_a_plain_pickle_brings_them(
    name: str, returned: dict[str, Any]
) -> None:
    found, usual = returned[name], pickle.loads(pickle.dumps(VALUES[name], protocol=5))
    assert type(found) is type(usual)
    for one, other in zip(_arrays(found), _arrays(usual), strict=True):
        np.testing.assert_array_equal(one, other)
        assert (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
        assert one.flags.writeable == other.flags.writeable
    if not _arrays(usual):
        assert found == usual


def _encode(value: Any) -> list[bytes | memoryview]:
    message = BatchDone(((1, pickle_value(value)),), (), (), BatchStats())
    return encode_message(message)


def test_a_large_array_is_written_from_where_it_is() -> None:
    _, *pickles, array = _encode(LARGE)
    assert np.shares_memory(np.frombuffer(array, np.float32), LARGE)
    assert sum(map(len, pickles)) < 2000


def test_the_pickle_of_a_result_is_not_pickled_again() -> None:
    text = "x" * 100_000
    value = pickle_value(text)
    message, data = encode_message(BatchDone(((1, value),), (), (), BatchStats()))[1:]
    assert np.shares_memory(
        np.frombuffer(data, np.uint8), np.frombuffer(value.data.raw(), np.uint8)
    )
    assert len(message) < 2000


@pytest.mark.parametrize("cut", [0, 3, 11, 40, 1000])
def test_a_message_that_was_cut_off_is_the_end(cut: int) -> None:
    whole = b"".join(_encode(LARGE))
    received: BatchDone = Connection(io.BytesIO(whole), io.BytesIO()).receive()
    assert isinstance(received.results[0][1], PickledValue)
    with pytest.raises(EOFError):
        Connection(io.BytesIO(whole[: -cut - 1]), io.BytesIO()).receive()
    with pytest.raises(EOFError):
        Connection(io.BytesIO(whole[:cut]), io.BytesIO()).receive()
