"""Child processes: which are signalled, for how long they are waited for, what they import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from anyrig.backends import spawn
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import AnyrigError
from anyrig.placement import Placement
from anyrig.work.pool import WorkerPool
from anyrig.work.protocol import EngineFactory

ROOT = Path(__file__).resolve().parents[2]
DRIVE = DeviceBackend("onnx", "cpu", "CPUExecutionProvider", True, "")
posix = pytest.mark.skipif(sys.platform == "win32", reason="process groups")


def _pool(**options: Any) -> WorkerPool:
    seat = Placement(Device("a", "cpu", "test", "a"), DRIVE)
    return WorkerPool(
        [seat], EngineFactory("anyrig.work.fake:FakeEngine", options), environment=os.environ
    )


def _still_ours(pid: int) -> bool:
    """Whether an id is held by a child of this process that has not been reaped."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


@pytest.fixture
def strays(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The groups that are signalled once their leader's id may belong to another process."""
    found: list[int] = []
    real: Callable[[int, int], None] = os.killpg

    def killpg(group: int, number: int) -> None:
        if not _still_ours(group):
            found.append(group)
        real(group, number)

    monkeypatch.setattr(os, "killpg", killpg)
    return found


@posix
def test_no_group_is_signalled_after_its_leader_was_reaped(strays: list[int]) -> None:
    with _pool(crash_on=[0.5]) as pool:
        assert [one.failure is None for one in pool.run([0.001, 0.5], cost=float)] == [True, False]
    assert strays == []


@posix
def test_no_group_is_signalled_after_a_child_ended_by_itself(strays: list[int]) -> None:
    process = spawn.start("platform", os.environ)
    assert process.wait(60) == 0
    assert spawn.stop(process) == 0
    assert spawn.stop(process) == 0
    assert strays == []
    _close(process)


@posix
@pytest.mark.parametrize("how", ["wait", "wait with a limit", "poll", "stop"])
def test_what_a_child_left_behind_ends_with_it(how: str, tmp_path: Path) -> None:
    module = tmp_path / "leaves_one_behind.py"
    module.write_text(
        "import subprocess, sys\n"
        "one = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
        "                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(one.pid, flush=True)\n"
        "sys.stdin.readline()\n"
    )
    process = spawn.start("leaves_one_behind", {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert process.stdout is not None
    assert process.stdin is not None
    left = psutil.Process(int(process.stdout.readline()))
    process.stdin.write(b"end\n")
    process.stdin.flush()
    if how == "wait":
        process.wait()
    elif how == "wait with a limit":
        process.wait(60)
    elif how == "poll":
        while process.poll() is None:
            pass
    spawn.stop(process)
    left.wait(timeout=60)
    _close(process)


@posix
def test_a_child_that_cannot_be_killed_is_not_waited_for_without_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that is stuck in its driver: no signal ends it."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda group, number: None)
        patched.setattr(os, "kill", lambda pid, number: None)
        process = spawn.start("anyrig.work.worker_main", os.environ)
        assert spawn.stop(process, 0.2) is None
    assert spawn.stop(process) == -signal.SIGKILL
    _close(process)


@posix
def test_work_goes_on_when_a_worker_cannot_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends, though the process does not."""
    monkeypatch.setattr(spawn, "STOP_S", 0.2)
    with monkeypatch.context() as patched:
        pool = _pool()
        pool.wait_ready()
        pids = pool.pids
        patched.setattr(os, "killpg", lambda group, number: None)
        patched.setattr(os, "kill", lambda pid, number: None)
        pool.close()
    for pid in pids:
        psutil.Process(pid).kill()
    with pytest.raises(AnyrigError, match="closed"):
        list(pool.run([0.001], cost=float))


def test_workers_import_the_standard_library_before_installed_packages(tmp_path: Path) -> None:
    """A backport of a standard module, beside anyrig where packages are installed."""
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "anyrig").symlink_to(ROOT / "src" / "anyrig", target_is_directory=True)
    for name in ("pathlib", "enum", "dataclasses", "queue"):
        (site / f"{name}.py").write_text("raise ImportError('a backport for Python 2')\n")
    program = textwrap.dedent("""
        import dataclasses, enum, os, pathlib, queue, sys
        site = sys.argv[1]
        sys.path.insert(0, site)
        import anyrig
        sys.path.remove(site)
        sys.path.append(site)
        assert anyrig.__file__.startswith(site)
        from anyrig.devices.machine import Device, DeviceBackend
        from anyrig.placement import Placement
        from anyrig.work.protocol import EngineFactory
        from anyrig.work.pool import WorkerPool
        seat = Placement(Device("a", "cpu", "test", "a"),
                         DeviceBackend("onnx", "cpu", "CPUExecutionProvider", True, ""))
        recipe = EngineFactory("anyrig.work.fake:FakeEngine")
        with WorkerPool([seat], recipe, environment=os.environ) as pool:
            print([one.result for one in pool.run([0.001], cost=float)])
    """)
    done = subprocess.run(
        [sys.executable, "-c", program, str(site)], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("[0.002]\n", 0), done.stderr


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()
