from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from anyrig.backends.torch import TorchRunner, use_tf32
from anyrig.devices.machine import Device, DeviceBackend, Precision
from anyrig.errors import InvalidSettingError
from anyrig.precision.policy import PrecisionPolicy, make_policy


@pytest.fixture(autouse=True)
def flags() -> Any:
    """Restore the process's TF32 flags."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


def train(applied: PrecisionPolicy, steps: int = 60) -> tuple[float, nn.Module]:
    """A small net on a small task; the loss at the end."""
    torch.manual_seed(0)
    net = applied.cast_model(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    inputs = torch.randn(64, 8)
    wanted = inputs.sum(1, keepdim=True).sin()
    for _ in range(steps):
        optimizer.zero_grad()
        with applied.autocast():
            out = net(applied.cast_inputs(inputs))
            loss = nn.functional.mse_loss(out.float(), wanted)
        applied.backward(loss)
        applied.step(optimizer, net.parameters(), max_norm=1.0)
    return float(loss.detach()), net


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_every_format_trains_through_the_same_loop(precision: Precision) -> None:
    applied = make_policy(precision, "cpu", training=True)
    assert applied.precision == precision
    loss, net = train(applied)
    assert loss < 0.2
    assert all(p.dtype == torch.float32 for p in net.parameters())
    assert bool(applied.state_dict()) is (precision == "fp16")


class Batch(NamedTuple):
    values: torch.Tensor
    numbers: torch.Tensor


def test_inference_casts_the_whole_model_and_nested_inputs() -> None:
    applied = make_policy("bf16", "cpu")
    net = applied.cast_model(nn.Linear(4, 4))
    assert net.weight.dtype == torch.bfloat16
    batch: dict[str, Any] = {
        "a": [torch.ones(2, 4)],
        "b": Batch(torch.ones(1), torch.ones(1, dtype=torch.long)),
    }
    ready = applied.cast_inputs({**batch, "c": ("text", None)})
    assert ready["a"][0].dtype == torch.bfloat16
    found = ready["b"]
    assert isinstance(found, Batch)
    assert (found.values.dtype, found.numbers.dtype) == (torch.bfloat16, torch.int64)
    assert ready["c"] == ("text", None)
    with applied.autocast():
        assert net(ready["a"][0]).dtype == torch.bfloat16


# -- tf32 ------------------------------------------------------------------------------------------


def read_old_flags() -> tuple[bool, str, bool]:
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
    )


def test_reading_old_flags_works_again_after_the_newer_api() -> None:
    """torch raises when its older flags are read after the newer API was used."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has one API only")
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    newer: Any = torch.backends.cudnn
    newer.conv.fp32_precision = "ieee"
    with pytest.raises(RuntimeError, match="legacy and new APIs"):
        _ = torch.backends.cuda.matmul.allow_tf32
    with pytest.raises(RuntimeError, match="legacy and new APIs"):
        torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError, match="legacy and new APIs"):
        _ = torch.backends.cudnn.allow_tf32
    with use_tf32(False):
        assert read_old_flags() == (False, "highest", False)
    assert read_old_flags() == (True, "high", False)  # as set through the newer API
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    device = Device("cpu", "cpu", "any", "a CPU")
    TorchRunner(device, DeviceBackend("torch", "cpu", "cpu")).time_products(8, "fp32", 1)


def test_policies_set_tf32_on_devices_that_have_it() -> None:
    """The flags are process-wide and can be set without a GPU."""
    before = read_old_flags()
    applied = make_policy("tf32", "cuda", training=True)
    assert read_old_flags() == (True, "high", True)
    applied.restore()
    applied.restore()
    assert read_old_flags() == before
    strict = make_policy("fp32", "cuda")
    assert read_old_flags() == (False, "highest", False)  # torch rounds convolutions by default
    strict.restore()
    make_policy("fp32", "cpu")
    make_policy("bf16", "cuda", training=True)
    assert read_old_flags() == before


def test_no_policy_has_fp8() -> None:
    """Training has its own; nothing else computes in it."""
    for training in (False, True):
        with pytest.raises(InvalidSettingError, match="anyrig train"):
            make_policy("fp8", "cpu", training=training)
