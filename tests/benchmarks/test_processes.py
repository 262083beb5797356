"""Processes that benchmarks measure: their CPU time, output, errors and end."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.processes import (
    child_environment,
    measure_command,
    process_memory,
    run_module,
    start_process,
    tree_cpu_seconds,
    wait_until,
)

_BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint('done')"
_PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"


def test_the_cpu_time_of_children_counts() -> None:
    used = measure_command([sys.executable, "-c", _PARENT, _BUSY])
    assert used.output == "done\n"
    assert used.cpu_s >= 0.3
    assert used.peak_bytes > 1 << 20


def test_a_command_that_fails_raises_with_its_error() -> None:
    with pytest.raises(RuntimeError, match="no such thing"):
        measure_command([sys.executable, "-c", "raise SystemExit('no such thing')"])
    with pytest.raises(RuntimeError, match="no_such_module"):
        run_module("benchmarks.no_such_module")


def test_a_process_ends_with_its_children() -> None:
    command = [sys.executable, "-c", _PARENT, "import time; time.sleep(600)"]
    with start_process(command, child_environment()) as process:
        wait_until(lambda: len(process_memory(process.pid)) == 2, 60, "a child")
        assert tree_cpu_seconds(process.pid) > 0
        pids = list(process_memory(process.pid))
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), 60, "the end of both")


def test_a_home_has_its_own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYRIG_DEVICE", "cpu")
    found = child_environment(tmp_path / "home", ("/first",), EXTRA="1")
    assert found["HOME"] == str(tmp_path / "home")
    assert found["XDG_CACHE_HOME"].startswith(found["HOME"])
    assert found["PYTHONPATH"].startswith("/first")
    assert (found["EXTRA"], "ANYRIG_DEVICE" in found) == ("1", False)
