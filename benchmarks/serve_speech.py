"""Sixteen clients at once who stream pcm from a real server, beside the same texts offline.

Both have their voice loaded when the clock starts, prepare the texts, speak, level and write 16-bit
samples, and keep what they make. CPU seconds are those of the process and of all its children,
what else the server does included. Clients and the one who asks for /health are processes of their
own. Each round has texts of its own, so that nothing is kept from before.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness import ROOT, Row

CLIENTS = 16
ROUNDS = 3
WORDS = 120
"""Of each client's text: some 45 seconds of sound."""
MOST_CPU, MOST_FIRST_S, MOST_HEALTH_MS = 1.18, 3.0, 100.0
_ASK_EVERY_S = 0.1


def run(hardware: str) -> list[Row]:
    rounds = [_texts(number) for number in range(ROUNDS)]
    served: list[dict[str, Any]] = []
    offline: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        _server(Path(folder, "server")) as (url, process),
    ):
        _speak(url, [["Good morning to everybody who listens."] for _ in range(2)])
        for texts in rounds:
            served.append(_round(url, process, texts))
            offline.append(_offline(Path(folder, f"offline{len(offline)}"), texts))
    for mine, other in zip(served, offline, strict=True):
        assert abs(mine["audio_s"] / other["audio_s"] - 1) < 0.01, (mine, other)
    ours = [one["cpu_s"] / one["audio_s"] for one in served]
    peers = [one["cpu_s"] / one["audio_s"] for one in offline]
    firsts = sorted(first for one in served for first in one["first_s"])
    health = sorted(took for one in served for took in one["health_s"])
    speeds = [one["audio_s"] / one["wall_s"] for one in served]
    errors = sum(len(one["errors"]) for one in served)
    return [
        Row(f"errors, {CLIENTS} clients at once, {ROUNDS} rounds", errors, "", high=0),
        Row(
            "CPU seconds of the server per second of sound", statistics.median(ours), "s",
            statistics.median(peers), "the studio offline", high=MOST_CPU, judge="ratio",
            spread=f"{min(ours):.4f}-{max(ours):.4f} against {min(peers):.4f}-{max(peers):.4f}",
        ),
        Row(
            "first audio, 95th of 100", _part(firsts, 0.95), "s", high=MOST_FIRST_S,
            spread=f"{firsts[0]:.2f}-{firsts[-1]:.2f}, median {statistics.median(firsts):.2f}",
        ),
        Row(
            "/health meanwhile, 99th of 100", 1e3 * _part(health, 0.99), "ms", high=MOST_HEALTH_MS,
            spread=f"median {1e3 * statistics.median(health):.1f}, most {1e3 * health[-1]:.0f}, "
            f"of {len(health)}",
        ),
        Row(
            "seconds of sound a second, all clients together", statistics.median(speeds), "s/s",
            spread=f"{min(speeds):.1f}-{max(speeds):.1f}",
        ),
    ]  # fmt: skip


def _texts(number: int) -> list[list[str]]:
    """For each client a text of its own."""
    words = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8").split()
    size = CLIENTS * WORDS
    part = words[number * size : (number + 1) * size]
    assert len(part) == size, "the book is too short"
    return [[" ".join(part[at : at + WORDS])] for at in range(0, size, WORDS)]


def _part(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# -- the server ----------------------------------------------------------------------------------


def _environment(home: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANYRIG_")}
    env |= {"HOME": str(home), "XDG_CACHE_HOME": f"{home}/c", "XDG_CONFIG_HOME": f"{home}/d"}
    return env


@contextlib.contextmanager
def _server(home: Path) -> Iterator[tuple[str, psutil.Process]]:
    home.mkdir()
    command = [sys.executable, "-m", "anyrig", "serve", "--port", "0", "--json", "--no-bench"]
    with (
        (home / "log.txt").open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=_environment(home)
        ) as process,
    ):
        try:
            assert process.stdout is not None
            url = next(json.loads(line)["url"] for line in process.stdout if "listening" in line)
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()


def _round(url: str, process: psutil.Process, texts: list[list[str]]) -> dict[str, Any]:
    before, began = _cpu_s(process), time.perf_counter()
    with _asking(url) as asker:
        told = _speak(url, texts)
    told |= {"wall_s": time.perf_counter() - began, "cpu_s": _cpu_s(process) - before}
    told["health_s"] = json.loads(asker["said"])
    return told


def _cpu_s(process: psutil.Process) -> float:
    """Of a process and its children, those that ended included."""
    found = 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            found += times.user + times.system + times.children_user + times.children_system
    return found


def _speak(url: str, texts: list[list[str]]) -> dict[str, Any]:
    """Every client with its texts, in a process for all of them."""
    command = [sys.executable, "-m", "benchmarks.serve_speech", "clients", url]
    done = subprocess.run(
        command, input=json.dumps(texts), capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@contextlib.contextmanager
def _asking(url: str) -> Iterator[dict[str, str]]:
    """Somebody asks for /health all the while."""
    command = [sys.executable, "-m", "benchmarks.serve_speech", "asker", url]
    told: dict[str, str] = {}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        yield told
        told["said"] = process.communicate("end\n")[0]


def asker(url: str) -> None:
    import select

    took = []
    while not select.select([sys.stdin], [], [], _ASK_EVERY_S)[0]:
        began = time.perf_counter()
        with urllib.request.urlopen(f"{url}/health", timeout=60) as answer:
            assert answer.status == 200
            answer.read()
        took.append(time.perf_counter() - began)
    print(json.dumps(took))


async def clients(url: str, texts: list[list[str]]) -> dict[str, Any]:
    import httpx

    first_s: list[float] = []
    errors: list[str] = []
    num_bytes = 0

    async def listen(client: httpx.AsyncClient, own: list[str]) -> None:
        nonlocal num_bytes
        for text in own:
            body = {"model": "tts-1", "voice": "alloy", "input": text, "response_format": "pcm"}
            began, first = time.perf_counter(), True
            try:
                async with client.stream("POST", "/v1/audio/speech", json=body) as answer:
                    answer.raise_for_status()
                    async for data in answer.aiter_raw():
                        if first:
                            first_s.append(time.perf_counter() - began)
                        first = False
                        num_bytes += len(data)
            except httpx.HTTPError as error:
                errors.append(repr(error))

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        await asyncio.gather(*(listen(client, own) for own in texts))
    return {"first_s": first_s, "errors": errors, "audio_s": num_bytes / 48000}


# -- offline -------------------------------------------------------------------------------------


def _offline(home: Path, texts: list[list[str]]) -> dict[str, Any]:
    home.mkdir()
    command = [sys.executable, "-m", "benchmarks.serve_speech", "offline"]
    done = subprocess.run(
        command, input=json.dumps(texts), capture_output=True, text=True, cwd=ROOT,
        env=_environment(home),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def offline(texts: list[list[str]]) -> dict[str, Any]:
    """As `anyrig speak -o -` does it, text after text, with the voice loaded once."""
    from anyrig.app.cache import open_cache
    from anyrig.app.engines import choose_engine, detect_language
    from anyrig.app.rig import Rig
    from anyrig.app.speech import SpeechRequest, open_synthesizer, prepare_script
    from anyrig.speech.sound.encode import encoder
    from anyrig.speech.sound.loudness import Leveller

    rig = Rig()
    warm = rig.request(SpeechRequest, text="Good morning to everybody.", no_bench=True)
    chosen = choose_engine(rig, warm, "en")
    written = 0
    with (
        open_cache(rig) as cache,
        open_synthesizer(rig, warm, chosen, 1 << 20, cache) as studio,
    ):
        studio.wait_ready()
        list(studio.speak(prepare_script(rig, warm, chosen)))
        process = psutil.Process()
        before = _cpu_s(process)
        for text in (text for own in texts for text in own):
            request = rig.request(SpeechRequest, text=text, no_bench=True)
            chosen = choose_engine(rig, request, detect_language(text, request))
            script = prepare_script(rig, request, chosen, first_short=True)
            leveller, out = Leveller(studio.rate, target_lufs=-19.0), io.BytesIO()
            with encoder(out, "pcm", studio.rate) as made:
                for chunk in studio.speak(script, early=True):
                    made.write(leveller.apply(chunk.samples))
            written += len(out.getvalue())
        return {"cpu_s": _cpu_s(process) - before, "audio_s": written / 2 / studio.rate}


if __name__ == "__main__":
    if sys.argv[1] == "asker":
        asker(sys.argv[2])
    elif sys.argv[1] == "clients":
        print(json.dumps(asyncio.run(clients(sys.argv[2], json.load(sys.stdin)))))
    else:
        print(json.dumps(offline(json.load(sys.stdin))))
