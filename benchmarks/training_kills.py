"""A training run under kill -9: at random moments and at chosen ones, and each time it goes on.

This process has torch imported and forks: a child trains a small model with dropout from the
latest whole checkpoint, writes every step's loss down, and saves every few steps. Children are
killed after a random time, at the n-th time that they touch a file of the checkpoints, or while
files are made to be slow so that the kill falls into their middle. An episode of a few kills is
then let through.

Every loss of every step, repeated ones too, must be that of a run that was never killed, bit for
bit, and the finished weights as well; a run must go on from the latest whole checkpoint.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Row

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.training.settings import Settings

KILLS = 1000
STEPS, EVERY = 30, 3
_FAILED = 70


@dataclass
class Tried:
    """What became of the kills."""

    num_kills: int = 0
    num_writing: int = 0
    """Kills that left a checkpoint half written."""
    num_after_saved: int = 0
    """Kills when there was a whole checkpoint."""
    num_episodes: int = 0
    most_repeated: int = 0
    """Steps that were done and lost in one kill."""
    wrong: list[str] = field(default_factory=list)


# ---------------------------------------------------------------- the child


def train(folder: Path, log: Path, placement: Placement) -> None:
    """Train to the end, from the latest whole checkpoint; each step's loss is written down."""
    import torch

    from anyrig.training import Trainer
    from anyrig.training.protocol import StepFacts, Unwatched

    class Losses(Unwatched):
        began = False

        def step(self, facts: StepFacts) -> None:
            if not self.began:
                _note(log, f"from {facts.number - 1}")
            self.began = True
            _note(log, f"{facts.number} {float(facts.loss).hex()}")

    def loss(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
        wanted = rows.sum(1, keepdim=True).sin()
        return torch.nn.functional.mse_loss(model(rows), wanted)

    torch.manual_seed(11)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 32), torch.nn.BatchNorm1d(32), torch.nn.GELU(), torch.nn.Dropout(0.2),
        torch.nn.Linear(32, 1),
    )  # fmt: skip
    rows = torch.linspace(-1, 1, 112 * 6).reshape(112, 6)  # seven steps an epoch
    with Trainer(
        model, data=rows, loss=loss, settings=_settings(), placement=placement, folder=folder,
        watch=Losses(),
    ) as trainer:  # fmt: skip
        summary = trainer.run()
    whole = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    _note(log, f"end {summary.steps} {hashlib.sha256(whole).hexdigest()}")


def _settings() -> Settings:
    from anyrig.training.settings import Keeping, Loading, Settings

    return Settings(
        batch=16, micro_batch=8, steps=STEPS, seed=5, precision="fp32", learning_rate=0.01,
        loading=Loading(num_workers=0), keeping=Keeping(every_steps=EVERY, every_s=0, last=2),
    )  # fmt: skip


def _note(log: Path, line: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def _dies_at(touch: int, folder: Path) -> None:
    """End this process the n-th time that it touches the checkpoints, before that happens."""
    place, count = str(folder), [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not event.startswith(("open", "os.", "shutil.")):
            return
        if any(isinstance(one, str | os.PathLike) and str(one).startswith(place)
               for one in arguments):  # fmt: skip
            count[0] += 1
            if count[0] == touch:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _slow_files() -> None:
    """Every file of a checkpoint is written a few bytes at a time."""
    from anyrig.training.checkpoint import tensors

    class Slow(tensors.Hashing):
        def write(self, data: Any) -> None:
            view = memoryview(data).cast("B")
            step = max(1, len(view) // 8)
            for start in range(0, len(view), step):
                super().write(view[start : start + step])
                time.sleep(0.0005)

    tensors.Hashing = Slow  # type: ignore[misc]


def _loaded_by(work: Callable[[], None], names: Path) -> None:
    """Do work and write down which modules it loaded."""
    before = set(sys.modules)
    work()
    names.write_text("\n".join(sorted(set(sys.modules) - before)))


def forked(work: Callable[[], None]) -> int:
    """Run work in a fork of this process; its number."""
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


# ---------------------------------------------------------------- the parent


class Killing:
    """Episodes in a folder, beside a run that was never killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        import torch
        import torch._dynamo  # optimisers load it at their first step: once, not in every child

        from anyrig.training.placing import placed

        torch.set_num_threads(1)
        self._placement = replace(placed(_settings(), "cpu"), threads=1)
        self._folder, self._dice, self.tried = folder, random.Random(seed), Tried()
        names = folder / "modules"
        os.waitpid(forked(lambda: _loaded_by(lambda: self._train(folder / "first"), names)), 0)
        for name in names.read_text().splitlines():
            importlib.import_module(name)
        began = time.monotonic()
        self._right, _ = self._whole(folder / "right")
        self._takes_s = time.monotonic() - began

    def _train(self, episode: Path) -> None:
        train(episode, episode / "losses", self._placement)

    def _whole(self, episode: Path) -> tuple[dict[str, str], list[list[tuple[str, str]]]]:
        """Let a run through; what its last process wrote down, and what all did."""
        child = forked(lambda: self._train(episode))
        status = os.waitpid(child, 0)[1]
        if status:
            self.tried.wrong.append(f"{episode.name}: the run failed ({status})")
        runs = _runs(episode / "losses")
        return dict(runs[-1]), runs

    def run(self, kills: int, tell: bool = False) -> Tried:
        """Kill so many times."""
        while self.tried.num_kills < kills:
            episode = self._folder / f"episode-{self.tried.num_episodes}"
            for _ in range(min(self._dice.randint(1, 12), kills - self.tried.num_kills)):
                self._kill_once(episode)
            self._judge(episode)
            self.tried.num_episodes += 1
            if tell and self.tried.num_episodes % 20 == 0:
                print(f"{self.tried.num_kills} kills, {len(self.tried.wrong)} wrong", flush=True)
        return self.tried

    def _kill_once(self, episode: Path) -> None:
        """Start, wait for a moment of some kind, kill."""
        dice, place = self._dice, episode / "checkpoints"
        way = dice.choices(("time", "touch", "slow"), (3, 4, 3))[0]
        touch = dice.randint(1, 160)
        place.mkdir(parents=True, exist_ok=True)

        def work() -> None:
            if way == "slow":
                _slow_files()
            if way == "touch":
                _dies_at(touch, place)
            self._train(episode)

        child = forked(work)
        if way != "touch":
            time.sleep(dice.uniform(0.0, 1.1) * self._takes_s)
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            self._count(episode)
        elif status:
            self.tried.wrong.append(f"{episode.name}: a run failed ({status})")

    def _count(self, episode: Path) -> None:
        from anyrig.training.checkpoint import Checkpoints

        place = episode / "checkpoints"
        latest = Checkpoints(place).latest()
        saved = latest.step if latest is not None else 0
        self.tried.num_kills += 1
        self.tried.num_after_saved += saved > 0
        self.tried.num_writing += any(place.glob(".writing-*/*"))
        done = [int(line[0]) for run in _runs(episode / "losses")[-1:] for line in run
                if line[0].isdecimal()]  # fmt: skip
        if done:
            self.tried.most_repeated = max(self.tried.most_repeated, done[-1] - saved)
        _note(episode / "losses", f"kept {saved}")

    def _judge(self, episode: Path) -> None:
        last, runs = self._whole(episode)
        wrong = self.tried.wrong
        if last.get("end") != self._right["end"]:
            wrong.append(f"{episode.name} ends with other weights")
        kept = "0"
        for run in runs:
            for word, value in run:
                if word == "from" and value != kept:
                    wrong.append(f"{episode.name} went on from {value}, not from {kept}")
                elif word == "kept":
                    kept = value
                elif word.isdecimal() and value != self._right[word]:
                    wrong.append(f"{episode.name}: step {word} has another loss")
        names = {path.name for path in (episode / "checkpoints").iterdir()}
        wanted = {f"step-{step:08d}" for step in (STEPS - EVERY, STEPS)}
        if not wanted <= names or any(name.startswith(".writing") for name in names):
            wrong.append(f"{episode.name} has left {sorted(names)}")


def _runs(log: Path) -> list[list[tuple[str, str]]]:
    """What each process of an episode wrote down, and what was kept when it was killed."""
    runs: list[list[tuple[str, str]]] = []
    lines = log.read_text().splitlines() if log.exists() else []
    for line in lines:
        word, _, value = line.partition(" ")
        if word == "from":
            runs.append([])
        if runs:
            runs[-1].append((word, value))
    return runs


def killing(kills: int, seed: int, tell: bool = False) -> Tried:
    """Kill a run so many times; everything lies in a folder that is removed at the end.

    In memory where there is such a folder: a killed process' writes are the system's already, so
    waiting for the disk would only make kills rare.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        return Killing(Path(folder), seed).run(kills, tell)


def run(hardware: str) -> list[Row]:
    tried = killing(KILLS, seed=20261115, tell=True)
    for line in tried.wrong:
        print(line, flush=True)
    return [
        Row("kills", tried.num_kills, "", low=KILLS),
        Row("runs that differ from the one never killed", len(tried.wrong), "", high=0),
        Row("kills after the first whole checkpoint", tried.num_after_saved / tried.num_kills,
            "of all", low=0.5),
        Row("kills that left a checkpoint half written", tried.num_writing, "", low=KILLS // 20),
        Row("steps lost in one kill, the most", tried.most_repeated, "", high=2 * EVERY,
            spread=f"a checkpoint every {EVERY} steps, written while training goes on"),
    ]  # fmt: skip


if __name__ == "__main__":
    import json

    found = killing(int(sys.argv[1]), seed=int(sys.argv[2]))
    print(json.dumps(vars(found)))
