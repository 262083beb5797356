"""The cache in bad times: damage, a full disk, folders that may not be written, other forms."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from anyrig.errors import DiskFullError, StorageError
from anyrig.storage.cache import ResultCache
from anyrig.storage.sqlite import detect_network_drive, find_set_aside
from tests.conftest import ROOT


def _fill(path: Path, count: int = 50, size: int = 5000) -> list[str]:
    with ResultCache(path) as cache:
        keys = [f"key-{number}" for number in range(count)]
        for name in keys:
            cache.put(name, random.randbytes(size), kind="speech")
    return keys


def _run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


# -- several connections -----------------------------------------------------------------------


def test_a_second_connection_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    """Without them, the last of the others to close the file would delete the log under it."""
    path = tmp_path / "r"
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        "c.execute('UPDATE results SET kind = ?', sys.argv[2:]); c.commit(); c.close()"
    )
    _fill(path, 1)
    with ResultCache(path) as first, ResultCache(path) as second:
        for kind in ("page", "text", "vector"):
            kinds = [one.file.read(_list_kinds) for one in (first, second)]
            assert _run(code, str(path), kind).returncode == 0
            kinds = [one.file.read(_list_kinds) for one in (first, second)]
            assert kinds == [[(kind,)]] * 2


def _list_kinds(connection: sqlite3.Connection) -> list[tuple[str]]:
    return connection.execute("SELECT kind FROM results").fetchall()


# -- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE data SET bytes = zeroblob(length(bytes)) WHERE id = 1",
        "UPDATE data SET bytes = (SELECT bytes FROM data WHERE id = 2) WHERE id = 1",
        'UPDATE results SET note = \'{"engine": "other"}\' WHERE id = 1',
        "UPDATE results SET kind = 'page' WHERE id = 1",
        "UPDATE results SET key = 'key-999' WHERE id = 1",
        "DELETE FROM data WHERE id = 1",
    ],
    ids=["zeroes", "another's", "note", "kind", "key", "no data"],
)
def test_a_damaged_result_is_missing(
    tmp_path: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    keys = _fill(tmp_path / "r", 3)
    connection = sqlite3.connect(tmp_path / "r")
    connection.execute(change)
    connection.commit()
    connection.close()
    with ResultCache(tmp_path / "r") as cache:
        assert cache.get("key-0") is None
        assert cache.get("key-999") is None
        assert "is damaged and counts as missing" in caplog.text
        assert cache.has(keys) == {"key-1", "key-2"}  # dropped: it can be put again
        assert cache.put("key-0", b"again", kind="speech")
        assert cache.verify() == (3, 0)
        assert cache.stats().counters["bad"] == 1


@pytest.mark.parametrize("is_read", [False, True], ids=["written", "read"])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE data SET bytes = zeroblob(length(bytes)) WHERE id = 1",
        "UPDATE data SET bytes = (SELECT bytes FROM data WHERE id = 2) WHERE id = 1",
        "UPDATE results SET kind = 'page' WHERE id = 1",
        "UPDATE results SET digest = (SELECT digest FROM results WHERE id = 2) WHERE id = 1",
    ],
    ids=["zeroes", "another's", "kind", "digest"],
)
def test_damage_is_found_in_what_this_process_wrote_or_read(
    tmp_path: Path, change: str, is_read: bool
) -> None:
    with ResultCache(tmp_path / "r") as cache:
        for number in range(2):
            cache.put(f"key-{number}", os.urandom(100_000), kind="speech")
            assert not is_read or cache.get(f"key-{number}") is not None
        connection = sqlite3.connect(tmp_path / "r")
        connection.execute(change)
        connection.commit()
        connection.close()
        assert cache.get("key-0") is None
        assert cache.get("key-1") is not None


def test_verify_deletes_damaged_results(tmp_path: Path) -> None:
    _fill(tmp_path / "r", 10)
    connection = sqlite3.connect(tmp_path / "r")
    connection.execute("UPDATE data SET bytes = x'00' WHERE id IN (2, 5)")
    connection.commit()
    connection.close()
    progress: list[tuple[int, int]] = []
    with ResultCache(tmp_path / "r") as cache:
        assert cache.verify(lambda done, total: progress.append((done, total))) == (10, 2)
        assert cache.verify() == (8, 0)
    assert progress[-1] == (10, 10)


def _damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "text":
        data[:] = b"this is no database\n" * 100
    elif how == "header":
        data[:100] = random.randbytes(100)
    elif how == "cut":
        del data[len(data) // 2 :]
    elif how == "root pages":
        data[4096 : 4096 * 12] = random.randbytes(4096 * 11)
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["text", "header", "cut", "root pages"])
def test_a_malformed_file_is_set_aside(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "r"
    keys = _fill(path)
    _damage(path, how)
    with ResultCache(path) as cache:
        found = cache.get_many(keys)
        assert cache.put("new", b"1", kind="speech")
        cache.has(keys)
        cache.stats()
        cache.verify()
        cache.prune(to_bytes=0)
        cache.put("new", b"1", kind="speech")
    assert len(found) < len(keys)
    assert "set aside as r.corrupt-" in caplog.text
    (aside,) = find_set_aside(path)
    assert aside.stat().st_size > 1000
    with ResultCache(path) as cache:
        assert cache.get("new")


def test_several_processes_open_a_malformed_file(tmp_path: Path) -> None:
    """One sets it aside; the others must not do so with the new one."""
    path = tmp_path / "r"
    path.write_bytes(b"this is no database\n" * 500)
    code = (
        "import sys; from pathlib import Path; from anyrig.storage.cache import ResultCache\n"
        "with ResultCache(Path(sys.argv[1])) as cache:\n"
        "    for n in range(20): assert cache.put(f'{sys.argv[2]}-{n}', b'x', kind='speech')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    names = [f"p{number}" for number in range(4)]
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name], env=environment)
        for name in names
    ]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0, 0]
    assert len(find_set_aside(path)) == 1
    with ResultCache(path) as cache:
        assert cache.stats().num_results == 80


def test_a_deleted_file_is_created_again(tmp_path: Path) -> None:
    with ResultCache(tmp_path / "deep" / "r") as cache:
        cache.put("a", b"1", kind="speech")
        for file in (tmp_path / "deep").iterdir():
            file.unlink()
        (tmp_path / "deep").rmdir()
        assert cache.get("a") is None
        assert cache.put("a", b"2", kind="speech")
        assert cache.has("a") == {"a"}


# -- other formats -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words", "hint"),
    [
        ("PRAGMA user_version = 2", "newer anyrig", "Update anyrig"),
        ("PRAGMA application_id = 5", "another program", "ANYRIG_CACHE_FOLDER"),
        ("PRAGMA application_id = 0", "another program", "ANYRIG_CACHE_FOLDER"),
    ],
)
def test_files_of_others_are_left_alone(tmp_path: Path, change: str, words: str, hint: str) -> None:
    path = tmp_path / "r"
    _fill(path, 3)
    connection = sqlite3.connect(path)
    connection.execute(change)
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with ResultCache(path) as cache, pytest.raises(StorageError, match=words) as caught:
        cache.get("key-0")
    assert hint in caught.value.hint
    assert path.read_bytes() == before
    assert not find_set_aside(path)


def test_a_file_without_its_tables_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _fill(tmp_path / "r", 3)
    connection = sqlite3.connect(tmp_path / "r")
    connection.execute("DROP TABLE held")
    connection.commit()
    connection.close()
    with ResultCache(tmp_path / "r") as cache:
        assert cache.put("a", b"", kind="speech")
    assert "tables are missing" in caplog.text


# -- disks and folders -------------------------------------------------------------------------

_FULL = """
import resource, signal, sys
from pathlib import Path
from anyrig.errors import DiskFullError, StorageError
from anyrig.storage.cache import ResultCache
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with ResultCache(Path(sys.argv[1])) as cache:
    cache.put("a", b"first", kind="speech")
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    try:
        cache.put("b", bytes(1_000_000), kind="speech")
        sys.exit("the disk took it")
    except StorageError as error:
        print(error.message, error.hint)
    assert cache.get("a").data == b"first"
    assert cache.get("b") is None
    assert cache.put("c", b"small", kind="speech")
"""


def test_a_file_size_limit(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    done = _run(_FULL, str(tmp_path / "r"))
    assert done.returncode == 0, done.stderr
    assert "No space left" in done.stdout or "disk error" in done.stdout
    with ResultCache(tmp_path / "r") as cache:
        assert cache.has(["a", "b", "c"]) == {"a", "c"}


def test_a_full_disk(tmp_path: Path) -> None:
    """SQLite's own bound on pages answers as a full disk does."""
    with ResultCache(tmp_path / "r") as cache:
        cache.put("a", b"first", kind="speech")
        cache.file.run_script("PRAGMA max_page_count = 50")
        with pytest.raises(DiskFullError, match="No space left") as caught:
            cache.put("b", bytes(1_000_000), kind="speech")
        assert "anyrig cache prune --all" in caught.value.hint
        assert cache.get("a")
        assert not cache.has("b")
        assert cache.put("c", b"small", kind="speech")


_READ_ONLY = """
import logging, os, sys
from pathlib import Path
from anyrig.errors import DiskFullError, StorageError
from anyrig.storage.cache import ResultCache
with ResultCache(Path(sys.argv[2]) / "warm") as cache, cache.pin_for_job("job"):
    cache.put("a", b"", kind="speech"), cache.get("a"), cache.stats()  # everything is imported now
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
with ResultCache(Path(sys.argv[1]) / "r") as cache:
    with cache.pin_for_job("job"):
        assert cache.get("key-0") and cache.has(["key-0", "x"]) == {"key-0"}
    assert cache.stats().num_results == 3
    try:
        cache.put("new", b"", kind="speech")
        sys.exit("it was written")
    except StorageError as error:
        print(error.message, error.hint)
try:
    with ResultCache(Path(sys.argv[1]) / "none" / "r") as cache:
        cache.get("a")
    sys.exit("a folder was made")
except StorageError as error:
    print(error.message, error.hint)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no mode there")
@pytest.mark.parametrize("left_open", [False, True])
def test_a_read_only_folder_is_read(tmp_path: Path, left_open: bool) -> None:
    base = Path(tempfile.mkdtemp())  # not tmp_path: that is for its owner alone, all the way up
    folder = base / "folder"
    _fill(folder / "r", 3)
    other = ResultCache(folder / "r")
    if left_open:
        other.get("key-0")  # its log and the log's index are there now
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    base.chmod(0o755)
    try:
        done = _run(_READ_ONLY, str(folder), str(tmp_path))
    finally:
        folder.chmod(0o755)
        other.close()
        shutil.rmtree(base)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ANYRIG_CACHE_FOLDER") == 2
    assert "is not writable" in done.stdout


_MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /mnt/share rw,relatime shared:2 - nfs4 server:/export rw
41 40 8:2 / /mnt/share/local rw - xfs /dev/sdb1 rw
42 22 0:36 / /mnt/my\\040drive rw - cifs //server/x rw
43 22 0:37 / /mnt/c rw - 9p drvfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/home/u/r", ""), ("/mnt/share/r", "nfs4"), ("/mnt/share/local/r", ""), ("/mnt/shared/r", ""),
     ("/mnt/my drive/r", "cifs"), ("/mnt/c/Users/r", "9p")],
)  # fmt: skip
@pytest.mark.skipif(sys.platform == "win32", reason="paths of Linux")
def test_network_drives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str
) -> None:
    mounts = tmp_path / "mounts"
    monkeypatch.setattr("anyrig.storage.sqlite._MOUNTS", mounts)
    mounts.write_text(_MOUNTS)
    assert detect_network_drive(Path(path)) == kind
    mounts.write_text("nonsense\n- -\n")
    assert detect_network_drive(Path(path)) == ""


def test_a_network_drive_gets_the_rollback_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of mounts is the system's: another one stands in for it."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 1 0:1 / {tmp_path.resolve()} rw - nfs4 server:/x rw\n")
    monkeypatch.setattr("anyrig.storage.sqlite._MOUNTS", mounts)
    with ResultCache(tmp_path / "r") as cache:
        cache.put("a", b"1", kind="speech")
        assert cache.get("a")
        assert "network drive (nfs4)" in cache.file.journal_reason
        assert not (tmp_path / "r-wal").exists()
    mounts.write_text("")
    with ResultCache(tmp_path / "r") as cache:
        assert cache.get("a")
        assert not cache.file.journal_reason
        assert (tmp_path / "r-wal").exists()
