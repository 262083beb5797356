"""Models of all kinds that clients may name, in OpenAI's form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from anyrig.errors import MissingPackageError
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.state import ServerState
from anyrig.transcription.models import MOONSHINE, WHISPER_BASE, find_model

MODEL_HEADERS: dict[str, dict[str, Any]] = {
    "X-Anyrig-Model": {
        "description": "The model that was used.", "schema": {"type": "string"},
    },
    "X-Anyrig-Note": {
        "description": "That it was used in place of one of OpenAI's.",
        "schema": {"type": "string"},
    },
}  # fmt: skip
"""Response headers of every route that takes a model."""


class ModelRow(BaseModel):
    """A model that clients may name."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "anyrig"
    kind: Literal["speech", "embedding", "transcription"]
    details: dict[str, Any] = Field(default_factory=dict)


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelRow]


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["models"])

    @routes.get("/v1/models", summary="List models", response_model=ModelList)
    async def list_models() -> ModelList:
        """Speech engines, embedding models and transcription models that can be used here."""
        return ModelList(data=await to_thread.run_sync(_list_models, server))

    @routes.get(
        "/v1/models/{name:path}", summary="Describe a model", response_model=ModelRow,
        responses=problem_responses(404),
    )  # fmt: skip
    async def find_model(name: str) -> ModelRow:
        """A model of `GET /v1/models`."""
        for one in await to_thread.run_sync(_list_models, server):
            if one.id == name:
                return one
        raise Problem(404, "model not found", hint="GET /v1/models lists them.")

    return routes


def format_substitute(requested: str, used: str) -> str:
    """The text of `X-Anyrig-Note`."""
    return f"{requested} is not on this machine; used {used} instead"


def to_header(text: str) -> str:
    """What of a text may stand in a header."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:500])


def _list_models(server: ServerState) -> list[ModelRow]:
    """Of two with the same name, the first."""
    found: dict[str, ModelRow] = {}
    for one in (*_list_speech(server), *_list_embedding(server), *_list_transcription()):
        found.setdefault(one.id, one)
    return list(found.values())


def _list_speech(server: ServerState) -> Iterator[ModelRow]:
    for engine in server.speech.list_engines():
        if engine.is_ready:
            details = {
                "languages": list(engine.languages), "summary": engine.info.summary,
                "voices": [voice.name for voice in engine.voices],
            }  # fmt: skip
            yield ModelRow(id=engine.info.name, kind="speech", details=details)


def _list_embedding(server: ServerState) -> Iterator[ModelRow]:
    for one in server.embedding.list_models():
        model = one.model
        details = {
            "dimension": model.dimension, "longest": model.longest,
            "languages": list(model.languages), "licence": model.licence,
            "default": server.embedding.is_default(one),
        }  # fmt: skip
        yield ModelRow(id=one.name, kind="embedding", details=details)


def _list_transcription() -> Iterator[ModelRow]:
    for model in (MOONSHINE, WHISPER_BASE):
        with suppress(MissingPackageError):
            find_model(model.name)
            details = {"languages": sorted(model.languages)}
            yield ModelRow(id=model.name, kind="transcription", details=details)
