"""What the trainer's loop costs beside a loop that does the same work and nothing else.

GPT-2 124M as in `training`, 32 items of 1,024 tokens, bf16, compiled. Both have the same loss,
optimizer and attention; they run in turns, since a device's speed drifts with its temperature, and
the median of all windows of each counts.
"""

from __future__ import annotations

import torch
from torch import nn

from anyrig.training.compile import best_attention, record_attention_calls
from anyrig.training.losses import LanguageLoss
from benchmarks.harness import Row
from benchmarks.training import (
    AS_PLAIN,
    FULL,
    LEARNING_RATE,
    STEPS,
    TINY,
    MarkovTokens,
    Size,
    StepClock,
    StepTimes,
    make_loader,
    make_model,
    repeat,
    run_ours,
    run_timed,
)

ROUNDS = 3


def bare_loop(times: StepTimes, size: Size, batch: int, data: MarkovTokens) -> None:
    """What our trainer computes, in a loop that does nothing else."""
    model, loss_of = make_model(size), LanguageLoss()
    calls = record_attention_calls(model, loss_of, {"tokens": data.rows[:batch]})
    model.to(size.device)
    if size.device == "cuda":
        model.compile()
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    clock, batches = StepClock(times, size.device), repeat(make_loader(size, batch, data))
    with best_attention(calls, torch.device(size.device), "bf16") as chosen:
        times.reasons = [f"attention: {chosen.reason}"]
        for _ in range(STEPS):
            tokens = next(batches)["tokens"].to(size.device, non_blocking=True)
            with torch.autocast(size.device, torch.bfloat16):
                loss = loss_of(model, {"tokens": tokens})
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            clock.step()


def run(hardware: str) -> list[Row]:
    size = FULL if hardware == "h200" else TINY
    data = MarkovTokens(size.batch * 32, size)
    ours, bare = StepTimes("ours"), StepTimes("bare loop")
    for _ in range(ROUNDS):
        for total, times in (
            (ours, run_ours("ours", size, size.batch, data, **AS_PLAIN)),
            (bare, run_timed("bare loop", bare_loop, size, size.batch, data)),
        ):
            total.windows += times.windows
            total.error = times.error
    return [
        Row("loop's overhead: a step beside a bare loop of the same work", ours.step_s * 1000,
            "ms", bare.step_s * 1000, "bare loop", high=1.01, judge="ratio",
            spread=f"ours {ours.spread}, bare {bare.spread}"),
    ]  # fmt: skip
