"""Engines whose pins clash with ours and with each other: each in an environment of its own.

What they share is in `hosting/engine.py`; how each is driven there, in `hosting/host.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.speech.engine import EngineInfo, EngineOption, Voice
from anyrig.speech.hosting.engine import ADAPTER, CLONES, Hosted
from anyrig.speech.hosting.recipes import RECIPES
from anyrig.storage import weights

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.speech.engine import Take
    from anyrig.speech.hosting.client import Part


def _install(name: str) -> str:
    return f"anyrig engines install {name}"


def _chance(name: str, default: float, high: float = 2.0) -> EngineOption:
    return EngineOption(name, default, "Sampling temperature.", low=0.01, high=high)


def _top_p(default: float) -> EngineOption:
    return EngineOption(
        "top_p", default, "Nucleus sampling: cumulative probability.", low=0.01, high=1.0
    )


def _top_k(default: int) -> EngineOption:
    return EngineOption("top_k", default, "Sample from the k most likely tokens.", low=1, high=1000)


def _penalty(default: float) -> EngineOption:
    return EngineOption(
        "repetition_penalty", default, "Penalty for repeated tokens.", low=1.0, high=20.0
    )


class Xtts(Hosted):
    """XTTS v2 of coqui-tts."""

    name = "xtts"
    version = ADAPTER
    recipe = RECIPES["xtts"]
    files = ("config.json", "model.pth", "vocab.json")
    paced = True
    info = EngineInfo(
        name="xtts",
        summary="XTTS v2: 17 languages, its own speakers or a voice from a few seconds of sound",
        languages=(
            "en", "es", "fr", "de", "it", "pt", "pl", "tr", "ru", "nl", "cs", "ar", "zh", "hu",
            "ko", "ja", "hi",
        ),
        libraries=("torch",),
        code_licence="MPL-2.0",
        weights_licence="CPML (non-commercial)",
        install=_install("xtts"),
        weights=(
            "Put config.json, model.pth, vocab.json and speakers_xtts.pth of coqui/XTTS-v2 into "
            "the folder, then `anyrig engines convert xtts`."
        ),
        max_chars=200,
        varies_with_seed=True,
        streams=True,
        options=(
            _chance("temperature", 0.75), _top_k(50), _top_p(0.85), _penalty(10.0),
            EngineOption("num_beams", 1, "Number of beams; not with `stream`.", low=1, high=10),
            EngineOption(
                "length_penalty", 1.0, "With beams: above 1 prefers longer output.",
                low=-5.0, high=5.0,
            ),
            EngineOption(
                "stream", False, "Generate in parts of half a second; first audio is faster."
            ),
        ),
        unverified=(
            "Run with coqui-tts 0.28.0 on a small random checkpoint on the CPU, never with the "
            "published weights or on a GPU."
        ),
    )  # fmt: skip

    @classmethod
    def _own_voices(cls, folder: Path) -> Sequence[str]:
        return list(_json(folder / "speakers_xtts.json").get("value", {}).get("dict", {}))

    @classmethod
    def pickles(cls, folder: Path) -> list[Path]:
        """The built-in speakers, as they are published."""
        return _unconverted([folder / "speakers_xtts.pth"])

    @classmethod
    def _how_voices(cls, folder: Path) -> str:
        if cls.pickles(folder):
            return "`anyrig engines convert xtts` makes its pickled speakers safe to read."
        return CLONES


class IndexTts(Hosted):
    """IndexTTS2."""

    name = "indextts"
    version = ADAPTER
    recipe = RECIPES["indextts"]
    files = ("config.yaml", "gpt.pth", "s2mel.pth", "bpe.model")
    sample_rate = 22050
    info = EngineInfo(
        name="indextts",
        summary="IndexTTS2: English and Chinese in the voice of any recording",
        languages=("en", "zh"),
        libraries=("torch",),
        precisions=("fp32", "fp16", "bf16"),
        code_licence="bilibili model licence",
        weights_licence="bilibili model licence",
        install=_install("indextts"),
        weights=(
            "Put the files of IndexTeam/IndexTTS-2 into the folder, and a recording into its "
            "folder `voices`; the engine itself fetches what else it needs from the model hub."
        ),
        max_chars=300,
        varies_with_seed=True,
        options=(
            _chance("temperature", 0.8), _top_p(0.8), _top_k(30), _penalty(10.0),
            EngineOption("num_beams", 3, "Number of beams.", low=1, high=10, saves_memory=1),
            EngineOption("emo_alpha", 1.0, "Strength of the recording's emotion.", low=0, high=1),
            EngineOption(
                "duration", 1.0, "Duration factor: 1.2 is a fifth longer.", low=0.5, high=2.0
            ),
            EngineOption(
                "max_mel_tokens", 1500, "Maximum length; about 50 tokens per second.",
                low=50, high=5000, saves_memory=750,
            ),
            EngineOption(
                "max_text_tokens_per_sentence", 120, "Longer lines are split.",
                low=20, high=600, saves_memory=60,
            ),
        ),
        unverified="Written after its package's source; never run, not even on a small model.",
    )  # fmt: skip

    def __init__(self, placement: Placement, **given: Any) -> None:
        self._duration = float(given.get("duration", 1.0))
        super().__init__(placement, **given)

    def _take(self, part: Part, rate: float) -> Take:
        return super()._take(part, rate / self._duration)


_PRESETS = {"in": "en", "jp": "ja", "kr": "ko", "sp": "es"}


class VibeVoiceRealtime(Hosted):
    """VibeVoice-Realtime-0.5B."""

    name = "vibevoice-realtime"
    version = ADAPTER
    recipe = RECIPES["vibevoice-realtime"]
    files = ("config.json", "preprocessor_config.json")
    clones = False
    info = EngineInfo(
        name="vibevoice-realtime",
        summary="VibeVoice-Realtime 0.5B: preset voices, quick to begin",
        languages=("en", "de", "fr", "it", "ja", "ko", "nl", "pl", "pt", "es"),
        libraries=("torch",),
        precisions=("bf16", "fp32"),
        code_licence="MIT",
        weights_licence="MIT",
        install=_install("vibevoice-realtime"),
        weights=(
            "`anyrig engines get vibevoice-realtime` fetches the model; put its repository's "
            "demo/voices/streaming_model/*.pt into the folder `voices`, then "
            "`anyrig engines convert vibevoice-realtime`."
        ),
        repository="microsoft/VibeVoice-Realtime-0.5B",
        max_chars=400,
        varies_with_seed=True,
        streams=True,
        options=(
            EngineOption("cfg_scale", 1.5, "Guidance scale.", low=1.0, high=3.0),
            EngineOption("steps", 5, "Diffusion steps per frame.", low=1, high=50),
        ),
        unverified="Written after its repository's source; never run, not even on a small model.",
    )

    @classmethod
    def _held(cls, folder: Path) -> list[Path]:
        paths = super()._held(folder)
        tensors = sorted(folder.glob("*.safetensors"))
        return [*paths, *tensors] if paths and tensors else []

    @classmethod
    def _own_voices(cls, folder: Path) -> Sequence[str]:
        return [path.stem for path in sorted(folder.glob("voices/*.json"))]

    @classmethod
    def _voice(cls, name: str, folder: Path) -> Voice:
        """Its presets are named after their language: `en-Carter_man`, `sp-Spk0_woman`."""
        prefix = name.partition("-")[0].lower()
        language = _PRESETS.get(prefix, prefix)
        language = language if language in cls.info.languages else "en"
        digest = weights.hash_file(folder / "voices" / f"{name}.safetensors")[:16]
        return Voice(name, language, cls.info.name, title=name, digest=digest)

    @classmethod
    def pickles(cls, folder: Path) -> list[Path]:
        """Presets as they are published."""
        return _unconverted(sorted(folder.glob("voices/*.pt")))

    @classmethod
    def _how_voices(cls, folder: Path) -> str:
        return cls.info.weights


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _unconverted(pickles: Sequence[Path]) -> list[Path]:
    """Those that are there and have no safetensors beside them yet."""
    return [path for path in pickles if path.is_file() and not path.with_suffix(".json").is_file()]
