"""Checkpoints of a run: written by a thread, kept by rules, verified when they are loaded.

    with Checkpointer(run / "checkpoints", config) as checkpointer:
        loaded = checkpointer.load()
        ...
        checkpointer.save(TrainingState(120, weights=..., optimizer=..., random=...))

A checkpoint is a folder of safetensors and JSON, so nothing in it can run when it is opened:

    step-00000120/
        weights.safetensors     parameters and buffers under the plain model's names
        optimiser.safetensors   tensors of the optimizer's state, numbered
        random.safetensors      random states, numbered
        state.json              all other values, and where the numbered tensors belong
        manifest.json           sizes and SHA-256 of the others, and of itself

It is written under a temporary name and renamed when it is on the disk: a process that is killed
leaves a valid checkpoint or a temporary folder, which the next writer removes.

`save` copies the state to host memory and returns; a thread writes it. If the previous one is still
being written, `save` waits for it, so there is never more than one copy in memory, and none where
the caller waits for the file. A checkpoint
that could not be written raises `StorageError` at the next `save`, whose own checkpoint is being
written by then, or at `close`; the earlier checkpoints stay.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import logging
import math
import os
import re
import secrets
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from anyrig.errors import AnyrigError, InvalidInputError, OverloadedError, StorageError
from anyrig.storage.files import lock_file
from anyrig.training.config import CheckpointConfig
from anyrig.units import format_bytes

log = logging.getLogger(__name__)
FORMAT = 1
STATE, MANIFEST = "state.json", "manifest.json"
WEIGHTS, OPTIMIZER, RANDOM = "weights.safetensors", "optimiser.safetensors", "random.safetensors"
TEMPORARY = ".writing-"
_LOCK = ".lock"
_NAME = re.compile(r"step-\d{8,}(-\d+)?")
_SPARE_BYTES = 1 << 20
_REPORTED_WAIT_S = 0.05
_MAX_REPORTS = 100
_HINT = "The earlier checkpoints are unchanged. Free disk space, or keep fewer (checkpoints.last)."
# What files with other content raise; RecursionError is a RuntimeError.
_INVALID = (ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError)


@dataclass(frozen=True)
class TrainingState:
    """A run between two steps: what is needed to continue as if it had never stopped."""

    step: int
    """Steps that are done."""
    epoch: int = 0
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Parameters and buffers, whole, under the plain model's names."""
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    """Nested tensors and plain values."""
    plain: Mapping[str, Any] = field(default_factory=dict)
    """Everything else: precision, schedule, data position, settings; may hold tensors."""
    random: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Random states by rank, as `rng.capture` gives them."""
    loss: float | None = None
    """On the validation data, if that was measured: the best are kept by it."""


class DamagedCheckpointError(StorageError):
    """A checkpoint that is not as it was written."""


@dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint on the disk whose files all have their sizes."""

    path: Path
    step: int
    epoch: int
    loss: float | None
    serial: int
    """The order in which they were written."""
    files: Mapping[str, tuple[int, str]]
    """Size and SHA-256 by name."""


class LoadedCheckpoint(NamedTuple):
    state: TrainingState
    path: Path
    skipped: tuple[str, ...] = ()
    """What is wrong with newer ones."""


@dataclass(frozen=True)
class WriteReport:
    """What became of a checkpoint."""

    step: int
    num_bytes: int
    write_s: float
    waited_s: float
    """How long training waited for the one before."""
    error: BaseException | None = None

    @property
    def text(self) -> str:
        if self.error is not None:
            return f"the checkpoint of step {self.step} could not be written: {self.error}"
        size = format_bytes(self.num_bytes)
        text = f"checkpoint of step {self.step}: {size} in {self.write_s:.1f} s"
        if self.waited_s > _REPORTED_WAIT_S:
            text += f"; training waited {self.waited_s:.1f} s for the one before: save less often"
        return text


class Checkpointer:
    """The checkpoints of one run.

    Args:
        folder: of the checkpoints; created when the first is written.
        config: which are kept.
        lock_wait_s: how long to wait for another process that writes there and may be ending.
    """

    def __init__(
        self,
        folder: Path | str,
        config: CheckpointConfig | None = None,
        *,
        lock_wait_s: float = 10.0,
    ) -> None:
        self.folder = Path(folder)
        self._config = config or CheckpointConfig()
        self._lock_wait_s = lock_wait_s
        self._lock = contextlib.ExitStack()
        self._serial: int | None = None
        """Of the last one; None as long as the folder is not locked."""
        self._ignored_serial = 0
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._reports: deque[WriteReport] = deque(maxlen=_MAX_REPORTS)

    # -- writing -----------------------------------------------------------------------------------

    def acquire(self) -> None:
        """Lock the folder for this process, and remove what a killed one left half written.

        `save` does it by itself; a run does it first, before it trains for nothing.
        """
        if self._serial is not None:
            return
        with _write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        if not self._lock.enter_context(lock_file(self.folder / _LOCK, self._lock_wait_s)):
            self._lock.close()
            raise OverloadedError(
                f"another run writes checkpoints into {self.folder}",
                hint="Wait for it or end it (Trainer.close), or choose another folder.",
            )
        for leftover in self.folder.glob(f"{TEMPORARY}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        valid, _ = list_checkpoints(self.folder)
        self._serial = max([one.serial for one in valid], default=0)

    def start_over(self) -> None:
        """Ignore the existing checkpoints; they are deleted when the first new one is written."""
        valid, _ = list_checkpoints(self.folder)
        self._ignored_serial = max([one.serial for one in valid], default=0)

    def save(self, state: TrainingState, *, wait: bool = False) -> None:
        """Start to write a state; it may be changed as soon as this returns.

        Args:
            state: of the run.
            wait: return when it is on the disk, as with `asynchronous = False`.
        """
        self.acquire()
        began = time.monotonic()
        failure = self._join()
        waited_s = time.monotonic() - began
        wait = wait or not self._config.asynchronous
        content = _StateContent(state, copy=not wait)
        assert self._serial is not None
        self._serial += 1
        # Not a daemon: a program that ends meanwhile waits for it.
        self._thread = threading.Thread(
            target=self._write, args=(content, self._serial, waited_s), name="checkpoint"
        )
        self._thread.start()
        if wait:
            self._thread.join()  # the state itself is written: the caller may change it only then
            failure = failure or self._join()
        if failure is not None:
            raise failure

    def wait(self) -> None:
        """Return when everything is on the disk; raise if it could not be written."""
        failure = self._join()
        if failure is not None:
            raise failure

    def take_reports(self) -> list[WriteReport]:
        """What became of checkpoints since the last call."""
        return [self._reports.popleft() for _ in range(len(self._reports))]

    def close(self) -> None:
        """Wait for the last one and unlock the folder; raise if it could not be written."""
        try:
            self.wait()
        finally:
            if self._thread is None:  # the wait was not interrupted
                self._serial = None
                self._lock.close()

    def _join(self) -> BaseException | None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        return failure

    def _write(self, content: _StateContent, serial: int, waited_s: float) -> None:
        began = time.monotonic()
        try:
            write_checkpoint(self.folder, content, serial)
            self._delete_old()
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            self._failure = error
        took = time.monotonic() - began
        report = WriteReport(content.step, content.num_bytes, took, waited_s, self._failure)
        log.info("%s", report.text)
        self._reports.append(report)

    def _delete_old(self) -> None:
        valid, _ = list_checkpoints(self.folder)
        new = [one for one in valid if one.serial > self._ignored_serial]
        keep = select_checkpoints(new, self._config)
        for one in valid:
            if one.path not in keep:
                _delete(one.path)

    # -- finding -----------------------------------------------------------------------------------

    def all(self) -> list[CheckpointInfo]:
        """The valid ones, in the order they were written."""
        valid, _ = list_checkpoints(self.folder)
        return [one for one in valid if one.serial > self._ignored_serial]

    def latest(self) -> CheckpointInfo | None:
        """The one that was written last."""
        return max(self.all(), key=lambda one: one.serial, default=None)

    def best(self) -> CheckpointInfo | None:
        """The one with the lowest loss on the validation data, if that was measured."""
        return next(iter(_sort_by_loss(self.all())), None)

    def load(self, path: Path | str | None = None) -> LoadedCheckpoint | None:
        """The latest valid checkpoint, or a given one, which must be valid.

        None if there is none at all. If there are some and none is valid, that is an error: nobody
        asked to start over.
        """
        if path is not None:
            path = Path(path)
            return LoadedCheckpoint(read_checkpoint(path), path)
        valid, damaged = list_checkpoints(self.folder)
        skipped = [error.message for error in damaged]
        for one in reversed(valid):
            try:
                return LoadedCheckpoint(read_checkpoint(one.path), one.path, tuple(skipped))
            except DamagedCheckpointError as error:
                log.warning("%s", error.message)
                skipped.append(error.message)
        if skipped:
            raise StorageError(
                f"no checkpoint in {self.folder} is valid: {skipped[-1]}",
                hint="Start over in another folder, or restore the files from a backup.",
            )
        return None

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except AnyrigError:
            if error is None:
                raise
            log.exception("the last checkpoint could not be written")


# -- which are kept --------------------------------------------------------------------------------


def select_checkpoints(valid: Sequence[CheckpointInfo], config: CheckpointConfig) -> set[Path]:
    """Which checkpoints the rules keep; the newest always."""
    # In the order they were written: the later of two with one step wins.
    newest = sorted({one.step: one for one in valid}.values(), key=lambda one: one.serial)
    keep = {one.path for one in newest[-config.last :]}
    if config.every_kept:
        keep |= {one.path for one in newest if one.step % config.every_kept == 0}
    return keep | {one.path for one in _sort_by_loss(newest)[: config.best]}


def _sort_by_loss(valid: Sequence[CheckpointInfo]) -> list[CheckpointInfo]:
    """Those with a loss, lowest first, the later of equals first; nan is no loss."""
    measured = [one for one in valid if one.loss is not None and one.loss == one.loss]
    return sorted(measured, key=lambda one: (one.loss, -one.serial))


def _delete(path: Path) -> None:
    """Rename first: a kill in between leaves a temporary folder, not a damaged checkpoint."""
    aside = path.with_name(f"{TEMPORARY}{path.name}-{secrets.token_hex(4)}")
    try:
        path.rename(aside)
    except OSError as error:
        log.warning("%s cannot be deleted: %s", path, error.strerror or error)
        return
    shutil.rmtree(aside, ignore_errors=True)


# -- the state as files ----------------------------------------------------------------------------


class _StateContent:
    """What the files of a state hold, on the host, once `wait` has returned.

    A GPU's tensors are copied to pinned memory in the order of the device's work, without waiting
    for it: the next step may change them already.

    Args:
        state: of the run.
        copy: whether the caller may change the state while it is written.
    """

    def __init__(self, state: TrainingState, *, copy: bool) -> None:
        self.step, self.epoch, self.loss = state.step, state.epoch, state.loss
        self.files: dict[str, dict[str, torch.Tensor]] = {WEIGHTS: {}, OPTIMIZER: {}, RANDOM: {}}
        self._copy = copy
        self._storages: set[int] = set()
        self._devices: set[torch.device] = set()
        tied = self._add_weights(state.weights)
        self.values = {
            "step": state.step,
            "epoch": state.epoch,
            "loss": state.loss,
            "same": tied,
            "order": list(state.weights),
            "optimiser": self._add_values(OPTIMIZER, state.optimizer, "optimiser"),
            "plain": self._add_values(OPTIMIZER, state.plain, "plain"),
            "random": self._add_values(RANDOM, state.random, "random"),
        }
        self._events = [
            torch.cuda.current_stream(device).record_event()
            for device in self._devices
            if device.type == "cuda"
        ]

    @property
    def num_bytes(self) -> int:
        return sum(one.nbytes for tensors in self.files.values() for one in tensors.values())

    def wait(self) -> None:
        for event in self._events:
            event.synchronize()

    def _add_weights(self, weights: Mapping[str, torch.Tensor]) -> dict[str, str]:
        """Take each tensor once; tied names to the one that it is stored under."""
        tied: dict[str, str] = {}
        names: dict[Any, str] = {}
        for name, tensor in weights.items():
            _check_storable(name, tensor)
            place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
            first = names.setdefault(place, name) if tensor.numel() else name
            if first == name:
                self._add(WEIGHTS, name, tensor)
            else:
                tied[name] = first
        return tied

    def _add_values(self, file: str, values: Mapping[Any, Any], where: str) -> Any:
        def store(tensor: torch.Tensor) -> str:
            name = f"t{len(self.files[file])}"
            _check_storable(f"{where}: {name}", tensor)
            self._add(file, name, tensor)
            return name

        return encode_values(values, store, where)

    def _add(self, file: str, name: str, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage().data_ptr()
        # safetensors wants each tensor in memory of its own, without gaps.
        is_plain = tensor.device.type == "cpu" and tensor.is_contiguous()
        is_plain = is_plain and not (tensor.is_conj() or tensor.is_neg())
        if self._copy or not is_plain or storage in self._storages:
            pinned = tensor.device.type == "cuda"
            copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned)
            copy.copy_(tensor.detach(), non_blocking=pinned)
        else:
            copy = tensor.detach()
            self._storages.add(storage)
        self.files[file][name] = copy
        self._devices.add(tensor.device)


def _check_storable(name: str, tensor: torch.Tensor) -> None:
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    problem = ""
    if name == "__metadata__":
        problem = "has a name that safetensors files use themselves"
    elif tensor.device.type == "meta":
        problem = "has no values (it is on the meta device)"
    elif is_traceable_wrapper_subclass(tensor):
        problem = f"is a {type(tensor).__name__}, perhaps a shard"
    elif tensor.layout is not torch.strided or tensor.is_quantized:
        problem = "is sparse or quantised"
    if problem:
        raise InvalidInputError(
            f"{name} {problem}, which a checkpoint cannot store",
            hint="Pass whole, dense tensors; `group.state_dict` gathers them.",
        )


# -- writing ---------------------------------------------------------------------------------------


def write_checkpoint(folder: Path, content: _StateContent, serial: int) -> Path:
    """Write a state into a folder of its own; the checkpoint with the highest serial is the latest.

    A step that is there already gets a second folder beside it: nothing is replaced.
    """
    content.wait()
    with _write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if content.num_bytes + _SPARE_BYTES > free:
            size = format_bytes(content.num_bytes)
            problem = f"a checkpoint takes {size}; {folder} has {format_bytes(free)} left"
            raise StorageError(problem, hint=_HINT)
        part = folder / f"{TEMPORARY}{content.step:08d}-{secrets.token_hex(4)}"
        part.mkdir()
        try:
            _write_files(part, content, serial)
            path = _find_free_name(folder, content.step)
            os.rename(part, path)
            _sync_folder(folder)
            return path
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


def _write_files(part: Path, content: _StateContent, serial: int) -> None:
    _write_text(part / STATE, json.dumps(content.values, allow_nan=False, indent=1))
    for name, tensors in content.files.items():
        _write_tensors(part / name, tensors)
    manifest = {
        "format": FORMAT,
        "serial": serial,
        "step": content.step,
        "epoch": content.epoch,
        "loss": repr(content.loss) if content.loss is not None else None,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "files": {
            name: {"num_bytes": (part / name).stat().st_size, "sha256": _hash_file(part / name)}
            for name in (*content.files, STATE)
        },
    }
    _write_text(part / MANIFEST, format_manifest(manifest))
    _sync_folder(part)


def format_manifest(manifest: Mapping[str, Any]) -> str:
    """The manifest with a hash of itself."""
    text = json.dumps(manifest, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps({"manifest": manifest, "sha256": digest}, indent=1) + "\n"


def _write_text(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    details: dict[str, Any] = {}
    stored: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES:
            details[name] = {"dtype": _name_dtype(tensor.dtype), "shape": list(tensor.shape)}
            tensor = tensor.reshape(-1).view(torch.uint8)
        stored[name] = tensor
    metadata = {"format": "pt"} | ({_DETAILS: json.dumps(details)} if details else {})
    save_file(stored, path, metadata)
    # safetensors lets only the owner read its files; the others follow the umask.
    path.chmod((path.parent / STATE).stat().st_mode)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _find_free_name(folder: Path, step: int) -> Path:
    for number in range(1, 10_000):
        path = folder / f"step-{step:08d}{f'-{number}' if number > 1 else ''}"
        if not path.exists():
            return path
    raise StorageError(f"step {step} is in {folder} too often", hint="Clear the folder.")


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # which does so by itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network drives cannot
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise StorageError(f"cannot write to {folder}: {reason}", hint=_HINT) from error


# -- reading ---------------------------------------------------------------------------------------


def list_checkpoints(
    folder: Path,
) -> tuple[list[CheckpointInfo], list[DamagedCheckpointError]]:
    """The valid ones in the order they were written, and what is wrong with the others.

    Only manifests and sizes are looked at.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise _explain_read_error(folder, error) from error
    valid, damaged = [], []
    for path in paths:
        try:
            valid.append(inspect_checkpoint(path))
        except DamagedCheckpointError as error:
            damaged.append(error)
    return sorted(valid, key=lambda one: (one.serial, one.step)), damaged


def inspect_checkpoint(path: Path) -> CheckpointInfo:
    """What the manifest says, where all files are there and have their sizes."""
    manifest = _read_manifest(path)
    try:
        if manifest["format"] != FORMAT:
            raise StorageError(
                f"{path} is of format {manifest['format']}, this version reads {FORMAT}",
                hint="Use the version of anyrig that wrote it, or a later one.",
            )
        files = {
            str(name): (int(one["num_bytes"]), str(one["sha256"]))
            for name, one in manifest["files"].items()
        }
        info = CheckpointInfo(
            path, int(manifest["step"]), int(manifest["epoch"]),
            None if manifest["loss"] is None else float(manifest["loss"]),
            int(manifest["serial"]), files,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged_error(path, f"its {MANIFEST} is not valid") from error
    for name in (WEIGHTS, OPTIMIZER, RANDOM, STATE):
        if name not in files:
            raise _damaged_error(path, f"its {MANIFEST} does not name {name}")
        try:
            size = (path / name).stat().st_size
        except FileNotFoundError:
            raise _damaged_error(path, f"{name} is missing") from None
        except OSError as error:
            raise _explain_read_error(path, error) from error
        if size != files[name][0]:
            raise _damaged_error(path, f"{name} has {size} bytes of {files[name][0]}")
    return info


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        text = (path / MANIFEST).read_text(encoding="utf-8")
        manifest = json.loads(text)["manifest"]
        is_intact = text == format_manifest(manifest) and isinstance(manifest, dict)
    except FileNotFoundError as error:
        raise _damaged_error(path, f"it has no {MANIFEST}") from error
    except OSError as error:
        raise _explain_read_error(path, error) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged_error(path, f"its {MANIFEST} cannot be read") from error
    if not is_intact:
        raise _damaged_error(path, f"its {MANIFEST} is damaged")
    return dict(manifest)


def read_checkpoint(path: Path) -> TrainingState:
    """All of a checkpoint; the hash of every file is compared first."""
    info = inspect_checkpoint(path)
    try:
        for name, (_, digest) in info.files.items():
            if _hash_file(path / name) != digest:
                raise _damaged_error(path, f"{name} is damaged")
        values = json.loads((path / STATE).read_bytes())
        weights, numbered, random = (
            _read_tensors(path / name) for name in (WEIGHTS, OPTIMIZER, RANDOM)
        )
        tied = values["same"]
        return TrainingState(
            step=info.step,
            epoch=info.epoch,
            weights={name: weights[tied.get(name, name)] for name in values["order"]},
            optimizer=decode_values(values["optimiser"], numbered),
            plain=decode_values(values["plain"], numbered),
            random=decode_values(values["random"], random),
            loss=info.loss,
        )
    except OSError as error:
        raise _explain_read_error(path, error) from error
    except _INVALID as error:
        raise _damaged_error(path, f"it is not valid ({error})") from error


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """In memory of their own, not mapped: a file that is cut off later cannot end the run."""
    with safe_open(path, framework="pt") as file:
        details = json.loads((file.metadata() or {}).get(_DETAILS, "{}"))
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    for name, detail in details.items():
        if "dtype" in detail:
            data = tensors[name].view(_find_dtype(detail["dtype"]))
            tensors[name] = data.reshape(detail["shape"])
    return tensors


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged_error(path: Path, problem: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(
        f"the checkpoint {path} is damaged: {problem}",
        hint="Use an older one; `anyrig train --resume RUN` does so by itself.",
    )


def _explain_read_error(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path} cannot be read: {error.strerror or error}",
        hint="Check its permissions and the disk.",
    )


# -- values as JSON --------------------------------------------------------------------------------
# Dictionaries keep their order and the types of their keys, tuples stay tuples, floats keep all
# bits, and tensors are stored elsewhere: an object with a single key that begins with $ is none of
# these.

_DETAILS = "anyrig"
"""The key in a file's metadata of what safetensors cannot express."""
_DTYPES = frozenset({
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64,
    torch.uint32, torch.uint16, torch.uint8, torch.bool,
})  # fmt: skip
"""What every version of safetensors stores; others are stored as bytes."""


def encode_values(value: Any, store: Callable[[torch.Tensor], str], where: str = "") -> Any:
    """Nested values as JSON; `store` takes each tensor and returns a name for it."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, torch.Tensor):
        return {"$tensor": store(value)}
    if isinstance(value, Mapping):
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: encode_values(one, store, f"{where}.{key}") for key, one in value.items()}
        pairs = [
            [encode_values(key, store, where), encode_values(one, store, f"{where}.{key}")]
            for key, one in value.items()
        ]
        return {"$pairs": pairs}
    for tag, kind in _SEQUENCES.items():
        if isinstance(value, kind):
            items = [encode_values(one, store, f"{where}[{n}]") for n, one in enumerate(value)]
            return items if kind is list else {tag: items}
    return _encode_scalar(value, where)


def _encode_scalar(value: Any, where: str) -> Any:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):  # numpy's float too
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, complex):
        return {"$complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, torch.dtype):
        return {"$dtype": _name_dtype(value)}
    if isinstance(value, torch.device):
        return {"$device": str(value)}
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        plain = value.item()
        return plain if isinstance(plain, (bool, str)) else _encode_scalar(plain, where)
    raise InvalidInputError(
        f"{where.strip('.') or 'a value'} is a {type(value).__name__}, which a checkpoint cannot "
        "store",
        hint="Use numbers, texts, tensors, and lists, tuples and dictionaries of them.",
    )


def decode_values(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """The inverse of `encode_values`; anything else raises ValueError or KeyError."""
    if isinstance(value, list):
        return [decode_values(one, tensors) for one in value]
    if not isinstance(value, dict):
        return value
    content: Any
    tag, content = next(iter(value.items())) if len(value) == 1 else ("", None)
    if not tag.startswith("$"):
        return {key: decode_values(one, tensors) for key, one in value.items()}
    if tag == "$tensor":
        return tensors[content]
    if tag == "$pairs":
        return {decode_values(key, tensors): decode_values(one, tensors) for key, one in content}
    if tag in _SEQUENCES:
        return _SEQUENCES[tag]([decode_values(one, tensors) for one in content])
    if tag in _SCALARS:
        return _SCALARS[tag](content)
    raise ValueError(f"unknown tag {tag}")


def _name_dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _find_dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name} is not a supported dtype")
    return dtype


# A torch.Size is a tuple as well: the first that fits counts.
_SEQUENCES: dict[str, Any] = {
    "$list": list, "$size": torch.Size, "$tuple": tuple, "$set": set, "$frozenset": frozenset,
}  # fmt: skip
_SCALARS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$bytes": bytes.fromhex,
    "$complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "$dtype": _find_dtype,
    "$device": torch.device,
}
