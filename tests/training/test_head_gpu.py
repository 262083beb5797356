"""On a real GPU: kernels and fp8 against fp32, precisions, shortages, copies, recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cosine_similarity, cross_entropy

from anyrig.precision.settings import ScalerSettings
from anyrig.training import TrainConfig, Trainer
from anyrig.training.checkpoint import Checkpointer, TrainingState
from anyrig.training.config import CheckpointConfig, LoadingConfig
from anyrig.training.losses import IGNORED, LanguageLoss, linear_cross_entropy
from anyrig.training.models.gpt import Gpt, GptShape
from anyrig.training.precision import Fp8Linear, convert_to_fp8

pytestmark = pytest.mark.gpu
GIB = 1 << 30


@pytest.fixture(autouse=True)
def _cuda() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")


def has_fp8() -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability() >= (8, 9)


def alike(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(cosine_similarity(one.double().flatten(), other.double().flatten(), dim=0))


def test_a_language_model_is_trained_in_bf16_and_its_head_in_fp8(tmp_path: Path) -> None:
    shape = GptShape(vocabulary=20000, context=64, layers=2, heads=2, width=128)
    data = [{"tokens": torch.randint(20000, (65,))} for _ in range(8)]
    seen: list[torch.dtype] = []
    model = Gpt(shape)
    model.blocks[1].register_forward_pre_hook(lambda module, given: seen.append(given[0].dtype))
    config = TrainConfig(batch=4, steps=2, precision="bf16", compile=False,
                         loading=LoadingConfig(num_workers=0))  # fmt: skip
    with Trainer(model, data=data, loss=LanguageLoss(), config=config, device="cuda:0") as trainer:
        result = trainer.fit()
    assert seen[-1] == torch.bfloat16
    assert any(reason.startswith("attention: ") for reason in result.reasons)
    assert isinstance(trainer.loss, LanguageLoss)
    assert trainer.loss.fp8 == has_fp8()


# ---------------------------------------------------------------- the head


def case(rows: int, size: int = 1024, width: int = 256) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator("cuda").manual_seed(4)
    states = torch.randn(rows, width, device="cuda", generator=generator)
    weight = torch.randn(size, width, device="cuda", generator=generator) * 0.05
    targets = torch.randint(size, (rows,), device="cuda", generator=generator)
    return states.requires_grad_(), weight.requires_grad_(), targets


@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize("rows", [64, 1000, 1009, 1])
@pytest.mark.parametrize("chunks", [1, 3, "auto"])
@pytest.mark.parametrize("vocabulary", [1024, 1001])
def test_kernels_and_fp8_give_what_fp32_gives(
    fp8: bool, rows: int, chunks: Any, vocabulary: int
) -> None:
    if fp8 and not has_fp8():
        pytest.skip("no fp8 here")
    states, weight, targets = case(rows)
    targets = targets.clamp(max=vocabulary - 1)
    if rows > 3:
        targets[::3] = IGNORED
    plain = cross_entropy(states @ weight[:vocabulary].t(), targets, ignore_index=IGNORED)
    wanted = torch.autograd.grad(plain, (states, weight))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        ours = linear_cross_entropy(
            states, weight, targets, chunks=chunks, vocabulary=vocabulary, fp8=fp8
        )
    found = torch.autograd.grad(ours, (states, weight))
    assert float(ours.detach()) == pytest.approx(float(plain.detach()), rel=1e-3)
    for true, near in zip(wanted, found, strict=True):
        assert near.dtype == torch.float32
        assert alike(true, near) > (0.995 if fp8 else 0.999)
    assert not found[1][vocabulary:].any()
    assert not found[0][targets == IGNORED].any()


def test_kernels_without_a_target_that_counts() -> None:
    states, weight, targets = case(100)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = linear_cross_entropy(states, weight, torch.full_like(targets, IGNORED))
    first, second = torch.autograd.grad(loss, (states, weight))
    assert float(loss.detach()) == 0.0
    assert not first.any()
    assert not second.any()


@pytest.mark.parametrize("rows", [64, 100])  # the second is no multiple of 16: in bf16 then
def test_an_fp8_layer_gives_what_fp32_gives(rows: int) -> None:
    if not has_fp8():
        pytest.skip("no fp8 here")
    torch.manual_seed(0)
    plain = nn.Linear(256, 512).cuda()
    layer = nn.Linear(256, 512).cuda()
    layer.load_state_dict(plain.state_dict())
    assert convert_to_fp8(layer, least=16) == [layer]
    assert isinstance(layer, Fp8Linear)
    inputs = torch.randn(4, rows // 4, 256, device="cuda")
    found = []
    for one in (plain, layer):
        given = inputs.clone().requires_grad_()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=one is layer):
            out = one(given)
        out.float().square().mean().backward()
        assert given.grad is not None
        assert one.weight.grad is not None
        assert one.bias.grad is not None
        found.append((out.detach(), given.grad, one.weight.grad, one.bias.grad))
    for true, near in zip(*found, strict=True):
        assert alike(true, near) > 0.99


# ---------------------------------------------------------------- whole runs


def wide() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Linear(32, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 1)
    )


def data(count: int = 512) -> torch.utils.data.TensorDataset:
    inputs = torch.randn(count, 32, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())


def loss(net: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.mse_loss(net(batch[0]).float(), batch[1])


def run(net: nn.Module, given: Any = None, **changed: Any) -> tuple[list[float], Any, Any]:
    how = {
        "batch": 64, "micro_batch": 64, "steps": 20, "learning_rate": 1e-3, "compile": False,
        "schedule": "constant", "loading": LoadingConfig(num_workers=0),
        "checkpoints": CheckpointConfig(every_s=0), **changed,
    }  # fmt: skip
    options = {name: how.pop(name) for name in ("loss", "units") if name in how}
    with Trainer(net, data=given if given is not None else data(), device="cuda",
                 config=TrainConfig(**how), **{"loss": loss, **options}) as one:  # fmt: skip
        opened = one.open()
        torch.cuda.reset_peak_memory_stats()
        summary = one.run()
        held = {
            "optimiser": {
                value.device.type
                for state in opened.train_step.optimizer.state.values()
                for value in state.values()
                if isinstance(value, torch.Tensor) and value.dim()
            },
            "peak": torch.cuda.max_memory_allocated(),
        }
        return [row.loss for row in one.history()], summary, held


@pytest.mark.parametrize(
    "how",
    [{"precision": "fp8"}, {"precision": "fp16", "scaler": ScalerSettings(initial=256.0)},
     {"precision": "tf32"},
     {"precision": "bf16"}, {"precision": "bf16", "compile": True}],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # of what torch's compiler imports
def test_every_number_format_learns_what_fp32_learns(how: dict[str, Any]) -> None:
    if how["precision"] == "fp8" and not has_fp8():
        pytest.skip("no fp8 here")
    plain, _, _ = run(wide(), precision="fp32")
    curve, summary, _ = run(wide(), **how)
    assert summary.precision == how["precision"]
    assert summary.num_skipped == 0  # from the usual scale fp16 would skip some at first
    assert sum(curve[-5:]) < sum(curve[:5]) * 0.9
    assert sum(curve) == pytest.approx(sum(plain), rel=0.05)


def test_a_language_model_in_fp8_learns() -> None:
    if not has_fp8():
        pytest.skip("no fp8 here")
    rows = [{"tokens": (torch.arange(65) * (number % 7 + 1)) % 1000} for number in range(64)]
    curves = []
    for precision in ("bf16", "fp8"):
        torch.manual_seed(0)
        net = Gpt(GptShape(1000, 64, 2, 4, 256))
        curve, _, _ = run(net, rows, loss=LanguageLoss(), precision=precision, batch=16,
                          micro_batch=8)  # fmt: skip
        curves.append(curve)
    assert curves[1][-1] < curves[1][0] * 0.8
    assert curves[1] == pytest.approx(curves[0], rel=0.05)


# ---------------------------------------------------------------- memory


def deep() -> nn.Module:
    """With 512 items of 64 rows it takes over 4 GiB; weights and gradients take next to nothing."""
    torch.manual_seed(2)
    blocks = [layer for _ in range(4)
              for layer in (nn.Linear(256, 4096), nn.GELU(), nn.Linear(4096, 256))]  # fmt: skip
    return nn.Sequential(*blocks)


def long_rows() -> torch.utils.data.TensorDataset:
    inputs = torch.randn(1024, 64, 256, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.TensorDataset(inputs, inputs.flip(2).sin())


def test_memory_that_really_runs_out_is_survived() -> None:
    rows = long_rows()
    clean, _, _ = run(deep(), rows, batch=512, micro_batch=64, steps=4, precision="fp32")
    curve, summary, held = run(deep(), rows, batch=512, micro_batch=512, steps=4,
                               precision="fp32", memory_gb=2.5)  # fmt: skip
    assert summary.num_retries >= 1
    assert summary.micro_batch < 512
    assert summary.finished
    assert held["peak"] < 2.5 * GIB
    assert curve == pytest.approx(clean, rel=1e-3)


def test_a_fitted_batch_stays_within_its_memory() -> None:
    _, summary, held = run(deep(), long_rows(), batch=512, micro_batch="auto", steps=4,
                           precision="fp32", memory_gb=2.5)  # fmt: skip
    assert summary.num_retries == 0
    assert 32 <= summary.micro_batch < 512, summary.reasons
    assert GIB < held["peak"] < 2.5 * GIB


def test_offloading_takes_less_of_the_device_and_gives_the_same() -> None:
    rows = long_rows()
    how: dict[str, Any] = {"batch": 128, "micro_batch": 128, "steps": 3, "precision": "fp32"}
    plain, _, kept = run(deep(), rows, **how)
    hosted, _, state = run(deep(), rows, **how, offload_optimizer=True)
    assert hosted == pytest.approx(plain, rel=1e-5)
    assert kept["optimiser"] == {"cuda"}
    assert state["optimiser"] == {"cpu"}


@pytest.mark.parametrize("pin", [True, False])
def test_batches_are_pinned_where_that_is_set(pin: bool) -> None:
    seen = []

    def look(batch: Any) -> int:
        seen.append((batch[0].device.type, batch[0].device.type == "cpu" and batch[0].is_pinned()))
        return len(batch[0])

    run(wide(), steps=3, units=look, loading=LoadingConfig(num_workers=0, pin_memory=pin))
    on_host = [pinned for place, pinned in seen if place == "cpu"]
    assert on_host
    assert set(on_host) == {pin}


# ---------------------------------------------------------------- checkpoints


def test_what_is_saved_is_what_it_was_when_it_was_saved(tmp_path: Path) -> None:
    """Weights are changed at once, while a thread writes the copy."""
    weights = {f"w{number}": torch.randn(4096, 1024, device="cuda") for number in range(8)}
    wanted = {name: value.cpu() for name, value in weights.items()}
    with Checkpointer(tmp_path, CheckpointConfig(asynchronous=True)) as checkpoints:
        for step in (1, 2):
            checkpoints.save(
                TrainingState(step, weights=weights, optimizer={}, plain={}, random={})
            )
            for value in weights.values():
                value.mul_(-2.0)
        checkpoints.wait()
        found = checkpoints.load()
    assert found is not None
    assert found.state.step == 2
    for name, value in wanted.items():
        assert torch.equal(found.state.weights[name], value * -2.0)
