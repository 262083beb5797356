"""The largest micro batch through the Trainer.

As `fit`, on an H200 limited to 24 GiB with the same model and step, but found by a `Trainer` with
`micro_batch="auto"`, which allocates the optimizer's state and then tries sizes with the run's own
data and loss. The true size is found by bisection of the plain step, accelerate's finder runs it
too. Afterwards the trainer makes 20 steps.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn

from anyrig.memory.module_step import build_transformer
from anyrig.training import TrainConfig, Trainer
from anyrig.training.config import LoadingConfig
from anyrig.units import GIB
from benchmarks.fit import (
    FURTHER_STEPS,
    LENGTH,
    LIMIT_BYTES,
    SETUPS,
    WIDTH,
    LimitedGpu,
    bisect,
    run_accelerate,
    warm_up,
)
from benchmarks.harness import Row

MAX_BATCH = 256


class RandomInputs(torch.utils.data.Dataset[torch.Tensor]):
    """One random item again and again: only its size matters."""

    def __init__(self) -> None:
        self._item = torch.randn(LENGTH, WIDTH)

    def __len__(self) -> int:
        return MAX_BATCH * 32

    def __getitem__(self, number: int) -> torch.Tensor:
        return self._item


def _loss(model: nn.Module, batch: Any) -> torch.Tensor:
    loss: torch.Tensor = model(batch).float().square().mean()
    return loss


def run(hardware: str) -> list[Row]:
    device = LimitedGpu()
    warm_up(device)
    truth = bisect(device)
    print(f"bisection: {truth}", flush=True)
    peer = run_accelerate(device, 4096, SETUPS[0])
    print(f"accelerate from 4096: {peer}", flush=True)
    settings = TrainConfig(
        batch=MAX_BATCH, steps=FURTHER_STEPS, precision="bf16", memory_gb=LIMIT_BYTES / GIB,
        compile=False, learning_rate=1e-5, loading=LoadingConfig(num_workers=0),
        name_nonfinite=False,
    )  # fmt: skip
    trainer = Trainer(
        build_transformer(8, WIDTH, 16, 4096), data=RandomInputs(), loss=_loss, config=settings,
        device="cuda:0",
    )  # fmt: skip
    with trainer:
        start = time.perf_counter()
        opened = trainer.open()
        seconds = time.perf_counter() - start
        found = opened.fit
        assert found is not None
        result = trainer.fit()
    print(f"ours: {found.batch_size} in {len(found.trials)} tries, {seconds:.2f} s: {found.reason}")
    return [
        Row("through the Trainer: tries", len(found.trials), "tries", peer.tries,
            "accelerate from 4096", high=6),
        Row("through the Trainer: out of memory", found.num_out_of_memory, "times", high=1),
        Row("through the Trainer: micro batch beside the largest", found.batch_size, "items", truth,
            "bisection", 0.95, 1.05, "ratio", found.reason),
        Row("through the Trainer: all of its opening", seconds, "s", peer.seconds,
            f"accelerate from 4096, {SETUPS[0]}", high=1 / 8, judge="ratio"),
        Row("through the Trainer: steps made afterwards", result.steps, "steps",
            low=FURTHER_STEPS),
        Row("through the Trainer: shortages in those", result.num_retries, "times", high=0),
    ]  # fmt: skip
