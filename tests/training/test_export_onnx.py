"""Models as ONNX files: equal numbers in ONNX Runtime, any number of items, taken by `--model`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError
from anyrig.training.export import export_folder, export_onnx
from anyrig.training.models.convnet import ConvNet, ConvShape
from anyrig.training.models.gpt import gpt
from anyrig.training.models.vit import Vit, VitShape

transformers = pytest.importorskip("transformers")
ort = pytest.importorskip("onnxruntime")
SIDES = {"input_ids": {0: "texts", 1: "tokens"}, "attention_mask": {0: "texts", 1: "tokens"}}
SMALL: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 40, "pad_token_id": 0,
    "initializer_range": 0.5,
}  # fmt: skip


def first(found: Any) -> torch.Tensor:
    tensor: torch.Tensor = found if isinstance(found, torch.Tensor) else found[0]
    return tensor


def furthest(model: nn.Module, path: Path, *inputs: Mapping[str, torch.Tensor]) -> float:
    """The largest difference between torch and ONNX Runtime, of the largest number."""
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    for one in inputs:
        with torch.no_grad():
            right = first(model(**one)).numpy()
        got = session.run(None, {name: value.numpy() for name, value in one.items()})[0]
        assert got.shape == right.shape
        worst = max(worst, float(np.abs(got - right).max() / np.abs(right).max()))
    return worst


def texts(rows: int, length: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(rows, length, dtype=torch.long)
    mask[0, length // 2 + 1 :] = 0
    return {"input_ids": torch.randint(4, 40, (rows, length)), "attention_mask": mask}


def test_layers_of_many_kinds(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(
                nn.Linear(6, 32), nn.GELU(), nn.BatchNorm1d(32), nn.SiLU(), nn.LayerNorm(32)
            )
            self.down = nn.Conv1d(8, 8, 3, padding=1, stride=2)
            self.norm = nn.GroupNorm(4, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            wide = self.first(x) * 2 - x.mean(-1, keepdim=True) / 3
            wide = self.norm(self.down(wide.view(-1, 8, 4)))
            left, right = wide.chunk(2, dim=1)
            kept = torch.where(left > 0.1, left, right.clamp(-1, 1))
            return torch.cat([kept, torch.softmax(right, 1)], 1).transpose(1, 2).flatten(1)

    torch.manual_seed(1)
    model = Net().train()
    model(torch.randn(20, 6))  # batch statistics that are not those of a new layer
    model.eval()
    path = export_onnx(model, {"x": torch.randn(3, 6)}, tmp_path / "m.onnx")
    near = furthest(model, path, {"x": torch.randn(1, 6)}, {"x": torch.randn(17, 6)})
    assert near < 1e-5


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
def test_classifiers_of_texts(family: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    config = getattr(transformers, f"{family}Config")(**SMALL, num_labels=3)
    model = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    path = export_onnx(model, texts(2, 7), tmp_path / "m.onnx", dynamic=SIDES)
    assert furthest(model, path, texts(1, 5), texts(6, 20), texts(3, 2)) < 1e-4


@pytest.mark.parametrize("kind", ["gpt", "convnet", "vit"])
def test_our_own_models(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    sides: dict[str, dict[int, str]] | None = None
    if kind == "gpt":
        model: nn.Module = gpt("nano", vocabulary=100, context=32)
        name, sides = "tokens", {"tokens": {0: "texts", 1: "places"}}
        inputs = [torch.randint(0, 100, (2, 8)), torch.randint(0, 100, (3, 31))]
    else:
        model = ConvNet(ConvShape()) if kind == "convnet" else Vit(VitShape())
        inputs = [torch.randn(2, 3, 32, 32), torch.randn(5, 3, 32, 32)]
        name = list(inspect.signature(type(model).forward).parameters)[1]
    model.eval()
    path = export_onnx(model, {name: inputs[0]}, tmp_path / "m.onnx", dynamic=sides)
    assert furthest(model, path, *({name: one} for one in inputs)) < 1e-4


def test_half_weights_and_the_model_itself_stay_as_they_are(tmp_path: Path) -> None:
    model = nn.Linear(4, 4).bfloat16().train()
    before = model.weight.clone()

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner: nn.Module = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.inner(x)
            return found

    path = export_onnx(Named(), {"x": torch.randn(2, 4)}, tmp_path / "m.onnx", outputs=["y"])
    assert model.training
    assert model.weight.dtype is torch.bfloat16
    assert torch.equal(model.weight, before)
    session = ort.InferenceSession(str(path))
    assert [one.name for one in session.get_inputs()] == ["x"]
    assert [one.name for one in session.get_outputs()] == ["y"]


def test_what_cannot_be_written_is_named_and_leaves_no_file(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = torch.linalg.svdvals(x)
            return found

    class Choosing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if bool(x.sum() > 0) else -x

    path = tmp_path / "m.onnx"
    with pytest.raises(InvalidInputError, match="svd"):
        export_onnx(Odd(), {"x": torch.randn(2, 4, 4)}, path)
    with pytest.raises(InvalidInputError, match="Choosing cannot be exported"):
        export_onnx(Choosing(), {"x": torch.randn(2, 4)}, path)
    with pytest.raises(InvalidInputError, match="has 1 batch"):
        export_onnx(nn.ReLU(), {"input": torch.randn(1, 4)}, path)
    with pytest.raises(InvalidInputError, match="gives 1 tensors, 2 are named"):
        export_onnx(nn.ReLU(), {"input": torch.randn(2, 4)}, path, outputs=["a", "b"])
    assert not path.exists()
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".m")]


def tokenizer(path: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = "pay the bill dear friend love cook rice salt now please soon and with of".split()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]
    made = Tokenizer(models.WordLevel({name: n for n, name in enumerate(names)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.save(str(path))
    return path


def test_classify_takes_an_exported_graph_without_weights(anyrig: Any, tmp_path: Path) -> None:
    torch.manual_seed(4)
    labels = {0: "invoice", 1: "letter", 2: "recipe"}
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(**SMALL, id2label=labels)
    ).eval()
    words = tokenizer(tmp_path / "tokenizer.json")
    folder = export_folder(model, tmp_path / "m", tokenizer_files=[words])
    (tmp_path / "a.txt").write_text("pay the bill now")

    def told() -> Any:
        words = ["--with", str(folder), "--precision", "fp32", "--json"]
        done = anyrig("classify", str(tmp_path / "a.txt"), *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["results"][0]["probabilities"]

    by_torch = told()
    assert set(by_torch) == set(labels.values())
    export_onnx(model, texts(2, 7), folder / "model.onnx", dynamic=SIDES)
    (folder / "model.safetensors").unlink()
    assert told() == pytest.approx(by_torch, abs=1e-4)


def test_embed_takes_an_exported_graph_without_weights(anyrig: Any, tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = transformers.BertModel(transformers.BertConfig(**SMALL)).eval()
    words = tokenizer(tmp_path / "tokenizer.json")
    folder = export_folder(model, tmp_path / "m", tokenizer_files=[words])

    def vector() -> Any:
        more = ["--model", str(folder), "--precision", "fp32", "--no-cache"]
        done = anyrig("embed", "dear friend with love", *more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[0])["vector"]

    ours = vector()
    path = folder / "model.onnx"
    export_onnx(model, texts(2, 7), path, outputs=["last_hidden_state"], dynamic=SIDES)
    (folder / "model.safetensors").unlink()
    assert vector() == pytest.approx(ours, abs=1e-4)
