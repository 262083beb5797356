"""Child processes of this Python that compute: one module each, bound to one device.

A driver that hangs or dies ends only a child; the child reads its input for as long as its parent
lives and ends with it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from anyrig.backends import QUIET
from anyrig.processes import GroupLeader

log = logging.getLogger(__name__)
STOP_S = 5.0
"""How long a killed process may take to end; one that is stuck in a driver may never do so."""
_LAST_LINES = 20
_RUN_MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_module.py")


def start(
    module: str,
    environment: Mapping[str, str],
    *,
    words: Sequence[str] = (),
    folder: str | None = None,
) -> GroupLeader:
    """A child that runs one of our modules, with pipes for its three streams.

    Args:
        module: the module's full name.
        environment: everything the child sees; `bind` gives what hides the other devices.
        words: its command line.
        folder: where it runs; here, when None.
    """
    return GroupLeader(
        # -P: no module of the present folder stands in for one of a library's.
        [sys.executable, "-P", _RUN_MODULE, module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**QUIET, **environment},
        cwd=folder,
    )


class Murmur:
    """The last lines a child wrote to its error stream, read by a thread of its own.

    Args:
        pipe: the stream.
        heard: is told each line, in that thread.
    """

    def __init__(self, pipe: IO[bytes], heard: Callable[[str], None] = lambda line: None) -> None:
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._heard = heard
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        """What was written last, once the child is gone."""
        self._thread.join(timeout=5)
        return list(self._lines)

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                self._lines.append(line.decode("utf-8", "replace").rstrip())
                self._heard(self._lines[-1])


def stop(process: GroupLeader, limit_s: float | None = None) -> int | None:
    """Kill a child and what it started; its exit code, or None where it has not ended in time.

    Args:
        process: the child.
        limit_s: how long to wait for its end; `STOP_S` when None.
    """
    process.kill_group()
    process.kill()
    code: int | None = None
    try:
        code = process.wait(STOP_S if limit_s is None else limit_s)
    except subprocess.TimeoutExpired:
        log.warning("process %d was killed and has not ended; it is left behind", process.pid)
    with contextlib.suppress(OSError, ValueError):
        if process.stdin is not None:
            process.stdin.close()
    return code  # whoever reads the other pipes closes them at their end


def death(code: int, lines: list[str]) -> str:
    """How a child ended, with the last thing it said."""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return how + (f": {last[:300]}" if last else "")
