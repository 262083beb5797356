"""Kokoro in Spanish, French, Italian and Portuguese: our phonemes beside espeak-ng's.

50 sentences of each language (benchmarks/data/sentences_*.txt) are spoken by one voice with either
phonemes, and Whisper base writes down what it hears: wrong words of both, of the same sentences in
the same run. And how many phonemes differ, and what opening a reader costs.

BENCHMARK_KOKORO names a folder with Kokoro's voice packs, and fr.g2p.xz of g2p2-group-romance if
that package is not installed. Sound and what was heard are kept in BENCHMARK_SOUNDS, by the
phonemes, if that is set. BENCHMARK_SENTENCES takes the first so many of each language.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from anyrig.audio.resample import resample
from anyrig.devices.discovery import discover
from anyrig.placement import Placement
from anyrig.speech import phonemes
from anyrig.speech.engines import installed, kokoro
from anyrig.speech.normalize import LANGUAGES, normalize
from anyrig.speech.phonemes.readers import open_reader
from anyrig.storage import derived
from anyrig.transcription.compare import count_word_errors
from anyrig.transcription.models import assemble_whisper_base
from benchmarks.harness import ROOT, Row
from benchmarks.pronunciation import edit_distance

VOICES = {"es": "ef_dora", "fr": "ff_siwis", "it": "if_sara", "pt": "pf_dora"}
MAX_MORE_ERRORS = 3.0
"""Points of word errors that ours may have more than espeak-ng's."""
MAX_LOAD_S = 1.0
_LOAD = """
import sys, time
from pathlib import Path
from anyrig.speech.phonemes.readers import open_reader
from anyrig.storage import derived
derived.set_folder(Path(sys.argv[1]))
start = time.process_time()
open_reader(sys.argv[2], Path(sys.argv[3])).read("1 a.")
print(time.process_time() - start)
"""


def run(hardware: str) -> list[Row]:
    folder = Path(os.environ["BENCHMARK_KOKORO"])
    with tempfile.TemporaryDirectory() as place:
        derived.set_folder(Path(place))
        sounds = Path(os.environ.get("BENCHMARK_SOUNDS", place)) / "sounds"
        sounds.mkdir(parents=True, exist_ok=True)
        speaker = _Speaker(folder, sounds)
        listener = _Listener(Path(place) / "whisper-base")
        languages = os.environ.get("BENCHMARK_LANGUAGES", " ".join(VOICES)).split()
        rows = []
        for language in languages:
            rows += _compare(language, folder, speaker, listener)
        for language in languages:
            rows.append(_measure_load(language, folder, Path(place)))
    return rows


def read_sentences(language: str) -> list[str]:
    path = ROOT / "benchmarks" / "data" / f"sentences_{language}.txt"
    return path.read_text(encoding="utf-8").splitlines()


def _compare(language: str, folder: Path, speaker: _Speaker, listener: _Listener) -> list[Row]:
    sides = (open_reader(language, folder), open_reader(language, folder, use_espeak=True))
    wrong, words, changed, signs = [0, 0], 0, 0, 0
    sentences = read_sentences(language)[: int(os.environ.get("BENCHMARK_SENTENCES", 50))]
    for sentence in sentences:
        text = normalize(sentence, language) if language in LANGUAGES else sentence
        read = [reader.read(text) for reader in sides]
        ours, theirs = (_join(spoken) for spoken in read)
        changed, signs = changed + edit_distance(ours, theirs), signs + len(theirs)
        for side, spoken in enumerate(read):
            heard = listener.transcribe(speaker.speak(spoken, VOICES[language]), language)
            errors = count_word_errors(sentence, heard, language)
            wrong[side] += errors.errors
        words += errors.words
    ours_rate, their_rate = (100 * number / words for number in wrong)
    return [
        Row(f"{language}: wrong words of {words} in {len(sentences)} sentences", ours_rate, "%",
            their_rate, "espeak-ng's phonemes", high=their_rate + MAX_MORE_ERRORS),
        Row(f"{language}: phonemes that differ from espeak-ng's", 100 * changed / signs, "%"),
    ]  # fmt: skip


def _join(words: Sequence[phonemes.PronouncedWord]) -> str:
    return "".join(word.phonemes + " " * word.space for word in words)


class _Speaker:
    """Kokoro's network as ONNX, fed with phonemes; what it said is kept."""

    def __init__(self, folder: Path, sounds: Path) -> None:
        device = discover(os.environ).cpu_device
        backend = next(backend for backend in device.backends if backend.library == "onnx")
        self._model = kokoro.KokoroOnnx(Placement(device, backend, threads=1), folder)
        self._vocabulary = installed.read_table("hibari", "assets/vocab.json")
        self._folder, self._sounds = folder, sounds

    def speak(self, words: Sequence[phonemes.PronouncedWord], voice: str) -> Path:
        """A file of samples."""
        ids = phonemes.encode(words, self._vocabulary).ids
        digest = hashlib.sha256(f"{voice} {ids}".encode()).hexdigest()
        path = self._sounds / f"{digest[:24]}.npy"
        if not path.exists():
            pack = np.fromfile(self._folder / "voices" / f"{voice}.bin", "<f4").reshape(-1, 256)
            given = kokoro.PhonemeInput(ids, pack[len(ids) - 1])
            np.save(path, self._model.run([given])[0][0].astype(np.float32))
        return path


class _Listener:
    """Whisper base; what it heard is kept beside the sound."""

    def __init__(self, folder: Path) -> None:
        from faster_whisper import WhisperModel

        path = str(assemble_whisper_base(folder))
        self._model = WhisperModel(path, device="cpu", compute_type="int8", cpu_threads=1)

    def transcribe(self, sound: Path, language: str) -> str:
        kept = sound.with_suffix(".txt")
        if not kept.exists():
            samples = resample(np.load(sound), kokoro.RATE, 16000)
            lines, _ = self._model.transcribe(
                samples, language=language, beam_size=1, temperature=0.0
            )
            kept.write_text(" ".join(line.text.strip() for line in lines), encoding="utf-8")
        return kept.read_text(encoding="utf-8")


def _measure_load(language: str, folder: Path, cache: Path) -> Row:
    command = [sys.executable, "-c", _LOAD, str(cache), language, str(folder)]
    seconds = [
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    return Row(f"{language}: open a reader, from the cache", min(seconds), "CPU s", high=MAX_LOAD_S)
