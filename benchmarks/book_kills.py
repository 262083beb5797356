"""A book under kill -9: at random moments, again and again, and each time it goes on.

A short book is made by the real command with an engine that writes down every line it is given.
Each episode starts with nothing, is killed a few times (some at any moment, some after segments
were stored, some while the file is written) and then let through. The finished file must be equal
to one that was never killed, byte for byte, and what was made twice is counted.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import ROOT, Row

KILLS = 200
SENTENCES = 48
_PLUGIN = '''
import os, time
from anyrig.speech.engines.tone import SPEC, Tone
from dataclasses import replace

class Counting(Tone):
    """Tones, each line written down when it is made."""
    spec = replace(SPEC, name="counting", options=())
    name = "counting"
    cores = 1

    def run(self, batch):
        log = os.open(os.environ["COUNTED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"{len(batch)} batch\\n".encode())
        for line in batch:
            time.sleep(0.02)
            os.write(log, f"{line.seed}\\n".encode())
        os.close(log)
        return super().run(batch)
'''


@dataclass
class Tried:
    """What became of the kills."""

    num_kills: int = 0
    num_after_stored: int = 0
    """Kills when some segments were stored and the book was not finished."""
    num_writing: int = 0
    """Kills while the file was written."""
    num_episodes: int = 0
    twice: list[float] = field(default_factory=list)
    """For each episode: lines that were made again, for each of its kills."""
    largest_batch: int = 1
    """Lines that a worker was given in one call."""
    wrong: list[str] = field(default_factory=list)


class Book:
    """A short book in a folder, its engine, and the command that makes it."""

    def __init__(self, folder: Path, sentences: int = SENTENCES) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.source = folder / "book.txt"
        self.source.write_text(_text(sentences), encoding="utf-8")
        self._install(folder / "plugin")

    def _install(self, place: Path) -> None:
        info = place / "counting-1.0.dist-info"
        info.mkdir(parents=True)
        (place / "counting.py").write_text(_PLUGIN)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[anyrig.speech]\ncounting = counting:Counting\n")
        self._plugin = place

    def start(self, episode: Path) -> subprocess.Popen[str]:
        """The command, in a folder of its own."""
        home = episode / "home"
        home.mkdir(parents=True, exist_ok=True)
        paths = [str(self._plugin), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "COUNTED": str(episode / "counted"),
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_CONFIG_HOME": str(home / "config"),
        }
        command = [sys.executable, "-m", "anyrig", "book", str(self.source),
                   "-o", str(episode / "book.m4b"), "--engine", "counting", "--json"]  # fmt: skip
        return subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def whole(self, episode: Path) -> tuple[bytes, dict[str, object]]:
        """The file of a run that is let through, and what it said at the end."""
        process = self.start(episode)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return (episode / "book.m4b").read_bytes(), json.loads(out.splitlines()[-1])


def counted(episode: Path) -> list[str]:
    """The lines that the engine was given, in all runs of an episode."""
    try:
        lines = (episode / "counted").read_text().split("\n")
    except FileNotFoundError:
        return []
    return [line for line in lines if line]


def killing(book: Book, kills: int, seed: int, tell: bool = False) -> Tried:
    """Kill the making of a book so many times."""
    dice, tried = random.Random(seed), Tried()
    right, _ = book.whole(book.folder / "right")
    made_once = {line for line in counted(book.folder / "right") if "batch" not in line}
    while tried.num_kills < kills:
        episode = book.folder / f"episode-{tried.num_episodes}"
        here = min(dice.randint(1, 6), kills - tried.num_kills)
        for _ in range(here):
            _kill_once(book, episode, dice, tried)
        got, _ = book.whole(episode)
        if got != right:
            tried.wrong.append(f"{episode.name} is not equal to the book that was never killed")
        leftovers = [path.name for path in episode.iterdir() if path.name.startswith(".")]
        if leftovers:
            tried.wrong.append(f"{episode.name} has left {leftovers}")
        _count(episode, made_once, here, tried)
        tried.num_episodes += 1
        if tell:
            print(f"{tried.num_kills} kills, {len(tried.wrong)} wrong", flush=True)
    return tried


def _count(episode: Path, made_once: set[str], kills: int, tried: Tried) -> None:
    lines = counted(episode)
    made = [line for line in lines if "batch" not in line]
    if set(made) != made_once:
        tried.wrong.append(f"{episode.name} made other lines than the book has")
    tried.twice.append((len(made) - len(made_once)) / kills)
    sizes = [int(line.split()[0]) for line in lines if "batch" in line]
    tried.largest_batch = max([tried.largest_batch, *sizes])


def _kill_once(book: Book, episode: Path, dice: random.Random, tried: Tried) -> None:
    """Start, wait for a moment of some kind, kill."""
    way = dice.choices(("time", "stored", "writing"), (2, 5, 3))[0]
    process = book.start(episode)
    stored = writing = False
    try:
        if way == "time":
            time.sleep(dice.uniform(0.0, 2.5))
        else:
            for event in _events(process):
                stored = stored or int(str(event.get("segment", 0))) > 0
                writing = event.get("stage") == "writing"
                if (way == "stored" and stored and dice.random() < 0.4) or writing:
                    break
            time.sleep(dice.uniform(0.0, 0.25))
    finally:
        running = process.poll() is None
        process.kill()
        process.communicate()
    if running:
        tried.num_kills += 1
        tried.num_writing += writing
        tried.num_after_stored += _has_stored(episode)


def _events(process: subprocess.Popen[str]) -> Iterator[dict[str, object]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def _has_stored(episode: Path) -> bool:
    import sqlite3

    for path in (episode / "home").rglob("results.sqlite"):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            (count,) = connection.execute("select count(*) from results").fetchone()
            return bool(count)
    return False


def _text(sentences: int) -> str:
    words = "tide clock lamp stone bell rope sail gull sand harbour lantern winter".split()
    lines = []
    for number in range(sentences):
        if number % 16 == 0:
            lines.append(f"\nCHAPTER {number // 16 + 1}\n")
        one, other = words[number % len(words)], words[(number * 7 + 3) % len(words)]
        lines.append(f"Line {number} tells of the {one} and the {other} by the sea.\n")
    return "\n".join(lines)


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        tried = killing(Book(Path(folder)), KILLS, seed=20261115, tell=True)
    for line in tried.wrong:
        print(line, flush=True)
    after = tried.num_after_stored / tried.num_kills
    return [
        Row("kills", tried.num_kills, "", low=KILLS),
        Row("books that differ, or left something behind", len(tried.wrong), "", high=0),
        Row("kills after the first stored segment", after, "of all", low=0.5),
        Row("kills while the file was written", tried.num_writing, "", low=KILLS // 20),
        Row("lines made twice for each kill, the worst episode", max(tried.twice), "",
            high=float(tried.largest_batch), spread=f"largest batch {tried.largest_batch} lines"),
    ]  # fmt: skip
