"""The command line without the start of a process, which most tests of commands do not need."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from typing import IO
from unittest.mock import patch

import pytest

from anyrig.cli.main import main
from tests.conftest import Anyrig


@pytest.fixture
def anyrig() -> Anyrig:
    """`anyrig` in this process: its exit code and what it and its children wrote.

    `anyrig_process` starts a process: for signals, what is imported, and memory limits.
    """

    def run(
        *words: str,
        environment: Mapping[str, str] | None = None,
        input: str = "",
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.CompletedProcess[str]:
        assert stdin == subprocess.DEVNULL
        with (
            patch.dict(os.environ, environment or {}),
            _file(input) as given, _file() as out, _file() as err,
            _redirect("stdin", given), _redirect("stdout", out), _redirect("stderr", err),
            _own_warnings_and_log(),
        ):  # fmt: skip
            try:
                code = main(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
            sys.stdout.flush()
            sys.stderr.flush()
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess(words, code, out.read(), err.read())

    return run


@contextlib.contextmanager
def _file(text: str = "") -> Iterator[IO[str]]:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.write(text)
        file.seek(0)
        yield file


@contextlib.contextmanager
def _redirect(name: str, file: IO[str]) -> Iterator[None]:
    """Python's stream of this name and the descriptor that children inherit are a file."""
    number = ("stdin", "stdout", "stderr").index(name)
    kept = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        with patch.object(sys, name, file):
            yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


@contextlib.contextmanager
def _own_warnings_and_log() -> Iterator[None]:
    """Warnings are shown as in a process, not raised; handlers of the log are removed."""
    root = logging.getLogger()
    level = root.level
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        yield
    for handler in [one for one in root.handlers if getattr(one, "anyrig", False)]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
