"""The trainer over two processes is the trainer in one: curve, figures, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidSettingError
from anyrig.training import Trainer
from tests.training.ranks.running import run_ranks
from tests.training.ranks.trained import data, measure_normed, normed_model, run, run_with


def _same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found["curve"] == pytest.approx(wanted["curve"], abs=1e-9)
    assert found["validation"] == pytest.approx(wanted["validation"], abs=1e-9)
    for name, value in found["weights"].items():
        assert torch.allclose(value, wanted["weights"][name], rtol=0, atol=1e-9), name


@pytest.mark.parametrize(("strategy", "group"), [("ddp", "Ddp"), ("fsdp", "Fsdp")])
def test_two_processes_train_measure_and_resume_as_one(
    strategy: str, group: str, tmp_path: Path
) -> None:
    whole = run({}, validation=5)
    assert whole["group"] == "Group"
    options = {"strategy": strategy, "validation": 5, "folder": str(tmp_path)}
    half = run_ranks(run_with, {**options, "steps": 4})
    assert {one["group"] for one in half} == {group}
    assert half[0]["finished"]
    rest = run_ranks(run_with, options)
    assert rest[0]["resumed_from"] == 4
    _same(rest[0], whole)
    assert rest[1]["validation"] == rest[0]["validation"]


def test_a_checkpoint_of_two_goes_on_in_one(tmp_path: Path) -> None:
    whole = run({})
    run_ranks(run_with, {"steps": 4, "folder": str(tmp_path), "shares": "measured"})
    rest = run({}, folder=str(tmp_path))
    assert rest["resumed_from"] == 4
    _same(rest, whole)


def test_more_processes_than_items_to_measure() -> None:
    whole = run({}, validation=1)
    for answer in run_ranks(run_with, {"validation": 1, "strategy": "ddp"}):
        assert answer["validation"] == pytest.approx(whole["validation"], abs=1e-9)


@pytest.mark.parametrize("count", [3, 10])
def test_figures_of_two_processes_are_those_of_the_weights_that_are_saved(count: int) -> None:
    """One process has a batch less, or none, and both had batch statistics of their own."""
    first, second = run_ranks(measure_normed, count)
    model = normed_model()
    model.load_state_dict(first["weights"])
    inputs, targets = data(count, 9).tensors
    with torch.no_grad():
        outputs = model.eval()(inputs)
    wanted = {
        "loss": float(torch.nn.functional.mse_loss(outputs, targets)),
        "error": float((outputs - targets).abs().mean()),
    }
    assert first["figures"] == pytest.approx(wanted, abs=1e-9)
    assert second["figures"] == first["figures"]


@pytest.mark.parametrize("named", [False, True])
def test_unequal_devices_get_shares_by_speed_and_are_told_of(named: bool) -> None:
    """Devices of one name are taken for equal, however fast they are."""
    options = {"slow_rank": "1", "named": named, "steps": 30, "micro_batch": 8, "batch": 8}
    quick, slow = run_ranks(run_with, options)
    assert quick["sizes"][0] == slow["sizes"][0] == 4
    last = quick["sizes"][-1], slow["sizes"][-1]
    assert last[0] > last[1] if named else last == (4, 4)
    assert quick["curve"] == pytest.approx(run({}, steps=30, micro_batch=8)["curve"], abs=1e-9)
    told = quick["processes"]
    assert told[0].count("4 of 8 items, micro batch 4") == 2
    assert len(told) == 1 or named
    if named:
        assert f"process 1: card 0, {last[0]} of 8 items, micro batch {last[0]}; " in told[-1]
        assert f"process 2: card 1, {last[1]} of 8 items, micro batch {last[1]}" in told[-1]


def _train_models(environment: Mapping[str, str], is_given: bool) -> list[int]:
    """Trainers one after another, some of them open at once."""
    import torch.distributed as dist

    if is_given:
        dist.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{environment['MASTER_PORT']}",
            rank=int(environment["RANK"]), world_size=2,
        )  # fmt: skip
    trainers = [
        Trainer(nn.Linear(6, 1).double(), data(32, 1), loss=nn.MSELoss(), batch=8, device="cpu",
                environment=environment)
        for _ in range(2)
    ]  # fmt: skip
    steps = [trainers[0].fit().steps, trainers[1].fit().steps]
    for trainer in (*trainers, trainers[1]):
        trainer.close()
        steps.append(trainer.fit().steps)
    return steps


@pytest.mark.parametrize("is_given", [False, True])
def test_trainers_of_a_program_share_the_process_group(is_given: bool) -> None:
    """Also one that the program opened."""
    assert run_ranks(_train_models, is_given) == [[4] * 5] * 2


def _train_with(environment: Mapping[str, str], folder: str) -> list[float]:
    """The loss of each step with some optimizers, of plain weights or of shards."""
    found = []
    for name in ("adamw", "sgd", "momentum"):
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).double()
        with Trainer(
            net, data(32, 1), loss=nn.MSELoss(), batch=8, optimizer=name, learning_rate=1e-2,
            device="cpu", environment=environment, strategy="fsdp", validation=data(8, 2),
            ema=0.5, folder=f"{folder}/{name}",
        ) as trainer:  # fmt: skip
            result = trainer.fit()
            found += [*(one.loss for one in trainer.history()), result.validation["loss"]]
    with Trainer(  # the model is cut already
        net, data(32, 1), loss=nn.MSELoss(), batch=8, device="cpu", environment=environment,
        strategy="fsdp",
    ) as trainer:  # fmt: skip
        trainer.fit()
        found += [one.loss for one in trainer.history()]
    if environment:
        with pytest.raises(InvalidSettingError, match="adafactor cannot train the shards"):
            Trainer(
                nn.Linear(6, 1).double(), data(), loss=nn.MSELoss(), optimizer="adafactor",
                strategy="fsdp", device="cpu", environment=environment,
            ).open()  # fmt: skip
    return found


def test_shards_are_trained_and_averaged_as_plain_weights_are(tmp_path: Path) -> None:
    whole = _train_with({}, str(tmp_path / "whole"))
    for answer in run_ranks(_train_with, str(tmp_path / "shards")):
        assert answer == pytest.approx(whole, rel=1e-6)
