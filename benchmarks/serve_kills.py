"""A server that is killed with SIGKILL in the middle of a book job: the job continues every time.

A book is sent to a real server and made there. In each episode the server is killed a few times at
random moments while the job runs (some while segments are spoken, some while the file is written)
and started again. The book must be equal, byte for byte, to one of a server that was never killed;
no partial file is left, and no process of a killed server continues.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.harness import ROOT, Row
from benchmarks.kills import KillReport, run_episodes
from benchmarks.processes import AnyrigServer, wait_until

KILLS = 50
BOOK = ROOT / "examples" / "the-tide-clock.epub"
SLEEP_S = 0.015  # for each character of the `tone` voice: the book takes some ten seconds
_JOB_TIMEOUT_S = 240.0


class BookServer(AnyrigServer):
    """A server, and the client that has a book made."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, "--no-page", "--device", "cpu")

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = httpx.request(method, f"{self.url}{path}", timeout=60, trust_env=False, **options)
        answer.raise_for_status()
        return answer

    def submit(self) -> str:
        """Send the book and start a job; return its id."""
        files = {"files": ("The Tide Clock.epub", BOOK.read_bytes())}
        upload = self._request("POST", "/uploads", files=files).json()["files"][0]["id"]
        arguments = {"file": f"upload:{upload}", "engine": "tone", "chapters": "5-8",
                     "set": {"sleep_s": SLEEP_S}}  # fmt: skip
        body = {"kind": "book", "arguments": arguments}
        return str(self._request("POST", "/jobs", json=body).json()["id"])

    def job(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = self._request("GET", f"/jobs/{id}").json()
        return found

    def wait_for_book(self, id: str) -> bytes:
        def has_ended() -> bool:
            return self.job(id)["state"] not in ("queued", "running")

        wait_until(has_ended, _JOB_TIMEOUT_S, "the end of the job")
        job = self.job(id)
        if job["state"] != "done":
            raise RuntimeError(f"the job is {job['state']}: {job['error']}")
        return self._request("GET", f"/jobs/{id}/files/1").content

    def leftovers(self) -> list[str]:
        """Files beside the finished book."""
        jobs = self.home / "data" / "anyrig" / "server" / "jobs"
        return [path.name for path in jobs.rglob("*") if path.is_file() and path.name != "book.m4b"]

    def running_processes(self) -> list[str]:
        """Command lines that name this server's home."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(self.home) in command:
                found.append(command.replace("\0", " ")[:200])
        return found


def kill_servers(folder: Path, num_kills: int, seed: int = 8) -> KillReport:
    rng, report = random.Random(seed), KillReport(figures={"restart_s": []})
    with BookServer(folder / "never-killed") as server:
        expected = server.wait_for_book(server.submit())

    def episode(name: str, kills: int) -> None:
        with BookServer(folder / name) as server:
            _run_episode(server, kills, rng, report, expected)

    return run_episodes(report, num_kills, rng, episode, (3, 8))


def _run_episode(
    server: BookServer, kills: int, rng: random.Random, report: KillReport, expected: bytes
) -> None:
    name, id = server.home.name, server.submit()
    for _ in range(kills):
        if not _wait_a_while(server, id, rng, report):
            report.failures.append(f"{name}: the job ended before it was killed")
            return
        server.kill()
        report.num_kills += 1
        start = time.monotonic()
        server.start()
        wait_until(lambda: server.job(id)["state"] != "queued", 60, "the job to continue")
        report.figures["restart_s"].append(time.monotonic() - start)
    if server.wait_for_book(id) != expected:
        report.failures.append(f"{name}: not equal to the book that was never interrupted")
    attempts = server.job(id)["attempts"]
    if attempts != kills + 1:
        report.failures.append(f"{name}: {attempts} attempts with {kills} kills")
    if server.leftovers():
        report.failures.append(f"{name}: left {server.leftovers()}")
    server.stop()
    deadline = time.monotonic() + 20
    while server.running_processes() and time.monotonic() < deadline:
        time.sleep(0.2)
    if server.running_processes():
        report.failures.append(f"{name}: still running: {server.running_processes()}")


def _wait_a_while(server: BookServer, id: str, rng: random.Random, report: KillReport) -> bool:
    """Until a random moment of the job; False if it ended before."""
    wanted = rng.choice(("any", "making", "making", "writing"))
    delay_s = rng.uniform(0.0, 1.5) if wanted != "writing" else 0.0
    until: float | None = None
    while True:
        job = server.job(id)
        if job["state"] not in ("queued", "running"):
            return False
        stage = (job["progress"] or {}).get("stage")
        if until is None and job["state"] == "running" and wanted in ("any", stage):
            until = time.monotonic() + delay_s
        if stage == "writing" or (until is not None and time.monotonic() >= until):
            report.phases[str(stage)] += 1
            return True
        time.sleep(0.05)


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        report = kill_servers(Path(folder), KILLS)
    phases, slowest = report.phases, max(report.figures["restart_s"])
    return [
        Row("kill -9 of the server in the middle of a book job", report.num_kills, "kills",
            low=KILLS),
        Row("of these with segments stored, before any writing", phases["making"], "kills", low=1),
        Row("of these after the writing of the file had begun", phases["writing"], "kills", low=1),
        Row("jobs that did not end as if nothing had happened", len(report.failures), "jobs",
            high=0),
        Row("until the job runs again, start of the server included", slowest, "s at most",
            high=60.0),
    ]  # fmt: skip
