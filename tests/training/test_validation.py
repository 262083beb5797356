"""Validation figures and fitted batch sizes do not depend on how a batch is cut."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidInputError, OutOfMemoryError
from anyrig.training import PrintLogger, TrainConfig, Trainer
from anyrig.training.config import CheckpointConfig, LoadingConfig
from anyrig.training.losses import LanguageLoss
from anyrig.training.models.gpt import gpt
from anyrig.training.tasks.language import Perplexity, count_targets

TEXT = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"


class Encoder(nn.Module):
    """Notes how many rows it was given at once; more than `most` do not fit."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 16)
        self.seen: list[int] = []
        self.most = 10**9

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if not self.training:
            self.seen.append(len(rows))
            if len(rows) > self.most:
                raise torch.OutOfMemoryError(TEXT)
        found: torch.Tensor = torch.tanh(self.layer(rows))
        return found


def pairs(count: int = 64) -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(1)
    one = torch.randn(count, 8, generator=generator)
    return torch.utils.data.TensorDataset(
        one, one + 0.1 * torch.randn(count, 8, generator=generator)
    )


def scores(net: nn.Module, batch: Any) -> torch.Tensor:
    one, other = F.normalize(net(batch[0]), dim=-1), F.normalize(net(batch[1]), dim=-1)
    return 20 * one @ other.T


def whole_batch(function: Any) -> Any:
    function.whole_batch = True
    return function


@whole_batch
def contrastive(net: nn.Module, batch: Any) -> torch.Tensor:
    found = scores(net, batch)
    return F.cross_entropy(found, torch.arange(len(found)))


def recall(net: nn.Module, batch: Any) -> tuple[torch.Tensor, float]:
    found = scores(net, batch)
    return (found.argmax(1) == torch.arange(len(found))).sum(), float(len(found))


def mean_square(net: nn.Module, batch: Any) -> torch.Tensor:
    found: torch.Tensor = (net(batch[0]) - net(batch[1])).square().mean()
    return found


def measured(net: nn.Module, loss: Any, micro: int, **more: Any) -> dict[str, float]:
    changed = {"precision": "fp32", **more.pop("changed", {})}
    settings = TrainConfig(batch=64, micro_batch=micro, steps=1, **changed)
    options: dict[str, Any] = {"data": pairs(), "validation": pairs(), **more}
    with Trainer(net, loss=loss, config=settings, device="cpu", **options) as trainer:
        return trainer.evaluate()


@pytest.mark.parametrize("micro", [64, 33, 8, 1])
def test_a_loss_across_the_batch_does_not_depend_on_the_micro_batch(micro: int) -> None:
    net = Encoder()
    with torch.no_grad():
        whole = float(contrastive(net.eval(), pairs().tensors))
    net.seen.clear()
    found = measured(net, contrastive, micro, metrics={"recall": recall})
    assert found["loss"] == pytest.approx(whole, rel=1e-5)
    assert (
        found["recall"]
        == measured(Encoder(), contrastive, 64, metrics={"recall": recall})["recall"]
    )
    assert net.seen[0] == 64  # whole, whatever the micro batch is


def test_the_last_evaluation_batch_may_be_smaller() -> None:
    found = [measured(Encoder(), contrastive, micro, validation=pairs(100)) for micro in (64, 7)]
    assert found[0]["loss"] == pytest.approx(found[1]["loss"], rel=1e-5)


def test_a_loss_of_items_is_still_measured_in_micro_batches() -> None:
    net = Encoder()
    found = measured(net, mean_square, 8)
    assert max(net.seen) <= 8
    assert found["loss"] == pytest.approx(measured(Encoder(), mean_square, 64)["loss"], rel=1e-5)


def test_a_model_that_gives_its_own_loss_is_measured_in_micro_batches() -> None:
    class Own(Encoder):
        def forward(self, rows: Any) -> Any:
            return {"loss": (super().forward(rows[0]) - super().forward(rows[1])).square().mean()}

    found = [measured(Own(), None, micro)["loss"] for micro in (64, 8)]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize("make", [lambda: LanguageLoss(), lambda: None], ids=["ours", "plain"])
def test_perplexity_costs_no_forward_pass_of_its_own(make: Callable[[], Any]) -> None:
    model = gpt("nano", vocabulary=32, context=16)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += not model.training

    model.register_forward_pre_hook(count)

    def plain(net: nn.Module, batch: Any) -> torch.Tensor:
        tokens = batch["tokens"]
        return F.cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    class Rows(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 12

        def __getitem__(self, number: int) -> Any:
            return {"tokens": (torch.arange(9) * (number + 3)) % 32}

    loss = make() or plain
    settings = TrainConfig(batch=4, micro_batch=4, steps=1, precision="fp32")
    with Trainer(
        model, data=Rows(), validation=Rows(), loss=loss, units=count_targets, config=settings,
        metrics={"perplexity": Perplexity()}, device="cpu",
    ) as trainer:  # fmt: skip
        trainer.evaluate()
        calls = 0
        found = trainer.evaluate()
    assert calls == 3
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]), rel=1e-6)


class Net(nn.Module):
    """Dropout, batch statistics, a counter, and a size that it cannot go beyond."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(16, 3)
        self.register_buffer("calls", torch.zeros(()))
        self.calls: torch.Tensor
        self.sizes: list[tuple[bool, int]] = []
        self.most = {True: 10**9, False: 10**9}

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.sizes.append((self.training, len(inputs)))
        if self.training:
            # Put in place of the old one, as many models do, and not changed in place.
            self.calls = self.calls + 1
        if len(inputs) > self.most[self.training]:
            raise torch.OutOfMemoryError(TEXT)
        found: torch.Tensor = self.last(self.drop(self.norm(torch.tanh(self.first(inputs)))))
        return found


def data(count: int = 64, seed: int = 1) -> torch.utils.data.TensorDataset:
    inputs = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return torch.utils.data.TensorDataset(inputs, inputs[:, :3].argmax(1))


def loss(net: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(net(batch[0]), batch[1])


def trainer(net: nn.Module, steps: int = 3, **options: Any) -> Trainer:
    given = {
        "batch": 16, "micro_batch": 16, "steps": steps, "precision": "fp32",
        "learning_rate": 1e-2, "loading": LoadingConfig(num_workers=0),
        "checkpoints": CheckpointConfig(every_s=0),
        **options.pop("changed", {}),
    }  # fmt: skip
    return Trainer(
        net, data=data(), loss=loss, config=TrainConfig(**given), device="cpu", **options
    )


def same(one: nn.Module, other: nn.Module) -> None:
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


@pytest.mark.parametrize("optimizer", ["adamw", "momentum", "adafactor", torch.optim.RMSprop])
def test_fitting_leaves_no_trace(optimizer: Any) -> None:
    fitted, plain, fresh = Net(), Net(), Net()
    with trainer(fitted, optimizer=optimizer, changed={"micro_batch": "auto"}) as one:
        run = one.open()
        assert run.fit is not None
        assert run.train_step.micro_batch == 16
        assert len(fitted.sizes) > 1
        same(fitted, fresh)
        states = torch.get_rng_state(), random.getstate()
        one.run()
        curve = [row.loss for row in one.history()]
    with trainer(plain, optimizer=optimizer) as other:
        other.open()
        assert torch.equal(states[0], torch.get_rng_state())
        assert states[1] == random.getstate()
        other.run()
        assert [row.loss for row in other.history()] == curve
    same(fitted, plain)


def test_a_step_made_again_has_the_buffers_from_before_it() -> None:
    clean, net = Net(), Net()
    with trainer(clean, steps=1, changed={"micro_batch": 8}) as one:
        one.run()
    net.most[True] = 8
    with trainer(net, steps=1) as other:
        assert other.run().num_retries == 1
    assert float(net.calls) == float(clean.calls) == 2
    same(clean, net)


# ---------------------------------------------------------------- measuring


def right(model: nn.Module, batch: Any) -> tuple[torch.Tensor, float]:
    return (model(batch[0]).argmax(1) == batch[1]).sum(), len(batch[1])


class PerClass:
    """The share of each class that was told, a mean over classes."""

    def __call__(self, model: nn.Module, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        told, true = model(batch[0]).argmax(1), batch[1]
        hits = torch.bincount(true[told == true], minlength=5)
        return hits, torch.bincount(true, minlength=5)  # classes 3 and 4 do not occur

    @staticmethod
    def after(mean: float) -> float:
        return 100 * mean


FIGURES = {"accuracy": right, "recall": PerClass()}


def test_figures_are_those_of_the_whole_data() -> None:
    net = Net()
    held = data(37, seed=9)
    with trainer(net, validation=held, metrics=FIGURES, changed={"validate_every": 2}) as one:
        summary = one.run()
        now = one.evaluate()
        assert net.training
    net.eval()
    inputs, true = held.tensors
    logits = net(inputs).detach()
    told = logits.argmax(1)
    recalls = [float((told[true == kind] == kind).float().mean()) for kind in range(3)]
    wanted = {
        "loss": float(nn.functional.cross_entropy(logits, true)),
        "accuracy": float((told == true).float().mean()),
        "recall": 100 * sum(recalls) / 3,
    }
    assert now == pytest.approx(wanted, rel=1e-5)
    # The last figures are those of the model as it is at the end.
    assert summary.validation == pytest.approx(now, rel=1e-6)


def test_measuring_changes_nothing() -> None:
    plain, measured = Net(), Net()
    with trainer(plain, steps=6) as one:
        one.run()
        curve = [row.loss for row in one.history()]
    with trainer(measured, steps=6, validation=data(20, 9), changed={"validate_every": 1}) as one:
        one.run()
        assert [row.loss for row in one.history()] == curve
    same(plain, measured)


def test_measuring_halves_where_memory_runs_out() -> None:
    plain, short = Net(), Net()
    short.most[False] = 5
    found = []
    for net in (plain, short):
        with trainer(net, validation=data(37, 9), metrics=FIGURES) as one:
            found.append(one.run().validation)
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    assert max(size for training, size in short.sizes if not training and size <= 5) == 4
    short.most[False] = 0
    with (
        pytest.raises(OutOfMemoryError, match="while the model is measured"),
        trainer(short, validation=data(5, 9)) as one,
    ):
        one.evaluate()
    assert short.training


def test_validation_data_may_come_in_a_loader() -> None:
    held = data(37, 9)
    found = []
    for given in (held, torch.utils.data.DataLoader(held, batch_size=5)):
        with trainer(Net(), validation=given) as one:
            found.append(one.run().validation)
    assert found[0] == pytest.approx(found[1])


def _classify(**options: Any) -> Trainer:
    inputs = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(inputs, (inputs[:, 0] > 0).long())
    return Trainer(nn.Linear(4, 2), data, loss=nn.CrossEntropyLoss(), device="cpu",
                   **{"validation": data, **options})  # fmt: skip


def test_the_parameters_of_a_metric_say_what_it_takes() -> None:
    with _classify(metrics={"accuracy": lambda o, t: (o.argmax(1) == t).float().mean()}) as one:
        assert 0 <= one.evaluate()["accuracy"] <= 1
    with (
        _classify(metrics={"accuracy": lambda a, b: (a.argmax(1) == b).float().mean()}) as one,
        pytest.raises(InvalidInputError, match="the model and a batch") as caught,
    ):
        one.evaluate()
    assert "outputs and targets" in caught.value.hint


def test_settings_that_change_nothing_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with _classify(validation=None, patience=2, load_best=True) as one:
        one.fit()
    assert caplog.messages == [
        "patience has no effect without validation data",
        "load_best has no effect without validation data",
        "load_best has no effect without a folder",
    ]


def test_a_warning_that_is_printed_is_not_logged_as_well(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with _classify(validation=None, patience=2, loggers=[PrintLogger()]) as one:
        one.fit()
    assert caplog.messages == []
    text = "patience has no effect without validation data"
    assert capsys.readouterr().out.count(text) == 1
