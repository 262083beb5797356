"""Recorded kernels give what plain calls give, and are left with words where they cannot be had.

The tape here plays by calling the recorded work again on its fixed places, which is what a CUDA
graph does with kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.training.graphs import Decision, Recorded, record_model
from anyrig.training.tape import CudaTape, Trial

YES = Decision(True, "kernels will be recorded")


class HostTape:
    """Records Python calls."""

    def __init__(self, host_s: float = 1.0, error: Exception | None = None) -> None:
        self.host_s, self.error, self.waited = host_s, error, False
        self.trials = self.recordings = self.erased = 0

    def trial(self, work: Callable[[], torch.Tensor]) -> Trial:
        self.trials += 1
        return Trial(work(), self.host_s, 1.0, self.waited or self.trials == 1)

    def record(self, work: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
        self.recordings += 1
        if self.error is not None:
            raise self.error
        place = torch.zeros(())

        def play() -> None:
            place.copy_(work())

        return play, place

    def erase(self) -> None:
        self.erased += 1


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 2)
        self.unused = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(x)
        return found


def computing(model: nn.Module) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    def compute(batch: Any, share: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(batch["x"]).square().mean() * share
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    return compute


def made(
    tape: HostTape, model: nn.Module | None = None, *, always: bool = False
) -> tuple[Recorded, nn.Module, list[str]]:
    model, told = model or Net(), list[str]()
    weights = list(model.parameters())
    recorded = Recorded(computing(model), weights, YES, tape, always=always, tell=told.append)
    return recorded, model, told


def batch_of(number: int, size: int = 3, **more: Any) -> dict[str, Any]:
    rows = torch.randn(size, 4, generator=torch.Generator().manual_seed(number))
    return {"x": rows, **more}


@pytest.mark.parametrize("set_to_none", [True, False])
def test_recorded_steps_equal_plain_ones(set_to_none: bool) -> None:
    """Over steps of two micro batches with other shares, and with weights that have no gradient."""
    tape = HostTape()
    recorded, model, told = made(tape)
    plain = Net()
    compute = computing(plain)
    optimisers = [torch.optim.AdamW(one.parameters(), lr=0.1) for one in (model, plain)]
    for step in range(6):
        for micro, share in enumerate((0.25, 0.75)):
            batch = batch_of(2 * step + micro)
            loss = recorded(batch, share)
            assert torch.equal(loss, compute(batch, torch.tensor(share)))
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=set_to_none)
        for one, other in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.equal(one, other)
    assert (tape.trials, tape.recordings) == (3, 1)
    assert recorded.recorded
    assert told == ["kernels are recorded and played back"]


def test_a_last_smaller_batch_is_computed_plainly_and_the_recording_stays() -> None:
    tape = HostTape()
    recorded, model, _ = made(tape)
    for number in range(12):
        size = 2 if number % 4 == 3 else 3
        recorded(batch_of(number, size), 1.0)
    assert not recorded.recorded  # three in a row were only tries
    for number in range(9):
        recorded(batch_of(number), 1.0)
    assert tape.recordings == 1
    recorded(batch_of(0, 2), 1.0)
    recorded(batch_of(0, 3), 1.0)
    assert tape.recordings == 1
    assert recorded.recorded


def test_another_key_is_recorded_anew() -> None:
    """As when the loss scale, which is baked into the kernels, has changed."""
    tape = HostTape()
    recorded, _, _ = made(tape)
    for scale in (1.0, 2.0):
        for number in range(6):
            recorded(batch_of(number), 1.0, key=("fp16", scale))
    assert tape.recordings == 2


def test_a_busy_device_gains_nothing_unless_it_is_asked_for() -> None:
    recorded, _, told = made(HostTape(host_s=0.2))
    for number in range(5):
        recorded(batch_of(number), 1.0)
    assert not recorded.used
    assert "nothing is to be gained" in told[0]
    asked, _, _ = made(HostTape(host_s=0.2), always=True)
    for number in range(5):
        asked(batch_of(number), 1.0)
    assert asked.recorded


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
            "memory ran out",
        ),
        (RuntimeError("operation not permitted when stream is capturing"), "not permitted"),
    ],
)
def test_a_failed_recording_costs_nothing_but_itself(error: Exception, words: str) -> None:
    tape = HostTape(error=error)
    recorded, model, told = made(tape)
    plain = Net()
    for number in range(6):
        batch = batch_of(number)
        assert torch.equal(recorded(batch, 0.5), computing(plain)(batch, torch.tensor(0.5)))
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or torch.equal(one.grad, other.grad)  # type: ignore[arg-type]
    assert not recorded.used
    assert words in told[0]
    assert tape.recordings == 1
    assert tape.erased >= 1


@pytest.mark.gpu
def test_cuda_graphs_equal_plain_steps() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.3), nn.Linear(64, 2)).cuda()
    import copy

    plain = copy.deepcopy(model)
    recorded = record_model(computing(model), model, True, "cuda")
    results = []
    for one, compute in ((model, recorded), (plain, computing(plain))):
        torch.cuda.manual_seed(7)
        for number in range(8):
            batch = {"x": batch_of(number)["x"].cuda()}
            share: Any = 0.5 if one is model else torch.tensor(0.5, device="cuda")
            compute(batch, share)
        results.append([weight.grad for weight in one.parameters()])
    assert recorded.recorded
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.gpu
def test_a_wait_in_the_model_is_seen_and_a_broken_recording_repaired() -> None:
    class Waits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.layer(x)
            return found * (2.0 if found.sum().item() > 0 else 1.0)

    model = Waits().cuda()
    recorded = record_model(computing(model), model, True, "cuda")
    for number in range(5):
        recorded({"x": batch_of(number)["x"].cuda()}, 1.0)
    assert "waits for the device" in recorded.reason
    tape = CudaTape(torch.device("cuda", 0))
    x = torch.ones(4, 4, device="cuda")
    with pytest.raises(RuntimeError):
        tape.record(lambda: torch.dropout(x, 0.5, True).sum() * x.sum().item())
    tape.erase()
    assert torch.rand(3, device="cuda").isfinite().all()
    recorded.release()
    kept = torch.cuda.memory_reserved()
    torch.zeros(64 << 20, device="cuda")
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= kept
