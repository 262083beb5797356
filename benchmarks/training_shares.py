"""Batch shares by measured speed beside equal ones: two processes, one three times slower.

Real processes over gloo train a small network; each sleeps for every item it computes, one of them
three times as long. The peer is the same loop with equal shares, as every framework splits batches.
Both are measured from the first step, so finding the speeds is included.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, median_and_range
from benchmarks.processes import child_environment

ROUNDS, STEPS, BATCH, WIDTH = 3, 60, 64, 64
ITEM_S = 0.001
SLOWER = 3


def run(hardware: str) -> list[Row]:
    found: dict[str, list[dict[str, float]]] = {"equal": [], "measured": []}
    for _ in range(ROUNDS):
        for kind, rounds in found.items():
            rounds.append(_run_processes(kind))
    equal, _ = median_and_range([one["items_s"] for one in found["equal"]])
    ours, spread = median_and_range([one["items_s"] for one in found["measured"]])
    error = max(one["error"] for rounds in found.values() for one in rounds)
    return [
        Row("items a second, one of two processes three times slower", ours, "items/s", equal,
            "equal shares", low=1.6, judge="ratio", spread=spread),
        Row("largest difference of a gradient from one process'", error, "", high=1e-6),
    ]  # fmt: skip


def _run_processes(kind: str) -> dict[str, float]:
    from anyrig.training.distributed.launch import launch

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        launch(
            ["-m", "benchmarks.training_shares", kind, str(out)], 2,
            environment=child_environment(OMP_NUM_THREADS="1"),
        )  # fmt: skip
        result: dict[str, float] = json.loads(out.read_text())
    return result


def train_rank(kind: str, environment: Mapping[str, str]) -> dict[str, float]:
    """All steps of one process, and its last gradients beside those of a single process."""
    import torch

    from anyrig.training.distributed.launch import open_group

    group = open_group("ddp", environment, shares=kind)  # type: ignore[arg-type]
    torch.manual_seed(0)
    model: Any = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 1)
    )
    group.prepare(model)
    batches = torch.randn(STEPS, BATCH, WIDTH)
    group.barrier()
    start = time.perf_counter()
    for batch in batches:
        first, count = group.share(BATCH)
        model.zero_grad()
        with group.accumulate(last=True):
            (model(batch[first : first + count]).square().sum() / BATCH).backward()
            time.sleep(count * ITEM_S * (SLOWER if group.rank else 1))
        group.finish(ran_out=False)
        group.record_speed(count)
    seconds = time.perf_counter() - start
    added = [one.grad.clone() for one in model.parameters()]
    group.close()
    model.zero_grad()
    (model(batches[-1]).square().sum() / BATCH).backward()
    error = max(
        float((one.grad - other).abs().max())
        for one, other in zip(model.parameters(), added, strict=True)
    )
    return {"items_s": STEPS * BATCH / seconds, "error": error}


if __name__ == "__main__":
    result = train_rank(sys.argv[1], os.environ)
    if os.environ["RANK"] == "0":
        Path(sys.argv[2]).write_text(json.dumps(result))
