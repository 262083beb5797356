"""The trainer end to end: it learns, resumes exactly, and frees what it held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidSettingError
from anyrig.training import TrainConfig, Trainer
from anyrig.training.config import CheckpointConfig, LoadingConfig

HERE = TrainConfig(
    batch=8,
    micro_batch=4,
    steps=12,
    learning_rate=1e-2,
    precision="fp32",
    loading=LoadingConfig(num_workers=0),
    checkpoints=CheckpointConfig(every_steps=4, every_s=0, last=3),
)


def data(count: int = 64) -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(count, 6, generator=generator)
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())


def model(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Dropout(dropout), nn.Linear(32, 1))


def loss(net: nn.Module, batch: Any) -> torch.Tensor:
    inputs, targets = batch
    return nn.functional.mse_loss(net(inputs), targets)


def losses(trainer: Trainer) -> list[float]:
    return [row.loss for row in trainer.history()]


def trained(settings: TrainConfig = HERE, **options: Any) -> tuple[list[float], dict[str, Any]]:
    net = options.pop("net", None) or model()
    with Trainer(net, data=data(), loss=loss, config=settings, device="cpu", **options) as one:
        summary = one.run()
        found = losses(one)
    return found, {"summary": summary, "net": net}


def test_it_learns_and_says_so() -> None:
    found, rest = trained(TrainConfig(**{**vars(HERE), "steps": 60, "epochs": 1}))
    summary = rest["summary"]
    assert summary.finished
    assert summary.steps == 60
    assert found[-1] < found[0] / 2
    assert summary.loss == pytest.approx(found[-1])
    assert any(reason.startswith("optimizer") for reason in summary.reasons)


@pytest.mark.parametrize("log_every", [5, 100])
def test_the_last_steps_are_told_though_they_fill_no_line(tmp_path: Path, log_every: int) -> None:
    plain, _ = trained()
    found, rest = trained(TrainConfig(**{**vars(HERE), "log_every": log_every}), folder=tmp_path)
    summary = rest["summary"]
    told = len(plain) % log_every
    assert summary.loss == pytest.approx(sum(plain[-told:]) / told)
    assert found[-1] == summary.loss
    assert "<b>12</b>" in summary.report.read_text(encoding="utf-8")


def test_a_resumed_run_gives_the_same_losses(tmp_path: Path) -> None:
    whole, _ = trained(net=model(0.2))
    settings = TrainConfig(**{**vars(HERE), "steps": 12})
    net = model(0.2)

    class Enough(Exception):
        pass

    def stop_at_nine(inner: nn.Module, batch: Any) -> torch.Tensor:
        if len(losses(one)) >= 9:
            raise Enough
        return loss(inner, batch)

    one = Trainer(
        net, data=data(), loss=stop_at_nine, config=settings, device="cpu", folder=tmp_path
    )
    with pytest.raises(Enough), one:
        one.run()
    again, rest = trained(settings, net=model(0.2), folder=tmp_path)
    assert rest["summary"].resumed_from == 8
    assert again == whole  # what came before the resume is remembered


def test_memory_is_freed_on_leaving(tmp_path: Path) -> None:
    net = model()
    with Trainer(net, data=data(), loss=loss, config=HERE, device="cpu") as one:
        one.run()
        optimiser = one.open().train_step.optimizer
        assert optimiser.state
    assert not optimiser.state
    assert all(weight.grad is None for weight in net.parameters())


def test_micro_batches_do_not_change_the_curve() -> None:
    whole, _ = trained(TrainConfig(**{**vars(HERE), "micro_batch": 8}), net=model().double())
    for size in (1, 3, 5):
        config = TrainConfig(**{**vars(HERE), "micro_batch": size})
        pieces, _ = trained(config, net=model().double())
        assert pieces == pytest.approx(whole, abs=1e-9)


def test_an_endless_stream_needs_steps() -> None:
    class Stream(torch.utils.data.IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(data())

    with pytest.raises(InvalidSettingError, match="length of an epoch"):
        trained_stream(Stream(), TrainConfig(**{**vars(HERE), "steps": 0}))
    assert trained_stream(Stream(), HERE) == 12


def trained_stream(stream: Any, settings: TrainConfig) -> int:
    with Trainer(model(), data=stream, loss=loss, config=settings, device="cpu") as one:
        return one.run().steps
