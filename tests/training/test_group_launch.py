"""Launches: words for what failed, new starts, and nobody left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anyrig.errors import InvalidSettingError, WorkError
from anyrig.training.distributed.joining import place_of, strategy_named
from anyrig.training.distributed.launch import first_failure, launch
from anyrig.training.distributed.restarting import START_AGAIN, ask_smaller, asked_micro_batch

SCRIPT = str(Path(__file__).parent / "ranks" / "launched.py")


def _launch(what: str, folder: Path, **options: object) -> int:
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = launch([SCRIPT, what, str(folder)], 2, environment=environment, cores=5, **options)  # type: ignore[arg-type]
    return done.num_restarts


def test_a_process_that_cannot_go_on_has_all_started_again_with_less(tmp_path: Path) -> None:
    told: list[str] = []
    assert _launch("restart", tmp_path, tell=told.append) == 1
    assert told == ["process 1 cannot go on: all start again with a smaller micro batch"]
    assert (tmp_path / "done0").read_text() == (tmp_path / "done1").read_text() == "4 2 10"


@pytest.mark.parametrize(
    ("what", "said"),
    [("error", "ValueError: the data is not there"), ("killed", "killed by SIGKILL")],
)
def test_the_process_that_failed_first_is_named_with_its_words(
    what: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(WorkError, match=rf"process 1 of 2 failed: .*{said}") as caught:
        _launch(what, tmp_path)
    assert caught.value.hint


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_its_launcher(by: signal.Signals, tmp_path: Path) -> None:
    source = (
        "import os, sys\nfrom anyrig.training.distributed.launch import launch\n"
        "launch(sys.argv[1:], 2, environment=os.environ)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", source, SCRIPT, "wait", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)}, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        _until(lambda: all((tmp_path / f"ready{rank}").exists() for rank in range(2)))
        parent.send_signal(by)
        parent.wait(30)
    finally:
        parent.kill()
        parent.communicate()
    pids = [int((tmp_path / f"pid{rank}").read_text()) for rank in range(2)]
    _until(lambda: not any(map(_lives, pids)))
    kept = all((tmp_path / f"kept{rank}").exists() for rank in range(2))
    assert kept == (by == signal.SIGINT)


def _until(holds: Callable[[], bool]) -> None:
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to be within a minute")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_who_only_saw_another_end_did_not_fail_first(tmp_path: Path) -> None:
    def report(rank: int, kind: str, time: float, code: int = 1) -> None:
        told = {"rank": rank, "code": code, "kind": kind, "message": kind, "hint": "", "time": time}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(told))

    report(0, "PeerLostError", 1.0)
    (tmp_path / "agent.json").write_text(json.dumps({"0": 1, "1": -signal.SIGTERM, "2": -9}))
    assert first_failure(tmp_path, 1)[:2] == (2, -9)
    report(1, "ValueError", 3.0)
    assert first_failure(tmp_path, 1).message == "ValueError"
    report(3, "OSError", 2.0)
    assert first_failure(tmp_path, 1).message == "OSError"
    report(4, "SystemExit", 4.0, START_AGAIN)
    assert first_failure(tmp_path, 1).code == START_AGAIN


def test_data_parallel_is_a_word_that_explains_why_not() -> None:
    for word in ("dp", "DataParallel"):
        with pytest.raises(
            InvalidSettingError, match="one Python process drives all devices"
        ) as caught:
            strategy_named(word)
        assert "ddp" in caught.value.hint
    assert strategy_named("FSDP") == "fsdp"
    with pytest.raises(InvalidSettingError, match="no strategy is called 'zero'"):
        strategy_named("zero")


def test_a_place_is_what_the_launcher_told() -> None:
    assert place_of({}).size == 1
    told = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_PORT": "29500"}
    assert place_of(told)[:3] == (3, 4, 1)
    with pytest.raises(InvalidSettingError, match="WORLD_SIZE is set but RANK is not"):
        place_of({"WORLD_SIZE": "2"})
    with pytest.raises(InvalidSettingError, match="RANK is 4 of 4"):
        place_of({**told, "RANK": "4"})


def test_the_smallest_request_holds_and_a_broken_one_is_none(tmp_path: Path) -> None:
    assert asked_micro_batch(tmp_path) is None
    ask_smaller(tmp_path, 4)
    ask_smaller(tmp_path, 8)
    assert asked_micro_batch(tmp_path) == 4
    (tmp_path / "smaller.json").write_text('{"micro_batch": "many"')
    assert asked_micro_batch(tmp_path) is None
