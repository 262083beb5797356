"""Vectors of texts, as OpenAI's API has them.

A vector of 384 numbers takes `json.dumps` 315 microseconds and 8.4 kB, its numbers with the nine
digits that fp32 has 105 and 5.2 kB, base64 2 and 2 kB.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from concurrent.futures import Future
from functools import lru_cache, partial
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.access import current_client
from anyrig.app.live_embedding import OPENAI_PREFIX, ServedEmbeddingModel
from anyrig.errors import InvalidInputError, LimitExceededError, WorkError
from anyrig.server.errors import (
    Problem,
    error_status,
    errors_of_field,
    is_json,
    not_json,
    problem_responses,
)
from anyrig.server.json_body import PlainName, read_model
from anyrig.server.routes.models import format_substitute, to_header
from anyrig.server.state import ServerState
from anyrig.server.waiting import BoundedStarter, wait_for_all

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_START_THREADS = 32
"""Requests that are tokenized and looked up at once; the others wait their turn."""
_MANY_VECTORS = 64
"""Above so many, writing them as numbers is not done on the event loop."""
Token = Annotated[int, Field(strict=True, ge=0, lt=1 << 31)]
Texts = Annotated[list[str], Field(fail_fast=True)]
Tokens = Annotated[list[Token], Field(fail_fast=True)]
ManyTokens = Annotated[list[Tokens], Field(fail_fast=True)]


class EmbeddingsRequest(BaseModel):
    """Texts to embed."""

    model_config = ConfigDict(
        extra="allow",  # of newer clients: named in a header, not refused
        json_schema_extra={
            "examples": [
                {"model": "minilm", "input": "The sea is calm tonight."},
                {"model": "minilm", "input": ["one text", "another"], "encoding_format": "base64",
                 "dimensions": 128},
            ]
        },
    )  # fmt: skip

    input: str | Texts | Tokens | ManyTokens = Field(
        description="A text, texts, or the model's own tokens of one or more texts."
    )
    model: PlainName = Field("", max_length=500, description="A name of `GET /v1/models`.")
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="Numbers, or their bytes: little-endian fp32 in base64."
    )
    dimensions: int | None = Field(
        None, ge=1, strict=True,
        description="Keep so many numbers, and normalize the vector again.",
    )  # fmt: skip
    user: str | None = Field(None, description="Accepted and not used.")
    use: Literal["passage", "query"] = Field(
        "passage", description="Some models have another prompt for queries."
    )
    lane: Literal["live", "bulk"] = Field(
        "live", description="`bulk` waits behind requests that a person waits for."
    )


class EmbeddingRow(BaseModel):
    """The vector of one text."""

    object: Literal["embedding"] = "embedding"
    index: int = Field(ge=0, description="Which text of the request.")
    embedding: list[float] | str


class EmbeddingsUsage(BaseModel):
    """The texts' tokens, without those at the ends."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """A vector for each text, in order."""

    object: Literal["list"] = "list"
    data: list[EmbeddingRow]
    model: str = Field(description="The model that was used.")
    usage: EmbeddingsUsage


_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": EmbeddingsRequest.model_json_schema()}},
    }
}


class _Started(NamedTuple):
    """A request whose texts are submitted."""

    model: str
    num_tokens: int
    futures: list[Future[Any]]

    def cancel(self) -> None:
        for future in self.futures:
            future.cancel()


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["embeddings"])
    starter = BoundedStarter(_START_THREADS)

    @routes.post(
        "/v1/embeddings", summary="Embed texts", response_model=EmbeddingsResponse,
        responses=problem_responses(400, 404, 413, 415, 422, 429, 501, 503), openapi_extra=_BODY,
    )  # fmt: skip
    async def embed(request: Request) -> Response:
        """A vector for each text, in order; texts of many clients are embedded together.

        OpenAI's model names are the default model; `X-Anyrig-Model` names the one that was used.
        """
        if not is_json(request):
            raise not_json()
        body = await read_model(EmbeddingsRequest, request)
        started = await starter.run(
            partial(_start, server, body, current_client.get().id),
            server.settings,
            undo=_Started.cancel,
        )
        vectors = await _wait(server, started, request)
        if body.dimensions is not None:
            vectors = [shorten_vector(one, body.dimensions) for one in vectors]
        write = partial(
            write_response, vectors, encoding=body.encoding_format, model=started.model,
            num_tokens=started.num_tokens,
        )  # fmt: skip
        if body.encoding_format == "float" and len(vectors) > _MANY_VECTORS:
            data = await to_thread.run_sync(write)
        else:
            data = write()
        server.metrics.texts.labels(started.model).inc(len(vectors))
        headers = _build_headers(body, started)
        return Response(data, headers=headers, media_type="application/json")

    return routes


def _start(server: ServerState, body: EmbeddingsRequest, client: str) -> _Started:
    """Check, count and submit the texts of a key; in a thread, as it may load the model."""
    with errors_of_field("model"):
        found = server.embedding.find_model(body.model)
    dimension = found.model.dimension
    if body.dimensions is not None and body.dimensions > dimension:
        raise Problem(
            400, f"{found.name} has {dimension} dimensions, not {body.dimensions}",
            hint=f"Ask for {dimension} or fewer.", param="dimensions",
        )  # fmt: skip
    with errors_of_field("input"):
        texts, num_tokens = _read_texts(server, body, found)
    futures = server.embedding.submit(
        texts, model=found.name, use=body.use, lane=body.lane, client=client
    )
    return _Started(found.name, num_tokens, futures)


def _read_texts(
    server: ServerState, body: EmbeddingsRequest, model: ServedEmbeddingModel
) -> tuple[list[str], int]:
    """The texts, and how many tokens they have."""
    limits = server.settings
    rows = _list_rows(body.input)
    if not rows:
        raise InvalidInputError("the input is empty", hint="Send a text, or a list of texts.")
    if not all(rows):
        raise InvalidInputError("the input has an empty text", hint="Leave it out.")
    if len(rows) > limits.texts:
        raise LimitExceededError(
            f"the input has {len(rows)} texts", hint=f"Send at most {limits.texts} at once."
        )
    texts = [one if isinstance(one, str) else model.decode_tokens(one) for one in rows]
    longest = max(len(text) for text in texts)
    if longest > limits.text_characters:
        raise LimitExceededError(
            f"the input has a text of {longest} characters",
            hint=f"Split it into texts of at most {limits.text_characters}.",
        )
    as_text = [one for one in rows if isinstance(one, str)]
    num_tokens = sum(len(one) for one in rows if isinstance(one, list))
    num_tokens += model.count_tokens(as_text) if as_text else 0
    return texts, num_tokens


def _list_rows(given: str | list[str] | list[int] | list[list[int]]) -> list[str | list[int]]:
    if isinstance(given, str):
        return [given]
    tokens = [one for one in given if isinstance(one, int)]
    return [tokens] if tokens else [one for one in given if not isinstance(one, int)]


async def _wait(server: ServerState, started: _Started, request: Request) -> list[Vector]:
    """The vectors; a text that crashes the model is an error of its client alone."""
    try:
        deadline_s = server.settings.deadline_s
        blocks = await wait_for_all(started.futures, request, deadline_s=deadline_s)
    except WorkError as error:
        if error_status(error) == 503 or server.is_ending:
            raise Problem(503, error.message, hint="Try again later.") from None
        raise Problem(422, error.message, hint=error.hint) from error
    return [row for block in blocks for row in block]


def _build_headers(body: EmbeddingsRequest, started: _Started) -> dict[str, str]:
    headers = {"X-Anyrig-Model": to_header(started.model)}
    if body.model.startswith(OPENAI_PREFIX) and body.model != started.model:
        headers["X-Anyrig-Note"] = to_header(format_substitute(body.model, started.model))
    if ignored := [*(["user"] if body.user else []), *(body.model_extra or {})]:
        headers["X-Anyrig-Ignored"] = to_header(", ".join(ignored[:20]))
    return headers


# -- writing vectors -------------------------------------------------------------------------------


def shorten_vector(vector: Vector, dimensions: int) -> Vector:
    """The first numbers of a vector, normalized again."""
    if dimensions >= len(vector):
        return vector
    import numpy as np

    cut = vector[:dimensions].astype(np.float64)
    length = float(np.linalg.norm(cut))
    return (cut / length if length else cut).astype(np.float32)


def write_response(
    vectors: Sequence[Vector], *, encoding: Literal["float", "base64"], model: str, num_tokens: int
) -> bytes:
    """An `EmbeddingsResponse` as JSON."""
    write = _write_base64 if encoding == "base64" else _write_numbers
    rows = b",".join(
        b'{"object":"embedding","index":%d,"embedding":%b}' % (number, write(vector))
        for number, vector in enumerate(vectors)
    )
    usage = dumps({"prompt_tokens": num_tokens, "total_tokens": num_tokens}).encode()
    return b'{"object":"list","data":[%b],"model":%b,"usage":%b}' % (
        rows, dumps(model).encode(), usage,
    )  # fmt: skip


def _write_base64(vector: Vector) -> bytes:
    return b'"%b"' % base64.b64encode(vector.astype("<f4", copy=False).tobytes())


def _write_numbers(vector: Vector) -> bytes:
    return (_build_pattern(len(vector)) % tuple(vector.tolist())).encode()


@lru_cache(maxsize=64)
def _build_pattern(count: int) -> str:
    return "[" + ",".join(["%.9g"] * count) + "]"
