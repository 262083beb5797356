"""Install commands: formatted by one function, printed once, accepted by pip."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyrig import install
from anyrig.install import format_install, localize_install_commands
from tests.conftest import ROOT, Anyrig

SOURCE = ROOT / "src" / "anyrig"


def _calls() -> Iterator[tuple[str, str]]:
    """Every call of `format_install` with constant arguments in the source, and its result."""
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "format_install(" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "format_install":
                try:
                    words = [ast.literal_eval(one) for one in node.args]
                    named = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
                except ValueError:  # a requirement computed at run time
                    continue
                yield (
                    f"{file.relative_to(SOURCE)}:{node.lineno}",
                    format_install(*words, **named),
                )


def test_only_one_function_formats_install_commands() -> None:
    """A literal `pip install` elsewhere would not be quoted."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if file == SOURCE / "install.py" or " install " not in text:
            continue
        tree = ast.parse(text)
        docs = {
            id(node.value) for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }  # fmt: skip
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and re.search(r"\bpip3? install [^)]", node.value)
                and id(node) not in docs
            ):
                found.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert found == []


def test_pip_accepts_every_install_command() -> None:
    from pip._internal.commands import create_command
    from pip._vendor.packaging.requirements import Requirement

    lines = {line: where for where, line in _calls()}
    assert len(lines) > 10
    for line, where in lines.items():
        for command in line.split(" && "):
            _, verb, *words = shlex.split(command)
            extra = ["--dry-run"] if verb == "install" else []
            _, requirements = create_command(verb).parse_args([*extra, *words])
            assert requirements, where
            for one in requirements:
                Requirement(one)


def test_printed_install_command_runs(anyrig: Anyrig, tmp_path: Path) -> None:
    """Also if this interpreter's `pip` is not on the PATH, as with `/env/bin/anyrig`."""
    bare = {"PATH": "/usr/bin:/bin", "ANYRIG_CACHE_FOLDER": str(tmp_path)}
    done = anyrig("engines", "install", "kokoro", environment=bare)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("-m pip install") == 1
    assert done.stderr.count(sys.executable) == 1
    found = re.search(r"\S+ -m pip install .*?(?=, then|$)", done.stderr, re.MULTILINE)
    assert found is not None
    dry = {**os.environ, **bare, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    ran = subprocess.run(
        ["sh", "-c", found[0].replace("pip install", "pip install --dry-run --no-deps")],
        capture_output=True, text=True, env=dry, timeout=120,
    )  # fmt: skip
    # 2: pip rejects the command line; 1: it cannot reach an index.
    assert ran.returncode in (0, 1), ran.stderr
    assert "Invalid requirement" not in ran.stderr


def test_extras_and_bounds_are_quoted() -> None:
    assert format_install("anyrig[ocr]") == "pip install 'anyrig[ocr]'"
    assert format_install("a>=1", "b==2") == "pip install 'a>=1' b==2"
    line = format_install("torch", options="--index-url https://x/cu126", uninstall=["torch"])
    assert line == "pip uninstall -y torch && pip install --index-url https://x/cu126 torch"


def test_windows_gets_double_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyrig.install.sys.platform", "win32")
    monkeypatch.setattr("anyrig.install.sys.executable", r"C:\My Programs\python.exe")
    monkeypatch.setattr("anyrig.install.shutil.which", lambda _: None)
    assert format_install("anyrig[ocr]") == 'pip install "anyrig[ocr]"'
    local = localize_install_commands(format_install("torch"))
    assert local == r'"C:\My Programs\python.exe" -m pip install torch'


def test_command_names_its_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("anyrig.install.shutil.which", lambda _: None)
    monkeypatch.setattr("anyrig.install.sys.executable", "/my env/bin/python")
    monkeypatch.setattr("anyrig.install.sys.prefix", str(tmp_path / "anyrig"))
    monkeypatch.setattr("anyrig.install._find_checkout", lambda: None)
    monkeypatch.setattr("anyrig.install._find_installed_folder", lambda: None)
    line = format_install("anyrig[torch]", uninstall=["torch"])
    python = "'/my env/bin/python'"

    def twice() -> str:
        once = localize_install_commands(line)
        assert localize_install_commands(once) == once
        return once

    pip = f"{python} -m pip"
    assert twice() == f"{pip} uninstall -y torch && {pip} install 'anyrig[torch]'"
    monkeypatch.setattr("anyrig.install._has_pip", lambda: False)  # created by `uv venv`
    assert f"&& uv pip install --python {python} 'anyrig[torch]'" in twice()
    (tmp_path / "anyrig").mkdir()
    (tmp_path / "anyrig" / "pipx_metadata.json").write_text("{}")
    assert twice().endswith("&& pipx runpip anyrig install 'anyrig[torch]'")


def test_a_checkout_installs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyrig.install.shutil.which", lambda _: None)
    root = install._find_checkout()
    assert root == ROOT
    text = f"`{format_install('anyrig[ocr,torch]')}`, then try again"
    local = localize_install_commands(text)
    assert f"-c {root}/constraints.txt -e '{root}[ocr,torch]'`, then try again" in local
    assert localize_install_commands(local) == local


@pytest.mark.parametrize("exists", [True, False])
def test_an_installed_package_names_the_folder_it_came_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exists: bool
) -> None:
    """`pipx install .`: no index has anyrig, but the folder does while it exists."""
    project, packages = tmp_path / "my anyrig", tmp_path / "site-packages"
    info = packages / "anyrig-0.1.0.dist-info"
    for folder in (project, info):
        folder.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: anyrig\nVersion: 0.1.0\n")
    (info / "direct_url.json").write_text(json.dumps({"url": project.as_uri(), "dir_info": {}}))
    if exists:
        (project / "pyproject.toml").touch()
        (project / "constraints.txt").touch()
    monkeypatch.setattr("anyrig.install.shutil.which", lambda _: None)
    monkeypatch.setattr("anyrig.install._find_checkout", lambda: None)
    monkeypatch.syspath_prepend(packages)
    local = localize_install_commands(format_install("anyrig[ocr]"))
    expected = f"-c '{project}/constraints.txt' '{project}[ocr]'" if exists else "'anyrig[ocr]'"
    assert local.endswith(f"pip install {expected}")
    assert localize_install_commands(local) == local


def test_pip_takes_extras_of_the_installed_package() -> None:
    """`pip install 'anyrig[cluster]'` works although no index has anyrig."""
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--dry-run"]
    done = subprocess.run([*command, "anyrig[cluster]"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_missing_package_is_one_error(anyrig_process: Anyrig, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    (tmp_path / "t.toml").write_text('[task]\nkind = "texts"\nexamples = "e.csv"\n')
    (tmp_path / "e.csv").write_text("text,label\na,b\nc,d\n")
    environment = {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = anyrig_process("train", "t.toml", cwd=tmp_path, environment=environment)
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert "torch" in done.stderr
    assert "pip install" in done.stderr
