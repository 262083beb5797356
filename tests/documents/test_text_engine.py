"""The engine of workers: tokenizing beside it, memory that ends, texts of any length."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from anyrig.documents.engine import TextEngine, open_embedding_engine
from anyrig.documents.model import EmbeddingModel
from anyrig.documents.model_folder import in_folder
from anyrig.documents.protocol import TextBlock
from tests.documents.engines.toy import sentence_transformer, sentences
from tests.documents.test_embed import embedded, on_cpu
from tests.waiting import wait_until


@pytest.fixture
def model(tmp_path: Path) -> EmbeddingModel:
    sentence_transformer(tmp_path)
    return in_folder(tmp_path, name="tiny")


def _open(model: EmbeddingModel, backend: str = "onnx", processes: int = 0) -> TextEngine:
    (placement,) = on_cpu(model, backend).placements[:1]
    engine = open_embedding_engine(placement, model=model)
    engine._num_processes = processes  # as on a GPU
    return engine


def test_processes_tokenize_what_arrives_and_end_with_the_worker(model: EmbeddingModel) -> None:
    texts = sentences(200, longest=60)
    engine = _open(model, processes=2)
    blocks = [TextBlock(texts[:120]), TextBlock(texts[120:])]
    prepared = [engine.prepare_item(block) for block in blocks]
    assert not any(isinstance(one, TextBlock) for one in prepared)
    np.testing.assert_allclose(
        np.concatenate(engine.run(prepared)), embedded(model, texts), atol=1e-5
    )
    assert isinstance(engine.prepare_item(TextBlock(texts[:3])), TextBlock)  # too few
    for child in _tokenizers():
        os.kill(child.pid, signal.SIGKILL)
    broken = engine.prepare_item(blocks[0])
    np.testing.assert_allclose(engine.run([broken])[0], embedded(model, texts[:120]), atol=1e-5)
    wait_until(lambda: not _tokenizers())


def _tokenizers() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if "spawn_main" in " ".join(one.cmdline())]


@pytest.mark.parametrize("count", [1, 40])
def test_a_block_that_does_not_fit_is_computed_in_parts(
    model: EmbeddingModel, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of many windows cannot be split by the queue."""
    texts = [" ".join(sentences(count * 12, longest=40))] if count > 1 else sentences(30)
    engine = _open(model, "torch")
    most = 100

    def compute(tokens: Any, lengths: Any) -> Any:
        if len(lengths) > 1 and len(tokens) > most:
            raise MemoryError("out of memory")
        return real(tokens, lengths)

    real = engine.network.compute  # type: ignore[union-attr]
    monkeypatch.setattr(engine.network, "compute", compute)
    found = engine.run([TextBlock(texts)])[0]
    np.testing.assert_allclose(found, embedded(model, texts, backend="torch"), atol=1e-5)
    assert engine.network.budget <= 2 * most + 100  # type: ignore[union-attr]


def test_blocks_of_several_uses_have_their_own_prompts(tmp_path: Path) -> None:
    sentence_transformer(tmp_path, prompts={"query": "the cat: ", "document": ""})
    engine = _open(in_folder(tmp_path, name="tiny"))
    query, passage, plain = engine.run([
        TextBlock(["green house"], "query"), TextBlock(["the cat: green house"]),
        TextBlock(["green house"]),
    ])  # fmt: skip
    np.testing.assert_allclose(query, passage, atol=1e-6)
    assert not np.allclose(query, plain, atol=1e-3)


def test_padding_stays_below_five_percent(model: EmbeddingModel) -> None:
    engine = _open(model)
    engine.run([TextBlock(sentences(600, longest=40))])
    assert engine.network.padding < 1.05  # type: ignore[union-attr]
