"""Detect errors that mean out-of-memory or a lost device.

By type first: torch's, CuPy's and NumPy's own classes, MemoryError, the operating system's codes.
By text last, and only for types that frameworks raise for it: the text of a KeyError, ValueError,
ImportError or a server's response proves nothing. Classes are matched by name, so nothing is
imported.

An explicit cause counts. The context of an error (what was being handled when it was raised) counts
only if the error quotes it: a handler may fail for its own reason. A group counts if all its
members do, so that no other failure is hidden.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from anyrig.errors import (
    BrokerUnavailableError,
    DeviceLostError,
    InvalidInputError,
    LanguageModelError,
    MissingPackageError,
    OutOfMemoryError,
    OverloadedError,
    StorageError,
)
from anyrig.memory.oom_patterns import (
    DLL_FAILED,
    MemoryLocation,
    find_shortage,
    mentions_device_loss,
    parse_amounts,
)

_TRACEBACK = "Traceback (most recent call last):"
# Classes that prove it, by the package that defines them.
_OOM_CLASSES: dict[tuple[str, str], MemoryLocation] = {
    ("torch", "OutOfMemoryError"): "device",
    ("torch", "_OutOfMemoryError"): "device",
    ("cupy", "OutOfMemoryError"): "device",
    ("pycuda", "MemoryError"): "device",
    ("pyopencl", "MemoryError"): "device",
    ("wgpu", "GPUOutOfMemoryError"): "device",
    ("ray", "OutOfMemoryError"): "host",
}
_LOST_CLASSES = {("onnxruntime", "DeviceReset")}
_WINDOWS_CODES = (8, 14, 1455)  # not enough memory, out of memory, paging file too small
# torch.AcceleratorError.error_code: cudaError_t, and hipError_t where they agree.
_CODE_OOM = 2
_CODES_LOST = {214, 220, 226, 700, 702, 709, 710, *range(714, 720), 721, 810, 999}
# Their text is somebody's data, another machine's, or describes a bug in the program.
_TEXT_IGNORED = (
    LookupError, ValueError, AssertionError, SyntaxError, NameError, AttributeError,
    ArithmeticError, TypeError, EOFError, StopIteration, StopAsyncIteration, NotImplementedError,
    RecursionError, Warning, InvalidInputError, MissingPackageError, LanguageModelError,
    BrokerUnavailableError, OverloadedError, StorageError,
)  # fmt: skip
# Clients of something that has its own memory.
_CLIENT_PACKAGES = frozenset(
    "requests urllib urllib3 http httpx httpcore aiohttp websockets grpc google googleapiclient "
    "openai anthropic boto3 botocore azure huggingface_hub tritonclient redis valkey sqlite3 "
    "psycopg psycopg2 asyncpg pymysql mysql sqlalchemy py4j pymongo duckdb celery kombu subprocess "
    "concurrent".split()
)
_MAX_MESSAGE = 300
# Who quotes an error may cut it: this much of it is proof enough.
_MAX_QUOTE = 100
# TensorFlow lists every buffer it holds after what happened; a child's output ends with it.
_MAX_TEXT = 50_000


@dataclass(frozen=True)
class MemoryShortage:
    """An out-of-memory error as plain values: it holds no reference to the error or its frames."""

    location: MemoryLocation
    """`device`, or `host` for the computer's own memory, pinned memory included."""
    fatal: bool = False
    """The device's context is broken as well: only a new process helps."""
    requested_bytes: int | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    message: str = ""
    """The first line of the library's message."""


def detect_oom(error: BaseException) -> MemoryShortage | None:
    """Describe the shortage if an error means out-of-memory; None for every other error."""
    return _detect(error, set())


def detect_device_loss(error: BaseException) -> str | None:
    """Return the library's message if the device is lost for this process, else None."""
    for link in _explanations(error):
        by_type = (
            isinstance(link, DeviceLostError)
            or not _LOST_CLASSES.isdisjoint(_class_names(link))
            or _error_code(link) in _CODES_LOST
        )
        if by_type or _text_counts(link):
            text = _strip_traceback(_text(link))
            if by_type or mentions_device_loss(text):
                return _shorten(_first_line(text)) or type(link).__name__
    return None


def _detect(error: BaseException, seen: set[int]) -> MemoryShortage | None:
    if id(error) in seen or not isinstance(error, (Exception, BaseExceptionGroup)):
        return None  # a KeyboardInterrupt stays one, whatever came before it
    seen.add(id(error))
    if isinstance(error, BaseExceptionGroup):
        # A cancelled task did not fail.
        members = [one for one in error.exceptions if type(one).__name__ != "CancelledError"]
        shortages = [found for one in members if (found := _detect(one, set(seen)))]
        if len(shortages) < len(members):
            return None
        return next((one for one in shortages if one.fatal), shortages[0] if shortages else None)
    found = _detect_single(error)
    if found is None:
        found = next(filter(None, (_detect(cause, seen) for cause in _causes(error))), None)
    if found is not None and isinstance(error, DeviceLostError):
        found = replace(found, fatal=True)
    return found


def _detect_single(error: Exception) -> MemoryShortage | None:
    """What an error means by itself, without its cause and context."""
    by_type = _location_by_type(error)
    if by_type is None and not _text_counts(error):
        return None
    text = _strip_traceback(_text(error))
    by_text = find_shortage(text)
    if by_type is not None:
        location, fatal = by_text or (by_type, False)
        # cuDF raises a MemoryError for GPU memory: the type proves a shortage, the text says where.
        if isinstance(error, OSError):
            location = by_type
    elif by_text is not None:
        location, fatal = by_text
    else:
        return None
    return MemoryShortage(location, fatal, *parse_amounts(text), _shorten(_first_line(text)))


def _location_by_type(error: Exception) -> MemoryLocation | None:
    for name in _class_names(error):
        if name in _OOM_CLASSES:
            return _OOM_CLASSES[name]
    if _error_code(error) == _CODE_OOM:
        return "device"
    if isinstance(error, MemoryError):
        return "host"
    if isinstance(error, OSError):
        windows_code = getattr(error, "winerror", None)
        return "host" if error.errno == errno.ENOMEM or windows_code in _WINDOWS_CODES else None
    if isinstance(error, OutOfMemoryError) and error.__cause__ is None:
        return "host" if error.on_host else "device"
    return None


def _text_counts(error: BaseException) -> bool:
    """Whether the text of an error of this class may prove anything."""
    if isinstance(error, ImportError):
        # Windows says why it could not load a library: the paging file may be too small.
        return str(error).startswith(DLL_FAILED)
    if not isinstance(error, Exception) or isinstance(error, _TEXT_IGNORED):
        return False
    kind = type(error)
    # An OSError with a code, or of a subclass, is judged by that alone.
    if isinstance(error, OSError) and (error.errno is not None or kind is not OSError):
        return False
    if kind.__module__.partition(".")[0] in _CLIENT_PACKAGES:
        return False
    return not re.search(r"HTTP|Connection|Timeout|RateLimit|Quota|Remote|Rpc", kind.__name__)


def _class_names(error: BaseException) -> Iterator[tuple[str, str]]:
    """Package and name of an error's class and its bases."""
    for kind in type(error).__mro__:
        yield kind.__module__.partition(".")[0], kind.__name__


def _error_code(error: BaseException) -> int | None:
    """The runtime's error number, which torch.AcceleratorError carries."""
    code = getattr(error, "error_code", None)
    known = isinstance(code, int) and ("torch", "AcceleratorError") in _class_names(error)
    return code if known else None


def _explanations(error: BaseException) -> Iterator[BaseException]:
    """An error, its causes and what it quotes, including those of all members of a group."""
    pending, seen = [error], set[int]()
    while pending:
        link = pending.pop(0)
        if id(link) not in seen:
            seen.add(id(link))
            yield link
            pending += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
            pending += _causes(link)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The explicit cause of an error, and its context if the error quotes that."""
    if error.__cause__ is not None:
        yield error.__cause__
    if error.__context__ is not None:
        quoted = _first_line(_full_text(error.__context__))[:_MAX_QUOTE]
        if quoted and quoted in _full_text(error):
            yield error.__context__


def _full_text(error: BaseException) -> str:
    """The text of an error; several arguments are joined by newlines."""
    text = ""
    with contextlib.suppress(Exception):  # an error whose __str__ fails has no text
        text = str(error)
        if len(error.args) > 1 and text == str(error.args):
            text = "\n".join(str(argument) for argument in error.args)
    return text


def _text(error: BaseException) -> str:
    """The text of an error; of a very long one, its beginning and its end."""
    text = _full_text(error)
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[: _MAX_TEXT // 2]}\n{text[-_MAX_TEXT // 2 :]}"


def _strip_traceback(text: str) -> str:
    """Remove the frames of a quoted traceback and earlier errors that it was chained to.

    torch's data loaders and multiprocessing put a child's traceback into the text. A source line in
    it may mention memory, and so may an error that was handled long before.
    """
    head, found, rest = text.rpartition(_TRACEBACK)
    if not found:
        return text
    first = head.partition(_TRACEBACK)[0]
    lines = [line for line in rest.splitlines() if line and not line.startswith("  ")]
    return "\n".join([first.rstrip(), *lines])


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _shorten(line: str) -> str:
    return line if len(line) <= _MAX_MESSAGE else f"{line[:_MAX_MESSAGE]}..."
