"""Which processes are ours, and what is known of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from anyrig.monitor.processes import (
    AnyrigProcesses,
    ProcessTable,
    find_own_processes,
    runs_anyrig,
)


def test_child_processes_are_ours() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        table = ProcessTable(find_own_processes)
        table.refresh()
        assert {os.getpid(), child.pid} <= table.ours
        described = table.describe_device_process(child.pid, 1, 2.0)
        assert described.ours
        assert described.name is not None
        child.communicate(b"\n")
    assert child.pid not in find_own_processes()


def test_processes_that_run_anyrig_are_found_by_their_command() -> None:
    command = [sys.executable, "-c", "input()", "-m", "anyrig.pretended"]
    find = AnyrigProcesses()
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        for _ in range(2):  # read, then remembered
            found = find()
            assert child.pid in found
            assert os.getpid() not in found
        child.communicate(b"\n")
    assert child.pid not in find()


@pytest.mark.parametrize(
    ("command", "expected"),
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
def test_which_commands_run_anyrig(command: str, expected: bool) -> None:
    assert runs_anyrig(command.split()) is expected


def test_a_process_that_ended_is_left_out() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    table = ProcessTable(lambda: frozenset({ended.pid}))
    table.refresh()
    assert table.describe_host_processes([ended.pid]) == ()
    assert table.describe_device_process(ended.pid, 1, None).name is None


def test_in_a_container_other_pids_are_of_unknown_owners() -> None:
    table = ProcessTable(frozenset)
    table.all_visible = True
    assert table.describe_device_process(1, None, None).ours is False
    table.all_visible = False
    assert table.describe_device_process(1, None, None).ours is None


@pytest.mark.skipif(sys.platform != "linux", reason="commands are bytes on Linux")
def test_a_command_that_is_not_utf8_can_be_written_as_json() -> None:
    command = [sys.executable.encode(), b"-c", b"input()", b"caf\xe9"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        (process,) = ProcessTable(frozenset).describe_host_processes([child.pid])
        child.communicate(b"\n")
    assert process.command.encode().endswith(b"caf?")
