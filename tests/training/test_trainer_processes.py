"""A trainer that starts its processes itself, and when it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.devices.machine import Machine
from anyrig.errors import DeviceUnusableError, InvalidInputError, InvalidSettingError
from anyrig.training import TrainConfig, Trainer
from anyrig.training.config import choose_placement

BEGINNING = """
import json, os, sys
import torch
from torch import nn
from anyrig.training import Callback, Trainer
from anyrig.training.config import LoadingConfig

print("begin", flush=True)
torch.manual_seed(0)
inputs = torch.randn(64, 6)
targets = inputs.sum(1, keepdim=True)
data = torch.utils.data.TensorDataset(inputs, targets)
model = nn.Linear(6, 1)
options = dict(
    loss=nn.MSELoss(), batch=16, micro_batch=8, epochs=5, learning_rate=0.1, warmup=0,
    device="cpu", loading=LoadingConfig(num_workers=0),
)

def show(trainer, result):
    loss = nn.functional.mse_loss(model(inputs), targets).item()
    print(json.dumps({
        "steps": result.steps, "loss": loss, "history": len(trainer.history()),
        "finished": result.finished, "reasons": trainer.reasons, "step": trainer.step,
        "alone": "RANK" not in os.environ,
    }), flush=True)
"""
ONE = """
trainer = Trainer(model, data, devices=2, folder=sys.argv[1] if sys.argv[1:] else None, **options)
show(trainer, trainer.fit())
"""


def _run(*words: str, cwd: Path) -> tuple[str, list[dict[str, Any]]]:
    """What a program printed, and its lines of JSON."""
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.stdout + done.stderr, rows


def test_a_notebook_forks_and_goes_on_with_what_was_trained(tmp_path: Path) -> None:
    """As in one: no file, threads that have computed before, two fits, a stop, a failure."""
    program = BEGINNING + textwrap.dedent("""
        nn.functional.mse_loss(model(torch.randn(4096, 6)), torch.zeros(4096, 1)).backward()
        trainer = Trainer(model, data, devices=2, folder="kept", validation=data, **options)
        show(trainer, trainer.fit())
        nn.init.zeros_(next(model.parameters()))  # a checkpoint does not have that
        loss = nn.functional.mse_loss(model(inputs), targets).item()
        assert abs(trainer.evaluate()["loss"] - loss) < 1e-6
        trainer.close()

        class Stop(Callback):
            def on_step(self, trainer, result):
                if trainer.step == 3:
                    trainer.stop()

        trainer = Trainer(model, data, devices=2, folder="run", callbacks=[Stop()], **options)
        show(trainer, trainer.fit())

        def broken(model, batch):
            if os.environ["RANK"] == "1":
                raise ValueError("the data is not there")
            return nn.functional.mse_loss(model(batch[0]), batch[1])

        try:
            Trainer(model, data, devices=2, **{**options, "loss": broken}).fit()
        except Exception as error:
            print(type(error).__name__, error)
        """)
    text, (first, stopped) = _run("-c", program, cwd=tmp_path)
    assert text.count("begin") == 1
    assert (first["steps"], first["step"], first["finished"]) == (20, 20, True)
    assert first["history"] == 20
    assert first["loss"] < 0.1
    assert any("process 1 of 2, ddp" in reason for reason in first["reasons"])
    # All processes agree on the step after the one in which they were asked.
    assert (stopped["steps"], stopped["finished"]) == (4, False)
    assert [one.name for one in (tmp_path / "run" / "checkpoints").glob("step-*")]
    assert "WorkError process 1 of 2 failed: ValueError: the data is not there" in text


@pytest.mark.slow
def test_a_script_runs_again_for_each_process_up_to_its_fit(tmp_path: Path) -> None:
    """The second fit of a program starts it again, too, and takes the first one's result."""
    (tmp_path / "program.py").write_text(
        BEGINNING + ONE + "Trainer(model, data, devices=2, **options).fit()\nprint('end')\n"
    )
    text, rows = _run("program.py", "run", cwd=tmp_path)
    assert text.count("begin") == 5
    assert text.count("end") == 1
    assert [row["alone"] for row in rows].count(True) == 1
    assert len({row["loss"] for row in rows}) == 1
    assert rows[0]["steps"] == 20
    assert rows[0]["loss"] < 0.1
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.slow
def test_two_processes_train_what_one_does(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        BEGINNING + ONE.replace("devices=2", "devices=int(sys.argv[2])")
    )
    _, (one,) = _run("program.py", "one", "1", cwd=tmp_path)
    _, (two,) = _run("-m", "program", "two", "2", cwd=tmp_path)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)


def _trainer(**options: Any) -> Trainer:
    data = torch.utils.data.TensorDataset(torch.randn(8, 2), torch.randn(8, 1))
    return Trainer(nn.Linear(2, 1), data, loss=nn.MSELoss(), environment={}, **options)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))


@pytest.mark.usefixtures("notebook")
def test_a_notebook_that_uses_cuda_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(InvalidSettingError, match="uses CUDA already") as caught:
        _trainer(device="cpu", devices=2).fit()
    assert "Restart the kernel" in caught.value.hint


@pytest.mark.usefixtures("notebook")
def test_a_notebook_that_cannot_fork_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(InvalidSettingError, match="notebook cannot train in several") as caught:
        _trainer(device="cpu", devices=2).fit()
    assert "to a file" in caught.value.hint


def test_more_processes_than_gpus_are_refused(
    machine: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyrig.training.trainer.discover", lambda _: machine("h200-linux"))
    with pytest.raises(
        DeviceUnusableError, match="2 processes were requested, but this machine has 1 device"
    ):
        _trainer(devices=2).fit()


def test_each_process_of_a_machine_has_a_gpu_of_its_own(machine: Callable[..., Machine]) -> None:
    pair = machine("rtx4090-rtxpro6000-wsl2")
    for word in (None, "cuda"):
        names = [
            choose_placement(
                TrainConfig(), word, local_rank=rank, num_processes=2, machine=pair
            ).device.name
            for rank in range(2)
        ]
        assert sorted(names) == sorted(one.name for one in pair.gpus)


def test_processes_on_one_device_share_its_memory(machine: Callable[..., Machine]) -> None:
    one = machine("no-gpu")
    whole, *shared = (
        choose_placement(TrainConfig(), word, machine=one, **options).budget_bytes
        for word, options in (
            (None, {}), ("cpu", {"num_processes": 2}),
            (None, {"num_processes": 2, "devices": ["cpu", "cpu"], "local_rank": 1}),
        )
    )  # fmt: skip
    assert whole is not None
    assert shared == [whole // 2, whole // 2]


def test_a_launcher_that_started_too_few_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_PORT": "1"}
    data = torch.utils.data.TensorDataset(torch.randn(8, 2), torch.randn(8, 1))
    with pytest.raises(InvalidInputError, match="2 devices were given, but 1 process trains"):
        Trainer(nn.Linear(2, 1), data, loss=nn.MSELoss(), environment=environment, devices=2)
