"""VibeVoice at the size of the published 1.5B model beside transformers' generate, random weights.

Random weights choose random tokens, so both are made to speak the same number of frames: ours by a
bias on its scores, transformers' by a logits processor that allows only the audio token (all scores
are computed there either way). Prompts have the same tokens. Times are of whole utterances with
their prompt; the capture of our CUDA graphs is reported separately. Then each frame of ours is
compared with transformers' on the same inputs and noise.

`VIBEVOICE_REFERENCE` names a folder with a newer `transformers`, where the installed one has no
VibeVoice.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from anyrig.speech.models.vibevoice.generate import GenerationInput, SpeechGenerator
from anyrig.speech.models.vibevoice.model import VibeVoiceModel
from benchmarks import vibevoice_reference as reference
from benchmarks.harness import Row, median_and_range
from benchmarks.torch_tools import full_fp32, peak_bytes, release_memory, synchronize

FRAME_S = 3200 / 24000
PROMPT_TOKENS = 300
PEER_FRAMES = 40
OUR_FRAMES = 160
CHECKED_FRAMES = 50
_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PROMPT_LENGTHS = (300, 47, 181)


def run(hardware: str) -> list[Row]:
    full = hardware != "cpu"
    if not full:
        torch.set_num_threads(1)
    sizes = reference.FULL if full else reference.TINY
    model = reference.build(sizes, "cuda" if full else "cpu", torch.bfloat16)
    ours = reference.build_ours(model)
    peer = {batch: _measure_peer(model, batch) for batch in ((1, 32) if full else (1,))}
    rows = []
    for batch, low, judge in (
        ((1, 4.0, "ratio"), (64, 100.0, "ours"), (256, 100.0, "ours"))
        if full
        else ((2, 0.0, "ours"),)
    ):
        speed, spread = _measure_ours(ours, model, batch)
        peer_batch = 1 if batch < 32 else 32
        rows.append(
            Row(f"batch {batch}", speed, "s/s", peer[peer_batch],
                f"transformers' generate, batch {peer_batch}", low=low, judge=judge, spread=spread)
        )  # fmt: skip
    rows.append(_measure_first_audio(ours, model))
    rows.append(_check(model, ours, "bf16", low=0.999))
    del ours
    single = reference.recast(model, torch.float32)
    release_memory(_DEVICE)
    with full_fp32():
        rows.append(_check(single, reference.build_ours(single), "fp32", high=1e-4))
    return rows


def _measure_peer(model: Any, rows: int) -> float:
    """Seconds of audio per second, of transformers' generate."""
    prompts = reference.make_prompts(model, [PROMPT_TOKENS] * rows)
    token = model.config.audio_token_id
    with torch.no_grad():
        reference.generate(model, prompts, [token] * 3)
        synchronize(_DEVICE)
        start = time.perf_counter()
        made = reference.generate(model, prompts, [token] * PEER_FRAMES)
        synchronize(_DEVICE)
    took_s = time.perf_counter() - start
    hop = model.config.audio_config.hop_length
    assert all(sound.numel() == PEER_FRAMES * hop for sound in made)
    speed = rows * PEER_FRAMES * FRAME_S / took_s
    print(
        f"transformers, batch {rows}: {speed:.3g} s/s, {took_s / PEER_FRAMES * 1e3:.3g} ms a frame"
    )
    return speed


def _measure_ours(ours: VibeVoiceModel, model: Any, rows: int) -> tuple[float, str]:
    """Seconds of audio per second, of whole utterances; the first run captures."""
    speaker = SpeechGenerator(ours)
    speaker.token_bias = (-1e9, -1e9, -1e9, 0.0)
    prompts = reference.make_prompts(model, [PROMPT_TOKENS] * rows)
    utterances = [
        GenerationInput(ours.embed_tokens(prompt), seed=row, max_frames=OUR_FRAMES)
        for row, prompt in enumerate(prompts)
    ]
    speeds = []
    for number in range(4):
        synchronize(_DEVICE)
        start, samples = time.perf_counter(), 0
        for piece in speaker.generate(utterances):
            samples += len(piece.samples)
        took_s = time.perf_counter() - start
        assert samples == rows * OUR_FRAMES * ours.shape.acoustic.hop
        if number:
            speeds.append(rows * OUR_FRAMES * FRAME_S / took_s)
        else:
            print(f"ours, batch {rows}: first run {took_s:.3g} s")
    peak_gib = peak_bytes(_DEVICE) / 2**30
    frame = rows * FRAME_S / max(speeds) * 1e3
    print(f"ours, batch {rows}: {max(speeds):.4g} s/s, {frame:.3g} ms a frame, {peak_gib:.1f} GiB")
    return median_and_range(speeds)


def _measure_first_audio(ours: VibeVoiceModel, model: Any) -> Row:
    """Seconds until one utterance is heard: its first part, beside the whole take."""
    generator = SpeechGenerator(ours)
    generator.token_bias = (-1e9, -1e9, -1e9, 0.0)
    (prompt,) = reference.make_prompts(model, [PROMPT_TOKENS])
    given = GenerationInput(ours.embed_tokens(prompt), seed=1, max_frames=OUR_FRAMES)
    first, whole = [], []
    for number in range(6):
        synchronize(_DEVICE)
        start = time.perf_counter()
        times = [time.perf_counter() - start for _ in generator.generate([given])]
        if number:  # the first run captures
            first.append(times[0])
            whole.append(times[-1])
    seconds, spread = median_and_range(first)
    audio_s = OUR_FRAMES * FRAME_S
    return Row(
        f"first audio of {audio_s:.0f} s", seconds, "s", median_and_range(whole)[0],
        "the whole take", high=0.25, judge="ratio", spread=spread,
    )  # fmt: skip


def _check(
    model: Any, ours: VibeVoiceModel, name: str, low: float | None = None, high: float | None = None
) -> Row:
    """The worst of 50 frames of rows of unequal length, each on the reference's inputs."""
    prompts = reference.make_prompts(model, PROMPT_LENGTHS)
    found = reference.compare(model, ours, prompts, CHECKED_FRAMES)
    print(f"{name}: largest {found.largest}, cosine {found.cosine}")
    worst = max(found.largest.values()) if high is not None else min(found.cosine.values())
    what = "largest relative difference" if high is not None else "smallest cosine"
    return Row(f"{name}, {CHECKED_FRAMES} frames: {what}", worst, "", low=low, high=high)
