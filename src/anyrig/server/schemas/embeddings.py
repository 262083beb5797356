"""Vectors and models as OpenAI's interface has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from anyrig.server.schemas import PlainName

Token = Annotated[int, Field(strict=True, ge=0, lt=1 << 31)]
Texts = Annotated[list[str], Field(fail_fast=True)]
Tokens = Annotated[list[Token], Field(fail_fast=True)]
ManyTokens = Annotated[list[Tokens], Field(fail_fast=True)]


class EmbeddingsAsked(BaseModel):
    """Texts whose vectors are wanted."""

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
        None, ge=1, strict=True, description="So many numbers are kept, and the vector made long 1."
    )
    user: str | None = Field(None, description="Taken and not used.")
    use: Literal["passage", "query"] = Field(
        "passage", description="What for: some models want other words before a question."
    )
    lane: Literal["live", "bulk"] = Field(
        "live", description="`bulk` waits behind those for whom a person waits."
    )


class Vector(BaseModel):
    """The vector of one text."""

    object: Literal["embedding"] = "embedding"
    index: int = Field(ge=0, description="Which text of the request.")
    embedding: list[float] | str


class Usage(BaseModel):
    """The texts' tokens, those at the ends not counted."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(BaseModel):
    """A vector for each text, in order."""

    object: Literal["list"] = "list"
    data: list[Vector]
    model: str = Field(description="The model that made them.")
    usage: Usage


class ModelTold(BaseModel):
    """A model that can be asked for here."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "anyrig"
    kind: Literal["speech", "embedding", "transcription"]
    details: dict[str, Any] = Field(default_factory=dict)


class ModelsTold(BaseModel):
    """All of them."""

    object: Literal["list"] = "list"
    data: list[ModelTold]
