"""Trained models in the forms that others take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError, StorageError
from anyrig.training.export import export_folder, whole_folder
from anyrig.training.models.gpt import gpt

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


def test_weights_of_a_checkpoint_can_be_exported(tmp_path: Path) -> None:
    model, other = small_gpt(), small_gpt()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    folder = export_folder(model, tmp_path / "model", weights=other.state_dict())
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    tokens = torch.randint(0, 100, (1, 8))
    torch.testing.assert_close(other(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-4)


def bert(**more: object) -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=40, **more,
    )  # fmt: skip
    torch.manual_seed(2)
    model: nn.Module = transformers.BertForSequenceClassification(config).eval()
    return model


def test_a_model_of_transformers_comes_back(tmp_path: Path) -> None:
    model = bert(num_labels=3)
    folder = export_folder(model, tmp_path / "m", config={"id2label": {0: "a", 1: "b", 2: "c"}})
    again = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokens = torch.randint(0, 60, (2, 9))
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
    for wrong in (tmp_path / "none", tmp_path / "home"):
        with pytest.raises(InvalidInputError):
            export_folder(small_gpt(), tmp_path / "m", tokenizer_files=[wrong])
    assert {path.name for path in folder.iterdir()} == names  # the old one is untouched


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with whole_folder(folder) as place:
        (place / "a").write_text("1")
    with pytest.raises(StorageError), whole_folder(folder) as place:
        (place / "none" / "b").write_text("2")
    assert [path.name for path in folder.iterdir()] == ["a"]
    with whole_folder(folder) as place:
        (place / "c").write_text("3")
    assert [path.name for path in folder.iterdir()] == ["c"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".m")]
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInputError, match="is a file"), whole_folder(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "x"
