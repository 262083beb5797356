"""Several processes train as one."""

from __future__ import annotations

import itertools
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError, PeerLostError, WorkError
from anyrig.training.distributed.ddp import Collective, Shares, divide_items, step_time
from anyrig.training.distributed.group import Group
from anyrig.training.distributed.launch import (
    RESTART_CODE,
    RankInfo,
    find_first_failure,
    join,
    launch,
    parse_strategy,
    read_rank,
)
from tests.training.ranks import model as toy
from tests.training.ranks import parallel
from tests.training.ranks.course import mixed, train
from tests.training.ranks.parallel import FixedWatch
from tests.training.ranks.running import free_port, run_ranks
from tests.waiting import wait_until

SCRIPT = str(Path(__file__).parent / "ranks" / "launched.py")


def _launch(what: str, folder: Path, **options: object) -> int:
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    return launch([SCRIPT, what, str(folder)], 2, environment=environment, cores=5, **options)  # type: ignore[arg-type]


def test_a_process_that_cannot_go_on_has_all_started_again_with_less(tmp_path: Path) -> None:
    told: list[str] = []
    assert _launch("restart", tmp_path, on_message=told.append) == 1
    assert told == ["process 1 cannot go on: all start again with a smaller micro batch"]
    assert (tmp_path / "done0").read_text() == (tmp_path / "done1").read_text() == "4 2 10"


@pytest.mark.parametrize(
    ("what", "said"),
    [("error", "ValueError: the data is not there"), ("killed", "killed by SIGKILL")],
)
def test_the_process_that_failed_first_is_named_with_its_words(
    what: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(WorkError, match=rf"process 1 of 2 failed: .*{said}") as caught:
        _launch(what, tmp_path)
    assert caught.value.hint


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_its_launcher(by: signal.Signals, tmp_path: Path) -> None:
    source = (
        "import os, sys\nfrom anyrig.training.distributed.launch import launch\n"
        "launch(sys.argv[1:], 2, environment=os.environ)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", source, SCRIPT, "wait", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)}, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_until(lambda: all((tmp_path / f"ready{rank}").exists() for rank in range(2)))
        parent.send_signal(by)
        parent.wait(60)
    finally:
        parent.kill()
        parent.communicate()
    pids = [int((tmp_path / f"pid{rank}").read_text()) for rank in range(2)]
    wait_until(lambda: not any(map(_lives, pids)))
    kept = all((tmp_path / f"kept{rank}").exists() for rank in range(2))
    assert kept == (by == signal.SIGINT)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_process_prints_is_seen_at_once_and_its_arguments_are_not_changed(
    tmp_path: Path,
) -> None:
    source = (
        "import os, sys\nfrom anyrig.training.distributed.launch import launch\n"
        "launch(sys.argv[1:], 1, environment=os.environ)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", source, SCRIPT, "print", str(tmp_path), "$HOME", "a$$b"],
        env={**_without(os.environ, "PYTHONUNBUFFERED"), "PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert parent.stdout is not None
    try:
        assert parent.stdout.readline() == "['$HOME', 'a$$b']\n"
        (tmp_path / "seen").touch()
        assert parent.wait(60) == 0
    finally:
        parent.kill()
        parent.communicate()


def _without(environment: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key != name}


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_processes_meet_at_an_address_of_ipv6() -> None:
    try:
        join(RankInfo(0, 1, 0, "::1", free_port()), torch.device("cpu"), timeout_s=20)
        assert torch.distributed.get_world_size() == 1
    finally:
        torch.distributed.destroy_process_group()


def test_who_only_saw_another_end_did_not_fail_first() -> None:
    reports: list[dict[str, Any]] = []

    def report(rank: int, kind: str, time: float, code: int = 1) -> None:
        row = {"rank": rank, "code": code, "kind": kind, "text": kind, "hint": "", "time": time}
        reports.append(row)

    report(0, "PeerLostError", 1.0)
    ends = {0: 1, 1: -signal.SIGTERM, 2: -9}
    assert find_first_failure(reports, ends)[:2] == (2, -9)
    report(1, "ValueError", 3.0)
    assert find_first_failure(reports, ends).message == "ValueError"
    report(3, "OSError", 2.0)
    assert find_first_failure(reports, ends).message == "OSError"
    report(4, "SystemExit", 4.0, RESTART_CODE)
    assert find_first_failure(reports, ends).code == RESTART_CODE


def test_data_parallel_is_a_word_that_explains_why_not() -> None:
    for word in ("dp", "DataParallel"):
        with pytest.raises(
            InvalidSettingError, match="one Python process drives all devices"
        ) as caught:
            parse_strategy(word)
        assert "ddp" in caught.value.hint
    assert parse_strategy("FSDP") == "fsdp"
    with pytest.raises(InvalidSettingError, match="unknown strategy 'zero'"):
        parse_strategy("zero")


def test_a_place_is_what_the_launcher_told() -> None:
    assert read_rank({}).size == 1
    told = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_PORT": "29500"}
    assert read_rank(told)[:3] == (3, 4, 1)
    with pytest.raises(InvalidSettingError, match="WORLD_SIZE is set but RANK is not"):
        read_rank({"WORLD_SIZE": "2"})
    with pytest.raises(InvalidSettingError, match="RANK is 4 of 4"):
        read_rank({**told, "RANK": "4"})


class Wrapped(nn.Module):
    """As torch.compile wraps a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._orig_mod = model

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self._orig_mod(words)
        return out


def _trained(model: nn.Module, *, turned: bool = False) -> torch.optim.Optimizer:
    """Two groups by shape, with a step taken."""
    held = [one for one in model.parameters() if one.requires_grad]
    held = held[::-1] if turned else held
    optimiser = torch.optim.AdamW(
        [
            {"params": [one for one in held if one.dim() > 1], "weight_decay": 0.1},
            {"params": [one for one in held if one.dim() == 1], "weight_decay": 0.0},
        ],
        lr=0.01,
    )
    assert not toy.gradients(model, Group(), toy.items(), 6)
    optimiser.step()
    optimiser.zero_grad()
    return optimiser


def _step(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    assert not toy.gradients(model, Group(), toy.items(1), 6)
    optimiser.step()
    return {name: value.clone() for name, value in Group().state_dict(model).items()}


def test_a_wrapped_model_with_groups_in_another_order_goes_on_as_the_plain_one() -> None:
    group, plain = Group(), toy.Model()
    optimiser = _trained(plain)
    weights = {name: value.clone() for name, value in group.state_dict(plain).items()}
    del weights["head.weight"]  # tied to the embedding: files keep one of the two
    state = group.optimizer_state_dict(plain, optimiser)
    assert "words.weight" in state["param_groups"][0]["params"]
    other = Wrapped(toy.Model(seed=5))
    other_optimiser = _trained(other, turned=True)
    group.load_state_dict(other, other_optimiser, weights, state)
    wanted = _step(plain, optimiser)
    found = _step(other, other_optimiser)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_other_groups_are_refused_before_rates_go_astray() -> None:
    model = toy.Model()
    state = Group().optimizer_state_dict(model, _trained(model))
    one_group = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad])
    with pytest.raises(InvalidInputError, match="in other groups"):
        Group().load_state_dict(model, one_group, Group().state_dict(model), state)
    fewer = torch.optim.AdamW(list(model.blocks.parameters()))
    with pytest.raises(
        InvalidInputError, match=r"not those of the checkpoint: unused\.bias"
    ) as caught:
        Group().load_state_dict(model, fewer, Group().state_dict(model), state)
    assert caught.value.hint


def _alone(num_items: int, micro: int) -> dict[str, torch.Tensor]:
    model = toy.Model()
    assert not toy.gradients(model, Group(), toy.items()[:num_items], micro)
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


def test_a_process_that_leaves_while_all_meet_is_told_of_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(
            "Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:553] Connection closed by"
            " peer [127.0.0.1]:33971. This is typically caused by a remote worker crashing."
        )  # as torch 2.13 says it

    monkeypatch.setattr("torch.distributed.init_process_group", fail)
    values = {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "MASTER_PORT": free_port()}
    place = read_rank({name: str(value) for name, value in values.items()})
    with pytest.raises(PeerLostError, match="another process of the group ended while all 2 met"):
        join(place, torch.device("cpu"), timeout_s=5)


def test_a_process_that_is_late_is_told_of_in_words() -> None:
    first, second = run_ranks(parallel.late)
    assert second == "late"
    assert first.startswith("PeerLostError: another process of the group did not answer in time")


def test_a_second_backward_pass_is_refused_or_waited_for() -> None:
    for said in run_ranks(parallel.twice, True):
        assert "came a second time" in said
        assert "overlap=False" in said
    assert run_ranks(parallel.twice, False) == [4.0, 4.0]


def test_no_other_cut_ends_sooner() -> None:
    chance = random.Random(3)
    for _ in range(300):
        size = chance.randint(1, 4)
        speeds = [10 ** chance.uniform(-2, 2) for _ in range(size)]
        num_items = chance.randint(0, 12)
        counts = divide_items(num_items, speeds)
        assert sum(counts) == num_items
        least = 1 if num_items >= size else 0
        assert min(counts) >= least
        others = itertools.product(range(least, num_items + 1), repeat=size)
        best = min(step_time(one, speeds) for one in others if sum(one) == num_items)
        assert step_time(counts, speeds) <= best * (1 + 1e-9)


class _Told(Collective):
    """A second process with a speed of its own, over the same sum."""

    def __init__(self) -> None:
        super().__init__(0, 2)
        self.other = 1.0

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor[0, 1] = self.other
        return tensor


def test_shares_stay_through_noise_and_move_with_the_device() -> None:
    shares, told, chance = Shares(2, "measured"), _Told(), random.Random(1)
    shares.watch = watch = FixedWatch()
    moves = []
    for step in range(400):
        slowed = 3.0 if step >= 200 else 1.0
        first, count = shares.next(64, 0)
        told.other = 1000 * chance.uniform(0.97, 1.03)
        watch.seconds += count / 1000 * slowed * chance.uniform(0.97, 1.03)
        shares.note(count, told)
        moves.append((first, count))
    assert {count for _, count in moves[:200]} == {32}
    assert moves[-1][1] == 16
    assert len(set(moves)) <= 4


def test_the_faster_process_gets_more_and_gradients_stay_those_of_one() -> None:
    first, second = run_ranks(parallel.measured)
    assert first["shares"][0] == (0, 6)
    assert first["shares"][-1] == (0, 9)
    for one, other in zip(first["shares"], second["shares"], strict=True):
        assert (sum(one), sum(other)) == (other[0], toy.NUM_ITEMS)  # no gap, no item twice
    for step, (mine, theirs) in enumerate(zip(first["grads"], second["grads"], strict=True)):
        wanted = _alone_in_shares(step)
        for name, value in wanted.items():
            assert torch.equal(mine[name], theirs[name])
            assert torch.allclose(mine[name], value, rtol=0, atol=1e-6), name


def _alone_in_shares(step: int) -> dict[str, Any]:
    model = toy.Model()
    toy.gradients(model, Group(), toy.items(step), toy.NUM_ITEMS)
    return toy.flat(model)


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
    toy.gradients(wanted, Group(), toy.items(), 12)
    for answer in run_ranks(mixed):
        assert answer["seen"] == {torch.bfloat16}
        assert "a batch of 7 cannot be cut evenly over 2 processes" in answer["said"]
        for name, value in answer["grads"].items():
            true = wanted.get_parameter(name).grad
            assert value.dtype == torch.float32
            assert true is not None
            assert torch.linalg.vector_norm(value - true) < 0.05 * torch.linalg.vector_norm(true)
