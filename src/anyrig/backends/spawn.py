"""Child processes of this Python that compute: one module each, bound to one device.

A driver that hangs or dies ends only a child; the child reads its input for as long as its parent
lives and ends with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from anyrig.backends import QUIET

_LAST_LINES = 20


def start(
    module: str,
    environment: Mapping[str, str],
    *,
    words: Sequence[str] = (),
    folder: str | None = None,
) -> subprocess.Popen[bytes]:
    """A child that runs one of our modules, with pipes for its three streams.

    Args:
        module: the module's full name.
        environment: everything the child sees; `bind` gives what hides the other devices.
        words: its command line.
        folder: where it runs; here, when None.
    """
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, (source, environment.get("PYTHONPATH", ""))))
    return subprocess.Popen(
        # -P: no module of the present folder stands in for one of a library's.
        [sys.executable, "-P", "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A group of its own: Ctrl-C is the parent's to answer, and what the child starts ends too.
        start_new_session=sys.platform != "win32",
        env={**QUIET, **environment, "PYTHONPATH": path},
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


def stop(process: subprocess.Popen[bytes]) -> int:
    """End a child for certain; its exit code."""
    sweep(process)
    process.kill()
    code = process.wait()
    with contextlib.suppress(OSError, ValueError):
        if process.stdin is not None:
            process.stdin.close()
    return code  # whoever reads the other pipes closes them at their end


def sweep(process: subprocess.Popen[bytes]) -> None:
    """End whatever a child started and left behind, the child with it."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def death(code: int, lines: list[str]) -> str:
    """How a child ended, with the last thing it said."""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return how + (f": {last[:300]}" if last else "")
