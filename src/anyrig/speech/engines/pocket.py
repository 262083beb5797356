"""Pocket TTS: a small model with a voice from a sample, made for CPUs; here through transformers.

A voice is a sound file, or latents saved as safetensors, in the folder `voices` beside the weights.
A model speaks one language; its folder's name tells which.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.install import format_install
from anyrig.speech import voices
from anyrig.speech.engines import packaged
from anyrig.speech.protocol import Found, Line, Option, Spec, SpeechEngine, Value, Voice
from anyrig.storage import weights

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.speech.audio import Take
    from anyrig.speech.models.pocket import Said

RATE = 24000
ADAPTER = "1"
_KINDS = (".wav", ".flac", ".safetensors")
_NAMED = {"french": "fr", "german": "de", "italian": "it", "spanish": "es", "portuguese": "pt"}
_WANTED = ("config.json", "*.safetensors", "tokenizer.json", "chat_template.jinja",
           "audio_tokenizer/config.json", "audio_tokenizer/*.safetensors", "voices")  # fmt: skip

SPEC = Spec(
    name="pocket",
    summary="A small model with a voice from a sample, quick on a CPU",
    languages=("en", *_NAMED.values()),
    libraries=("torch",),
    precisions=("fp32", "bf16"),
    code_licence="Apache-2.0",
    weights_licence="CC-BY-4.0",
    modules=("torch", "transformers", "safetensors"),
    install=format_install("anyrig[torch]"),
    weights="The model in the form transformers reads is eustlb/pocket-tts on the model hub; its "
    "codec goes into the folder audio_tokenizer, samples of voices into voices.",
    repository="eustlb/pocket-tts",
    limit=200,
    seeded=True,
    streams=True,
    options=(
        Option("temperature", 0.7, "How much a take varies with its seed", low=0, high=2),
    ),
    unverified="the published weights have not been run here, and where their codec lies is a "
    "guess; frames agree with transformers' generate on random weights",
)  # fmt: skip


class Pocket(SpeechEngine):
    """Lines in batches; a line's sound is its own seed's in any batch."""

    spec = SPEC
    name = SPEC.name
    version = ADAPTER
    pads = True
    sample_rate = RATE

    def __init__(self, placement: Placement, *, folder: str = "", **options: Value) -> None:
        from anyrig.backends import open_device
        from anyrig.backends.torch import TorchHandle

        super().__init__(placement, folder=folder)
        where = _complete(Path(folder) if folder else None)
        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(self.handle, TorchHandle)
        samples = _samples(where)
        self._voices = tuple(_voice(name, where) for name in samples)

        import torch

        from anyrig.speech.models import pocket

        self._model = pocket.Pocket(
            where,
            self.handle.device,
            torch.bfloat16 if placement.precision == "bf16" else torch.float32,
            samples,
            temperature=float(options.get("temperature", 0.7)),
        )

    @classmethod
    def find(cls, folder: Path | None = None) -> Found:
        """The weights, the codec and the voices in `folder`."""
        for module in SPEC.modules:
            packaged.folder(SPEC, module)
        where = _complete(folder)
        samples = _samples(where)
        files = [*where.glob("*.safetensors"), *(where / "audio_tokenizer").glob("*.safetensors")]
        told = [where / name for name in ("config.json", "tokenizer.json", "chat_template.jinja")]
        return Found(
            engine=cls.name,
            version=f"{ADAPTER}/{packaged.version(SPEC, 'transformers')}",
            fingerprint=weights.hash_files([*files, *told, *samples.values()]),
            voices=tuple(_voice(name, where) for name in samples),
            folder=str(where),
            sample_rate=RATE,
            worker_bytes=2 * sum(path.stat().st_size for path in files) + (500 << 20),
        )

    def run(self, batch: Sequence[Line]) -> list[Take]:
        """A take of each line, all of them at once."""
        from anyrig.speech.audio import Take
        from anyrig.speech.sound.stretch import stretch

        sounds = self._model.speak([self._said(line) for line in batch])
        return [
            Take(sound if line.rate == 1.0 else stretch(sound, RATE, line.rate), RATE)
            for line, sound in zip(batch, sounds, strict=True)
        ]

    def stream(self, line: Line) -> Iterator[Take]:
        """A line's sound, about a second at a time."""
        from anyrig.speech.audio import Take

        if line.rate != 1.0:
            yield from self.run([line])
            return
        for sound in self._model.stream(self._said(line)):
            yield Take(sound, RATE)

    def _said(self, line: Line) -> Said:
        from anyrig.speech.models.pocket import Said

        voice = voices.pick(self._voices, line)
        if not line.text.strip():
            raise UnspeakableTextError("nothing to say", hint="Give it a word.")
        return Said(" ".join(line.text.split()), voice.name, line.seed)


def _complete(folder: Path | None) -> Path:
    """A folder that holds a model in the form that is read here."""
    lacking = [name for name in _WANTED if folder is None or not any(folder.glob(name))]
    if folder is None or lacking:
        raise weights.missing_weights_error(SPEC.name, folder, SPEC.weights, lacking)
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except (ValueError, KeyError, TypeError):
        kind = "no model"
    if kind != "pocket_tts":
        raise InvalidInputError(
            f"{folder} holds {kind}, not pocket_tts", hint=f"Take {SPEC.repository}."
        )
    if not _samples(folder):
        raise weights.missing_weights_error(SPEC.name, folder, SPEC.weights, ["voices/*.wav"])
    return folder


def _samples(folder: Path) -> dict[str, Path]:
    """Each voice and its file."""
    found = sorted((folder / "voices").glob("*"))
    return {path.stem: path for path in found if path.suffix.lower() in _KINDS}


def _voice(name: str, folder: Path) -> Voice:
    told = folder.name.lower()
    language = next((code for word, code in _NAMED.items() if word in told), "en")
    return Voice(name, language, SPEC.name, title="From a sample")
