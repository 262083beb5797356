"""Fine-tuning on texts of the lengths of chats: tokens that count per second, and memory.

A Llama of 0.3 billion parameters with random weights, 4,096 texts of 16 to 1,024 tokens (lognormal,
median 200), fused AdamW, gradients clipped at 1, bf16 by autocast over fp32 weights. Ours packs
texts into windows of 1,024 with boundaries, as `separate_documents` does. transformers' Trainer
runs three times: padded to the longest of a batch, the same with batches of like lengths, and
packed by its `DataCollatorWithFlattening`. A step has about 16,000 tokens that count for all of
them. After some warm-up steps the tokens of three windows of ten steps are divided by their time.

That packing changes nothing else: the loss of a packed row is compared with that of its texts
alone, before anything is timed.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anyrig.training import TrainConfig, Trainer
from anyrig.training.callbacks import Callback
from anyrig.training.config import LoadingConfig
from anyrig.training.losses import IGNORED, LanguageLoss
from anyrig.training.step import StepResult
from anyrig.training.tasks.corpus import TokenFile, TokenWindows
from anyrig.training.tasks.language import count_targets
from anyrig.units import GIB
from benchmarks.harness import Row
from benchmarks.torch_tools import peak_bytes, release_memory, reset_peak, synchronize
from benchmarks.training import STEPS, WARM_UP, WINDOW

LEARNING_RATE = 1e-4
END = 2
MEDIAN, SPREAD, SHORTEST = 200, 0.9, 16


@dataclass(frozen=True)
class Size:
    width: int
    layers: int
    heads: int
    vocabulary: int
    context: int
    num_texts: int
    tokens: int
    """Of a step, about."""
    device: str


FULL = Size(1024, 16, 16, 32000, 1024, 4096, 16384, "cuda")
TINY = Size(32, 2, 2, 256, 64, 256, 256, "cpu")


@dataclass
class Rates:
    """Tokens that count in each window, and its seconds."""

    name: str
    windows: list[tuple[int, float]] = field(default_factory=list)
    peak_bytes: int = 0
    error: str = ""

    @property
    def tokens_per_s(self) -> float:
        return statistics.median(count / wall_s for count, wall_s in self.windows)

    @property
    def spread(self) -> str:
        rates = [count / wall_s for count, wall_s in self.windows]
        return f"{min(rates):.3g}-{max(rates):.3g} of {len(rates)} windows"


class TokenClock:
    """Told of the tokens of each step; synchronises where a window starts and ends."""

    def __init__(self, rates: Rates, device: str) -> None:
        self._rates, self._device = rates, device
        self._steps, self._tokens, self._start = 0, 0, 0.0

    def step(self, num_tokens: int) -> None:
        self._steps += 1
        self._tokens += num_tokens
        past = self._steps - WARM_UP
        if past < 0 or past % WINDOW:
            return
        synchronize(self._device)
        now = time.perf_counter()
        if past == 0:
            reset_peak(self._device)
        else:
            self._rates.windows.append((self._tokens, now - self._start))
            self._rates.peak_bytes = peak_bytes(self._device)
        self._tokens, self._start = 0, time.perf_counter()


class OurClock(Callback):
    def __init__(self, clock: TokenClock) -> None:
        self._clock = clock

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        self._clock.step(result.units)


def run(hardware: str) -> list[Row]:
    size = FULL if hardware == "h200" else TINY
    texts = _make_texts(size)
    with tempfile.TemporaryDirectory() as place:
        windows = _write_windows(size, texts, Path(place))
        packing = _compare_packed(size, texts)
        ours = _measure("ours, packed", size, partial(_train_ours, windows=windows))
        peers = [
            _measure(f"transformers' Trainer, {name}", size, partial(_train_peer, texts, **options))
            for name, options in PEERS.items()
        ]
    rows = [
        Row("loss of a packed row beside its texts alone: relative distance", packing, "",
            high=1e-4),
        *(Row(f"tokens that count: {ours.name}", ours.tokens_per_s, "tokens/s", peer.tokens_per_s,
              peer.name, judge="ratio", low=1.05, spread=f"{ours.spread} against {peer.spread}")
          for peer in peers if peer.windows),
        *(Row(f"memory: {ours.name}", ours.peak_bytes / GIB, "GiB", peer.peak_bytes / GIB or None,
              peer.name, judge="ratio") for peer in peers if peer.windows),
    ]  # fmt: skip
    for peer in peers:
        if not peer.windows:
            print(f"{peer.name}: {peer.error}", flush=True)
    return rows


def _make_texts(size: Size) -> list[list[int]]:
    """Random tokens; lengths as in chats, each text with its end."""
    random = np.random.default_rng(0)
    scale = size.context / FULL.context
    lengths = np.exp(random.normal(math.log(MEDIAN * scale), SPREAD, size.num_texts))
    shortest = max(2, round(SHORTEST * scale))
    return [
        [*random.integers(3, size.vocabulary, int(length) - 1).tolist(), END]
        for length in lengths.clip(shortest, size.context).round()
    ]


def _write_windows(size: Size, texts: Sequence[Sequence[int]], folder: Path) -> TokenWindows:
    tokens = np.asarray([token for text in texts for token in text], dtype=np.uint16)
    path = folder / "tokens.uint16"
    path.write_bytes(tokens.tobytes())
    count = (len(tokens) - 1) // size.context
    return TokenWindows(TokenFile(path, "uint16", len(tokens)), size.context, 0, count, end=END)


def _make_model(size: Size) -> Any:
    import transformers

    library: Any = transformers  # its classes are not typed
    torch.manual_seed(0)
    config = library.LlamaConfig(
        vocab_size=size.vocabulary, hidden_size=size.width, intermediate_size=size.width * 11 // 4,
        num_hidden_layers=size.layers, num_attention_heads=size.heads, use_cache=False,
        max_position_embeddings=size.context, attn_implementation="sdpa",
    )  # fmt: skip
    return library.LlamaForCausalLM(config)


@torch.no_grad()
def _compare_packed(size: Size, texts: Sequence[Sequence[int]]) -> float:
    """How far the loss of two texts in one row is from theirs alone, in fp32."""
    model = _make_model(size).eval()
    pair = [text[: size.context // 2] for text in texts[:2]]
    tokens = torch.tensor([[token for text in pair for token in text]])
    positions = torch.cat([torch.arange(len(text)) for text in pair])[None]
    labels = torch.where(positions == 0, IGNORED, tokens)
    loss = LanguageLoss()
    batch = {"tokens": tokens, "labels": labels, "positions": positions[:, :-1]}
    together: Any = loss(model, batch)
    alone = [loss(model, {"tokens": torch.tensor([text])}) for text in pair]
    mean = sum(_mean_loss(one) * (len(text) - 1) for one, text in zip(alone, pair, strict=True))
    expected = mean / sum(len(text) - 1 for text in pair)
    return abs(_mean_loss(together) / expected - 1)


def _mean_loss(found: Any) -> float:
    return float(getattr(found, "loss", found))


def _measure(name: str, size: Size, train: Callable[..., None]) -> Rates:
    rates, start = Rates(name), time.perf_counter()
    try:
        train(size=size, clock=TokenClock(rates, size.device))
    except Exception as error:
        if name.startswith("ours"):
            raise
        rates.error = f"{type(error).__name__}: {error}"[:300]  # a peer that cannot run
    torch._dynamo.reset()
    release_memory(size.device)
    shown = f"{rates.tokens_per_s:.4g} tokens/s, {rates.spread}" if rates.windows else rates.error
    print(f"{name}: {shown}, {rates.peak_bytes / GIB:.1f} GiB "
          f"({time.perf_counter() - start:.0f} s in all)", flush=True)  # fmt: skip
    return rates


def _train_ours(*, windows: TokenWindows, size: Size, clock: TokenClock) -> None:
    batch = size.tokens // size.context
    config = TrainConfig(
        batch=batch, micro_batch=batch, steps=STEPS, learning_rate=LEARNING_RATE, precision="bf16",
        max_norm=1.0, schedule="constant", warmup=0.0, weight_decay=0.0,
        loading=LoadingConfig(num_workers=0),
    )  # fmt: skip
    trainer = Trainer(
        _make_model(size), data=windows, loss=LanguageLoss(), config=config, units=count_targets,
        callbacks=[OurClock(clock)], device="cuda:0" if size.device == "cuda" else "cpu",
    )  # fmt: skip
    with trainer:
        print("\n".join(trainer.fit().reasons), flush=True)


PEERS: dict[str, dict[str, Any]] = {
    "padded": {},
    "padded, like lengths together": {"train_sampling_strategy": "group_by_length"},
    "packed": {"packed": True},
}


def _train_peer(
    texts: Sequence[list[int]],
    *,
    size: Size,
    clock: TokenClock,
    packed: bool = False,
    **options: Any,
) -> None:
    import transformers

    library: Any = transformers  # its classes are not typed
    mean = sum(map(len, texts)) / len(texts)

    class Collator:
        """Counts what counts, and joins a batch."""

        def __init__(self) -> None:
            self.counts: list[int] = []
            self._flatten = library.DataCollatorWithFlattening(return_tensors="pt")

        def __call__(self, rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
            self.counts.append(sum(len(row["input_ids"]) - 1 for row in rows))
            if packed:
                joined: dict[str, torch.Tensor] = self._flatten(rows)
                return joined
            longest = max(len(row["input_ids"]) for row in rows)
            tokens = torch.full((len(rows), longest), END)
            labels = torch.full((len(rows), longest), IGNORED)
            mask = torch.zeros((len(rows), longest), dtype=torch.long)
            for at, row in enumerate(rows):
                found = torch.tensor(row["input_ids"])
                tokens[at, : len(found)] = labels[at, : len(found)] = found
                mask[at, : len(found)] = 1
            return {"input_ids": tokens, "labels": labels, "attention_mask": mask}

    collator = Collator()

    class Clock(library.TrainerCallback):  # type: ignore[misc,name-defined,unused-ignore]
        def on_step_end(self, *args: Any, **given: Any) -> None:
            clock.step(collator.counts[min(self.steps, len(collator.counts) - 1)])
            self.steps += 1

        steps = 0

    with tempfile.TemporaryDirectory() as place:
        arguments = library.TrainingArguments(
            place, per_device_train_batch_size=max(1, round(size.tokens / mean)), max_steps=STEPS,
            learning_rate=LEARNING_RATE, bf16=True, optim="adamw_torch_fused", max_grad_norm=1.0,
            lr_scheduler_type="constant", weight_decay=0.0, report_to="none", save_strategy="no",
            logging_strategy="no", disable_tqdm=True, use_cpu=size.device == "cpu",
            remove_unused_columns=False, **options,
        )  # fmt: skip
        library.Trainer(
            _make_model(size), arguments, data_collator=collator,
            train_dataset=[{"input_ids": text} for text in texts], callbacks=[Clock()],
        ).train()  # fmt: skip
