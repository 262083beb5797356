"""JSON that was sent, read so that nobody else waits for it.

    asked = await read(EmbeddingsAsked, request)
    routes = APIRouter(route_class=Unhurried)

Short bodies are read where they come. Long ones are read in a thread; but a thread is not enough,
as a parser that is one call keeps Python from doing anything else until it returns. So they are
read in steps, each a text or some thousand numbers, between which others have their turn.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Coroutine
from functools import partial
from json import JSONDecodeError
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)
LONG_BYTES = 256 << 10
"""Read at once up to here: that takes a millisecond or two."""
MOST_VALUES = 4_000_000
"""In one body. Every text and number is an object of many bytes, and checked one by one."""
_AT_ONCE = 2
"""Long bodies that are read at a time: each has as much of the interpreter as the loop."""
_STEP = 64 << 10
_DEEPEST = 100
_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\[\]{}]+')
_HALF = re.compile("[\ud800-\udfff]")
_leaf = json.JSONDecoder().raw_decode
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Unhurried(APIRoute):
    """A route whose body may be long."""

    def get_route_handler(self) -> Handler:
        """The usual handler, given a request that is read in steps."""
        usual = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await usual(_Long(request.scope, request.receive))

        return handle


class _Long(Request):
    _json: Any

    async def json(self) -> Any:
        body = await self.body()
        if len(body) <= LONG_BYTES:
            return await super().json()
        if not hasattr(self, "_json"):
            self._json = await to_thread.run_sync(loads, body, limiter=_limiter(self))
        return self._json


async def read(model: type[M], request: Request) -> M:
    """The body of a request as a model; what does not fit raises as the model's own check does."""
    body = await request.body()
    if len(body) <= LONG_BYTES:
        return model.model_validate_json(body)
    return await to_thread.run_sync(partial(_checked, model, body), limiter=_limiter(request))


def _checked(model: type[M], body: bytes) -> M:
    try:
        return model.model_validate(loads(body))
    except JSONDecodeError as error:
        wrong = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error",
                 "input": {}, "ctx": {"error": error.msg}}  # fmt: skip
        raise RequestValidationError([wrong]) from None


def _limiter(request: Request) -> anyio.CapacityLimiter:
    """One for the app."""
    state = request.app.state
    if not hasattr(state, "reading"):
        state.reading = anyio.CapacityLimiter(_AT_ONCE)
    found: anyio.CapacityLimiter = state.reading
    return found


def loads(body: bytes) -> Any:
    """As `json.loads`, in steps, and nothing that is no text: half a character is no JSON here.

    `JSONDecodeError` where it is none; 413 for too many values.
    """
    encoding = json.detect_encoding(body)
    pieces = (body[start : start + _STEP] for start in range(0, len(body), _STEP))
    try:
        return _Reader("".join(codecs.iterdecode(pieces, encoding))).whole()
    except UnicodeDecodeError as error:
        raise JSONDecodeError(f"Not {encoding}", "", error.start) from None


class _Reader:
    """Walks through a text; each step answers a value and the place behind it."""

    def __init__(self, text: str) -> None:
        self._text, self._num_values = text, 0

    def whole(self) -> Any:
        """The one value that the text is."""
        value, at = self._value(self._skip(0), 0)
        if (at := self._skip(at)) != len(self._text):
            raise JSONDecodeError("Extra data", self._text, at)
        return value

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        self._count(1)
        sign = self._text[at : at + 1]
        if sign in ("[", "{"):
            if depth >= _DEEPEST:
                raise JSONDecodeError("Nested too deeply", self._text, at)
            inside = self._array if sign == "[" else self._object
            return inside(self._skip(at + 1), depth + 1)
        return self._plain(at)

    def _plain(self, at: int) -> tuple[Any, int]:
        """A text, a number or a word."""
        value, end = _leaf(self._text, at)
        if isinstance(value, str) and not value.isascii() and _HALF.search(value):
            raise JSONDecodeError("Half a character", self._text, at)
        return value, end

    def _array(self, at: int, depth: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        if self._is(at, "]"):
            return values, at + 1
        while True:
            at = self._numbers(at, values)
            value, at = self._value(at, depth)
            values.append(value)
            at, over = self._next(at, "]")
            if over:
                return values, at

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        if self._is(at, "}"):
            return found, at + 1
        while True:
            if not self._is(at, '"'):
                raise JSONDecodeError("Expecting a name in double quotes", self._text, at)
            name, at = self._plain(at)
            if not self._is(at := self._skip(at), ":"):
                raise JSONDecodeError("Expecting ':'", self._text, at)
            found[name], at = self._value(self._skip(at + 1), depth)
            at, over = self._next(at, "}")
            if over:
                return found, at

    def _numbers(self, at: int, values: list[Any]) -> int:
        """Take numbers that follow each other, thousands at a time; the last is left to others."""
        while plain := _PLAIN.match(self._text, at, at + _STEP):
            end = self._text.rfind(",", at, plain.end())
            if end < 0:
                break
            try:
                several = json.loads(f"[{self._text[at:end]}]")
            except JSONDecodeError as error:
                raise JSONDecodeError(error.msg, self._text, at + error.pos - 1) from None
            if not several:
                raise JSONDecodeError("Expecting value", self._text, at)
            values += several
            self._count(len(several))
            at = self._skip(end + 1)
        return at

    def _next(self, at: int, closing: str) -> tuple[int, bool]:
        """Behind a comma, or behind the end of it all."""
        at = self._skip(at)
        if self._is(at, closing):
            return at + 1, True
        if not self._is(at, ","):
            raise JSONDecodeError(f"Expecting ',' or '{closing}'", self._text, at)
        return self._skip(at + 1), False

    def _is(self, at: int, sign: str) -> bool:
        return self._text[at : at + 1] == sign

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        assert found is not None  # of no length at least
        return found.end()

    def _count(self, several: int) -> None:
        self._num_values += several
        if self._num_values > MOST_VALUES:
            raise HTTPException(413, f"over {MOST_VALUES:,} values in one request")
