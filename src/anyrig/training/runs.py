"""Training runs: the folder of each, its state and result, and the list of those on this machine.

`run.json` holds everything that a resume needs. Nothing heavy is imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from anyrig.errors import (
    InvalidInputError,
    Message,
    OptionRef,
    OverloadedError,
    StorageError,
    dump_message,
    load_message,
)
from anyrig.jobs.queue import is_dead, make_owner_name
from anyrig.results import in_json, to_json
from anyrig.storage.files import write_atomic
from anyrig.training.config import rename_keys
from anyrig.training.config_file import ConfigFile
from anyrig.version import __version__

RECORD_FILE, RESULT_FILE, STATE_FILE = "run.json", "result.json", "state.json"
CONFIG_FILE, METRICS_FILE = "config.toml", "metrics.jsonl"
_CHECKPOINTS, _SMALLER_BATCH_FILE = "checkpoints", "smaller.json"
# What tasks prepare from their data when a run begins, and keep for a resume.
_PREPARED_FILES = ("tokens-*", "tokenizer-*.json", "pictures-*", "before.json")
_FORMAT = 1
_TAIL_BYTES = 1 << 16
_MAX_SILENCE_S = 900.0
_MAX_LINE_BYTES = 1 << 20
_MAX_MESSAGES = 500
_STEP_FIELDS = (
    "step", "epoch", "loss", "rate", "step_s", "samples_per_s", "units_per_s", "eta_s",
    "elapsed_s", "time_s", "grad_norm", "scale", "mfu", "micro_batch", "precision", "num_skipped",
    "num_retries",
)  # fmt: skip
RunStatus = Literal["running", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Run:
    """What is needed to start a run, or to resume it."""

    folder: Path
    name: str
    config: str
    """The TOML file it was started from."""
    base: Path
    """Where relative paths of the file begin."""
    task: Mapping[str, Any]
    train: Mapping[str, Any]
    flags: Mapping[str, Any]
    """Where it computes, as requested: device, profile, number of processes."""
    created: float

    @property
    def unit(self) -> str:
        """What the loss is averaged over."""
        return "tokens" if self.task.get("kind") == "language" else "samples"


class RunState(NamedTuple):
    status: RunStatus
    step: int = 0
    steps: int | None = None
    """Of the whole run, if known."""
    loss: float | None = None
    since: float = 0.0
    """When it last changed, in seconds since 1970."""
    error: str = ""


class RegisteredRun(NamedTuple):
    """A run that was started on this machine."""

    id: str
    folder: Path
    created: float

    @property
    def state(self) -> RunState:
        return load_state(self.folder)

    @property
    def result(self) -> TrainingResult | None:
        return load_result(self.folder)


@dataclass(frozen=True)
class TrainingResult:
    """What a run led to; saved as `result.json` in its folder."""

    run: str
    """Its folder."""
    task: str | None = None
    finished: bool = False
    """False if it was stopped: it can be resumed."""
    steps: int = 0
    total_steps: int | None = None
    epochs: float = 0.0
    loss: float | None = None
    validation: Mapping[str, float | None] = field(default_factory=dict)
    seconds: float = 0.0
    samples_per_s: float | None = None
    units_per_s: float | None = None
    unit: str = "samples"
    peak_bytes: int | None = None
    precision: str = ""
    micro_batch: int | None = None
    micro_batch_why: str = ""
    num_retries: int = 0
    """How often memory ran out and a step was repeated in smaller parts."""
    num_skipped: int = 0
    """Steps without finite gradients."""
    resumed_from: int | None = None
    checkpoint: str | None = None
    made: Mapping[str, Any] = field(default_factory=dict)
    """What the task wrote, by name: the folder of the model, a sample of its text."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Files that could not be read, and why; the others were trained on."""
    reasons: tuple[str, ...] = ()
    """Why everything was chosen as it was."""
    report: str | None = field(default=None, metadata=in_json(omit_empty=True))
    already: bool = field(default=False, metadata=in_json(omit_empty=True))
    """It was finished before: nothing was trained."""
    exported: str | None = field(default=None, metadata=in_json(omit=True))
    """Where the model was copied, if that was requested."""

    @property
    def model(self) -> Path | None:
        """The folder of the trained model, if the run got that far."""
        path = self.made.get("model")
        return Path(path) if path and Path(path).is_dir() else None

    @property
    def files(self) -> list[str]:
        """The paths among what was made."""
        texts = [*self.made.values(), self.report]
        return [text for text in texts if isinstance(text, str) and is_existing_path(text)]


def is_existing_path(text: str) -> bool:
    """Whether a text is the absolute path of a file; a sample of a model's text may be anything."""
    try:
        return os.path.isabs(text) and os.path.exists(text)
    except ValueError:  # it contains a null
        return False


# -- folders ---------------------------------------------------------------------------------------


def choose_folder(config: ConfigFile, parent: Path) -> Path:
    """`runs/NAME-DATE` in a folder, with a number if that exists."""
    day = time.strftime("%Y-%m-%d-%H%M", time.localtime())
    first = parent / "runs" / f"{config.name}-{day}"
    folders = (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([first], folders) if not one.exists())


def check_folder(folder: Path) -> None:
    """Refuse a folder with other files in it."""
    if _has_files(folder) and not is_run(folder):
        raise InvalidInputError(
            f"{folder} is not empty and is not a training run",
            hint=Message("Choose a new folder with {run}.", run=OptionRef("run")),
        )


def check_new_folder(folder: Path) -> None:
    """Refuse, before any work, to overwrite a file, or a folder that is not empty."""
    if _has_files(folder) or (folder.exists() and not folder.is_dir()):
        raise InvalidInputError(
            f"{folder} already exists", hint="Choose another path, or remove it."
        )


def _has_files(folder: Path) -> bool:
    try:
        return folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {folder}: {error.strerror}", hint="Choose another folder."
        ) from error


def is_run(folder: Path) -> bool:
    return (folder / RECORD_FILE).is_file()


def create_run(
    folder: Path, config: ConfigFile, train: Mapping[str, Any], flags: Mapping[str, Any]
) -> Run:
    """Create a run's folder with its record and a copy of its TOML file."""
    run = Run(
        folder.absolute(), config.name, str(config.path), config.base, to_json(config.task),
        to_json(train), to_json(flags), time.time(),
    )  # fmt: skip
    with _storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / CONFIG_FILE, config.text)
        _write_record(run)
    return run


def update_run(run: Run, train: Mapping[str, Any], flags: Mapping[str, Any]) -> Run:
    """Change the settings of a run and save them."""
    updated = replace(run, train=to_json(train), flags=to_json(flags))
    if updated != run:
        with _storage_errors(run.folder):
            _write_record(updated)
    return updated


def open_run(folder: Path) -> Run:
    try:
        data = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
        return Run(
            folder.absolute(), data["name"], data["config"], Path(data["base"]), data["task"],
            rename_keys(dict(data["train"])), data["flags"], float(data["created"]),
        )  # fmt: skip
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidInputError(
            f"{folder} is not a training run", hint="`anyrig jobs` lists runs and their folders."
        ) from error
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {folder}: {error.strerror}", hint="Check its permissions."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{folder / RECORD_FILE} is not valid: {error!r}",
            hint=Message(
                "Start again from the TOML file with {run} and {fresh}.",
                run=OptionRef("run"),
                fresh=OptionRef("fresh"),
            ),
        ) from error


def clear_run(folder: Path) -> None:
    """Delete a run's progress and the data it prepared; its record is written again later."""
    check_not_running(folder)
    with _storage_errors(folder):
        if (folder / _CHECKPOINTS).is_dir():
            shutil.rmtree(folder / _CHECKPOINTS)
        for name in (RESULT_FILE, STATE_FILE, _SMALLER_BATCH_FILE, METRICS_FILE):
            (folder / name).unlink(missing_ok=True)
        for pattern in _PREPARED_FILES:
            for file in folder.glob(pattern):
                file.unlink()


def delete_if_unstarted(run: Run) -> bool:
    """Delete the folder of a run that failed before its first step; whether that was done."""
    if (run.folder / METRICS_FILE).exists() or any(run.folder.glob(f"{_CHECKPOINTS}/step-*")):
        return False
    shutil.rmtree(run.folder, ignore_errors=True)
    if run.folder.parent.name == "runs":
        with contextlib.suppress(OSError):  # it holds other runs
            run.folder.parent.rmdir()
    return True


def check_not_running(folder: Path) -> None:
    if load_state(folder).status == "running":
        raise OverloadedError(
            f"another process is training in {folder}",
            hint="Wait for it, stop it with Ctrl+C, or choose another folder.",
        )


def has_config_changed(run: Run) -> bool:
    """Whether the TOML file that a run was started from has been edited since."""
    try:
        now = Path(run.config).read_text(encoding="utf-8-sig")
        return now != (run.folder / CONFIG_FILE).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


# -- state and result ------------------------------------------------------------------------------


def write_state(
    folder: Path, status: RunStatus, *, steps: int | None = None, error: str = ""
) -> None:
    """Save the state of a run; `running` is valid as long as this process lives."""
    data = {
        "state": status, "owner": make_owner_name(), "steps": steps, "error": dump_message(error),
        "time": time.time(),
    }  # fmt: skip
    with _storage_errors(folder):
        write_atomic(folder / STATE_FILE, json.dumps(data))


def load_state(folder: Path) -> RunState:
    data = _read_json(folder / STATE_FILE)
    step, loss, written = _read_last_step(folder / METRICS_FILE)
    since = max(_to_number(data.get("time")), written)
    status: RunStatus = data.get("state", "stopped")
    steps = data.get("steps")
    has_ended = status == "running" and _has_ended(str(data.get("owner", "")), since)
    if has_ended or status not in ("running", "finished", "failed"):
        status = "stopped"
    error = load_message(str(data.get("error", "")))
    return RunState(status, step, steps if type(steps) is int else None, loss, since, error)


def _has_ended(owner: str, since: float) -> bool:
    """Whether a process has ended; judged by its silence if the system cannot tell."""
    if owner.partition("/")[0]:
        return is_dead(owner)
    return time.time() - since > _MAX_SILENCE_S


def _read_last_step(path: Path) -> tuple[int, float | None, float]:
    """Step and loss of the last complete line that has them, and when the file was written."""
    try:
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            file.seek(max(0, stat.st_size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).splitlines()
    except OSError:
        return 0, None, 0.0
    for line in reversed(lines):
        if not line.startswith(b'{"kind": "step"'):
            continue
        with contextlib.suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            loss = row.get("loss")
            return int(row["step"]), loss if isinstance(loss, float) else None, stat.st_mtime
    return 0, None, stat.st_mtime


def write_result(folder: Path, result: TrainingResult) -> None:
    with _storage_errors(folder):
        text = json.dumps(to_json(result), indent=2, allow_nan=False)
        write_atomic(folder / RESULT_FILE, text + "\n")


def load_result(folder: Path) -> TrainingResult | None:
    """The result of a run that ended or was stopped."""
    data = _read_json(folder / RESULT_FILE)
    if "finished" not in data:
        return None
    here = str(folder.absolute())
    if data.get("run") != here:  # the folder was moved
        data = _move_paths(data, str(data.get("run")), here)
    known = {one.name for one in fields(TrainingResult)}
    values = {name: value for name, value in data.items() if name in known}
    return TrainingResult(**{**values, "reasons": tuple(values.get("reasons", ()))})


def _move_paths(value: Any, before: str, after: str) -> Any:
    if isinstance(value, dict):
        return {name: _move_paths(one, before, after) for name, one in value.items()}
    if isinstance(value, str) and (
        value == before or value.startswith((f"{before}/", f"{before}\\"))
    ):
        return after + value[len(before) :]
    return value


def export_model(result: TrainingResult, target: Path) -> Path:
    """Copy the trained model into a folder, or its ONNX file to a path."""
    from anyrig.storage.files import open_atomic
    from anyrig.training.export import replace_folder

    if result.model is None:
        raise InvalidInputError(
            "the run has no model to export",
            hint=Message(
                "Finish it first: pass {resume} with its folder.", resume=OptionRef("resume")
            ),
        )
    if target.suffix.lower() != ".onnx":
        check_new_folder(target)
        with replace_folder(target) as folder:
            shutil.copytree(result.model, folder, dirs_exist_ok=True)
        return target
    graph = result.model / "model.onnx"
    if not graph.is_file():
        raise InvalidInputError(
            f"this kind of task writes no ONNX file into {result.model}",
            hint="Name a folder instead: everything that was written is copied into it.",
        )
    with graph.open("rb") as data, open_atomic(target) as file:
        shutil.copyfileobj(data, file)
    return target


# -- metrics ---------------------------------------------------------------------------------------


def load_history(folder: Path, *, after: int = 0, most: int = 2000) -> list[dict[str, Any]]:
    """The metrics of steps, the oldest first, also while the run goes on.

    Args:
        folder: of the run.
        after: only steps after this one.
        most: how many; a longer history is thinned out evenly and keeps its first and last step.
    """
    rows: list[dict[str, Any]] = []
    stride = 1
    num_seen = 0
    last: dict[str, Any] | None = None
    for row in _read_metrics(folder):
        if row.get("kind") != "step" or not _is_int(row.get("step")) or row["step"] <= after:
            continue
        last = _select_step_fields(row)
        if num_seen % stride == 0:
            rows.append(last)
            if len(rows) > max(2, most):  # what is kept stays evenly spaced
                rows, stride = rows[::2], stride * 2
        num_seen += 1
    if last is not None and rows and rows[-1] is not last:
        rows = [*rows[: max(2, most) - 1], last]
    return rows


def load_messages(folder: Path) -> list[dict[str, Any]]:
    """Validations, alerts and events of a run, the oldest first; of many the newest."""
    found = [to_json(row) for row in _read_metrics(folder) if row.get("kind") != "step"]
    return found[-_MAX_MESSAGES:]


def _select_step_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: to_json(row.get(name)) for name in _STEP_FIELDS}
    memory = row.get("memory_peak_bytes") or row.get("memory_allocated_bytes")
    found["memory_bytes"] = memory if _is_int(memory) else None
    return found


def _read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a run's metrics."""
    try:
        with (folder / METRICS_FILE).open("rb") as file:
            while line := file.readline(_MAX_LINE_BYTES):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(row, dict):
                    yield row
    except OSError:
        return


# -- the runs of this machine ----------------------------------------------------------------------


def list_runs(registry: Path) -> list[RegisteredRun]:
    """The runs that were started on this machine and still exist, the oldest first."""
    found = []
    for path in registry.glob("*.json"):
        data = _read_json(path)
        folder = Path(str(data.get("folder", "")))
        if is_run(folder):
            found.append(RegisteredRun(path.stem, folder, _to_number(data.get("created"))))
    return sorted(found, key=lambda one: one.created)


def register_run(registry: Path, run: Run) -> None:
    """Add a run to the list; one that cannot be added is trained all the same."""
    data = {"folder": str(run.folder), "created": run.created}
    with contextlib.suppress(OSError):
        write_atomic(registry / f"{make_run_id(run.folder)}.json", json.dumps(data))


def unregister_run(registry: Path, id: str) -> None:
    """Remove a run from the list; its files stay."""
    (registry / f"{id}.json").unlink(missing_ok=True)


def make_run_id(folder: Path) -> str:
    return "r" + hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:15]


# -- files -----------------------------------------------------------------------------------------


def _write_record(run: Run) -> None:
    data = {"format": _FORMAT, "anyrig": __version__, **to_json(run)}
    write_atomic(run.folder / RECORD_FILE, json.dumps(data, indent=2, ensure_ascii=True) + "\n")


@contextlib.contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot write to {folder}: {error.strerror or error}",
            hint=Message(
                "Choose another folder with {run}, or free some space.", run=OptionRef("run")
            ),
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _to_number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
