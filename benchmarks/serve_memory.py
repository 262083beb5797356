"""2,000 requests of all kinds against a real server: its resident memory must not grow.

Eight clients speak (whole, as events, over the socket, some leave in the middle), embed, give tasks
on documents, upload and delete, look at jobs, health, figures and devices, and make every kind of
mistake. The server runs with its default voice and model, one process each; nothing is unloaded in
between. What is resident in the whole process tree is looked at after the first requests have
loaded everything, and again at the end, both times when nothing is going on.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
from websockets.sync.client import connect

from benchmarks.harness import ROOT, Row

REQUESTS = int(os.environ.get("BENCHMARK_REQUESTS", "2000"))
WARM = 0.2
"""The share of requests after which everything has been loaded and has seen its largest batch."""
CLIENTS = 8
_STARTS_S, _RESTS_S = 120.0, 4.0
_WORDS = (
    "the old harbour lay under a grey sky while fishermen mended their nets and counted what was"
    " left of a long summer that nobody in the village would forget"
).split()


def run(hardware: str) -> list[Row]:
    """The growth, and what was answered."""
    with tempfile.TemporaryDirectory() as home, _server(Path(home)) as (url, process):
        crowd = Crowd(url)
        crowd.send(round(REQUESTS * WARM))
        before, parts = _resident(process), _parts(process)
        points = [before]
        for _ in range(4):
            crowd.send(round(REQUESTS * (1 - WARM) / 4))
            points.append(_resident(process))
        by_kind = ", ".join(f"{kind} {count}" for kind, count in sorted(crowd.done.items()))
        print(f"requests: {by_kind}")
        print(f"resident, MiB: {', '.join(f'{one / 2**20:.0f}' for one in points)}")
        print(f"of each process: {parts}, then {_parts(process)}")
        for line in crowd.wrong[:20]:
            print(f"unexpected: {line}")
        after = statistics.median(points[-2:])
        return [
            Row("memory after all requests", after / 2**20, "MiB", before / 2**20,
                "after the first fifth", high=1.05, judge="ratio",
                spread=" ".join(f"{one / 2**20:.0f}" for one in points)),
            Row("requests", sum(crowd.done.values()), "", low=REQUESTS),
            Row("unexpected answers", len(crowd.wrong), "", high=0),
        ]  # fmt: skip


# -- the server ------------------------------------------------------------------------------------


@contextmanager
def _server(home: Path) -> Iterator[tuple[str, psutil.Process]]:
    environment = {
        **os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"), "ANYRIG_SERVER_IDLE_S": "0",
        "ANYRIG_CONTAINER": "0", "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
    }  # fmt: skip
    command = [sys.executable, "-m", "anyrig", "serve", "--port", "0", "--json", "--no-bench"]
    with (home / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=home, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if '"listening"' in line:
                yield json.loads(line)["url"], psutil.Process(process.pid)
                break
        else:
            raise RuntimeError((home / "log.txt").read_text())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _resident(process: psutil.Process) -> float:
    """Bytes of the process and all its children, once they rest."""
    time.sleep(_RESTS_S)
    seen = []
    for _ in range(3):
        seen.append(sum(one for _, one in _each(process)))
        time.sleep(0.5)
    return statistics.median(seen)


def _each(process: psutil.Process) -> list[tuple[int, int]]:
    found = []
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):
            found.append((one.pid, one.memory_info().rss))
    return found


def _parts(process: psutil.Process) -> str:
    return " + ".join(f"{rss / 2**20:.0f}" for _, rss in _each(process))


# -- the clients -----------------------------------------------------------------------------------


class Crowd:
    """Clients that do everything, in an order that is the same every time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._dice = random.Random(20261115)
        self._lock = threading.Lock()
        kinds: list[tuple[Callable[[httpx.Client, random.Random], None], int]] = [
            (self._speech, 14), (self._events, 8), (self._stream, 8), (self._leaves, 4),
            (self._vectors, 16), (self._documents, 12), (self._uploads, 8), (self._jobs, 8),
            (self._looks, 12), (self._mistakes, 10),
        ]  # fmt: skip
        self._kinds = [kind for kind, weight in kinds for _ in range(weight)]

    def send(self, count: int) -> None:
        """So many requests, from all clients."""
        left = iter([(self._dice.choice(self._kinds), self._dice.random()) for _ in range(count)])

        def client() -> None:
            with httpx.Client(base_url=self.url, timeout=120, trust_env=False) as asks:
                while True:
                    with self._lock:
                        one = next(left, None)
                    if one is None:
                        return
                    self._one(asks, *one)

        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self, asks: httpx.Client, kind: Callable[..., None], seed: float) -> None:
        name = kind.__name__.strip("_")
        try:
            kind(asks, random.Random(seed))
        except Exception as error:  # noqa: BLE001 - told at the end
            with self._lock:
                self.wrong.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
        with self._lock:
            self.done[name] += 1

    def _expect(self, answer: httpx.Response, *statuses: int) -> httpx.Response:
        if answer.status_code not in statuses:
            raise ValueError(f"{answer.status_code} {answer.request.url.path}: {answer.text[:200]}")
        return answer

    def _speech(self, asks: httpx.Client, dice: random.Random) -> None:
        form = dice.choice(["mp3", "opus", "aac", "flac", "wav", "pcm"])
        wish = {"model": "tts-1", "voice": "alloy", "input": _text(dice), "response_format": form}
        self._expect(asks.post("/v1/audio/speech", json=wish), 200)

    def _events(self, asks: httpx.Client, dice: random.Random) -> None:
        wish = {"model": "tts-1", "voice": "alloy", "input": _text(dice), "stream_format": "sse"}
        with asks.stream("POST", "/v1/audio/speech", json=wish) as answer:
            last = [line for line in answer.iter_lines() if line.startswith("data:")][-1]
        if "speech.audio.done" not in last:
            raise ValueError(last[:200])

    def _stream(self, asks: httpx.Client, dice: random.Random) -> None:
        with connect(f"{self.url.replace('http', 'ws')}/stream", max_size=None) as socket:
            socket.send(json.dumps({"text": _text(dice)}))
            frames = [frame for frame in socket if isinstance(frame, bytes)]
        if not frames:
            raise ValueError("no sound came")

    def _leaves(self, asks: httpx.Client, dice: random.Random) -> None:
        text = " ".join(_text(dice) for _ in range(6))
        wish = {"model": "tts-1", "voice": "alloy", "input": text, "response_format": "pcm"}
        with (
            httpx.Client(base_url=self.url, timeout=120, trust_env=False) as own,
            own.stream("POST", "/v1/audio/speech", json=wish) as answer,
        ):
            next(answer.iter_bytes())

    def _vectors(self, asks: httpx.Client, dice: random.Random) -> None:
        texts = [_text(dice) for _ in range(dice.choice([1, 1, 4, 16]))]
        form = dice.choice(["float", "base64"])
        body = {"model": "text-embedding-3-small", "input": texts, "encoding_format": form}
        self._expect(asks.post("/v1/embeddings", json=body), 200)

    def _documents(self, asks: httpx.Client, dice: random.Random) -> None:
        texts = [_text(dice) for _ in range(3)]
        task, more = dice.choice(_TASKS)
        self._expect(asks.post(f"/documents/{task}", json={"texts": texts, **more}), 200)

    def _uploads(self, asks: httpx.Client, dice: random.Random) -> None:
        data = " ".join(_text(dice) for _ in range(dice.choice([2, 200]))).encode()
        sent = self._expect(
            asks.post("/uploads", files=[("files", ("notes.txt", data, "text/plain"))]), 200, 201
        )
        name = sent.json()["files"][0]["id"]
        self._expect(asks.get("/uploads"), 200)
        self._expect(asks.delete(f"/uploads/{name}"), 200, 204)

    def _jobs(self, asks: httpx.Client, dice: random.Random) -> None:
        self._expect(asks.get("/jobs"), 200)
        self._expect(asks.get("/jobs/nothing-is-here"), 404)

    def _looks(self, asks: httpx.Client, dice: random.Random) -> None:
        path = dice.choice(["/health", "/health/live", "/metrics", "/metrics/gpu", "/devices",
                            "/config", "/v1/models", "/bench", "/runs", "/lexicon",
                            "/documents/indexes", "/openapi.json"])  # fmt: skip
        self._expect(asks.get(path), 200)

    def _mistakes(self, asks: httpx.Client, dice: random.Random) -> None:
        method, path, body, status = dice.choice(_MISTAKES)
        self._expect(asks.request(method, path, json=body), *status)


_TASKS: list[tuple[str, dict[str, Any]]] = [
    ("embed", {}), ("entities", {"engine": "grammar"}), ("summarise", {}),
    ("classify", {"labels": ["a letter", "a bill", "a recipe"]}),
]  # fmt: skip
_MISTAKES: list[tuple[str, str, Any, tuple[int, ...]]] = [
    ("POST", "/v1/audio/speech", {"model": "tts-1", "input": ""}, (400, 422)),
    ("POST", "/v1/audio/speech", {"model": "no-such", "input": "x", "voice": "alloy"}, (400, 404)),
    ("POST", "/v1/embeddings", {"model": "no-such-model", "input": "x"}, (404,)),
    ("POST", "/v1/embeddings", {"input": 7}, (400, 422)),
    ("POST", "/documents/search", {"question": "rent", "index": "none-such"}, (400, 404, 422)),
    ("POST", "/documents/entities", {"files": ["upload:" + "0" * 32]}, (200, 400, 404)),
    ("PUT", "/devices/chosen", {"device": "quantum:7"}, (404,)),
    ("POST", "/jobs", {"kind": "no-such-kind"}, (422,)),
    ("GET", "/no/such/path", None, (404,)),
    ("DELETE", "/uploads/" + "0" * 32, None, (404,)),
]


def _text(dice: random.Random) -> str:
    """A sentence, seldom the same twice."""
    words = [dice.choice(_WORDS) for _ in range(dice.randint(4, 14))]
    return " ".join(words).capitalize() + "."
