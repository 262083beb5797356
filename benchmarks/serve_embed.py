"""Embeddings over HTTP with 64 clients at once: texts per CPU second of the whole server.

Ours is `anyrig serve` with the default model. Beside it stand infinity's engines, and
sentence-transformers behind a plain FastAPI route; all have the same weights, and each its own
defaults: on a CPU with AMX ours computes in bf16, the others in fp32. CPU seconds are of the
server's whole process tree while the clients are at it: others may use the machine. No text comes
twice, and nothing is kept.

infinity has an environment of its own, and is left out without it:

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
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.embed_cpu import _folder, _texts
from benchmarks.harness import ROOT, Row, middle

CLIENTS = 64
SINGLES = 40
"""Clients that send one text at a time; the others send lists of 4 to 32."""
EACH, LISTS = 8, 3
"""Requests of each client."""
ROUNDS = 3
STARTS_S = 120.0
_PATHS = os.pathsep.join((str(ROOT), str(ROOT / "src")))


class Load(NamedTuple):
    """What a server did with all clients at it."""

    texts: int
    cpu_s: float
    wall_s: float
    single_s: list[float]
    """How long each request of one text took."""
    vectors: dict[str, list[float]]
    """Of some texts, to see that all made the same."""

    @property
    def rate(self) -> float:
        return self.texts / self.cpu_s


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _folder(folder / "minilm")
        commands = {"anyrig": _ours, **PEERS}
        if venv := os.environ.get("BENCHMARK_INFINITY"):
            _older(folder / "minilm", folder / "older")
            _exported(Path(venv), folder / "older", folder / "exported")
            commands |= {"infinity torch": _infinity_torch, "infinity optimum": _infinity_optimum}
        loads: dict[str, list[Load]] = {one: [] for one in commands}
        for number in range(ROUNDS):  # by turns: the machine's mood is the same for all
            for peer, command in commands.items():
                load = _measured(*command(folder), seed=number)
                loads[peer].append(load)
                print(f"round {number + 1}: {peer}: {load.texts} texts, {load.rate:.1f} per CPU s, "
                      f"{load.cpu_s:.1f} CPU s, {load.wall_s:.1f} s, single p95 "
                      f"{_p95(load.single_s):.3f} s", flush=True)  # fmt: skip
    return _rows(loads)


def _rows(loads: dict[str, list[Load]]) -> list[Row]:
    ours = loads["anyrig"]
    mean, spread = middle([load.rate for load in ours])
    rows = [
        Row(f"{CLIENTS} mixed clients: texts per CPU second of the server", mean, "texts/s",
            spread=spread),
        Row("a request of one text meanwhile, median",
            statistics.median(statistics.median(load.single_s) for load in ours), "s"),
    ]  # fmt: skip
    for peer, theirs in loads.items():
        if peer == "anyrig":
            continue
        ratios = [one.rate / other.rate for one, other in zip(ours, theirs, strict=True)]
        low = 1.5 if peer == "sentence-transformers" else 1.2
        rows += [
            Row(f"{CLIENTS} mixed clients: texts per CPU second, times {peer}",
                statistics.median(ratios), "x", low=low,
                spread=f"{min(ratios):.2f}-{max(ratios):.2f} of {ROUNDS}"),
            Row(f"{CLIENTS} mixed clients", mean, "texts per CPU s",
                statistics.median(load.rate for load in theirs), peer, spread=spread),
            Row("a request of one text meanwhile, 95th percentile",
                statistics.median(_p95(load.single_s) for load in ours), "s",
                statistics.median(_p95(load.single_s) for load in theirs), peer),
            Row("vectors that are the same: the least cosine", _agree(ours[0], theirs[0]), "",
                low=0.9999),
        ]  # fmt: skip
    return rows


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


def _agree(one: Load, other: Load) -> float:
    """Of texts that fit the model: what is behind its end others leave out, and we do not."""
    import numpy as np

    found = []
    for text, vector in one.vectors.items():
        a, b = np.array(vector), np.array(other.vectors[text])
        found.append(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
    return min(found)


# ---------------------------------------------------------------- the clients


def _work(seed: int) -> list[list[list[str]]]:
    """For each client its requests, of each its texts; all different."""
    dice = random.Random(seed)
    texts = iter(f"{n} {text}" for n, text in enumerate(_texts(4000)[seed * 7 :]))
    work = []
    for client in range(CLIENTS):
        if client < SINGLES:
            work.append([[next(texts)] for _ in range(EACH)])
        else:
            work.append([[next(texts) for _ in range(dice.randint(4, 32))] for _ in range(LISTS)])
    return work


def _measured(command: list[str], environment: dict[str, str], where: Path, seed: int) -> Load:
    port = _free_port()
    with _serving([word.replace("PORT", str(port)) for word in command], environment, where,
                  port) as server:  # fmt: skip
        url = f"http://127.0.0.1:{port}/v1/embeddings"
        asyncio.run(_all(url, [[["warm", "it", "up"]], [["once more"]]] * 8))
        time.sleep(1)
        before, start = _cpu_s(server), time.perf_counter()
        singles, vectors, count = asyncio.run(_all(url, _work(seed)))
        return Load(count, _cpu_s(server) - before, time.perf_counter() - start, singles, vectors)


async def _all(
    url: str, work: list[list[list[str]]]
) -> tuple[list[float], dict[str, list[float]], int]:
    import httpx

    singles: list[float] = []
    vectors: dict[str, list[float]] = {}
    count = 0

    async def client(requests: list[list[str]]) -> None:
        nonlocal count
        async with httpx.AsyncClient(timeout=600) as http:
            for texts in requests:
                start = time.perf_counter()
                body = {"model": "minilm", "input": texts[0] if len(texts) == 1 else texts}
                answer = await http.post(url, json=body)
                answer.raise_for_status()
                took = time.perf_counter() - start
                data = answer.json()["data"]
                assert len(data) == len(texts)
                count += len(texts)
                if len(texts) == 1:
                    singles.append(took)
                if len(texts[0]) < 600:
                    vectors[texts[0]] = data[0]["embedding"]

    await asyncio.gather(*(client(requests) for requests in work))
    return singles, vectors, count


# ---------------------------------------------------------------- the servers


@contextmanager
def _serving(
    command: list[str], environment: dict[str, str], where: Path, port: int
) -> Iterator[int]:
    with (where / "log.txt").open("ab") as log:
        server = subprocess.Popen(command, env=environment, cwd=where, stdout=log, stderr=log,
                                  start_new_session=True)  # fmt: skip
    try:
        end = time.monotonic() + STARTS_S
        while True:
            with socket.socket() as door:
                if door.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError((where / "log.txt").read_text()[-2000:])
            time.sleep(0.2)
        yield server.pid
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _cpu_s(pid: int) -> float:
    """Of a process and all below it."""
    import psutil

    top = psutil.Process(pid)
    times = [one.cpu_times() for one in (top, *top.children(recursive=True))]
    return sum(one.user + one.system for one in times) + sum(times[0][2:4])


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def _environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "PYTHONPATH")}
    return {**kept, "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", **more}


def _ours(folder: Path) -> tuple[list[str], dict[str, str], Path]:
    environment = _environment(PYTHONPATH=_PATHS, XDG_CACHE_HOME=str(folder / "cache"))
    command = [sys.executable, "-m", "anyrig", "serve", "--port", "PORT", "--no-page",
               "--no-cache", "--preload", "embeddings"]  # fmt: skip
    return command, environment, folder


def _plain(folder: Path) -> tuple[list[str], dict[str, str], Path]:
    command = [sys.executable, "-m", "benchmarks.serve_embed", str(folder / "minilm"), "PORT"]
    return command, _environment(PYTHONPATH=_PATHS), folder


def _infinity(engine: str, *more: str) -> list[str]:
    program = Path(os.environ["BENCHMARK_INFINITY"], "bin", "infinity_emb").absolute()
    return [str(program), "v2", "--model-id", ".", "--served-model-name", "minilm", "--engine",
            engine, "--device", "cpu", "--port", "PORT", "--url-prefix", "/v1", "--log-level",
            "error", "--pooling-method", "mean", *more]  # fmt: skip


def _infinity_torch(folder: Path) -> tuple[list[str], dict[str, str], Path]:
    return _infinity("torch", "--no-bettertransformer"), _environment(), folder / "older"


def _infinity_optimum(folder: Path) -> tuple[list[str], dict[str, str], Path]:
    return _infinity("optimum"), _environment(), folder / "exported"


def _older(new: Path, old: Path) -> None:
    """The same folder as the older sentence-transformers reads it that infinity wants."""
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
    for name, told in files.items():
        (old / name).write_text(json.dumps(told))
    (old / "config_sentence_transformers.json").unlink(missing_ok=True)


def _exported(venv: Path, folder: Path, target: Path) -> None:
    """With the model as optimum exports it."""
    subprocess.run(
        [str(venv / "bin" / "optimum-cli"), "export", "onnx", "--model", str(folder), "--task",
         "feature-extraction", "--library", "transformers", str(target / "out")],
        env=_environment(), check=True, capture_output=True,
    )  # fmt: skip
    shutil.copytree(folder, target, dirs_exist_ok=True)
    shutil.move(target / "out" / "model.onnx", target / "model.onnx")


def _plain_server(folder: str, port: int) -> None:
    """What most people write."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel
    from sentence_transformers import SentenceTransformer

    class Asked(BaseModel):
        input: str | list[str]
        model: str = ""

    model = SentenceTransformer(folder, device="cpu")
    app = FastAPI()

    def embeddings(asked: Asked) -> dict[str, Any]:
        texts = [asked.input] if isinstance(asked.input, str) else asked.input
        made = model.encode(texts, show_progress_bar=False)
        return {"data": [{"index": n, "embedding": row} for n, row in enumerate(made.tolist())]}

    embeddings.__annotations__ = {"asked": Asked, "return": dict[str, Any]}
    app.post("/v1/embeddings")(embeddings)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


PEERS = {"sentence-transformers": _plain}
"""How each is started; infinity is added where its environment is given."""

if __name__ == "__main__":
    _plain_server(sys.argv[1], int(sys.argv[2]))
