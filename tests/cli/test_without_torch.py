"""Training where torch is not installed: every front end says so, with the command for it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from anyrig.app import training
from anyrig.devices.advice import find_torch_install
from anyrig.devices.doctor import diagnose
from anyrig.devices.machine import Machine
from tests.conftest import NAMES, Anyrig
from tests.server.conftest import MakeApp, make_app  # noqa: F401 - a fixture

HIDE = """
import importlib.machinery as machinery
import os

_find, _list = machinery.PathFinder.find_spec, os.listdir


def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] == "torch" else _find(name, path, target)


machinery.PathFinder.find_spec = find_spec
os.listdir = lambda *words: [name for name in _list(*words) if not name.startswith("torch-")]
"""
CONFIG = '[task]\nkind = "language"\ntext = "tide.txt"\n'


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has no torch."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDE)
    paths = [str(tmp_path / "hidden"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.mark.parametrize(
    "words",
    ["train run.toml", "train run.toml --estimate", "train run.toml --profile-memory",
     "classify train examples.jsonl --fine-tune model"],
)  # fmt: skip
def test_commands_name_the_install_command(
    anyrig_process: Anyrig, without: dict[str, str], words: str
) -> None:
    Path("tide.txt").write_text("The tide came in.\n" * 100, encoding="utf-8")
    Path("run.toml").write_text(CONFIG, encoding="utf-8")
    Path("examples.jsonl").write_text('{"text": "a", "label": "b"}\n', encoding="utf-8")
    done = anyrig_process(*words.split(), environment=without)
    assert done.returncode == 4, done.stderr
    assert "training needs torch, which is not installed" in done.stderr
    assert "torch]'" in done.stderr
    assert "anyrig doctor" not in done.stderr
    assert not Path("runs").exists()


def test_doctor_lists_it_with_the_same_command(
    anyrig_process: Anyrig, without: dict[str, str]
) -> None:
    doctor = anyrig_process("doctor", environment=without)
    Path("tide.txt").write_text("The tide came in.\n" * 100, encoding="utf-8")
    Path("run.toml").write_text(CONFIG, encoding="utf-8")
    train = anyrig_process("train", "run.toml", environment=without)
    command = train.stderr.partition("hint: ")[2].strip()
    assert command
    assert "torch is not installed: training" in doctor.stdout
    assert f"-> {command}" in doctor.stdout


# -- the command ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("no-gpu", "whl/cpu"), ("core-ultra-linux", "whl/xpu"), ("h200-linux", "whl/cu130"),
        ("mi300x-linux", "whl/rocm"), ("gtx1080ti-linux", "whl/cu126"), ("macbook-m4", ""),
        ("rtx5090-cpu-torch-windows", "whl/cu130"),
    ],
)  # fmt: skip
def test_build_of_torch_for_the_machine(machine: Any, name: str, index: str) -> None:
    command = find_torch_install(machine(name))
    assert command.endswith("pip install 'anyrig[torch]'")
    assert index in command
    assert ("--index-url" in command) is bool(index)


def test_systems_without_wheels(machine: Any) -> None:
    for name in ("macbook-intel", "freebsd"):
        assert find_torch_install(machine(name)) == ""


def test_doctor_says_it_on_every_machine_without_torch(machine: Any) -> None:
    for name in NAMES:
        here: Machine = machine(name)
        found = [one for one in diagnose(here) if "torch is not installed: training" in one.message]
        assert bool(found) is (here.host.installed.torch is None), name
        assert all(one.fix == find_torch_install(here) for one in found)


# -- the server -----------------------------------------------------------------------------------


def test_server_refuses_a_run_with_the_command(
    make_app: MakeApp,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = TestClient(make_app("--no-jobs"), base_url="http://127.0.0.1:3000")
    ready = {"ready": ["language", "classifier"], "install": None}
    assert client.get("/runs/ready").json() == ready
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "torch" else real(name)
    )
    install = client.get("/runs/ready").json()["install"]
    assert "torch]'" in install
    sent = client.post("/uploads", files={"files": ("a.txt", b"The tide came in. " * 100)})
    file = f"upload:{sent.json()['files'][0]['id']}"
    answer = client.post("/runs", json={"ready": "language", "file": file})
    assert answer.status_code == 501
    assert "training needs torch, which is not installed" in answer.text
    assert "pip install 'anyrig[torch]'" in answer.json()["error"]["message"]
    config = client.post("/uploads", files={"files": ("run.toml", CONFIG.encode())})
    given = {"file": f"upload:{config.json()['files'][0]['id']}"}
    answer = client.post("/jobs", json={"kind": "train", "arguments": given})
    assert answer.status_code in (400, 501)
    assert client.get("/jobs").json()["jobs"] == []


def test_torch_is_looked_for_without_loading_it() -> None:
    assert training.find_missing_torch(SimpleNamespace()) is None  # type: ignore[arg-type]
