"""Every error anyrig raises on purpose, and the exit code it leaves with.

    AnyrigError                  1  something anyrig set out to do did not work
    ├── BadInput                 2  what the user gave cannot be used
    │   ├── BadSetting           2  a key or value in a file, the environment or a flag
    │   ├── NoSuchCommand        2  a command that is not in the table
    │   ├── NoSuchDevice         2  a device word that matches nothing, or too much
    │   ├── BadRecord            2  a recorded machine that cannot be read
    │   ├── BadArchive           2  an exported store that cannot be read
    │   ├── Protected            2  a file locked by its seller or by a password
    │   ├── PastLimit            2  a file that asks more of the machine than it may
    │   ├── NoSuchJob            2  an id that no job has
    │   ├── NoSuchUpload         2  an id that no uploaded file has
    │   ├── UnsafePickle         2  a pickled voice that could run code when it is opened
    │   └── CannotSpeak          2  a text no chosen voice can read: its language, or nothing to say
    │       └── ForeignText      2  a text in a language that the chosen engine does not speak
    ├── DeviceError              3  a device is there but cannot do the work
    │   ├── DeviceUnusable       3  no backend can drive it (`--strict`)
    │   ├── KernelFailed         3  a kernel did not run on it
    │   ├── OutOfMemory          3  the work does not fit, not even its smallest piece
    │   └── DeviceLost           3  its driver gave it up: only a new process can use it
    ├── WorkFailed               1  some of the work could not be done, the rest is
    │   ├── Unfinished           1  passages of a book that could not be spoken
    │   ├── Deadly               1  an item that its workers died of
    │   ├── WorkersGone          1  those who did the work are gone or are being ended
    │   └── DataFailed           1  an item of a data set that cannot be read, or its worker ended
    ├── NoBroker                 1  the broker of a cluster does not answer
    ├── PeerLost                 1  another process that trains along ended or did not answer
    ├── TooBusy                  1  too much waits already; a moment later it may not
    ├── StoreFailed              1  what is kept on disk cannot be read or written
    │   ├── StoreBusy            1  another process has it in use; a moment later it may not
    │   └── DiskFull             1  no space is left on a disk, or in a quota
    └── MissingPackage           4  a package or an extra is not installed
        └── NeedsWeights         4  a model's weights are not on this machine

Every error carries a `hint`: the next thing a person can do. The constructor demands it.
"""

from __future__ import annotations

import errno
from typing import ClassVar

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_SQLITE_FULL = 13


class AnyrigError(Exception):
    """The root of the tree: a message for the person, and what to do next."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadInput(AnyrigError):
    """What the user gave cannot be used."""

    exit_code = 2


class BadSetting(BadInput):
    """A key or a value in a settings file, the environment or a flag is wrong."""


class NoSuchCommand(BadInput):
    """The command line names a command that is not in the table."""


class NoSuchDevice(BadInput):
    """A device word matches nothing on this machine, or more than one thing."""


class BadRecord(BadInput):
    """A recorded machine cannot be read."""


class BadArchive(BadInput):
    """An exported store cannot be read."""


class Protected(BadInput):
    """A file that only its seller's programs, or those who know a password, can read."""


class PastLimit(BadInput):
    """A file that is larger, longer or slower than it may be."""

    def __init__(self, message: str, *, hint: str, limit: str = "") -> None:
        super().__init__(message, hint=hint)
        self.limit = limit
        """The field of `text.formats.limits.Limits` that it went past."""


class UnsafePickle(BadInput):
    """A pickled voice that cannot be read without running what is in it."""


class CannotSpeak(BadInput):
    """A text that the chosen voice cannot read."""


class ForeignText(CannotSpeak):
    """A text in a language that the chosen engine does not speak."""

    def __init__(self, message: str, *, hint: str, language: str = "") -> None:
        super().__init__(message, hint=hint)
        self.language = language
        """Its ISO 639-1 code, for the caller who knows an engine that speaks it."""


class DeviceError(AnyrigError):
    """A device is there but cannot do the work."""

    exit_code = 3


class DeviceUnusable(DeviceError):
    """No installed backend can drive the device that was asked for."""


class KernelFailed(DeviceError):
    """A kernel did not run on a device, or did not end in time."""


class OutOfMemory(DeviceError):
    """A device ran out of memory, and smaller pieces did not help or were not to be had."""

    devices: tuple[str, ...] = ()
    """Ids of the GPUs that were too full, where that is known; nothing where it may be the host."""


class DeviceLost(DeviceError):
    """The driver gave the device up; only a new process can use it again."""


class WorkFailed(AnyrigError):
    """Some of the work could not be done."""


class Deadly(WorkFailed):
    """An item that its workers died of."""


class WorkersGone(WorkFailed):
    """Those who did the work are gone, or are being ended: it is nobody's item that is at fault."""


class DataFailed(WorkFailed):
    """An item of a data set cannot be read, or the process that reads items ended."""

    def __init__(self, message: str, *, hint: str, item: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.item = item
        """Its number, where one item is to blame."""


class PeerLost(AnyrigError):
    """Another process of a group that trains together ended, or did not answer in time."""


class NoBroker(AnyrigError):
    """The broker of a cluster does not answer."""


class TooBusy(AnyrigError):
    """Too much waits already to take more."""


class StoreFailed(AnyrigError):
    """What is kept on disk cannot be read or written."""


class StoreBusy(StoreFailed):
    """Another process has what is kept in use all the time."""


class DiskFull(StoreFailed):
    """No space is left on a disk, or in a quota."""


class MissingPackage(AnyrigError):
    """A package that the work needs is not installed."""

    exit_code = 4


class NeedsWeights(MissingPackage):
    """A model's weights are not on this machine; the hint says where they go."""


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, says that no space is left on a disk."""
    while error is not None:
        if isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in _FULL):
            return True
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == _SQLITE_FULL:
            return True
        error = error.__cause__
    return False


def disk_full(error: BaseException) -> DiskFull:
    """The error that is told for one of which `is_disk_full` holds."""
    if isinstance(error, DiskFull):
        return error
    if isinstance(error, AnyrigError):
        return DiskFull(error.message, hint=error.hint)
    return DiskFull("No space left on device", hint="Free some space, and try again.")
