"""Start the programs that benchmarks measure, and read what they cost: CPU seconds and memory."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from benchmarks.harness import ROOT

T = TypeVar("T")
ANYRIG = (sys.executable, "-m", "anyrig")
_SAMPLE_EVERY_S = 0.2
_START_TIMEOUT_S = 120.0


def child_environment(
    home: Path | None = None, paths: Sequence[str] = (), **variables: str
) -> dict[str, str]:
    """The environment of a child: this checkout on PYTHONPATH, and no settings of anyrig.

    Args:
        home: a home folder of its own, with its own cache, settings and data.
        paths: come first on PYTHONPATH.
        variables: more of them.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANYRIG_")}
    path = (*paths, str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    if home is not None:
        home.mkdir(parents=True, exist_ok=True)
        kept |= {"HOME": str(home), "ANYRIG_CONTAINER": "0", "NO_COLOR": "1"}
        kept |= {
            f"XDG_{kind}_HOME": str(home / kind.lower())
            for kind in ("CACHE", "CONFIG", "DATA", "STATE")
        }
    return {**kept, **variables}


def run_module(
    module: str, *arguments: str, data: object = None, environment: dict[str, str] | None = None
) -> Any:
    """Run `python -m MODULE`, with `data` as JSON on stdin; return the JSON of its last line."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        input=None if data is None else json.dumps(data),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment or child_environment(),
    )
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Usage:
    """What a command and its children used."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    """The largest resident set of one process."""
    tree_peak_bytes: int
    """Resident memory of all processes together; 0 unless it was sampled."""
    output: str


def measure_command(
    command: Sequence[str],
    environment: dict[str, str] | None = None,
    *,
    sample_memory: bool = False,
) -> Usage:
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment or child_environment(), stdout=output, stderr=errors
        )
        peaks = [0]
        sampler = threading.Thread(target=_sample_memory, args=(process.pid, peaks), daemon=True)
        if sample_memory:
            sampler.start()
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (output, errors):
            file.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command[:4])}: {errors.read()[-2000:]}")
        cpu_s = used.ru_utime + used.ru_stime
        return Usage(wall_s, cpu_s, used.ru_maxrss * 1024, max(peaks), output.read())


def _sample_memory(pid: int, peaks: list[int]) -> None:
    import psutil

    with contextlib.suppress(psutil.Error):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            peaks.append(sum(process_memory(pid).values()))
            time.sleep(_SAMPLE_EVERY_S)


def cpu_seconds() -> float:
    """Of this process and of all its children that have ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def children_cpu_seconds() -> float:
    """Of all children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree_cpu_seconds(pid: int) -> float:
    """Of a running process and its descendants, those that have ended included."""
    import psutil

    total = 0.0
    for process in _process_tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def process_memory(pid: int) -> dict[int, int]:
    """Resident bytes of a process and its descendants, by pid."""
    import psutil

    found = {}
    for process in _process_tree(pid):
        with contextlib.suppress(psutil.Error):
            found[process.pid] = int(process.memory_info().rss)
    return found


def _process_tree(pid: int) -> list[Any]:
    import psutil

    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def wait_until(condition: Callable[[], T], timeout_s: float = 60.0, what: str = "") -> T:
    """Poll a condition until it is true, and return its value."""
    deadline = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(OSError):
            if value := condition():
                return value
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out after {timeout_s} s: {what or condition}")
        time.sleep(0.05)


@contextlib.contextmanager
def start_process(
    command: Sequence[str], environment: dict[str, str], log: Path | None = None, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own, which is stopped at the end; without a log stdout is piped.

    Args:
        command: program and arguments.
        environment: all of it.
        log: gets stdout and stderr.
        options: of `subprocess.Popen`.
    """
    with contextlib.ExitStack() as stack:
        out: Any = stack.enter_context(log.open("a")) if log is not None else None
        process = subprocess.Popen(
            command,
            env=environment,
            text=True,
            stdout=subprocess.PIPE if out is None else out,
            stderr=out,
            start_new_session=True,
            **options,
        )
        try:
            yield process
        finally:
            stop_process(process)


def stop_process(process: subprocess.Popen[Any], timeout_s: float = 30.0) -> None:
    """SIGTERM, and after a while SIGKILL for all of its group."""
    if process.poll() is None:
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


class AnyrigServer:
    """`anyrig serve` on a free port, with a home folder of its own.

    Args:
        home: where its settings, cache and data are.
        options: of `anyrig serve`.
        variables: of its environment.
    """

    def __init__(self, home: Path, *options: str, **variables: str) -> None:
        self.home, self.url = home, ""
        self._command = [*ANYRIG, "serve", "--port", "0", "--json", "--no-bench", *options]
        self._environment = child_environment(home, **variables)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it listens."""
        log = self.home / "log.txt"
        with log.open("a") as errors:
            process = self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self.home,
                text=True,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        timer = threading.Timer(_START_TIMEOUT_S, process.kill)
        timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            if '"listening"' in line:
                timer.cancel()
                self.url = json.loads(line)["url"]
                return
        timer.cancel()
        raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL for the server alone: its workers must end by themselves."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            stop_process(self._process)
            self._process = None
