"""Books: plans, and chapters as they are made."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_UPLOAD = "9f0c1e2d3b4a59687786950413223140"
_CHAPTER: dict[str, Any] = {
    "number": 3, "title": "One Hand", "level": 2, "words": 141, "seconds": 52.1, "kind": "body",
    "chosen": True,
}  # fmt: skip


class BookAsked(BaseModel):
    """A book that shall be looked at. Further fields are those of a job of the kind `book`."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"file": f"upload:{_UPLOAD}", "rate": 1.1}]},
    )

    file: str = Field(description='As "upload:ID".', max_length=100)
    voice: str | None = Field(default=None, max_length=200)


class PlannedChapter(BaseModel):
    """A chapter of a book."""

    number: int = Field(description="In the book's list of chapters, from 1.")
    title: str
    level: int
    words: int
    seconds: float = Field(description="About how long it will be.")
    kind: str = Field(description="`body`, `title`, `cover`, `contents`, `front`, `back`, `notes`.")
    chosen: bool = Field(description="Whether it is spoken when nothing else is said.")


class BookPlan(BaseModel):
    """What a book will be."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "title": "The Tide Clock", "author": "Ada Example", "language": "en",
                    "format": "epub", "cover": f"/books/cover/{_UPLOAD}", "engine": "kokoro",
                    "voice": "af_heart", "chapters": [_CHAPTER], "words": 141, "audio_s": 52.1,
                    "wall_s": 2.4, "measured": True, "warnings": [],
                }
            ]
        }
    )  # fmt: skip

    title: str
    author: str
    language: str
    format: str
    cover: str | None = Field(description="Where its picture is.")
    engine: str
    voice: str
    chapters: list[PlannedChapter]
    words: int = Field(description="Of the chosen chapters.")
    audio_s: float = Field(description="About how long it will be.")
    wall_s: float | None = Field(description="About how long it takes to make; null if unknown.")
    measured: bool = Field(description="Whether that is by what was measured here, or a guess.")
    warnings: list[str]


class MadeChapter(BaseModel):
    """A chapter on its way."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"number": 3, "title": "One Hand", "state": "done", "seconds": 52.12,
                 "url": "/jobs/k3vq2mzx7a4hn5we/chapters/3"}
            ]
        }
    )  # fmt: skip

    number: int
    title: str
    state: Literal["waiting", "making", "done"]
    url: str | None = Field(description="Where it can be heard, once it is done.")
    seconds: float | None = Field(description="How long it is; null until the book is finished.")


class MadeChapters(BaseModel):
    """The chapters of a book that is being made; empty until the book was opened."""

    chapters: list[MadeChapter]
