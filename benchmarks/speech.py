"""Speech on a plain CPU beside the engine package's own loop: all included, from text to file.

Both speak the same 1,500 words as whole processes, so imports, loading and writing count. CPU
seconds are those of the process and of all its children. Word errors are counted by moonshine.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from anyrig.devices.discover import discover
from anyrig.placement import PlacementOptions, Workload, plan_placement
from anyrig.speech.engines.hibari import Hibari
from anyrig.speech.prepare import prepare
from anyrig.speech.script import Script
from anyrig.speech.stage import Stage
from anyrig.speech.synthesise import Studio, chunk_of
from benchmarks.harness import ROOT, Row

ROUNDS = 5
WORDS = 1500
PEER = """
import sys
from hibari import Hibari, write_wav
text = open(sys.argv[1], encoding="utf-8").read()
write_wav(sys.argv[2], Hibari()(text))
"""


def run(hardware: str) -> list[Row]:
    rows = [*_whole(), _first_audio(), *_word_errors()]
    for row in rows:
        print(row, flush=True)
    return [*rows, *_memory()]


# -- 1,500 words, from text to file ------------------------------------------------------------


def _text() -> str:
    words = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8").split(" ")
    return " ".join(words[:WORDS])


def _whole() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "text.txt")
        source.write_text(_text(), encoding="utf-8")
        ours, peers = [], []
        for number in range(ROUNDS):
            home = Path(folder, f"home{number}")
            home.mkdir()
            ours.append(_ours(source, home))
            peers.append(_timed([sys.executable, "-c", PEER, str(source), str(home / "peer.wav")]))
    rows = []
    for name, at, low in (("CPU", 1, 0.95), ("wall", 0, 1.2)):
        mine, other = ([WORDS / pair[at] for pair in pairs] for pairs in (ours, peers))
        rows.append(
            Row(
                f"words per {name} second, {WORDS:,} words to a wav, all included",
                statistics.median(mine),
                "words/s",
                statistics.median(other),
                "hibari's own loop",
                low=low,
                judge="ratio",
                spread=f"{min(mine):.0f}-{max(mine):.0f} against {min(other):.0f}-{max(other):.0f}",
            )
        )
    return rows


def _ours(source: Path, home: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "anyrig", "speak", "-f", str(source)]
    return _timed(
        [*command, "-o", str(home / "ours.wav"), "--json"],
        {"HOME": str(home), "XDG_CACHE_HOME": str(home / "c"), "XDG_CONFIG_HOME": str(home / "d")},
    )


def _timed(command: list[str], environment: dict[str, str] | None = None) -> tuple[float, float]:
    """Wall and CPU seconds of a command and its children."""
    env = {**os.environ, **(environment or {})}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, env=env, text=True)
    wall = time.perf_counter() - began
    assert done.returncode == 0, done.stderr[-2000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# -- in one process ------------------------------------------------------------------------------


@contextlib.contextmanager
def _studio(workers: int = 1) -> Iterator[Studio]:
    from anyrig.devices.choose import DeviceRequest, choose_device

    machine, found = discover(os.environ), Hibari.find()
    need: Workload = Hibari.need(found)
    choice = choose_device(machine, (DeviceRequest("cpu", "flag"),))
    placed = plan_placement(machine, choice, need, PlacementOptions(workers_per_device=workers))
    stage = Stage(engine="hibari", found=found, placed=placed, environment=os.environ)
    with Studio(stage) as studio:
        studio.wait_ready()
        yield studio


def _script(text: str, *, first_short: bool = False) -> Script:
    spec = Hibari.spec
    return prepare(
        text, limit=spec.limit, phonemes=spec.phonemes, languages=("en",), first_short=first_short
    )


def _first_audio() -> Row:
    """From the text of a paragraph to its first chunk, with the voice loaded."""
    paragraphs = [p for p in _text().split("\n\n") if len(p.split()) > 60]
    times = []
    with _studio() as studio:
        list(studio.speak(_script("Ready.")))
        for text in paragraphs[:7]:
            began = time.perf_counter()
            chunks = studio.speak(_script(text, first_short=True), early=True)
            next(chunks)
            times.append(time.perf_counter() - began)
            list(chunks)
    return Row(
        "first audio of a streamed paragraph, after load",
        statistics.median(times), "s", high=0.5,
        spread=f"{min(times):.3f}-{max(times):.3f} of {len(times)}",
    )  # fmt: skip


def _word_errors() -> list[Row]:
    from anyrig.recognise.compare import word_errors
    from anyrig.recognise.moonshine import Moonshine

    lines = (ROOT / "tests" / "speech" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    texts = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    ears = Moonshine()
    errors = words = 0
    with _studio() as studio:
        for text in texts:
            script = _script(text)
            said = " ".join(segment.line.text for segment in script.segments)
            audio = [chunk.samples for chunk in studio.speak(script)]
            import numpy as np

            heard = ears.transcribe(np.concatenate(audio), studio.rate).text
            counted = word_errors(said, heard, "en")
            errors, words = errors + counted.errors, words + counted.words
    return [Row(f"word errors over {len(texts)} sentences, moonshine", 100 * errors / words, "%",
                high=3.0)]  # fmt: skip


# -- 10,000 segments -----------------------------------------------------------------------------


def _memory() -> list[Row]:
    """Resident memory of this process and of its worker, after 500 segments and after 10,000."""
    text = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    segments = list(_script(text).segments)
    count = int(os.environ.get("BENCHMARK_SEGMENTS", "10000"))
    many = [segments[n % len(segments)] for n in range(count)]
    # Every one is another line, so that each is really made.
    from dataclasses import replace

    many = [replace(segment, line=replace(segment.line, seed=n)) for n, segment in enumerate(many)]
    base = 0
    with _studio(workers=1) as studio:
        me = psutil.Process()
        for number, spoken in enumerate(studio.takes(many), 1):
            chunk_of(spoken, studio.rate, 0)
            if number in (500, count):
                family = [me, *me.children(recursive=True)]
                now = sum(process.memory_info().rss for process in family)
                base = base or now
        grown = 100 * (now - base) / base
    return [Row(f"growth of resident memory from segment 500 to {count:,}", grown, "%", high=5.0,
                spread=json.dumps({"MiB": [base >> 20, now >> 20]}).replace('"', ""))]  # fmt: skip
