"""A checkpoint's folder: written under another name, put on the disk, then renamed.

    step-00000120/
        weights.safetensors     parameters and buffers, readable by anything that reads safetensors
        optimiser.safetensors   tensors of the optimiser's state, numbered
        random.safetensors      random states
        state.json              everything that is no tensor, and where the numbered ones belong
        manifest.json           sizes and hashes of the others, and its own

A kill at any moment leaves a folder that is whole, or one under a temporary name, which the next
writer removes. A step that is there already gets a second folder beside it: nothing is replaced.
"""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from anyrig.errors import StorageError
from anyrig.training.checkpoint import tensors
from anyrig.training.checkpoint.stage import Event, Gathered, Staging
from anyrig.training.checkpoint.state import Saved
from anyrig.units import format_bytes

FORMAT = 1
STATE, MANIFEST = "state.json", "manifest.json"
WEIGHTS, OPTIMISER, RANDOM = "weights.safetensors", "optimiser.safetensors", "random.safetensors"
TEMPORARY = ".writing-"
_SPARE_BYTES = 1 << 20


class Packed(NamedTuple):
    """A state that nobody can change any more: copies, once `ready` has been waited for."""

    step: int
    epoch: int
    loss: float | None
    state: dict[str, Any]
    files: dict[str, dict[str, torch.Tensor]]
    ready: Event

    @property
    def num_bytes(self) -> int:
        """Of all tensors."""
        return sum(t.nbytes for held in self.files.values() for t in held.values())


def pack(saved: Saved, staging: Staging) -> Packed:
    """Copy a state; what cannot be kept is refused here, before anything is written."""
    weights, optimiser, random = (Gathered(staging) for _ in range(3))
    for name, tensor in saved.weights.items():
        weights.add(name, tensor)
    state = {
        "step": saved.step,
        "epoch": saved.epoch,
        "loss": saved.loss,
        "same": weights.same,
        "order": list(saved.weights),
        "optimiser": optimiser.nest(dict(saved.optimizer), "optimiser"),
        "plain": optimiser.nest(dict(saved.plain), "plain"),
        "random": random.nest(dict(saved.random), "random"),
    }
    files = {WEIGHTS: weights, OPTIMISER: optimiser, RANDOM: random}
    devices = {device for one in files.values() for device in one.devices}
    held = {name: one.tensors for name, one in files.items()}
    return Packed(saved.step, saved.epoch, saved.loss, state, held, Event(devices))


def write(folder: Path, packed: Packed, serial: int = 1) -> Path:
    """Put a state into a folder of its own; its path.

    Args:
        folder: of all checkpoints of a run.
        packed: what to write.
        serial: higher than that of every other checkpoint in the folder: the highest is the latest.
    """
    packed.ready.wait()
    with refusals(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _room(folder, packed.num_bytes)
        place = folder / f"{TEMPORARY}{packed.step:08d}-{secrets.token_hex(4)}"
        place.mkdir()
        try:
            _fill(place, packed, serial)
            return _named(folder, place, packed.step)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise


def _fill(place: Path, packed: Packed, serial: int) -> None:
    wrote = {name: tensors.write(place / name, held) for name, held in packed.files.items()}
    text = json.dumps(packed.state, allow_nan=False, indent=1)
    wrote[STATE] = tensors.write_bytes(place / STATE, text.encode())
    manifest = {
        "format": FORMAT,
        "serial": serial,
        "step": packed.step,
        "epoch": packed.epoch,
        "loss": repr(packed.loss) if packed.loss is not None else None,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "files": {name: one._asdict() for name, one in wrote.items()},
    }
    tensors.write_bytes(place / MANIFEST, sealed(manifest).encode())
    sync_folder(place)


def _named(folder: Path, place: Path, step: int) -> Path:
    for number in range(1, 10_000):
        path = folder / f"step-{step:08d}{f'-{number}' if number > 1 else ''}"
        if path.exists():
            continue
        os.rename(place, path)
        sync_folder(folder)
        return path
    raise StorageError(f"step {step} is in {folder} too often", hint="Clear the folder.")


def sealed(manifest: dict[str, Any]) -> str:
    """The manifest with a hash of itself."""
    text = json.dumps(manifest, sort_keys=True)
    whole = {"manifest": manifest, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return json.dumps(whole, indent=1) + "\n"


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk; Windows does that by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a drive that cannot, such as some network ones
            raise
    finally:
        os.close(descriptor)


def _room(folder: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if num_bytes + _SPARE_BYTES > free:
        raise StorageError(
            f"a checkpoint takes {format_bytes(num_bytes)}; {folder} has {format_bytes(free)} left",
            hint=_ROOM,
        )


_ROOM = "Free disk space, or keep fewer (checkpoints.last). The earlier checkpoints are untouched."
_SAID = {
    errno.ENOSPC: ("no space left in {folder}", _ROOM),
    errno.EFBIG: ("{folder} does not support files of this size", _ROOM),
    errno.EROFS: ("{folder} is not writable", "Use a folder with write permission."),
    errno.EIO: (
        "the disk failed to write in {folder}",
        "Check the disk's health. The earlier checkpoints are untouched.",
    ),
}
_SAID[getattr(errno, "EDQUOT", errno.ENOSPC)] = _SAID[errno.ENOSPC]
for _alike in (errno.EACCES, errno.EPERM):
    _SAID[_alike] = _SAID[errno.EROFS]


@contextmanager
def refusals(folder: Path) -> Iterator[None]:
    """The system's errors as ours."""
    try:
        yield
    except OSError as error:
        text, hint = _SAID.get(
            error.errno or 0,
            (f"{{folder}}: {error.strerror or error}", "The earlier checkpoints are untouched."),
        )
        raise StorageError(text.replace("{folder}", str(folder)), hint=hint) from error
