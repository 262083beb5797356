"""benchmarks/compare: two checkouts in turns, judged by the ratio of medians."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

_BENCHMARK = """
from benchmarks.harness import Row

def run(hardware):
    return {rows}
"""


def checkout(folder: Path, *rows: str) -> Path:
    """A checkout with one benchmark, `tiny`, that gives these rows."""
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "src").mkdir()
    shutil.copy(ROOT / "benchmarks" / "harness.py", folder / "benchmarks" / "harness.py")
    text = _BENCHMARK.format(rows=f"[{', '.join(rows)}]")
    (folder / "benchmarks" / "tiny.py").write_text(text)
    return folder


def run_compare(old: Path, new: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "compare"), str(old), "--new", str(new)]
    return subprocess.run(
        [*command, "--only", "tiny", "--no-write", *words], capture_output=True, text=True
    )


_OLD_AND_NEW = {
    # figure: unit, bar, old, new, whether that is good enough
    "throughput, a little lower": ("items/s", "low=1", 100, 97, True),
    "throughput, much lower": ("items/s", "low=1", 100, 94, False),
    "memory, a little more": ("MiB", "high=200", 100, 104, True),
    "memory, much more": ("MiB", "high=200", 100, 106, False),
    "memory, not measured any more": ("MiB", "high=200", 100, None, False),
    "time without a bar, longer": ("ms", "", 100, 120, False),
    "nothing, as before": ("ms", "", 0, 0, True),
    "no known direction": ("points", "", 1, 5, True),
}


def test_a_loss_of_more_than_five_per_cent_fails(tmp_path: Path) -> None:
    old = [f'Row("{name}", {old}, "{unit}", {bar})'
           for name, (unit, bar, old, _, _) in _OLD_AND_NEW.items()]  # fmt: skip
    new = [f'Row("{name}", {new}, "{unit}", {bar})'
           for name, (unit, bar, _, new, _) in _OLD_AND_NEW.items() if new is not None]  # fmt: skip
    done = run_compare(checkout(tmp_path / "old", *old), checkout(tmp_path / "new", *new))
    assert " of 5 |" in done.stdout, done.stderr
    worse = {line.partition("tiny: ")[2] for line in done.stdout.splitlines() if "WORSE" in line}
    # The CPU time of such small processes may differ by chance; the figures do not.
    expected = {name for name, row in _OLD_AND_NEW.items() if not row[-1]}
    assert {name for name in worse if "CPU time" not in name} == expected
    assert done.returncode == 1


def test_too_few_repeats_and_unknown_names_are_refused(tmp_path: Path) -> None:
    old = checkout(tmp_path / "old", 'Row("x", 1, "s")')
    few = run_compare(old, old, "--repeats", "3")
    assert few.returncode == 2
    assert "at least 5" in few.stderr
    unknown = run_compare(old, old, "--only", "nothing")
    assert unknown.returncode in (1, 2)
    no_base = run_compare(tmp_path / "no-such-revision", old)
    assert no_base.returncode == 1
    assert "neither a git revision nor the folder" in no_base.stderr


def test_a_benchmark_that_fails_is_an_error(tmp_path: Path) -> None:
    old = checkout(tmp_path / "old", "1 / 0")
    done = run_compare(old, old)
    assert done.returncode == 1
    assert "benchmark tiny failed in" in done.stderr
