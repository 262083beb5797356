"""VibeVoice-Realtime at its published size beside its own code, on random weights.

Random weights never end, so both speak the same number of frames of the same tokens with the same
preset. The original speaks for one listener at a time and refuses the others; its speed for many is
its speed for one. Times are from an open utterance to its audio; what is done once at load (the
capture of CUDA graphs) is reported by itself. Then each frame is compared with the original's.

`VIBEVOICE_SOURCE` names a checkout of github.com/microsoft/VibeVoice: without it nothing is
compared. It needs transformers 4.51.3, with its tokenizers and huggingface_hub, and diffusers 0.39:
`VIBEVOICE_REFERENCE` names a folder that holds them, where other versions are installed.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models
from torch import Tensor

from anyrig.speech.models.vibevoice.presets import Preset, read_preset
from anyrig.speech.models.vibevoice.realtime import RealtimeRuntime, RealtimeSpeech
from anyrig.speech.models.vibevoice.realtime_model import RealtimeVoice
from benchmarks import vibevoice_realtime_reference as reference
from benchmarks.harness import Row, median_and_range
from benchmarks.torch_tools import full_fp32, peak_bytes, release_memory, synchronize

FRAME_S = 3200 / 24000
NUM_TOKENS = 60
FRAMES = 150
LISTENERS = 64
REPEATS = 5
CHECKED_FRAMES = 54
FIRST_AUDIO_S = 0.3
_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_VOICE = "en-Mike_man"


def run(hardware: str) -> list[Row]:
    full = hardware != "cpu"
    if not full:
        torch.set_num_threads(1)
    config = reference.FULL if full else reference.TINY
    weights = reference.draw_weights_on(_DEVICE, config)
    model = reference.build_ours(config, weights, _DEVICE, torch.bfloat16)
    listeners = LISTENERS if full else 4
    original = _import_original()
    theirs, preset = None, reference.draw_preset(model.shape)
    if original is not None:
        theirs = reference.build_original(original, config, _DEVICE, torch.bfloat16, weights)
        reference.set_solver(theirs, reference.SDE_STEPS, sde=True)
        path = Path(os.environ["VIBEVOICE_SOURCE"]) / f"demo/voices/streaming_model/{_VOICE}.pt"
        if full and path.is_file():
            preset = read_preset(path, model.shape.text, model.shape.speech)
            their_preset = torch.load(path, map_location=_DEVICE, weights_only=False)
        else:
            their_preset = reference.make_preset(theirs, lengths=(60, 183))
            preset = _to_preset(their_preset, model)
    peer_speed, peer_first = (None, None)
    if theirs is not None:
        peer_first, peer_speed = _measure_peer(theirs, their_preset)
    rows = _measure_ours(model, preset, listeners, peer_speed, peer_first)
    if theirs is not None:
        rows.append(_check(model, theirs, preset, their_preset, follow=True))
        del model, theirs
        release_memory(_DEVICE)
        with full_fp32():
            single = reference.build_ours(config, weights, _DEVICE, torch.float32)
            theirs = reference.build_original(original, config, _DEVICE, torch.float32, weights)
            reference.set_solver(theirs, reference.SDE_STEPS, sde=True)
            rows.append(_check(single, theirs, preset, _cast(their_preset), follow=False))
    return rows


def _import_original() -> Any:
    source = os.environ.get("VIBEVOICE_SOURCE")
    if not source:
        print("VIBEVOICE_SOURCE is not set: ours alone")
        return None
    return reference.import_original(Path(source))


def _to_preset(theirs: Mapping[str, Any], model: RealtimeVoice) -> Preset:
    path = Path(tempfile.gettempdir()) / f"vibevoice_realtime_{os.getpid()}.pt"
    torch.save(theirs, path)
    try:
        return read_preset(path, model.shape.text, model.shape.speech)
    finally:
        path.unlink()


def _cast(theirs: dict[str, Any]) -> dict[str, Any]:
    """A preset in single precision."""
    for output in theirs.values():
        output["last_hidden_state"] = output["last_hidden_state"].float()
        cache = output["past_key_values"]
        cache.key_cache = [one.float() for one in cache.key_cache]
        cache.value_cache = [one.float() for one in cache.value_cache]
    return theirs


# -- speed -----------------------------------------------------------------------------------------


def _make_tokens(seed: int = 5) -> list[int]:
    source = torch.Generator().manual_seed(seed)
    return torch.randint(10, 300, (NUM_TOKENS,), generator=source).tolist()


def _build_runtime(
    model: RealtimeVoice, preset: Preset, rows: int, *, graphs: bool
) -> RealtimeRuntime:
    model.captures = graphs and model.device.type == "cuda"
    made = RealtimeRuntime(model, Tokenizer(models.BPE({}, [])), {}, max_rows=rows)
    made._presets[_VOICE] = preset
    return made


def _open(runtime: RealtimeRuntime, seed: int) -> RealtimeSpeech:
    speech = runtime.open(_VOICE, seed=seed, guidance=reference.GUIDANCE, max_frames=FRAMES)
    speech.tokens.extend(_make_tokens())
    speech.finished = True
    return speech


def _measure_ours(
    model: RealtimeVoice,
    preset: Preset,
    listeners: int,
    peer_speed: float | None,
    peer_first: float | None,
) -> list[Row]:
    start = time.perf_counter()
    runtime = _build_runtime(model, preset, listeners, graphs=True)
    runtime.warm_up(_VOICE)
    synchronize(_DEVICE)
    print(f"ours: ready for {listeners} listeners after {time.perf_counter() - start:.3g} s")
    rows = []
    first, first_spread = _measure_first(runtime)
    rows.append(
        Row("first audio after load", first, "s", peer_first, "its generate", high=FIRST_AUDIO_S,
            spread=first_spread)
    )  # fmt: skip
    for count in (1, listeners):
        speed, spread = _measure_speed(runtime, count)
        rows.append(
            Row(f"{count} listeners", speed, "s/s", peer_speed, "its generate, one at a time",
                low=None if peer_speed is None else 1.0, judge="ratio", spread=spread)
        )  # fmt: skip
    late, late_spread = _measure_late(runtime, listeners - 1)
    rows.append(
        Row(f"first audio beside {listeners - 1} others", late, "s", high=FIRST_AUDIO_S,
            spread=late_spread)
    )  # fmt: skip
    print(f"ours: {peak_bytes(_DEVICE) / 2**30:.1f} GiB at most")
    return rows


def _measure_first(runtime: RealtimeRuntime) -> tuple[float, str]:
    times = []
    for number in range(REPEATS + 1):
        synchronize(_DEVICE)
        start = time.perf_counter()
        parts = runtime.read([_open(runtime, number)])
        next(parts)
        took_s = time.perf_counter() - start
        parts.close()
        if number:
            times.append(took_s)
    return median_and_range(times)


def _measure_speed(runtime: RealtimeRuntime, count: int) -> tuple[float, str]:
    """Seconds of audio per second, of whole utterances."""
    speeds = []
    for number in range(REPEATS):
        speeches = [_open(runtime, 100 * number + row) for row in range(count)]
        synchronize(_DEVICE)
        start = time.perf_counter()
        samples = sum(len(part.samples) for _, part in runtime.read(speeches))
        took_s = time.perf_counter() - start
        assert samples == count * FRAMES * runtime.model.shape.codec.hop
        if number:  # the first captures what has grown
            speeds.append(count * FRAMES * FRAME_S / took_s)
    frame_ms = count * FRAME_S / max(speeds) * 1e3
    print(f"ours, {count} listeners: {max(speeds):.4g} s/s, {frame_ms:.3g} ms a frame of all")
    return median_and_range(speeds)


def _measure_late(runtime: RealtimeRuntime, others: int) -> tuple[float, str]:
    """First audio of one who comes while others listen: the frames of a window may be in the way.

    One thread: whoever reads computes for all.
    """
    times = []
    for number in range(REPEATS):
        busy = runtime.read([_open(runtime, 1000 + row) for row in range(others)])
        for _ in range(others * (2 + number % 3)):
            next(busy)
        start = time.perf_counter()
        late = runtime.read([_open(runtime, number)])
        next(late)
        times.append(time.perf_counter() - start)
        late.close()
        busy.close()
    return median_and_range(times)


def _measure_peer(model: Any, preset: dict[str, Any]) -> tuple[float, float]:
    """Seconds to its first audio, and seconds of audio per second."""
    tokens = torch.randint(
        10, model.config.decoder_config.vocab_size, (NUM_TOKENS,),
        generator=torch.Generator().manual_seed(5),
    ).tolist()  # fmt: skip

    class FirstAudio:
        heard_s = 0.0

        def put(self, _audio: Tensor, _rows: Tensor) -> None:
            if not self.heard_s:
                synchronize(_DEVICE)
                self.heard_s = time.perf_counter()

        def end(self, _rows: Any = None) -> None:
            pass

    firsts, speeds = [], []
    for number in range(3):
        streamer = FirstAudio()
        synchronize(_DEVICE)
        start = time.perf_counter()
        with torch.no_grad():
            made = reference.run_original(
                model, preset, tokens, FRAMES, cfg_scale=reference.GUIDANCE,
                audio_streamer=streamer,
            )  # fmt: skip
        synchronize(_DEVICE)
        took_s = time.perf_counter() - start
        if number:
            firsts.append(streamer.heard_s - start)
            speeds.append(made.speech_outputs[0].shape[-1] / 24000 / took_s)
    print(f"the original: {max(speeds):.3g} s/s, first audio after {min(firsts):.3g} s")
    return min(firsts), max(speeds)


# -- the same audio --------------------------------------------------------------------------------


def _check(
    model: RealtimeVoice, theirs: Any, preset: Preset, their_preset: dict[str, Any], *, follow: bool
) -> Row:
    """The worst of 54 frames; with `follow` each goes on from the original's frame before it."""
    tokens, latent = _make_tokens()[:23], model.shape.codec.latent
    noise = reference.draw_noise(CHECKED_FRAMES, reference.SDE_STEPS, latent)
    seen = reference.record(theirs, their_preset, tokens, noise.to(_DEVICE), reference.GUIDANCE)
    latents, sounds = (torch.stack(one).float().cpu() for one in (seen.latents, seen.sounds))
    runtime = _build_runtime(model, preset, 1, graphs=False)
    speech = runtime.open(_VOICE, guidance=reference.GUIDANCE, max_frames=CHECKED_FRAMES)
    reference.give(speech, tokens, noise)
    found = reference.follow(runtime, speech, latents if follow else None)
    pairs = ((found.latents, latents), (found.sounds, sounds))
    if follow:
        cosine = min(float(torch.cosine_similarity(*pair, dim=-1).min()) for pair in pairs)
        return Row(f"bf16, {CHECKED_FRAMES} frames: smallest cosine", cosine, "", low=0.999)
    largest = max(float((ours - wanted).abs().max() / wanted.abs().max()) for ours, wanted in pairs)
    return Row(
        f"fp32, {CHECKED_FRAMES} frames: largest relative difference", largest, "", high=1e-4
    )
