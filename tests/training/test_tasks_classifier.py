"""Fine-tuning a text classifier: its loss, figures and split, and the folder it leaves."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from anyrig.documents.classify.finetuned import find_classifier, open_engine
from anyrig.documents.protocol import TextBlock
from anyrig.training.tasks import Task
from anyrig.training.tasks.classifier import (
    Kind,
    LabelledText,
    classifier,
    compute_logits,
    from_folder,
    split,
)
from anyrig.training.tasks.texts import Cutter
from tests.documents.engines.toy import encoder
from tests.documents.test_embed import on_cpu
from tests.training.measure import measured, ratio

LABELS = ("animal", "place", "colour")
OF = {
    0: "cat dog perro chat".split(),
    1: "house river casa maison".split(),
    2: "green verde vert old".split(),
}
FILL = "the a and of with under over runs sleeps".split()


def examples(count: int, kind: Kind = "one", seed: int = 0) -> list[LabelledText]:
    """Texts whose label is told by one of their words."""
    dice = random.Random(seed)
    found = []
    for _ in range(count):
        if kind == "one":
            labels: tuple[int, ...] = (dice.randrange(3),)
        else:
            labels = tuple(n for n in range(3) if dice.random() < 0.5)
        words = [dice.choice(OF[n]) for n in labels] + dice.choices(FILL, k=dice.randint(1, 9))
        dice.shuffle(words)
        found.append(LabelledText(" ".join(words), labels))
    return found


def task_of(folder: Path, kind: Kind = "one", family: str = "bert", **more: Any) -> Task:
    encoder(folder, family)
    torch.manual_seed(0)
    model = from_folder(folder, LABELS, kind=kind)
    cutter = Cutter.of(folder / "tokenizer.json", 32)
    return classifier(
        model, cutter, examples(96, kind), examples(48, kind, 1), LABELS, kind=kind, **more
    )


def trained(task: Task, steps: int, rate: float = 3e-3) -> None:
    assert task.collate is not None
    optimiser = torch.optim.AdamW(task.model.parameters(), lr=rate)
    dice = random.Random(2)
    task.model.train()
    for _ in range(steps):
        batch = task.collate(dice.sample(task.data, 24))
        optimiser.zero_grad()
        task.loss(task.model, batch).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    task.model.eval()


@pytest.mark.parametrize(("kind", "family"), [("one", "bert"), ("many", "modernbert")])
def test_what_was_learnt_sorts_with_the_same_scores(
    kind: Kind, family: str, tmp_path: Path
) -> None:
    task = task_of(tmp_path / "base", kind, family)
    before = measured(task)
    trained(task, 60)
    after = measured(task)
    assert after["loss"] < before["loss"]
    assert after["macro_f1"] > before["macro_f1"] + 0.1
    if kind == "one":
        assert before["accuracy"] < 0.8
        assert after["accuracy"] > 0.9
    made = tmp_path / "made" / "model"
    assert task.finish is not None
    told = task.finish(made.parent)
    assert told["labels"] == list(LABELS)
    model = find_classifier(made)
    assert (model.labels, model.kind, model.longest) == (LABELS, kind, 32)
    texts = [one.text for one in examples(20, kind, 5)]
    placement = on_cpu(model).placements[0]  # type: ignore[arg-type]
    engine = open_engine(placement, **model.recipe().options)
    rows = [Cutter.of(made / "tokenizer.json", 32).rows([text])[0] for text in texts]
    for text, row, answer in zip(texts, rows, engine.run([TextBlock(texts)])[0], strict=True):
        batch = {"input_ids": torch.tensor([row]), "attention_mask": torch.ones(1, len(row))}
        with torch.no_grad():
            scores = compute_logits(task.model, batch)[0]
        wanted = scores.softmax(0) if kind == "one" else scores.sigmoid()
        np.testing.assert_allclose(answer.probabilities, wanted.numpy(), atol=1e-6, err_msg=text)


@pytest.mark.parametrize("weights", ["none", "balanced"])
@pytest.mark.parametrize("kind", ["one", "many"])
def test_a_batch_in_pieces_has_the_loss_of_the_whole(
    kind: Kind, weights: Any, tmp_path: Path
) -> None:
    task = task_of(tmp_path, kind, class_weights=weights)
    assert task.collate is not None
    task.model.eval().double()  # no dropout; rounding of fp32 out of the way
    batch = task.collate(task.data[:24])
    whole = task.loss(task.model, batch)
    whole.backward()  # type: ignore[no-untyped-call]
    wanted = [p.grad.clone() for p in task.model.parameters() if p.grad is not None]
    task.model.zero_grad()
    total = 0.0
    for first, last in ((0, 5), (5, 17), (17, 24)):
        piece = {name: value[first:last] for name, value in batch.items()}
        loss = task.loss(task.model, piece) * (last - first) / 24
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    assert total == pytest.approx(float(whole.detach()), abs=1e-9)
    found = [p.grad for p in task.model.parameters() if p.grad is not None]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


class Fixed(nn.Module):
    """Says what it is told to say."""

    def __init__(self, scores: list[list[float]]) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(scores))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        from types import SimpleNamespace

        return SimpleNamespace(logits=self.scores[input_ids[:, 0]])


def test_figures_are_those_of_scikit_learn(tmp_path: Path) -> None:
    theirs = pytest.importorskip("sklearn.metrics")
    truth, given = [0, 0, 0, 1, 1, 2, 2, 2, 2], [0, 1, 0, 1, 2, 2, 2, 0, 2]
    scores = [[float(n == label) for n in range(4)] for label in given]
    task = task_of(tmp_path)
    batch = {
        "input_ids": torch.arange(9)[:, None],
        "attention_mask": torch.ones(9, 1),
        "truth": torch.nn.functional.one_hot(torch.tensor(truth), 4).float(),
    }
    halves = [{n: v[:4] for n, v in batch.items()}, {n: v[4:] for n, v in batch.items()}]
    model = Fixed(scores)
    for name, wanted in (
        ("accuracy", theirs.accuracy_score(truth, given)),
        ("macro_f1", theirs.f1_score(truth, given, average="macro")),
    ):
        sums = [task.metrics[name](model, half) for half in halves]
        found = ratio(sums[0][0] + sums[1][0], sums[0][1] + sums[1][1])
        assert found == pytest.approx(wanted)


def test_a_split_holds_out_a_share_of_every_label() -> None:
    some = (
        examples(200)
        + [LabelledText("once", (3,))]
        + [LabelledText(f"few {n}", (4,)) for n in range(3)]
    )
    learnt, held = split(some, 0.2, seed=4)
    assert sorted(learnt + held) == list(range(len(some)))
    assert split(some, 0.2, seed=4) == (learnt, held)
    assert split(some, 0.2, seed=5) != (learnt, held)
    for label in range(3):
        count = sum(one.labels == (label,) for one in some)
        assert sum(some[n].labels == (label,) for n in held) == round(0.2 * count)
    assert not any(some[n].labels == (3,) for n in held)
    assert sum(some[n].labels == (4,) for n in held) == 1
    assert split(some, 0.0) == (list(range(len(some))), [])


def test_half_characters_and_empty_texts_are_cut_all_the_same(tmp_path: Path) -> None:
    encoder(tmp_path, "bert")
    rows = Cutter.of(tmp_path / "tokenizer.json", 8).rows(["\ud800 cat", "", "the cat " * 50])
    assert [len(row) for row in rows][1:] == [2, 8]
    assert all(rows)


def test_a_causal_model_without_a_filling_token_is_given_one(tmp_path: Path) -> None:
    """Such a model reads a row's last token, and finds it by what fills the row behind it."""
    transformers: Any = pytest.importorskip("transformers")
    encoder(tmp_path, "bert")
    config = transformers.LlamaConfig(
        vocab_size=200, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=64, bos_token_id=2, eos_token_id=3,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    torch.manual_seed(0)
    model: Any = from_folder(tmp_path, LABELS)
    assert model.config.pad_token_id is None
    cutter = Cutter.of(tmp_path / "tokenizer.json", 32)
    task = classifier(model.eval(), cutter, examples(9), (), LABELS)
    assert task.collate is not None
    assert model.config.pad_token_id is not None
    with torch.no_grad():
        whole = task.loss(model, task.collate(task.data))
        single = [task.loss(model, task.collate([row])) for row in task.data]
    assert float(whole) == pytest.approx(float(torch.stack(single).mean()), abs=1e-5)
    assert task.finish is not None
    task.finish(tmp_path / "run")
    again = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "run" / "model"
    )
    assert again.config.pad_token_id == model.config.pad_token_id
