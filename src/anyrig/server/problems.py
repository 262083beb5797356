"""Errors as RFC 9457 problems: the class of an error names its status, the nearest first."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from anyrig.errors import (
    AnyrigError,
    BadInput,
    DeviceError,
    MissingPackage,
    NoSuchDevice,
    OutOfMemory,
    PastLimit,
    TooBusy,
)
from anyrig.jobs import NoSuchJob

log = logging.getLogger(__name__)
STATUS: dict[type[AnyrigError], int] = {
    NoSuchJob: 404,
    NoSuchDevice: 404,
    PastLimit: 413,
    BadInput: 400,
    TooBusy: 429,
    MissingPackage: 501,
    OutOfMemory: 503,
    DeviceError: 503,
}
RETRY_AFTER_S = 5


class Problem(Exception):
    """A refusal with a status of its own."""

    def __init__(self, status: int, title: str, *, hint: str, **more: Any) -> None:
        super().__init__(title)
        self.status, self.title, self.hint, self.more = status, title, hint, more


def status_of(error: AnyrigError) -> int:
    """Of the nearest class that has one."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def problem(status: int, title: str, hint: str, **more: Any) -> JSONResponse:
    """The answer. `error` is there for clients of OpenAI's interface, which read only that."""
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status in (429, 503) else {}
    headers |= more.pop("headers", {})
    body = {
        "type": "about:blank", "title": title, "status": status, "detail": hint, "hint": hint,
        "error": {"message": f"{title}. {hint}", "type": _KINDS.get(status, "server_error"),
                  "param": None, "code": None},
        **more,
    }  # fmt: skip
    return JSONResponse(body, status, headers, media_type="application/problem+json")


_KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
    404: "not_found_error", 413: "invalid_request_error", 415: "invalid_request_error",
    422: "invalid_request_error", 429: "rate_limit_error",
}  # fmt: skip


def install(app: FastAPI) -> None:
    """Answer every error of the app with a problem."""

    @app.exception_handler(AnyrigError)
    async def _ours(request: Request, error: AnyrigError) -> JSONResponse:
        return problem(status_of(error), error.message, error.hint)

    @app.exception_handler(Problem)
    async def _refused(request: Request, error: Problem) -> JSONResponse:
        return problem(error.status, error.title, error.hint, **error.more)

    @app.exception_handler(RequestValidationError)
    async def _unreadable(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        found = [{"where": list(one["loc"]), "said": one["msg"]} for one in error.errors()]
        return problem(
            422, f"{where}: {first['msg']}", "See /docs for what is taken.", errors=found
        )

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        hint = "See /docs for what there is."
        return problem(error.status_code, str(error.detail), hint, headers=headers)

    @app.exception_handler(Exception)
    async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
        log.exception("%s %s failed", request.method, request.url.path)
        return problem(500, "something unforeseen went wrong", "The server's log has the story.")
