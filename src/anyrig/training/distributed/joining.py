"""Who this process is among those that train together, and the group it joins.

torchrun and its like tell each process by variables: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
MASTER_PORT. They are handed in; nothing here reads the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from anyrig.errors import InvalidSettingError, PeerLostError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

    from anyrig.training.protocol import Group

TIMEOUT_S = 600.0
_STRATEGIES = ("auto", "ddp", "fsdp")
_DATA_PARALLEL = frozenset({"dp", "dataparallel", "data_parallel"})
_LIBRARIES = {"cpu": "cpu:gloo", "cuda": "cpu:gloo,cuda:nccl", "xpu": "cpu:gloo,xpu:xccl"}
"""Host tensors always travel by gloo, so that numbers on the host can be agreed on."""


class Place(NamedTuple):
    """A process among those that train together."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Counted on its machine: which of the machine's devices is its own."""
    address: str = "127.0.0.1"
    port: int = 0
    """Of the first process, where all meet."""
    store_there: bool = False
    """Whether the launcher serves the meeting point; the first process does so otherwise."""


def place_of(environment: Mapping[str, str]) -> Place:
    """The place that a launcher's variables tell; alone where they tell none."""
    if not environment.get("WORLD_SIZE"):
        return Place()
    numbers = {}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"):
        fallback = environment.get("RANK", "") if name == "LOCAL_RANK" else ""
        text = environment.get(name, fallback)
        if not text.strip().isdigit():
            raise InvalidSettingError(
                f"{name} is {text!r}" if text else f"WORLD_SIZE is set but {name} is not",
                hint="Start with `anyrig train --nproc N` or torchrun, or unset WORLD_SIZE.",
            )
        numbers[name] = int(text)
    if not numbers["RANK"] < numbers["WORLD_SIZE"]:
        raise InvalidSettingError(
            f"RANK is {numbers['RANK']} of {numbers['WORLD_SIZE']} processes",
            hint="Ranks count from 0 to WORLD_SIZE - 1.",
        )
    return Place(
        numbers["RANK"],
        numbers["WORLD_SIZE"],
        numbers["LOCAL_RANK"],
        environment.get("MASTER_ADDR") or "127.0.0.1",
        numbers["MASTER_PORT"],
        environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
    )


def strategy_named(name: str) -> Literal["auto", "ddp", "fsdp"]:
    """A strategy by the word a person uses; DataParallel is explained, not done."""
    word = name.strip().lower()
    if word in _DATA_PARALLEL:
        raise InvalidSettingError(
            "DataParallel is not offered: one Python process drives all devices and is held up by "
            "itself, the model is copied to each device in every step, and gradients and outputs "
            "gather on the first device, which is full before the others are",
            hint='Take strategy = "ddp", or "fsdp" where the model is too large for one device, '
            "and start one process for each device: anyrig train --nproc N.",
        )
    for known in _STRATEGIES:
        if word == known:
            return known  # type: ignore[return-value]  # one of the literals
    raise InvalidSettingError(
        f"unknown strategy {name!r}", hint=f"Valid names: {', '.join(_STRATEGIES)}."
    )


def libraries(device_type: str) -> str:
    """The libraries that carry tensors, in the words of torch."""
    import torch.distributed as dist

    if not dist.is_available():
        raise InvalidSettingError(
            "this build of torch has no torch.distributed", hint="Train in one process."
        )
    if device_type not in _LIBRARIES:
        raise InvalidSettingError(
            f"several processes cannot train together on {device_type}: no library carries its "
            "tensors",
            hint="Train in one process there.",
        )
    if device_type == "cuda" and not dist.is_nccl_available():
        return "cpu:gloo,cuda:gloo"  # Windows has no NCCL
    return _LIBRARIES[device_type]


def join(
    place: Place,
    device: torch.device,
    *,
    timeout_s: float = TIMEOUT_S,
    carried_by: str | None = None,
) -> None:
    """Meet the other processes; torch's default process group stands after it.

    Args:
        place: who this is.
        device: what this process computes on; it is made the current one.
        timeout_s: how long a process waits for the others, here and in every later exchange.
        carried_by: the libraries that carry tensors, as torch names them; those of the device when
            None. NCCL refuses two processes on one GPU, gloo does not.
    """
    import torch.distributed as dist

    carried = carried_by or libraries(device.type)
    patience = timedelta(seconds=timeout_s)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    try:
        dist.init_process_group(
            carried,
            store=_store(place, patience),
            rank=place.rank,
            world_size=place.size,
            timeout=patience,
        )
    except RuntimeError as error:
        if "by peer" in str(error):  # closed or reset: it was there, and is gone again
            raise PeerLostError(
                f"another process of the group ended while all {place.size} met at "
                f"{place.address}:{place.port}",
                hint="Look for the first error among the processes' output.",
            ) from error
        raise PeerLostError(
            f"{place.size} processes were to meet at {place.address}:{place.port}, and did not "
            f"within {timeout_s:g} s",
            hint="See that all were started, with the same WORLD_SIZE, and can reach that address.",
        ) from error


def _store(place: Place, patience: timedelta) -> Store:
    import torch.distributed as dist

    serves = place.rank == 0 and not place.store_there
    return dist.TCPStore(  # type: ignore[attr-defined]  # there, not in its `__all__`
        place.address,
        place.port,
        place.size,
        is_master=serves,
        timeout=patience,
        wait_for_workers=False,
        multi_tenant=serves,
    )


def open_group(
    strategy: str,
    environment: Mapping[str, str],
    device: torch.device | str = "cpu",
    *,
    shares: Literal["equal", "measured"] = "equal",
    timeout_s: float = TIMEOUT_S,
    overlap: bool = True,
    param_dtype: torch.dtype | None = None,
) -> Group:
    """The group that this process trains in; a group of one where a launcher told of no other.

    Args:
        strategy: `ddp`, `fsdp`, or `auto`, which is ddp.
        environment: a launcher's variables.
        device: what this process computes on.
        shares: how batches are cut; measured ones go with ddp.
        timeout_s: how long a process waits for the others.
        overlap: whether gradients travel during the backward pass (ddp).
        param_dtype: the format that shards are gathered and computed in (fsdp).
    """
    word, place, device = strategy_named(strategy), place_of(environment), torch.device(device)
    if place.size == 1:
        from anyrig.training.distributed.alone import Alone

        return Alone()
    join(place, device, timeout_s=timeout_s)
    if word == "fsdp":
        from anyrig.training.distributed.shards import Shards

        return Shards(place.rank, place.size, device, param_dtype=param_dtype)
    from anyrig.training.distributed.processes import Processes
    from anyrig.training.distributed.shares import Shares

    return Processes(place.rank, place.size, Shares(place.size, shares, device), overlap=overlap)
