"""The parent's end of the pipes: frames with a deadline, and what is wrong when none comes.

The frames themselves are defined in host.py, which must stand alone; nothing is written twice.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from anyrig.backends.process import ChildProcess, StderrTail, describe_exit, kill_process_group
from anyrig.speech.hosting.host import BadFrame, Frame, read_frame, write_frame


class HostGone(Exception):
    """A host that ended, was silent too long or sent what is no frame: only a new one helps."""


class Line:
    """A running host."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            self._process = ChildProcess(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
            )
        except OSError as error:
            raise HostGone(f"{command[0]} does not start: {error}") from error
        assert self._process.stderr is not None
        self._murmur = StderrTail(self._process.stderr)
        self._inbox: queue.SimpleQueue[Frame | Exception] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The host's process."""
        return self._process.pid

    def send(self, header: Mapping[str, Any]) -> None:
        """A request to the host."""
        assert self._process.stdin is not None
        try:
            write_frame(self._process.stdin, dict(header))
        except (OSError, ValueError) as error:
            raise HostGone(self._end(str(error))) from error

    def receive(self, seconds: float, doing: str, *, left: float | None = None) -> Frame:
        """The next frame, within so many seconds, or within what is left of them."""
        try:
            found = self._inbox.get(timeout=max(0.0, seconds if left is None else left))
        except queue.Empty:
            raise HostGone(f"nothing came within {seconds:g} s while {doing}") from None
        if isinstance(found, Frame):
            return found
        if isinstance(found, BadFrame):
            raise HostGone(str(found)) from found
        raise HostGone(self._end(str(found))) from found

    def stop(self) -> None:
        """End the host for certain."""
        kill_process_group(self._process)
        self._reader.join(timeout=5)
        self._murmur.lines()

    def bye(self, seconds: float = 2.0) -> None:
        """Let the host end by itself; for certain after a while."""
        try:
            self.send({"type": "bye"})
            self._process.wait(seconds)
        except (HostGone, subprocess.TimeoutExpired):
            pass
        self.stop()

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        with pipe:
            try:
                while True:
                    self._inbox.put(read_frame(pipe))
            except (EOFError, OSError, ValueError, BadFrame) as error:
                self._inbox.put(error)

    def _end(self, said: str) -> str:
        """How the host ended, with its last words; what the pipe said when it has not."""
        until = time.monotonic() + 5
        while self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        code = self._process.poll()
        return said if code is None else f"it {describe_exit(code, self._murmur.lines())}"
