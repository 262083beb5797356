"""VibeVoice-Realtime beside what its own code computed, on small random weights."""

from __future__ import annotations

import io
import os
import pickle
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anyrig.errors import InvalidInputError
from anyrig.speech.models.vibevoice.checkpoint import read_realtime_shape
from anyrig.speech.models.vibevoice.presets import read_preset
from anyrig.speech.models.vibevoice.realtime import RealtimeRuntime, RealtimeSpeech, TokenFeed
from anyrig.speech.models.vibevoice.solver import plan_steps, stack_steps
from benchmarks import vibevoice_realtime_reference as reference
from tests.speech.tiny_vibevoice import PRESETS, RECORDED, build_tokenizer

VOICE = "en-Tiny_woman"
_SOURCE = Path(os.environ.get("VIBEVOICE_SOURCE", "none"))
PUBLISHED = sorted(_SOURCE.glob("demo/voices/streaming_model/*.pt"))
TEXT = "The old keeper walked slowly down the long stone stairs, and counted every single step."


@pytest.fixture(scope="module")
def recorded() -> Any:
    with np.load(RECORDED / "original.npz") as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays}


def build_runtime(dtype: torch.dtype = torch.float32, **changed: torch.Tensor) -> RealtimeRuntime:
    weights = {**reference.draw_weights(reference.TINY), **changed}
    model = reference.build_ours(reference.TINY, weights, "cpu", dtype)
    return RealtimeRuntime(model, build_tokenizer(), PRESETS, max_rows=64)


@pytest.fixture(scope="module")
def runtime() -> RealtimeRuntime:
    return build_runtime()


def open_recorded(runtime: RealtimeRuntime, kind: str, voice: str = VOICE) -> RealtimeSpeech:
    """An utterance with the text and the noise of a recording."""
    sde = kind == "sde"
    steps = reference.SDE_STEPS if sde else reference.ODE_STEPS
    speech = runtime.open(
        voice, guidance=reference.GUIDANCE, num_steps=steps, sde=sde,
        max_frames=reference.NUM_FRAMES,
    )  # fmt: skip
    latent = runtime.model.shape.codec.latent
    reference.give(
        speech, reference.TOKENS, reference.draw_noise(reference.NUM_FRAMES, steps, latent)
    )
    return speech


@pytest.mark.parametrize("kind", ["sde", "ode"])
def test_latents_and_sound_are_the_originals(
    runtime: RealtimeRuntime, recorded: Any, kind: str
) -> None:
    found = reference.speak(runtime, open_recorded(runtime, kind))
    assert len(found.latents) == reference.NUM_FRAMES
    expected = {
        "latents": (found.latents, recorded[f"{kind}_latents"]),
        "sound": (found.sounds[:: reference.SOUND_EVERY], recorded[f"{kind}_sound"]),
    }
    for name, (actual, wanted) in expected.items():
        assert float((actual - wanted).abs().max() / wanted.abs().max()) < 1e-4, name


def test_half_precision_is_close_where_each_frame_gets_the_originals_inputs(recorded: Any) -> None:
    runtime = build_runtime(torch.bfloat16)
    speech = open_recorded(runtime, "sde", "en-Half_man")
    found = reference.follow(runtime, speech, recorded["half_latents"])
    pairs = (
        (found.latents, recorded["half_latents"]),
        (found.sounds[:: reference.SOUND_EVERY], recorded["half_sound"]),
    )
    for actual, wanted in pairs:
        assert float(torch.cosine_similarity(actual, wanted, dim=-1).min()) > 0.999


def test_speech_ends_where_the_original_ends(recorded: Any) -> None:
    runtime = build_runtime(**{"tts_eos_classifier.fc2.bias": recorded["end_bias"]})
    parts = [part for _, part in runtime.read([open_recorded(runtime, "ode")])]
    frames = sum(len(part.samples) for part in parts) // runtime.model.shape.codec.hop
    assert frames == int(recorded["end_frames"])
    assert 0 < frames < reference.NUM_FRAMES
    assert parts[-1].ended
    assert parts[-1].last


# -- many at once ----------------------------------------------------------------------------------


def open_text(runtime: RealtimeRuntime, text: str = TEXT, **more: Any) -> RealtimeSpeech:
    speech = runtime.open(VOICE, **{"max_frames": 20, **more})
    speech.add(text)
    speech.finish()
    return speech


def hear(runtime: RealtimeRuntime, *speeches: RealtimeSpeech) -> list[Any]:
    parts: list[list[Any]] = [[] for _ in speeches]
    for index, part in runtime.read(speeches):
        parts[index].append(part.samples)
    return [np.concatenate(some) for some in parts]


def test_a_row_is_the_same_alone_and_among_64(runtime: RealtimeRuntime) -> None:
    """Others have other texts, lengths, seeds, guidance, steps and solvers."""
    others: list[dict[str, Any]] = [
        {"text": TEXT[: 5 + n], "seed": n, "max_frames": 3 + 5 * (n % 7), "guidance": 1 + n / 20,
         "num_steps": 1 + n % 9, "sde": bool(n % 3)}
        for n in range(64)
    ]  # fmt: skip
    together = hear(runtime, *(open_text(runtime, **one) for one in others))
    for number in (0, 13, 40, 63):
        (alone,) = hear(runtime, open_text(runtime, **others[number]))
        assert len(alone) == others[number]["max_frames"] * runtime.model.shape.codec.hop
        np.testing.assert_allclose(together[number], alone, atol=1e-4 * np.abs(alone).max())


def test_rows_join_while_others_speak(runtime: RealtimeRuntime) -> None:
    """More utterances than rows, which come at other times and from other threads."""
    small = RealtimeRuntime(runtime.model, build_tokenizer(), PRESETS, max_rows=3)
    alone = [hear(small, open_text(small, seed=n, max_frames=9 + n))[0] for n in range(8)]
    heard: dict[int, Any] = {}
    joined = threading.Event()

    def listen(number: int) -> None:
        if number:
            joined.wait(60)
        speech, parts = open_text(small, seed=number, max_frames=9 + number), []
        for _, part in small.read([speech]):
            parts.append(part.samples)
            joined.set()
        heard[number] = np.concatenate(parts)

    threads = [threading.Thread(target=listen, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number, expected in enumerate(alone):
        np.testing.assert_allclose(heard[number], expected, atol=1e-4 * np.abs(expected).max())


def test_one_who_joins_is_heard_before_the_others_end(runtime: RealtimeRuntime) -> None:
    long = runtime.read([open_text(runtime, max_frames=60)])
    next(long)
    _, part = next(runtime.read([open_text(runtime, max_frames=60)]))
    assert len(part.samples) == runtime.model.shape.codec.hop
    long.close()


def test_text_that_comes_late_is_the_same_sound(runtime: RealtimeRuntime) -> None:
    (expected,) = hear(runtime, open_text(runtime, max_frames=60))
    late = runtime.open(VOICE, max_frames=60)

    def send() -> None:
        for start in range(0, len(TEXT), 7):
            late.add(TEXT[start : start + 7])
            waited.wait(0.01)
        late.finish()

    waited, sender = threading.Event(), threading.Thread(target=send)
    sender.start()
    (heard,) = hear(runtime, late)
    sender.join()
    np.testing.assert_allclose(heard, expected, atol=1e-4 * np.abs(expected).max())


def test_sound_leaves_before_the_text_has_come(runtime: RealtimeRuntime) -> None:
    speech = runtime.open(VOICE, max_frames=60)
    speech.add("The old keeper walked")
    parts = runtime.read([speech])
    heard = [next(parts) for _ in range(12)]
    assert not speech.finished
    assert not any(part.last for _, part in heard)
    speech.finish()
    assert len(list(parts)) == 48


def test_one_who_waits_for_text_does_not_hold_up_the_others(runtime: RealtimeRuntime) -> None:
    resting = runtime.open(VOICE, max_frames=12)
    resting.add("The old keeper")
    parts = runtime.read([resting])
    next(parts)
    (alone,) = hear(runtime, open_text(runtime))
    (again,) = hear(runtime, open_text(runtime))
    np.testing.assert_allclose(alone, again, atol=1e-4 * np.abs(alone).max())
    resting.finish()
    assert len(list(parts)) == 11


def test_rows_grow_beyond_their_first_length() -> None:
    """Longer buffers change nothing."""
    runtime = build_runtime()
    runtime._loop = runtime._open_loop(64)
    long = open_text(runtime, max_frames=60)
    (heard,) = hear(runtime, long)
    assert runtime._loop.length == 128
    (expected,) = hear(runtime, open_text(runtime, max_frames=60))
    np.testing.assert_allclose(heard, expected, atol=1e-4 * np.abs(expected).max())


def test_a_row_ends_at_the_last_position_of_the_model(runtime: RealtimeRuntime) -> None:
    full = RealtimeRuntime(runtime.model, build_tokenizer(), PRESETS, max_rows=1)
    speech = open_text(full, "A", max_frames=1 << 30)
    full._loop = full._open_loop(1 << 20)
    for one in full.read([speech]):
        speech.length = max(speech.length, 2000)
        last = one[1]
    assert last.last
    assert not last.ended


def test_tokens_of_parts_are_those_of_the_whole() -> None:
    tokenizer = build_tokenizer()
    text = "  It’s 3.5 km,  “so”\nhe said -  twice.  "
    expected = tokenizer.encode(text.replace("’", "'").strip() + "\n").ids
    for size in range(1, len(text)):
        feed, found = TokenFeed(tokenizer), []
        for start in range(0, len(text), size):
            found += feed.add(text[start : start + size])
        assert found + feed.finish() == expected


# -- the solver ------------------------------------------------------------------------------------


def test_steps_that_are_added_change_nothing() -> None:
    numbers = stack_steps(plan_steps(3, stochastic=True), 5)
    assert numbers[2:, 2].tolist() == [0.0, 1.0, 1.0]
    assert not numbers[3:, [0, 1, 3, 4, 5]].any()


def test_the_last_step_lands_on_the_clean_latent() -> None:
    for stochastic in (True, False):
        last = plan_steps(5, stochastic=stochastic)[-1]
        assert (last.keep, last.now, last.before, last.noise) == (0.0, 1.0, 0.0, 0.0)


# -- presets ---------------------------------------------------------------------------------------


def test_a_preset_that_would_run_code_is_refused(runtime: RealtimeRuntime, tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"lm": Hostile()}, tmp_path / "bad.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Hostile()))
    (tmp_path / "empty.pt").write_bytes(b"")
    shape = runtime.model.shape
    for name in ("bad.pt", "plain.pt", "empty.pt", "none.pt"):
        with pytest.raises(InvalidInputError, match=name):
            read_preset(tmp_path / name, shape.text, shape.speech)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("size", "stride", "offset", "compression"),
    [
        ((1 << 40,), (0,), 0, zipfile.ZIP_STORED),
        ((4,), (1,), 1, zipfile.ZIP_STORED),
        ((4,), (-1,), 0, zipfile.ZIP_STORED),
        ((2, 2), (1 << 61, 1), 0, zipfile.ZIP_STORED),
        ((4,), (1,), 0, zipfile.ZIP_DEFLATED),
    ],
)
def test_a_preset_whose_tensors_lie_outside_of_it_is_refused(
    runtime: RealtimeRuntime, tmp_path: Path, size: Any, stride: Any, offset: int, compression: int
) -> None:
    class Tensor:
        def __reduce__(self) -> Any:
            return torch._utils._rebuild_tensor_v2, (storage, offset, size, stride, False, None)

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return ("storage", torch.FloatStorage, "0", "cpu", 4) if value is storage else None

    storage, written = object(), io.BytesIO()
    Pickler(written, 2).dump({"lm": Tensor()})
    with zipfile.ZipFile(tmp_path / "bad.pt", "w", compression) as archive:
        archive.writestr("bad/data.pkl", written.getvalue())
        archive.writestr("bad/data/0", bytes(16))
    shape = runtime.model.shape
    with pytest.raises(InvalidInputError, match=r"bad.pt is not a voice preset"):
        read_preset(tmp_path / "bad.pt", shape.text, shape.speech)


def test_a_preset_of_another_model_is_named(runtime: RealtimeRuntime) -> None:
    shape = runtime.model.shape
    with pytest.raises(
        InvalidInputError, match=r"en-Tiny_woman.pt does not fit this model: .* layers"
    ):
        read_preset(PRESETS[VOICE], shape.speech, shape.text)


@pytest.mark.slow
@pytest.mark.skipif(not PUBLISHED, reason="VIBEVOICE_SOURCE names no checkout of VibeVoice")
def test_published_presets_are_read() -> None:
    shape = read_realtime_shape(reference.FULL)
    for path in PUBLISHED:
        preset = read_preset(path, shape.text, shape.speech)
        assert preset.text.shape[0] == 4
        assert preset.speech.shape[0] == preset.negative.shape[0] == 20
        assert np.isfinite(preset.hidden).all()


@pytest.mark.gpu
def test_captured_windows_are_the_windows() -> None:
    """On a real GPU: replayed graphs beside the same code run as it is written."""
    weights = reference.draw_weights(reference.TINY)
    model = reference.build_ours(reference.TINY, weights, "cuda", torch.float32)
    heard = []
    for graphs in (True, False):
        model.captures = graphs
        runtime = RealtimeRuntime(model, build_tokenizer(), PRESETS, max_rows=4)
        runtime.warm_up(VOICE)
        heard.append(
            hear(runtime, *(open_text(runtime, seed=n, max_frames=9 + n) for n in range(6)))
        )
    for one, other in zip(*heard, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
