"""What a run is watched for: alerts, values that are not finite, FLOPs."""

from __future__ import annotations

import copy
import dataclasses
import math
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from anyrig.backends.memory import MemoryUsage
from anyrig.training.settings import Loading, Settings
from anyrig.training.watch import alerts
from anyrig.training.watch.alerts import Alarm, Alert, Rules
from anyrig.training.watch.figures import Counted
from anyrig.training.watch.flops import count_flops
from anyrig.training.watch.health import NotFinite, find_nonfinite


def counted(number: int, **changed: Any) -> Counted:
    given: dict[str, Any] = {
        "number": number, "epoch": 1, "loss": 2.0, "units": 10, "samples": 4, "own_samples": 4,
        "rate": 0.1, "micro_batch": 2, "num_micro": 2, "precision": "bf16", "skipped": False,
        "grad_norm": 1.0, "scale": 1.0, "num_retries": 0, "step_s": 0.5, "phases": {},
        "elapsed_s": 1.0, "epoch_s": 1.0, "time_s": float(number), **changed,
    }  # fmt: skip
    return Counted(**given)


def run(steps: Iterable[dict[str, Any]]) -> list[tuple[str, int]]:
    alarm = Alarm()
    found: list[Alert] = []
    for number, changed in enumerate(steps, start=1):
        found += alarm.check(counted(number, **changed))
    assert all(one.text and one.hint.endswith(".") for one in found)
    assert all(one.time_s == one.step for one in found)
    return [(one.kind, one.step) for one in found]


def of(field: str, values: Iterable[Any]) -> list[dict[str, Any]]:
    return [{field: value} for value in values]


def test_a_run_that_has_learnt_nearly_all_may_have_a_hard_batch() -> None:
    """One item of 32 told wrong, as in the example of shapes: no reason to call anybody."""
    falling = [{"loss": 1.4 * 0.97**n, "grad_norm": 3.0 * 0.98**n} for n in range(180)]
    assert run([*falling, {"loss": 0.12, "grad_norm": 2.2}, *falling[-20:]]) == []
    spoilt = [*falling, {"loss": 0.8, "grad_norm": 12.0}, *falling[-20:]]
    assert run(spoilt) == [("loss-spike", 181), ("gradient-explodes", 181)]


def test_hints_name_settings_that_there_are() -> None:
    """Words that look like a setting's name are one."""
    known = {one.name for kind in (Settings, Loading) for one in dataclasses.fields(kind)}
    source = Path(alerts.__file__).read_text(encoding="utf-8")
    hints = re.findall(r"hint = ([\"'])(.*)\1\n", source)
    named = {word for _, hint in hints for word in re.findall(r"\b[a-z]+_[a-z_]+\b", hint)}
    assert len(hints) >= 8
    assert named <= known


def test_a_quiet_run_says_nothing() -> None:
    noise = random.Random(1)
    falls = [10 * math.exp(-n / 100) + 1 + noise.gauss(0, 0.05) for n in range(1000)]
    norms = [math.exp(noise.gauss(0, 0.4)) for _ in range(1000)]
    steps = [
        {"loss": loss, "grad_norm": norm, "step_s": 0.5 + noise.random() / 10,
         "phases": {"data": 0.05}}
        for loss, norm in zip(falls, norms, strict=True)
    ]  # fmt: skip
    assert run(steps) == []


def test_a_loss_that_is_not_finite() -> None:
    losses = [2.0, math.nan, math.nan, *[2.0] * 10, math.inf]
    assert run(of("loss", losses)) == [("loss-nonfinite", 2), ("loss-nonfinite", 14)]


def test_a_spike_is_told_once_and_a_new_level_becomes_usual() -> None:
    noise = random.Random(2)
    calm = [2 + noise.gauss(0, 0.05) for _ in range(60)]
    assert run(of("loss", [*calm, 9.0, 9.0, *calm[:20], 9.0])) == [
        ("loss-spike", 61),
        ("loss-spike", 83),
    ]
    assert run(of("loss", [*calm, *[4.0] * 200])) == [("loss-spike", 61)]
    assert run(of("loss", [*calm, 2.3])) == []


def test_gradients_explode() -> None:
    assert run(of("grad_norm", [1.0] * 30 + [20.0])) == [("gradient-explodes", 31)]
    assert run(of("grad_norm", [1.0] * 30 + [math.inf])) == [("gradient-explodes", 31)]
    assert run(of("grad_norm", [None] * 30 + [5.0])) == []


def test_many_skipped_steps() -> None:
    assert run(of("skipped", [False] * 100 + [True, False, False, False, False, False] * 20)) == []
    assert run(of("skipped", [False] * 40 + [True] * 20)) == [("steps-skipped", 50)]


def test_data_that_starves_the_device() -> None:
    starved = [{"phases": {"data": 0.2}}] * 40
    assert run(starved) == [("data-starves", 23)]
    slow_start = [{"phases": {"data": 0.45}}] * 3 + [{"phases": {"data": 0.05}}] * 40
    assert run(slow_start) == []


def test_throughput_that_fell() -> None:
    assert run(of("step_s", [9.0] * 3 + [0.5] * 60)) == []
    # Two blocks of 20 steps in a row: three warm-up steps, three good blocks, two slow ones.
    fell = of("step_s", [0.5] * 63 + [1.0] * 90)
    assert run(fell) == [("throughput-fell", 103)]
    assert run([*fell, *of("step_s", [0.5] * 63 + [1.0] * 90)]) == [
        ("throughput-fell", 103),
        ("throughput-fell", 263),
    ]
    noise = random.Random(3)
    assert run(of("step_s", [1e-4 * (1 + 3 * noise.random()) for _ in range(3000)])) == []


def test_memory_near_its_end() -> None:
    alarm = Alarm()

    def kinds(allocated: int, reserved: int, free: int) -> list[str]:
        memory = MemoryUsage(allocated, reserved, None, None, free, 1000)
        return [one.kind for one in alarm.check_memory(memory, 1, 0.0)]

    assert kinds(500, 950, 40) == []  # the framework holds what no tensor uses
    assert kinds(950, 960, 30) == ["memory-full"]
    assert kinds(950, 960, 30) == []
    for _ in range(10):
        assert kinds(100, 200, 800) == []
    assert kinds(950, 960, 30) == ["memory-full"]
    assert alarm.check_memory(MemoryUsage(1, 2), 1, 0.0) == []


def test_a_step_between_two_looks_at_memory_does_not_forget_it() -> None:
    alarm = Alarm()
    full = MemoryUsage(950, 960, None, None, 30, 1000)
    told = 0
    for number in range(1, 50):
        alarm.check(counted(number))
        told += len(alarm.check_memory(full, number, 0.0))
    assert told == 1


@pytest.mark.parametrize(("step_s", "limit"), [(0.1, 10.0), (2.0, 40.0)])
def test_a_hang_is_told_after_a_while_and_again_after_a_step(step_s: float, limit: float) -> None:
    alarm = Alarm(Rules(stall_s=10.0))
    for number in range(1, 9):
        alarm.check(counted(number, step_s=step_s))
    assert alarm.check_stall(limit - 0.5, 8, 0.0) == []
    assert [one.kind for one in alarm.check_stall(limit + 0.5, 8, 0.0)] == ["stalled"]
    assert alarm.check_stall(limit + 5, 8, 0.0) == []
    alarm.check(counted(9, step_s=step_s))
    assert [one.kind for one in alarm.check_stall(limit + 0.5, 9, 0.0)] == ["stalled"]


class Spoils(nn.Module):
    """Its output is not finite from a position on."""

    def __init__(self, value: float = float("inf")) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[0, :3] = self.value
        return x


class SpoilsGradient(nn.Module):
    """Its output is finite, the gradient of its input is not: the root at zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 0).sqrt()


def runs(model: nn.Module, inputs: torch.Tensor) -> Any:
    def run() -> torch.Tensor:
        loss: torch.Tensor = model(inputs).float().pow(2).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    return run


def found_in(model: nn.Module, inputs: torch.Tensor | None = None) -> NotFinite | None:
    return find_nonfinite(model, runs(model, torch.randn(4, 8) if inputs is None else inputs))


def nested(inner: nn.Module) -> nn.Module:
    block = nn.Sequential(nn.Linear(8, 8), inner, nn.Linear(8, 8))
    return nn.Sequential(nn.Linear(8, 8), nn.ModuleDict({"block": block})["block"], nn.Tanh())


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_an_output(value: float) -> None:
    found = found_in(nested(Spoils(value)))
    assert found is not None
    assert (found.module, found.kind, found.what) == ("1.1", "Spoils", "output")
    assert (found.num_bad, found.num_values, found.shape) == (3, 32, (4, 8))
    assert found.text == "1.1 (Spoils): output is not finite: 3 of 32 values (4x8, float32)"


def test_a_gradient() -> None:
    class Adds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(Adds(), SpoilsGradient()), Adds())
    found = found_in(model)
    assert found is not None
    assert (found.module, found.kind, found.what) == ("1.1", "SpoilsGradient", "gradient")


def test_a_weight_and_a_buffer() -> None:
    model = nested(nn.BatchNorm1d(8))
    with torch.no_grad():
        model.get_parameter("1.2.weight")[0, 0] = float("nan")
    found = found_in(model)
    assert found is not None
    assert (found.module, found.what, found.name, found.num_bad) == ("1.2", "weight", "weight", 1)
    model = nested(nn.BatchNorm1d(8))
    model.get_buffer("1.1.running_var").fill_(float("inf"))
    found = found_in(model)
    assert found is not None
    assert (found.module, found.what, found.name) == ("1.1", "buffer", "running_var")


def test_a_mask_is_no_fault() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            mask = torch.full((8, 8), float("-inf")).triu(1)
            self.register_buffer("mask", mask)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x @ x.T @ torch.ones(4, 8)) + (x.T @ x + self.get_buffer("mask")).softmax(-1)[
                :4
            ]

    assert found_in(nested(Masked())) is None


def test_the_data() -> None:
    inputs = torch.randn(4, 8)
    inputs[2, 2] = float("nan")
    found = found_in(nested(nn.ReLU()), inputs)
    assert found is not None
    assert (found.module, found.what, found.num_bad) == ("", "input", 1)


def test_nothing_is_changed() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(), SpoilsGradient())
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    inputs = torch.linspace(0, 1, 32).view(4, 8)
    assert found_in(model, inputs) is not None
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(
        weight.grad is not None and bool((weight.grad == 1).all()) for weight in model.parameters()
    )
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not any(weight._backward_hooks for weight in model.parameters())


def total(output: torch.Tensor) -> torch.Tensor:
    return output.float().sum()


def plain_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return total(model(batch))


class Attention(nn.Module):
    """Self-attention of several heads, its blocks computed again in the backward pass if wanted."""

    def __init__(self, width: int, heads: int, *, again: bool = False, reentrant: bool = False):
        super().__init__()
        self.joint = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.heads, self.again, self.reentrant = heads, again, reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.again:
            out: torch.Tensor = checkpoint(self.attend, x, use_reentrant=self.reentrant)
            return out
        return self.attend(x)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.joint(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


def on_paper(batch: int, length: int, width: int, *, inputs_need_gradients: bool) -> int:
    """2 m k n for each product: weights 4 d^2, attention 2 T d, forward and twice backward."""
    joint = 2 * batch * length * width * 3 * width
    out = 2 * batch * length * width * width
    attention = 2 * 2 * batch * length * length * width
    return 3 * (out + attention) + (3 if inputs_need_gradients else 2) * joint


def test_two_linear_layers() -> None:
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16))
    found = count_flops(model, plain_loss, torch.randn(8, 32), 8)
    assert found is not None
    assert found.total == 2 * (2 * 8 * 32 * 48) + 3 * (2 * 8 * 48 * 16)


def test_attention_is_counted() -> None:
    found = count_flops(Attention(32, 4), plain_loss, torch.randn(2, 16, 32), 2)
    assert found is not None
    assert found.total == on_paper(2, 16, 32, inputs_need_gradients=False)


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_computed_again_is_no_useful_work(reentrant: bool) -> None:
    inputs = torch.randn(2, 16, 32, requires_grad=reentrant)
    plain = count_flops(Attention(32, 4), plain_loss, inputs, 2)
    again = count_flops(Attention(32, 4, again=True, reentrant=reentrant), plain_loss, inputs, 2)
    assert plain is not None
    assert again == plain


def test_nothing_changes_and_nothing_is_computed() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(3)
    state = torch.get_rng_state()
    batch = {"x": torch.randn(4, 8), "label": "kept as it is"}
    torch.set_rng_state(state)

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        assert batch["label"] == "kept as it is"
        return total(model(batch["x"]))

    assert count_flops(model, loss, batch, 4) is not None
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


def test_tensors_outside_of_the_state_and_tied_weights() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 16)
            self.head = nn.Linear(16, 50, bias=False)
            self.head.weight = self.table.weight
            self.kept = {"scales": [torch.ones(16)]}

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(self.table(ids) * self.kept["scales"][0])
            return out

    found = count_flops(Tied(), plain_loss, torch.zeros(4, 8, dtype=torch.long), 4)
    assert found is not None
    assert found.total == 3 * 2 * 4 * 8 * 16 * 50


def test_a_model_larger_than_the_memory_is_counted() -> None:
    with torch.device("meta"):
        model = nn.Linear(200_000, 200_000, bias=False)
    found = count_flops(model, plain_loss, torch.empty(64, 200_000, device="meta"), 64)
    assert found is not None
    assert found.total == 2 * (2 * 64 * 200_000**2)


def test_a_model_that_looks_at_its_values_has_no_count(caplog: pytest.LogCaptureFixture) -> None:
    class Looks(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) if x.sum().item() > 0 else super().forward(-x)

    with caplog.at_level("INFO"):
        assert count_flops(Looks(4, 4), plain_loss, torch.randn(2, 4), 2) is None
    assert "no MFU" in caplog.text
