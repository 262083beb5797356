"""How much CPU time it takes to say what hardware is here, beside the tools people use today."""

from __future__ import annotations

import importlib.util
import os

from benchmarks.harness import ROOT, Row, cpu_seconds, middle, python

# 200 ms without a GPU, 300 ms with NVML to ask.
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
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))))
    source = {"PYTHONPATH": path}
    ours, spread = middle(cpu_seconds(python("-m", "anyrig", "devices"), environment=source), 1000)
    rows = [Row("anyrig devices, CPU time", ours, "ms", high=BUDGET_MS[hardware], spread=spread)]
    for name, (package, words) in PEERS.items():
        if importlib.util.find_spec(package) is None:
            continue
        peer, _ = middle(cpu_seconds(python(*words), repeats=3), 1000)
        rows.append(
            Row("anyrig devices, CPU time", ours, "ms", peer, name, high=0.2, judge="ratio")
        )
    return rows
