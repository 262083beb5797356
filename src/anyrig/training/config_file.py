"""The TOML file of a training run: `[task]` says what is trained on what, `[train]` says how.

Nothing heavy is imported: torch reads its allocator's variables when it loads, and they are set
after this.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from anyrig.errors import (
    InvalidInputError,
    InvalidOptionError,
    InvalidSettingError,
    Message,
    OptionRef,
)
from anyrig.training.config import RENAMED, TrainConfig, rename_keys
from anyrig.training.distributed.launch import parse_strategy

_TABLES = ("task", "train")
_DEFAULT_OPTIMIZER = "adamw"
_MAX_BYTES = 1 << 20
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class ConfigFile:
    path: Path
    base: Path
    """Where relative paths begin: the file's folder."""
    text: str
    task: Mapping[str, Any]
    train: Mapping[str, Any]

    @property
    def name(self) -> str:
        """A short name for folders."""
        return _UNSAFE.sub("-", self.path.stem).strip("-.") or "run"

    def with_values(self, values: Mapping[str, Any]) -> ConfigFile:
        """Replace values of the file: `{"train.batch": 64}`. Texts are read as TOML values."""
        tables: dict[str, Any] = {"task": _copy(self.task), "train": _copy(self.train)}
        for name, value in values.items():
            _set_value(tables, name, value)
        return replace(self, task=tables["task"], train=rename_keys(tables["train"]))


def read_config(path: Path) -> ConfigFile:
    text = _read_text(path)
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSettingError(
            f"{path} is not valid TOML: {str(error) or type(error).__name__}",
            hint="Correct that line; docs/training.md shows the layout.",
        ) from error
    for name, value in tables.items():
        _check_table_name(name, str(path))
        if not isinstance(value, dict):
            raise InvalidSettingError(
                f"{path}: {name} is {value!r}"[:200], hint=f"Write [{name}] above it."
            )
    if "task" not in tables:
        raise InvalidSettingError(
            f"{path} has no [task]",
            hint='Begin with [task] and kind = "language"; docs/training.md shows the layout.',
        )
    absolute = path.absolute()
    return ConfigFile(
        absolute, absolute.parent, text, tables["task"], rename_keys(tables.get("train", {}))
    )


def build_settings(train: Mapping[str, Any]) -> tuple[TrainConfig, str]:
    """The configuration of a `[train]` table, and the optimizer's name."""
    values = rename_keys(train)
    optimizer = values.pop("optimizer", _DEFAULT_OPTIMIZER)
    if not isinstance(optimizer, str):
        raise InvalidSettingError(
            f"[train] optimizer must be a name, not {optimizer!r}", hint="Such as adamw."
        )
    if optimizer == "lion":
        raise InvalidSettingError(
            "the optimizer lion is no longer built in",
            hint="Use adamw, or adafactor for less memory; in Python pass an optimizer class.",
        )
    if isinstance(values.get("strategy"), str):
        values["strategy"] = parse_strategy(values["strategy"])
    return TrainConfig.from_table(values), optimizer


def check_settings(train: Mapping[str, Any]) -> None:
    """Refuse unknown names and wrong values of `[train]` before a run is started."""
    build_settings(train)


def parse_value(text: str) -> Any:
    """A TOML value, such as a number, a list or true; anything else is text."""
    try:
        return tomllib.loads(f"x = {text.strip()}")["x"]
    except (ValueError, RecursionError, KeyError):
        return text.strip()


def _read_text(path: Path) -> str:
    try:
        if path.is_dir():
            raise InvalidInputError(
                f"{path} is a folder",
                hint=Message(
                    "Name a TOML file; {resume} continues the run of a folder.",
                    resume=OptionRef("resume"),
                ),
            )
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInputError(f"cannot read {path}: {reason}", hint="Check the path.") from error
    if len(data) > _MAX_BYTES:
        raise InvalidInputError(f"{path} is too large for settings", hint="Name a TOML file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidSettingError(
            f"{path} is not UTF-8, as TOML must be (byte {error.start})", hint="Save it as UTF-8."
        ) from error


def _check_table_name(name: str, place: object) -> None:
    if name in _TABLES:
        return
    near = difflib.get_close_matches(name, _TABLES, n=1)
    hint = f"Did you mean [{near[0]}]?" if near else "The tables are [task] and [train]."
    message = Message("{place} has no table [{name}]", place=place, name=name)
    raise InvalidSettingError(message, hint=hint)


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copy(one) for name, one in value.items()}
    return value


def _set_value(tables: dict[str, Any], name: str, value: Any) -> None:
    parts = [part.strip() for part in name.split(".")]
    if len(parts) < 2 or not all(parts):
        raise InvalidOptionError(
            "set", "needs a table and a name", value=name,
            hint=Message("Such as {set}.", set=OptionRef('set', 'train.batch=64')),
        )  # fmt: skip
    _check_table_name(parts[0], OptionRef("set"))
    table = tables
    for part in parts[:-1]:
        below = table.setdefault(part, {})
        if not isinstance(below, dict):
            raise InvalidOptionError("set", f"{name}: {part} is {below!r} and not a table")
        table = below
    last = RENAMED.get(parts[-1], parts[-1]) if parts[:-1] == ["train"] else parts[-1]
    table[last] = parse_value(value) if isinstance(value, str) else value


# -- ready-made runs -------------------------------------------------------------------------------
# They need nothing but a file; their settings suit two cores as well as a GPU.

ReadyName = Literal["language", "classifier"]
READY_NAMES: tuple[ReadyName, ...] = get_args(ReadyName)


@dataclass(frozen=True)
class ReadyRun:
    task: str
    """The `[task]` table of its TOML file, with FILE for the data."""
    train: str
    steps: int
    """By default."""


READY_RUNS: dict[ReadyName, ReadyRun] = {
    "language": ReadyRun(
        'kind = "language"\ntext = "FILE"\ntokenizer = "train"\nvocabulary = 1024\n'
        'model = "tiny"\ncontext = 64\nsample = 200\nvalidation = 0.1\n',
        "batch = 32\nlearning_rate = 3e-3\nweight_decay = 0.1\nvalidate_every = 100\n",
        400,
    ),
    "classifier": ReadyRun(
        'kind = "classifier"\nexamples = "FILE"\nmodel = "minilm"\nvalidation = 0.2\n',
        "batch = 16\nlearning_rate = 3e-4\nwarmup = 0.1\ndrop_last = false\nvalidate_every = 20\n",
        60,
    ),
}


def build_ready_config(name: ReadyName, file: str, steps: int | None = None) -> str:
    """The TOML file of a ready-made run.

    Args:
        name: what is trained.
        file: a text for `language`; examples with texts and labels for `classifier`.
        steps: how many; the default is that of the run.
    """
    ready = READY_RUNS[name]
    task = ready.task.replace("FILE", file)
    return f"[task]\n{task}\n[train]\nsteps = {steps or ready.steps}\n{ready.train}"
