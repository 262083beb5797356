"""The host's reader on this very machine, and under a container's limit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from anyrig.devices.machine import Machine, Memory
from anyrig.monitor.processes import Crowd, family, running, runs_program
from anyrig.monitor.readers import host
from anyrig.monitor.readers.host import HostReader, system_memory
from anyrig.monitor.sample import HostSample, Moment
from tests.monitor.trees import system_of, write

GIB = 1024**3


def now() -> Moment:
    return Moment(time.monotonic(), time.time())


def looks(reader: HostReader, people: Crowd, pids: tuple[int, ...] = ()) -> list[HostSample]:
    """Two looks, with work in between."""
    people.refresh()
    first = reader.read(now(), people, pids)
    until = time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
    people.refresh()
    return [first, reader.read(now(), people, pids)]


def test_this_machine(machine: Callable[..., Machine]) -> None:
    here = replace(machine("no-gpu"))
    here = replace(here, cpu=replace(here.cpu, memory=Memory("dedicated", None)))
    reader = HostReader(here, system_of(Path("/")))
    first, second = looks(reader, Crowd(family()))
    assert first.cpu_percent is None  # nothing to compare with
    assert second.cpu_percent is not None
    assert 0 < second.cpu_percent <= 100
    assert len(second.cores_percent) == psutil.cpu_count()
    assert all(0 <= core <= 100 for core in second.cores_percent)
    assert second.memory_total_bytes == psutil.virtual_memory().total
    assert second.memory_available_bytes is not None
    assert 0 < second.memory_available_bytes < second.memory_total_bytes
    mine = next(process for process in second.processes if process.pid == os.getpid())
    assert mine.ours
    assert mine.memory_bytes is not None
    assert second.memory_ours_bytes is not None
    assert second.memory_ours_bytes >= mine.memory_bytes > 10_000_000
    cpu = reader.as_device(second)
    assert cpu.device == "cpu"
    assert cpu.compute_percent == second.cpu_percent
    assert cpu.memory_used_bytes == second.memory_total_bytes - second.memory_available_bytes


@pytest.mark.parametrize("folder", ["sys/fs/cgroup/docker/abc", "sys/fs/cgroup"])
def test_a_containers_limit_counts(
    tmp_path: Path, folder: str, machine: Callable[..., Machine]
) -> None:
    """Half the memory there is, a quarter of that taken, some of it files that can be dropped."""
    limit = system_memory()[0] // 2
    write(tmp_path, {
        "proc/self/cgroup": "0::/docker/abc", f"{folder}/memory.max": limit,
        f"{folder}/memory.current": limit // 4 + 1000,
        f"{folder}/memory.stat": "anon 5\ninactive_file 1000\nfile 2000",
    })  # fmt: skip
    here = machine("no-gpu")
    here = replace(here, cpu=replace(here.cpu, memory=Memory("dedicated", limit)))
    sample = HostReader(here, system_of(tmp_path)).read(now(), Crowd(family()), ())
    assert sample.memory_total_bytes == limit
    free = system_memory()[1]
    assert sample.memory_available_bytes == pytest.approx(min(free, limit - limit // 4), rel=0.05)


def test_children_are_ours() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        people = Crowd(family())
        people.refresh()
        assert {os.getpid(), child.pid} <= people.ours
        assert people.is_ours(child.pid)
        assert people.name(child.pid) is not None
        child.communicate(b"\n")
    again = Crowd(family())
    again.refresh()
    assert child.pid not in again.ours


def test_processes_that_run_a_program_are_found_by_their_command() -> None:
    code = "import sys; input()"
    words = [sys.executable, "-c", code, "-m", "anyrig.pretended"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        found = running("anyrig")()
        assert child.pid in found
        assert os.getpid() not in found
        child.communicate(b"\n")


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("python -m anyrig book moby.epub", True),
        ("/usr/bin/python3 /home/a/.venv/bin/anyrig serve", True),
        ("C:\\Python\\Scripts\\anyrig.exe top", True),
        ("celery -A anyrig.cluster worker", True),
        ("torchrun --nproc 2 -m anyrig train x", True),
        ("vim anyrig/notes.md", False),
        ("grep -r anyrig .", False),
        ("python train.py --name anyrig", False),
        ("", False),
    ],
)
def test_what_runs_a_program(command: str, ours: bool) -> None:
    assert runs_program(command.split(), "anyrig") is ours


def test_a_process_that_has_gone_is_nobody() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    people = Crowd(lambda: frozenset({gone.pid}))
    people.refresh()
    assert people.describe([gone.pid]) == ()
    assert people.name(gone.pid) is None


def test_a_strangers_number_in_a_container_means_nothing() -> None:
    assert Crowd(frozenset, all_visible=True).is_ours(1) is False
    assert Crowd(frozenset, all_visible=False).is_ours(1) is None


def test_swap_is_read_without_touching_how_warnings_are_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # psutil's, where the kernel does not count pages
        told = psutil.swap_memory()

    def touched(*_: object, **__: object) -> None:
        raise AssertionError("filters are the whole process's, and this is one thread of it")

    monkeypatch.setattr(warnings, "catch_warnings", touched)
    monkeypatch.setattr(warnings, "simplefilter", touched)
    total, used = host._swap()
    assert total == told.total
    assert 0 <= used <= total
