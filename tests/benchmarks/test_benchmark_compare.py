"""benchmarks/compare: two checkouts in turns, judged by the ratio of medians."""

from __future__ import annotations

import json
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


def test_quick_runs_measure_once_and_leave_out_peers(tmp_path: Path) -> None:
    row = 'Row("rounds", ROUNDS, "s"), Row("peers", len(PEERS), "s")'
    row += ', Row("installed", int(importlib.util.find_spec("accelerate") is not None), "s")'
    one = checkout(tmp_path / "one", row)
    text = (one / "benchmarks" / "tiny.py").read_text()
    names = 'import importlib.util\nROUNDS, PEERS = 7, {"torch": ()}\n'
    (one / "benchmarks" / "tiny.py").write_text(names + text)
    done = run_compare(one, one, "--quick")
    cells = {cells[1].strip(): cells[2].strip() for line in done.stdout.splitlines()
             if len(cells := line.split("|")) > 3}  # fmt: skip
    found = [cells[name] for name in ("rounds", "peers", "installed")]
    assert found == ["1 s", "0 s", "0 s"], done.stderr


def test_an_interrupted_comparison_continues(tmp_path: Path) -> None:
    old = checkout(tmp_path / "old", 'Row("x", 1, "s")')
    first = run_compare(old, old, "--progress", str(tmp_path))
    kept = tmp_path / "tiny_cpu.json"
    assert "tiny: 5 of 5" in first.stderr
    rows = json.loads(kept.read_text())
    for row in rows:
        row["old"], row["new"] = row["old"][:3], row["new"][:3]
    kept.write_text(json.dumps(rows))
    second = run_compare(old, old, "--progress", str(tmp_path))
    assert "tiny: 3 of 5" not in second.stderr
    assert "tiny: 4 of 5" in second.stderr
    assert " of 5 |" in second.stdout
