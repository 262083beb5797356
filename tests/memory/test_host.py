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
