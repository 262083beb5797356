"""The bound on the memory of a process that reads a file."""

from __future__ import annotations

import subprocess
import sys

_SLOW_START = """
import threading, time
from anyrig.text.formats import memory

start = threading.Thread.start

def start_and_wait(thread):
    start(thread)
    time.sleep(0.3)

threading.Thread.start = start_and_wait
memory.limit_memory()
assert memory.is_limited()
"""


def test_a_busy_machine_does_not_end_the_process_before_its_bound_is_set() -> None:
    # The thread that watches may run long before the one that started it goes on.
    ended = subprocess.run(
        [sys.executable, "-c", _SLOW_START], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
