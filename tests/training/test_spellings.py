"""Names as people write them beside torch, transformers and Lightning, and those of older files."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidSettingError
from anyrig.precision.policy import make_policy
from anyrig.training import Settings, Trainer
from anyrig.training.step import Step

SPELLINGS: list[tuple[Any, str]] = [
    (torch.float16, "fp16"), (torch.half, "fp16"), ("float16", "fp16"), ("fp16", "fp16"),
    ("half", "fp16"), ("torch.float16", "fp16"), ("FP16", "fp16"), ("16-mixed", "fp16"),
    ("f16", "fp16"), (torch.bfloat16, "bf16"), ("bfloat16", "bf16"), ("bf16", "bf16"),
    ("bf16-mixed", "bf16"), ("torch.bfloat16", "bf16"), (torch.float32, "fp32"),
    (torch.float, "fp32"), ("float32", "fp32"), ("fp32", "fp32"), ("float", "fp32"),
    ("single", "fp32"), ("32", "fp32"), ("tf32", "tf32"), ("TF32", "tf32"), ("fp8", "fp8"),
    ("float8", "fp8"), (torch.float8_e4m3fn, "fp8"), ("float8_e5m2", "fp8"), ("auto", "auto"),
]  # fmt: skip


def test_number_formats_are_known_by_their_usual_names(subtests: pytest.Subtests) -> None:
    for given, wanted in SPELLINGS:
        with subtests.test(given=given, wanted=wanted):
            assert Settings(precision=given).precision == wanted
            assert Settings(dtype=given).precision == wanted  # type: ignore[call-arg]
            assert Settings.of({"dtype": given}).precision == wanted
            assert Settings.of({"precision": given}).precision == wanted
            if wanted in ("fp16", "bf16", "fp32"):
                assert make_policy(given, "cpu", training=True).precision == wanted


@pytest.mark.parametrize("given", ["float17", "int8", torch.int8, 3.5, None, "", ["fp16"], True])
def test_what_is_no_number_format_is_refused(given: Any) -> None:
    with pytest.raises(InvalidSettingError, match="precision") as caught:
        Settings(precision=given)
    assert "bf16" in caught.value.hint


def test_fp64_is_a_matter_of_the_model() -> None:
    with pytest.raises(InvalidSettingError, match="precision") as caught:
        Settings(precision="float64")
    assert "model.double()" in caught.value.hint


def test_two_names_of_one_setting_must_agree() -> None:
    assert Settings.of({"precision": "bf16", "dtype": "bfloat16"}).precision == "bf16"
    with pytest.raises(InvalidSettingError, match="dtype and precision") as caught:
        Settings.of({"precision": "bf16", "dtype": "float16"})
    assert "one of them" in caught.value.hint
    with pytest.raises(InvalidSettingError, match="offload_optimiser and offload_optimizer"):
        Settings(offload_optimizer=True, offload_optimiser=False)  # type: ignore[call-arg]


def test_settings_take_the_older_spelling() -> None:
    for made in (
        Settings(offload_optimiser=True, fused_optimiser=False),  # type: ignore[call-arg]
        Settings.of({"offload_optimiser": True, "fused_optimiser": False}),
        Settings(offload_optimizer=True, fused_optimizer=False),
    ):
        assert made == Settings(offload_optimizer=True, fused_optimizer=False)
        assert made.offload_optimiser is True  # type: ignore[attr-defined]
        assert made.fused_optimiser is False  # type: ignore[attr-defined]
        later = dataclasses.replace(made, batch=8)
        assert (later.batch, later.offload_optimizer) == (8, True)
    names = {one.name for one in dataclasses.fields(Settings)}
    assert {"offload_optimizer", "fused_optimizer"} <= names
    assert not any("optimiser" in name for name in names)


def _loss(net: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = net(batch).square().mean()
    return found


@pytest.mark.parametrize("name", ["optimizer", "optimiser"])
def test_a_trainer_takes_both_spellings(name: str) -> None:
    net, data = nn.Linear(4, 1), torch.ones(8, 4)
    settings = Settings(batch=4, micro_batch=4)
    options: Any = {name: "sgd"}
    with Trainer(net, data=data, loss=_loss, settings=settings, device="cpu", **options) as trainer:
        trainer.run()
        assert any(reason.startswith("optimiser: sgd") for reason in trainer.reasons)


def test_a_trainer_refuses_two_optimizers() -> None:
    two: Any = {"optimizer": "sgd", "optimiser": "adamw"}
    with pytest.raises(InvalidSettingError, match="optimiser and optimizer"):
        Trainer(nn.Linear(4, 1), data=torch.ones(8, 4), loss=_loss, **two)


def test_a_step_takes_both_spellings() -> None:
    net = nn.Linear(4, 1)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    applied = make_policy("fp32", "cpu", training=True)
    for name in ("optimizer", "optimiser"):
        options: Any = {name: sgd}
        step = Step(net, loss=_loss, applied=applied, device="cpu", micro_batch=4, **options)
        assert step(torch.ones(4, 4)).num_micro == 1
