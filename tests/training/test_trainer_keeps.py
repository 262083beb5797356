"""What a person hands to the trainer stays as it is: optimizer, weights, modes, micro batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidInputError
from anyrig.training import LossOutput, TrainConfig, Trainer
from anyrig.training.callbacks import Callback
from anyrig.training.config import CheckpointConfig, LoadingConfig
from anyrig.training.distributed.group import Group, StepTotals
from anyrig.training.step import StepResult, TrainStep
from tests.training.ranks.running import run_ranks

TEXT = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"
HERE: dict[str, Any] = {"batch": 8, "micro_batch": 8, "steps": 4, "precision": "fp32",
                        "loading": LoadingConfig(num_workers=0), "device": "cpu"}  # fmt: skip


def data(count: int = 32) -> torch.utils.data.TensorDataset:
    inputs = torch.randn(count, 4, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())


def model() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def test_a_given_optimizer_keeps_its_rate_and_is_not_clipped() -> None:
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    with Trainer(net, data(), loss=nn.MSELoss(), optimizer=optimizer, **HERE) as trainer:
        trainer.fit()
        assert {row.rate for row in trainer.history()} == {1e-3}
        assert optimizer.param_groups[0]["lr"] == 1e-3
        assert any("not clipped" in reason for reason in trainer.reasons)
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    asked = {**HERE, "schedule": "linear", "warmup": 0, "max_norm": 1.0}
    with Trainer(net, data(), loss=nn.MSELoss(), optimizer=optimizer, **asked) as trainer:
        trainer.fit()
        rates = [row.rate for row in trainer.history()]
    assert rates[0] == 1e-3 > rates[-1]


def test_a_frozen_batch_norm_stays_frozen() -> None:
    norm = nn.BatchNorm1d(8)
    net = nn.Sequential(nn.Linear(4, 8), norm, nn.Linear(8, 1))
    norm.eval()
    with Trainer(net, data(), loss=nn.MSELoss(), validation=data(8), **HERE) as trainer:
        trainer.fit()
    assert int(norm.num_batches_tracked or 0) == 0
    assert (norm.training, net.training) == (False, True)
    whole = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).eval()
    Trainer(whole, data(), loss=nn.MSELoss(), **HERE).fit()
    assert whole.training


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_weights_keep_their_format(dtype: torch.dtype) -> None:
    net = model().to(dtype)

    def loss(net: nn.Module, batch: Any) -> torch.Tensor:
        return F.mse_loss(net(batch[0]), batch[1].to(dtype))

    assert Trainer(net, data(), loss=loss, **HERE).fit().finished
    assert {one.dtype for one in net.parameters()} == {dtype}


def test_frozen_weights_keep_their_format() -> None:
    first, last = nn.Linear(4, 8), nn.Linear(8, 1)
    first.to(torch.bfloat16).requires_grad_(False)
    before = last.weight.detach().clone()

    def loss(net: nn.Module, batch: Any) -> torch.Tensor:
        return F.mse_loss(net(batch[0]).float(), batch[1])

    Trainer(nn.Sequential(first, nn.Tanh(), last), data(), loss=loss, **HERE).fit()
    assert (first.weight.dtype, last.weight.dtype) == (torch.bfloat16, torch.float32)
    assert not torch.equal(last.weight, before)


class Long(nn.Module):
    """Runs out of memory with several items of chosen batches."""

    def __init__(self, long: set[int]) -> None:
        super().__init__()
        self.layer, self.long = nn.Linear(4, 1), long
        self.batches: list[int] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if len(inputs) == 8:
            self.batches.append(len(self.batches))
            if self.batches[-1] in self.long:
                raise torch.OutOfMemoryError(TEXT)
        found: torch.Tensor = self.layer(inputs)
        return found


def test_one_long_batch_does_not_make_the_micro_batch_smaller_for_good(tmp_path: Path) -> None:
    options = {**HERE, "steps": 10, "checkpoints": CheckpointConfig(every_s=0)}
    with Trainer(Long({2}), data(), loss=nn.MSELoss(), folder=tmp_path, **options) as trainer:
        result = trainer.fit()
        sizes = [row.micro_batch for row in trainer.history()]
        assert trainer.open().train_step.micro_batch == 8
    assert result.num_retries == 1
    assert sizes == [8, 8, 4, *[8] * 7]
    with Trainer(Long({1, 3, 5}), data(), loss=nn.MSELoss(), **options) as trainer:
        result = trainer.fit()
    assert (result.num_retries, result.micro_batch) == (3, 4)


# -- losses and metrics ----------------------------------------------------------------------------


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += not self.training
        found: torch.Tensor = self.layer(inputs)
        return found


class Accuracy:
    """As torchmetrics has it."""

    def __init__(self) -> None:
        self.right = self.count = 0

    def reset(self) -> None:
        self.right = self.count = 0

    def update(self, outputs: torch.Tensor, targets: torch.Tensor) -> None:
        self.right += int((outputs.argmax(1) == targets).sum())
        self.count += len(targets)

    def compute(self) -> float:
        return self.right / self.count


def right(net: nn.Module, batch: Any) -> tuple[torch.Tensor, int]:
    return (net(batch[0]).argmax(1) == batch[1]).sum(), len(batch[1])


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), F.cross_entropy])
def test_validation_runs_the_model_once_for_each_batch(loss: Any) -> None:
    inputs = torch.randn(32, 4)
    labelled = torch.utils.data.TensorDataset(inputs, torch.randint(3, (32,)))
    net = Counting()
    metrics = {
        "object": Accuracy(), "model": right,
        "outputs": lambda outputs, targets: (outputs.argmax(1) == targets).float().mean(),
    }  # fmt: skip
    with Trainer(net, labelled, loss=loss, validation=labelled, metrics=metrics, **HERE) as trainer:
        found = trainer.evaluate()
    assert net.calls == 4
    assert found["object"] == found["model"] == pytest.approx(found["outputs"])
    whole = float(F.cross_entropy(net.layer(inputs), labelled.tensors[1]).detach())
    assert found["loss"] == pytest.approx(whole, rel=1e-5)


class EachClass(Accuracy):
    def compute(self) -> Any:
        return torch.tensor([self.right, self.count])


def test_a_metric_of_several_numbers_is_refused() -> None:
    labelled = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randint(3, (8,)))
    metrics = {"object": EachClass()}
    with (
        Trainer(
            Counting(), labelled, loss=nn.CrossEntropyLoss(), validation=labelled, metrics=metrics,
            **HERE,
        ) as trainer,
        pytest.raises(InvalidInputError, match="EachClass returns more than a number"),
    ):  # fmt: skip
        trainer.evaluate()


def test_a_loss_says_its_units_and_outputs() -> None:
    """Rows have several tokens, of which some count: the mean is over those of the whole batch."""
    tokens = torch.randn(16, 4)
    weights = (torch.arange(16)[:, None] % 4 >= torch.arange(4)).float()

    def loss(net: nn.Module, batch: Any) -> LossOutput:
        given, counts = batch
        errors = ((net(given) - 1).square() * counts).sum()
        count = int(counts.sum())
        return LossOutput(errors / max(1, count), num_units=count)

    grads = []
    for micro in (16, 5):
        torch.manual_seed(0)
        net = nn.Linear(4, 4).double()
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        given = torch.utils.data.TensorDataset(tokens.double(), weights.double())
        Trainer(net, given, loss=loss, optimizer=optimizer,
                **{**HERE, "batch": 16, "micro_batch": micro, "steps": 1}).fit()  # fmt: skip
        grads.append(net.weight.detach().clone())
    assert torch.allclose(grads[0], grads[1], atol=1e-12)


# -- several processes -----------------------------------------------------------------------------


class Exchanges(Group):
    """Counts what two processes would send each other."""

    size = 2

    def __init__(self) -> None:
        self.calls: list[str] = []

    def finish(self, *, ran_out: bool, sums: Any = ()) -> StepTotals:
        self.calls.append("finish")
        return super().finish(ran_out=ran_out, sums=sums)

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        self.calls.append("sum")
        return tensor

    def max(self, tensor: torch.Tensor) -> torch.Tensor:
        self.calls.append("max")
        return tensor


def test_a_step_has_one_exchange_beside_its_gradients() -> None:
    group, counts = Exchanges(), []

    class Count(Callback):
        def on_step(self, trainer: Trainer, result: StepResult) -> None:
            counts.append(list(group.calls))
            group.calls.clear()

    Trainer(model(), data(), loss=nn.MSELoss(), group=group, callbacks=[Count()], **HERE).fit()
    assert counts == [["finish"]] * 4


def test_the_environment_of_a_launcher_is_read_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_PORT": "1",
                        "CUDA_VISIBLE_DEVICES": ""}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    options = {**HERE, "device": None}
    trainer = Trainer(model(), data(), loss=nn.MSELoss(), devices=["cpu", "cpu"], **options)
    assert trainer.environment["RANK"] == "1"
    assert trainer._choose_placement().device.kind == "cpu"
    alone = Trainer(model(), data(), loss=nn.MSELoss(), environment={}, **HERE)
    assert "RANK" not in alone.environment


def sharded(environment: Any, kind: str) -> list[float]:
    import transformers

    from anyrig.training.losses import LanguageLoss

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 61, "bos_token_id": 0, "eos_token_id": 0}
    if kind == "gpt2":
        config = transformers.GPT2Config(
            **sizes, n_positions=16, n_layer=2, n_head=2, n_embd=32,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip
        net: Any = transformers.GPT2LMHeadModel(config)
    else:
        net = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            **sizes, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=2,
        ))  # fmt: skip
    rows = [{"tokens": (torch.arange(9) * (n % 5 + 1)) % 61} for n in range(16)]
    config_ = TrainConfig(batch=8, micro_batch=4, steps=4, precision="fp32", strategy="fsdp",
                          learning_rate=1e-2, loading=LoadingConfig(num_workers=0))  # fmt: skip
    with Trainer(net, rows, loss=LanguageLoss(), config=config_, device="cpu",
                 environment=environment) as trainer:  # fmt: skip
        trainer.fit()
        return [row.loss for row in trainer.history()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_language_model_of_transformers_trains_in_shards(kind: str) -> None:
    pytest.importorskip("transformers")
    alone = sharded({}, kind)
    for curve in run_ranks(sharded, kind):
        assert curve == pytest.approx(alone, rel=1e-4)


def test_a_step_works_without_a_trainer() -> None:
    from anyrig.precision.policy import make_policy

    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    policy = make_policy("fp32", "cpu", training=True)
    step = TrainStep(
        net, optimizer, lambda m, b: F.mse_loss(m(b[0]), b[1]), policy, "cpu", micro_batch=4,
        max_norm=1.0, guard=True,
    )  # fmt: skip
    results = [step(data(8).tensors) for _ in range(5)]
    assert float(results[-1].loss) < float(results[0].loss)
    assert (results[0].num_micro, results[0].samples) == (2, 8)
