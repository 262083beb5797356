"""Checkpoints of a run: which stay, which is taken, who may write, what a thread's failure does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from anyrig.errors import OverloadedError, StorageError
from anyrig.training.checkpoint import (
    TEMPORARY,
    Checkpointer,
    CheckpointInfo,
    TrainingState,
    select_checkpoints,
)
from anyrig.training.config import CheckpointConfig


def state(step: int, loss: float | None = None, value: float | None = None) -> TrainingState:
    filled = torch.full((10,), float(step if value is None else value))
    return TrainingState(step, weights={"w": filled}, optimizer={"m": filled + 1}, loss=loss)


def steps(checkpointer: Checkpointer) -> list[int]:
    return [kept.step for kept in checkpointer.all()]


# ---------------------------------------------------------------- which stay


def row(step: int, loss: float | None = None, serial: int | None = None) -> CheckpointInfo:
    number = step if serial is None else serial
    return CheckpointInfo(Path(f"step-{step:08d}-{number}"), step, 0, loss, number, {})


def left(rows: list[CheckpointInfo], keeping: CheckpointConfig) -> list[int]:
    stay = select_checkpoints(rows, keeping)
    return [kept.step for kept in rows if kept.path in stay]


TEN = [
    row(n, loss) for n, loss in zip(range(1, 11), [9, 2, 7, None, 2, 8, 9, 1, 9, 9], strict=True)
]


@pytest.mark.parametrize(
    ("checkpoints", "wanted"),
    [
        (CheckpointConfig(last=1, best=0), [10]),
        (CheckpointConfig(last=3, best=0), [8, 9, 10]),
        (CheckpointConfig(last=99, best=0), list(range(1, 11))),
        (CheckpointConfig(last=1, best=0, every_kept=4), [4, 8, 10]),
        (CheckpointConfig(last=1, best=1), [8, 10]),
        (CheckpointConfig(last=1, best=3), [2, 5, 8, 10]),
        (CheckpointConfig(last=2, best=2, every_kept=3), [3, 5, 6, 8, 9, 10]),
    ],
)
def test_rules(checkpoints: CheckpointConfig, wanted: list[int]) -> None:
    assert left(TEN, checkpoints) == wanted


def test_losses_that_are_no_numbers_are_never_best() -> None:
    rows = [row(1, float("nan")), row(2, 5.0), row(3, float("inf")), row(4, None)]
    assert left(rows, CheckpointConfig(last=1, best=1)) == [2, 4]


def test_the_later_of_two_with_one_step_stays() -> None:
    rows = [row(1, serial=1), row(2, serial=2), row(2, serial=3)]
    assert select_checkpoints(rows, CheckpointConfig(last=2, best=0)) == {
        rows[0].path,
        rows[2].path,
    }


def test_a_run_that_went_back_keeps_what_it_writes_now() -> None:
    rows = [row(100, serial=1), row(200, serial=2), row(110, serial=3)]
    assert left(rows, CheckpointConfig(last=1, best=0)) == [110]


def test_what_is_deleted_and_what_is_found(tmp_path: Path) -> None:
    losses = [5.0, 1.0, 4.0, None, 2.0, 3.0]
    with Checkpointer(
        tmp_path / "c", CheckpointConfig(last=2, every_kept=30, best=1)
    ) as checkpointer:
        for number, loss in enumerate(losses):
            checkpointer.save(state(number * 10, loss))
        checkpointer.wait()
        assert steps(checkpointer) == [0, 10, 30, 40, 50]
        assert checkpointer.latest() is not None
        assert checkpointer.latest().step == 50  # type: ignore[union-attr]
        assert checkpointer.best().step == 10  # type: ignore[union-attr]
        assert [one.step for one in checkpointer.take_reports()] == [0, 10, 20, 30, 40, 50]
        assert checkpointer.take_reports() == []
    assert not list((tmp_path / "c").glob(f"{TEMPORARY}*"))


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path / "none")
    assert (
        checkpointer.all(),
        checkpointer.latest(),
        checkpointer.best(),
        checkpointer.load(),
    ) == ([], None, None, None)
    checkpointer.close()
    assert not (tmp_path / "none").exists()


# ---------------------------------------------------------------- damage


def test_the_next_older_whole_one_is_taken(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, CheckpointConfig(last=4)) as checkpointer:
        for step in (1, 2, 3, 4):
            checkpointer.save(state(step))
        checkpointer.wait()
        data = bytearray((tmp_path / "step-00000004/weights.safetensors").read_bytes())
        data[-1] ^= 1
        (tmp_path / "step-00000004/weights.safetensors").write_bytes(data)
        (tmp_path / "step-00000003/optimiser.safetensors").write_bytes(b"")
        found = checkpointer.load()
        assert found is not None
        assert found.state.step == 2
        assert found.path.name == "step-00000002"
        assert any("step-00000004" in text for text in found.skipped)
        assert any("step-00000003" in text for text in found.skipped)
        with pytest.raises(StorageError, match="damaged"):
            checkpointer.load(tmp_path / "step-00000004")
        # The step that is there and damaged is written again, beside it.
        checkpointer.save(state(4), wait=True)
        again = checkpointer.load()
        assert again is not None
        assert (again.state.step, again.path.name) == (4, "step-00000004-2")


def test_none_whole_is_an_error_not_a_new_beginning(tmp_path: Path) -> None:
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(state(1), wait=True)
        shutil.rmtree(tmp_path / "step-00000001")
        (tmp_path / "step-00000001").mkdir()
        with pytest.raises(StorageError, match="no checkpoint .* is valid"):
            checkpointer.load()


def test_damaged_ones_do_not_count_among_the_last(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, CheckpointConfig(last=2, best=0)) as checkpointer:
        for step in (1, 2, 3):
            checkpointer.save(state(step), wait=True)
        (tmp_path / "step-00000003/manifest.json").unlink()
        checkpointer.save(state(4), wait=True)
        assert steps(checkpointer) == [2, 4]


def test_strays_of_killed_writers_go(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    (folder / f"{TEMPORARY}00000001-abcd").mkdir(parents=True)
    (folder / f"{TEMPORARY}00000001-abcd" / "weights.safetensors").write_bytes(b"x")
    (folder / "notes.txt").write_text("mine")
    with Checkpointer(folder) as checkpointer:
        assert checkpointer.load() is None
        checkpointer.save(state(1))
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "notes.txt", "step-00000001"]


# ---------------------------------------------------------------- asynchronous


def test_weights_may_change_as_soon_as_save_returns(tmp_path: Path) -> None:
    weight = torch.zeros(400_000)
    plain = {"position": [0]}
    with Checkpointer(tmp_path, CheckpointConfig(last=20)) as checkpointer:
        for step in range(1, 8):
            weight.fill_(step)
            plain["position"][0] = step
            checkpointer.save(
                TrainingState(step, weights={"w": weight, "part": weight[::3]}, plain=plain)
            )
            weight.fill_(-1)
            plain["position"][0] = -1
        checkpointer.wait()
        for kept in checkpointer.all():
            found = checkpointer.load(kept.path)
            assert found is not None
            assert torch.equal(found.state.weights["w"], torch.full((400_000,), float(kept.step)))
            assert found.state.plain == {"position": [kept.step]}


def test_what_is_waited_for_is_written_from_where_it_is(tmp_path: Path) -> None:
    weight = torch.arange(12.0).view(3, 4)
    weights = {"w": weight, "row": weight[1], "turned": weight.T, "tied": weight}
    moments = {"a": weight[:2], "b": torch.arange(8)[::2], "empty": torch.empty(0)}
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(TrainingState(1, weights=weights, optimizer=moments), wait=True)
        found = checkpointer.load()
    assert found is not None
    for saved, given in ((found.state.weights, weights), (found.state.optimizer, moments)):
        assert list(saved) == list(given)
        assert all(torch.equal(saved[name], one) for name, one in given.items())


def test_synchronous_is_on_the_disk_at_once(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, CheckpointConfig(asynchronous=False)) as checkpointer:
        checkpointer.save(state(1))
        assert not any(t.name == "checkpoint" for t in threading.enumerate())
        assert steps(checkpointer) == [1]


@pytest.mark.parametrize("wait", [False, True])
def test_a_failure_surfaces_at_the_next_save_and_training_goes_on(
    wait: bool, tmp_path: Path
) -> None:
    checkpointer = Checkpointer(tmp_path / "c", CheckpointConfig(last=5))
    checkpointer.save(state(1), wait=True)
    moved = tmp_path / "moved"
    (tmp_path / "c").rename(moved)
    (tmp_path / "c").write_text("in the way")
    checkpointer.save(state(2))
    checkpointer._thread.join()  # type: ignore[union-attr]
    (tmp_path / "c").unlink()
    moved.rename(tmp_path / "c")
    with pytest.raises(StorageError):
        checkpointer.save(state(3), wait=wait)  # raises for 2, and 3 has begun
    if wait:
        assert steps(checkpointer) == [1, 3]
    checkpointer.save(state(4))
    checkpointer.close()
    assert steps(checkpointer) == [1, 3, 4]
    reports = checkpointer.take_reports()
    assert [one.error is None for one in reports] == [True, False, True, True]
    assert "could not be written" in reports[1].text


def test_a_failure_surfaces_at_close(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path / "c")
    checkpointer.acquire()
    shutil.rmtree(tmp_path / "c")
    (tmp_path / "c").write_text("in the way")
    checkpointer.save(state(1))
    with pytest.raises(StorageError):
        checkpointer.close()
    checkpointer.close()


# ---------------------------------------------------------------- who may write


def test_two_processes_do_not_write_into_one_folder(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path)
    checkpointer.acquire()
    child = os.fork()
    if child == 0:
        try:
            Checkpointer(tmp_path, lock_wait_s=0.05).acquire()
        except OverloadedError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    checkpointer.close()
    other = Checkpointer(tmp_path, lock_wait_s=0.0)
    other.acquire()
    other.close()


def test_two_objects_of_one_process_neither(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path)
    checkpointer.acquire()
    other = Checkpointer(tmp_path / "." / ".." / tmp_path.name, lock_wait_s=0.0)
    with pytest.raises(OverloadedError):
        other.save(state(1))
    assert other.all() == []  # looking is always allowed
    checkpointer.close()
    other.save(state(1), wait=True)
    other.close()


def test_a_killed_process_does_not_keep_the_folder_though_its_child_lives(tmp_path: Path) -> None:
    """Data loading processes outlive a killed run for seconds; they must not block the next."""
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        Checkpointer(tmp_path).acquire()
        grandchild = os.fork()
        if grandchild == 0:
            os.write(done, str(os.getpid()).encode())
            time.sleep(60)
            os._exit(0)
        time.sleep(60)
    living = int(os.read(ready, 20))
    os.kill(child, 9)
    os.waitpid(child, 0)
    try:
        checkpointer = Checkpointer(tmp_path, lock_wait_s=0.0)
        checkpointer.save(state(1), wait=True)
        checkpointer.close()
    finally:
        os.kill(living, 9)
        os.close(ready)
        os.close(done)


def test_cpu_memory_of_a_loaded_state_is_its_own(tmp_path: Path) -> None:
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(state(3), wait=True)
        found = checkpointer.load()
        assert found is not None
        (tmp_path / "step-00000003/weights.safetensors").write_bytes(b"")
        assert found.state.weights["w"].tolist() == [3.0] * 10
        found.state.weights["w"].add_(1)


ROOT = Path(__file__).resolve().parents[2]


def test_a_hundred_kills() -> None:
    # A process of its own: what other tests did to torch's threads must not be forked.
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.training_kills", "100", "7"],
        cwd=ROOT, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["failures"] == [], done.stderr
    assert report["num_kills"] == 100
    assert report["phases"]["writing"] >= 5
    assert report["phases"]["saved"] >= 40
    assert report["figures"]["max_steps_lost"] <= 6
