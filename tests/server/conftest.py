"""A real server in a process of its own, and the app within the test's process.

`server` is shared by all tests of a process: leave nothing behind that others would trip over.
`start` is for tests that need a server of their own, with options. `app_client` calls the app
directly, and is built anew for each test; `shared_client` is one for all tests of a file;
`make_app` builds one with options.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from anyrig.server.state import ServerState
from tests.cluster.conftest import (  # noqa: F401 - fixtures
    _one_broker,
    broker,
    new_broker,
    workers,
)  # fmt: skip
from tests.conftest import _SHAPING, run_command
from tests.server.browsing import axe, browser, driver  # noqa: F401 - fixtures
from tests.server.long_work import busy, folders, person  # noqa: F401 - fixtures

HERE = "http://127.0.0.1:3000"
_START_S = 60.0
_END_S = 20.0


@dataclass
class Server:
    """One that runs."""

    url: str
    client: httpx.Client
    process: subprocess.Popen[str]
    home: Path
    """Its user's folder: settings and keys in .config/anyrig, data in .local/share/anyrig."""
    said: list[str]
    """What it printed until it listened."""

    @property
    def data(self) -> Path:
        """The only folder that requests may reach."""
        return self.home / ".local" / "share" / "anyrig" / "server"

    def log(self) -> str:
        """What it has said on the error stream so far."""
        return (self.home / "log.txt").read_text(encoding="utf-8")


def environment_of(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """A person's environment, without anything of the developer's."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(_SHAPING)}
    return {
        **kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"), "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"), "NO_COLOR": "1", "ANYRIG_CONTAINER": "0",
        **(more or {}),
    }  # fmt: skip


def run_for(home: Path, *words: str) -> str:
    """What a command of this person says."""
    done = run_command(*words, environment=environment_of(home), clear=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def add_key(home: Path, name: str, *words: str) -> str:
    """A key, made as its owner does."""
    return str(json.loads(run_for(home, "keys", "add", name, "--json", *words))["key"])


@contextlib.contextmanager
def running(
    home: Path, *words: str, environment: Mapping[str, str] | None = None,
    key: str = "", command: tuple[str, ...] = (),
) -> Iterator[Server]:  # fmt: skip
    """A server for as long as the block lasts.

    Args:
        home: its user's folder.
        words: further options.
        environment: further variables.
        key: its client carries this one.
        command: runs it, in place of a plain start.
    """
    home.mkdir(parents=True, exist_ok=True)
    order = [*command, sys.executable, "-m", "anyrig", "serve", "--port", "0", "--json",
             "--no-bench", *words]  # fmt: skip
    with (home / "log.txt").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            order, stdout=subprocess.PIPE, stderr=log, text=True, cwd=home,
            env=environment_of(home, environment),
        )  # fmt: skip
    try:
        said = _until_listening(process, home)
        url = str(json.loads(said[-1])["url"])
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            yield Server(url, client, process, home, said)
    finally:
        _end(process)


def _until_listening(process: subprocess.Popen[str], home: Path) -> list[str]:
    assert process.stdout is not None
    said: list[str] = []
    timer = threading.Timer(_START_S, process.kill)
    timer.start()
    try:
        while line := process.stdout.readline():
            said.append(line.rstrip("\n"))
            if '"listening"' in line:
                return said
    finally:
        timer.cancel()
    log = (home / "log.txt").read_text(encoding="utf-8")
    raise AssertionError(f"the server did not start: {said} {log}")


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()


Start = Callable[..., Server]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server, shared."""
    with running(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers of the test's own: `start("--require-keys", environment={...})`."""
    with ExitStack() as stack:
        number = iter(range(1000))

        def begin(*words: str, home: Path | None = None, **options: Any) -> Server:
            where = home or tmp_path / f"server{next(number)}"
            return stack.enter_context(running(where, *words, **options))

        yield begin


MakeApp = Callable[..., FastAPI]


def build_server(stack: ExitStack, environment: Mapping[str, str], *words: str) -> ServerState:
    """The state of a server of this process, closed by the stack."""
    from anyrig.app.rig import Rig
    from anyrig.app.serve import ServeRequest
    from anyrig.cli.flags import read_flags
    from anyrig.cli.main import parse_command_line
    from anyrig.cli.serve import build_state

    _, arguments = parse_command_line(["serve", "--no-bench", *words])
    rig = Rig(environment=environment)
    request = rig.request(ServeRequest, **read_flags(arguments, ServeRequest))
    return build_state(rig, request, stack)


@pytest.fixture
def make_app(tmp_path: Path) -> Iterator[MakeApp]:
    """Builds the app in this process: `make_app("--require-keys", page=True)`."""
    from anyrig.server.app import create_app

    with ExitStack() as stack:

        def make(
            *words: str, page: bool = False, environment: Mapping[str, str] | None = None
        ) -> FastAPI:
            server = build_server(stack, environment_of(tmp_path / "home", environment), *words)
            return create_app(server, page=page)

        yield make


@pytest.fixture
def app_client(make_app: MakeApp) -> Iterator[TestClient]:
    """The app of this process, without the page, called as from this machine."""
    with TestClient(make_app(), base_url=HERE, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def shared_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The same, for the tests of a file that leave nothing behind: an app takes 0.2 s to build."""
    from anyrig.server.app import create_app

    with ExitStack() as stack:
        state = build_server(stack, environment_of(tmp_path_factory.mktemp("app")), "--no-jobs")
        app = create_app(state, page=False)
        yield stack.enter_context(TestClient(app, base_url=HERE, raise_server_exceptions=False))


_SLOW = {
    # Files and tests that take most of the time of this folder; `make test-slow` runs them. What is
    # left walks the frame of every page, speaks a sentence and makes the sample book in a browser.
    "test_serve_pages_documents", "test_serve_pages_jobs", "test_serve_pages_training",
    "test_serve_page_rig", "test_a_job_outlives_its_server_and_ends_as_if_nothing_had_happened",
    "test_chapters_are_heard_while_the_rest_is_made", "test_the_lexicon_is_kept_and_heard",
    "test_workers_are_told_as_they_are_killed_frozen_and_healed",
    "test_an_idle_model_is_unloaded_and_comes_back", "test_lines_as_a_job_can_be_left",
    "test_a_model_is_trained_on_a_file_that_was_sent", "test_a_file_in_every_format",
    "test_speed_and_voice_are_heard", "test_stop_and_play_again",
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow."""
    for item in items:
        names = {item.path.stem, getattr(item, "originalname", item.name)}
        if item.path.parent == Path(__file__).parent and names & _SLOW:
            item.add_marker(pytest.mark.slow)
