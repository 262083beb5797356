"""VibeVoice-Realtime as ONNX graphs beside its torch runtime, on small random weights."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anyrig.backends.onnx import OnnxHandle
from anyrig.errors import MissingPackageError, StorageError
from anyrig.speech.models.vibevoice import onnx_graphs
from anyrig.speech.models.vibevoice.checkpoint import read_realtime_shape
from anyrig.speech.models.vibevoice.onnx_windows import OnnxRealtimeVoice
from anyrig.speech.models.vibevoice.realtime import RealtimeRuntime, RealtimeSpeech
from benchmarks import vibevoice_realtime_reference as reference
from tests.speech.conftest import place_on_cpu
from tests.speech.tiny_vibevoice import (
    PRESETS,
    build_tokenizer,
    copy_graphs,
    export_graphs,
    write_folder,
)

VOICE = "en-Tiny_woman"
TEXT = "The old keeper walked slowly down the long stone stairs, and counted every single step."
SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("realtime") / "model")


def load(folder: Path, graphs: Path) -> RealtimeRuntime:
    place = place_on_cpu("onnx")
    handle = OnnxHandle(place.device, place.backend, threads=1)
    model = OnnxRealtimeVoice(read_realtime_shape(reference.TINY), folder, graphs, handle)
    return RealtimeRuntime(model, build_tokenizer(), PRESETS, max_rows=4)


@pytest.fixture(scope="module")
def runtime(folder: Path) -> RealtimeRuntime:
    return load(folder, copy_graphs(folder))


@pytest.fixture(scope="module")
def torch_runtime(folder: Path) -> RealtimeRuntime:
    from anyrig.speech.models.vibevoice.realtime_model import load_realtime_model

    model = load_realtime_model(folder, torch.device("cpu"), torch.float32)
    return RealtimeRuntime(model, build_tokenizer(), PRESETS, max_rows=4)


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


def relative(actual: Any, expected: Any) -> float:
    return float(np.abs(np.asarray(actual) - np.asarray(expected)).max() / abs(expected).max())


@pytest.mark.parametrize("sde", [True, False])
def test_latents_and_sound_are_those_of_torch(
    runtime: RealtimeRuntime, torch_runtime: RealtimeRuntime, sde: bool
) -> None:
    """Nine windows of the same text, noise and preset."""
    found = [
        reference.speak(one, open_text(one, max_frames=54, sde=sde, num_steps=5, seed=7))
        for one in (runtime, torch_runtime)
    ]
    assert len(found[0].latents) == 54
    assert relative(found[0].latents, found[1].latents) < 1e-3
    assert relative(found[0].sounds, found[1].sounds) < 1e-3


def test_a_row_is_the_same_alone_and_among_others(runtime: RealtimeRuntime) -> None:
    """Others have other texts, lengths, seeds, guidance, steps and solvers; more than rows."""
    others: list[dict[str, Any]] = [
        {"text": TEXT[: 5 + 9 * n], "seed": n, "max_frames": 3 + 5 * n, "guidance": 1 + n / 4,
         "num_steps": 1 + n, "sde": bool(n % 2)}
        for n in range(6)
    ]  # fmt: skip
    together = hear(runtime, *(open_text(runtime, **one) for one in others))
    for number, one in enumerate(others):
        (alone,) = hear(runtime, open_text(runtime, **one))
        assert len(alone) == one["max_frames"] * runtime.model.shape.codec.hop
        assert relative(together[number], alone) < 1e-4


def test_text_that_comes_late_is_the_same_sound(runtime: RealtimeRuntime) -> None:
    (expected,) = hear(runtime, open_text(runtime, max_frames=40))
    late = runtime.open(VOICE, max_frames=40)

    def send() -> None:
        for start in range(0, len(TEXT), 7):
            late.add(TEXT[start : start + 7])
            waited.wait(0.005)
        late.finish()

    waited, sender = threading.Event(), threading.Thread(target=send)
    sender.start()
    (heard,) = hear(runtime, late)
    sender.join()
    assert relative(heard, expected) < 1e-4


def test_rows_grow_beyond_their_first_length(runtime: RealtimeRuntime) -> None:
    (expected,) = hear(runtime, open_text(runtime, max_frames=60))
    runtime._loop = runtime._open_loop(64)
    (heard,) = hear(runtime, open_text(runtime, max_frames=60))
    assert runtime._loop.length == 128
    assert relative(heard, expected) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "fp16"])
def test_smaller_weights_are_close(
    folder: Path, torch_runtime: RealtimeRuntime, kind: onnx_graphs.WeightFormat
) -> None:
    """Where each frame goes on from the same latent."""
    small = load(folder, export_graphs(folder, kind))
    expected = reference.speak(torch_runtime, open_text(torch_runtime, max_frames=18))
    found = reference.follow(small, open_text(small, max_frames=18), expected.latents)
    for actual, wanted in zip(found, expected, strict=True):
        cosine = torch.cosine_similarity(actual, wanted, dim=-1)
        assert float(cosine.min()) > (0.98 if kind == "int8" else 0.999), kind


# -- the files of the graphs -----------------------------------------------------------------------


def test_graphs_that_are_there_are_used(folder: Path) -> None:
    graphs, messages = copy_graphs(folder), list[str]()
    assert onnx_graphs.require_graphs(folder, "fp32", messages.append) == graphs
    assert messages == []


@pytest.mark.slow
def test_an_export_computes_what_the_stored_one_does(
    runtime: RealtimeRuntime, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "model")
    fresh = load(folder, export_graphs(folder, "fp32"))
    (heard,), (expected,) = hear(fresh, open_text(fresh)), hear(runtime, open_text(runtime))
    assert relative(heard, expected) < 1e-5


@pytest.mark.slow
def test_an_interrupted_conversion_goes_on(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    graphs, messages = copy_graphs(folder), list[str]()
    before = {path.name: path.stat().st_mtime_ns for path in graphs.glob("*.onnx")}
    (graphs / "head.onnx").unlink()
    (graphs / ".head.onnx.killed").mkdir()
    assert not onnx_graphs.has_graphs(graphs)
    assert onnx_graphs.require_graphs(folder, "fp32", messages.append) == graphs
    assert [line for line in messages if " of 5" in line] == ["Converting to ONNX: head, 4 of 5"]
    after = {path.name: path.stat().st_mtime_ns for path in graphs.glob("*.onnx")}
    assert {name for name in after if after[name] != before[name]} == {"head.onnx"}
    assert not (graphs / ".head.onnx.killed").exists()


def test_graphs_of_other_weights_are_others(folder: Path, tmp_path: Path) -> None:
    other = write_folder(tmp_path / "other")
    assert onnx_graphs.find_graphs(folder, "fp32").name == (
        onnx_graphs.find_graphs(other, "fp32").name
    )
    path = other / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + b"abcd")
    assert onnx_graphs.find_graphs(folder, "fp32").name != (
        onnx_graphs.find_graphs(other, "fp32").name
    )


def test_what_the_conversion_needs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "model")
    find = onnx_graphs.importlib.util.find_spec  # type: ignore[attr-defined]
    monkeypatch.setattr(
        onnx_graphs.importlib.util, "find_spec",  # type: ignore[attr-defined]
        lambda name: None if name == "torch" else find(name),
    )  # fmt: skip
    with pytest.raises(MissingPackageError, match="needs the package torch") as error:
        onnx_graphs.require_graphs(folder, "fp32")
    assert "pip install 'anyrig[torch]'" in str(error.value.hint)


@pytest.mark.slow
def test_a_conversion_that_fails_says_why(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StorageError, match="failed: the process exited with code 1"):
        onnx_graphs.require_graphs(folder, "fp32")


# -- without torch, and on a GPU -------------------------------------------------------------------

_WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # an import of it fails
sys.path[:0] = {paths!r}
import numpy as np
from pathlib import Path
from anyrig.backends.onnx import OnnxHandle
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.speech.models.vibevoice import checkpoint, onnx_graphs
from anyrig.speech.models.vibevoice.onnx_windows import OnnxRealtimeVoice
from anyrig.speech.models.vibevoice.realtime import RealtimeRuntime
from anyrig.speech.models.vibevoice.checkpoint import read_realtime_shape
from tokenizers import Tokenizer
folder = Path({folder!r})
handle = OnnxHandle(
    Device("x", {device!r}, "other", "here"), DeviceBackend("onnx", {selector!r}, {provider!r}),
    threads=1,
)
graphs = onnx_graphs.require_graphs(folder, "fp32")
model = OnnxRealtimeVoice(
    read_realtime_shape(checkpoint.read_config(folder)), folder, graphs, handle
)
presets = {{"en-Tiny_woman": Path({preset!r})}}
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
runtime = RealtimeRuntime(model, tokenizer, presets, max_rows=1)
speech = runtime.open("en-Tiny_woman", max_frames=20)
speech.add({text!r})
speech.finish()
np.save({out!r}, np.concatenate([part.samples for _, part in runtime.read([speech])]))
print(*sorted({{model.ran_on for model in model.graphs.values()}}))
"""


def speak_elsewhere(
    folder: Path, out: Path, device: str, selector: str, provider: str, **environment: str
) -> Any:
    """What another process says on a device, without torch."""
    code = _WITHOUT_TORCH.format(
        paths=[str(Path(__file__).resolve().parents[3] / "src")], folder=str(folder), device=device,
        selector=selector, provider=provider, preset=str(PRESETS[VOICE]), text=TEXT, out=str(out),
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.stdout.split() == [provider], done.stderr[-800:]
    return np.load(out)


def test_torch_is_not_needed_to_speak(
    folder: Path, runtime: RealtimeRuntime, tmp_path: Path
) -> None:
    provider = "CPUExecutionProvider"
    heard = speak_elsewhere(folder, tmp_path / "out.npy", "cpu", "cpu", provider)
    (expected,) = hear(runtime, open_text(runtime))
    assert relative(heard, expected) < 1e-6


@pytest.mark.slow
@pytest.mark.system("chromium", SWIFTSHADER)
def test_a_gpu_says_what_torch_says(
    folder: Path, torch_runtime: RealtimeRuntime, tmp_path: Path
) -> None:
    """Through WebGPU, which drives any brand: here on a software adapter."""
    copy_graphs(folder)
    heard = speak_elsewhere(
        folder, tmp_path / "out.npy", "gpu", "webgpu:0", "WebGpuExecutionProvider",
        VK_ICD_FILENAMES=SWIFTSHADER, ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER="1",
        LD_LIBRARY_PATH=str(Path(SWIFTSHADER).parent),
    )  # fmt: skip
    (expected,) = hear(torch_runtime, open_text(torch_runtime))
    assert relative(heard, expected) < 1e-3
