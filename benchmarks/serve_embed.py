"""Embeddings over HTTP with 64 clients at once: texts per CPU second of the whole server.

Ours is `anyrig serve` with the default model. The peers are infinity's engines, and
sentence-transformers behind a plain FastAPI route; all have the same weights, and each its own
defaults: on a CPU with AMX ours computes in bf16, the others in fp32, and ours does so a second
time with `compute.precision = "fp32"`. CPU seconds are those of the server's process tree while the
clients send. No text occurs twice, and nothing is cached.

infinity needs an environment of its own, and is left out without it:

    python -m venv /tmp/infinity
    /tmp/infinity/bin/pip install 'infinity-emb[torch,optimum,server]'
    BENCHMARK_INFINITY=/tmp/infinity benchmarks/run cpu --only serve_embed
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.embed_cpu import make_texts
from benchmarks.embedding_models import save_minilm
from benchmarks.harness import Row, median_and_range, percentile
from benchmarks.processes import (
    ANYRIG,
    child_environment,
    free_port,
    start_process,
    tree_cpu_seconds,
    wait_until,
)

CLIENTS = 64
NUM_SINGLE = 40
"""Clients that send one text at a time; the others send lists of 4 to 32."""
SINGLE_REQUESTS, LIST_REQUESTS = 8, 3
"""Requests of each client."""
ROUNDS = 3
_START_TIMEOUT_S = 120.0


class ServerCommand(NamedTuple):
    """How a server is started; PORT stands for its port."""

    arguments: list[str]
    folder: Path


class LoadResult(NamedTuple):
    num_texts: int
    cpu_s: float
    wall_s: float
    single_s: list[float]
    """Seconds of each request of one text."""
    vectors: dict[str, list[float]]
    """Of some texts, to compare the servers."""

    @property
    def rate(self) -> float:
        return self.num_texts / self.cpu_s


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_minilm(folder / "minilm")
        commands: dict[str, Callable[[Path], ServerCommand]] = {
            "anyrig": _anyrig, "anyrig in fp32": _anyrig_fp32, **PEERS,
        }  # fmt: skip
        if venv := os.environ.get("BENCHMARK_INFINITY"):
            _save_for_infinity(folder / "minilm", folder / "older")
            _export_onnx(Path(venv), folder / "older", folder / "exported")
            commands |= {"infinity torch": _infinity_torch, "infinity optimum": _infinity_optimum}
        loads: dict[str, list[LoadResult]] = {peer: [] for peer in commands}
        for number in range(ROUNDS):  # in turns: the load of the machine changes
            for peer, command in commands.items():
                load = _measure(command(folder), seed=number)
                loads[peer].append(load)
                print(f"round {number + 1}: {peer}: {load.num_texts} texts, {load.rate:.1f} per "
                      f"CPU s, {load.cpu_s:.1f} CPU s, {load.wall_s:.1f} s, single p95 "
                      f"{_p95(load):.3f} s", flush=True)  # fmt: skip
    return _rows(loads)


def _rows(loads: dict[str, list[LoadResult]]) -> list[Row]:
    ours, fp32 = loads.pop("anyrig"), loads.pop("anyrig in fp32")
    rate, spread = median_and_range([load.rate for load in ours])
    singles = statistics.median(statistics.median(load.single_s) for load in ours)
    rows = [
        Row(f"{CLIENTS} mixed clients: texts per CPU second of the server", rate, "texts/s",
            spread=spread),
        Row("a request of one text meanwhile, median", singles, "s"),
    ]  # fmt: skip
    for peer, theirs in loads.items():
        for name, loaded in (("as it comes", ours), ("in fp32", fp32)):
            ratios = [one.rate / other.rate for one, other in zip(loaded, theirs, strict=True)]
            rows.append(
                Row(f"{CLIENTS} mixed clients: texts per CPU second, times {peer}, {name}",
                    statistics.median(ratios), "x", low=1.5,
                    spread=f"{min(ratios):.2f}-{max(ratios):.2f} of {ROUNDS}")
            )  # fmt: skip
        rows += [
            Row(f"{CLIENTS} mixed clients", rate, "texts per CPU s",
                statistics.median(load.rate for load in theirs), peer, spread=spread),
            Row("a request of one text meanwhile, 95th percentile",
                statistics.median(map(_p95, ours)), "s",
                statistics.median(map(_p95, theirs)), peer),
            Row("vectors that are the same: the least cosine",
                _smallest_cosine(ours[0], theirs[0]), "", low=0.9999),
        ]  # fmt: skip
    return rows


def _p95(load: LoadResult) -> float:
    return percentile(load.single_s, 0.95)


def _smallest_cosine(one: LoadResult, other: LoadResult) -> float:
    import numpy as np

    cosines = []
    for text, vector in one.vectors.items():
        a, b = np.array(vector), np.array(other.vectors[text])
        cosines.append(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
    return min(cosines)


# -- clients -------------------------------------------------------------------------------------


def _make_requests(seed: int) -> list[list[list[str]]]:
    """For each client its requests, of each its texts; all differ."""
    rng = random.Random(seed)
    texts = iter(f"{n} {text}" for n, text in enumerate(make_texts(4000)[seed * 7 :]))
    requests = []
    for client in range(CLIENTS):
        single = client < NUM_SINGLE
        sizes = [1] * SINGLE_REQUESTS if single else [
            rng.randint(4, 32) for _ in range(LIST_REQUESTS)]  # fmt: skip
        requests.append([[next(texts) for _ in range(size)] for size in sizes])
    return requests


def _measure(command: ServerCommand, seed: int) -> LoadResult:
    port = free_port()
    arguments = [word.replace("PORT", str(port)) for word in command.arguments]
    log = command.folder / "log.txt"

    def is_listening() -> bool:
        if process.poll() is not None:
            raise RuntimeError(log.read_text()[-2000:])
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    with start_process(arguments, _environment(command.folder), log, cwd=command.folder) as process:
        wait_until(is_listening, _START_TIMEOUT_S, f"{arguments[0]} to listen")
        url = f"http://127.0.0.1:{port}/v1/embeddings"
        asyncio.run(_send_all(url, [[["warm", "it", "up"]], [["once more"]]] * 8))
        time.sleep(1)
        before, start = tree_cpu_seconds(process.pid), time.perf_counter()
        single_s, vectors, count = asyncio.run(_send_all(url, _make_requests(seed)))
        cpu_s = tree_cpu_seconds(process.pid) - before
        return LoadResult(count, cpu_s, time.perf_counter() - start, single_s, vectors)


async def _send_all(
    url: str, work: list[list[list[str]]]
) -> tuple[list[float], dict[str, list[float]], int]:
    import httpx

    single_s: list[float] = []
    vectors: dict[str, list[float]] = {}
    count = 0

    async def run_client(requests: list[list[str]]) -> None:
        nonlocal count
        async with httpx.AsyncClient(timeout=600) as http:
            for texts in requests:
                start = time.perf_counter()
                body = {"model": "minilm", "input": texts[0] if len(texts) == 1 else texts}
                answer = await http.post(url, json=body)
                answer.raise_for_status()
                took_s = time.perf_counter() - start
                data = answer.json()["data"]
                assert len(data) == len(texts)
                count += len(texts)
                if len(texts) == 1:
                    single_s.append(took_s)
                # Longer texts do not fit the model: others truncate them, ours does not.
                if len(texts[0]) < 600:
                    vectors[texts[0]] = data[0]["embedding"]

    await asyncio.gather(*(run_client(requests) for requests in work))
    return single_s, vectors, count


# -- servers -------------------------------------------------------------------------------------


def _environment(folder: Path) -> dict[str, str]:
    environment = child_environment(
        HF_HUB_OFFLINE="1", DO_NOT_TRACK="1", XDG_CACHE_HOME=str(folder / "cache")
    )
    environment.pop("OMP_NUM_THREADS", None)
    if (folder / "modules.json").exists():
        del environment["PYTHONPATH"]  # infinity has packages of its own
    return environment


def _anyrig(folder: Path) -> ServerCommand:
    options = ["--port", "PORT", "--no-page", "--no-cache", "--preload", "embeddings"]
    return ServerCommand([*ANYRIG, "serve", *options], folder)


def _anyrig_fp32(folder: Path) -> ServerCommand:
    settings = folder / "fp32.toml"
    settings.write_text('compute.precision = "fp32"\n')
    arguments = [*_anyrig(folder).arguments, "--config", str(settings)]
    return ServerCommand(arguments, folder)


def _plain_fastapi(folder: Path) -> ServerCommand:
    module = [sys.executable, "-m", "benchmarks.serve_embed"]
    return ServerCommand([*module, str(folder / "minilm"), "PORT"], folder)


def _infinity(engine: str, folder: Path, *more: str) -> ServerCommand:
    program = Path(os.environ["BENCHMARK_INFINITY"], "bin", "infinity_emb").absolute()
    arguments = [str(program), "v2", "--model-id", ".", "--served-model-name", "minilm",
                 "--engine", engine, "--device", "cpu", "--port", "PORT", "--url-prefix", "/v1",
                 "--log-level", "error", "--pooling-method", "mean", *more]  # fmt: skip
    return ServerCommand(arguments, folder)


def _infinity_torch(folder: Path) -> ServerCommand:
    return _infinity("torch", folder / "older", "--no-bettertransformer")


def _infinity_optimum(folder: Path) -> ServerCommand:
    return _infinity("optimum", folder / "exported")


def _save_for_infinity(new: Path, old: Path) -> None:
    """The same folder for the older sentence-transformers that infinity uses."""
    shutil.copytree(new, old, ignore=shutil.ignore_patterns("plain"))
    module = "sentence_transformers.models"
    files: dict[str, Any] = {
        "modules.json": [
            {"idx": n, "name": str(n), "path": path, "type": f"{module}.{kind}"}
            for n, (path, kind) in enumerate(
                (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
            )
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": 384,
                                  "pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": 256, "do_lower_case": False},
        "tokenizer_config.json": {
            "tokenizer_class": "BertTokenizerFast", "do_lower_case": True, "model_max_length": 256,
            "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]",
            "cls_token": "[CLS]", "mask_token": "[MASK]",
        },
    }  # fmt: skip
    for name, content in files.items():
        (old / name).write_text(json.dumps(content))
    (old / "config_sentence_transformers.json").unlink(missing_ok=True)


def _export_onnx(venv: Path, folder: Path, target: Path) -> None:
    """The model as optimum exports it."""
    subprocess.run(
        [str(venv / "bin" / "optimum-cli"), "export", "onnx", "--model", str(folder), "--task",
         "feature-extraction", "--library", "transformers", str(target / "out")],
        env=_environment(folder), check=True, capture_output=True,
    )  # fmt: skip
    shutil.copytree(folder, target, dirs_exist_ok=True)
    shutil.move(target / "out" / "model.onnx", target / "model.onnx")


def _serve_plain(folder: str, port: int) -> None:
    """The server that most people write."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel
    from sentence_transformers import SentenceTransformer

    class EmbeddingBody(BaseModel):
        input: str | list[str]
        model: str = ""

    model = SentenceTransformer(folder, device="cpu")
    app = FastAPI()

    def embeddings(body: EmbeddingBody) -> dict[str, Any]:
        texts = [body.input] if isinstance(body.input, str) else body.input
        vectors = model.encode(texts, show_progress_bar=False)
        return {"data": [{"index": n, "embedding": row} for n, row in enumerate(vectors.tolist())]}

    embeddings.__annotations__ = {"body": EmbeddingBody, "return": dict[str, Any]}
    app.post("/v1/embeddings")(embeddings)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


PEERS = {"sentence-transformers": _plain_fastapi}
"""How each is started; infinity is added where its environment is given."""

if __name__ == "__main__":
    _serve_plain(sys.argv[1], int(sys.argv[2]))
