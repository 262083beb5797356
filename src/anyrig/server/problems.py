"""Errors as RFC 9457 problems: the class of an error names its status, the nearest first."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from anyrig.errors import (
    AnyrigError,
    BrokerUnavailableError,
    DeviceError,
    DeviceNotFoundError,
    InvalidInputError,
    LimitExceededError,
    MissingPackageError,
    ModelNotFoundError,
    OutOfMemoryError,
    OverloadedError,
    PoisonItemError,
    StorageBusyError,
    StorageError,
    WorkersLostError,
    is_disk_full,
)
from anyrig.jobs import JobNotFoundError
from anyrig.server.errors import (
    UploadNotFoundError,
    format_for_http,
    list_invalid_fields,
    replace_surrogates,
)
from anyrig.server.waiting import ClientDisconnected

log = logging.getLogger(__name__)
STATUS: dict[type[AnyrigError], int] = {
    JobNotFoundError: 404,
    DeviceNotFoundError: 404,
    UploadNotFoundError: 404,
    ModelNotFoundError: 404,
    LimitExceededError: 413,
    InvalidInputError: 400,
    PoisonItemError: 422,
    OverloadedError: 429,
    MissingPackageError: 501,
    OutOfMemoryError: 503,
    DeviceError: 503,
    BrokerUnavailableError: 503,
    WorkersLostError: 503,
    StorageBusyError: 503,
    StorageError: 507,
}
RETRY_AFTER_S = 5
CLIENT_LEFT = 499
MEDIA_TYPE = "application/problem+json"
WORDS = {
    400: "What was sent cannot be used", 401: "A key is needed", 403: "The key may not do that",
    404: "There is no such thing", 405: "That is not done here", 406: "No such form of answer",
    408: "The request took too long to come", 409: "It cannot be done now",
    413: "More was sent than is taken", 415: "Not a form that is taken",
    416: "No such range", 421: "Not the server that was asked for",
    422: "What was sent does not fit the description",
    426: "A WebSocket is needed", 429: "Too much waits already",
    431: "The head of the request is too long", 500: "Something unforeseen went wrong",
    501: "Something is not installed", 503: "Not now", 504: "It took too long",
    507: "The disk is full",
}  # fmt: skip
_KINDS = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    429: "rate_limit_error",
}  # fmt: skip


_HINTS = {
    405: "See /docs for what may be done there.",
    408: "Send it again.",
    413: "Send less at once, or raise server.body_mb or server.upload_mb.",
}


class Problem(Exception):
    """A refusal with a status of its own.

    Args:
        status: of HTTP.
        title: what is wrong, without anything the user sent at length.
        hint: what to do next.
        param: the field that it is about, for clients of OpenAI's interface.
        more: further members of the answer; `headers` are headers.
    """

    def __init__(
        self, status: int, title: str, *, hint: str, param: str | None = None, **more: Any
    ) -> None:
        super().__init__(title)
        self.status, self.title, self.hint = status, title, hint
        self.param, self.more = param, more


@contextmanager
def about(param: str) -> Iterator[None]:
    """Whatever is wrong within the block with what was sent is wrong with this field of it."""
    try:
        yield
    except InvalidInputError as error:
        title, hint = format_for_http(error.message), format_for_http(error.hint)
        raise Problem(status_of(error), title, hint=hint, param=param) from error


def status_of(error: AnyrigError) -> int:
    """Of the nearest class that has one."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def body_of(
    status: int, title: str, hint: str, param: str | None = None, **more: Any
) -> dict[str, Any]:
    """What a problem says. `error` is for clients of OpenAI's interface, which read only that."""
    usual = "invalid_request_error" if status < 500 else "server_error"
    with suppress(ValueError):  # a word of the framework's: ours say more
        title = WORDS.get(status, title) if title == HTTPStatus(status).phrase else title
    title, hint = replace_surrogates(title), replace_surrogates(hint)
    return {
        "type": "about:blank", "title": title, "status": status, "detail": hint, "hint": hint,
        "error": {"message": f"{title}. {hint}", "type": _KINDS.get(status, usual),
                  "param": None if param is None else replace_surrogates(param), "code": None},
        **more,
    }  # fmt: skip


def headers_of(status: int) -> dict[str, str]:
    """Headers that a status asks for."""
    if status in (429, 503):
        return {"Retry-After": str(RETRY_AFTER_S)}
    return {"WWW-Authenticate": 'Bearer realm="anyrig"'} if status == 401 else {}


def problem(status: int, title: str, hint: str, **more: Any) -> JSONResponse:
    """The answer."""
    headers = headers_of(status) | more.pop("headers", {})
    return JSONResponse(
        body_of(status, title, hint, **more), status, headers, media_type=MEDIA_TYPE
    )


def of(error: Exception, *, log_texts: bool = False) -> JSONResponse:
    """The answer to any error; what was not foreseen is told to the log alone.

    Args:
        error: what was raised.
        log_texts: whether the log may hold what an error says, which may quote a user's text.
    """
    if isinstance(error, Problem):
        return problem(error.status, error.title, error.hint, param=error.param, **error.more)
    if is_disk_full(error):
        log.error("no space left on device")
        return problem(507, "no space left on the server's disk", "Free some space on the server.")
    if isinstance(error, AnyrigError):
        status = status_of(error)
        if status == 500:
            _tell(error, log_texts)
        hint = (
            "GET /jobs lists them."
            if isinstance(error, JobNotFoundError)
            else format_for_http(error.hint)
        )
        return problem(status, format_for_http(error.message), hint, param=error.option or None)
    if isinstance(error, HTTPException):
        status = error.status_code
        hint = _HINTS.get(status, "See /docs for what there is.")
        return problem(status, str(error.detail), hint, headers=dict(error.headers or {}))
    _tell(error, log_texts)
    return problem(500, "something unforeseen went wrong", "The server's log has the story.")


def _tell(error: BaseException, log_texts: bool) -> None:
    """Where an error came from; what it says only where the settings allow it."""
    where = "".join(traceback.format_tb(error.__traceback__))
    said = str(error) if log_texts else "(server.log_texts shows what it says)"
    log.error("%s: %s\n%s", type(error).__name__, said, where.rstrip())
    if error.__cause__ is not None:
        _tell(error.__cause__, log_texts)


def event_of(error: Exception) -> dict[str, Any]:
    """What a stream says that broke after its answer had begun."""
    found: dict[str, Any] = json.loads(bytes(of(error).body))
    return found


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For `responses` of a route: problems with these statuses."""
    schema = {"$ref": "#/components/schemas/Problem"}
    found: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        found[status] = {
            "description": WORDS.get(status, "A problem"),
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        if status in (429, 503):
            found[status]["headers"] = {
                "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}
            }
    return found


def everywhere() -> dict[int | str, dict[str, Any]]:
    """Problems that any route may answer with."""
    found = answers(400, 401, 403, 413, 421, 422, 429, 500, 503, 507)
    found["default"] = {"description": "A problem", "content": answers(400)[400]["content"]}
    return found


PROBLEM_SCHEMA: Mapping[str, Any] = {
    "title": "Problem",
    "description": "What went wrong, as RFC 9457 has it, and what to do next.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "hint", "error"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string", "description": "What went wrong."},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "hint": {"type": "string", "description": "What to do next."},
        "errors": {"type": "array", "items": {"type": "object"}},
        "error": {
            "type": "object",
            "description": "The same for clients of OpenAI's interface.",
            "required": ["message", "type"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        },
    },
    "example": body_of(404, "there is no such upload", "GET /uploads lists what is kept."),
}


def install(app: FastAPI) -> None:
    """Answer every error of the app with a problem."""

    @app.exception_handler(RequestValidationError)
    async def _unreadable(request: Request, error: RequestValidationError) -> JSONResponse:
        return _misfit(request, error)

    async def _any(request: Request, error: Exception) -> JSONResponse:
        return of(error, log_texts=app.state.server.settings.log_texts)

    @app.exception_handler(ClientDisconnected)
    async def _left(request: Request, error: ClientDisconnected) -> Response:
        return Response(status_code=CLIENT_LEFT)  # nobody reads it

    for kind in (AnyrigError, Problem, HTTPException, Exception):
        app.add_exception_handler(kind, _any)


def _misfit(request: Request, error: RequestValidationError) -> JSONResponse:
    """What does not fit, field by field."""
    whole = any(one["loc"] == ("body",) and one["type"] != "missing" for one in error.errors())
    if whole and not is_json(request):
        return of(not_json())
    found = list_invalid_fields(error.errors())
    unread = any(one["type"] == "json_invalid" for one in error.errors())
    hint = "Send one JSON value, whole." if unread else "See /docs for what is taken."
    return problem(
        400 if unread else 422, found[0].title, hint, param=found[0].field or None,
        errors=[one._asdict() for one in found],
    )  # fmt: skip


def is_json(request: Request) -> bool:
    """Whether a body says of itself that it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def not_json() -> Problem:
    """The answer to one that does not."""
    return Problem(
        415, "the request is not JSON", hint="Send Content-Type: application/json, and JSON."
    )
