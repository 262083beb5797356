"""XTTS v2 on a CPU beside coqui-tts called plainly, on random weights of the published shape.

Both speak the same utterances in turns, each in a process of the engine's own environment, with all
cores. A real-time factor is CPU seconds for a second of audio, so that other work on the machine
does not count. The environment takes minutes and gigabytes: BENCHMARK_ENVIRONMENTS names a folder
to keep it in.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyrig.devices.discovery import discover
from anyrig.placement import Placement
from anyrig.speech import engines
from anyrig.speech.choose import WeightsCache
from anyrig.speech.engine import Utterance
from anyrig.speech.engines.xtts import Xtts
from anyrig.speech.environments import Environment
from anyrig.speech.takes import decode_take
from anyrig.work.engine import EngineFactory
from anyrig.work.live import LiveQueue
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from benchmarks import xtts_reference as reference
from benchmarks.harness import Row, median_and_range
from benchmarks.processes import tree_cpu_seconds

SENTENCES = (
    "the keeper walked down the stairs and counted them.",
    "at night the sea was loud, and the lamp was the only light.",
    "nobody had come for a week, and nobody would come before spring.",
    "she wrote it all down, as she had done every evening.",
    "in the morning there was a boat in the bay.",
)


def run(_hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as temporary:
        kept = os.environ.get("BENCHMARK_ENVIRONMENTS")
        home = Path(kept) if kept else Path(temporary) / "environments"
        assert Xtts.environment is not None
        environment = Environment("xtts", Xtts.environment, home)
        environment.install(
            agree=lambda notice: True, on_line=lambda line: None, variables=os.environ
        )
        folder = Path(temporary) / "weights"
        folder.mkdir()
        python = [str(environment.python), "-I", reference.__file__]
        built = subprocess.run([*python, "build", folder], capture_output=True, check=True)
        print(f"{json.loads(built.stdout.splitlines()[-1])['parameters'] / 1e6:.0f} M parameters")
        whole = _compare(home, folder, python, stream=False)
        parts = _compare(home, folder, python, stream=True)
    return [
        _build_row("CPU seconds for a second of audio", whole, "factor"),
        _build_row("in parts: CPU seconds for a second of audio", parts, "factor"),
        _build_row("in parts: CPU seconds to the first part", parts, "first_cpu_s"),
    ]


def _build_row(what: str, costs: list[tuple[dict[str, float], dict[str, float]]], key: str) -> Row:
    ours, spread = median_and_range([one[key] for one, _ in costs])
    peer = statistics.median(other[key] for _, other in costs)
    return Row(what, ours, "s", peer, "coqui-tts", high=1.05, judge="ratio", spread=spread)


def _compare(
    home: Path, folder: Path, python: list[str], *, stream: bool
) -> list[tuple[dict[str, float], dict[str, float]]]:
    costs = []
    with _open_ours(home, folder, stream) as queue, _open_peer(folder, python) as peer:
        for seed, text in enumerate(SENTENCES):
            peer.stdin.write(json.dumps([text, seed, stream]) + "\n")
            peer.stdin.flush()
            other = json.loads(peer.stdout.readline())
            pair = _speak(queue, text, seed), other
            for one in pair:
                one["factor"] = one["cpu_s"] / one["audio_s"]
            print(pair)
            costs.append(pair)
    return costs[1:]  # the first one warms up


def _speak(queue: LiveQueue[Utterance, Any], text: str, seed: int) -> dict[str, float]:
    (pid,) = queue.pool.pids
    start, firsts = tree_cpu_seconds(pid), []
    future = queue.submit(
        Utterance(text, "en", voice=reference.SPEAKER, seed=seed),
        on_part=lambda part: firsts.append(tree_cpu_seconds(pid)),
    )
    take = decode_take(future.result().data)
    end = tree_cpu_seconds(pid)
    first = (firsts or [end])[0] - start
    return {"cpu_s": end - start, "audio_s": len(take.samples) / take.rate, "first_cpu_s": first}


@contextmanager
def _open_ours(home: Path, folder: Path, stream: bool) -> Iterator[LiveQueue[Utterance, Any]]:
    weights = WeightsCache().find(Xtts, folder, home)
    factory = EngineFactory(
        "anyrig.speech.quality:CheckedEngine",
        {
            "engine": engines.describe_engine(Xtts, "xtts"),
            "folder": weights.folder,
            "options": {"stream": stream},
        },
        interpreter=weights.interpreter,
    )
    device = discover().cpu_device
    backend = next(one for one in device.backends if one.library == "onnx")
    placement = Placement(device, backend, threads=os.cpu_count() or 1)
    pool: WorkerPool = WorkerPool(LocalWorkers([placement], factory, environment=os.environ))
    with LiveQueue[Utterance, Any](pool, cost=lambda one: one.cost) as queue:
        yield queue


@contextmanager
def _open_peer(folder: Path, python: list[str]) -> Iterator[Any]:
    process = subprocess.Popen(
        [*python, "speak", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("{"):
                break
        yield process
    finally:
        process.stdin.close()
        process.wait()
