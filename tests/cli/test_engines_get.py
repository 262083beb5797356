"""`anyrig engines get` from a hub at 127.0.0.1 and from a folder: cut, damaged, incomplete."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from anyrig.backends.onnx_graph import add_outputs
from anyrig.speech.engines import engine_class
from anyrig.speech.models.vibevoice.checkpoint import list_tensors
from anyrig.storage import weights
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
    return {
        "config.json": json.dumps(TINY).encode(),
        "model.safetensors": save(tensors),
        "tokenizer.json": json.dumps({"model": {"type": "BPE"}}).encode(),
        "voices/en-Tiny_woman.pt": PRESET.read_bytes(),
    }


FILES = {"vits": build_vits, "vibevoice": build_vibevoice, "vibevoice-realtime": build_realtime}
ELSEWHERE = {
    "tokenizer.json": ("Qwen/Qwen2.5-0.5B", "tokenizer.json"),
    "voices/en-Tiny_woman.pt": (
        "microsoft/VibeVoice", "demo/voices/streaming_model/en-Tiny_woman.pt",
    ),
}  # fmt: skip
"""Of vibevoice-realtime: the tokenizer is another model's, the presets are on GitHub."""
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
    """Answers as the model hub and GitHub do; it may cut a file off once, or damage it."""

    repositories: dict[str, dict[str, bytes]] = {}
    asked: list[str] = []
    cut_at: int | None = None
    damaged = ""

    @classmethod
    def publish(cls, engine: str, files: dict[str, bytes]) -> None:
        """Put the files of an engine into the repositories where they are published."""
        cls.repositories = {engine_class(engine).info.repository: {}}
        for name, data in files.items():
            where = ELSEWHERE.get(name) if engine == "vibevoice-realtime" else None
            repository, path = where or (engine_class(engine).info.repository, name)
            cls.repositories.setdefault(repository, {})[path] = data

    def do_GET(self) -> None:
        api = re.match(r"/(api/models|repos)/([^/]+/[^/]+)/", self.path)
        file = re.match(r"/([^/]+/[^/]+)/(resolve/)?[0-9a-f]{40}/(.+)", self.path)
        if (found := api or file) is None or self.find(found) is None:
            self.send_error(404)
        elif api:
            rows = [self.describe(name, data) for name, data in (self.find(api) or {}).items()]
            self.send(json.dumps({"sha": COMMIT, "siblings": rows, "tree": rows}).encode())
        else:
            name, files = found[3], self.find(found) or {}
            self.asked.append(f"{name} {self.headers.get('Range', '')}".strip())
            data = b"\0" * len(files[name]) if name == self.damaged else files[name]
            start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
            self.send(data[start:])

    def find(self, found: re.Match[str]) -> dict[str, bytes] | None:
        return self.repositories.get(found[2] if found[1] in ("api/models", "repos") else found[1])

    @staticmethod
    def describe(name: str, data: bytes) -> dict[str, Any]:
        row: dict[str, Any] = {"rfilename": name, "path": name, "type": "blob", "size": len(data)}
        row["blobId"] = row["sha"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
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
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", url)
    monkeypatch.setattr(weights, "GITHUB_API", url)
    monkeypatch.setattr(weights, "GITHUB_FILES", url)
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
    hub.publish(engine, files := FILES[engine]())
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
    assert (models / engine / large).read_bytes() == files[large]
    assert not list((models / engine).rglob("*.part"))


@pytest.mark.parametrize("engine", FILES)
def test_a_file_with_another_hash_is_named_and_never_used(
    anyrig: Anyrig, hub: type[Hub], models: Path, engine: str
) -> None:
    hub.publish(engine, FILES[engine]())
    hub.damaged = LARGE[engine]
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode == 4
    assert f"{hub.damaged} does not match its published checksum" in done.stderr
    assert not (models / engine / hub.damaged).exists()


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("engine", FILES)
def test_what_is_wrong_with_weights_is_named_before_anything_loads(
    anyrig: Anyrig, hub: type[Hub], models: Path, tmp_path: Path, engine: str, kind: str
) -> None:
    words = spoil(files := FILES[engine](), kind, engine)
    hub.publish(engine, files)
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode in (2, 4)
    assert words in done.stderr
    is_another_models = kind == "no tokenizer" and engine == "vibevoice-realtime"
    own = engine_class(engine).info.repository
    assert ("Qwen/Qwen2.5-0.5B" if is_another_models else own) in done.stderr  # what to do
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
    hub.publish(engine, FILES[engine]())
    elsewhere = tmp_path / "elsewhere"
    done = anyrig("engines", "get", engine, "--yes", "--to", str(elsewhere))
    assert done.returncode == 0, done.stderr
    hub.repositories = {}
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


def test_a_repository_that_is_gone_is_named_and_nothing_is_downloaded_twice(
    anyrig: Anyrig, hub: type[Hub]
) -> None:
    engine = "vibevoice-realtime"
    hub.publish(engine, FILES[engine]())
    presets = hub.repositories.pop("microsoft/VibeVoice")
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode == 4
    assert "github.com/microsoft/VibeVoice could not be downloaded: 404" in done.stderr
    hub.repositories["microsoft/VibeVoice"] = presets
    asked = len(hub.asked)
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode == 0, done.stderr
    assert hub.asked[asked:] == list(presets)
    assert done.stdout.splitlines()[-1] == f'Next: anyrig speak "Hello." --engine {engine}'


def test_voices_of_piper_are_downloaded_one_by_one(
    anyrig: Anyrig, hub: type[Hub], models: Path
) -> None:
    """Its repository has more than a hundred: nobody wants them all."""
    places = {"one": "es/es_ES/one/low", "two": "es/es_MX/two/low"}
    files = {}
    for name, folder in places.items():
        language = folder.split("/")[1]
        config = {"audio": {"sample_rate": 16000}, "espeak": {"voice": "es"},
                  "phoneme_id_map": {"_": [0], "^": [1], "$": [2]}}  # fmt: skip
        files[f"{folder}/{language}-{name}-low.onnx"] = add_outputs(b"", ["audio"])
        files[f"{folder}/{language}-{name}-low.onnx.json"] = json.dumps(config).encode()
    hub.publish("piper", files)
    refused = anyrig("engines", "get", "piper", "--yes")
    assert refused.returncode == 2
    assert "--voice es_ES-davefx-medium" in refused.stderr
    assert hub.asked == []
    done = anyrig("engines", "get", "piper", "--yes", "--voice", "es_ES-one-low")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (models / "piper").glob("es*")) == [
        "es_ES-one-low.onnx", "es_ES-one-low.onnx.json",
    ]  # fmt: skip
    assert done.stdout.splitlines()[-1].endswith("--engine piper --voice es_ES-one-low")
    none = anyrig("engines", "get", "piper", "--yes", "--voice", "es_ES-none-low")
    assert none.returncode == 2
    assert "contains none of es_ES-none-low.onnx" in none.stderr
    other = anyrig("engines", "get", "vits", "--yes", "--voice", "anna")
    assert other.returncode == 2


@pytest.mark.parametrize("engine", ["xtts", "indextts", "indextts2"])
def test_weights_that_are_pickles_are_downloaded_by_name(
    anyrig: Anyrig, hub: type[Hub], models: Path, engine: str
) -> None:
    """The engine reads them as plain tensors; what it does not read stays where it is."""
    hub.repositories = {}
    expected: set[str] = set()
    for source in engine_class(engine).info.sources:
        names = [pattern.replace("*", "_") for pattern in source.files]
        files = {name: name.encode() for name in [*names, "optimizer.pth"]}
        hub.repositories[source.repository] = files
        expected |= {f"{source.folder}/{name}" if source.folder else name for name in names}
    done = anyrig("engines", "get", engine, "--yes")
    assert done.returncode == 0, done.stderr
    found = {path.relative_to(models / engine).as_posix() for path in (models / engine).rglob("*")
             if path.is_file() and not path.name.startswith((".", "weights.json"))}  # fmt: skip
    assert found == expected
    assert done.stdout.splitlines()[-1] == f"Next: anyrig engines install {engine}"


def test_a_voice_of_hibari_that_is_not_the_published_one_is_named(
    anyrig: Anyrig, hub: type[Hub]
) -> None:
    """Its hash is known beforehand: even a hub that agrees with itself is not believed."""
    hub.publish("hibari", {"voices/bf_emma.int8.onnx": b"another voice" * 1000})
    done = anyrig("engines", "get", "hibari", "--yes")
    assert done.returncode == 4
    assert "bf_emma.int8.onnx" in done.stderr
    assert "SHA-256 differs" in done.stderr
