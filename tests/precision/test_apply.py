from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from anyrig.devices.machine import Precision
from anyrig.errors import InvalidSettingError
from anyrig.precision.apply import Applied, make
from anyrig.precision.dynamic import Dynamic
from anyrig.precision.eighths import Fp8Linear, convert
from anyrig.precision.tf32 import set_tf32, tf32


@pytest.fixture(autouse=True)
def flags() -> Any:
    """Whatever a test does to the process's TF32 flags is undone."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


def train(applied: Applied, steps: int = 60) -> tuple[float, nn.Module]:
    """A small net on a small task; the loss at the end."""
    torch.manual_seed(0)
    net = applied.cast(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    inputs = torch.randn(64, 8)
    wanted = inputs.sum(1, keepdim=True).sin()
    for _ in range(steps):
        optimiser.zero_grad()
        with applied.forward():
            out = net(applied.prepare(inputs))
            loss = nn.functional.mse_loss(out.float(), wanted)
        applied.backward(loss)
        applied.step(optimiser, net.parameters(), max_norm=1.0)
    return float(loss.detach()), net


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_every_format_trains_through_the_same_loop(precision: Precision) -> None:
    applied = make(precision, "cpu", training=True)
    assert applied.precision == precision
    loss, net = train(applied)
    assert loss < 0.2
    assert all(p.dtype == torch.float32 for p in net.parameters())
    assert bool(applied.state_dict()) is (precision == "fp16")


def test_autocast_computes_in_half(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = nn.Linear(4, 4)
    for precision, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        applied = make(precision, "cpu", training=True)  # type: ignore[arg-type]
        with applied.forward():
            assert layer(torch.ones(2, 4)).dtype == dtype
    with make("fp32", "cpu").forward():
        assert layer(torch.ones(2, 4)).dtype == torch.float32


class Batch(NamedTuple):
    values: torch.Tensor
    numbers: torch.Tensor


def test_inference_casts_the_whole_model_and_nested_inputs() -> None:
    applied = make("bf16", "cpu")
    net = applied.cast(nn.Linear(4, 4))
    assert net.weight.dtype == torch.bfloat16
    batch: dict[str, Any] = {
        "a": [torch.ones(2, 4)],
        "b": Batch(torch.ones(1), torch.ones(1, dtype=torch.long)),
    }
    ready = applied.prepare({**batch, "c": ("text", None)})
    assert ready["a"][0].dtype == torch.bfloat16
    found = ready["b"]
    assert isinstance(found, Batch)
    assert (found.values.dtype, found.numbers.dtype) == (torch.bfloat16, torch.int64)
    assert ready["c"] == ("text", None)
    with applied.forward():
        assert net(ready["a"][0]).dtype == torch.bfloat16


def test_weights_can_be_kept() -> None:
    applied = make("bf16", "cpu", keep_weights=True)
    net = applied.cast(nn.Linear(4, 4))
    assert net.weight.dtype == torch.float32
    with applied.forward():
        assert net(applied.prepare(torch.ones(2, 4))).dtype == torch.bfloat16


def test_directml_is_cast_by_hand_and_trains_in_fp32_alone() -> None:
    applied = make("fp16", "privateuseone", keep_weights=True)
    assert applied.cast(nn.Linear(2, 2)).weight.dtype == torch.float16
    with applied.forward():  # torch's own autocast would raise for this device
        pass
    with pytest.raises(InvalidSettingError, match="autocast does nothing"):
        make("fp16", "privateuseone", training=True)
    assert make("fp32", "privateuseone", training=True).precision == "fp32"


def test_only_fp16_training_scales_and_only_with_a_way_out_does_it_move() -> None:
    assert isinstance(make("fp16", "cpu", training=True, fallback="bf16"), Dynamic)
    assert not isinstance(make("fp16", "cpu", training=True), Dynamic)
    assert not isinstance(make("bf16", "cpu", training=True, fallback="fp32"), Dynamic)
    with pytest.raises(InvalidSettingError, match="cannot move to fp8"):
        make("fp16", "cpu", training=True, fallback="fp8")
    with pytest.raises(InvalidSettingError, match="trained models"):
        make("fp8", "cpu", training=True)


# -- tf32 ------------------------------------------------------------------------------------------


def read_old_flags() -> tuple[bool, str, bool]:
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
    )


@pytest.mark.parametrize("on", [True, False])
def test_older_readers_do_not_raise_after_ours(on: bool) -> None:
    before = read_old_flags()
    undo = set_tf32(on)
    assert read_old_flags() == (on, "high" if on else "highest", on)
    undo()
    assert read_old_flags() == before


def test_older_readers_raise_after_the_newer_way_and_ours_mends_it() -> None:
    """The peer's fault that this works around, as it is in torch today."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has one way only")
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    newer: Any = torch.backends.cudnn
    newer.conv.fp32_precision = "ieee"
    with pytest.raises(RuntimeError, match="legacy and new APIs"):
        _ = torch.backends.cuda.matmul.allow_tf32
    with pytest.raises(RuntimeError, match="legacy and new APIs"):
        torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError, match="legacy and new APIs"):
        _ = torch.backends.cudnn.allow_tf32
    with tf32(False):
        assert read_old_flags() == (False, "highest", False)
    assert read_old_flags() == (True, "high", False)  # what the newer way had said, readable now


def test_formats_set_the_flags_on_devices_that_have_them() -> None:
    """The flags are process-wide and can be set without a GPU."""
    before = read_old_flags()
    applied = make("tf32", "cuda", training=True)
    assert read_old_flags() == (True, "high", True)
    applied.undo()
    applied.undo()
    assert read_old_flags() == before
    strict = make("fp32", "cuda")
    assert read_old_flags() == (False, "highest", False)  # torch's default rounds convolutions
    strict.undo()
    make("fp32", "cpu")
    make("bf16", "cuda", training=True)
    assert read_old_flags() == before


# -- fp8 -------------------------------------------------------------------------------------------


def test_fp8_holds_a_quarter_and_stays_close() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32), nn.Linear(32, 3))
    inputs = torch.randn(5, 7, 64)
    truth = net(inputs)
    applied = make("fp8", "cpu")
    assert applied.precision == "fp8"
    small = applied.cast(net)
    assert isinstance(small[0], Fp8Linear)  # type: ignore[index]
    assert isinstance(small[3], nn.Linear)  # type: ignore[index]
    assert small[0].weight.element_size() == 1  # type: ignore[index]
    with torch.no_grad(), applied.forward():
        found = small(applied.prepare(inputs)).float()
    assert found.shape == truth.shape
    assert (found - truth).abs().max() < 0.1 * truth.abs().max()
    assert isinstance(convert(nn.Linear(16, 16)), Fp8Linear)
