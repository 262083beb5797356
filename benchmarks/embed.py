"""Embeddings on one GPU beside sentence-transformers: texts in, vectors out, with tokenization.

Random weights at the size of BERT-base and of all-MiniLM-L6-v2, the real WordPiece vocabulary on
both sides, 20,000 texts of mixed length. Ours goes all the way through `documents.embed`: worker
processes, packing by budget, results in order.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Any

from anyrig.devices.discovery import discover
from anyrig.documents.model_folder import in_folder
from benchmarks.embedding_models import (
    MAX_TOKENS,
    MINILM_SIZE,
    build_bert,
    find_tokenizer,
    open_embedder,
    save_model,
)
from benchmarks.harness import Row, median_and_range
from benchmarks.texts import draw_length, sample_passages

NUM_TEXTS = 20_000
ROUNDS = 3
SIZES = {"BERT-base": (768, 12, 12, 3072), "MiniLM": MINILM_SIZE}


def run(hardware: str) -> list[Row]:
    from tokenizers import Tokenizer

    # 61 tokens on average.
    texts = sample_passages(NUM_TEXTS, draw_length(3.5, 0.85, 150), random.Random(7))
    tokenizer = find_tokenizer()
    vocabulary = Tokenizer.from_file(str(tokenizer)).get_vocab_size()
    rows: list[Row] = []
    for name, size in SIZES.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "model"
            save_model(folder, build_bert(size, vocabulary), tokenizer)
            rows += _compare(name, folder, texts)
    return rows


def _compare(size: str, folder: Path, texts: list[str]) -> list[Row]:
    peers = _measure_peer(size, folder, texts)
    rates, cosine = _measure_ours(size, folder, texts)
    ours, spread = median_and_range(rates)
    best = max(peers, key=lambda name: peers[name])
    bars = {"fp32, batch 32": 8.0, "fp16, batch 256": 5.0} if size == "BERT-base" else {best: 5.0}
    return [
        Row(f"{size}: smallest cosine to transformers in fp32", cosine, "", low=0.9999),
        *(
            Row(f"{size}: texts per second, bf16", ours, "texts/s", rate,
                f"sentence-transformers {name}", low=bars.get(name), judge="ratio", spread=spread)
            for name, rate in peers.items()
        ),
    ]  # fmt: skip


def _measure_peer(size: str, folder: Path, texts: list[str]) -> dict[str, float]:
    """Texts a second, by precision and batch size."""
    import torch
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder))
    rates = {}
    for name, dtype, batch in (
        ("fp32, batch 32", torch.float32, 32),
        ("fp16, batch 32", torch.float16, 32),
        ("fp16, batch 256", torch.float16, 256),
    ):
        model = model.to(dtype)
        model.encode(texts[:2000], batch_size=batch, show_progress_bar=False)
        start = time.perf_counter()
        model.encode(texts, batch_size=batch, show_progress_bar=False)
        rates[name] = len(texts) / (time.perf_counter() - start)
        print(f"{size}: sentence-transformers {name}: {rates[name]:,.0f} texts/s", flush=True)
    return rates


def _measure_ours(size: str, folder: Path, texts: list[str]) -> tuple[list[float], float]:
    import numpy as np

    gpu = any(device.usable for device in discover().gpus)
    with open_embedder(
        in_folder(folder, name=size),
        "auto" if gpu else "cpu",
        precision="bf16" if gpu else "fp32",
        workers=2 if gpu else 1,
        libraries=("torch",),
    ) as embedder:
        vectors = list(embedder.embed(texts))  # finds the batch size
        rates = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            vectors = list(embedder.embed(texts))
            rates.append(len(texts) / (time.perf_counter() - start))
            print(f"{size}: ours {rates[-1]:,.0f} texts/s", flush=True)
    return rates, _smallest_cosine(folder / "plain", texts, np.concatenate(vectors))


def _smallest_cosine(folder: Path, texts: list[str], vectors: Any) -> float:
    """Of 200 texts, to transformers' own model in fp32."""
    import torch
    import transformers

    library: Any = transformers
    model = library.BertModel.from_pretrained(folder).eval()
    model = model.cuda() if torch.cuda.is_available() else model
    tokenizer = library.AutoTokenizer.from_pretrained(folder)
    cosines = []
    with torch.inference_mode():
        for number in range(0, len(texts), len(texts) // 200):
            tokens = tokenizer(
                texts[number], truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
            )
            state = model(**tokens.to(model.device)).last_hidden_state[0].mean(0)
            vector = torch.nn.functional.normalize(state, dim=0).cpu()
            cosines.append(float(vector @ torch.from_numpy(vectors[number].copy())))
    return min(cosines)
