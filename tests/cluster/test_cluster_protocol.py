"""Tasks and results come through JSON as they were; whatever is not one is refused."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import pytest

from anyrig.cluster.blobs import MAX_BLOB_BYTES
from anyrig.cluster.broker import HEALTH, RUN_ITEMS
from anyrig.cluster.protocol import (
    MAX_ITEMS,
    EncodedResult,
    TaskRequest,
    TaskResult,
    pack_results,
    parse_arguments,
    parse_headers,
    parse_request,
    parse_result,
)
from anyrig.cluster.registry import WorkerInfo, parse_worker_info
from anyrig.cluster.speech import SpeechCodec
from anyrig.errors import InvalidInputError, Message, OptionRef, messages_to_json, render
from anyrig.speech.quality import CheckedTake
from anyrig.work.outcome import ItemFailure
from benchmarks.local_cluster import counting_identity, make_lines
from tests.cluster.conftest import Broker, Worker, until
from tests.cluster.test_cluster_worker import order, sent

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


def through(value: Any) -> Any:
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


def test_options_that_a_failure_names_arrive() -> None:
    message = Message("pass {precision}", precision=OptionRef("precision", "fp32"))
    failed = TaskResult(failures={3: ItemFailure("error", message, 1, message)}, refused=message)
    found = parse_result(through(messages_to_json(asdict(failed))))
    for text in (found.failures[3].message, found.failures[3].hint, found.refused):
        assert render(text, "command") == "pass --precision fp32"


def test_a_take_arrives() -> None:
    take = CheckedTake(b"\x00\xff", (), 2, unusable=True)
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
        {"results": []}, {"results": {"7": []}}, {"failures": {"8": []}},
        {"refused": {"template": "{:>99999999999}", "options": [{"option": "a", "value": "b"}]}},
    ],
)  # fmt: skip
def test_what_is_no_result_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        parse_result({**through(asdict(RESULT)), **change})


HEADERS: dict[str, Any] = {
    "lang": "py", "task": RUN_ITEMS, "id": "0b8ff4a1-7d34-4a0b-8f3b-a7f1c1c3b5a7", "shadow": None,
    "eta": None, "expires": "2026-05-04T12:00:00+00:00", "group": None, "group_index": None,
    "retries": 0, "timelimit": [None, None], "root_id": "r", "parent_id": None, "argsrepr": "()",
    "kwargsrepr": "{}", "origin": "gen1@host", "ignore_result": False, "stamps": {},
}  # fmt: skip
BODY: list[Any] = [
    [through(asdict(REQUEST))],
    {},
    {"callbacks": None, "errbacks": None, "chain": None},
]
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**30, 1e308, float("inf"), float("nan"), "", "x" * 20_000, "\x00",
    "\ud800", [], [[]], {}, {"a": []}, json.loads("[" * 900 + "]" * 900),
)  # fmt: skip


def test_headers_of_celery_are_accepted_and_what_is_not_used_is_dropped() -> None:
    found = parse_headers(HEADERS)
    assert {name: found[name] for name in ("task", "id", "expires")} == {
        name: HEADERS[name] for name in ("task", "id", "expires")
    }
    assert "timelimit" not in found
    parse_arguments(BODY)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("id", ODD),
        ("task", (None, 7, [], {}, "x" * 300)),
        ("expires", (7, [], "soon", "9999-12-31T23:59:59-14:00", "x" * 100)),
        ("retries", (-1, 1.5, "1", 10**30, None)),
        ("eta", ("2030-01-01", 7)),
    ],
)
def test_headers_that_are_not_valid_are_refused(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(InvalidInputError):
            parse_headers({**HEADERS, name: value})


def test_whatever_is_changed_is_accepted_or_refused() -> None:
    """Nothing else is raised, and what is accepted can be used."""
    drawn, counts = random.Random(35), {"accepted": 0, "refused": 0}
    kinds: tuple[tuple[Callable[[Any], object], Any], ...] = (
        (parse_headers, HEADERS), (parse_arguments, BODY), (_use_request, asdict(REQUEST)),
        (_use_result, asdict(RESULT)),
    )  # fmt: skip
    for _ in range(3000):
        kind, good = drawn.choice(kinds)
        try:
            kind(_change(through(good), drawn))
        except InvalidInputError:
            counts["refused"] += 1
        else:
            counts["accepted"] += 1
    assert min(counts.values()) > 300, counts


def _change(value: Any, drawn: random.Random) -> Any:
    """A message with one to three of its parts replaced, anywhere."""
    for _ in range(drawn.randint(1, 3)):
        inside = value
        while isinstance(inside, dict | list) and inside:
            key = drawn.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
            if not isinstance(inside[key], dict | list) or drawn.random() < 0.3:
                inside[key] = drawn.choice(ODD)
                break
            inside = inside[key]
    return value


def _use_request(value: Any) -> None:
    request = parse_request(value)
    assert request.describe()
    hash((request.kind, request.precision, request.lane, *request.options.items()))
    json.dumps([index for index, _ in request.items])


def _use_result(value: Any) -> None:
    result = parse_result(value)
    assert result.cost + result.seconds + result.num_batches >= 0
    json.dumps(asdict(result), default=str)


@pytest.mark.parametrize(
    "change",
    [{"clock": 1e300}, {"clock": -1.0}, {"pid": 10**30}, {"pid": -1}, {"gpu_count": 10**400},
     {"heartbeat": -1}, {"speeds": {"tone": 1e300}}, {"tasks": [None]}, {"engines": [[]]}],
)  # fmt: skip
def test_a_registry_entry_that_is_not_valid_is_none(change: dict[str, Any]) -> None:
    good = json.loads(WorkerInfo("w", "1").to_json())
    assert parse_worker_info(json.dumps(good)) is not None
    assert parse_worker_info(json.dumps({**good, **change})) is None


_LISTS = ("anyrig.w1",)
_MORE_THAN_IT_TAKES_AT_ONCE = 40


def _body(found: Any) -> str:
    return base64.b64encode(json.dumps(found).encode()).decode()


def _message(**changes: Any) -> dict[str, Any]:
    """A message as Celery writes it, with parts of it changed; None takes one out."""
    found: dict[str, Any] = {
        "body": _body([[], {}, {"callbacks": None, "errbacks": None, "chain": None}]),
        "content-encoding": "utf-8", "content-type": "application/json",
        "headers": {"lang": "py", "task": HEALTH, "id": "h1", "retries": 0, "eta": None,
                    "expires": None, "timelimit": [None, None], "argsrepr": "()"},
        "properties": {
            "correlation_id": "h1", "delivery_mode": 2, "priority": 0, "body_encoding": "base64",
            "delivery_tag": "t1", "delivery_info": {"exchange": "", "routing_key": "anyrig.w1"},
        },
    }  # fmt: skip
    for path, value in changes.items():
        *parents, name = path.replace("_", "-").replace("--", "_").split("/")
        inside = found
        for parent in parents:
            inside = inside[parent]
        if value is None:
            inside.pop(name)
        else:
            inside[name] = value
    return found


def _wrong_json() -> Iterator[bytes]:
    yield from (b"", b"\x00\xff\xfe garbage \x80", b"not json", b"{", b"[", b"null", b"17", b'"a"')
    yield from (b"[]", b"[[], {}, {}]", b"{}", b"[" * 100_000, b'{"a":' * 50_000, b"\xc3\x28")


def _wrong_envelopes() -> Iterator[dict[str, Any]]:
    things: tuple[Any, ...] = (17, "text", [], {}, [[]], {"a": {"b": []}}, True, 1e308)
    for part in ("body", "headers", "properties", "content_type", "content_encoding"):
        yield _message(**{part: None})
        for thing in things:
            yield _message(**{part: thing})
    for part in ("task", "id", "eta", "expires", "timelimit", "retries", "root__id", "group"):
        for thing in things:
            yield _message(**{f"headers/{part}": thing})
    for part in ("delivery__tag", "body__encoding", "delivery__info", "priority", "reply__to"):
        for thing in things:
            yield _message(**{f"properties/{part}": thing})
    for task in (HEALTH, RUN_ITEMS):
        for id in (None, "", 0, "a b", "x" * 1000):
            arguments = [] if task == HEALTH else [through(asdict(REQUEST))]
            message = _message(body=_body([arguments, {}, {}]), **{"headers/task": task})
            message["headers"]["id"] = id
            yield message
    yield _message(**{"headers/shadow": "hidden", "headers/called__directly": True})
    yield _message(**{"headers/task": None})
    yield _message(**{"properties/delivery__tag": None})
    for content in ("application/x-python-serialize", "application/x-yaml", "text/plain", "x"):
        yield _message(content_type=content)
    yield _message(**{"headers/compression": "bzip2"})
    yield _message(**{"headers/stamped__headers": 5, "headers/stamps": "x"})


def _wrong_bodies() -> Iterator[dict[str, Any]]:
    for body in (
        "!", "%%%", "YWJj", "é", base64.b64encode(b"\xff\xfe\x00").decode(),
        base64.b64encode(b"[" * 100_000).decode(), _body(None), _body(17), _body([]), _body([1]),
        _body([1, 2, 3]), _body([[], []]), _body([[], {}, []]), _body([{}, [], 5]), _body({"a": 1}),
        _body([[], {}, {"callbacks": "x", "errbacks": [5], "chord": {"a": 1}, "chain": [[]]}]),
        _body([[], {}, {"chain": [{"task": "os.system"}]}]),
    ):  # fmt: skip
        yield _message(body=body)
        yield _message(body=body, **{"headers/task": RUN_ITEMS})
    some: tuple[Any, ...] = ([], [1], [None], [[]], [{}], ["x"] * 50, [{"id": []}], [{"run": {}}])
    for arguments in some:
        yield _message(body=_body([arguments, {}, {}]), **{"headers/task": RUN_ITEMS})
        yield _message(body=_body([[], {"order": arguments}, {}]), **{"headers/task": RUN_ITEMS})


def _push(broker: Broker, *messages: bytes | str) -> None:
    with broker.redis as redis:
        for at, message in enumerate(messages):
            redis.lpush(_LISTS[at % len(_LISTS)], message)
        until(lambda: not any(map(redis.llen, _LISTS)), what="the garbage to be taken")


def _lives(broker: Broker, worker: Worker) -> None:
    """It was never started anew, answers, runs a task, and holds nothing of the garbage."""
    assert worker.process.poll() is None, worker.log()[-3000:]
    assert sent(broker, "w1", HEALTH)["status"] == "ok", worker.log()[-3000:]
    assert sent(broker, "w1", RUN_ITEMS, order("Still here."))["results"]
    until(lambda: not broker.living()["w1"].tasks, what="nothing to be held")
    until(lambda: broker.living()["w1"].pid == worker.process.pid, what="its own entry")


def test_garbage_in_a_queue_does_not_end_a_worker(lasting: tuple[Broker, Worker]) -> None:
    broker, worker = lasting
    kinds: tuple[list[Any], ...] = (
        list(_wrong_json()),
        [json.dumps(one) for one in _wrong_envelopes()],
        [json.dumps(one) for one in _wrong_bodies()],
        [b"x" * (64 << 20), json.dumps(_message(body="A" * (48 << 20)))],
        [b"garbage"] * _MORE_THAN_IT_TAKES_AT_ONCE,
        [json.dumps(_message(body="garbage"))] * _MORE_THAN_IT_TAKES_AT_ONCE,
    )
    for some in kinds:
        _push(broker, *some)
        _lives(broker, worker)
    assert "dropped" in worker.log()


def test_a_task_without_an_id_is_dropped_before_it_is_run(lasting: tuple[Broker, Worker]) -> None:
    """Its worker could neither list it nor store its result."""
    broker, worker = lasting
    ids: tuple[Any, ...] = (None, 7, [], "")
    for id in ids:
        message = _message(
            body=_body([[order("Who asks?")], {}, {}]), **{"headers/task": RUN_ITEMS}
        )
        message["headers"]["id"] = id
        before = worker.log().count("invalid message: id")
        _push(broker, json.dumps(message))
        until(lambda: worker.log().count("invalid message: id") > before, what="the message")  # noqa: B023
    _lives(broker, worker)


def test_random_changes_of_a_message_do_not_end_a_worker(lasting: tuple[Broker, Worker]) -> None:
    broker, worker = lasting
    drawn = random.Random(19)
    good = json.dumps(_message()).encode()
    some = []
    for _ in range(400):
        message = bytearray(good)
        for _ in range(drawn.randint(1, 6)):
            message[drawn.randrange(len(message))] = drawn.randrange(256)
        some.append(bytes(message))
    _push(broker, *some)
    _lives(broker, worker)


def _is_one_of(redis: Any, key: str, kinds: tuple[bytes, ...]) -> bool:
    return bool(redis.type(key) in kinds)


def test_a_key_of_the_wrong_type_does_not_end_a_worker(lasting: tuple[Broker, Worker]) -> None:
    broker, worker = lasting
    with broker.redis as redis:
        for key in ("anyrig.w1", "celery"):
            redis.delete(key)
            redis.set(key, "no list")
            until(partial(_is_one_of, redis, key, (b"none", b"list")), what="the key to be deleted")
    _lives(broker, worker)


def test_garbage_in_the_control_channel_does_not_end_a_worker(
    lasting: tuple[Broker, Worker],
) -> None:
    broker, worker = lasting
    with broker.redis as redis:
        channel = "/0.celery.pidbox"
        until(lambda: redis.publish(channel, b"garbage"), what="it to listen")
        for message in (
            *_wrong_json(), *(json.dumps(one).encode() for one in _wrong_bodies()),
            *(json.dumps(one).encode() for one in _wrong_envelopes()),
            json.dumps(_message(body=_body({"method": ["x"], "arguments": 5}))),
            json.dumps(_message(body=_body({"method": "stats", "arguments": 5, "reply_to": []}))),
        ):  # fmt: skip
            redis.publish(channel, message)
    _lives(broker, worker)
