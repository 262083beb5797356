"""GPT-2 124M trained by us, by a plain loop, by accelerate and by Lightning: speed, memory, loss.

One model class (`anyrig.training.models.gpt`), the same tokens, AdamW with fused kernels, gradients
clipped at 1, bf16, compiled, 1,024 tokens an item. Every way is timed in the same manner: after
some steps to warm up, three windows of ten steps, each ended by a wait for the device; the median
of the windows counts. Memory is the most in live tensors during those windows.

Tokens come from a chain in which each token has eight likely successors, so that there is something
to learn: the loss falls from 10.8 towards 2.1, that of eight equal ones. Curves see every item
once, so nothing is learnt by heart. Each way has the attention kernel that it takes by
itself: torch's default for the peers, a test of the model's own calls for us.

On a CPU the script runs a tiny model through all of it, to show that it does.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.training import Settings, Trainer
from anyrig.training.head import LanguageLoss
from anyrig.training.models.gpt import Gpt, GptShape
from anyrig.training.protocol import StepFacts, Unwatched
from anyrig.training.settings import Loading
from anyrig.training.watch.flops import count_flops
from anyrig.units import GIB
from benchmarks.harness import Row

WARM, WINDOW, WINDOWS = 8, 10, 3
STEPS = WARM + WINDOW * WINDOWS
CURVE, SMOOTH = 500, 50
RATE = 6e-4
WORDS = 2048
"""Tokens that occur: few enough to be learnt in 500 steps."""


@dataclass(frozen=True)
class Size:
    shape: GptShape
    length: int
    batch: int
    large: int
    device: str
    curve: int


FULL = Size(GptShape(), 1024, 32, 128, "cuda", CURVE)
TINY = Size(GptShape(512, 64, 2, 2, 64), 64, 4, 8, "cpu", 20)


@dataclass
class Took:
    """What a way took."""

    name: str
    windows: list[float] = field(default_factory=list)
    """Seconds a step."""
    peak_bytes: int = 0
    losses: list[float] = field(default_factory=list)
    error: str = ""
    why: list[str] = field(default_factory=list)

    @property
    def step_s(self) -> float:
        return statistics.median(self.windows) if self.windows else float("inf")

    @property
    def spread(self) -> str:
        told = [f"{window * 1000:.1f}" for window in sorted(self.windows)]
        return f"{told[0]}-{told[-1]} ms of {len(told)} windows" if told else self.error


class Clock(Unwatched):
    """Told of every step; waits for the device where a window begins and ends."""

    def __init__(self, took: Took, device: str) -> None:
        self._took, self._device, self._count = took, device, 0
        self._began = 0.0

    def step(self, facts: StepFacts | None = None) -> None:
        self._count += 1
        past = self._count - WARM
        if past < 0 or past % WINDOW:
            return
        _wait(self._device)
        now = time.perf_counter()
        if past == 0:
            if self._device == "cuda":
                torch.cuda.reset_peak_memory_stats()
        else:
            self._took.windows.append((now - self._began) / WINDOW)
            self._took.peak_bytes = _peak(self._device)
        self._began = time.perf_counter()


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _peak(device: str) -> int:
    return torch.cuda.max_memory_allocated() if device == "cuda" else 0


class Tokens(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Items of a chain with eight likely successors for each token."""

    def __init__(self, num_items: int, size: Size, seed: int = 1) -> None:
        generator = torch.Generator().manual_seed(seed)
        vocabulary = min(WORDS, size.shape.vocabulary)
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
    data = Tokens(size.large * 8, size)
    peers = [_run(way, size, batch, data) for batch in (size.batch, size.large)
             for way in (plain, accelerated, by_lightning)]  # fmt: skip
    small = [ours("ours, bf16", size, size.batch, data),
             ours("ours, fp8 head, bf16 weights", size, size.batch, data, half_weights=True,
                  precision="fp8")]  # fmt: skip
    large = [ours("ours, bf16", size, size.large, data),
             ours("ours, fp8 head, bf16 weights", size, size.large, data, half_weights=True,
                  precision="fp8"),
             ours("ours, selective recompute", size, size.large, data,
                  recompute="selective")]  # fmt: skip
    return _rows(size, peers, small, large) + _curves(size)


def _rows(size: Size, peers: list[Took], small: list[Took], large: list[Took]) -> list[Row]:
    at_small, at_large = peers[:3], peers[3:]
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
    best = max((_tokens(size, one, batch), one.name, batch)
               for batch, many in ((size.batch, at_small), (size.large, at_large))
               for one in many)  # fmt: skip
    for number, one in enumerate(large[:2]):
        own, batch = max((_tokens(size, small[number], size.batch), size.batch),
                         (_tokens(size, one, size.large), size.large))  # fmt: skip
        rows.append(
            Row(f"{one.name}: tokens a second at its best batch ({batch})", own, "tokens/s",
                best[0], f"{best[1]} at {best[2]}", low=1.0 if number == 0 else 1.1, judge="ratio",
                spread=one.spread)
        )  # fmt: skip
    return rows + _memory(size, at_large, large) + _share(size, small + large)


def _tokens(size: Size, one: Took, batch: int) -> float:
    return batch * size.length / one.step_s


def _memory(size: Size, peers: list[Took], large: list[Took]) -> list[Row]:
    lean = min(peers, key=lambda one: one.peak_bytes or 1 << 60)
    quick = min(peers, key=lambda one: one.step_s)
    rows = [Row(f"{one.name}: memory at {size.large} items", one.peak_bytes / GIB, "GiB")
            for one in peers]  # fmt: skip
    for one, memory, speed in ((large[0], 0.85, 1.0), (large[2], 0.7, 1.1)):
        rows.append(Row(f"{one.name}: memory at {size.large} items", one.peak_bytes / GIB, "GiB",
                        lean.peak_bytes / GIB or None, f"{lean.name}, the leanest", high=memory,
                        judge="ratio"))  # fmt: skip
        rows.append(Row(f"{one.name}: a step of {size.large}", one.step_s * 1000, "ms",
                        quick.step_s * 1000, f"{quick.name}, the fastest", high=speed,
                        judge="ratio", spread=one.spread))  # fmt: skip
    return rows


def _share(size: Size, ways: list[Took]) -> list[Row]:
    """Useful FLOPs as a share of what the device was measured to do in bf16, in this run."""
    if size.device != "cuda":
        return []
    model = Gpt(size.shape)
    counted = count_flops(model, _plain_loss, {"tokens": torch.zeros(1, size.length + 1).long()}, 1)
    assert counted is not None
    peak = _peak_flops()
    rows = [Row("measured bf16 peak, 8192-cubed product", peak / 1e12, "TFLOP/s")]
    for number, one in enumerate(ways):
        batch = size.batch if number < 2 else size.large
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
        began = time.perf_counter()
        for _ in range(10):
            left @ right
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - began) / 10)
    return 2 * side**3 / best


# -- the ways --------------------------------------------------------------------------------------


def _run(way: Callable[..., None], size: Size, batch: int, data: Tokens) -> Took:
    took = Took(f"{way.__name__.replace('_', ' ')}, compiled")
    began = time.perf_counter()
    try:
        way(took, size, batch, data)
    except Exception as error:  # noqa: BLE001  # a peer that cannot run is a result
        took.error = f"{type(error).__name__}: {error}"[:200]
    _clean(size)
    told = f"({time.perf_counter() - began:.0f} s in all) {'; '.join(took.why)}"
    print(f"{took.name} at {batch}: {took.step_s * 1000:.2f} ms, {took.peak_bytes / GIB:.1f} GiB, "
          f"{took.spread} {told}", flush=True)  # fmt: skip
    return took


def _clean(size: Size) -> None:
    gc.collect()
    torch._dynamo.reset()
    if size.device == "cuda":
        torch.cuda.empty_cache()


def _plain_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    tokens = batch["tokens"]
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, -2).float(), tokens[:, 1:].flatten())


def _made(size: Size) -> nn.Module:
    torch.manual_seed(0)
    return Gpt(size.shape)


def _loader(size: Size, batch: int, data: Tokens) -> torch.utils.data.DataLoader[Any]:
    return torch.utils.data.DataLoader(
        data, batch, shuffle=False, drop_last=True, pin_memory=size.device == "cuda"
    )


def _endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


class Whole(nn.Module):
    """Model and loss as one, so that a peer's compiler sees all of it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return _plain_loss(self.model, batch)


def plain(took: Took, size: Size, batch: int, data: Tokens) -> None:
    """A loop as PyTorch's pages show it."""
    whole = Whole(_made(size)).to(size.device)
    quick = torch.compile(whole) if size.device == "cuda" else whole
    optimiser = torch.optim.AdamW(whole.parameters(), lr=RATE, fused=True)
    clock, batches = Clock(took, size.device), _endless(_loader(size, batch, data))
    for _ in range(STEPS):
        given = {"tokens": next(batches)["tokens"].to(size.device, non_blocking=True)}
        with torch.autocast(size.device, torch.bfloat16):
            loss = quick(given)
        loss.backward()
        nn.utils.clip_grad_norm_(whole.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        clock.step()


def accelerated(took: Took, size: Size, batch: int, data: Tokens) -> None:
    from accelerate import Accelerator

    accelerator: Any = Accelerator(mixed_precision="bf16", cpu=size.device == "cpu")
    whole = Whole(_made(size))
    optimiser = torch.optim.AdamW(whole.to(accelerator.device).parameters(), lr=RATE, fused=True)
    quick = torch.compile(whole) if size.device == "cuda" else whole
    model, optimiser, loader = accelerator.prepare(quick, optimiser, _loader(size, batch, data))
    clock, batches = Clock(took, size.device), _endless(loader)
    for _ in range(STEPS):
        loss = model(next(batches))
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        clock.step()


def by_lightning(took: Took, size: Size, batch: int, data: Tokens) -> None:
    import logging
    import warnings

    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    clock = Clock(took, size.device)

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.whole = Whole(_made(size))

        def training_step(self, given: Any, number: int) -> torch.Tensor:
            found: torch.Tensor = self.whole(given)
            return found

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=RATE, fused=True)

        def configure_gradient_clipping(self, *args: Any, **options: Any) -> None:
            # Lightning's own refuses fused optimisers.
            nn.utils.clip_grad_norm_(self.parameters(), 1.0)

        def on_train_batch_end(self, *args: Any) -> None:
            clock.step()

    module = Module()
    if size.device == "cuda":
        module.whole.compile()
    trainer = lightning.Trainer(
        accelerator="gpu" if size.device == "cuda" else "cpu", devices=1, precision="bf16-mixed",
        max_steps=STEPS, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, _loader(size, batch, data))


def ours(name: str, size: Size, batch: int, data: Tokens, **changed: Any) -> Took:
    def way(took: Took, size: Size, batch: int, data: Tokens) -> None:
        _trained(took, size, batch, data, STEPS, **changed)

    print(f"{name}:", end=" ", flush=True)
    took = _run(way, size, batch, data)
    took.name = name
    return took


def _trained(
    took: Took, size: Size, batch: int, data: Tokens, steps: int, **changed: Any
) -> list[float]:
    options: dict[str, Any] = {
        "batch": batch, "micro_batch": batch, "steps": steps, "learning_rate": RATE,
        "precision": "bf16", "shuffle": False, "max_norm": 1.0, "schedule": "constant",
        "warmup": 0.0, "weight_decay": 0.01, "betas": (0.9, 0.999),
        "loading": Loading(num_workers=0), **changed,
    }  # fmt: skip
    trainer = Trainer(
        _made(size), data=data, loss=LanguageLoss(), settings=Settings(**options),
        units=_units, watch=Clock(took, size.device), device=_word(size),
    )  # fmt: skip
    with trainer:
        summary = trainer.run()
        took.why = [one for one in summary.reasons if one.startswith(("attention", "compile"))]
        return [row.loss for row in trainer.history()]


def _word(size: Size) -> str:
    return "cuda:0" if size.device == "cuda" else "cpu"


def _units(batch: dict[str, torch.Tensor]) -> int:
    return batch["tokens"][:, 1:].numel()


# -- the loss --------------------------------------------------------------------------------------


def _curves(size: Size) -> list[Row]:
    """The same weights and tokens for 500 steps in each format: means of 50 steps compared."""
    data = Tokens(size.batch * size.curve, size, seed=2)
    found = {}
    for name, changed in (
        ("bf16", {}),
        ("fp8 head, bf16 weights", {"half_weights": True, "precision": "fp8"}),
    ):
        if size.device == "cpu" and "precision" in changed:
            changed = {"half_weights": True}
        options = {**changed, "warmup": 50, "betas": (0.9, 0.95), "log_every": 1}
        found[name] = _trained(Took(name), size, size.batch, data, size.curve, **options)
        _clean(size)
        print(f"{name}: {found[name][0]:.4f} to {found[name][-1]:.4f}", flush=True)
    rows = [Row(f"loss after {size.curve} steps, bf16 autocast", _means(found["bf16"])[-1], "nats")]
    for name in ("fp8 head, bf16 weights",):
        pairs = list(zip(_means(found[name]), _means(found["bf16"]), strict=True))
        apart = max(abs(one / other - 1) for one, other in pairs)
        rows.append(Row(f"loss curve of {name}: largest distance to bf16 autocast", apart * 100,
                        "%", high=1.0, spread=f"ends at {pairs[-1][0]:.4f}"))  # fmt: skip
    return rows


def _means(curve: list[float]) -> list[float]:
    window = min(SMOOTH, len(curve))
    return [statistics.fmean(curve[at : at + window]) for at in range(0, len(curve), window)]
