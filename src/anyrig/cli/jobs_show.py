"""Jobs as people and programs see them: a line, a report, what happens as it happens."""

from __future__ import annotations

import datetime
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import AnyrigError
from anyrig.units import format_duration

if TYPE_CHECKING:
    from anyrig.jobs import Job, JobEvent, JobHandler, JobQueue, ReportEvent, StopSignal
    from anyrig.storage.keys import JsonValue

_LOG_S = 15.0


def title(job: Job) -> str:
    """What it is of, in few words."""
    called = job.arguments.get("called")  # what its sender called the file
    if called:
        return str(called)
    file = job.arguments.get("file")
    return Path(str(file)).name if file else job.kind


def state(job: Job) -> str:
    """`running, 45 %, 3 min 05 s left`."""
    parts: list[str] = [job.state]
    if job.stop_request:
        parts.append({"pause": "asked to pause", "cancel": "asked to stop"}[job.stop_request])
    if job.progress and job.state in ("running", "paused", "queued") and not job.stop_request:
        parts.append(progress(job.progress, short=True))
    return ", ".join(parts)


def progress(now: Mapping[str, JsonValue], *, short: bool = False) -> str:
    """How far it is, as far as the job has told."""
    parts = []
    done, left, speed = now.get("done"), now.get("left_s"), now.get("speed")
    what = str(now.get("stage", ""))
    if now.get("num_chapters") and what != "writing":
        what = f"chapter {now.get('chapter')}/{now['num_chapters']}"
    if isinstance(done, int | float):
        parts.append(f"{done:.0%}" if short else f"{what} {done:.0%}".strip())
    if isinstance(speed, int | float) and not short:
        parts.append(f"{speed:.1f} times real time")
    if isinstance(left, int | float) and left:
        parts.append(f"{format_duration(left)} left")
    named = now.get("title")
    return ", ".join(parts) + (f"  {named}" if named and not short else "")


def report(job: Job) -> str:
    """Everything that is known of a job."""
    return "\n".join(_lines(job))


def _lines(job: Job) -> Iterator[str]:
    yield f"{job.id}: {job.kind} of {title(job)}, {state(job)}"
    for name, when in (("queued", job.created), ("begun", job.started), ("ended", job.ended)):
        if when is not None:
            at = datetime.datetime.fromtimestamp(when).strftime("%Y-%m-%d %H:%M:%S")
            again = f" ({job.attempts} times)" if name == "begun" and job.attempts > 1 else ""
            yield f"  {name} {at}{again}"
    if job.progress and not job.is_finished:
        yield f"  {progress(job.progress)}"
    if job.error:
        yield f"  error: {job.error.message}"
        yield f"  hint: {job.error.hint}"
    if isinstance(job.result, Mapping):
        yield from _result(job.result)
    for name, value in job.arguments.items():
        yield f"  {name}: {value}"


def _result(result: Mapping[str, JsonValue]) -> Iterator[str]:
    for name in ("files", "beside"):
        paths = result.get(name)
        yield from (f"  made {path}" for path in (paths if isinstance(paths, list) else ()))
    warnings = result.get("warnings")
    yield from (f"  warning: {one}" for one in (warnings if isinstance(warnings, list) else ()))


def follow(jobs: JobQueue, id: str, *, as_json: bool) -> int:
    """Tell what happens until the job is over; 0 when it is done."""
    for event in jobs.events(id, follow=True):
        if as_json:
            print(json.dumps(event._asdict(), allow_nan=False), flush=True)
        else:
            for line in _said(event):
                print(line, flush=True)
    job = jobs.get(id)
    if not as_json and isinstance(job.result, Mapping):
        print("\n".join(_result(job.result)))
    return 0 if job.state == "done" else 1


def _said(event: JobEvent) -> Iterator[str]:
    at = datetime.datetime.fromtimestamp(event.time).strftime("%H:%M:%S")
    if event.kind == "progress":
        yield f"{at}  {progress(event.data)}"
    elif event.kind == "log":
        yield f"{at}  warning: {event.data.get('text')}"
    elif event.kind == "state":
        yield f"{at}  {event.data['state']}"
        if "error" in event.data:
            yield f"          error: {event.data['error']}"
            yield f"          hint: {event.data['hint']}"


class Shown:
    """A runner that tells on the terminal, or as JSON lines, what it does."""

    def __init__(self, run: JobHandler, *, as_json: bool) -> None:
        self.num_begun = self.num_failed = 0
        self._run, self._json = run, as_json
        self._lock = threading.Lock()

    def __call__(self, job: Job, tell: ReportEvent, stop: StopSignal) -> JsonValue:
        """Do a job."""
        from anyrig.jobs import JobStopped

        with self._lock:
            self.num_begun += 1
        self._say(job, "begun", {})
        due = 0.0

        def both(kind: str, data: Mapping[str, JsonValue]) -> None:
            nonlocal due
            tell(kind, data)
            if self._json or (kind == "progress" and time.monotonic() >= due):
                due = time.monotonic() + _LOG_S
                self._say(job, kind, data)

        try:
            result = self._run(job, both, stop)
        except JobStopped:
            self._say(job, "stopped", {})
            raise
        except Exception as error:
            with self._lock:
                self.num_failed += 1
            hint = error.hint if isinstance(error, AnyrigError) else "-vv says more."
            self._say(job, "failed", {"error": str(error), "hint": hint})
            raise
        self._say(job, "done", result if isinstance(result, Mapping) else {})
        return result

    def _say(self, job: Job, kind: str, data: Mapping[str, JsonValue]) -> None:
        if self._json:
            said = {**data, "job": job.id, "event": kind}
            print(json.dumps(said, allow_nan=False), flush=True)
            return
        text = progress(data) if kind == "progress" else kind
        print(f"{title(job)}: {text}", file=sys.stderr, flush=True)
        if kind == "failed":
            print(f"  error: {data['error']}\n  hint: {data['hint']}", file=sys.stderr, flush=True)
        if kind == "done":
            print("\n".join(_result(data)), flush=True)
