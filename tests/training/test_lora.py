"""LoRA: what is trained, what is saved, what opens it again; on small random models."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError, MissingPackageError
from anyrig.training import Trainer
from anyrig.training.lora import LoraConfig, add_lora, load_lora, merge_lora, save_lora
from anyrig.training.tasks import Task, build_task, corpus
from anyrig.training.tasks.classifier import add_adapter, classifier, from_folder
from anyrig.training.tasks.texts import Cutter
from tests.documents.engines.toy import encoder
from tests.training.test_tasks_classifier import LABELS, examples

transformers: Any = pytest.importorskip("transformers")
peft: Any = pytest.importorskip("peft")
VERSE = "The tide comes in, the tide goes out, and no clock minds.\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A random GPT-2 of bytes, and a text."""
    torch.manual_seed(0)
    shape = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 257}
    config = transformers.GPT2Config(**shape, bos_token_id=256, eos_token_id=256)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "base")
    corpus.build_byte_tokenizer().save(tmp_path / "base" / "tokenizer.json")
    (tmp_path / "a.txt").write_text(VERSE * 40, encoding="utf-8")
    return tmp_path


def language(place: Path, run: str = "run", **values: Any) -> Task:
    table = {"kind": "language", "text": "a.txt", "model": "base", "sample": 4, **values}
    return build_task(table, place, place / run, 0)


def run(task: Task, folder: Path, **more: Any) -> Any:
    options: dict[str, Any] = {
        "batch": 8, "micro_batch": 8, "learning_rate": 3e-2, "precision": "fp32",
        "steps": 12, **more,
    }  # fmt: skip
    with Trainer.of(task, folder=folder, device="cpu", compile=False, **options) as trainer:
        return trainer.fit()


def test_only_the_adapter_of_a_language_model_is_trained_and_both_forms_open_again(
    place: Path,
) -> None:
    task = language(place, lora=4)
    model: Any = task.model
    before = {name: one.clone() for name, one in model.state_dict().items()}
    trained = {name for name, one in model.named_parameters() if one.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    assert not any("lm_head" in name for name in trained)
    first = run(language(place, "first", lora=4), place / "first", steps=1).loss
    result = run(task, place / "run")
    assert result.loss < first
    after = model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before if name not in trained)

    window = task.data[0]["tokens"][None, :-1]
    with torch.no_grad():
        logits = model.eval()(window).logits
        merged = transformers.AutoModelForCausalLM.from_pretrained(result.outputs["model"]).eval()
        torch.testing.assert_close(merged(window).logits, logits, atol=1e-4, rtol=1e-4)
        base = transformers.AutoModelForCausalLM.from_pretrained(place / "base")
        assert not torch.allclose(base.eval()(window).logits, logits, atol=1e-3)
        adapter = Path(result.outputs["adapter"])
        again = load_lora(base, adapter).eval()
        torch.testing.assert_close(again(window).logits, logits, atol=1e-5, rtol=1e-5)
        theirs = peft.AutoPeftModelForCausalLM.from_pretrained(adapter).eval()
        torch.testing.assert_close(theirs(window).logits, logits, atol=1e-5, rtol=1e-5)
    going_on = language(place, "more", lora={"adapter": "run/adapter"})
    with torch.no_grad():
        torch.testing.assert_close(going_on.model.eval()(window).logits, logits)
    assert any(one.requires_grad for one in going_on.model.parameters())


def test_an_interrupted_run_continues_as_one_that_was_not(place: Path) -> None:
    whole = run(language(place, "whole", lora=4), place / "whole", steps=8)
    part = run(language(place, "part", lora=4), place / "part", steps=4, schedule="constant")
    assert part.steps == 4
    again = run(language(place, "part", lora=4), place / "part", steps=8, schedule="constant")
    same = run(language(place, "same", lora=4), place / "same", steps=8, schedule="constant")
    assert again.resumed_from == 4
    assert again.loss == same.loss
    assert whole.finished


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_a_classifier_trains_its_adapter_and_its_head(tmp_path: Path, family: str) -> None:
    folder = tmp_path / "base"
    encoder(folder, family)
    torch.manual_seed(0)
    model = from_folder(folder, LABELS)
    adapted = add_adapter(model, LoraConfig(rank=8), tmp_path)
    cutter = Cutter.of(folder / "tokenizer.json", 32)
    task = classifier(model, cutter, examples(96), examples(48, seed=1), LABELS, adapted=adapted)
    names = {name for name, one in model.named_parameters() if one.requires_grad}
    assert any("classifier" in name for name in names)
    assert not any("embeddings" in name for name in names)
    assert task.collate is not None
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    result = run(task, tmp_path / "run", steps=20, batch=24, micro_batch=24, learning_rate=4e-3)
    after = dict(model.named_parameters())
    assert {name for name in before if not torch.equal(before[name], after[name])} == names
    batch = task.collate(task.data[:8])
    told = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    with torch.no_grad():
        logits = model.eval()(**told).logits
        kind = transformers.AutoModelForSequenceClassification
        merged = kind.from_pretrained(result.outputs["model"]).eval()
        torch.testing.assert_close(merged(**told).logits, logits, atol=1e-4, rtol=1e-4)
        again = load_lora(from_folder(folder, LABELS), Path(result.outputs["adapter"])).eval()
        torch.testing.assert_close(again(**told).logits, logits, atol=1e-5, rtol=1e-5)


def test_a_module_of_ones_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    random.seed(0)

    def build() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))

    adapted = add_lora(build(), rank=2, targets=["0"], train=["2"])
    inputs = torch.randn(64, 4)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    trainer = Trainer(
        adapted, data, loss=nn.MSELoss(), batch=16, epochs=20, learning_rate=1e-2, device="cpu"
    )
    result = trainer.fit()
    trainer.close()
    assert result.loss is not None
    assert result.loss < 1
    save_lora(adapted, tmp_path / "adapter")
    again = load_lora(build(), tmp_path / "adapter", trainable=False)
    assert not any(one.requires_grad for one in again.parameters())
    with torch.no_grad():
        torch.testing.assert_close(again.eval()(inputs), adapted.eval()(inputs))
        torch.testing.assert_close(merge_lora(adapted)(inputs), adapted(inputs))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"model": "nano", "lora": 4}, "this one is new"),
        ({"lora": -1}, "rank of LoRA is -1"),
        ({"lora": {"rnak": 4}}, "rnak"),
        ({"lora": {"targets": ["nothing"]}}, "cannot be added"),
        ({"lora": {"adapter": "base"}}, "contains no adapter"),
    ],
)
def test_what_cannot_be_is_refused(place: Path, values: dict[str, Any], said: str) -> None:
    with pytest.raises((InvalidSettingError, InvalidInputError), match=said) as caught:
        language(place, **values)
    assert caught.value.hint


def test_an_adapter_of_another_model_is_refused(place: Path) -> None:
    adapted = add_lora(nn.Sequential(nn.Linear(4, 4)), rank=2)
    save_lora(adapted, place / "other")
    with pytest.raises(InvalidInputError, match="does not fit"):
        language(place, lora={"adapter": "other"})


def test_without_peft_the_error_has_the_line_of_pip(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingPackageError) as caught:
        language(place, lora=4)
    assert "pip install 'anyrig[lora]'" in str(caught.value.hint)
