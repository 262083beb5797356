"""A job's table as a frozen dataclass: unknown keys and values of a wrong type are refused."""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.text.manifest import Resolve
from anyrig.training.lora import LoraConfig

Config = TypeVar("Config")
_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def read(kind: type[Config], values: Mapping[str, Any], where: str = "task") -> Config:
    """A table's values in a dataclass; a number may stand for a float, one text for a list."""
    hints = typing.get_type_hints(kind)
    known = [one.name for one in dataclasses.fields(kind)]  # type: ignore[arg-type]  # a dataclass
    given = {}
    for name, value in values.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Valid names: {', '.join(known)}."
            raise InvalidSettingError(f"[{where}] has no setting {name!r}", hint=hint)
        given[name] = _convert(value, hints[name], f"[{where}] {name}")
    return kind(**given)


def _convert(value: Any, hint: Any, where: str) -> Any:
    for option in _options(hint):
        fits, made = _as(value, option)
        if fits:
            return made
    raise InvalidSettingError(f"{where} is {value!r}", hint=f"It must be {_describe(hint)}.")


def _options(hint: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _as(value: Any, hint: Any) -> tuple[bool, Any]:
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return value in typing.get_args(hint), value
    if origin is tuple:
        return _as_tuple(value, typing.get_args(hint)[0])
    if origin is not None:  # Mapping[str, Any]
        return isinstance(value, Mapping), value
    if hint is float and type(value) is int:
        return True, float(value)
    return type(value) is hint, value


def _as_tuple(value: Any, hint: Any) -> tuple[bool, Any]:
    items = [value] if type(value) is hint else value
    if not isinstance(items, (list, tuple)):
        return False, value
    pairs = [_as(item, hint) for item in items]
    return all(fits for fits, _ in pairs), tuple(made for _, made in pairs)


def _describe(hint: Any) -> str:
    return " or ".join(_word(option) for option in _options(hint))


def _word(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(str(one) for one in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return "a list of " + _WORDS.get(typing.get_args(hint)[0], "values")
    return _WORDS.get(hint, "a table")


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
