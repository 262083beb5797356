"""`anyrig cache` as a person meets it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anyrig.errors import DiskFullError
from anyrig.storage import cache as cache_module
from anyrig.storage.cache import ResultCache
from anyrig.units import GIB
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


def test_nothing_yet(anyrig: Anyrig) -> None:
    done = anyrig("cache")
    assert done.stdout.startswith("Nothing is cached yet.")
    assert "up to 10 GiB" in done.stdout
    assert json.loads(anyrig("cache", "--json").stdout)["results"] == 0
    assert not _path().exists()  # only looked


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


def test_what_jobs_need_stays(anyrig: Anyrig, kept: Path) -> None:
    with ResultCache(kept) as store, store.pin_for_job("my book"):
        store.has(["s1", "s2"])
        done = anyrig("cache", "prune", "--all")
        assert "2 results stay for unfinished jobs; --held drops them" in done.stdout
        assert "Held for unfinished jobs: 2 results (my book)." in anyrig("cache").stdout
        assert "Dropped 2 results" in anyrig("cache", "prune", "--all", "--held").stdout


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


def test_verifying(anyrig: Anyrig, kept: Path) -> None:
    assert anyrig("cache", "verify").stdout == "15 results read, all intact.\n"
    connection = sqlite3.connect(kept)
    connection.execute("UPDATE data SET bytes = x'00' WHERE id = 3")
    connection.commit()
    connection.close()
    done = anyrig("cache", "verify")
    assert done.returncode == 1
    assert done.stdout == "15 results read, 1 damaged and dropped.\n"
    assert "Dropped as damaged: 1 result." in anyrig("cache").stdout
    assert json.loads(anyrig("cache", "verify", "--json").stdout)["num_bad"] == 0


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


def test_a_damaged_cache_is_not_imported(anyrig: Anyrig, kept: Path) -> None:
    os.truncate(kept, 500_000)
    assert "computed again" in anyrig("cache").stderr
    (damaged,) = kept.parent.glob("*.corrupt-*")
    done = anyrig("cache", "import", str(damaged))
    assert done.returncode == 2
    assert "is a cache file, not an archive" in done.stderr


_AS_NOBODY = """
import os, sys
from anyrig.cli.main import main
main(["cache"]), main(["cache", "--json"])  # everything is imported now
print("--")
sys.stdout.flush()
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
os.environ["ANYRIG_CACHE_FOLDER"] = os.environ["HOME"] = sys.argv[1]
for name in ("CONFIG", "CACHE", "DATA", "STATE"):
    os.environ[f"XDG_{name}_HOME"] = sys.argv[1]
main(["cache"]), main(["cache", "--json"])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no mode there")
def test_a_store_that_may_only_be_read(kept: Path) -> None:
    base = Path(tempfile.mkdtemp())  # not tmp_path: that is for its owner alone, all the way up
    shutil.copy(kept, base / kept.name)
    (base / kept.name).chmod(0o444)
    base.chmod(0o555)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, str(base)], capture_output=True, text=True, cwd="/"
        )
    finally:
        base.chmod(0o755)
        shutil.rmtree(base)
    assert done.returncode == 0, done.stderr
    said = done.stdout.split("--\n")[1]
    assert said.startswith("15 results"), done.stderr
    assert "Slower" not in said
    assert done.stderr.count("nothing new can be cached") == 1
    assert json.loads(said[said.index("{") :])["read_only"] is True


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["prnue"], "unknown action `anyrig cache prnue`", "Did you mean `anyrig cache prune`?"),
        (["export"], "takes one file", "--help"),
        (["import", "a", "b"], "takes one file", "--help"),
        (["verify", "a"], "no further words", "--help"),
        (["verify", "--to", "1G"], "--to is a flag of `anyrig cache prune`", "--help"),
        (["--dry-run"], "--dry-run is a flag of `anyrig cache prune`", "--help"),
        (["verify", "--kind", "speech"], "--kind is a flag of", "--help"),
        (
            ["prune", "--to", "much"],
            "--to must be a size with a unit",
            "cache",
        ),
        (["prune", "--to", "2"], "with a unit, such as 500M or 2G, not '2'", "cache"),
        (["prune", "--engine", "zzz"], "no results of the engine 'zzz'", "minilm, tone"),
        (
            ["prune", "--older-than", "30"],
            "8w, not '30'",
            "cache",
        ),
        (["prune", "--all", "--kind", "speech"], "--all drops everything", "Leave"),
        (["prune", "--kind", "speach"], "no results of the kind 'speach'", "embedding, speech"),
        (["export", "x.zip", "--kind", "speach"], "no results of the kind", "embedding, speech"),
        (["export", "no/folder/x.zip"], "there is no folder", "Create the folder"),
        (["import", "nowhere.zip"], "cannot read nowhere.zip", "export"),
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


@pytest.mark.parametrize("value", ["0", "nan", "much"])
def test_wrong_settings(anyrig: Anyrig, value: str) -> None:
    done = anyrig("cache", environment={"ANYRIG_CACHE_LIMIT_GB": value})
    assert done.returncode == 2
    assert "cache.limit_gb" in done.stderr


def test_the_settings(anyrig: Anyrig, kept: Path) -> None:
    Path("anyrig.toml").write_text('[cache]\nlimit_gb = 0.5\nfolder = "here"\n')
    data = json.loads(anyrig("cache", "--json", "--config", "anyrig.toml").stdout)
    assert data["limit_bytes"] == 512 << 20
    assert data["path"] == str(Path("here").absolute() / "results.sqlite")
    small = {"ANYRIG_CACHE_LIMIT_GB": "0.001", "ANYRIG_CACHE_FOLDER": str(kept.parent)}
    with ResultCache(kept) as store:
        store.put("more", random.randbytes(200_000), kind="speech")
    anyrig("cache", "prune", environment=small)
    assert kept.stat().st_size < GIB // 1000


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


def test_a_cache_server_that_does_not_answer_is_one_warning(anyrig: Anyrig) -> None:
    """Also when everything is found on this machine, and the server is not needed."""
    pytest.importorskip("redis")
    Path("a.txt").write_text("One sentence.", encoding="utf-8")
    words = ("book", "a.txt", "--engine", "tone", "-o")
    for name in ("one.m4b", "two.m4b"):
        done = anyrig(*words, name, environment={"ANYRIG_CACHE_URL": "redis://127.0.0.1:1/0"})
        assert done.returncode == 0, done.stderr
        told = [line for line in done.stderr.splitlines() if "127.0.0.1:1" in line]
        assert len(told) == 1, done.stderr
        assert told[0].startswith("warning: results are not shared: redis://127.0.0.1:1/0")
    assert "1 of 1 segment cached" in done.stdout + done.stderr


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own; only root can have one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a disk can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a disk as Linux does")
@pytest.mark.parametrize("held", [False, True])
def test_pruning_everything_frees_a_full_disk(
    anyrig: Anyrig, full_disk: Path, monkeypatch: pytest.MonkeyPatch, *, held: bool
) -> None:
    monkeypatch.setenv("ANYRIG_CACHE_FOLDER", str(full_disk))
    with ResultCache(full_disk / "results.sqlite") as store:
        for number in range(20):
            store.put(f"s{number}", random.randbytes(60_000), kind="speech")
        if held:
            with pytest.raises(ZeroDivisionError), store.pin_for_job("book"):
                hold(store)
    with contextlib.suppress(OSError), (full_disk / "other").open("wb", buffering=0) as other:
        while True:
            other.write(bytes(4096))
    shown = anyrig("cache")
    assert shown.returncode == 1
    assert "No space left on device" in shown.stderr
    assert "cache prune --all" in shown.stderr
    done = anyrig("cache", "prune", "--all", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"Dropped {19 if held else 20} results" in done.stdout
    assert shutil.disk_usage(full_disk).free > 1_000_000
    with ResultCache(full_disk / "results.sqlite") as store:
        assert store.has(["s1", "s2"]) == ({"s1"} if held else set())
        assert store.put("new", b"1", kind="speech")
        assert store.verify().num_bad == 0


def hold(store: ResultCache) -> None:
    """As a job that was interrupted."""
    store.get("s1")
    raise ZeroDivisionError


def test_pruning_a_full_disk_that_another_process_uses_says_what_to_do(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_FORMAT", replace(cache_module._FORMAT, busy_timeout_s=0.1))

    def refuse(*_: object) -> None:
        raise DiskFullError("No space left on device", hint="")

    with ResultCache(kept) as other, ResultCache(kept) as store:
        assert other.has(["s1"])
        monkeypatch.setattr(store.file, "read", refuse)
        with pytest.raises(DiskFullError) as caught:
            store.prune(to_bytes=0)
        assert f"delete {kept}" in caught.value.hint
        assert other.has(["s1"]) == {"s1"}
