"""Where a run meets its edges: other kernels, formats and processes, a signal in between."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError, OutOfMemoryError
from anyrig.precision.scaler import collect_gradients
from anyrig.precision.settings import ScalerSettings
from anyrig.training import TrainConfig, Trainer
from anyrig.training.checkpoint import Checkpointer
from anyrig.training.config import CheckpointConfig, LoadingConfig
from anyrig.training.distributed.group import Group
from anyrig.training.memory import offload_optimizer
from anyrig.training.step import RestartNeeded
from tests.training.ranks.running import run_ranks

HERE: dict[str, Any] = {
    "batch": 8, "micro_batch": 8, "steps": 4, "precision": "fp32", "learning_rate": 1e-2,
    "loading": LoadingConfig(num_workers=0), "checkpoints": CheckpointConfig(every_s=0),
}  # fmt: skip


def data(count: int = 32) -> torch.utils.data.TensorDataset:
    inputs = torch.randn(count, 4, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())


def model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def loss(net: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.mse_loss(net(batch[0]), batch[1])


def trainer(changed: dict[str, Any] | None = None, **options: Any) -> Trainer:
    given = {"data": data(), "loss": loss, "device": "cpu", **options}
    settings = TrainConfig(**{**HERE, **(changed or {})})
    return Trainer(given.pop("net", None) or model(), config=settings, **given)


@pytest.mark.parametrize(
    ("optimizer", "fused"), [("adamw", "auto"), ("adamw", False), ("sgd", "auto")]
)
def test_the_guard_holds_whatever_kernels_step(optimizer: str, fused: Any) -> None:
    calls = []

    def second_is_bad(net: nn.Module, batch: Any) -> torch.Tensor:
        calls.append(1)
        return loss(net, batch) * (float("nan") if len(calls) == 2 else 1.0)

    with trainer({"fused_optimizer": fused}, loss=second_is_bad, optimizer=optimizer) as one:
        assert one.run().num_skipped == 1
        for state in one.open().train_step.optimizer.state.values():
            assert all(bool(torch.isfinite(torch.as_tensor(held)).all()) for held in state.values())


@pytest.mark.parametrize(
    ("changed", "collected"),
    [({"max_norm": 0, "guard": False}, 0), ({"max_norm": 1.0, "guard": False}, 4),
     ({"max_norm": 0, "guard": True, "fused_optimizer": False}, 4)],
)  # fmt: skip
def test_gradients_are_collected_only_to_clip_or_to_check(
    changed: dict[str, Any], collected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def count(*given: Any) -> Any:
        calls.append(given)
        return collect_gradients(*given)

    monkeypatch.setattr("anyrig.precision.scaler.collect_gradients", count)
    with trainer(changed) as one:
        one.run()
    assert len(calls) == collected


def test_fp16_on_a_cpu_is_warned_of_before_the_first_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    steps: list[str] = []

    def watched(net: nn.Module, batch: Any) -> torch.Tensor:
        steps.extend(caplog.messages)
        return loss(net, batch)

    with trainer({"precision": "fp16", "steps": 1}, loss=watched) as one:
        one.run()
    assert "far slower in fp16 than in fp32: use bf16 or fp32" in steps[0]


@pytest.mark.parametrize(("before", "after"), [(False, "auto"), ("auto", False)])
def test_a_run_goes_on_with_other_kernels(before: Any, after: Any, tmp_path: Path) -> None:
    steady = {"schedule": "constant", "warmup": 0}
    with trainer({**steady, "steps": 8, "fused_optimizer": after}) as one:
        whole = one.run().loss
    with trainer({**steady, "steps": 4, "fused_optimizer": before}, folder=tmp_path) as one:
        one.run()
    with trainer({**steady, "steps": 8, "fused_optimizer": after}, folder=tmp_path) as one:
        summary = one.run()
    assert summary.resumed_from == 4
    assert summary.loss == pytest.approx(whole, rel=1e-5)


def test_a_checkpoint_has_the_validation_loss_of_its_own_step_or_none(tmp_path: Path) -> None:
    often = {
        "steps": 5,
        "validate_every": 2,
        "checkpoints": CheckpointConfig(every_s=0, every_steps=1, last=9),
    }
    with trainer(often, folder=tmp_path, validation=data(8)) as one:
        one.run()
    kept = Checkpointer(tmp_path / "checkpoints").all()
    assert [row.step for row in kept if row.loss is not None] == [2, 4, 5]


class Lockstep(Group):
    """Ddp that wait for each other, of which this is the only one here."""

    lockstep = True

    def share(self, num_items: int) -> tuple[int, int]:
        if num_items % 2:
            raise InvalidSettingError(f"{num_items} cannot be halved", hint="Take an even batch.")
        return super().share(num_items)


def test_what_cannot_be_shared_at_an_epochs_end_is_refused_at_its_start() -> None:
    uneven = {"drop_last": False, "steps": 0, "epochs": 2}
    with (
        trainer(uneven, data=data(29), group=Lockstep()) as one,
        pytest.raises(InvalidSettingError),
    ):
        one.open()
    with trainer({"steps": 0}, data=data(29), group=Lockstep()) as one:
        assert one.run().steps == 3


def test_a_new_start_halves_what_was_computed_at_once() -> None:
    def too_large(net: nn.Module, batch: Any) -> torch.Tensor:
        if len(batch[0]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss(net, batch)

    with trainer({"micro_batch": 500}, loss=too_large, group=Lockstep()) as one:
        step = one.open().train_step
        with pytest.raises(RestartNeeded) as asked:
            step([row[:8] for row in data().tensors])
    assert asked.value.micro_batch == 4


def own_optimiser(environment: Any) -> float | None:
    net = model()
    made = torch.optim.AdamW(net.parameters(), lr=1e-2)
    with trainer({"strategy": "fsdp"}, net=net, optimizer=made, environment=environment) as one:
        return one.run().loss


def test_an_optimiser_made_before_trains_shards() -> None:
    net = model()
    with trainer(net=net, optimizer=torch.optim.AdamW(net.parameters(), lr=1e-2)) as one:
        alone = one.run().loss
    assert run_ranks(own_optimiser) == [pytest.approx(alone, rel=1e-5)] * 2


def failing(environment: Any) -> bool:
    with pytest.raises(InvalidSettingError):
        trainer(optimizer="adamo", environment=environment).open()
    with trainer(environment=environment) as one:
        return one.run().finished


def test_a_run_follows_one_that_cannot_open() -> None:
    assert run_ranks(failing) == [True, True]


def masked(net: nn.Module, batch: Any) -> torch.Tensor:
    """A mean that is 0 / 0 where nothing counts."""
    inputs, targets, counts = batch
    mean: torch.Tensor = ((net(inputs) - targets).square() * counts).sum() / counts.sum()
    return mean


def num_counting(batch: Any) -> int:
    return int(batch[2].sum())


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_items_that_do_not_count_leave_no_trace_however_they_are_cut(precision: str) -> None:
    counts = torch.ones(32, 1)
    counts[4:8] = 0
    counts[8:16] = 0  # a whole batch
    items = torch.utils.data.TensorDataset(*data().tensors, counts)
    found = []
    for size in (8, 4):
        changed = {"micro_batch": size, "shuffle": False, "precision": precision,
                   "scaler": ScalerSettings(initial=256.0)}  # fmt: skip
        net = model()
        with trainer(changed, net=net, data=items, loss=masked, units=num_counting) as one:
            assert one.run().num_skipped == 0
        found.append(torch.cat([weight.detach().flatten() for weight in net.parameters()]))
    apart = float((found[0] - found[1]).abs().max())
    assert apart < (1e-6 if precision == "fp32" else 1e-3)


def test_units_are_counted_on_the_batch_as_it_was_read() -> None:
    """On the device counting would wait for it; in a step's precision it might not even fit."""
    kinds = set()

    def units(batch: Any) -> int:
        kinds.add(batch[0].dtype)
        return len(batch[0])

    halves = torch.utils.data.TensorDataset(*(one.half() for one in data().tensors))
    with trainer({"micro_batch": 4}, data=halves, units=units) as one:
        one.run()
    assert kinds == {torch.float16}


class ShortOnce(torch.optim.AdamW):
    """Runs out of memory in the second piece of its first step."""

    calls = 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        if self.calls == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().step(closure)


def test_pieces_of_an_offloaded_step_are_not_stepped_twice() -> None:
    net = model()
    optimiser = ShortOnce(net.parameters(), lr=1e-2, fused=True)
    offload_optimizer(optimiser, piece_bytes=1)
    with trainer(net=net, optimizer=optimiser) as one, pytest.raises(OutOfMemoryError):
        one.run()
    assert optimiser.calls == 2


def test_no_batch_outlives_a_run() -> None:
    seen = []

    def looking(net: nn.Module, batch: Any) -> torch.Tensor:
        seen.append(weakref.ref(batch[0]))
        return loss(net, batch)

    with trainer(loss=looking) as one:
        one.run()
    gc.collect()
    assert one.history()
    assert [held for held in seen if held() is not None] == []


def test_what_a_resumed_run_asks_of_its_optimiser_holds_and_is_told(tmp_path: Path) -> None:
    with trainer(folder=tmp_path) as one:
        one.run()
    changed = {"steps": 8, "weight_decay": 0.5, "betas": (0.8, 0.9)}
    with trainer(changed, folder=tmp_path) as one:
        run = one.open()
        first, second = run.train_step.optimizer.param_groups
        assert (first["weight_decay"], first["betas"]) == (0.5, (0.8, 0.9))
        assert second["weight_decay"] == 0.0
        assert one.recorder is not None
        told = " ".join(event.text for event in one.recorder.events)
    assert "weight_decay was 0.01 and is 0.5: it holds from here on" in told


CPU = TrainConfig(
    batch=4, micro_batch=4, steps=2, precision="fp32", loading=LoadingConfig(num_workers=0)
)
PAIRS = [(torch.ones(3), torch.ones(1)) for _ in range(16)]


def run(**options: Any) -> Any:
    given = {"data": PAIRS, "loss": loss, "config": CPU, "device": "cpu", **options}
    with Trainer(given.pop("net", None) or nn.Linear(3, 1), **given) as trainer:
        return trainer.run()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda net, batch: (net(batch[0]) - batch[1]).square(), "a tensor of the shape"),
        (lambda net, batch: 1.0, "a float"),
        (lambda net, batch: loss(net, batch).detach(), "a number without a gradient"),
    ],
)
def test_losses_that_cannot_be_trained_on(wrong: Any, words: str) -> None:
    with pytest.raises(InvalidSettingError, match=words) as caught:
        run(loss=wrong)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("data", "words"), [([], "is empty"), (iter(PAIRS), "cannot be used as validation")]
)
def test_validation_that_cannot_be_used_is_refused_before_the_first_step(
    data: Any, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        run(validation=data)


def test_a_validation_that_is_not_finite_ends_no_run(tmp_path: Path) -> None:
    nan = [(torch.full((3,), torch.nan), torch.ones(1)) for _ in range(4)]
    kept = TrainConfig(**{**vars(CPU), "checkpoints": CheckpointConfig(every_steps=1, every_s=0),
                       "validate_every": 1})  # fmt: skip
    summary = run(validation=nan, folder=tmp_path / "run", config=kept)
    assert summary.finished
    assert summary.validation["loss"] != summary.validation["loss"]
    assert summary.checkpoint is not None
    longer = TrainConfig(**{**vars(kept), "steps": 3})
    assert run(validation=nan, folder=tmp_path / "run", config=longer).resumed_from == 2


def test_a_model_that_does_not_fit_its_checkpoint_gets_a_hint_that_is_true(tmp_path: Path) -> None:
    run(folder=tmp_path / "run")
    with pytest.raises(InvalidInputError, match="not this model's") as caught:
        run(net=nn.Linear(3, 2), folder=tmp_path / "run")
    assert "module." not in caught.value.hint
