"""On a real GPU: a recorder never waits for it, and its times are the device's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from anyrig.training.protocol import StepFacts
from anyrig.training.watch.record import Recorder

pytestmark = pytest.mark.gpu


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """torch raises an error at whatever waits for the device."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.zeros(1, device="cuda").item()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("summed", [False, True])
def test_a_recorder_never_waits(summed: bool) -> None:
    size = torch.randn(4096, 4096, device="cuda")
    watch = Recorder("cuda", total=(lambda tensor: tensor) if summed else None)
    for number in range(1, 41):
        with watch.phase("data"):
            pass
        with watch.phase("forward"):
            for _ in range(4):
                loss = (size @ size).mean()
        with watch.phase("backward"):
            for _ in range(8):
                size @ size
        skipped = torch.zeros((), dtype=torch.bool, device="cuda")
        watch.step(
            StepFacts(number, 1, loss, 4, 4, 0.1, 4, 1, "fp32", skipped, loss.abs().bfloat16())
        )
    torch.cuda.set_sync_debug_mode("default")
    watch.close()
    history = watch.history()
    assert [one.step for one in history] == list(range(1, 41))
    assert history[-1].loss == pytest.approx(float(loss))
    later = history[5:]
    forward = sum(one.phases["forward"] for one in later)
    backward = sum(one.phases["backward"] for one in later)
    assert 1.5 < backward / forward < 2.5
    assert sum(one.phases["data"] for one in later) < 0.1 * forward
    assert sum(one.step_s for one in later) >= forward + backward
