"""Weights in bf16 and their fp32 masters: saved, loaded, gathered, given back, resumed exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.devices.machine import Machine
from anyrig.errors import InvalidSettingError
from anyrig.training import Settings, Trainer, optimisers
from anyrig.training.masters import Masters
from anyrig.training.placing import placed
from anyrig.training.settings import Keeping, Loading


class Tied(nn.Module):
    """An embedding tied to a head, a norm, a buffer and a frozen layer."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.table = nn.Embedding(12, 8)
        self.norm = nn.BatchNorm1d(8)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.frozen(self.norm(self.table(tokens))))
        return found


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    tokens, targets = batch
    return nn.functional.cross_entropy(model(tokens).float(), targets)


def data() -> torch.utils.data.TensorDataset:
    tokens = torch.randint(12, (96,), generator=torch.Generator().manual_seed(3))
    return torch.utils.data.TensorDataset(tokens, (tokens * 5 + 1) % 12)


def test_a_state_is_what_the_model_had_and_goes_round_in_fp32() -> None:
    plain = {name: value.clone() for name, value in Tied().state_dict().items()}
    model = Tied()
    masters = Masters(model)
    found = masters.state_dict()
    assert list(found) == list(plain)
    for name, value in plain.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)
    # One weight under two names is one tensor, so that it is written once.
    assert found["head.weight"].data_ptr() == found["table.weight"].data_ptr()
    other = Tied(seed=1)
    theirs = Masters(other)
    theirs.load_state_dict(found)
    for name, value in plain.items():
        assert torch.equal(theirs.state_dict()[name], value)
    assert other.head.weight is other.table.weight
    assert torch.equal(other.table.weight, plain["table.weight"].bfloat16())


def test_the_model_computes_in_bf16_and_the_rest_stays() -> None:
    model = Tied()
    masters = Masters(model)
    assert model.table.weight.dtype == torch.bfloat16
    assert model.norm.weight.dtype == torch.float32
    assert model.frozen.weight.dtype == torch.float32
    assert model.norm.running_mean is not None
    assert model.norm.running_mean.dtype == torch.float32
    named = dict(masters.named_parameters())
    assert list(named) == [name for name, _ in model.named_parameters()]
    assert all(weight.dtype == torch.float32 for weight in named.values())
    assert named["frozen.weight"] is model.frozen.weight


@pytest.mark.parametrize("name", optimisers.NAMES)
def test_an_optimiser_by_name_moves_the_masters(name: str) -> None:
    model = Tied()
    masters = Masters(model)
    before = masters.state_dict()["table.weight"].clone()
    made = optimisers.make(name, masters, learning_rate=1e-3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(model, data()[:16])
    value.backward()  # type: ignore[no-untyped-call]  # torch's own
    masters.gather()
    assert model.table.weight.grad is None
    made.optimiser.step()
    masters.publish()
    after = masters.state_dict()["table.weight"]
    assert not torch.equal(before, after)
    assert torch.equal(model.table.weight, after.bfloat16())


def test_norms_of_any_shape_are_spared_from_decay() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm((4, 4)))
    plain = optimisers.split_weights(model)
    halved = optimisers.split_weights(Masters(model))
    assert [len(one) for one in plain] == [len(one) for one in halved] == [1, 3]


def test_small_gradients_of_many_micro_batches_are_added_in_fp32() -> None:
    model = nn.Linear(1, 1, bias=False)
    masters = Masters(model)
    master = next(iter(masters.parameters()))
    for size in (256.0, *[0.5] * 8):  # each half would be lost beside 256 in bf16
        model.weight.grad = torch.full_like(model.weight, size)
        masters.gather()
    assert master.grad is not None
    assert float(master.grad) == 260.0


def test_given_back_the_model_has_what_was_trained() -> None:
    model = Tied()
    masters = Masters(model)
    wanted = dict(masters.named_parameters())["table.weight"]
    with torch.no_grad():
        wanted.add_(1e-4)  # less than bf16 can tell from nothing
    masters.give_back()
    assert model.table.weight.dtype == torch.float32
    assert torch.equal(model.table.weight, wanted)
    assert model.head.weight is model.table.weight
    masters.give_back()


def half(steps: int, **changed: Any) -> Settings:
    return Settings(
        **{
            "batch": 16, "micro_batch": 8, "steps": steps, "precision": "bf16",
            "half_weights": True, "learning_rate": 1e-2, "schedule": "constant",
            "loading": Loading(num_workers=0), "keeping": Keeping(every_steps=3, every_s=0),
            **changed,
        }
    )  # fmt: skip


def run(folder: Path | None, steps: int, **changed: Any) -> tuple[list[float], Tied, Any]:
    model = Tied()
    with Trainer(model, data=data(), loss=loss, settings=half(steps, **changed), device="cpu",
                 folder=folder) as trainer:  # fmt: skip
        summary = trainer.run()
        seen = model.table.weight.dtype
        curve = [row.loss for row in trainer.history()]
    assert seen == (torch.bfloat16 if half(steps, **changed).half_weights else torch.float32)
    return curve, model, summary


def test_a_resumed_run_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    whole, trained, _ = run(None, 9)
    run(tmp_path, 5)
    curve, resumed, summary = run(tmp_path, 9)
    assert summary.resumed_from == 5
    assert curve == whole
    for name, value in trained.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
        assert value.dtype in (torch.float32, torch.int64)


def test_it_learns_what_fp32_learns() -> None:
    curve, _, _ = run(None, 40, learning_rate=3e-2)
    plain, _, _ = run(None, 40, learning_rate=3e-2, half_weights=False, precision="fp32")
    assert curve != plain
    assert curve == pytest.approx(plain, rel=0.05)
    assert curve[-1] < curve[0] / 2


def test_left_to_itself_the_number_format_goes_with_the_weights(
    machine: Callable[..., Machine],
) -> None:
    curve, _, summary = run(None, 3, precision="auto")
    assert summary.precision == "bf16"
    assert len(curve) == 3
    older = machine("no-gpu")  # a CPU that has no bf16 of its own
    assert placed(Settings(), "cpu", machine=older).precision == "fp32"
    assert placed(Settings(half_weights=True), "cpu", machine=older).precision == "bf16"


def test_an_optimiser_of_the_copies_is_refused() -> None:
    model = Tied()
    given = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        pytest.raises(InvalidSettingError, match="half_weights") as caught,
        Trainer(
            model, data=data(), loss=loss, optimizer=given, settings=half(2), device="cpu"
        ) as t,
    ):
        t.run()
    assert "by name" in caught.value.hint
    assert model.table.weight.dtype == torch.float32  # all that was begun is undone
