"""Files that were sent."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from anyrig.server.uploads import Upload

EXAMPLE: dict[str, Any] = {
    "id": "9f0c1e2d3b4a59687786950413223140",
    "name": "A short book.epub",
    "size": 48213,
    "kind": "epub",
    "made_at": 1794700800.5,
}


class UploadedFile(BaseModel):
    """A file that was sent; elsewhere it is named by `upload:ID`."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: str = Field(description="Named elsewhere as `upload:ID`.")
    name: str = Field(description="What its sender called it, fit to be shown.")
    size: int = Field(description="In bytes.", ge=0)
    kind: str = Field(description="Told by its content: epub, pdf, wav, ...; `other` if unknown.")
    made_at: float = Field(description="Seconds since 1970.")


class UploadedFiles(BaseModel):
    """Files that were sent."""

    files: list[UploadedFile]


def shown(upload: Upload) -> UploadedFile:
    """The answer for one."""
    return UploadedFile(
        id=upload.id, name=upload.name, size=upload.size, kind=upload.kind, made_at=upload.made_at
    )
