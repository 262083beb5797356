"""Texts to vectors, and which models there are: OpenAI's interface."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from anyrig.errors import InvalidInputError, LimitExceededError, WorkError
from anyrig.server.errors import (
    Problem,
    error_status,
    errors_of_field,
    is_json,
    not_json,
    problem_responses,
)
from anyrig.server.json_body import read_model
from anyrig.server.models import told_models
from anyrig.server.schemas.embeddings import (
    EmbeddingsAnswer,
    EmbeddingsAsked,
    ModelsTold,
    ModelTold,
)
from anyrig.server.state import ServerState
from anyrig.server.vectors import shortened, written
from anyrig.server.waiting import Beginning, all_of

AT_ONCE = 32
"""Requests that may be cut into tokens and looked up at once; the others wait their turn."""
_MANY = 64
"""Vectors whose writing as numbers is no longer done on the loop."""
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": EmbeddingsAsked.model_json_schema()}},
    }
}


class Begun(NamedTuple):
    """A request whose texts are on their way."""

    model: str
    note: str
    num_tokens: int
    futures: list[Future[Any]]

    def give_up(self) -> None:
        """Nobody waits for them any more."""
        for future in self.futures:
            future.cancel()


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["embeddings"])
    beginning = Beginning(AT_ONCE)

    @routes.post(
        "/v1/embeddings", summary="Vectors of texts", response_model=EmbeddingsAnswer,
        responses=problem_responses(400, 404, 413, 415, 422, 429, 501, 503), openapi_extra=_BODY,
    )  # fmt: skip
    async def embeddings(request: Request) -> Response:
        """A vector for each text, in order; texts of many clients are embedded together.

        OpenAI's names of models stand for the default model; `X-Anyrig-Model` says which answered.
        """
        asked = await _asked(request)
        begun = await beginning.run(
            partial(_begin, server, asked), server.settings, undo=Begun.give_up
        )
        vectors = await _made(server, begun, request)
        if asked.dimensions is not None:
            vectors = [shortened(one, asked.dimensions) for one in vectors]
        write = partial(
            written, vectors, encoding=asked.encoding_format, model=begun.model,
            num_tokens=begun.num_tokens,
        )  # fmt: skip
        if asked.encoding_format == "float" and len(vectors) > _MANY:
            body = await to_thread.run_sync(write)
        else:
            body = write()
        server.metrics.texts.labels(begun.model).inc(len(vectors))
        return Response(body, headers=_headers(asked, begun), media_type="application/json")

    @routes.get("/v1/models", summary="Models of all kinds", response_model=ModelsTold)
    async def models() -> ModelsTold:
        """Speech engines, embedding models and what hears, as far as they can be used here."""
        return ModelsTold(data=await to_thread.run_sync(partial(told_models, server)))

    @routes.get(
        "/v1/models/{name:path}", summary="One model", response_model=ModelTold,
        responses=problem_responses(404),
    )  # fmt: skip
    async def model(name: str) -> ModelTold:
        """The model of a name of `GET /v1/models`."""
        for one in await to_thread.run_sync(partial(told_models, server)):
            if one.id == name:
                return one
        raise Problem(404, "there is no such model here", hint="GET /v1/models lists them.")

    return routes


async def _made(server: ServerState, begun: Begun, request: Request) -> list[Any]:
    """The vectors; a text that the model fails on is its sender's alone, and no fault of ours."""
    try:
        return await all_of(begun.futures, request, deadline_s=server.settings.deadline_s)
    except WorkError as error:
        if error_status(error) == 503 or server.is_ending:
            raise Problem(503, error.message, hint="Ask again later.") from None
        raise Problem(422, error.message, hint=error.hint) from error


def _headers(asked: EmbeddingsAsked, begun: Begun) -> dict[str, str]:
    found = {"X-Anyrig-Model": _plain(begun.model)}
    if begun.note:
        found["X-Anyrig-Note"] = _plain(begun.note)
    if ignored := [*(["user"] if asked.user else []), *(asked.model_extra or {})]:
        found["X-Anyrig-Ignored"] = _plain(", ".join(ignored[:20]))
    return found


def _plain(text: str) -> str:
    """What may stand in a header."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:500])


async def _asked(request: Request) -> EmbeddingsAsked:
    if not is_json(request):
        raise not_json()
    return await read_model(EmbeddingsAsked, request)


def _begin(server: ServerState, asked: EmbeddingsAsked) -> Begun:
    """Check, count and hand in the texts; it may load the model, and is called in a thread."""
    embedding = server.embedding
    told = embedding.named(asked.model)
    name = str(told["id"])
    if asked.dimensions is not None and asked.dimensions > told["dimension"]:
        raise Problem(
            400, f"{name} has no {asked.dimensions} dimensions", param="dimensions",
            hint=f"It has {told['dimension']}; ask for as many or fewer.",
        )  # fmt: skip
    with errors_of_field("input"):
        texts, num_tokens = _texts(server, asked, name)
    futures = embedding.submit(texts, model=name, use=asked.use, lane=asked.lane)
    return Begun(name, str(told.get("note", "")), num_tokens, list(futures))


def _texts(server: ServerState, asked: EmbeddingsAsked, name: str) -> tuple[list[str], int]:
    """What is to be embedded, and how many tokens that is."""
    embedding, limits = server.embedding, server.settings
    rows = _rows(asked.input)
    if not rows:
        raise InvalidInputError(
            "there is no text in the input", hint="Send a text, or a list of texts."
        )
    if not all(rows):
        raise InvalidInputError(
            "there is an empty text in the input", hint="Leave out what is empty."
        )
    if len(rows) > limits.texts:
        raise LimitExceededError(
            f"{len(rows)} texts in one request", hint=f"Send {limits.texts} at a time at most."
        )
    texts = [one if isinstance(one, str) else embedding.text_of(one, model=name) for one in rows]
    longest = max(len(text) for text in texts)
    if longest > limits.text_characters:
        raise LimitExceededError(
            f"a text of {longest} characters",
            hint=f"Cut it into texts of {limits.text_characters} at most.",
        )
    as_text = [one for one in rows if isinstance(one, str)]
    num_tokens = sum(len(one) for one in rows if isinstance(one, list))
    num_tokens += embedding.tokens(as_text, model=name) if as_text else 0
    return texts, num_tokens


def _rows(given: str | list[str] | list[int] | list[list[int]]) -> list[str | list[int]]:
    """The input as a list, whatever form it has."""
    if isinstance(given, str):
        return [given]
    tokens = [one for one in given if isinstance(one, int)]
    return [tokens] if tokens else [one for one in given if not isinstance(one, int)]
