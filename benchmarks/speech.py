"""Speech on a plain CPU beside the engine package's own loop, from text to file.

Both speak the same 1,500 words as whole processes, so imports, loading and writing count. CPU
seconds include all children. Word errors are counted with moonshine.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discovery import discover
from anyrig.placement import PlacementOptions, plan_placement
from anyrig.speech.chunks import build_chunk
from anyrig.speech.engines.hibari import Hibari
from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.speech.segment import Script
from anyrig.speech.synthesis import Synthesizer
from benchmarks.harness import ROOT, Row
from benchmarks.processes import ANYRIG, child_environment, measure_command, process_memory
from benchmarks.texts import read_novel

ROUNDS = 5
WORDS = 1500
NUM_SEGMENTS = int(os.environ.get("BENCHMARK_SEGMENTS", "10000"))
PEER = """
import sys
from hibari import Hibari, write_wav
text = open(sys.argv[1], encoding="utf-8").read()
write_wav(sys.argv[2], Hibari()(text))
"""


def run(hardware: str) -> list[Row]:
    return [*_whole_processes(), _first_audio(), _word_errors(), _memory_growth()]


def _text() -> str:
    return " ".join(read_novel().split(" ")[:WORDS])


def _whole_processes() -> list[Row]:
    ours, peers = [], []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "text.txt")
        source.write_text(_text(), encoding="utf-8")
        for number in range(ROUNDS):
            home = Path(folder, f"home{number}")
            environment = child_environment(home)
            command = [*ANYRIG, "speak", "-f", str(source), "-o", str(home / "ours.wav"), "--json"]
            ours.append(measure_command(command, environment))
            peer = [sys.executable, "-c", PEER, str(source), str(home / "peer.wav")]
            peers.append(measure_command(peer))
    rows = []
    for name, low in (("CPU", 0.95), ("wall", 1.2)):
        mine, other = (
            [WORDS / (one.cpu_s if name == "CPU" else one.wall_s) for one in side]
            for side in (ours, peers)
        )
        rows.append(
            Row(f"words per {name} second, {WORDS:,} words to a wav, all included",
                statistics.median(mine), "words/s", statistics.median(other), "hibari's own loop",
                low=low, judge="ratio",
                spread=f"{min(mine):.0f}-{max(mine):.0f} against {min(other):.0f}-{max(other):.0f}")
        )  # fmt: skip
    return rows


# -- in one process ------------------------------------------------------------------------------


@contextlib.contextmanager
def _open_synthesizer() -> Iterator[Synthesizer]:
    machine, found = discover(os.environ), Hibari.find_weights()
    choice = choose_device(machine, (DeviceRequest("cpu", "flag"),))
    options = PlacementOptions(workers_per_device=1)
    placed = plan_placement(machine, choice, Hibari.need(found), options)
    with Synthesizer(
        engine="hibari", weights=found, plan=placed, environment=os.environ
    ) as synthesizer:
        synthesizer.wait_ready()
        yield synthesizer


def _script(text: str) -> Script:
    info = Hibari.info
    return prepare(
        text,
        SpeechOptions(
            max_chars=info.max_chars,
            reads=info.reads,
            languages=("en",),
        ),
    )


def _first_audio() -> Row:
    """From the text of a paragraph to its first chunk, with the voice loaded."""
    paragraphs = [p for p in _text().split("\n\n") if len(p.split()) > 60]
    times = []
    with _open_synthesizer() as synthesizer:
        list(synthesizer.read(_script("Ready.").segments))
        for text in paragraphs[:7]:
            start = time.perf_counter()
            script = _script(text)
            chunks = synthesizer.read(script.segments, lane="live").chunks()
            next(chunks)
            times.append(time.perf_counter() - start)
            list(chunks)
    return Row("first audio of a streamed paragraph, after load", statistics.median(times), "s",
               high=0.5, spread=f"{min(times):.3f}-{max(times):.3f} of {len(times)}")  # fmt: skip


def _word_errors() -> Row:
    import numpy as np

    from anyrig.transcription.compare import count_word_errors
    from anyrig.transcription.engines import Moonshine, Recording

    lines = (ROOT / "tests" / "speech" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    texts = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    recogniser = Moonshine()
    num_errors = num_words = 0
    with _open_synthesizer() as synthesizer:
        for text in texts:
            script = _script(text)
            spoken = " ".join(segment.spoken for segment in script.segments)
            chunks = synthesizer.read(script.segments).chunks()
            samples = np.concatenate([chunk.samples for chunk in chunks])
            heard = recogniser.run([Recording(samples, synthesizer.rate)])[0].text
            counted = count_word_errors(spoken, heard, "en")
            num_errors, num_words = num_errors + counted.errors, num_words + counted.words
    return Row(f"word errors over {len(texts)} sentences, moonshine", 100 * num_errors / num_words,
               "%", high=3.0)  # fmt: skip


def _memory_growth() -> Row:
    """Resident memory of this process and its worker, after 500 segments and after 10,000."""
    segments = list(_script(read_novel()).segments)
    many = [segments[n % len(segments)] for n in range(NUM_SEGMENTS)]
    # Each has its own pace, so that none is reused.
    many = [
        replace(segment, utterance=replace(segment.utterance, rate=1.0 + n * 1e-7))
        for n, segment in enumerate(many)
    ]
    resident = {}
    with _open_synthesizer() as synthesizer:
        for number, take in enumerate(synthesizer.read(many), 1):
            build_chunk(take, synthesizer.rate, 0)
            if number in (500, NUM_SEGMENTS):
                resident[number] = sum(process_memory(os.getpid()).values())
    before, after = resident[min(500, NUM_SEGMENTS)], resident[NUM_SEGMENTS]
    return Row(f"growth of resident memory from segment 500 to {NUM_SEGMENTS:,}",
               100 * (after - before) / before, "%", high=5.0,
               spread=f"{before >> 20} to {after >> 20} MiB")  # fmt: skip
