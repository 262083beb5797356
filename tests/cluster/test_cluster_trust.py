"""A worker whose answers are well formed and wrong: nothing of it stays with whoever asked."""

from __future__ import annotations

import functools
import json
import sqlite3
import subprocess
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.cluster.speech import identify_engine
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.placement import Placement
from anyrig.speech.engine import Take, Utterance
from anyrig.speech.engines.tone import RATE, Tone
from anyrig.speech.quality import CheckedEngine, CheckedTake
from anyrig.speech.takes import _HEAD, decode_take, encode_take
from tests.cluster.conftest import Broker, Spread, Workers, person, story
from tests.cluster.test_cluster_pool import Order, Puppet
from tests.cluster.test_cluster_pool import answer as result
from tests.conftest import run_command

TEXT = "The tide came in at noon. The old clock stood still."
PATIENCE = {"ANYRIG_CLUSTER_PATIENCE": "2"}
Say = Callable[[CheckedEngine, Utterance], bytes]


def _engine() -> CheckedEngine:
    backend = DeviceBackend("onnx", "cpu", "cpu")
    return CheckedEngine(
        Placement(Device("cpu", "cpu", "test", "CPU"), backend, threads=1), engine="tone"
    )


class Speaker(Puppet):
    """A worker that has the tone engine, and answers with what it is told to say."""

    def __init__(self, broker: Broker, name: str, say: Say) -> None:
        self._engine = _engine()
        self._say = say
        super().__init__(broker, name, self._speak, identify_engine(Tone.find_weights()), 5e4)

    def _speak(self, puppet: Puppet, order: Order) -> None:
        takes = {n: CheckedTake(self._say(self._engine, line)) for n, line in order.lines}
        self.answer(order, takes=takes, seconds=0.01)


def right(engine: CheckedEngine, line: Utterance) -> bytes:
    return engine.run([line])[0].data


def silence(engine: CheckedEngine, line: Utterance) -> bytes:
    return encode_take(Take(np.zeros_like(decode_take(right(engine, line)).samples), RATE))


@functools.cache
def _long() -> bytes:
    return encode_take(Take(np.zeros(600 * RATE, np.float32), RATE), flac=True)


def bomb(engine: CheckedEngine, line: Utterance) -> bytes:
    """Ten minutes of silence in a few kilobytes, that say they are a second."""
    data = bytearray(_long())
    head = data[: _HEAD.size]
    fields = list(_HEAD.unpack(head))
    fields[5] = RATE
    head = bytearray(_HEAD.pack(*fields))
    rest = data[_HEAD.size + 4 :]
    return bytes(head) + zlib.crc32(rest, zlib.crc32(head)).to_bytes(4, "little") + bytes(rest)


def no_take(engine: CheckedEngine, line: Utterance) -> bytes:
    return b"no take at all"


@pytest.fixture
def speaker(broker: Broker) -> Iterator[Callable[..., Speaker]]:
    made: list[Speaker] = []

    def start(name: str, say: Say) -> Speaker:
        made.append(Speaker(broker, name, say))
        return made[-1]

    yield start
    for one in made:
        one.close()


def notes(home: Path) -> list[dict[str, Any]]:
    """What the store of a person says of its takes."""
    (path,) = home.rglob("results.sqlite")
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT note FROM results").fetchall()
    connection.close()
    return [json.loads(note) for (note,) in rows]


@pytest.mark.parametrize("say", [silence, no_take, bomb])
def test_wrong_takes_are_neither_used_nor_kept(
    speaker: Callable[..., Speaker], spread: Spread, tmp_path: Path, say: Say
) -> None:
    speaker("liar", say)
    words = ("speak", TEXT, "--engine", "tone", "-o")
    done = spread(*words, tmp_path / "a.wav", environment=PATIENCE)
    assert done.returncode == 1, done.stderr
    assert "liar" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "a.wav").exists()
    assert notes(tmp_path / "client") == []


def test_a_worker_whose_takes_are_silent_is_set_aside_and_others_go_on(
    speaker: Callable[..., Speaker], workers: Workers, spread: Spread, tmp_path: Path
) -> None:
    speaker("liar", silence)
    workers(1)
    (tmp_path / "a.txt").write_text(story(1, 12))
    words = ("speak", "-f", tmp_path / "a.txt", "--engine", "tone", "-o")
    done = spread(*words, tmp_path / "a.wav")
    assert done.returncode == 0, done.stderr
    assert "liar (a puppet) refused a task: its result is not valid" in done.stderr
    alone = spread(*words, tmp_path / "b.wav", cluster="", home="alone")
    assert alone.returncode == 0, alone.stderr
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()
    made_by = {note.get("from", "") for note in notes(tmp_path / "client")}
    assert made_by == {"w1"}


def test_what_a_worker_made_is_marked_and_can_be_forgotten(
    speaker: Callable[..., Speaker], spread: Spread, tmp_path: Path
) -> None:
    speaker("attic", right)
    words = ("speak", TEXT, "--engine", "tone", "-o")
    done = spread(*words, tmp_path / "a.wav", environment=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert [note["from"] for note in notes(tmp_path / "client")] == ["attic", "attic"]
    done = spread("speak", "Of our own.", "--engine", "tone", "-o", tmp_path / "c.wav", cluster="")
    assert done.returncode == 0, done.stderr

    def cache(*more: str) -> subprocess.CompletedProcess[str]:
        return run_command("cache", *more, environment=person(tmp_path / "client"), clear=True)

    found = cache("forget", "--from", "atic")
    assert (found.returncode, "attic" in found.stderr) == (2, True), found.stderr
    assert cache("forget").returncode == 2
    assert cache("prune", "--from", "attic").returncode == 2
    found = cache("forget", "--from", "attic", "--dry-run")
    assert "Would drop 2 results" in found.stdout, found.stderr
    found = cache("forget", "--from", "attic")
    assert (found.returncode, "Dropped 2 results" in found.stdout) == (0, True), found.stderr
    (left,) = notes(tmp_path / "client")
    assert "from" not in left


def test_a_worker_cannot_say_who_made_a_take(
    speaker: Callable[..., Speaker], spread: Spread, tmp_path: Path
) -> None:
    """Nor how good it is: both are said by whoever asked."""
    one = speaker("attic", right)

    def answer(puppet: Puppet, order: Order) -> None:
        made = {n: CheckedTake(right(one._engine, line), ("bad",), 3) for n, line in order.lines}
        said, data = result(order, takes=made, seconds=0.01)
        plain = asdict(said)
        for facts in plain["results"].values():
            facts |= {"made_by": "", "from": "somebody", "unusable": False}
        one.blob(order.id, data)
        one.store(order.id, plain)

    one.behaves = answer
    done = spread("speak", TEXT, "--engine", "tone", "-o", tmp_path / "a.wav", environment=PATIENCE)
    assert done.returncode == 0, done.stderr
    for note in notes(tmp_path / "client"):
        assert (note["from"], note["problems"]) == ("attic", [])
