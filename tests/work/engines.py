"""Engines for tests of workers."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.work.engine import BaseEngine
from anyrig.work.fake import FakeEngine

if TYPE_CHECKING:
    from anyrig.placement import Placement

HELD_S = 1.0


class ReportsAttention(BaseEngine):
    """Each result is the names of the attention backends of torch that were on at load."""

    name = "reports-attention"
    version = "1"
    max_items = 1

    def __init__(self, placement: Placement) -> None:
        import torch

        switches: Any = torch.backends.cuda
        self._on = [
            name for name in ("flash", "mem_efficient", "cudnn", "math")
            if getattr(switches, f"{name}_sdp_enabled")()
        ]  # fmt: skip

    def run(self, batch: Sequence[Any]) -> list[Any]:
        return [self._on for _ in batch]


class Waits(BaseEngine):
    """Each item is a file to wait for: a long call that releases the interpreter's lock."""

    name = "waits"
    version = "1"
    pads = False
    max_items = 1

    def __init__(self, placement: Placement, *, started: str, models_error: bool = False) -> None:
        self._started = Path(started)
        self._models_error = models_error

    def loaded_models(self) -> tuple[str, ...]:
        if self._models_error and self._started.exists():
            raise KeyError("a model was closed meanwhile")
        return ("waits",)

    def run(self, batch: Sequence[str]) -> list[str]:
        self._started.touch()
        while not Path(batch[0]).exists():
            time.sleep(0.01)
        return list(batch)


class Gated(FakeEngine):
    """An item of `HELD_S` takes until a file is there."""

    def __init__(self, placement: Placement, *, gate: str, **options: Any) -> None:
        super().__init__(placement, **options)
        self._gate = Path(gate)

    def run(self, batch: Sequence[float]) -> list[float]:
        while HELD_S in batch and not self._gate.exists():
            time.sleep(0.01)
        super().run([item for item in batch if item != HELD_S])
        return [2 * item for item in batch]


class HoldsLock(Waits):
    """Each item is a pipe to wait for, in a call that keeps the interpreter's lock."""

    name = "holds-lock"

    def run(self, batch: Sequence[str]) -> list[str]:
        self._started.touch()
        pipe = os.open(batch[0], os.O_RDWR)
        ctypes.PyDLL(None).read(pipe, ctypes.create_string_buffer(1), 1)
        return list(batch)


class Unpicklable:
    """Can be pickled, but not unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_refuse, ())


def _refuse() -> None:
    raise LookupError("not here")


class HalfUnpicklable(BaseEngine):
    """Every second result cannot be unpickled."""

    name, pads, batch_invariant, max_items = "half", False, True, 8

    def run(self, batch: Sequence[int]) -> list[Any]:
        return [Unpicklable() if number % 2 else number for number in batch]


class NotAnEngine:
    name, version = "incomplete", "1"

    def __init__(self, placement: Placement) -> None:
        pass


class OutOfMemoryAtLoad(BaseEngine):
    def __init__(self, placement: Placement) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB.")


class HostOutOfMemoryAtLoad(BaseEngine):
    def __init__(self, placement: Placement) -> None:
        raise MemoryError


class Echo(BaseEngine):
    """Each result is its item."""

    name = "echo"
    version = "1"
    pads = False

    def __init__(self, placement: Placement) -> None:
        pass

    def run(self, batch: Sequence[Any]) -> list[Any]:
        return list(batch)


class Meets(BaseEngine):
    """Each item is how many must be computed at the same time for it to end; 0 is an error, and a
    negative number ends the process."""

    name = "meets"
    version = "1"
    concurrent_items = 3

    def __init__(self, placement: Placement) -> None:
        self._num_present = self._num_met = 0
        self._changed = threading.Condition()

    def run(self, batch: Sequence[int]) -> list[int]:
        (wanted,) = batch
        if wanted < 0:
            os._exit(3)
        if not wanted:
            raise ValueError("nobody to meet")
        with self._changed:
            self._num_present += 1
            self._num_met = max(self._num_met, self._num_present)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._num_met >= wanted)
            self._num_present -= 1
        return [wanted]
