"""Transcription on a plain CPU beside faster-whisper's own `transcribe` of the same file.

Five minutes of a novel, spoken by the default voice. Each side is a whole process: loading counts,
and CPU seconds include all children. Ours runs once with the default model for English, and once
with the peer's model.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from anyrig.transcription.compare import count_word_errors
from anyrig.transcription.models import assemble_whisper_base
from benchmarks.harness import Row
from benchmarks.processes import ANYRIG, child_environment, measure_command
from benchmarks.texts import read_novel

SECONDS = 300.0
PEER = """
import sys
from faster_whisper import WhisperModel
model = WhisperModel(sys.argv[1], device="cpu", compute_type="int8", cpu_threads=int(sys.argv[4]))
lines, _ = model.transcribe(sys.argv[2], language="en")
open(sys.argv[3], "w", encoding="utf-8").write(" ".join(line.text.strip() for line in lines))
"""


def run(hardware: str) -> list[Row]:
    seconds = float(os.environ.get("BENCHMARK_SECONDS", SECONDS))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        text, audio_s = speak_novel(folder / "talk.wav", seconds)
        model = assemble_whisper_base(folder / "whisper-base")
        cores = str(len(os.sched_getaffinity(0)))
        talk, out = str(folder / "talk.wav"), str(folder / "out.txt")
        home = child_environment(folder)
        command = [sys.executable, "-c", PEER, str(model), talk, out, cores]
        peer_cpu = measure_command(command, home).cpu_s
        peer = count_word_errors(text, Path(out).read_text(encoding="utf-8")).rate
        rows = []
        for name in ("whisper-base", "moonshine"):
            options = ["-o", out, "--language", "en", "--model", name, "--fresh"]
            cpu = measure_command([*ANYRIG, "transcribe", talk, *options], home).cpu_s
            wrong = count_word_errors(text, Path(out).read_text(encoding="utf-8")).rate
            rows.append(
                Row(f"{name}: seconds of sound in a CPU second", audio_s / cpu, "x",
                    audio_s / peer_cpu, "faster-whisper base, int8", judge="ratio",
                    low=0.9 if name == "whisper-base" else 0.7)
            )  # fmt: skip
            rows.append(
                Row(f"{name}: wrong words", 100 * wrong, "%", 100 * peer,
                    "faster-whisper base, int8", high=100 * peer + 2.0)
            )  # fmt: skip
    return rows


def speak_novel(path: Path, seconds: float) -> tuple[str, float]:
    """Speak sentences of a novel for so many seconds; return their text and the exact length."""
    import numpy as np
    import soundfile
    from hibari import Hibari

    from anyrig.text.tokens import split_text

    novel = read_novel()[5000:60000]
    voice, rate, parts, texts, num_samples = Hibari(), 24000, [], [], 0
    text = " ".join(novel.split())
    for start, end in split_text(text, "en"):
        sentence = text[start:end].strip()
        if not 20 < len(sentence) < 300:
            continue
        parts += [np.asarray(voice(sentence, seed=1), np.float32), np.zeros(rate // 3, np.float32)]
        texts.append(sentence)
        num_samples += len(parts[-1]) + len(parts[-2])
        if num_samples / rate >= seconds:
            break
    soundfile.write(path, np.concatenate(parts), rate)
    return " ".join(texts), num_samples / rate
