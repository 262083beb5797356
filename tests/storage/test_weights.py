"""Weights: hashed once, downloaded from a hub, resumed after an interruption."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.storage import weights

LARGE = bytes(range(256)) * 9000
SMALL = b'{"sampling_rate": 16000}'
COMMIT = "c0ffee" * 6 + "1234"
VOICE = weights.WeightSource("own/voice")


class Hub(BaseHTTPRequestHandler):
    """Answers as the hub does, from a table; it may cut a file off, or damage it."""

    files = {"model.safetensors": LARGE, "config.json": SMALL, "voices.pt": b"pickle"}
    cut_at: int | None = None
    damage = False
    ranges: list[str] = []
    status = 200

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/own/voice/revision/main"):
            siblings = [self.describe(name, data) for name, data in self.files.items()]
            self.send(json.dumps({"id": "own/voice", "sha": COMMIT, "siblings": siblings}).encode())
            return
        data = self.files[self.path.removeprefix(f"/own/voice/resolve/{COMMIT}/")]
        requested = self.headers.get("Range")
        start = int(requested.removeprefix("bytes=").rstrip("-")) if requested else 0
        if requested:
            self.ranges.append(requested)
        body = b"\0" * len(data) if self.damage and len(data) > 100 else data
        self.send(body[start:])

    def describe(self, name: str, data: bytes) -> dict[str, object]:
        digest = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        row: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": digest}
        if len(data) > 1000:
            sha256 = hashlib.sha256(data).hexdigest()
            row["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 134}
        return row

    def send(self, body: bytes) -> None:
        self.send_response(206 if self.headers.get("Range") else self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.cut_at is not None and len(body) > self.cut_at:
            body, self.close_connection = body[: self.cut_at], True
            type(self).cut_at = None
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def hub() -> Iterator[tuple[type[Hub], str]]:
    kind = type("OneHub", (Hub,), {"ranges": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield kind, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_files_are_downloaded_and_verified_except_pickles(
    hub: tuple[type[Hub], str], tmp_path: Path
) -> None:
    progress: list[tuple[str, int, int]] = []
    folder = tmp_path / "v"
    weights.download_weights(
        VOICE, folder, endpoint=hub[1], on_progress=lambda *event: progress.append(event)
    )
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json", "model.safetensors", weights.ORIGIN_FILE
    ]  # fmt: skip
    assert (folder / "model.safetensors").read_bytes() == LARGE
    assert (folder / "config.json").read_bytes() == SMALL
    assert progress[-1][1:] == (len(LARGE) + len(SMALL),) * 2
    assert json.loads((folder / weights.ORIGIN_FILE).read_text())["revision"] == COMMIT
    before = (folder / "model.safetensors").stat().st_mtime_ns
    weights.download_weights(VOICE, folder, endpoint=hub[1])
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    (folder / "config.json").write_text("changed by hand")
    weights.download_weights(VOICE, folder, endpoint=hub[1])
    assert (folder / "config.json").read_bytes() == SMALL


def test_an_interrupted_download_is_resumed(hub: tuple[type[Hub], str], tmp_path: Path) -> None:
    kind, url = hub
    kind.cut_at = 100_000
    with pytest.raises(MissingWeightsError, match="could not be downloaded") as caught:
        weights.download_weights(VOICE, tmp_path, endpoint=url)
    assert str(tmp_path) in caught.value.hint
    assert not (tmp_path / "model.safetensors").exists()
    weights.download_weights(VOICE, tmp_path, endpoint=url)
    assert kind.ranges == ["bytes=100000-"]
    assert (tmp_path / "model.safetensors").read_bytes() == LARGE
    assert not list(tmp_path.glob("*.part"))


def test_an_empty_file_of_a_repository_is_created(
    hub: tuple[type[Hub], str], tmp_path: Path
) -> None:
    kind, url = hub
    kind.files = {"merges.txt": b"", "config.json": SMALL, "tokenizer/added.json": b""}
    for _ in range(2):
        found = weights.download_weights(VOICE, tmp_path, endpoint=url)
        assert [path.read_bytes() for path in found] == [b"", SMALL, b""]
    assert not list(tmp_path.rglob("*.part"))


def test_a_part_of_another_file_is_downloaded_again(
    hub: tuple[type[Hub], str], tmp_path: Path
) -> None:
    (tmp_path / "model.safetensors.part").write_bytes(b"x" * 5000)
    weights.download_weights(VOICE, tmp_path, endpoint=hub[1])
    assert (tmp_path / "model.safetensors").read_bytes() == LARGE


def test_a_damaged_file_never_gets_its_name(hub: tuple[type[Hub], str], tmp_path: Path) -> None:
    hub[0].damage = True
    with pytest.raises(MissingWeightsError, match="model.safetensors does not match"):
        weights.download_weights(VOICE, tmp_path, endpoint=hub[1])
    assert not (tmp_path / "model.safetensors").exists()
    hub[0].damage = False
    weights.download_weights(VOICE, tmp_path, endpoint=hub[1])
    assert (tmp_path / "model.safetensors").read_bytes() == LARGE


@pytest.mark.parametrize("name", ["../evil.json", "/etc/evil.json", "a\\..\\evil.json"])
def test_a_file_outside_the_folder_is_refused(
    hub: tuple[type[Hub], str], tmp_path: Path, name: str
) -> None:
    hub[0].files = {name: SMALL}
    with pytest.raises(InvalidInputError, match="outside"):
        weights.download_weights(VOICE, tmp_path, endpoint=hub[1])


def test_named_files_go_to_a_folder_by_their_names(
    hub: tuple[type[Hub], str], tmp_path: Path
) -> None:
    kind, url = hub
    kind.files = {"a/one.pth": b"pickle", "b/one.pth.md5": b"x", "b/config.json": SMALL}
    weights.download_weights(VOICE, tmp_path, endpoint=url)
    one = weights.WeightSource("own/voice", ("one.pth", "b/*.md5"), folder="voices")
    found = weights.download_weights(one, tmp_path, endpoint=url)
    assert found == [tmp_path / "voices" / name for name in ("one.pth", "one.pth.md5")]
    origin = json.loads((tmp_path / weights.ORIGIN_FILE).read_text())
    assert (origin["repository"], origin["revision"]) == ("own/voice", COMMIT)
    assert sorted(origin["sha256"]) == ["b/config.json", "voices/one.pth", "voices/one.pth.md5"]
    with pytest.raises(InvalidInputError, match="own/voice contains none of two.pth"):
        weights.download_weights(replace(one, files=("two.pth",)), tmp_path, endpoint=url)


def test_files_of_github_are_checked_and_no_token_is_sent(
    hub: tuple[type[Hub], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, url = hub
    asked: list[tuple[str, str | None]] = []

    def answer(self: Hub) -> None:
        asked.append((self.path, self.headers.get("Authorization")))
        if self.path == f"/repos/own/code/git/trees/{COMMIT}?recursive=1":
            blob = {"path": "demo/a.pt", "type": "blob", "size": len(SMALL),
                    "sha": self.describe("", SMALL)["blobId"]}  # fmt: skip
            self.send(json.dumps({"tree": [{"path": "demo", "type": "tree"}, blob]}).encode())
        else:
            self.send(b"\0" * len(SMALL) if self.damage else SMALL)

    monkeypatch.setattr(kind, "do_GET", answer)
    monkeypatch.setattr(weights, "GITHUB_API", url)
    monkeypatch.setattr(weights, "GITHUB_FILES", url)
    code = weights.WeightSource("github.com/own/code", ("demo/*.pt",), COMMIT, folder="voices")
    kind.damage = True
    with pytest.raises(MissingWeightsError, match="published checksum"):
        weights.download_weights(code, tmp_path, token="secret")
    kind.damage = False
    assert weights.download_weights(code, tmp_path, token="secret") == [tmp_path / "voices/a.pt"]
    assert (tmp_path / "voices/a.pt").read_bytes() == SMALL
    assert asked[-1] == (f"/own/code/{COMMIT}/demo/a.pt", None)
    assert {token for _, token in asked} == {None}


@pytest.mark.parametrize(("code", "reason"), [(401, "token"), (403, "licence"), (404, "no such")])
def test_refusals_of_the_hub(
    hub: tuple[type[Hub], str], tmp_path: Path, code: int, reason: str
) -> None:
    hub[0].status = code
    with pytest.raises(MissingWeightsError, match=reason):
        weights.download_weights(VOICE, tmp_path, endpoint=hub[1])


def test_hashes_are_remembered_until_a_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(b"one")
    first = weights.hash_files([path])
    assert weights.hash_files([path]) == first
    hashes = next(tmp_path.glob(".anyrig*"))
    known = json.loads(hashes.read_text())
    known["a.onnx"][1] = "remembered"
    hashes.write_text(json.dumps(known))
    assert weights.hash_file(path) == "remembered"
    path.write_bytes(b"other")
    assert weights.hash_file(path) == hashlib.sha256(b"other").hexdigest()
    hashes.write_text("not JSON")
    assert weights.hash_file(path) == hashlib.sha256(b"other").hexdigest()
