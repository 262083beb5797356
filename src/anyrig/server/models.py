"""Every model that can be asked for here, in OpenAI's form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Literal

from anyrig.recognise.choose import ALL
from anyrig.server.schemas.embeddings import ModelTold
from anyrig.server.state import ServerState

ANSWERED: dict[str, dict[str, Any]] = {
    "X-Anyrig-Model": {"description": "The model that answered.", "schema": {"type": "string"}},
    "X-Anyrig-Note": {"description": "That it stood in for one of OpenAI's.",
                      "schema": {"type": "string"}},
}  # fmt: skip
"""Headers of every route that takes a model."""


def stood_in(asked: str, answered: str) -> str:
    """What `X-Anyrig-Note` says."""
    return f"{asked} is not on this machine; {answered} answered"


def told_models(server: ServerState) -> list[ModelTold]:
    """Speech, embeddings, transcription; of two with one name the first. Call it in a thread."""
    found: dict[str, ModelTold] = {}
    for one in (*_of("speech", server), *_of("embedding", server), *_hearing()):
        found.setdefault(one.id, one)
    return list(found.values())


def _of(kind: Literal["speech", "embedding"], server: ServerState) -> Iterator[ModelTold]:
    rows: Any = (server.speech if kind == "speech" else server.embedding).models()
    for row in rows:
        yield ModelTold(id=row["id"], kind=kind, details=_details(row))


def _details(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "id"}


def _hearing() -> Iterator[ModelTold]:
    for kind in ALL:
        if all(find_spec(module) is not None for module in kind.modules):
            yield ModelTold(
                id=kind.name, kind="transcription", details={"languages": sorted(kind.languages)}
            )
