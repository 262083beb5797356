"""What version 0.1 kept in the cache folder is moved once, and nothing is lost on the way."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyrig.jobs.queue import JobQueue
from anyrig.settings import migrate
from anyrig.settings.folders import Folders, find_folders
from anyrig.training.runs import make_run_id
from tests.conftest import Anyrig


def cache() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) / "anyrig"


def data() -> Path:
    return Path(os.environ["XDG_DATA_HOME"]) / "anyrig"


def current_folders() -> Folders:
    return find_folders(os.environ)


@pytest.fixture
def job() -> str:
    """Uploads, an index, a run and a job as 0.1 kept them; returns the job's id."""
    upload = cache() / "server" / "uploads" / "ab.txt"
    upload.parent.mkdir(parents=True)
    upload.write_text("a letter")
    (cache() / "indexes").mkdir()
    with sqlite3.connect(cache() / "indexes" / "post.sqlite") as index:
        index.execute("PRAGMA journal_mode = WAL")
        for table in ("files", "roots", "excluded"):
            index.execute(f"CREATE TABLE {table} (path BLOB PRIMARY KEY)")
        index.execute("INSERT INTO files VALUES (?)", (os.fsencode(upload),))
        index.execute("INSERT INTO files VALUES (?)", (os.fsencode("/home/a/letter.txt"),))
    index.close()
    (cache() / "runs").mkdir()
    told = {"folder": str(cache() / "server" / "jobs" / "t"), "created": 1.0}
    (cache() / "runs" / "r0.json").write_text(json.dumps(told))
    (cache() / "cluster" / "broker").mkdir(parents=True)
    (cache() / "cluster" / "broker" / "dump").write_text("a queue")
    (cache() / "figures.json").write_text("{}")
    with JobQueue(cache() / "jobs.sqlite") as jobs:
        arguments = {"file": str(upload), "folder": str(cache() / "server"), "é": str(cache())}
        return jobs.submit("book", arguments).id


def check_moved(job: str) -> None:
    here = current_folders()
    assert here.data == data()
    assert (here.server / "uploads" / "ab.txt").read_text() == "a letter"
    with JobQueue(here.jobs) as jobs:
        told = jobs.get(job).arguments
    assert told["file"] == str(data() / "server" / "uploads" / "ab.txt")
    assert told["folder"] == str(data() / "server")
    assert told["é"] == str(cache())
    index = sqlite3.connect(here.indexes / "post.sqlite")
    paths = {bytes(path) for (path,) in index.execute("SELECT path FROM files")}
    index.close()
    assert paths == {os.fsencode(str(told["file"])), b"/home/a/letter.txt"}
    (run,) = here.runs.glob("*.json")
    folder = data() / "server" / "jobs" / "t"
    assert json.loads(run.read_text())["folder"] == str(folder)
    assert run.stem == make_run_id(folder)
    assert (here.cluster / "broker" / "dump").read_text() == "a queue"
    assert (cache() / "figures.json").exists()
    assert not [path for path in data().iterdir() if path.name.startswith(".moving-")]


def test_everything_is_moved_once(job: str, anyrig_process: Anyrig) -> None:
    check_moved(job)
    left = {path.name for path in cache().iterdir()}
    assert left == {"figures.json"}
    listed = json.loads(anyrig_process("jobs", "--json").stdout)
    assert job in json.dumps(listed)
    (cache() / "server").mkdir()  # created later by an older version: left alone
    check_moved(job)
    assert (cache() / "server").is_dir()


def test_no_folder_is_created_if_there_is_nothing_to_move(anyrig_process: Anyrig) -> None:
    assert current_folders().data == data()
    assert anyrig_process("devices").returncode == 0
    assert not data().exists()


def test_devices_moves_nothing(job: str, anyrig_process: Anyrig) -> None:
    assert anyrig_process("devices").returncode == 0
    assert (cache() / "jobs.sqlite").exists()
    assert not data().exists()


def test_concurrent_processes(job: str) -> None:
    program = (
        "import os, sys\n"
        "from anyrig.settings.folders import find_folders\n"
        "sys.stdin.readline()\n"
        "here = find_folders(os.environ)\n"
        "print(here.data, (here.server / 'uploads' / 'ab.txt').read_text(), here.jobs.exists())\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        out, error = process.communicate(timeout=60)
        assert out == f"{data()} a letter True\n", error
    check_moved(job)


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EROFS, errno.EACCES, errno.EPERM])
def test_other_file_system_and_read_only_cache(
    job: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_renames(monkeypatch, code)
    if code != errno.EXDEV:
        monkeypatch.setattr(os, "unlink", refused(code, os.unlink))
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    check_moved(job)
    check_moved(job)
    assert (cache() / "server").exists() == (code != errno.EXDEV)


def test_cache_without_write_permission(job: str) -> None:
    """As root the permissions have no effect, and the data are simply moved."""
    for folder in (cache(), cache() / "server" / "uploads", cache() / "indexes"):
        folder.chmod(0o555)
    try:
        check_moved(job)
        (data() / "server" / "uploads" / "more.txt").write_text("can be written")
    finally:
        for folder in (cache(), cache() / "server" / "uploads", cache() / "indexes"):
            if folder.exists():
                folder.chmod(0o755)


def test_full_disk_leaves_everything_in_place(
    job: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        refuse_renames(patched, errno.EXDEV)

        def copy(source: Any, target: Any, **_: Any) -> None:
            Path(target).mkdir()
            (Path(target) / "half").write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device")

        patched.setattr(shutil, "copytree", copy)
        patched.setattr(shutil, "copy2", lambda *_: copy(_[0], _[1]))
        here = current_folders()
        assert here.data == cache()
        with JobQueue(here.jobs) as jobs:
            assert jobs.get(job).kind == "book"
        assert "No space left" in caplog.text
    check_moved(job)


@pytest.mark.parametrize("code", [errno.EXDEV, 0])
def test_failed_move_is_undone(
    job: str, code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The old folder stays in use: all must be there, and no stale copy in the new one."""
    with monkeypatch.context() as patched:
        if code:
            refuse_renames(patched, code)
            full = [("a", "b", "No space left on device")]
            patched.setattr(shutil, "copytree", refused_with(shutil.Error(full)))
        else:  # a folder that is a mount point cannot be renamed
            refuse_renames(patched, errno.EBUSY, only="server")
        here = current_folders()
        assert here.data == cache()
        with JobQueue(here.jobs) as jobs:
            assert jobs.get(job).kind == "book"
            later = jobs.submit("book", {"file": "later.txt"}).id
        said = "No space left on device" if code else os.strerror(errno.EBUSY)
        assert caplog.text.strip().endswith(said)
    check_moved(job)
    with JobQueue(current_folders().jobs) as jobs:
        assert jobs.get(later).kind == "book"


def test_new_folder_is_used_if_the_marker_cannot_be_written(
    job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        full = OSError(errno.ENOSPC, "No space left on device")
        patched.setattr("anyrig.storage.files.write_atomic", refused_with(full))
        assert current_folders().data == data()
        with JobQueue(current_folders().jobs) as jobs:
            assert jobs.get(job).kind == "book"


def test_data_in_use_are_moved_later(job: str) -> None:
    with JobQueue(cache() / "jobs.sqlite") as running:
        assert running.get(job).kind == "book"
        here = current_folders()
        assert here.data == cache()  # so that both see the same queue
        assert here.server == cache() / "server"
    check_moved(job)


def test_interrupted_move_is_finished(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    real = os.rename
    done: list[Any] = []

    def rename(source: Any, target: Any) -> None:
        if done:
            raise Killed
        done.append(source)
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename)
        with pytest.raises(Killed):
            _ = current_folders().data
    check_moved(job)


def test_interrupted_copy_is_finished(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies are complete, but the paths in them still name the old folder."""

    class Killed(BaseException):
        pass

    def kill(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        refuse_renames(patched, errno.EXDEV)
        patched.setattr(migrate, "_rewrite_paths", kill)
        with pytest.raises(Killed):
            _ = current_folders().data
    check_moved(job)


@pytest.mark.parametrize("item", ["jobs.sqlite", "indexes", "server"])
@pytest.mark.parametrize("copied_first", [False, True])
def test_two_processes_without_locks(
    job: str, item: str, copied_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One moves everything while the other copies an item, on a drive that has no locks."""
    function = "copy2" if item == "jobs.sqlite" else "copytree"
    real = getattr(shutil, function)
    found: list[Path] = []
    is_first = True

    def copy(source: Any, *more: Any, **options: Any) -> Any:
        nonlocal is_first
        meanwhile = is_first and Path(source).name == item
        if meanwhile:
            is_first = False
        if meanwhile and not copied_first:
            found.append(current_folders().data)
        answer = real(source, *more, **options)
        if meanwhile and copied_first:
            found.append(current_folders().data)
        return answer

    with monkeypatch.context() as patched:
        refuse_renames(patched, errno.EXDEV)
        patched.setattr(shutil, function, copy)
        patched.setattr(migrate, "lock_file", lambda *_: contextlib.nullcontext(True))
        found.append(current_folders().data)
    assert found == [data(), data()]
    check_moved(job)


def test_data_and_state_in_one_folder_are_both_moved(job: str) -> None:
    for names in (migrate.DATA, migrate.STATE):
        assert migrate.migrate(cache(), data(), names) == data()
    assert (data() / "cluster" / "broker" / "dump").read_text() == "a queue"
    with JobQueue(data() / "jobs.sqlite") as jobs:
        assert jobs.get(job)


def test_symlinked_folder_keeps_its_target(tmp_path: Path) -> None:
    large = tmp_path / "large"
    (large / "uploads").mkdir(parents=True)
    (large / "uploads" / "a.txt").write_text("a")
    cache().mkdir(parents=True)
    (cache() / "server").symlink_to(os.path.relpath(large, cache()))
    assert (current_folders().server / "uploads" / "a.txt").read_text() == "a"
    assert current_folders().server.resolve() == large


def test_items_in_both_folders_stay(job: str, caplog: pytest.LogCaptureFixture) -> None:
    (data() / "server" / "uploads").mkdir(parents=True)
    (data() / "server" / "uploads" / "new.txt").write_text("new")
    here = current_folders()
    assert (here.server / "uploads" / "new.txt").exists()
    assert (cache() / "server" / "uploads" / "ab.txt").exists()
    with JobQueue(here.jobs) as jobs:
        file = jobs.get(job).arguments["file"]
    assert Path(str(file)).is_file()  # the job still finds its upload, which was not moved
    assert "server" in caplog.text


def test_same_folder_for_cache_and_data(job: str) -> None:
    same = {**os.environ, "XDG_DATA_HOME": os.environ["XDG_CACHE_HOME"]}
    assert find_folders(same).jobs == cache() / "jobs.sqlite"
    assert find_folders(same).jobs.exists()


def refused(code: int, real: Callable[..., None], only: str = "") -> Callable[..., None]:
    def call(path: Any, *more: Any, **options: Any) -> None:
        if str(path).startswith(str(cache() / only)):
            raise OSError(code, os.strerror(code))
        real(path, *more, **options)

    return call


def refuse_renames(patch: pytest.MonkeyPatch, code: int, only: str = "") -> None:
    patch.setattr(os, "rename", refused(code, os.rename, only))


def refused_with(error: OSError) -> Callable[..., None]:
    def call(*_: Any, **__: Any) -> None:
        raise error

    return call
