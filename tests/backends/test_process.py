"""Child processes: signals, timeouts, environment and import path."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from anyrig.backends.process import bind_device, kill_process_group, start_module
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import AnyrigError
from anyrig.placement import Placement
from anyrig.work.engine import EngineFactory
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

ROOT = Path(__file__).resolve().parents[2]
ONNX_CPU = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")
posix = pytest.mark.skipif(sys.platform == "win32", reason="process groups")


def _pool(**options: Any) -> WorkerPool:
    placement = Placement(Device("a", "cpu", "test", "a"), ONNX_CPU)
    return WorkerPool(
        LocalWorkers(
            [placement],
            EngineFactory("anyrig.work.fake:FakeEngine", options),
            environment=os.environ,
        )
    )


def _still_ours(pid: int) -> bool:
    """Whether an id is held by a child of this process that has not been reaped."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


@pytest.fixture
def stray_signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Groups that were signalled after their leader was reaped, when the id may be reused."""
    found: list[int] = []
    real: Callable[[int, int], None] = os.killpg

    def killpg(group: int, number: int) -> None:
        if not _still_ours(group):
            found.append(group)
        real(group, number)

    monkeypatch.setattr(os, "killpg", killpg)
    return found


@posix
def test_no_group_is_signalled_after_its_leader_was_reaped(stray_signals: list[int]) -> None:
    with _pool(crash_on=[0.5]) as pool:
        assert [one.failure is None for one in pool.run([0.001, 0.5], cost=float)] == [True, False]
    assert stray_signals == []


@posix
def test_no_group_is_signalled_after_a_child_ended_by_itself(stray_signals: list[int]) -> None:
    process = start_module("platform", os.environ)
    assert process.wait(60) == 0
    assert kill_process_group(process) == 0
    assert kill_process_group(process) == 0
    assert stray_signals == []
    _close(process)


@posix
@pytest.mark.parametrize("how", ["wait", "wait with a limit", "poll", "stop"])
def test_descendants_of_a_child_end_with_it(how: str, tmp_path: Path) -> None:
    module = tmp_path / "leaves_one_behind.py"
    module.write_text(
        "import subprocess, sys\n"
        "one = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
        "                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(one.pid, flush=True)\n"
        "sys.stdin.readline()\n"
    )
    process = start_module("leaves_one_behind", {**os.environ, "PYTHONPATH": str(tmp_path)})
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
    kill_process_group(process)
    left.wait(timeout=60)
    _close(process)


@posix
def test_waiting_for_a_child_that_cannot_be_killed_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as one that is stuck in a driver."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda group, number: None)
        patched.setattr(os, "kill", lambda pid, number: None)
        process = start_module("anyrig.work.worker_main", os.environ)
        assert kill_process_group(process, 0.2) is None
    assert kill_process_group(process) == -signal.SIGKILL
    _close(process)


@posix
def test_a_pool_closes_when_a_worker_cannot_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyrig.backends.process.KILL_TIMEOUT_S", 0.2)
    with monkeypatch.context() as patched:
        pool = _pool()
        pool.wait_ready()
        pids = pool.pids
        patched.setattr(os, "killpg", lambda group, number: None)
        patched.setattr(os, "kill", lambda pid, number: None)
        pool.close()
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may have noticed its closed input
            psutil.Process(pid).kill()
    with pytest.raises(AnyrigError, match="closed"):
        list(pool.run([0.001], cost=float))


@posix
def test_stopping_a_worker_does_not_wait_for_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that stops it serves all other workers."""
    with monkeypatch.context() as patched:
        pool = _pool()
        pool.wait_ready()
        (worker,) = pool.workers_by_number.values()
        (pid,) = pool.pids
        patched.setattr("anyrig.backends.process.KILL_TIMEOUT_S", 600.0)
        patched.setattr(os, "killpg", lambda group, number: None)
        patched.setattr(os, "kill", lambda pid, number: None)
        stopping = threading.Thread(target=worker.stop, daemon=True)
        stopping.start()
        stopping.join(timeout=60)
        assert not stopping.is_alive()
        assert psutil.pid_exists(pid)
    psutil.Process(pid).kill()
    pool.close()
    assert not psutil.pid_exists(pid)


def test_the_standard_library_precedes_installed_packages(tmp_path: Path) -> None:
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
        from anyrig.work.engine import EngineFactory
        from anyrig.work.pool import WorkerPool
        from anyrig.work.worker import LocalWorkers
        placement = Placement(Device("a", "cpu", "test", "a"),
                         DeviceBackend("onnx", "cpu", "CPUExecutionProvider"))
        factory = EngineFactory("anyrig.work.fake:FakeEngine")
        with WorkerPool(LocalWorkers([placement], factory, environment=os.environ)) as pool:
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


# -- binding a child to a device -------------------------------------------------------------------


def _gpu(vendor: str, identity: str, **indices: int) -> Device:
    return Device(identity, "gpu", vendor, "card", indices=indices)


@pytest.mark.parametrize(
    ("device", "environment", "variables", "library"),
    [
        (_gpu("nvidia", "GPU-abc", cuda=1), {}, {"CUDA_VISIBLE_DEVICES": "GPU-abc"}, "cuda"),
        (_gpu("nvidia", "MIG-abc", nvml=0), {"CUDA_VISIBLE_DEVICES": "0,1"},
         {"CUDA_VISIBLE_DEVICES": "MIG-abc"}, "cuda"),
        (_gpu("amd", "GPU-1", rocm=1), {}, {"HIP_VISIBLE_DEVICES": "1"}, "rocm"),
        (_gpu("amd", "GPU-1", rocm=1), {"HIP_VISIBLE_DEVICES": "2,3"},
         {"HIP_VISIBLE_DEVICES": "3"}, "rocm"),
        (_gpu("amd", "GPU-1", rocm=0), {"CUDA_VISIBLE_DEVICES": "5"},
         {"HIP_VISIBLE_DEVICES": "5"}, "rocm"),
        (_gpu("amd", "GPU-1", rocm=1), {"HIP_VISIBLE_DEVICES": "0,0,1"},
         {"HIP_VISIBLE_DEVICES": "1"}, "rocm"),
        (_gpu("intel", "0000:03:00.0", xpu=0, ze=1), {"ONEAPI_DEVICE_SELECTOR": "level_zero:1"},
         {"ZE_AFFINITY_MASK": "1", "ONEAPI_DEVICE_SELECTOR": "level_zero:*"}, "xpu"),
        (_gpu("intel", "0000:03:00.0", xpu=1), {}, {"ZE_AFFINITY_MASK": "1"}, "xpu"),
        (_gpu("intel", "0000:03:00.0", xpu=0, ze=3), {"ZE_AFFINITY_MASK": "3,10"},
         {"ZE_AFFINITY_MASK": "3"}, "xpu"),
    ],
)  # fmt: skip
def test_a_child_sees_one_device_with_index_0(
    device: Device, environment: dict[str, str], variables: dict[str, str], library: str
) -> None:
    found, seen = bind_device(device, environment)
    assert found == variables
    assert seen.indices[library] == 0
    assert seen.id == device.id


def test_a_child_on_the_cpu_sees_no_gpu() -> None:
    variables, _ = bind_device(Device("cpu", "cpu", "intel", "cpu"), {})
    assert variables["CUDA_VISIBLE_DEVICES"] == ""
    assert variables["HIP_VISIBLE_DEVICES"] == "-1"  # to HIP an empty value is none


_PROGRAM = """
import resource, sys
from anyrig.backends import memory
if sys.argv[1] == "keep":
    assert memory.keep_freed_memory()
def work():
    for _ in range(10):
        held = [b"x" * (size << 20) for size in (4, 9, 2, 12, 7, 11)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_pages_are_kept() -> None:
    def faults(mode: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, mode], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert faults("keep") < 1000
    assert faults("usual") > 10_000


_ARENAS = """
import ctypes, sys, threading
from anyrig.backends.memory import limit_arenas
if "few" in sys.argv:
    assert limit_arenas(2)
c = ctypes.CDLL(None)
c.malloc.restype = c.fopen.restype = ctypes.c_void_p
gate = threading.Barrier(13)
def work():
    assert c.malloc(ctypes.c_size_t(1000))
    gate.wait()
threads = [threading.Thread(target=work) for _ in range(12)]
[t.start() for t in threads]
gate.wait()
[t.join() for t in threads]
out = ctypes.c_void_p(c.fopen(b"info.xml", b"w"))
c.malloc_info(0, out)
c.fclose(out)
print(open("info.xml").read().count("<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_threads_share_few_arenas(tmp_path: Path) -> None:
    """In their own processes: the setting cannot be undone."""

    def arenas(*words: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _ARENAS, *words],
            capture_output=True, text=True, check=True, cwd=tmp_path,
        )  # fmt: skip
        return int(done.stdout)

    assert arenas("few") <= 2 < arenas()
