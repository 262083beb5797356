"""Weights: hashed once, fetched from a hub, gone on with when cut off."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.storage import weights

LARGE = bytes(range(256)) * 9000
SMALL = b'{"sampling_rate": 16000}'


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(BaseHTTPRequestHandler):
    """Answers as the hub does, from a table; it may cut a file off, or damage it."""

    files = {"model.safetensors": LARGE, "config.json": SMALL, "voices.pt": b"pickle"}
    listed: list[str] = []
    cut_at: int | None = None
    damage = False
    ranges: list[str] = []
    status = 200

    def do_GET(self) -> None:
        if self.status != 200:
            return self._send(self.status, b"{}")
        if self.path.startswith("/api/models/own/voice/revision/"):
            return self._send(200, b'{"sha": "abc123"}')
        if self.path.startswith("/api/models/own/voice/tree/abc123"):
            return self._tree()
        data = self.files[self.path.removeprefix("/own/voice/resolve/abc123/")]
        asked = self.headers.get("Range")
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if asked:
            type(self).ranges.append(asked)
        body = data[start:]
        if self.damage and len(data) > 100:
            body = b"\0" * len(body)
        self._send(206 if asked else 200, body)
        return None

    def _tree(self) -> None:
        rows = []
        for name in self.listed or self.files:
            data = self.files.get(name, b"")
            row = {"type": "file", "path": name, "size": len(data), "oid": _blob(data)}
            if len(data) > 1000:
                row["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data)}
            rows.append(row)
        if "cursor" in self.path:
            return self._send(200, json.dumps(rows[1:]).encode())
        link = f'<http://{self.headers["Host"]}{self.path}&cursor=1>; rel="next"'
        return self._send(200, json.dumps(rows[:1]).encode(), link)

    def _send(self, code: int, body: bytes, link: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        if link:
            self.send_header("Link", link)
        self.end_headers()
        if self.cut_at is not None and len(body) > self.cut_at:
            body = body[: self.cut_at]
            type(self).cut_at = None
            self.wfile.write(body)
            self.close_connection = True
            return
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[tuple[type[Hub], str]]:
    kind = type("OneHub", (Hub,), {"ranges": [], "cut_at": None, "damage": False})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield kind, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_files_are_fetched_and_checked_and_pickles_stay_there(
    hub: tuple[type[Hub], str], tmp_path: Path
) -> None:
    told: list[tuple[str, int, int]] = []
    weights.download_weights(
        "own/voice", tmp_path / "v", endpoint=hub[1], on_progress=lambda *a: told.append(a)
    )
    assert (tmp_path / "v" / "model.safetensors").read_bytes() == LARGE
    assert (tmp_path / "v" / "config.json").read_bytes() == SMALL
    assert not (tmp_path / "v" / "voices.pt").exists()
    assert told[-1][1:] == (len(LARGE) + len(SMALL),) * 2
    assert json.loads((tmp_path / "v" / weights.ORIGIN_FILE).read_text())["revision"] == "abc123"


def test_a_fetch_that_was_cut_off_goes_on_where_it_stopped(
    hub: tuple[type[Hub], str], tmp_path: Path
) -> None:
    kind, url = hub
    kind.cut_at = 100_000
    with pytest.raises(MissingWeightsError, match="could not be downloaded") as caught:
        weights.download_weights("own/voice", tmp_path, endpoint=url)
    assert str(tmp_path) in caught.value.hint
    assert not (tmp_path / "model.safetensors").exists()
    weights.download_weights("own/voice", tmp_path, endpoint=url)
    assert kind.ranges == ["bytes=100000-"]
    assert (tmp_path / "model.safetensors").read_bytes() == LARGE
    assert not list(tmp_path.glob("*.part"))


def test_whole_files_are_not_fetched_again(hub: tuple[type[Hub], str], tmp_path: Path) -> None:
    weights.download_weights("own/voice", tmp_path, endpoint=hub[1])
    before = (tmp_path / "model.safetensors").stat().st_mtime_ns
    weights.download_weights("own/voice", tmp_path, endpoint=hub[1])
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == before


def test_a_damaged_file_never_gets_its_name(hub: tuple[type[Hub], str], tmp_path: Path) -> None:
    hub[0].damage = True
    with pytest.raises(MissingWeightsError, match="does not match the hub"):
        weights.download_weights("own/voice", tmp_path, endpoint=hub[1])
    assert not (tmp_path / "model.safetensors").exists()


def test_a_part_of_something_else_is_begun_anew(hub: tuple[type[Hub], str], tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.part").write_bytes(b"x" * 5000)
    weights.download_weights("own/voice", tmp_path, endpoint=hub[1])
    assert (tmp_path / "model.safetensors").read_bytes() == LARGE


@pytest.mark.parametrize("name", ["../evil.json", "/etc/evil.json", "a\\..\\evil.json"])
def test_a_file_outside_the_folder_is_refused(
    hub: tuple[type[Hub], str], tmp_path: Path, name: str
) -> None:
    hub[0].listed = [name]
    hub[0].files = {name: SMALL}
    with pytest.raises(InvalidInputError, match="outside"):
        weights.download_weights("own/voice", tmp_path, endpoint=hub[1])


@pytest.mark.parametrize(("code", "said"), [(401, "token"), (403, "licence"), (404, "no such")])
def test_refusals_of_the_hub_are_put_into_words(
    hub: tuple[type[Hub], str], tmp_path: Path, code: int, said: str
) -> None:
    hub[0].status = code
    with pytest.raises(MissingWeightsError, match=said):
        weights.download_weights("own/voice", tmp_path, endpoint=hub[1])


def test_without_a_network_the_folder_to_fill_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingWeightsError, match="no answer") as caught:
        weights.download_weights("own/voice", tmp_path / "v", endpoint="http://127.0.0.1:9")
    assert str(tmp_path / "v") in caught.value.hint


def test_hashes_are_remembered_until_a_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(b"one")
    first = weights.hash_files([path])
    book = next(tmp_path.glob(".anyrig*"))
    assert weights.hash_files([path]) == first
    known = json.loads(book.read_text())
    known["a.onnx"][1] = "from the book"
    book.write_text(json.dumps(known))
    assert weights.hash_file(path) == "from the book"
    path.write_bytes(b"other")
    assert weights.hash_file(path) == hashlib.sha256(b"other").hexdigest()
    book.write_text("no json")
    assert weights.hash_file(path) == hashlib.sha256(b"other").hexdigest()
