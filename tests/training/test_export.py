"""Exported models: for transformers and as ONNX, with the numbers of the model."""

from __future__ import annotations

import errno
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidInputError, StorageError
from anyrig.training.export import export_folder, export_onnx, replace_folder
from anyrig.training.models.gpt import gpt
from anyrig.training.models.vision import ConvNet, ConvShape

transformers = pytest.importorskip("transformers")


def small_gpt() -> nn.Module:
    torch.manual_seed(1)
    return gpt("nano", vocabulary=100, context=32).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_our_gpt_is_a_gpt2_for_transformers(dtype: torch.dtype, tmp_path: Path) -> None:
    model = small_gpt().to(dtype)
    (tmp_path / "tokenizer.json").write_text("{}")
    folder = export_folder(
        model, tmp_path / "model", config={"bos_token_id": 1},
        tokenizer_files=[tmp_path / "tokenizer.json"],
    )  # fmt: skip
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json", "model.safetensors", "tokenizer.json",
    ]  # fmt: skip
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=dtype).eval()
    tokens = torch.randint(0, 100, (2, 16))
    with torch.no_grad():
        left, right = model(tokens), theirs(tokens).logits
    assert right.shape == left.shape
    near = 1e-5 if dtype is torch.float32 else 0.05
    torch.testing.assert_close(left, right, rtol=near, atol=near)
    assert theirs.config.bos_token_id == 1


def test_a_model_of_transformers_comes_back(tmp_path: Path) -> None:
    torch.manual_seed(2)
    config = transformers.BertConfig(**SMALL, num_labels=3)
    model = transformers.BertForSequenceClassification(config).eval()
    folder = export_folder(
        model, str(tmp_path / "m"), config={"id2label": {0: "a", 1: "b", 2: "c"}}
    )
    again = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokens = torch.randint(0, 40, (2, 9))
    assert torch.equal(model(tokens).logits, again(tokens).logits)
    assert again.config.id2label == {0: "a", 1: "b", 2: "c"}


def test_tied_weights_of_transformers_and_wrappers(tmp_path: Path) -> None:
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    wrapped = nn.Module()
    wrapped._orig_mod = model
    folder = export_folder(wrapped, tmp_path / "m")
    again = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    tokens = torch.randint(0, 50, (1, 5))
    assert torch.equal(model(tokens).logits, again(tokens).logits)


def test_any_module_needs_a_config(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    with pytest.raises(InvalidInputError, match="Sequential"):
        export_folder(model, tmp_path / "m")
    assert not [path for path in tmp_path.iterdir() if path.name == "m" or path.name[0] == "."]
    folder = export_folder(model, tmp_path / "m", config={"kind": "tied"})
    assert json.loads((folder / "config.json").read_text()) == {"kind": "tied"}
    assert list(load_file(folder / "model.safetensors")) == ["0.weight"]


def test_tokenizers_of_a_folder_go_along(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("tokenizer.json", "vocab.txt", "pytorch_model.bin"):
        (source / name).write_text(name)
    folder = export_folder(small_gpt(), tmp_path / "m", tokenizer_files=[source])
    names = {path.name for path in folder.iterdir()}
    assert {"tokenizer.json", "vocab.txt"} <= names
    assert "pytorch_model.bin" not in names
    with pytest.raises(InvalidInputError):
        export_folder(small_gpt(), tmp_path / "m", tokenizer_files=[tmp_path / "none"])
    assert {path.name for path in folder.iterdir()} == names  # the old one is untouched


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with replace_folder(folder) as place:
        (place / "a").write_text("1")
    with pytest.raises(StorageError, match="full"), replace_folder(folder) as place:  # noqa: PT012
        (place / "b").write_text("2")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert [path.name for path in folder.iterdir()] == ["a"]
    with replace_folder(folder) as place:
        (place / "c").write_text("3")
    assert [path.name for path in folder.iterdir()] == ["c"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".m")]
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInputError, match="is a file"), replace_folder(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "x"


ort = pytest.importorskip("onnxruntime")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "exported"
    made.mkdir()
    return made


class Grouped(nn.Module):
    """Grouped-query attention: eight heads of queries, two of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.both = nn.Linear(16, 32), nn.Linear(16, 16)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        rows, length, _ = input.shape
        queries = self.queries(input).view(rows, length, 8, 4).transpose(1, 2)
        keys, values = self.both(input).view(rows, length, 2, 8).transpose(1, 2).chunk(2, -1)
        found = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, enable_gqa=True
        )
        return found.transpose(1, 2).reshape(rows, length, 32)


class Pictures(nn.Module):
    """Layers that are easily written down wrong, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([
            nn.AvgPool2d(3, 2, padding=1),
            nn.AvgPool2d(3, 2, padding=1, count_include_pad=False, ceil_mode=True),
            nn.MaxPool2d(3, 2, padding=1, dilation=2),
            nn.Conv2d(3, 4, 4, padding="same", dilation=2),
            nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
            nn.ConvTranspose2d(3, 4, 3, 2, 1, output_padding=1),
            nn.Upsample(scale_factor=2, mode="bilinear"),
        ])  # fmt: skip
        self.rows = nn.ModuleList(
            [nn.AvgPool1d(4, 3, padding=2), nn.Conv1d(27, 4, 6, padding="same")]
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        flat = input.flatten(1, 2)
        found = [layer(input) for layer in self.layers] + [layer(flat) for layer in self.rows]
        return torch.cat([one.flatten(1) for one in found], 1)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    ("make", "shape"), [(Pictures, (2, 3, 9, 9)), (Grouped, (2, 5, 16))], ids=["layers", "grouped"]
)
def test_an_exported_file_gives_the_numbers_of_the_model(
    make: Callable[[], nn.Module], shape: tuple[int, ...], folder: Path
) -> None:
    torch.manual_seed(0)
    model = make().eval()
    path = export_onnx(model, {"input": torch.randn(shape)}, folder / "m.onnx")
    assert list(folder.iterdir()) == [path]  # no second file with the weights
    given = [{"input": torch.randn(rows, *shape[1:])} for rows in (1, 2, 7)]
    assert furthest(model, path, *given) < 1e-5


def test_a_file_that_gives_other_numbers_is_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the exporter had a fault: what it writes is another model's."""
    path = folder / "m.onnx"
    path.write_bytes(b"before")
    model = nn.Linear(4, 3)
    usual = torch.onnx.export

    def wrong(model: nn.Module, *args: object, **options: object) -> object:
        with torch.no_grad():
            next(model.parameters())[0, 0] += 0.05
        return usual(model, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.onnx, "export", wrong)
    with pytest.raises(InvalidInputError, match="other numbers than the model") as caught:
        export_onnx(model, {"input": torch.randn(2, 4)}, path)
    assert "export_folder" in caught.value.hint
    assert path.read_bytes() == b"before"
    assert list(folder.iterdir()) == [path]


def test_a_file_of_one_batch_size_is_not_written(folder: Path) -> None:
    class OnlyTwo(nn.Module):
        """Written down with the number of items that it was shown."""

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return input + torch.tensor(input.detach().shape[0] * [[1.0] * 4])

    with pytest.raises(InvalidInputError):
        export_onnx(OnlyTwo(), {"input": torch.randn(2, 4)}, folder / "m.onnx")
    assert not (folder / "m.onnx").exists()


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


@pytest.mark.parametrize("family", ["Bert", "DistilBert"])
def test_classifiers_of_texts(family: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    config = getattr(transformers, f"{family}Config")(**SMALL, num_labels=3)
    model = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    path = export_onnx(model, texts(2, 7), tmp_path / "m.onnx", dynamic=SIDES)
    assert furthest(model, path, texts(1, 5), texts(6, 20), texts(3, 2)) < 1e-4


@pytest.mark.parametrize("kind", ["gpt", "convnet"])
def test_our_own_models(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    sides: dict[str, dict[int, str]] | None = None
    if kind == "gpt":
        model: nn.Module = gpt("nano", vocabulary=100, context=32)
        name, sides = "tokens", {"tokens": {0: "texts", 1: "places"}}
        inputs = [torch.randint(0, 100, (2, 8)), torch.randint(0, 100, (3, 31))]
    else:
        model = ConvNet(ConvShape())
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
    with pytest.raises(InvalidInputError, match="returns 1 tensors, but 2 outputs are named"):
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
