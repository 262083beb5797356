"""`anyrig engines get` from a hub at 127.0.0.1 and from a folder: cut, damaged, incomplete."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from anyrig.speech.engines import engine_class
from anyrig.speech.models.vibevoice.checkpoint import list_tensors
from tests.conftest import Anyrig

PRESET = Path(__file__).parents[1] / "speech/models/vibevoice_realtime/en-Tiny_woman.pt"

COMMIT = "0123456789" * 4


def build_vits() -> dict[str, bytes]:
    config = {"model_type": "vits", "vocab_size": 30, "hidden_size": 64, "sampling_rate": 16000}
    tensor = np.zeros((30, 64), np.float32)
    return {
        "config.json": json.dumps(config).encode(),
        "model.safetensors": save({"text_encoder.embed_tokens.weight": tensor}),
        "vocab.json": json.dumps({"a": 1}).encode(),
        "tokenizer_config.json": json.dumps({"language": "fra"}).encode(),
    }


def build_vibevoice() -> dict[str, bytes]:
    config = {"model_type": "vibevoice", "text_config": {"vocab_size": 30, "hidden_size": 64}}
    tensor = np.zeros((30, 64), np.float32)
    names = {"model.language_model.embed_tokens.weight": "model-00001-of-00002.safetensors",
             "lm_head.weight": "model-00002-of-00002.safetensors"}  # fmt: skip
    return {
        "config.json": json.dumps(config).encode(),
        "model.safetensors.index.json": json.dumps({"weight_map": names}).encode(),
        **{file: save({name: tensor}) for name, file in names.items()},
        "tokenizer.json": b"{}" + b" " * 2000,
    }


def build_realtime() -> dict[str, bytes]:
    from benchmarks.vibevoice_realtime_reference import TINY

    tensors = {name: np.zeros(shape, np.float32) for name, shape in list_tensors(TINY).items()}
    return {"config.json": json.dumps(TINY).encode(), "model.safetensors": save(tensors)}


def build_unpublished(engine: str) -> dict[str, bytes]:
    """What its repository does not have: a person puts it beside the weights."""
    if engine != "vibevoice-realtime":
        return {}
    tokenizer = json.dumps({"model": {"type": "BPE"}}).encode()
    return {"tokenizer.json": tokenizer, "voices/en-Tiny_woman.pt": PRESET.read_bytes()}


FILES = {"vits": build_vits, "vibevoice": build_vibevoice, "vibevoice-realtime": build_realtime}
LARGE = {
    "vits": "model.safetensors",
    "vibevoice": "model-00001-of-00002.safetensors",
    "vibevoice-realtime": "model.safetensors",
}
TOKENIZER = {
    "vits": "vocab.json",
    "vibevoice": "tokenizer.json",
    "vibevoice-realtime": "tokenizer.json",
}
MODEL_TYPE = {"vibevoice-realtime": "vibevoice_streaming"}


class Hub(BaseHTTPRequestHandler):
    """Answers as the model hub does; it may cut a file off once, or damage it."""

    files: dict[str, bytes] = {}
    asked: list[str] = []
    cut_at: int | None = None
    damaged = ""

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/"):
            rows = [self.describe(name, data) for name, data in self.files.items()]
            self.send(json.dumps({"sha": COMMIT, "siblings": rows}).encode())
            return
        name = self.path.partition(f"/resolve/{COMMIT}/")[2]
        self.asked.append(f"{name} {self.headers.get('Range', '')}".strip())
        data = self.files[name]
        data = b"\0" * len(data) if name == self.damaged else data
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.send(data[start:])

    @staticmethod
    def describe(name: str, data: bytes) -> dict[str, Any]:
        row: dict[str, Any] = {"rfilename": name, "size": len(data)}
        row["blobId"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        if name.endswith(".safetensors"):
            row["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        return row

    def send(self, body: bytes) -> None:
        self.send_response(206 if self.headers.get("Range") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.cut_at is not None and len(body) > self.cut_at:
            body, self.close_connection = body[: self.cut_at], True
            type(self).cut_at = None
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    kind = type("OneHub", (Hub,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield kind
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".cache" / "anyrig" / "models"


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def spoil(files: dict[str, bytes], kind: str, engine: str) -> str:
    """Make the files of an engine wrong; the words that the error must have."""
    large = LARGE[engine]
    if kind == "no tokenizer":
        del files[TOKENIZER[engine]]
        return TOKENIZER[engine]
    if kind == "shape":
        tensors = load(files[large])
        name = next(name for name in tensors if "embed_tokens" in name)
        rows, width = tensors[name].shape
        files[large] = save(tensors | {name: np.zeros((rows + 1, width), np.float32)})
        return (
            f"{large}: {name} has the shape [{rows + 1}, {width}],"
            f" and config.json asks for [{rows}, {width}]"
        )
    if kind == "no tensor":
        tensors = load(files[large])
        name = next(name for name in tensors if "embed_tokens" in name)
        files[large] = save({"other": tensors.pop(name), **tensors})
        return "embed_tokens.weight"
    if kind == "cut off":
        files[large] = files[large][:-100]
        return f"{large} is incomplete"
    if kind == "not safetensors":
        files[large] = b"<html>Please log in</html>" * 10
        return f"{large} is not a safetensors file"
    files["config.json"] = json.dumps({"model_type": "bert"}).encode()
    return f"contains bert, not {MODEL_TYPE.get(engine, engine)}"


WRONG = ("no tokenizer", "shape", "no tensor", "cut off", "not safetensors", "other model")


@pytest.mark.parametrize("engine", FILES)
def test_a_download_that_was_cut_goes_on_and_ends_ready(
    anyrig: Anyrig, hub: type[Hub], models: Path, engine: str
) -> None:
    hub.files = FILES[engine]()
    write(models / engine, build_unpublished(engine))
    large = LARGE[engine]
    hub.cut_at = 5000
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode == 4
    assert "Run it again to resume" in done.stderr
    assert not (models / engine / large).exists()
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode == 0, done.stderr
    assert f"{large} bytes=5000-" in hub.asked
    assert done.stdout.splitlines()[-1] == f'Next: anyrig speak "Hello." --engine {engine}'
    assert (models / engine / large).read_bytes() == hub.files[large]
    assert not list((models / engine).rglob("*.part"))


@pytest.mark.parametrize("engine", FILES)
def test_a_file_with_another_hash_is_named_and_never_used(
    anyrig: Anyrig, hub: type[Hub], models: Path, engine: str
) -> None:
    hub.files, hub.damaged = FILES[engine](), LARGE[engine]
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode == 4
    assert f"{hub.damaged} does not match its published checksum" in done.stderr
    assert not (models / engine / hub.damaged).exists()


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("engine", FILES)
def test_what_is_wrong_with_weights_is_named_before_anything_loads(
    anyrig: Anyrig, hub: type[Hub], models: Path, tmp_path: Path, engine: str, kind: str
) -> None:
    files = FILES[engine]() | (unpublished := build_unpublished(engine))
    words = spoil(files, kind, engine)
    hub.files = {name: data for name, data in files.items() if name not in unpublished}
    write(models / engine, {name: files[name] for name in unpublished if name in files})
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode in (2, 4)
    assert words in done.stderr
    assert engine_class(engine).info.repository in done.stderr  # what to do
    spoken = anyrig("speak", "Hello.", "--engine", engine, "-o", "a.wav")
    assert spoken.returncode == done.returncode
    assert words in spoken.stderr
    source = write(tmp_path / "stick", files)
    before = sorted((models / engine).rglob("*"))
    done = anyrig("engines", "get", engine, "--yes", "--from", str(source))
    assert done.returncode in (2, 4)
    assert words in done.stderr
    assert sorted((models / engine).rglob("*")) == before


@pytest.mark.parametrize("engine", FILES)
def test_a_folder_serves_where_there_is_no_network(
    anyrig: Anyrig, hub: type[Hub], models: Path, tmp_path: Path, engine: str
) -> None:
    hub.files = FILES[engine]()
    elsewhere = write(tmp_path / "elsewhere", build_unpublished(engine))
    done = anyrig("engines", "get", engine, "--yes", "--to", str(elsewhere))
    assert done.returncode == 0, done.stderr
    hub.files = {}
    offline = {"HF_HUB_OFFLINE": "1"}
    refused = anyrig("engines", "get", engine, "--yes", environment=offline)
    assert refused.returncode == 4
    assert str(models / engine) in refused.stderr
    config = elsewhere / "config.json"
    right = config.read_text()
    config.write_text(right + " ")
    done = anyrig("engines", "get", engine, "--yes", "--from", str(elsewhere), environment=offline)
    assert done.returncode == 4
    assert f"{config} is damaged" in done.stderr
    config.write_text(right)
    done = anyrig("engines", "get", engine, "--yes", "--from", str(elsewhere), environment=offline)
    assert done.returncode == 0, done.stderr
    assert (models / engine / LARGE[engine]).is_file()
    done = anyrig("engines", "get", engine, "--yes", "--from", str(config))
    assert done.returncode == 2
    assert "is not a folder" in done.stderr


def test_what_no_hub_has_is_named_and_nothing_is_downloaded_twice(
    anyrig: Anyrig, hub: type[Hub], models: Path
) -> None:
    """The tokenizer of vibevoice-realtime is another model's, its presets are on no hub."""
    engine = "vibevoice-realtime"
    hub.files = FILES[engine]()
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode == 4
    assert "tokenizer.json, voices/*.pt" in done.stderr
    assert "Qwen/Qwen2.5-0.5B" in done.stderr
    assert "demo/voices/streaming_model" in done.stderr
    write(models / engine, build_unpublished(engine))
    asked = list(hub.asked)
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode == 0, done.stderr
    assert hub.asked == asked
    assert done.stdout.splitlines()[-1] == f'Next: anyrig speak "Hello." --engine {engine}'


def test_a_voice_of_hibari_that_is_not_the_published_one_is_named(
    anyrig: Anyrig, hub: type[Hub]
) -> None:
    """Its hash is known beforehand: even a hub that agrees with itself is not believed."""
    hub.files = {"voices/bf_emma.int8.onnx": b"another voice" * 1000}
    done = anyrig("engines", "get", "hibari", "--yes")
    assert done.returncode == 4
    assert "bf_emma.int8.onnx" in done.stderr
    assert "SHA-256 differs" in done.stderr
