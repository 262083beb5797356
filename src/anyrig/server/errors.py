"""Errors over HTTP: RFC 9457 problems, which clients of the OpenAI API can read as well.

The class of an error decides its status. Options are named as fields of a request.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from anyrig.app.access import hide_folders
from anyrig.app.uploads import UploadNotFoundError
from anyrig.errors import (
    AnyrigError,
    BrokerUnavailableError,
    DeviceError,
    DeviceNotFoundError,
    InvalidInputError,
    LanguageModelError,
    LimitExceededError,
    MissingPackageError,
    ModelNotFoundError,
    OutOfMemoryError,
    OverloadedError,
    PoisonItemError,
    StorageBusyError,
    StorageError,
    WorkersLostError,
    is_access_refused,
    is_disk_full,
    render,
)
from anyrig.jobs import JobNotFoundError
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
    LanguageModelError: 502,
    BrokerUnavailableError: 503,
    WorkersLostError: 503,
    StorageBusyError: 503,
    StorageError: 507,
}
"""The nearest class of an error that is in it gives the status; 500 otherwise."""
RETRY_AFTER_S = 5
CLIENT_CLOSED_REQUEST = 499
TOO_LARGE_HINT = (
    "Send less at once, or raise server.text_characters, server.body_mb or server.upload_mb."
)
MEDIA_TYPE = "application/problem+json"
_OPENAI_TYPES = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    429: "rate_limit_error",
}  # fmt: skip
_HINTS = {
    405: "See /docs for the methods of this path.",
    408: "Send the request again.",
    413: TOO_LARGE_HINT,
}


class Problem(Exception):
    """An error response with a status of its own.

    Args:
        status: of HTTP.
        title: what is wrong, without long quotes of what the client sent.
        hint: what to do next.
        param: the field that it is about, for clients of the OpenAI API.
        more: further members of the response; `headers` are headers.
    """

    def __init__(
        self, status: int, title: str, *, hint: str, param: str | None = None, **more: Any
    ) -> None:
        self.status, self.title, self.hint = status, render(title, "http"), render(hint, "http")
        super().__init__(self.title)
        self.param, self.more = param, more


@contextmanager
def errors_of_field(param: str) -> Iterator[None]:
    """Name the field in the response to an `InvalidInputError` that the block raises."""
    try:
        yield
    except InvalidInputError as error:
        raise Problem(error_status(error), error.message, hint=error.hint, param=param) from error


def error_status(error: AnyrigError) -> int:
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which a client may send and which cannot be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8")


# -- responses -------------------------------------------------------------------------------------


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def problem_body(
    status: int, title: str, hint: str, param: str | None = None, **more: Any
) -> dict[str, Any]:
    """The JSON of a problem. `error` is for clients of the OpenAI API, which read only that."""
    default_type = "invalid_request_error" if status < 500 else "server_error"
    if title == _phrase(status):  # as starlette and the page's framework have it
        title = title.capitalize()
    title, hint = (replace_surrogates(render(text, "http")) for text in (title, hint))
    return {
        "type": "about:blank", "title": title, "status": status, "detail": hint, "hint": hint,
        "error": {
            "message": f"{title}. {hint}",
            "type": _OPENAI_TYPES.get(status, default_type),
            "param": None if param is None else replace_surrogates(param),
            "code": None,
        },
        **more,
    }  # fmt: skip


class ProblemResponse(JSONResponse):
    """A response that still has its JSON as a value."""

    media_type = MEDIA_TYPE

    def __init__(self, body: dict[str, Any], status: int, headers: Mapping[str, str]) -> None:
        super().__init__(body, status, headers)
        self.problem = body


def problem_response(status: int, title: str, hint: str, **more: Any) -> ProblemResponse:
    """Build the response of a problem; `headers` are added to those of its status."""
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = str(RETRY_AFTER_S)
    elif status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="anyrig"'
    headers |= more.pop("headers", {})
    return ProblemResponse(problem_body(status, title, hint, **more), status, headers)


def error_response(error: Exception, *, log_texts: bool = False) -> ProblemResponse:
    """Build the response to any error; only the log gets unexpected ones.

    Args:
        error: what was raised.
        log_texts: whether the log may contain the error's message, which may quote a user's text.
    """
    if isinstance(error, Problem):
        return problem_response(
            error.status, error.title, error.hint, param=error.param, **error.more
        )
    if is_disk_full(error):
        log.error("no space left on device")
        return problem_response(507, "the server's disk is full", "Free some space on the server.")
    if isinstance(error, AnyrigError):
        status = error_status(error)
        if status == 500:
            _log_error(error, log_texts)
        hint = error.hint
        if isinstance(error, JobNotFoundError):
            hint = "GET /jobs lists them."
        return problem_response(status, error.message, hint, param=error.option or None)
    if isinstance(error, HTTPException):
        status = error.status_code
        hint = _HINTS.get(status, "See /docs for the available paths.")
        headers = dict(error.headers or {})
        return problem_response(status, str(error.detail), hint, headers=headers)
    if is_access_refused(error):
        log.error("the server may not read or write its data: %s", error.strerror)
        return problem_response(
            507, "the server may not read or write its data",
            "Check the permissions of the server's data folder, and whether its disk is read-only.",
        )  # fmt: skip
    _log_error(error, log_texts)
    return problem_response(500, "internal server error", "See the server's log for details.")


def error_event(error: Exception) -> dict[str, Any]:
    """The last event of a stream that failed after its response had begun."""
    return error_response(error).problem


def _log_error(error: BaseException, log_texts: bool) -> None:
    trace = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    message = str(error) if log_texts else "(message hidden, see server.log_texts)"
    log.error("%s: %s\n%s", type(error).__name__, message, trace)
    if error.__cause__ is not None:
        _log_error(error.__cause__, log_texts)


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error of an app with a problem."""

    @app.exception_handler(RequestValidationError)
    async def _validation(request: Request, error: RequestValidationError) -> JSONResponse:
        return _validation_response(request, error)

    @app.exception_handler(ClientDisconnected)
    async def _answer_disconnected_client(request: Request, error: ClientDisconnected) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    async def _any(request: Request, error: Exception) -> JSONResponse:
        from anyrig.server.auth import get_client

        server = app.state.server
        response = error_response(error, log_texts=server.settings.log_texts)
        shown = hide_folders(server.rig, get_client(request), response.problem)
        response.body = response.render(shown)
        response.headers["content-length"] = str(len(response.body))
        return response

    for kind in (AnyrigError, Problem, HTTPException, Exception):
        app.add_exception_handler(kind, _any)


# -- descriptions for /openapi.json ----------------------------------------------------------------


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe problems with these statuses, for `responses` of a route."""
    schema = {"$ref": "#/components/schemas/Problem"}
    found: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        found[status] = {
            "description": _phrase(status).capitalize(),
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        if status in (429, 503):
            found[status]["headers"] = {
                "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}
            }
    return found


def common_responses() -> dict[int | str, dict[str, Any]]:
    """Problems that any route may answer with."""
    found = problem_responses(400, 401, 403, 413, 421, 422, 429, 500, 503, 507)
    return {**found, "default": {"description": "A problem", "content": found[400]["content"]}}


PROBLEM_SCHEMA: Mapping[str, Any] = {
    "title": "Problem",
    "description": "What went wrong, as in RFC 9457, and what to do next.",
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
            "description": "The same for clients of the OpenAI API.",
            "required": ["message", "type"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        },
    },
    "example": problem_body(404, "upload not found", "GET /uploads lists them."),
}


# -- invalid bodies --------------------------------------------------------------------------------


class InvalidField(NamedTuple):
    """A field of a request that is not valid."""

    where: list[str]
    """`body`, then the names of fields, from the outside in."""
    message: str

    @property
    def field(self) -> str:
        """Its name; empty if it is the body as a whole."""
        return ".".join(self.where[1:])

    @property
    def title(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


_NOT_AN_OBJECT = "the body must be a JSON object"
_BODY_MESSAGES = {
    "missing": "the body is empty", "model_attributes_type": _NOT_AN_OBJECT,
    "model_type": _NOT_AN_OBJECT, "dict_type": _NOT_AN_OBJECT,
}  # fmt: skip
_FIELD_MESSAGES = {
    "missing": "is required", "extra_forbidden": "unknown field",
    **dict.fromkeys(
        ("model_type", "model_attributes_type", "dict_type"), "should be a valid object"
    ),
}  # fmt: skip
_TOO_SHORT = ("string_too_short", "too_short")
_TYPE_PREFIXES = ("Input ", "String ", "List ", "Dictionary ")
_UNION_MEMBER = re.compile(
    r"(str|int|float|bool|none|constrained-\w+|(list|dict|function-\w+)\[.*|[A-Z]\w*)"
)
"""A part of an error's location that only names which type of a union was tried."""


def list_invalid_fields(errors: Sequence[Mapping[str, Any]], limit: int = 20) -> list[InvalidField]:
    """Errors of pydantic by field, without the values, which may be long or secret."""
    found: dict[tuple[str, ...], list[str]] = {}
    of_right_type: set[tuple[str, ...]] = set()
    for error in errors:
        location, message = _describe(error)
        # The value has one type of a union: that it has none of the others is no help.
        if not error["type"].endswith("_type") and location not in of_right_type:
            of_right_type.add(location)
            found[location] = []
        elif error["type"].endswith("_type") and location in of_right_type:
            continue
        messages = found.setdefault(location, [])
        if message not in messages:
            messages.append(message)
    fields = list(found.items())[:limit]
    return [InvalidField(list(location), _join(messages)) for location, messages in fields]


def _describe(error: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    place = [replace_surrogates(str(part)) for part in error["loc"]]
    message = replace_surrogates(str(error["msg"]))
    if error["type"] == "json_invalid":
        reason = replace_surrogates(str(error.get("ctx", {}).get("error", "")))
        return (place[0] if place else "body",), f"the body is not valid JSON: {reason or message}"
    if len(place) == 1 and error["type"] in _BODY_MESSAGES:
        return (place[0],), _BODY_MESSAGES[error["type"]]
    message = _FIELD_MESSAGES.get(error["type"], message)
    if error["type"] in _TOO_SHORT and error["ctx"]["min_length"] == 1:
        message = "must not be empty"
    for prefix in ("Value error, ", "Assertion failed, ", *_TYPE_PREFIXES):
        message = message.removeprefix(prefix)
    first, rest = place[:1], place[1:]
    return (*first, *(part for part in rest if not _UNION_MEMBER.fullmatch(part))), message


def _join(messages: Sequence[str]) -> str:
    """`should be a valid string or a valid array`."""
    start = "should be "
    if len(messages) > 1 and all(message.startswith(start) for message in messages):
        return start + " or ".join(message.removeprefix(start) for message in messages)
    return "; or ".join(messages)


def _validation_response(request: Request, error: RequestValidationError) -> JSONResponse:
    errors = error.errors()
    is_whole = any(one["loc"] == ("body",) and one["type"] != "missing" for one in errors)
    if is_whole and not is_json(request):
        return error_response(not_json())
    fields = list_invalid_fields(errors)
    is_unreadable = any(one["type"] == "json_invalid" for one in errors)
    hint = "Send one complete JSON value." if is_unreadable else "See /docs for the fields."
    return problem_response(
        400 if is_unreadable else 422, fields[0].title, hint, param=fields[0].field or None,
        errors=[field._asdict() for field in fields],
    )  # fmt: skip


def is_json(request: Request) -> bool:
    """Whether the Content-Type of a request is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def not_json() -> Problem:
    return Problem(
        415, "the request is not JSON", hint="Send JSON with Content-Type: application/json."
    )
