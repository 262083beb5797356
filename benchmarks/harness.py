"""Run benchmarks: rows of figures beside a peer, their bars, and result files."""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import math
import os
import platform
import statistics
import subprocess
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# theme -> classes of machine it runs on; the module has `run(hardware) -> list[Row]`.
THEMES = {
    "listing": ("cpu", "h200"),
    "kernels": ("cpu", "h200"),
    "fit": ("h200",),
    "recovery": ("cpu", "h200"),
    "precision": ("cpu", "h200"),
    "work": ("cpu",),
    "store": ("cpu",),
    "monitor": ("cpu", "h200"),
    "speech_vits": ("h200",),
    "speech_kokoro": ("h200",),
    "speech_vibevoice": ("h200",),
    "speech_vibevoice_realtime": ("h200",),
    "speech_vibevoice_onnx": ("cpu",),
    "speech_xtts": ("cpu",),
    "speech_indextts": ("h200",),
    "speech": ("cpu",),
    "pronunciation": ("cpu",),
    "pronunciation_voices": ("cpu",),
    "word_times": ("cpu",),
    "voice_samples": ("cpu",),
    "first_audio": ("cpu",),
    "embed": ("h200",),
    "classify": ("cpu",),
    "embed_cpu": ("cpu",),
    "documents_tasks": ("cpu", "h200"),
    "search": ("cpu", "h200"),
    "retrieval": ("cpu",),
    "serve_embed": ("cpu",),
    "ocr_pages": ("cpu",),
    "pdf_text": ("cpu",),
    "transcribe": ("cpu",),
    "transcribe_torch": ("h200",),
    "entities": ("cpu",),
    "names": ("cpu",),
    "analyse": ("cpu",),
    "training": ("h200",),
    "training_estimate": ("cpu", "h200"),
    "training_large": ("h200",),
    "training_lengths": ("h200",),
    "training_savings": ("h200",),
    "training_fit": ("h200",),
    "training_overhead": ("h200",),
    "book_texts": ("cpu",),
    "book_kills": ("cpu",),
    "book": ("cpu",),
    "training_kills": ("cpu",),
    "serve_kills": ("cpu",),
    "training_shares": ("cpu",),
    "serve_memory": ("cpu",),
    "serve_speech": ("cpu",),
    "page": ("cpu",),
    "cluster_schedule": ("cpu",),
    "cluster_real": ("cpu",),
    "cluster_faults": ("cpu",),
    "cluster_bars": ("cpu",),
}
CLASSES = ("cpu", "h200")
_PATH_VARIABLES = (
    "BENCHMARK_COMMIT", "BENCHMARK_TOKENIZER", "BENCHMARK_INFINITY", "BENCHMARK_CMUDICT",
    "BENCHMARK_KOKORO", "BENCHMARK_RECORDINGS", "BENCHMARK_SOUNDS", "BENCHMARK_BASE",
    "BENCHMARK_PDFS", "BENCHMARK_PYMUPDF", "BENCHMARK_FAQ", "BENCHMARK_ENVIRONMENTS",
)  # fmt: skip
"""Variables that name a path or a commit: they do not change what is measured."""


@dataclass(frozen=True)
class Row:
    """One figure beside its peer's, and the bar it must meet."""

    what: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    low: float | None = None
    high: float | None = None
    """Limits of what `judge` names."""
    judge: str = "ours"
    """`ours`, or `ratio`: ours divided by the peer's."""
    spread: str = ""

    def __post_init__(self) -> None:
        if self.judge not in ("ours", "ratio"):
            raise ValueError(f"judge is {self.judge!r}; it must be ours or ratio")

    @property
    def ratio(self) -> float | None:
        return self.ours / self.peer if self.peer else None

    @property
    def met(self) -> bool:
        return not self.failure

    @property
    def failure(self) -> str:
        """Why the bar is not met; empty where it is.

        A figure that is missing or not finite meets no bar. In a ratio, 0 or less counts as
        missing: a run that failed took neither time nor memory.
        """
        compared = self.judge == "ratio"
        if not math.isfinite(self.ours) or (compared and self.ours <= 0):
            return "no figure of ours"
        if (self.peer is None and compared) or (
            self.peer is not None
            and (not math.isfinite(self.peer) or (compared and self.peer <= 0))
        ):
            return f"no figure of {self.peer_name or 'the peer'}"
        if not all(end is None or math.isfinite(end) for end in (self.low, self.high)):
            return "the bar is not a number"
        value = self.ratio if compared else self.ours
        assert value is not None
        too_low = self.low is not None and value < self.low
        return "outside" if too_low or (self.high is not None and value > self.high) else ""

    @property
    def bar(self) -> str:
        ends = [f">= {self.low:g}" if self.low is not None else "",
                f"<= {self.high:g}" if self.high is not None else ""]  # fmt: skip
        limits = " and ".join(filter(None, ends))
        return f"{self.judge} {limits}" if limits else "-"


def median_and_range(values: Sequence[float], scale: float = 1.0) -> tuple[float, str]:
    text = f"{min(values) * scale:.3g}-{max(values) * scale:.3g} of {len(values)}"
    return statistics.median(values) * scale, text


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def time_calls(call: Callable[[], object], rounds: int) -> list[float]:
    """Wall seconds of each round, after one that is not counted."""
    times = []
    for number in range(rounds + 1):
        start = time.perf_counter()
        call()
        if number:
            times.append(time.perf_counter() - start)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hardware", choices=CLASSES)
    parser.add_argument("--only", choices=sorted(THEMES))
    parser.add_argument("--no-write", action="store_true", help="print, write no result file")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users' second run finds compiled modules
    missed = []
    for theme, classes in THEMES.items():
        if options.hardware not in classes or (options.only and options.only != theme):
            continue
        try:
            run: Callable[[str], list[Row]] = importlib.import_module(f"benchmarks.{theme}").run
            rows = run(options.hardware)
        except Exception as error:  # noqa: BLE001  # the other themes are still measured
            traceback.print_exc()
            missed.append(f"{theme}: failed ({type(error).__name__}: {error})")
            continue
        if not rows:
            missed.append(f"{theme}: measured nothing")
        text = _table(rows)
        print(f"\n{theme} on {options.hardware}\n\n{text}")
        if not options.no_write:
            print(f"\nwritten to {_write(theme, options.hardware, text)}")
        missed += [f"{theme}: {row.what} ({row.bar}): {row.failure}" for row in rows if not row.met]
    for line in missed:
        print(f"BELOW ITS BAR: {line}")
    return 1 if missed else 0


def _table(rows: Sequence[Row]) -> str:
    lines = ["| what | ours | peer | ours / peer | spread | bar | met |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        peer = f"{row.peer:.4g} {row.unit} ({row.peer_name})" if row.peer is not None else "-"
        ratio = f"{row.ratio:.3f}" if row.ratio is not None else "-"
        lines.append(
            f"| {row.what} | {row.ours:.4g} {row.unit} | {peer} | {ratio} | {row.spread or '-'} |"
            f" {row.bar} | {_judgement(row)} |"
        )
    return "\n".join(lines)


def _judgement(row: Row) -> str:
    if row.met:
        return "yes"
    return "NO" if row.failure == "outside" else f"NO ({row.failure})"


def _write(theme: str, hardware: str, table: str) -> Path:
    from anyrig.devices.discovery import record

    date = datetime.date.today().isoformat()
    out = Path(os.environ.get("OUT") or RESULTS)
    machine, answers = record(os.environ)
    machine_file = out / f"machine_{hardware}_{date}.json"
    machine_file.write_text(json.dumps(answers, indent=1) + "\n")
    versions = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    path = out / f"{theme}_{hardware}_{date}.md"
    # Settings that change what is measured are part of the command.
    settings = "".join(
        f"{name}={value} " for name, value in sorted(os.environ.items())
        if name.startswith("BENCHMARK_") and name not in _PATH_VARIABLES
    )  # fmt: skip
    path.write_text(
        f"# {theme} on {hardware}, {date}\n\n"
        f"Command: `{settings}benchmarks/run {hardware} --only {theme}`, commit {_commit()}, "
        f"Python {platform.python_version()}, {versions}. "
        f"Machine: {', '.join(d.name for d in machine.devices)} ({machine_file.name}).\n\n"
        f"{table}\n"
    )
    return path


def _commit() -> str:
    if "BENCHMARK_COMMIT" in os.environ:
        return os.environ["BENCHMARK_COMMIT"]
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    )
    return done.stdout.strip() or "unknown"
