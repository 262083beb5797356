"""GPT-2 124M trained by us, a plain loop, accelerate and Lightning: speed, memory, loss.

One model class (`anyrig.training.models.gpt`), the same tokens, fused AdamW, gradients clipped at
1, bf16, compiled, 1,024 tokens an item. All are timed in the same loop: after some warm-up steps
three windows of ten steps, each ended by a synchronisation; the median window counts. Memory is the
peak of live tensors during those windows.

Tokens come from a Markov chain with eight likely successors for each token: the loss falls from
10.8 towards 2.1, that of eight equal ones. Loss curves see every item once, so nothing is
memorised. Each side uses the attention kernel that it chooses: torch's default for the peers, a
test of the model's own calls for us.

On a CPU a tiny model runs through all of it, to show that the script works.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.training import TrainConfig, Trainer
from anyrig.training.callbacks import Callback
from anyrig.training.config import LoadingConfig
from anyrig.training.flops import count_flops
from anyrig.training.losses import LanguageLoss
from anyrig.training.models.gpt import Gpt, GptShape
from anyrig.training.step import StepResult
from anyrig.units import GIB
from benchmarks.harness import Row
from benchmarks.torch_tools import peak_bytes, release_memory, reset_peak, synchronize

WARM_UP, WINDOW, NUM_WINDOWS = 8, 10, 3
STEPS = WARM_UP + WINDOW * NUM_WINDOWS
CURVE_STEPS, SMOOTH = 500, 50
LEARNING_RATE = 6e-4
VOCABULARY = 2048
"""Tokens that occur: few enough to be learnt in 500 steps."""


@dataclass(frozen=True)
class Size:
    shape: GptShape
    length: int
    batch: int
    large: int
    device: str
    curve: int


FULL = Size(GptShape(), 1024, 32, 128, "cuda", CURVE_STEPS)
TINY = Size(GptShape(512, 64, 2, 2, 64), 64, 4, 8, "cpu", 20)


@dataclass
class StepTimes:
    name: str
    windows: list[float] = field(default_factory=list)
    """Seconds a step."""
    peak_bytes: int = 0
    error: str = ""
    reasons: list[str] = field(default_factory=list)

    @property
    def step_s(self) -> float:
        return statistics.median(self.windows) if self.windows else float("inf")

    @property
    def spread(self) -> str:
        if not self.windows:
            return self.error
        low, high = 1000 * min(self.windows), 1000 * max(self.windows)
        return f"{low:.1f}-{high:.1f} ms of {len(self.windows)} windows"


class StepClock(Callback):
    """Called after every step; synchronises where a window starts and ends."""

    def __init__(self, times: StepTimes, device: str) -> None:
        self._times, self._device, self._count = times, device, 0
        self._start = 0.0

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        self.step()

    def step(self) -> None:
        self._count += 1
        past = self._count - WARM_UP
        if past < 0 or past % WINDOW:
            return
        synchronize(self._device)
        now = time.perf_counter()
        if past == 0:
            reset_peak(self._device)
        else:
            self._times.windows.append((now - self._start) / WINDOW)
            self._times.peak_bytes = peak_bytes(self._device)
        self._start = time.perf_counter()


class MarkovTokens(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Items of a chain with eight likely successors for each token."""

    def __init__(self, num_items: int, size: Size, seed: int = 1) -> None:
        generator = torch.Generator().manual_seed(seed)
        vocabulary = min(VOCABULARY, size.shape.vocabulary)
        same = torch.Generator().manual_seed(0)
        table = torch.randint(vocabulary, (vocabulary, 8), generator=same)
        rows = torch.empty(num_items, size.length + 1, dtype=torch.int64)
        rows[:, 0] = torch.randint(vocabulary, (num_items,), generator=generator)
        for place in range(size.length):
            pick = torch.randint(8, (num_items,), generator=generator)
            rows[:, place + 1] = table[rows[:, place], pick]
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, item: int) -> dict[str, torch.Tensor]:
        return {"tokens": self.rows[item]}


def run(hardware: str) -> list[Row]:
    size = FULL if hardware == "h200" else TINY
    data = MarkovTokens(size.large * 8, size)
    at_small, at_large = (
        [run_timed(f"{name}, compiled", loop, size, batch, data) for name, loop in LOOPS.items()]
        for batch in (size.batch, size.large)
    )
    ours: dict[str, dict[str, Any]] = {
        "ours, bf16": {},
        "ours, fp8 head, bf16 weights": {"half_weights": True, "precision": "fp8"},
    }
    small = [run_ours(name, size, size.batch, data, **changes) for name, changes in ours.items()]
    ours["ours, selective recompute"] = {"recompute": "selective"}
    large = [run_ours(name, size, size.large, data, **changes) for name, changes in ours.items()]
    return [
        *_speed_rows(size, at_small, at_large, small, large),
        *_memory(size, at_large, large),
        *_peak_share(size, small, large),
        *_curves(size),
    ]


def _speed_rows(
    size: Size,
    at_small: list[StepTimes],
    at_large: list[StepTimes],
    small: list[StepTimes],
    large: list[StepTimes],
) -> list[Row]:
    fastest = min(at_small, key=lambda one: one.step_s)
    rows = [
        Row(f"GPT-2 124M, {size.batch} items, a step: {one.name}", one.step_s * 1000, "ms",
            spread=one.spread) for one in at_small
    ]  # fmt: skip
    first = small[0]
    rows.append(
        Row(f"{first.name}: a step of {size.batch}", first.step_s * 1000, "ms",
            fastest.step_s * 1000, f"{fastest.name}, the fastest", high=1.0, judge="ratio",
            spread=first.spread)
    )  # fmt: skip
    best = max((_tokens_per_s(size, one, batch), one.name, batch)
               for batch, many in ((size.batch, at_small), (size.large, at_large))
               for one in many)  # fmt: skip
    for number, one in enumerate(large[:2]):
        own, batch = max((_tokens_per_s(size, small[number], size.batch), size.batch),
                         (_tokens_per_s(size, one, size.large), size.large))  # fmt: skip
        rows.append(
            Row(f"{one.name}: tokens a second at its best batch ({batch})", own, "tokens/s",
                best[0], f"{best[1]} at {best[2]}", low=1.0 if number == 0 else 1.1, judge="ratio",
                spread=one.spread)
        )  # fmt: skip
    return rows


def _tokens_per_s(size: Size, one: StepTimes, batch: int) -> float:
    return batch * size.length / one.step_s


def _memory(size: Size, peers: list[StepTimes], large: list[StepTimes]) -> list[Row]:
    lean = min(peers, key=lambda one: one.peak_bytes or 1 << 60)
    fastest = min(peers, key=lambda one: one.step_s)
    rows = [Row(f"{one.name}: memory at {size.large} items", one.peak_bytes / GIB, "GiB")
            for one in peers]  # fmt: skip
    for one, memory, speed in ((large[0], 0.85, 1.0), (large[2], 0.7, 1.1)):
        rows.append(Row(f"{one.name}: memory at {size.large} items", one.peak_bytes / GIB, "GiB",
                        lean.peak_bytes / GIB or None, f"{lean.name}, the leanest", high=memory,
                        judge="ratio"))  # fmt: skip
        rows.append(Row(f"{one.name}: a step of {size.large}", one.step_s * 1000, "ms",
                        fastest.step_s * 1000, f"{fastest.name}, the fastest", high=speed,
                        judge="ratio", spread=one.spread))  # fmt: skip
    return rows


def _peak_share(size: Size, small: list[StepTimes], large: list[StepTimes]) -> list[Row]:
    """Useful FLOPs as a share of what the device was measured to do in bf16, in this run."""
    if size.device != "cuda":
        return []
    model = Gpt(size.shape)
    counted = count_flops(model, _plain_loss, {"tokens": torch.zeros(1, size.length + 1).long()}, 1)
    assert counted is not None
    peak = _peak_flops()
    rows = [Row("measured bf16 peak, 8192-cubed product", peak / 1e12, "TFLOP/s")]
    for batch, runs in ((size.batch, small), (size.large, large)):
        for one in runs:
            share = counted.per_sample * batch / one.step_s / peak
            rows.append(Row(f"{one.name}, {batch} items: share of the bf16 peak", share * 100, "%"))
    return rows


def _peak_flops() -> float:
    side = 8192
    left, right = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    best = float("inf")
    for _ in range(5):
        time.sleep(0.2)  # a product after another runs into the power limit
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            left @ right
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / 10)
    return 2 * side**3 / best


# -- training loops --------------------------------------------------------------------------------


def run_timed(
    name: str, loop: Callable[..., None], size: Size, batch: int, data: MarkovTokens
) -> StepTimes:
    times, start = StepTimes(name), time.perf_counter()
    try:
        loop(times, size, batch, data)
    except Exception as error:  # noqa: BLE001  # a peer that cannot run is a result
        times.error = f"{type(error).__name__}: {error}"[:200]
    torch._dynamo.reset()
    release_memory(size.device)
    print(f"{name} at {batch}: {times.step_s * 1000:.2f} ms, {times.peak_bytes / GIB:.1f} GiB, "
          f"{times.spread} ({time.perf_counter() - start:.0f} s in all) {'; '.join(times.reasons)}",
          flush=True)  # fmt: skip
    return times


def _plain_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    tokens = batch["tokens"]
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, -2).float(), tokens[:, 1:].flatten())


def make_model(size: Size) -> nn.Module:
    torch.manual_seed(0)
    return Gpt(size.shape)


def make_loader(size: Size, batch: int, data: MarkovTokens) -> torch.utils.data.DataLoader[Any]:
    return torch.utils.data.DataLoader(
        data, batch, shuffle=False, drop_last=True, pin_memory=size.device == "cuda"
    )


def repeat(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


class ModelWithLoss(nn.Module):
    """Model and loss as one, so that a peer's compiler sees all of it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return _plain_loss(self.model, batch)


def plain_loop(times: StepTimes, size: Size, batch: int, data: MarkovTokens) -> None:
    """A loop as PyTorch's pages show it."""
    combined = ModelWithLoss(make_model(size)).to(size.device)
    compiled = torch.compile(combined) if size.device == "cuda" else combined
    optimiser = torch.optim.AdamW(combined.parameters(), lr=LEARNING_RATE, fused=True)
    clock, batches = StepClock(times, size.device), repeat(make_loader(size, batch, data))
    for _ in range(STEPS):
        given = {"tokens": next(batches)["tokens"].to(size.device, non_blocking=True)}
        with torch.autocast(size.device, torch.bfloat16):
            loss = compiled(given)
        loss.backward()
        nn.utils.clip_grad_norm_(combined.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        clock.step()


def accelerate_loop(times: StepTimes, size: Size, batch: int, data: MarkovTokens) -> None:
    from accelerate import Accelerator

    accelerator: Any = Accelerator(mixed_precision="bf16", cpu=size.device == "cpu")
    combined = ModelWithLoss(make_model(size))
    optimiser = torch.optim.AdamW(
        combined.to(accelerator.device).parameters(), lr=LEARNING_RATE, fused=True
    )
    compiled = torch.compile(combined) if size.device == "cuda" else combined
    model, optimiser, loader = accelerator.prepare(
        compiled, optimiser, make_loader(size, batch, data)
    )
    clock, batches = StepClock(times, size.device), repeat(loader)
    for _ in range(STEPS):
        loss = model(next(batches))
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        clock.step()


def lightning_loop(times: StepTimes, size: Size, batch: int, data: MarkovTokens) -> None:
    import logging
    import warnings

    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    clock = StepClock(times, size.device)

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.combined = ModelWithLoss(make_model(size))

        def training_step(self, given: Any, number: int) -> torch.Tensor:
            loss: torch.Tensor = self.combined(given)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=LEARNING_RATE, fused=True)

        def configure_gradient_clipping(self, *args: Any, **options: Any) -> None:
            # Lightning's own refuses fused optimisers.
            nn.utils.clip_grad_norm_(self.parameters(), 1.0)

        def on_train_batch_end(self, *args: Any) -> None:
            clock.step()

    module = Module()
    if size.device == "cuda":
        module.combined.compile()
    trainer = lightning.Trainer(
        accelerator="gpu" if size.device == "cuda" else "cpu", devices=1, precision="bf16-mixed",
        max_steps=STEPS, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, make_loader(size, batch, data))


LOOPS = {"plain": plain_loop, "accelerated": accelerate_loop, "by lightning": lightning_loop}


def run_ours(name: str, size: Size, batch: int, data: MarkovTokens, **changes: Any) -> StepTimes:
    def loop(times: StepTimes, size: Size, batch: int, data: MarkovTokens) -> None:
        _train(times, size, batch, data, STEPS, **changes)

    return run_timed(name, loop, size, batch, data)


def _train(
    times: StepTimes, size: Size, batch: int, data: MarkovTokens, steps: int, **changes: Any
) -> list[float]:
    """Train with these settings; return the loss of each step."""
    options: dict[str, Any] = {
        "batch": batch, "micro_batch": batch, "steps": steps, "learning_rate": LEARNING_RATE,
        "precision": "bf16", "shuffle": False, "max_norm": 1.0, "schedule": "constant",
        "warmup": 0.0, "weight_decay": 0.01, "betas": (0.9, 0.999),
        "loading": LoadingConfig(num_workers=0), **changes,
    }  # fmt: skip
    trainer = Trainer(
        make_model(size), data=data, loss=LanguageLoss(), config=TrainConfig(**options),
        units=_count_tokens, callbacks=[StepClock(times, size.device)],
        device="cuda:0" if size.device == "cuda" else "cpu",
    )  # fmt: skip
    with trainer:
        result = trainer.fit()
        times.reasons = [one for one in result.reasons if one.startswith(("attention", "compile"))]
        return [row.loss for row in trainer.history()]


def _count_tokens(batch: dict[str, torch.Tensor]) -> int:
    return batch["tokens"][:, 1:].numel()


# -- the loss --------------------------------------------------------------------------------------


def _curves(size: Size) -> list[Row]:
    """The same weights and tokens for 500 steps in each format: means of 50 steps compared."""
    data = MarkovTokens(size.batch * size.curve, size, seed=2)
    formats: dict[str, dict[str, Any]] = {
        "bf16": {},
        "fp8 head, bf16 weights": {"half_weights": True, "precision": "fp8"},
    }
    means = {}
    for name, changes in formats.items():
        if size.device == "cpu":
            changes = {**changes, "precision": "bf16"}
        options = {**changes, "warmup": 50, "betas": (0.9, 0.95), "log_every": 1}
        curve = _train(StepTimes(name), size, size.batch, data, size.curve, **options)
        torch._dynamo.reset()
        release_memory(size.device)
        print(f"{name}: {curve[0]:.4f} to {curve[-1]:.4f}", flush=True)
        means[name] = _window_means(curve)
    reference, name = means["bf16"], "fp8 head, bf16 weights"
    apart = max(abs(one / other - 1) for one, other in zip(means[name], reference, strict=True))
    return [
        Row(f"loss after {size.curve} steps, bf16 autocast", reference[-1], "nats"),
        Row(f"loss curve of {name}: largest distance to bf16 autocast", apart * 100, "%", high=1.0,
            spread=f"ends at {means[name][-1]:.4f}"),
    ]  # fmt: skip


def _window_means(curve: list[float]) -> list[float]:
    window = min(SMOOTH, len(curve))
    return [statistics.fmean(curve[at : at + window]) for at in range(0, len(curve), window)]
