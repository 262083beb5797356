"""Fixtures that everything shares: recorded machines, a clean environment, a person's folders."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import pytest

from anyrig.devices.discovery import from_record
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
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)  # set by commands run in this process
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
        torch.default_generator.manual_seed(0)  # torch.manual_seed asks every backend: 1 ms a test
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)


Anyrig = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def anyrig() -> Anyrig:
    """`anyrig` in this process, which most tests of commands need: see `run_command`.

    `anyrig_process` starts a process: for signals, what is imported, and memory limits.
    """
    return run_command


def run_command(
    *words: str,
    environment: Mapping[str, str] | None = None,
    input: str = "",
    stdin: int = subprocess.DEVNULL,
    clear: bool = False,
) -> subprocess.CompletedProcess[str]:
    """A command without the start of a process: its exit code, what it and its children wrote.

    With `clear` it sees the variables of `environment` alone.
    """
    from anyrig.cli.main import main

    assert stdin == subprocess.DEVNULL
    with (
        patch.dict(os.environ, environment or {}, clear=clear),
        _file(input) as given, _file() as out, _file() as err,
        _redirect("stdin", given), _redirect("stdout", out), _redirect("stderr", err),
        own_warnings_and_log(),
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
def own_warnings_and_log() -> Iterator[None]:
    """Warnings are shown as in a process, not raised; the log is as before afterwards."""
    root = logging.getLogger()
    level, filters = root.level, {one: list(one.filters) for one in root.handlers}
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        yield
    for handler in [one for one in root.handlers if getattr(one, "anyrig", False)]:
        root.removeHandler(handler)
        handler.close()
    for handler, before in filters.items():  # a server hides texts of users from every handler
        handler.filters[:] = before
    root.setLevel(level)


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


def pytest_collection_finish() -> None:
    """Modules and tests stay: looking for garbage among them takes a tenth of the CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


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
