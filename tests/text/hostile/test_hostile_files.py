"""Hostile and broken files: one clear error or a book, soon, in little memory, nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.text.hostile.hostile_files import ALL, Hostile

MOST_CPU_S = 10.0
LONG_CPU_S = 60.0
"""For megabytes of text, on a slow core; what grows with the square takes much longer."""
MOST_MEMORY = 1_000_000_000
CASES = [
    pytest.param(one, id=name, marks=[pytest.mark.slow] if one.slow else [])
    for name, one in ALL.items()
]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its clocks and pipes are others")


class Reader:
    """The process that reads; begun anew after a file that ended it."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._trouble = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the tests run

    def read(self, path: Path) -> dict[str, object]:
        """What came of a file."""
        child = self._running()
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(str(path)) + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
        if not line:
            self.close()
            self._trouble.seek(0)
            return {"outcome": "died", "said": self._trouble.read()[-3000:], "memory": 0}
        told: dict[str, object] = json.loads(line)
        return told

    def close(self) -> None:
        """End it."""
        if self._child is not None and self._child.stdin and self._child.stdout:
            self._child.stdin.close()
            self._child.wait()
            self._child.stdout.close()
        self._child = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._trouble.close()

    def _running(self) -> subprocess.Popen[str]:
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tests.text.hostile.reading", str(LONG_CPU_S)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._trouble, text=True,
                cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )  # fmt: skip
        return self._child


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with Reader() as one:
        yield one


@pytest.mark.parametrize("one", CASES)
def test_each_is_refused_in_a_line_or_read(one: Hostile, reader: Reader, tmp_path: Path) -> None:
    folder = tmp_path / "here" / "inside"
    folder.mkdir(parents=True)
    path = one.make(folder)
    before = everything(tmp_path)
    told = reader.read(path)
    assert told["outcome"] in ("read", "refused"), told["said"]
    assert one.outcome in ("either", told["outcome"]), told["said"]
    assert float(str(told["cpu_s"])) < (LONG_CPU_S if one.slow else MOST_CPU_S)
    assert int(str(told["memory"])) < MOST_MEMORY
    if told["outcome"] == "refused":
        assert str(told["said"]).isprintable()
        assert told["hint"]
        assert "more memory than there is" not in str(told["said"])
    for title in told.get("titles", ()):  # type: ignore[attr-defined]
        assert not control(title), title
    assert everything(tmp_path) == before


def everything(folder: Path) -> set[str]:
    """All names below a folder, links not followed."""
    return {
        os.path.join(above, name)
        for above, folders, files in os.walk(folder)
        for name in (*folders, *files)
    }


def control(text: str) -> bool:
    """Whether it could do something to a terminal."""
    return any(ord(sign) < 32 or 126 < ord(sign) < 160 or sign in "\u202e\u2028" for sign in text)
