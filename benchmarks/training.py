"""GPT-2 124M trained by us, a plain loop, accelerate and Lightning: speed, memory, loss.

One model class (`anyrig.training.models.gpt`), the same tokens, fused AdamW, gradients clipped at
1, bf16, compiled, 1,024 tokens an item. All are timed in the same loop: after some warm-up steps
three windows of ten steps, each ended by a synchronisation; the median window counts. Memory is the
peak of live tensors during those windows.

Tokens come from a Markov chain with eight likely successors for each token: the loss falls from
10.8 towards 2.1, that of eight equal ones. Loss curves see every item once, so nothing is
memorised. The plain loop runs three times: with torch's flash attention, with cuDNN's, and with
cuDNN's and the states between blocks in bf16 (one cast after the embeddings), so that it is plain
what our loop gains and what kernels and formats gain. Ours runs as it comes, and with every choice
taken back (`half_states` and `fp8_head` off).

On a CPU a tiny model runs through all of it, to show that the script works.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

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
CURVE_STEPS, SMOOTH, SEEDS = 500, 20, 3
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
        [run_timed(f"{name}, compiled", loop, size, batch, data) for name, loop in loops.items()]
        for batch, loops in ((size.batch, {**PLAIN, **FRAMEWORKS}), (size.large, PLAIN))
    )
    ours: dict[str, dict[str, Any]] = {
        "ours": {},
        "ours, states and head as in the plain": AS_PLAIN,
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
            fastest.step_s * 1000, f"{fastest.name}, the fastest", high=0.95, judge="ratio",
            spread=first.spread)
    )  # fmt: skip
    same = min((one for one in at_small if one.name in _SAME_FORMATS), key=lambda one: one.step_s)
    rows.append(
        Row(f"{small[1].name}: a step of {size.batch}", small[1].step_s * 1000, "ms",
            same.step_s * 1000, f"{same.name}, the fastest of those", high=1.0, judge="ratio",
            spread=small[1].spread)
    )  # fmt: skip
    best = max((_tokens_per_s(size, one, batch), one.name, batch)
               for batch, many in ((size.batch, at_small), (size.large, at_large))
               for one in many)  # fmt: skip
    own, batch = max((_tokens_per_s(size, first, size.batch), size.batch),
                     (_tokens_per_s(size, large[0], size.large), size.large))  # fmt: skip
    rows.append(
        Row(f"{first.name}: tokens a second at its best batch ({batch})", own, "tokens/s",
            best[0], f"{best[1]} at {best[2]}", low=1.05, judge="ratio", spread=large[0].spread)
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
            goal = 66.0 if one is small[0] else None
            rows.append(Row(f"{one.name}, {batch} items: share of the bf16 peak", share * 100, "%",
                            low=goal, judge="ours"))  # fmt: skip
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


def make_model(size: Size, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    with torch.device(size.device):  # a billion random numbers take a CPU long
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


def plain_loop(
    times: StepTimes,
    size: Size,
    batch: int,
    data: MarkovTokens,
    attention: SDPBackend = SDPBackend.FLASH_ATTENTION,
    half_states: bool = False,
    convert: Callable[[nn.Module], None] | None = None,
) -> None:
    """A loop as PyTorch's pages show it, with a kernel of attention; `convert` changes the model
    in place.
    """
    model: Any = make_model(size)
    if convert is not None:
        convert(model)
    if half_states:
        for module in (model.tokens, model.positions):
            module.register_forward_hook(lambda module, given, output: output.to(torch.bfloat16))
    combined = ModelWithLoss(model).to(size.device)
    # Code that was compiled with another kernel is not taken from the compiler's cache.
    config: Any = torch.compiler.config
    config.cache_key_tag = attention.name
    try:
        with sdpa_kernel([attention, SDPBackend.MATH], set_priority=True):
            _run_plain_loop(times, size, batch, data, combined)
    finally:
        config.cache_key_tag = ""


def _run_plain_loop(
    times: StepTimes, size: Size, batch: int, data: MarkovTokens, combined: nn.Module
) -> None:
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


_CUDNN = SDPBackend.CUDNN_ATTENTION
PLAIN: dict[str, Callable[..., None]] = {
    "plain, flash attention": plain_loop,
    "plain, cuDNN attention": partial(plain_loop, attention=_CUDNN),
    "plain, cuDNN attention, bf16 states": partial(plain_loop, attention=_CUDNN, half_states=True),
}
FRAMEWORKS: dict[str, Callable[..., None]] = {
    "accelerated": accelerate_loop,
    "by lightning": lightning_loop,
}
_SAME_FORMATS = {f"{name}, compiled" for name in (*list(PLAIN)[:2], *FRAMEWORKS)}
AS_PLAIN = {"half_states": False, "fp8_head": False}
"""States between blocks in fp32 and the head in bf16, as in the plain loop."""


def run_ours(name: str, size: Size, batch: int, data: MarkovTokens, **changes: Any) -> StepTimes:
    def loop(times: StepTimes, size: Size, batch: int, data: MarkovTokens) -> None:
        _train(times, size, batch, data, STEPS, **changes)

    return run_timed(name, loop, size, batch, data)


def _train(
    times: StepTimes,
    size: Size,
    batch: int,
    data: MarkovTokens,
    steps: int,
    *,
    seed: int = 0,
    **changes: Any,
) -> list[float]:
    """Train with these settings, from the weights of a seed; return the loss of each step."""
    options: dict[str, Any] = {
        "batch": batch, "micro_batch": batch, "steps": steps, "learning_rate": LEARNING_RATE,
        "precision": "bf16", "shuffle": False, "max_norm": 1.0, "schedule": "constant",
        "warmup": 0.0, "weight_decay": 0.01, "betas": (0.9, 0.999),
        "loading": LoadingConfig(num_workers=0), **changes,
    }  # fmt: skip
    trainer = Trainer(
        make_model(size, seed), data=data, loss=LanguageLoss(), config=TrainConfig(**options),
        units=_count_tokens, callbacks=[StepClock(times, size.device)],
        device="cuda:0" if size.device == "cuda" else "cpu",
    )  # fmt: skip
    with trainer:
        result = trainer.fit()
        shown = ("attention", "compile", "loss", "states")
        times.reasons = [one for one in result.reasons if one.startswith(shown)]
        return [row.loss for row in trainer.history()]


def _count_tokens(batch: dict[str, torch.Tensor]) -> int:
    return batch["tokens"][:, 1:].numel()


# -- the loss --------------------------------------------------------------------------------------


def _curves(size: Size) -> list[Row]:
    """Loss over 500 steps on the same tokens: as it comes beside bf16 with fp32 states, whose own
    spread is that of three seeds of the weights. Means of 20 steps are compared.
    """
    runs: dict[str, dict[str, Any]] = {
        "ours": {}, **{f"bf16, seed {seed}": {**AS_PLAIN, "seed": seed} for seed in range(SEEDS)}
    }  # fmt: skip
    means = {name: measure_curve(name, size, **changes) for name, changes in runs.items()}
    reference = means["bf16, seed 0"]
    apart = {name: largest_distance(curve, reference) for name, curve in means.items()}
    spread = max(apart[f"bf16, seed {seed}"] for seed in range(1, SEEDS))
    return [
        Row(f"loss after {size.curve} steps, bf16 with fp32 states", reference[-1], "nats"),
        Row("loss curves of bf16 with other seeds: largest distance", spread * 100, "%"),
        Row("loss curve of ours: largest distance to bf16 of the same seed", apart["ours"] * 100,
            "%", high=max(1.0, spread * 100), spread=f"ends at {means['ours'][-1]:.4f}"),
    ]  # fmt: skip


def measure_curve(name: str, size: Size, **changes: Any) -> list[float]:
    """Means of 20 steps of the loss, over tokens that are the same for all."""
    data = MarkovTokens(size.batch * size.curve, size, seed=2)
    options = {**changes, "warmup": 50, "betas": (0.9, 0.95), "log_every": 1}
    curve = _train(StepTimes(name), size, size.batch, data, size.curve, **options)
    torch._dynamo.reset()
    release_memory(size.device)
    print(f"{name}: {curve[0]:.4f} to {curve[-1]:.4f}", flush=True)
    return _window_means(curve)


def largest_distance(curve: list[float], reference: list[float]) -> float:
    """Where two curves are furthest from each other, as a share."""
    return max(abs(one / other - 1) for one, other in zip(curve, reference, strict=True))


def _window_means(curve: list[float]) -> list[float]:
    window = min(SMOOTH, len(curve))
    return [statistics.fmean(curve[at : at + window]) for at in range(0, len(curve), window)]
