"""A language model of 1.3 billion parameters: fp8 by us and by torchao, beside bf16.

The layers of a model of this width are large enough for fp8 to pay; `training` has the small one.
The same loop, tokens and windows as there. torchao converts every linear layer but the head, with
one scale for a tensor, in the plain loop, compiled, with cuDNN's attention and states between
blocks in bf16; with one for each row it is slower than bf16 (281 ms a step and 251). Ours runs as
it comes (bf16, the head in fp8) and with `precision = "fp8"`. Loss curves: means of 20 steps, from
the same weights over the same tokens.

torchao is left out where it is not installed. On a CPU a tiny model runs through the parts that
need no fp8, to show that the script works.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend

from anyrig.training.models.gpt import GptShape
from anyrig.units import GIB
from benchmarks import training
from benchmarks.harness import Row
from benchmarks.training import MarkovTokens, Size, StepTimes

FULL = Size(GptShape(layers=24, heads=16, width=2048), 1024, 16, 16, "cuda", 100)
TINY = Size(GptShape(512, 64, 2, 2, 64), 64, 4, 4, "cpu", 20)
_CUDNN = SDPBackend.CUDNN_ATTENTION
OURS: dict[str, dict[str, Any]] = {"ours": {}, "ours, precision fp8": {"precision": "fp8"}}


def run(hardware: str) -> list[Row]:
    size = FULL if hardware == "h200" else TINY
    data = MarkovTokens(size.batch * 8, size)
    plain = partial(training.plain_loop, attention=_CUDNN, half_states=True)
    loops: dict[str, Callable[..., None]] = {
        "plain, bf16": plain,
        "torchao": partial(plain, convert=_convert),
    }
    peers = [
        training.run_timed(f"{name}, compiled", loop, size, size.batch, data)
        for name, loop in loops.items()
    ]
    settings = OURS if size.device == "cuda" else {"ours": {}}
    ours = [
        training.run_ours(name, size, size.batch, data, **changes)
        for name, changes in settings.items()
    ]
    return [*_speed(size, peers, ours), *_curves(size, settings)]


def _convert(model: nn.Module) -> None:
    from torchao.float8 import (  # type: ignore[import-not-found,unused-ignore]
        Float8LinearConfig,
        convert_to_float8_training,
    )

    convert_to_float8_training(
        model,
        config=Float8LinearConfig.from_recipe_name("tensorwise"),
        module_filter_fn=lambda module, name: isinstance(module, nn.Linear) and "head" not in name,
    )


def _speed(size: Size, peers: list[StepTimes], ours: list[StepTimes]) -> list[Row]:
    count = sum(one.numel() for one in training.make_model(size).parameters())
    what = f"{count / 1e9:.1f} billion parameters, {size.batch} items"
    fastest = min(peers, key=lambda one: one.step_s)
    rows = [
        Row(f"{what}, a step: {one.name}", one.step_s * 1000, "ms", spread=one.spread)
        for one in peers
    ]
    for one in ours:
        rows += [
            Row(f"{what}, a step: {one.name}", one.step_s * 1000, "ms", fastest.step_s * 1000,
                f"{fastest.name}, the fastest", judge="ratio", spread=one.spread,
                high=0.95 if one is ours[-1] else None),
            Row(f"{what}, memory: {one.name}", one.peak_bytes / GIB, "GiB",
                fastest.peak_bytes / GIB or None, fastest.name, judge="ratio"),
        ]  # fmt: skip
    return rows


def _curves(size: Size, settings: dict[str, dict[str, Any]]) -> list[Row]:
    reference = training.measure_curve("bf16", size, **training.AS_PLAIN)
    other = training.measure_curve("bf16, another seed", size, **training.AS_PLAIN, seed=1)
    spread = training.largest_distance(other, reference)
    rows = [Row("loss curve of bf16 with another seed: largest distance", spread * 100, "%")]
    for name, changes in settings.items():
        curve = training.measure_curve(name, size, **changes)
        apart = training.largest_distance(curve, reference)
        rows.append(
            Row(f"loss curve, {name}: largest distance to bf16 of the same seed", apart * 100, "%",
                high=max(1.0, spread * 100), spread=f"ends at {curve[-1]:.4f}, bf16 at "
                f"{reference[-1]:.4f}")
        )  # fmt: skip
    torch._dynamo.reset()
    return rows
