"""`anyrig jobs`: list, show, follow and control queued work, and run it."""

from __future__ import annotations

import argparse
import datetime
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyrig.app.jobs import EXTRA_FILES, get_title, make_job_handler
from anyrig.cli.escape import escape_line
from anyrig.cli.output import format_table, print_error, print_json
from anyrig.cli.rig import open_rig
from anyrig.cli.train import format_resume, format_summary, shorten
from anyrig.errors import MORE_DETAILS, AnyrigError, InvalidInputError, render_json
from anyrig.estimates import read_time_left
from anyrig.results import to_json
from anyrig.training.runs import check_not_running, unregister_run
from anyrig.units import format_speed, format_time_left

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.jobs import Job, JobEvent, JobHandler, ReportEvent, StopSignal
    from anyrig.storage.keys import JsonValue
    from anyrig.training.runs import RegisteredRun

HELP = """The job queue. `anyrig book FILE --queue` queues a book, `anyrig train CONFIG --queue` a
training run; `anyrig jobs run` runs what is queued until nothing is left. Without an action the
jobs are listed, and with them the runs that `anyrig train` started without a queue; `show ID`
prints everything about one, `follow ID` prints events as they happen. `pause`, `resume`, `cancel`
and `delete` take one or more ids, or the first letters of one; `resume` also tries failed jobs
again. A job whose runner was killed is found by the next `run` and continues where it was; a job
whose own process was killed, for example for lack of memory, is tried again once."""
MIXED = True
_CHANGES = ("pause", "resume", "cancel", "delete")
_ACTIONS = ("list", "show", "follow", *_CHANGES, "run")
_LOG_INTERVAL_S = 15.0
_EXIT_TERMINATED = 143  # as a shell reports SIGTERM


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help=f"{', '.join(_ACTIONS)}; then the job's id"
    )
    parser.add_argument(
        "--at-once", type=_parse_count, metavar="N", default=1,
        help="with run: number of parallel jobs; default 1",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    rig = open_rig(arguments)
    action, ids = _parse_words(arguments.words)
    if action == "run":
        return _run_queue(rig, arguments)
    if action == "list":
        return _list(rig, as_json=arguments.json)
    if runs := rig.jobs.find_runs(ids):
        return _act_on_runs(rig, action, runs, as_json=arguments.json)
    jobs = [rig.jobs.find(id) for id in ids]
    if action == "show":
        return _show(jobs, as_json=arguments.json)
    if action == "follow":
        return _follow(rig, jobs[0].id, as_json=arguments.json)
    return _change(rig, action, jobs, as_json=arguments.json)


def print_queued(jobs: Sequence[Job], *, as_json: bool, as_list: bool = False) -> int:
    """Say which jobs a command has queued; returns its exit code."""
    if as_json:
        rows = [job_to_json(job) for job in jobs]
        print_json(rows if as_list else rows[0])
    else:
        for job in jobs:
            print(f"{job.id}: {_format_title(job)} is queued; `anyrig jobs run` runs it")
    return 0


def _format_title(job: Job) -> str:
    return escape_line(get_title(job))


def _format_text(message: Any) -> str:
    return escape_line(render_json(message, "command"))


def job_to_json(job: Job) -> dict[str, Any]:
    """A job for programs, with options spelled as flags in its messages."""
    row: dict[str, Any] = render_json(job.to_json(), "command")
    return row


def _parse_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise InvalidInputError(f"--at-once {text}", hint="It must be between 1 and 64.")
    return int(text)


def _parse_words(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    action, *ids = words or ["list"]
    if action not in _ACTIONS:
        import difflib

        near = difflib.get_close_matches(action, _ACTIONS, n=1)
        meant = f"Did you mean `anyrig jobs {near[0]}`? " if near else ""
        raise InvalidInputError(
            f"unknown action `anyrig jobs {action}`",
            hint=f"{meant}Valid actions: {', '.join(_ACTIONS)}.",
        )
    if action in ("list", "run") and ids:
        raise InvalidInputError(
            f"`anyrig jobs {action}` takes no id", hint="See `anyrig jobs --help`."
        )
    if action not in ("list", "run") and not ids:
        raise InvalidInputError(
            f"`anyrig jobs {action}` needs an id", hint="`anyrig jobs` lists them."
        )
    if action == "follow" and len(ids) > 1:
        raise InvalidInputError(
            "only one job can be followed at a time", hint="See `anyrig jobs --help`."
        )
    return action, ids


# -- jobs ------------------------------------------------------------------------------------------


def _list(rig: Rig, *, as_json: bool) -> int:
    """Jobs and runs, the oldest first."""
    jobs, runs = rig.jobs.list(), rig.jobs.list_runs()
    if as_json:
        print_json([*map(job_to_json, jobs), *map(_run_to_json, runs)])
        return 0
    if not jobs and not runs:
        print("There are no jobs. `anyrig book FILE --queue` queues a book.")
        return 0
    lines = []
    for job in jobs:
        since = job.ended or job.started or job.created
        lines.append(
            (job.created, [job.id, job.kind, _format_title(job), _format_state(job)], since)
        )
    for one in runs:
        row = [one.id, "train", escape_line(shorten(one.folder)), _format_run_state(one)]
        lines.append((one.created, row, one.state.since or one.created))
    rows = [["id", "kind", "what", "state", "since"]]
    for _, row, since in sorted(lines, key=lambda line: line[0]):
        rows.append([*row, _format_time(since, "%Y-%m-%d %H:%M")])
    print(format_table(rows))
    return 0


def _show(jobs: Sequence[Job], *, as_json: bool) -> int:
    if as_json:
        rows = [job_to_json(job) for job in jobs]
        print_json(rows[0] if len(rows) == 1 else rows)
    else:
        print("\n\n".join("\n".join(_describe(job)) for job in jobs))
    return 0


def _describe(job: Job) -> Iterator[str]:
    yield f"{job.id}: {job.kind} of {_format_title(job)}, {_format_state(job)}"
    for name, when in (("queued", job.created), ("started", job.started), ("ended", job.ended)):
        if when is not None:
            again = f" ({job.attempts} times)" if name == "started" and job.attempts > 1 else ""
            yield f"  {name} {_format_time(when, '%Y-%m-%d %H:%M:%S')}{again}"
    if job.progress and not job.is_finished:
        yield f"  {_format_progress(job.progress)}"
    if job.error:
        yield f"  error: {_format_text(job.error.message)}"
        yield f"  hint: {_format_text(job.error.hint)}"
    if isinstance(job.result, Mapping):
        yield from _describe_result(job.result)
    for name, value in job.arguments.items():
        yield f"  {name}: {escape_line(value)}"


def _describe_result(result: Mapping[str, JsonValue]) -> Iterator[str]:
    for name in ("files", *EXTRA_FILES):
        paths = result.get(name)
        yield from (
            f"  made {escape_line(path)}" for path in (paths if isinstance(paths, list) else ())
        )
    warnings = result.get("warnings")
    for warning in warnings if isinstance(warnings, list) else ():
        yield f"  warning: {_format_text(warning)}"


def _format_state(job: Job) -> str:
    """`running, 45 %, 3 min 05 s left`."""
    parts: list[str] = [job.state]
    if job.stop_request:
        parts.append({"pause": "asked to pause", "cancel": "asked to stop"}[job.stop_request])
    elif job.progress and job.state in ("running", "paused", "queued"):
        parts.append(_format_progress(job.progress, short=True))
    return ", ".join(parts)


def _format_progress(progress: Mapping[str, JsonValue], *, short: bool = False) -> str:
    parts = []
    done, speed = progress.get("done"), progress.get("speed")
    stage = str(progress.get("stage", ""))
    if progress.get("num_chapters") and stage == "making":
        stage = f"chapter {progress.get('chapter')}/{progress['num_chapters']}"
    if isinstance(done, int | float):
        parts.append(f"{done:.0%}" if short else f"{stage} {done:.0%}".strip())
    if isinstance(speed, int | float) and not short:
        parts.append(format_speed(speed))
    left = read_time_left(progress)
    if left is not None and left.high_s:
        parts.append(format_time_left(*left))
    title = progress.get("title")
    return ", ".join(parts) + (f"  {escape_line(title)}" if title and not short else "")


def _format_time(seconds: float, form: str) -> str:
    return datetime.datetime.fromtimestamp(seconds).strftime(form)


def _follow(rig: Rig, id: str, *, as_json: bool) -> int:
    """Print events until the job is finished; 0 if it is done."""
    for event in rig.jobs.follow(id):
        if as_json:
            print(json.dumps(render_json(event._asdict(), "command"), allow_nan=False), flush=True)
        else:
            for line in _describe_event(event):
                print(line, flush=True)
    job = rig.jobs.find(id)
    if not as_json and isinstance(job.result, Mapping):
        print("\n".join(_describe_result(job.result)))
    return 0 if job.state == "done" else 1


def _describe_event(event: JobEvent) -> Iterator[str]:
    at = _format_time(event.time, "%H:%M:%S")
    if event.kind == "progress":
        yield f"{at}  {_format_progress(event.data)}"
    elif event.kind == "log":
        yield f"{at}  warning: {_format_text(event.data.get('text'))}"
    elif event.kind == "state":
        yield f"{at}  {event.data['state']}"
        if "error" in event.data:
            yield f"          error: {_format_text(event.data['error'])}"
            yield f"          hint: {_format_text(event.data['hint'])}"


def _change(rig: Rig, action: str, jobs: Sequence[Job], *, as_json: bool) -> int:
    """Pause, resume, cancel or delete: one that cannot be changed does not stop the others."""
    code, changed = 0, []
    for job in jobs:
        try:
            if action == "delete":
                rig.jobs.delete(job.id)
                changed.append((job, "deleted"))
            else:
                after: Job = getattr(rig.jobs, action)(job.id)
                changed.append((after, _format_state(after)))
        except AnyrigError as error:
            print_error(error)
            code = error.exit_code
    if as_json:
        print_json([{**job_to_json(job), "deleted": action == "delete"} for job, _ in changed])
    else:
        for job, state in changed:
            print(f"{job.id}: {_format_title(job)}: {state}")
    return code


# -- running ---------------------------------------------------------------------------------------


def _run_queue(rig: Rig, arguments: argparse.Namespace) -> int:
    """Run jobs until nothing is left; 1 if a job failed."""
    stop = threading.Event()
    handler = _PrintingHandler(make_job_handler(rig.environment), as_json=arguments.json)
    # By another thread: this one may be waiting for the event, and hold its lock.
    before = signal.signal(
        signal.SIGTERM, lambda *_: threading.Thread(target=stop.set, daemon=True).start()
    )
    try:
        rig.jobs.run(handler, max_parallel=arguments.at_once, stop=stop)
    except KeyboardInterrupt:
        stop.set()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        if stop.is_set() and handler.num_stopped:
            again = "Queued again; `anyrig jobs run` continues where it stopped."
            print(again, file=sys.stderr, flush=True)
    if stop.is_set():
        return _EXIT_TERMINATED
    if not handler.num_started and not arguments.json:
        print("Nothing is queued.")
    return 1 if handler.num_failed else 0


class _PrintingHandler:
    """Does jobs, and prints what happens: lines on stderr, or JSON lines."""

    def __init__(self, handler: JobHandler, *, as_json: bool) -> None:
        self.num_started = self.num_failed = self.num_stopped = 0
        self._handler, self._json = handler, as_json
        self._lock = threading.Lock()

    def __call__(self, job: Job, report_event: ReportEvent, stop: StopSignal) -> JsonValue:
        from anyrig.jobs import JobKilledError, JobStopped

        with self._lock:
            self.num_started += 1
        self._print(job, "begun", {})
        next_line = 0.0

        def report(kind: str, data: Mapping[str, JsonValue]) -> None:
            nonlocal next_line
            report_event(kind, data)
            if self._json or (kind == "progress" and time.monotonic() >= next_line):
                next_line = time.monotonic() + _LOG_INTERVAL_S
                self._print(job, kind, data)

        try:
            result = self._handler(job, report, stop)
        except JobStopped:
            with self._lock:
                self.num_stopped += 1
            self._print(job, "stopped", {})
            raise
        except Exception as error:
            message, hint = str(error), ""
            if isinstance(error, AnyrigError):
                message, hint = error.message, error.hint
            hint = hint or MORE_DETAILS
            if isinstance(error, JobKilledError) and not job.kills:
                self._print(job, "killed", {"error": message})
                raise
            with self._lock:
                self.num_failed += 1
            self._print(job, "failed", {"error": message, "hint": hint})
            raise
        self._print(job, "done", result if isinstance(result, Mapping) else {})
        return result

    def _print(self, job: Job, kind: str, data: Mapping[str, JsonValue]) -> None:
        if self._json:
            row = {**render_json(data, "command"), "job": job.id, "event": kind}
            print(json.dumps(row, allow_nan=False), flush=True)
            return
        text = _format_progress(data) if kind == "progress" else kind
        if kind == "killed":
            text = f"{_format_text(data['error'])}; it is tried again once"
        print(f"{_format_title(job)}: {text}", file=sys.stderr, flush=True)
        if kind == "failed":
            error, hint = (_format_text(data[name]) for name in ("error", "hint"))
            print(f"  error: {error}\n  hint: {hint}", file=sys.stderr, flush=True)
        if kind == "done":
            print("\n".join(_describe_result(data)), flush=True)


# -- training runs that were started without the queue ---------------------------------------------


def _act_on_runs(rig: Rig, action: str, runs: Sequence[RegisteredRun], *, as_json: bool) -> int:
    """Show or forget runs; everything else about them is done by `anyrig train`."""
    if action == "delete":
        for one in runs:
            check_not_running(one.folder)
            unregister_run(rig.folders.runs, one.id)
            if not as_json:
                print(
                    f"{one.id}: removed from the list; {escape_line(shorten(one.folder))} is kept"
                )
        if as_json:
            print_json([{**_run_to_json(one), "deleted": True} for one in runs])
        return 0
    if action != "show":
        resume = format_resume(runs[0].folder)
        raise InvalidInputError(
            f"{runs[0].id} is a run that was started without the queue",
            hint=f"`{resume}` continues it." if action == "resume"
            else "Press Ctrl+C where it runs: everything so far is kept.",
        )  # fmt: skip
    if as_json:
        rows = [{**_run_to_json(one), "result": to_json(one.result)} for one in runs]
        print_json(rows[0] if len(rows) == 1 else rows)
    else:
        print("\n\n".join("\n".join(_describe_run(one)) for one in runs))
    return 0


def _run_to_json(one: RegisteredRun) -> dict[str, Any]:
    state = one.state
    return {
        "id": one.id, "kind": "train", "run": str(one.folder), "state": state.status,
        "step": state.step, "steps": state.steps, "loss": state.loss, "error": state.error or None,
        "created": one.created, "since": state.since,
    }  # fmt: skip


def _describe_run(one: RegisteredRun) -> Iterator[str]:
    yield f"{one.id}: train in {escape_line(shorten(one.folder))}, {_format_run_state(one)}"
    if one.state.error:
        yield f"error: {_format_text(one.state.error)}"
    if one.result is not None:
        yield format_summary(one.result)
    if one.state.status in ("stopped", "failed"):
        yield f"To continue: {format_resume(one.folder)}"


def _format_run_state(one: RegisteredRun) -> str:
    """`running, step 120/600, loss 2.31`."""
    state = one.state
    parts: list[str] = [state.status]
    if state.step:
        parts.append(f"step {state.step}" + (f"/{state.steps}" if state.steps else ""))
    if state.loss is not None:
        parts.append(f"loss {state.loss:.4g}")
    return ", ".join(parts)
