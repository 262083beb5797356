"""Every strategy trains as one process does, and a checkpoint of one continues under any other."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyrig.training.distributed.alone import Alone
from tests.training.ranks import model as toy
from tests.training.ranks.course import mixed, train
from tests.training.ranks.running import run_ranks


@pytest.fixture(scope="module")
def alone() -> tuple[dict[str, Any], dict[str, Any]]:
    """What one process has after two steps, and after four."""
    return train({}, "auto", 0, 2), train({}, "auto", 0, 4)


def _same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found["norms"] == pytest.approx(wanted["norms"][-len(found["norms"]) :], rel=1e-6)
    _near(found["weights"], wanted["weights"])
    assert found["state"]["state"].keys() == wanted["state"]["state"].keys()
    for name, values in wanted["state"]["state"].items():
        _near(found["state"]["state"][name], values)


def _near(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert type(found[name]) is torch.Tensor
        assert torch.allclose(found[name], value, rtol=0, atol=1e-9), name


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_train_as_one_and_checkpoints_change_hands(
    strategy: str, alone: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    half, whole = alone
    answers = run_ranks(train, strategy, 0, 2)
    _same(answers[0], half)
    assert all(answer["skipped"] for answer in answers)
    assert answers[0]["norms"] == answers[1]["norms"]
    # From two processes to one, and from one to two.
    _same(train({}, "auto", 2, 2, answers[0]), whole)
    _same(run_ranks(train, strategy, 2, 2, half)[0], whole)


def test_shards_computed_in_bf16_have_gradients_in_fp32() -> None:
    wanted = toy.Model(seed=7)
    toy.gradients(wanted, Alone(), toy.items(), 12)
    for answer in run_ranks(mixed):
        assert answer["seen"] == {torch.bfloat16}
        assert "a batch of 7 cannot be cut evenly over 2 processes" in answer["said"]
        for name, value in answer["grads"].items():
            true = wanted.get_parameter(name).grad
            assert value.dtype == torch.float32
            assert true is not None
            assert torch.linalg.vector_norm(value - true) < 0.05 * torch.linalg.vector_norm(true)
