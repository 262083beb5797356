"""A worker whose answers are well formed and wrong: nothing of it stays with whoever asked."""

from __future__ import annotations

import functools
import json
import sqlite3
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.cluster.checks import ResultChecker
from anyrig.cluster.embedding import EmbeddingCodec
from anyrig.cluster.speech import identify_engine
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.placement import Placement
from anyrig.speech.booth import Booth, Recording
from anyrig.speech.compare import difference
from anyrig.speech.engine import Take, Utterance
from anyrig.speech.engines.tone import RATE, Tone
from anyrig.speech.pack import _HEAD, pack, unpack
from tests.cluster.conftest import Broker, Spread, Workers, person, story
from tests.cluster.test_cluster_pool import Order, Puppet
from tests.cluster.test_cluster_pool import answer as result
from tests.conftest import run_command

TEXT = "The tide came in at noon. The old clock stood still."
PATIENCE = {"ANYRIG_CLUSTER_PATIENCE": "2"}
Say = Callable[[Booth, Utterance], bytes]


def _booth() -> Booth:
    backend = DeviceBackend("onnx", "cpu", "cpu")
    return Booth(Placement(Device("cpu", "cpu", "test", "CPU"), backend, threads=1), engine="tone")


class Speaker(Puppet):
    """A worker that has the tone engine, and answers with what it is told to say."""

    def __init__(self, broker: Broker, name: str, say: Say) -> None:
        self._booth = _booth()
        self._say = say
        super().__init__(broker, name, self._speak, identify_engine(Tone.find_weights()), 5e4)

    def _speak(self, puppet: Puppet, order: Order) -> None:
        takes = {n: Recording(self._say(self._booth, line)) for n, line in order.lines}
        self.answer(order, takes=takes, seconds=0.01)


def right(booth: Booth, line: Utterance) -> bytes:
    return booth.run([line])[0].data


def other_words(booth: Booth, line: Utterance) -> bytes:
    """Speech of the right length, of a text that nobody asked for."""
    return booth.run([replace(line, text=" ".join(reversed(line.text.split())))])[0].data


def noise(booth: Booth, line: Utterance) -> bytes:
    samples = unpack(right(booth, line)).samples
    drawn = np.random.default_rng(1).standard_normal(len(samples)).astype(np.float32)
    return pack(Take(drawn * 0.05, RATE))


def silence(booth: Booth, line: Utterance) -> bytes:
    return pack(Take(np.zeros_like(unpack(right(booth, line)).samples), RATE))


def half(booth: Booth, line: Utterance) -> bytes:
    take = unpack(right(booth, line))
    return pack(Take(take.samples[: len(take.samples) // 2].copy(), RATE))


@functools.cache
def _long() -> bytes:
    return pack(Take(np.zeros(600 * RATE, np.float32), RATE), small=True)


def bomb(booth: Booth, line: Utterance) -> bytes:
    """Ten minutes of silence in a few kilobytes, that say they are a second."""
    data = bytearray(_long())
    head = data[: _HEAD.size]
    fields = list(_HEAD.unpack(head))
    fields[5] = RATE
    head = bytearray(_HEAD.pack(*fields))
    rest = data[_HEAD.size + 4 :]
    return bytes(head) + zlib.crc32(rest, zlib.crc32(head)).to_bytes(4, "little") + bytes(rest)


def quieter(booth: Booth, line: Utterance) -> bytes:
    take = unpack(right(booth, line))
    return pack(Take(take.samples * 0.1, RATE))


def no_take(booth: Booth, line: Utterance) -> bytes:
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


@pytest.mark.parametrize("say", [noise, silence, half, quieter, no_take, bomb])
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


def test_a_later_run_on_this_machine_is_not_poisoned(
    speaker: Callable[..., Speaker], spread: Spread, tmp_path: Path
) -> None:
    speaker("liar", other_words)
    words = ("speak", TEXT, "--engine", "tone", "-o")
    done = spread(*words, tmp_path / "a.wav", environment=PATIENCE)
    assert done.returncode == 1, done.stderr
    assert "liar (a puppet) is set aside" in done.stderr
    # A later run of the same person, on this machine alone, is what it would have been.
    for home in ("client", "somebody else"):
        done = spread(*words, tmp_path / f"{home}.wav", cluster="", home=home)
        assert done.returncode == 0, done.stderr
    mine, theirs = ((tmp_path / f"{one}.wav").read_bytes() for one in ("client", "somebody else"))
    assert mine == theirs


def test_a_worker_that_disagrees_is_set_aside_and_others_go_on(
    speaker: Callable[..., Speaker], workers: Workers, spread: Spread, tmp_path: Path
) -> None:
    speaker("liar", other_words)
    workers(1)
    (tmp_path / "a.txt").write_text(story(1, 12))
    words = ("speak", "-f", tmp_path / "a.txt", "--engine", "tone", "-o")
    done = spread(*words, tmp_path / "a.wav")
    assert done.returncode == 0, done.stderr
    assert "liar (a puppet) is set aside" in done.stderr
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
        made = {n: Recording(right(one._booth, line), ("bad",), 3) for n, line in order.lines}
        said, data = result(order, takes=made, seconds=0.01)
        plain = asdict(said)
        for facts in plain["results"].values():
            facts |= {"made_by": "", "from": "somebody", "hopeless": False}
        one.blob(order.id, data)
        one.store(order.id, plain)

    one.behaves = answer
    done = spread("speak", TEXT, "--engine", "tone", "-o", tmp_path / "a.wav", environment=PATIENCE)
    assert done.returncode == 0, done.stderr
    for note in notes(tmp_path / "client"):
        assert (note["from"], note["problems"]) == ("attic", [])


def test_takes_of_two_processors_are_the_same_and_of_two_texts_are_not() -> None:
    booth = _booth()
    texts = ("The tide came in at noon.", "The tide came in at nine.")
    lines = [Utterance(text, "en", "tone") for text in texts]
    one, other = (unpack(made.data) for made in booth.run(lines))
    assert difference(one, one) == ""
    drawn = np.random.default_rng(1).standard_normal(len(one.samples)).astype(np.float32)
    rounded = Take(one.samples + 1e-3 * drawn, one.rate)
    assert difference(one, rounded) == ""
    assert difference(one, Take(one.samples[:-20].copy(), one.rate)) == ""
    assert difference(one, other)
    assert difference(one, Take(-one.samples, one.rate)) == ""  # the phase is not heard
    assert difference(one, Take(one.samples, one.rate // 2))
    assert difference(one, Take(np.zeros_like(one.samples), one.rate))


class _Outcome:
    def __init__(self, result: bytes) -> None:
        self.result = result


class _Pool:
    """Computes every item as twice its bytes."""

    def __init__(self) -> None:
        self.num_computed = 0

    def run(self, payloads: Iterable[bytes], **_: Any) -> list[_Outcome]:
        payloads = list(payloads)
        self.num_computed += len(payloads)
        return [_Outcome(payload * 2) for payload in payloads]


class _Codec(EmbeddingCodec):
    def compare(self, payload: bytes, mine: bytes, theirs: bytes) -> str:
        return "" if mine == theirs else "another result"


def _items(start: int, count: int) -> dict[int, bytes]:
    return {index: b"item %d" % index for index in range(start, start + count)}


def _twice(items: dict[int, bytes]) -> dict[int, bytes]:
    return {index: item * 2 for index, item in items.items()}


def test_no_worker_can_know_which_items_are_compared() -> None:
    """Not even another process of this machine, which has its address and its folders."""

    def drawn() -> list[bool]:
        pool = _Pool()
        checker = ResultChecker(_Codec(), lambda: pool)  # type: ignore[arg-type, return-value]
        for index, item in _items(0, 100).items():
            checker.find_difference({index: item}, {index: item * 2}, "one")
        return [checker.must_examine(item, "one") for item in _items(0, 400).values()]

    assert any(drawn())
    assert drawn() != drawn()


def test_a_worker_with_equal_results_is_checked_less_and_never_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("secrets.token_bytes", bytes)  # so many zeros: the same every time
    pool = _Pool()
    checker = ResultChecker(_Codec(), lambda: pool)  # type: ignore[arg-type, return-value]
    first = _items(0, 1)
    assert checker.must_examine(first[0], "one")
    assert checker.find_difference(first, _twice(first), "one") == ""
    assert pool.num_computed == 1  # the first result of every worker
    for start in range(1, 400, 4):
        items = _items(start, 4)
        assert checker.find_difference(items, _twice(items), "one") == ""
    early, pool.num_computed = pool.num_computed, 0
    assert 4 <= early <= 20
    for start in range(400, 8400, 4):
        items = _items(start, 4)
        assert checker.find_difference(items, _twice(items), "one") == ""
    assert 10 <= pool.num_computed <= 70  # about one of 256
    examined = sum(checker.must_examine(item, "one") for item in _items(0, 800).values())
    assert 60 <= examined <= 150  # about one of 8
    assert all(checker.must_examine(item, "another") for item in _items(0, 50).values())
    wrong = dict.fromkeys(_items(0, 2000), b"wrong")
    assert checker.find_difference(_items(0, 2000), wrong, "one") == "another result"


def test_all_results_are_examined_where_none_can_be_compared() -> None:
    checker = ResultChecker(_Codec())
    items = _items(0, 50)
    assert checker.find_difference(items, _twice(items), "one") == ""
    assert all(checker.must_examine(item, "one") for item in items.values())
