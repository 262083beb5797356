"""SVOX Pico through py-nanotts: small, plain voices in six accents, under a free licence.

It is not a neural voice and sounds like it. It is here for Spanish, French, German and Italian
where espeak's licence or a download is undesirable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import UnspeakableTextError
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
    whole_parts,
)
from anyrig.speech.engines import installed

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.speech.engine import Take

RATE = 16000
ADAPTER = "1"
_SLOWEST, _FASTEST = 0.2, 5.0
_WORKING_BYTES = 2_500_000

INFO = EngineInfo(
    name="nanotts",
    summary="Small plain voices in five languages; not neural",
    quality=1,
    languages=("en", "es", "fr", "de", "it"),
    libraries=("onnx", "torch"),
    gpu=False,
    real_time_factor=0.008,
    code_licence="Apache-2.0",
    weights_licence="Apache-2.0",
    modules=("py_nanotts",),
    install=format_install("anyrig[nanotts]"),
    package_bytes=8_000_000,
    max_chars=600,
    options=(EngineOption("pitch", 1.0, "Pitch factor", low=0.5, high=2.0),),
    verification=Verification("published"),
)

# Voice, language, accent; then its two files and their hashes.
VOICES = (
    ("en-US", "American"), ("en-GB", "British"), ("es-ES", ""), ("fr-FR", ""), ("de-DE", ""),
    ("it-IT", ""),
)  # fmt: skip
_SHA256 = {
    "de-DE_gl0_sg.bin": "39147b816d08bbbe64b23797804cf691a761ab73a7689ca9e2b6f87ace722654",
    "de-DE_ta.bin": "df292826754713d5efb6c95d60582c17753e95856b4c735c3150db722b2c218a",
    "en-GB_kh0_sg.bin": "8f9f5d13a920a9f3371517178d42ce89b835f1e587760c2db280beb593c388fa",
    "en-GB_ta.bin": "57998f6423236dea25cd572a73b13f371e64155840e31b571eba7fca0b521b7e",
    "en-US_lh0_sg.bin": "d6946526696d9eb085f7b23b1fbdf7a9986caca658b645e9eb73c6514fd4789d",
    "en-US_ta.bin": "3a2a4d23de2a44dbbff50f69dcb9486be53b6d0a871d77cdc35f45c3e25e82aa",
    "es-ES_ta.bin": "b18c60baf249466bf8785d333d8cb4cf1f6b62e5545986f621c66568f1851961",
    "es-ES_zl0_sg.bin": "82e724d3c788767ec95f0d22b0ab738e677ad397f26ec0bbbf2c07aafdf29000",
    "fr-FR_nk0_sg.bin": "85e2d63cf9f5522ea2a483d25ddd1cb0c6bfeecc39c92884aecfe7d3f179837a",
    "fr-FR_ta.bin": "d9da5eb3cd7aac7071ab8ff7fee8d716f58572ee5393c1f0a8db946d6bf32f97",
    "it-IT_cm0_sg.bin": "c48be4dc1f5a3c77a3dc4c8a457949b69bc433d674fac4fac91d49c01770e7e4",
    "it-IT_ta.bin": "9b243c3470660293691d0d4e000901d7c5d0fa71976b33986e92e93a860ade33",
}


class NanoTts(SpeechEngine):
    """Pico's voices, on the CPU."""

    info = INFO
    name = INFO.name
    version = ADAPTER
    pads = False
    batch_invariant = True
    sample_rate = RATE

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        from py_nanotts import NanoTTS

        super().__init__(placement, folder=folder)
        self._voice = NanoTTS()
        self._pitch = float(options.get("pitch", 1.0))
        self._voices = _list_voices()

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        """The voices in the package."""
        place = installed.find_folder(INFO, "py_nanotts") / "lang"
        for name, sha256 in _SHA256.items():
            installed.check_sha256(place / name, sha256)
        return EngineWeights(
            engine=cls.name,
            version=f"{ADAPTER}/{installed.read_version(INFO, 'py-nanotts')}",
            fingerprint=installed.combine_hashes(_SHA256.values()),
            voices=_list_voices(),
            sample_rate=RATE,
            worker_bytes=40 << 20,
        )

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        return whole_parts(self._speak(line) for line in batch)

    def _speak(self, line: Utterance) -> Take:
        import numpy as np

        from anyrig.backends.memory import clear_next_block
        from anyrig.speech.engine import Take

        voice = voices.choose_voice(self._voices, line)
        speed = min(_FASTEST, max(_SLOWEST, line.rate))
        # Pico reads its working memory before it writes it: in used memory a line sounds otherwise.
        clear_next_block(_WORKING_BYTES)
        data = self._voice.speak(
            _escape_markup(line.text), voice.name, speed=speed, pitch=self._pitch
        )
        samples = np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)
        if not len(samples):
            raise UnspeakableTextError(
                f"nothing to say in {line.text!r}", hint="Use a text with words."
            )
        return Take(samples, RATE)


def _escape_markup(text: str) -> str:
    """Without angle brackets, which Pico takes for its own markup."""
    return text.replace("<", " ").replace(">", " ").strip()


def _list_voices() -> tuple[Voice, ...]:
    return tuple(
        Voice(
            name,
            name[:2],
            INFO.name,
            f"Pico {accent}".strip(),
            "female",
            INFO.weights_licence,
            region=name[3:] if accent else "",
            short_title="Pico" if accent else "",
        )
        for name, accent in VOICES
    )
