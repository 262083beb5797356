"""Jobs: what is stored of one, the request it becomes, and the process that runs it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from anyrig import Rig
from anyrig.app.batch import BatchRequest
from anyrig.app.books import BookRequest
from anyrig.app.jobs import JOB_KINDS, build_arguments, build_request, make_job_handler
from anyrig.backends.process import kill_process_group, start_module
from anyrig.errors import InvalidInputError, InvalidOptionError, MissingPackageError
from anyrig.jobs import Job, JobKilledError, JobStopped, ReportEvent, StopSignal
from anyrig.options import json_schema, list_options
from anyrig.storage.keys import JsonValue

LINES = "It was ten past nine.\nThe tide came in at noon.\n"
TONE: dict[str, Any] = {"engine": "tone", "device": "cpu", "no_bench": True}


@pytest.fixture(autouse=True)
def lines() -> Path:
    path = Path("-li nes.txt")
    path.write_text(LINES, encoding="utf-8")
    return path.absolute()


def ignore(kind: str, data: Mapping[str, JsonValue]) -> None:
    pass


def build_job(**options: Any) -> Job:
    given = {"file": "-li nes.txt", "output": "out", **TONE, **options}
    return Job("x", "batch", build_arguments("batch", given, Path.cwd()), "running", 0.0)


# -- what is stored --------------------------------------------------------------------------------


def test_a_job_stores_what_was_given_as_json_with_absolute_paths(lines: Path) -> None:
    given: dict[str, Any] = {
        "file": "-li nes.txt", "output": Path("out/b.m4b"), "title": "--list", "author": "=a b",
        "chapters": "3-7,9", "again": ("3:17", "4:2"), "captions": ["srt", "vtt"], "fresh": True,
        "read_along": False, "rate": 1, "seed": 7, "loudness": -20, "narrator": None,
        "set": {"sleep_s": 0.01}, "notes": "inline", "memory_gb": 2,
    }  # fmt: skip
    stored = build_arguments("book", given, Path.cwd())
    assert json.loads(json.dumps(stored)) == stored
    assert stored["file"] == str(lines)
    assert stored["output"] == str(Path("out/b.m4b").absolute())
    assert stored["folder"] == str(Path.cwd())
    assert stored["rate"] == 1.0  # given, though it is the default: a setting must not replace it
    assert "narrator" not in stored
    assert "device" not in stored
    request = build_request(Rig(), "book", stored)
    assert request == BookRequest(**{
        **given, "file": lines, "output": Path("out/b.m4b").absolute(), "narrator": ""
    })  # fmt: skip


def test_rows_of_0_1_0_become_requests() -> None:
    """Names and values as its command line and its server wrote them."""
    folder = str(Path.cwd())
    book = build_request(Rig(), "book", {
        "folder": folder, "file": "/b/a.epub", "output": "/b/a.m4b", "chapters": "1,2",
        "captions": ["srt"], "bitrate": "96k", "set": {"sleep_s": "0.02"}, "config": "/b/a.toml",
        "asked": {"file": "upload:1"}, "called": "a.epub", "uses": ["1"], "format": "",
    })  # fmt: skip
    assert isinstance(book, BookRequest)
    assert (book.file, book.output, book.bitrate) == (Path("/b/a.epub"), Path("/b/a.m4b"), 96000)
    assert build_request(Rig(), "transcribe", {
        "folder": folder, "file": "/b/a.wav", "output": "/b/a.srt", "format": ["srt", "txt"],
    }) == build_request(Rig(), "transcribe", {
        "folder": folder, "files": ["/b/a.wav"], "output": "/b/a.srt", "format": ["srt", "txt"],
    })  # fmt: skip
    index: Any = build_request(Rig(), "index", {"folder": folder, "file": "/a", "index": "n"})
    assert index.folders == (Path("/a"),)
    index = build_request(Rig(), "index", {"folder": folder, "file": "/a", "files": ["/a", "/b"]})
    assert index.folders == (Path("/a"), Path("/b"))
    train: Any = build_request(Rig(), "train", {
        "folder": folder, "file": "/t.toml", "run": "/runs/t", "set": {"train.batch": "8"},
        "nproc": "2",
    })  # fmt: skip
    assert (train.run, train.nproc, train.set) == (Path("/runs/t"), "2", {"train.batch": "8"})


def test_settings_fill_what_was_not_given_when_the_job_runs(lines: Path) -> None:
    stored = build_arguments("batch", {"file": lines, "rate": 1.0}, Path.cwd())
    Path("anyrig.toml").write_text("[speech]\nrate = 1.5\nloudness = -23.0\n", encoding="utf-8")
    request = build_request(Rig(), "batch", stored, {"loudness": -16.0, "quick": True})
    assert isinstance(request, BatchRequest)
    assert (request.rate, request.loudness) == (1.0, -16.0)
    request = build_request(Rig(), "batch", stored)
    assert isinstance(request, BatchRequest)
    assert request.loudness == -23.0


def test_defaults_do_not_contradict_what_was_given(lines: Path) -> None:
    stored = build_arguments("batch", {"file": lines, "memory_gb": 2}, Path.cwd())
    request: Any = build_request(Rig(), "batch", stored, {"memory_fraction": 0.5})
    assert (request.memory_gb, request.memory_fraction) == (2, None)


def test_a_training_run_gets_a_folder_that_another_attempt_continues() -> None:
    Path("t.toml").write_text("[task]\n")
    run = str(build_arguments("train", {"file": "t.toml"}, Path.cwd())["run"])
    assert Path(run).parent == Path("runs").absolute()
    assert Path(run).name.startswith("t-")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"titel": "x"}, "'titel'"),
        ({"verify": True}, "'verify'"),
        ({"folder": "/etc"}, "'folder'"),
        ({"title": "a\0b"}, "`title`"),
        ({"rate": True}, "`rate`"),
        ({"set": {"a": [1]}}, "`set`"),
        ({"file": "nothing.epub"}, "no such file"),
    ],
)
def test_invalid_options_are_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        build_arguments("book", {"file": "-li nes.txt", **change}, Path.cwd())
    assert message in str(caught.value)


def test_a_brokers_password_is_not_stored(lines: Path) -> None:
    with pytest.raises(InvalidInputError, match="password"):
        Rig().jobs.submit("batch", file=lines, cluster="redis://:secret@host:6379/0")
    assert Rig().jobs.list() == ()


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_nothing_that_a_job_of_a_client_could_write_elsewhere_is_in_its_schema(kind: str) -> None:
    schema = json_schema(JOB_KINDS[kind].request, http=True)["properties"]
    never = {"output", "run", "export", "again", "untitled", "fetch", "no_save", "only", "cluster"}
    assert not never & set(schema)
    inputs = {"file", "files", "folders", "model", "lexicon", "cast", "cover"}
    options = list_options(JOB_KINDS[kind].request)
    assert {name for name in schema if options[name].kind is Path} <= inputs


# -- running ---------------------------------------------------------------------------------------


def test_a_job_is_submitted_run_and_deleted_from_python(lines: Path) -> None:
    jobs = Rig().jobs
    job = jobs.submit("batch", file=lines, output="out", **TONE)
    jobs.run()
    done = jobs.find(job.id[:5])
    assert (done.state, done.error) == ("done", None)
    assert isinstance(done.result, Mapping)
    assert [done.result[name] for name in ("made", "failed", "warnings")] == [2, [], []]
    assert sorted(path.name for path in Path("out").glob("*.wav")) == ["0001.wav", "0002.wav"]
    kinds = [event.kind for event in jobs.follow(job.id)]
    assert kinds[:2] == ["state", "state"]
    assert "progress" in kinds
    assert done.progress is not None
    assert done.progress["done"] == 1.0
    jobs.delete(job.id)
    assert jobs.list() == ()


def test_an_error_crosses_the_process_as_it_was_raised() -> None:
    handler = make_job_handler(os.environ)
    with pytest.raises(InvalidInputError, match="unknown engine 'nope'") as caught:
        handler(build_job(engine="nope"), ignore, StopSignal())
    assert "tone" in caught.value.hint
    job = build_job()
    wrong = Job("x", "batch", {**job.arguments, "rate": 99}, "running", 0.0)
    with pytest.raises(InvalidOptionError) as refused:
        handler(wrong, ignore, StopSignal())
    assert refused.value.option == "rate"


def test_a_missing_package_is_reported_with_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['soundfile'] = None\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with pytest.raises(MissingPackageError, match="soundfile"):
        make_job_handler(environment)(build_job(format="flac"), ignore, StopSignal())


def test_a_folder_that_is_gone_is_reported(tmp_path: Path) -> None:
    job = Job("x", "batch", {**build_job().arguments, "folder": str(tmp_path / "no")}, "running", 0)
    with pytest.raises(InvalidInputError, match="does not exist any more"):
        make_job_handler(os.environ)(job, ignore, StopSignal())


def kill_job_processes(*_: object) -> None:
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    for pid in " ".join(path.read_text() for path in children).split():
        if b"job_process" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(int(pid), 9)


def test_a_process_that_dies_is_an_error_that_says_how() -> None:
    with pytest.raises(JobKilledError, match="killed by signal 9"):
        make_job_handler(os.environ)(
            build_job(set={"sleep_s": 0.1}), kill_job_processes, StopSignal()
        )


@pytest.mark.parametrize("kills", [1, 2])
def test_a_job_whose_process_is_killed_is_tried_again_once(lines: Path, kills: int) -> None:
    jobs, handle = Rig().jobs, make_job_handler(os.environ)
    attempts = 0

    def handle_and_kill(job: Job, report: ReportEvent, stop: StopSignal) -> JsonValue:
        nonlocal attempts
        attempts += 1
        return handle(job, kill_job_processes if attempts <= kills else report, stop)

    id = jobs.submit("batch", file=lines, output="out", set={"sleep_s": 0.1}, **TONE).id
    jobs.run(handle_and_kill)
    job = jobs.find(id)
    assert (job.state, job.attempts) == ("done" if kills == 1 else "failed", 2)
    warnings = [event.data["text"] for event in jobs.follow(id) if event.kind == "log"]
    assert any("killed by signal 9; the job is tried again once" in str(one) for one in warnings)
    if kills == 2:
        assert job.error is not None
        assert "out of memory" in job.error.hint
        jobs.resume(id)
        jobs.run(handle)
        assert jobs.find(id).state == "done"
    assert len(list(Path("out").glob("*.wav"))) == 2


@pytest.mark.parametrize("end", [StopSignal.set, lambda stop: stop.extend_lease(time.monotonic())])
def test_a_running_job_stops(end: Callable[[StopSignal], None]) -> None:
    """When it is told to, and when another process may have taken it."""
    stop, told = StopSignal(), threading.Event()

    def report(kind: str, data: Mapping[str, JsonValue]) -> None:
        if data.get("stage") == "loading the voice" and not told.is_set():
            told.set()
            end(stop)

    with pytest.raises(JobStopped):
        make_job_handler(os.environ)(build_job(set={"sleep_s": 0.5}), report, stop)
    assert told.is_set()
    assert not list(Path("out").glob("*.wav*"))


@pytest.mark.parametrize("leases", [None, b"0.2\n", b"60\n0.2\n"])
def test_a_job_ends_with_its_lease_or_its_parent(leases: bytes | None) -> None:
    job = build_job(set={"sleep_s": 10})
    order = {"kind": "batch", "arguments": job.arguments}
    process = start_module("anyrig.app.job_process", os.environ)
    assert process.stdin is not None
    process.stdin.write(json.dumps(order).encode() + b"\n" + (leases or b""))
    process.stdin.flush()
    if leases is None:
        process.stdin.close()
    try:
        assert process.wait(60) != 0
    finally:
        kill_process_group(process)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def test_warnings_are_events_and_part_of_the_result(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder: nothing can be cached there")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}
    reported: list[tuple[str, Mapping[str, JsonValue]]] = []
    result = make_job_handler(environment)(
        build_job(), lambda kind, data: reported.append((kind, data)), StopSignal()
    )
    assert isinstance(result, Mapping)
    assert result["made"] == 2
    texts = [data["text"] for kind, data in reported if kind == "log"]
    assert texts
    assert result["warnings"] == texts
