"""Steps out of real torch modules on the CPU, and their largest batch under a resident budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.backends import DeviceHandle, open_device
from anyrig.backends.memory import trim_heap
from anyrig.devices.discover import discover
from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError
from anyrig.memory.fit import fit
from anyrig.memory.module import Optimiser, fit_module, step_of, transformer
from anyrig.memory.oom import recognise
from anyrig.units import MIB


@pytest.fixture
def bound() -> DeviceHandle:
    machine = discover({})
    drive = next(drive for drive in machine.cpu_device.backends if drive.backend == "torch")
    return open_device(machine.cpu_device, drive)


def small() -> nn.Module:
    return transformer(1, 32, 2, 64)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("optimiser", ["adamw", "sgd", "momentum"])
def test_a_step_trains(precision: Precision, optimiser: Optimiser) -> None:
    model = small()
    before = [one.detach().clone() for one in model.parameters()]
    step = step_of(model, (8, 32), "cpu", precision=precision, optimiser=optimiser)
    step(3)
    step(2)
    changed = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert any(changed)
    assert all(one.dtype == torch.float32 for one in model.parameters())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_that_only_answers_trains_nothing(precision: Precision) -> None:
    model = small()
    step = step_of(model, (8, 32), "cpu", training=False, precision=precision)
    step(2)
    assert not model.training
    assert all(one.grad is None for one in model.parameters())
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    assert next(model.parameters()).dtype == kind


class _Speller(nn.Module):
    """Token numbers in, scores of the next one out, in one of the forms that people return."""

    def __init__(self, form: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.scores = nn.Linear(16, 50)
        self.form = form

    def forward(self, tokens: torch.Tensor) -> Any:
        assert tokens.dtype == torch.int64
        return self.form(self.scores(self.table(tokens)))


class _Answer:
    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits


@pytest.mark.parametrize(
    "form",
    [lambda x: x, lambda x: (x, None), lambda x: {"logits": x}, lambda x: {"loss": x.mean()},
     _Answer, lambda x: x[..., 0]],
)  # fmt: skip
def test_outputs_of_every_form(form: Callable[[torch.Tensor], Any]) -> None:
    step_of(_Speller(form), (6,), "cpu", vocabulary=50)(4)


def test_what_cannot_be_a_step() -> None:
    with pytest.raises(InvalidInputError, match="holds no tensor"):
        step_of(_Speller(lambda _: "text"), (6,), "cpu", vocabulary=50)(1)
    with pytest.raises(InvalidInputError, match="nothing to train"):
        step_of(nn.ReLU(), (6,), "cpu")
    with pytest.raises(InvalidInputError, match="fp8"):
        step_of(small(), (8, 32), "cpu", precision="fp8")


def test_the_largest_batch_on_this_cpu(bound: DeviceHandle) -> None:
    """Real tensors against the process's real resident memory."""
    wide = nn.Sequential(nn.Linear(4096, 256), nn.Linear(256, 16))
    trim_heap()  # what earlier tests freed would be taken first, and not seen
    now = bound.memory().allocated_bytes
    assert now is not None
    found = fit_module(wide, (512, 4096), bound, budget_bytes=now + 256 * MIB, training=False,
                       verify_steps=2, tell=lambda _: None)  # fmt: skip
    assert found.answer.peak_bytes is not None
    assert found.answer.peak_bytes <= now + 256 * MIB
    assert 2 <= found.batch <= 32  # 8 MiB of input an item
    assert found.throughput


def test_a_module_needs_a_torch_device() -> None:
    machine = discover({})
    drive = next(drive for drive in machine.cpu_device.backends if drive.backend == "onnx")
    with pytest.raises(InvalidInputError, match="bound through torch"):
        fit_module(small(), (8, 32), open_device(machine.cpu_device, drive), budget_bytes=None)


@pytest.mark.gpu
def test_the_answer_holds_on_a_real_gpu() -> None:
    """Under a cap of 4 GiB: few tries, one failure at most, and twenty more steps."""
    machine = discover({})
    gpu = next(gpu for gpu in machine.gpus if gpu.usable)
    drive = next(drive for drive in gpu.backends if drive.backend == "torch" and drive.usable)
    bound = open_device(gpu, drive)
    total = bound.memory().total_bytes
    assert total is not None
    assert bound.limit(4096 * MIB)
    try:
        device: torch.device = bound.device  # type: ignore[attr-defined]
        step = step_of(transformer(4, 512, 8, 2048), (512, 512), device, precision="bf16")
        found = fit(step, meter=bound, budget_bytes=4096 * MIB, recognise=recognise)
        assert len(found.tries) <= 6
        assert found.num_out_of_memory <= 1
        for _ in range(20):
            step(found.batch)
    finally:
        bound.limit(total)
