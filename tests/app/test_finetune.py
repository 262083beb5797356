"""Fine-tuning: examples in, the folder of a model out."""

from __future__ import annotations

import json
import os
import random
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from anyrig import Rig
from anyrig.app.training import TASKS, tune_classifier, tune_embedding
from anyrig.documents.classify.finetuned import find_classifier as classifier_in
from anyrig.documents.classify.pipeline import Examples, classify_with_model, select_examples
from anyrig.documents.model import EmbeddingModel, find
from anyrig.documents.model_folder import in_folder
from anyrig.documents.pairs import read_pairs
from anyrig.documents.reading import OpenedSource, TextSource, read_sources
from anyrig.errors import InvalidInputError, InvalidSettingError, WorkError
from anyrig.events import Event, ProgressEvent
from anyrig.text.manifest import read_manifest
from anyrig.training import tasks
from anyrig.training.config import TrainConfig
from anyrig.training.fine_tune import classifier_settings, embedding_settings
from anyrig.training.tasks.embedding import Pair, evaluate_retrieval, split_pairs
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from tests.conftest import ROOT
from tests.documents.engines.toy import sentence_transformer
from tests.documents.test_embed import embedded, on_cpu
from tests.training.measure import measured

OF = {"animal": "cat dog perro chat", "place": "house river casa maison"}
EXAMPLES = ROOT / "examples" / "train"


@pytest.fixture
def tiny(tmp_path: Path) -> EmbeddingModel:
    sentence_transformer(tmp_path / "tiny", "bert")
    return in_folder(tmp_path / "tiny", name="tiny")


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    dice, found = random.Random(seed), []
    for number in range(count):
        label = sorted(OF)[number % 2]
        words = [
            dice.choice(OF[label].split()),
            *dice.choices("the a and of with old".split(), k=5),
        ]
        dice.shuffle(words)
        found.append({"text": f"{' '.join(words)} {number}", "label": label})
    return found


def written(path: Path, told: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in told))
    return path


def examples_in(path: Path) -> tuple[Examples, list[OpenedSource]]:
    examples = select_examples(read_manifest(path))
    return examples, list(read_sources(examples.sources))


def quick(**more: Any) -> TrainConfig:
    return classifier_settings(
        **{"learning_rate": 3e-3, "epochs": 6, "micro_batch": 16, "precision": "fp32", **more}
    )


def test_examples_become_a_folder_that_sorts(tiny: EmbeddingModel, tmp_path: Path) -> None:
    found = examples_in(written(tmp_path / "some.jsonl", [*rows(80), {"text": "no label"}]))
    seen: list[Event] = []
    folder = tmp_path / "made"
    tuned = tune_classifier(*found, tiny, folder, settings=quick(epochs=15), on_event=seen.append)
    assert (tuned.labels, tuned.kind, tuned.num_learnt, tuned.num_held) == (
        ("animal", "place"), "one", 64, 16
    )  # fmt: skip
    assert tuned.after["accuracy"] > 0.85
    assert tuned.after["loss"] < tuned.before["loss"]
    assert tuned.steps == 60
    assert [place for place, _ in tuned.troubles] == ["some.jsonl, line 81"]
    assert seen[-1] == ProgressEvent("training", 60, 60)
    model = classifier_in(folder)
    assert model.labels == ("animal", "place")
    assert {path.name for path in tmp_path.iterdir()} >= {"made", "tiny"}
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".run")]
    sources = [TextSource(one["text"], text=one["text"]) for one in rows(10, seed=7)]
    placements = on_cpu(model).placements  # type: ignore[arg-type]
    with WorkerPool(LocalWorkers(placements, model.recipe(), environment=os.environ)) as pool:
        answers = list(classify_with_model(read_sources(sources), model, pool))
    right = [one.answer is not None and one.answer.labels == (told["label"],)
             for one, told in zip(answers, rows(10, seed=7), strict=True)]  # fmt: skip
    assert sum(right) >= 8


def test_a_stopped_run_goes_on_where_it_was(
    tiny: EmbeddingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examples_in(written(tmp_path / "some.jsonl", rows(64)))
    whole = tune_classifier(*found, tiny, tmp_path / "whole", settings=quick(epochs=3))

    def stop(event: Event) -> None:
        if event == ProgressEvent("training", 5, 12):
            os.kill(os.getpid(), 2)

    with pytest.raises(WorkError, match="stopped after 5 of 12 steps"):
        tune_classifier(*found, tiny, tmp_path / "made", settings=quick(epochs=3), on_event=stop)
    assert not (tmp_path / "made").exists()
    events: list[Event] = []
    again = tune_classifier(
        *found, tiny, tmp_path / "made", settings=quick(epochs=3),
        on_event=events.append,
    )  # fmt: skip
    steps = [one for one in events if isinstance(one, ProgressEvent) and one.stage == "training"]
    assert [one.done for one in steps] == list(range(6, 13))
    assert again.after == pytest.approx(whole.after, abs=1e-5)
    assert again.before == pytest.approx(whole.before)


def test_all_examples_may_be_learnt_from(tiny: EmbeddingModel, tmp_path: Path) -> None:
    found = examples_in(written(tmp_path / "some.jsonl", rows(16)))
    tuned = tune_classifier(*found, tiny, tmp_path / "made", settings=quick(epochs=1), held=0.0)
    assert (tuned.num_learnt, tuned.num_held) == (16, 0)
    assert dict(tuned.before) == dict(tuned.after) == {}


def test_nothing_is_written_over(tiny: EmbeddingModel, tmp_path: Path) -> None:
    found = examples_in(written(tmp_path / "some.jsonl", rows(16)))
    there = tmp_path / "there"
    there.mkdir()
    (there / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="already exists"):
        tune_classifier(*found, tiny, there)
    assert (there / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (rows(6), "too few"),
        ([{"text": f"cat {n}", "label": "animal"} for n in range(20)], "all examples are 'animal'"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(
    told: list[dict[str, Any]], said: str, tiny: EmbeddingModel, tmp_path: Path
) -> None:
    found = examples_in(written(tmp_path / "some.jsonl", told))
    with pytest.raises(InvalidInputError, match=said):
        tune_classifier(*found, tiny, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_pairs_become_a_folder_that_embeds(tiny: EmbeddingModel, tmp_path: Path) -> None:
    dice = random.Random(3)
    words = "cat dog house river stone green small old runs sleeps opens casa perro verde".split()
    told = []
    for _ in range(120):
        some = dice.sample(words, 6)
        told.append({"query": " ".join(some[:4]), "passage": " ".join(reversed(some[1:]))})
    file = written(tmp_path / "pairs.jsonl", [*told, {"query": "alone"}])
    tuned = tune_embedding(
        read_pairs(file), tiny, tmp_path / "made",
        settings=embedding_settings(learning_rate=2e-3, precision="fp32"),
    )  # fmt: skip
    assert tuned.num_learnt + tuned.num_held == 120
    assert tuned.after["mean_reciprocal_rank"] > tuned.before["mean_reciprocal_rank"]
    assert [place for place, _ in tuned.troubles] == ["pairs.jsonl, line 121"]
    made = in_folder(tmp_path / "made", name="made")
    assert made.fingerprint != tiny.fingerprint
    assert embedded(made, ["the cat", "old stone"]).shape == (2, 32)


def test_pairs_that_share_a_text_stay_together() -> None:
    some = [Pair(f"q{n // 3}", f"p{n}") for n in range(60)] + [Pair("x", "p0"), Pair("y", "z")]
    learnt, held = split_pairs(some, 0.25, seed=1)
    assert sorted(learnt + held) == list(range(62))
    assert 10 <= len(held) <= 16
    texts = [{text for n in part for text in some[n][:2]} for part in (learnt, held)]
    assert not texts[0] & texts[1]
    assert split_pairs(some, 0.25, seed=1) == (learnt, held)


@pytest.fixture
def tables() -> dict[str, Any]:
    return {
        name: tomllib.loads((EXAMPLES / f"{name}.toml").read_text(encoding="utf-8"))
        for name in TASKS
    }


def _build(table: dict[str, Any], folder: Path, run: Path) -> tasks.Task:
    return tasks.build_task(table, folder, run, seed=0, kinds={**tasks.TASKS, **TASKS})


def test_the_examples_are_tasks(tables: dict[str, Any], tmp_path: Path) -> None:
    task = _build(tables["classifier"]["task"], EXAMPLES, tmp_path)
    assert (len(task.data), len(task.validation)) == (320, 80)
    other = _build(tables["embedding"]["task"], EXAMPLES, tmp_path)
    assert len(other.data) + len(other.validation) == 288
    for table in tables.values():
        TrainConfig.from_table(table["train"])
    assert measured(task)["accuracy"] < 0.5
    assert evaluate_retrieval(other)["recall_at_1"] < 0.5


@pytest.mark.parametrize("kind", [["language"], "langauge"])
def test_a_kind_that_there_is_not_is_refused_with_all_that_there_are(
    kind: Any, tmp_path: Path
) -> None:
    with pytest.raises((InvalidSettingError, InvalidInputError)) as caught:
        _build({"kind": kind}, tmp_path, tmp_path)
    assert {"language", "images", "classifier", "embedding"} <= set(
        re.findall(r"\w+", caught.value.hint)
    )


def test_a_kind_of_0_1_0_that_is_gone_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match="no longer part") as caught:
        _build({"kind": "diffusion", "data": "pictures"}, tmp_path, tmp_path)
    assert "examples/train/diffusion.py" in caught.value.hint


def test_the_command_fine_tunes_and_sorts(anyrig: Any, tmp_path: Path) -> None:
    sentence_transformer(tmp_path / "tiny", "bert")
    file = written(tmp_path / "some.jsonl", rows(48))
    words = ["classify", "--train", str(file), "--fine-tune", str(tmp_path / "made"),
             "--model", str(tmp_path / "tiny"), "--device", "cpu", "--no-bench"]  # fmt: skip
    done = anyrig(*words, "--epochs", "4", "--learning-rate", "0.003", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["labels"] == ["animal", "place"]
    assert told["steps"] == 12
    assert told["after"]["loss"] < told["before"]["loss"]
    again = anyrig(*words)
    assert again.returncode == 2
    assert "already exists" in again.stderr
    sorted_ = anyrig("classify", "--text", "the cat and perro", "--with", str(tmp_path / "made"),
                     "--device", "cpu", "--no-bench", "--json")  # fmt: skip
    assert sorted_.returncode == 0, sorted_.stderr
    assert json.loads(sorted_.stdout)["results"][0]["label"] in ("animal", "place")


def test_a_table_of_files_in_any_order_keeps_the_label_of_each(tmp_path: Path) -> None:
    sentence_transformer(tmp_path / "tiny", "bert")
    table = ["file,label"]
    for number, row in enumerate(rows(48)):
        (tmp_path / f"{number}.txt").write_text(row["text"], encoding="utf-8")
        table.append(f"{number}.txt,{row['label']}")
    (tmp_path / "some.csv").write_text("\n".join(table), encoding="utf-8")
    with Rig() as rig:
        tuned = rig.fine_tune(
            tmp_path / "some.csv", tmp_path / "made", model=str(tmp_path / "tiny"), device="cpu",
            no_bench=True, epochs=12, learning_rate=3e-3,
        )  # fmt: skip
    assert tuned.after["accuracy"] > 0.8


@pytest.mark.slow
def test_the_packaged_model_learns_the_example(tmp_path: Path) -> None:
    found = examples_in(EXAMPLES / "data" / "messages.jsonl")
    model = find("minilm", models=tmp_path)
    tuned = tune_classifier(
        *found, model, tmp_path / "made",
        settings=classifier_settings(epochs=2, learning_rate=3e-4, micro_batch=16),
    )  # fmt: skip
    assert tuned.before["accuracy"] < 0.5
    assert tuned.after["accuracy"] > 0.9
