"""The files of deploy/, read as whoever uses them reads them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.conftest import ROOT

DEPLOY = ROOT / "deploy"
DOCKER = DEPLOY / "docker"
COMPOSE = sorted(DOCKER.glob("docker-compose*.yml"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
TARGETS = ("cpu", "cuda", "rocm", "xpu")
_DEFAULT = re.compile(r"\$\{(\w+)(?::?([-?])([^}]*))?\}")


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# -- Dockerfile ------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    """(`RUN`, what follows) of the Dockerfile, lines that go on put together."""
    whole = re.sub(r"\\\n", " ", text(DOCKER / "Dockerfile"))
    found = []
    for line in whole.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.strip().partition(" ")
            found.append((word, re.sub(r"\s+", " ", rest.strip())))
    return found


def stages() -> dict[str, list[tuple[str, str]]]:
    """By name: the instructions of each stage, `FROM` first."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for word, rest in instructions():
        if word == "FROM":
            name = rest.split(" AS ")[1]
            found[name] = []
        if name:
            found[name].append((word, rest))
    return found


def lineage(name: str) -> list[tuple[str, str]]:
    """All instructions that make a stage, those that it stands on first."""
    rows = stages()[name]
    below = rows[0][1].split(" AS ")[0]
    return [*(lineage(below) if below in stages() else ()), *rows]


def variables(name: str) -> dict[str, str]:
    """The environment that a target gives to what runs in it."""
    found: dict[str, str] = {}
    for word, rest in lineage(name):
        if word == "ENV":
            found |= dict(pair.split("=", 1) for pair in shlex.split(rest))
    return found


# -- compose ---------------------------------------------------------------------------------------


def services(path: Path) -> dict[str, dict[str, Any]]:
    """The services of a compose file, with what they extend."""
    return {name: _service(path, name) for name in yaml.safe_load(text(path))["services"]}


def _service(path: Path, name: str) -> dict[str, Any]:
    row: dict[str, Any] = yaml.safe_load(text(path))["services"][name]
    base: dict[str, Any] = {}
    if "extends" in row:
        file = row["extends"].get("file")
        base = _service(DOCKER / file if file else path, row["extends"]["service"])
    found: dict[str, Any] = _merged(base, {key: row[key] for key in row if key != "extends"})
    return found


def _merged(base: Any, over: Any) -> Any:
    """As compose does it: mappings are merged, lists put together, a command replaced."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {
            key: over[key] if key in ("command", "test") and key in over
            else _merged(base[key], over[key]) if key in base and key in over
            else over.get(key, base.get(key))
            for key in [*base, *(key for key in over if key not in base)]
        }  # fmt: skip
    if isinstance(base, list) and isinstance(over, list):
        return [*base, *(one for one in over if one not in base)]
    return over


def filled(value: str, environment: dict[str, str]) -> str:
    """A text with compose's variables filled in; `KeyError` for one that must be given."""

    def fill(found: re.Match[str]) -> str:
        name, how, rest = found.groups()
        if environment.get(name):
            return environment[name]
        if how == "-":
            return str(rest)
        raise KeyError(name)

    return _DEFAULT.sub(fill, value).replace("$$", "$")


# -- Kubernetes ------------------------------------------------------------------------------------


def manifests() -> list[tuple[Path, dict[str, Any]]]:
    """All objects, each with the file that it lies in."""
    return [
        (path, row)
        for path in MANIFESTS
        if path.name != "kustomization.yaml"
        for row in yaml.safe_load_all(text(path))
    ]


def pods() -> list[tuple[str, dict[str, Any]]]:
    """What makes pods: its name and the pods' spec."""
    return [
        (row["metadata"]["name"], row["spec"]["template"]["spec"])
        for _, row in manifests()
        if "template" in row.get("spec", {})
    ]
