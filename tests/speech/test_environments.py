"""Environments: complete or not at all, with their pins; and the ordinary worker in one."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig import plugins
from anyrig.devices.advice import find_torch_wheel
from anyrig.devices.discovery import from_record
from anyrig.devices.machine import Machine
from anyrig.errors import (
    DeviceLostError,
    InvalidInputError,
    MissingPackageError,
    StorageError,
    WorkError,
)
from anyrig.speech import engines
from anyrig.speech.choose import WeightsCache
from anyrig.speech.engine import EngineWeights, Utterance
from anyrig.speech.environments import (
    Environment,
    EnvironmentSpec,
    EnvironmentStamp,
    list_index_options,
)
from anyrig.speech.takes import decode_take
from anyrig.work.engine import EngineFactory
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from tests.conftest import record_of
from tests.speech import standin
from tests.speech.conftest import place_on_cpu
from tests.speech.standin_engine import Standin

SPEC = Standin.environment
SMALL = EnvironmentSpec((), max_python=(3, 99))
OWN = [name for name in engines.OWN if engines.engine_class(name).environment]


def _install(environment: Environment, lines: list[str] | None = None, **more: Any) -> list[str]:
    lines = [] if lines is None else lines
    given: dict[str, Any] = {"agree": lambda notice: True, **more}
    environment.install(on_line=lines.append, variables=os.environ, **given)
    return lines


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return standin.wheels(tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="session")
def home(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of environments with the stand-in's, built once over an incomplete one."""
    home = tmp_path_factory.mktemp("environments")
    (home / "standin").mkdir()
    (home / "standin" / "incomplete").touch()
    made = Environment("standin", SPEC, home)
    _install(made, pip_options=("--no-index", "--find-links", str(index)))
    # The library would bring NumPy; there is no network to fetch it from.
    own = Path(np.__file__).parent
    (packages,) = (home / "standin").glob("**/site-packages")
    for folder in (own, *own.parent.glob("numpy.libs")):
        (packages / folder.name).symlink_to(folder, target_is_directory=True)
    return home


@pytest.fixture
def environment(home: Path) -> Environment:
    return Environment("standin", SPEC, home)


def test_a_ready_environment_is_left_alone(environment: Environment) -> None:
    assert environment.state == "ready"
    stamp = environment.require()
    assert stamp.versions["standin-tts"] == "1.0"
    assert stamp.python == sys.version.split()[0]
    before = (environment.folder / "pyvenv.cfg").stat().st_mtime_ns
    lines = _install(environment, agree=lambda notice: False)
    assert lines == [f"standin is ready in {environment.folder}"]
    assert (environment.folder / "pyvenv.cfg").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("built_for", "flavour", "serves"),
    [("", "", True), ("cuda", "", True), ("cuda", "cpu", True), ("cpu", "cuda", False),
     ("cuda", "cuda", True), ("", "rocm", False)],
)  # fmt: skip
def test_an_environment_serves_the_devices_it_was_built_for(
    built_for: str, flavour: str, serves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Environment, "stamp", EnvironmentStamp("x", kind=built_for))
    assert Environment("small", SMALL, tmp_path)._has_torch_for(flavour) is serves


def test_other_pins_or_an_old_python_make_it_stale(home: Path, tmp_path: Path) -> None:
    newer = Environment("standin", replace(SPEC, requirements=("standin-tts==2.0",)), home)
    assert newer.state == "stale"
    worded = Environment("standin", replace(SPEC, notice="other words"), home)
    assert worded.state == "ready"
    old = Environment("small", SMALL, tmp_path)
    old.python.parent.mkdir(parents=True)
    old.python.touch()
    stamp = f'{{"recipe": "{old.fingerprint}", "python": "3.10.4"}}'
    (old.folder / "anyrig-environment.json").write_text(stamp)
    assert old.state == "stale"
    with pytest.raises(MissingPackageError, match="another release") as error:
        old.require()
    assert error.value.hint == "anyrig engines install small"


def _read_state(environment: Environment) -> str:
    """Read again: a type checker takes it for a constant."""
    return environment.state


def test_incomplete_and_damaged_ones_are_broken(tmp_path: Path) -> None:
    environment = Environment("small", SMALL, tmp_path)
    assert _read_state(environment) == "absent"
    environment.folder.mkdir()
    assert _read_state(environment) == "broken"
    (environment.folder / "anyrig-environment.json").write_text("{}")
    assert _read_state(environment) == "broken"
    stamp = f'{{"recipe": "{environment.fingerprint}", "python": "3.12.0"}}'
    (environment.folder / "anyrig-environment.json").write_text(stamp)
    assert _read_state(environment) == "broken"  # no Python in it
    assert environment.remove()
    assert _read_state(environment) == "absent"
    assert not environment.remove()


def test_a_failed_step_shows_pips_words_and_leaves_no_stamp(index: Path, tmp_path: Path) -> None:
    spec = replace(SPEC, requirements=("standin-tts==9.9",), system_needs="a wand")
    environment, lines = Environment("standin", spec, tmp_path), list[str]()
    with pytest.raises(WorkError, match=r"No matching distribution.*standin-tts==9\.9") as failed:
        _install(environment, lines, pip_options=("--no-index", "--find-links", str(index)))
    assert "It needs a wand." in failed.value.hint
    assert environment.state == "broken"
    assert lines[0].startswith("standin takes about 19.1 MiB in")
    assert any("No matching distribution" in line for line in lines)


def test_nothing_is_built_without_agreement(tmp_path: Path) -> None:
    notices: list[str] = []

    def refuse(notice: str) -> bool:
        notices.append(notice)
        return False

    environment = Environment("standin", SPEC, tmp_path)
    with pytest.raises(InvalidInputError, match="licence was not accepted"):
        _install(environment, agree=refuse)
    assert notices == [SPEC.notice]
    assert environment.state == "absent"


def test_a_disk_too_small_is_refused_before_anything(tmp_path: Path) -> None:
    environment = Environment("small", replace(SMALL, disk_bytes=1 << 60), tmp_path)
    with pytest.raises(StorageError, match="needs about"):
        _install(environment)
    assert environment.state == "absent"


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_two_processes_do_not_build_the_same_one(tmp_path: Path) -> None:
    from anyrig.storage.files import lock_file

    with lock_file(tmp_path / "small.lock", 0) as is_mine:
        assert is_mine
        with pytest.raises(StorageError, match="another process"):
            _install(Environment("small", SMALL, tmp_path))


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
def test_another_python_is_looked_for_and_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name on the PATH that does not start that Python, as version managers leave, is skipped."""
    for name, body in (("python3.98", "exit 127"), ("python3.97", "echo 3 97")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path))
    spec = replace(SMALL, min_python=(3, 96), max_python=(3, 98))
    environment = Environment("small", spec, tmp_path)
    assert environment.find_python() == ["python3.97"]
    (tmp_path / "python3.97").unlink()
    with pytest.raises(MissingPackageError, match=r"needs Python 3\.96 to 3\.98") as missing:
        environment.find_python()
    assert "python3.98" in missing.value.hint


# -- the worker in an environment ------------------------------------------------------------------


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of the stand-in, and a recording."""
    folder = tmp_path_factory.mktemp("standin")
    (folder / "weights.bin").write_bytes(b"weights")
    (folder / "voices").mkdir()
    (folder / "voices" / "anna.wav").write_bytes(b"RIFF")
    return folder


@pytest.fixture
def weights(folder: Path, home: Path) -> EngineWeights:
    return WeightsCache().find(Standin, folder, home)


def _open_pool(weights: EngineWeights, **options: str) -> WorkerPool:
    given = {"engine": engines.describe_engine(Standin, "standin"), "folder": weights.folder}
    factory = EngineFactory(
        "anyrig.speech.quality:CheckedEngine", {**given, "options": options},
        interpreter=weights.interpreter,
    )  # fmt: skip
    return WorkerPool(LocalWorkers([place_on_cpu()], factory, environment=os.environ))


@pytest.fixture
def pool(weights: EngineWeights) -> Iterator[WorkerPool]:
    with _open_pool(weights) as pool:
        yield pool


def test_it_is_found_with_versions_voices_and_interpreter(
    weights: EngineWeights, folder: Path, home: Path
) -> None:
    assert weights.interpreter is not None
    assert weights.interpreter.python == str(Environment("standin", SPEC, home).python)
    assert set(weights.interpreter.packages) == {"anyrig", "tests"}
    assert weights.interpreter.variables["STANDIN_AGREED"] == "1"
    assert weights.version == "1/standin-tts-1.0"
    assert [voice.name for voice in weights.voices] == ["low", "high", "anna"]
    assert weights.languages == ("en", "es")


def test_another_recording_under_the_same_name_is_another_voice(
    home: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another process may write into a folder of the import path meanwhile.
    monkeypatch.setattr(plugins, "read_import_state", lambda: ())
    shutil.copytree(folder, tmp_path / "copy")
    cache = WeightsCache()
    before = cache.find(Standin, tmp_path / "copy", home)
    assert cache.find(Standin, tmp_path / "copy", home) is before
    (tmp_path / "copy" / "voices" / "anna.wav").write_bytes(b"RIFFanother")
    after = cache.find(Standin, tmp_path / "copy", home)
    assert after.fingerprint == before.fingerprint
    assert after.voices[2].digest != before.voices[2].digest


def test_clashing_versions_live_side_by_side(
    weights: EngineWeights, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the library is 2.0, there 1.0; nothing else of this environment is visible there."""
    here = tmp_path / "here"
    with zipfile.ZipFile(index / "clashlib-2.0-py3-none-any.whl") as wheel:
        wheel.extractall(here)
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.setenv("PYTHONPATH", str(here))  # would lead the worker astray
    import clashlib  # type: ignore[import-not-found]

    assert clashlib.__version__ == "2.0"
    texts = ["hello", "agreed", "modules"]
    with _open_pool(weights) as pool:
        got = list(pool.run([Utterance(text) for text in texts], cost=lambda one: one.cost))
    assert [outcome.failure for outcome in got] == [None] * 3
    takes = [decode_take(outcome.result.data) for outcome in got if outcome.result]
    assert {take.rate for take in takes} == {16000}
    lengths = [len(take.samples) // 1600 - 1 for take in takes]
    assert lengths == [5, 1, 0]


def test_an_utterance_that_kills_and_one_that_fails_are_set_aside(pool: WorkerPool) -> None:
    batch = [Utterance(f"text {n}", voice="high") for n in range(5)]
    batch[1:1] = [Utterance("exit always", voice="low")]
    batch[4:4] = [Utterance("wrong always", voice="low")]
    got = list(pool.run(batch, cost=lambda one: one.cost))
    assert [number for number, outcome in enumerate(got) if outcome.failure] == [1, 4]
    assert got[1].failure is not None
    assert "last words" in got[1].failure.message


def test_a_recording_by_its_path_is_a_voice(pool: WorkerPool, tmp_path: Path) -> None:
    recording = tmp_path / "mine.wav"
    recording.touch()
    batch = [
        Utterance("hello", voice=str(recording)),
        Utterance("hello", voice=str(tmp_path / "other.wav")),
        Utterance("bonjour", language="fr", voice=str(recording)),
    ]
    found, missing, foreign = pool.run(batch, cost=lambda one: one.cost)
    assert found.failure is None
    assert missing.failure is not None
    assert "does not exist" in missing.failure.message
    assert foreign.failure is not None
    assert "does not speak fr" in foreign.failure.message


def test_an_engine_that_does_not_load_says_how_its_process_ended(weights: EngineWeights) -> None:
    with _open_pool(weights, load="exit") as pool, pytest.raises(DeviceLostError, match="code 9"):
        list(pool.run([Utterance("hello")], cost=lambda one: one.cost))


# -- anyrig's own engines --------------------------------------------------------------------------


@pytest.mark.parametrize("name", OWN)
def test_pins_are_complete_and_the_file_imports_in_a_bare_python(name: str, home: Path) -> None:
    engine = engines.engine_class(name)
    spec = engine.environment
    assert spec is not None
    assert all("==" in row for row in spec.requirements)
    assert spec.estimate_disk("cpu") < spec.estimate_disk("cuda")
    interpreter = replace(Environment("standin", SPEC, home).interpreter(engine))
    assert list(interpreter.packages) == ["anyrig"]
    done = subprocess.run(
        [interpreter.python, "-I", "-S", "-c", _IMPORT_ALONE, interpreter.packages["anyrig"],
         engine.__module__],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


_IMPORT_ALONE = """
import importlib, sys
from importlib.machinery import PathFinder
class Finder:
    def find_spec(self, name, path=None, target=None):
        return PathFinder.find_spec(name, [sys.argv[1]]) if name == "anyrig" else None
sys.meta_path.insert(0, Finder())
importlib.import_module("anyrig.work.worker_main")
importlib.import_module(sys.argv[2])
"""


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize(
    ("machine_name", "flavour", "index"),
    [
        ("no-gpu", "cpu", ["cpu"]),
        ("h200-linux", "cuda", []),  # the package index has it
        ("gtx1080ti-linux", "cuda", ["cu126"]),  # the last with its kernels
        ("rtx5090-cpu-torch-windows", "cuda", ["cu128"]),
        ("jetson-orin-linux", "cpu", ["cpu"]),
        ("mi300x-linux", "rocm", ["rocm6.4"]),
        ("rx6700xt-linux", "cpu", ["cpu"]),  # no kernels in that build ...
        ("rx6700xt-override-linux", "rocm", ["rocm6.4"]),  # ... but a sibling's
        ("rx7900xtx-windows", "cpu", ["cpu"]),  # builds for Linux alone
        ("arc-b580-linux", "xpu", ["xpu"]),
        ("core-ultra-linux", "xpu", ["xpu"]),
        ("rx640-uhd750-windows", "cpu", ["cpu"]),
        ("macbook-m4", "mac", []),
        ("macbook-intel", "cpu", ["cpu"]),
    ],
)  # fmt: skip
def test_torch_comes_for_the_device(
    machine: Callable[..., Machine], name: str, machine_name: str, flavour: str, index: list[str]
) -> None:
    spec = engines.engine_class(name).environment
    assert spec is not None
    wheel = find_torch_wheel(machine(machine_name), spec.torch)
    assert wheel.flavour == flavour
    options = list_index_options(spec, wheel)
    assert [option.rpartition("/")[2] for option in options[1:]] == index


def test_an_arc_on_windows_gets_the_build_for_it() -> None:
    record = record_of("rx640-uhd750-windows")
    record["dxgi"] = [{**record["dxgi"][0], "VendorId": 0x8086, "DeviceId": 0xE20B}]
    wheel = find_torch_wheel(from_record(record), "2.8.0")
    assert (wheel.flavour, wheel.index) == ("xpu", "xpu")
