"""One process for each device, started together: torchrun as a child, its end told in words.

Ctrl-C is passed on once, so that the processes can keep what they have; a second one kills. When
this process is killed the others end too. A process that ran out of memory where nobody can go on
without it asks for a new start (`restarting`), and all are started again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anyrig.backends.process import ChildModule, start_module
from anyrig.errors import InvalidSettingError, Message, WorkError, load_message
from anyrig.training.distributed.agent import AGENT_FILE
from anyrig.training.distributed.restarting import START_AGAIN

_CONSEQUENCE = "PeerLostError"
"""Who says this tells of another's end."""
_HINT = "Its output above says more. Resume the run once it is put right."


class Launched(NamedTuple):
    """How a launch went."""

    num_restarts: int


class Failure(NamedTuple):
    """The process that failed first, and what it said."""

    rank: int
    code: int
    message: str
    hint: str


def launch(
    words: Sequence[str],
    nproc: int,
    *,
    environment: Mapping[str, str],
    again: Sequence[str] | None = None,
    restarts: int = 10,
    cores: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Launched:
    """Run a script or a module in several processes until all of them are done.

    Each finds RANK, WORLD_SIZE and the rest of torchrun's variables in its environment, which
    `joining.open_group` takes.

    Args:
        words: a script and its arguments, or `-m`, a module and its arguments.
        nproc: how many processes.
        environment: theirs. OMP_NUM_THREADS is set to their share of the cores unless it is there.
        again: the words of a new start, such as ones that resume; the same when None.
        restarts: how often all may be started again.
        cores: of this machine; those this process may use when None.
        tell: is told of a new start.

    Raises:
        WorkError: a process failed; it says which one was first, and why.
    """
    if nproc < 1:
        raise InvalidSettingError(f"nproc is {nproc}", hint="Start one process or more.")
    surroundings = _surroundings(environment, nproc, cores)
    for number in range(restarts + 1):
        failed = _once(words if number == 0 or again is None else again, nproc, surroundings)
        if failed is None:
            return Launched(number)
        if failed.code != START_AGAIN:
            raise WorkError(
                Message(
                    "process {rank} of {nproc} failed: {problem}",
                    rank=failed.rank,
                    nproc=nproc,
                    problem=failed.message,
                ),
                hint=failed.hint,
            )
        if tell is not None and number < restarts:
            tell(f"process {failed.rank} cannot go on: all start again with a smaller micro batch")
    raise WorkError(
        f"the processes asked for a new start {restarts + 1} times",
        hint="Take a smaller model, shorter items, or more devices.",
    )


def _surroundings(environment: Mapping[str, str], nproc: int, cores: int | None) -> dict[str, str]:
    if cores is None:
        affinity = getattr(os, "sched_getaffinity", None)
        cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    # Each process would else take all cores for itself, and they would stand in each other's way.
    return {"OMP_NUM_THREADS": str(max(1, cores // nproc)), **environment}


def _once(words: Sequence[str], nproc: int, environment: Mapping[str, str]) -> Failure | None:
    with tempfile.TemporaryDirectory(prefix="anyrig-launch-") as reports:
        child = start_module(
            "anyrig.training.distributed.agent", environment, reports, str(nproc), *words,
            stdin=subprocess.DEVNULL, stdout=None, stderr=None,
        )  # fmt: skip
        code = _awaited(child)
        return first_failure(Path(reports), code) if code else None


def _awaited(child: ChildModule) -> int:
    """Its exit code; a Ctrl-C is passed on and raised once all have ended."""
    try:
        return child.wait()
    except KeyboardInterrupt:
        if os.name == "posix":  # on Windows the console has told all of them
            child.send_signal(signal.SIGINT)
        child.wait()
        raise
    finally:
        if child.poll() is None:  # a second Ctrl-C, or something worse
            child.kill()  # its processes see that it is gone
            child.wait()


def first_failure(reports: Path, code: int) -> Failure:
    """Who failed first, by what the processes and torchrun wrote down.

    A process that asks for a new start comes before all others; one that only saw another end
    comes last, as do those that torchrun ended itself.
    """
    told = [_read(path) for path in reports.glob("rank*.json")]
    ends: dict[str, int] = _read(reports / AGENT_FILE)
    told.sort(
        key=lambda one: (one["code"] != START_AGAIN, one["kind"] == _CONSEQUENCE, one["time"])
    )
    if told and told[0]["kind"] != _CONSEQUENCE:
        return _to_failure(told[0])
    silent = {
        rank: end for rank, end in ends.items() if not (reports / f"rank{rank}.json").exists()
    }
    for rank, end in sorted(silent.items(), key=lambda pair: pair[1] == -signal.SIGTERM):
        return Failure(int(rank), end, _ending(end), _HINT)
    for one in told:
        return _to_failure(one)
    return Failure(0, code, f"torchrun ended with exit code {code}", _HINT)


def _to_failure(row: Mapping[str, Any]) -> Failure:
    message, hint = (load_message(row[name]) for name in ("message", "hint"))
    return Failure(row["rank"], row["code"], message, hint or _HINT)


def _ending(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    why = ", as the system does when the host's memory runs out" if name == "SIGKILL" else ""
    return f"it was killed by {name}{why}"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
