"""Transcriptions, as OpenAI's interface has them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

FORMS = ("json", "text", "srt", "vtt", "verbose_json")


class Usage(BaseModel):
    """What was heard."""

    type: str = "duration"
    seconds: float


class Transcription(BaseModel):
    """The text of a recording. `verbose_json` has the rest as well."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {"text": "It was ten past nine.", "usage": {"type": "duration", "seconds": 2}}
            ]
        },
    )

    text: str
    usage: Usage
    task: str | None = None
    language: str | None = Field(default=None, description="ISO 639-1.")
    duration: float | None = None
    segments: list[dict[str, Any]] | None = None
    words: list[dict[str, Any]] | None = None
