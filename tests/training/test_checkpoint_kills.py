"""A run under kill -9, a hundred times; `benchmarks/run cpu --only training_kills`: a thousand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_hundred_kills() -> None:
    # A process of its own: what other tests did to torch's threads must not be forked.
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.training_kills", "100", "7"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["failures"] == [], done.stderr
    assert report["num_kills"] == 100
    assert report["phases"]["writing"] >= 5
    assert report["phases"]["saved"] >= 40
    assert report["figures"]["max_steps_lost"] <= 6
