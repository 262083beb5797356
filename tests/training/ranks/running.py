"""Functions run as the processes of a group, each in a process of its own, over gloo."""

from __future__ import annotations

import io
import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any

# What would else be imported by every process anew, for seconds.
PRELOADED = ["torch.distributed.fsdp", "torch.distributed.tensor", "torch._dynamo"]


def run_ranks(
    function: Callable[..., Any], *given: Any, size: int = 2, timeout_s: float = 300
) -> list[Any]:
    """What `function(environment, *given)` returned in each process; none may fail or hang."""
    context: Any = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
    context.set_forkserver_preload(PRELOADED)
    port = free_port()
    ends, children = [], []
    for rank in range(size):
        mine, theirs = context.Pipe(duplex=False)
        values = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_PORT": port}
        environment = {name: str(value) for name, value in values.items()}
        child = context.Process(target=_run, args=(theirs, function, environment, given))
        child.start()
        theirs.close()
        ends.append(mine)
        children.append(child)
    try:
        return [_answer(rank, end, timeout_s) for rank, end in enumerate(ends)]
    finally:
        for child in children:
            child.kill()
            child.join()
            child.close()


def _run(
    end: Connection,
    function: Callable[..., Any],
    environment: Mapping[str, str],
    given: tuple[Any, ...],
) -> None:
    import torch

    torch.set_num_threads(1)
    try:
        answer: tuple[bool, Any] = True, function(environment, *given)
    except Exception:  # noqa: BLE001  whatever it is, the test shows it
        answer = False, traceback.format_exc()
    # As bytes: a tensor in a pipe would be shared memory of a process that is about to end.
    packed = io.BytesIO()
    torch.save(answer, packed)
    end.send_bytes(packed.getvalue())
    end.close()


def _answer(rank: int, end: Connection, timeout_s: float) -> Any:
    if not wait([end], timeout_s):
        raise AssertionError(f"rank {rank} did not answer within {timeout_s} s")
    import torch

    good, answer = torch.load(io.BytesIO(end.recv_bytes()), weights_only=False)
    assert good, f"rank {rank} failed:\n{answer}"
    return answer


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
