"""Checkpoints on the disk: which there are, whether one is whole, and what it holds.

Looking costs a small file for each (sizes are compared). Loading compares hashes of every byte, so
that a file that was cut short or has rotted is noticed before anything is put into a model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from anyrig.errors import StorageError
from anyrig.training.checkpoint import nest, tensors
from anyrig.training.checkpoint.state import Saved
from anyrig.training.checkpoint.write import (
    FORMAT,
    MANIFEST,
    OPTIMISER,
    RANDOM,
    STATE,
    WEIGHTS,
    sealed,
)

# What reading something else than was written raises; RecursionError is a RuntimeError.
_NONSENSE = (ValueError, KeyError, TypeError, AttributeError, RuntimeError)
_NAME = re.compile(r"step-\d{8,}(-\d+)?")


class Damaged(StorageError):
    """A checkpoint that is not as it was written."""


@dataclass(frozen=True)
class Kept:
    """A checkpoint on the disk, all its files there at their sizes."""

    path: Path
    step: int
    epoch: int
    loss: float | None
    serial: int
    """The order in which they were written."""
    written: str
    num_bytes: int
    files: Mapping[str, tuple[int, str]]
    """Size and SHA-256 by name."""


class Found(NamedTuple):
    """A checkpoint that was loaded, and those that should have been and could not."""

    saved: Saved
    path: Path
    passed_over: tuple[str, ...] = ()


def look(path: Path) -> Kept:
    """What a checkpoint's manifest says; `Damaged` where it or a file is not as written."""
    told = _manifest(path)
    try:
        if told["format"] != FORMAT:
            raise StorageError(
                f"{path} is of format {told['format']}, this version reads {FORMAT}",
                hint="Use the version of anyrig that wrote it, or a later one.",
            )
        files = {str(n): (int(f["num_bytes"]), str(f["sha256"])) for n, f in told["files"].items()}
        loss = None if told["loss"] is None else float(told["loss"])
        kept = Kept(
            path, int(told["step"]), int(told["epoch"]), loss, int(told["serial"]),
            str(told["written"]), sum(size for size, _ in files.values()), files,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"its {MANIFEST} is not valid") from error
    for name in (WEIGHTS, OPTIMISER, RANDOM, STATE):
        if name not in files:
            raise _damaged(path, f"its {MANIFEST} does not name {name}")
    for name, (size, _) in files.items():
        _right_size(path, name, size)
    return kept


def _manifest(path: Path) -> dict[str, Any]:
    try:
        text = (path / MANIFEST).read_text(encoding="utf-8")
        told = json.loads(text)["manifest"]
        right = text == sealed(told)
    except FileNotFoundError as error:
        raise _damaged(path, f"it has no {MANIFEST}") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, f"its {MANIFEST} cannot be read") from error
    if not right or not isinstance(told, dict):
        raise _damaged(path, f"its {MANIFEST} is damaged")
    return told


def _right_size(path: Path, name: str, size: int) -> None:
    try:
        there = (path / name).stat().st_size
    except FileNotFoundError:
        raise _damaged(path, f"{name} is missing") from None
    except OSError as error:
        raise _unreadable(path, error) from error
    if there != size:
        raise _damaged(path, f"{name} has {there} bytes of {size}")


def _damaged(path: Path, why: str) -> Damaged:
    return Damaged(
        f"the checkpoint {path} is damaged: {why}",
        hint="Take an older one; `anyrig train --resume RUN` does so by itself.",
    )


def _unreadable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path} cannot be read: {error.strerror or error}",
        hint="Check its permissions and the disk.",
    )


def listed(folder: Path) -> tuple[list[Kept], list[Damaged]]:
    """The whole ones in the order they were written, and what is wrong with the others."""
    whole, damaged = [], []
    try:
        names = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise _unreadable(folder, error) from error
    for path in names:
        try:
            whole.append(look(path))
        except Damaged as error:
            damaged.append(error)
    return sorted(whole, key=lambda kept: (kept.serial, kept.step)), damaged


def read(path: Path, device: torch.device | str = "cpu") -> Saved:
    """All of a checkpoint, its hashes compared.

    Args:
        path: its folder.
        device: where weights and the optimiser's tensors go; random states stay on the host.
    """
    kept = look(path)
    state = _state(kept)
    held, numbered = (
        {n: tensor.to(device) for n, tensor in _tensors(kept, name).items()}
        for name in (WEIGHTS, OPTIMISER)
    )
    try:
        same = state["same"]
        return Saved(
            step=kept.step,
            epoch=kept.epoch,
            weights={name: held[same.get(name, name)] for name in state["order"]},
            optimizer=nest.decode(state["optimiser"], numbered),
            plain=nest.decode(state["plain"], numbered),
            random=nest.decode(state["random"], _tensors(kept, RANDOM)),
            loss=kept.loss,
        )
    except _NONSENSE as error:
        raise _damaged(path, f"{STATE} is not valid ({error})") from error


def _state(kept: Kept) -> dict[str, Any]:
    try:
        text = (kept.path / STATE).read_bytes()
        found = json.loads(text)
    except OSError as error:
        raise _unreadable(kept.path, error) from error
    except _NONSENSE as error:
        raise _damaged(kept.path, f"{STATE} is damaged") from error
    _same(kept, STATE, hashlib.sha256(text).hexdigest())
    return dict(found)


def _tensors(kept: Kept, name: str) -> dict[str, torch.Tensor]:
    try:
        found, digest = tensors.read(kept.path / name)
    except OSError as error:
        raise _unreadable(kept.path, error) from error
    except _NONSENSE as error:
        raise _damaged(kept.path, f"{name} is damaged ({error})") from error
    _same(kept, name, digest)
    return found


def _same(kept: Kept, name: str, digest: str) -> None:
    if digest != kept.files[name][1]:
        raise _damaged(kept.path, f"{name} is damaged")
