"""What a server says while it runs: a line a request, for people or for programs.

No line holds anything that a user sent: routes are named by their pattern, never by the address
that was asked for, because that may hold a text or a key. Errors are told by their kind and by
where they came from, unless the setting `server.log_texts` allows their words.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from anyrig.errors import AnyrigError

if TYPE_CHECKING:
    from anyrig.cli.context import Context
    from anyrig.server.state import ServerState

start = logging.getLogger("anyrig.serve")
_UNSAID = "(server.log_texts shows what it says)"
_USUAL = frozenset(vars(logging.makeLogRecord({})))


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what was given as `extra` stands beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _USUAL and name not in ("message", "asctime", "color_message"):
                line[name] = value
        if record.exc_info:
            line["trace"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class WithoutTexts(logging.Filter):
    """Takes out of a record what an error says, which may quote a user's text.

    What kind of error it was and where it came from stays, of what caused it too. Errors of our own
    that are put into a message are told as they are: they quote nothing at length.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(record.args, tuple):
            record.args = tuple(map(_named, record.args))
        if error is not None:
            record.exc_text = _where(error)  # formatters take it in place of their own
            record.msg, record.args = _unsaid(record.getMessage(), error), ()
        return True


def _named(value: object) -> object:
    """What is put into a message; an error of somebody else by its name alone."""
    strange = isinstance(value, Exception) and not isinstance(value, AnyrigError | OSError)
    return f"{type(value).__name__} {_UNSAID}" if strange else value


def _unsaid(message: str, error: BaseException) -> str:
    """A message without the words of an error: asyncio and the page put them in as well."""
    for one in _chain(error):
        for words in (repr(one), str(one)):
            if len(words) > 1:
                message = message.replace(words, f"{type(one).__name__} {_UNSAID}")
    return message


def _where(error: BaseException) -> str:
    """The way of an error and of what caused it, without a word that they say."""
    told = []
    for one in _chain(error):
        frames = "".join(traceback.format_tb(one.__traceback__)).rstrip()
        told.append(f"{type(one).__name__} {_UNSAID}" + (f"\n{frames}" if frames else ""))
    return "\nfrom ".join(told)


def _chain(error: BaseException | None) -> list[BaseException]:
    """An error, what caused that, and so on."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


class _Refused(logging.Filter):
    """A WebSocket that was refused with an answer of HTTP is none that the app forgot about, but
    uvicorn calls it so; the line of the request says what was answered.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is something else."""
        return "without completing handshake" not in record.getMessage()


class _AtStart(logging.Filter):
    """What the server says of itself at its start, beside what its level lets through."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is shown."""
        return record.levelno >= self._level or record.name == start.name


def log_start(context: Context, server: ServerState) -> None:
    """Say what the server runs on: versions, devices and models."""
    import platform

    from anyrig.devices.choose import describe_memory
    from anyrig.version import __version__

    system = context.machine.platform
    start.info("anyrig %s, Python %s, %s %s", __version__, platform.python_version(),
               system.title, system.machine)  # fmt: skip
    try:
        choice = context.choose()
        for device in choice.devices:
            driver = " ".join(filter(None, (device.driver, device.driver_version)))
            facts = [device.id, device.name, describe_memory(device), driver and f"driver {driver}"]
            # What was warned of, the command has said already.
            why = "" if choice.warnings else f" ({choice.reason})"
            start.info("device %s%s", ", ".join(filter(None, facts)), why)
    except AnyrigError as error:
        start.warning("no device: %s. %s", error.message, error.hint)
    packages = context.machine.packages
    start.info("torch %s", packages.get("torch", "is not installed"))
    names = [one for one in packages if one.startswith("onnxruntime") and "-ep-" not in one]
    onnx = [f"ONNX Runtime {packages[name]} ({name})" for name in names]
    for line in onnx or ["ONNX Runtime is not installed"]:
        start.info("%s", line)
    start.info("speech: %s", server.speech.describe_default())
    try:
        start.info("embeddings: %s", server.embedding.find_model().name)
    except AnyrigError as error:
        start.info("embeddings: none (%s)", error.message)


def configure(*, as_json: bool, verbose: int, texts: bool = False) -> None:
    """Set the log of a server up; whatever libraries say goes the same way.

    Args:
        as_json: a line of JSON for each record.
        verbose: how often `-v` was said.
        texts: whether it may hold texts of the users.
    """
    root = logging.getLogger()
    for handler in root.handlers:
        if not texts:
            handler.addFilter(WithoutTexts())
        if getattr(handler, "stream", None) is sys.stderr and getattr(handler, "anyrig", False):
            _show(handler, as_json)
    start.setLevel(min(root.level, logging.INFO))
    if as_json:
        for name in ("anyrig.requests", "anyrig.server", "anyrig.jobs"):
            logging.getLogger(name).setLevel(min(root.level, logging.INFO))
    logging.getLogger("uvicorn.error").addFilter(_Refused())
    if verbose < 2:
        for name in ("uvicorn.error", "httpx", "httpcore", "asyncio", "engineio", "socketio"):
            logging.getLogger(name).setLevel(logging.WARNING)
        for name in ("websockets", "python_multipart"):  # what clients get wrong is theirs
            logging.getLogger(name).setLevel(logging.ERROR)


def _show(handler: logging.Handler, as_json: bool) -> None:
    if as_json:
        handler.setFormatter(JsonLines())
    elif handler.level > logging.INFO:
        handler.addFilter(_AtStart(handler.level))
    handler.setLevel(min(handler.level, logging.INFO))


def _time(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"
