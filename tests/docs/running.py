"""Runs the blocks of a page inside the process of the tests, which saves the start of programs.

The default voice and the default embedding model are the shipped fakes, `tone` and `hashing`.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

from tests.conftest import own_warnings_and_log, run_command

FAKES = {"ANYRIG_SPEECH_ENGINE": "tone", "ANYRIG_DOCUMENTS_MODEL": "hashing", "ANYRIG_BENCH": "no"}
_PROGRAM = """\
#!/bin/bash
call=$(mktemp -d "$ANYRIG_CALLS/XXXXXX")
mkfifo "$call/code"
cat > "$call/stdin"
printf '%s\\0' "$PWD" "$@" > "$call/words"
echo "$call" > "$ANYRIG_CALLS/queue"
read -r code < "$call/code"
cat "$call/stdout"
cat "$call/stderr" >&2
exit "$code"
"""
"""An `anyrig` that leaves its work to the process that reads the queue."""


def run_python(text: str) -> str:
    """Execute a program; what it prints."""
    out = io.StringIO()
    path, modules = list(sys.path), set(sys.modules)
    try:
        with patch.dict(os.environ, FAKES), own_warnings_and_log(), contextlib.redirect_stdout(out):
            exec(compile(text, "<block>", "exec"), {"__name__": "__main__"})
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(os.getcwd()):
                del sys.modules[name]
    return out.getvalue()


def run_shell(text: str) -> subprocess.CompletedProcess[str]:
    """Run a script in bash, and each `anyrig` of it in this process."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "anyrig").write_text(_PROGRAM)
        (folder / "anyrig").chmod(0o755)
        os.mkfifo(folder / "queue")
        queue = os.open(folder / "queue", os.O_RDWR)  # so that it never ends
        stack.callback(os.close, queue)
        out, err = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        shell = subprocess.Popen(
            ["bash", "-e", "-o", "pipefail", "-c", text], stdin=subprocess.DEVNULL, stdout=out,
            stderr=err, env={**os.environ, "PATH": path, "ANYRIG_CALLS": str(folder)},
        )  # fmt: skip
        stack.callback(shell.kill)
        while shell.poll() is None:
            if select.select([queue], [], [], 0.01)[0]:
                for call in os.read(queue, 4096).decode().split():
                    _answer(Path(call))
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(text, shell.returncode, out.read(), err.read())


def _answer(call: Path) -> None:
    folder, *words = (call / "words").read_text(encoding="utf-8").split("\0")[:-1]
    with contextlib.chdir(folder):
        done = run_command(*words, environment=FAKES, input=(call / "stdin").read_text())
    (call / "stdout").write_text(done.stdout)
    (call / "stderr").write_text(done.stderr)
    (call / "code").write_text(f"{done.returncode}\n")
