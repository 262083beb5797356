"""One process for each device, started together by torch elastic.

    launch(["train.py", "--fast"], 4, environment=os.environ)
    group = open_group("auto", os.environ, device)   # in each; one process is a group of one

Each process runs `python -m anyrig.training.distributed.launch SCRIPT ...`, which runs the script
and reports how it failed. Ctrl-C is passed on once, so that the processes can save what they have;
a second one kills. When the launching process is killed the others end too. A process that ran out
of memory where nobody can go on without it asks for a new start of all, with a smaller micro batch.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import threading
import time
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeVar

from anyrig.backends.process import child_environment, module_command
from anyrig.errors import (
    AnyrigError,
    InvalidSettingError,
    Message,
    PeerLostError,
    WorkError,
    dump_message,
    load_message,
)
from anyrig.storage.files import write_atomic

T = TypeVar("T")

if TYPE_CHECKING:
    import torch

    from anyrig.training.distributed.group import Group


# -- joining --------------------------------------------------------------------------------------


TIMEOUT_S = 600.0
_STRATEGIES = ("auto", "ddp", "fsdp")
_DATA_PARALLEL = frozenset({"dp", "dataparallel", "data_parallel"})
_LIBRARIES = {"cpu": "cpu:gloo", "cuda": "cpu:gloo,cuda:nccl", "xpu": "cpu:gloo,xpu:xccl"}
"""Host tensors always travel by gloo, so that numbers on the host can be agreed on."""


class RankInfo(NamedTuple):
    """A process among those that train together."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Counted on its machine: which of the machine's devices is its own."""
    address: str = "127.0.0.1"
    port: int = 0
    """Where all meet."""


def read_rank(environment: Mapping[str, str]) -> RankInfo:
    """The place that a launcher's variables tell of; alone where they tell of none."""
    if not environment.get("WORLD_SIZE"):
        return RankInfo()
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
    return RankInfo(
        numbers["RANK"],
        numbers["WORLD_SIZE"],
        numbers["LOCAL_RANK"],
        environment.get("MASTER_ADDR") or "127.0.0.1",
        numbers["MASTER_PORT"],
    )


def parse_strategy(name: str) -> Literal["auto", "ddp", "fsdp"]:
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


def choose_backends(device_type: str) -> str:
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
    place: RankInfo,
    device: torch.device,
    *,
    timeout_s: float = TIMEOUT_S,
    backends: str | None = None,
) -> None:
    """Meet the other processes; torch's default process group stands until this process ends.

    One that is open already is used: an earlier trainer's, since processes cannot meet twice at one
    address, or the program's own.

    Args:
        place: who this is.
        device: what this process computes on; it is made the current one.
        timeout_s: how long a process waits for the others, here and in every later exchange.
        backends: the libraries that carry tensors, as torch names them; those of the device when
            None. NCCL refuses two processes on one GPU, gloo does not.
    """
    import torch
    import torch.distributed as dist

    if device.type == "cuda":
        torch.cuda.set_device(device)
    if dist.is_available() and dist.is_initialized():
        if "cpu:" not in dist.get_backend_config():
            raise InvalidSettingError(
                "the process group of this program carries no tensors of the host",
                hint=f'Open it with "{choose_backends(device.type)}", or leave it to the Trainer.',
            )
        return
    host = f"[{place.address}]" if ":" in place.address else place.address
    try:
        dist.init_process_group(
            backends or choose_backends(device.type),
            init_method=f"tcp://{host}:{place.port}",
            rank=place.rank,
            world_size=place.size,
            timeout=timedelta(seconds=timeout_s),
        )
        atexit.register(_leave)
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


def _leave() -> None:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def open_group(
    strategy: str,
    environment: Mapping[str, str],
    device: torch.device | str = "cpu",
    *,
    shares: Literal["auto", "equal", "measured"] = "equal",
    device_name: str = "",
    timeout_s: float = TIMEOUT_S,
    overlap: bool = True,
) -> Group:
    """The group that this process trains in; a group of one where a launcher told of no other.

    Args:
        strategy: `ddp`, `fsdp`, or `auto`, which is ddp.
        environment: a launcher's variables.
        device: what this process computes on.
        shares: how batches are cut; measured ones go with ddp, and `auto` measures where the
            processes' devices have different names.
        device_name: of this process' device.
        timeout_s: how long a process waits for the others.
        overlap: whether gradients travel during the backward pass (ddp).
    """
    import torch

    word, place, device = parse_strategy(strategy), read_rank(environment), torch.device(device)
    if place.size == 1:
        from anyrig.training.distributed.group import Group

        return Group()
    join(place, device, timeout_s=timeout_s)
    if word == "fsdp":
        from anyrig.training.distributed.fsdp import Fsdp

        return Fsdp(place.rank, place.size, device)
    from anyrig.training.distributed.ddp import Ddp, Shares

    if shares == "auto":
        shares = "measured" if len(set(gather(device_name, place.size))) > 1 else "equal"
    return Ddp(place.rank, place.size, Shares(place.size, shares, device), overlap=overlap)


def gather(value: T, size: int) -> list[T]:
    """What each process of the group gave, in the order of ranks."""
    if size == 1:
        return [value]
    import torch.distributed as dist

    found: list[Any] = [None] * size
    dist.all_gather_object(found, value)
    return found


# -- starting -------------------------------------------------------------------------------------


_MODULE = "anyrig.training.distributed.launch"
_END_S = 15.0
"""How long a process has to save what it has after its launcher is gone."""
_MAX_RESTARTS = 10
_PEER_LOST = "PeerLostError"
"""Who says this tells of another's end."""
_HINT = "Its output above says more. Resume the run once it is put right."
_REPORT_FILE = "TORCHELASTIC_ERROR_FILE"
"""Where a process reports its failure: torch elastic puts it into its environment."""


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
    cores: int | None = None,
    on_message: Callable[[str], None] | None = None,
) -> int:
    """Run a script or a module in several processes until all of them are done; how often they
    were started again.

    Each finds RANK, WORLD_SIZE and the rest of torchrun's variables in its environment, which
    `open_group` takes.

    Args:
        words: a script and its arguments, or `-m`, a module and its arguments.
        nproc: how many processes.
        environment: theirs. OMP_NUM_THREADS is set to their share of the cores unless it is there.
        cores: of this machine; those this process may use when None.
        on_message: receives a text at each new start.

    Raises:
        WorkError: a process failed; it says which one was first, and why.
    """
    if nproc < 1:
        raise InvalidSettingError(f"nproc is {nproc}", hint="Start one process or more.")
    own = child_environment(_build_environment(environment, nproc, cores))
    command = module_command(_MODULE, *words)
    return _run_with_restarts(
        lambda: _run_agent(command[0], command[1:], nproc, own), nproc, on_message
    )


def _run_with_restarts(
    start: Callable[[], Failure | None],
    nproc: int,
    on_message: Callable[[str], None] | None,
) -> int:
    for number in range(_MAX_RESTARTS + 1):
        failed = start()
        if failed is None:
            return number
        if failed.code != RESTART_CODE:
            raise WorkError(
                Message(
                    "process {rank} of {nproc} failed: {problem}",
                    rank=failed.rank,
                    nproc=nproc,
                    problem=failed.message,
                ),
                hint=failed.hint,
            )
        if on_message is not None and number < _MAX_RESTARTS:
            on_message(
                f"process {failed.rank} cannot go on: all start again with a smaller micro batch"
            )
    raise WorkError(
        f"the processes asked for a new start {_MAX_RESTARTS + 1} times",
        hint="Take a smaller model, shorter items, or more devices.",
    )


def _build_environment(
    environment: Mapping[str, str], nproc: int, cores: int | None
) -> dict[str, str]:
    if cores is None:
        affinity = getattr(os, "sched_getaffinity", None)
        cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    # Each process would else take all cores for itself, and they would stand in each other's way.
    threads = str(max(1, cores // nproc))
    # What they print would else wait in a buffer until they end.
    return {"OMP_NUM_THREADS": threads, "PYTHONUNBUFFERED": "1", **environment}


def _run_agent(
    entrypoint: str | Callable[[], None],
    words: Sequence[str],
    nproc: int,
    environment: Mapping[str, str],
) -> Failure | None:
    """Run a command, or a function in forks of this process, by an agent of torch elastic."""
    from torch.distributed.elastic.agent.server.api import WorkerSpec
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, LogsDest
    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

    class Processes(DefaultLogsSpecs):
        def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
            for one in envs.values():
                # What the agent copies from this process may be set otherwise.
                copied = {name: environment[name] for name in _COPIED if name in environment}
                one.update({**environment, **one, **copied})
            return super().reify(envs)

    with (
        tempfile.TemporaryDirectory(prefix="anyrig-launch-", ignore_cleanup_errors=True) as folder,
        _around_agent(),
    ):
        meeting = RendezvousParameters(
            "c10d", "localhost:0", uuid.uuid4().hex, 1, 1, local_addr="localhost"
        )
        handler = get_rendezvous_handler(meeting)
        arguments = tuple(word.replace("$", "$$") for word in words)  # the agent fills in $NAMES
        spec = WorkerSpec(
            "trainer", nproc, handler, entrypoint=entrypoint, args=arguments, max_restarts=0
        )
        try:
            result = LocalElasticAgent(spec, Processes(folder), start_method="fork").run()
        finally:
            handler.shutdown()
        if not result.is_failed():
            return None
        reports = [json.loads(path.read_text()) for path in Path(folder).rglob("error.json")]
        ends = {rank: failed.exitcode for rank, failed in result.failures.items()}
        return find_first_failure([row for row in reports if "kind" in row], ends)


_COPIED = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")


@contextlib.contextmanager
def _around_agent() -> Iterator[None]:
    """Without the agent's log, and with the signal handlers from before afterwards.

    It passes signals on to its processes, waits for them, and raises SignalException here.
    """
    from torch.distributed.elastic.multiprocessing import SignalException

    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    handled = [
        name for name in ("SIGINT", "SIGTERM")
        if before[getattr(signal, name)] is not signal.SIG_IGN  # such as a job in the background
    ]  # fmt: skip
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = ",".join(handled)
    log = logging.getLogger("torch.distributed.elastic")
    silent = logging.NullHandler()
    log.addHandler(silent)
    log.propagate = False
    try:
        yield
    except SignalException as stopped:
        if stopped.sigval == signal.SIGINT:
            raise KeyboardInterrupt from None
        raise SystemExit(128 + int(stopped.sigval)) from None
    finally:
        log.propagate = True
        log.removeHandler(silent)
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def find_first_failure(reports: list[dict[str, Any]], ends: Mapping[int, int]) -> Failure:
    """Who failed first, by what the processes reported, and by their exit codes.

    A process that asks for a new start comes before all others; one that only saw another end
    comes last, as do those that were ended after a failure.
    """
    reports.sort(key=lambda row: (
        row["code"] != RESTART_CODE, row["kind"] == _PEER_LOST, row["time"]
    ))  # fmt: skip
    if reports and reports[0]["kind"] != _PEER_LOST:
        return _to_failure(reports[0])
    silent = {rank: code for rank, code in ends.items() if rank not in {r["rank"] for r in reports}}
    for rank, code in sorted(silent.items(), key=lambda pair: pair[1] == -signal.SIGTERM):
        return Failure(rank, code, _describe_exit(code), _HINT)
    return _to_failure(reports[0])


def _to_failure(row: Mapping[str, Any]) -> Failure:
    message, hint = (load_message(row[name]) for name in ("text", "hint"))
    return Failure(row["rank"], row["code"], message, hint or _HINT)


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    why = ", as the system does when the host's memory runs out" if name == "SIGKILL" else ""
    return f"it was killed by {name}{why}"


# -- from within a program ------------------------------------------------------------------------


FIT_FOLDER = "ANYRIG_FIT_FOLDER"
"""Where the processes of a `Trainer(devices=2)` leave their result, in their environment."""
FIT_NUMBER = "ANYRIG_FIT_NUMBER"
"""Which fit of the program they are started for; earlier ones have a result already."""
_fit_folder: tempfile.TemporaryDirectory[str] | None = None
_num_fits = 0


class FitFile(NamedTuple):
    """Where the result of one fit in several processes is exchanged."""

    path: Path
    is_past: bool
    """Whether this process was started for a later one."""


def next_fit_file(environment: Mapping[str, str]) -> FitFile | None:
    """The next fit of this program; None under a launcher that is not a trainer's."""
    global _num_fits, _fit_folder
    folder = environment.get(FIT_FOLDER)
    if folder is None:
        if environment.get("WORLD_SIZE"):
            return None
        if _fit_folder is None:
            _fit_folder = tempfile.TemporaryDirectory(prefix="anyrig-fit-")
        folder = _fit_folder.name
    number, _num_fits = _num_fits, _num_fits + 1
    latest = int(environment.get(FIT_NUMBER) or number)
    return FitFile(Path(folder) / f"{number}.pt", number < latest)


def run_again(
    function: Callable[[Mapping[str, str]], object],
    nproc: int,
    file: FitFile,
    *,
    environment: Mapping[str, str],
    on_message: Callable[[str], None] | None = None,
) -> None:
    """Run this program again in several processes, up to the fit that this one is at.

    A notebook or an interactive session has no program to run: it forks, and each process calls the
    function with its environment.
    """
    # What forks is at this fit already; what begins anew has the earlier ones before it.
    environment = {**environment, FIT_FOLDER: str(file.path.parent), FIT_NUMBER: file.path.stem}
    main = sys.modules["__main__"]
    spec, script = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is None and (script is None or not Path(script).is_file()):
        _fork(function, nproc, environment, on_message)
        return
    words = [str(script)] if spec is None else ["-m", spec.name.removesuffix(".__main__")]
    search = os.pathsep.join(dict.fromkeys(one or os.getcwd() for one in sys.path))
    launch(
        [*words, *sys.argv[1:]], nproc,
        environment={**environment, "PYTHONPATH": search}, on_message=on_message,
    )  # fmt: skip


def _fork(
    function: Callable[[Mapping[str, str]], object],
    nproc: int,
    environment: Mapping[str, str],
    on_message: Callable[[str], None] | None,
) -> None:
    torch = sys.modules.get("torch")
    if "fork" not in multiprocessing.get_all_start_methods():
        raise InvalidSettingError(
            "a notebook cannot train in several processes on this system",
            hint="Write the program to a file and run it with python.",
        )
    if torch is not None and torch.cuda.is_initialized():
        raise InvalidSettingError(
            "this notebook uses CUDA already, so it cannot train in several processes",
            hint="Restart the kernel and call `fit` before anything is put on a GPU, or write the "
            "program to a file and run it with python.",
        )

    def run_rank() -> None:
        os.setsid()  # Ctrl-C comes from the agent alone
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if torch is not None:
            torch.set_num_threads(1)  # the parent's threads are not here, and a pool waits for them
        code = _run_reported(lambda: function(dict(os.environ)))
        sys.stdout.flush()
        sys.stderr.flush()
        if code:
            raise SystemExit(code)

    with warnings.catch_warnings():
        # Python warns of threads, which a notebook always has; those of torch are not used again.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "Unable to enable fault handler")
        _run_with_restarts(lambda: _run_agent(run_rank, (), nproc, environment), nproc, on_message)


# -- restarting with a smaller micro batch --------------------------------------------------------


RESTART_CODE = 75
"""The exit code that asks for a new start: the system's own for "try again later"."""
_NAME = "smaller.json"


def request_smaller(folder: Path, micro_batch: int) -> None:
    """Ask that the next start computes at most so many items at once; the smallest number holds."""
    before = requested_micro_batch(folder)
    size = max(1, micro_batch if before is None else min(before, micro_batch))
    write_atomic(folder / _NAME, json.dumps({"micro_batch": size}) + "\n")


def requested_micro_batch(folder: Path) -> int | None:
    """The largest micro batch that a new start may compute; None where nobody asked."""
    try:
        value = json.loads((folder / _NAME).read_text(encoding="utf-8"))["micro_batch"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return value if type(value) is int and value >= 1 else None


def clear_request(folder: Path) -> None:
    """The request was granted."""
    (folder / _NAME).unlink(missing_ok=True)


def request_restart(folder: Path, micro_batch: int) -> NoReturn:
    """Ask for a smaller micro batch and end this process with the code that starts all again."""
    request_smaller(folder, micro_batch)
    raise SystemExit(RESTART_CODE)


# -- in each process ------------------------------------------------------------------------------


INTERRUPTED = 130


def _run_reported(function: Callable[[], object]) -> int:
    """Run a function, and report its failure; the exit code."""
    _end_with_launcher()
    try:
        function()
    except AnyrigError as error:
        _write_failure(error.exit_code, type(error).__name__, error.message, error.hint)
        return error.exit_code
    except SystemExit as leaving:
        return _report_exit(leaving.code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  whatever the script raises ends this process
        message = "".join(traceback.format_exception_only(error)).strip()
        _write_failure(1, type(error).__name__, message, "")
        traceback.print_exc()
        return 1
    finally:
        if "torch" in sys.modules:
            _leave()  # a fork calls nothing at exit
    return 0


def _report_exit(code: object) -> int:
    if code is None or code == 0:
        return 0
    number = code if isinstance(code, int) else 1
    message = f"it ended with exit code {number}" if isinstance(code, int) else str(code)
    _write_failure(number, "SystemExit", message, "")
    return number


def _write_failure(code: int, kind: str, message: str, hint: str) -> None:
    rank = int(os.environ["RANK"])  # the agent's word on who this is; nothing else is read
    texts = {"text": dump_message(message), "hint": dump_message(hint)}
    # The agent reads `message`.
    row = {"message": kind, "rank": rank, "code": code, "kind": kind, **texts, "time": time.time()}
    write_atomic(Path(os.environ[_REPORT_FILE]), json.dumps(row))


_LOOK_S = 0.5


def _end_with_launcher() -> None:
    """End this process once its launcher is gone, or has given up and removed the reports.

    The system gives an orphan another parent. Windows does not.
    """
    parent, reports = os.getppid(), Path(os.environ[_REPORT_FILE]).parent

    def look() -> None:
        while os.getppid() == parent and reports.is_dir():
            time.sleep(_LOOK_S)
        os.kill(os.getpid(), signal.SIGTERM)  # a trainer saves what it has
        time.sleep(_END_S)
        os._exit(1)

    threading.Thread(target=look, name="parent", daemon=True).start()


def _run_program(words: Sequence[str]) -> None:
    if words[0] == "-m":
        sys.argv = list(words[1:])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(words)
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    program = sys.argv[1:]
    raise SystemExit(_run_reported(lambda: _run_program(program)))
