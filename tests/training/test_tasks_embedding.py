"""Fine-tuning an embedding model: its losses, pieces of a batch, and the folder it leaves."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anyrig.documents.model import find
from anyrig.documents.model_folder import in_folder
from anyrig.documents.models.arrays import read_packaged_floats
from anyrig.errors import InvalidInputError
from anyrig.training import TrainConfig, Trainer
from anyrig.training.tasks import Task
from anyrig.training.tasks.embedding import (
    Pair,
    PairRow,
    Scored,
    ScoredRow,
    SentenceModel,
    embedding,
    evaluate_retrieval,
    from_folder,
    from_state,
    pair_loss,
    pair_scores,
)
from anyrig.training.tasks.texts import Cutter, pad_rows
from tests.documents.engines.toy import WORDS, sentence_transformer, sentences
from tests.documents.test_embed import embedded
from tests.training.measure import measured


def pairs(count: int, seed: int = 0) -> list[Pair]:
    """A text and some of its words in another order."""
    dice = random.Random(seed)
    found = []
    for _ in range(count):
        words = dice.sample(WORDS, 6)
        found.append(Pair(" ".join(words[:4]), " ".join(reversed(words[1:]))))
    return found


def model_of(folder: Path, family: str = "bert", **more: Any) -> tuple[SentenceModel, Cutter]:
    """A tiny model and its cutter, in the way that its folder says."""
    sentence_transformer(folder, family, **more)
    told = in_folder(folder, name="tiny")
    model = from_folder(
        told.folder, dense=told.dense, pooling=told.pooling, normalise=told.normalise
    )
    return model, Cutter.of(folder / "tokenizer.json", told.longest)


def trained(task: Task, steps: int, rate: float = 1e-3) -> None:
    assert task.collate is not None
    optimiser = torch.optim.AdamW(task.model.parameters(), lr=rate)
    dice = random.Random(2)
    task.model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        loss: Any = task.loss(task.model, task.collate(dice.sample(task.data, 32)))
        loss.backward()
        optimiser.step()
    task.model.eval()


def gradients(model: torch.nn.Module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize(
    ("family", "pooling", "dense", "normalise"),
    [
        ("bert", "pooling_mode_mean_tokens", False, True),
        ("xlm-roberta", "pooling_mode_cls_token", True, False),
        ("modernbert", "pooling_mode_max_tokens", False, True),
    ],
)
def test_the_folder_gives_the_vectors_of_the_model(
    family: str, pooling: str, dense: bool, normalise: bool, tmp_path: Path
) -> None:
    model, cutter = model_of(
        tmp_path / "base", family, pooling=pooling, dense=dense, normalise=normalise
    )
    task = embedding(model, cutter, pairs(64))
    trained(task, 5)
    made = tmp_path / "made" / "model"
    assert task.finish is not None
    task.finish(made.parent)
    texts = sentences(30, longest=20)
    found = in_folder(made, name="made")
    assert (found.longest, found.normalise) == (48, normalise)
    assert found.fingerprint != in_folder(tmp_path / "base", name="base").fingerprint
    ids, mask = pad_rows(cutter.rows(texts), 0 if family != "xlm-roberta" else 1)
    with torch.no_grad():
        wanted = model(ids, mask).numpy()
    for backend in ("onnx", "torch") if found.graph else ("torch",):
        np.testing.assert_allclose(embedded(found, texts, backend=backend), wanted, atol=1e-4)


def test_sentence_transformers_reads_the_folder(tmp_path: Path) -> None:
    theirs: Any = pytest.importorskip("sentence_transformers")
    model, cutter = model_of(tmp_path / "base", dense=True)
    task = embedding(model, cutter, pairs(8), prompts={"query": "the ", "passage": "a "})
    made = tmp_path / "made" / "model"
    assert task.finish is not None
    task.finish(made.parent)
    texts = sentences(10)
    loaded = theirs.SentenceTransformer(str(made), device="cpu")
    wanted = embedded(in_folder(made, name="made"), texts, use="query")
    np.testing.assert_allclose(loaded.encode(texts, prompt_name="query"), wanted, atol=1e-4)


def test_learning_from_pairs_finds_more_of_them(tmp_path: Path) -> None:
    model, cutter = model_of(tmp_path)
    task = embedding(model, cutter, pairs(400), pairs(60, 1))
    before, loss_before = evaluate_retrieval(task), measured(task)["loss"]
    trained(task, 60, 2e-3)
    after = evaluate_retrieval(task)
    assert after["recall_at_1"] > before["recall_at_1"] + 0.1
    assert after["mean_reciprocal_rank"] > before["mean_reciprocal_rank"]
    assert measured(task)["loss"] < loss_before


def test_learning_from_scores_orders_by_them(tmp_path: Path) -> None:
    def scored(count: int, seed: int) -> list[Scored]:
        dice, found = random.Random(seed), []
        for _ in range(count):
            one, other = (dice.choices(("green", "house"), k=6) for _ in "ab")
            near = sum(word == "green" for word in one) - sum(word == "green" for word in other)
            found.append(Scored(" ".join(one), " ".join(other), 1 - abs(near) / 3))
        return found

    model, cutter = model_of(tmp_path)
    task = embedding(model, cutter, scored(200, 0), scored(60, 1))
    before = evaluate_retrieval(task)["spearman"]
    told = measured(task)
    trained(task, 60, 2e-3)
    after = measured(task)
    assert evaluate_retrieval(task)["spearman"] > max(0.5, before)
    assert after["loss"] < told["loss"]
    assert after["cosine_error"] < told["cosine_error"]


def test_pieces_have_the_gradients_of_the_whole_batch(tmp_path: Path) -> None:
    model, cutter = model_of(tmp_path)
    model.double().eval()
    given = [Pair(*one[:2], ("the old stone",)) for one in pairs(20)]
    task = embedding(model, cutter, given)
    assert task.collate is not None
    batch = task.collate(task.data)
    whole: Any = task.loss(model, batch)
    whole.backward()
    wanted = gradients(model)
    model.zero_grad()
    model.piece = 6
    pieces: Any = task.loss(model, batch)
    pieces.backward()
    assert pieces.item() == pytest.approx(whole.item(), abs=1e-9)
    for one, other in zip(gradients(model), wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def test_pieces_keep_one_piece_of_activations(tmp_path: Path) -> None:
    model, cutter = model_of(tmp_path)
    task = embedding(model.train(), cutter, pairs(64))
    assert task.collate is not None
    batch = task.collate(task.data)
    kept: list[int] = []

    def size(tensor: torch.Tensor) -> torch.Tensor:
        kept[-1] += tensor.numel()
        return tensor

    for piece in (0, 8):
        model.piece = piece
        kept.append(0)
        with torch.autograd.graph.saved_tensors_hooks(size, lambda tensor: tensor):
            task.loss(model, batch)
    assert kept[1] < kept[0] / 10


def test_dropout_is_the_same_when_a_piece_is_computed_again(tmp_path: Path) -> None:
    model, cutter = model_of(tmp_path)
    model.train()
    model.piece = 4
    task = embedding(model, cutter, pairs(8))
    assert task.collate is not None
    batch = task.collate(task.data)
    found = []
    for _ in range(2):
        torch.manual_seed(3)
        model.zero_grad()
        loss: Any = task.loss(model, batch)
        loss.backward()
        found.append(gradients(model))
    moved = 1e-3
    torch.manual_seed(3)
    name, parameter = next((n, p) for n, p in model.named_parameters() if "output.dense.bias" in n)
    assert parameter.grad is not None, name
    direction = parameter.grad / parameter.grad.norm()
    with torch.no_grad():
        losses = []
        for sign in (1, -1):
            parameter.add_(sign * moved * direction)
            torch.manual_seed(3)
            model.piece = 0  # the masks of dropout are drawn piece by piece: compare like with like
            losses.append(_piecewise(model, batch))
            parameter.sub_(sign * moved * direction)
    slope = (losses[0] - losses[1]) / (2 * moved)
    assert slope == pytest.approx(float(parameter.grad.norm()), rel=0.05)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def _piecewise(model: SentenceModel, batch: Any) -> float:
    """The pair loss of vectors made four rows at a time."""

    class Pieces(torch.nn.Module):
        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            made = [model(ids[at : at + 4], mask[at : at + 4]) for at in range(0, len(ids), 4)]
            return torch.cat(made)

    return float(pair_loss(Pieces(), batch))


def test_the_loss_is_what_it_says(tmp_path: Path) -> None:
    model, cutter = model_of(tmp_path)
    model.eval()
    given = [Pair("the cat", "a cat", ("old stone", "river")), Pair("house", "casa"),
             Pair("green", "verde", ("dog",))]  # fmt: skip
    task = embedding(model, cutter, given, scale=7.0)
    assert task.collate is not None
    rows = cutter.rows(["the cat", "house", "green", "a cat", "casa", "verde", "old stone",
                        "river", "dog"])  # fmt: skip
    with torch.no_grad():
        loss = float(task.loss(model, task.collate(task.data)))
        vectors = torch.cat([model(torch.tensor([r]), torch.ones(1, len(r))) for r in rows])
    cosines = vectors[:3] @ vectors[3:].T
    wanted = torch.nn.functional.cross_entropy(7.0 * cosines, torch.arange(3))
    assert loss == pytest.approx(float(wanted), abs=1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_validation_is_the_same_for_every_micro_batch_and_format(tmp_path: Path) -> None:
    model, cutter = model_of(tmp_path / "base")
    task = embedding(model, cutter, pairs(64), pairs(64, seed=1))
    found = []
    for micro, precision in ((64, "fp32"), (8, "fp32"), (64, "bf16"), (8, "bf16")):
        settings = TrainConfig(batch=64, micro_batch=micro, steps=1, precision=precision)
        with Trainer.of(task, config=settings, device="cpu") as trainer:
            found.append(trainer.evaluate())
    assert found[1] == pytest.approx(found[0], rel=1e-4)
    assert found[3] == pytest.approx(found[2], rel=0.02)
    assert [one["recall_at_1"] for one in found] == [found[0]["recall_at_1"]] * 4
    assert found[2]["loss"] == pytest.approx(found[0]["loss"], rel=0.02)


def test_a_twin_is_no_negative(tmp_path: Path) -> None:
    model, cutter = model_of(tmp_path)
    given = [Pair("cat", "dog"), Pair("chat", "dog"), Pair("cat", "perro"), Pair("house", "casa")]
    task = embedding(model, cutter, given)
    assert task.collate is not None
    with torch.no_grad():
        scores = pair_scores(model, task.collate(task.data))
    out = scores.isinf()
    assert out.nonzero().tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]


def test_figures_of_the_held_out_part_are_those_by_hand() -> None:
    class Angles(torch.nn.Module):
        """A text is an angle in degrees."""

        def __init__(self) -> None:
            super().__init__()
            self.one = torch.nn.Parameter(torch.ones(()))

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            angle = torch.deg2rad(ids[:, 0].float())
            return torch.stack([angle.cos(), angle.sin()], dim=1) * self.one

    def task(rows: list[Any]) -> Task:
        return Task("embedding", Angles(), [], lambda *_: torch.zeros(()), validation=rows)

    rows = [PairRow((10,), (12,)), PairRow((50,), (80,)), PairRow((40,), (51,)),
            PairRow((52,), (51,))]  # fmt: skip
    told = evaluate_retrieval(task(rows))  # 50 is nearest to 51, which two share; 80 comes second
    assert told["recall_at_1"] == pytest.approx(3 / 4)
    assert told["mean_reciprocal_rank"] == pytest.approx((1 + 1 / 2 + 1 + 1) / 4)
    apart = [ScoredRow((0,), (10,), 0.9), ScoredRow((0,), (20,), 0.9), ScoredRow((0,), (90,), 0.5),
             ScoredRow((0,), (30,), 0.1)]  # fmt: skip
    stats = pytest.importorskip("scipy.stats")
    cosines = np.cos(np.deg2rad([10, 20, 90, 30]))
    wanted = stats.spearmanr(cosines, [0.9, 0.9, 0.5, 0.1]).statistic
    assert evaluate_retrieval(task(apart))["spearman"] == pytest.approx(wanted)


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    model, cutter = model_of(tmp_path)
    with pytest.raises(InvalidInputError, match="no pairs"):
        embedding(model, cutter, [])
    with pytest.raises(InvalidInputError, match="scores and without"):
        embedding(model, cutter, pairs(2), [Scored("a", "b", 1.0)])
    with pytest.raises(InvalidInputError, match="scale"):
        embedding(model, cutter, pairs(2), scale=0)
    with pytest.raises(InvalidInputError, match="pooling"):
        SentenceModel(model.encoder, pooling="sum")  # type: ignore[arg-type]


def test_the_packaged_model_has_its_own_vectors() -> None:
    found = find("minilm", models=Path())
    config, state = read_packaged_floats(found.folder)
    model = from_state(
        config, {name: torch.from_numpy(value) for name, value in state.items()}
    ).eval()
    texts = ["Please pay the bill.", "A letter from my aunt, with love, about the garden."]
    assert found.tokenizer is not None
    ids, mask = pad_rows(Cutter.of(found.tokenizer, found.longest).rows(texts), 0)
    with torch.no_grad():
        made = model(ids, mask).numpy()
    np.testing.assert_allclose(made, embedded(found, texts), atol=1e-4)
