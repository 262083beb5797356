"""VibeVoice: long-form speech with a voice from a sample, on a GPU with torch.

A sample is a sound file in the folder `voices` beside the weights; its name is the voice's. Without
one the model speaks with a voice of its own choosing, another for every seed.

What reads a folder of VibeVoice serves `vibevoice_realtime.py` as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
from anyrig.speech.engines.installed import require_files, require_model
from anyrig.storage import weights

if TYPE_CHECKING:
    from anyrig.placement import Placement

RATE = 24000
ADAPTER = "1"
OWN = "own"
"""The voice of no sample."""
_SUFFIXES = (".wav", ".flac")
# What its weights can also say; its authors call these a trial.
_TRIAL_LANGUAGES = ("de", "fr", "it", "es", "pt", "ja", "ko", "nl", "pl")

INFO = EngineInfo(
    name="vibevoice",
    summary="Long, expressive speech with a voice from a sample",
    languages=("en", "zh", *_TRIAL_LANGUAGES),
    quality=4,
    libraries=("torch",),
    precisions=("bf16", "fp32"),
    code_licence="MIT",
    weights_licence="MIT",
    modules=("torch", "safetensors", "tokenizers"),
    install=format_install("anyrig[torch]"),
    weights="The converted weights are vibevoice/VibeVoice-1.5B-hf on the model hub (5 GB): "
    "config.json, *.safetensors, tokenizer.json. Samples of voices go into the folder "
    "voices beside them.",
    repository="vibevoice/VibeVoice-1.5B-hf",
    weights_bytes=5_000_000_000,
    max_chars=1200,
    varies_with_seed=True,
    streams=True,
    options=(
        EngineOption("guidance", 1.3, "Guidance scale", low=1, high=5),
        EngineOption("steps", 10, "Diffusion steps per frame; more are better and slower", low=2,
               high=100),
        EngineOption("most_s", 300.0, "Maximum length of a line in seconds", low=1, high=5400,
               saves_memory=60),
        EngineOption("graphs", True, "Use CUDA graphs; far slower without"),
    ),
    verification=Verification(
        "random", "transformers' VibeVoiceForConditionalGeneration",
        "latents and sound of 50 frames differ by 2.8e-6 in fp32; bf16 cosine 0.9999",
    ),
)  # fmt: skip


class VibeVoice(SpeechEngine):
    """Lines in batches, frame by frame; a line's sound is its own seed's in any batch."""

    info = INFO
    name = INFO.name
    version = ADAPTER
    voice_samples = True
    pads = True
    sample_rate = RATE

    def __init__(self, placement: Placement, *, folder: str = "", **options: OptionValue) -> None:
        from anyrig.backends import open_device
        from anyrig.backends.torch import TorchHandle

        super().__init__(placement, folder=folder)
        where = _require_model(Path(folder) if folder else None)
        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(self.handle, TorchHandle)
        samples = _list_recordings(where)
        self._voices = tuple(_build_voice(name) for name in samples)

        import torch

        from anyrig.speech.models.vibevoice.generate import VibeVoiceRuntime

        self._runtime = VibeVoiceRuntime(
            where,
            self.handle.device,
            torch.bfloat16 if placement.precision == "bf16" else torch.float32,
            samples,
            guidance=float(options.get("guidance", 1.3)),
            num_steps=int(options.get("steps", 10)),
            max_s=float(options.get("most_s", 300.0)),
            graphs=bool(options.get("graphs", True)),
        )

    @classmethod
    def find_weights(cls, folder: Path | None = None) -> EngineWeights:
        """The weights in `folder`, and the samples in its folder `voices`."""
        for module in INFO.modules:
            installed.find_folder(INFO, module)
        where = _require_model(folder)
        samples = _list_recordings(where)
        found = [_build_voice(name) for name in samples]
        return describe_weights(cls, where, "torch", filter(None, samples.values()), found)

    def synthesize(self, batch: Sequence[Utterance]) -> Iterator[TakePart]:
        for part in self._runtime.generate([(line, self._find_voice(line)) for line in batch]):
            yield TakePart(part.index, part.samples, last=part.last)

    def _find_voice(self, line: Utterance) -> str:
        return voices.choose_voice(self._voices, line).name


def list_voice_files(folder: Path, suffixes: Sequence[str]) -> dict[str, Path]:
    """Those beside the weights, by the name of the voice."""
    paths = sorted((folder / "voices").glob("*"))
    return {path.stem: path for path in paths if path.suffix.lower() in suffixes}


def describe_weights(
    engine: type[SpeechEngine],
    folder: Path,
    library: str,
    voice_files: Iterable[Path],
    found: Iterable[Voice],
) -> EngineWeights:
    """The weights of a folder, run by a library."""
    files = sorted(folder.glob("*.safetensors"))
    texts = [folder / name for name in ("config.json", "tokenizer.json")]
    return EngineWeights(
        engine=engine.name,
        version=f"{engine.version}/{installed.read_version(engine.info, library)}",
        fingerprint=weights.hash_files([*files, *texts, *voice_files]),
        voices=tuple(found),
        folder=str(folder),
        sample_rate=RATE,
        worker_bytes=sum(path.stat().st_size for path in files) + (2 << 30),
    )


def _require_model(folder: Path | None) -> Path:
    """A folder with a model in the format of transformers."""
    folder = require_files(INFO, folder, ("config.json", "*.safetensors", "tokenizer.json"))
    require_model(folder, INFO, "language_model.embed_tokens.weight")
    return folder


def _list_recordings(folder: Path) -> dict[str, Path | None]:
    """Each voice and its sample; last, the voice of none."""
    found: dict[str, Path | None] = {**list_voice_files(folder, _SUFFIXES)}
    found.setdefault(OWN, None)
    return found


def _build_voice(name: str) -> Voice:
    """A voice by its name: `zh-Anchen` speaks Chinese first."""
    prefix = name.partition("-")[0].lower()
    language = prefix if prefix in INFO.languages and "-" in name else "en"
    others = tuple(code for code in INFO.languages if code != language)
    title = "Chosen by the model" if name == OWN else "From a recording"
    return Voice(name, language, INFO.name, title=title, licence="MIT" if name == OWN else "",
                 also=others)  # fmt: skip
