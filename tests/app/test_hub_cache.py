"""Models that other programs put into the Hugging Face cache are used, without the network."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from anyrig import Rig
from anyrig.app.engines import VoiceOptions, find_weights_folder
from anyrig.documents.entities.ner_models import choose_ner_model
from anyrig.documents.summarise.abstractive import find as find_writer
from anyrig.errors import MissingWeightsError
from anyrig.storage.weights import find_cached_repository, get_repository_name, hash_file
from anyrig.transcription.models import find_model as find_recogniser
from tests.conftest import Anyrig
from tests.documents.engines import toy

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def put(cache: Path, repository: str, files: Path, *, links: bool = True) -> Path:
    """Store files as huggingface_hub does: blobs by their hash, and links to them."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    snapshot = folder / "snapshots" / COMMIT
    (folder / "blobs").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    for file in files.rglob("*"):
        if file.is_file():
            name = snapshot / file.relative_to(files)
            name.parent.mkdir(parents=True, exist_ok=True)
            blob = folder / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
            shutil.copy(file, blob if links else name)
            if links:
                name.symlink_to(os.path.relpath(blob, name.parent))
    return snapshot


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "hf" / "hub"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ("HF_HOME", "hub"), ("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""),
        ("XDG_CACHE_HOME", "huggingface/hub"), ("HOME", ".cache/huggingface/hub"),
        ("TRANSFORMERS_CACHE", ""),
    ],
)  # fmt: skip
def test_where_the_cache_is(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str
) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME",
                 "TRANSFORMERS_CACHE"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "there"))
    snapshot = put(tmp_path / "there" / folder, "owner/some-model", files)
    assert find_cached_repository("owner/some-model") == snapshot
    assert find_cached_repository("owner/some-model", COMMIT) == snapshot
    assert get_repository_name(snapshot) == "owner/some-model"
    assert find_cached_repository("owner/other") is None
    assert find_cached_repository("owner/some-model", "v2") is None
    assert find_cached_repository("../some-model") is None


def test_a_snapshot_with_a_missing_blob_is_none(cache: Path, files: Path) -> None:
    snapshot = put(cache, "owner/name", files)
    (snapshot / "config.json").resolve().unlink()
    assert find_cached_repository("owner/name") is None


@pytest.mark.parametrize("links", [True, False])
def test_nothing_is_written_into_the_cache(cache: Path, files: Path, links: bool) -> None:
    snapshot = put(cache, "owner/name", files, links=links)
    expected = hashlib.sha256((files / "config.json").read_bytes()).hexdigest()
    assert hash_file(snapshot / "config.json") == expected
    assert [file.name for file in snapshot.iterdir()] == ["config.json"]


def test_an_embedding_model(cache: Path, tmp_path: Path, anyrig: Anyrig) -> None:
    pytest.importorskip("transformers")
    toy.sentence_transformer(tmp_path / "toy")
    put(cache, "some-owner/toy-model", tmp_path / "toy")
    done = anyrig("embed", "Hello.", "--model", "some-owner/toy-model", "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    vectors = Rig().embed(["Hello."], model="some-owner/toy-model", device="cpu", no_bench=True)
    assert vectors.shape[0] == 1
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("An owl sat on the gate.")
    result = Rig().index(tmp_path / "docs", model="some-owner/toy-model", device="cpu", ocr="never")
    assert result.model == "some-owner/toy-model"


def test_models_of_the_other_abilities(cache: Path, files: Path) -> None:
    (files / "config.json").write_text(
        '{"model_type": "t5", "is_encoder_decoder": true,'
        ' "architectures": ["BertForTokenClassification"]}'
    )
    (files / "model.onnx").write_bytes(b"")
    (files / "model.safetensors").write_bytes(b"")
    snapshot = put(cache, "owner/model", files)
    assert find_writer("owner/model", models=Path("none")).folder == snapshot
    namer = choose_ner_model(model="owner/model")
    assert namer is not None
    assert namer.factory.options["model"] == str(snapshot)
    assert namer.name == "owner/model"
    with pytest.raises(MissingWeightsError, match="owner/missing is not on this machine"):
        find_writer("owner/missing", models=Path("none"))
    with pytest.raises(MissingWeightsError, match="owner/missing is not on this machine"):
        find_recogniser("owner/missing")


def test_a_model_of_transcription(cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.transcription import tiny_whisper

    tiny_whisper.make(tmp_path / "whisper")
    snapshot = put(cache, "openai/whisper-small", tmp_path / "whisper")
    found = find_recogniser("openai/whisper-small")
    assert Path(found.folder) == snapshot


@pytest.fixture
def voice_files(tmp_path: Path) -> Path:
    """What VibeVoice is known by."""
    folder = tmp_path / "vibevoice"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "vibevoice"}')
    (folder / "tokenizer.json").write_text("{}")
    save_file({"x": np.zeros(1, np.float32)}, folder / "model.safetensors")
    return folder


def test_weights_of_a_speech_engine(cache: Path, voice_files: Path) -> None:
    snapshot = put(cache, "vibevoice/VibeVoice-1.5B-hf", voice_files)
    rig = Rig()
    for options in ({}, {"model": "vibevoice/VibeVoice-1.5B-hf"}):
        request = rig.request(VoiceOptions, **options)
        assert find_weights_folder(rig, request, "vibevoice") == snapshot


def test_weights_of_the_settings(
    cache: Path, voice_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = put(cache, "vibevoice/VibeVoice-1.5B-hf", voice_files)
    monkeypatch.setenv("VIBEVOICE_MODEL", "vibevoice/VibeVoice-1.5B-hf")
    rig = Rig()
    assert find_weights_folder(rig, rig.request(VoiceOptions), "vibevoice") == snapshot


def test_an_engine_in_the_cache_is_not_downloaded_again(
    cache: Path, voice_files: Path, anyrig: Anyrig
) -> None:
    snapshot = put(cache, "vibevoice/VibeVoice-1.5B-hf", voice_files)
    done = anyrig("engines", "get", "vibevoice", "--yes")
    assert done.returncode == 0, done.stderr
    assert "is in the Hugging Face cache" in done.stderr + done.stdout
    assert str(snapshot) in done.stdout
