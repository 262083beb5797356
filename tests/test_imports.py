"""What a process does not load: start-up time is felt with every command and every worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

_FRAMEWORKS = ("torch", "numpy", "onnxruntime", "rich", "pydantic", "fastapi")
_MAIN = "from anyrig.cli.main import main; assert main({}) == 0"

CASES = {
    "the package": ("import anyrig", ("anyrig.app", "anyrig.devices", *_FRAMEWORKS)),
    "top": (_MAIN.format(["top", "--once"]), _FRAMEWORKS),
    "cache": (_MAIN.format(["cache", "--json"]), ("torch", "numpy", "rich", "asyncio", "zipfile")),
    "embed": (
        _MAIN.format(["embed", "The first vector.", "--no-cache"]),
        ("torch", "transformers", "scipy", "sklearn"),
    ),
    "the process of a job": (
        "import anyrig.app.job_process, anyrig.app.jobs",
        ("anyrig.cli", "anyrig.server", "argparse", "torch", "numpy", "fastapi"),
    ),
    "a monitor": (
        "import os; from anyrig.devices.discovery import discover; from anyrig.monitor import "
        "Monitor; monitor = Monitor(discover(os.environ)); monitor.sample(); monitor.stop()",
        _FRAMEWORKS,
    ),
    "a worker": (
        "import anyrig.work.worker_main",
        ("anyrig.devices.vendors", "anyrig.devices.choose", "anyrig.app", *_FRAMEWORKS),
    ),
    "speak": (
        "import anyrig.cli.speak, anyrig.speech.engines.hibari",
        ("anyrig.app.batch", "anyrig.jobs", "sqlite3", "email", *_FRAMEWORKS),
    ),
    "the result cache": (
        "import anyrig.storage.cache", ("numpy", "torch", "asyncio", "zipfile", "psutil"),
    ),
    "readers of files": ("import anyrig.text.files", ("lxml", "pypdfium2", "numpy")),
    "a script": (
        "import anyrig.speech.prepare",
        ("numpy", "torch", "onnxruntime", "babel", "py3langid", "num2words", "lxml"),
    ),
    "a plain English script": (
        "from anyrig.speech.prepare import prepare; prepare('CHAPTER I\\n\\nIt was so, and he said "
        "that it was not for him to say what they did.')",
        ("py3langid",),
    ),
    "the batched voice models": (
        "import anyrig.speech.models.kokoro, anyrig.speech.models.vits, "
        "anyrig.speech.models.vibevoice.generate, anyrig.speech.models.vibevoice.realtime",
        ("fastapi", "celery", "av", "hibari", "transformers", "onnxruntime"),
    ),
    "a realtime voice without torch": (
        "import anyrig.speech.models.vibevoice.realtime, "
        "anyrig.speech.models.vibevoice.onnx_windows",
        ("torch", "transformers", "onnx", "onnxscript"),
    ),
    "an mp3": (
        "from anyrig.audio.encode import open_encoder; open_encoder('out.mp3').close()", ("av",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_nothing_heavy_is_loaded(name: str) -> None:
    code, heavy = CASES[name]
    look = "import sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{look}"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert not set(heavy) & set(done.stderr.splitlines()[-1].split())
