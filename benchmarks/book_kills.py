"""A book that is killed with SIGKILL at random moments, again and again: it continues every time.

A short book is made by the real command with an engine that logs every line it is given. Each
episode starts from nothing, is killed a few times (some at any moment, some after segments were
stored, some while the file is written) and then runs to the end. The finished file must be equal,
byte for byte, to one that was never killed; lines that were spoken twice are counted.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.counting_engine import install_counting_engine, read_log
from benchmarks.harness import Row
from benchmarks.kills import KillReport, run_episodes
from benchmarks.processes import ANYRIG, child_environment
from benchmarks.texts import numbered_book

KILLS = 200
NUM_SENTENCES = 48
CHAR_S = 0.00035


class BookRun:
    """A short book in a folder, its engine, and the command that makes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._plugin = install_counting_engine(folder / "plugin")
        self._source = folder / "book.txt"
        self._source.write_text(numbered_book(NUM_SENTENCES, 16), encoding="utf-8")

    def start(self, episode: Path) -> subprocess.Popen[str]:
        log = {"COUNTING_LOG": str(episode / "spoken"), "COUNTING_CHAR_S": str(CHAR_S)}
        options = ("-o", str(episode / "book.m4b"), "--engine", "counting", "--json")
        return subprocess.Popen(
            [*ANYRIG, "book", str(self._source), *options],
            env=child_environment(episode / "home", (self._plugin,), **log),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def finish(self, episode: Path) -> bytes:
        """Run to the end; return the file."""
        process = self.start(episode)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        return (episode / "book.m4b").read_bytes()


def kill_books(book: BookRun, num_kills: int, seed: int) -> KillReport:
    rng = random.Random(seed)
    report = KillReport(figures={"repeated_per_kill": [], "largest_batch": 1})
    expected = book.finish(book.folder / "never-killed")
    lines = {line.text for line in read_log(book.folder / "never-killed" / "spoken")}

    def run_episode(name: str, kills: int) -> None:
        episode = book.folder / name
        for _ in range(kills):
            _kill_once(book, episode, rng, report)
        if book.finish(episode) != expected:
            report.failures.append(f"{name} is not equal to the book that was never killed")
        leftovers = [path.name for path in episode.iterdir() if path.name.startswith(".")]
        if leftovers:
            report.failures.append(f"{name} has left {leftovers}")
        spoken = read_log(episode / "spoken")
        if {line.text for line in spoken} != lines:
            report.failures.append(f"{name} has spoken other lines than the book has")
        figures = report.figures
        figures["repeated_per_kill"].append((len(spoken) - len(lines)) / kills)
        sizes = [line.batch_size for line in spoken]
        figures["largest_batch"] = max(figures["largest_batch"], *sizes)

    return run_episodes(report, num_kills, rng, run_episode, (1, 6))


def _kill_once(book: BookRun, episode: Path, rng: random.Random, report: KillReport) -> None:
    """Start, wait for a random moment, kill."""
    moment = rng.choices(("time", "stored", "writing"), (2, 5, 3))[0]
    process = book.start(episode)
    stored = writing = False
    try:
        if moment == "time":
            time.sleep(rng.uniform(0.0, 2.5))
        else:
            assert process.stdout is not None
            for event in map(json.loads, process.stdout):
                stored = stored or event.get("segment", 0) > 0
                writing = event.get("stage") == "writing"
                if (moment == "stored" and stored and rng.random() < 0.4) or writing:
                    break
            time.sleep(rng.uniform(0.0, 0.25))
    finally:
        running = process.poll() is None
        process.kill()
        process.communicate()
    if running:
        report.num_kills += 1
        report.phases["writing"] += writing
        report.phases["stored"] += _has_stored(episode)


def _has_stored(episode: Path) -> bool:
    for path in (episode / "home").rglob("results.sqlite"):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            tables = connection.execute("select name from sqlite_master").fetchall()
            if ("results",) not in tables:
                return False  # it was killed while the cache was created
            (count,) = connection.execute("select count(*) from results").fetchone()
            return bool(count)
    return False


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        report = kill_books(BookRun(Path(folder)), KILLS, seed=20261115)
    figures, largest = report.figures, report.figures["largest_batch"]
    return [
        Row("kills", report.num_kills, "", low=KILLS),
        Row("books that differ, or left something behind", len(report.failures), "", high=0),
        Row("kills after the first stored segment", report.phases["stored"] / report.num_kills,
            "of all", low=0.5),
        Row("kills while the file was written", report.phases["writing"], "", low=KILLS // 20),
        Row("lines made twice for each kill, the worst episode", max(figures["repeated_per_kill"]),
            "", high=float(largest), spread=f"largest batch {largest} lines"),
    ]  # fmt: skip
