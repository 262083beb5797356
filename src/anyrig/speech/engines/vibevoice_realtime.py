"""VibeVoice-Realtime: a small VibeVoice that is heard while it still reads, for many at once.

A voice is a preset of the published ones: a `.pt` file in the folder `voices` beside the weights.
No public recipe makes such a file, so this model cannot clone.
"""

from __future__ import annotations

import importlib.util
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.install import format_install
from anyrig.speech import voices
from anyrig.speech.engine import (
    EngineInfo,
    EngineOption,
    EngineWeights,
    OptionValue,
    SpeechEngine,
    TakePart,
    Utterance,
    Verification,
    Voice,
)
from anyrig.speech.engines import installed
from anyrig.speech.engines.installed import require_files
from anyrig.speech.engines.vibevoice import RATE, describe_weights, list_voice_files
from anyrig.speech.models.vibevoice import checkpoint, onnx_graphs
from anyrig.storage import weights
from anyrig.storage.weights import WeightSource

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.backends import DeviceHandle
    from anyrig.placement import Placement, Workload
    from anyrig.speech.models.vibevoice.realtime import RealtimeSpeech
    from anyrig.speech.models.vibevoice.windows import RealtimeModel

ADAPTER = "2"
DEFAULT_VOICE = "en-Carter_man"
PRESETS = "github.com/microsoft/VibeVoice, folder demo/voices/streaming_model"
_PREFIXES = {"in": "en", "jp": "ja", "kr": "ko", "sp": "es"}
"""Languages in the names of presets that are not called as ISO 639-1 has them."""
_GENDERS = {"man": "male", "woman": "female"}
_MAX_ONNX_ROWS = 8
"""Keys and values of all rows go to the device for each frame."""
_PATIENCE = 1.5
"""Beyond the longest that an utterance should take, a model that does not end is stopped."""

INFO = EngineInfo(
    name="vibevoice-realtime",
    summary="Speech that is heard within a moment, for many listeners at once",
    languages=("en", "de", "fr", "it", "es", "pt", "ja", "ko", "nl", "pl"),
    quality=4,
    libraries=("torch", "onnx"),
    precisions=("bf16", "fp32"),
    code_licence="MIT",
    weights_licence="MIT",
    modules=("tokenizers",),
    install=format_install("anyrig[torch]"),
    weights=f"config.json and *.safetensors are {checkpoint.REPOSITORY} on the model hub (2 GB). "
    "tokenizer.json is that of Qwen/Qwen2.5-0.5B. Voices are presets: the .pt files of "
    f"{PRESETS}, in the folder voices beside the weights.",
    repository=checkpoint.REPOSITORY,
    sources=(
        WeightSource(checkpoint.REPOSITORY),
        WeightSource("Qwen/Qwen2.5-0.5B", ("tokenizer.json",), folder=""),
        WeightSource("github.com/microsoft/VibeVoice", ("demo/voices/streaming_model/*.pt",),
                     revision="e73d1e17c3754f046352014856a922f8208fb5d3", folder="voices"),
    ),
    weights_bytes=2_120_000_000,
    max_chars=1200,
    varies_with_seed=True,
    streams=True,
    options=(
        EngineOption("guidance", 1.5, "Guidance scale", low=0.01, high=100, per_utterance=True),
        EngineOption("steps", 5, "Diffusion steps per frame; more are better and slower", low=1,
               high=100, per_utterance=True),
        EngineOption("solver", "sde", "Whether each diffusion step adds noise (sde) or not (ode)",
               choices=("sde", "ode"), per_utterance=True),
        EngineOption("most_s", 300.0, "Maximum length of a line in seconds", low=1, high=600),
        EngineOption("listeners", 32, "Utterances that are spoken at the same time; more wait",
               low=1, high=512, saves_memory=4),
        EngineOption("graphs", True, "Use CUDA graphs; far slower without"),
        EngineOption("weights", "auto", "Format of the weights with ONNX Runtime: auto is int8 on "
               "a CPU and fp32 on a GPU", choices=("auto", *onnx_graphs.FORMATS)),
    ),
    verification=Verification(
        "random", "microsoft/VibeVoice's own code",
        "latents and sound of 54 frames differ by 1.2e-6 in fp32; bf16 cosine 0.9999",
        note="with its published presets; as ONNX graphs against our torch runtime, on small "
        "weights: less than 1e-3 in fp32 on a CPU and on a software WebGPU adapter",
    ),
)  # fmt: skip


class VibeVoiceRealtime(SpeechEngine):
    """Utterances in rows of one batch, which they join and leave while others speak."""

    info = INFO
    name = INFO.name
    version = ADAPTER
    pads = False
    sample_rate = RATE

    cores = None

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        from anyrig.backends import open_device

        super().__init__(placement, folder=folder)
        where = _require_model(Path(folder) if folder else None)
        presets = _list_presets(where)
        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        self._voices = tuple(_build_voice(name) for name in presets)
        self._options = options
        self._max_s = float(options.get("most_s", 300.0))

        from tokenizers import Tokenizer

        from anyrig.speech.models.vibevoice.realtime import RealtimeRuntime

        rows, on_onnx = int(options.get("listeners", 32)), placement.backend.library == "onnx"
        self._runtime = RealtimeRuntime(
            _load_model(where, self.handle, placement, options),
            Tokenizer.from_file(str(where / "tokenizer.json")),
            presets,
            max_rows=min(rows, _MAX_ONNX_ROWS) if on_onnx else rows,
        )
        self._runtime.warm_up(self._voices[0].name)
        self.concurrent_items = self._runtime.max_rows

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        """The weights in `folder`, and the presets in its folder `voices`."""
        for module in INFO.modules:
            installed.find_folder(INFO, module)
        where = _require_model(folder)
        library = "torch" if _has_torch() else "onnxruntime"
        if not _has_torch() and not _list_formats(where):
            raise installed.missing_error(INFO, "torch")
        files = sorted(where.glob("*.safetensors"))
        tensors = checkpoint.list_tensors(checkpoint.read_config(where))
        weights.check_tensors(where, files, tensors, INFO.repository)
        presets = _list_presets(where)
        found = [_build_voice(name) for name in presets]
        return describe_weights(cls, where, library, presets.values(), found)

    @classmethod
    def need(cls, found: EngineWeights) -> Workload:
        """Where torch is not installed, only what ONNX Runtime drives."""
        need = super().need(found)
        return need if _has_torch() else replace(need, libraries=("onnx",))

    @classmethod
    def prepare(
        cls, found: EngineWeights, placements: Sequence[Placement],
        options: Mapping[str, OptionValue], on_progress: Callable[[str], None],
    ) -> None:  # fmt: skip
        for placement in placements:
            if placement.backend.library == "onnx":
                kind = _choose_format(placement, options)
                onnx_graphs.require_graphs(Path(found.folder), kind, on_progress)

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        """Parts of each utterance. One at another rate than the model's is stretched as a whole,
        and comes in one part. May be called by several threads at once.
        """
        import numpy as np

        from anyrig.audio.stretch import stretch

        speeches = [self._open(line) for line in batch]
        parts: dict[int, list[Samples]] = {index: [] for index in range(len(batch))}
        for index, part in self._runtime.read(speeches):
            rate, own = batch[index].rate, parts[index]
            if rate == 1.0:
                yield TakePart(index, part.samples, last=part.last)
                continue
            own.append(part.samples)
            if part.last:
                yield TakePart(index, stretch(np.concatenate(own), RATE, rate))

    def _open(self, line: Utterance) -> RealtimeSpeech:
        from anyrig.speech.quality import expect_duration

        if not line.text.strip():
            raise UnspeakableTextError("nothing to say", hint="Use a text with words.")
        options = {**self._options, **dict(line.options)}
        longest_s = expect_duration(replace(line, rate=1.0)).max_s * _PATIENCE + 1.0
        speech = self._runtime.open(
            voices.choose_voice(self._voices, line).name,
            seed=line.seed,
            guidance=float(options.get("guidance", 1.5)),
            num_steps=int(options.get("steps", 5)),
            sde=options.get("solver", "sde") == "sde",
            max_frames=math.ceil(min(longest_s, self._max_s) / self._runtime.frame_s),
        )
        speech.add(line.text)
        speech.finish()
        return speech


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def _list_formats(folder: Path) -> list[onnx_graphs.WeightFormat]:
    """Those whose graphs were made already."""
    return [
        kind
        for kind in onnx_graphs.FORMATS
        if onnx_graphs.has_graphs(onnx_graphs.find_graphs(folder, kind))
    ]


def _choose_format(
    placement: Placement, options: Mapping[str, OptionValue]
) -> onnx_graphs.WeightFormat:
    """The format of the weights with ONNX Runtime."""
    requested = str(options.get("weights", "auto"))
    if requested != "auto":
        return cast("onnx_graphs.WeightFormat", requested)
    return "int8" if placement.device.kind == "cpu" else "fp32"


def _load_model(
    folder: Path, handle: DeviceHandle, placement: Placement, options: Mapping[str, OptionValue]
) -> RealtimeModel:
    """The model for a placement: with torch from the weights, or as ONNX graphs made of them."""
    if placement.backend.library == "onnx":
        from anyrig.backends.onnx import OnnxHandle
        from anyrig.speech.models.vibevoice.checkpoint import read_realtime_shape
        from anyrig.speech.models.vibevoice.onnx_windows import OnnxRealtimeVoice

        assert isinstance(handle, OnnxHandle)
        graphs = onnx_graphs.require_graphs(folder, _choose_format(placement, options))
        shape = read_realtime_shape(checkpoint.read_config(folder))
        return OnnxRealtimeVoice(shape, folder, graphs, handle)
    import torch

    from anyrig.backends.torch import TorchHandle
    from anyrig.speech.models.vibevoice.realtime_model import load_realtime_model

    assert isinstance(handle, TorchHandle)
    dtype = torch.bfloat16 if placement.precision == "bf16" else torch.float32
    use_graphs = bool(options.get("graphs", True))
    return load_realtime_model(folder, handle.device, dtype, graphs=use_graphs)


def _require_model(folder: Path | None) -> Path:
    """A folder with all files of a model."""
    files = ("config.json", "*.safetensors", "tokenizer.json", "voices/*.pt")
    folder = require_files(INFO, folder, files)
    checkpoint.read_config(folder)
    path = folder / "tokenizer.json"
    try:
        kind = json.loads(path.read_text(encoding="utf-8"))["model"]["type"]
    except (OSError, ValueError, KeyError, TypeError):
        kind = ""
    if not kind:
        raise InvalidInputError(
            f"{path} is not a tokenizer", hint="Use tokenizer.json of Qwen/Qwen2.5-0.5B."
        )
    return folder


def _list_presets(folder: Path) -> dict[str, Path]:
    """Each voice and its file."""
    found = list_voice_files(folder, (".pt",))
    for path in found.values():
        if not zipfile.is_zipfile(path):  # as torch.save writes it
            raise InvalidInputError(
                f"{path} is not a voice preset", hint=f"Use those of {PRESETS}."
            )
    # The voice that the original speaks with if none is named comes first.
    return dict(sorted(found.items(), key=lambda one: (one[0] != DEFAULT_VOICE, one[0])))


def _build_voice(name: str) -> Voice:
    """A voice by its name: `it-Spk1_man` speaks Italian first."""
    prefix, _, rest = name.partition("-")
    language = _PREFIXES.get(prefix, prefix)
    language = language if rest and language in INFO.languages else "en"
    title, _, kind = (rest or name).partition("_")
    return Voice(
        name, language, INFO.name, title=title, gender=_GENDERS.get(kind, ""), licence="MIT",
        also=tuple(code for code in INFO.languages if code != language),
    )  # fmt: skip
