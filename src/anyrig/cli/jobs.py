"""`anyrig jobs`: what is queued, worked on or done; working the queue."""

from __future__ import annotations

import argparse
import datetime
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import fleet, jobs_runs, jobs_show
from anyrig.cli.context import Context
from anyrig.cli.show import print_error, print_json, table
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.jobs import Job, JobQueue
    from anyrig.storage.keys import JsonValue

HELP = """Long work that goes on by itself. `anyrig book FILE --queue` queues a book, `anyrig train
CONFIG --queue` a training run; `anyrig jobs run` works on what is queued until nothing is left.
Without a word the jobs are listed, and with them the runs that `anyrig train` began by itself;
`show ID` tells everything of one, `follow ID` tells as it happens. `pause`, `resume`, `cancel` and
`delete` take one id or several, or the first letters of one; `resume` also tries again what failed.
A job whose process was killed is found again by the next `run` and goes on where it was."""
MIXED = True
_CHANGES = ("pause", "resume", "cancel", "delete")
_ACTIONS = ("list", "show", "follow", *_CHANGES, "run")
_FEWEST_LETTERS = 3
_EXIT_TERMINATED = 143  # as a shell tells of SIGTERM


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help=f"{', '.join(_ACTIONS)}; then the job's id"
    )
    parser.add_argument(
        "--at-once", type=_count, metavar="N", default=1,
        help="with run: how many jobs side by side; 1 when not given, as a book uses all there is",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """List, show, change or work on them."""
    context = Context(options)
    action, ids = _asked(options)
    if action == "run":
        return _run(context)
    if action != "list" and (chosen_runs := jobs_runs.named(context, ids)):
        return jobs_runs.act(context, action, chosen_runs)
    if not context.folders.jobs.exists():
        return _none(context, ids) if ids else _listed(context, [])
    with open_jobs(context) as jobs:
        if action == "list":
            return _listed(context, jobs.list())
        chosen = [_named(jobs, word) for word in ids]
        if action == "show":
            return _show(context, chosen)
        if action == "follow":
            return jobs_show.follow(jobs, chosen[0].id, as_json=options.json)
        return _change(context, jobs, action, chosen)


def open_jobs(context: Context) -> JobQueue:
    """This user's jobs."""
    from anyrig.jobs import JobQueue

    return JobQueue(context.folders.jobs)


def queue(context: Context, kind: str, asked: dict[str, JsonValue]) -> int:
    """Queue a job of a kind, with those flags of its command that were given."""
    from anyrig.services.jobs import KINDS, check

    options = context.options
    fleet.check_queued(context)
    for name in KINDS[kind].flags:
        value = getattr(options, name, None)
        if name not in asked and value not in (None, "", False, []):
            asked[name] = value
    checked = check(kind, asked, Path.cwd())
    with open_jobs(context) as jobs:
        job = jobs.submit(kind, checked)
    if options.json:
        print_json(job.to_json())
    else:
        print(f"{job.id}: {jobs_show.title(job)} is queued; `anyrig jobs run` works on it")
    return 0


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise InvalidInputError(f"--at-once {text}", hint="From 1 to 64.")
    return int(text)


def _asked(options: argparse.Namespace) -> tuple[str, Sequence[str]]:
    action, *ids = options.words or ["list"]
    if action not in _ACTIONS:
        import difflib

        near = difflib.get_close_matches(action, _ACTIONS, n=1)
        meant = f"Did you mean `anyrig jobs {near[0]}`? " if near else ""
        raise InvalidInputError(
            f"no such thing as `anyrig jobs {action}`",
            hint=f"{meant}There are: {', '.join(_ACTIONS)}.",
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
        raise InvalidInputError("one job is followed at a time", hint="See `anyrig jobs --help`.")
    return action, ids


def _none(context: Context, ids: Sequence[str]) -> int:
    if ids:
        raise InvalidInputError(f"there is no job {ids[0]}", hint="There are no jobs at all yet.")
    if context.options.json:
        print_json([])
    else:
        print("There are no jobs. `anyrig book FILE --queue` queues a book.")
    return 0


def _named(jobs: JobQueue, word: str) -> Job:
    """A job by its id, or by the first letters of it."""
    found = [job for job in jobs.list() if job.id.startswith(word.lower())]
    if len(found) == 1 and len(word) >= _FEWEST_LETTERS:
        return found[0]
    if len(found) > 1 and len(word) >= _FEWEST_LETTERS:
        raise InvalidInputError(
            f"{pluralize(len(found), 'job')} begin with {word}", hint="Write more of it."
        )
    return jobs.get(word)


def _listed(context: Context, found: Sequence[Job]) -> int:
    """Jobs and runs, the oldest first."""
    runs = jobs_runs.runs(context, found)
    if context.options.json:
        print_json([*(job.to_json() for job in found), *map(jobs_runs.plain, runs)])
        return 0
    if not found and not runs:
        return _none(context, ())
    lines = []
    for job in found:
        since = job.ended or job.started or job.created
        row = [job.id, job.kind, jobs_show.title(job), jobs_show.state(job)]
        lines.append((job.created, row, since))
    lines += [(one.created, *jobs_runs.row(one)) for one in runs]
    rows = [["id", "kind", "what", "state", "since"]]
    for _, row, since in sorted(lines, key=lambda line: line[0]):
        when = datetime.datetime.fromtimestamp(since).strftime("%Y-%m-%d %H:%M")
        rows.append([*row, when])
    print(table(rows))
    return 0


def _show(context: Context, chosen: Sequence[Job]) -> int:
    if context.options.json:
        plain = [job.to_json() for job in chosen]
        print_json(plain[0] if len(plain) == 1 else plain)
    else:
        print("\n\n".join(jobs_show.report(job) for job in chosen))
    return 0


def _change(context: Context, jobs: JobQueue, action: str, chosen: Sequence[Job]) -> int:
    """Each for itself: one that cannot be changed does not keep the others from it."""
    code, told = 0, []
    for job in chosen:
        try:
            if action == "delete":
                jobs.delete(job.id)
                told.append((job, "deleted"))
            else:
                now = {"pause": jobs.pause, "resume": jobs.resume, "cancel": jobs.cancel}
                after = now[action](job.id)
                told.append((after, jobs_show.state(after)))
        except AnyrigError as error:
            print_error(error)
            code = error.exit_code
    if context.options.json:
        print_json([{**job.to_json(), "deleted": action == "delete"} for job, _ in told])
    else:
        for job, state in told:
            print(f"{job.id}: {jobs_show.title(job)}: {state}")
    return code


def _run(context: Context) -> int:
    """Work on the queue until nothing is left; 1 when a job failed."""
    from anyrig.jobs import run_jobs
    from anyrig.services.jobs import runner

    stop = threading.Event()
    shown = jobs_show.Shown(runner(context.environment), as_json=context.options.json)
    with open_jobs(context) as jobs:
        # By another thread: this one may be waiting for the event, and have its lock.
        before = signal.signal(
            signal.SIGTERM, lambda *_: threading.Thread(target=stop.set, daemon=True).start()
        )
        try:
            run_jobs(
                jobs, shown, max_parallel=context.options.at_once, until_empty=True, stop=stop
            )  # fmt: skip
        finally:
            signal.signal(signal.SIGTERM, before)
    if stop.is_set():
        return _EXIT_TERMINATED
    if not shown.num_begun and not context.options.json:
        print("Nothing is queued.")
    return 1 if shown.num_failed else 0
