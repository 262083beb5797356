"""A job that is one of our own commands, in a process of its own.

The command prints JSON lines; each is an event, the last its result. A process of its own means
that a crash, a leak or a driver that hangs ends one job and not the server, and that a job can be
ended at any moment: what it made is kept in the store.
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import IO, cast

from anyrig.backends.process import StderrTail, describe_exit, kill_process_group, start_module
from anyrig.errors import AnyrigError, InvalidInputError, WorkError
from anyrig.jobs import JobStopped, ReportEvent, StopSignal
from anyrig.storage.keys import JsonValue

_LOOK_S, _LEASH_S = 0.1, 1.0
_LONGEST_S = 3600.0
_GRACE_S = 3.0  # to put away what is half written, before it is ended for certain
_END = None
_NO_RESULT = ("begin", "progress")


def run_command(
    words: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    tell: ReportEvent,
    stop: StopSignal,
    *,
    partly: str = "",
) -> dict[str, JsonValue]:
    """What the command said last, with its warnings; its error when it failed.

    Args:
        words: the command and its flags, `--json` among them.
        folder: where it runs.
        environment: what it sees.
        tell: is told every event but the last.
        stop: ends it.
        partly: an event that, said last, is a result also where files were left out (exit code 1).
    """
    try:
        process = start_module(
            "anyrig.services.leash", {**environment, "NO_COLOR": "1"}, args=words, cwd=folder
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidInputError(
            f"the folder {folder} is not there any more", hint="Make it, or order anew."
        ) from error
    assert process.stdout is not None
    assert process.stderr is not None
    said: queue.Queue[bytes | None] = queue.Queue(maxsize=1000)
    murmur = StderrTail(process.stderr, partial(_pass_on, said))
    try:
        last = _listened(process, process.stdout, said, tell, stop)
        code = _ended(process, stop)
    finally:
        kill_process_group(process)
    lines = murmur.lines()
    if last is None or (code != 0 and not (code == 1 and partly and last.get("event") == partly)):
        raise _failure(code, lines)
    warnings = [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]
    return {**last, "warnings": warnings}


def _pass_on(said: queue.Queue[bytes | None], line: str) -> None:
    """A warning is an event as well; where too much waits, it is among the result's alone."""
    if line.startswith("warning: "):
        told = {"event": "log", "level": "warning", "text": line.removeprefix("warning: ")}
        with contextlib.suppress(queue.Full):
            said.put_nowait(json.dumps(told).encode())


def _listened(
    process: subprocess.Popen[bytes],
    pipe: IO[bytes],
    said: queue.Queue[bytes | None],
    tell: ReportEvent,
    stop: StopSignal,
) -> dict[str, JsonValue] | None:
    """Pass on events until the command has closed its output; the last one, held back."""
    threading.Thread(target=_read, args=(pipe, said), daemon=True).start()
    last: dict[str, JsonValue] | None = None
    next_leash = 0.0
    while True:
        if time.monotonic() >= next_leash:
            _lengthen(process, stop)
            next_leash = time.monotonic() + _LEASH_S
        if stop.is_set:
            if stop.lease_left_s > 0:  # else another may be at it already
                _interrupt(process)
            raise JobStopped
        try:
            line = said.get(timeout=_LOOK_S)
        except queue.Empty:
            continue
        if line is _END:
            return last
        event = _event(line)
        if event is not None:
            last = _told(event, last, tell)


def _ended(process: subprocess.Popen[bytes], stop: StopSignal) -> int:
    """The exit code of a command that has closed its output, unless the job is stopped before."""
    while True:
        _lengthen(process, stop)
        try:
            return process.wait(_LEASH_S)
        except subprocess.TimeoutExpired:
            if stop.is_set:
                raise JobStopped from None


def _told(
    event: dict[str, JsonValue], last: dict[str, JsonValue] | None, tell: ReportEvent
) -> dict[str, JsonValue] | None:
    """Pass on what cannot be the result; what is held back, as it may be."""
    kind = str(event.get("event", "said"))
    if kind == "log":  # from the other stream: it says nothing of what was said last here
        tell(kind, event)
        return last
    if last is not None:
        tell(str(last.get("event", "said")), last)
    if kind not in _NO_RESULT:
        return event
    tell(kind, event)
    return None


def _read(pipe: IO[bytes], said: queue.Queue[bytes | None]) -> None:
    with pipe:
        for line in pipe:
            said.put(line)
    said.put(_END)


def _event(line: bytes) -> dict[str, JsonValue] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return cast("dict[str, JsonValue]", found) if isinstance(found, dict) else None


def _lengthen(process: subprocess.Popen[bytes], stop: StopSignal) -> None:
    assert process.stdin is not None
    held_s = min(stop.lease_left_s, _LONGEST_S)
    with contextlib.suppress(OSError):  # it has ended: its output says so as well
        process.stdin.write(f"{max(0.0, held_s):.3f}\n".encode())
        process.stdin.flush()


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does, which leaves no half-written file; the caller ends it for certain."""
    if sys.platform == "win32":
        return
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)


def _failure(code: int, lines: list[str]) -> AnyrigError:
    """The error that the command printed, as it was raised there."""
    start = max((n for n, line in enumerate(lines) if line.startswith("error: ")), default=None)
    if start is None:
        return WorkError(
            f"the process that did it {describe_exit(code, lines)}",
            hint="Resume the job to try again; what was made is kept.",
        )
    message, hint = [lines[start].removeprefix("error: ")], ""
    for line in lines[start + 1 :]:
        if line.startswith("  hint: "):
            hint = line.removeprefix("  hint: ")
            break
        message.append(line)
    return WorkError("\n".join(message), hint=hint or "Resume the job to try again.")
