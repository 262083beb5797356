"""The trainer's edges: what is handed in, who is told, what is not finite, stops, full disks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training import TrainConfig, Trainer
from anyrig.training.callbacks import Callback
from anyrig.training.config import CheckpointConfig, LoadingConfig
from anyrig.training.distributed.group import Group, StepTotals
from anyrig.training.optim import NAMES
from anyrig.training.step import StepResult
from anyrig.training.tasks import Task
from anyrig.training.trainer import TrainResult


def data(count: int = 64, seed: int = 1) -> torch.utils.data.TensorDataset:
    inputs = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())


class Middle(nn.Module):
    """Passes on what it is given, or something that is not finite."""

    def __init__(self) -> None:
        super().__init__()
        self.bad_item: float | None = None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.bad_item is None:
            return inputs
        hit = (inputs[:, :1] == self.bad_item).expand_as(inputs)
        return torch.where(hit, float("nan"), inputs)


def model(dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(
        Middle(), nn.Linear(6, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 1)
    )


def loss(net: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.mse_loss(net(batch[0]), batch[1])


def settings(**changed: Any) -> TrainConfig:
    return TrainConfig(
        **{
            "batch": 8, "micro_batch": 4, "steps": 6, "learning_rate": 1e-2,
            "precision": "fp32", "loading": LoadingConfig(num_workers=0),
            "checkpoints": CheckpointConfig(every_s=0), **changed,
        }
    )  # fmt: skip


def trainer(net: nn.Module | None = None, **options: Any) -> Trainer:
    how = settings(**options.pop("changed", {}))
    given = {"data": data(), "loss": loss, "device": "cpu", "config": how, **options}
    return Trainer(net or model(), **given)


def curve(one: Trainer) -> list[float]:
    return [row.loss for row in one.history()]


# ---------------------------------------------------------------- what is handed in


def test_an_optimiser_as_an_instance_a_class_and_a_function_is_the_same() -> None:
    curves = []
    for kind in ("instance", "class", "function"):
        net = model()
        given: Any = {
            "instance": torch.optim.SGD(net.parameters(), lr=0.05),
            "class": torch.optim.SGD,
            "function": lambda groups: torch.optim.SGD(groups, lr=0.05),
        }[kind]
        with trainer(net, optimizer=given,
                     changed={"learning_rate": 0.05, "weight_decay": 0.0, "schedule": "linear",
                              "max_norm": 1.0}) as one:  # fmt: skip
            one.run()
            curves.append(curve(one))
    assert curves[0] == pytest.approx(curves[1])
    assert curves[0] == pytest.approx(curves[2])
    assert curves[0][-1] < curves[0][0]


def test_an_optimiser_of_another_model_is_refused() -> None:
    other = torch.optim.SGD(model().parameters(), lr=0.1)
    with (
        pytest.raises(InvalidInputError, match="none of the model's weights"),
        trainer(optimizer=other) as t,
    ):
        t.run()
    with pytest.raises(InvalidSettingError, match="unknown optimizer") as caught, \
            trainer(optimizer="adamww") as t:  # fmt: skip
        t.run()
    assert "adamw" in caught.value.hint


class Rows(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(9) * (number % 3 + 1)) % 61
        return {"input_ids": tokens, "labels": tokens}


def test_without_a_loss_a_model_of_transformers_gives_its_own() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    net = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=61, n_positions=16, n_layer=1, n_head=2, n_embd=32,
                                bos_token_id=0, eos_token_id=0)
    )  # fmt: skip
    with trainer(net, data=Rows(), loss=None, changed={"steps": 30}) as one:
        one.run()
        found = curve(one)
    assert found[-1] < found[0] * 0.8
    with pytest.raises(InvalidSettingError, match="returns no loss") as caught, \
            trainer(data=torch.zeros(8, 6), loss=None) as one:  # fmt: skip
        one.run()
    assert "`loss`" in caught.value.hint


SECOND = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_PORT": "1"}


def test_a_device_is_named_once() -> None:
    with pytest.raises(InvalidInputError, match="device and devices"):
        trainer(device="cpu", devices=["cpu", "cpu"])
    with pytest.raises(InvalidInputError, match="device is 'cuda:0', but devices is 2"):
        trainer(device="cuda:0", devices=2)
    with pytest.raises(InvalidInputError, match="devices is 0"):
        trainer(device=None, devices=0)
    with pytest.raises(InvalidInputError, match="devices is 'cuda:0'"):
        trainer(device=None, devices="cuda:0")


def test_a_process_without_a_device_is_refused() -> None:
    one = trainer(device=None, devices=["cpu", "cpu"], environment=SECOND)
    assert one._choose_placement().device.kind == "cpu"
    third = {**SECOND, "WORLD_SIZE": "3", "RANK": "2", "LOCAL_RANK": "2"}
    with pytest.raises(InvalidInputError, match="2 devices for process 3"):
        trainer(device=None, devices=["cpu", "cpu"], environment=third)._choose_placement()


def test_a_task_is_all_of_it(tmp_path: Path) -> None:
    def finish(folder: Path) -> Mapping[str, Any]:
        return {"weights": sum(float(one.detach().sum()) for one in net.parameters())}

    net = model()
    task = Task("sines", net, data(), loss, validation=data(16, 5), finish=finish)
    with Trainer.of(task, config=settings(), device="cpu", folder=tmp_path) as one:
        summary = one.run()
    assert summary.outputs["weights"] == finish(tmp_path)["weights"]
    assert summary.validation["loss"] > 0
    assert summary.report is not None
    assert "sines" in summary.report.read_text(encoding="utf-8")


# ---------------------------------------------------------------- looking on


class Notes(Callback):
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        self.calls.append(("step", trainer.step))

    def on_event(self, trainer: Trainer, kind: str, text: str) -> None:
        self.calls.append((kind, text))

    def on_validate(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
        self.calls.append(("validate", trainer.step))

    def on_end(self, trainer: Trainer, result: TrainResult) -> None:
        self.calls.append(("result", result.steps))

    def of(self, kind: str) -> list[Any]:
        return [value for one, value in self.calls if one == kind]


def test_callbacks_are_called(tmp_path: Path) -> None:
    notes = Notes()
    checkpoints = CheckpointConfig(every_steps=2, every_s=0)
    with trainer(
        callbacks=[notes], validation=data(8, 3), folder=tmp_path,
        changed={"checkpoints": checkpoints, "validate_every": 3},
    ) as one:  # fmt: skip
        one.run()
    assert notes.of("step") == [1, 2, 3, 4, 5, 6]
    assert notes.of("validate") == [3, 6]
    assert notes.of("start") == ["started"]
    assert notes.of("end") == ["finished"]
    assert notes.of("result") == [6]
    # Each is reported when it is on the disk, the last one too: 2, the best of 3, 4, 6.
    told = [re.findall(r"step (\d+)", text) for text in notes.of("checkpoint")]
    assert told == [["2"], ["3"], ["4"], ["6"]]


def test_a_callback_stops_a_run_with_its_last_checkpoint(tmp_path: Path) -> None:
    class Stop(Callback):
        def on_step(self, trainer: Trainer, result: StepResult) -> None:
            if trainer.step == 3:
                trainer.stop()

    with trainer(callbacks=[Stop()], folder=tmp_path) as one:
        result = one.fit()
    assert (result.finished, result.steps) == (False, 3)
    assert result.checkpoint is not None
    assert result.checkpoint.name == "step-00000003"
    with trainer(folder=tmp_path) as one:
        assert one.fit().resumed_from == 3


def test_a_criterion_goes_where_the_model_is() -> None:
    class Criterion(nn.MSELoss):
        place: Any = None

        def to(self, place: Any) -> Any:  # type: ignore[override]
            self.place = place
            return super().to(place)

    found = Criterion()
    with trainer(loss=found, changed={"steps": 1}) as one:
        one.run()
    assert found.place == torch.device("cpu")


# ---------------------------------------------------------------- not finite


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "optimizer", [*NAMES, torch.optim.SGD, torch.optim.RMSprop, torch.optim.AdamW]
)
def test_no_optimiser_takes_what_is_not_finite(optimizer: Any, wide: bool) -> None:
    net = model().double() if wide else model()
    before = [weight.detach().clone() for weight in net.parameters()]

    def bad(inner: nn.Module, batch: Any) -> torch.Tensor:
        return loss(inner, [one.to(next(inner.parameters()).dtype) for one in batch]) * float("nan")

    with trainer(net, loss=bad, optimizer=optimizer, changed={"steps": 2}) as one:
        summary = one.run()
    assert summary.num_skipped == 2
    for old, now in zip(before, net.parameters(), strict=True):
        assert torch.equal(old, now)


def test_an_offloaded_optimiser_takes_nothing_that_is_not_finite() -> None:
    net = model()
    before = [weight.detach().clone() for weight in net.parameters()]
    with trainer(net, loss=lambda inner, batch: loss(inner, batch) * float("inf"),
                 changed={"steps": 2, "offload_optimizer": True}) as one:  # fmt: skip
        assert one.run().num_skipped == 2
    for old, now in zip(before, net.parameters(), strict=True):
        assert torch.equal(old, now)


@pytest.mark.parametrize("place", [1, 6])
def test_the_module_that_is_not_finite_is_named(place: int) -> None:
    """Whichever micro batch of the step the bad item is in."""
    items = data().tensors[0]
    net, notes = model(0.2), Notes()
    first = net[0]
    assert isinstance(first, Middle)
    first.bad_item = float(items[8 + place][0])
    with trainer(net, callbacks=[notes], changed={"shuffle": False, "steps": 8}) as one:
        summary = one.run()
        found = curve(one)
    assert summary.num_skipped == 1
    (text,) = notes.of("not finite")
    assert text.startswith("0 (Middle)")
    # To look changes nothing: neither random numbers nor gradients of what comes after.
    quiet = model(0.2)
    assert isinstance(quiet[0], Middle)
    quiet[0].bad_item = first.bad_item
    with trainer(quiet, changed={"shuffle": False, "steps": 8, "name_nonfinite": False}) as one:
        one.run()
        plain = curve(one)
    assert json.dumps(found) == json.dumps(plain)


# ---------------------------------------------------------------- resuming otherwise


def test_a_run_goes_on_with_larger_batches(tmp_path: Path) -> None:
    """Its position lies behind the last of the larger ones then: the next epoch begins."""
    with trainer(folder=tmp_path, changed={"steps": 6}) as one:
        one.run()
    notes = Notes()
    with trainer(folder=tmp_path, callbacks=[notes], changed={"steps": 9, "batch": 32}) as one:
        summary = one.run()
    assert summary.steps == 9
    assert summary.resumed_from == 6
    assert any("batch was 8 and is 32" in text for text in notes.of("resume"))


# ---------------------------------------------------------------- asked to stop

SCRIPT = """
import json, os, signal, sys
sys.path.insert(0, {tests!r})
import torch
torch.set_num_threads(1)
import test_trainer_parts as here
folder, signals, at = sys.argv[1], [int(one) for one in sys.argv[2].split(",")], int(sys.argv[3])
def asked(net, batch):
    value = here.loss(net, batch)
    if one.open().step == at:
        while signals:
            os.kill(os.getpid(), signals.pop(0))
    return value
net = here.model(0.2)
with here.trainer(net, loss=asked, folder=folder, changed={{"steps": 12}}) as one:
    summary = one.run()
print(json.dumps([summary.finished, summary.steps, here.curve(one), str(summary.checkpoint)]))
"""


def stopped(folder: Path, *signals: int, at: int = 5) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(tests=str(Path(__file__).parent))
    return subprocess.run(
        [sys.executable, "-c", script, str(folder), ",".join(map(str, signals)), str(at)],
        capture_output=True, text=True, timeout=600, cwd=folder.parent,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_asked_to_end_goes_on_as_if_it_had_not(number: int, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = stopped(folder, number)
    assert done.returncode == 0, done.stderr
    finished, steps, _, checkpoint = json.loads(done.stdout)
    assert not finished
    assert steps == 6  # the step that was under way is made
    assert "6" in Path(checkpoint).name
    with trainer(model(0.2), folder=folder, changed={"steps": 12}) as one:
        summary = one.run()
        found = curve(one)
    assert summary.resumed_from == 6
    assert summary.finished
    with trainer(model(0.2), changed={"steps": 12}) as one:
        one.run()
        assert curve(one) == found


def test_asked_twice_it_ends_at_once(tmp_path: Path) -> None:
    done = stopped(tmp_path / "run", signal.SIGINT, signal.SIGINT)
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
    assert not done.stdout


class Talking(Group):
    """A group that is asked to end while its processes agree on something else."""

    size = 2

    def __init__(self) -> None:
        self.seen = 0

    def finish(self, *, ran_out: bool, sums: Any = ()) -> StepTotals:
        self.seen += 1
        if self.seen == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().finish(ran_out=ran_out, sums=sums)


def test_a_request_that_comes_while_processes_agree_is_not_lost() -> None:
    """It is heeded by all after the next step: one that left alone would have the others wait."""
    with trainer(group=Talking()) as one:
        summary = one.run()
    assert not summary.finished
    assert summary.steps == 3


# ---------------------------------------------------------------- a disk that is full


def test_a_checkpoint_that_cannot_be_written_does_not_end_a_run(tmp_path: Path) -> None:
    script = f"""
    import json, resource, sys
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    import torch
    torch.set_num_threads(1)
    import test_trainer_parts as here
    from anyrig.errors import StorageError
    notes = here.Notes()
    wide = torch.nn.Sequential(torch.nn.Linear(6, 4000), torch.nn.Linear(4000, 1))
    keeping = here.CheckpointConfig(every_steps=2, every_s=0, last=9)
    changed = {{"steps": 8, "checkpoints": keeping}}
    def narrow(net, batch):
        if one.open().step in (3, 6) and one.open().checkpoints._thread:
            one.open().checkpoints._thread.join()
        if one.open().step == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
        if one.open().step == 6:
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return here.loss(net, batch)
    with here.trainer(wide, loss=narrow, callbacks=[notes], folder={str(tmp_path)!r},
                      changed=changed) as one:
        summary = one.run()
        kept = [found.step for found in one.open().checkpoints.all()]
    print(json.dumps([summary.finished, summary.steps, kept, notes.of("checkpoint")]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    finished, steps, kept, told = json.loads(done.stdout)
    assert finished
    assert steps == 8
    assert kept == [2, 8]
    for step in (4, 6):
        assert any(f"step {step} could not be written" in text for text in told)
    assert any("checkpoint of step 8" in text for text in told)


# ---------------------------------------------------------------- importing


def test_importing_adds_little_to_torch() -> None:
    """Of other packages numpy alone, and none of torch's that it had not imported itself."""
    code = (
        "import sys, torch; before = set(sys.modules); "
        "from anyrig.training import Trainer, TrainConfig; "
        "print(*sorted(sys.modules.keys() - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in done.stdout.split()}
    assert packages - sys.stdlib_module_names <= {"anyrig", "numpy", "packaging"}
