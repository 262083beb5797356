"""What a server says while it runs: a line a request, for people or for programs.

No line holds anything that a user sent: routes are named by their pattern, never by the address
that was asked for, because that may hold a text or a key.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

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
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class _Refused(logging.Filter):
    """A WebSocket that was refused with an answer of HTTP is none that the app forgot about, but
    uvicorn calls it so; the line of the request says what was answered.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is something else."""
        return "without completing handshake" not in record.getMessage()


def configure(*, as_json: bool, verbose: int) -> None:
    """Set the log of a server up; whatever libraries say goes the same way."""
    root = logging.getLogger()
    for handler in root.handlers:
        screen = getattr(handler, "stream", None) is sys.stderr
        if not (screen and getattr(handler, "anyrig", False)):
            continue
        if as_json:
            handler.setFormatter(JsonLines())
            handler.setLevel(min(handler.level, logging.INFO))
    if as_json:
        for name in ("anyrig.requests", "anyrig.server", "anyrig.jobs"):
            logging.getLogger(name).setLevel(min(root.level, logging.INFO))
    logging.getLogger("uvicorn.error").addFilter(_Refused())
    if verbose < 2:
        for name in ("uvicorn.error", "httpx", "httpcore", "asyncio", "engineio", "socketio"):
            logging.getLogger(name).setLevel(logging.WARNING)
        for name in ("websockets", "python_multipart"):  # what clients get wrong is theirs
            logging.getLogger(name).setLevel(logging.ERROR)


def _time(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"
