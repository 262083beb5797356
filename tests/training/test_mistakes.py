"""Mistakes that people make with the Trainer, each told in words with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training import Settings, Trainer
from anyrig.training.settings import Keeping, Loading

HERE = Settings(batch=4, micro_batch=4, steps=2, precision="fp32", loading=Loading(num_workers=0))
PAIRS = [(torch.ones(3), torch.ones(1)) for _ in range(16)]


def loss(net: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.mse_loss(net(batch[0]), batch[1])


def run(**options: Any) -> Any:
    given = {"data": PAIRS, "loss": loss, "settings": HERE, "device": "cpu", **options}
    with Trainer(given.pop("net", None) or nn.Linear(3, 1), **given) as trainer:
        return trainer.run()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda net, batch: (net(batch[0]) - batch[1]).square(), "a tensor of 4x1"),
        (lambda net, batch: 1.0, "a float"),
        (lambda net, batch: None, "a NoneType"),
        (lambda net, batch: loss(net, batch).detach(), "nothing was learnt from"),
        (nn.CrossEntropyLoss(), "takes an output and a target"),
    ],
)
def test_losses_that_cannot_be_trained_on(wrong: Any, words: str) -> None:
    with pytest.raises(InvalidSettingError, match=words) as caught:
        run(loss=wrong)
    assert caught.value.hint


def test_what_is_no_model_and_what_are_no_settings() -> None:
    with pytest.raises(InvalidSettingError, match="no model"):
        Trainer("resnet50", data=PAIRS, loss=loss)  # type: ignore[arg-type]
    with pytest.raises(InvalidSettingError, match="settings are a dict"):
        run(settings={"batch": 4})


@pytest.mark.parametrize(
    ("data", "words"), [([], "is empty"), (iter(PAIRS), "cannot be measured on")]
)
def test_validation_that_cannot_be_used_is_refused_before_the_first_step(
    data: Any, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        run(validation=data)


def test_a_validation_that_is_not_finite_ends_no_run(tmp_path: Path) -> None:
    nan = [(torch.full((3,), torch.nan), torch.ones(1)) for _ in range(4)]
    kept = Settings(**{**vars(HERE), "keeping": Keeping(every_steps=1, every_s=0),
                       "validate_every": 1})  # fmt: skip
    summary = run(validation=nan, folder=tmp_path / "run", settings=kept)
    assert summary.finished
    assert summary.validation["loss"] != summary.validation["loss"]
    assert summary.checkpoint is not None
    longer = Settings(**{**vars(kept), "steps": 3})
    assert run(validation=nan, folder=tmp_path / "run", settings=longer).resumed_from == 2


def test_a_model_that_does_not_fit_its_checkpoint_gets_a_hint_that_is_true(tmp_path: Path) -> None:
    run(folder=tmp_path / "run")
    with pytest.raises(InvalidInputError, match="not this model's") as caught:
        run(net=nn.Linear(3, 2), folder=tmp_path / "run")
    assert "module." not in caught.value.hint


def test_a_loss_that_is_never_finite_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    run(loss=lambda net, batch: loss(net, batch) * torch.nan)
    assert any("nan" in record.message for record in caplog.records)
