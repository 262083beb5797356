"""What engines share whose voices are recordings: audio files in `voices` beside the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import InvalidInputError, MissingSampleError, UnspeakableTextError
from anyrig.speech import voices
from anyrig.speech.engine import EngineInfo, EngineWeights, SpeechEngine, Utterance, Voice
from anyrig.speech.engines.installed import require_files
from anyrig.storage import weights

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples


def list_recordings(folder: Path) -> dict[str, Path]:
    """By the name of the voice."""
    paths = sorted((folder / "voices").glob("*"))
    return {path.stem: path for path in paths if path.suffix.lower() in voices.RECORDING_SUFFIXES}


def build_voice(info: EngineInfo, name: str, recording: Path) -> Voice:
    """A voice that speaks all languages of its engine; another recording is another voice."""
    first, *rest = info.languages
    digest = weights.hash_file(recording)[:16]
    return Voice(name, first, info.name, title=name, also=tuple(rest), digest=digest)


def find_weights(
    engine: type[SpeechEngine], folder: Path | None, names: Sequence[str], own: Sequence[Voice] = ()
) -> EngineWeights:
    """The files of an engine in a folder, and its voices: its own, then recordings."""
    info = engine.info
    folder = require_files(info, folder, names)
    recordings = list_recordings(folder).items()
    found = (*own, *(build_voice(info, name, path) for name, path in recordings))
    if not found:
        raise MissingSampleError(
            f"{info.name} has no voice in {folder}",
            hint=f"`anyrig voices add NAME FILE --engine {info.name}` makes one of a recording of 5"
            " to 15 seconds.",
        )
    files = [folder / name for name in names]
    return EngineWeights(
        engine=info.name,
        version=engine.version,
        fingerprint=weights.hash_files(files),
        voices=found,
        folder=str(folder),
        sample_rate=engine.sample_rate,
        worker_bytes=int(1.3 * sum(path.stat().st_size for path in files)),
    )


def resolve_utterance(info: EngineInfo, known: Sequence[Voice], utterance: Utterance) -> Utterance:
    """The utterance with its voice named: one of the engine, or the path of a recording."""
    if not utterance.text.strip():
        raise UnspeakableTextError("there is nothing to say", hint="Use a text with words.")
    language, voice = voices.base_language(utterance.language), utterance.voice
    if voices.is_recording(voice) and voice not in {one.name for one in known}:
        if language not in info.languages:
            raise UnspeakableTextError(
                f"{info.name} does not speak {utterance.language}",
                hint=f"It speaks {', '.join(info.languages)}.",
            )
        if not Path(voice).is_file():
            raise InvalidInputError(f"the recording {voice} does not exist", hint="Check the path.")
        return replace(utterance, language=language, voice=str(Path(voice).absolute()))
    return replace(utterance, language=language, voice=voices.choose_voice(known, utterance).name)


def to_samples(audio: Any) -> Samples:
    """Audio of any shape and type, of torch or NumPy, as mono float32."""
    import numpy as np

    if hasattr(audio, "detach"):
        audio = audio.detach().to("cpu")
        audio = audio.float() if audio.is_floating_point() else audio
    row = np.asarray(audio).reshape(-1)
    return (row / 32768.0 if row.dtype.kind in "iu" else row).astype(np.float32)
