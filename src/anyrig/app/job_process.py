"""A job in a process of its own: started here, and each runs this module.

    python -m anyrig.app.job_process

The process reads one line of JSON, `{"kind", "arguments", "defaults"}`, and writes lines of JSON:
an `event` for whatever happens, then a `result` or an `error`. A crash, a leak or a driver that
hangs ends one job and not the server, and a job can be stopped at any moment.

After its first line, whoever started the process writes again and again for how many seconds the
job is still theirs. When that time is over, or the input ends because the starter died, the process
ends at once with all it started: two processes never do one job.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, cast

from anyrig.backends.process import (
    ChildModule,
    StderrTail,
    claim_stdio,
    describe_exit,
    kill_process_group,
    start_module,
)
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    MissingPackageError,
    WorkError,
    error_from_dict,
    error_to_dict,
    is_disk_full,
    messages_to_json,
    to_disk_full_error,
)
from anyrig.jobs import JobKilledError, JobStopped, ReportEvent, StopSignal
from anyrig.storage.files import create_private

if TYPE_CHECKING:
    from anyrig.events import Event
    from anyrig.storage.keys import JsonValue

log = logging.getLogger(__name__)
_POLL_S, _LEASE_INTERVAL_S = 0.1, 1.0
_MAX_LEASE_S = 3600.0
_STOP_TIMEOUT_S = 3.0  # to remove what is half written, before it is killed
_MAX_WAITING = 1000
_MAX_WARNINGS = 100
_EXIT_INTERRUPTED = 130
Row = dict[str, Any]


# -- the process that starts it --------------------------------------------------------------------


def run_in_child(
    order: Mapping[str, Any],
    folder: str,
    environment: Mapping[str, str],
    report_event: ReportEvent,
    stop: StopSignal,
    umask: int = -1,
) -> Row:
    """Run a job in a child process until it ends or `stop` is set.

    Args:
        order: `kind`, `arguments` and `defaults`, as JSON.
        folder: the working directory.
        environment: the child's whole environment.
        report_event: receives its events.
        stop: ends it.
        umask: of the child; -1 is this process's own.
    """
    try:
        process = start_module("anyrig.app.job_process", environment, cwd=folder, umask=umask)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidInputError(
            f"the folder {folder} does not exist any more", hint="Create it, or submit a new job."
        ) from error
    stderr = StderrTail(process.stderr)
    try:
        _send(process, json.dumps(dict(order)))
        last = _follow(process, process.stdout, report_event, stop)
        code = _wait(process, stop)
    finally:
        kill_process_group(process)
    if "error" in last:
        raise error_from_dict(last["error"])
    if code < 0:  # no signal of ours: who is told to stop has raised JobStopped
        stop.raise_if_set()  # its lease ended, and it killed itself
        raise JobKilledError(
            f"the job's process {describe_exit(code, stderr.lines())}",
            hint="The system may have run out of memory; its log says more. Resume the job to try"
            " again; everything made so far is kept.",
        )
    if code != 0 or "result" not in last:
        raise WorkError(
            f"the job's process {describe_exit(code, stderr.lines())}",
            hint="Resume the job to try again; everything made so far is kept.",
        )
    result: Row = last["result"]
    return result


def _follow(
    process: ChildModule, pipe: IO[bytes], report_event: ReportEvent, stop: StopSignal
) -> Row:
    """Pass on events until the child closes its output; its result or error."""
    lines: queue.Queue[bytes | None] = queue.Queue(maxsize=_MAX_WAITING)
    threading.Thread(target=_read_lines, args=(pipe, lines), daemon=True).start()
    last: Row = {}
    next_lease = 0.0
    while True:
        if time.monotonic() >= next_lease:
            _extend_lease(process, stop)
            next_lease = time.monotonic() + _LEASE_INTERVAL_S
        if stop.is_set:
            if stop.lease_left_s > 0:  # else another process may have the job already
                _interrupt(process)
            raise JobStopped
        try:
            line = lines.get(timeout=_POLL_S)
        except queue.Empty:
            continue
        if line is None:
            return last
        row = _parse(line)
        if "event" in row:
            report_event(str(row["event"]), cast("dict[str, JsonValue]", row))
        elif row:
            last = row


def _wait(process: ChildModule, stop: StopSignal) -> int:
    """The exit code of a child that has closed its output, unless the job is stopped before."""
    while True:
        _extend_lease(process, stop)
        try:
            return process.wait(_LEASE_INTERVAL_S)
        except subprocess.TimeoutExpired:
            if stop.is_set:
                raise JobStopped from None


def _read_lines(pipe: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    with pipe:
        for line in pipe:
            lines.put(line)
    lines.put(None)


def _parse(line: bytes) -> Row:
    try:
        row = json.loads(line)
    except ValueError:  # cut off by a crash
        return {}
    return row if isinstance(row, dict) else {}


def _extend_lease(process: ChildModule, stop: StopSignal) -> None:
    left_s = max(0.0, min(stop.lease_left_s, _MAX_LEASE_S))
    _send(process, f"{left_s:.3f}")


def _send(process: ChildModule, line: str) -> None:
    with contextlib.suppress(OSError):  # it has ended: its output says so as well
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()


def _interrupt(process: ChildModule) -> None:
    """As Ctrl+C does, which leaves no half-written file; the caller kills it afterwards."""
    if sys.platform == "win32":
        return
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_TIMEOUT_S)


# -- the job's own process -------------------------------------------------------------------------


class _JobOutput:
    """Writes rows to whoever started the process, and remembers warnings."""

    def __init__(self, file: IO[bytes]) -> None:
        from anyrig.events import JsonEvents

        self.warnings: list[str] = []
        self._file, self._events = file, JsonEvents()
        self._lock = threading.Lock()

    def write(self, row: Mapping[str, Any]) -> None:
        text = json.dumps(messages_to_json(row), allow_nan=False, default=str)
        with self._lock:
            self._file.write(text.encode() + b"\n")
            self._file.flush()

    def report(self, event: Event) -> None:
        from anyrig.events import WarningEvent

        if isinstance(event, WarningEvent) and len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(event.message)
        with self._lock:
            row = self._events.encode(event)
        if row is not None:
            self.write(row)


def main() -> int:
    """Do the job that stdin names."""
    control, writing = claim_stdio()
    order = json.loads(control.readline() or "{}")
    threading.Thread(target=_watch_lease, args=(control,), daemon=True).start()
    # Background processes of a shell ignore Ctrl+C and pass that on: here it is how a job is ended.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = _JobOutput(writing)
    try:
        output.write({"result": _run(order, output)})
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever it is, it is why the job failed
        log.debug("the job failed", exc_info=error)
        output.write({"error": error_to_dict(_to_anyrig_error(error))})
        return 1
    return 0


def _run(order: Mapping[str, Any], output: _JobOutput) -> Row:
    from anyrig.app.jobs import JOB_KINDS, build_request
    from anyrig.app.rig import Rig
    from anyrig.app.settings import WARNED_VARIABLE

    kind, arguments = order["kind"], order["arguments"]
    # The settings of who queued it: a file that was only found beside them is not trusted here.
    rig = Rig(
        config=arguments.get("config"), settings_folder=arguments.get("settings_folder", ""),
        on_event=output.report, keep_models=False,
    )  # fmt: skip
    if rig.settings.log_file:
        _log_to_file(rig.settings.log_file)
    if not rig.environment.get(WARNED_VARIABLE):
        for warning in rig.loaded_settings.warnings:
            rig.warn(warning)
    request = build_request(rig, kind, arguments, order.get("defaults", {}))
    result = JOB_KINDS[kind].run(rig, request, output.report)
    return {**result, "warnings": output.warnings}


def _log_to_file(path: str) -> None:
    create_private(path)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.DEBUG)


def _to_anyrig_error(error: Exception) -> AnyrigError:
    if isinstance(error, AnyrigError):
        error.hint = error.hint or "Submit a new job with other options."
        return error
    if is_disk_full(error):
        return to_disk_full_error(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        from anyrig.install import format_install_for

        if not error.name.startswith("anyrig"):
            message = f"the package {error.name} cannot be imported: {error}"
            return MissingPackageError(message, hint=format_install_for(error.name))
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        return WorkError(
            f"{error.strerror or error}{place}",
            hint="Check the disk's free space and the folder's permissions.",
        )
    import traceback

    traceback.print_exception(error)
    return WorkError(
        f"{type(error).__name__}: {error}", hint="Resume the job to try again, or report the bug."
    )


def _watch_lease(control: IO[bytes]) -> None:
    """Each line is a number of seconds; without a line in time, the process ends."""
    end: threading.Timer | None = None
    with control:
        for line in control:
            if end is not None:
                end.cancel()
            end = threading.Timer(float(line), _exit)
            end.daemon = True
            end.start()
    _exit()


def _exit() -> None:
    """End at once, with every process that this one started."""
    if sys.platform != "win32" and os.getpgid(0) == os.getpid():
        with contextlib.suppress(OSError):
            os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
