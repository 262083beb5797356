"""A whole run of the trainer as one of several processes, or alone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anyrig.training import Callback, TrainConfig, Trainer
from anyrig.training.config import CheckpointConfig, LoadingConfig, choose_placement


def model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).double()


def data(count: int = 64, seed: int = 1) -> torch.utils.data.TensorDataset:
    inputs = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    inputs = inputs.double()
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())


def loss(net: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.mse_loss(net(batch[0]), batch[1])


def size(net: nn.Module, batch: Any) -> tuple[float, float]:
    return float(net(batch[0]).abs().sum()), len(batch[0])


def run(
    environment: Mapping[str, str],
    folder: str | None = None,
    validation: int = 0,
    slow_rank: str = "",
    named: bool = False,
    **changed: Any,
) -> dict[str, Any]:
    """What a run comes to, in words and figures."""
    settings = TrainConfig(
        **{
            "batch": 8, "micro_batch": 2, "steps": 6, "learning_rate": 1e-2, "schedule": "constant",
            "warmup": 0,
            "loading": LoadingConfig(num_workers=0),
            "checkpoints": CheckpointConfig(every_s=0, every_steps=3),
            **changed,
        }
    )  # fmt: skip
    sizes: list[int] = []

    def seen(net: nn.Module, batch: Any) -> torch.Tensor:
        if net.training:
            sizes.append(len(batch[0]))
            if environment.get("RANK") == slow_rank:
                time.sleep(0.01 * len(batch[0]))
        return loss(net, batch)

    notes = Notes()
    placement = choose_placement(settings, "cpu")
    if named:  # as two cards of different kinds would be
        name = f"card {environment.get('RANK')}"
        placement = replace(placement, device=replace(placement.device, name=name))
    with Trainer(
        model(), data=data(), loss=seen, config=settings, placement=placement, callbacks=[notes],
        environment=environment, folder=Path(folder) if folder else None,
        validation=data(validation, 9) if validation else None, metrics={"size": size},
    ) as trainer:  # fmt: skip
        opened = trainer.open()
        kind = type(opened.group).__name__
        summary = trainer.run()
        weights = opened.group.state_dict(opened.model)
        curve = [row.loss for row in trainer.history()]
        return {
            "group": kind, "curve": curve, "validation": dict(summary.validation),
            "weights": {name: value.clone() for name, value in weights.items()},
            "resumed_from": summary.resumed_from, "finished": summary.finished,
            "sizes": sizes, "processes": notes.texts,
        }  # fmt: skip


class Notes(Callback):
    """What was said of the processes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_event(self, trainer: Trainer, kind: str, text: str) -> None:
        if kind == "processes":
            self.texts.append(text)


def run_with(environment: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The same with options by name, as a process is started with."""
    return run(environment, **options)


class MeanError:
    """A metric object that knows nothing of other processes."""

    def reset(self) -> None:
        self.total = self.count = 0.0

    def update(self, outputs: torch.Tensor, targets: torch.Tensor) -> None:
        self.total += float((outputs - targets).abs().sum())
        self.count += len(targets)

    def compute(self) -> float:
        return self.total / self.count


def normed_model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).double()


def measure_normed(environment: Mapping[str, str], count: int) -> dict[str, Any]:
    """Figures of a model whose batch statistics differ between processes."""
    with Trainer(
        normed_model(), data(), loss=nn.MSELoss(), validation=data(count, 9), batch=8,
        micro_batch=4, steps=3, learning_rate=1e-2, device="cpu", environment=environment,
        metrics={"error": MeanError()}, loading=LoadingConfig(num_workers=0),
    ) as trainer:  # fmt: skip
        figures = dict(trainer.fit().validation)
        return {"figures": figures, "weights": dict(trainer.model.state_dict())}
