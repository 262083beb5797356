"""Data parallel on a real GPU: over NCCL with one process, over gloo with two that share it."""

from __future__ import annotations

import pytest
import torch

from anyrig.training.distributed.group import Group
from tests.training.ranks import model as toy
from tests.training.ranks import parallel
from tests.training.ranks.running import run_ranks


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("size", "carried_by"), [(1, "cpu:gloo,cuda:nccl"), (2, "cpu:gloo,cuda:gloo")]
)
def test_gradients_on_a_gpu_are_those_of_one_process(size: int, carried_by: str) -> None:
    wanted = toy.Model()
    toy.gradients(wanted, Group(), toy.items(), 12)
    for answer in run_ranks(parallel.on_gpu, carried_by, size=size, timeout_s=120):
        assert answer["answers"] == [False, False, True, False, False, False]
        assert all(speed > 0 for speed in answer["speeds"])
        for name, value in toy.flat(wanted).items():
            assert torch.allclose(answer["grads"][name], value, rtol=0, atol=1e-5), name
