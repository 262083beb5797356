"""Data parallel over real processes: sums of gradients, shortages, peers that leave."""

from __future__ import annotations

import torch

from anyrig.training.distributed.alone import Alone
from anyrig.training.distributed.reducer import make_buckets, views_of
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
        assert answer["sparse"][:, 0].tolist() == [2, 2, 0, 2, 0, 0]
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
    assert first.startswith("PeerLostError: another process of the group ended")


def test_a_process_that_is_late_is_told_of_in_words() -> None:
    first, second = run_ranks(parallel.late)
    assert second == "late"
    assert first.startswith("PeerLostError: another process of the group did not answer in time")


def test_a_second_backward_pass_is_refused_or_waited_for() -> None:
    for said in run_ranks(parallel.twice, True):
        assert "came a second time" in said
        assert "overlap=False" in said
    assert run_ranks(parallel.twice, False) == [4.0, 4.0]


def test_gradients_lie_in_memory_as_their_weights_do() -> None:
    picture = torch.randn(5, 3, 3, 3).to(memory_format=torch.channels_last)
    turned = torch.nn.Parameter(torch.randn(4, 6).t())
    gapped = torch.nn.Parameter(torch.randn(4, 6)[:, ::2])
    half = torch.nn.Parameter(torch.randn(7).bfloat16())
    buckets = make_buckets([picture, half, turned, gapped], 1 << 20)
    assert [len(bucket.parameters) for bucket in buckets] == [3, 1]
    views = views_of(buckets[0], torch.zeros(buckets[0].num_elements))
    for view, weight in zip(views, (picture, turned, gapped), strict=True):
        assert view.shape == weight.shape
        assert view.data_ptr() % 64 == views[0].data_ptr() % 64
        view.fill_(1)
    assert [view.stride() for view in views] == [picture.stride(), turned.stride(), (3, 1)]
    assert int(views[0]._base.sum()) == 5 * 27 + 24 + 12  # type: ignore[union-attr]
    assert len(make_buckets([picture, turned, gapped], 100)) == 3
