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
    │   │   └── MissingOcrError       2  and nothing read the pictures of its pages
    │   ├── LimitExceededError        2  a file is larger, longer or slower to read than allowed
    │   ├── JobNotFoundError          2  no job has this id
    │   ├── ModelNotFoundError        2  no model has this name
    │   ├── UploadNotFoundError       2  no uploaded file has this id
    │   └── UnspeakableTextError      2  the chosen voice cannot read the text
    │       ├── UnsupportedLanguageError  2  the engine does not speak the text's language
    │       └── MissingVoiceError     2  no installed voice speaks it, and one can be downloaded
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
    ├── LanguageModelError            1  the server of a language model gives no usable answer
    ├── PeerLostError                 1  another process of a distributed run died or timed out
    ├── OverloadedError               1  too many requests are waiting; try again later
    ├── StorageError                  1  stored data cannot be read or written
    │   ├── StorageBusyError          1  another process holds the lock; try again later
    │   └── DiskFullError             1  the disk or quota is full
    └── MissingPackageError           4  a package or an extra is not installed
        └── MissingWeightsError       4  a model's weights are not on this machine
            └── MissingSampleError    4  they are, but no recording whose voice to speak with

Every error has a `hint`: what the user can do next. The constructor requires it.

A message or a hint that names options is a `Message`, which has them as data:

    Message("Pass {pages} or {all}.", pages=OptionRef("pages", "1-3"), all=OptionRef("all"))

Whoever shows it calls `render`, which spells them as its reader types them: `--pages 1-3` on the
command line. What users wrote is only ever a value, never part of a template.
"""

from __future__ import annotations

import errno
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from string import Formatter
from typing import Any, ClassVar, Literal, Self, SupportsIndex, TypeGuard

_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
MessageStyle = Literal["python", "command", "http"]

# -- messages --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OptionRef:
    """An option of a request that a message names, perhaps with a value for it."""

    name: str
    value: str = ""


_SPELLINGS: Mapping[tuple[str, MessageStyle], str] = {
    ("json", "python"): "the result", ("json", "http"): "the result",
    ("list", "python"): "`Rig.list_chapters`", ("list", "http"): "POST /books/plan",
    ("verbose", "python"): "see the debug log", ("verbose", "command"): "run with -vv",
    ("verbose", "http"): "see the server's log",
}  # fmt: skip
"""What stands for a flag of the command line where there is no such option."""


class Message(str):
    """A text for people that names options.

    As a string it is the text for Python programs; `render` makes the others.

    Args:
        template: as of `str.format`.
        values: of its fields; an `OptionRef`, and those of a `Message`, stay data.
    """

    template: str
    """With `{}` for each option, and all other values filled in."""
    options: tuple[OptionRef, ...]

    def __new__(cls, template: str, /, **values: object) -> Self:
        formatter, parts, options = Formatter(), [], list[OptionRef]()
        for text, field, spec, conversion in formatter.parse(template):
            parts.append(_escape(text))
            if field is None:
                continue
            value = values[field]
            if isinstance(value, OptionRef):
                parts.append("{}")
                options.append(value)
            elif isinstance(value, Message):
                parts.append(value.template)
                options += value.options
            else:
                value = formatter.convert_field(value, conversion)
                parts.append(_escape(format(value, spec or "")))
        return cls._build("".join(parts), tuple(options))

    @classmethod
    def _build(cls, template: str, options: tuple[OptionRef, ...]) -> Self:
        self = super().__new__(cls, _fill(template, options, "python"))
        self.template, self.options = template, options
        return self

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Message:
        """As `str.replace`; the options stay."""
        return self.map_text(lambda text: text.replace(old, new, count))

    def map_text(self, change: Callable[[str], str]) -> Message:
        """The text between the options changed; these stay."""
        texts = [""]
        for text, field, _, _ in Formatter().parse(self.template):
            texts[-1] += text  # it ends at every brace too
            if field is not None:
                texts.append("")
        return self._build("{}".join(_escape(change(text)) for text in texts), self.options)

    def __add__(self, other: str) -> Message:
        return Message("{first}{second}", first=self, second=other)

    def __radd__(self, other: str) -> Message:
        return Message("{first}{second}", first=other, second=self)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._build, (self.template, self.options)


def render(text: str, style: MessageStyle) -> str:
    """A message as its reader is to see it; a text that names no options is as it is."""
    return _fill(text.template, text.options, style) if isinstance(text, Message) else text


def render_json(value: Any, style: MessageStyle) -> Any:
    """A JSON value with every message in it as its reader is to see it."""
    if isinstance(value, str):
        return render(value, style)
    if isinstance(value, Mapping):
        if value.keys() == {"template", "options"}:
            try:
                return render(message_from_json(value), style)
            except ValueError:
                pass  # it is something else
        return {name: render_json(one, style) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [render_json(one, style) for one in value]
    return value


def _fill(template: str, options: tuple[OptionRef, ...], style: MessageStyle) -> str:
    return template.format(*(_spell(option, style) for option in options))


def _spell(option: OptionRef, style: MessageStyle) -> str:
    name, value = option.name, option.value
    if spelling := _SPELLINGS.get((name, style)):
        return spelling
    if style == "command":
        flag = f"--{name.replace('_', '-')}"
        return f"{flag} {shlex.quote(value)}" if value else flag
    if not value:
        return f"`{name}`"
    quoted = json.dumps(value, ensure_ascii=False)
    return f'"{name}": {quoted}' if style == "http" else f"{name}={quoted}"


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def messages_to_json(value: Any) -> Any:
    """A value whose messages become JSON objects, for another process or a file."""
    if isinstance(value, Message):
        return _message_to_json(value) if value.options else str(value)
    if isinstance(value, Mapping):
        return {name: messages_to_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [messages_to_json(one) for one in value]
    return value


def _message_to_json(message: Message) -> dict[str, Any]:
    options = [{"option": one.name, "value": one.value} for one in message.options]
    return {"template": message.template, "options": options}


def message_from_json(value: object) -> str:
    """A text from `messages_to_json`; `ValueError` if it is none."""
    if isinstance(value, str):
        return value
    match value:
        case {"template": str(template), "options": list(rows)}:
            options = tuple(_option_from_json(row) for row in rows)
            fields = [
                tuple(rest) for _, *rest in Formatter().parse(template) if rest[0] is not None
            ]
            # Another process may send anything: a field with a width of its own could fill memory.
            if fields == [("", "", None)] * len(options):
                return Message._build(template, options)
    raise ValueError("not a message")


def _option_from_json(row: object) -> OptionRef:
    match row:
        case {"option": str(name), "value": str(value)}:
            return OptionRef(name, value)
    raise ValueError("not an option")


_DUMPED = '{"template": '


def dump_message(text: str) -> str:
    """A text for a column of a table; `load_message` reads it."""
    if not isinstance(text, Message):
        if not text.startswith(_DUMPED):
            return text
        text = Message("{text}", text=text)
    return json.dumps(_message_to_json(text))


def load_message(text: str) -> str:
    if text.startswith(_DUMPED):
        try:
            return message_from_json(json.loads(text))
        except ValueError:
            pass  # a plain text that begins so
    return text


_LONG = re.compile(r"'[^'\n]{300,}'|\"[^\"\n]{300,}\"|\S{300,}")
_HEAD, _TAIL = 160, 40


def cut_long_values(text: str) -> str:
    """A message in which what a user passed is not repeated at length: a word or a quotation of
    hundreds of characters is cut in its middle.
    """
    if len(text) < _HEAD + _TAIL:
        return text
    if isinstance(text, Message):
        return text.map_text(cut_long_values)
    return _LONG.sub(lambda long: f"{long[0][:_HEAD]}…{long[0][-_TAIL:]}", text)


MORE_DETAILS = Message("For details, {verbose}.", verbose=OptionRef("verbose"))
"""A hint where only the log can say more."""

# -- errors ----------------------------------------------------------------------------------------


class AnyrigError(Exception):
    exit_code: ClassVar[int] = 1
    option: str = ""
    """The option of the request that is wrong, if it is one."""

    def __init__(self, message: str, *, hint: str) -> None:
        self.message, self.hint = cut_long_values(message), cut_long_values(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return str(self.message)

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """What Python shows below a traceback."""
        return [str(self.hint)] if self.hint else []


class InvalidInputError(AnyrigError):
    exit_code = 2


class InvalidOptionError(InvalidInputError):
    def __init__(self, option: str, problem: str, *, value: Any = None, hint: str = "") -> None:
        given = "" if value is None else f", not {value!r:.80}"
        message = Message(
            "{option} {problem}{given}", option=OptionRef(option), problem=problem, given=given
        )
        super().__init__(message, hint=hint)
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


class MissingOcrError(EmptyFileError):
    """A file has no text, and nothing read the pictures of its pages."""


class ProtectedFileError(InvalidInputError):
    """A file is protected by DRM or a password."""


class LimitExceededError(InvalidInputError):
    def __init__(self, message: str, *, hint: str, limit: str = "") -> None:
        super().__init__(message, hint=hint)
        self.limit = limit
        """The exceeded field of `text.formats.limits.Limits`."""


class UnspeakableTextError(InvalidInputError):
    """The chosen voice cannot read the text."""


class UnsupportedLanguageError(UnspeakableTextError):
    def __init__(self, message: str, *, hint: str, language: str = "") -> None:
        super().__init__(message, hint=hint)
        self.language = language
        """ISO 639-1 code of the text, so that a caller can pick another engine."""


class MissingVoiceError(UnspeakableTextError):
    def __init__(self, message: str, *, hint: str, language: str = "") -> None:
        super().__init__(message, hint=hint)
        self.language = language
        """ISO 639-1 code: `anyrig voices get CODE` downloads a voice."""


class LanguageModelError(AnyrigError):
    """The server of a language model does not answer, or not with what it was asked for."""


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


class MissingSampleError(MissingWeightsError):
    """The weights are there, but no recording whose voice they could speak with."""


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


def is_access_refused(error: BaseException) -> TypeGuard[OSError]:
    """Whether the system refused to open or change a file: no permission, a read-only disk."""
    return isinstance(error, OSError) and error.errno in _REFUSED


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
    texts = {"message": error.message, "hint": error.hint}
    row: dict[str, Any] = {"class": kind.__name__, **messages_to_json(texts)}
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
    message, hint = message_from_json(row["message"]), message_from_json(row["hint"])
    try:
        error = kind(message, hint=hint)
    except TypeError:  # its constructor makes the message of other arguments
        error = kind.__new__(kind)
        AnyrigError.__init__(error, message, hint=hint)
    for name, value in row.get("fields", {}).items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error
