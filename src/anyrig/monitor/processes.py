"""Which processes are ours and what they are called. Facts are read once for each process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

from anyrig.monitor.asking import Asker, Pool
from anyrig.monitor.sample import HostProcess

if TYPE_CHECKING:
    import psutil

log = logging.getLogger(__name__)
# The kernel gives the first process namespace this number (include/linux/proc_ns.h).
_FIRST_NAMESPACE = "pid:[4026531836]"
_COMMAND_LENGTH = 300
# More processes than this are not described one by one: it would cost more than it tells.
_MOST_DESCRIBED = 48
# Of one core: finding children means looking at every process there is.
_SHARE = 0.002
WhoIsOurs = Callable[[], frozenset[int]]


class Crowd:
    """The processes of this machine, as far as they matter here."""

    def __init__(self, ours: WhoIsOurs, *, all_visible: bool | None = None) -> None:
        self._who = ours
        self._asker = Asker(Pool(_SHARE))
        self._known: dict[int, _Known | None] = {}
        self.ours: frozenset[int] = frozenset()
        self.all_visible = sees_all() if all_visible is None else all_visible
        """Whether process numbers mean the same to a driver: not in a container of its own."""

    def refresh(self) -> None:
        """Look who is ours; forget who has gone."""
        self.ours = self._asker.seldom("ours", self._who) or frozenset()
        self._asker.seldom("gone", self._forget)

    def _forget(self) -> None:
        # Readers on their own threads may meet somebody meanwhile: a copy is looked through.
        for pid, known in list(self._known.items()):
            if known is None or not known.alive():
                self._known.pop(pid, None)

    def is_ours(self, pid: int) -> bool | None:
        """Whether a process is one of ours; None where its number may mean another one."""
        if pid in self.ours:
            return True
        return False if self.all_visible else None

    def name(self, pid: int) -> str | None:
        """What a process is called, where this user may know."""
        known = self._meet(pid)
        return known.name if known else None

    def describe(self, pids: Iterable[int]) -> tuple[HostProcess, ...]:
        """Ours and those asked for, ours first."""
        wanted = [*sorted(self.ours), *sorted(set(pids) - self.ours)][:_MOST_DESCRIBED]
        found = (known.now(pid in self.ours) for pid in wanted if (known := self._meet(pid)))
        return tuple(process for process in found if process is not None)

    def _meet(self, pid: int) -> _Known | None:
        if pid not in self._known:
            self._known[pid] = _Known.meet(pid)
        return self._known[pid]


class _Known:
    """One process, with what does not change about it."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        with process.oneshot():
            self.name = process.name()
            self.command = _command(process) or self.name
            self.user = _user(process)
        process.cpu_percent(None)  # the first call only begins to count

    @classmethod
    def meet(cls, pid: int) -> _Known | None:
        try:
            import psutil
        except ImportError:
            return None
        try:
            return cls(psutil.Process(pid))
        except (psutil.Error, OSError, ValueError):
            return None

    def alive(self) -> bool:
        """Whether the process is still this one and not a later one with its number."""
        return self._process.is_running()

    def now(self, ours: bool) -> HostProcess | None:
        import psutil

        try:
            with self._process.oneshot():
                cpu = self._process.cpu_percent(None)
                memory = int(self._process.memory_info().rss)
        except psutil.AccessDenied:
            cpu, memory = None, None
        except (psutil.Error, OSError):
            return None
        pid = self._process.pid
        return HostProcess(pid, self.name, self.user, self.command, cpu, memory, ours)


def _command(process: psutil.Process) -> str:
    import psutil

    try:
        return " ".join(process.cmdline())[:_COMMAND_LENGTH]
    except (psutil.Error, OSError):
        return ""


def _user(process: psutil.Process) -> str | None:
    import psutil

    try:
        return process.username().rpartition("\\")[2]
    except (psutil.Error, OSError, KeyError):
        return None


def family(pid: int | None = None) -> WhoIsOurs:
    """This process and all that it started."""
    root = os.getpid() if pid is None else pid

    def who() -> frozenset[int]:
        return _with_children([root])

    return who


def running(program: str) -> WhoIsOurs:
    """Every process that runs a program, and all that those started; never this one."""
    seen: dict[int, tuple[float, bool]] = {}

    def who() -> frozenset[int]:
        import psutil

        found = []
        alive = set()
        for process in psutil.process_iter():
            alive.add(process.pid)
            # process_iter hands out one object for as long as the process lives.
            born, runs = seen.get(process.pid, (-1.0, False))
            try:
                if born != process.create_time():
                    runs = runs_program(process.cmdline(), program)
                    seen[process.pid] = (process.create_time(), runs)
            except (psutil.Error, OSError):
                seen[process.pid] = (born, False)
                continue
            if runs:
                found.append(process.pid)
        for gone in seen.keys() - alive:
            del seen[gone]
        me = os.getpid()
        return _with_children([pid for pid in found if pid != me]) - {me}

    return who


def runs_program(command: list[str], program: str) -> bool:
    """Whether a command line starts a program: by its name, or through `python -m`."""
    starts = {PurePath(word.replace("\\", "/")).name.removesuffix(".exe") for word in command[:2]}
    if program in starts:
        return True
    return any(
        flag in ("-m", "-A") and (word == program or word.startswith(f"{program}."))
        for flag, word in zip(command, command[1:], strict=False)
    )


def _with_children(roots: list[int]) -> frozenset[int]:
    try:
        import psutil
    except ImportError:
        return frozenset(roots)
    found = set(roots)
    for root in roots:
        try:
            found.update(child.pid for child in psutil.Process(root).children(recursive=True))
        except (psutil.Error, OSError):
            continue
    return frozenset(found)


def sees_all() -> bool:
    """Whether this process is in the machine's first process namespace, as drivers count."""
    if sys.platform != "linux":
        return True
    try:
        return os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE
    except OSError:
        return False
