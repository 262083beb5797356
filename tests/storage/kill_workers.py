"""Forks workers that use a cache and kills them; run by test_result_cache_kill.py.

A process of its own, so that it can fork: light, without threads, whatever pytest has loaded. It
prints one JSON object. A child writes each key to a pipe once `put` has returned.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from anyrig.storage import sqlite
from anyrig.storage.cache import ResultCache
from anyrig.storage.keys import make_key

SMALL_LIMIT = 3 << 20
_SIZES = (10, 700, 4096, 4096, 60_000, 400_000)


def content(name: str) -> bytes:
    """What must be found under a key: made of the key itself."""
    size = _SIZES[int(name[-1], 16) % len(_SIZES)]
    block = hashlib.sha256(name.encode()).digest()
    return (block * (size // len(block) + 1))[:size]


def work(folder: Path, number: int, pipe: int) -> None:
    """Put, get, replace, drop, prune and hold until killed."""
    chance = random.Random(number)
    with (
        ResultCache(folder / "kept") as kept,
        ResultCache(folder / "small", limit_bytes=SMALL_LIMIT) as small,
    ):
        for step in range(1_000_000):
            name = make_key(victim=number, step=step)
            assert kept.put(name, content(name), kind="speech")
            os.write(pipe, f"{name}\n".encode())
            # Shared by all victims of all rounds: put, read and dropped by each of them.
            shared = make_key(shared=chance.randrange(60))
            churn(small, shared, chance, number)


def churn(small: ResultCache, name: str, chance: random.Random, number: int) -> None:
    action = chance.randrange(8)
    if action < 3:
        small.put(name, content(name), kind="speech")
    elif action == 3:
        small.replace(name, content(name), kind="speech")
    elif action == 4:
        small.delete(name)
    elif action == 5:
        small.prune(to_bytes=SMALL_LIMIT // 2)
    elif action == 6 and chance.random() < 0.2:
        small.prune(
            to_bytes=0, include_pinned=True
        )  # the file itself goes, under the others' hands
    elif action == 6:
        with small.pin_for_job(f"job {number}"):
            small.put(name, content(name), kind="speech")
    found = small.get(name)
    assert found is None or found.data == content(name), name


def one_round(folder: Path, numbers: list[int], after: int, delay_s: float) -> list[str]:
    """Let children work until so many keys are acknowledged, and a moment longer; then kill them.

    Returns the keys.
    """
    reader, writer = os.pipe()
    children = []
    for number in numbers:
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                work(folder, number, writer)
            except BaseException as error:  # noqa: BLE001 - a child tells and ends, whatever it is
                os.write(writer, f"error {type(error).__name__}: {error}\n".encode())
            os._exit(1)
        children.append(child)
    os.close(writer)
    acknowledged = b""
    while acknowledged.count(b"\n") < after and (part := os.read(reader, 1 << 16)):
        acknowledged += part
    time.sleep(delay_s)
    for child in children:
        os.kill(child, signal.SIGKILL)
    while part := os.read(reader, 1 << 16):
        acknowledged += part
    os.close(reader)
    for child in children:
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            raise AssertionError(f"a child ended by itself: {acknowledged[-500:]!r}")
    return acknowledged.decode().split("\n")[:-1]


def main(folder: Path, seed: int, kills: int) -> None:
    # How often is chosen apart from what to look at, which depends on how fast the children were.
    chance, choice = random.Random(seed), random.Random(seed)
    acknowledged: list[str] = []
    done = missing = wrong = 0
    while done < kills:
        numbers = [seed * 1_000_000 + done + extra for extra in (1, 2)]
        # From before the file is open to well into the work.
        after = chance.choice((0, 1, 2, 5, 12))
        fresh = one_round(folder, numbers, after, chance.uniform(0.0, 0.012))
        done += len(numbers)
        acknowledged += fresh
        with ResultCache(folder / "kept") as kept:
            # All that was acknowledged just now, and some of what was acknowledged long ago.
            for name in {*fresh, *choice.sample(acknowledged, min(20, len(acknowledged)))}:
                found = kept.get(name)
                missing += found is None
                wrong += found is not None and found.data != content(name)
    print(
        json.dumps(
            {"kills": done, "acknowledged": acknowledged, "missing": missing, "wrong": wrong}
        )
    )


if __name__ == "__main__":
    if sys.argv[4] == "delete":
        sqlite.detect_network_drive = lambda path: "nfs4"
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
