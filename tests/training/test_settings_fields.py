"""Every field of the settings changes something measured, and refuses what makes no sense.

A claim is a short run with a field at two values. A field without a claim fails a test here.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import time
import warnings
from collections.abc import Callable, Collection
from multiprocessing import Value
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from anyrig.errors import InvalidSettingError
from anyrig.precision.policy import make_policy
from anyrig.precision.settings import FallbackSettings, ScalerSettings
from anyrig.training import TrainConfig, Trainer
from anyrig.training.callbacks import Callback
from anyrig.training.config import CheckpointConfig, LoadingConfig
from anyrig.training.losses import LanguageLoss
from anyrig.training.models.gpt import PRESETS, Gpt

GIB = 1 << 30
TABLES = {
    "loading": LoadingConfig,
    "checkpoints": CheckpointConfig,
    "scaler": ScalerSettings,
    "moving": FallbackSettings,
}
Claim = Callable[[Path], None]
CLAIMS: dict[str, Claim] = {}
ELSEWHERE = {
    "strategy": "test_trainer_ranks.test_two_processes_train_measure_and_resume_as_one",
    "shares": "test_trainer_ranks.test_unequal_devices_get_shares_by_speed_and_are_told_of",
}
"""Fields of several processes, and the tests that show what they change."""


def claim(*names: str) -> Callable[[Claim], Claim]:
    def keep(function: Claim) -> Claim:
        CLAIMS.update(dict.fromkeys(names, function))
        return function

    return keep


def fields() -> list[str]:
    own = [one.name for one in dataclasses.fields(TrainConfig) if one.name not in TABLES]
    inner = [f"{name}.{one.name}" for name, kind in TABLES.items()
             for one in dataclasses.fields(kind)]  # fmt: skip
    return own + inner


def test_every_field_has_a_claim() -> None:
    assert set(fields()) == set(CLAIMS) | set(ELSEWHERE)
    for where in ELSEWHERE.values():
        module, name = where.split(".")
        assert callable(getattr(importlib.import_module(f"tests.training.{module}"), name))


# ---------------------------------------------------------------- a short run


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        found: torch.Tensor = inputs + torch.tanh(self.layer(inputs))
        return found


class Other(Block):
    pass


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.others = nn.ModuleList([Other(), Other()])
        self.last = nn.Linear(6, 1)
        self.seen: list[Any] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(inputs))
        for block in (*self.blocks, *self.others):
            inputs = block(inputs)
        found: torch.Tensor = self.last(inputs)
        return found


def data(count: int = 64, seed: int = 1) -> torch.utils.data.TensorDataset:
    inputs = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True).sin())


def mse(net: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.mse_loss(net(batch[0]).float(), batch[1])


class _Events(Callback):
    def __init__(self, events: list[tuple[str, str]]) -> None:
        self.events = events

    def on_event(self, trainer: Trainer, kind: str, text: str) -> None:
        self.events.append((kind, text))


class Ran:
    """A run of a few steps, and what was seen of it."""

    def __init__(self, folder: Path | None = None, *, steps: int = 4, at: Any = None,
                 before: Any = None, only_open: bool = False, **changed: Any) -> None:  # fmt: skip
        options = {
            name: changed.pop(name)
            for name in ("optimizer", "validation", "data", "loss")
            if name in changed
        }
        given = {
            "batch": 8, "micro_batch": 8, "steps": steps, "learning_rate": 1e-2,
            "precision": "fp32", "schedule": "constant", "warmup": 0, "compile": False,
            "name_nonfinite": False,  # it calls the loss once more
            "loading": LoadingConfig(num_workers=0), "checkpoints": CheckpointConfig(every_s=0),
            **changed,
        }  # fmt: skip
        self.net: Any = (before or Net)()
        self.start = {name: one.clone() for name, one in self.net.state_dict().items()}
        self.inside: list[Any] = []
        self.events: list[tuple[str, str]] = []
        inner = options.pop("loss", mse)

        def loss(net: nn.Module, batch: Any) -> torch.Tensor:
            if at is not None:
                self.inside.append(at(self))
            found: torch.Tensor = inner(net, batch)
            return found

        loss_given: Any = inner if isinstance(inner, LanguageLoss) else loss
        with Trainer(
            self.net, loss=loss_given, config=TrainConfig(**given), device="cpu", folder=folder,
            callbacks=[_Events(self.events)], **{"data": data(), **options},
        ) as self.trainer:  # fmt: skip
            run = self.trainer.open()
            self.run = run
            self.optimizer = run.train_step.optimizer
            self.compiled = getattr(self.net, "_compiled_call_impl", None) is not None
            if only_open:
                return
            self.summary = self.trainer.fit()
            self.rows = self.trainer.history()
            self.kept = [one.step for one in run.checkpoints.all()] if run.checkpoints else []
        self.curve = [row.loss for row in self.rows]
        self.end = {name: one.clone() for name, one in self.net.state_dict().items()}

    @property
    def step(self) -> int:
        return self.trainer.step

    def of(self, kind: str) -> list[str]:
        return [text for one, text in self.events if one == kind]


# ---------------------------------------------------------------- how long, in what portions


@claim("batch")
def _(_: Path) -> None:
    assert [row.samples for row in Ran(batch=8).rows] == [8] * 4
    assert [row.samples for row in Ran(batch=16).rows] == [16] * 4


@claim("micro_batch")
def _(_: Path) -> None:
    assert Ran(micro_batch=8, steps=2).net.seen == [8] * 2
    assert Ran(micro_batch=2, steps=2).net.seen == [2] * 8


@claim("steps", "epochs")
def _(_: Path) -> None:
    assert Ran(steps=3).summary.steps == 3
    assert Ran(steps=0, epochs=1).summary.steps == 8
    assert Ran(steps=0, epochs=2).summary.steps == 16


@claim("seed")
def _(_: Path) -> None:
    assert Ran(seed=1).curve == Ran(seed=1).curve != Ran(seed=2).curve


@claim("shuffle")
def _(_: Path) -> None:
    first = float(mse(Net(), data()[:8]).detach())
    assert Ran(shuffle=False).curve[0] == pytest.approx(first)
    assert Ran(shuffle=True).curve[0] != pytest.approx(first)


@claim("drop_last")
def _(_: Path) -> None:
    odd = data(20)
    assert [row.samples for row in Ran(steps=0, data=odd).rows] == [8, 8]
    assert [row.samples for row in Ran(steps=0, data=odd, drop_last=False).rows] == [8, 8, 4]


# ---------------------------------------------------------------- the optimiser


@claim("learning_rate")
def _(_: Path) -> None:
    moved = []
    for rate in (1e-3, 1e-2):
        ran = Ran(steps=1, learning_rate=rate, optimizer="sgd", weight_decay=0.0)
        assert ran.rows[0].rate == rate
        moved.append((ran.end["last.weight"] - ran.start["last.weight"]).norm())
    assert float(moved[1] / moved[0]) == pytest.approx(10, rel=1e-3)


@claim("schedule", "warmup", "final_rate")
def _(_: Path) -> None:
    def rates(**changed: Any) -> list[float]:
        return [row.rate for row in Ran(steps=8, log_every=1, **changed).rows]

    assert rates() == [1e-2] * 8
    shapes = [rates(schedule=name) for name in ("linear", "cosine", "trapezoid")]
    assert all(rate[-1] < 1e-2 for rate in shapes)
    assert len({tuple(rate) for rate in shapes}) == 3
    warm = rates(warmup=4)
    assert warm[0] < warm[1] < warm[2] < warm[4] == 1e-2
    assert rates(schedule="linear", final_rate=0.5)[-1] > 2 * rates(schedule="linear")[-1]


@claim("weight_decay")
def _(_: Path) -> None:
    """Of matrices alone, where no gradient moves anything."""
    for decay in (0.0, 0.5):
        ran = Ran(weight_decay=decay, loss=lambda net, batch: mse(net, batch) * 0.0)
        shrunk = ran.end["last.weight"].norm() < ran.start["last.weight"].norm()
        assert bool(shrunk) is (decay > 0)
        assert torch.equal(ran.end["last.bias"], ran.start["last.bias"])


@claim("betas", "momentum")
def _(_: Path) -> None:
    assert Ran(betas=(0.9, 0.95)).curve != Ran(betas=(0.5, 0.95)).curve
    assert Ran(betas=(0.9, 0.95)).curve != Ran(betas=(0.9, 0.5)).curve
    weak, strong = (Ran(optimizer="momentum", momentum=one).curve for one in (0.1, 0.9))
    assert weak[:2] == strong[:2]  # the first step knows nothing of it
    assert weak[2:] != strong[2:]


@claim("max_norm")
def _(_: Path) -> None:
    def moved(most: float) -> float:
        ran = Ran(steps=1, max_norm=most, optimizer="sgd", learning_rate=1.0, weight_decay=0.0)
        steps = [(ran.end[name] - one).square().sum() for name, one in ran.start.items()]
        return float(torch.stack(steps).sum().sqrt())

    assert moved(0.01) == pytest.approx(0.01, rel=1e-3)
    assert moved(0.0) > 0.1


@claim("guard")
def _(_: Path) -> None:
    for guard in (True, False):
        ran = Ran(steps=2, guard=guard, loss=lambda net, batch: mse(net, batch) * math.nan)
        assert bool(ran.end["last.weight"].isnan().any()) is not guard


# ---------------------------------------------------------------- precisions


@claim("precision")
def _(_: Path) -> None:
    def kind(precision: str) -> torch.dtype:
        seen = []

        def look(net: nn.Module, batch: Any) -> torch.Tensor:
            seen.append(net(batch[0]).dtype)
            return mse(net, batch)

        Ran(steps=1, precision=precision, loss=look)
        found: torch.dtype = seen[-1]
        return found

    assert kind("fp32") == torch.float32
    assert kind("bf16") == torch.bfloat16
    assert kind("fp16") == torch.float16


def scales(bad: Collection[int] = (), steps: int = 6, **how: Any) -> list[float]:
    """The loss scale of each step, some of which overflow."""

    def look(net: nn.Module, batch: Any) -> torch.Tensor:
        here = len(seen)
        seen.append(here)
        return mse(net, batch) * (math.inf if here in bad else 1.0)

    seen: list[int] = []
    settings = ScalerSettings(**{"initial": 64.0, "interval": 2, "hysteresis": 1, **how})
    ran = Ran(steps=steps, precision="fp16", dynamic=False, scaler=settings, loss=look)
    return [row.scale for row in ran.rows]


@claim(*(f"scaler.{one.name}" for one in dataclasses.fields(ScalerSettings)))
def _(_: Path) -> None:
    assert scales() == [64, 64, 128, 128, 256, 256]
    assert scales(initial=32.0) == [32, 32, 64, 64, 128, 128]
    assert scales(growth=4.0) == [64, 64, 256, 256, 1024, 1024]
    assert scales(interval=1) == [64, 128, 256, 512, 1024, 2048]
    assert scales(ceiling=128.0) == [64, 64, 128, 128, 128, 128]
    bad = {0, 1, 2, 3}
    assert scales(bad) == [64, 32, 16, 8, 4, 4]
    assert scales(bad, backoff=0.25) == [64, 16, 4, 1, 1, 1]
    assert scales(bad, hysteresis=3) == [64, 64, 64, 32, 16, 16]
    assert scales(bad, floor=16.0) == [64, 32, 16, 16, 16, 16]


def left_at(bad: set[int], steps: int = 12, *, dynamic: bool = True, **how: Any) -> int | None:
    """The step that fp16 is given up at."""
    seen: list[int] = []

    def look(net: nn.Module, batch: Any) -> torch.Tensor:
        seen.append(len(seen))
        return mse(net, batch) * (math.inf if seen[-1] in bad else 1.0)

    moving = FallbackSettings(**{"window": 10, "max_skipped": 2, "at_floor": 9, **how})
    ran = Ran(steps=steps, precision="fp16", dynamic=dynamic, moving=moving, loss=look,
              scaler=ScalerSettings(initial=1.0, floor=1.0))  # fmt: skip
    return next((row.step for row in ran.rows if row.precision != "fp16"), None)


@claim("dynamic")
def _(_: Path) -> None:
    assert left_at({0, 1, 2, 3}) is not None
    assert left_at({0, 1, 2, 3}, dynamic=False) is None


@claim("moving.window", "moving.max_skipped", "moving.at_floor")
def _(_: Path) -> None:
    apart = {0, 5}
    assert left_at(apart) is not None
    assert left_at(apart, window=3) is None
    assert left_at(apart, max_skipped=3) is None
    together = {0, 1, 2}
    soon, late = (left_at(together, max_skipped=9, at_floor=one) for one in (2, 3))
    assert soon is not None
    assert late is not None
    assert soon < late


def train_language_model(**changed: Any) -> tuple[Trainer, list[torch.dtype]]:
    """A step of a small one on the CPU in bf16; the formats of the states between its blocks."""
    net, seen = Gpt(PRESETS["nano"]), []
    net.blocks[1].register_forward_pre_hook(lambda module, given: seen.append(given[0].dtype))
    loading = LoadingConfig(num_workers=0)
    config = TrainConfig(batch=2, steps=1, precision="bf16", loading=loading, **changed)
    data = [{"tokens": torch.arange(17) + number} for number in range(4)]
    with Trainer(net, data=data, loss=LanguageLoss(), config=config, device="cpu") as trainer:
        trainer.fit()
    return trainer, seen


@claim("half_states")
def _(_: Path) -> None:
    for option, dtype in ((True, torch.bfloat16), (False, torch.float32), ("auto", torch.float32)):
        trainer, seen = train_language_model(half_states=option)
        assert set(seen) == {dtype}  # `auto`: what gains on a GPU costs on a CPU
        assert not any(module._forward_hooks for module in trainer.model.modules())


@claim("fp8_head")
def _(_: Path) -> None:
    for option, fp8 in ((True, True), (False, False), ("auto", False)):
        trainer, _seen = train_language_model(fp8_head=option)
        assert isinstance(trainer.loss, LanguageLoss)
        assert trainer.loss.fp8 is fp8  # `auto`: a CPU has no fp8 products


# ---------------------------------------------------------------- memory


@claim("memory_gb", "memory_fraction")
def _(_: Path) -> None:
    """What the search for a micro batch may take."""

    def budget(**changed: Any) -> int:
        ran = Ran(batch=1, micro_batch="auto", steps=1, **changed)
        assert ran.run.fit is not None
        assert ran.run.fit.budget_bytes is not None
        return ran.run.fit.budget_bytes

    assert budget(memory_gb=1.5) == 1.5 * GIB  # little: more than is free is no budget
    assert budget(memory_gb=2.0) == 2 * GIB
    assert budget(memory_fraction=0.4) / budget(memory_fraction=0.2) == pytest.approx(2, rel=0.01)


@claim("recompute", "recompute_types")
def _(_: Path) -> None:
    def calls(**changed: Any) -> tuple[int, int]:
        net = Ran(steps=1, **changed).net
        return net.blocks[0].calls, net.others[0].calls

    assert calls() == (1, 1)
    assert calls(recompute="blocks", recompute_types=("Block",)) == (2, 1)
    assert calls(recompute="blocks", recompute_types=("Other",)) == (1, 2)
    assert 2 in calls(recompute="blocks")  # found by themselves
    eager = Ran(steps=1, recompute="selective", recompute_types=("Block",), compile=False)
    assert (eager.net.blocks[0].calls, eager.net.others[0].calls) == (2, 1)
    assert "whole blocks" in eager.of("recompute")[0]


@claim("offload_optimizer")
def _(_: Path) -> None:
    """The state's place is seen on a GPU; here, that another step gives the same numbers."""
    plain, offloaded = (Ran(offload_optimizer=one) for one in (False, True))
    assert "step" not in vars(plain.optimizer)
    assert "step" in vars(offloaded.optimizer)
    assert plain.curve == offloaded.curve


class Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@claim("loss_chunks")
def _(_: Path) -> None:
    from anyrig.training.models.gpt import Gpt, GptShape

    rows = [{"tokens": torch.randint(50, (9,))} for _ in range(8)]
    for chunks in (1, 4):
        with Calls() as seen:
            Ran(before=lambda: Gpt(GptShape(50, 8, 1, 2, 16)), data=rows, loss=LanguageLoss(),
                steps=1, loss_chunks=chunks)  # fmt: skip
        assert seen.names.count("aten::logsumexp") == chunks


# ---------------------------------------------------------------- speed


@claim("compile")
def _(_: Path) -> None:
    """Whether the model is one that compiles when it is called; test_compiling calls it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what torch's compiler imports
        assert Ran(compile=True, only_open=True).compiled
    assert not Ran(compile=False, only_open=True).compiled


@claim("cudnn_benchmark")
def _(_: Path) -> None:
    for how in (True, False):
        ran = Ran(cudnn_benchmark=how, steps=1, at=lambda _: torch.backends.cudnn.benchmark)
        assert ran.inside[-1] is how


@claim("fused_optimizer")
def _(_: Path) -> None:
    for how in (True, False):
        groups = Ran(fused_optimizer=how, steps=1).optimizer.param_groups
        assert bool(groups[0]["fused"]) is how


class Workers(torch.utils.data.Dataset[Any]):
    """Items that say which worker read them."""

    def __init__(self) -> None:
        self.read: Any = Value("i", 0)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        with self.read.get_lock():
            self.read.value += 1
        return torch.randn(6), torch.full((1,), float(os.getpid()))


def by(steps: int = 8, epochs: int = 1, **how: Any) -> list[set[int]]:
    """The processes that read the items of each epoch."""
    seen: list[int] = []

    def look(net: nn.Module, batch: Any) -> torch.Tensor:
        seen.append(int(batch[1][0]))
        return mse(net, (batch[0], batch[1] * 0))

    Ran(steps=steps * epochs, data=Workers(), loss=look, loading=LoadingConfig(**how))
    return [set(seen[start : start + steps]) for start in range(0, len(seen), steps)]


@claim("loading.num_workers")
def _(_: Path) -> None:
    assert by(num_workers=0) == [{os.getpid()}]
    (two,) = by(num_workers=2)
    assert len(two) == 2
    assert os.getpid() not in two


@claim("loading.persistent_workers")
def _(_: Path) -> None:
    first, second = by(epochs=2, num_workers=1, persistent_workers=True)
    assert first == second
    first, second = by(epochs=2, num_workers=1, persistent_workers=False)
    assert not first & second


@claim("loading.prefetch_factor")
def _(_: Path) -> None:
    """How many items are read while the first step waits for more to come."""

    def read(ahead: int, wanted: int) -> int:
        items = Workers()
        seen: list[int] = []

        def look(net: nn.Module, batch: Any) -> torch.Tensor:
            if not seen:
                end = time.monotonic() + 10
                while items.read.value < wanted and time.monotonic() < end:
                    time.sleep(0.01)
                time.sleep(0.1)
                seen.append(items.read.value)
            return mse(net, (batch[0], batch[1] * 0))

        loading = LoadingConfig(num_workers=1, prefetch_factor=ahead)
        before = items.read.value
        Ran(steps=8, data=items, loss=look, loading=loading)
        return int(seen[0] - before)

    assert read(1, 16) < read(5, 48)


@claim("loading.pin_memory")
def _(_: Path) -> None:
    """A CPU has no use for it and says so; test_head_gpu looks at the batches."""
    told = {how: Ran(steps=1, loading=LoadingConfig(num_workers=0, pin_memory=how)).summary.reasons
            for how in (True, False)}  # fmt: skip
    assert any("although requested" in reason for reason in told[True])
    assert not any("although requested" in reason for reason in told[False])


# ---------------------------------------------------------------- what is kept and shown


def kept(folder: Path, steps: int = 8, **how: Any) -> list[int]:
    """The steps whose checkpoints are there at the end."""
    where = folder / str(len(list(folder.iterdir())))
    keeping = CheckpointConfig(**{"every_s": 0, "every_steps": 1, "last": 1, "best": 0, **how})
    return Ran(where, steps=steps, checkpoints=keeping).kept


@claim("checkpoints.last", "checkpoints.every_kept")
def _(folder: Path) -> None:
    assert kept(folder) == [8]
    assert kept(folder, last=3) == [6, 7, 8]
    assert kept(folder, every_kept=3) == [3, 6, 8]


@claim("checkpoints.every_steps", "checkpoints.every_s")
def _(folder: Path) -> None:
    assert kept(folder, every_steps=2, last=9) == [2, 4, 6, 8]
    assert kept(folder, every_steps=0, last=9) == [8]
    assert kept(folder, every_steps=0, every_s=1e-9, last=9) == [1, 2, 3, 4, 5, 6, 7, 8]


@claim("checkpoints.best")
def _(folder: Path) -> None:
    """The rate is far too high: the first measurement is the best one."""
    found = []
    for best in (0, 1):
        keeping = CheckpointConfig(every_s=0, every_steps=1, last=1, best=best)
        ran = Ran(folder / str(best), checkpoints=keeping, validation=data(16, 5), validate_every=1,
                  learning_rate=3.0, optimizer="sgd", max_norm=0.0)  # fmt: skip
        found.append(ran.kept)
    assert found[0] == [4]
    assert len(found[1]) == 2


@claim("checkpoints.asynchronous")
def _(folder: Path) -> None:
    """Whether the step after a save begins while a thread may still write."""

    def writing(ran: Ran) -> bool:
        checkpoints = ran.trainer.open().checkpoints
        assert checkpoints is not None
        return checkpoints._thread is not None

    for how in (True, False):
        keeping = CheckpointConfig(every_s=0, every_steps=1, asynchronous=how)
        ran = Ran(folder / str(how), checkpoints=keeping, at=writing)
        assert any(ran.inside[1:]) is how


@claim("validate_every")
def _(_: Path) -> None:
    held = data(8, 5)
    counts = []
    for every in (0, 1, 2):
        ran = Ran(validation=held, validate_every=every)
        counts.append(len(ran.net.seen) - 4)
    assert counts == [1, 4, 2]


@claim("log_every")
def _(folder: Path) -> None:
    for every in (1, 2):
        ran = Ran(folder / str(every), log_every=every)
        assert [row.num_steps for row in ran.rows] == [every] * (4 // every)


@claim("tensorboard")
def _(folder: Path) -> None:
    for how in (False, True):
        where = folder / str(how)
        Ran(where, tensorboard=how)
        assert bool(list(where.rglob("events.out.tfevents*"))) is how


@claim("name_nonfinite")
def _(_: Path) -> None:
    for how in (True, False):
        ran = Ran(steps=8, name_nonfinite=how, loss=lambda net, batch: mse(net, batch) * math.nan)
        assert bool(ran.of("not finite")) is how


# ---------------------------------------------------------------- what came with this version


@claim("seed_items")
def _(_: Path) -> None:
    """test_data looks at what is drawn."""

    class Drawing(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 16

        def __getitem__(self, number: int) -> Any:
            return torch.rand(6), torch.zeros(1)

    def first(seeded: bool) -> list[float]:
        return Ran(steps=2, data=Drawing(), seed_items=seeded).curve

    assert first(True) == first(True)
    assert first(True) != first(False)


@claim("ema")
def _(_: Path) -> None:
    plain, averaged = Ran(steps=8), Ran(steps=8, ema=0.9)
    assert plain.curve == averaged.curve
    moved = [
        (one.end["last.weight"] - one.start["last.weight"]).norm() for one in (plain, averaged)
    ]
    assert 0 < moved[1] < moved[0]


@claim("best_metric", "best_is", "load_best", "patience")
def _(folder: Path) -> None:
    """The rate is far too high: the first measurement is the one with the lowest loss."""

    def run(name: str, **changed: Any) -> Ran:
        return Ran(
            folder / name, validation=data(16, 5), validate_every=1, learning_rate=3.0, steps=6,
            optimizer="sgd", max_norm=0.0, **changed,
        )  # fmt: skip

    last = run("last")
    best = run("best", load_best=True)
    assert not torch.equal(last.end["last.weight"], best.end["last.weight"])
    worst = run("worst", load_best=True, best_is="highest")
    assert not torch.equal(worst.end["last.weight"], best.end["last.weight"])
    with pytest.raises(InvalidSettingError, match="'accuracy', which is not measured"):
        run("other", best_metric="accuracy", load_best=True)
    assert last.summary.steps == 6
    early = run("early", patience=2)
    assert early.summary.stopped_early
    assert early.summary.finished
    assert early.summary.steps < 6


@pytest.mark.parametrize(
    ("name", "highest"),
    [("val_loss", False), ("MeanSquaredError", False), ("mae", False), ("val-WER", False),
     ("accuracy", True), ("answers", True), ("macro_f1", True)],
)  # fmt: skip
def test_which_value_of_a_metric_is_the_best_is_known_by_its_name(name: str, highest: bool) -> None:
    assert TrainConfig(best_metric=name).highest_is_best == highest


def together() -> dict[str, Claim]:
    """A claim on several fields is run once."""
    found: dict[Claim, list[str]] = {}
    for name, one in CLAIMS.items():
        found.setdefault(one, []).append(name)
    return {" ".join(names): one for one, names in found.items()}


@pytest.mark.parametrize("names", sorted(together()))
def test_a_field_changes_what_is_measured(names: str, tmp_path: Path) -> None:
    together()[names](tmp_path)


# ---------------------------------------------------------------- refused

NONSENSE: list[Any] = [None, -1, 1.5, math.nan, math.inf, "nonsense", "", (), (2.0, 2.0), [1], {},
                       object()]  # fmt: skip
TEXTS = ("best_metric",)
"""Fields that may be any text."""


def made(table: str | None, name: str, value: Any) -> TrainConfig:
    if table is None:
        return TrainConfig(**{name: value})
    inner: Any = TABLES[table]
    given: Any = {table: inner(**{name: value})}
    return TrainConfig(**given)


def test_nonsense_is_refused_with_what_it_must_be(subtests: pytest.Subtests) -> None:
    own = {name for name in fields() if not name.startswith(("scaler.", "moving."))}
    for field in sorted(own - set(TEXTS)):
        table, _, name = field.rpartition(".")
        with subtests.test(field=field):
            refused = 0
            for value in NONSENSE:
                try:
                    made(table or None, name, value)
                except InvalidSettingError as error:
                    found = (name in error.message, "It must be" in error.hint)
                    refused += found == (True, True)
            assert refused > 5


@pytest.mark.parametrize("kind", [ScalerSettings, FallbackSettings])
def test_nonsense_in_the_scaler_is_refused(kind: Any) -> None:
    for one in dataclasses.fields(kind):
        for value in (-1, "nonsense", math.nan, None):
            with pytest.raises(InvalidSettingError, match=one.name) as caught:
                kind(**{one.name: value})
            assert caught.value.hint


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"memory_gb": 1.0, "memory_fraction": 0.5}, "memory_fraction"),
        ({"strategy": "fsdp", "shares": "measured"}, "fsdp"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSettingError, match=named) as caught:
        TrainConfig(**given)
    assert caught.value.hint.startswith("Set ")


@pytest.mark.parametrize("table", sorted(TABLES))
def test_a_table_is_a_table(table: str) -> None:
    with pytest.raises(InvalidSettingError, match=table):
        TrainConfig.from_table({table: 3})
    wrong: Any = {table: {"nothing": 1}}
    with pytest.raises(InvalidSettingError, match=table):
        TrainConfig(**wrong)  # not through `of`: a mapping is no table of settings yet


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ({"learning_rat": 1}, "learning_rate"),
        ({"microbatch": 1}, "micro_batch"),
        ({"loading": {"workers": 1}}, "num_workers"),
        ({"checkpoints": {"every_step": 1}}, "every_steps"),
        ({"keeping": {"every_step": 1}}, "every_steps"),
        ({"scaler": {"inital": 1.0}}, "initial"),
        ({"moving": {"windows": 1}}, "window"),
        ({"gradient_clip_val": 1.0}, "max_norm"),
        ({"num_train_epochs": 3}, "epochs"),
    ],
)
def test_an_unknown_key_names_the_nearest(given: dict[str, Any], near: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        TrainConfig.from_table(given)
    assert near in caught.value.hint


def test_tables_are_dictionaries_in_python() -> None:
    values: dict[str, Any] = {"checkpoints": {"every_steps": 5}, "loading": {"num_workers": 0}}
    config = TrainConfig(**values)
    assert (config.checkpoints.every_steps, config.loading.num_workers) == (5, 0)
    values = {"checkpoints": {"every_step": 5}}
    with pytest.raises(InvalidSettingError) as caught:
        TrainConfig(**values)
    assert "every_steps" in caught.value.hint


def test_what_a_file_says_is_what_is_set() -> None:
    found = TrainConfig.from_table(
        {"batch": 4, "betas": [0, 0.9], "recompute_types": ["Block"], "warmup": 3,
         "loading": {"num_workers": 2}, "checkpoints": {"every_s": 5}, "scaler": {"initial": 8},
         "moving": {"window": 30}}
    )  # fmt: skip
    assert found.betas == (0, 0.9)
    assert found.recompute_types == ("Block",)
    assert found.loading.num_workers == 2
    assert found.checkpoints.every_s == 5
    assert found.scaler.initial == 8
    assert found.moving.window == 30


SPELLINGS: list[tuple[Any, str]] = [
    (torch.float16, "fp16"), (torch.half, "fp16"), ("float16", "fp16"), ("fp16", "fp16"),
    ("half", "fp16"), ("torch.float16", "fp16"), ("FP16", "fp16"), ("16-mixed", "fp16"),
    ("f16", "fp16"), (torch.bfloat16, "bf16"), ("bfloat16", "bf16"), ("bf16", "bf16"),
    ("bf16-mixed", "bf16"), ("torch.bfloat16", "bf16"), (torch.float32, "fp32"),
    (torch.float, "fp32"), ("float32", "fp32"), ("fp32", "fp32"), ("float", "fp32"),
    ("single", "fp32"), ("32", "fp32"), ("tf32", "tf32"), ("TF32", "tf32"), ("fp8", "fp8"),
    ("float8", "fp8"), (torch.float8_e4m3fn, "fp8"), ("float8_e5m2", "fp8"), ("auto", "auto"),
]  # fmt: skip


def test_number_formats_are_known_by_their_usual_names(subtests: pytest.Subtests) -> None:
    for given, wanted in SPELLINGS:
        with subtests.test(given=given, wanted=wanted):
            assert TrainConfig(precision=given).precision == wanted
            assert TrainConfig(dtype=given).precision == wanted  # type: ignore[call-arg]
            assert TrainConfig.from_table({"dtype": given}).precision == wanted
            assert TrainConfig.from_table({"precision": given}).precision == wanted
            if wanted in ("fp16", "bf16", "fp32"):
                assert make_policy(given, "cpu", training=True).precision == wanted


@pytest.mark.parametrize("given", ["float17", "int8", torch.int8, 3.5, None, "", ["fp16"], True])
def test_what_is_no_number_format_is_refused(given: Any) -> None:
    with pytest.raises(InvalidSettingError, match="precision") as caught:
        TrainConfig(precision=given)
    assert "bf16" in caught.value.hint


def test_fp64_is_a_matter_of_the_model() -> None:
    with pytest.raises(InvalidSettingError, match="precision") as caught:
        TrainConfig(precision="float64")
    assert "model.double()" in caught.value.hint


def test_two_names_of_one_setting_must_agree() -> None:
    assert TrainConfig.from_table({"precision": "bf16", "dtype": "bfloat16"}).precision == "bf16"
    with pytest.raises(InvalidSettingError, match="dtype and precision") as caught:
        TrainConfig.from_table({"precision": "bf16", "dtype": "float16"})
    assert "one of them" in caught.value.hint
    with pytest.raises(InvalidSettingError, match="offload_optimiser and offload_optimizer"):
        TrainConfig(offload_optimizer=True, offload_optimiser=False)  # type: ignore[call-arg]


def test_settings_take_the_older_spelling() -> None:
    for made in (
        TrainConfig(offload_optimiser=True, fused_optimiser=False),  # type: ignore[call-arg]
        TrainConfig.from_table({"offload_optimiser": True, "fused_optimiser": False}),
        TrainConfig(offload_optimizer=True, fused_optimizer=False),
    ):
        assert made == TrainConfig(offload_optimizer=True, fused_optimizer=False)
        assert made.offload_optimiser is True  # type: ignore[attr-defined]
        assert made.fused_optimiser is False  # type: ignore[attr-defined]
        later = dataclasses.replace(made, batch=8)
        assert (later.batch, later.offload_optimizer) == (8, True)
    names = {one.name for one in dataclasses.fields(TrainConfig)}
    assert {"offload_optimizer", "fused_optimizer"} <= names
    assert not any("optimiser" in name for name in names)


def _loss(net: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = net(batch).square().mean()
    return found


@pytest.mark.parametrize("name", ["optimizer", "optimiser"])
def test_a_trainer_takes_both_spellings(name: str) -> None:
    net, data = nn.Linear(4, 1), torch.ones(8, 4)
    settings = TrainConfig(batch=4, micro_batch=4)
    options: Any = {name: "sgd"}
    with Trainer(net, data=data, loss=_loss, config=settings, device="cpu", **options) as trainer:
        trainer.run()
        assert any(reason.startswith("optimizer: sgd") for reason in trainer.reasons)


def test_a_trainer_refuses_two_optimizers() -> None:
    two: Any = {"optimizer": "sgd", "optimiser": "adamw"}
    with pytest.raises(InvalidSettingError, match="optimiser and optimizer"):
        Trainer(nn.Linear(4, 1), data=torch.ones(8, 4), loss=_loss, **two)


def test_options_of_0_1_0_are_read_and_what_is_gone_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = TrainConfig.from_table(
        {"batch": 8, "cuda_graphs": False, "offload_activations": True, "prometheus": True,
         "half_weights": True, "keeping": {"last": 3}, "moving": {"most_skipped": 9}}
    )  # fmt: skip
    assert (found.batch, found.checkpoints.last, found.moving.max_skipped) == (8, 3, 9)
    for name in ("cuda_graphs", "half_weights", "offload_activations", "prometheus"):
        assert f"train.{name} is no longer an option" in caplog.text
