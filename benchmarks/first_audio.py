"""From `anyrig speak "Hello."` to its first sample, in a new process with nothing loaded.

Beside another checkout if BENCHMARK_BASE names one, with its own `.venv-test`: both in turns, the
order swapped every other time. Each side has its own home folder, and one run that is not counted,
as a user has who speaks a second time. CPU seconds are those of all processes until the end.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import ROOT, Row
from benchmarks.processes import child_environment

ROUNDS = 9
TEXTS = {
    "one word": "Hello.",
    "a sentence": "The keeper of the lighthouse walked down the winding stairs.",
}


class FirstAudio(NamedTuple):
    wall_s: float
    cpu_s: float
    sha256: str
    """Of all samples."""


def run(hardware: str) -> list[Row]:
    base = os.environ.get("BENCHMARK_BASE")
    rows = []
    with tempfile.TemporaryDirectory() as place:
        checkouts = [ROOT, *([Path(base)] if base else [])]
        for name, text in TEXTS.items():
            found = _measure(checkouts, Path(place), text)
            rows += _compare(name, [found[checkout] for checkout in checkouts])
    return rows


def _measure(checkouts: Sequence[Path], place: Path, text: str) -> dict[Path, list[FirstAudio]]:
    found: dict[Path, list[FirstAudio]] = {checkout: [] for checkout in checkouts}
    for number in range(ROUNDS + 1):
        for index, checkout in list(enumerate(checkouts))[:: -1 if number % 2 else 1]:
            one = _speak(checkout, place / f"home{index}", text)
            if number:
                found[checkout].append(one)
    return found


def _speak(checkout: Path, home: Path, text: str) -> FirstAudio:
    home.mkdir(exist_ok=True)
    python = sys.executable if checkout == ROOT else str(checkout / ".venv-test/bin/python")
    environment = child_environment(home) | {"PYTHONPATH": str(checkout / "src")}
    command = [python, "-m", "anyrig", "speak", text, "--fresh", "-o", "-", "--format", "pcm"]
    start = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    first = process.stdout.read(2)
    wall_s = time.perf_counter() - start
    digest = hashlib.sha256(first + process.stdout.read()).hexdigest()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or not first:
        raise RuntimeError(f"{checkout}: speak exited with {process.returncode}")
    return FirstAudio(wall_s, used.ru_utime + used.ru_stime, digest)


def _compare(name: str, sides: Sequence[list[FirstAudio]]) -> list[Row]:
    rows = []
    for what, field in (("seconds to the first sample", "wall_s"), ("CPU seconds in all", "cpu_s")):
        values = [[float(getattr(one, field)) for one in side] for side in sides]
        spread = " against ".join(f"{min(some):.2f}-{max(some):.2f}" for some in values)
        if len({one.sha256 for side in sides for one in side}) == 1:
            spread += "; the samples are equal"
        medians = [statistics.median(some) for some in values]
        rows.append(
            Row(f"{what}, {name}", medians[0], "s", medians[1] if len(medians) > 1 else None,
                "the version before", judge="ratio" if len(medians) > 1 else "ours",
                high=0.5 if len(medians) > 1 else None, spread=spread)
        )  # fmt: skip
    return rows
