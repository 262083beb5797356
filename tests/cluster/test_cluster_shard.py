"""Orders and answers come through JSON as they were; whatever is not one is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from anyrig.cluster.shard import MOST_LINES, Answer, Order, answer_of, order_of
from anyrig.errors import InvalidInputError
from anyrig.speech.booth import Recording
from anyrig.work.outcome import ItemFailure
from benchmarks.cluster_rig import lines, offer

ORDER = Order(
    "ab" * 12, "run", offer(), tuple(enumerate(lines(3), start=7)), "fp16",
    {"speed": 1.5, "on": True}, "live", "http://box", False,
)  # fmt: skip
ANSWER = Answer(
    "ab" * 12, {7: Recording(b"\x00\xff", ("too short",), 2, True)},
    {8: ItemFailure("memory", "no room", 2, "buy some")}, (9,), "", 12.5, 0.25, 3, 1, "http://box",
)  # fmt: skip


def through(plain: dict[str, Any]) -> Any:
    return json.loads(json.dumps(plain))


def test_what_is_sent_arrives() -> None:
    assert order_of(through(ORDER.plain())) == ORDER
    assert answer_of(through(ANSWER.plain())) == ANSWER
    several = replace(ANSWER, recordings={7: Recording(b"\x00\xff"), 3: Recording(b"abc")})
    assert several.sound == b"\x00\xffabc"
    assert answer_of(through(several.plain(apart=True)), several.sound) == several


@pytest.mark.parametrize("sound", [b"", b"\x00", b"\x00\xff\x00"])
@pytest.mark.parametrize("size", [2, 0, -1, True, "2", 10**12])
def test_sound_of_another_size_is_refused(sound: bytes, size: Any) -> None:
    plain = through(ANSWER.plain(apart=True))
    plain["recordings"]["7"]["size"] = size
    with pytest.raises(InvalidInputError):
        answer_of(plain, sound)


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": 99}, {"lines": [[0, {"text": 1}]]}, {"lines": [["0", {}]]}, {"lines": None},
        {"options": {"a": [1]}}, {"options": []}, {"offer": {}}, {"run": 7}, {"id": None},
        {"lines": [[0, {**lines(1)[0].__dict__, "text": "x" * 100_001}]]},
        {"lines": [[n, through(lines(1)[0].__dict__)] for n in range(MOST_LINES + 1)]},
    ],
)  # fmt: skip
def test_what_is_no_order_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        order_of({**through(ORDER.plain()), **change})


@pytest.mark.parametrize("found", [None, 7, "text", [], {}, {"protocol": 1}])
def test_what_is_nothing_of_the_kind_is_refused(found: Any) -> None:
    for read in (order_of, answer_of):
        with pytest.raises(InvalidInputError):
            read(found)


@pytest.mark.parametrize(
    "change",
    [
        {"recordings": {"7": {"data": "!", "problems": [], "tries": 1, "hopeless": False}}},
        {"recordings": {"seven": {}}}, {"failures": {"8": {"kind": "odd"}}}, {"left": ["9"]},
        {"left": [True]}, {"cost": "much"}, {"cost": 10**400}, {"cost": float("nan")},
        {"cost": -1.0}, {"seconds": float("inf")}, {"seconds": True},
        {"refused": 3}, {"recordings": []},
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        answer_of({**through(ANSWER.plain()), **change})
