"""Fine-tuned classifiers of a folder: a tiny random one, beside transformers' own answers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anyrig.backends.onnx_graph import GraphBuilder
from anyrig.devices.choose import choose_device
from anyrig.devices.discovery import discover
from anyrig.documents.classify.finetuned import (
    FineTuned,
    LabelPrediction,
    find_classifier,
    open_engine,
)
from anyrig.documents.protocol import TextBlock
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.placement import Placement, PlacementOptions, plan_placement

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
WORDS = "pay the bill dear friend love cook rice salt now please soon and with of".split()
TEXTS = [
    "pay the bill now",
    "dear friend with love",
    "cook",
    " ".join(WORDS * 12),  # many windows
    "salt and rice and salt",
]


def _saved(folder: Path, **config: Any) -> Path:
    """A tiny BERT with a tokenizer of whole words, as transformers saves it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder.mkdir(parents=True)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    made = Tokenizer(models.WordLevel({name: n for n, name in enumerate(names)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.save(str(folder / "tokenizer.json"))
    told = {
        "vocab_size": len(names), "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32,
        "pad_token_id": 0, "id2label": {0: "invoice", 1: "letter", 2: "recipe"},
        "initializer_range": 0.5, **config,
    }  # fmt: skip
    torch.manual_seed(1)
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**told))
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _saved(tmp_path_factory.mktemp("tuned") / "tiny")


def _placed(model: FineTuned, backend: str) -> Placement:
    machine = discover(os.environ)
    need = model.need()
    assert backend in need.libraries
    only = type(need)(need.name, (backend,), need.precisions)
    found = plan_placement(
        machine,
        choose_device(machine),
        only,
        PlacementOptions(precision="fp32", workers_per_device=1),
    )
    return found.placements[0]


def _told(model: FineTuned, backend: str, texts: list[str]) -> list[LabelPrediction]:
    engine = open_engine(_placed(model, backend), **model.recipe().options)
    found: list[LabelPrediction] = engine.run([TextBlock(texts)])[0]
    return found


def _theirs(folder: Path, ids: list[int]) -> Any:
    model = transformers.AutoModelForSequenceClassification.from_pretrained(str(folder)).eval()
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).logits.softmax(-1)[0].numpy()


def test_answers_are_those_of_transformers(folder: Path) -> None:
    from tokenizers import Tokenizer

    model = find_classifier(folder)
    assert (model.labels, model.kind, model.longest) == (("invoice", "letter", "recipe"), "one", 32)
    told = _told(model, "torch", TEXTS)
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text, one in zip(TEXTS, told, strict=True):
        if one.num_windows == 1:
            assert np.abs(_theirs(folder, tokens.encode(text).ids) - one.probabilities).max() < 1e-5
    assert [one.num_windows for one in told] == [1, 1, 1, 8, 1]


def test_a_long_text_is_the_mean_of_its_windows(folder: Path) -> None:
    from tokenizers import Tokenizer

    model = find_classifier(folder)
    (one,) = _told(model, "torch", [TEXTS[3]])
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens.enable_truncation(32, stride=7)
    whole = tokens.encode(TEXTS[3])
    rows = [whole.ids, *(part.ids for part in whole.overflowing)]
    want = np.average([_theirs(folder, row) for row in rows], axis=0, weights=list(map(len, rows)))
    assert np.abs(want - one.probabilities).max() < 1e-5
    assert sum(one.probabilities) == pytest.approx(1.0)
    start, end = one.window
    assert 0 <= start < end <= len(TEXTS[3])
    best = int(np.argmax(want))
    assert one.window_probability == pytest.approx(max(_theirs(folder, r)[best] for r in rows))


def test_an_onnx_file_is_run_as_it_is(folder: Path, tmp_path: Path) -> None:
    """A graph of our own: the mean of its tokens' rows, then a product."""
    from tokenizers import Tokenizer

    dice = np.random.default_rng(2)
    rows = dice.normal(size=(4 + len(WORDS), 8)).astype(np.float32)
    lines = dice.normal(size=(8, 3)).astype(np.float32)
    (tmp_path / "onnx").mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(folder / name, tmp_path / name)
    (tmp_path / "onnx" / "model.onnx").write_bytes(_graph(rows, lines))
    model = find_classifier(tmp_path)
    assert not model.weights
    assert model.need().libraries == ("onnx",)
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
    told = _told(model, "onnx", TEXTS)
    for text, one in zip(TEXTS, told, strict=True):
        if one.num_windows == 1:  # padding must not count
            scores = rows[tokens.encode(text).ids].mean(axis=0) @ lines
            want = np.exp(scores) / np.exp(scores).sum()
            assert np.abs(want - one.probabilities).max() < 1e-5
    assert told[3].num_windows == 8


def _graph(rows: NDArray[np.float32], lines: NDArray[np.float32]) -> bytes:
    graph = GraphBuilder()
    for name in ("input_ids", "attention_mask"):
        graph.add_input(name, "int64", ("rows", "tokens"))
    one, two = graph.add_constant(np.array([1])), graph.add_constant(np.array([2]))
    graph.add_node("Gather", [graph.add_weight("table", rows), "input_ids"], "each")
    graph.add_node("Cast", ["attention_mask"], "mask", to="float32")
    graph.add_node("Unsqueeze", ["mask", two], "column")
    graph.add_node("Mul", ["each", "column"], "masked")
    graph.add_node("ReduceSum", ["masked", one], "total", keepdims=0)
    graph.add_node("ReduceSum", ["mask", one], "count", keepdims=1)
    graph.add_node("Div", ["total", "count"], "mean")
    graph.add_node("MatMul", ["mean", graph.add_weight("lines", lines)], "logits")
    graph.add_output("logits", "float32", ("rows", 3))
    written = graph.build()
    assert not written.arrays
    return written.model


def test_labels_on_their_own(tmp_path: Path) -> None:
    folder = _saved(tmp_path / "multi", problem_type="multi_label_classification")
    model = find_classifier(folder)
    assert model.kind == "many"
    (one,) = _told(model, "torch", ["pay the bill"])
    assert sum(one.probabilities) != pytest.approx(1.0, abs=1e-3)
    assert all(0 < share < 1 for share in one.probabilities)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"architectures": ["BertForMaskedLM"]}, InvalidInputError, "not a text classifier"),
        ({"problem_type": "regression"}, InvalidInputError, "regression"),
        ({"id2label": {"0": "a", "2": "b"}}, InvalidInputError, "skips a number"),
        ([], InvalidInputError, "not an object"),
    ],
)
def test_folders_that_are_no_classifier(
    folder: Path, tmp_path: Path, change: Any, error: type[Exception], said: str
) -> None:
    shutil.copytree(folder, tmp_path / "changed")
    file = tmp_path / "changed" / "config.json"
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, **change} if isinstance(change, dict) else change))
    with pytest.raises(error, match=said):
        find_classifier(tmp_path / "changed")


def test_a_folder_without_weights(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(folder / name, tmp_path / name)
    with pytest.raises(MissingWeightsError, match="no weights"):
        find_classifier(tmp_path)
    with pytest.raises(InvalidInputError, match="is not a model"):
        find_classifier(tmp_path / "nowhere")
