"""Embeddings on a real GPU: beside the CPU, under a cap of memory, and with a text that is long."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discovery import discover
from anyrig.documents.embed import Embedder
from anyrig.documents.model import EmbeddingModel
from anyrig.documents.model_folder import in_folder
from anyrig.placement import PlacementOptions, PlacementPlan, plan_placement
from anyrig.work.outcome import RunReport
from tests.documents.engines.toy import WORDS, encoder, sentence_transformer, sentences

pytestmark = pytest.mark.gpu


def placed(model: EmbeddingModel, word: str, **wanted: Any) -> PlacementPlan:
    machine = discover(os.environ)
    choice = choose_device(machine, (DeviceRequest(word, "flag"),))
    return plan_placement(
        machine, choice, model.need(), PlacementOptions(**wanted), environment=os.environ
    )


def test_a_gpu_gives_what_the_cpu_gives(tmp_path: Path) -> None:
    sentence_transformer(tmp_path)
    model = in_folder(tmp_path, name="tiny")
    texts = sentences(500)
    seats = {
        "cpu": placed(model, "cpu", precision="fp32"),
        "gpu fp32": placed(model, "auto", precision="fp32"),
        "gpu bf16": placed(model, "auto", precision="bf16"),
    }
    found = {}
    for name, where in seats.items():
        with Embedder(model, placed=where, environment=os.environ) as made:
            found[name] = made.matrix(texts)
    assert seats["gpu bf16"].placements[0].backend.library == "torch"
    assert float(np.abs(found["gpu fp32"] - found["cpu"]).max()) < 1e-4
    # A tiny model with large weights magnifies; real sizes are held to 0.9999 in the benchmark.
    assert float((found["gpu bf16"] * found["cpu"]).sum(axis=1).min()) > 0.999


def test_one_long_text_among_many_short_ones_under_a_cap(tmp_path: Path) -> None:
    encoder(
        tmp_path, "modernbert", hidden_size=768, num_hidden_layers=8, num_attention_heads=12,
        intermediate_size=1152, max_position_embeddings=8192,
    )  # fmt: skip
    model = in_folder(tmp_path, name="long")
    tokenizer = tmp_path / "tokenizer_config.json"
    tokenizer.write_text(tokenizer.read_text().replace("64", "8192"))
    model = in_folder(tmp_path, name="long")
    assert model.longest == 8192
    dice = random.Random(2)
    texts = sentences(500)
    texts.insert(250, " ".join(dice.choices(WORDS, k=8000)))
    report = RunReport()
    with Embedder(
        model, placed=placed(model, "auto", precision="bf16", memory_gb=1.0),
        environment=os.environ,
    ) as made:  # fmt: skip
        found = np.concatenate(list(made.embed(texts, report=report)))
    assert found.shape == (501, 768)
    assert np.isfinite(found).all()
    assert report.peak_bytes is None or report.peak_bytes < 1.05 * 2**30
    with Embedder(
        model, placed=placed(model, "auto", precision="bf16"), environment=os.environ
    ) as made:
        free = made.matrix(texts)
    assert float((found * free).sum(axis=1).min()) > 0.999


def test_deterministic_on_a_gpu_is_near_in_any_company(tmp_path: Path) -> None:
    sentence_transformer(tmp_path)
    model = in_folder(tmp_path, name="tiny")
    texts = sentences(60)
    where = placed(model, "auto", precision="fp32")
    with Embedder(model, placed=where, environment=os.environ, deterministic=True) as made:
        together = made.matrix(texts)
        alone = np.concatenate([made.matrix([text]) for text in texts[:10]])
    assert float((together[:10] * alone).sum(axis=1).min()) >= 0.9999
