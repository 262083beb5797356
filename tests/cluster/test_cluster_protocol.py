"""Tasks and results come through JSON as they were; whatever is not one is refused."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from anyrig.cluster.blobs import MAX_BLOB_BYTES
from anyrig.cluster.protocol import (
    MAX_ITEMS,
    EncodedResult,
    TaskRequest,
    TaskResult,
    pack_results,
    parse_request,
    parse_result,
)
from anyrig.cluster.speech import SpeechCodec
from anyrig.errors import InvalidInputError
from anyrig.speech.booth import Recording
from anyrig.work.outcome import ItemFailure
from benchmarks.local_cluster import counting_identity, make_lines

CODEC = SpeechCodec()
ITEMS = tuple((n, CODEC.encode_item(line)) for n, line in enumerate(make_lines(3), start=7))
REQUEST = TaskRequest(
    "speech", counting_identity(), ITEMS, "fp16", {"speed": 1.5, "on": True}, "live", compress=False
)
RESULTS = {7: EncodedResult(b"\x00\xff", {"tries": 2}), 9: EncodedResult(b"abc", {})}
RESULT, BLOB = pack_results(
    TaskResult(failures={8: ItemFailure("memory", "no room", 2, "buy some")}, returned=(10,),
               cost=12.5, seconds=0.25, num_batches=3, num_out_of_memory=1),
    RESULTS,
)  # fmt: skip


def through(value: dict[str, Any]) -> Any:
    return json.loads(json.dumps(value))


def test_what_is_sent_arrives() -> None:
    request = parse_request(through(asdict(REQUEST)))
    assert request == REQUEST
    assert [CODEC.decode_item(item) for _, item in request.items] == make_lines(3)
    result = parse_result(through(asdict(RESULT)))
    assert result == RESULT
    assert sum(result.sizes) == len(BLOB) == 5
    assert result.split(BLOB) == RESULTS
    assert "text" not in REQUEST.describe()
    assert not any(line.text in REQUEST.describe() for line in make_lines(3))


def test_a_take_arrives() -> None:
    take = Recording(b"\x00\xff", ("too short",), 2, True)
    assert CODEC.decode_result(CODEC.encode_result(take, compress=False)) == take


@pytest.mark.parametrize("blob", [b"", b"\x00", b"\x00\xff\x00"])
def test_bytes_of_another_size_are_refused(blob: bytes) -> None:
    with pytest.raises(InvalidInputError):
        RESULT.split(blob)


@pytest.mark.parametrize("sizes", [[2], [2, 0], [2, -1], [2, True], [2, "3"], [2, None],
                                   [2, MAX_BLOB_BYTES], [2, 10**12]])  # fmt: skip
def test_sizes_that_are_not_valid_are_not_fetched(sizes: Any) -> None:
    with pytest.raises(InvalidInputError):
        parse_result({**through(asdict(RESULT)), "sizes": sizes})


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": 99}, {"items": [["0", {}]]}, {"items": None}, {"items": [[0]]},
        {"options": {"a": [1]}}, {"options": []}, {"engine": {}}, {"kind": 7}, {"lane": None},
        {"items": [[n, {}] for n in range(MAX_ITEMS + 1)]},
    ],
)  # fmt: skip
def test_what_is_no_task_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        parse_request({**through(asdict(REQUEST)), **change})


@pytest.mark.parametrize(
    "change", [{"text": 1}, {"text": "x" * 100_001}, {"seed": "1"}, {"rate": None}, {"voice": 3}]
)
def test_what_is_no_line_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        CODEC.decode_item({**ITEMS[0][1], **change})


@pytest.mark.parametrize("value", [None, 7, "text", [], {"protocol": 1, "results": 7}])
def test_what_is_nothing_of_the_kind_is_refused(value: Any) -> None:
    for read in (parse_request, parse_result):
        with pytest.raises(InvalidInputError):
            read(value)


@pytest.mark.parametrize(
    "change",
    [
        {"results": {"seven": {}}}, {"failures": {"8": {"kind": "odd"}}}, {"returned": ["9"]},
        {"returned": [True]}, {"cost": "much"}, {"cost": 10**400}, {"cost": float("nan")},
        {"cost": -1.0}, {"seconds": float("inf")}, {"seconds": True}, {"refused": 3},
        {"results": []}, {"results": {"7": []}},
    ],
)  # fmt: skip
def test_what_is_no_result_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        parse_result({**through(asdict(RESULT)), **change})
