"""A process that is killed while it embeds loses no more than the last vectors it made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from anyrig.documents.cache.kept import KEEP_EVERY, Kept
from anyrig.documents.cache.shelf import Shelf
from anyrig.storage.cache import ResultCache
from tests.conftest import ROOT
from tests.documents.cache.counting import DIMENSION, MARKS, Counting, vector_of


def test_a_kill_loses_little_and_nothing_wrong(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    command = [sys.executable, "-m", "tests.documents.cache.killed", str(path)]
    reached = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        for line in child.stdout:
            reached = int(line)
            if reached >= 1500:
                os.kill(child.pid, signal.SIGKILL)
                break
    assert reached >= 1500
    with ResultCache(path) as store:
        engine = Counting()
        texts = [f"{number}" for number in range(reached + 1)]
        found = Kept(engine, Shelf(store, MARKS, DIMENSION)).embed(texts)
        assert all(np.array_equal(v, vector_of(t)) for v, t in zip(found, texts, strict=True))
        assert engine.seen.total() <= KEEP_EVERY
        assert store.verify().num_bad == 0
