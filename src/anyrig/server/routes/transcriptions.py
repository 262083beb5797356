"""`POST /v1/audio/transcriptions`: speech to text, as OpenAI's API has it.

The recording is streamed to disk, transcribed in a worker process, and deleted.
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
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.access import Client, resolve_path
from anyrig.app.files import normalize_format
from anyrig.app.uploads import Upload
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.server.auth import get_client
from anyrig.server.documents import DocumentTasks, run_while_connected
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import check_name
from anyrig.server.openapi import EVENT
from anyrig.server.routes.models import MODEL_HEADERS, format_substitute, to_header
from anyrig.server.state import ServerState
from anyrig.server.uploads import UploadForm, receive_form

FORMATS = ("json", "text", "srt", "vtt", "verbose_json")
_CAPTION_TYPES = {
    "srt": "application/x-subrip; charset=utf-8", "vtt": "text/vtt; charset=utf-8",
}  # fmt: skip
_OPENAI_MODELS = re.compile(r"whisper-1|gpt-.*", re.DOTALL)
"""Names that OpenAI's clients send: then the language decides which model is used."""
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_IGNORED = ("prompt", "temperature", "include", "include[]", "chunking_strategy")
_FIELDS = ("file", "model", "language", "response_format", "timestamp_granularities",
           "timestamp_granularities[]", "stream", *_IGNORED)  # fmt: skip


class TranscriptionUsage(BaseModel):
    """How long the recording is."""

    type: str = "duration"
    seconds: float


class TranscriptionBody(BaseModel):
    """The text of a recording; only `verbose_json` has the other fields."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {"text": "It was ten past nine.", "usage": {"type": "duration", "seconds": 2}}
            ]
        },
    )

    text: str
    usage: TranscriptionUsage
    task: str | None = None
    language: str | None = Field(default=None, description="ISO 639-1.")
    duration: float | None = None
    segments: list[dict[str, Any]] | None = None
    words: list[dict[str, Any]] | None = None


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
                                  "description": "OpenAI's: the language decides."},
                        "language": {"type": "string", "example": "en",
                                     "description": "Detected if not given."},
                        "response_format": {"type": "string", "enum": list(FORMATS)},
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
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The transcript, as JSON, text or captions.",
        "headers": {"X-Anyrig-Ignored": {"description": "Fields that have no effect.",
                                         "schema": {"type": "string"}}, **MODEL_HEADERS},
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
    routes = APIRouter(tags=["speech"])
    tasks = DocumentTasks(server)

    @routes.post(
        "/v1/audio/transcriptions", response_model=TranscriptionBody, openapi_extra=_BODY,
        responses=_RESPONSES, summary="Transcribe a recording",
    )  # fmt: skip
    async def transcribe(request: Request) -> Response:
        """The recording is deleted once it is transcribed.

        With `stream` the text comes as server-sent events at the end, segment by segment.
        """
        form = await receive_form(request, server.uploads, names=("file",), max_files=20)
        try:
            arguments = await anyio.to_thread.run_sync(
                _build_arguments, server, get_client(request), form
            )
            path = await anyio.to_thread.run_sync(server.uploads.path, form.files[0].id)
            work = tasks.ask("transcribe", {**arguments, "files": [str(path)]}, lane="bulk")
            result: dict[str, Any] = await run_while_connected(request, work)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_delete, server, form.files)
        return _build_response(form, result)

    return routes


def resolve_model(server: ServerState, client: Client, name: str) -> str:
    """The transcription model that a client names; empty if the language decides."""
    from anyrig.transcription.models import NAMES

    if _OPENAI_MODELS.fullmatch(name) or name in ("", "default", "auto"):
        return ""
    if "/" in name or "\\" in name:
        return str(resolve_path(server, client, name, "models"))
    if name not in NAMES:
        raise Problem(
            404, f"unknown transcription model {name[:80]!r}",
            hint=f"Models: {', '.join(NAMES)}; or leave it out.", param="model",
        )  # fmt: skip
    return name


def _delete(server: ServerState, files: list[Upload]) -> None:
    for one in files:
        with suppress(AnyrigError):
            server.uploads.delete(one.id)


def _build_arguments(server: ServerState, client: Client, form: UploadForm) -> dict[str, Any]:
    """The arguments of the task; raises what is wrong with the request."""
    for name in form.fields:
        if name not in _FIELDS:
            raise InvalidInputError(
                f"unknown field {name[:40]!r}", hint=f"Fields: {', '.join(_FIELDS)}."
            )
    if len(form.files) != 1:
        title = "one recording can be sent at a time" if form.files else "no recording was sent"
        hint = "Send it as the field `file` of the form: curl -F file=@talk.mp3"
        raise Problem(400, title, hint=hint, param="file")
    format, words = _read_format(form), _wants_words(form)
    if words and format != "verbose_json":
        raise InvalidInputError(
            "times of words need verbose_json", hint="Send response_format=verbose_json."
        )
    if _wants_stream(form) and format not in ("json", "text"):
        raise InvalidInputError(
            f"{format} cannot be streamed", hint="Leave stream out, or ask for json."
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
            "language is not a language code", hint="Send one such as en or es, or leave it out."
        )
    return {
        "names": [form.files[0].name], "language": language,
        "model": resolve_model(server, client, form.value("model").strip()),
        "word_times": words, "form": format if format in _CAPTION_TYPES else "",
    }  # fmt: skip


def _read_format(form: UploadForm) -> str:
    name = normalize_format(form.value("response_format") or "json")
    if name not in FORMATS:
        raise InvalidInputError(
            f"unknown response_format {name[:40]!r}", hint=f"Formats: {', '.join(FORMATS)}."
        )
    return name


def _wants_words(form: UploadForm) -> bool:
    names = ("timestamp_granularities[]", "timestamp_granularities")
    given = [one for name in names for one in form.fields.get(name, ())]
    for one in given:
        if one not in ("segment", "word"):
            raise InvalidInputError(
                f"unknown timestamp granularity {one[:40]!r}", hint="Send segment or word."
            )
    return "word" in given


def _wants_stream(form: UploadForm) -> bool:
    return form.value("stream").lower() in ("true", "1")


def _build_response(form: UploadForm, result: dict[str, Any]) -> Response:
    ignored = [name.removesuffix("[]") for name in _IGNORED if name in form.fields]
    requested, model = form.value("model").strip(), str(result["model"])
    headers = {"X-Anyrig-Model": model}
    if _OPENAI_MODELS.fullmatch(requested):
        headers["X-Anyrig-Note"] = format_substitute(requested, model)
    if ignored:
        headers["X-Anyrig-Ignored"] = ", ".join(dict.fromkeys(ignored))
    headers = {name: to_header(text) for name, text in headers.items()}
    format = _read_format(form)
    captions = result.pop("written", "")
    usage = {"type": "duration", "seconds": result["duration"]}
    if _wants_stream(form):
        return StreamingResponse(
            _iter_events(result, usage), headers=headers, media_type="text/event-stream"
        )
    if format == "text":
        return PlainTextResponse(f"{result['text']}\n", headers=headers)
    if format in _CAPTION_TYPES:
        return Response(captions, headers=headers, media_type=_CAPTION_TYPES[format])
    shown = result if format == "verbose_json" else {"text": result["text"]}
    return JSONResponse({**shown, "usage": usage}, headers=headers)


def _iter_events(result: Mapping[str, Any], usage: Mapping[str, Any]) -> Iterator[bytes]:
    texts = [text for one in result["segments"] if (text := str(one.get("text", "")).strip())]
    rows: list[dict[str, Any]] = [
        {"type": "transcript.text.delta", "delta": f" {text}" if number else text}
        for number, text in enumerate(texts)
    ]
    rows.append({"type": "transcript.text.done", "text": " ".join(texts), "usage": usage})
    for row in rows:
        yield f"event: {row['type']}\ndata: {json.dumps(row)}\n\n".encode()
