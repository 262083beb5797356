"""A job runs with the settings of who queued it, and a file that was only found gains no trust."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run_command
from tests.server.conftest import Start, environment_of
from tests.server.test_serve_jobs import begun, over, until

SENTENCE = "The tide came in at noon, and the clock on the harbour wall struck twelve."


@pytest.fixture
def address() -> Iterator[tuple[str, socket.socket]]:
    """A server that nobody may call."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0", listener


def has_callers(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def write_settings(path: Path, url: str, rate: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'log_file = "{path.parent}/settings.log"\n'
        f'[cache]\nurl = "{url}"\n[cluster]\nbroker = "{url}"\nspread = true\n'
        f'[speech]\nengine = "tone"\nrate = {rate}\n'
    )


def queue_lines(home: Path, folder: Path, *words: str, **variables: str) -> str:
    """Queue a batch as the command line does in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "lines.txt").write_text(SENTENCE)
    before = Path.cwd()
    os.chdir(folder)
    try:
        done = run_command(
            "speak", "--lines", "lines.txt", "--queue", "--no-bench", "--json", *words,
            environment=environment_of(home, variables), clear=True,
        )  # fmt: skip
    finally:
        os.chdir(before)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["id"])


def get_length_s(client: Any, id: str) -> float:
    job = until(client, id, over)
    assert job["state"] == "done", job
    return float(job["result"]["audio_s"])


def test_jobs_have_the_settings_of_who_queued_them_and_their_trust(
    start: Start, address: tuple[str, socket.socket], tmp_path: Path
) -> None:
    url, listener = address
    home, folder, plain = tmp_path / "home", tmp_path / "project", tmp_path / "plain"
    write_settings(home / "anyrig.toml", url, 2.0)  # found by the server
    write_settings(folder / "anyrig.toml", url, 0.5)  # found by the command line
    server = start(home=home)
    lines = begun(server.client, "batch", lines=[SENTENCE])
    fast_s = get_length_s(server.client, lines["id"])
    normal_s = get_length_s(server.client, queue_lines(home, plain, "--engine", "tone"))
    slow_s = get_length_s(server.client, queue_lines(home, folder))
    assert fast_s < 0.7 * normal_s
    assert slow_s > 1.4 * normal_s
    assert not has_callers(listener)
    assert not list(tmp_path.rglob("settings.log"))

    # Named, it is trusted, also by the job.
    queued = queue_lines(home, plain, "--config", str(folder / "anyrig.toml"))
    job = until(server.client, queued, over)
    assert job["state"] == "failed"
    assert "broker" in job["error"]["message"], job["error"]
    assert has_callers(listener)


def test_a_runner_passes_its_own_settings_file_to_no_job(
    address: tuple[str, socket.socket], tmp_path: Path
) -> None:
    url, listener = address
    home, folder, other = tmp_path / "home", tmp_path / "project", tmp_path / "other.toml"
    folder.mkdir()
    (folder / "anyrig.toml").write_text('[speech]\nengine = "tone"\nrate = 0.5\n')
    write_settings(other, url, 4.0)
    first = queue_lines(home, folder)
    second = queue_lines(home, folder, "--output", "again", ANYRIG_SPEECH_RATE="2.0")
    environment = environment_of(home, {"ANYRIG_CONFIG": str(other)})
    done = run_command("jobs", "run", "--json", environment=environment, clear=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    length_s = {row["job"]: row["audio_s"] for row in rows if row["event"] == "done"}
    assert length_s[second] < 0.5 * length_s[first], "a variable is a setting as well"
    assert not has_callers(listener)
