"""Recover from out-of-memory: run a step so that nothing of it stays alive when it fails.

A traceback holds every frame of the step that failed, and each frame its tensors. While it lives, a
framework cannot free them: emptying its cache inside `except`, as is often done, frees only what
was unused anyway. So the frames are cleared first, then garbage is collected, then the cache is
emptied.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from anyrig.memory.oom import MemoryShortage, detect_oom

log = logging.getLogger(__name__)
T = TypeVar("T")


class ReleasableDevice(Protocol):
    """What recovery needs of a device; `anyrig.backends.DeviceHandle` is one."""

    def synchronize(self) -> None: ...

    def release(self) -> None:
        """Free what the framework caches and no tensor uses."""


@dataclass(frozen=True)
class RecoveryOutcome(Generic[T]):
    """The result of a step, or the shortage it ended in."""

    result: T | None = None
    shortage: MemoryShortage | None = None

    @property
    def succeeded(self) -> bool:
        return self.shortage is None


def run_with_recovery(
    step: Callable[[], T], device: ReleasableDevice | None = None
) -> RecoveryOutcome[T]:
    """Run a step; if it runs out of memory, free everything it held and return the shortage.

    Other errors than out-of-memory are raised unchanged. The device is synchronised and its cache
    emptied after a shortage.
    """
    try:
        return RecoveryOutcome(step())
    except Exception as error:
        shortage = detect_oom(error)
        if shortage is None:
            raise
        failed = error
    # Outside the block, where the interpreter no longer holds the error as the one being handled.
    clear_frames(failed)
    del failed
    if device is None:
        gc.collect()
    elif not release_memory(device):
        shortage = replace(shortage, fatal=True)
    return RecoveryOutcome(shortage=shortage)


def clear_frames(error: BaseException) -> None:
    """Drop what the frames of an error and of its causes, contexts and group members hold.

    Frames that still run keep their variables, and so does an error that is being handled further
    out.
    """
    handled = sys.exception()
    seen = set() if handled is None or handled is error else {id(handled)}
    pending: list[BaseException | None] = [error]
    while pending:
        link = pending.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        traceback.clear_frames(link.__traceback__)
        link.__traceback__ = None
        pending += (link.__cause__, link.__context__)
        if isinstance(link, BaseExceptionGroup):
            pending += link.exceptions


def release_memory(device: ReleasableDevice) -> bool:
    """Collect garbage and free the device's cache; False if the device does not respond any more.

    Call it outside `except`, after `clear_frames`.
    """
    gc.collect()
    # Work that was queued when the step failed still uses its inputs. Its own failure may be
    # reported now, once; a failure that is reported twice is permanent.
    responds = _synchronize(device) or _synchronize(device)
    with contextlib.suppress(Exception):
        device.release()
    return responds


def _synchronize(device: ReleasableDevice) -> bool:
    try:
        device.synchronize()
    except Exception as error:  # noqa: BLE001 - whatever it is, recovery goes on
        log.warning("synchronising after out-of-memory failed: %s", error)
        clear_frames(error)
        return False
    return True
