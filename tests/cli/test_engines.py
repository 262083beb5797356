"""`anyrig engines`: what is here, what is lacking, and how it is got."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from anyrig.speech.engine import VerifiedWeights
from anyrig.speech.engines import OWN, kokoro_voices
from anyrig.speech.engines.xtts import Xtts
from anyrig.speech.environments import Environment
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
        (["show", "pocket"], 2, "not part of this release"),
        (["get", "xtts"], 2, "--yes"),
        (["get", "nanotts"], 2, "no repository"),
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


NOTICE = re.compile(r"Coqui Public Model License: non-commercial .* https://\S+LICENSE\.txt\n")


def test_the_licence_of_xtts_is_shown_before_it_is_got_or_installed(anyrig: Anyrig) -> None:
    for action in ("get", "install"):
        done = anyrig("engines", action, "xtts", stdin=subprocess.DEVNULL)
        before, _, _ = done.stderr.partition("needs a confirmation")
        assert before != done.stderr
        assert len(NOTICE.findall(before)) == 1
    weights = Path("weights")
    for name in ("config.json", "model.pth", "vocab.json", "voices/anna.wav"):
        (weights / name).parent.mkdir(parents=True, exist_ok=True)
        (weights / name).write_text(name)
    done = anyrig("engines", "get", "xtts", "--from", "weights", stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert NOTICE.search(done.stderr)
    assert "Coqui Public Model License" in anyrig("engines", "show", "xtts").stdout
    rows = _rows(anyrig)
    assert "https://" in rows["xtts"]["licence_notice"]
    done = anyrig("speak", "hello", "-o", "out.wav", "--engine", "tone")
    assert "licen" not in done.stderr.lower()


@pytest.mark.parametrize(
    "words",
    [["speak", "hello"], ["speak", "--lines", "text.txt"], ["book", "text.txt"]],
    ids=["text", "lines", "book"],
)
def test_the_licence_of_xtts_is_shown_before_it_speaks(
    anyrig: Anyrig, words: list[str], tmp_path: Path
) -> None:
    """Its environment only looks ready: it fails when the worker starts, after the notice."""
    home = tmp_path / "home" / ".cache" / "anyrig"
    environment = Environment("xtts", Xtts.environment, home / "environments")
    environment.python.parent.mkdir(parents=True)
    environment.python.symlink_to(sys.executable)
    stamp = {"recipe": environment.fingerprint, "python": "3.12.1", "agreed": True}
    (environment.folder / "anyrig-environment.json").write_text(json.dumps(stamp))
    for name in ("config.json", "model.pth", "vocab.json", "voices/anna.wav"):
        path = home / "models" / "xtts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    Path("text.txt").write_text("Hello there.")
    done = anyrig(*words, "--engine", "xtts", "--language", "en", stdin=subprocess.DEVNULL)
    assert done.returncode != 0
    before, _, _ = done.stderr.partition("error:")
    assert before != done.stderr
    assert len(NOTICE.findall(before)) == 1


def test_an_archive_that_is_not_the_published_one_is_refused(anyrig: Anyrig) -> None:
    Path("kokoro-0.9.4.tar.gz").write_bytes(b"something else")
    done = anyrig("engines", "get", "kokoro", "--from", "kokoro-0.9.4.tar.gz")
    assert done.returncode == 4
    assert kokoro_voices.ARCHIVE.sha256 in done.stderr


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
