"""Folders of training runs: what lies in one, how it stands, and where runs were made.

    run = begin(folder, config, train, flags)
    state_of(run.folder)          # running, finished, stopped or failed; step and loss

`run.json` holds all that a resume needs. Nothing heavy is loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from anyrig.errors import InvalidInputError, OverloadedError, StorageError
from anyrig.jobs.queue import is_dead, make_owner_name
from anyrig.services.train_config import Config
from anyrig.storage.files import write_atomic
from anyrig.training.checks import renamed
from anyrig.version import __version__

RECORD, RESULT, STATE, COPY = "run.json", "result.json", "state.json", "config.toml"
_LINES, _CHECKPOINTS, _SMALLER = "metrics.jsonl", "checkpoints", "smaller.json"
_FORMAT = 1
_TAIL = 1 << 16
_SILENT_S = 900.0
Word = Literal["running", "finished", "stopped", "failed"]
# What tasks make of their data when a run begins, and keep for a resume.
_PREPARED = ("tokens-*", "tokenizer-*.json", "pictures-*", "before.json")


@dataclass(frozen=True)
class Run:
    """All that is needed to begin a run, or to go on with it."""

    folder: Path
    name: str
    config: str
    """The file it came from."""
    base: Path
    task: Mapping[str, Any]
    train: Mapping[str, Any]
    flags: Mapping[str, Any]
    """Where it computes, as it was asked for: device, profile, number of processes."""
    created: float


class State(NamedTuple):
    """How a run stands."""

    word: Word
    step: int = 0
    steps: int | None = None
    loss: float | None = None
    since: float = 0.0
    error: str = ""


def default_folder(config: Config, where: Path, now: float | None = None) -> Path:
    """`runs/NAME-DATE` below a folder, with a number behind it where that is taken."""
    day = time.strftime("%Y-%m-%d-%H%M", time.localtime(now))
    first = where / "runs" / f"{config.name}-{day}"
    found, number = first, 1
    while found.exists():
        number += 1
        found = first.with_name(f"{first.name}-{number}")
    return found


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder in which other things lie: a run would be lost among them."""
    try:
        filled = folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise InvalidInputError(
            f"{folder} cannot be read: {error.strerror}", hint="Name another."
        ) from error
    if filled and not is_run(folder):
        raise InvalidInputError(
            f"{folder} holds other things and no run", hint="Name a new folder with --folder."
        )


def refuse_export(target: Path) -> None:
    """Refuse, before any work, to put a model over something else."""
    if target.suffix.lower() != ".onnx" and target.exists():
        if target.is_dir() and not any(target.iterdir()):
            return
        raise InvalidInputError(
            f"{target} exists already", hint="Name another, or remove this one."
        )


def begin(folder: Path, config: Config, train: Mapping[str, Any], flags: Mapping[str, Any]) -> Run:
    """Make a run's folder and write down what it is."""
    run = Run(
        folder.absolute(), config.name, str(config.path), config.base, plain(config.task),
        plain(train), plain(flags), time.time(),
    )  # fmt: skip
    with _refusals(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / COPY, config.text)
        _write(run)
    return run


def changed(run: Run, train: Mapping[str, Any], flags: Mapping[str, Any]) -> Run:
    """The run with other settings, written down."""
    after = Run(**{**_fields(run), "train": plain(train), "flags": plain(flags)})
    if after != run:
        with _refusals(run.folder):
            _write(after)
    return after


def opened(folder: Path) -> Run:
    """A run by its folder."""
    try:
        told = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return Run(
            folder.absolute(), told["name"], told["config"], Path(told["base"]), told["task"],
            renamed(dict(told["train"])), told["flags"], float(told["created"]),
        )  # fmt: skip
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidInputError(
            f"{folder} holds no run", hint="`anyrig jobs` lists runs; name the folder of one."
        ) from error
    except OSError as error:
        raise InvalidInputError(
            f"{folder} cannot be read: {error.strerror}", hint="Look at its permissions."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{folder / RECORD} cannot be understood: {error!r}",
            hint="Name the configuration again, with --folder, and --fresh to begin anew.",
        ) from error


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / RECORD).is_file()


def clear(folder: Path) -> None:
    """Forget how far a run was, and the data it began with; its record is written anew later."""
    refuse_running(folder)
    with _refusals(folder):
        if (folder / _CHECKPOINTS).is_dir():
            shutil.rmtree(folder / _CHECKPOINTS)
        for name in (RESULT, STATE, _SMALLER, _LINES):
            (folder / name).unlink(missing_ok=True)
        for pattern in _PREPARED:
            for file in folder.glob(pattern):
                file.unlink()


def drop_empty(run: Run) -> bool:
    """Take away the folder of a run that failed before its first step; whether that was done."""
    if (run.folder / _LINES).exists() or any(run.folder.glob(f"{_CHECKPOINTS}/step-*")):
        return False
    shutil.rmtree(run.folder, ignore_errors=True)
    if run.folder.parent.name == "runs":
        with contextlib.suppress(OSError):
            run.folder.parent.rmdir()  # where it holds nothing else
    return True


def refuse_running(folder: Path) -> None:
    """`OverloadedError` while another process trains there."""
    if state_of(folder).word == "running":
        raise OverloadedError(
            f"another process trains in {folder}",
            hint="Wait for it or end it with Ctrl-C, or name another folder.",
        )


# -- how it stands ---------------------------------------------------------------------------------


def mark(folder: Path, word: Word, *, steps: int | None = None, error: str = "") -> None:
    """Write down how a run stands; it runs for as long as this process lives."""
    told = {
        "state": word,
        "owner": make_owner_name(),
        "steps": steps,
        "error": error,
        "time": time.time(),
    }
    with _refusals(folder):
        write_atomic(folder / STATE, json.dumps(told))


def keep_result(folder: Path, result: Mapping[str, Any]) -> None:
    """Write down what a run came to."""
    with _refusals(folder):
        write_atomic(folder / RESULT, json.dumps(plain(result), indent=2, allow_nan=False) + "\n")


def result_of(folder: Path) -> dict[str, Any] | None:
    """What a run came to, where it has ended well or was stopped."""
    found = _json(folder / RESULT)
    if "finished" not in found:
        return None
    there = str(folder.absolute())
    if found.get("run") != there:  # the folder was moved, and all in it
        found = _moved(found, str(found.get("run")), there)
    return found


def _moved(value: Any, before: str, after: str) -> Any:
    if isinstance(value, dict):
        return {name: _moved(one, before, after) for name, one in value.items()}
    if isinstance(value, str) and (
        value == before or value.startswith((f"{before}/", f"{before}\\"))
    ):
        return after + value[len(before) :]
    return value


def state_of(folder: Path) -> State:
    """How a run stands now."""
    told = _json(folder / STATE)
    step, loss, heard = _last(folder / _LINES)
    since = max(_number(told.get("time")), heard)
    word: Word = "stopped"
    if told.get("state") in ("running", "finished", "failed"):
        word = told["state"]
    if word == "running" and _gone(str(told.get("owner", "")), since):
        word = "stopped"
    steps = told.get("steps")
    return State(
        word, step, steps if type(steps) is int else None, loss, since, str(told.get("error", ""))
    )


def _gone(holder: str, heard: float) -> bool:
    """Whether that process has ended; by its silence where the system does not tell."""
    if holder.partition("/")[0]:
        return is_dead(holder)
    return time.time() - heard > _SILENT_S


def _last(path: Path) -> tuple[int, float | None, float]:
    """Step and loss of the last line that has them, and when it was written."""
    try:
        with path.open("rb") as file:
            heard = os.fstat(file.fileno()).st_mtime
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read(_TAIL).splitlines()
    except OSError:
        return 0, None, 0.0
    for line in reversed(lines):
        if not line.startswith(b'{"kind": "step"'):
            continue
        with contextlib.suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            loss = row.get("loss")
            return int(row["step"]), loss if isinstance(loss, float) else None, heard
    return 0, None, heard


# -- where runs were made --------------------------------------------------------------------------


class Listed(NamedTuple):
    """A run that began on this machine."""

    id: str
    folder: Path
    created: float


def register(registry: Path, run: Run) -> None:
    """Remember where a run lies; one that cannot be remembered is trained all the same."""
    told = {"folder": str(run.folder), "created": run.created}
    with contextlib.suppress(OSError):
        write_atomic(registry / f"{id_of(run.folder)}.json", json.dumps(told))


def registered(registry: Path) -> list[Listed]:
    """The runs that are still there, the oldest first."""
    found = []
    for path in registry.glob("*.json"):
        told = _json(path)
        folder = Path(str(told.get("folder", "")))
        if is_run(folder):
            found.append(Listed(path.stem, folder, _number(told.get("created"))))
    return sorted(found, key=lambda one: one.created)


def forget(registry: Path, id: str) -> None:
    """Leave a run out of the list; its files stay."""
    (registry / f"{id}.json").unlink(missing_ok=True)


def id_of(folder: Path) -> str:
    """A short name for a run, by its folder."""
    return "r" + hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:15]


# -- files -----------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """As JSON has it: no tuples, no dates, no numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def _write(run: Run) -> None:
    told = {"format": _FORMAT, "anyrig": __version__, **_fields(run)}
    told |= {"folder": str(run.folder), "base": str(run.base)}
    write_atomic(run.folder / RECORD, json.dumps(told, indent=2, ensure_ascii=True) + "\n")


def _fields(run: Run) -> dict[str, Any]:
    return asdict(run)


@contextlib.contextmanager
def _refusals(folder: Path) -> Any:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be written: {error.strerror or error}",
            hint="Name another with --folder, or make room there.",
        ) from error


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
