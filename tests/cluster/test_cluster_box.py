"""The coordinator's box over real HTTP: put once, taken once, bounded in every way."""

from __future__ import annotations

import http.client
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anyrig.cli.coordinator_place import bound
from anyrig.cluster import box as client
from anyrig.cluster import notice, parcel
from anyrig.cluster.box_server import Box, BoxServer
from anyrig.cluster.calls import Calls
from anyrig.cluster.card import Offer
from anyrig.cluster.shard import Answer, Order
from anyrig.errors import WorkError
from anyrig.speech.booth import Recording
from tests.cluster.conftest import Broker, until

KEY = "a key that nobody guesses"
ID = "0123456789abcdef01234567"


class Served:
    """A box that answers."""

    def __init__(self, box: Box) -> None:
        door = bound("127.0.0.1", 0, "--box-port")
        self.box, self.port = box, int(door.getsockname()[1])
        self._server = BoxServer(box, KEY, [door])
        self._server.start()
        self.close = self._server.close

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: bytes | None = None, key: str = KEY) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, body, {"Authorization": f"Bearer {key}"})
        found = connection.getresponse()
        found.read()
        connection.close()
        return found.status

    def files(self) -> list[str]:
        return sorted(one.name for one in self.box.folder.iterdir())


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(**bounds: float) -> Served:
        started.append(Served(Box(tmp_path / "box", **bounds)))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for one in started:
        one.close()


def answer(size: int = 100_000) -> Answer:
    return Answer(
        ID, {3: Recording(random.randbytes(size), ("too loud",), 2)}, cost=12.0, seconds=0.5
    )


def test_an_answer_is_taken_out_once(serve: Callable[..., Served]) -> None:
    served, whole = serve(), answer()
    sent = client.put(served.url, KEY, whole)
    assert sent.recordings == {}
    assert sent.box == served.url
    client.put(served.url, KEY, whole)  # a shard that was done twice takes its own place
    assert served.files() == [f"{ID}.json"]
    assert client.get(sent, KEY) == whole
    assert served.files() == []
    with pytest.raises(WorkError, match="404"):
        client.get(sent, KEY)


def test_what_is_not_wanted_is_refused(serve: Callable[..., Served]) -> None:
    served = serve(most_bytes=1000, most_in_all=1500)
    assert served.ask("GET", "/health", key="") == 200
    for key in ("", "wrong", KEY[:-1]):
        assert served.ask("PUT", f"/{ID}", b"x", key) == 401
        assert served.ask("GET", f"/{ID}", key=key) == 401
    for name in ("short", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "x" * 24, "0" * 65):
        assert served.ask("PUT", f"/{name}", b"x") in (404, 405), name
    assert served.ask("PUT", f"/{ID}", b"x" * 1001) == 413
    assert served.ask("PUT", f"/{ID}", b"x" * 1000) == 201
    assert served.ask("PUT", "/" + "b" * 24, b"x" * 1000) == 507  # it is full
    assert served.ask("GET", f"/{ID}") == 200
    assert served.ask("DELETE", f"/{ID}", key="") == 401
    assert served.ask("DELETE", f"/{ID}") == 200
    assert served.ask("PUT", "/" + "b" * 24, b"x" * 1000) == 201
    assert served.ask("DELETE", f"/{ID}") == 404
    assert served.ask("POST", f"/{ID}", b"x") == 405


def test_half_an_answer_is_none(serve: Callable[..., Served]) -> None:
    served = serve()
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.putrequest("PUT", f"/{ID}")
    connection.putheader("Authorization", f"Bearer {KEY}")
    connection.putheader("Content-Length", "100000")
    connection.endheaders()
    connection.send(b"x" * 50_000)
    until(lambda: served.files(), what="the first part")
    connection.close()
    until(lambda: not served.files(), what="the part to be gone")
    assert served.ask("GET", f"/{ID}") == 404
    # Whoever leaves while it is sent can come again.
    served.ask("PUT", f"/{ID}", random.randbytes(30_000_000))
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.request("GET", f"/{ID}", headers={"Authorization": f"Bearer {KEY}"})
    connection.getresponse().read(1000)
    connection.close()
    assert served.ask("GET", "/health") == 200
    assert served.files() == [f"{ID}.json"]


def test_what_nobody_fetched_is_taken_away(tmp_path: Path) -> None:
    folder = tmp_path / "box"
    box = Box(folder, ttl_s=60)
    old, new, part = folder / f"{ID}.json", folder / f"{'a' * 24}.json", folder / "x.part"
    for path in (old, new, part):
        path.write_bytes(b"x")
    os.utime(old, (time.time() - 61,) * 2)
    box.sweep()
    assert not old.exists()
    assert new.exists()
    Box(folder, ttl_s=60)  # a new start clears away what was half written
    assert sorted(one.name for one in folder.iterdir()) == [new.name]


def test_a_run_finds_the_box_by_the_coordinators_notice(
    broker: Broker, serve: Callable[..., Served]
) -> None:
    served, link = serve(), broker.link
    notice.write(link, notice.Notice("1", 1, box=served.url, box_key=KEY))
    calls = Calls(
        link, Offer("tone", "1", "", ""), precision="fp32", options={}, lane="bulk", small=False
    )
    try:
        calls.renew()
        until(lambda: calls.box == served.url)
        assert calls.box_key == KEY
    finally:
        calls.close()
        link.close()


def test_large_answers_go_by_the_box(
    broker: Broker, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's side: what the broker does not take lies in the box, and its key is found."""
    served, link = serve(), broker.link
    notice.write(link, notice.Notice("1", 1, box=served.url, box_key=KEY))
    monkeypatch.setattr(parcel, "MOST_BYTES", 1000)
    order = Order(ID, "run", Offer("tone", "1", "", ""), (), box=served.url)
    whole = answer()
    sent = parcel.fitting(link, "", order, whole)
    assert (sent.box, sent.recordings) == (served.url, {})
    assert client.get(sent, KEY) == whole
    # Nothing, least of all the key, goes to an address that only an order names.
    elsewhere = parcel.fitting(link, "", replace(order, box=served.url + "/x"), whole)
    assert elsewhere.box == ""
    link.close()


def test_a_box_that_cannot_be_reached_is_left_alone_for_a_while_and_nobody_is_blamed(
    broker: Broker, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, link = serve(), broker.link
    notice.write(link, notice.Notice("1", 1, box=served.url, box_key=KEY))
    over = Calls(link, Offer("tone", "1", "", ""), precision="fp32", options={},
                       lane="bulk", small=False)  # fmt: skip
    whole = answer()

    def read(where: str) -> Answer | None:
        told = {"status": "SUCCESS", "result": replace(whole, recordings={}, box=where).plain()}
        return over._read(ID, json.dumps(told).encode())

    try:
        over._renew()
        assert over.box == served.url
        client.put(served.url, KEY, whole)
        assert read(served.url) == whole
        lost = read(served.url + "/elsewhere")  # a box of before
        assert lost is not None
        assert lost.is_lost
        assert over.box == served.url
        lost = read(served.url)  # it was taken out already
        assert lost is not None
        assert lost.is_lost
        assert over.box == ""
        over._renew()
        assert over.box == ""
        monkeypatch.setattr(over, "_open_box_at", 0.0)
        over._renew()
        assert over.box == served.url
    finally:
        over.close()
        link.close()
