"""Fixtures that everything shares: recorded machines, a clean environment, a person's folders."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from anyrig.devices.discover import from_record
from anyrig.devices.machine import Machine

ROOT = Path(__file__).resolve().parent.parent
MACHINES = ROOT / "tests" / "machines"
NAMES = sorted(path.stem for path in MACHINES.glob("*.json"))
_SHAPING = ("ANYRIG_", "CUDA_", "HIP_", "ROCR_", "HSA_", "ZE_", "PYTORCH_", "VIBEVOICE_", "NVIDIA_")
_missing: dict[str, str] = {}

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored, and every child would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_OPT_IN = {"gpu": "needs a GPU", "slow": "takes long", "network": "needs the network"}


def record_of(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((MACHINES / f"{name}.json").read_text(encoding="utf-8"))
    return data


@pytest.fixture
def machine() -> Callable[..., Machine]:
    """A recorded machine by name, under extra variables if wanted."""

    def load(name: str, environment: Mapping[str, str] | None = None) -> Machine:
        return from_record(record_of(name), environment)

    return load


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the developer's own settings, devices or folders reaches a test."""
    for name in list(os.environ):
        if name.startswith(_SHAPING) or name in ("USE_GPU", "GPU_ID", "DIRECTML_DEVICE"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ".local" / "share"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local" / "state"))
    monkeypatch.setenv("NO_COLOR", "1")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Random numbers are the same in every run of a test."""
    random.seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


Anyrig = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def anyrig(anyrig_process: Anyrig) -> Anyrig:
    """The command line; tests/cli has one without a process of its own."""
    return anyrig_process


@pytest.fixture
def anyrig_process() -> Anyrig:
    """The command line in a process of its own."""

    def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **options.pop("environment", {})}
        return subprocess.run(
            [sys.executable, "-m", "anyrig", *words],
            capture_output=True, text=True, env=environment, timeout=120, **options,
        )  # fmt: skip

    return run


def pytest_configure() -> None:
    """The same examples every time, and none refused because the machine is busy."""
    with contextlib.suppress(ImportError):  # GPU machines may not have it
        from hypothesis import HealthCheck, settings

        settings.register_profile(
            "gate", max_examples=50, derandomize=True, database=None, deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        )  # fmt: skip
        settings.load_profile("gate")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what tests/long.txt names."""
    text = (ROOT / "tests" / "long.txt").read_text(encoding="utf-8")
    long = {f"tests/{line}" for line in text.splitlines() if line and not line.startswith("#")}
    some = tuple(line for line in long if "[" in line)
    for item in items:
        file, _, rest = item.nodeid.partition("::")
        if long & {file, f"{file}::{rest.partition('[')[0]}"} or item.nodeid.startswith(some):
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests that need a system package skip without it, and are named at the end."""
    for marker in item.iter_markers("system"):
        package, command = marker.args
        if not (shutil.which(command) or Path(command).exists()):
            _missing[item.nodeid] = package
            pytest.skip(f"needs the system package {package}")
    asked = item.config.getoption("-m") or ""
    for name, why in _OPT_IN.items():
        if item.get_closest_marker(name) and name not in asked:
            pytest.skip(f"{why}: pytest -m {name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if item.nodeid in _missing:
        # Travels from xdist's workers to the process that prints the summary.
        report.user_properties.append(("missing", _missing[item.nodeid]))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    missing: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        for key, package in getattr(report, "user_properties", []):
            if key == "missing" and report.nodeid not in missing.setdefault(package, []):
                missing[package].append(report.nodeid)
    for package, tests in missing.items():
        terminalreporter.write_line(f"Skipped, {package} is not installed: {', '.join(tests)}")
        terminalreporter.write_line(f"  sudo apt install --no-install-recommends {package}")
