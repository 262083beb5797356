"""Document workers: processes that run functions of this layer for a server, models kept loaded.

    workers = DocumentWorkers(rig)
    workers.submit("search", {"index": "letters", "question": "when is the rent due"}).result()

A task has a name and a request as JSON: what was given, the rest is filled in from the settings. It
runs in a process of its own, as files of clients may be hostile, and answers JSON or an error of
its own class. There are two lanes: `live` for what is quick, on the CPU, and `bulk` for the rest. A
task of the bulk lane that takes longer than a few seconds is moved to the worker for long tasks, so
that it is in nobody's way; in each queue clients take turns.
"""

from __future__ import annotations

import base64
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from anyrig.app.access import resolve_document_model
from anyrig.app.compute import ComputeOptions, place
from anyrig.app.documents import FileOptions, read_files
from anyrig.app.models import MAX_WORKER_MODELS, ModelCache
from anyrig.app.rig import Rig
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    MissingWeightsError,
    StorageBusyError,
    WorkError,
    error_from_dict,
    error_to_dict,
    is_disk_full,
    to_disk_full_error,
)
from anyrig.events import Event
from anyrig.options import list_options, option
from anyrig.results import to_json
from anyrig.work.engine import BaseEngine, EngineFactory
from anyrig.work.live import LiveQueue

if TYPE_CHECKING:
    from anyrig.app.books import BookRequest
    from anyrig.app.entities import FoundEntities
    from anyrig.documents.classify.pipeline import ClassifiedText
    from anyrig.documents.index.remove import RemovalResult
    from anyrig.documents.ocr.pipeline import OcrFile
    from anyrig.documents.summarise.files import FileSummary
    from anyrig.placement import Placement
    from anyrig.text.document import Picture
    from anyrig.work.live import ItemFuture, Lane
    from anyrig.work.protocol import NestedModel
    from anyrig.work.worker import LocalWorkers

log = logging.getLogger(__name__)
T = TypeVar("T")
Rows = list[dict[str, Any]]
"""`{"result": ...}` or `{"error": ...}` for each text or file, so that a bad one fails alone."""
WORKER = "anyrig.app.document_worker:DocumentWorker"
MAX_OCR_PAGES = 200
"""Pages that one task reads by OCR: a client asks for more by their numbers."""
MAX_OCR_SECONDS = 600.0
"""A task that reports nothing for much longer is taken to hang."""
_LANE_NAMES: dict[Lane, str] = {"live": "documents", "bulk": "documents, files"}
"""Names of the workers in the model cache, and so in `/health`."""
_LONG_NAME = "documents, long tasks"
_LONG_NAMES = {"transcribe": "documents, transcriptions"}
"""Where tasks of the bulk lane are moved that take too long. Recordings have their own worker, as
each may take half an hour."""
MAX_SHORT_S = 5.0
"""From then on a task of the bulk lane is long: it is stopped at its next step and begins again in
the other worker. So much work is done twice; others wait no longer than this for each task."""
_OWN_WORKERS = dict.fromkeys(("index_delete", "index_remove"), "documents, deletions")
"""Tasks with a worker of their own. What is deleted is overwritten on the disk: searches must not
wait for it, and it must not wait for long work, which may take hours."""
_MAX_FAILED = 100


# -- in the server ---------------------------------------------------------------------------------


class DocumentWorkers:
    """Submits tasks to worker processes, which start when they are needed.

    One process for each kind of task, rather than several for all: what is quick is never behind a
    long task, and a task that kills its process takes nothing of the other kinds with it. They end
    when the model cache of `rig` finds them idle.

    Args:
        rig: its model cache holds the workers.
        options: of every task.
        factory: what runs in a process.
        max_short_s: from then on a task of the bulk lane is moved to the worker for long tasks.
    """

    def __init__(
        self,
        rig: Rig,
        options: ComputeOptions | None = None,
        factory: str = WORKER,
        max_short_s: float = MAX_SHORT_S,
    ) -> None:
        self._rig, self._factory, self._max_short_s = rig, factory, max_short_s
        self._options = options or rig.request(ComputeOptions)
        self._temporary = TemporaryDirectory(prefix="anyrig-tasks-")
        self._folder = Path(self._temporary.name)
        """A file for each task whose result somebody waits for: the worker looks for it."""
        self._numbers = count()

    def __enter__(self) -> DocumentWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()  # the processes are ended by the model cache

    def submit(
        self,
        task: str,
        given: Mapping[str, Any],
        *,
        lane: Lane = "live",
        priority: float = 0.0,
        client: str = "",
    ) -> TaskFuture:
        """A future of the task's result. The first one starts a process: call it in a thread.

        Args:
            task: one of `TASKS`.
            given: options of the task's request, as JSON.
            lane: `bulk` for whatever may take more than a second or so.
            priority: lower ones of a client come first: a file's number in its request.
            client: for whom it is; clients take turns.
        """
        waiting_file = self._folder / str(next(self._numbers))
        payload = {"task": task, "given": dict(given), "waiting_file": str(waiting_file)}
        may_move = lane == "bulk" and task not in _OWN_WORKERS

        def start(name: str, payload: Mapping[str, Any]) -> tuple[ItemFuture[Any], ExitStack]:
            with ExitStack() as stack:
                queue = stack.enter_context(
                    self._rig.models.borrow(name, lambda: closing(self._start(lane)), counted=False)
                )
                item = queue.submit(
                    payload, lane=lane, priority=priority, client=client,
                    deadline=time.monotonic() + self._rig.settings.server.deadline_s,
                )  # fmt: skip
                return item, stack.pop_all()

        waiting_file.touch()
        try:
            name = _OWN_WORKERS.get(task, _LANE_NAMES[lane])
            limit = {"max_s": self._max_short_s} if may_move else {}
            item, borrowed = start(name, {**payload, **limit})
        except BaseException:
            _remove_file(waiting_file)
            raise
        long_name = _LONG_NAMES.get(task, _LONG_NAME)
        return TaskFuture(
            item, borrowed, waiting_file, partial(start, long_name, payload) if may_move else None
        )

    def _start(self, lane: Lane) -> WorkerQueue:
        from anyrig.devices.choose import DeviceRequest, choose_device
        from anyrig.placement import Workload
        from anyrig.work.worker import LocalWorkers

        rig = self._rig
        cpu = choose_device(rig.machine, (DeviceRequest("cpu", "flag"),))
        workload = Workload("documents", gpu=False, cores=1, max_workers=1)
        plan = place(rig, cpu, workload, self._options)
        workers = LocalWorkers(
            plan.placements[:1], self._build_factory(lane), environment=rig.environment
        )
        settings = rig.settings.server
        queue = WorkerQueue(workers, settings.queue, settings.client_share)
        # A process that has answered once is good: if it dies, the task is to blame.
        try:
            unpack_result(queue.submit({"task": "ready", "given": {}}).result())
        except AnyrigError:
            queue.close()
            raise
        return queue

    def _build_factory(self, lane: Lane) -> EngineFactory:
        """How a process becomes a worker, with this process's settings and environment."""
        options = asdict(self._options)
        if lane == "live":
            options["device"] = "cpu"  # a question is short: a GPU takes longer to open
        given = {"config": self._rig.config, "environment": self._rig.environment}
        return EngineFactory(
            self._factory, {**given, "options": options}, name="documents", version="1"
        )


class WorkerQueue(LiveQueue[Any, Any]):
    """Where tasks wait for a worker process, whose models can be unloaded one by one."""

    def __init__(self, workers: LocalWorkers, max_waiting: int, client_share: float) -> None:
        from anyrig.work.pool import WorkerPool

        super().__init__(
            WorkerPool(workers), cost=lambda _: 1.0, max_in_flight=1, max_waiting=max_waiting,
            client_share=client_share,
        )  # fmt: skip
        self._workers = workers

    def unload_model(self, name: str) -> None:
        """Have a model closed, also while a task runs that does not use it."""
        self._workers.unload_model(name)


class TaskFuture(Future[Any]):
    """The result of a task, or its error. Cancelling it tells a task that has begun to stop.

    Args:
        item: the task in the queue of a worker.
        borrowed: returns the worker.
        waiting_file: exists while somebody waits for the task.
        move: submits the task to another worker, if this one stops it as it takes too long.
    """

    def __init__(
        self,
        item: ItemFuture[Any],
        borrowed: ExitStack,
        waiting_file: Path,
        move: Callable[[], tuple[ItemFuture[Any], ExitStack]] | None = None,
    ) -> None:
        super().__init__()
        self._item, self._borrowed, self._waiting_file = item, borrowed, waiting_file
        self._move = move
        self.add_done_callback(lambda _: self._stop())
        item.add_done_callback(self._take)

    @property
    def began(self) -> float | None:
        """When a worker started it, by `time.monotonic`; None while it waits."""
        return self._item.began

    def _take(self, item: Future[Any]) -> None:
        self._borrowed.close()
        if self._move is not None and _is_too_long(item):
            # In a thread, as it may start a process; this one has others to serve.
            threading.Thread(target=self._run_again, name="anyrig-move", daemon=True).start()
            return
        if item.cancelled() or not self.set_running_or_notify_cancel():
            return
        try:
            self.set_result(unpack_result(item.result()))
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            self.set_exception(error)

    def _run_again(self) -> None:
        move, self._move = self._move, None
        assert move is not None
        try:
            if not self.cancelled():
                self._item, self._borrowed = move()
                self._item.add_done_callback(self._take)
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            if self.set_running_or_notify_cancel():
                self.set_exception(error)

    def _stop(self) -> None:
        if self.cancelled():
            self._item.cancel()
        _remove_file(self._waiting_file)  # long tasks look for this between two steps


def _is_too_long(item: Future[Any]) -> bool:
    if item.cancelled() or item.exception() is not None:
        return False
    return "too_long" in item.result()


def unpack_result(answer: Mapping[str, Any]) -> Any:
    """The result of a task; its error, of its own class, is raised."""
    if "error" not in answer:
        return answer["result"]
    if trace := answer.get("trace"):
        log.warning("a task failed:\n%s", trace)
    raise error_from_dict(answer["error"])


def _remove_file(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


# -- in a worker process ---------------------------------------------------------------------------


class TaskTooLong(Exception):
    """A task is moved to the worker for long ones."""


class WorkerContext:
    """What a task gets: the rig of its process, the options of every request unless it has others,
    and whether somebody still waits for its result.
    """

    def __init__(self, rig: Rig, options: Mapping[str, Any]) -> None:
        self.rig, self.options = rig, dict(options)
        self.waiting_file = ""
        """A file that exists while somebody waits for the current task; none is looked for if
        empty."""
        self.stop_at: float | None = None
        """By `time.monotonic`: when the current task has to leave its worker to others."""

    def request(self, kind: type[T], given: Mapping[str, Any]) -> T:
        """Build a request: what is given, what the server says, the settings, the defaults."""
        known = list_options(kind)
        options = {name: value for name, value in self.options.items() if name in known}
        values = {name: _replace_nulls(value) for name, value in given.items()}
        return self.rig.request(kind, **{**options, **values})

    def check(self, event: Event | None = None) -> None:
        """Raise an error if nobody waits for the task any more, or if it takes too long for its
        worker; called with each event, and at each step of what takes long.
        """
        if self.stop_at is not None and time.monotonic() > self.stop_at:
            raise TaskTooLong
        if self.waiting_file and not os.path.exists(self.waiting_file):
            raise WorkError("the client disconnected", hint="Send the request again.")

    def resolve_model(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What is given, with the model as a name or folder that a client may use."""
        if not given.get("model"):
            return dict(given)
        return {**given, "model": resolve_document_model(self.rig, given["model"])}


def _replace_nulls(value: Any) -> Any:
    """Texts without null characters, which no option may have, and with the same offsets."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    return [_replace_nulls(one) for one in value] if isinstance(value, list) else value


class DocumentWorker(BaseEngine):
    """Runs tasks, one at a time, with the server's settings, environment and options: its own
    process may have devices hidden from it.
    """

    name = "documents"
    version = "1"
    pads = False
    batch_invariant = True
    max_items = 1

    def __init__(
        self,
        placement: Placement,
        *,
        config: str | None,
        environment: Mapping[str, str],
        options: Mapping[str, Any],
    ) -> None:
        rig = Rig(config=config, environment=environment)
        rig.models = ModelCache(idle_s=rig.settings.server.idle_s, max_models=MAX_WORKER_MODELS)
        # Nothing is measured, cached or read without end for a client.
        limits = {"max_ocr_pages": MAX_OCR_PAGES, "max_ocr_seconds": MAX_OCR_SECONDS}
        private = {"private": True, "no_cache": True, "fresh": True, "no_bench": True}
        given = {name: value for name, value in options.items() if value not in (None, "", False)}
        self.context = WorkerContext(rig, {**given, **limits, **private})

    def loaded_models(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.context.rig.models.loaded_models())

    def nested_models(self) -> tuple[NestedModel, ...]:
        return self.context.rig.models.nested_models()

    def unload_model(self, name: str) -> None:
        self.context.rig.models.unload(name)

    def run(self, batch: Sequence[Any]) -> Sequence[Any]:
        """For each task `{"result": ...}` or `{"error": ...}`."""
        return [self.run_task(payload) for payload in batch]

    def run_task(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        from anyrig.memory import oom

        self.context.waiting_file = payload.get("waiting_file", "")
        max_s = payload.get("max_s")
        self.context.stop_at = None if max_s is None else time.monotonic() + max_s
        try:
            return {"result": TASKS[payload["task"]](self.context, payload["given"])}
        except TaskTooLong:
            return {"too_long": True}
        except AnyrigError as error:
            return {"error": error_to_dict(error)}
        except Exception as error:  # noqa: BLE001 - whatever a task raises is its answer
            if oom.detect_oom(error) is not None or oom.detect_device_loss(error):
                raise  # the worker recovers from these
            if is_disk_full(error):
                return {"error": error_to_dict(to_disk_full_error(error))}
            # Without its message, which may hold a client's text: this is for the server's log.
            name = type(error).__name__
            trace = "".join([*traceback.format_tb(error.__traceback__), name])
            failure = WorkError(f"{payload['task']} failed ({name})", hint="See the log.")
            return {"error": error_to_dict(failure), "trace": trace}
        finally:
            self.context.rig.models.evict_idle()


# -- tasks on texts and files ----------------------------------------------------------------------


def _report_ready(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"models": [one.name for one in context.rig.models.loaded_models()]}


def _build_rows(found: Iterable[Any], convert: Callable[[Any], dict[str, Any]]) -> Rows:
    return [
        {"result": convert(one)} if one.error is None else {"error": error_to_dict(one.error)}
        for one in found
    ]


@dataclass(frozen=True, kw_only=True)
class PassagesRequest(FileOptions):
    """Passages of files: what is embedded as one piece."""

    files: tuple[Path, ...] = option((), "files")


def _run_passages(context: WorkerContext, given: Mapping[str, Any]) -> Rows:
    from anyrig.documents.passages import Passage, split_passages
    from anyrig.documents.reading import build_textless_error
    from anyrig.text.sandbox import ReadError

    def describe(passage: Passage) -> dict[str, Any]:
        context.check()
        return asdict(passage)

    request = context.request(PassagesRequest, given)
    rows: Rows = []
    for document in read_files(context.rig, request, request.files):
        context.check()
        if isinstance(document, ReadError):
            rows.append({"error": error_to_dict(document.error)})
        elif found := list(map(describe, split_passages(document))):
            result = {
                "format": document.format,
                "passages": found,
                "warnings": list(document.warnings),
            }
            rows.append({"result": result})
        else:
            rows.append({"error": error_to_dict(build_textless_error(document))})
    return rows


def _run_read(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    from anyrig.app.reader import ReadRequest, read_part

    return asdict(read_part(context.rig, context.request(ReadRequest, given)))


def _run_list_classifiers(context: WorkerContext, given: Mapping[str, Any]) -> Rows:
    from anyrig.app.classify import list_classifiers

    return [
        {"name": about.name, "version": about.version, "title": about.title,
         "labels": list(about.labels), "kind": about.kind, "examples": about.num_examples,
         "embedding": about.embedding, "made": about.made, "figures": about.figures}
        for about in list_classifiers(context.rig)
    ]  # fmt: skip


def _run_classify(context: WorkerContext, given: Mapping[str, Any]) -> Rows:
    from anyrig.app.classify import ClassifyRequest, classified_to_json, classify, show_classifier
    from anyrig.app.embedding import LanguageWarningEvent

    request = context.request(ClassifyRequest, context.resolve_model(given))
    if request.classifier is not None:
        show_classifier(context.rig, request.classifier)  # no folder, and none of the hub
    warnings: list[str] = []

    def report(event: Event) -> None:
        context.check()
        if isinstance(event, LanguageWarningEvent):
            warnings.append(event.message)

    def convert(one: ClassifiedText) -> dict[str, Any]:
        row = classified_to_json(one)
        del row["name"], row["file"]
        return {**row, "warnings": [*warnings, *row["warnings"]]}

    return _build_rows(classify(context.rig, request, report).texts, convert)


def _run_entities(context: WorkerContext, given: Mapping[str, Any]) -> Rows:
    from anyrig.app.entities import EntitiesRequest, find_entities

    request = context.request(EntitiesRequest, given)

    def convert(one: FoundEntities) -> dict[str, Any]:
        entities = one.list_rows(distinct=request.distinct)
        for row in entities:
            del row["file"]
        warnings = [*one.warnings, *one.name_warnings]
        return {"entities": entities, "languages": list(one.languages), "warnings": warnings}

    return _build_rows(find_entities(context.rig, request, context.check), convert)


def _run_summarise(context: WorkerContext, given: Mapping[str, Any]) -> Rows:
    from anyrig.app.summarise import SummariseRequest, summarise, summary_to_json

    def convert(one: FileSummary) -> dict[str, Any]:
        summaries = [summary_to_json(chapter) for chapter in one.summaries]
        return {"summaries": summaries, "warnings": list(one.warnings)}

    request = context.request(SummariseRequest, context.resolve_model(given))
    return _build_rows(summarise(context.rig, request, context.check), convert)


def _run_analyse(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """What documents hold; with `html` as a page that needs no network."""
    from anyrig.app.analyse import AnalyseRequest, analyse, analysis_to_json
    from anyrig.documents.analyse.report import html

    options = {name: value for name, value in given.items() if name != "html"}
    request = context.request(AnalyseRequest, context.resolve_model(options))
    found = analyse(context.rig, request, context.check)
    if not found.docs:
        first = found.left[0]
        raise InvalidInputError(
            Message("{name}: {why}", name=first.name, why=first.error.message),
            hint=first.error.hint or "Give files with text.",
        )
    if given.get("html"):
        return {"html": html(found)}
    result = analysis_to_json(found)
    for one in result["documents"]:
        del one["path"]
    failed = [
        {"name": one.name, "error": one.error.message, "hint": one.error.hint} for one in found.left
    ]
    return {**result, "failed": failed}


def _run_ocr(context: WorkerContext, given: Mapping[str, Any]) -> Rows:
    """The text of one file; with boxes if the format is json, and written to `output` if pdf."""
    from anyrig.app.ocr import OcrRequest, read_text

    request = context.request(OcrRequest, given)
    result = read_text(context.rig, request, context.check)

    def convert(file: OcrFile) -> dict[str, Any]:
        row = file.to_json()
        if request.format != "json":
            for page in row["pages"]:
                page.pop("lines", None)
        return {
            "format": row["format"], "pages": row["pages"], "failed": row["failed"],
            "text": "\n\n".join(page["text"] for page in row["pages"]),
            "engine": result.engine.engine,
        }  # fmt: skip

    return _build_rows(result.files, convert)


def _run_transcribe(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is said in one recording; `form` is srt or vtt if captions are wanted as well."""
    from anyrig.app.transcription import TranscriptionRequest, to_verbose_json, transcribe
    from anyrig.transcription.formats import format_transcription

    options = {name: value for name, value in given.items() if name != "form"}
    request = context.request(TranscriptionRequest, options)
    try:
        (result,) = transcribe(context.rig, request, context.check)
    except MissingWeightsError as error:  # nothing is downloaded for a client
        raise MissingWeightsError(
            error.message,
            hint=f"`anyrig transcribe --fetch --model {request.model} FILE` downloads it on the"
            " server's machine; or name a folder below those of server.models.",
        ) from error
    if result.error is not None:
        raise result.error
    assert result.transcript is not None
    answer: dict[str, Any] = dict(to_verbose_json(result.transcript, words=request.word_times))
    if given.get("form"):
        answer["written"] = format_transcription(result.transcript, given["form"])
    return answer


# -- tasks on indexes ------------------------------------------------------------------------------


def _run_search(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    from anyrig.app.search import SearchRequest, answer_to_json, search

    answer = search(context.rig, context.request(SearchRequest, given), context.check)
    return {**answer_to_json(answer), "notes": list(answer.notes)}


def _run_ask(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    from anyrig.app.ask import AskRequest, ask

    return ask(context.rig, context.request(AskRequest, given), context.check).to_json()


def _run_similar(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is most similar to a text or file: among others if some are given, or in an index."""
    from anyrig.app.search import SimilarRequest, answer_to_json, compare, search_similar

    request = context.request(SimilarRequest, context.resolve_model(given))
    if request.texts or request.files:
        return compare(context.rig, request, context.check).to_json()
    return answer_to_json(search_similar(context.rig, request, context.check))


def _run_list_indexes(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every index with its figures; those that cannot be read with the reason."""
    from anyrig.app.index import list_indexes

    found, failed = list_indexes(context.rig)
    return {
        "indexes": [{**row, "failed": row["failed"][:_MAX_FAILED]} for row in to_json(found)],
        "failed": [
            {"name": one.file, "error": one.error.message, "hint": one.error.hint}
            for one in failed
        ],
    }  # fmt: skip


def _run_list_files(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """The files of an index in the order of their paths: `index`, `start`, `limit`."""
    from anyrig.app.index import list_files

    files = list_files(context.rig, given["index"])
    start = given["start"]
    return {
        "total": len(files),
        "files": [
            {"file": str(path), "size": known.stamp.size, "ocr_pages": known.num_ocr,
             "error": known.error, "hint": known.hint}
            for path, known in files[start : start + given["limit"]]
        ],
    }  # fmt: skip


def _run_list_uploads(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """Ids of the uploads that some index holds. An index that cannot be read is an error, as nobody
    knows what it holds.
    """
    from anyrig.app.index import list_names

    uploads = [path for name in list_names(context.rig) for path in _list_uploads(context, name)]
    return {"uploads": sorted({path.name.partition(".")[0] for path in uploads})}


def _list_uploads(context: WorkerContext, index: str) -> list[Path]:
    """The files of an index that were uploaded to the server."""
    from anyrig.app.index import list_files

    folder = context.rig.folders.server.resolve()
    return [path for path, _ in list_files(context.rig, index) if path.is_relative_to(folder)]


def _run_close_index(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """Close an index, before another worker overwrites what was in it."""
    from anyrig.app.index import close_index

    close_index(context.rig, given["index"])
    return {}


def _run_remove(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """Remove files or folders from an index for good, and what is cached of them."""
    from anyrig.app.index import IndexRequest, remove

    index = given["index"]
    uploads = {f"upload:{path.stem}": path for path in _list_uploads(context, index)}
    for name in given["files"]:
        if name.startswith("upload:") and name not in uploads:
            raise InvalidInputError(
                f"{name} is not in the index", hint="List the files of the index."
            )
    files = [uploads.get(name) or Path(name) for name in given["files"]]
    request = context.request(IndexRequest, {"index": index, "folders": files})
    return _removed_to_json(context, index, remove(context.rig, request, context.check))


def _run_delete(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """Delete an index for good, with what is cached of its texts; `busy` if somebody fills it."""
    from anyrig.app.index import IndexRequest, delete_for_good

    request = context.request(IndexRequest, {"index": given["index"]})
    try:
        removed = delete_for_good(context.rig, request, context.check)
    except StorageBusyError as error:
        return {"busy": error.message}
    return _removed_to_json(context, request.index, removed)


def _removed_to_json(context: WorkerContext, index: str, removed: RemovalResult) -> dict[str, Any]:
    """What was removed; `elsewhere` are the uploads among it that another index holds too."""
    from anyrig.app.index import list_names

    elsewhere: set[Path] = set()
    for other in list_names(context.rig) if removed.files else ():
        if other != index:
            with suppress(AnyrigError):  # one that cannot be read names nothing
                elsewhere |= set(_list_uploads(context, other)) & set(removed.files)
    return {
        "files": [str(path) for path in removed.files], "passages": removed.num_texts,
        "cached": removed.num_cached, "clean": removed.clean,
        "elsewhere": sorted(map(str, elsewhere)),
    }  # fmt: skip


# -- tasks on books --------------------------------------------------------------------------------


def _run_book_plan(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """A book's chapters and durations, its warnings, and its cover as base64; `arguments` are those
    of a job.
    """
    from anyrig.app.book_listing import list_chapters

    found = list_chapters(context.rig, _build_book_request(context, given), context.check)
    document = found.book.document
    return {
        **found.to_json(), "language": found.book.language, "voice": found.voice,
        "warnings": list(document.warnings), "picture": _encode_picture(document.cover),
    }  # fmt: skip


def _run_book_cover(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, str] | None:
    """The cover of a book's `file`: `type`, and `data` in base64; None if it has none."""
    from anyrig.text.sandbox import read_book

    document = read_book(Path(given["file"]))
    context.check()
    return _encode_picture(document.cover)


def _run_book_chapter(context: WorkerContext, given: Mapping[str, Any]) -> dict[str, Any]:
    """Write the audio of a chapter: `arguments` of the job, `number` of the chapter, `target` for
    the file; `made` is the finished book, of which `track` is used if takes are not cached any
    more.
    """
    from anyrig.app.book_chapters import extract_chapter, write_cached_chapter
    from anyrig.app.books import plan_book

    rig, target, output = context.rig, Path(given["target"]), given["arguments"]["output"]
    try:
        request = _build_book_request(context, given)
        with rig.models.borrow(
            f"book plan {Path(output).stem}",
            lambda: nullcontext(plan_book(rig, request, context.check)),
            version=str(output),
            counted=False,
        ) as book:
            seconds = write_cached_chapter(
                rig, request, book, int(given["number"]), target, context.check
            )
    except InvalidInputError:
        if not given.get("made"):
            raise
        made, track = Path(given["made"]), int(given["track"])
        seconds = extract_chapter(made, track, target, context.check)
    return {"file": str(target), "seconds": round(seconds, 3)}


def _build_book_request(context: WorkerContext, given: Mapping[str, Any]) -> BookRequest:
    """The request of a job; the server's own options are its defaults."""
    from anyrig.app.books import BookRequest

    known, options = list_options(BookRequest), list_options(ComputeOptions)
    job = {name: value for name, value in given["arguments"].items() if name in known}
    server = {
        name: value for name, value in context.options.items()
        if name in options and options[name].excludes not in job
    }  # fmt: skip
    return context.rig.request(BookRequest, **{**server, **job, "no_bench": True})


def _encode_picture(picture: Picture | None) -> dict[str, str] | None:
    from anyrig.audiobooks.metadata import prepare_cover

    image, _ = prepare_cover(picture)
    if image is None:
        return None
    return {"type": image.media_type, "data": base64.b64encode(image.data).decode("ascii")}


TaskFunction = Callable[[WorkerContext, Mapping[str, Any]], Any]
TASKS: Mapping[str, TaskFunction] = {
    "ready": _report_ready,
    "search": _run_search,
    "ask": _run_ask,
    "similar": _run_similar,
    "indexes": _run_list_indexes,
    "index_files": _run_list_files,
    "index_close": _run_close_index,
    "index_remove": _run_remove,
    "index_delete": _run_delete,
    "index_uploads": _run_list_uploads,
    "classifiers": _run_list_classifiers,
    "passages": _run_passages,
    "read": _run_read,
    "classify": _run_classify,
    "entities": _run_entities,
    "summarise": _run_summarise,
    "analyse": _run_analyse,
    "ocr": _run_ocr,
    # Not documents, but work of the same kind: a file is opened, a model is asked.
    "transcribe": _run_transcribe,
    "book_plan": _run_book_plan,
    "book_cover": _run_book_cover,
    "book_chapter": _run_book_chapter,
}
