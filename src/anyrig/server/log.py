"""The log of a server: a line for each request, for people or as JSON.

No line contains what a user sent: routes are named by their pattern, as a path may contain a text
or a key. Errors are logged with their class and traceback; their messages, which may quote a text,
only if the setting `server.log_texts` allows it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Any

from anyrig.errors import AnyrigError

startup_log = logging.getLogger("anyrig.serve")
_HIDDEN = "(message hidden, see server.log_texts)"
_RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({})))


def configure_log(*, as_json: bool, verbose: int, texts: bool = False) -> None:
    """Configure the log of a server, for libraries too.

    Args:
        as_json: a line of JSON for each record.
        verbose: how often `-v` was given.
        texts: whether it may contain texts of users.
    """
    root = logging.getLogger()
    for handler in root.handlers:
        if not texts:
            handler.addFilter(HideMessages())
        if getattr(handler, "stream", None) is sys.stderr and getattr(handler, "anyrig", False):
            _configure_stderr(handler, as_json)
    startup_log.setLevel(min(root.level, logging.INFO))
    if as_json:
        for name in ("anyrig.requests", "anyrig.server", "anyrig.jobs"):
            logging.getLogger(name).setLevel(min(root.level, logging.INFO))
    logging.getLogger("uvicorn.error").addFilter(_is_not_refused_websocket)
    if verbose < 2:
        for name in ("uvicorn.error", "httpx", "httpcore", "asyncio", "engineio", "socketio"):
            logging.getLogger(name).setLevel(logging.WARNING)
        for name in ("websockets", "python_multipart"):  # mistakes of clients
            logging.getLogger(name).setLevel(logging.ERROR)


def _configure_stderr(handler: logging.Handler, as_json: bool) -> None:
    if as_json:
        handler.setFormatter(JsonFormatter())
    elif handler.level > logging.INFO:
        level = handler.level
        handler.addFilter(lambda record: record.levelno >= level or record.name == startup_log.name)
    handler.setLevel(min(handler.level, logging.INFO))


def _is_not_refused_websocket(record: logging.LogRecord) -> bool:
    """uvicorn takes a WebSocket that was refused with an HTTP response for a bug of the app."""
    return "without completing handshake" not in record.getMessage()


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON, with what was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _format_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _RECORD_FIELDS and name not in ("message", "asctime", "color_message"):
                line[name] = value
        if record.exc_info:
            line["trace"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class HideMessages(logging.Filter):
    """Removes the messages of errors from records, which may quote a user's text.

    Classes and tracebacks stay, of causes too, and so do messages of our own errors that are
    arguments of a record: they quote nothing at length.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(record.args, tuple):
            record.args = tuple(map(_hide_argument, record.args))
        if error is not None:
            record.exc_text = _format_trace(error)  # formatters use it if it is there
            record.msg, record.args = _hide_in_message(record.getMessage(), error), ()
        return True


def _hide_argument(value: object) -> object:
    is_foreign = isinstance(value, Exception) and not isinstance(value, AnyrigError | OSError)
    return f"{type(value).__name__} {_HIDDEN}" if is_foreign else value


def _hide_in_message(message: str, error: BaseException) -> str:
    """asyncio and NiceGUI put the text of an error into the message."""
    for one in _list_causes(error):
        for text in (repr(one), str(one)):
            if len(text) > 1:
                message = message.replace(text, f"{type(one).__name__} {_HIDDEN}")
    return message


def _format_trace(error: BaseException) -> str:
    lines = []
    for one in _list_causes(error):
        frames = "".join(traceback.format_tb(one.__traceback__)).rstrip()
        lines.append(f"{type(one).__name__} {_HIDDEN}" + (f"\n{frames}" if frames else ""))
    return "\nfrom ".join(lines)


def _list_causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def _format_time(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"
