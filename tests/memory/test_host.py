"""Freed memory goes back to the system, so that a smaller batch can be measured after a larger."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: what other tests freed would go back as well.
CODE = """
import torch
from anyrig.backends import attach
from anyrig.devices.discover import discover
from anyrig.memory.host import Trimming
cpu = discover({}).cpu_device
meter = Trimming(attach(cpu, next(d for d in cpu.drives if d.backend == "torch")))
torch.ones(4_000_000).free = torch.ones(10_000_000)  # raises the library's thresholds
held = [torch.ones(250_000) for _ in range(400)]  # 400 MB in pieces too small to be mapped alone
large = meter.memory().allocated_bytes
keep = held[-1]
del held
meter.release()
meter.reset_peak()
small = meter.memory()
print(large - small.allocated_bytes > 300_000_000, large - small.peak_bytes > 300_000_000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is told to")
def test_what_was_freed_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120)
    assert done.stdout == "True True\n", done.stderr


_ARENAS = """
import ctypes, sys, threading
from anyrig.memory.host import few_arenas
if "few" in sys.argv:
    assert few_arenas(2)
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


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own")
def test_threads_share_few_pools_of_memory() -> None:
    """In processes of their own: what is set holds for good."""

    def arenas(*words: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _ARENAS, *words], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert arenas("few") <= 2 < arenas()
