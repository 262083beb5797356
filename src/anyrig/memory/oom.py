"""Whether an error means that memory ran out or a device was lost, and how to say so.

By type first: torch's, CuPy's and NumPy's own classes, MemoryError, the operating system's codes.
By text last, and only for types that frameworks raise for it: no KeyError, ValueError, ImportError
or answer of a server is judged by its words. Classes are known by name, so nothing is imported.

An explicit cause counts. What an error was merely raised beside (its context) counts only when
the error quotes it: a handler may fail for a reason of its own. A group counts when all of it does,
so that no other failure goes unseen.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from anyrig.errors import DeviceLostError, OutOfMemoryError
from anyrig.memory import recover
from anyrig.memory.oom_amounts import amounts_in
from anyrig.memory.oom_texts import Said, Where, loss_in, shortage_in
from anyrig.units import format_bytes

_TRACEBACK = "Traceback (most recent call last):"
# Class names that say it all, by the package that defines them.
_CLASSES: dict[tuple[str, str], Where] = {
    ("torch", "OutOfMemoryError"): "device",
    ("torch", "_OutOfMemoryError"): "device",
    ("cupy", "OutOfMemoryError"): "device",
    ("pycuda", "MemoryError"): "device",
    ("pyopencl", "MemoryError"): "device",
    ("wgpu", "GPUOutOfMemoryError"): "device",
    ("ray", "OutOfMemoryError"): "host",
}
_LOST_CLASSES = {("onnxruntime", "DeviceReset")}
_WITH_CODE = {("torch", "AcceleratorError")}
_WINDOWS = (8, 14, 1455)  # not enough memory, out of memory, paging file too small
# torch.AcceleratorError.error_code: cudaError_t, and hipError_t where they agree.
_CODE_MEMORY = 2
_CODES_LOST = {214, 220, 226, 700, 702, 710, *range(714, 720), 721, 999}
# Never judged by their words: what they say is somebody's data, or about a program's own mistake.
_WORDLESS = (
    LookupError, ValueError, AssertionError, ImportError, SyntaxError, NameError, AttributeError,
    ArithmeticError, TypeError, EOFError, StopIteration, StopAsyncIteration, NotImplementedError,
    RecursionError, Warning,
)  # fmt: skip
# Clients of something that has a memory of its own.
_FOREIGN = frozenset(
    "requests urllib urllib3 http httpx httpcore aiohttp websockets grpc google googleapiclient "
    "openai anthropic boto3 botocore azure huggingface_hub tritonclient redis valkey sqlite3 "
    "psycopg psycopg2 asyncpg pymysql mysql sqlalchemy py4j pymongo duckdb celery kombu subprocess "
    "concurrent".split()
)
_PLACES: dict[Where, str] = {"device": "the device ran", "host": "the computer ran"}
_SAID_LENGTH = 300
# TensorFlow lists every buffer it holds; what happened stands at the top.
_TEXT_LENGTH = 50_000


@dataclass(frozen=True)
class Shortage:
    """Memory that ran out. It holds words and numbers only, nothing of the error."""

    where: Where
    """`device`, or `host` for the computer's own memory, pinned memory included."""
    fatal: bool = False
    """The device's context is broken as well: only a new process helps."""
    asked_bytes: int | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    said: str = ""
    """The first line of what the library said."""


class MemoryLike(Protocol):
    """What `translate` reads of a device's memory; `anyrig.backends.memory.MemoryUsage` is one."""

    @property
    def free_bytes(self) -> int | None:
        """What is left for everybody."""

    @property
    def total_bytes(self) -> int | None:
        """What there is."""


# -- recognising -----------------------------------------------------------------------------------


def recognise(error: BaseException) -> Shortage | None:
    """What ran out, when an error means that memory did; None for every other error."""
    return _recognise(error, set())


def recognise_text(text: str) -> Shortage | None:
    """What ran out according to a text: what is left of an error that crossed a process."""
    relevant = _outcome(text)
    said = shortage_in(relevant)
    return _shortage(said, relevant) if said else None


def device_lost(error: BaseException) -> str | None:
    """What a library said when it lost its device for this process; None when it did not."""
    for link in _explained(error):
        text = _outcome(_text(link))
        if isinstance(link, DeviceLostError) or not _LOST_CLASSES.isdisjoint(_names(link)):
            return _first_line(text) or type(link).__name__
        if _code(link) in _CODES_LOST or (_speaks(link) and loss_in(text)):
            return _first_line(text)
    return None


def _recognise(error: BaseException, seen: set[int]) -> Shortage | None:
    if id(error) in seen or not isinstance(error, (Exception, BaseExceptionGroup)):
        return None  # a Ctrl-C is a Ctrl-C, whatever came before it
    seen.add(id(error))
    if isinstance(error, BaseExceptionGroup):
        return _of_group(error, seen)
    found = _alone(error)
    if found is None and error.__cause__ is not None:
        found = _recognise(error.__cause__, seen)
    if found is None and error.__context__ is not None and _quotes(error, error.__context__):
        found = _recognise(error.__context__, seen)
    if found is not None and isinstance(error, DeviceLostError):
        found = replace(found, fatal=True)
    return found


def _of_group(group: BaseExceptionGroup[BaseException], seen: set[int]) -> Shortage | None:
    """The first shortage of a group in which nothing else failed; a cancelled task did not fail."""
    members = [one for one in group.exceptions if type(one).__name__ != "CancelledError"]
    found = [_recognise(one, set(seen)) for one in members]
    if not found or any(one is None for one in found):
        return None
    shortages = [one for one in found if one is not None]
    return next((one for one in shortages if one.fatal), shortages[0])


def _alone(error: Exception) -> Shortage | None:
    """What an error means by itself, without what is behind it."""
    text = _outcome(_text(error))
    said = shortage_in(text)
    by_type = _where_by_type(error)
    if by_type is None:
        return _shortage(said, text) if said and _speaks(error) else None
    # cuDF raises a MemoryError for a GPU's memory: the type says that, the text says where.
    where = said.where if said and not isinstance(error, OSError) else by_type
    return _shortage(Said(where, bool(said and said.fatal)), text)


def _where_by_type(error: Exception) -> Where | None:
    for name in _names(error):
        if name in _CLASSES:
            return _CLASSES[name]
    if _code(error) == _CODE_MEMORY:
        return "device"
    if isinstance(error, MemoryError):
        return "host"
    if isinstance(error, OSError):
        by_number = error.errno == errno.ENOMEM or getattr(error, "winerror", None) in _WINDOWS
        return "host" if by_number else None
    if isinstance(error, OutOfMemoryError) and error.__cause__ is None:
        return "host" if str(error).startswith(_PLACES["host"]) else "device"
    return None


def _speaks(error: BaseException) -> bool:
    """Whether an error's words may be believed."""
    if not isinstance(error, Exception) or isinstance(error, _WORDLESS):
        return False
    kind = type(error)
    # A code tells more than words. Without one it is a library's own sentence.
    if isinstance(error, OSError) and (error.errno is not None or kind is not OSError):
        return False
    if kind.__module__.partition(".")[0] in _FOREIGN:
        return False
    return not re.search(r"HTTP|Connection|Timeout|RateLimit|Quota|Remote|Rpc", kind.__name__)


def _names(error: BaseException) -> Iterator[tuple[str, str]]:
    """Package and name of an error's class and of those it is made of."""
    for kind in type(error).__mro__:
        yield kind.__module__.partition(".")[0], kind.__name__


def _code(error: BaseException) -> int | None:
    """The run-time's own number, which torch.AcceleratorError carries."""
    code = getattr(error, "error_code", None)
    return code if isinstance(code, int) and not _WITH_CODE.isdisjoint(_names(error)) else None


def _explained(error: BaseException) -> Iterator[BaseException]:
    """An error, its causes, and what it quotes; of a group every member's."""
    waiting, seen = [error], set[int]()
    while waiting:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            waiting += link.exceptions
        if link.__cause__ is not None:
            waiting.append(link.__cause__)
        if link.__context__ is not None and _quotes(link, link.__context__):
            waiting.append(link.__context__)


def _quotes(error: BaseException, other: BaseException) -> bool:
    quoted = _first_line(_text(other))
    return bool(quoted) and quoted in _text(error)


# -- words -----------------------------------------------------------------------------------------


def _text(error: BaseException) -> str:
    """All that an error says; one with two arguments says them one after the other."""
    text = ""
    with contextlib.suppress(Exception):  # an error whose words cannot be had has none
        text = str(error)
        if len(error.args) > 1 and text == str(error.args):
            text = "\n".join(str(argument) for argument in error.args)
    return text[:_TEXT_LENGTH]


def _outcome(text: str) -> str:
    """A text without the frames of a traceback that is quoted in it, and what came before them.

    torch's loaders and multiprocessing put a child's traceback into the text. A line of source in
    it may speak of memory, and an error that was handled long ago may have.
    """
    head, found, rest = text.rpartition(_TRACEBACK)
    if not found:
        return text
    first = head.partition(_TRACEBACK)[0]
    lines = [line for line in rest.splitlines() if line and not line.startswith("  ")]
    return "\n".join([first.rstrip(), *lines])


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _SAID_LENGTH else f"{line[:_SAID_LENGTH]}..."


def _shortage(said: Said, text: str) -> Shortage:
    asked, free, total = amounts_in(text)
    return Shortage(said.where, said.fatal, asked, free, total, _first_line(text))


# -- telling ---------------------------------------------------------------------------------------


def translate(
    error: BaseException,
    *,
    doing: str,
    options: Sequence[str] = (),
    memory: MemoryLike | None = None,
    memory_of: Where = "device",
) -> OutOfMemoryError | DeviceLostError:
    """One error that says what was running, what was asked for, what was free and what to try.

    Args:
        error: one that `recognise` or `device_lost` knows.
        doing: what was running: `embedding 64 texts with minilm`.
        options: what the person can change, as they would type it: `--batch-size 4`.
        memory: what there was, for where the library does not say.
        memory_of: whose memory that is; `host` for work on the CPU.
    """
    shortage, lost = recognise(error), device_lost(error)
    if shortage is None and lost is None:
        raise ValueError(f"neither out of memory nor a lost device: {error!r}")
    tries = f"Try {_either(options)}." if options else ""
    again = "Only a new process can use the device again: start the command anew."
    if shortage is None:
        return DeviceLostError(
            f"the device was lost while {doing}: {lost}", hint=f"{again} {tries}".strip()
        )
    message = _told(shortage, doing, memory if memory_of == shortage.where else None)
    if shortage.fatal or lost is not None:
        return DeviceLostError(
            f"{message}; its driver gave the device up", hint=f"{tries} {again}".strip()
        )
    return OutOfMemoryError(
        message, hint=tries or "Give it less at a time, or a device with more memory."
    )


@contextlib.contextmanager
def translating(
    doing: str,
    *,
    options: Sequence[str] = (),
    memory: Callable[[], MemoryLike | None] | None = None,
    memory_of: Where = "device",
) -> Iterator[None]:
    """Errors of memory and lost devices leave as ours; what their frames held is free by then."""
    try:
        yield
    except Exception as error:
        if recognise(error) is None and device_lost(error) is None:
            raise
        now = None
        if memory is not None:
            with contextlib.suppress(Exception):  # a broken device may not tell its memory
                now = memory()
        told = translate(error, doing=doing, options=options, memory=now, memory_of=memory_of)
        # The lines of the traceback stay for whoever debugs; what their variables held does not.
        recover.clear(error, keep_lines=True)
        raise told from error


def _told(shortage: Shortage, doing: str, memory: MemoryLike | None) -> str:
    parts = []
    if shortage.asked_bytes is not None:
        parts.append(f"{format_bytes(shortage.asked_bytes)} asked for")
    free, total = shortage.free_bytes, shortage.total_bytes
    if memory is not None:
        free = memory.free_bytes if free is None else free
        total = memory.total_bytes if total is None else total
    if free is not None:
        parts.append(f"{format_bytes(free)}{f' of {format_bytes(total)}' if total else ''} free")
    elif total:
        parts.append(f"{format_bytes(total)} in all")
    figures = f": {', '.join(parts)}" if parts else ""
    return f"{_PLACES[shortage.where]} out of memory while {doing}{figures}"


def _either(options: Sequence[str]) -> str:
    *most, last = options
    return f"{', '.join(most)} or {last}" if most else last
