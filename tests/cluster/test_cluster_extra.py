"""Without the cluster extra: one clear error with the line that installs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.conftest import person

URL = "redis://127.0.0.1:1/0"


def without_the_extra(
    tmp_path: Path, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command where neither celery nor redis can be imported."""
    folder = tmp_path / "first"
    folder.mkdir()
    blocked = "import sys\nfor name in ('celery', 'redis', 'kombu', 'flower'):\n"
    (folder / "sitecustomize.py").write_text(f"{blocked}    sys.modules[name] = None\n")
    return subprocess.run(
        [sys.executable, "-m", "anyrig", *words], capture_output=True, text=True, timeout=120,
        cwd=tmp_path, env=person(tmp_path, {"PYTHONPATH": str(folder), **(environment or {})}),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["speak", "Hello.", "--engine", "tone", "-o", "x.wav", "--cluster", "yes"], {}),
        (["speak", "Hello.", "--engine", "tone", "-o", "x.wav", "--cluster", URL], {}),
        (["speak", "Hello.", "--engine", "tone", "-o", "x.wav"], {"ANYRIG_CLUSTER_SPREAD": "true"}),
        (["book", "a.txt", "--engine", "tone", "--queue", "--cluster", "yes"], {}),
        (["serve", "--port", "0", "--cluster", "yes"], {}),
        (["serve", "--port", "0"], {"ANYRIG_CLUSTER_SPREAD": "true"}),
        (["cluster", "status"], {}),
        (["worker"], {}),
        (["coordinator"], {}),
        (["speak", "Hello.", "--engine", "tone", "-o", "x.wav"], {"ANYRIG_CACHE_URL": URL}),
    ],
)
def test_a_missing_extra_is_one_error_with_the_install_line(
    tmp_path: Path, words: list[str], environment: Mapping[str, str]
) -> None:
    (tmp_path / "a.txt").write_text("Hello there.")
    done = without_the_extra(tmp_path, *words, environment=environment)
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") == 1
    assert "[cluster]" in done.stderr
    assert "pip install " in done.stderr
    assert not (tmp_path / "x.wav").exists()


def test_without_a_cluster_nothing_needs_the_extra(tmp_path: Path) -> None:
    words = ["speak", "Hello.", "--engine", "tone", "--cluster", "no", "-o", "x.wav"]
    done = without_the_extra(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.wav").exists()
