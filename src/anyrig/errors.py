"""Every error anyrig raises on purpose, and the exit code of a command that ends with it.

    AnyrigError                       1  the operation failed
    ├── InvalidInputError             2  an argument, file or request is not valid
    │   ├── InvalidOptionError        2  an option of a request has a wrong value
    │   │   └── UnknownOptionError    2  a request has no such option
    │   ├── InvalidSettingError       2  a wrong key or value in a file, variable or flag
    │   ├── UnknownCommandError       2  the command line names an unknown command
    │   ├── DeviceNotFoundError       2  a device name matches no device, or more than one
    │   ├── InvalidRecordError        2  a recorded machine cannot be read
    │   ├── InvalidArchiveError       2  an exported cache cannot be read
    │   ├── ProtectedFileError        2  a file with DRM or a password
    │   ├── EmptyFileError            2  a file has no text
    │   ├── LimitExceededError        2  a file is larger, longer or slower to read than allowed
    │   ├── JobNotFoundError          2  no job has this id
    │   ├── ModelNotFoundError        2  no model has this name
    │   ├── UploadNotFoundError       2  no uploaded file has this id
    │   ├── UnsafePickleError         2  a pickled voice would run code when loaded
    │   └── UnspeakableTextError      2  the chosen voice cannot read the text
    │       └── UnsupportedLanguageError  2  the engine does not speak the text's language
    ├── DeviceError                   3  a device exists but cannot do the work
    │   ├── DeviceUnusableError       3  no installed backend can use it (`--strict`)
    │   ├── KernelError               3  a kernel failed or timed out
    │   ├── OutOfMemoryError          3  the work does not fit, not even with the smallest batch
    │   └── DeviceLostError           3  the driver lost the device; only a new process can use it
    ├── WorkError                     1  some of the work failed
    │   ├── UnfinishedBookError       1  some segments of a book could not be spoken
    │   ├── PoisonItemError           1  an item crashes every worker that tries it
    │   ├── JobKilledError            1  the system killed a job's process
    │   ├── WorkersLostError          1  the workers are gone or are shutting down
    │   └── DataLoadingError          1  a dataset item cannot be read, or its loader process died
    ├── BrokerUnavailableError        1  the cluster's broker does not respond
    │   └── BrokerAccessError         1  it refused the password
    ├── PeerLostError                 1  another process of a distributed run died or timed out
    ├── OverloadedError               1  too many requests are waiting; try again later
    ├── StorageError                  1  stored data cannot be read or written
    │   ├── StorageBusyError          1  another process holds the lock; try again later
    │   └── DiskFullError             1  the disk or quota is full
    └── MissingPackageError           4  a package or an extra is not installed
        └── MissingWeightsError       4  a model's weights are not on this machine

Every error has a `hint`: what the user can do next. The constructor requires it.

A message or a hint names an option with `mention("read_along")`; whoever shows it calls
`format_mentions`, which spells the name as its reader types it: `--read-along` on the command line.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
OptionStyle = Literal["python", "command", "http"]
# Characters for private use: they occur in no file name and no text that people write.
_MENTION = re.compile("\ue000(\\w+)(?:=([^\ue001]*))?\ue001")


def mention(option: str, value: str = "") -> str:
    """Name an option, and perhaps a value for it, in a message or a hint."""
    return f"\ue000{option}={value}\ue001" if value else f"\ue000{option}\ue001"


def format_mentions(text: str, style: OptionStyle) -> str:
    """Spell the options that a text mentions as its reader types them."""
    if "\ue000" not in text:
        return text

    def spell(found: re.Match[str]) -> str:
        name, value = found.groups()
        if style == "command":
            flag = f"--{name.replace('_', '-')}"
            return f"{flag} {value}" if value else flag
        if style == "http":
            return f'"{name}": "{value}"' if value else f"`{name}`"
        return f'{name}="{value}"' if value else f"`{name}`"

    return _MENTION.sub(spell, text)


class AnyrigError(Exception):
    exit_code: ClassVar[int] = 1
    option: str = ""
    """The option of the request that is wrong, if it is one."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return format_mentions(self.message, "python")


class InvalidInputError(AnyrigError):
    exit_code = 2


class InvalidOptionError(InvalidInputError):
    def __init__(self, option: str, problem: str, *, value: Any = None, hint: str = "") -> None:
        given = "" if value is None else f", not {value!r:.80}"
        super().__init__(f"{mention(option)} {problem}{given}", hint=hint)
        self.option = option


class UnknownOptionError(InvalidOptionError):
    def __init__(self, option: str, *, hint: str) -> None:
        InvalidInputError.__init__(self, f"unknown option {option[:40]!r}", hint=hint)
        self.option = option[:40]


class InvalidSettingError(InvalidInputError):
    """A key or a value in a settings file, the environment or a flag is wrong."""


class UnknownCommandError(InvalidInputError):
    """The command line names a command that is not in the table."""


class DeviceNotFoundError(InvalidInputError):
    """A device name matches no device on this machine, or more than one."""


class ModelNotFoundError(InvalidInputError):
    """No model of this machine has the requested name."""


class InvalidRecordError(InvalidInputError):
    """A recorded machine cannot be read."""


class InvalidArchiveError(InvalidInputError):
    """An exported result cache cannot be read."""


class EmptyFileError(InvalidInputError):
    """A file or a part of a message has no text."""


class ProtectedFileError(InvalidInputError):
    """A file is protected by DRM or a password."""


class LimitExceededError(InvalidInputError):
    def __init__(self, message: str, *, hint: str, limit: str = "") -> None:
        super().__init__(message, hint=hint)
        self.limit = limit
        """The exceeded field of `text.formats.limits.Limits`."""


class UnsafePickleError(InvalidInputError):
    """A pickled voice cannot be loaded without running code that it contains."""


class UnspeakableTextError(InvalidInputError):
    """The chosen voice cannot read the text."""


class UnsupportedLanguageError(UnspeakableTextError):
    def __init__(self, message: str, *, hint: str, language: str = "") -> None:
        super().__init__(message, hint=hint)
        self.language = language
        """ISO 639-1 code of the text, so that a caller can pick another engine."""


class DeviceError(AnyrigError):
    exit_code = 3


class DeviceUnusableError(DeviceError):
    """No installed backend can use the requested device."""


class KernelError(DeviceError):
    """A kernel failed on a device or timed out."""


class OutOfMemoryError(DeviceError):
    devices: tuple[str, ...] = ()
    """Ids of the full GPUs, if known; empty if it may have been host memory."""
    on_host: bool = False
    """The host's memory is full, not a device's."""


class DeviceLostError(DeviceError):
    """The driver lost the device; only a new process can use it again."""


class WorkError(AnyrigError):
    """Some of the work failed."""


class PoisonItemError(WorkError):
    """An item crashes every worker that processes it."""


class WorkersLostError(WorkError):
    """The workers are gone or are shutting down; no item is at fault."""


class DataLoadingError(WorkError):
    def __init__(self, message: str, *, hint: str, item: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.item = item
        """Index of the item that failed, if it was one item."""


class PeerLostError(AnyrigError):
    """Another process of a distributed run died or timed out."""


class BrokerUnavailableError(AnyrigError):
    """The broker of a cluster does not respond."""


class BrokerAccessError(BrokerUnavailableError):
    """The broker of a cluster refused the password."""


class OverloadedError(AnyrigError):
    """Too many requests are waiting."""


class StorageError(AnyrigError):
    """Stored data cannot be read or written."""


class StorageBusyError(StorageError):
    """Another process holds the lock on stored data."""


class DiskFullError(StorageError):
    """The disk or quota is full."""


class MissingPackageError(AnyrigError):
    exit_code = 4


class MissingWeightsError(MissingPackageError):
    """A model's weights are not on this machine; the hint says where to put them."""


@contextmanager
def errors_of_option(option: str) -> Iterator[None]:
    """Say of invalid input in the block that this option of the request is wrong."""
    try:
        yield
    except InvalidInputError as error:
        error.option = error.option or option
        raise


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error or one of its causes means that the disk is full."""
    while error is not None:
        if isinstance(error, DiskFullError) or (
            isinstance(error, OSError) and error.errno in _FULL
        ):
            return True
        error = error.__cause__
    return False


def to_disk_full_error(error: BaseException) -> DiskFullError:
    """Convert an error for which `is_disk_full` holds."""
    if isinstance(error, DiskFullError):
        return error
    if isinstance(error, AnyrigError):
        return DiskFullError(error.message, hint=error.hint)
    return DiskFullError("No space left on device", hint="Free some space, and try again.")


def error_to_dict(error: AnyrigError) -> dict[str, Any]:
    """An error as plain JSON: how an error goes to another process.

    A class of another module goes as its nearest base class of this one.
    """
    if is_disk_full(error):  # its cause does not go along
        error = to_disk_full_error(error)
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == __name__)
    row: dict[str, Any] = {"class": kind.__name__, "message": error.message, "hint": error.hint}
    fields = {
        name: value
        for name, value in vars(error).items()
        if name not in row and isinstance(value, (str, int, tuple))
    }
    return {**row, "fields": fields} if fields else row


def error_from_dict(row: Mapping[str, Any]) -> AnyrigError:
    kind = globals().get(row["class"])
    if not (isinstance(kind, type) and issubclass(kind, AnyrigError)):
        kind = WorkError
    try:
        error = kind(row["message"], hint=row["hint"])
    except TypeError:  # its constructor makes the message of other arguments
        error = kind.__new__(kind)
        AnyrigError.__init__(error, row["message"], hint=row["hint"])
    for name, value in row.get("fields", {}).items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error
