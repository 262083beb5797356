"""docs/coming-from.md tells the truth: what it marks as working exists, and the aliases are run."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from anyrig.app.settings import LOADER
from anyrig.cli.main import COMMANDS, build_parser
from anyrig.settings.load import variable_name
from anyrig.speech.engines import engine_class
from tests.conftest import MACHINES, ROOT, Anyrig

PAGE = ROOT / "docs" / "coming-from.md"


def _rows() -> list[tuple[str, str]]:
    """The old name and what replaces it. What has no replacement stands below the tables."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and line != "| old | anyrig |"]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    return [(old, here) for old, here in cells]


ROWS = _rows()


def test_the_table_is_whole() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"^## [A-E]\. ", text, re.MULTILINE)) == 5
    assert len(ROWS) > 135
    for name in ("VIBEVOICE_MODEL", "VIBEVOICE_PORT", "VIBEVOICE_DEVICE", "DIRECTML_DEVICE",
                 "USE_GPU", "GPU_ID", "/config", "/stream", "/health", "/metrics/gpu"):  # fmt: skip
        assert any(name in old for old, _ in ROWS), name
    for old, here in ROWS:
        assert "`" in old
        assert len(here) > 3


# -- what a row names is there ---------------------------------------------------------------------


@lru_cache
def _flags(command: str) -> frozenset[str]:
    """Every flag of a command."""
    module: Any = importlib.import_module(f"anyrig.cli.{command}")
    return frozenset(build_parser(command, module)._option_string_actions)


@lru_cache
def _routes() -> frozenset[str]:
    files = (ROOT / "src" / "anyrig" / "server").rglob("*.py")
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return frozenset(re.findall(r'"(/[a-z][\w/{}.-]*)"', text))


def _resolves(dotted: str) -> bool:
    try:
        pkgutil.resolve_name(dotted)
    except (AttributeError, ImportError):
        return False
    return True


def missing(here: str) -> list[str]:
    """What a row names in backticks as ours, and is not there."""
    return [quoted for quoted in re.findall(r"`([^`]+)`", here) if not _is_there(quoted)]


def _is_there(quoted: str) -> bool:
    words = quoted.split()
    name = words[0].split("=")[0]
    if re.match(r"anyrig [a-z]", quoted):
        return words[1] in COMMANDS and not _unknown_flags(words) and not _unknown_options(words)
    if re.match(r"--?[a-z]", name):
        return name in {"-vv"}.union(*(_flags(command) for command in COMMANDS))
    if name.startswith("ANYRIG_"):
        return name in {variable_name(key) for key in LOADER.schema} | {"ANYRIG_CONFIG"}
    if re.fullmatch(r"/[a-z][\w/{}.-]*", quoted):
        return any(route.startswith(quoted) for route in _routes())
    if re.match(r"(deploy|docs)/", quoted):
        return (ROOT / quoted).exists()
    return _resolves(quoted) if re.fullmatch(r"anyrig(\.\w+)+", quoted) else True


def _unknown_flags(words: list[str]) -> list[str]:
    flags = [word.split("=")[0] for word in words[2:] if re.match("--?[a-z]", word)]
    return [flag for flag in flags if flag not in _flags(words[1]) | {"-vv"}]


def _unknown_options(words: list[str]) -> list[str]:
    """Options behind --set that the named engine does not have."""
    if "--engine" not in words:
        return []
    spec = engine_class(words[words.index("--engine") + 1]).spec
    names = {option.name for option in spec.options}
    given = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--set"]
    return [one for one in given if one.split("=")[0] not in names]


def test_everything_that_replaces_an_old_name_is_there() -> None:
    assert {old: found for old, here in ROWS if (found := missing(here))} == {}


# -- the old names, run on recorded machines -------------------------------------------------------

TWO_NVIDIA = "rtx4090-rtxpro6000-wsl2"
DIRECTML = "vega8-directml-windows"
CPU = "Processor"


@pytest.mark.parametrize(
    ("machine", "environment", "words", "chosen"),
    [
        (TWO_NVIDIA, {"VIBEVOICE_DEVICE": "cpu"}, [], CPU),
        (TWO_NVIDIA, {"VIBEVOICE_DEVICE": "cuda"}, [], "NVIDIA"),
        (TWO_NVIDIA, {"VIBEVOICE_DEVICE": "cuda"}, ["--device", "cpu"], CPU),
        (TWO_NVIDIA, {"VIBEVOICE_DEVICE": "cuda", "ANYRIG_DEVICE": "cpu"}, [], CPU),
        (TWO_NVIDIA, {"USE_GPU": "false"}, [], CPU),
        (TWO_NVIDIA, {"USE_GPU": "no", "VIBEVOICE_DEVICE": "cuda"}, [], CPU),
        (TWO_NVIDIA, {"USE_GPU": "yes"}, [], "NVIDIA"),
        (TWO_NVIDIA, {"USE_GPU": "auto"}, [], "NVIDIA"),
        (TWO_NVIDIA, {"GPU_ID": "0"}, [], "RTX 4090"),
        (TWO_NVIDIA, {"GPU_ID": "1"}, [], "RTX PRO 6000"),
        (TWO_NVIDIA, {"GPU_ID": "1", "VIBEVOICE_DEVICE": "cpu"}, [], CPU),
        (TWO_NVIDIA, {}, ["--gpu", "1"], "RTX PRO 6000"),
        (TWO_NVIDIA, {"CUDA_VISIBLE_DEVICES": ""}, [], CPU),
        (DIRECTML, {"DIRECTML_DEVICE": "0"}, [], "Vega 8"),
        (DIRECTML, {"DIRECTML_DEVICE": "0", "VIBEVOICE_DEVICE": "directml"}, [], "Vega 8"),
        (DIRECTML, {"DIRECTML_DEVICE": "0", "VIBEVOICE_DEVICE": "cpu"}, [], "Ryzen"),
        (DIRECTML, {}, ["--device", "dml:0"], "Vega 8"),
        (DIRECTML, {}, ["--device", "directml"], "Vega 8"),
    ],
)  # fmt: skip
def test_an_old_name_chooses_a_device(
    anyrig: Anyrig, machine: str, environment: dict[str, str], words: list[str], chosen: str
) -> None:
    record = str(MACHINES / f"{machine}.json")
    done = anyrig("devices", "--machine", record, "--json", *words, environment=environment)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (id,) = told["choice"]["devices"]
    names = {one["id"]: one["name"] for one in [*told["gpus"], told["cpu_device"]]}
    assert chosen in names[id]


def test_a_dot_env_file_of_the_old_tools_is_read(anyrig: Anyrig) -> None:
    Path(".env").write_text("VIBEVOICE_DEVICE=cpu\nVIBEVOICE_THREADS=4\nDATABASE_URL=x\n")
    record = str(MACHINES / f"{TWO_NVIDIA}.json")
    done = anyrig("devices", "--machine", record, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["choice"]["devices"] == ["cpu"]
    assert "VIBEVOICE_THREADS" in done.stderr  # not known: said, and nothing stops
    assert "DATABASE_URL" not in done.stderr


def test_a_gpu_that_must_be_there_and_is_not_is_an_error(anyrig: Anyrig) -> None:
    record = str(MACHINES / "no-gpu.json")
    done = anyrig("devices", "--machine", record, "--device", "cuda", "--strict")
    assert done.returncode in (2, 3)
    done = anyrig("devices", "--machine", record, "--device", "cuda")
    assert done.returncode == 0
