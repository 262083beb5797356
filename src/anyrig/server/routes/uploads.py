"""Files that people send: POST /uploads, then `upload:ID` wherever a file is named."""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import FileResponse

from anyrig.app.access import find_upload, list_uploads
from anyrig.server.auth import get_client
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.routes.uploads import EXAMPLE, UploadedFile, UploadedFiles, shown
from anyrig.server.state import ServerState
from anyrig.server.uploads import delete_upload, file_response, receive_form

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
_Id = Annotated[str, Path(description="As POST /uploads answered it.", examples=[EXAMPLE["id"]])]


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/uploads", tags=["uploads"])
    uploads = server.uploads

    @routes.post(
        "", status_code=201, response_model=UploadedFiles, summary="Send files",
        openapi_extra=_FORM, responses=problem_responses(413, 415, 507),
    )  # fmt: skip
    async def send(request: Request) -> UploadedFiles:
        """Each file is streamed to disk; its kind is told by its content, never by its name."""
        form = await receive_form(request, uploads)
        if not form.files:
            raise Problem(400, "no file was sent", hint="curl -F files=@book.epub")
        return UploadedFiles(files=[shown(one) for one in form.files])

    @routes.get("", response_model=UploadedFiles, summary="List what was sent")
    async def listed(request: Request) -> UploadedFiles:
        """Those that this key sent, the newest first; a key with the scope admin sees all."""
        found = await anyio.to_thread.run_sync(list_uploads, server, get_client(request))
        return UploadedFiles(files=[shown(one) for one in found])

    @routes.get("/{id}", response_model=UploadedFile, summary="What is known of a file",
                responses=problem_responses(404))  # fmt: skip
    async def one(request: Request, id: _Id) -> UploadedFile:
        return shown(await anyio.to_thread.run_sync(find_upload, server, get_client(request), id))

    @routes.get(
        "/{id}/content", summary="The file itself", response_class=FileResponse,
        responses={
            200: {"content": {"application/octet-stream": {"schema": _BYTES}}},
            **problem_responses(404, 416),
        },
    )  # fmt: skip
    async def content(request: Request, id: _Id) -> Response:
        """As it was sent, to be saved and not shown: it may be a page with scripts."""
        found = await anyio.to_thread.run_sync(find_upload, server, get_client(request), id)
        path = await anyio.to_thread.run_sync(uploads.path, id)
        return await file_response(request, path, found.name, media_type="application/octet-stream")

    @routes.delete("/{id}", response_model=UploadedFile, summary="Delete a file for good",
                   responses=problem_responses(404, 409))  # fmt: skip
    async def delete(request: Request, id: _Id) -> UploadedFile:
        """Refused while a job that is not over needs it."""
        return shown(await anyio.to_thread.run_sync(delete_upload, server, get_client(request), id))

    return routes
