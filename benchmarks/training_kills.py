"""A training run that is killed with SIGKILL, at random moments and at chosen ones.

This process imports torch and forks: a child trains a small model with dropout from the latest
complete checkpoint, logs every step's loss, and saves every few steps. Children are killed after a
random time, at the n-th access to a file of the checkpoints, or while files are written slowly, so
that the kill hits the middle of one. After a few kills an episode runs to its end.

Every loss of every step, repeated ones too, must be that of a run that was never killed, bit for
bit, and the final weights as well; a run must continue from the latest complete checkpoint.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Row
from benchmarks.kills import KillReport, run_episodes

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.training.config import TrainConfig

KILLS = 1000
STEPS, EVERY = 30, 3
_FAILED = 70


# -- the child -----------------------------------------------------------------------------------


def train(folder: Path, log: Path, placement: Placement) -> None:
    """Train to the end, from the latest complete checkpoint; log the loss of each step."""
    import torch

    from anyrig.training import Trainer
    from anyrig.training.callbacks import Callback
    from anyrig.training.step import StepResult

    class LossLog(Callback):
        started = False

        def on_step(self, trainer: Trainer, result: StepResult) -> None:
            if not self.started:
                _log(log, f"from {trainer.step - 1}")
            self.started = True
            _log(log, f"{trainer.step} {float(result.loss).hex()}")

    def loss(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
        target = rows.sum(1, keepdim=True).sin()
        return torch.nn.functional.mse_loss(model(rows), target)

    torch.manual_seed(11)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 32), torch.nn.BatchNorm1d(32), torch.nn.GELU(), torch.nn.Dropout(0.2),
        torch.nn.Linear(32, 1),
    )  # fmt: skip
    rows = torch.linspace(-1, 1, 112 * 6).reshape(112, 6)  # seven steps an epoch
    with Trainer(
        model, data=rows, loss=loss, config=_settings(), placement=placement, folder=folder,
        callbacks=[LossLog()],
    ) as trainer:  # fmt: skip
        result = trainer.fit()
    whole = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    _log(log, f"end {result.steps} {hashlib.sha256(whole).hexdigest()}")


def _settings() -> TrainConfig:
    from anyrig.training.config import CheckpointConfig, LoadingConfig, TrainConfig

    return TrainConfig(
        batch=16, micro_batch=8, steps=STEPS, seed=5, precision="fp32", learning_rate=0.01,
        loading=LoadingConfig(num_workers=0),
        checkpoints=CheckpointConfig(every_steps=EVERY, every_s=0, last=2),
    )  # fmt: skip


def _log(log: Path, line: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def _die_at_access(access: int, folder: Path) -> None:
    """Kill this process at its n-th access to the checkpoints."""
    prefix, count = str(folder), [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not event.startswith(("open", "os.", "shutil.")):
            return
        if any(isinstance(one, str | os.PathLike) and str(one).startswith(prefix)
               for one in arguments):  # fmt: skip
            count[0] += 1
            if count[0] == access:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _write_slowly() -> None:
    """Pause after every file of a checkpoint, and cut off what is there of it in between."""
    from anyrig.training import checkpoint

    write = checkpoint._write_tensors

    def write_slowly(path: Path, tensors: Mapping[str, Any]) -> None:
        write(path, tensors)
        data = path.read_bytes()
        for part in (1, 2, 4, 8):
            path.write_bytes(data[: len(data) * part // 8])
            time.sleep(0.0005)

    checkpoint._write_tensors = write_slowly


def _list_imports(work: Callable[[], None], names: Path) -> None:
    """Write the names of the modules that work imports."""
    before = set(sys.modules)
    work()
    names.write_text("\n".join(sorted(set(sys.modules) - before)))


def fork(work: Callable[[], None]) -> int:
    """Run work in a fork of this process; return its pid."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:  # noqa: BLE001  # a child must never return into its parent's code
        import traceback

        traceback.print_exc()
        os._exit(_FAILED)
    os._exit(0)


# -- the parent ----------------------------------------------------------------------------------


class TrainingKiller:
    """Episodes in a folder, beside a run that was never killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        import torch
        import torch._dynamo  # optimizers load it at their first step: once, not in every child

        from anyrig.training.config import choose_placement

        torch.set_num_threads(1)
        self._placement = replace(choose_placement(_settings(), "cpu"), threads=1)
        self._folder, self._rng = folder, random.Random(seed)
        self._report = KillReport(figures={"max_steps_lost": 0})
        names = folder / "modules"
        os.waitpid(fork(lambda: _list_imports(lambda: self._train(folder / "first"), names)), 0)
        for name in names.read_text().splitlines():
            importlib.import_module(name)
        start = time.monotonic()
        self._expected = dict(self._finish(folder / "never-killed")[-1])
        self._run_s = time.monotonic() - start

    def _train(self, episode: Path) -> None:
        train(episode, episode / "losses", self._placement)

    def _finish(self, episode: Path) -> list[list[tuple[str, str]]]:
        """Run to the end; return what each process of the episode logged."""
        status = os.waitpid(fork(lambda: self._train(episode)), 0)[1]
        if status:
            self._report.failures.append(f"{episode.name}: the run failed ({status})")
        return _read_log(episode / "losses")

    def run(self, num_kills: int) -> KillReport:
        return run_episodes(self._report, num_kills, self._rng, self._run_episode, (1, 12))

    def _run_episode(self, name: str, kills: int) -> None:
        episode = self._folder / name
        for _ in range(kills):
            self._kill_once(episode)
        self._check(episode)

    def _kill_once(self, episode: Path) -> None:
        """Start, wait for a random moment, kill."""
        rng, checkpoints = self._rng, episode / "checkpoints"
        moment = rng.choices(("time", "access", "slow"), (3, 4, 3))[0]
        access = rng.randint(1, 160)
        checkpoints.mkdir(parents=True, exist_ok=True)

        def work() -> None:
            if moment == "slow":
                _write_slowly()
            if moment == "access":
                _die_at_access(access, checkpoints)
            self._train(episode)

        child = fork(work)
        if moment != "access":
            time.sleep(rng.uniform(0.0, 1.1) * self._run_s)
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            self._count(episode)
        elif status:
            self._report.failures.append(f"{episode.name}: a run failed ({status})")

    def _count(self, episode: Path) -> None:
        from anyrig.training.checkpoint import Checkpointer

        report, checkpoints = self._report, episode / "checkpoints"
        latest = Checkpointer(checkpoints).latest()
        saved = latest.step if latest is not None else 0
        report.num_kills += 1
        report.phases["saved"] += saved > 0
        report.phases["writing"] += any(checkpoints.glob(".writing-*/*"))
        done = [int(word) for run in _read_log(episode / "losses")[-1:] for word, _ in run
                if word.isdecimal()]  # fmt: skip
        if done:
            lost = max(report.figures["max_steps_lost"], done[-1] - saved)
            report.figures["max_steps_lost"] = lost
        _log(episode / "losses", f"kept {saved}")

    def _check(self, episode: Path) -> None:
        runs, failures = self._finish(episode), self._report.failures
        if dict(runs[-1]).get("end") != self._expected["end"]:
            failures.append(f"{episode.name} ends with other weights")
        kept = "0"
        for word, value in (line for run in runs for line in run):
            if word == "from" and value != kept:
                failures.append(f"{episode.name} continued from {value}, not from {kept}")
            elif word == "kept":
                kept = value
            elif word.isdecimal() and value != self._expected[word]:
                failures.append(f"{episode.name}: step {word} has another loss")
        names = {path.name for path in (episode / "checkpoints").iterdir()}
        wanted = {f"step-{step:08d}" for step in (STEPS - EVERY, STEPS)}
        if not wanted <= names or any(name.startswith(".writing") for name in names):
            failures.append(f"{episode.name} has left {sorted(names)}")


def _read_log(log: Path) -> list[list[tuple[str, str]]]:
    """What each process of an episode logged, and the step that was saved when it was killed."""
    runs: list[list[tuple[str, str]]] = []
    lines = log.read_text().splitlines() if log.exists() else []
    for line in lines:
        word, _, value = line.partition(" ")
        if word == "from":
            runs.append([])
        if runs:
            runs[-1].append((word, value))
    return runs


def kill_training(num_kills: int, seed: int) -> KillReport:
    """Kill a run so many times, in a temporary folder.

    The folder is in memory where possible: the writes of a killed process are the system's already,
    so waiting for the disk would only make kills rare.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        return TrainingKiller(Path(folder), seed).run(num_kills)


def run(hardware: str) -> list[Row]:
    report = kill_training(KILLS, seed=20261115)
    return [
        Row("kills", report.num_kills, "", low=KILLS),
        Row("runs that differ from the one never killed", len(report.failures), "", high=0),
        Row("kills after the first whole checkpoint", report.phases["saved"] / report.num_kills,
            "of all", low=0.5),
        Row("kills that left a checkpoint half written", report.phases["writing"], "",
            low=KILLS // 20),
        Row("steps lost in one kill, the most", report.figures["max_steps_lost"], "",
            high=2 * EVERY,
            spread=f"a checkpoint every {EVERY} steps, written while training goes on"),
    ]  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(vars(kill_training(int(sys.argv[1]), seed=int(sys.argv[2])))))
