"""JSON bodies of requests, parsed by pydantic-core and validated once.

    routes = APIRouter(route_class=JsonRoute)     # FastAPI gets the model, already validated
    body = await read_model(EmbeddingsRequest, request)

Long bodies are parsed and validated in a thread. Both are bounded: how many values there are is
counted before an object is made of any of them, and lists stop at their first invalid item.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Annotated, Any, TypeVar

import anyio
from anyio import to_thread
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic_core import from_json

from anyrig.errors import LimitExceededError
from anyrig.server.errors import is_json

M = TypeVar("M", bound=BaseModel)
LONG_BYTES = 256 << 10
"""Up to here a body is parsed on the event loop: that takes a millisecond or two."""
MAX_VALUES = 2_000_000
"""Texts, numbers, lists and objects in one body: each is an object of many bytes."""
MAX_FIELDS = 1000
"""Of the body's outermost object."""
_MAX_ERRORS = 1000
_AT_ONCE = 2
"""Long bodies that are parsed at a time: each holds the interpreter for a moment."""
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NUMBER_SHAPES = bytes.maketrans(b"123456789E", b"000000000e")
_HUGE_NUMBERS = (b"e000", b"e+000", b"0" * 309)
"""What a number past all floats contains, its digits as zeros."""
_CHUNK_BYTES = 1 << 20
_PIECE = 4096
_dumps = partial(json.dumps, ensure_ascii=False, allow_nan=False)
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def check_name(text: str) -> str:
    """Refuse control characters: a name may be part of a header of the response."""
    if _CONTROL_CHARACTERS.search(text):
        raise ValueError("must not contain control characters")
    return text


PlainName = Annotated[str, AfterValidator(check_name)]


class JsonRoute(APIRoute):
    """A route whose JSON body is read here; FastAPI takes the validated model as it is."""

    def get_route_handler(self) -> Handler:
        usual = super().get_route_handler()
        model: Any = self.body_field.field_info.annotation if self.body_field else None

        async def handle(request: Request) -> Response:
            if model is not None and is_json(request) and await request.body():
                request._json = await read_model(model, request)
            return await usual(request)

        return handle


async def read_model(model: type[M], request: Request) -> M:
    """The body as a model; `RequestValidationError` if it is not JSON or not valid."""
    body = await request.body()
    if len(body) <= LONG_BYTES:
        return _validate(model, body)
    return await to_thread.run_sync(partial(_validate, model, body), limiter=_limiter(request))


def parse(body: bytes | str) -> Any:
    """The value of a JSON text.

    `ValueError` if it is not JSON, `LimitExceededError` if it is too large.

    Stricter than `json.loads`: no NaN or infinity, no lone surrogates, 200 levels of nesting.
    """
    data = body.encode() if isinstance(body, str) else _as_utf8(body)
    if _count_values(data) > MAX_VALUES:
        raise LimitExceededError(
            f"the request has more than {MAX_VALUES:,} values", hint="Send it in several requests."
        )
    value = from_json(data, allow_inf_nan=False)
    if _may_have_infinity(data) and _has_infinity(value):
        raise ValueError("number out of range")
    return value


def dump(value: Any) -> bytes:
    """A value as JSON, encoded in pieces, so that other threads can run in between."""
    return "".join(_dump_pieces(value)).encode("utf-8", "replace")


def _dump_pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values()):
        start = "{"
        for name, one in value.items():
            yield f"{start}{_dumps(str(name))}: "
            yield from _dump_pieces(one)
            start = ", "
        yield "}"
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        start = "["
        for one in value:
            yield start
            yield from _dump_pieces(one)
            start = ", "
        yield "]"
    elif isinstance(value, list) and len(value) > _PIECE:
        start = "["
        for index in range(0, len(value), _PIECE):
            yield start + _dumps(value[index : index + _PIECE])[1:-1]
            start = ", "
        yield "]"
    else:
        yield _dumps(value)


def _validate(model: type[M], body: bytes) -> M:
    try:
        value = parse(body)
    except ValueError as error:
        raise _invalid("json_invalid", str(error)) from None
    if isinstance(value, dict) and len(value) > MAX_FIELDS:
        raise LimitExceededError(
            f"the request has more than {MAX_FIELDS:,} fields", hint="See /docs for the fields."
        )
    try:
        return model.model_validate(value)
    except ValidationError as error:
        if (count := error.error_count()) > _MAX_ERRORS:
            raise _invalid("too_many_errors", f"{count:,} values are not valid") from None
        found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)]
        raise RequestValidationError(found) from None


def _invalid(kind: str, message: str) -> RequestValidationError:
    return RequestValidationError(
        [{"type": kind, "loc": ("body",), "msg": message, "input": {}, "ctx": {"error": message}}]
    )


def _as_utf8(body: bytes) -> bytes:
    encoding = json.detect_encoding(body)
    if encoding == "utf-8":
        return body
    try:
        return body.decode(encoding).encode()
    except UnicodeError:
        raise ValueError(f"the text is not valid {encoding.upper()}") from None


def _count_values(data: bytes) -> int:
    """The number of values of a JSON text, at least if there are too many."""
    most = _count_separators(data)
    if most <= MAX_VALUES:
        return most
    # Commas and brackets inside of strings do not count: take the strings out and look again.
    data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    num_strings = data.count(b'"') // 2
    if num_strings > 2 * MAX_VALUES:  # each value may have a name
        return num_strings // 2
    return _count_separators(b"".join(data.split(b'"')[::2]))


def _count_separators(data: bytes) -> int:
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def _may_have_infinity(data: bytes) -> bool:
    """Whether a number may be infinite. Chunk by chunk: other threads can run in between."""
    for start in range(0, len(data), _CHUNK_BYTES):
        overlap = len(_HUGE_NUMBERS[-1])
        chunk = data[start : start + _CHUNK_BYTES + overlap].translate(_NUMBER_SHAPES)
        if any(one in chunk for one in _HUGE_NUMBERS):
            return True
    return False


def _has_infinity(value: Any) -> bool:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, float):
            if math.isinf(one):
                return True
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return False


def _limiter(request: Request) -> anyio.CapacityLimiter:
    state = request.app.state
    if not hasattr(state, "json_limiter"):
        state.json_limiter = anyio.CapacityLimiter(_AT_ONCE)
    found: anyio.CapacityLimiter = state.json_limiter
    return found
