"""glibc keeps freed pages when told to; resident memory and its peak."""

from __future__ import annotations

import mmap
import platform
import subprocess
import sys
from pathlib import Path

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
    with mmap.mmap(-1, 64 * MIB) as block:  # not from the heap, which may have room for it
        block.write(b"1" * (64 * MIB))
    high = resident.read(None).peak_bytes
    resident.reset_peak()
    low = resident.read(None).peak_bytes
    assert high is not None
    assert low is not None
    assert high - low > 50 * MIB or sys.platform != "linux"


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
