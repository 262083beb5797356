"""/uploads: files, which other routes name as `upload:ID`."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.access import find_upload, list_uploads
from anyrig.app.uploads import Upload
from anyrig.server.auth import get_client
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.state import ServerState
from anyrig.server.uploads import delete_upload, file_response, receive_form

EXAMPLE: dict[str, Any] = {
    "id": "9f0c1e2d3b4a59687786950413223140",
    "name": "A short book.epub",
    "size": 48213,
    "kind": "epub",
    "made_at": 1794700800.5,
    "purpose": "book",
}


class UploadedFile(BaseModel):
    """An uploaded file."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: str = Field(description="Other routes name the file as `upload:ID`.")
    name: str = Field(description="The client's name for it.")
    size: int = Field(description="In bytes.", ge=0)
    kind: str = Field(
        description="Detected from its content: epub, pdf, wav, ...; `other` if unknown."
    )
    made_at: float = Field(description="Seconds since 1970.")
    purpose: str = Field(description="`book` once it was planned or made as an audiobook.")


class UploadedFiles(BaseModel):
    """Uploaded files."""

    files: list[UploadedFile]


_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "string", "format": "binary"},
                        }
                    },
                }
            }
        },
    }
}
_BYTES = {"type": "string", "format": "binary"}
_Id = Annotated[str, Path(description="As returned by POST /uploads.", examples=[EXAMPLE["id"]])]


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(prefix="/uploads", tags=["uploads"])
    uploads = server.uploads

    @routes.post(
        "", status_code=201, response_model=UploadedFiles, summary="Upload files",
        openapi_extra=_FORM, responses=problem_responses(413, 415, 507),
    )  # fmt: skip
    async def upload(request: Request) -> dict[str, list[Upload]]:
        """Each file is streamed to disk; its kind is detected from its content."""
        form = await receive_form(request, uploads)
        if not form.files:
            raise Problem(400, "the form has no file", hint="curl -F files=@book.epub")
        return {"files": form.files}

    @routes.get("", response_model=UploadedFiles, summary="List uploaded files")
    async def list_all(request: Request) -> dict[str, list[Upload]]:
        """Those of the client's key, the newest first; the scope admin lists all."""
        found = await to_thread.run_sync(list_uploads, server, get_client(request))
        return {"files": found}

    @routes.get("/{id}", response_model=UploadedFile, summary="Describe an uploaded file",
                responses=problem_responses(404))  # fmt: skip
    async def get(request: Request, id: _Id) -> Upload:
        return await to_thread.run_sync(find_upload, server, get_client(request), id)

    @routes.get(
        "/{id}/content", summary="Download an uploaded file", response_class=FileResponse,
        responses={
            200: {"content": {"application/octet-stream": {"schema": _BYTES}}},
            **problem_responses(404, 416),
        },
    )  # fmt: skip
    async def content(request: Request, id: _Id) -> Response:
        """Always as an attachment: it may be a page with scripts."""
        found = await to_thread.run_sync(find_upload, server, get_client(request), id)
        path = await to_thread.run_sync(uploads.path, id)
        return await file_response(request, path, found.name, media_type="application/octet-stream")

    @routes.delete("/{id}", response_model=UploadedFile, summary="Delete an uploaded file",
                   responses=problem_responses(404, 409))  # fmt: skip
    async def delete(request: Request, id: _Id) -> Upload:
        """Refused while an unfinished job needs it."""
        return await to_thread.run_sync(delete_upload, server, get_client(request), id)

    return routes
