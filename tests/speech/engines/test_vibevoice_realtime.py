"""VibeVoice-Realtime as an engine, with a small random model that speaks for as long as it may."""

from __future__ import annotations

import importlib.util
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from anyrig.audio.samples import Samples
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import InvalidInputError, MissingPackageError, MissingWeightsError
from anyrig.placement import Placement
from anyrig.speech import contract
from anyrig.speech.engine import OptionValue, Utterance
from anyrig.speech.engines.vibevoice_realtime import VibeVoiceRealtime
from anyrig.speech.models.vibevoice import onnx_graphs
from benchmarks import vibevoice_realtime_reference as reference
from tests.speech.conftest import place_on_cpu
from tests.speech.tiny_vibevoice import copy_graphs, write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("en-Ada_woman", "en-Carter_man", "it-Bo_man", "kr-Cho_woman")
    return write_folder(tmp_path_factory.mktemp("realtime") / "model", names)


@pytest.fixture(scope="module")
def placement() -> Placement:
    return place_on_cpu("torch")


@pytest.fixture(scope="module")
def subject(folder: Path, placement: Placement) -> Iterator[contract.Subject]:
    before = torch.get_num_threads()
    yield contract.Subject(VibeVoiceRealtime, placement, folder, {"most_s": 8.0, "steps": 2})
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "check",
    [check for check in contract.CHECKS if check is not contract.check_longest_line],
    ids=lambda check: check.__name__,
)
def test_it_keeps_the_contract(check: contract.Check, subject: contract.Subject) -> None:
    check(subject)


def test_voices_are_the_presets(subject: contract.Subject) -> None:
    voices = subject.weights.voices
    assert [voice.name for voice in voices] == [
        "en-Carter_man", "en-Ada_woman", "it-Bo_man", "kr-Cho_woman",
    ]  # fmt: skip
    assert [(voice.language, voice.gender) for voice in voices] == [
        ("en", "male"), ("en", "female"), ("it", "male"), ("ko", "female"),
    ]  # fmt: skip
    assert all("de" in voice.also for voice in voices)


def test_guidance_steps_and_solver_are_the_utterances_own(subject: contract.Subject) -> None:
    """One loaded model; what one asks for does not stay for the next."""
    line = Utterance("So.", seed=3)
    options = ((), (("guidance", 3.0),), (("steps", 7),), (("solver", "ode"),), ())
    takes = subject.loaded.run([Utterance("So.", seed=3, options=one) for one in options])
    for number in (1, 2, 3):
        assert not np.allclose(takes[0].samples, takes[number].samples, atol=1e-3), options[number]
    np.testing.assert_allclose(takes[0].samples, takes[4].samples, atol=1e-4)
    (alone,) = subject.loaded.run([line])
    np.testing.assert_allclose(takes[0].samples, alone.samples, atol=1e-4)


def test_utterances_of_several_threads_are_spoken_together(subject: contract.Subject) -> None:
    lines = [Utterance(f"Line {number}.", seed=number) for number in range(6)]
    alone = [subject.loaded.run([line])[0] for line in lines]
    found: dict[int, Samples] = {}

    def speak(number: int) -> None:
        found[number] = subject.loaded.run([lines[number]])[0].samples

    threads = [threading.Thread(target=speak, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number, take in enumerate(alone):
        np.testing.assert_allclose(found[number], take.samples, atol=1e-4)


def test_sound_comes_frame_by_frame(subject: contract.Subject) -> None:
    parts = subject.loaded.synthesize([Utterance("Good morning to you all.")])
    assert len(next(parts).samples) == 3200
    assert sum(len(part.samples) for part in parts) % 3200 == 0


# -- with ONNX Runtime -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def onnx_subject(folder: Path) -> contract.Subject:
    copy_graphs(folder)
    options: dict[str, OptionValue] = {"most_s": 4.0, "steps": 2, "weights": "fp32"}
    return contract.Subject(VibeVoiceRealtime, place_on_cpu("onnx"), folder, options)


def test_onnx_runtime_speaks_with_the_same_voices_seeds_and_options(
    onnx_subject: contract.Subject,
) -> None:
    engine = onnx_subject.loaded
    assert engine.handle is not None
    assert engine.handle.name == "CPUExecutionProvider"
    assert engine.concurrent_items == 8
    lines = [
        Utterance("So.", seed=3), Utterance("So.", seed=3), Utterance("So.", seed=4),
        Utterance("So.", seed=3, options=(("guidance", 3.0),)),
        Utterance("So.", seed=3, options=(("steps", 7),)),
        Utterance("So.", seed=3, options=(("solver", "ode"),)),
    ]  # fmt: skip
    first, same, *others = [take.samples for take in engine.run(lines)]
    np.testing.assert_allclose(first, same, atol=1e-4)
    for number, other in enumerate(others):
        assert not np.allclose(first, other, atol=1e-3), lines[2 + number]


def test_onnx_runtime_sends_sound_frame_by_frame(onnx_subject: contract.Subject) -> None:
    parts = onnx_subject.loaded.synthesize([Utterance("Good morning.", voice="it-Bo_man")])
    assert len(next(parts).samples) == 3200
    assert sum(len(part.samples) for part in parts) % 3200 == 0


def test_without_torch_the_converted_weights_are_used(
    onnx_subject: contract.Subject, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert VibeVoiceRealtime.need(onnx_subject.weights).libraries == ("torch", "onnx")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "torch" else find(name)
    )
    found = VibeVoiceRealtime.find_weights(folder)
    assert VibeVoiceRealtime.need(found).libraries == ("onnx",)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("onnx"))
    with pytest.raises(MissingPackageError, match="needs the package torch") as error:
        VibeVoiceRealtime.find_weights(copy)
    assert "pip install 'anyrig[torch]'" in str(error.value.hint)


def test_the_format_of_the_weights_follows_the_device_and_the_option(
    folder: Path, onnx_subject: contract.Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before workers start, what they need is made; with torch nothing is."""
    asked: list[str] = []
    monkeypatch.setattr(
        onnx_graphs, "require_graphs", lambda _folder, kind, _on_progress: asked.append(kind)
    )
    cpu = place_on_cpu("onnx")
    gpu = replace(
        cpu, device=Device("x", "gpu", "other", "card"),
        backend=DeviceBackend("onnx", "webgpu:0", "WebGpuExecutionProvider"),
    )  # fmt: skip
    for placements, options in (
        ([cpu], {}), ([gpu, place_on_cpu("torch")], {}), ([gpu], {"weights": "fp16"}),
    ):  # fmt: skip
        VibeVoiceRealtime.prepare(onnx_subject.weights, placements, options, print)
    assert asked == ["int8", "fp32", "fp16"]


# -- files -----------------------------------------------------------------------------------------


def test_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingWeightsError) as error:
        VibeVoiceRealtime.find_weights(None)
    for place in ("microsoft/VibeVoice-Realtime-0.5B", "Qwen/Qwen2.5-0.5B", "streaming_model"):
        assert place in error.value.hint
    for number, name in enumerate(("config.json", "model.safetensors", "tokenizer.json", "voices")):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        shutil.rmtree(copy / name) if name == "voices" else (copy / name).unlink()
        with pytest.raises(MissingWeightsError) as error:
            VibeVoiceRealtime.find_weights(copy)
        assert name.replace("model.", "*.") in error.value.message


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", "{}", "config.json is not the configuration of a model"),
        ("config.json", '{"model_type": "vibevoice"}', "contains vibevoice, not"),
        ("config.json", '{"model_type": "vibevoice_streaming"}', "has no decoder_config"),
        ("tokenizer.json", "{}", "tokenizer.json is not a tokenizer"),
        ("voices/en-Ada_woman.pt", "none", "en-Ada_woman.pt is not a voice preset"),
    ],
)
def test_a_file_that_is_another_is_named(
    folder: Path, tmp_path: Path, name: str, content: str, said: str
) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / name).write_text(content)
    with pytest.raises(InvalidInputError, match=said):
        VibeVoiceRealtime.find_weights(tmp_path / "copy")


def test_weights_that_are_cut_off_or_misshapen_are_named(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(MissingWeightsError, match="is incomplete"):
        VibeVoiceRealtime.find_weights(copy)
    weights = reference.draw_weights(reference.TINY)
    del weights["model.tts_input_types.weight"]
    save_file(weights, path)
    with pytest.raises(MissingWeightsError, match=r"has no tensor model\.tts_input_types\.weight"):
        VibeVoiceRealtime.find_weights(copy)
    weights["model.tts_input_types.weight"] = torch.zeros(3, 32)
    save_file(weights, path)
    with pytest.raises(MissingWeightsError, match=r"\[3, 32\], and config.json asks for \[2, 32\]"):
        VibeVoiceRealtime.find_weights(copy)


def test_another_variant_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    config = json.loads(json.dumps(reference.TINY))
    config["acoustic_tokenizer_config"]["mixer_layer"] = "conv"
    (tmp_path / "copy" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidInputError, match="mixer_layer is 'conv', expected 'depthwise_conv'"):
        VibeVoiceRealtime.find_weights(tmp_path / "copy")
