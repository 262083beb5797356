"""VITS at full size, random weights: ours beside transformers' own model at its best batch.

512 rows of mixed length with durations fixed for both. Audio of the rows is counted, padding is
not; timed from lists of tokens to arrays on the host. transformers runs with torch's defaults (fp32
whose convolutions round to TF32 on this hardware), and in half precision.
"""

from __future__ import annotations

import copy
import math
import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import VitsConfig, VitsModel

from anyrig.audio.samples import Samples
from anyrig.devices.machine import Precision
from anyrig.speech.models.vits import VitsInput, VitsTorch
from benchmarks.harness import Row, median_and_range, time_calls
from benchmarks.torch_tools import release_memory, reset_peak

NUM_ROWS = {"cpu": 4, "h200": 512}
BATCHES = {"cpu": (1, 4), "h200": (16, 32, 64)}
# Slow batches are timed on fewer rows, drawn evenly from all.
ENOUGH_S = 1.0
NUM_FP32 = 48
ROUNDS = {"cpu": 1, "h200": 2}


def run(hardware: str) -> list[Row]:
    device = torch.device("cuda" if hardware == "h200" else "cpu")
    torch.manual_seed(0)
    untyped: Any = VitsModel(VitsConfig())
    model = _reduce_volume(untyped.eval())
    rows = _draw_rows(NUM_ROWS[hardware])
    audio = sum(sum(row.durations or ()) for row in rows) * 256 / 16000
    print(f"{len(rows)} rows, {audio:.0f} s of audio")
    peers = _measure_peers(model, rows, device, hardware)
    figures: list[Row] = []
    samples: dict[str, list[Samples]] = {}
    precisions: list[Precision] = ["fp32"]
    if hardware == "h200":
        precisions += ["fp16", "bf16", "tf32"]
    for precision in precisions:
        start = time.perf_counter()
        ours = VitsTorch(copy.deepcopy(model), device, precision, noise=0.0, duration_noise=0.0)
        # Exact fp32 is there to be compared with: a few rows are enough.
        used = rows[:NUM_FP32] if precision == "fp32" else rows
        samples[precision] = ours.run(used)
        print(f"{precision}: first run {time.perf_counter() - start:.1f} s", flush=True)
        if precision != "fp32" or hardware == "cpu":
            figures += _speed(ours, precision, used, audio, peers, hardware)
            print(figures[-1], flush=True)
        figures.append(_error(precision, ours, samples, used))
        del ours
        release_memory(device)
    return figures


def _reduce_volume(model: Any) -> Any:
    """Random weights clip: scale the last layer down."""
    model.noise_scale = model.noise_scale_duration = 0.0
    with torch.no_grad():
        latents = torch.randn(1, model.config.flow_size, 50)
        model.decoder.conv_post.weight.mul_(0.05)
        for _ in range(4):
            loud = torch.atanh(model.decoder(latents).clamp(-0.999, 0.999)).std()
            model.decoder.conv_post.weight.mul_(0.2 / float(loud))
    return model


def _draw_rows(count: int) -> list[VitsInput]:
    """20 to 240 characters, a blank between any two; 2 frames a token on average."""
    rng = random.Random(0)
    rows = []
    for number in range(count):
        size = 2 * rng.randint(20, 240) + 1
        ids = [rng.randint(1, 37) if place % 2 else 0 for place in range(size)]
        durations = [rng.randint(1, 3) for _ in range(size)]
        rows.append(VitsInput(ids, seed=number, durations=durations))
    return rows


# -- ours ------------------------------------------------------------------------------------------


def _speed(
    ours: VitsTorch, precision: str, rows: Sequence[VitsInput], audio: float,
    peers: dict[str, float], hardware: str,
) -> list[Row]:  # fmt: skip
    times = time_calls(lambda: ours.run(rows), ROUNDS[hardware])
    seconds, _ = median_and_range(times)
    spread = f"{audio / max(times):.5g}-{audio / min(times):.5g} of {len(times)}"
    peak = ""
    if hardware == "h200":
        peak = f"; peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GB"
        reset_peak("cuda")
    # Beside transformers at its best: its own format, batch and order.
    best = max((n for n in peers if n.startswith("fp32")), key=lambda n: peers[n], default="")
    bars = {("fp16", best): 3.0} if hardware == "h200" else {}
    return [
        Row(f"audio per second, {precision}, beside {name}", audio / seconds, "s/s", rate, name,
            low=bars.get((precision, name)),
            judge="ratio", spread=spread + peak)
        for name, rate in peers.items()
    ]  # fmt: skip


def _error(
    precision: str, ours: VitsTorch, samples: dict[str, list[Samples]], rows: Sequence[VitsInput]
) -> Row:
    """fp32: a row in a batch beside the same alone. Others: the error beside fp32."""
    if precision == "fp32":
        some = list(range(0, len(rows), max(1, len(rows) // 8)))
        worst = 0.0
        for number in some:
            alone = ours.run([rows[number]])[0]
            assert len(alone) == len(samples["fp32"][number])
            worst = max(worst, float(np.abs(alone - samples["fp32"][number]).max()))
        return Row("largest difference of a row in company and alone, fp32", worst, "", high=1e-4)
    power = error = 0.0
    for true, got in zip(samples["fp32"], samples[precision], strict=False):  # those it has
        power += float(np.square(true, dtype=np.float64).sum())
        error += float(np.square(true - got, dtype=np.float64).sum())
    return Row(f"signal over error, {precision} beside fp32", 10 * math.log10(power / error), "dB")


# -- the peer --------------------------------------------------------------------------------------


class _FixedDurations(nn.Module):
    """A duration predictor that returns given durations."""

    def __init__(self) -> None:
        super().__init__()
        self.durations = torch.zeros(0)

    def forward(self, hidden: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        # Rounded up later: half a frame less keeps clear of the edge.
        return torch.log(self.durations - 0.5).unsqueeze(1).to(hidden.dtype)


def _measure_peers(
    model: Any, rows: Sequence[VitsInput], device: torch.device, hardware: str
) -> dict[str, float]:
    """Audio per second of transformers at its best batch, by format and order."""
    by_length = sorted(rows, key=lambda row: -len(row.ids))
    orders = {"given order": list(rows), "sorted by length": by_length}
    formats = {"fp32": torch.float32}
    if hardware == "h200":
        formats |= {"fp16": torch.float16}
    best: dict[str, float] = {}
    for name, dtype in formats.items():
        peer = copy.deepcopy(model).to(device, dtype)
        peer.duration_predictor = _FixedDurations()
        for order, listed in orders.items():
            rates = {}
            for batch in BATCHES[hardware]:
                rate = _measure_peer(peer, listed, batch, device, hardware)
                if rate is None:
                    break
                rates[batch] = rate
                print(f"transformers {name}, {order}, batch {batch}: {rate:.0f} s/s", flush=True)
            if rates:
                best[f"{name} transformers, {order}"] = max(rates.values())
        del peer
        release_memory(device)
    return best


def _measure_peer(
    peer: Any, rows: Sequence[VitsInput], batch: int, device: torch.device, hardware: str
) -> float | None:
    """None when it does not fit, or does not run in this format."""
    groups = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    try:
        start = time.perf_counter()
        _run_peer(peer, groups[0], device)
        _run_peer(peer, groups[-1], device)
        share = max(1, int((time.perf_counter() - start) / 2 * len(groups) / ENOUGH_S))
        chosen = groups[:: max(share, len(groups) // 64)]
        times = time_calls(lambda: [_run_peer(peer, group, device) for group in chosen],
                       ROUNDS[hardware])  # fmt: skip
    except RuntimeError as error:
        print(f"transformers at batch {batch}: {str(error).splitlines()[0][:160]}", flush=True)
        release_memory(device)
        return None
    frames = sum(sum(row.durations or ()) for group in chosen for row in group)
    return frames * 256 / 16000 / median_and_range(times)[0]


@torch.inference_mode()
def _run_peer(peer: Any, rows: Sequence[VitsInput], device: torch.device) -> list[Samples]:
    longest = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    durations = torch.ones(len(rows), longest)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        size = len(row.ids)
        ids[number, :size] = torch.tensor(row.ids)
        durations[number, :size] = torch.tensor(row.durations or ())
        mask[number, :size] = 1
    peer.duration_predictor.durations = durations.to(device)
    out = peer(ids.to(device), attention_mask=mask.to(device))
    sound = out.waveform.float().cpu().numpy()
    lengths = out.sequence_lengths.tolist()
    return [sound[number, : int(length)].copy() for number, length in enumerate(lengths)]
