"""A heap told to keep what is freed clears no page twice."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import resource, sys
from anyrig.backends import heap
if sys.argv[1] == "keep":
    assert heap.keep_freed()
def work():
    for _ in range(10):
        held = [b"x" * (size << 20) for size in (4, 9, 2, 12, 7, 11)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_pages_are_kept() -> None:
    def faults(mode: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, mode], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert faults("keep") < 1000
    assert faults("usual") > 10_000
