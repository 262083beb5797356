"""Long work that is queued and runs by itself: a book, a training run, an index.

    rig = Rig()
    job = rig.jobs.submit("book", file="novel.epub", voice="heart")
    rig.jobs.run()

A job is stored as its kind and the options that were given, by their names, as JSON. When it runs,
the options become the same request that `rig.make_book` builds, and the same function is called, in
a process of its own; the settings of who queued it fill what was not given.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.batch import BatchRequest, speak_lines
from anyrig.app.bench import BenchRequest, bench
from anyrig.app.books import BookRequest, make_book
from anyrig.app.cluster import ClusterOptions, find_broker
from anyrig.app.index import IndexRequest, index
from anyrig.app.job_process import run_in_child
from anyrig.app.job_retention import Retention, delete_job, delete_old_jobs
from anyrig.app.settings import CONFIG_VARIABLE
from anyrig.app.training import TrainingRequest, require_torch, train
from anyrig.app.transcription import TranscriptionRequest, TranscriptionResult, transcribe
from anyrig.errors import AnyrigError, InvalidInputError, Message, OptionRef, WorkError
from anyrig.events import OnEvent, WarningEvent
from anyrig.jobs import Job, JobEvent, JobHandler, JobQueue, ReportEvent, StopSignal, run_jobs
from anyrig.options import (
    Request,
    check_names,
    list_options,
    request_from_json,
    value_to_json,
)
from anyrig.results import to_json
from anyrig.storage.files import PRIVATE_UMASK
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.audiobooks.make import BookResult
    from anyrig.storage.keys import JsonValue
    from anyrig.training.runs import RegisteredRun

Result = dict[str, Any]
log = logging.getLogger(__name__)
_CLUSTER_KINDS = ("batch", "book")
"""Kinds of jobs that can use a cluster."""
_DETAILS = (
    "folder", "config", "settings_folder", "requested", "asked", "called", "num_more", "uses",
)  # fmt: skip
"""Stored beside the options: where the job runs, and the settings of who queued it; of one that
came over HTTP what was asked, how its file is called, and the uploads that it reads."""
EXTRA_FILES = ("extra_files", "beside")
"""Where results list files beside the main ones; the second is the name of 0.1.0."""
_MIN_LETTERS = 3
_MAX_FAILED_LINES = 8


@dataclass(frozen=True)
class JobKind:
    """What a kind of job takes, and what it does."""

    request: type[Request]
    run: Callable[[Rig, Any, OnEvent], Result]
    input: str = "file"
    """The option that names its file or files; stored as `file`, and `files` if there are several.
    Empty if it has none."""
    takes_folders: bool = False
    """Whether a file may be a folder."""
    own_folder: str = ""
    """An option for the folder it works in: chosen when it is queued, so that another attempt goes
    on there."""


# -- what each kind does ---------------------------------------------------------------------------


def _run_batch(rig: Rig, request: BatchRequest, on_event: OnEvent) -> Result:
    result = speak_lines(rig, request, on_event)
    for failed in result.failed[:_MAX_FAILED_LINES]:
        on_event(
            WarningEvent(
                Message("line {stem}: {problem}", stem=failed.line.stem, problem=failed.message)
            )
        )
    return result.to_json()


def _run_bench(rig: Rig, request: BenchRequest, on_event: OnEvent) -> Result:
    if request.speech:
        from anyrig.app.bench_speech import bench_speech

        return dict(to_json(bench_speech(rig, request, on_event)))
    return dict(to_json(bench(rig, request, on_event)))


def _run_book(rig: Rig, request: BookRequest, on_event: OnEvent) -> Result:
    return describe_book(make_book(rig, request, on_event))


def describe_book(book: BookResult) -> Result:
    """What is stored of a finished book."""
    report = book.to_json()
    names = (
        "files", "extra_files", "engine", "language", "audio_s", "wall_s", "cached", "chapters",
        "omitted",
    )  # fmt: skip
    paths = {
        name: [os.path.abspath(one) for one in report[name]] for name in ("files", "extra_files")
    }
    return {name: report[name] for name in names} | paths


def _run_index(rig: Rig, request: IndexRequest, on_event: OnEvent) -> Result:
    result = index(rig, request, on_event)
    for warning in result.changes.warnings:
        on_event(WarningEvent(warning))
    names = (
        "index", "model", "new", "changed", "moved", "same", "gone", "passages", "failed", "wall_s",
    )  # fmt: skip
    report = result.to_json()
    return {name: report[name] for name in names}


def _run_training(rig: Rig, request: TrainingRequest, on_event: OnEvent) -> Result:
    result = train(rig, request, on_event)
    if not result.finished:
        raise WorkError("training was interrupted", hint="Resume the job to continue.")
    for path, reason in list(result.left_out.items())[:_MAX_FAILED_LINES]:
        on_event(WarningEvent(f"{path} was skipped: {reason}"))
    names = (
        "run", "steps", "loss", "validation", "seconds", "precision", "micro_batch", "left_out",
    )  # fmt: skip
    report = to_json(result)
    return {**{name: report[name] for name in names if name in report}, "files": result.files}


def _run_transcription(rig: Rig, request: TranscriptionRequest, on_event: OnEvent) -> Result:
    began = time.monotonic()
    result = TranscriptionResult(tuple(transcribe(rig, request, on_event)))
    for failed in result.failed:
        name = Path(failed.file).name
        if name not in failed.error.message:
            failed.error.message = Message(
                "{name}: {problem}", name=name, problem=failed.error.message
            )
        raise failed.error
    wall_s = round(time.monotonic() - began, 3)
    return {**result.to_json(), "wall_s": wall_s, "failed": []}


JOB_KINDS: Mapping[str, JobKind] = {
    "book": JobKind(BookRequest, _run_book),
    "batch": JobKind(BatchRequest, _run_batch),
    "index": JobKind(IndexRequest, _run_index, input="folders", takes_folders=True),
    "transcribe": JobKind(TranscriptionRequest, _run_transcription, input="files"),
    "train": JobKind(TrainingRequest, _run_training, own_folder="run"),
    "bench": JobKind(BenchRequest, _run_bench, input=""),
}


# -- what is stored --------------------------------------------------------------------------------


def find_kind(name: str) -> JobKind:
    if name not in JOB_KINDS:
        raise InvalidInputError(
            f"unknown kind of job {name[:40]!r}", hint=f"Valid kinds: {', '.join(JOB_KINDS)}."
        )
    return JOB_KINDS[name]


def build_arguments(
    kind_name: str, options: Mapping[str, Any], folder: Path
) -> dict[str, JsonValue]:
    """What is stored of a job: the options that were given, checked, with absolute paths.

    Args:
        kind_name: one of `JOB_KINDS`.
        options: fields of the kind's request, by name.
        folder: where the job runs, and where relative paths begin.
    """
    kind = find_kind(kind_name)
    given = {name: value for name, value in options.items() if value is not None}
    request = request_from_json(kind.request, given)
    stored = {name: value_to_json(_make_absolute(getattr(request, name), folder)) for name in given}
    arguments: dict[str, JsonValue] = {"folder": str(folder.absolute())}
    if kind.input:
        arguments |= _store_input(kind, stored.pop(kind.input, None))
    if kind.own_folder and kind.own_folder not in stored:
        day = time.strftime("%Y-%m-%d-%H%M")
        name = f"{Path(str(arguments['file'])).stem}-{day}-{secrets.token_hex(2)}"
        stored[kind.own_folder] = os.path.abspath(folder / "runs" / name)
    return arguments | stored


def list_settings(rig: Rig) -> dict[str, JsonValue]:
    """Where the settings of a job come from: whoever runs it may have others."""
    found: dict[str, JsonValue] = {"settings_folder": os.path.abspath(rig.settings_folder)}
    return found | ({"config": os.path.abspath(rig.config)} if rig.config else {})


def build_request(
    rig: Rig,
    kind_name: str,
    arguments: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
) -> Request:
    """The request of a stored job.

    Args:
        rig: the machine.
        kind_name: one of `JOB_KINDS`.
        arguments: as they are stored, by this version or by 0.1.0.
        defaults: options for whatever was not given, before the settings.
    """
    kind = find_kind(kind_name)
    given = {name: value for name, value in arguments.items() if name not in _DETAILS}
    if kind.input and kind.input != "file":
        file = given.pop("file", None)
        given[kind.input] = given.pop("files", None) or [file]
    known = list_options(kind.request)
    usual = {
        name: value for name, value in (defaults or {}).items()
        if name in known and known[name].excludes not in given
    }  # fmt: skip
    check_names(kind.request, given)
    return rig.request(kind.request, **{**usual, **given})


def _store_input(kind: JobKind, value: Any) -> dict[str, JsonValue]:
    """The files, which must exist."""
    paths = value if isinstance(value, list) else [value] if value else []
    if not paths:
        raise InvalidInputError(
            Message("{option} is required", option=OptionRef(kind.input)),
            hint="Name a file that exists.",
        )
    for path in map(Path, paths):
        if not (path.is_file() or (kind.takes_folders and path.is_dir())):
            raise InvalidInputError(f"no such file: {path}", hint="Check the path.")
    return {"file": paths[0]} if len(paths) == 1 else {"file": paths[0], "files": paths}


def _make_absolute(value: Any, folder: Path) -> Any:
    if isinstance(value, Path):
        return Path(os.path.abspath(folder / value))
    if isinstance(value, tuple):
        return tuple(_make_absolute(one, folder) for one in value)
    return value


def _check_cluster(rig: Rig, options: ClusterOptions) -> None:
    """A job's options are shown to many: the password of a broker must not be among them."""
    from anyrig.cluster import token

    if token.is_token(options.cluster) or "@" in options.cluster:
        raise InvalidInputError(
            "the broker's address would show its password to everyone who lists jobs",
            hint=Message(
                "Set cluster.broker, and pass {cluster}.", cluster=OptionRef("cluster", "yes")
            ),
        )
    find_broker(rig, options)  # what it needs is reported now, not when the job runs


# -- a user's jobs ---------------------------------------------------------------------------------


class Jobs:
    """The jobs of this user, whoever queued them; any number of processes may use them at once."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def open(self) -> JobQueue:
        return JobQueue(self._rig.folders.jobs)

    def submit(self, kind: str, **options: Any) -> Job:
        """Queue a job of one of `JOB_KINDS`; the options are those of its request.

        rig.jobs.submit("transcribe", files=["talk.mp3"], format=["srt"])
        """
        options = {**self._read_variables(find_kind(kind).request, options), **options}
        arguments = build_arguments(kind, options, Path.cwd()) | list_settings(self._rig)
        request = self._rig.request(find_kind(kind).request, **options)
        if isinstance(request, TrainingRequest):
            require_torch(self._rig)
        if isinstance(request, ClusterOptions):
            _check_cluster(self._rig, request)
        with self.open() as queue:
            return queue.submit(kind, arguments)

    def _read_variables(self, request: type[Request], given: Mapping[str, Any]) -> dict[str, Any]:
        """The options that variables set: the process that runs the job may have others."""
        origins = self._rig.loaded_settings.origins
        return {
            name: self._rig.settings[option.setting]
            for name, option in list_options(request).items()
            if origins.get(option.setting, ("",))[0] == "environment"
            and option.fill and option.excludes not in given
        }  # fmt: skip

    def record(self, kind: str, options: Mapping[str, Any], result: Result, started: float) -> None:
        """List work that was done without the queue, so that the page shows it. What cannot be
        stored is only logged: the work is done.
        """
        try:
            arguments = build_arguments(kind, options, Path.cwd()) | list_settings(self._rig)
            with self.open() as queue:
                queue.record(kind, arguments, result, started)
        except (AnyrigError, OSError) as error:
            log.info("not listed among the jobs: %s", error)

    def list(self) -> Sequence[Job]:
        """All jobs, the oldest first."""
        if not self._rig.folders.jobs.exists():
            return ()
        with self.open() as queue:
            return queue.list()

    def find(self, id: str) -> Job:
        """A job by its id, or by the first letters of it."""
        found = [job for job in self.list() if job.id.startswith(id.lower())]
        if len(id) >= _MIN_LETTERS and len(found) == 1:
            return found[0]
        if len(id) >= _MIN_LETTERS and found:
            raise InvalidInputError(
                f"{pluralize(len(found), 'job')} begin with {id}", hint="Write more of the id."
            )
        with self.open() as queue:
            return queue.get(id)

    def pause(self, id: str) -> Job:
        """Do not work on a job until it is resumed; one that runs stops soon after."""
        with self.open() as queue:
            return queue.pause(id)

    def resume(self, id: str) -> Job:
        """Queue a job again that was paused or cancelled, or failed."""
        with self.open() as queue:
            return queue.resume(id)

    def cancel(self, id: str) -> Job:
        """Give a job up; one that runs stops soon after."""
        with self.open() as queue:
            return queue.cancel(id)

    def delete(self, id: str) -> None:
        """Delete a job that is not running; of one that came over HTTP also its files."""
        with self.open() as queue:
            delete_job(queue, self._rig.folders.server, queue.get(id))

    def follow(self, id: str) -> Iterator[JobEvent]:
        """What happened to a job and what happens, until it is finished."""
        with self.open() as queue:
            yield from queue.events(id, follow=True)

    def run(
        self,
        handler: JobHandler | None = None,
        *,
        max_parallel: int = 1,
        stop: threading.Event | None = None,
    ) -> None:
        """Work on the queue until nothing is left.

        Args:
            handler: does one job; by default what `make_job_handler` returns.
            max_parallel: how many run at once.
            stop: set it, and running jobs are stopped and queued again.
        """
        handler = handler or make_job_handler(self._rig.environment)
        with self.open() as queue:
            run_jobs(queue, handler, max_parallel=max_parallel, until_empty=True, stop=stop)
            delete_old_jobs(queue, self._rig.folders.server, Retention())

    def list_runs(self) -> Sequence[RegisteredRun]:
        """Training runs that were started without the queue."""
        from anyrig.training.runs import list_runs

        queued = {str(job.arguments.get("run")) for job in self.list() if job.kind == "train"}
        found = list_runs(self._rig.folders.runs)
        return [one for one in found if str(one.folder) not in queued]

    def find_runs(self, ids: Sequence[str]) -> Sequence[RegisteredRun]:
        """The runs that ids or their first letters name; empty if one of them is not a run's."""
        known, found = self.list_runs(), []
        for id in ids:
            alike = [one for one in known if one.id.startswith(id.lower())]
            if len(id) < _MIN_LETTERS or len(alike) != 1:
                return []
            found.append(alike[0])
        return found


class ClusterJobQueue(JobQueue):
    """This user's jobs; the work of those that can use a cluster goes there.

    Jobs are not kept in the broker: it may forget them, they read and write files of this machine,
    and a job that is resumed finds what was made in this machine's cache.
    """

    def submit(self, kind: str, arguments: Mapping[str, JsonValue], *, client: str = "") -> Job:
        """Queue a job; it uses the cluster unless it says otherwise."""
        if kind in _CLUSTER_KINDS and arguments.get("cluster") is None:
            # The broker of the environment: arguments are shown to many, and a URL has a password.
            arguments = {**arguments, "cluster": "yes"}
        return super().submit(kind, arguments, client=client)


def make_job_handler(
    environment: Mapping[str, str],
    defaults: Mapping[str, Any] | None = None,
    settings: Mapping[str, JsonValue] | None = None,
    umask: int = -1,
) -> JobHandler:
    """Does jobs of any kind, each in a process of its own.

    Args:
        environment: of the processes. The settings file that it names is not theirs.
        defaults: options for whatever a job does not give, before the settings.
        settings: where the settings of a job come from that does not say so (`list_settings`); by
            default the folder it runs in.
        umask: for the files of jobs of the command line; -1 is this process's own. Those of jobs
            that came over HTTP are private.
    """
    environment = {name: environment[name] for name in environment if name != CONFIG_VARIABLE}

    def handle(job: Job, report_event: ReportEvent, stop: StopSignal) -> JsonValue:
        find_kind(job.kind)
        folder = str(job.arguments["folder"])
        arguments = {**(settings or {}), **job.arguments}
        order = {"kind": job.kind, "arguments": arguments, "defaults": dict(defaults or {})}
        result: dict[str, JsonValue] = run_in_child(
            order, folder, environment, report_event, stop,
            PRIVATE_UMASK if came_over_http(job) else umask,
        )  # fmt: skip
        for name in ("files", *EXTRA_FILES):
            paths = result.get(name)
            if isinstance(paths, list):
                result[name] = [os.path.join(folder, str(path)) for path in paths]
        return result

    return handle


def came_over_http(job: Job) -> bool:
    return get_requested(job) is not None


def get_requested(job: Job) -> JsonValue:
    """What an HTTP client asked for, as it wrote it; `asked` is the name of 0.1.0."""
    return job.arguments.get("requested", job.arguments.get("asked"))


def get_title(job: Job) -> str:
    """What a job is about: the name of its file, or of the first and how many more there are."""
    num_more = get_num_more(job)
    return f"{get_name(job)} and {num_more} more" if num_more else get_name(job)


def get_num_more(job: Job) -> int:
    """How many files a job has besides the first."""
    num_more = job.arguments.get("num_more")
    return num_more if isinstance(num_more, int) else 0


def get_name(job: Job) -> str:
    """The name of a job's file, or of the first."""
    called = job.arguments.get("called")  # the name that a client gave it
    if called:
        return str(called)
    file = job.arguments.get("file")
    return Path(str(file)).name if file else job.kind
