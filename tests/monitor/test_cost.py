"""What sampling costs in CPU time: the bar is 1 % of one core at one sample a second."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from anyrig.devices.discover import discover
from anyrig.devices.machine import Device, Machine
from anyrig.devices.probe import LiveProbe, System
from anyrig.monitor import Monitor
from anyrig.monitor.readers.nvidia import NvidiaReader
from tests.monitor.fake_nvml import FakeNvml

BAR_S = 0.010


def _costs(monitor: Monitor, num_samples: int = 30) -> list[float]:
    found = []
    for _ in range(num_samples):
        before = time.process_time()
        monitor.sample()
        found.append(time.process_time() - before)
        time.sleep(0.02)
    monitor.stop()
    return found


def test_a_sample_of_this_machine() -> None:
    costs = _costs(Monitor(discover(os.environ)))
    assert statistics.median(costs) < BAR_S, [round(1000 * cost, 1) for cost in costs]


def test_our_own_part_of_eight_gpus(machine: Callable[..., Machine]) -> None:
    """Everything but NVML's own work, which benchmarks/monitor.py measures on a real GPU."""
    here = machine("h200-linux")
    gpus = tuple(Device(f"GPU-{n}", "gpu", "nvidia", "H200") for n in range(8))
    nvml = FakeNvml()
    nvml.uuids = {gpu.id: "h0" for gpu in gpus}
    there = Machine(here.host, here.cpu, gpus, here.cpu_device)
    costs = _costs(Monitor(there, readers=[NvidiaReader(gpus, System(LiveProbe()), nvml)]))
    assert statistics.median(costs) < BAR_S, [round(1000 * cost, 1) for cost in costs]


def test_sampling_loads_no_framework() -> None:
    code = (
        "import json, os, sys\n"
        "from anyrig.devices.discover import discover\n"
        "from anyrig.monitor import Monitor\n"
        "monitor = Monitor(discover(os.environ)); monitor.sample(); monitor.stop()\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"torch", "numpy", "onnxruntime", "rich", "pydantic", "fastapi"}
