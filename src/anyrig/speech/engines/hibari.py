"""hibari: a small English voice distilled from Kokoro, the one a new user hears first.

The package's dictionary reads the text; its network runs through anyrig's own session, so it runs
wherever ONNX Runtime does; `models/hibari_vocoder` makes the wave of what the network gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import UnspeakableTextError
from anyrig.install import format_install
from anyrig.speech import phonemes, voices
from anyrig.speech.engine import (
    EngineInfo,
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
from anyrig.speech.engines.take_builder import KOKORO_EARLY, TakeBuilder

if TYPE_CHECKING:
    import numpy as np

    from anyrig.audio.samples import Samples
    from anyrig.backends.onnx import OnnxModel
    from anyrig.placement import Placement
    from anyrig.speech.engine import Take
    from anyrig.speech.phonemes.english import EnglishReader

RATE = 24000
ADAPTER = "3"
# Where the durations are, in units of 600 samples: an inner value of the network.
_DURATIONS, _UNIT = "/Cast_32_output_0", 600
# The planes of the spectrum side by side, a row for each frame, and the pitch. The network goes on
# to turn them round and cut them apart: a tenth of its time, to be turned back for the vocoder.
_PLANES, _PITCH = "/head/Add_output_0", "f0"
_NUM_PLANES = 5
_MAX_PHONEMES = 400

INFO = EngineInfo(
    name="hibari",
    summary="A small, fast, natural English voice",
    languages=("en",),
    real_time_factor=0.024,
    code_licence="Apache-2.0",
    weights_licence="Apache-2.0",
    modules=("hibari", "onnxruntime"),
    install=format_install("hibari-tts==0.2.1"),
    repository="maureesewilliams/hibari",
    package_bytes=16_000_000,
    max_chars=400,
    reads=("ipa",),
    word_times=True,
    verification=Verification("published", note="the voice heart; the others were not"),
)


class _VoiceFile(NamedTuple):
    """A voice's file, as published."""

    voice: str
    file: str
    sha256: str
    gender: str
    british: bool = False
    title: str = ""


VOICES = (
    _VoiceFile("heart", "hibari.onnx",
             "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8", "female"),
    _VoiceFile("emma", "bf_emma.int8.onnx",
             "f709f0488ee63b583a22189a955aaf4257b9806dd330be3490661e53af0a89c1", "female", True),
    _VoiceFile("fenrir", "am_fenrir_v2.int8.onnx",
             "f59fbd87908c91f827bc21b1b89443757b9a8580db9eee20aa948deb731321f4", "male"),
    _VoiceFile("fable", "bm_fable.int8.onnx",
             "c28529302f2d27cd12f62625c24425888c4e3c2675583100ec530259136b8bc6", "male", True),
    _VoiceFile("kore", "af_kore.int8.onnx",
             "346885752673e45d42f9864c9e2432094bc4b6385df060d4b83273da764d2fa9", "female"),
)  # fmt: skip


class Hibari(SpeechEngine):
    """English, on any device that ONNX Runtime drives."""

    info = INFO
    name = INFO.name
    version = ADAPTER
    pads = False
    batch_invariant = True
    sample_rate = RATE
    # Two threads in one process do what two processes do, and load once: a load is a sixth of 1,500
    # words. A tenth of the work is Python that holds the interpreter, so not many more than four.
    cores = 4

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        from concurrent.futures import ThreadPoolExecutor

        from anyrig.backends import open_device

        super().__init__(placement, folder=folder)
        self._device = placement.device
        self.handle = open_device(placement.device, placement.backend, threads=1)
        self._files = _find_files(Path(folder) if folder else None)
        self._voices = tuple(_voice(weights) for weights in self._files)
        self._models: dict[str, OnnxModel] = {}
        self._readers: dict[bool, EnglishReader] = {}
        self._vocabulary = installed.read_table("hibari", "assets/vocab.json")
        # Side by side: ONNX Runtime loads without the interpreter.
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self._get_reader, VOICES[0].british)
            self._get_model(VOICES[0])
            reading.result()

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        """The voice in the package, and those of its other voices that lie in `folder`."""
        version = installed.read_version(INFO, "hibari-tts")
        files = _find_files(folder)
        for weights in list(files)[1:]:  # a worker checks the package's own where it reads it
            installed.check_sha256(files[weights], weights.sha256)
        return EngineWeights(
            engine=cls.name,
            version=f"{ADAPTER}/{version}",
            fingerprint=installed.combine_hashes(weights.sha256 for weights in VOICES),
            voices=tuple(_voice(weights) for weights in files),
            folder=str(folder) if folder else "",
            sample_rate=RATE,
            worker_bytes=450 << 20,
        )

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        return whole_parts(self._take(utterance) for utterance in batch)

    def _take(self, utterance: Utterance) -> Take:
        import numpy as np

        voice = voices.choose_voice(self._voices, utterance)
        weights = next(found for found in self._files if found.voice == voice.name)
        model, reader = self._get_model(weights), self._get_reader(weights.british)
        rng = np.random.default_rng(utterance.seed)
        builder = TakeBuilder(_UNIT, RATE, KOKORO_EARLY)
        for words in phonemes.split_words(reader.read(utterance.text), _MAX_PHONEMES):
            encoded = phonemes.encode(words, self._vocabulary)
            if encoded.ids:
                wave, durations = _speak(model, encoded.ids, utterance.rate, rng)
                builder.add(wave, durations, words, encoded.owners)
        if builder.is_empty:
            raise UnspeakableTextError(
                f"nothing to say in {utterance.text!r}", hint="Use a text with words."
            )
        return builder.build()

    def _get_reader(self, british: bool) -> EnglishReader:
        if british not in self._readers:
            from anyrig.speech.phonemes.english import EnglishReader

            self._readers[british] = EnglishReader(self._device, british=british)
        return self._readers[british]

    def _get_model(self, weights: _VoiceFile) -> OnnxModel:
        if weights.voice not in self._models:
            self._models[weights.voice] = self._load(weights)
        return self._models[weights.voice]

    def _load(self, weights: _VoiceFile) -> OnnxModel:
        from anyrig.backends.onnx import OnnxHandle

        assert isinstance(self.handle, OnnxHandle)
        digest = " ".join((weights.sha256, _PLANES, _PITCH, _DURATIONS))
        return self.handle.load_cached(
            f"hibari-{weights.voice}", digest, lambda: _build_model(self._files[weights], weights)
        )


def _build_model(path: Path, weights: _VoiceFile) -> bytes:
    """The published network with the outputs that are used here."""
    from anyrig.backends import onnx_graph

    installed.check_sha256(path, weights.sha256)
    model = path.read_bytes()
    if _PLANES.encode() in model:
        return onnx_graph.replace_outputs(model, [_PLANES, _PITCH, _DURATIONS])
    # exported in another way: with its own outputs, a row for each frequency
    return onnx_graph.add_outputs(model, [_DURATIONS])


def _speak(
    model: OnnxModel, ids: list[int], rate: float, rng: np.random.Generator
) -> tuple[Samples, Sequence[int]]:
    """The wave of a stretch, and how many units each of its phonemes lasts."""
    import numpy as np

    from anyrig.speech.models.hibari_vocoder import vocode

    feeds = {"ids": np.asarray([[0, *ids, 0]], np.int64), "speed": np.asarray([rate], np.float32)}
    *found, f0, durations = model.run(feeds)
    planes = [plane[0].T for plane in found]
    if len(planes) == 1:
        planes = np.split(found[0][0], _NUM_PLANES, axis=1)
    lh, th, ln, lr, phi = planes
    return vocode(lh, th, ln, lr, phi, f0[0], rng), durations.reshape(-1).tolist()


def _find_files(folder: Path | None) -> dict[_VoiceFile, Path]:
    """The file of each voice that is on this machine.

    The package has the first. The others are in a folder as it is published, where they are under
    `voices`, or without that.
    """
    found = {VOICES[0]: installed.find_folder(INFO, "hibari") / "assets" / VOICES[0].file}
    for weights in VOICES[1:] if folder else ():
        assert folder is not None
        for path in (folder / "voices" / weights.file, folder / weights.file):
            if path.is_file():
                found[weights] = path
                break
    return found


def _voice(weights: _VoiceFile) -> Voice:
    accent, region = ("British", "GB") if weights.british else ("American", "US")
    short = weights.voice.title()
    return Voice(
        weights.voice, "en", INFO.name, f"{short}, {accent}", weights.gender,
        INFO.weights_licence, region=region, short_title=short,
    )  # fmt: skip
