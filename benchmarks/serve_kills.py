"""The server under kill -9 in the middle of a book job, again and again: the job goes on each time.

A book is sent to a real server and made there. Each episode starts with nothing; its server is
killed a few times at random moments while the job runs (some while segments are made, some while
the file is written) and started anew. The book that comes out must be equal, byte for byte, to one
of a server that was never killed; nothing half written is left, and no process of the dead goes on.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.harness import ROOT, Row

KILLS = 50
BOOK = ROOT / "examples" / "the-tide-clock.epub"
SLEEP_S = 0.015  # for each character of the `tone` voice: the book takes some ten seconds
_START_S, _END_S = 60.0, 240.0


@dataclass
class Tried:
    """What became of the kills."""

    num_kills: int = 0
    num_making: int = 0
    """Kills after segments were stored, before all were."""
    num_writing: int = 0
    """Kills after the writing of the file had begun, in this attempt or in one before."""
    num_episodes: int = 0
    back_s: list[float] = field(default_factory=list)
    """From the start of a new server until the job runs again."""
    wrong: list[str] = field(default_factory=list)


class Serving:
    """A server in a home of its own, that can be killed and started anew."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[str] | None = None
        self.client = httpx.Client()

    def start(self) -> None:
        """Start it; returns when it listens."""
        environment = {
            **os.environ, "HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_DATA_HOME": str(self.home / "share"),
            "XDG_CONFIG_HOME": str(self.home / "config"), "ANYRIG_CONTAINER": "0",
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
            ),
        }  # fmt: skip
        with (self.home / "log.txt").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "anyrig", "serve", "--port", "0", "--json", "--no-page",
                 "--no-bench", "--device", "cpu"],
                env=environment, cwd=self.home, text=True, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self.client = httpx.Client(base_url=self._url(), timeout=60, trust_env=False)

    def _url(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while selector.select(_START_S):
                line = self._process.stdout.readline()
                if not line:
                    break
                if '"listening"' in line:
                    return str(json.loads(line)["url"])
        raise RuntimeError((self.home / "log.txt").read_text())

    def kill(self) -> None:
        """At once, as nothing else does: `kill -9`."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """As a person ends it."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        self.client.close()
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def order(self) -> str:
        """Send the book and have it made; the job's id."""
        files = {"files": ("The Tide Clock.epub", BOOK.read_bytes())}
        upload = self.client.post("/uploads", files=files).json()["files"][0]["id"]
        arguments = {"file": f"upload:{upload}", "engine": "tone", "chapters": "5-8",
                     "set": {"sleep_s": SLEEP_S}}  # fmt: skip
        answer = self.client.post("/jobs", json={"kind": "book", "arguments": arguments})
        answer.raise_for_status()
        return str(answer.json()["id"])

    def job(self, id: str) -> dict[str, Any]:
        """How it stands."""
        found: dict[str, Any] = self.client.get(f"/jobs/{id}").json()
        return found

    def finished(self, id: str) -> bytes:
        """The book, once it is made."""
        end = time.monotonic() + _END_S
        while (job := self.job(id))["state"] in ("queued", "running"):
            if time.monotonic() > end:
                raise RuntimeError(f"it is not done: {job}")
            time.sleep(0.2)
        if job["state"] != "done":
            raise RuntimeError(f"it is {job['state']}: {job['error']}")
        return self.client.get(f"/jobs/{id}/files/1").content

    def leftovers(self) -> list[str]:
        """What does not belong beside a finished book."""
        root = self.home / "share" / "anyrig" / "server" / "jobs"
        return [path.name for path in root.rglob("*") if path.is_file() and path.name != "book.m4b"]

    def alive(self) -> list[str]:
        """Processes that still work below this home."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(str(self.home) in word for word in words):
                found.append(" ".join(words)[:200])
        return found


def killing(folder: Path, kills: int, seed: int = 8, tell: bool = False) -> Tried:
    """Kill servers in the middle of a book so many times."""
    dice, tried = random.Random(seed), Tried()
    whole = Serving(folder / "right")
    whole.start()
    try:
        right = whole.finished(whole.order())
    finally:
        whole.stop()
    while tried.num_kills < kills:
        home = Serving(folder / f"episode-{tried.num_episodes}")
        here = min(dice.randint(3, 8), kills - tried.num_kills)
        try:
            _episode(home, here, dice, tried, right)
        finally:
            home.stop()
        tried.num_episodes += 1
        if tell:
            print(f"{tried.num_kills} kills, {len(tried.wrong)} wrong", flush=True)
    return tried


def _episode(home: Serving, kills: int, dice: random.Random, tried: Tried, right: bytes) -> None:
    name = home.home.name
    home.start()
    id = home.order()
    for _ in range(kills):
        if not _wait_a_while(home, id, dice, tried):
            tried.wrong.append(f"{name}: the job was over too soon")
            return
        home.kill()
        tried.num_kills += 1
        began = time.monotonic()
        home.start()
        while home.job(id)["state"] == "queued" and time.monotonic() - began < 60:
            time.sleep(0.05)
        tried.back_s.append(time.monotonic() - began)
    if home.finished(id) != right:
        tried.wrong.append(f"{name}: not equal to the book that was never interrupted")
    job = home.job(id)
    if job["attempts"] != kills + 1:
        tried.wrong.append(f"{name}: {job['attempts']} attempts with {kills} kills")
    if home.leftovers():
        tried.wrong.append(f"{name}: left {home.leftovers()}")
    home.stop()
    end = time.monotonic() + 20
    while home.alive() and time.monotonic() < end:
        time.sleep(0.2)
    if home.alive():
        tried.wrong.append(f"{name}: {home.alive()} goes on")


def _wait_a_while(home: Serving, id: str, dice: random.Random, tried: Tried) -> bool:
    """Until a moment in the middle of the job; whether it still runs then."""
    want = dice.choice(("any", "making", "making", "writing"))
    rest = dice.uniform(0.0, 1.5)
    until: float | None = None
    while True:
        job = home.job(id)
        if job["state"] not in ("queued", "running"):
            return False
        stage = (job["progress"] or {}).get("stage")
        if until is None and job["state"] == "running" and (want == "any" or stage == want):
            until = time.monotonic() + (rest if want != "writing" else 0.0)
        if stage == "writing" or (until is not None and time.monotonic() >= until):
            break
        time.sleep(0.05)
    tried.num_writing += stage == "writing"
    tried.num_making += stage == "making"
    return True


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        tried = killing(Path(folder), KILLS, tell=True)
    for line in tried.wrong:
        print(line)
    slowest = max(tried.back_s)
    return [
        Row("kill -9 of the server in the middle of a book job", tried.num_kills, "kills",
            low=KILLS),
        Row("of these with segments stored, before any writing", tried.num_making, "kills", low=1),
        Row("of these after the writing of the file had begun", tried.num_writing, "kills", low=1),
        Row("jobs that did not end as if nothing had happened", len(tried.wrong), "jobs", high=0),
        Row("until the job runs again, start of the server included", slowest, "s at most",
            high=60.0),
    ]  # fmt: skip
