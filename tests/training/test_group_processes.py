"""Data parallel over real processes: sums of gradients, shortages, peers that leave."""

from __future__ import annotations

import torch

from anyrig.training.distributed.alone import Alone
from tests.training.ranks import model as toy
from tests.training.ranks import parallel
from tests.training.ranks.running import run_ranks


def _alone(num_items: int, micro: int) -> dict[str, torch.Tensor]:
    model = toy.Model()
    assert not toy.gradients(model, Alone(), toy.items()[:num_items], micro)
    return toy.flat(model)


def _close(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert torch.allclose(found[name], value, rtol=0, atol=1e-6), name


def test_gradients_are_those_of_one_process() -> None:
    answers = run_ranks(parallel.gradients)
    plain = toy.Model().state_dict()
    for answer in answers:
        assert all(torch.equal(value, plain[name]) for name, value in answer["weights"].items())
        assert answer["weights"].keys() == plain.keys()
        assert (answer["least"], answer["total"]) == (10, 3.0)
        for name, num_items, micro in (("whole", 12, 4), ("micro", 12, 2), ("odd", 7, 7)):
            _close(answer["grads"][name], _alone(num_items, micro))
        _close(answer["grads"]["one"], _alone(1, 1))
    assert answers[0]["share"] == [(0, 6), (0, 6), (0, 4), (0, 1)]
    assert answers[1]["share"] == [(6, 6), (6, 6), (4, 3), (1, 0)]


def test_one_process_runs_out_in_backward_and_both_go_on_with_the_same_size() -> None:
    for rank, answer in enumerate(run_ranks(parallel.shortage, timeout_s=30)):
        assert answer["answers"] == [(False, 6), (True, 6), (True, 3), (False, 1)]
        _close(answer["grads"], _alone(12, 3))
        # Gradients travel during the backward pass: unused weights hold up the first step alone,
        # and some were on their way when memory ran out; then it ran out before the last pass.
        first, failed, again, last = answer["travelled"]
        assert first == 0
        assert last > 2
        assert (failed, again) == (last, last) if rank == 0 else 0 < failed < last and again == 0


def test_models_that_differ_are_refused_everywhere() -> None:
    for said in run_ranks(parallel.different):
        assert "different models" in said


def test_a_process_that_left_is_told_of_in_words() -> None:
    first, second = run_ranks(parallel.gone)
    assert second == "left"
    assert first.startswith("PeerLost: another process of the group ended")
