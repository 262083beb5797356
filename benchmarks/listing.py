"""CPU time of `anyrig devices`, beside the tools that people use to list their hardware."""

from __future__ import annotations

import importlib.util
import sys

from benchmarks.harness import Row, median_and_range
from benchmarks.processes import ANYRIG, measure_command

# With a GPU, NVML is loaded and queried.
BUDGET_MS = {"cpu": 200, "h200": 300}
PEERS = {
    "torch.cuda properties": (
        "torch",
        ["-c", "import torch; [print(torch.cuda.get_device_properties(i))"
         " for i in range(torch.cuda.device_count())]"],
    ),
    "torch.utils.collect_env": ("torch", ["-m", "torch.utils.collect_env"]),
    "accelerate env": ("accelerate", ["-m", "accelerate.commands.accelerate_cli", "env"]),
}  # fmt: skip


def run(hardware: str) -> list[Row]:
    ours, spread = median_and_range(_cpu_ms([*ANYRIG, "devices"], 7))
    rows = [Row("anyrig devices, CPU time", ours, "ms", high=BUDGET_MS[hardware], spread=spread)]
    for name, (package, arguments) in PEERS.items():
        if importlib.util.find_spec(package) is None:
            continue
        peer, _ = median_and_range(_cpu_ms([sys.executable, *arguments], 3))
        rows.append(
            Row("anyrig devices, CPU time", ours, "ms", peer, name, high=0.2, judge="ratio")
        )
    return rows


def _cpu_ms(command: list[str], repeats: int) -> list[float]:
    """Of a whole process, after a first run that is not counted."""
    return [1000 * measure_command(command).cpu_s for _ in range(repeats + 1)][1:]
