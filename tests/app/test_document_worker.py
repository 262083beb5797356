"""Document workers: tasks in other processes, their errors, deaths, and what stays loaded."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import soundfile

from anyrig.app.access import resolve_document_model
from anyrig.app.compute import ComputeOptions
from anyrig.app.document_worker import (
    TASKS,
    DocumentWorker,
    DocumentWorkers,
    TaskTooLong,
    WorkerContext,
)
from anyrig.app.documents import FileOptions, LimitedReader
from anyrig.app.models import ModelCache
from anyrig.app.rig import Rig
from anyrig.documents.reading import ReadPicture
from anyrig.errors import InvalidInputError, MissingWeightsError, WorkError
from anyrig.events import Event
from anyrig.work.live import LANES
from anyrig.work.protocol import NestedModel
from tests.waiting import wait_until

ODD = "tests.app.odd_document_worker:OddDocumentWorker"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    folders = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA")}
    return {**os.environ, "HOME": str(tmp_path), **folders}


@pytest.fixture
def rig(environment: dict[str, str]) -> Iterator[Rig]:
    with ModelCache() as models:
        yield Rig(environment=environment, models=models)


@pytest.fixture
def workers(rig: Rig) -> Iterator[DocumentWorkers]:
    with DocumentWorkers(rig, factory=ODD) as workers:
        yield workers
        rig.models.close()


@pytest.fixture
def context(rig: Rig) -> WorkerContext:
    """As a worker process has it."""
    return WorkerContext(rig, {"device": "cpu", "no_bench": True, "private": True})


# -- tasks -----------------------------------------------------------------------------------------


def test_a_task_answers_and_its_error_keeps_its_class(workers: DocumentWorkers) -> None:
    assert workers.submit("ready", {}).result(timeout=60) == {"models": []}
    with pytest.raises(InvalidInputError, match="no index 'nothing'") as caught:
        workers.submit("index_delete", {"index": "nothing"}).result(timeout=60)
    assert caught.value.hint


def test_a_task_that_kills_its_process_fails_alone(workers: DocumentWorkers) -> None:
    before = workers.submit("ready", {})
    deadly = [workers.submit("die", {}) for _ in range(3)]
    after = [workers.submit("ready", {}) for _ in range(3)]
    assert before.result(timeout=60) == {"models": []}
    for one in deadly:
        with pytest.raises(WorkError, match="its worker"):
            one.result(timeout=120)
    assert [one.result(timeout=120) for one in after] == [{"models": []}] * 3


def test_a_worker_that_is_killed_is_replaced_and_its_task_done(
    workers: DocumentWorkers, rig: Rig
) -> None:
    workers.submit("ready", {}).result(timeout=60)
    (loaded,) = rig.models.loaded_models()
    task = workers.submit("sleep", {"seconds": 1.0})
    os.kill(loaded.model.pool.pids[0], signal.SIGKILL)
    assert task.result(timeout=60) == "awake"


def test_quick_tasks_do_not_wait_for_long_ones(workers: DocumentWorkers) -> None:
    workers.submit("ready", {}).result(timeout=60)
    over = threading.Event()
    long = workers.submit("sleep", {"seconds": 5.0}, lane="bulk")
    long.add_done_callback(lambda _: over.set())
    assert workers.submit("ready", {}).result(timeout=60) == {"models": []}
    assert not over.is_set()


@pytest.fixture
def impatient(rig: Rig) -> Iterator[DocumentWorkers]:
    """Every task that has a step is a long one."""
    with DocumentWorkers(rig, factory=ODD, max_short_s=0.0) as workers:
        yield workers
        rig.models.close()


def count_begun(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_task_that_takes_long_leaves_its_worker_to_others(
    impatient: DocumentWorkers, rig: Rig, tmp_path: Path
) -> None:
    given = {"begun": str(tmp_path / "begun"), "go_on": str(tmp_path / "go on")}
    recording = {**given, "begun": str(tmp_path / "recorded")}
    long = impatient.submit("steps", given, lane="bulk", client="ann")
    waiting = impatient.submit("steps", given, lane="bulk", client="ann")
    transcription = impatient.submit("transcribe", recording, lane="bulk", client="ann")
    wait_until(
        lambda: count_begun(tmp_path / "begun") == 3 and count_begun(tmp_path / "recorded") == 2
    )
    assert impatient.submit("ready", {}, lane="bulk", client="bob").result(timeout=60)
    assert not any(one.done() for one in (long, waiting, transcription))
    assert [one.name for one in rig.models.loaded_models()] == [
        "documents, files", "documents, long tasks", "documents, transcriptions",
    ]  # fmt: skip
    (tmp_path / "go on").touch()
    assert [one.result(timeout=60) for one in (long, waiting, transcription)] == ["done"] * 3


def test_a_long_task_stops_when_nobody_waits(impatient: DocumentWorkers, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    given = {"begun": str(begun), "go_on": str(tmp_path / "go on")}
    long = impatient.submit("steps", given, lane="bulk")
    wait_until(lambda: count_begun(begun) == 2)
    assert long.cancel()
    following = impatient.submit("steps", given, lane="bulk")
    wait_until(lambda: count_begun(begun) == 4)
    (tmp_path / "go on").touch()
    assert following.result(timeout=60) == "done"


def test_clients_take_turns(workers: DocumentWorkers, tmp_path: Path) -> None:
    done: list[str] = []
    given = {"begun": str(tmp_path / "begun"), "go_on": str(tmp_path / "go on")}
    tasks = [workers.submit("steps", given, lane="bulk", client="busy")]
    wait_until(lambda: count_begun(tmp_path / "begun") == 1)
    for client in ("ann", "ann", "ann", "bob"):
        task = workers.submit("ready", {}, lane="bulk", client=client)
        task.add_done_callback(lambda _, client=client: done.append(client))  # type: ignore[misc]
        tasks.append(task)
    (tmp_path / "go on").touch()
    for task in tasks:
        task.result(timeout=60)
    wait_until(lambda: len(done) == 4)
    assert done == ["ann", "bob", "ann", "ann"]


def test_deletions_wait_for_nothing_and_nothing_for_them(
    workers: DocumentWorkers, rig: Rig
) -> None:
    def delete() -> None:
        for task in ("index_delete", "index_remove"):
            with pytest.raises(InvalidInputError, match="no index 'nothing'"):
                workers.submit(task, {"index": "nothing", "files": []}).result(timeout=60)

    delete()  # its worker exists from now on
    for lane in LANES:
        workers.submit("ready", {}, lane=lane).result(timeout=60)
    tasks = [workers.submit("sleep", {"seconds": 5.0}, lane=lane) for lane in LANES]
    delete()
    assert not any(task.done() for task in tasks)
    assert "documents, deletions" in [one.name for one in rig.models.loaded_models()]


def test_waiting_tasks_can_be_cancelled_and_the_worker_is_returned(
    workers: DocumentWorkers, rig: Rig
) -> None:
    workers.submit("ready", {}).result(timeout=60)
    first = workers.submit("sleep", {"seconds": 0.5})
    others = [workers.submit("sleep", {"seconds": 60.0}) for _ in range(4)]
    assert all(one.cancel() for one in others[1:])
    assert first.result(timeout=60) == "awake"
    assert others[0].cancel()
    assert rig.models.loaded_models()[0].num_borrowers <= 1  # the one that had begun, if it had


def test_a_task_that_has_begun_stops_when_nobody_waits(
    workers: DocumentWorkers, tmp_path: Path
) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    task = workers.submit("endless", {"begun": str(begun), "ended": str(ended)}, lane="bulk")
    wait_until(begun.exists)
    assert list(workers._folder.iterdir())
    assert task.cancel()
    wait_until(ended.exists)
    assert workers.submit("ready", {}, lane="bulk").result(timeout=60) == {"models": []}
    wait_until(lambda: not list(workers._folder.iterdir()))


def test_a_transcription_stops_when_nobody_waits(context: WorkerContext, tmp_path: Path) -> None:
    if find_spec("faster_whisper") is None:
        pytest.skip("faster-whisper is not installed")
    sound = tmp_path / "tone.wav"
    soundfile.write(sound, 0.3 * np.sin(np.arange(16000 * 4) / 9), 16000)
    given = {"files": [str(sound)], "names": ["tone.wav"], "language": "en"}
    context.waiting_file = str(tmp_path / "gone")
    with pytest.raises(WorkError, match="disconnected"):
        TASKS["transcribe"](context, given)
    context.waiting_file = ""  # the next one uses the same model
    assert TASKS["transcribe"](context, given)["duration"] == pytest.approx(4.0, abs=0.1)
    names = [one.name for one in context.rig.models.loaded_models()]
    assert names == ["transcription whisper-base en"]


@pytest.mark.parametrize("task", ["entities", "summarise", "analyse", "passages"])
def test_a_long_text_stops_when_nobody_waits(
    context: WorkerContext, tmp_path: Path, task: str
) -> None:
    """In its midst, and not only when it is done."""
    file = tmp_path / "long.txt"
    file.write_text("The sea is calm, and Dr. Lee paid $3.50 on 3 May 2021.\n\n" * 3000)
    extra: dict[str, Any] = {"entities": {"engine": "grammar"}, "analyse": {"no_vectors": True}}
    given = {"files": [str(file)], **extra.get(task, {})}
    checks = count(1)
    stop_after = 0

    def check(event: Event | None = None) -> None:
        if next(checks) == stop_after:
            raise TaskTooLong

    context.check = check  # type: ignore[method-assign]
    TASKS[task](context, given)
    num_checks = next(checks) - 1
    assert num_checks >= 5
    checks, stop_after = count(1), num_checks // 2
    with pytest.raises(TaskTooLong):
        TASKS[task](context, given)
    assert next(checks) == num_checks // 2 + 1


def test_a_bug_is_an_error_without_the_clients_text(
    workers: DocumentWorkers, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(WorkError, match="KeyError") as caught:
        workers.submit("slip", {}).result(timeout=60)
    assert "secret" not in caught.value.message + caplog.text
    assert "document_worker.py" in caplog.text


def test_texts_may_have_null_characters(context: WorkerContext) -> None:
    given = {"texts": ["paid\0 12 euros on 4 May 2026"], "engine": "grammar", "kinds": ["money"]}
    ((row,),) = [one["result"]["entities"] for one in TASKS["entities"](context, given)]
    assert (row["text"], row["start"]) == ("12 euros", 6)


# -- models ----------------------------------------------------------------------------------------


def test_models_stay_loaded_from_one_task_to_the_next(context: WorkerContext) -> None:
    given = {"texts": ["A cake of eggs."], "labels": ["food", "home"], "model": "hashing"}
    first = TASKS["classify"](context, given)
    names = [one.name for one in context.rig.models.loaded_models()]
    assert "embeddings hashing" in names
    assert TASKS["classify"](context, given) == first
    assert context.rig.models.stats.loads == len(names)


def list_nested(rig: Rig) -> list[NestedModel]:
    return [
        nested
        for one in rig.models.loaded_models()
        for worker in one.model.workers()
        for nested in worker.nested_models
    ]


def test_models_with_processes_are_seen_and_unloaded_one_by_one(
    workers: DocumentWorkers, rig: Rig
) -> None:
    for name in ("older", "newer"):
        given = {"name": name, "device": "gpu-7"}
        workers.submit("borrow", given, lane="bulk").result(timeout=60)
    wait_until(lambda: [one.name for one in list_nested(rig)] == ["older", "newer"])
    wait_until(lambda: all(one.num_items == 2 for one in list_nested(rig)))
    seen = {one.name: one.workers[0] for one in list_nested(rig)}
    assert {one.device for one in seen.values()} == {"gpu-7"}
    assert seen["older"].models == ("fake",)
    task = workers.submit("sleep", {"seconds": 3.0}, lane="bulk")
    assert rig.models.free_memory(("gpu-8",)) == ""
    assert rig.models.free_memory(("gpu-7",)) == "documents, files: older"
    assert not task.done()  # it was unloaded while a task ran
    wait_until(lambda: not psutil.pid_exists(seen["older"].pid))
    assert psutil.pid_exists(seen["newer"].pid)
    assert task.result(timeout=60) == "awake"


def test_a_model_that_the_current_task_uses_is_not_unloaded(
    workers: DocumentWorkers, rig: Rig
) -> None:
    given = {"name": "busy", "device": "gpu-7", "seconds": 6.0}
    task = workers.submit("borrow", given, lane="bulk")
    wait_until(lambda: any(one.busy for one in list_nested(rig)))
    (nested,) = list_nested(rig)
    assert rig.models.free_memory(("gpu-7",)) == ""
    queue: Any = rig.models.loaded_models()[0].model
    queue.unload_model("busy")
    assert task.result(timeout=60) == ["busy"]
    assert psutil.pid_exists(nested.workers[0].pid)
    wait_until(lambda: not list_nested(rig)[0].busy)
    assert rig.models.free_memory(("gpu-7",)) == "documents, files: busy"


# -- what a client may do --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["/etc", "../..", "~", "owner/../name", "minilm/../..", "\x00", "a" * 300, ".", "x/y/z"]
)
def test_only_known_models_may_be_named(rig: Rig, name: str) -> None:
    with pytest.raises((InvalidInputError, MissingWeightsError)):
        resolve_document_model(rig, name)


def test_folders_below_those_of_the_settings_may_be_named(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "models" / "out").symlink_to(tmp_path / "other")
    rig = Rig(environment={**environment, "ANYRIG_SERVER_MODELS": str(tmp_path / "models")})
    assert Path(resolve_document_model(rig, "mine")) == (tmp_path / "models" / "mine").resolve()
    for name in ("out", "../other", str(tmp_path / "other"), "mine\x00", ""):
        with pytest.raises(InvalidInputError) if name else nullcontext():
            resolve_document_model(rig, name)


def test_a_folder_is_not_taken_for_a_classifier(context: WorkerContext, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    for name in (str(tmp_path / "model"), "owner/name", "../model"):
        with pytest.raises(InvalidInputError, match="classifier"):
            TASKS["classify"](context, {"texts": ["a"], "classifier": name})


def test_pages_above_the_limit_are_reported_as_not_read() -> None:
    class Reader:
        def read(self, pictures: Any) -> Iterator[ReadPicture]:
            yield from (ReadPicture(one.decode()) for one in pictures)

    reader = LimitedReader(Reader, FileOptions(max_ocr_pages=2))
    found = list(reader.read([b"a", b"b", b"c"]))
    assert [one.text for one in found] == ["a", "b", ""]
    assert "2 pages" in found[2].failure
    assert [one.failure != "" for one in reader.read([b"d"])] == [True]
    late = LimitedReader(Reader, FileOptions(max_ocr_seconds=1e-9))
    assert [one.failure != "" for one in late.read([b"a"])] == [True]


def test_nothing_of_a_client_is_measured_or_cached(rig: Rig) -> None:
    with DocumentWorkers(rig, ComputeOptions(precision="fp32")) as workers:
        factory = workers._build_factory("live")
    options = pickle.loads(pickle.dumps(factory)).options
    placement: Any = None
    worker = DocumentWorker(placement, **options)
    request = worker.context.request(FileOptions, {"ocr": "always"})
    assert (request.private, request.no_bench, request.device) == (True, True, "cpu")
    assert (request.precision, request.ocr, request.max_ocr_pages) == ("fp32", "always", 200)
