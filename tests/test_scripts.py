"""The scripts behind `make`: nothing is installed twice, and what is missing is named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the scripts only."""
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", checkout / "scripts")
    return checkout


def _run_environment(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(checkout / "scripts" / "environment"), *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_matching_stamp_installs_nothing(checkout: Path) -> None:
    """With /bin/false as Python, anything but an immediate exit would fail."""
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / ".stamp").write_text(f"abc of {checkout}/.venv with /bin/false\n")
    done = _run_environment(checkout, ".venv", "abc", "/bin/false", ".")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert _run_environment(checkout, ".venv", "other", "/bin/false", ".").returncode == 2
    moved = checkout.rename(checkout.with_name("moved"))
    assert _run_environment(moved, ".venv", "abc", "/bin/false", ".").returncode == 2


def test_foreign_environment_is_kept(checkout: Path) -> None:
    own = checkout / ".venv" / "bin"
    own.mkdir(parents=True)
    done = _run_environment(checkout, ".venv", "abc", sys.executable, ".")
    assert done.returncode == 2
    assert "was not created by make" in done.stderr
    assert own.exists()
    assert _run_environment(checkout, "", "abc", sys.executable, ".").returncode == 2


def test_activated_environment_is_not_rebuilt(checkout: Path) -> None:
    """Its Python resolves to the one that created it, and so to the same stamp."""
    program = checkout / ".venv" / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho /bin/false\n")
    program.chmod(0o755)
    (checkout / ".venv" / ".stamp").write_text(f"abc of {checkout}/.venv with /bin/false\n")
    done = _run_environment(checkout, ".venv", "abc", str(program), ".")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("body", "words"),
    [(None, "not found"), ('case "$*" in *version_info*) exit 0;; esac; exit 1', "neither pip")],
)
def test_unsuitable_python_is_named(
    checkout: Path, tmp_path: Path, body: str | None, words: str
) -> None:
    program = tmp_path / "some-python"
    if body is not None:
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    done = _run_environment(checkout, ".venv", "abc", str(program), ".")
    assert done.returncode == 2
    assert words in done.stderr
    assert "nstall" in done.stderr.splitlines()[-1]


def test_old_python_is_an_error(checkout: Path) -> None:
    old = checkout / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = _run_environment(checkout, ".venv", "abc", str(old), ".")
    assert done.returncode == 2
    assert "needs Python 3.11 or newer" in done.stderr
    assert "make PYTHON=" in done.stderr
    assert not (checkout / ".venv").exists()


def test_stamp_depends_on_everything_that_is_installed() -> None:
    line = next(
        line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("SUM")
    )
    for name in ("pyproject.toml", "constraints.txt", "scripts/system-packages"):
        assert name in line


def test_no_system_packages_without_root(checkout: Path, tmp_path: Path) -> None:
    """`id` prints 1000 and dpkg knows no package; apt must not be called."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, body in (("id", "echo 1000"), ("dpkg-query", "exit 1"), ("apt-get", "exit 99")):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(checkout / "scripts" / "system-packages")],
        capture_output=True, text=True, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


def test_tests_skip_without_their_system_package(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    for name in ("conftest.py", "long.txt"):
        shutil.copy(ROOT / "tests" / name, folder / name)
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
    assert (
        "Skipped, no-such-package is not installed: tests/test_it.py::test_needs_it" in done.stdout
    )
    assert "sudo apt install --no-install-recommends no-such-package" in done.stdout


def test_every_line_of_the_long_tests_names_one() -> None:
    """A line that names none would leave its test in `make test`."""
    lines = (ROOT / "tests" / "long.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            file, *names = line.partition("[")[0].split("::")
            text = (ROOT / "tests" / file).read_text(encoding="utf-8")
            for depth, name in enumerate(names):
                kind = "def" if name.startswith("test_") else "class"
                assert re.search(rf"^{'    ' * depth}{kind} {name}\b", text, re.MULTILINE), line


def test_every_requirement_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    pins = {
        re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower()
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    names = {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=! ]", row)[0]).lower() for row in required}
    assert names - pins == set()
