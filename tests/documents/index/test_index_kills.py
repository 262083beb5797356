"""Kill -9 while indexing, run again: nothing lost, nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it forks")


def _killed(folder: Path, seed: int, count: int) -> str:
    environment = {
        **os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killing.py")), str(folder), str(seed),
         str(count)],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_killed_at_any_statement_an_index_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    told = _killed(tmp_path, 1, 12)
    assert told.count("12 indexes survived") == 2


@pytest.mark.slow
def test_killed_at_a_thousand_statements(tmp_path: Path) -> None:
    assert _killed(tmp_path, 2, 200).count("200 indexes survived") == 2
