"""`POST /v1/audio/transcriptions`: recordings into text, as OpenAI's interface has it.

The recording is streamed to disk, heard in a worker process, and deleted; nothing of it is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.server.access import Client
from anyrig.server.auth import get_client
from anyrig.server.documents import Desk, while_there
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.hearing import is_openai, model_of
from anyrig.server.models import ANSWERED, stood_in
from anyrig.server.schemas import check_name
from anyrig.server.schemas.events import EVENT
from anyrig.server.schemas.transcriptions import FORMS, Transcription
from anyrig.server.state import ServerState
from anyrig.server.uploads import Upload, UploadForm, receive_form

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_FIELDS = ("file", "model", "language", "response_format", "timestamp_granularities",
           "timestamp_granularities[]", "stream", "prompt", "temperature", "include", "include[]",
           "chunking_strategy")  # fmt: skip
_IGNORED = ("prompt", "temperature", "include", "include[]", "chunking_strategy")
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary",
                                 "description": "wav, flac, mp3, ogg, opus, m4a, mp4, webm, ..."},
                        "model": {"type": "string", "example": "whisper-1",
                                  "description": "Chosen by the language when it is OpenAI's."},
                        "language": {"type": "string", "example": "en",
                                     "description": "Found out when it is not given."},
                        "response_format": {"type": "string", "enum": list(FORMS)},
                        "timestamp_granularities[]": {
                            "type": "array",
                            "items": {"type": "string", "enum": ["segment", "word"]},
                        },
                        "stream": {"type": "boolean"},
                        "prompt": {"type": "string", "description": "Not used."},
                        "temperature": {"type": "number", "description": "Not used."},
                    },
                }
            }
        },
    }
}  # fmt: skip
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "What was said; as text or captions where that was asked for.",
        "headers": {"X-Anyrig-Ignored": {"description": "Fields that were not used.",
                                         "schema": {"type": "string"}}, **ANSWERED},
        "content": {
            "text/plain": {"schema": {"type": "string"}, "example": "It was ten past nine.\n"},
            "text/vtt": {"schema": {"type": "string"}},
            "application/x-subrip": {"schema": {"type": "string"}},
            "text/event-stream": {"schema": EVENT},
        },
    },
    **problem_responses(404, 413, 415, 501, 507),
}  # fmt: skip


def router(server: ServerState) -> APIRouter:
    """The route."""
    routes = APIRouter(tags=["speech"])
    desk = Desk(server)

    @routes.post("/v1/audio/transcriptions", response_model=Transcription, openapi_extra=_BODY,
                 responses=_ANSWERS, summary="Write down what is said in a recording")  # fmt: skip
    async def transcribe(request: Request) -> Response:
        """Each recording is deleted as soon as it was heard.

        With `stream` the text comes as server-sent events once it was heard, segment by segment.
        """
        form = await receive_form(request, server.uploads, names=("file",), max_files=20)
        try:
            wishes = await anyio.to_thread.run_sync(_wishes, server, get_client(request), form)
            path = await anyio.to_thread.run_sync(server.uploads.path, form.files[0].id)
            work = desk.ask("transcribe", {**wishes, "file": str(path)}, lane="bulk")
            heard: dict[str, Any] = await while_there(request, work)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_forget, server, form.files)
        return _answer(form, heard)

    return routes


def _forget(server: ServerState, files: list[Upload]) -> None:
    for one in files:
        with suppress(AnyrigError):
            server.uploads.delete(one.id)


def _wishes(server: ServerState, client: Client, form: UploadForm) -> dict[str, Any]:
    """What a clerk is asked for; `InvalidInputError` for what cannot be had."""
    for name in form.fields:
        if name not in _FIELDS:
            raise InvalidInputError(
                f"there is no field {name[:40]!r}", hint=f"{', '.join(_FIELDS)}."
            )
    if len(form.files) != 1:
        said = "one recording is sent at a time" if form.files else "no recording was sent"
        hint = "Send it as the field `file` of the form: curl -F file=@talk.mp3"
        raise Problem(400, said, hint=hint, param="file")
    form_name, words = _form(form), _words(form)
    if words and form_name != "verbose_json":
        raise InvalidInputError(
            "times of words come with verbose_json", hint="response_format=verbose_json"
        )
    if _streams(form) and form_name not in ("json", "text"):
        raise InvalidInputError(
            f"{form_name} cannot be streamed", hint="Leave stream out, or ask for json."
        )
    try:
        check_name(form.value("model").strip())
    except ValueError as error:
        raise Problem(
            400, f"model: {error}", hint="GET /v1/models lists them.", param="model"
        ) from None
    language = form.value("language").strip()
    if language and not _LANGUAGE.fullmatch(language):
        raise InvalidInputError(
            "that is no language", hint="Such as en or es; found out when left out."
        )
    return {
        "name": form.files[0].name, "language": language,
        "model": model_of(server, client, form.value("model").strip()),
        "words": words, "form": form_name if form_name in ("srt", "vtt") else "",
    }  # fmt: skip


def _form(form: UploadForm) -> str:
    name = form.value("response_format") or "json"
    if name not in FORMS:
        raise InvalidInputError(f"there is no form {name[:40]!r}", hint=f"{', '.join(FORMS)}.")
    return name


def _words(form: UploadForm) -> bool:
    asked = [*form.fields.get("timestamp_granularities[]", ()),
             *form.fields.get("timestamp_granularities", ())]  # fmt: skip
    for one in asked:
        if one not in ("segment", "word"):
            raise InvalidInputError(f"there are no times of {one[:40]!r}", hint="segment or word.")
    return "word" in asked


def _streams(form: UploadForm) -> bool:
    return form.value("stream").lower() in ("true", "1")


def _answer(form: UploadForm, heard: dict[str, Any]) -> Response:
    ignored = [name.removesuffix("[]") for name in _IGNORED if name in form.fields]
    asked, model = form.value("model").strip(), str(heard["model"])
    headers = {"X-Anyrig-Model": model}
    if is_openai(asked):
        headers["X-Anyrig-Note"] = stood_in(asked, model)
    if ignored:
        headers["X-Anyrig-Ignored"] = ", ".join(dict.fromkeys(ignored))
    headers = {name: text.encode("ascii", "replace").decode() for name, text in headers.items()}
    name = _form(form)
    written = heard.pop("written", "")
    usage = {"type": "duration", "seconds": heard["duration"]}
    if _streams(form):
        return StreamingResponse(
            _events(heard, usage), headers=headers, media_type="text/event-stream"
        )
    if name == "text":
        return PlainTextResponse(f"{heard['text']}\n", headers=headers)
    if name == "srt":
        return Response(written, headers=headers, media_type="application/x-subrip; charset=utf-8")
    if name == "vtt":
        return Response(written, headers=headers, media_type="text/vtt; charset=utf-8")
    if name == "verbose_json":
        return JSONResponse({**heard, "usage": usage}, headers=headers)
    return JSONResponse({"text": heard["text"], "usage": usage}, headers=headers)


def _events(heard: Mapping[str, Any], usage: Mapping[str, Any]) -> Iterator[bytes]:
    texts = [str(one.get("text", "")).strip() for one in heard["segments"]]
    whole = " ".join(filter(None, texts))
    for number, text in enumerate(filter(None, texts)):
        yield _event({"type": "transcript.text.delta", "delta": f" {text}" if number else text})
    yield _event({"type": "transcript.text.done", "text": whole, "usage": dict(usage)})


def _event(data: Mapping[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
