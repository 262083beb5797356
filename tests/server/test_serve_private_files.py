"""What anyrig keeps for a user is private; what a user asked for follows the umask."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.conftest import run_command
from tests.server.conftest import HERE, MakeApp, Start, environment_of
from tests.server.test_serve_jobs import begun, over, sent, until
from tests.server.test_serve_shares import Clients

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def list_open(home: Path) -> list[str]:
    """Files and folders of anyrig that others may read."""
    roots = [
        home / ".config/anyrig", home / ".cache/anyrig", home / ".local/share/anyrig",
        home / ".local/state/anyrig",
    ]  # fmt: skip
    found = [root for root in roots if root.exists()]
    assert found
    everything = [*found, *(path for root in found for path in root.rglob("*"))]
    return [f"{path}: {path.lstat().st_mode:o}" for path in everything
            if path.lstat().st_mode & 0o077 and not path.is_symlink()]  # fmt: skip


def run(home: Path, *words: str) -> str:
    done = run_command(*words, environment=environment_of(home), clear=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_keep_private_files(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "letters"
    folder.mkdir()
    (folder / "rent.txt").write_text("The rent is due on the first of May.")
    hello = tmp_path / "hello.wav"
    run(home, "speak", "Good morning.", "--engine", "tone", "--no-bench", "-o", str(hello))
    run(home, "index", str(folder), "--model", "hashing", "--no-bench")
    run(home, "use", "cpu")
    run(home, "keys", "add", "ann")
    assert list_open(home) == []
    assert hello.stat().st_mode & 0o777 == 0o644


def test_a_server_keeps_private_files(start: Start, tmp_path: Path) -> None:
    home = tmp_path / "home"
    server = start(home=home)
    sent(server.client, b"The tide came in.", "a.txt")
    begun(server.client, "batch", lines=["One."], engine="tone")
    run(home, "speak", "--lines", str(write_lines(tmp_path)), "--engine", "tone", "--no-bench",
        "-o", str(tmp_path / "audio"), "--queue")  # fmt: skip
    for job in server.client.get("/jobs").json()["jobs"]:
        assert until(server.client, job["id"], over)["state"] == "done"
    assert list_open(home) == []
    (audio,) = (tmp_path / "audio").glob("*.wav")
    assert audio.stat().st_mode & 0o777 == 0o644, "its owner queued it on the command line"


def write_lines(folder: Path) -> Path:
    (folder / "lines.txt").write_text("The tide came in at noon.\n")
    return folder / "lines.txt"


def test_files_that_an_earlier_version_left_open_are_closed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run(home, "speak", "Good morning.", "--engine", "tone", "--no-bench", "-o",
        str(tmp_path / "a.wav"))  # fmt: skip
    data, cache = home / ".local/share/anyrig", home / ".cache/anyrig"
    (data / "indexes").mkdir(parents=True, exist_ok=True)
    shutil.copytree(cache, data / "server")
    elsewhere = tmp_path / "my-disk"
    elsewhere.mkdir()
    (elsewhere / "note.txt").write_text("mine")
    (data / "linked").symlink_to(elsewhere)
    for root in (data, cache):
        for path in (root, *root.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() else 0o644)
    for path in (elsewhere, elsewhere / "note.txt"):
        path.chmod(0o755)
    run(home, "jobs")
    assert list_open(home) == []
    assert (elsewhere / "note.txt").stat().st_mode & 0o777 == 0o755


def test_keys_do_not_see_the_folders_of_the_servers_user(make_app: MakeApp) -> None:
    app = make_app("--require-keys", "--no-jobs")
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        ann = Clients(client).add("ann")
        text, _ = app.state.server.keys.add("boss", scopes=("admin",))
        boss = {"Authorization": f"Bearer {text}"}
        home = str(app.state.server.rig.folders.home)
        for path in ("/config", "/engines"):
            assert home not in ann.get(path).text
        assert home in client.get("/config", headers=boss).text
        unready = [one["name"] for one in ann.get("/config").json()["engines"] if not one["ready"]]
        for engine in unready:
            answer = ann.post("/v1/audio/speech", json={"input": "Hello.", "model": engine})
            assert answer.status_code >= 400
            assert home not in answer.text
            assert answer.json()["hint"]
