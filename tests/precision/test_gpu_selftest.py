"""The self-test on a real GPU: `pytest -m gpu`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.precision import kernel_checks, selftest
from anyrig.precision.choose import choose_precision
from anyrig.precision.policy import make_policy
from anyrig.precision.scaler import LossScaler

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu() -> tuple[Device, DeviceBackend]:
    for device in discover(os.environ).gpus:
        for backend in device.backends:
            if backend.usable and backend.library == "torch":
                return device, backend
    pytest.skip("no GPU that torch can use")


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    backends: Any = torch.backends.cuda
    names = ("flash", "mem_efficient", "cudnn")
    before = {name: getattr(backends, f"{name}_sdp_enabled")() for name in names}
    yield
    for name, on in before.items():
        getattr(backends, f"enable_{name}_sdp")(on)


def _known_bad() -> bool:
    """Hopper with torch 2.11, whose cuDNN has the fault of pytorch#196678."""
    if not torch.cuda.is_available() or torch.version.cuda is None:
        return False
    return torch.cuda.get_device_capability()[0] == 9 and torch.__version__.startswith("2.11.")


def _nonfinite_gradients(where: torch.device) -> int:
    """In one attention step at length 704, as torch runs it now."""
    inputs = kernel_checks.make_attention_inputs(kernel_checks.ATTENTION_CASES[0])
    found = kernel_checks.run_attention(inputs, "bf16", where)
    return sum(int((~tensor.isfinite()).sum()) for tensor in found)


def test_the_self_test(gpu: tuple[Device, DeviceBackend], tmp_path: Path) -> None:
    where = torch.device("cuda") if torch.cuda.is_available() else torch.device(gpu[1].provider)
    before = _nonfinite_gradients(where)
    report = selftest.apply_selftest(*gpu, tmp_path / "selftests.json")
    for row in selftest.results_table(report.results):
        print(" | ".join(row))
    print(f"{report.seconds:.1f} s; {report.key}; {report.attention_faults}")
    if _known_bad():
        assert before > 0  # 45,056 of grad_q
        assert "cuDNN attention" in report.attention_faults["cudnn"]
        backends: Any = torch.backends.cuda
        assert not backends.cudnn_sdp_enabled()
    # On any GPU: after the self-test the step that broke is right.
    assert _nonfinite_gradients(where) == 0
    again = selftest.apply_selftest(*gpu, tmp_path / "selftests.json")
    assert again.attention_faults == report.attention_faults


def test_a_correct_format_is_chosen(gpu: tuple[Device, DeviceBackend]) -> None:
    report = selftest.run_selftest(*gpu)
    chosen = choose_precision(*gpu, failed=report.failed_formats)
    assert chosen.precision not in report.failed_formats
    rights = {r.precision for r in report.results if r.verdict == "right"}
    assert chosen.precision in rights


def test_training_survives_overflow_on_the_device(gpu: tuple[Device, DeviceBackend]) -> None:
    if not torch.cuda.is_available():
        pytest.skip("written for CUDA and ROCm")
    net = torch.nn.Linear(64, 64, device="cuda")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    applied = make_policy("fp16", "cuda", training=True)
    data = torch.randn(32, 64, device="cuda")
    losses = []
    for number in range(220):
        optimizer.zero_grad()
        with applied.autocast():
            loss = (net(data).float() - data).square().mean()
        applied.backward(loss * float("inf") if number < 180 else loss)
        outcome = applied.step(optimizer, max_norm=1.0)
        assert outcome.skipped is (number < 180)
        losses.append(float(loss.detach()))
    assert all(p.isfinite().all() for p in net.parameters())
    assert losses[-1] < losses[180]
    assert applied.state_dict()["scale"] >= LossScaler().settings.floor


def test_tf32_changes_products_and_comes_back(gpu: tuple[Device, DeviceBackend]) -> None:
    if not gpu[0].features.tf32 or not torch.cuda.is_available():
        pytest.skip("no TF32 here")
    left = torch.randn(512, 512, device="cuda")
    truth = left.double() @ left.double()

    def error() -> float:
        return float(((left @ left).double() - truth).abs().max() / truth.abs().max())

    rounded = make_policy("tf32", "cuda")
    coarse = error()
    rounded.restore()
    exact = make_policy("fp32", "cuda")
    assert error() < coarse / 10
    exact.restore()
