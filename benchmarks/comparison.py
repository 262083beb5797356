"""Compare two versions: their checkouts run one benchmark in turns on one machine.

Each repeat is a fresh process per checkout, with that checkout's own benchmark, its own cache and
settings folders, and the order swapped every other time. Compared are the CPU seconds of the whole
process and every figure of the benchmark. A figure passes if the ratio of the medians is at most
1.05 (above 1 is worse), or if the new median lies inside the old version's own spread.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness import CLASSES, RESULTS, ROOT, THEMES

LIMIT = 1.05
MIN_REPEATS = 5
CPU = "CPU time of the whole benchmark, peers included"
# Run by the interpreter in either checkout, so it may use only what both versions have.
_DRIVER = """
import dataclasses, importlib, importlib.util, json, sys
theme, hardware, out, quick, *peers = sys.argv[1:]
benchmark = importlib.import_module(f"benchmarks.{theme}")
if quick:
    for name in ("ROUNDS", "NUM_ROUNDS"):
        if isinstance(getattr(benchmark, name, None), int):
            setattr(benchmark, name, 1)
    if hasattr(benchmark, "KILLS"):
        benchmark.KILLS = 6
    if hasattr(benchmark, "PEERS"):
        benchmark.PEERS = {}
    for name, rates in (("_measure_peer", 1.0), ("_measure_peers", {"no peer": 1.0})):
        if hasattr(benchmark, name):
            setattr(benchmark, name, lambda *_, rates=rates: rates)
    find_spec = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *rest: None if name in peers else find_spec(name, *rest)
rows = benchmark.run(hardware)
json.dump([dataclasses.asdict(row) for row in rows], open(out, "w"))
"""
_PEERS = ("accelerate", "nvitop")
"""Packages that a quick run hides, so that it measures our own code only."""
_SMALLER_UNITS = ("s", "ms", "us", "min", "b", "kb", "mb", "gb", "kib", "mib", "gib", "bytes", "%")


@dataclass
class Figure:
    """One measure of both checkouts."""

    name: str
    unit: str
    smaller_is_better: bool | None
    """None if unknown: the figure is shown and not judged."""
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """How much worse the new median is; above 1 is worse."""
        if not self.old or not self.new:
            return None
        old, new = statistics.median(self.old), statistics.median(self.new)
        above, below = (old, new) if self.smaller_is_better is False else (new, old)
        return above / below if below else None

    @property
    def passed(self) -> bool:
        if self.smaller_is_better is None:
            return True
        if not self.old:
            return True  # new in this version
        if not self.new:
            return False
        if statistics.median(self.old) == statistics.median(self.new):
            return True
        inside = min(self.old) <= statistics.median(self.new) <= max(self.old)
        return inside or (self.ratio is not None and self.ratio <= LIMIT)


def compare(
    old: Path,
    new: Path,
    theme: str,
    hardware: str,
    repeats: int,
    *,
    quick: bool = False,
    progress: Path | None = None,
) -> list[Figure]:
    """Run a benchmark of both checkouts in turns; one run of each beforehand is not counted.

    Args:
        old: a checkout.
        new: the other one.
        theme: name of the benchmark.
        hardware: as in `benchmarks/run`.
        repeats: how many runs of each are compared.
        quick: see `--quick`.
        progress: a file that keeps the finished repeats: an interrupted comparison continues.
    """
    figures = {CPU: Figure(CPU, "s", True)}
    if progress is not None and progress.exists():
        figures = {row["name"]: Figure(**row) for row in json.loads(progress.read_text())}
    sides = [("old", old), ("new", new)]
    finished = len(figures[CPU].new)
    with tempfile.TemporaryDirectory(prefix="anyrig-compare-") as scratch:
        for repeat in [0, *range(finished + 1, repeats + 1)]:
            for side, checkout in sides if repeat % 2 == 0 else sides[::-1]:
                rows, cpu_s = _run_once(
                    checkout, Path(scratch) / side, theme, hardware, quick=quick
                )
                if not repeat:
                    continue
                getattr(figures[CPU], side).append(cpu_s)
                for row in rows:
                    figure = figures.setdefault(
                        row["what"], Figure(row["what"], row["unit"], _smaller_is_better(row))
                    )
                    getattr(figure, side).append(row["ours"])
            if progress is not None and repeat:
                progress.write_text(json.dumps([asdict(figure) for figure in figures.values()]))
            print(f"{theme}: {repeat} of {repeats} repeats", file=sys.stderr, flush=True)
    return list(figures.values())


def _run_once(
    checkout: Path, home: Path, theme: str, hardware: str, *, quick: bool
) -> tuple[list[dict[str, Any]], float]:
    home.mkdir(exist_ok=True)
    out = home / "rows.json"
    folders = {f"XDG_{kind}_HOME": str(home / kind.lower())
               for kind in ("CACHE", "CONFIG", "DATA", "STATE")}  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", _DRIVER, theme, hardware, str(out), "quick" * quick, *_PEERS],
        cwd=checkout,
        env={**os.environ, **folders, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"},
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"error: benchmark {theme} failed in {checkout}")
    return json.loads(out.read_text()), usage.ru_utime + usage.ru_stime


def _smaller_is_better(row: dict[str, Any]) -> bool | None:
    """By the row's bar; without one, by its unit."""
    if (row["low"] is None) != (row["high"] is None):
        return row["low"] is None
    unit = row["unit"].lower().strip()
    if "/s" in unit or "per second" in unit or "times" in unit:
        return False
    return True if unit.split(" ")[0] in _SMALLER_UNITS else None


def format_table(figures: Sequence[Figure]) -> str:
    lines = [
        "| what | old | new | ratio, above 1 is worse | old spread | new spread | within 5 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        ratio = f"{figure.ratio:.3f}" if figure.ratio is not None else "-"
        verdict = "not judged" if figure.smaller_is_better is None else (
            "yes" if figure.passed else "NO")  # fmt: skip
        lines.append(
            f"| {figure.name} | {_median(figure.old, figure.unit)} |"
            f" {_median(figure.new, figure.unit)} | {ratio} | {_spread(figure.old)} |"
            f" {_spread(figure.new)} | {verdict} |"
        )
    return "\n".join(lines)


def _median(values: Sequence[float], unit: str) -> str:
    return f"{statistics.median(values):.4g} {unit}" if values else "missing"


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.4g}-{max(values):.4g} of {len(values)}" if values else "-"


@contextlib.contextmanager
def open_checkout(base: str) -> Iterator[Path]:
    """The folder of a checkout, or a temporary work tree of a git revision."""
    if (Path(base) / "benchmarks").is_dir():
        yield Path(base).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="anyrig-base-") as folder:
        checkout = Path(folder) / "checkout"
        added = subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(checkout), base],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        if added.returncode:
            raise SystemExit(
                f"error: {base} is neither a git revision nor the folder of a checkout\n"
                f"  {added.stderr.strip()}"
            )
        try:
            yield checkout
        finally:
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(checkout)], cwd=ROOT, check=False
            )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/compare", description=__doc__)
    parser.add_argument("base", metavar="BASE", help="a git revision, or the folder of a checkout")
    parser.add_argument("--new", default=str(ROOT), metavar="FOLDER",
                        help="the checkout to compare with it; this one by default")  # fmt: skip
    parser.add_argument("--only", metavar="THEME", action="append",
                        help="a benchmark, as in benchmarks/run; may be repeated")  # fmt: skip
    parser.add_argument("--hardware", choices=CLASSES, default="cpu")
    parser.add_argument("--repeats", type=int, default=MIN_REPEATS)
    parser.add_argument("--quick", action="store_true",
                        help="leave out the peers, and measure each figure once per run: "
                        "the repeats of this command take the place of its rounds")  # fmt: skip
    parser.add_argument("--progress", metavar="FOLDER", type=Path,
                        help="keep finished repeats here, and continue from them")  # fmt: skip
    parser.add_argument("--no-write", action="store_true", help="print, write no result file")
    options = parser.parse_args(arguments)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as `benchmarks/run` does
    if options.repeats < MIN_REPEATS:
        parser.error(f"--repeats must be at least {MIN_REPEATS}")
    themes = options.only or [name for name, on in THEMES.items() if options.hardware in on]
    new = Path(options.new).resolve()
    for theme in themes:
        if not (new / "benchmarks" / f"{theme}.py").is_file():
            parser.error(f"unknown benchmark {theme!r}; known: {', '.join(THEMES)}")
    if options.progress:
        options.progress.mkdir(parents=True, exist_ok=True)
    failed = []
    with open_checkout(options.base) as old:
        for theme in themes:
            progress = options.progress and options.progress / f"{theme}_{options.hardware}.json"
            figures = compare(
                old, new, theme, options.hardware, options.repeats,
                quick=options.quick, progress=progress,
            )  # fmt: skip
            table = format_table(figures)
            print(f"\n{theme} on {options.hardware}: {options.base} against {new.name}\n\n{table}")
            if not options.no_write:
                print(f"\nwritten to {_write(theme, options, table)}")
            failed += [f"{theme}: {figure.name}" for figure in figures if not figure.passed]
    for line in failed:
        print(f"WORSE THAN {options.base}: {line}")
    return 1 if failed else 0


def _write(theme: str, options: argparse.Namespace, table: str) -> Path:
    date = datetime.date.today().isoformat()
    path = Path(os.environ.get("OUT") or RESULTS) / f"compare_{theme}_{options.hardware}_{date}.md"
    quick = " --quick" if options.quick else ""
    path.write_text(
        f"# {theme} on {options.hardware}: {options.base} against this version, {date}\n\n"
        f"Command: `benchmarks/compare {options.base} --only {theme} --hardware {options.hardware}"
        f" --repeats {options.repeats}{quick}`;"
        f" both versions in turns, a fresh process each.\n\n{table}\n"
    )
    return path
