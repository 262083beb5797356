"""Runs that meet trouble in every way and end as if nothing had been."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import OutOfMemoryError
from anyrig.training import TrainConfig, Trainer
from anyrig.training.config import CheckpointConfig, LoadingConfig

TEXT = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"


def data(count: int = 256) -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(count, 6, generator=generator)
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())


class Net(nn.Module):
    """A small model that can be told to run out of memory, and to overflow, at chosen calls."""

    def __init__(self, dropout: float = 0.0, *, batch_norm: bool = False) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16) if batch_norm else nn.Identity()
        self.drop = nn.Dropout(dropout)
        self.last = nn.Linear(16, 1)
        self.calls = 0
        self.largest = 10**9
        self.fail_calls: set[int] = set()
        self.fail_backward = False

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if len(inputs) > self.largest or self.calls in self.fail_calls:
            self.fail_calls.discard(self.calls)
            if not self.fail_backward:
                raise torch.OutOfMemoryError(TEXT)
            inputs = inputs.clone().requires_grad_()
            inputs.register_hook(_fail)  # type: ignore[no-untyped-call]
        found: torch.Tensor = self.last(self.drop(self.norm(torch.tanh(self.first(inputs)))))
        return found


def _fail(_: torch.Tensor) -> None:
    raise torch.OutOfMemoryError(TEXT)


def loss(net: nn.Module, batch: Any) -> torch.Tensor:
    inputs, targets = batch
    return nn.functional.mse_loss(net(inputs), targets)


def run(net: nn.Module, steps: int = 20, **changed: Any) -> tuple[list[float], Any, Trainer]:
    options: dict[str, Any] = {
        "batch": 16, "micro_batch": 8, "steps": steps, "learning_rate": 1e-2,
        "precision": "fp32", "loading": LoadingConfig(num_workers=0),
        "checkpoints": CheckpointConfig(every_s=0),
        **changed,
    }  # fmt: skip
    trainer = Trainer(net, data=data(), loss=loss, config=TrainConfig(**options), device="cpu")
    with trainer:
        summary = trainer.run()
        curve = [row.loss for row in trainer.history()]
    return curve, summary, trainer


@pytest.mark.parametrize("backward", [False, True])
def test_memory_that_runs_out_changes_nothing_in_fp64(backward: bool) -> None:
    clean, _, _ = run(Net().double())
    net = Net().double()
    net.fail_calls, net.fail_backward = {7, 22, 23}, backward
    curve, summary, _ = run(net)
    assert summary.num_retries == 3
    assert summary.micro_batch == 8  # each time for one step only
    assert curve == pytest.approx(clean, abs=1e-9)


def test_gradients_of_a_repeated_step_are_the_same_in_fp32() -> None:
    found = []
    for fail_at in (set(), {2}):
        net = Net()
        net.fail_calls = fail_at
        # One step of plain descent at rate 1: the weights move by their gradients.
        run(net, steps=1, learning_rate=1.0, schedule="constant", warmup=0, max_norm=0,
            weight_decay=0.0, guard=False)  # fmt: skip
        found.append([weight.detach().clone() for weight in net.parameters()])
    for plain, repeated in zip(*found, strict=True):
        assert torch.allclose(plain, repeated, atol=1e-6, rtol=0)


def test_statistics_are_put_back_before_a_step_is_made_again() -> None:
    net = Net(batch_norm=True)
    net.fail_calls = {2}
    run(net, steps=1)
    assert isinstance(net.norm, nn.BatchNorm1d)
    assert net.norm.num_batches_tracked is not None
    assert int(net.norm.num_batches_tracked) == 4  # 16 items in fours, not two eights more


class Counting(Net):
    """Changes buffers of every sort, from a chosen call on."""

    def __init__(self, how: str, begin: int) -> None:
        super().__init__()
        self.how, self.begin = how, begin
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("shown", torch.zeros(1).expand(3))  # three places of one number
        self.register_buffer("later", None)
        self.seen: torch.Tensor
        self.later: torch.Tensor | None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        found = super().forward(inputs)
        if self.training and self.calls >= self.begin:
            count = len(inputs)
            if self.how == "in place":
                self.seen += count
            elif self.how == "another":
                self.seen = self.seen + count
            elif self.how == "data":
                self.seen.data += count
            elif self.how == "none":
                self.later = torch.full((3,), float(count)) + (
                    0 if self.later is None else self.later
                )
            elif self.how == "grows":
                self.seen = torch.cat([self.seen, torch.full((1,), float(count))])
        return found

    def counted(self) -> float:
        if self.how == "none":
            return float(self.later[0]) if self.later is not None else 0.0
        return float(self.seen.sum()) if self.how == "grows" else float(self.seen[0])


@pytest.mark.parametrize("how", ["in place", "another", "data", "none", "grows"])
@pytest.mark.parametrize("begin", [1, 9])
def test_buffers_that_change_late_are_put_back_too(how: str, begin: int) -> None:
    """Two eights a step: the fifth step is the first to count, and fails in its second half."""
    net = Counting(how, begin)
    net.fail_calls = {10}
    _, summary, _ = run(net, steps=5)
    assert summary.num_retries == 1
    assert net.counted() == (16.0 if begin == 9 else 80.0)


def test_a_frozen_batch_norm_that_is_unfrozen_late_counts_once() -> None:
    net = Net(batch_norm=True)
    assert isinstance(net.norm, nn.BatchNorm1d)
    assert net.norm.num_batches_tracked is not None
    norm, usual = net.norm, net.norm.forward

    def late(inputs: torch.Tensor) -> torch.Tensor:
        norm.training = net.training and net.calls > 8
        return usual(inputs)

    norm.__dict__["forward"] = late
    net.fail_calls = {10}
    run(net, steps=5)
    assert int(norm.num_batches_tracked or 0) == 4  # sixteen items in fours


def test_buffers_of_a_loss_are_put_back_too() -> None:
    class Remembering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            self.seen: torch.Tensor

        def forward(self, net: nn.Module, batch: Any) -> torch.Tensor:
            found = loss(net, batch)
            self.seen += len(batch[0])
            return found

    net, criterion = Net(), Remembering()
    net.fail_calls = {4}
    settings = TrainConfig(batch=16, micro_batch=8, steps=2, precision="fp32")
    with Trainer(net, data=data(), loss=criterion, config=settings, device="cpu") as trainer:
        assert trainer.run().num_retries == 1
    assert float(criterion.seen) == 32


def test_random_numbers_are_put_back_before_a_step_is_made_again() -> None:
    whole = Net(0.3)
    clean, _, _ = run(whole, steps=6, micro_batch=4)
    # Fails at once in the first step, with eights; from then on all is in fours.
    net = Net(0.3)
    net.fail_calls = {1}
    curve, _, _ = run(net, steps=6, micro_batch=8)
    assert curve == pytest.approx(clean, rel=1e-5)


def test_an_item_that_never_fits_is_said_in_words() -> None:
    net = Net()
    net.largest = 0
    with pytest.raises(OutOfMemoryError, match="single item") as caught:
        run(net)
    assert "recompute" in caught.value.hint


def test_the_fitted_batch_is_the_largest_that_works() -> None:
    net = Net()
    net.largest = 6
    curve, summary, _ = run(net, micro_batch="auto", memory_gb=16.0)
    assert summary.micro_batch in (4, 5, 6)
    assert summary.num_retries == 0
    clean, _, _ = run(Net())
    assert curve == pytest.approx(clean, rel=1e-4)


def test_overflows_in_fp16_are_skipped_and_fp16_is_given_up() -> None:
    net = Net()

    def bad(model: nn.Module, batch: Any) -> torch.Tensor:
        value = loss(model, batch)
        return value * float("inf") if trainer.step < 120 else value

    settings = TrainConfig(batch=8, micro_batch=8, steps=150, precision="fp16",
                        loading=LoadingConfig(num_workers=0))  # fmt: skip
    with Trainer(net, data=data(), loss=bad, config=settings, device="cpu") as trainer:
        summary = trainer.run()
    assert summary.num_skipped == 120
    assert summary.precision == "fp32"
    assert summary.finished
    assert all(torch.isfinite(weight).all() for weight in net.parameters())


@pytest.mark.parametrize("fused", [True, False])
def test_what_is_not_finite_never_reaches_the_weights(fused: bool) -> None:
    net = Net()
    count = iter(range(10**6))

    def bad(model: nn.Module, batch: Any) -> torch.Tensor:
        value = loss(model, batch)
        return value * float("nan") if next(count) % 3 == 0 else value

    settings = TrainConfig(batch=8, micro_batch=8, steps=9, precision="fp32", fused_optimizer=fused,
                        loading=LoadingConfig(num_workers=0))  # fmt: skip
    with Trainer(net, data=data(), loss=bad, config=settings, device="cpu") as trainer:
        summary = trainer.run()
    assert summary.num_skipped >= 3
    assert all(torch.isfinite(weight).all() for weight in net.parameters())


def test_two_hundred_overflows_and_fifty_shortages_in_a_thousand_steps() -> None:
    """The run ends finite; without the overflowing steps it is the clean run, step for step."""
    steps = 1000
    generator = torch.Generator().manual_seed(3)
    order = torch.randperm(steps, generator=generator).tolist()
    overflowing, short = set(order[:200]), set(order[200:250])

    def train(trouble: bool) -> tuple[list[torch.Tensor], Any]:
        net = Net().double()
        seen = {"step": -1, "part": 0}

        def troubled(model: nn.Module, batch: Any) -> torch.Tensor:
            value = loss(model, batch)
            step = trainer.step
            if step != seen["step"]:
                seen.update(step=step, part=0)
                if trouble and step in short:
                    raise torch.OutOfMemoryError(TEXT)
            return value * float("inf") if step in overflowing else value

        options: dict[str, Any] = {
            "batch": 8, "micro_batch": 8, "steps": steps, "learning_rate": 1e-2,
            "loading": LoadingConfig(num_workers=0), "checkpoints": CheckpointConfig(every_s=0),
            "log_every": 1,
        }  # fmt: skip
        settings = TrainConfig(**options)
        trainer = Trainer(net, data=data(), loss=troubled, config=settings, device="cpu")
        with trainer:
            summary = trainer.run()
            return [weight.detach().clone() for weight in net.parameters()], summary

    clean, without = train(trouble=False)
    weights, summary = train(trouble=True)
    assert summary.num_skipped == without.num_skipped == 200
    assert summary.num_retries == 50
    assert summary.finished
    for plain, other in zip(clean, weights, strict=True):
        assert torch.isfinite(other).all()
        assert torch.allclose(plain, other, atol=1e-9, rtol=0)


class Hungry(torch.optim.AdamW):
    """An optimiser whose steps run out of memory at chosen times."""

    def __init__(self, groups: Any, lr: float = 1e-2, fail_at: tuple[int, ...] = ()) -> None:
        super().__init__(groups, lr=lr, fused=True)
        self.fail_at, self.num_calls = fail_at, 0

    def step(self, closure: Any = None) -> Any:
        self.num_calls += 1
        if self.num_calls in self.fail_at:
            raise torch.OutOfMemoryError(TEXT)
        return super().step(closure)


@pytest.mark.parametrize(("fail_at", "survives"), [((3,), True), ((3, 4), False)])
def test_memory_that_runs_out_in_the_optimisers_step(
    fail_at: tuple[int, ...], survives: bool
) -> None:
    def train(fails: tuple[int, ...]) -> list[float]:
        options: dict[str, Any] = {
            "batch": 16, "micro_batch": 8, "steps": 6, "precision": "fp32",
            "loading": LoadingConfig(num_workers=0),
        }  # fmt: skip
        trainer = Trainer(
            Net(), data=data(), loss=loss, config=TrainConfig(**options), device="cpu",
            optimizer=lambda groups: Hungry(groups, fail_at=fails),
        )  # fmt: skip
        with trainer:
            trainer.run()
            return [row.loss for row in trainer.history()]

    if survives:
        assert train(fail_at) == train(())
        return
    with pytest.raises(OutOfMemoryError, match="optimizer's step") as caught:
        train(fail_at)
    assert "offload_optimizer" in caught.value.hint
