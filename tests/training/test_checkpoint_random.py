"""Random states come back, and those that are missing are made the same way every time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from anyrig.training.checkpoint.nest import decode, encode
from anyrig.training.checkpoint.random import capture, derived, restore


def drawn() -> list[Any]:
    return [torch.rand(3).tolist(), random.random(), random.gauss(0, 1),
            np.random.rand(), np.random.randn()]  # fmt: skip


def test_every_source_goes_on() -> None:
    drawn()  # an odd number of gaussians: the kept half of a pair is part of the state
    state = capture()
    first = drawn()
    assert drawn() != first
    assert restore({0: state}) == []
    assert drawn() == first


def test_the_state_survives_being_written() -> None:
    kept: dict[str, torch.Tensor] = {}

    def take(tensor: torch.Tensor) -> str:
        kept[f"t{len(kept)}"] = tensor.clone()
        return f"t{len(kept) - 1}"

    told = encode({3: capture()}, take)
    first = drawn()
    restore(decode(told, kept), rank=3)
    assert drawn() == first


def test_a_captured_state_does_not_move_on() -> None:
    state = capture()
    before = state["torch"].clone()
    torch.rand(1000)
    assert torch.equal(state["torch"], before)


def test_a_rank_without_a_state_gets_its_own() -> None:
    state = {0: capture()}
    (told,) = restore(state, 1, seed=4, step=10)
    assert "process 1" in told
    first = drawn()
    restore(state, 1, seed=4, step=10)
    assert drawn() == first
    for rank, seed, step in ((2, 4, 10), (1, 5, 10), (1, 4, 11)):
        restore(state, rank, seed=seed, step=step)
        assert drawn() != first


def test_derived_numbers_differ_and_fit() -> None:
    found = {derived(s, t, r) for s in range(5) for t in range(20) for r in range(8)}
    assert len(found) == 800
    assert all(0 <= one < 2**63 for one in found)
