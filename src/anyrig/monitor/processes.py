"""Which processes belong to anyrig, what they are called, and what they use of the host."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath

import psutil

from anyrig.monitor.queries import Queries
from anyrig.monitor.sample import DeviceProcess, HostProcess

# The kernel gives the initial PID namespace this number (include/linux/proc_ns.h).
_INITIAL_NAMESPACE = "pid:[4026531836]"
_COMMAND_LENGTH = 300
# Describing more processes than this costs more than it tells.
_MAX_DESCRIBED = 48
# Of one core: finding child processes means looking at every process.
_CPU_SHARE = 0.002
_ERRORS = (psutil.Error, OSError, ValueError, KeyError)


class ProcessTable:
    """The processes that use devices, and ours; what is fixed of each is read once.

    Args:
        find_ours: returns the pids that count as ours.
    """

    def __init__(self, find_ours: Callable[[], frozenset[int]]) -> None:
        self._find_ours = find_ours
        self._queries = Queries(_CPU_SHARE)
        self._processes: dict[int, _Process | None] = {}
        self.ours: frozenset[int] = frozenset()
        self.all_visible = _in_initial_namespace()
        """Whether a driver means the same processes by the same pids: not in a container."""

    def refresh(self) -> None:
        """Find our processes anew; forget those that ended."""
        self.ours = self._queries.run_throttled("ours", self._find_ours) or frozenset()
        self._queries.run_throttled("ended", self._forget_ended)

    def _forget_ended(self) -> None:
        # Reader threads add to the table meanwhile: this iterates over a copy.
        for pid, process in list(self._processes.items()):
            if process is None or not process.is_running():
                self._processes.pop(pid, None)

    def describe_device_process(
        self, pid: int, memory_bytes: int | None, compute_percent: float | None
    ) -> DeviceProcess:
        process = self._get(pid)
        ours = True if pid in self.ours else False if self.all_visible else None
        name = process.name if process else None
        return DeviceProcess(pid, name, memory_bytes, compute_percent, ours)

    def describe_host_processes(self, pids: Iterable[int]) -> tuple[HostProcess, ...]:
        """Our processes and these, ours first."""
        selected = [*sorted(self.ours), *sorted(set(pids) - self.ours)][:_MAX_DESCRIBED]
        found = (p.describe(pid in self.ours) for pid in selected if (p := self._get(pid)))
        return tuple(process for process in found if process is not None)

    def _get(self, pid: int) -> _Process | None:
        if pid not in self._processes:
            try:
                self._processes[pid] = _Process(pid)
            except _ERRORS:
                self._processes[pid] = None
        return self._processes[pid]


class _Process:
    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.is_running = self._process.is_running
        facts = self._process.as_dict(["name", "cmdline", "username"])  # None where denied
        self.name = _replace_invalid(facts["name"] or "")
        command = _replace_invalid(" ".join(facts["cmdline"] or ()))
        self._command = command[:_COMMAND_LENGTH] or self.name
        user = facts["username"]
        self._user = user.rpartition("\\")[2] if user else None
        self._process.cpu_percent(None)  # the first call only starts the measurement

    def describe(self, ours: bool) -> HostProcess | None:
        try:
            with self._process.oneshot():
                cpu = self._process.cpu_percent(None)
                memory = int(self._process.memory_info().rss)
        except psutil.AccessDenied:
            cpu, memory = None, None
        except _ERRORS:
            return None
        pid = self._process.pid
        return HostProcess(pid, self.name, self._user, self._command, cpu, memory, ours)


def _replace_invalid(text: str) -> str:
    """Names and commands are bytes: what is not UTF-8 must not break JSON or Prometheus' text."""
    return text.encode(errors="replace").decode()


def _in_initial_namespace() -> bool:
    if sys.platform != "linux":
        return True
    try:
        return os.readlink("/proc/self/ns/pid") == _INITIAL_NAMESPACE
    except OSError:
        return False


def sum_own_memory(processes: Sequence[DeviceProcess] | None, all_visible: bool) -> int:
    """Device memory of our processes; raises LookupError where it cannot be known.

    Args:
        processes: what the driver lists; None where it does not.
        all_visible: whether its pids mean the same processes here.
    """
    if processes is None:
        raise LookupError("the driver does not list processes")
    ours = [process.memory_bytes for process in processes if process.ours]
    if not ours and not all_visible:
        raise LookupError("the container hides which processes are ours")
    if None in ours:
        raise LookupError("the driver does not report the memory of a process")
    return sum(filter(None, ours))


def find_own_processes() -> frozenset[int]:
    """This process and its descendants."""
    return _add_descendants([os.getpid()])


class AnyrigProcesses:
    """Finds all processes that run anyrig, and their descendants, but not this process."""

    def __init__(self) -> None:
        self._runs: dict[psutil.Process, bool] = {}
        """Command lines are read once for each process."""

    def __call__(self) -> frozenset[int]:
        runs: dict[psutil.Process, bool] = {}
        for process in psutil.process_iter():
            try:
                known = self._runs.get(process)
                runs[process] = runs_anyrig(process.cmdline()) if known is None else known
            except _ERRORS:
                continue  # another user's process, or ended
        self._runs = runs
        roots = [process.pid for process, found in runs.items() if found]
        return _add_descendants([pid for pid in roots if pid != os.getpid()]) - {os.getpid()}


def runs_anyrig(command: Sequence[str]) -> bool:
    """Whether a command line starts anyrig: by its name, with `python -m` or `celery -A`."""
    programs = {PurePath(word.replace("\\", "/")).name.removesuffix(".exe") for word in command[:2]}
    return "anyrig" in programs or any(
        flag in ("-m", "-A") and (word == "anyrig" or word.startswith("anyrig."))
        for flag, word in zip(command, command[1:], strict=False)
    )


def _add_descendants(roots: Sequence[int]) -> frozenset[int]:
    found = set(roots)
    for root in roots:
        try:
            found.update(child.pid for child in psutil.Process(root).children(recursive=True))
        except _ERRORS:
            continue
    return frozenset(found)
