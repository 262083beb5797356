"""What tests of deploy/ share: a broker, real workers, and a folder with `anyrig` in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import _one_broker, broker, new_broker, workers  # noqa: F401 - fixtures


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    found = folder / "anyrig"
    found.write_text(f'#!/bin/sh\nexec {sys.executable} -m anyrig "$@"\n')
    found.chmod(0o755)
    return folder
