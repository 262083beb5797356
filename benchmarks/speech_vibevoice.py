"""VibeVoice at the size of the published 1.5B model beside transformers' generate, random weights.

Random weights choose tokens at random, so both are made to speak the same number of frames: ours by
a leaning of its scores, transformers' by a logits processor that lets only the audio token through
(the same full set of scores is worked out there either way). Prompts are of the same tokens. Times
are of whole utterances, prompt included; capturing our graphs is told apart. Then every frame of
ours is held against transformers' own on the same inputs and noise.

`VIBEVOICE_REFERENCE` names a folder with a newer `transformers`, where the installed one has no
VibeVoice.
"""

from __future__ import annotations

import gc
import math
import time
from typing import Any

import torch

from anyrig.speech.models.vibevoice.model import VibeVoice
from anyrig.speech.models.vibevoice.speak import Speaker, Utterance
from benchmarks import vibevoice_reference as reference
from benchmarks.harness import Row, middle

FRAME_S = 3200 / 24000
PROMPT = 300
PEER_FRAMES = 40
OUR_FRAMES = 160
CHECKED_FRAMES = 50
UNEQUAL = (300, 47, 181)


def run(hardware: str) -> list[Row]:
    full = hardware != "cpu"
    if not full:
        torch.set_num_threads(1)
    where, sizes = ("cuda", reference.FULL) if full else ("cpu", reference.TINY)
    model = _timed("building", lambda: reference.build(sizes, where, torch.bfloat16))
    mine = _timed("ours", lambda: reference.ours(model))
    peer = {rows: _peer(model, rows) for rows in ((1, 32) if full else (1,))}
    rows = []
    for count, low, judge in (
        ((1, 4.0, "ratio"), (64, 100.0, "ours")) if full else ((2, 0.0, "ours"),)
    ):
        speed, spread = _speed(mine, model, count)
        rows.append(
            Row(
                f"batch {count}",
                speed,
                "s/s",
                peer=peer[1 if count < 32 else 32],
                peer_name=f"transformers' generate, batch {1 if count < 32 else 32}",
                low=low,
                judge=judge,
                spread=spread,
            )  # fmt: skip
        )
    rows += _check(model, mine, "bf16", low=0.999)
    del mine
    single = reference.recast(model, torch.float32)
    _free()
    with _exact():
        rows += _check(single, reference.ours(single), "fp32", high=1e-4)
    return rows


def _peer(model: Any, rows: int) -> float:
    """Seconds of audio per second, of transformers' generate."""
    prompts = reference.prompts_of(model, [PROMPT] * rows)
    token = model.config.audio_token_id
    with torch.no_grad():
        reference.generate(model, prompts, [token] * 3)
        _wait()
        start = time.perf_counter()
        made = reference.generate(model, prompts, [token] * PEER_FRAMES)
        _wait()
    took = time.perf_counter() - start
    hop = model.config.audio_config.hop_length
    assert all(sound.numel() == PEER_FRAMES * hop for sound in made)
    speed = rows * PEER_FRAMES * FRAME_S / took
    print(f"transformers, batch {rows}: {speed:.3g} s/s, {took / PEER_FRAMES * 1e3:.3g} ms a frame")
    return speed


def _speed(mine: VibeVoice, model: Any, rows: int) -> tuple[float, str]:
    """Seconds of audio per second, of whole utterances; the first run captures."""
    speaker = Speaker(mine)
    speaker.leaning = (-1e9, -1e9, -1e9, 0.0)
    prompts = reference.prompts_of(model, [PROMPT] * rows)
    utterances = [
        Utterance(mine.words(prompt), seed=row, most=OUR_FRAMES)
        for row, prompt in enumerate(prompts)
    ]
    speeds = []
    for number in range(4):
        _wait()
        start, samples = time.perf_counter(), 0
        for piece in speaker.speak(utterances):
            samples += len(piece.samples)
        took = time.perf_counter() - start
        assert samples == rows * OUR_FRAMES * mine.shape.acoustic.hop
        if number:
            speeds.append(rows * OUR_FRAMES * FRAME_S / took)
        else:
            print(f"ours, batch {rows}: first run {took:.3g} s")
    held = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else math.nan
    frame = rows * FRAME_S / max(speeds) * 1e3
    print(f"ours, batch {rows}: {max(speeds):.4g} s/s, {frame:.3g} ms a frame, {held:.1f} GiB")
    return middle(speeds)


def _check(
    model: Any, mine: VibeVoice, name: str, low: float | None = None, high: float | None = None
) -> list[Row]:
    """The furthest of 50 frames of rows of unequal length, each on the reference's inputs."""
    prompts = reference.prompts_of(model, UNEQUAL)
    found = reference.compare(model, mine, prompts, CHECKED_FRAMES)
    print(f"{name}: largest {found.largest}, cosine {found.cosine}")
    worst = max(found.largest.values()) if high is not None else min(found.cosine.values())
    what = "largest relative difference" if high is not None else "smallest cosine"
    return [Row(f"{name}, {CHECKED_FRAMES} frames: {what}", worst, "", low=low, high=high)]


class _exact:
    """Single precision as it is written, in the peer's convolutions too."""

    def __enter__(self) -> None:
        self._before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False

    def __exit__(self, *_: object) -> None:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = self._before


def _timed(what: str, work: Any) -> Any:
    start = time.perf_counter()
    made = work()
    _wait()
    print(f"{what}: {time.perf_counter() - start:.3g} s")
    return made


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _free() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


if __name__ == "__main__":
    import sys

    from benchmarks.harness import _table

    print(_table(run(sys.argv[1] if len(sys.argv) > 1 else "h200")))
