"""Folders as they really come: old names, odd sizes, other settings, files put there by hand."""

from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from anyrig.documents.model import find
from anyrig.documents.model_folder import in_folder
from anyrig.errors import InvalidInputError
from tests.conftest import Anyrig
from tests.documents.engines.toy import encoder, sentence_transformer, sentences, tokenizer
from tests.documents.test_embed import embedded


def changed(file: Path, **more: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **more}))


def test_whatever_shapes_a_vector_is_in_the_fingerprint(tmp_path: Path) -> None:
    sentence_transformer(tmp_path, dense=True, prompts={"document": "a "})
    seen = [in_folder(tmp_path, name="x").fingerprint]
    dense = tmp_path / "2_Dense" / "model.safetensors"
    save_file({name: 2 * value for name, value in load_file(dense).items()}, dense)
    seen.append(in_folder(tmp_path, name="x").fingerprint)
    changed(tmp_path / "config_sentence_transformers.json", prompts={"document": "b "})
    seen.append(in_folder(tmp_path, name="x").fingerprint)
    changed(tmp_path / "sentence_bert_config.json", do_lower_case=True)
    seen.append(in_folder(tmp_path, name="x").fingerprint)
    cut = tmp_path / "tokenizer.json"
    cut.write_text(cut.read_text() + " ")
    seen.append(in_folder(tmp_path, name="x").fingerprint)
    assert len(set(seen)) == len(seen)


def test_deterministic_asks_for_no_position_that_a_model_lacks(tmp_path: Path) -> None:
    encoder(tmp_path, "bert", max_position_embeddings=40)
    model, texts = in_folder(tmp_path, name="x"), [*sentences(5), "the cat " * 60]
    together = embedded(model, texts, deterministic=True)
    np.testing.assert_allclose(together, embedded(model, texts), atol=1e-5)
    assert together[2].tobytes() == embedded(model, texts[2:3], deterministic=True)[0].tobytes()


@pytest.mark.parametrize("backend", ["onnx", "torch"])
@pytest.mark.parametrize(("family", "pad", "longest"), [("XLMRoberta", 5, 44), ("MPNet", 0, 48)])
def test_the_first_position_is_where_the_family_has_it(
    backend: str, family: str, pad: int, longest: int, tmp_path: Path
) -> None:
    import transformers
    from transformers import AutoTokenizer

    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=200, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=50, pad_token_id=pad,
    )  # fmt: skip
    theirs = getattr(transformers, f"{family}Model")(config).eval()
    for parameter in theirs.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    theirs.save_pretrained(tmp_path)
    tokenizer(tmp_path)
    model = in_folder(tmp_path, name="x")
    assert model.longest == longest
    assert np.isfinite(embedded(model, ["the cat " * 100], backend=backend)).all()
    cut: Any = AutoTokenizer.from_pretrained(str(tmp_path))
    with torch.inference_mode():
        tokens = torch.tensor([cut("green house runs")["input_ids"]])
        mean = theirs(input_ids=tokens).last_hidden_state[0].mean(0).numpy()
    (made,) = embedded(model, ["green house runs"], backend=backend)
    np.testing.assert_allclose(made, mean / np.linalg.norm(mean), atol=1e-5)


def test_names_of_the_first_berts_and_tensors_that_are_no_weights(tmp_path: Path) -> None:
    encoder(tmp_path, "bert")
    wanted = embedded(in_folder(tmp_path, name="x"), ["the cat"])
    file = tmp_path / "model.safetensors"
    state = {
        "bert." + name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): one
        for name, one in load_file(file).items()
    }
    save_file({**state, "seen": torch.ones(3, dtype=torch.bool)}, file, {"format": "pt"})
    np.testing.assert_array_equal(embedded(in_folder(tmp_path, name="x"), ["the cat"]), wanted)


@pytest.mark.parametrize(("activation", "form"), [("silu", "encoder"), ("tanh", "auto")])
def test_an_odd_activation_runs_where_it_can(activation: str, form: str, tmp_path: Path) -> None:
    encoder(tmp_path, "bert", hidden_act=activation)
    model = in_folder(tmp_path, name="x")
    assert (model.form, model.graph) == (form, False)
    assert np.isfinite(embedded(model, ["the cat"])).all()


def test_small_letters_are_made_where_the_folder_says_so(tmp_path: Path) -> None:
    sentence_transformer(tmp_path)
    changed(tmp_path / "tokenizer.json", normalizer=None)
    plain = embedded(in_folder(tmp_path, name="x"), ["The CAT", "the cat"])
    assert not np.allclose(plain[0], plain[1], atol=1e-3)
    changed(tmp_path / "sentence_bert_config.json", do_lower_case=True)
    low = embedded(in_folder(tmp_path, name="x"), ["The CAT", "the cat"])
    np.testing.assert_allclose(low[0], plain[1], atol=1e-6)


def test_numbers_too_large_for_their_squares_still_have_a_direction(tmp_path: Path) -> None:
    sentence_transformer(tmp_path, dense=True)
    changed(tmp_path / "2_Dense" / "config.json", activation_function="torch.nn.Identity")
    dense = tmp_path / "2_Dense" / "model.safetensors"
    save_file({name: 1e30 * value for name, value in load_file(dense).items()}, dense)
    made = embedded(in_folder(tmp_path, name="x"), ["the cat"])
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)


def test_a_hub_model_may_be_put_there_by_hand(tmp_path: Path) -> None:
    folder = tmp_path / "documents" / "owner--name"
    sentence_transformer(folder)
    assert find("owner/name", models=tmp_path).name == "owner/name"
    (folder / "model.safetensors.part").write_bytes(b"")  # still being fetched
    with pytest.raises(Exception, match="not on this machine"):
        find("owner/name", models=tmp_path)


def test_damaged_folders_are_told_of(tmp_path: Path) -> None:
    sentence_transformer(tmp_path, prompts={"query": "the "})
    changed(tmp_path / "1_Pooling" / "config.json", include_prompt=False)
    with pytest.raises(InvalidInputError, match="leaves its prompts out"):
        in_folder(tmp_path, name="x")
    (tmp_path / "modules.json").write_text('["a"]')
    with pytest.raises(InvalidInputError, match=r"modules\.json"):
        in_folder(tmp_path, name="x")
    (tmp_path / "modules.json").unlink()
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(InvalidInputError, match="how long its vectors are"):
        in_folder(tmp_path, name="x")


def _safetensors(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def _damage(folder: Path) -> dict[str, tuple[str, bytes | None, str]]:
    """Ways to damage a folder with a BERT: the file, what takes its place, what the error names."""
    weights, config = (folder / "model.safetensors").read_bytes(), (folder / "config.json")
    length = 8 + int.from_bytes(weights[:8], "little")
    header = {name: one for name, one in json.loads(weights[8:length]).items() if name[0] != "_"}
    flat = {name: {**one, "shape": [math.prod(one["shape"])]} for name, one in header.items()}
    told = json.loads(config.read_text())
    return {
        "truncated": ("model.safetensors", weights[: len(weights) // 2], "model.safetensors"),
        "empty": ("model.safetensors", b"", "model.safetensors"),
        "random": ("model.safetensors", random.Random(1).randbytes(4000), "model.safetensors"),
        "header": ("model.safetensors", b"\xff" * 8 + weights[8:], "model.safetensors"),
        "no tensors": ("model.safetensors", _safetensors({}, b""), "model.safetensors"),
        "flat": ("model.safetensors", _safetensors(flat, weights[length:]), "model.safetensors"),
        "a folder": ("model.safetensors", None, "model.safetensors"),
        "config": ("config.json", json.dumps({**told, "hidden_size": 64}).encode(), "config.json"),
        "heads": ("config.json", json.dumps({**told, "num_attention_heads": 5}).encode(), "heads"),
        "text": ("config.json", json.dumps({**told, "hidden_size": "x"}).encode(), "damaged"),
        "tokenizer": ("tokenizer.json", b"{}", "tokenizer.json"),
        "onnx empty": ("model.onnx", b"", "model.onnx"),
        "onnx random": ("model.onnx", random.Random(1).randbytes(4000), "model.onnx"),
        "onnx page": ("model.onnx", b"<html>404</html>", "model.onnx"),
        "onnx a folder": ("model.onnx", None, "model.onnx"),
    }


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_damaged_files_are_one_error_that_names_them(
    anyrig: Anyrig, subtests: pytest.Subtests, tmp_path: Path, family: str
) -> None:
    encoder(tmp_path / "good", family)
    for name, (file, data, words) in _damage(tmp_path / "good").items():
        with subtests.test(name):
            folder = tmp_path / name
            shutil.copytree(tmp_path / "good", folder)
            if file == "model.onnx":
                (folder / "model.safetensors").unlink()
            (folder / file).unlink(missing_ok=True)
            (folder / file).write_bytes(data) if data is not None else (folder / file).mkdir()
            done = anyrig(
                "embed", "--model", str(folder), "A cat.", "-o", "a.npz", "--no-bench",
                "--device", "cpu",
            )  # fmt: skip
            assert done.returncode in (2, 4), done.stderr
            assert "Traceback" not in done.stderr
            assert done.stderr.count("error:") == 1
            assert str(folder) in done.stderr
            assert family == "electra" or words in done.stderr
