"""The TOML file of a training run: what is trained on what (`[task]`), and how (`[train]`).

    config = read(Path("language.toml"))
    config = config.with_values(["train.batch=64", "task.context=256"])

Nothing heavy is loaded: the tables are understood by whoever builds the task and the settings.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training.checks import RENAMED, renamed

if TYPE_CHECKING:
    from anyrig.training.settings import Settings

TABLES = ("task", "train")
OPTIMIZER = "adamw"
_MOST_BYTES = 1 << 20
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class Config:
    """A run as it is asked for."""

    path: Path
    base: Path
    """Where relative paths begin: the file's folder."""
    text: str
    """The file as it stands."""
    task: Mapping[str, Any]
    train: Mapping[str, Any]

    @property
    def name(self) -> str:
        """A short name for folders."""
        return _UNSAFE.sub("-", self.path.stem).strip("-.") or "run"

    def with_values(self, texts: Sequence[str]) -> Config:
        """With values of a command line, such as `train.batch=64`, in place of the file's."""
        tables: dict[str, Any] = {"task": _copied(self.task), "train": _copied(self.train)}
        for text in texts:
            _put(tables, text)
        return replace(self, task=tables["task"], train=renamed(tables["train"]))


def read(path: Path) -> Config:
    """The file's tables; `InvalidSettingError` says what is wrong with it."""
    text = _text(path)
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSettingError(
            f"{path} is no TOML: {str(error) or type(error).__name__}",
            hint="Mend that line; docs/training.md shows the layout.",
        ) from error
    for name, value in found.items():
        _known(name, path)
        if not isinstance(value, dict):
            raise InvalidSettingError(
                f"{path}: {name} is {value!r}"[:200], hint=f"Write [{name}] above it."
            )
    if "task" not in found:
        raise InvalidSettingError(
            f"{path} does not say what to train",
            hint='Begin with [task] and kind = "language"; docs/training.md shows the layout.',
        )
    where = path.absolute()
    return Config(where, where.parent, text, found["task"], renamed(found.get("train", {})))


def settings_of(train: Mapping[str, Any]) -> tuple[Settings, str]:
    """The settings that a `[train]` table describes, and the optimiser's name."""
    from anyrig.training.settings import Settings

    rest = renamed(train)
    optimizer = rest.pop("optimizer", OPTIMIZER)
    if not isinstance(optimizer, str):
        raise InvalidSettingError(
            f"[train] optimizer is {optimizer!r}", hint="Name one, such as adamw."
        )
    if isinstance(rest.get("strategy"), str):
        from anyrig.training.distributed.joining import strategy_named

        rest["strategy"] = strategy_named(rest["strategy"])
    return Settings.of(rest), optimizer


def check(train: Mapping[str, Any]) -> None:
    """Refuse names and values that `[train]` does not have, before anything is begun.

    Torch is not loaded for it: its allocator must be told first how to keep memory. What only
    the whole settings can tell is told by `settings_of`.
    """
    from anyrig.training.checks import KEEPING, LOADING, RULES, hint_for

    tables = {"loading": LOADING, "keeping": KEEPING}
    known = (*RULES, *tables, "scaler", "moving", "optimizer")
    for name, value in renamed(train).items():
        _refuse_unknown(name, known, "train")
        if name in tables and isinstance(value, Mapping):
            for inner, one in value.items():
                _refuse_unknown(inner, tuple(tables[name]), f"train.{name}")
                _refuse_unfit(one, tables[name][inner], f"[train.{name}] {inner}", hint_for)
        elif name in RULES and name != "strategy":
            _refuse_unfit(value, RULES[name], f"[train] {name}", hint_for)
    if train.get("strategy", "auto") not in ("auto", "ddp", "fsdp"):
        from anyrig.training.distributed.joining import strategy_named

        strategy_named(str(train["strategy"]))  # explains DataParallel, refuses all else


def _refuse_unknown(name: str, known: Sequence[str], where: str) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(known)}."
        raise InvalidSettingError(f"[{where}] has no setting {name!r}", hint=hint)


def _refuse_unfit(
    value: Any,
    rule: tuple[Callable[[Any], bool], str],
    where: str,
    hint_for: Callable[[object, str], str],
) -> None:
    fits, must = rule
    if not fits(tuple(value) if isinstance(value, list) else value):
        raise InvalidSettingError(f"{where} is {value!r}"[:300], hint=hint_for(value, must))


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise InvalidInputError(
                f"{path} is a folder",
                hint="Name a TOML file, or go on with a run: anyrig train --resume FOLDER.",
            )
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a null in it is a ValueError
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInputError(
            f"{path} cannot be read: {said}", hint="Name a TOML file that is there."
        ) from error
    if len(data) > _MOST_BYTES:
        raise InvalidInputError(f"{path} is too long for settings", hint="Name a TOML file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidSettingError(
            f"{path} is not UTF-8, as TOML must be (byte {error.start})",
            hint="Save it as UTF-8.",
        ) from error


def _known(name: str, where: object) -> None:
    if name in TABLES:
        return
    near = difflib.get_close_matches(name, TABLES, n=1)
    hint = f"Did you mean [{near[0]}]?" if near else "There are [task] and [train]."
    raise InvalidSettingError(f"{where} has no table [{name}]", hint=hint)


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copied(one) for name, one in value.items()}
    return value


def _put(tables: dict[str, Any], text: str) -> None:
    name, sign, value = text.partition("=")
    parts = [part.strip() for part in name.split(".")]
    if not sign or len(parts) < 2 or not all(parts):
        raise InvalidInputError(
            f"--set {text}", hint="Write a table, a name and a value: --set train.batch=64."
        )
    _known(parts[0], "--set")
    table = tables
    for part in parts[:-1]:
        below = table.setdefault(part, {})
        if not isinstance(below, dict):
            raise InvalidInputError(f"--set {text}", hint=f"{part} is {below!r}, no table.")
        table = below
    last = RENAMED.get(parts[-1], parts[-1]) if parts[:-1] == ["train"] else parts[-1]
    table[last] = value_of(value)


def value_of(text: str) -> Any:
    """A value as TOML has it: numbers, true, lists; all else is a text."""
    try:
        return tomllib.loads(f"x = {text.strip()}")["x"]
    except (ValueError, RecursionError, KeyError):
        return text.strip()
