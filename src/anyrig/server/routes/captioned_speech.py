"""POST /dev/captioned_speech: audio with word times, for clients of Kokoro-FastAPI."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from anyrig.server.errors import problem_responses
from anyrig.server.json_body import JsonRoute, PlainName
from anyrig.server.routes.speech import (
    LANGUAGE,
    AudioFormat,
    CreateSpeechRequest,
    VoiceName,
    build_headers,
    build_options,
    normalize_audio_format,
    open_stream,
    read_timed,
)
from anyrig.server.state import ServerState
from anyrig.server.streaming import ClosingStreamResponse, SpeechStream, StreamThreads
from anyrig.speech.word_times import WrittenWord

_MEDIA_TYPES: dict[AudioFormat, str] = {
    "mp3": "audio/mpeg", "opus": "audio/opus", "aac": "audio/aac", "flac": "audio/flac",
    "wav": "audio/wav", "pcm": "audio/pcm",
}  # fmt: skip
_LANGUAGES = {
    "a": "en", "b": "en-GB", "e": "es", "f": "fr", "h": "hi", "i": "it", "j": "ja", "p": "pt",
    "z": "zh",
}  # fmt: skip
_WEIGHT = re.compile(r"\((\d+(?:\.\d+)?)\)")


class CaptionedSpeechRequest(BaseModel):
    """A text to speak. Other fields are accepted and named in the header X-Anyrig-Ignored."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"input": "The kettle is on.", "response_format": "mp3"}]},
    )

    input: str = Field(min_length=1)
    model: PlainName = Field("", max_length=200, description="An engine of GET /v1/models.")
    voice: VoiceName = Field("", description="Of GET /config; `a(2)+b(1)` blends two.")
    response_format: Annotated[AudioFormat, BeforeValidator(normalize_audio_format)] = "mp3"
    speed: float = Field(1.0, ge=0.25, le=4.0)
    stream: bool = Field(True, description="A line of JSON for each part, or one at the end.")
    return_timestamps: bool = Field(True, description="Whether words come with the audio.")
    lang_code: str | None = Field(
        None,
        pattern=rf"^[{''.join(_LANGUAGES)}]$|{LANGUAGE}",
        description="Kokoro's letter or a language code; detected if not given.",
    )
    volume_multiplier: float = Field(1.0, gt=0, le=100, description="Of the usual loudness.")

    def to_speech(self) -> CreateSpeechRequest:
        """The same as a request of OpenAI's clients."""
        known = CreateSpeechRequest.model_fields
        extra = {k: value for k, value in (self.model_extra or {}).items() if k not in known}
        return CreateSpeechRequest.model_validate(
            {
                "input": self.input, "model": self.model,
                "voice": _WEIGHT.sub(r":\1", self.voice).replace(" ", ""),
                "response_format": self.response_format, "speed": self.speed,
                "language": _LANGUAGES.get(self.lang_code or "", self.lang_code or None),
                "timestamps": self.return_timestamps, **extra,
            }
        )  # fmt: skip


class CaptionedWord(BaseModel):
    """A written word, and when it is heard, in seconds from the beginning of the audio."""

    word: str
    start_time: float
    end_time: float


class CaptionedSpeech(BaseModel):
    """Audio, or a part of it, and the words in it."""

    audio: str = Field(description="In base64.")
    audio_format: str
    timestamps: list[CaptionedWord] | None


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "One object, or with `stream` one in each line.",
          "model": CaptionedSpeech},
    **problem_responses(400, 413, 422, 429, 501, 503),
}  # fmt: skip


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["speech"], route_class=JsonRoute)
    threads = StreamThreads()

    @routes.post(
        "/dev/captioned_speech", summary="Speak a text, with the times of words",
        response_class=Response, responses=_RESPONSES,
    )  # fmt: skip
    async def speak(request: Request, body: CaptionedSpeechRequest) -> Response:
        """As Kokoro-FastAPI's. Errors come as problems, before the first audio."""
        speech = body.to_speech()
        options = {**build_options(request, speech), "timestamps": body.return_timestamps}
        if body.volume_multiplier != 1.0:
            options["loudness"] = await to_thread.run_sync(_scale_loudness, server, body)
        stream, first = await open_stream(server, request, options, body.response_format, threads)
        headers = build_headers(stream, speech)
        headers["Cache-Control"] = "no-cache"
        media_type = _MEDIA_TYPES[body.response_format]
        if not body.stream:
            return await _read(request, stream, first, body, headers)
        return ClosingStreamResponse(
            _iter_lines(stream, first, media_type), stream.close, server.settings.deadline_s,
            headers=headers, media_type="application/json",
        )  # fmt: skip

    return routes


def _scale_loudness(server: ServerState, body: CaptionedSpeechRequest) -> float:
    """The loudness of a multiple of the usual amplitude."""
    usual = server.speech.request().loudness
    if not usual:
        return 0.0
    return min(-1.0, max(-70.0, usual + 20 * math.log10(body.volume_multiplier)))


async def _read(
    request: Request,
    stream: SpeechStream,
    first: bytes,
    body: CaptionedSpeechRequest,
    headers: dict[str, str],
) -> Response:
    audio, words = await read_timed(request, stream, first)
    media_type = _MEDIA_TYPES[body.response_format]
    line = _format_line(audio, media_type, words if body.return_timestamps else None)
    return Response(line, headers=headers, media_type="application/json")


async def _iter_lines(stream: SpeechStream, first: bytes, media_type: str) -> AsyncIterator[bytes]:
    async for data in stream.iter_parts(first):
        yield _format_line(data, media_type, stream.take_words())
    if words := stream.take_words():
        yield _format_line(b"", media_type, words)


def _format_line(audio: bytes, media_type: str, words: Sequence[WrittenWord] | None) -> bytes:
    found = {
        "audio": base64.b64encode(audio).decode(),
        "audio_format": media_type,
        "timestamps": None if words is None else [
            {"word": one.text, "start_time": round(one.start_s, 3), "end_time": round(one.end_s, 3)}
            for one in words
        ],
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
