"""Clerks: tasks in other processes, their errors, deaths, and what stays open between tasks."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import soundfile

from anyrig.app.models import ModelCache, list_workers
from anyrig.cli import clerk, clerk_models
from anyrig.cli.context import Context
from anyrig.cli.serve_clerks import HiredClerks
from anyrig.errors import (
    InvalidInputError,
    MissingWeightsError,
    WorkError,
)
from anyrig.work.live import LANES
from anyrig.work.protocol import NestedModel

DEADLY = "tests.cli.deadly_clerk:DeadlyClerk"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "c"),
                   "XDG_CONFIG_HOME": str(tmp_path / "s")}  # fmt: skip
    return Context(argparse.Namespace(verbose=0, no_bench=True), environment)


@pytest.fixture
def hired(context: Context) -> Iterator[HiredClerks]:
    cache = ModelCache()
    with ExitStack() as stack:
        yield HiredClerks(context, cache, stack, DEADLY)
        cache.close()


def test_every_task_is_there() -> None:
    for name, place in clerk.TASKS.items():
        assert callable(clerk.task(name)), place
    with pytest.raises(InvalidInputError, match="no task 'cook'"):
        clerk.task("cook")


def test_a_task_answers_and_its_errors_are_what_they_were(hired: HiredClerks) -> None:
    assert hired.submit("ready", {}).result(timeout=60) == {"kept": []}
    with pytest.raises(InvalidInputError, match="no index 'nothing'") as caught:
        hired.submit("index_delete", {"index": "nothing"}).result(timeout=60)
    assert caught.value.hint


def test_a_task_that_kills_its_process_fails_alone(hired: HiredClerks) -> None:
    before = hired.submit("ready", {})
    deadly = [hired.submit("die", {}) for _ in range(3)]
    after = [hired.submit("ready", {}) for _ in range(3)]
    assert before.result(timeout=60) == {"kept": []}
    for one in deadly:
        with pytest.raises(WorkError, match="its worker"):
            one.result(timeout=120)
    assert [one.result(timeout=120) for one in after] == [{"kept": []}] * 3


def test_a_clerk_that_is_killed_is_replaced_and_its_task_done(hired: HiredClerks) -> None:
    hired.submit("ready", {}).result(timeout=60)
    (kept,) = hired._models.loaded_models()
    before: Any = kept.model
    nap = hired.submit("nap", {"seconds": 1.0})
    os.kill(before.pool.pids[0], signal.SIGKILL)
    assert nap.result(timeout=60) == "awake"


def test_quick_tasks_do_not_wait_for_long_ones(hired: HiredClerks) -> None:
    hired.submit("ready", {}).result(timeout=60)
    over = threading.Event()
    long = hired.submit("nap", {"seconds": 5.0}, lane="bulk")
    long.add_done_callback(lambda _: over.set())
    assert hired.submit("ready", {}).result(timeout=60) == {"kept": []}
    assert not over.is_set()


def test_what_deletes_waits_for_nobody_and_nobody_for_it(hired: HiredClerks) -> None:
    def deleted() -> None:
        for task in ("index_delete", "index_remove"):
            with pytest.raises(InvalidInputError, match="no index 'nothing'"):
                hired.submit(task, {"index": "nothing", "files": []}).result(timeout=60)

    deleted()  # its clerk is there from now on
    for lane in LANES:
        hired.submit("ready", {}, lane=lane).result(timeout=60)
    naps = [hired.submit("nap", {"seconds": 5.0}, lane=lane) for lane in LANES]
    deleted()
    assert not any(nap.done() for nap in naps)
    assert "documents, deletions" in [one.name for one in hired._models.loaded_models()]


def test_what_waits_can_be_cancelled_and_the_clerk_is_given_back(hired: HiredClerks) -> None:
    hired.submit("ready", {}).result(timeout=60)
    first = hired.submit("nap", {"seconds": 0.5})
    others = [hired.submit("nap", {"seconds": 60.0}) for _ in range(4)]
    assert all(one.cancel() for one in others[1:])
    assert first.result(timeout=60) == "awake"
    assert others[0].cancel()
    assert hired._models.loaded_models()[0].num_borrowers <= 1  # the nap that had begun, if it had


def test_a_long_task_that_has_begun_ends_when_nobody_waits(
    hired: HiredClerks, tmp_path: Path
) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    dream = hired.submit("dream", {"begun": str(begun), "ended": str(ended)}, lane="bulk")
    until(begun.exists)
    assert list(hired._leashes.iterdir())
    assert dream.cancel()
    until(ended.exists)
    assert hired.submit("ready", {}, lane="bulk").result(timeout=60) == {"kept": []}
    until(lambda: not list(hired._leashes.iterdir()))


def test_nobody_waits_for_a_recording_any_more(context: Context, tmp_path: Path) -> None:
    if find_spec("moonshine_voice") is None:
        pytest.skip("moonshine-voice is not installed: nobody hears English")
    sound = tmp_path / "tone.wav"
    soundfile.write(sound, 0.3 * np.sin(np.arange(16000 * 4) / 9), 16000)
    asked = {"file": str(sound), "name": "tone.wav", "language": "en"}
    flags = {**clerk._OPTIONS, "device": None, "strict": False, "verbose": 0}
    own = Context(argparse.Namespace(**flags), context.environment)
    room = clerk.ClerkRoom(own, bulk=True)
    try:
        room.leash = str(tmp_path / "gone")
        with pytest.raises(WorkError, match="nobody waits"):
            clerk.task("transcribe")(room, asked)
        room.leash = ""  # the next one is heard by the same
        assert clerk.task("transcribe")(room, asked)["duration"] == pytest.approx(4.0, abs=0.1)
        assert room.kept == ["transcription by language en"]
    finally:
        for name in room.kept:
            room.let_go(name)


def until(right: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not right():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_slip_of_ours_is_an_error_without_anybodys_text(
    hired: HiredClerks, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(WorkError, match="KeyError") as caught:
        hired.submit("slip", {}).result(timeout=60)
    assert "secret" not in caught.value.message + caplog.text
    assert "clerk_search.py" in caplog.text


def test_what_was_not_used_for_longest_goes_first(context: Context) -> None:
    closed: list[str] = []

    def thing(name: str) -> AbstractContextManager[str]:
        @contextmanager
        def opened() -> Iterator[str]:
            yield name
            closed.append(name)

        return opened()

    room = clerk.ClerkRoom(context, bulk=False, most_kept=2)
    for name in ("a", "b", "a", "c"):
        assert room.keep(name, lambda name=name: thing(name)) == name  # type: ignore[misc]
    assert closed == []  # a task may still use them all
    room.tidy()
    assert (closed, room.kept) == (["b"], ["a", "c"])
    room.let_go("a")
    room.let_go("nothing")
    assert (closed, room.kept) == (["b", "a"], ["c"])


def test_what_costs_nothing_takes_no_place_of_a_model_that_runs(context: Context) -> None:
    class Runs:
        def pools(self) -> tuple[object, ...]:
            return (self,)

    room = clerk.ClerkRoom(context, bulk=False, most_kept=2)
    room.keep("model", lambda: nullcontext(Runs()))
    for number in range(4):
        room.keep(f"plan {number}", lambda: nullcontext("a plan"))
        room.tidy()
    assert room.kept == ["model", "plan 2", "plan 3"]
    for number in range(2):
        room.keep(f"other {number}", lambda: nullcontext(Runs()))
    room.tidy()
    assert room.kept == ["plan 2", "plan 3", "other 0", "other 1"]


def test_what_no_task_had_for_long_goes_when_another_ends(context: Context) -> None:
    now = 100.0
    room = clerk.ClerkRoom(context, bulk=False, idle_s=10.0, clock=lambda: now)
    for name in ("a", "b"):
        room.keep(name, lambda: nullcontext("thing"))
    now = 300.0  # a long task, which had both
    room.tidy()
    assert room.kept == ["a", "b"]
    now = 309.0
    room.keep("b", lambda: nullcontext("thing"))
    room.tidy()
    now = 311.0
    room.tidy()
    assert room.kept == ["b"]


def test_models_in_processes_of_their_own_are_seen_and_let_go_one_by_one(
    hired: HiredClerks,
) -> None:
    cache = hired._models
    for name in ("older", "newer"):
        asked = {"names": [name], "device": "gpu-7"}
        hired.submit("borrow", asked, lane="bulk").result(timeout=60)
    until(lambda: [one.name for one in _held(cache)] == ["older", "newer"])
    until(lambda: all(one.num_items == 2 for one in _held(cache)))
    seen = {one.name: one.workers[0] for one in _held(cache)}
    assert {one.device for one in seen.values()} == {"gpu-7"}
    assert seen["older"].models == ("fake",)
    nap = hired.submit("nap", {"seconds": 3.0}, lane="bulk")
    assert cache.free_memory(("gpu-8",)) == ""
    assert cache.free_memory(("gpu-7",)) == "documents, long tasks: older"
    assert not nap.done()  # it went while a task was at work
    until(lambda: not psutil.pid_exists(seen["older"].pid))
    assert psutil.pid_exists(seen["newer"].pid)
    assert nap.result(timeout=60) == "awake"


def test_a_model_that_the_task_at_hand_has_is_not_let_go(hired: HiredClerks) -> None:
    cache = hired._models
    asked = {"names": ["busy"], "device": "gpu-7", "seconds": 6.0}
    work = hired.submit("borrow", asked, lane="bulk")
    until(lambda: any(one.busy for one in _held(cache)))
    (held,) = _held(cache)
    assert cache.free_memory(("gpu-7",)) == ""
    live: Any = cache.loaded_models()[0].model
    live.unload_model("busy")
    assert work.result(timeout=60) == ["busy"]
    assert psutil.pid_exists(held.workers[0].pid)
    until(lambda: not _held(cache)[0].busy)
    assert cache.free_memory(("gpu-7",)) == "documents, long tasks: busy"


def _held(cache: ModelCache) -> list[NestedModel]:
    return [
        held for one in cache.loaded_models()
        for worker in list_workers(one.model) for held in worker.nested_models
    ]  # fmt: skip


def test_a_model_that_cannot_be_opened_leaves_nothing_open(context: Context) -> None:
    room = clerk.ClerkRoom(context, bulk=False)

    def broken() -> AbstractContextManager[str]:
        raise InvalidInputError("no", hint="no")

    with pytest.raises(InvalidInputError):
        room.keep("a", broken)
    assert room.kept == []
    assert room.keep("a", lambda: nullcontext("now")) == "now"


@pytest.mark.parametrize(
    "word", ["/etc", "../..", "~", "owner/../name", "minilm/../..", "\x00", "a" * 300, ".", "x/y/z"]
)
def test_only_models_of_the_list_may_be_named(context: Context, word: str) -> None:
    with pytest.raises((InvalidInputError, MissingWeightsError)):
        clerk_models.allowed(context, word)


def test_folders_below_those_of_the_settings_may_be_named(tmp_path: Path, context: Context) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "models" / "out").symlink_to(tmp_path / "other")
    models = {**context.environment, "ANYRIG_SERVER_MODELS": str(tmp_path / "models")}
    context = Context(context.options, models)
    found = clerk_models.allowed(context, "mine")
    assert Path(found) == (tmp_path / "models" / "mine").resolve()
    for word in ("out", "../other", str(tmp_path / "other"), "mine\x00", ""):
        with pytest.raises(InvalidInputError) if word else nullcontext():
            clerk_models.allowed(context, word)


def test_more_pictures_than_one_request_reads_are_pages_that_say_so() -> None:
    from anyrig.documents.reading import ReadPicture

    class Reader:
        def read(self, pictures: Any) -> Iterator[ReadPicture]:
            yield from (ReadPicture(one.decode()) for one in pictures)

    bounded = clerk_models.Bounded(Reader(), most=2)
    found = list(bounded.read([b"a", b"b", b"c"]))
    assert [one.text for one in found] == ["a", "b", ""]
    assert "2 pictures" in found[2].failure
    assert [one.failure != "" for one in bounded.read([b"d"])] == [True]
    late = clerk_models.Bounded(Reader(), seconds=0.0)
    assert [one.failure != "" for one in late.read([b"a"])] == [True]


def test_the_recipe_says_nothing_that_cannot_travel(context: Context) -> None:
    import pickle

    context.options.strange = lambda: None
    made = clerk.recipe(context, bulk=True)
    assert "strange" not in pickle.loads(pickle.dumps(made)).options["options"]
    assert made.options["bulk"] is True
