"""The `[task]` table as a frozen dataclass, and the files that it names."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.text.manifest import Resolve
from anyrig.training.config import check_name, check_value, convert_value
from anyrig.training.lora import LoraConfig

T = TypeVar("T")


def read(kind: type[T], values: Mapping[str, Any], where: str = "task") -> T:
    """A table's values in a dataclass; a number may stand for a float, one text for a list."""
    hints = typing.get_type_hints(kind)
    given = {}
    for name, value in values.items():
        check_name(name, list(hints), where)
        given[name] = convert_value(value, hints[name])
        check_value(given[name], hints[name], f"[{where}] {name}")
    return kind(**given)


def resolve_path(folder: Path, text: str) -> Path:
    """A path of the table: relative ones begin at the TOML file's folder."""
    return folder / Path(text).expanduser()


def require_path(folder: Path, text: str, what: str) -> Path:
    """A path that must be there."""
    path = resolve_path(folder, text)
    if not path.exists():
        raise InvalidInputError(
            f"{what} {path} does not exist", hint=f"Relative paths begin at {folder}."
        )
    return path


def read_allowed_files(folder: Path, text: str) -> Resolve | None:
    """Finds the files that a JSON object maps names to, and refuses all others; None without one.

    A server writes it for a run of its clients: their manifests name no other file.
    """
    if not text:
        return None
    path = require_path(folder, text, "the file of files")
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(known, dict):
            raise ValueError("it is not an object")
    except (OSError, ValueError) as error:
        raise InvalidSettingError(
            f"{path} cannot be read: {error}", hint='{"name": "/its/path"}'
        ) from error

    def find(name: str) -> Path:
        if name not in known:
            raise InvalidInputError("that file may not be read", hint=f"Add it to {path}.")
        return Path(str(known[name]))

    return find


def read_lora(value: int | Mapping[str, Any]) -> LoraConfig | None:
    """The adapter that `lora` of a task asks for: a rank, or a table."""
    if isinstance(value, int):
        return LoraConfig(value) if value else None
    return read(LoraConfig, value, "task.lora")


@contextmanager
def seed_torch(seed: int) -> Iterator[None]:
    """Torch draws from a seed inside, and goes on afterwards as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
