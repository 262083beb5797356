"""`anyrig cache` as a person meets it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from anyrig.storage.cache import ResultCache
from tests.conftest import Anyrig


def _path() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) / "anyrig" / "results.sqlite"


@pytest.fixture
def kept() -> Path:
    """Some results of two kinds."""
    with ResultCache(_path()) as store:
        for number in range(10):
            store.put(
                f"e{number}",
                random.randbytes(1536),
                kind="embedding",
                metadata={"engine": "minilm"},
            )
        for number in range(5):
            store.put(
                f"s{number}", random.randbytes(200_000), kind="speech", metadata={"engine": "tone"}
            )
        store.get_many(["e0", "e1", "e2", "none"])
    return _path()


def test_what_is_kept(anyrig: Anyrig, kept: Path) -> None:
    done = anyrig("cache")
    assert done.returncode == 0, done.stderr
    assert "15 results, 1 MiB of 10 GiB (0%)" in done.stdout
    assert str(kept) in done.stdout
    assert "Looked up 4 results, 3 found (75%)." in done.stdout
    assert [line.split()[:2] for line in done.stdout.splitlines()[4:6]] == [
        ["embedding", "10"], ["speech", "5"],
    ]  # fmt: skip
    data = json.loads(anyrig("--json", "cache").stdout)
    assert data["results"] == 15
    assert data["kinds"]["speech"]["data_bytes"] == 1_000_000
    assert data["counters"] == {"hits": 3, "misses": 1}
    assert data["slow_because"] == ""


def test_pruning(anyrig: Anyrig, kept: Path) -> None:
    assert "Would drop 5 results (977 KiB)" in anyrig(
        "cache", "prune", "--kind", "speech", "--dry-run"
    ).stdout  # fmt: skip
    assert "Dropped 0 results" in anyrig("cache", "prune").stdout
    assert "Dropped 0 results" in anyrig("cache", "prune", "--older-than", "1h").stdout
    done = json.loads(anyrig("cache", "prune", "--kind=speech", "--to", "500K", "--json").stdout)
    assert (done["num_results"], done["data_bytes"]) == (3, 600_000)
    assert kept.stat().st_size < 600_000
    assert "Dropped 10 results" in anyrig("cache", "prune", "--engine", "minilm").stdout
    done = anyrig("cache", "prune", "--all", stdin=subprocess.DEVNULL)
    assert "Dropped 2 results" in done.stdout
    assert "0 results left" in done.stdout


def test_there_and_back(anyrig: Anyrig, kept: Path) -> None:
    done = anyrig("cache", "export", "--kind", "embedding", "out.zip")
    assert "Exported 10 results (15 KiB) to out.zip" in done.stdout, done.stderr
    assert json.loads(anyrig("cache", "export", "all.zip", "--json").stdout)["num_results"] == 15
    anyrig("cache", "prune", "--kind", "embedding")
    assert "Imported 10 results of 10 from out.zip." in anyrig("cache", "import", "out.zip").stdout
    done = anyrig("cache", "import", "all.zip")
    assert "Imported 0 results of 15" in done.stdout
    assert "15 results were cached already" in done.stdout
    elsewhere = {"ANYRIG_CACHE_FOLDER": "elsewhere"}
    done = anyrig("cache", "import", "all.zip", "--json", environment=elsewhere)
    assert json.loads(done.stdout)["num_new"] == 15
    assert Path("elsewhere/results.sqlite").exists()


def test_a_damaged_store_is_told_of(anyrig: Anyrig, kept: Path) -> None:
    kept.write_bytes(b"rubbish" * 1000)
    done = anyrig("cache")
    assert done.returncode == 0, done.stderr
    assert "set aside as results.sqlite.corrupt-" in done.stderr
    assert done.stderr.count("set aside") == 1
    assert done.stdout.startswith("0 results")
    again = anyrig("cache")
    assert "a damaged cache was set aside and can be deleted: " in again.stderr
    assert len(json.loads(anyrig("cache", "--json").stdout)["set_aside"]) == 1


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["prnue"], "unknown action `anyrig cache prnue`", "Did you mean `anyrig cache prune`?"),
        (["verify", "a"], "no further words", "--help"),
        (["prune", "--engine", "zzz"], "no results of the engine 'zzz'", "minilm, tone"),
        (["prune", "--all", "--kind", "speech"], "--all drops everything", "Leave"),
        (["prune", "--kind", "speach"], "no results of the kind 'speach'", "embedding, speech"),
        (["export", "no/folder/x.zip"], "there is no folder", "Create the folder"),
        (["import", "anyrig.txt"], "not a valid archive", "export"),
    ],
)
def test_mistakes(anyrig: Anyrig, kept: Path, words: list[str], message: str, hint: str) -> None:
    Path("anyrig.txt").write_text("text")
    done = anyrig("cache", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert message in first
    assert hint in second
    with ResultCache(kept) as store:
        assert store.stats().num_results == 15


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 15), (b"\n", 15), (b"y\n", 0)])
def test_asked_before_everything_goes(kept: Path, answer: bytes, left: int) -> None:
    """On a terminal alone, and for --all alone."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "anyrig", "cache", "prune", "--all"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, answer)
    assert process.wait(timeout=60) == 0
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "Drop all of 15 results? [y/N]" in said
    with ResultCache(kept) as store:
        assert store.stats().num_results == left
