"""VibeVoice-Realtime with ONNX Runtime on a CPU, beside our torch runtime, at the published size.

Random weights never end, so both speak the same number of frames of the same tokens with the same
preset and noise. Times are seconds of one core, so that other work on the machine does not count:
two free cores take about half of it. The graphs are exported from the same weights. Then each
format is compared frame by frame with torch in fp32: fp32 on its own, the others each frame from
torch's latent.
"""

from __future__ import annotations

import gc
import resource
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Tokenizer, models

from anyrig.backends.onnx import OnnxHandle
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.speech.models.vibevoice import onnx_graphs
from anyrig.speech.models.vibevoice.checkpoint import read_realtime_shape
from anyrig.speech.models.vibevoice.onnx_windows import OnnxRealtimeVoice
from anyrig.speech.models.vibevoice.realtime import RealtimeRuntime, RealtimeSpeech
from anyrig.speech.models.vibevoice.realtime_model import load_realtime_model
from anyrig.speech.models.vibevoice.windows import RealtimeModel
from benchmarks import vibevoice_realtime_reference as reference
from benchmarks.harness import Row, median_and_range

CONFIG = reference.FULL
SHAPE = read_realtime_shape(CONFIG)
FRAME_S = 3200 / 24000
FRAMES, CHECKED_FRAMES, REPEATS = 18, 18, 2
_VOICE = "voice"
_FORMATS: tuple[onnx_graphs.WeightFormat, ...] = ("int8", "fp32", "fp16")
_MIN_COSINE = 0.99


class Cost(NamedTuple):
    """Seconds of one core: until the first audio, and for a second of audio."""

    first: tuple[float, str]
    each: tuple[float, str]


def run(_hardware: str) -> list[Row]:
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        reference.write_weights(folder, CONFIG)
        runtime = _build_runtime(load_realtime_model(folder, torch.device("cpu"), torch.float32))
        single = _measure(runtime, "torch, fp32")
        expected = reference.speak(runtime, _open(runtime, CHECKED_FRAMES))
        del runtime
        for kind in _FORMATS:
            gc.collect()
            _export(folder, kind)
            model = _load_onnx(folder, kind)
            runtime = _build_runtime(model)
            if kind != "fp16":  # a CPU has no arithmetic for it
                rows += _list_costs(kind, _measure(runtime, f"ONNX Runtime, {kind}"), single)
            rows.append(_compare(runtime, kind, expected))
            print(rows[-1])
            del model, runtime
    return rows


def _export(folder: Path, kind: onnx_graphs.WeightFormat) -> None:
    start = time.perf_counter()
    graphs = onnx_graphs.require_graphs(folder, kind)
    took_s = time.perf_counter() - start
    num_bytes = sum(path.stat().st_size for path in graphs.iterdir())
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"{kind}: exported in {took_s:.0f} s, {num_bytes / 2**30:.2f} GiB, peak {peak:.2f} GiB")


def _load_onnx(folder: Path, kind: onnx_graphs.WeightFormat) -> OnnxRealtimeVoice:
    handle = OnnxHandle(
        Device("cpu", "cpu", "other", "this CPU"),
        DeviceBackend("onnx", "cpu", "CPUExecutionProvider"),
        threads=1,
    )
    start = time.perf_counter()
    model = OnnxRealtimeVoice(SHAPE, folder, onnx_graphs.find_graphs(folder, kind), handle)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{kind}: loaded in {time.perf_counter() - start:.1f} s, peak so far {peak:.2f} GiB")
    return model


def _build_runtime(model: RealtimeModel) -> RealtimeRuntime:
    runtime = RealtimeRuntime(model, Tokenizer(models.BPE({}, [])), {}, max_rows=1)
    runtime._presets[_VOICE] = reference.draw_preset(SHAPE)
    return runtime


def _open(runtime: RealtimeRuntime, num_frames: int) -> RealtimeSpeech:
    speech = runtime.open(_VOICE, guidance=reference.GUIDANCE, max_frames=num_frames)
    speech.tokens.extend(range(10, 70))
    speech.finished = True
    return speech


def _measure(runtime: RealtimeRuntime, name: str) -> Cost:
    firsts, costs = [], []
    for number in range(REPEATS + 1):
        start = time.process_time()
        parts = runtime.read([_open(runtime, FRAMES)])
        next(parts)
        first_s = time.process_time() - start
        assert sum(1 for _ in parts) == FRAMES - 1
        took_s = time.process_time() - start
        if number:
            firsts.append(first_s)
            costs.append(took_s / (FRAMES * FRAME_S))
    found = Cost(median_and_range(firsts), median_and_range(costs))
    print(f"{name}: first audio {found.first[0]:.2f} s, {found.each[0]:.2f} s for a second")
    return found


def _list_costs(kind: str, found: Cost, torch_cost: Cost) -> list[Row]:
    return [
        Row(f"{kind}: first audio", found.first[0], "core s", torch_cost.first[0], "torch, fp32",
            spread=found.first[1]),
        Row(f"{kind}: a second of audio", found.each[0], "core s", torch_cost.each[0],
            "torch, fp32", spread=found.each[1]),
    ]  # fmt: skip


def _compare(
    runtime: RealtimeRuntime, kind: onnx_graphs.WeightFormat, expected: reference.Frames
) -> Row:
    speech = _open(runtime, CHECKED_FRAMES)
    found = reference.follow(runtime, speech, None if kind == "fp32" else expected.latents)
    pairs = list(zip(found, expected, strict=True))
    if kind == "fp32":
        worst = max(float((one - two).abs().max() / two.abs().max()) for one, two in pairs)
        name = f"fp32, {CHECKED_FRAMES} frames: largest relative difference"
        return Row(name, worst, "", high=1e-3)
    cosine = min(float(torch.cosine_similarity(*pair, dim=-1).min()) for pair in pairs)
    return Row(f"{kind}, {CHECKED_FRAMES} frames: smallest cosine", cosine, "", low=_MIN_COSINE)
