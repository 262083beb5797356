"""Transcription on a plain CPU beside faster-whisper's own `transcribe` of the same file.

Five minutes of a novel, spoken by the default voice. Each side is a whole process: loading counts,
and CPU seconds are those of the process and all its children. Word errors are counted in one way
for both. Ours hears once with the default for English, and once with the very model of the peer.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from anyrig.recognise.compare import word_errors
from anyrig.recognise.whisper import joined
from benchmarks.harness import ROOT, Row

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
        text, lasts_s = _spoken(folder / "talk.wav", seconds)
        model = joined(folder / "whisper-base")
        cores = str(len(os.sched_getaffinity(0)))
        talk, out = str(folder / "talk.wav"), str(folder / "out.txt")
        peer_cpu = _cpu([sys.executable, "-c", PEER, str(model), talk, out, cores], folder)
        peer = word_errors(text, Path(out).read_text(encoding="utf-8")).rate
        rows = []
        for name in ("whisper-base", "moonshine"):
            command = [sys.executable, "-m", "anyrig", "transcribe", talk, "-o", out]
            cpu = _cpu([*command, "--language", "en", "--model", name, "--fresh"], folder)
            wrong = word_errors(text, Path(out).read_text(encoding="utf-8")).rate
            rows.append(
                Row(f"{name}: seconds of sound in a CPU second", lasts_s / cpu, "x",
                    lasts_s / peer_cpu, "faster-whisper base, int8", judge="ratio",
                    low=0.9 if name == "whisper-base" else 0.7)
            )  # fmt: skip
            rows.append(
                Row(f"{name}: wrong words", 100 * wrong, "%", 100 * peer,
                    "faster-whisper base, int8", high=100 * peer + 2.0)
            )  # fmt: skip
    return rows


def _spoken(path: Path, seconds: float) -> tuple[str, float]:
    """A novel's sentences until so many seconds are full, and what was said."""
    import numpy as np
    import soundfile
    from hibari import Hibari

    from anyrig.text.sentences import sentences

    novel = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")[5000:60000]
    voice, rate, parts, said, lasts = Hibari(), 24000, [], [], 0
    text = " ".join(novel.split())
    for start, end in sentences(text, "en"):
        spoken = text[start:end].strip()
        if not 20 < len(spoken) < 300:
            continue
        parts += [np.asarray(voice(spoken, seed=1), np.float32), np.zeros(rate // 3, np.float32)]
        said.append(spoken)
        lasts += len(parts[-1]) + len(parts[-2])
        if lasts / rate >= seconds:
            break
    soundfile.write(path, np.concatenate(parts), rate)
    return " ".join(said), lasts / rate


def _cpu(command: list[str], folder: Path) -> float:
    """CPU seconds of a process and all it started."""
    environment = {
        **os.environ, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": str(ROOT / "src"),
    }  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    print(json.dumps([row.__dict__ for row in run("cpu")], indent=1))
