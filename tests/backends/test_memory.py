"""glibc keeps freed pages when told to; resident memory and its peak."""

from __future__ import annotations

import platform
import subprocess
import sys

import numpy as np
import pytest

from anyrig.backends.memory import ResidentMemory
from anyrig.units import MIB

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


def test_the_peak_can_be_reset() -> None:
    resident = ResidentMemory()
    resident.reset_peak()
    np.ones(64 * MIB // 8)
    high = resident.read().peak_bytes
    resident.reset_peak()
    low = resident.read().peak_bytes
    assert high is not None
    assert low is not None
    assert high - low > 50 * MIB or sys.platform != "linux"
