"""Embeddings on a CPU beside sentence-transformers: CPU seconds, padding, cold start, memory.

Both sides have the same weights, those of the default model, in fp32; each measurement is a process
of its own, on one thread. Ours goes the whole way through `documents.embed`.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, Row, middle

TEXTS = 600
ROUNDS = 5
SHAPES = 10_000
CAP_BYTES = 3 << 30
_LONG_TOKENS = 8000
_PATHS = os.pathsep.join(
    filter(None, (str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
)


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _folder(folder / "minilm")
        _long_model(folder / "long")
        return [*_throughput(folder / "minilm"), *_cold(folder / "minilm"), *_memory(),
                *_kept_whole(folder / "long")]  # fmt: skip


def _child(*words: str, cap: int = 0) -> dict[str, Any]:
    """What a process of this file says; its peak of memory is added."""
    command = [sys.executable, "-m", "benchmarks.embed_cpu", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
                   "PYTHONPATH": _PATHS}  # fmt: skip

    def capped() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (cap, cap))

    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=ROOT,
        preexec_fn=capped if cap else None,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        return {"failed": last[:200]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def _throughput(folder: Path) -> list[Row]:
    ours, theirs, ratios, padding = [], [], [], 1.0
    for number in range(ROUNDS):  # by turns: the machine's mood is the same for both
        one = _child("ours", str(folder))
        other = _child("theirs", str(folder))
        print(f"round {number + 1}: ours {one}, sentence-transformers {other}", flush=True)
        ours.append(one["cpu_s"])
        theirs.append(other["cpu_s"])
        ratios.append(other["cpu_s"] / one["cpu_s"])
        padding = one["padding"]
    mean, spread = middle(ours)
    return [
        Row(f"{TEXTS} texts in fp32, times the speed of sentence-transformers encode(32)",
            statistics.median(ratios), "x", low=1.15,
            spread=f"{min(ratios):.2f}-{max(ratios):.2f} of {ROUNDS}"),
        Row(f"{TEXTS} texts in fp32", mean, "CPU s", statistics.median(theirs),
            "sentence-transformers encode(32)", spread=spread),
        Row("padded over real tokens", padding, "", high=1.05),
    ]  # fmt: skip


def _cold(folder: Path) -> list[Row]:
    theirs = "\n".join([
        "from sentence_transformers import SentenceTransformer",
        f"SentenceTransformer({str(folder)!r}, device='cpu').encode('The first vector.')",
    ])  # fmt: skip
    ours_s, ours_mb = _whole([sys.executable, "-m", "anyrig", "embed", "The first vector.",
                              "--no-cache"])  # fmt: skip
    theirs_s, theirs_mb = _whole([sys.executable, "-c", theirs])
    return [
        Row("the first vector from a cold process", ours_s, "CPU s", theirs_s,
            "sentence-transformers", high=1.0),
        Row("its peak of memory", ours_mb, "MB", theirs_mb, "sentence-transformers", high=250),
    ]  # fmt: skip


def _whole(command: list[str]) -> tuple[float, float]:
    """The median CPU seconds of a process, and its peak of memory in MB."""
    program = (
        "import json,resource,subprocess,sys\n"
        "subprocess.run(sys.argv[1:],check=True,stdout=subprocess.DEVNULL)\n"
        "u=resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([u.ru_utime+u.ru_stime,u.ru_maxrss/1024]))"
    )
    environment = {**os.environ, "PYTHONPATH": _PATHS}
    found = []
    for _ in range(ROUNDS + 1):
        done = subprocess.run(
            [sys.executable, "-c", program, *command], capture_output=True, text=True,
            check=True, env=environment,
        )  # fmt: skip
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return (statistics.median(s for s, _ in found[1:]), max(mb for _, mb in found[1:]))


def _memory() -> list[Row]:
    told = _child("shapes")
    return [
        Row(f"growth of memory over {SHAPES:,} random shapes, after 500", told["growth"] * 100,
            "%", high=5.0, spread=f"{told['before_mb']:.0f} to {told['after_mb']:.0f} MB"),
    ]  # fmt: skip


def _kept_whole(folder: Path) -> list[Row]:
    """One text of 8,000 tokens among 500 short ones, under a cap of address space."""
    ours = _child("long", str(folder), cap=CAP_BYTES)
    theirs = _child("long-theirs", str(folder), cap=CAP_BYTES)
    print(f"long: ours {ours}; sentence-transformers {theirs}", flush=True)
    return [
        Row(f"one text of {_LONG_TOKENS:,} tokens among 500 short ones under "
            f"{CAP_BYTES >> 30} GiB: vectors that are right", float(ours.get("right", 0)), "of 501",
            float(theirs.get("count", 0)) or None,
            "sentence-transformers" if "failed" not in theirs else f"{theirs['failed'][:60]}",
            low=501),
    ]  # fmt: skip


# ---------------------------------------------------------------- the processes


def _texts(count: int) -> list[str]:
    words = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8").split()
    dice = random.Random(7)
    found = []
    for _ in range(count):
        size = min(190, max(3, int(dice.lognormvariate(3.4, 0.95))))
        start = dice.randrange(len(words) - size)
        found.append(" ".join(words[start : start + size]))
    return found


def _ours(folder: Path) -> dict[str, Any]:
    made = _embedder(folder)
    texts = _texts(TEXTS)
    list(made.embed(texts[:32]))
    began = time.process_time()
    list(made.embed(texts))
    return {"cpu_s": time.process_time() - began, "padding": made.engine.padding}


def _embedder(folder: Path | None, backend: str = "onnx") -> Any:
    from dataclasses import replace

    from anyrig.devices.choose import DeviceRequest, choose_device
    from anyrig.devices.discover import discover
    from anyrig.documents.embed import Embedder
    from anyrig.documents.model import find, in_folder
    from anyrig.placement import PlacementOptions, plan_placement

    model = in_folder(folder, name="bench") if folder else find("minilm", models=Path())
    machine = discover(os.environ)
    choice = choose_device(machine, (DeviceRequest("cpu", "flag"),))
    need = replace(model.need(), libraries=(backend,))  # type: ignore[arg-type]
    placed = plan_placement(
        machine, choice, need, PlacementOptions(precision="fp32"), environment=os.environ
    )
    one = replace(placed, placements=(replace(placed.placements[0], threads=1, workers=1),))
    made = Embedder(model, placed=one, environment=os.environ, here=True)
    made.wait_ready()
    return made


def _theirs(folder: Path) -> dict[str, Any]:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    model = SentenceTransformer(str(folder), device="cpu")
    texts = _texts(TEXTS)
    model.encode(texts[:32], show_progress_bar=False)
    began = time.process_time()
    model.encode(texts, batch_size=32, show_progress_bar=False)
    return {"cpu_s": time.process_time() - began}


def _shapes() -> dict[str, Any]:
    import psutil

    made = _embedder(None)
    dice = random.Random(3)
    process = psutil.Process()
    before = 0
    for number in range(SHAPES):
        # A batch of another size and length each time: some tokens, straight to the engine.
        count, length = dice.randint(1, 6), dice.randint(1, 64)
        made.matrix(["a " * dice.randint(1, length) for _ in range(count)])
        if number == 499:
            before = process.memory_info().rss
    after = process.memory_info().rss
    return {"growth": after / before - 1, "before_mb": before / 1e6, "after_mb": after / 1e6}


def _long_texts() -> list[str]:
    short = _texts(500)
    long = " ".join(_texts(400))
    return [*short[:250], long, *short[250:]]


def _long(folder: Path) -> dict[str, Any]:
    import numpy as np

    made = _embedder(folder, "torch")
    texts = _long_texts()
    found = made.matrix(texts)
    alone = made.matrix([texts[250]])[0]
    finite = np.isfinite(found).all(axis=1) & (np.abs(np.linalg.norm(found, axis=1) - 1) < 1e-3)
    right = int(finite.sum()) if float(alone @ found[250]) > 0.9999 else 0
    return {"right": right, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _long_theirs(folder: Path) -> dict[str, Any]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    found = model.encode(_long_texts(), batch_size=32, show_progress_bar=False)
    return {"count": len(found)}


def _folder(folder: Path) -> None:
    """The default model's weights as sentence-transformers keeps a model."""
    import shutil

    import torch
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    from anyrig.documents.model import find
    from anyrig.documents.models.arrays import read

    model = find("minilm", models=Path())
    shape, weights = read(model.folder)
    theirs: Any = transformers
    config = theirs.BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
        intermediate_size=1536, max_position_embeddings=512,
    )  # fmt: skip
    made = theirs.BertModel(config)
    with torch.no_grad():
        _fill(made, shape, weights)
    folder.mkdir()
    made.save_pretrained(folder / "plain")
    assert model.tokenizer is not None
    shutil.copy(model.tokenizer, folder / "tokenizer.json")
    fast: Any = theirs.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), unk_token="[UNK]", sep_token="[SEP]",
        pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]", model_max_length=256,
    )  # fmt: skip
    fast.save_pretrained(folder / "plain")
    word = Transformer(str(folder / "plain"), max_seq_length=256)
    SentenceTransformer(modules=[word, Pooling(384), Normalize()]).save(str(folder))


def _fill(made: Any, shape: Any, weights: Any) -> None:
    import numpy as np
    import torch

    def put(target: Any, value: Any) -> None:
        target.copy_(torch.from_numpy(np.ascontiguousarray(value, np.float32)))

    inner = made.embeddings
    put(inner.word_embeddings.weight, weights.words.astype(np.float32) * weights.scale)
    put(inner.position_embeddings.weight, weights.positions)
    inner.token_type_embeddings.weight.zero_()
    put(inner.token_type_embeddings.weight[0], weights.types)
    put(inner.LayerNorm.weight, weights.norm)
    put(inner.LayerNorm.bias, weights.norm_bias)
    for layer, told in zip(made.encoder.layer, weights.layers, strict=True):
        attention = layer.attention
        parts = (attention.self.query, attention.self.key, attention.self.value)
        for number, part in enumerate(parts):
            rows = slice(number * shape.hidden, (number + 1) * shape.hidden)
            put(part.weight, told.qkv[rows])
            put(part.bias, told.qkv_bias[rows])
        for part, matrix, bias in (
            (attention.output.dense, told.out, told.out_bias),
            (attention.output.LayerNorm, told.norm_1, told.norm_1_bias),
            (layer.intermediate.dense, told.up, told.up_bias),
            (layer.output.dense, told.down, told.down_bias),
            (layer.output.LayerNorm, told.norm_2, told.norm_2_bias),
        ):
            put(part.weight, matrix)
            put(part.bias, bias)


def _long_model(folder: Path) -> None:
    """A ModernBERT of 8,192 places with random weights, small and with as many heads."""
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    from anyrig.documents.model import find

    theirs: Any = transformers
    config = theirs.ModernBertConfig(
        vocab_size=30522, hidden_size=192, num_hidden_layers=4, num_attention_heads=12,
        intermediate_size=288, max_position_embeddings=8192, pad_token_id=0, bos_token_id=101,
        eos_token_id=102, cls_token_id=101, sep_token_id=102,
    )  # fmt: skip
    folder.mkdir()
    theirs.ModernBertModel(config).save_pretrained(folder / "plain")
    model = find("minilm", models=Path())
    fast: Any = theirs.PreTrainedTokenizerFast(
        tokenizer_file=str(model.tokenizer), unk_token="[UNK]", sep_token="[SEP]",
        pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]", model_max_length=8192,
    )  # fmt: skip
    fast.save_pretrained(folder / "plain")
    word = Transformer(str(folder / "plain"), max_seq_length=8192)
    SentenceTransformer(modules=[word, Pooling(192), Normalize()]).save(str(folder))


if __name__ == "__main__":
    task, *rest = sys.argv[1:]
    tasks: dict[str, Any] = {"ours": _ours, "theirs": _theirs, "shapes": _shapes, "long": _long,
                             "long-theirs": _long_theirs}  # fmt: skip
    print(json.dumps(tasks[task](*map(Path, rest))), flush=True)
