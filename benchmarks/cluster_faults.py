"""A hundred faults in one long run: workers, clients, messages and the broker itself, at random.

Books are made over a cluster by the real command while something goes wrong every second or two:
workers are killed and come back, sleep past their lease and wake, are asked to leave; the client is
killed and started again, and so is the coordinator; the broker is killed with what it has written
down, or forgets all; messages come twice. One worker's clock is hours wrong all the time, one has
another version of the engine. Every book must be equal to the one that a machine alone makes, byte
for byte; lines that were made more than once are counted by the engine itself.

BENCHMARK_FAULTS, BENCHMARK_VOICE_FAULTS, BENCHMARK_SEED: how many, how many on the default voice.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cluster_rig import Doubler, Node, Room
from benchmarks.harness import Row

FAULTS = int(os.environ.get("BENCHMARK_FAULTS", "100"))
VOICE_FAULTS = int(os.environ.get("BENCHMARK_VOICE_FAULTS", "12"))
SEED = int(os.environ.get("BENCHMARK_SEED", "20261116"))
VOICE = "hibari"
CHAR_S = 0.004
LEASE_S = 2
SENTENCES = 90
MOST = 6
"""Faults while one book is made; then it is let through."""
NAMES = ("w1", "w2", "w3")
LONGEST_S = 180.0
"""A book that takes longer, whatever happened to it, is a failure."""


@dataclass
class Tried:
    """What became of the faults."""

    kinds: Counter[str] = field(default_factory=Counter)
    num_books: int = 0
    num_lines: int = 0
    again: int = 0
    """Lines that were made more than once."""
    worst: float = 0.0
    """Of all books: lines made again for each of its faults."""
    wrong: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """All faults."""
        return sum(self.kinds.values())


class Trouble:
    """Does things to a room."""

    def __init__(self, room: Room, dice: random.Random, tried: Tried) -> None:
        self._room, self._dice, self._tried = room, dice, tried
        self._due: list[tuple[float, Callable[[], object]]] = []
        """What must happen later: somebody wakes, somebody is started again."""
        self._away: set[str] = set()
        self.client: subprocess.Popen[str] | None = None
        self.leader: subprocess.Popen[bytes] | None = None

    def worker(self, name: str) -> Node:
        """Start a worker; the last one's clock is wrong."""
        environment = {"SHORT_LEASE_S": str(LEASE_S)}
        if name == NAMES[-1]:
            environment["CLOCK_SHIFT_S"] = str(self._dice.choice((-1, 1)) * 9000)
        return self._room.worker(name, char_s=CHAR_S, environment=environment)

    def settle(self, *, all: bool = False) -> None:
        """Do what is due by now, or all of it."""
        now = time.monotonic()
        due = [one for one in self._due if all or one[0] <= now]
        self._due = [one for one in self._due if one not in due]
        for _, what in due:
            what()

    def once(self) -> None:
        """One fault of some kind."""
        kinds: dict[str, tuple[int, Callable[[], bool]]] = {
            "worker killed": (5, self._kill), "worker asleep": (4, self._freeze),
            "client killed": (3, self._kill_client), "broker killed": (2, self._persistent),
            "broker forgot": (2, self._forgetful), "messages twice": (3, self._twice),
            "worker asked to leave": (2, self._leave), "coordinator killed": (2, self._kill_leader),
        }  # fmt: skip
        weights = [weight for weight, _ in kinds.values()]
        name = self._dice.choices(list(kinds), weights)[0]
        if kinds[name][1]():
            self._tried.kinds[name] += 1

    def awaits(self, name: str) -> bool:
        """Whether a worker is to be started again."""
        return name in self._away

    def _again(self, node: Node) -> None:
        node.end()
        self._away.discard(node.name)
        self.worker(node.name)

    def _later(self, what: Callable[[], object], low_s: float, high_s: float) -> None:
        self._due.append((time.monotonic() + self._dice.uniform(low_s, high_s), what))

    def _node(self) -> Node | None:
        there = [n for n in NAMES if self._room.nodes[n].alive and not self._room.nodes[n].frozen]
        return self._room.nodes[self._dice.choice(there)] if there else None

    def _kill(self) -> bool:
        if (node := self._node()) is None:
            return False
        node.kill()
        self._away.add(node.name)
        self._later(lambda: self._again(node), 0.0, 3.0)
        return True

    def _leave(self) -> bool:
        if (node := self._node()) is None:
            return False
        node.process.terminate()
        self._away.add(node.name)
        self._later(lambda: self._again(node), 0.5, 3.0)
        return True

    def _freeze(self) -> bool:
        if (node := self._node()) is None:
            return False
        node.freeze()
        self._later(node.thaw, 0.5, 3.0 * LEASE_S)
        return True

    def _kill_client(self) -> bool:
        if self.client is None or self.client.poll() is not None:
            return False
        self.client.kill()
        return True

    def lead(self) -> None:
        """A coordinator over the room's broker."""
        home = self._room.folder / "leader"
        home.mkdir(exist_ok=True)
        with (home / "log.txt").open("a") as log:
            self.leader = subprocess.Popen(
                [sys.executable, "-m", "anyrig", "coordinator", "--broker", self._room.url,
                 "--host", "127.0.0.1", "--json"],
                stdout=log, stderr=log, env=self._room.person("leader"),
            )  # fmt: skip

    def end(self) -> None:
        """The room is left as it was, and nobody leads it any more."""
        self.settle(all=True)
        if self.leader is not None:
            self.leader.terminate()
            self.leader.wait(30)

    def _kill_leader(self) -> bool:
        if self.leader is None or self.leader.poll() is not None:
            return False
        self.leader.kill()
        self.leader.wait(30)
        self._later(self.lead, 0.0, 3.0)
        return True

    def _persistent(self) -> bool:
        self._room.stop_broker(kill=True)
        time.sleep(self._dice.uniform(0.0, 2.0))
        self._room.start_broker()
        return True

    def _forgetful(self) -> bool:
        with contextlib.closing(self._room.redis()) as redis:
            redis.flushall()
        return self._persistent()

    def _twice(self) -> bool:
        with contextlib.closing(self._room.redis()) as redis, Doubler(redis, most=2) as doubler:
            end = time.monotonic() + 2.0
            while doubler.count < 2 and time.monotonic() < end:
                time.sleep(0.02)
        return doubler.count > 0


def trying(folder: Path, faults: int, voice_faults: int, seed: int, tell: bool = False) -> Tried:
    """So many faults over as many books as they take, the last ones on the default voice."""
    tried, dice = Tried(), random.Random(seed)
    print(f"seed {seed}", flush=True)
    with Room(folder, config={"appendonly": "yes"}) as room:
        trouble = Trouble(room, dice, tried)
        for name in NAMES:
            trouble.worker(name)
        room.worker("old", environment={"COUNTING_VERSION": "0", "SHORT_LEASE_S": str(LEASE_S)})
        trouble.lead()
        room.wait_for(*NAMES, "old")
        for engine, sentences, upto in (
            ("counting", SENTENCES, faults - voice_faults), (VOICE, SENTENCES // 3, faults),
        ):  # fmt: skip
            source = folder / f"{engine}.txt"
            source.write_text(_text(sentences), encoding="utf-8")
            right = folder / f"{engine}-right.m4b"
            room.whole(source, right, home=f"{engine}-alone", cluster=False, engine=engine)
            while tried.count < upto:
                _book(room, trouble, dice, tried, source, right, engine, upto)
                if tell:
                    print(f"{tried.count} faults, {tried.num_books} books, {tried.again} lines made"
                          f" again, {len(tried.wrong)} wrong", flush=True)  # fmt: skip
        trouble.end()
    return tried


def _book(
    room: Room, trouble: Trouble, dice: random.Random, tried: Tried, source: Path, right: Path,
    engine: str, upto: int,
) -> None:  # fmt: skip
    """One book, with faults while it is made; the client is started again until it is done."""
    home = f"{engine}-{tried.num_books}"
    upto = min(upto, tried.count + MOST)
    out, log = room.folder / f"{home}.m4b", room.folder / f"{home}.log"
    began, before = time.monotonic(), tried.count
    room.counted.unlink(missing_ok=True)
    while True:
        process = trouble.client = room.book(source, out, home=home, engine=engine)
        following = time.monotonic() + dice.uniform(0.5, 3.0)
        while process.poll() is None:
            trouble.settle()
            if time.monotonic() > following and tried.count < upto:
                trouble.once()
                following = time.monotonic() + dice.uniform(1.0, 3.5)
            if time.monotonic() - began > LONGEST_S:
                process.kill()
                break
            time.sleep(0.05)
        process.communicate()
        away = "does not respond" in log.read_text()[-400:]  # it was started in just that moment
        if process.returncode == 0 or (process.returncode > 0 and not away) or _late(began):
            break
    tried.num_books += 1
    gone = [name for name in NAMES if not room.nodes[name].alive and not trouble.awaits(name)]
    for name in gone:
        tail = room.nodes[name].log.read_text()[-1500:]
        tried.wrong.append(f"{name} ended by itself: {tail}")
        trouble.worker(name)
    if process.returncode or _late(began):
        tried.wrong.append(f"{home} ended with {process.returncode}: {log.read_text()[-1500:]}")
    elif out.read_bytes() != right.read_bytes():
        tried.wrong.append(f"{home} is not equal to the book of one machine")
    made = room.made()
    if made:
        again = sum(made.values()) - len(made)
        tried.again += again
        tried.num_lines += len(made)
        tried.worst = max(tried.worst, again / max(1, tried.count - before))


def _late(began: float) -> bool:
    return time.monotonic() - began > LONGEST_S


def _text(sentences: int) -> str:
    words = "tide clock lamp stone bell rope sail gull sand harbour lantern winter".split()
    told = []
    for number in range(sentences):
        if number % 30 == 0:
            told.append(f"\n\nCHAPTER {number // 30 + 1}\n\n")
        one, other = words[number % len(words)], words[(number * 7 + 3) % len(words)]
        told.append(f"Line {number} tells of the {one} and the {other} by the sea. ")
    return "".join(told)


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        tried = trying(Path(folder), FAULTS, VOICE_FAULTS, SEED, tell=True)
    for line in tried.wrong:
        print(line, flush=True)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(tried.kinds.items()))
    # A worker has two shards of a second each, and what is late is given to another as well.
    shard = 1.0 / (CHAR_S * 40) + 2
    return [
        Row("faults", tried.count, "", low=FAULTS, spread=kinds),
        Row("books that differ or were not finished", len(tried.wrong), "", high=0,
            spread=f"{tried.num_books} books, {VOICE_FAULTS} faults on {VOICE}"),
        Row("lines made again for each fault", tried.again / max(1, tried.count - VOICE_FAULTS),
            "", high=2 * shard, spread=f"the worst book {tried.worst:.1f}"),
    ]  # fmt: skip
