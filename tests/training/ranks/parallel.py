"""What the processes of a data-parallel group do in the tests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from anyrig.errors import AnyrigError
from anyrig.training.distributed.ddp import Ddp, Shares, Stopwatch
from anyrig.training.distributed.launch import join, open_group, read_rank
from tests.training.ranks import model as toy

Environment = Mapping[str, str]


def _group(environment: Environment, **options: Any) -> Ddp:
    place = read_rank(environment)
    join(place, torch.device("cpu"), timeout_s=60)
    return Ddp(place.rank, place.size, bucket_bytes=600, **options)


def gradients(environment: Environment) -> dict[str, Any]:
    """Uneven shares, accumulation, a rank without items; all against one process."""
    group = _group(environment)
    model = group.prepare(toy.Model(seed=group.rank))
    found: dict[str, Any] = {"weights": dict(group.state_dict(model)), "share": [], "grads": {}}
    for name, size, micro in (("whole", 12, 12), ("micro", 12, 2), ("odd", 7, 3), ("one", 1, 1)):
        model.zero_grad()
        found["share"].append(group.share(size))
        assert not group.finish(ran_out=False).ran_out  # nothing yet: zeros everywhere
        model.zero_grad()
        assert not toy.gradients(model, group, toy.items()[:size], micro)
        found["grads"][name] = toy.flat(model)
    found["sparse"] = _sparse(group)
    found["least"] = group.min(10 + group.rank)
    found["total"] = float(group.sum(torch.tensor(1.0 + group.rank)))
    group.close()
    return found


def _sparse(group: Ddp) -> torch.Tensor:
    """Rows that only one process has, some twice."""
    words = torch.nn.Embedding(6, 3, sparse=True)
    group.prepare(words)
    with group.accumulate(last=True):
        loss = words(torch.tensor([group.rank, group.rank, 3])).sum()
        loss.backward()
    assert not group.finish(ran_out=False).ran_out
    assert words.weight.grad is not None
    return words.weight.grad.clone()


def shortage(environment: Environment) -> dict[str, Any]:
    """The second process runs out in the middle of its last backward pass, twice."""
    group = _group(environment)
    model = toy.Model()
    group.prepare(model)
    answers, travelled, micro = [], [], 6
    for step in range(4):
        model.explodes = group.rank == 1 and step in (1, 2)
        model.zero_grad()
        with _counting(group) as started:
            ran_out = toy.gradients(model, group, toy.items(), micro)
        travelled.append(started[0])
        answers.append((ran_out, micro))
        if ran_out:
            micro = group.min(micro // 2 if model.explodes else micro)
    grads = toy.flat(model)
    group.close()
    return {"answers": answers, "grads": grads, "travelled": travelled}


@contextlib.contextmanager
def _counting(group: Ddp) -> Iterator[list[int]]:
    """How many buckets had set off before the step was settled."""
    reducer, counted = group._reducer, [0]
    finish = reducer.finish

    def finishing(*, zeros: bool) -> None:
        counted[0] = reducer._started
        finish(zeros=zeros)

    reducer.finish = finishing  # type: ignore[method-assign]
    yield counted
    reducer.finish = finish  # type: ignore[method-assign]


def different(environment: Environment) -> str:
    """Models that differ are refused in words, in both processes."""
    group = open_group("ddp", environment, timeout_s=60)
    try:
        group.prepare(toy.Model(unused=group.rank == 0))
    except AnyrigError as error:
        return f"{error} {error.hint}"
    finally:
        group.close()
    return ""


def gone(environment: Environment) -> str:
    """The second process leaves; the first is told in words."""
    try:
        group = _group(environment)  # the second may be gone before the first is here
        if group.rank == 1:
            group.close()
            return "left"
        group.barrier()
        group.barrier()
    except AnyrigError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def late(environment: Environment) -> str:
    """The second process does not come in time."""
    place = read_rank(environment)
    join(place, torch.device("cpu"), timeout_s=5)
    group = Ddp(place.rank, place.size)
    if group.rank == 1:
        time.sleep(12)
        return "late"
    try:
        group.barrier()
    except AnyrigError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def twice(environment: Environment, overlap: bool) -> str | float:
    """Two backward passes in one micro batch, which only a group without overlap can add up."""
    group = _group(environment, overlap=overlap)
    model = group.prepare(torch.nn.Linear(2, 1, bias=False))
    try:
        for _ in range(2):
            model.zero_grad()
            with group.accumulate(last=True):
                for _ in range(2):
                    loss = model(torch.ones(1, 2)).sum()
                    loss.backward()
            group.finish(ran_out=False)
    except AnyrigError as error:
        return f"{error} {error.hint}"
    gradient = next(model.parameters()).grad
    assert gradient is not None
    return float(gradient[0, 0])


class FixedWatch(Stopwatch):
    """Seconds that a test has set."""

    seconds = 0.0

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        yield

    def read(self) -> float:
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def measured(environment: Environment) -> dict[str, Any]:
    """The second process takes three times as long for an item; the first one loads ahead."""
    place = read_rank(environment)
    join(place, torch.device("cpu"), timeout_s=60)
    shares = Shares(2, "measured")
    shares.watch = watch = FixedWatch()
    group = Ddp(place.rank, place.size, shares, bucket_bytes=600)
    model = group.prepare(toy.Model())
    ahead: list[tuple[int, int]] = []
    found: dict[str, Any] = {"shares": [], "grads": [], "losses": []}
    for step in range(14):
        while len(ahead) < 3 - 2 * group.rank:
            ahead.append(group.share(toy.NUM_ITEMS))
        first, count = ahead.pop(0)
        found["shares"].append((first, count))
        model.zero_grad()
        with group.accumulate(last=True):
            part = toy.items(step)[first : first + count]
            loss = toy.loss_of(model, part) * count / toy.NUM_ITEMS
            loss.backward()  # type: ignore[no-untyped-call]
        assert not group.finish(ran_out=False).ran_out
        found["grads"].append(toy.flat(model))
        noise = 1 + 0.02 * (step % 3)
        watch.seconds += noise * count * (0.03 if group.rank else 0.01)
        group.record_speed(count)
    group.close()
    return found


def on_gpu(environment: Environment, carried_by: str) -> dict[str, Any]:
    """Gradients and a shortage on a GPU that the processes share."""
    place, device = read_rank(environment), torch.device("cuda", 0)
    join(place, device, timeout_s=60, backends=carried_by)
    shares = Shares(place.size, "measured", device)
    group = Ddp(place.rank, place.size, shares, bucket_bytes=600)
    model = toy.Model(seed=group.rank).to(device)
    group.prepare(model)
    answers, batch = [], toy.items().to(device)
    for step in range(6):
        model.explodes = group.rank == 0 and step == 2
        model.zero_grad()
        answers.append(toy.gradients(model, group, batch, 6))
        group.record_speed(6)
    grads = {name: value.cpu() for name, value in toy.flat(model).items()}
    speeds = shares.speeds
    group.close()
    return {"answers": answers, "grads": grads, "speeds": speeds}
