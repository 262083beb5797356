"""Audio of a sentence is heard before the engine has made all of it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.server.conftest import Server, environment_of, running
from tests.speech.gated_engine import install_gated_engine

TEXT = "One sentence without an end in sight, that is spoken in two parts."
FEW = 4800
"""Bytes: a tenth of a second."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gated")


@pytest.fixture(scope="module")
def plugin(home: Path) -> dict[str, str]:
    return install_gated_engine(home / "plugin")


@pytest.fixture(scope="module")
def gated(home: Path, plugin: dict[str, str]) -> Iterator[Server]:
    with running(home / "home", "--no-jobs", environment=plugin) as server:
        yield server


@pytest.fixture
def gate(plugin: dict[str, str]) -> Iterator[Path]:
    path = Path(plugin["GATE_FILE"])
    path.unlink(missing_ok=True)
    yield path
    path.touch()  # whoever still waits goes on


def body(number: int, **more: object) -> dict[str, object]:
    text = f"{TEXT} This is number {number}."  # not cached
    return {"input": text, "model": "gated", "response_format": "pcm", **more}


def test_http_sends_the_first_part_before_the_second_is_made(gated: Server, gate: Path) -> None:
    with gated.client.stream("POST", "/v1/audio/speech", json=body(1)) as answer:
        assert answer.status_code == 200
        parts = answer.iter_bytes()
        first = next(parts)
        assert not gate.exists()
        assert len(first) >= FEW
        gate.touch()
        rest = b"".join(parts)
    whole = gated.client.post("/v1/audio/speech", json=body(1)).content  # from the cache
    assert len(rest) >= FEW
    assert abs(len(first) + len(rest) - len(whole)) < 2 * FEW


def test_events_carry_the_first_part_before_the_second_is_made(gated: Server, gate: Path) -> None:
    asked = body(2, stream_format="sse")
    with gated.client.stream("POST", "/v1/audio/speech", json=asked) as answer:
        events = (json.loads(line[6:]) for line in answer.iter_lines() if line)
        assert len(base64.b64decode(next(events)["audio"])) >= FEW
        assert not gate.exists()
        gate.touch()
        assert [event["type"] for event in events][-1] == "speech.audio.done"


def test_the_websocket_sends_the_first_part_before_the_second_is_made(
    gated: Server, gate: Path
) -> None:
    url = f"{gated.url.replace('http', 'ws')}/stream"
    with connect(url, open_timeout=60) as socket:
        socket.send(json.dumps({"text": f"{TEXT} Number 3.", "engine": "gated"}))
        frames = (frame for frame in socket if isinstance(frame, bytes))
        first = next(frames)
        assert not gate.exists()
        assert len(first) >= FEW
        gate.touch()
        assert sum(map(len, frames)) >= FEW


def test_the_command_pipes_the_first_part_before_the_second_is_made(
    home: Path, plugin: dict[str, str], gate: Path
) -> None:
    command = [sys.executable, "-m", "anyrig", "speak", f"{TEXT} Number 4.", "--engine", "gated",
               "--no-bench", "-o", "-", "--format", "pcm"]  # fmt: skip
    environment = environment_of(home / "person", plugin)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.read(FEW)
        assert not gate.exists()
        assert len(first) == FEW, process.stderr.read()
        gate.touch()
        rest, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert len(rest) >= FEW
