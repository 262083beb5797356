"""The scripts of deploy/: linted, and run with programs that print what they are asked for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_powershell

from anyrig.cli.main import parse_command_line
from anyrig.version import __version__
from tests.conftest import ROOT
from tests.deploy.files import DEPLOY
from tests.deploy.test_deploy_docker import tool

SCRIPTS = DEPLOY / "scripts"
SHELL = [*sorted(SCRIPTS.glob("*.sh")), DEPLOY / "docker" / "install",
         DEPLOY / "docker" / "entrypoint"]  # fmt: skip
POWERSHELL = [*sorted(SCRIPTS.glob("*.ps1")), ROOT / "install.ps1"]
AUTOMATIC = ("lastexitcode", "psscriptroot", "psboundparameters", "args", "true", "false")
NAMES = ("REDIS_URL", "COORDINATOR_IP", "FLOWER_PORT", "PORT", "TORCH_VERSION", "ANYRIG")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with an `anyrig` and a `docker` that print how they were called, as JSON."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("anyrig", "docker"):
        program = folder / name
        program.write_text(
            f"#!{sys.executable}\nimport json, os, sys\n"
            f"print(json.dumps(['{name}', *sys.argv[1:]]))\n"
            "print(json.dumps({n: v for n, v in os.environ.items() if n.startswith('ANYRIG_')}))\n"
        )
        program.chmod(0o755)
    return folder


def run(
    script: Path, *words: str, programs: Path, **given: str
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in NAMES}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(script), *words], capture_output=True, text=True, env={**kept, "PATH": path, **given}
    )


def called(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return [list(row) for row in rows]


def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(
        [tool("shellcheck"), "-x", *map(str, SHELL)], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.stdout, done.returncode) == ("", 0)
    assert len(SHELL) >= 8
    for path in SHELL:
        assert os.access(path, os.X_OK) == (path.name != "common.sh")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["--device", "directml", "--gpu-index", "0"], ["--device", "dml:0"]),
        (["--gpu-index", "1"], ["--gpu", "1"]),
        (["--port", "8080", "--device", "cpu", "--preload", "speech"],
         ["--device", "cpu", "--port", "8080", "--preload", "speech"]),
        (["--log-file", "a b.log"], ["--log-file", "a b.log"]),
    ],
)  # fmt: skip
def test_start_server(words: list[str], expected: list[str], programs: Path) -> None:
    (found,) = called(run(SCRIPTS / "start-server.sh", *words, programs=programs))
    assert found == ["anyrig", "serve", *expected]
    assert parse_command_line(found[1:])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["192.168.1.5"], ["--broker", "192.168.1.5"]),
        (["rediss://:pw@host:6380/0", "--name", "w1"],
         ["--broker", "rediss://:pw@host:6380/0", "--name", "w1"]),
        (["anyrig1_abc", "--device", "cpu"], ["--join", "anyrig1_abc", "--device", "cpu"]),
    ],
)  # fmt: skip
def test_start_worker(words: list[str], expected: list[str], programs: Path) -> None:
    (found,) = called(run(SCRIPTS / "start-worker.sh", *words, programs=programs))
    assert found == ["anyrig", "worker", *expected]
    assert parse_command_line(found[1:])


def test_start_coordinator(programs: Path) -> None:
    script = SCRIPTS / "start-coordinator.sh"
    (found,) = called(run(script, "--port", "7000", programs=programs))
    assert found == ["anyrig", "coordinator", "--flower", "--port", "7000"]
    given = {"REDIS_URL": "redis://h:1/0", "COORDINATOR_IP": "10.0.0.1", "FLOWER_PORT": "5556"}
    (found,) = called(run(script, programs=programs, **given))
    # The broker stays in the environment: a command line can be read by everybody.
    assert found == ["anyrig", "coordinator", "--address", "10.0.0.1", "--flower-port", "5556",
                     "--flower"]  # fmt: skip
    assert parse_command_line(found[1:])


@pytest.mark.parametrize(
    ("words", "torch", "target"),
    [([], "", "cpu"), (["cuda"], "", "cuda"), ([], "rocm7.2", "rocm"), ([], "none", "cpu")],
)
def test_build_worker_image(words: list[str], torch: str, target: str, programs: Path) -> None:
    given = {"TORCH_VERSION": torch} if torch else {}
    script = SCRIPTS / "build-worker-image.sh"
    (found,) = called(run(script, *words, "--no-cache", programs=programs, **given))
    assert found[:2] == ["docker", "build"]
    assert found[-1] == str(ROOT)
    said = dict(zip(found[2:-1:2], found[3:-1:2], strict=False))
    assert said["-f"] == str(DEPLOY / "docker" / "Dockerfile")
    assert said["--target"] == target
    assert said["-t"] == f"anyrig:{__version__}-{target}"
    assert said.get("--build-arg", "") == (f"TORCH_VERSION={torch}" if torch else "")
    assert "--no-cache" in found


@pytest.mark.parametrize(
    ("words", "file"),
    [([], "gpu"), (["amd"], "rocm"), (["intel"], "xpu")],
)
def test_deploy_gpu(words: list[str], file: str, programs: Path) -> None:
    given = {"RENDER_GROUP": "105", "VIDEO_GROUP": "44"}
    done = run(SCRIPTS / "deploy-gpu.sh", *words, "--pull", "never", programs=programs, **given)
    up, doctor = called(done)
    path = str(DEPLOY / "docker" / f"docker-compose.{file}.yml")
    assert up == ["docker", "compose", "-f", path, "up", "-d", "--build", "--wait", "--pull",
                  "never"]  # fmt: skip
    assert Path(path).is_file()
    assert doctor == ["docker", "exec", "anyrig", "anyrig", "doctor"]


def test_without_anyrig_the_way_to_it_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "house" / "deploy" / "scripts"
    folder.mkdir(parents=True)
    for name in ("common.sh", "start-worker.sh"):
        (folder / name).write_bytes((SCRIPTS / name).read_bytes())
    command = ["/bin/sh", str(folder / "start-worker.sh")]
    plain = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=plain)
    assert (done.returncode, "is not installed" in done.stderr) == (127, True)
    own = tmp_path / "house" / ".venv" / "bin" / "anyrig"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\necho own $*\n")
    own.chmod(0o755)
    done = subprocess.run(command, capture_output=True, text=True, env=plain)
    assert done.stdout == "own worker\n"


def test_entrypoint_takes_the_port_that_people_know(programs: Path) -> None:
    entry = DEPLOY / "docker" / "entrypoint"
    done = run(entry, "serve", "--preload", "speech", programs=programs, PORT="8080")
    assert called(done) == [["anyrig", "serve", "--preload", "speech"]]
    assert '"ANYRIG_SERVER_PORT": "8080"' in done.stdout
    done = run(entry, "doctor", programs=programs, PORT="8080", ANYRIG_SERVER_PORT="9")
    assert '"ANYRIG_SERVER_PORT": "9"' in done.stdout
    assert "PORT" not in run(entry, "doctor", programs=programs).stdout


# -- PowerShell: none runs here, so it is read by a grammar ----------------------------------------


@pytest.fixture(scope="module")
def parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))


@pytest.mark.parametrize("path", POWERSHELL, ids=lambda path: path.name)
def test_powershell_is_read_whole(path: Path, parser: tree_sitter.Parser) -> None:
    assert not parser.parse(path.read_bytes()).root_node.has_error
    assert path.read_bytes().isascii()  # Windows PowerShell 5 reads a file without a mark as ANSI


@pytest.mark.parametrize("path", POWERSHELL, ids=lambda path: path.name)
def test_powershell_has_nothing_that_its_linter_finds(
    path: Path, parser: tree_sitter.Parser
) -> None:
    """The rules of PSScriptAnalyzer that matter here: it needs PowerShell, which is not there."""
    text = path.read_text(encoding="ascii")
    nodes = list(_walk(parser.parse(text.encode()).root_node))
    assert '$ErrorActionPreference = "Stop"' in text
    commands = {node.text.decode() for node in nodes if node.type == "command_name" and node.text}
    own = {name for name in commands if "$" not in name and "\\" not in name and name != "docker"}
    # Cmdlets by their full names, none that prints past the pipeline or runs text.
    assert own <= {"Set-Location", "Write-Error", "Write-Output", "Write-Warning", "Test-Path",
                   "Join-Path", "Resolve-Path", "Get-Command"}, own  # fmt: skip
    names = [node.text.decode().lower() for node in nodes if node.type == "variable" and node.text]
    for name in set(names) - {"$erroractionpreference"}:
        plain = name.replace("@", "$").strip("${}")
        uses = re.findall(rf"[$@]\{{?{re.escape(plain)}\b", text, re.IGNORECASE)
        known = plain in AUTOMATIC or ":" in plain
        assert known or len(uses) > 1, f"{name} is set and not used, or used and not set"
    # What a program answers is looked at: by the next lines, or it is the last one.
    calls = re.split(r"^\s*& ", text, flags=re.MULTILINE)[1:]
    assert all("$LASTEXITCODE" in call for call in calls), calls


def _walk(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    yield node
    for child in node.children:
        yield from _walk(child)
