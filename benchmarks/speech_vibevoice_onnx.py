"""VibeVoice-Realtime with ONNX Runtime on a CPU, beside our torch runtime, at the published size.

Random weights never end, so both speak the same number of frames of the same tokens with the same
preset and noise. The graphs are exported from the same weights first. Then each format is compared
frame by frame with torch in fp32: fp32 on its own, the others each frame from torch's latent.
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
from anyrig.speech.models.vibevoice.onnx_windows import OnnxRealtimeVoice
from anyrig.speech.models.vibevoice.realtime import RealtimeRuntime, RealtimeSpeech
from anyrig.speech.models.vibevoice.realtime_model import load_realtime_model
from anyrig.speech.models.vibevoice.shapes import read_realtime_shape
from anyrig.speech.models.vibevoice.windows import RealtimeModel
from benchmarks import vibevoice_realtime_reference as reference
from benchmarks.harness import Row, median_and_range

CONFIG = reference.FULL
SHAPE = read_realtime_shape(CONFIG)
FRAME_S = 3200 / 24000
FRAMES, CHECKED_FRAMES, REPEATS, THREADS = 30, 18, 3, 2
_VOICE = "voice"
_FORMATS: tuple[onnx_graphs.WeightFormat, ...] = ("fp32", "int8", "fp16")
_MIN_COSINE = 0.99


class Speed(NamedTuple):
    """Seconds to the first audio and seconds of audio per second, with their ranges."""

    first: tuple[float, str]
    speed: tuple[float, str]


def run(_hardware: str) -> list[Row]:
    torch.set_num_threads(THREADS)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        reference.write_weights(folder, CONFIG)
        runtime = _open_torch(folder, torch.bfloat16)
        half = _measure(runtime, "torch, bf16")
        runtime = _open_torch(folder, torch.float32)
        single = _measure(runtime, "torch, fp32")
        expected = reference.speak(runtime, _open(runtime, CHECKED_FRAMES))
        best = max(half, single, key=lambda one: one.speed[0])
        del runtime
        for kind in _FORMATS:
            gc.collect()
            _export(folder, kind)
            model = _load_onnx(folder, kind)
            runtime = _build_runtime(model)
            if kind != "fp16":  # a CPU has no arithmetic for it
                found = _measure(runtime, f"ONNX Runtime, {kind}")
                rows += _list_speeds(kind, found, best)
            rows.append(_compare(runtime, kind, expected))
            del model, runtime
    return rows


def _open_torch(folder: Path, dtype: torch.dtype) -> RealtimeRuntime:
    return _build_runtime(load_realtime_model(folder, torch.device("cpu"), dtype))


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
        threads=THREADS,
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


def _measure(runtime: RealtimeRuntime, name: str) -> Speed:
    firsts, speeds = [], []
    for number in range(REPEATS + 1):
        start = time.perf_counter()
        parts = runtime.read([_open(runtime, FRAMES)])
        next(parts)
        first_s = time.perf_counter() - start
        assert sum(1 for _ in parts) == FRAMES - 1
        took_s = time.perf_counter() - start
        if number:
            firsts.append(first_s)
            speeds.append(FRAMES * FRAME_S / took_s)
    found = Speed(median_and_range(firsts), median_and_range(speeds))
    factor = 1 / found.speed[0]
    print(f"{name}: first audio {found.first[0]:.2f} s, real-time factor {factor:.2f}")
    return found


def _list_speeds(kind: str, found: Speed, best: Speed) -> list[Row]:
    return [
        Row(f"{kind}: first audio", found.first[0], "s", best.first[0], "torch",
            spread=found.first[1]),
        Row(f"{kind}: speed", found.speed[0], "s/s", best.speed[0], "torch, the faster of fp32 and "
            "bf16", spread=found.speed[1]),
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
