"""Memory estimates of models and of whole tasks, before anything is trained."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from anyrig.devices.machine import Machine
from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training.config import Recompute
from anyrig.training.estimate import (
    AUTOCAST_OPERATIONS,
    ROUNDING,
    Estimate,
    MemoryTracker,
    compare_with_device,
    estimate,
    repeat_batch,
)
from anyrig.training.memory import recompute
from anyrig.training.models.gpt import PRESETS, Gpt
from anyrig.training.tasks import Task
from anyrig.units import GIB, MIB
from benchmarks.resnet import Resnet, ResnetShape
from benchmarks.training_models import cases
from examples.train.diffusion import Unet

MACHINES = Path(__file__).resolve().parent.parent / "machines"
NAMES = sorted(path.stem for path in MACHINES.glob("*.json"))
TOKENS = torch.zeros(1, 32, dtype=torch.long)
PICTURE = torch.zeros(1, 3, 32, 32)


def next_token(model: nn.Module, batch: Any) -> torch.Tensor:
    return F.cross_entropy(model(batch).flatten(0, 1), batch.flatten())


def squared(model: nn.Module, batch: Any) -> torch.Tensor:
    found: torch.Tensor = model(*batch).square().sum()
    return found


def up(count: int) -> int:
    return -(-count // ROUNDING) * ROUNDING


# -- beside what can be worked out by hand ---------------------------------------------------------


def test_a_small_network_takes_what_can_be_worked_out() -> None:
    """Two layers without biases: every tensor of a step is known."""
    model = nn.Sequential(nn.Linear(100, 300, bias=False), nn.Linear(300, 50, bias=False))
    batch = 64
    found = estimate(model, repeat_batch((torch.zeros(1, 100),)), squared, micro_batch=batch,
                     optimizer="momentum", device_type="cpu")  # fmt: skip
    first, second = up(100 * 300 * 4), up(300 * 50 * 4)
    weights = first + second
    given, inner, output = (up(batch * width * 4) for width in (100, 300, 50))
    loss = up(4)
    # Forward: input, inner layer and output, its square, the loss.
    forward = 2 * weights + given + inner + output + output + loss
    assert found.by_phase["forward"] == forward
    # The optimiser has weights, gradients and momentum, and nothing else.
    assert found.by_phase["optimize"] == 3 * weights
    assert found.peak == max(found.by_phase.values())
    parts = (found.weights, found.gradients, found.state, found.activations, found.workspace)
    assert sum(parts) == found.peak
    assert found.weights == found.state == weights


@pytest.mark.parametrize(("optimiser", "copies"), [("sgd", 0), ("momentum", 1), ("adamw", 2)])
def test_state_is_what_the_optimiser_keeps(optimiser: str, copies: int) -> None:
    model = nn.Sequential(nn.Linear(512, 512, bias=False))
    found = estimate(model, repeat_batch((torch.zeros(1, 512),)), squared, optimizer=optimiser)
    assert found.state == copies * MIB + (up(4) if optimiser == "adamw" else 0)
    away = estimate(model, repeat_batch((torch.zeros(1, 512),)), squared, optimizer=optimiser,
                    offload_optimizer=True)  # fmt: skip
    assert away.state == 0
    assert away.peak <= found.peak


# -- beside real steps -----------------------------------------------------------------------------


def _real(
    make: Callable[[], nn.Module], batch: Callable[[], Any], loss: Any, how: Recompute
) -> int:
    """The peak of two real steps, counted by the same tracker."""
    model = make().train()
    if how != "none":
        recompute(model, how)
    rule = torch.optim.AdamW(model.parameters(), fused=True)
    tracker = MemoryTracker()
    tracker.add([*model.parameters(), *model.buffers()], "weights")
    with tracker:
        for _ in range(2):
            items = batch()
            loss(model, items).backward()
            del items
            rule.step()
            rule.zero_grad()
            gc.collect()
    return tracker.peak_bytes


CASES: dict[str, tuple[Callable[[], nn.Module], Any, Any]] = {
    "gpt": (lambda: Gpt(PRESETS["nano"]), TOKENS, next_token),
    "resnet": (lambda: Resnet(ResnetShape(10, width=8, stages=(2, 2))), (PICTURE,), squared),
    "unet": (lambda: Unet(width=16),
             (torch.zeros(1, 1, 16, 16), torch.zeros(1, dtype=torch.long)), squared),
}  # fmt: skip


@pytest.mark.parametrize("how", ["none", "blocks", "selective"])
@pytest.mark.parametrize("name", CASES)
def test_without_data_the_peak_is_that_of_a_real_step(name: str, how: Recompute) -> None:
    make, example, loss = CASES[name]
    size = 3

    def batch() -> Any:
        if isinstance(example, torch.Tensor):
            return example.new_zeros(size, *example.shape[1:])
        return tuple(one.new_zeros(size, *one.shape[1:]) for one in example)

    found = estimate(make(), repeat_batch(example), loss, micro_batch=size, recompute=how,
                     device_type="cpu")  # fmt: skip
    assert found.peak == _real(make, batch, loss, how)


def test_a_given_model_is_left_as_it_is() -> None:
    model = Gpt(PRESETS["nano"]).eval()
    before = [one.clone() for one in model.parameters()]
    with torch.device("meta"):
        empty = Gpt(PRESETS["nano"])
    plain, found = (
        estimate(one, repeat_batch(TOKENS), next_token, micro_batch=2, recompute="blocks",
                 precision="bf16")
        for one in (empty, model)
    )  # fmt: skip
    assert found.peak == plain.peak
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert not model.training
    assert all(one.grad is None for one in model.parameters())


def test_a_model_of_a_hundred_gigabytes_takes_no_memory_here() -> None:
    """Eight layers of 65,536 to 65,536 in fp32: 128 GiB of weights."""
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(65536, 65536, bias=False) for _ in range(8)))
    found = estimate(model, repeat_batch((torch.zeros(1, 65536),)), squared, precision="bf16")
    assert found.weights == 128 * GIB
    assert found.state >= 256 * GIB


class Masked(nn.Module):
    """Looks at some of its states alone."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.first, self.second, self.way = nn.Linear(64, 64), nn.Linear(64, 1000), way

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.first(states)
        if self.way == "mask":
            states = states[mask]
        elif self.way == "nonzero":
            states = states.flatten(0, 1)[mask.flatten().nonzero().squeeze(1)]
        elif self.way == "select":
            states = states.masked_select(mask[..., None]).view(-1, 64)
        found: torch.Tensor = self.second(states)
        return found


@pytest.mark.parametrize("way", ["mask", "nonzero", "select"])
def test_what_is_chosen_by_data_counts_as_all_of_it(way: str) -> None:
    given = repeat_batch((torch.zeros(1, 128, 64), torch.zeros(1, 128, dtype=torch.bool)))
    every = estimate(Masked("all"), given, squared, micro_batch=4)
    some = estimate(Masked(way), given, squared, micro_batch=4)
    assert every.peak <= some.peak < 1.2 * every.peak


# -- a GPU's rules ---------------------------------------------------------------------------------


def test_every_operation_that_a_gpus_autocast_touches_is_known() -> None:
    listed = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    others = {
        # Kernels that only a GPU has: they are called by name, never by a model.
        "cudnn_convolution", "cudnn_convolution_transpose", "_thnn_fused_lstm_cell",
        "_thnn_fused_gru_cell", "_scaled_dot_product_flash_attention",
        # Refuses to run, on every device.
        "binary_cross_entropy",
    }  # fmt: skip
    missing = {
        name.removeprefix("aten::") for name in listed if name.startswith("aten::")
    } - AUTOCAST_OPERATIONS
    assert missing <= others


def test_attention_writes_no_scores_down_and_dropout_keeps_bytes() -> None:
    class Attends(nn.Module):
        def forward(self, states: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(states, states, states)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.attends = nn.Linear(16, 16), Attends()

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.attends(self.linear(states))
            return found

    given = (torch.zeros(1, 4, 2048, 16),)
    scores = 4 * 2048 * 2048 * 4
    gpu = estimate(Model(), repeat_batch(given), squared, device_type="cuda")
    metal = estimate(Model(), repeat_batch(given), squared, device_type="mps")
    assert gpu.activations < scores < metal.activations
    # A GPU's kernels refuse what is not four sides with the last one dense.
    flat = estimate(Model(), repeat_batch((torch.zeros(1, 2048, 16),)), squared, micro_batch=4)
    assert flat.activations > scores

    drops = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Dropout(0.5), nn.Dropout(0.5))
    wide = (torch.zeros(1, 4096, 64),)
    bytes_kept = estimate(drops, repeat_batch(wide), squared, device_type="mps")
    floats_kept = estimate(drops, repeat_batch(wide), squared, device_type="cpu")
    assert floats_kept.activations - bytes_kept.activations >= 3 * (4 - 1) * 4096 * 64


# -- words -----------------------------------------------------------------------------------------


def test_a_step_that_reads_values_is_refused_with_words() -> None:
    def reads(model: nn.Module, batch: Any) -> torch.Tensor:
        loss: torch.Tensor = model(batch).sum()
        return loss if loss.item() > 0 else -loss

    with pytest.raises(InvalidSettingError, match="cannot be counted") as caught:
        estimate(nn.Linear(2, 2), repeat_batch(torch.zeros(1, 2)), reads)
    assert "profile" in caught.value.hint
    with pytest.raises(InvalidInputError, match="micro batch of 0"):
        estimate(nn.Linear(2, 2), repeat_batch(torch.zeros(1, 2)), squared, micro_batch=0)
    with pytest.raises(InvalidSettingError, match="GptBlok"):
        estimate(Gpt(PRESETS["nano"]), repeat_batch(TOKENS), next_token, recompute="blocks",
                 recompute_types=("GptBlok",))  # fmt: skip


# -- where it fits ---------------------------------------------------------------------------------


def _estimate(micro_batch: int, peak: int, device_type: str = "cuda") -> Estimate:
    return Estimate(micro_batch, "bf16", device_type, 0, 0, 0, peak, 0, peak, {}, ())


def test_a_device_is_compared_with_what_a_step_needs(machine: Callable[..., Machine]) -> None:
    gpu = machine("h200-linux").devices[0]
    found = compare_with_device([_estimate(1, 2 * GIB), _estimate(8, 9 * GIB)], gpu)
    assert found.fits
    assert found.existing_bytes is not None
    # A line of one GiB an item: as many as there is room for, less context and spare.
    assert found.largest_micro_batch is not None
    assert 0.9 < found.largest_micro_batch / (found.existing_bytes / GIB) < 1.0
    large = compare_with_device([_estimate(8, 500 * GIB)], gpu)
    assert (large.fits, large.largest_micro_batch) == (False, None)
    limited = compare_with_device([_estimate(1, 2 * GIB)], gpu, limit_bytes=GIB)
    assert (limited.fits, limited.existing_bytes) == (False, GIB)


def test_every_recorded_machine_has_an_answer(
    machine: Callable[..., Machine], subtests: pytest.Subtests
) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            for device in machine(name).devices:
                one = compare_with_device([_estimate(1, GIB), _estimate(2, 2 * GIB)], device)
                assert (one.fits is None) == (one.existing_bytes is None)
                assert one.needed_bytes >= 2 * GIB
                assert one.fits is not None or "does not tell its memory" in one.reason


# -- beside what torch measured on an H200 ---------------------------------------------------------

# benchmarks/results/training_estimate_h200_2026-11-19.md: GiB at the middle size.
MEASURED = {"GPT-2 124M": 14.51, "BERT-base": 12.27, "ResNet-50": 3.09, "U-Net": 5.449}


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_an_estimate_is_within_five_percent_of_what_was_measured(name: str) -> None:
    case = next(one for one in cases(tiny=False) if one.name == name)
    with torch.device("meta"):
        model = case.make()
    found = estimate(
        model, repeat_batch(case.example), case.loss, micro_batch=case.sizes[1], precision="bf16",
        capability="9.0",
    )  # fmt: skip
    assert found.peak / GIB == pytest.approx(MEASURED[name], rel=0.05)


def test_cross_entropy_is_in_fp32_where_a_gpu_has_it_so() -> None:
    """A GPU's autocast looks into cross-entropy: negative log-likelihood runs in fp32 there."""
    items, classes = 64, 4096

    def loss(model: nn.Module, given: Any) -> torch.Tensor:
        inputs, targets = given
        return nn.functional.cross_entropy(model(inputs), targets)

    example = (torch.zeros(1, 8), torch.zeros(1, dtype=torch.int64))
    found = estimate(
        nn.Linear(8, classes), repeat_batch(example), loss, micro_batch=items,
        precision="bf16", device_type="cuda", capability="9.0",
    )  # fmt: skip
    # Softmax in bf16, its copy and its gradient in fp32, measured so on an H200.
    assert found.activations >= items * classes * (2 + 4 + 4)


def _loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return F.cross_entropy(model(batch["tokens"]).flatten(0, 1), batch["tokens"].flatten())


def _task(data: Any = None) -> Task:
    items = [{"tokens": torch.zeros(16, dtype=torch.long)} for _ in range(8)]
    return Task("a test", Gpt(PRESETS["nano"]), items if data is None else data, _loss)
