"""/voices: voices from samples; for the owner of the server alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from anyrig.app.uploads import Upload
from anyrig.app.voice_samples import (
    AddedVoice,
    AddVoiceRequest,
    SampleOptions,
    add_voice,
    describe_voice,
    remove_sample_voice,
)
from anyrig.errors import AnyrigError, InvalidInputError, MissingPackageError
from anyrig.server.auth import get_client
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.routes.voices import EngineName
from anyrig.server.state import ServerState
from anyrig.server.uploads import UploadForm, receive_form

_VoiceName = Annotated[str, Path(max_length=64, examples=["anna"])]
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "name", "consent_by"],
                    "properties": {
                        "file": {"type": "string", "format": "binary",
                                 "description": "A recording of one person."},
                        "name": {"type": "string", "example": "anna"},
                        "consent_by": {
                            "type": "string", "example": "A. Miller",
                            "description": "Who declares that the speaker agreed to the use of"
                            " their voice; recorded with the time and the sample's hash.",
                        },
                        "engine": {"type": "string", "example": "xtts"},
                        "force": {"type": "boolean",
                                  "description": "Add the voice despite failed checks."},
                    },
                }
            }
        },
    }
}  # fmt: skip


class SampleCheckRow(BaseModel):
    """What a check of the sample found."""

    name: str
    passed: bool | None = Field(description="Null if it was not checked.")
    measured: str
    hint: str


class VoiceFromSample(BaseModel):
    """What is recorded of a voice from a sample."""

    name: str
    engine: str
    file: str
    sample_sha256: str
    consent_by: str
    consent_at: str = Field(description="In UTC, ISO 8601.")
    duration_s: float
    checks: list[SampleCheckRow]
    forced: bool


class VoiceDescription(BaseModel):
    """A voice, and what is recorded of its sample."""

    name: str
    engine: str
    language: str
    title: str
    sample: VoiceFromSample | None


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["speech"])
    limiter = anyio.CapacityLimiter(2)

    @routes.post(
        "/voices", status_code=201, response_model=VoiceFromSample, openapi_extra=_FORM,
        summary="Add a voice from a sample", responses=problem_responses(400, 403, 413, 415, 501),
    )  # fmt: skip
    async def add(request: Request) -> Any:
        """The sample is checked: length, level, clipping, noise, one speaker."""
        form = await receive_form(request, server.uploads, names=("file",), max_files=1)
        try:
            added = await to_thread.run_sync(_add, server, form, limiter=limiter)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(_delete_uploads, server, form.files)
        return added.to_json()

    @routes.get(
        "/voices/{engine}/{voice}", response_model=VoiceDescription, summary="Describe a voice",
        responses=problem_responses(404),
    )  # fmt: skip
    async def show(request: Request, engine: EngineName, voice: _VoiceName) -> Any:
        """For the scope `admin` with what is recorded of its sample: consent, hash, checks."""
        is_owner = get_client(request).sees_all

        def work() -> dict[str, Any]:
            with _not_found():
                found, added = describe_voice(server.rig, voice, SampleOptions(engine=engine))
            sample = added.to_json() if added and is_owner else None
            return {**vars(found), "sample": sample}

        return await to_thread.run_sync(work, limiter=limiter)

    @routes.delete(
        "/voices/{engine}/{voice}", status_code=204, summary="Remove a voice from a sample",
        responses=problem_responses(403, 404),
    )  # fmt: skip
    async def remove(engine: EngineName, voice: _VoiceName) -> None:
        """Its sample and its record are deleted."""

        def work() -> None:
            with _not_found():
                remove_sample_voice(server.rig, voice, SampleOptions(engine=engine))

        await to_thread.run_sync(work, limiter=limiter)

    return routes


def _add(server: ServerState, form: UploadForm) -> AddedVoice:
    if not form.files:
        raise Problem(400, "the form has no file", hint="curl -F file=@me.wav -F name=me ...")
    uploaded = form.files[0]
    request = server.rig.request(
        AddVoiceRequest,
        name=form.value("name"), engine=form.value("engine"), consent_by=form.value("consent_by"),
        sample=server.uploads.path(uploaded.id),
        force=form.value("force").lower() in ("true", "1", "yes", "on"),
    )  # fmt: skip
    return add_voice(server.rig, request, lambda event: None, file_name=uploaded.name)


@contextmanager
def _not_found() -> Iterator[None]:
    try:
        yield
    except (InvalidInputError, MissingPackageError) as error:
        raise Problem(404, error.message, hint=error.hint) from error


def _delete_uploads(server: ServerState, files: list[Upload]) -> None:
    for one in files:
        with suppress(AnyrigError):
            server.uploads.delete(one.id)
