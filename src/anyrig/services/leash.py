"""`python -m anyrig.services.leash WORDS`: the command line, for as long as its job is ours.

Whoever started this process writes to its input, again and again, for how many seconds the job is
still theirs. When that time is over, or the input ends because the starter died, this process ends
at once with all it started: two processes never do one job.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import threading


def main() -> None:
    """Hold the leash, then be the command line."""
    leash = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # what is below must not read what is said to us
    os.close(nothing)
    threading.Thread(target=_watch, args=(leash,), daemon=True).start()
    # A shell's background processes ignore Ctrl-C, and hand that on: here it is how a job is ended.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[0] = "anyrig"
    runpy.run_module("anyrig", run_name="__main__")


def _watch(leash: int) -> None:
    """Each line is a number of seconds; no line in time is the end."""
    end: threading.Timer | None = None
    with os.fdopen(leash, "rb") as lines:
        for line in lines:
            if end is not None:
                end.cancel()
            end = threading.Timer(float(line), _die)
            end.daemon = True
            end.start()
    _die()


def _die() -> None:
    if sys.platform != "win32" and os.getpgid(0) == os.getpid():
        with contextlib.suppress(OSError):
            os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
