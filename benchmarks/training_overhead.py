"""What the trainer's loop costs beside a loop that does the same work and nothing else.

GPT-2 124M as in `training`, 32 items of 1,024 tokens, bf16, compiled. Both ways have the same
loss, optimiser and attention; they are run in turns, as a device's speed drifts with its heat, and
the median of all windows of each counts.
"""

from __future__ import annotations

import torch
from torch import nn

from anyrig.training.attending import best_attention, calls_of
from anyrig.training.head import LanguageLoss
from benchmarks.harness import Row
from benchmarks.training import (
    FULL,
    RATE,
    STEPS,
    TINY,
    Clock,
    Size,
    Tokens,
    Took,
    _endless,
    _loader,
    _made,
    _run,
    ours,
)  # fmt: skip

ROUNDS = 3


def bare_loop(took: Took, size: Size, batch: int, data: Tokens) -> None:
    """What our trainer computes, in a loop that does nothing else."""
    model, loss_of = _made(size), LanguageLoss()
    calls = calls_of(model, loss_of, {"tokens": data.rows[:batch]})
    model.to(size.device)
    if size.device == "cuda":
        model.compile()
    with best_attention(calls, torch.device(size.device), "bf16") as chosen:
        took.why = [f"attention: {chosen.reason}"]
        _steps(took, size, batch, data, model, loss_of)


def _steps(
    took: Took, size: Size, batch: int, data: Tokens, model: nn.Module, loss_of: LanguageLoss
) -> None:
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    clock, batches = Clock(took, size.device), _endless(_loader(size, batch, data))
    for _ in range(STEPS):
        given = {"tokens": next(batches)["tokens"].to(size.device, non_blocking=True)}
        with torch.autocast(size.device, torch.bfloat16):
            loss = loss_of(model, given)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        clock.step()


def run(hardware: str) -> list[Row]:
    size = FULL if hardware == "h200" else TINY
    data = Tokens(size.batch * 32, size)
    all_ours, all_bare = Took("ours"), Took("bare loop")
    for _ in range(ROUNDS):
        one = ours("ours, bf16", size, size.batch, data)
        all_ours.windows += one.windows
        other = _run(bare_loop, size, size.batch, data)
        all_bare.windows += other.windows
        all_ours.error, all_bare.error = one.error, other.error
    return [
        Row("loop's overhead: a step beside a bare loop of the same work", all_ours.step_s * 1000,
            "ms", all_bare.step_s * 1000, "bare loop", high=1.01, judge="ratio",
            spread=f"ours {all_ours.spread}, bare {all_bare.spread}"),
    ]  # fmt: skip
