"""Embeddings on a CPU beside sentence-transformers: CPU seconds, padding, cold start, memory, and
what the result cache adds to a text.

Both sides have the same weights, those of the default model, in fp32; each measurement is a process
of its own, on one thread. Ours goes all the way through `documents.embed`.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.embedding_models import open_embedder, save_minilm, save_model
from benchmarks.harness import Row, median_and_range
from benchmarks.processes import ANYRIG, child_environment, measure_command, run_module
from benchmarks.texts import draw_length, sample_passages

NUM_TEXTS = 600
ROUNDS = 5
NUM_SHAPES = 10_000
LIMIT_BYTES = 3 << 30
_LONG_TOKENS = 8000
NUM_CACHED = 8_000


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        minilm, long = Path(name) / "minilm", Path(name) / "long"
        save_minilm(minilm)
        _save_long_model(long)
        return [
            *_throughput(minilm), *_cold_start(minilm), *_memory_growth(), *_long_text(long),
            *measure_cache(),
        ]  # fmt: skip


def _run(*arguments: str) -> dict[str, Any]:
    environment = child_environment(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    found: dict[str, Any] = run_module("benchmarks.embed_cpu", *arguments, environment=environment)
    return found


def _throughput(folder: Path) -> list[Row]:
    ours, theirs, padding = [], [], 1.0
    for number in range(ROUNDS):  # in turns: the load of the machine changes
        one, other = (_run(side, str(folder)) for side in ("ours", "theirs"))
        print(f"round {number + 1}: ours {one}, sentence-transformers {other}", flush=True)
        ours.append(one["cpu_s"])
        theirs.append(other["cpu_s"])
        padding = one["padding"]
    ratios = [other / one for one, other in zip(ours, theirs, strict=True)]
    cpu_s, spread = median_and_range(ours)
    return [
        Row(f"{NUM_TEXTS} texts in fp32, times the speed of sentence-transformers encode(32)",
            statistics.median(ratios), "x", low=1.15,
            spread=f"{min(ratios):.2f}-{max(ratios):.2f} of {ROUNDS}"),
        Row(f"{NUM_TEXTS} texts in fp32", cpu_s, "CPU s", statistics.median(theirs),
            "sentence-transformers encode(32)", spread=spread),
        Row("padded over real tokens", padding, "", high=1.05),
    ]  # fmt: skip


def _cold_start(folder: Path) -> list[Row]:
    program = f"""
from sentence_transformers import SentenceTransformer
SentenceTransformer({str(folder)!r}, device="cpu").encode("The first vector.")
"""
    ours_s, ours_mb = _measure_start([*ANYRIG, "embed", "The first vector.", "--no-cache"])
    theirs_s, theirs_mb = _measure_start([sys.executable, "-c", program])
    return [
        Row("the first vector from a cold process", ours_s, "CPU s", theirs_s,
            "sentence-transformers", high=1.0),
        Row("its peak of memory", ours_mb, "MB", theirs_mb, "sentence-transformers", high=250),
    ]  # fmt: skip


def _measure_start(command: list[str]) -> tuple[float, float]:
    """The median CPU seconds of a command, and its peak of memory in MB."""
    runs = [measure_command(command) for _ in range(ROUNDS + 1)][1:]
    return statistics.median(one.cpu_s for one in runs), max(one.peak_bytes for one in runs) / 2**20


def _memory_growth() -> list[Row]:
    found = _run("shapes")
    return [
        Row(f"growth of memory over {NUM_SHAPES:,} random shapes, after 500", found["growth"] * 100,
            "%", high=5.0, spread=f"{found['before_mb']:.0f} to {found['after_mb']:.0f} MB"),
    ]  # fmt: skip


def _long_text(folder: Path) -> list[Row]:
    """One text of 8,000 tokens among 500 short ones, with a limit on address space."""
    num_right = _run("long", str(folder))["num_right"]
    try:
        peer, name = _run("long-theirs", str(folder))["count"], "sentence-transformers"
    except RuntimeError as error:
        peer, name = None, str(error).splitlines()[-1][:60]
    return [
        Row(f"one text of {_LONG_TOKENS:,} tokens among 500 short ones under "
            f"{LIMIT_BYTES >> 30} GiB: vectors that are right", num_right, "of 501", peer, name,
            low=501),
    ]  # fmt: skip


def measure_cache() -> list[Row]:
    """What the result cache costs a text: one that it does not have, and one that it has."""
    rounds = [_run("cached") for _ in range(ROUNDS)]
    rows = []
    for name, title in (("cold", "a new text"), ("warm", "a text that is cached")):
        cpu, spread = median_and_range([1e6 * one[name] for one in rounds])
        rows.append(Row(f"the result cache, {title}", cpu, "µs CPU", spread=spread))
    return rows


def make_texts(count: int) -> list[str]:
    return sample_passages(count, draw_length(3.4, 0.95, 190), random.Random(7))


def _save_long_model(folder: Path) -> None:
    """A small ModernBERT with a context of 8,192 tokens and random weights."""
    import transformers

    from anyrig.documents.model import find

    library: Any = transformers
    config = library.ModernBertConfig(
        vocab_size=30522, hidden_size=192, num_hidden_layers=4, num_attention_heads=12,
        intermediate_size=288, max_position_embeddings=8192, pad_token_id=0, bos_token_id=101,
        eos_token_id=102, cls_token_id=101, sep_token_id=102,
    )  # fmt: skip
    tokenizer = find("minilm", models=Path()).tokenizer
    assert tokenizer is not None
    save_model(folder, library.ModernBertModel(config), tokenizer, 8192)


# -- processes of their own ----------------------------------------------------------------------


def _embedder(folder: Path | None, library: str = "onnx") -> Any:
    from anyrig.documents.model import find
    from anyrig.documents.model_folder import in_folder

    model = in_folder(folder, name="bench") if folder else find("minilm", models=Path())
    return open_embedder(model, in_process=True, threads=1, libraries=(library,))


def _ours(folder: Path) -> dict[str, Any]:
    embedder = _embedder(folder)
    texts = make_texts(NUM_TEXTS)
    list(embedder.embed(texts[:32]))
    start = time.process_time()
    list(embedder.embed(texts))
    return {"cpu_s": time.process_time() - start, "padding": embedder.engine.network.padding}


def _theirs(folder: Path) -> dict[str, Any]:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    model = SentenceTransformer(str(folder), device="cpu")
    texts = make_texts(NUM_TEXTS)
    model.encode(texts[:32], show_progress_bar=False)
    start = time.process_time()
    model.encode(texts, batch_size=32, show_progress_bar=False)
    return {"cpu_s": time.process_time() - start}


def _shapes() -> dict[str, Any]:
    """Memory over batches of random sizes and lengths."""
    import psutil

    embedder, rng, process, before = _embedder(None), random.Random(3), psutil.Process(), 0
    for number in range(NUM_SHAPES):
        count, length = rng.randint(1, 6), rng.randint(1, 64)
        embedder.matrix(["a " * rng.randint(1, length) for _ in range(count)])
        if number == 499:
            before = process.memory_info().rss
    after = process.memory_info().rss
    return {"growth": after / before - 1, "before_mb": before / 1e6, "after_mb": after / 1e6}


def _cached() -> dict[str, Any]:
    """CPU seconds of a text beside its vector, which costs nothing here."""
    import numpy as np

    from anyrig.documents.model import find
    from anyrig.documents.ordered import iter_chunks
    from anyrig.documents.vector_cache import CachedEmbedder, VectorCache
    from anyrig.storage.cache import ResultCache

    model = find("minilm", models=Path())
    drawn = np.random.default_rng(3).standard_normal((1024, model.dimension), dtype=np.float32)

    class Drawn:
        """Fits `protocol.Vectors`."""

        def __init__(self) -> None:
            self.model = model

        def embed(self, texts: Iterable[str], *, use: str = "passage") -> Iterator[Any]:
            return (drawn[: len(some)] for some in iter_chunks(texts, len(drawn)))

        def matrix(self, texts: Iterable[str], *, use: str = "passage") -> Any:
            return np.concatenate(list(self.embed(texts)))

    texts = [f"The rent of flat {n} is due on the third of the month." for n in range(NUM_CACHED)]
    found = {}
    with tempfile.TemporaryDirectory() as folder, ResultCache(Path(folder) / "c.sqlite") as cache:
        for name in ("cold", "warm"):
            embedder = CachedEmbedder(Drawn(), VectorCache(cache, model))
            start = time.process_time()
            list(embedder.embed(texts))
            found[name] = (time.process_time() - start) / NUM_CACHED
    return found


def _mixed_texts() -> list[str]:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    short = make_texts(500)
    return [*short[:250], " ".join(make_texts(400)), *short[250:]]


def _long(folder: Path) -> dict[str, Any]:
    import numpy as np

    texts = _mixed_texts()
    embedder = _embedder(folder, "torch")
    vectors = embedder.matrix(texts)
    single = embedder.matrix([texts[250]])[0]
    unit = np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3
    right = np.isfinite(vectors).all(axis=1) & unit
    return {"num_right": int(right.sum()) if float(single @ vectors[250]) > 0.9999 else 0}


def _long_theirs(folder: Path) -> dict[str, Any]:
    from sentence_transformers import SentenceTransformer

    texts = _mixed_texts()
    model = SentenceTransformer(str(folder), device="cpu")
    return {"count": len(model.encode(texts, batch_size=32, show_progress_bar=False))}


if __name__ == "__main__":
    task, *folders = sys.argv[1:]
    tasks: dict[str, Any] = {"ours": _ours, "theirs": _theirs, "shapes": _shapes, "long": _long,
                             "long-theirs": _long_theirs, "cached": _cached}  # fmt: skip
    print(json.dumps(tasks[task](*map(Path, folders))), flush=True)
