"""Steps of real torch modules, and their largest batch within a memory budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.backends import DeviceHandle, open_device
from anyrig.backends.memory import trim_heap
from anyrig.backends.torch import TorchHandle
from anyrig.devices.discover import discover
from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError
from anyrig.memory.batch_size import find_batch_size
from anyrig.memory.module_step import build_step, build_transformer
from anyrig.units import MIB
from tests.memory.conftest import GPU_LIMIT


@pytest.fixture
def device() -> DeviceHandle:
    machine = discover({})
    backend = next(backend for backend in machine.cpu_device.backends if backend.library == "torch")
    return open_device(machine.cpu_device, backend)


def small() -> nn.Module:
    return build_transformer(1, 32, 2, 64)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_step(precision: Precision) -> None:
    model = small()
    before = [one.detach().clone() for one in model.parameters()]
    step = build_step(model, (8, 32), "cpu", precision=precision)
    step(3)
    step(2)
    changed = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert any(changed)
    assert all(one.dtype == torch.float32 for one in model.parameters())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_inference_step(precision: Precision) -> None:
    model = small()
    step = build_step(model, (8, 32), "cpu", training=False, precision=precision)
    step(2)
    assert not model.training
    assert all(one.grad is None for one in model.parameters())
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    assert next(model.parameters()).dtype == kind


class _LanguageModel(nn.Module):
    """Token ids in, logits out, in one of the forms that models return."""

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
def test_output_forms(form: Callable[[torch.Tensor], Any]) -> None:
    build_step(_LanguageModel(form), (6,), "cpu", vocab_size=50)(4)


def test_invalid_modules() -> None:
    with pytest.raises(InvalidInputError, match="without a tensor"):
        build_step(_LanguageModel(lambda _: "text"), (6,), "cpu", vocab_size=50)(1)
    with pytest.raises(InvalidInputError, match="no trainable parameters"):
        build_step(nn.ReLU(), (6,), "cpu")
    with pytest.raises(InvalidInputError, match="fp8"):
        build_step(small(), (8, 32), "cpu", precision="fp8")


def test_largest_batch_on_this_cpu(device: DeviceHandle) -> None:
    """Real tensors against the process's real resident memory."""
    wide = nn.Sequential(nn.Linear(4096, 256), nn.Linear(256, 16))
    trim_heap()  # memory that earlier tests freed would be reused, and not seen
    now = device.memory().allocated_bytes
    assert now is not None
    step = build_step(wide, (512, 4096), "cpu", training=False)
    found = find_batch_size(step, device, budget_bytes=now + 256 * MIB)
    assert found.best.peak_bytes is not None
    assert found.best.peak_bytes <= now + 256 * MIB
    assert 2 <= found.batch_size <= 32  # 8 MiB of input per item
    assert found.best.rate


@pytest.mark.gpu
def test_result_holds_on_a_gpu(limited_gpu: TorchHandle) -> None:
    """Few trials, one failure at most, and twenty more steps under the limit."""
    model = build_transformer(4, 512, 8, 2048)
    step = build_step(model, (512, 512), limited_gpu.device, precision="bf16")
    found = find_batch_size(step, limited_gpu, budget_bytes=GPU_LIMIT)
    assert len(found.trials) <= 6, found.trials
    assert found.num_out_of_memory <= 1, found.trials
    for _ in range(20):
        step(found.batch_size)
