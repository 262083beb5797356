"""Engines by name, of our own and of others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from anyrig import plugins
from anyrig.errors import InvalidInputError, MissingPackageError
from anyrig.speech.engines import OWN, engine_class
from tests.conftest import Anyrig

GROUP = "anyrig.speech"


def _plugin(folder: Path, name: str, code: str, value: str = "") -> None:
    """A package as pip would leave it, with an entry point."""
    module = f"{name}_plugin"
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    target = value or f"{module}:Engine"
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {target}\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "plugins"
    path.mkdir()
    monkeypatch.syspath_prepend(str(path))
    monkeypatch.setenv("PYTHONPATH", str(path))
    return path


def test_every_engine_of_ours_is_there_and_light() -> None:
    for name in OWN:
        assert engine_class(name).info.name == name


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(InvalidInputError, match="unknown engine 'hibary'") as caught:
        engine_class("hibary")
    assert "hibari" in caught.value.hint


@pytest.mark.parametrize(
    ("code", "value", "kind", "said"),
    [
        ("import no_such_package", "", MissingPackageError, "no_such_package"),
        ("x = 1", "", InvalidInputError, "has a broken entry point"),
        ("raise RuntimeError('broken')", "", InvalidInputError, "RuntimeError: broken"),
        ("raise SystemExit(3)", "", InvalidInputError, "SystemExit"),
        ("class Engine: pass", "", InvalidInputError, "no `info`"),
    ],
    ids=["missing package", "missing name", "error", "exit", "no engine"],
)
def test_a_broken_plugin_is_an_error_in_words(
    folder: Path, code: str, value: str, kind: type[Exception], said: str
) -> None:
    name = f"broken{abs(hash(said)) % 10**6}"
    _plugin(folder, name, code, value)
    with pytest.raises(kind, match=said):
        engine_class(name)
    assert name in plugins.list_names(OWN, GROUP)


def test_a_broken_plugin_does_not_stop_the_listing(folder: Path, anyrig_process: Anyrig) -> None:
    _plugin(folder, "bad", "raise RuntimeError('broken')")
    done = anyrig_process("engines", environment={"PYTHONPATH": f"{folder}:{':'.join(sys.path)}"})
    assert done.returncode == 0, done.stderr
    assert "hibari" in done.stdout
    assert "bad_plugin" in done.stdout
    assert "Traceback" not in done.stderr
