"""A whole book on a plain CPU beside the way audiobook makers work: a sentence loop, one encode.

Ours is the real command with an empty cache: reading, planning, speaking, caching, loudness, and an
m4b with chapters. The peer is given the sentences of our plan, speaks one after the other with the
engine package's own call, and encodes once with PyAV's defaults. CPU seconds include all children;
loading counts on both sides.

Our encoder uses FFmpeg's `fast` AAC coder where PyAV's default is `twoloop` (`audio/aac.py` says
what that costs in quality: nothing that was measured). So the peer's audio is encoded a second time
with our settings, and both figures are given.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from anyrig.audiobooks.options import ContentOptions
from anyrig.text.files import read
from anyrig.text.matter import apply_matter
from anyrig.units import MIB
from benchmarks.book_texts import TEXTS, cache_folder, fetch_text, plan_document
from benchmarks.harness import Row
from benchmarks.processes import ANYRIG, child_environment, measure_command

WORDS = int(os.environ.get("BENCHMARK_WORDS", "50000"))
LENGTHS = (WORDS // 5, WORDS * 2)  # 10,000 and 100,000
NOVEL = "Pride and Prejudice"
PEER = """
import json, sys, time
import av
import numpy as np
from fractions import Fraction
from hibari import Hibari

def encode(samples, path, options):
    cpu, wall = time.process_time(), time.perf_counter()
    container = av.open(path, "w", format="mp4")
    stream = container.add_stream("aac", rate=24000, options=options)
    stream.bit_rate = 64000
    stream.codec_context.layout = "mono"
    for start in range(0, len(samples), 24000):
        row = samples[start : start + 24000].reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(row, format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 24000, start, Fraction(1, 24000)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))
    container.close()
    return time.process_time() - cpu, time.perf_counter() - wall

sentences = json.load(open(sys.argv[1], encoding="utf-8"))
speak = Hibari()
samples = np.concatenate([speak(sentence) for sentence in sentences]).astype(np.float32)
plain = encode(samples, sys.argv[2], {})
fast = encode(samples, sys.argv[3], {"aac_coder": "fast", "aac_tns": "0"})
print(json.dumps({"audio_s": len(samples) / 24000, "plain": plain, "fast": fast}))
"""


@dataclass(frozen=True)
class BookCost:
    """What it took to make a book."""

    num_words: int
    wall_s: float
    cpu_s: float
    audio_s: float
    peak_bytes: int = 0
    """Resident memory of the process and its children together."""

    @property
    def cpu_rate(self) -> float:
        return self.num_words / self.cpu_s

    @property
    def wall_rate(self) -> float:
        return self.num_words / self.wall_s

    def __str__(self) -> str:
        return f"{self.cpu_s:.0f} CPU s, {self.wall_s:.0f} s, {self.audio_s / 60:.0f} min of sound"


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ours = _measure_ours(folder, WORDS)
        peer, fast = _measure_peer(folder, WORDS)
        short, long = (_measure_ours(folder, words) for words in LENGTHS)
    what = f"{ours.num_words:,} words to an m4b, all included"
    loop = "hibari's own loop, PyAV's default AAC"
    same = "hibari's own loop, AAC as fast as ours"
    growth = (long.cpu_s / long.num_words) / (short.cpu_s / short.num_words)
    lengths = f"{short.num_words:,} to {long.num_words:,} words"
    return [
        Row(f"words per CPU second, {what}", ours.cpu_rate, "words/s", peer.cpu_rate, loop,
            low=1.0, judge="ratio", spread=f"{ours} against {peer}"),
        Row(f"words per second, {what}", ours.wall_rate, "words/s", peer.wall_rate, loop,
            low=1.2, judge="ratio", spread=f"{ours} against {peer}"),
        Row(f"words per CPU second, {what}", ours.cpu_rate, "words/s", fast.cpu_rate, same,
            low=1.0, judge="ratio", spread=f"{ours} against {fast}"),
        Row(f"words per second, {what}", ours.wall_rate, "words/s", fast.wall_rate, same,
            judge="ratio", spread=f"{ours} against {fast}"),
        Row("resident memory, main and workers together", ours.peak_bytes / MIB, "MiB",
            high=1e9 / MIB, spread=f"at {long.num_words:,} words {long.peak_bytes / MIB:.0f}"),
        Row(f"CPU seconds a word, {lengths}", growth, "times", high=1.1,
            spread=f"{1000 / short.cpu_rate:.3g} to {1000 / long.cpu_rate:.3g} ms"),
    ]  # fmt: skip


def _write_source(folder: Path, num_words: int) -> tuple[Path, int]:
    """The first paragraphs of a novel, and how many words they have."""
    novel = next(text for text in TEXTS if text.name == NOVEL)
    paragraphs = fetch_text(novel, cache_folder()).read_text(encoding="utf-8").split("\n\n")
    kept, count = [], 0
    for paragraph in paragraphs:
        kept.append(paragraph)
        count += len(paragraph.split())
        if count >= num_words:
            break
    path = folder / f"{num_words}.txt"
    path.write_text("\n\n".join(kept), encoding="utf-8")
    return path, count


def _measure_ours(folder: Path, words: int) -> BookCost:
    source, num_words = _write_source(folder, words)
    home = folder / f"home-{words}"
    out = home / "book.m4b"
    command = [*ANYRIG, "book", str(source), "-o", str(out), "--foreign", "skip", "--json"]
    used = measure_command(command, child_environment(home), sample_memory=True)
    cost = BookCost(num_words, used.wall_s, used.cpu_s, _audio_s(out), used.tree_peak_bytes)
    print(f"ours, {words:,} words: {cost}", flush=True)
    return cost


def _measure_peer(folder: Path, words: int) -> tuple[BookCost, BookCost]:
    """The peer with its own encoder settings, and with ours."""
    source, num_words = _write_source(folder, words)
    plan = plan_document(apply_matter(read(source)), ("en",), ContentOptions(foreign="skip"))
    sentences = folder / "sentences.json"
    sentences.write_text(json.dumps([segment.utterance.text for segment in plan.segments]))
    outputs = [str(folder / "peer.m4b"), str(folder / "fast.m4b")]
    used = measure_command([sys.executable, "-c", PEER, str(sentences), *outputs])
    encoded = json.loads(used.output)
    print(f"peer, {words:,} words: {used.cpu_s:.1f} CPU s, {used.wall_s:.1f} s, {encoded}")
    plain, fast = (
        BookCost(num_words, used.wall_s - wall_s, used.cpu_s - cpu_s, encoded["audio_s"])
        for cpu_s, wall_s in (encoded["fast"], encoded["plain"])  # without the other's encode
    )
    return plain, fast


def _audio_s(path: Path) -> float:
    import av

    with av.open(str(path)) as container:
        assert container.duration is not None
        return container.duration / av.time_base
