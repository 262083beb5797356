"""A child process that leads a group of its own, and the end of that group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Literal

_POLL_S = 0.05


class GroupLeader(subprocess.Popen[bytes]):
    """A process with a group of its own, where the system has groups.

    The group is killed while the leader has not been reaped: its id cannot have been given to
    another process by then. Safe to wait for, poll and signal from several threads.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self._lock = threading.RLock()
        """Held while the process is reaped or signalled."""
        # A group of its own: Ctrl-C is the parent's to answer, and what the child starts ends too.
        super().__init__(list(command), start_new_session=sys.platform != "win32", **options)

    def poll(self) -> int | None:
        if sys.platform == "win32":
            return super().poll()
        with self._lock:
            if self.returncode is not None:
                return self.returncode
            if not hasattr(os, "waitid"):  # macOS before Python 3.13
                code = super().poll()
                if code is not None:
                    self._kill_orphans()
                return code
            state = self._state()
            if state == "runs":
                return None
            if state == "ended":
                self.kill_group()
            return super().poll()

    def wait(self, timeout: float | None = None) -> int:
        if sys.platform == "win32":
            return super().wait(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.0005
        while (code := self.poll()) is None:
            if deadline is None and hasattr(os, "waitid"):
                with contextlib.suppress(ChildProcessError):  # reaped by another thread
                    os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
                continue
            left = _POLL_S if deadline is None else deadline - time.monotonic()
            if left <= 0:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            pause = min(2 * pause, left, _POLL_S)
            time.sleep(pause)
        return code

    def send_signal(self, sig: int) -> None:
        with self._lock:
            super().send_signal(sig)

    def kill_group(self) -> None:
        """Kill the process and all it started; nothing once it has been reaped."""
        if sys.platform == "win32":
            return
        with self._lock, contextlib.suppress(OSError):
            if self.returncode is None:
                os.killpg(self.pid, signal.SIGKILL)

    def _state(self) -> Literal["runs", "ended", "reaped"]:
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return "reaped"
        return "runs" if found is None else "ended"

    def _kill_orphans(self) -> None:
        """Kill what a reaped leader left, unless its id is a process's again."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            pass  # another process has the id
