"""Sixteen clients that stream pcm from a real server at once, beside the same texts offline.

Both have their voice loaded when the clock starts, prepare the texts, speak, level, write 16-bit
samples, and fill their cache. CPU seconds are those of the process and all its children, whatever
else the server does included. The clients, and one that polls /health, are processes of their own.
Each round has its own texts, so that nothing is cached.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, percentile
from benchmarks.processes import (
    AnyrigServer,
    child_environment,
    run_module,
    start_process,
    tree_cpu_seconds,
)
from benchmarks.texts import read_novel

NUM_CLIENTS = 16
ROUNDS = 3
NUM_WORDS = 120
"""Of each client's text: about 45 seconds of audio."""
MAX_CPU_RATIO, MAX_FIRST_S, MAX_HEALTH_MS = 1.18, 3.0, 100.0
_POLL_EVERY_S = 0.1
_MODULE = "benchmarks.serve_speech"


def run(hardware: str) -> list[Row]:
    served: list[dict[str, Any]] = []
    offline: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name, AnyrigServer(Path(name, "server")) as server:
        greeting = ["Good morning to everybody who listens."] * 2
        run_module(_MODULE, "clients", server.url, data=greeting)
        for number in range(ROUNDS):
            texts = _texts(number)
            served.append(_serve(server, texts))
            home = child_environment(Path(name, f"offline{number}"))
            offline.append(run_module(_MODULE, "offline", data=texts, environment=home))
    for ours, other in zip(served, offline, strict=True):
        assert abs(ours["audio_s"] / other["audio_s"] - 1) < 0.01, (ours, other)
    return _rows(served, offline)


def _rows(served: list[dict[str, Any]], offline: list[dict[str, Any]]) -> list[Row]:
    ours, peers = ([one["cpu_s"] / one["audio_s"] for one in side] for side in (served, offline))
    first_s = [first for one in served for first in one["first_s"]]
    health_ms = [1e3 * took for one in served for took in one["health_s"]]
    speeds = [one["audio_s"] / one["wall_s"] for one in served]
    num_errors = sum(len(one["errors"]) for one in served)
    return [
        Row(f"errors, {NUM_CLIENTS} clients at once, {ROUNDS} rounds", num_errors, "", high=0),
        Row("CPU seconds of the server per second of sound", statistics.median(ours), "s",
            statistics.median(peers), "the studio offline", high=MAX_CPU_RATIO, judge="ratio",
            spread=f"{min(ours):.4f}-{max(ours):.4f} against {min(peers):.4f}-{max(peers):.4f}"),
        Row("first audio, 95th of 100", percentile(first_s, 0.95), "s", high=MAX_FIRST_S,
            spread=f"{min(first_s):.2f}-{max(first_s):.2f}, "
                   f"median {statistics.median(first_s):.2f}"),
        Row("/health meanwhile, 99th of 100", percentile(health_ms, 0.99), "ms",
            high=MAX_HEALTH_MS, spread=f"median {statistics.median(health_ms):.1f}, "
                                       f"most {max(health_ms):.0f}, of {len(health_ms)}"),
        Row("seconds of sound a second, all clients together", statistics.median(speeds), "s/s",
            spread=f"{min(speeds):.1f}-{max(speeds):.1f}"),
    ]  # fmt: skip


def _texts(round_number: int) -> list[str]:
    """A text for each client."""
    words = read_novel().split()
    size = NUM_CLIENTS * NUM_WORDS
    part = words[round_number * size : (round_number + 1) * size]
    assert len(part) == size, "the novel is too short"
    return [" ".join(part[start : start + NUM_WORDS]) for start in range(0, size, NUM_WORDS)]


def _serve(server: AnyrigServer, texts: list[str]) -> dict[str, Any]:
    """One round: what the clients measured, and what the server used."""
    before, start = tree_cpu_seconds(server.pid), time.perf_counter()
    command = [sys.executable, "-m", _MODULE, "health", server.url]
    with start_process(command, child_environment(), stdin=subprocess.PIPE) as poller:
        result: dict[str, Any] = run_module(_MODULE, "clients", server.url, data=texts)
        result["wall_s"] = time.perf_counter() - start
        result["cpu_s"] = tree_cpu_seconds(server.pid) - before
        result["health_s"] = json.loads(poller.communicate("stop\n")[0])
    return result


# -- processes of their own ----------------------------------------------------------------------


def poll_health(url: str) -> list[float]:
    """Seconds of each request, until a line comes on stdin."""
    times = []
    while not select.select([sys.stdin], [], [], _POLL_EVERY_S)[0]:
        start = time.perf_counter()
        with urllib.request.urlopen(f"{url}/health", timeout=60) as answer:
            assert answer.status == 200
            answer.read()
        times.append(time.perf_counter() - start)
    return times


async def run_clients(url: str, texts: list[str]) -> dict[str, Any]:
    import httpx

    first_s: list[float] = []
    errors: list[str] = []
    num_bytes = 0

    async def listen(client: httpx.AsyncClient, text: str) -> None:
        nonlocal num_bytes
        body = {"model": "tts-1", "voice": "alloy", "input": text, "response_format": "pcm"}
        start, first = time.perf_counter(), True
        try:
            async with client.stream("POST", "/v1/audio/speech", json=body) as answer:
                answer.raise_for_status()
                async for data in answer.aiter_raw():
                    if first:
                        first_s.append(time.perf_counter() - start)
                    first = False
                    num_bytes += len(data)
        except httpx.HTTPError as error:
            errors.append(repr(error))

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        await asyncio.gather(*(listen(client, text) for text in texts))
    return {"first_s": first_s, "errors": errors, "audio_s": num_bytes / 48000}


def speak_offline(texts: list[str]) -> dict[str, Any]:
    """As `anyrig speak -o -` does it, text after text, with the voice loaded once."""
    from anyrig.app.cache import open_cache
    from anyrig.app.engines import choose_engine, detect_language
    from anyrig.app.rig import Rig
    from anyrig.app.speech import SpeechRequest, open_synthesizer, prepare_script
    from anyrig.audio.encode import open_encoder
    from anyrig.audio.loudness import Leveller

    rig = Rig()
    warm_up = rig.request(SpeechRequest, text="Good morning to everybody.", no_bench=True)
    chosen = choose_engine(rig, warm_up, "en")
    num_bytes = 0
    with (
        open_cache(rig) as cache,
        open_synthesizer(rig, warm_up, chosen, 1 << 20, cache) as synthesizer,
    ):
        synthesizer.wait_ready()
        list(synthesizer.read(prepare_script(rig, warm_up, chosen).segments))
        before = tree_cpu_seconds(os.getpid())
        for text in texts:
            request = rig.request(SpeechRequest, text=text, no_bench=True)
            chosen = choose_engine(rig, request, detect_language(text, request))
            script = prepare_script(rig, request, chosen)
            leveller, out = Leveller(synthesizer.rate, target_lufs=-19.0), io.BytesIO()
            with open_encoder(out, "pcm", synthesizer.rate) as encode:
                for chunk in synthesizer.read(script.segments, lane="live").chunks():
                    encode.write(leveller.apply(chunk.samples))
            num_bytes += len(out.getvalue())
        cpu_s = tree_cpu_seconds(os.getpid()) - before
        return {"cpu_s": cpu_s, "audio_s": num_bytes / 2 / synthesizer.rate}


if __name__ == "__main__":
    task, *rest = sys.argv[1:]
    if task == "health":
        found: Any = poll_health(rest[0])
    elif task == "clients":
        found = asyncio.run(run_clients(rest[0], json.load(sys.stdin)))
    else:
        found = speak_offline(json.load(sys.stdin))
    print(json.dumps(found))
