"""The two commands' scripts: nothing is installed twice, and what cannot be had is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the scripts, with nothing else."""
    house = tmp_path / "house"
    shutil.copytree(ROOT / "scripts", house / "scripts")
    return house


def _environment(house: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(house / "scripts" / "environment"), *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_matching_stamp_installs_nothing(house: Path) -> None:
    """Python is /bin/false: anything but leaving at once would fail."""
    (house / ".venv").mkdir()
    (house / ".venv" / ".stamp").write_text(f"abc of {house}/.venv with /bin/false\n")
    done = _environment(house, ".venv", "abc", "/bin/false", ".")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert _environment(house, ".venv", "other", "/bin/false", ".").returncode == 2
    moved = house.rename(house.with_name("moved"))
    assert _environment(moved, ".venv", "abc", "/bin/false", ".").returncode == 2


def test_an_environment_of_the_users_own_is_left_alone(house: Path) -> None:
    own = house / ".venv" / "bin"
    own.mkdir(parents=True)
    done = _environment(house, ".venv", "abc", sys.executable, ".")
    assert done.returncode == 2
    assert "was not made by make" in done.stderr
    assert own.exists()
    assert _environment(house, "", "abc", sys.executable, ".").returncode == 2


def test_an_activated_environment_is_not_remade(house: Path) -> None:
    """Its own Python leads back to the one that made it, and so to the same stamp."""
    program = house / ".venv" / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho /bin/false\n")
    program.chmod(0o755)
    (house / ".venv" / ".stamp").write_text(f"abc of {house}/.venv with /bin/false\n")
    done = _environment(house, ".venv", "abc", str(program), ".")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("body", "words"),
    [(None, "There is no"), ('case "$*" in *version_info*) exit 0;; esac; exit 1', "neither pip")],
)
def test_a_python_that_cannot_serve_is_named(
    house: Path, tmp_path: Path, body: str | None, words: str
) -> None:
    program = tmp_path / "python-of-ours"
    if body is not None:
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    done = _environment(house, ".venv", "abc", str(program), ".")
    assert done.returncode == 2
    assert words in done.stderr
    assert "nstall" in done.stderr.splitlines()[-1]


def test_an_old_python_is_refused_with_the_way_out(house: Path) -> None:
    old = house / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = _environment(house, ".venv", "abc", str(old), ".")
    assert done.returncode == 2
    assert "needs Python 3.11 or newer" in done.stderr
    assert "make PYTHON=" in done.stderr
    assert not (house / ".venv").exists()


def test_the_stamp_follows_what_is_installed() -> None:
    """The Makefile's hash covers every file that decides what gets installed."""
    line = next(
        line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("SUM")
    )
    for name in ("pyproject.toml", "constraints.txt", "scripts/system-packages"):
        assert name in line


def test_system_packages_are_left_alone_without_root(house: Path, tmp_path: Path) -> None:
    """With an `id` that says 1000 and a dpkg that knows nothing, apt is not called."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, body in (("id", "echo 1000"), ("dpkg-query", "exit 1"), ("apt-get", "exit 99")):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(house / "scripts" / "system-packages")],
        capture_output=True, text=True, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


def test_tests_without_their_system_package_skip_and_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", folder / "conftest.py")
    shutil.copytree(ROOT / "tests" / "machines", folder / "machines")
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    (folder / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.system('no-such-package', '/no/such/file')\n"
        "def test_needs_it():\n    raise AssertionError\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "tests"],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert "1 skipped" in done.stdout, done.stdout
    assert "Skipped for want of no-such-package: tests/test_it.py::test_needs_it" in done.stdout
    assert "sudo apt install --no-install-recommends no-such-package" in done.stdout


def test_every_requirement_is_pinned() -> None:
    """The constraints file pins everything that pyproject asks for."""
    import re
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    pins = {
        re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower()
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    names = {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=! ]", row)[0]).lower() for row in wanted}
    assert names - pins == set()
