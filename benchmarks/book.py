"""A whole book on a plain CPU beside the way audiobook makers work: a sentence loop, one encode.

Ours is the real command in a process of its own, with an empty cache: reading, planning, speaking,
keeping, loudness, and an m4b with chapters. The peer is given the sentences of our plan for free,
says one after the other with the engine package's own call, and encodes once with PyAV's defaults.
CPU seconds are those of a process and all its children; loading counts on both sides.

Our encoder uses FFmpeg's `fast` AAC coder where PyAV's default is `twoloop` (see `sound/aac.py`
for what that costs in quality: nothing that was measured). So that nobody is misled, the peer's
sound is encoded a second time with our settings, and both figures are given.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from anyrig.audiobooks.ways import Ways
from anyrig.text.files import read
from anyrig.text.matter import settle
from benchmarks.book_texts import TEXTS, cache_folder, planned, text_of
from benchmarks.harness import Row

WORDS = int(os.environ.get("BENCHMARK_WORDS", "50000"))
LENGTHS = (WORDS // 5, WORDS * 2)  # 10,000 and 100,000
NOVEL = "Pride and Prejudice"
_MIB = 1 << 20
_EVERY_S = 0.2
PEER = """
import json, sys, time
import av
import numpy as np
from fractions import Fraction
from hibari import Hibari

def encode(samples, path, options):
    began, clock = time.process_time(), time.perf_counter()
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
    return time.process_time() - began, time.perf_counter() - clock

sentences = json.load(open(sys.argv[1], encoding="utf-8"))
speak = Hibari()
samples = np.concatenate([speak(sentence) for sentence in sentences]).astype(np.float32)
plain = encode(samples, sys.argv[2], {})
fast = encode(samples, sys.argv[3], {"aac_coder": "fast", "aac_tns": "0"})
print(json.dumps({"audio_s": len(samples) / 24000, "plain": plain, "fast": fast}))
"""


@dataclass(frozen=True)
class Ran:
    """What a command took."""

    num_words: int
    wall_s: float
    cpu_s: float
    audio_s: float
    most_bytes: int = 0
    """Resident, of the process and its children together."""

    @property
    def cpu_rate(self) -> float:
        """Words per CPU second."""
        return self.num_words / self.cpu_s

    @property
    def wall_rate(self) -> float:
        """Words per second."""
        return self.num_words / self.wall_s


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ours = _ours(folder, WORDS)
        peer, fast = _peer(folder, WORDS)
        short, long = (_ours(folder, words) for words in LENGTHS)
    what = f"{ours.num_words:,} words to an m4b, all included"
    loop = "hibari's own loop, PyAV's default AAC"
    same = "hibari's own loop, AAC as fast as ours"
    growth = (long.cpu_s / long.num_words) / (short.cpu_s / short.num_words)
    lengths = f"{short.num_words:,} to {long.num_words:,} words"
    return [
        Row(f"words per CPU second, {what}", ours.cpu_rate, "words/s", peer.cpu_rate, loop,
            low=0.9, judge="ratio", spread=_told(ours, peer)),
        Row(f"words per second, {what}", ours.wall_rate, "words/s", peer.wall_rate, loop,
            low=1.2, judge="ratio", spread=_told(ours, peer)),
        Row(f"words per CPU second, {what}", ours.cpu_rate, "words/s", fast.cpu_rate, same,
            low=0.9, judge="ratio", spread=_told(ours, fast)),
        Row(f"words per second, {what}", ours.wall_rate, "words/s", fast.wall_rate, same,
            judge="ratio", spread=_told(ours, fast)),
        Row("resident memory, main and workers together", ours.most_bytes / _MIB, "MiB",
            high=1e9 / _MIB, spread=f"at {long.num_words:,} words {long.most_bytes / _MIB:.0f}"),
        Row(f"CPU seconds a word, {lengths}", growth, "times", high=1.1,
            spread=f"{1000 / short.cpu_rate:.3g} to {1000 / long.cpu_rate:.3g} ms"),
    ]  # fmt: skip


def _told(*runs: Ran) -> str:
    return " against ".join(
        f"{one.cpu_s:.0f} CPU s, {one.wall_s:.0f} s, {one.audio_s / 60:.0f} min of sound"
        for one in runs
    )


# -- the text -------------------------------------------------------------------------------------


def _source(folder: Path, words: int) -> Path:
    """The beginning of a novel; it ends with a paragraph."""
    novel = next(text for text in TEXTS if text.name == NOVEL)
    paragraphs = text_of(novel, cache_folder()).read_text(encoding="utf-8").split("\n\n")
    kept, count = [], 0
    for paragraph in paragraphs:
        kept.append(paragraph)
        count += len(paragraph.split())
        if count >= words:
            break
    path = folder / f"{words}.txt"
    path.write_text("\n\n".join(kept), encoding="utf-8")
    return path


def _sentences(source: Path, path: Path) -> None:
    plan = planned(settle(read(source)), ("en",), Ways(foreign="skip"))
    path.write_text(json.dumps([segment.line.text for segment in plan.segments]))


# -- the two ways ---------------------------------------------------------------------------------


def _ours(folder: Path, words: int) -> Ran:
    source = _source(folder, words)
    home = folder / f"home-{words}"
    home.mkdir()
    command = [sys.executable, "-m", "anyrig", "book", str(source),
               "-o", str(home / "book.m4b"), "--foreign", "skip", "--json"]  # fmt: skip
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "c"), "XDG_CONFIG_HOME": str(home / "d")}
    ran, out = _timed(command, len(source.read_text(encoding="utf-8").split()), own)
    audio_s = _length_s(home / "book.m4b")
    print(f"ours, {words:,} words: {ran.cpu_s:.1f} CPU s, {ran.wall_s:.1f} s", flush=True)
    return Ran(ran.num_words, ran.wall_s, ran.cpu_s, audio_s, ran.most_bytes)


def _peer(folder: Path, words: int) -> tuple[Ran, Ran]:
    """The peer as it is, and with the encoder's settings that we have."""
    source = _source(folder, words)
    sentences = folder / "sentences.json"
    _sentences(source, sentences)
    command = [sys.executable, "-c", PEER, str(sentences), str(folder / "peer.m4b"),
               str(folder / "fast.m4b")]  # fmt: skip
    ran, out = _timed(command, len(source.read_text(encoding="utf-8").split()), {})
    told = json.loads(out)
    print(f"peer, {words:,} words: {ran.cpu_s:.1f} CPU s, {ran.wall_s:.1f} s, {told}", flush=True)
    plain, fast = (
        Ran(ran.num_words, ran.wall_s - wall, ran.cpu_s - cpu, told["audio_s"])
        for cpu, wall in (told["fast"], told["plain"])  # each without the other's encode
    )
    return plain, fast


def _length_s(path: Path) -> float:
    import av

    with av.open(str(path)) as container:
        assert container.duration is not None
        return container.duration / av.time_base


def _timed(command: list[str], num_words: int, own: dict[str, str]) -> tuple[Ran, str]:
    """Wall and CPU seconds of a command and its children, and the most memory they had."""
    env = {**os.environ, **own}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    seen: list[int] = [0]
    watcher = threading.Thread(target=_watch, args=(process.pid, seen), daemon=True)
    watcher.start()
    out, err = process.communicate()
    wall = time.perf_counter() - began
    watcher.join()
    assert process.returncode == 0, err[-2000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(num_words, wall, cpu, 0.0, max(seen)), out


def _watch(pid: int, seen: list[int]) -> None:
    """Resident memory of a process and its children, until it ends."""
    while True:
        try:
            me = psutil.Process(pid)
            if me.status() == psutil.STATUS_ZOMBIE:
                return
            family = [me, *me.children(recursive=True)]
        except psutil.Error:
            return
        seen[0] = max(seen[0], sum(map(_resident, family)))
        time.sleep(_EVERY_S)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
