"""`anyrig devices` in a fresh process: nothing heavy is imported, and its CPU time is bounded."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MACHINES

HEAVY = (
    "torch", "numpy", "onnxruntime", "pydantic", "fastapi", "celery", "rich", "psutil",
    "importlib.metadata", "asyncio",
)  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [["devices"], ["devices", "--json"],
     ["devices", "--machine", str(MACHINES / "h100x8-mig.json")],
     ["devices", "--machine", str(MACHINES / "rx640-uhd750-windows.json"), "--device", "0"],
     ["use", "--list"], ["use", "cpu", "--no-bench"], ["use", "cpu"]],
    ids=["plain", "json", "recorded", "asked", "use-list", "use", "measured"],
)  # fmt: skip
def test_devices_and_use_import_nothing_heavy(words: list[str]) -> None:
    code = (
        "import json, sys; from anyrig.cli.main import main; code = main(sys.argv[1:]);"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stderr.strip().splitlines()[-1]))
    assert not loaded & set(HEAVY)


def test_commands_about_devices_never_import_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal too, where other commands draw their progress with it."""
    code = (
        "import sys; sys.modules['rich'] = None; sys.stderr.isatty = lambda: True\n"
        "from anyrig.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    recorded = ["--machine", str(MACHINES / "h100x8-mig.json")]
    for words in (["devices"], ["use", "cpu"], ["doctor", *recorded], ["doctor", "--no-kernels"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
        assert "rich" not in done.stderr, done.stderr
        assert done.returncode in (0, 1), done.stderr


# NVML's import and eight GPUs to describe: what a machine with NVML pays beside NVML's own answers,
# which `pytest -m gpu` and benchmarks/listing.py time on a real one.
_WITH_NVML = (
    "import pynvml, sys; from anyrig.cli.main import main;"
    f"sys.exit(main(['devices', '--machine', {str(MACHINES / 'h100x8-mig.json')!r}]))"
)
_PLAIN = ["-m", "anyrig", "devices"]


def _cpu_times(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """CPU time of whole children, user and system, with compiled modules as when installed."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
    command = [sys.executable, *words]
    subprocess.run(command, capture_output=True, check=True)
    times = []
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return times


@pytest.mark.parametrize(
    ("words", "budget_s"),
    [
        pytest.param(_PLAIN, 0.200, id="no-gpu"),
        pytest.param(["-c", _WITH_NVML], 0.300, id="nvml"),
        pytest.param(_PLAIN, 0.300, id="real-gpu", marks=pytest.mark.gpu),
    ],
)
def test_devices_stays_within_its_cpu_time(
    words: list[str], budget_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of a few, on a shared machine."""
    times = _cpu_times(words, tmp_path, monkeypatch)
    assert min(times) < budget_s, f"{[round(1000 * t) for t in times]} ms"


def test_importing_the_package_does_nothing() -> None:
    code = "import sys, anyrig; print(*sorted(m for m in sys.modules if m.startswith('anyrig')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["anyrig", "anyrig.version"]
