"""Text to speech as OpenAI's interface has it, and how words are pronounced."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Request, Response

from anyrig.server import errors
from anyrig.server.json_body import JsonRoute
from anyrig.server.models import ANSWERED, stood_in
from anyrig.server.schemas.events import EVENT
from anyrig.server.schemas.speech import (
    MEDIA_TYPES,
    Config,
    LexiconText,
    LexiconTold,
    SpeechRequest,
)
from anyrig.server.sounding import PCM_RATE, Sounding, Streamed, Threads, unless_gone
from anyrig.server.speaking import Wish
from anyrig.server.state import ServerState

log = logging.getLogger(__name__)
_CLIENT_LEFT = 499
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_EVENTS = {"schema": EVENT, "example": 'data: {"type":"speech.audio.delta"}\n\n'}
_SAID = {
    "X-Anyrig-Engine": {"description": "Who speaks.", "schema": {"type": "string"}},
    **ANSWERED,
    "X-Anyrig-Voice": {"description": "Which voice, and in the place of which, where one of "
                       "OpenAI's was asked for.", "schema": {"type": "string"}},
    "X-Anyrig-Ignored": {"description": "Fields of the request that have no effect.",
                         "schema": {"type": "string"}},
}  # fmt: skip
_SPEECH: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The sound, sent while it is made.",
        "content": {**dict.fromkeys(MEDIA_TYPES.values(), _BYTES), "text/event-stream": _EVENTS},
        "headers": _SAID,
    },
    **errors.problem_responses(400, 413, 422, 429, 501, 503),
}  # fmt: skip


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["speech"], route_class=JsonRoute)
    threads = Threads()
    asking = anyio.CapacityLimiter(2)

    @routes.post(
        "/v1/audio/speech", summary="Speak a text", response_class=Response, responses=_SPEECH
    )
    async def speak(request: Request, wanted: SpeechRequest) -> Response:
        """As OpenAI's. Errors come as problems, before the first sound."""
        wish = Wish(
            wanted.input, wanted.voice_name, wanted.engine or wanted.model,
            "" if wanted.language in (None, "auto") else str(wanted.language),
            wanted.speed, lane=wanted.lane,
        )  # fmt: skip
        sounding = Sounding(server, wish, wanted.response_format, threads)
        try:
            first = await unless_gone(request.receive, sounding.begin)
        except BaseException:
            sounding.close()
            raise
        if first is None:
            sounding.close()
            return Response(status_code=_CLIENT_LEFT)
        headers = _headers(sounding, wanted)
        if wanted.stream_format == "sse":
            headers["Cache-Control"] = "no-store"
            return Streamed(
                _events(sounding, first, len(wish.text)), sounding.close, headers=headers,
                patience_s=server.settings.deadline_s, media_type="text/event-stream",
            )  # fmt: skip
        kind = MEDIA_TYPES[wanted.response_format]
        if wanted.response_format == "pcm":
            kind += f";rate={PCM_RATE};channels=1"
        return Streamed(
            sounding.parts(first), sounding.close, headers=headers,
            patience_s=server.settings.deadline_s, media_type=kind,
        )  # fmt: skip

    @routes.get("/config", response_model=Config, summary="Voices, engines and devices")
    async def config() -> Any:
        """What there is to choose from; the first two fields as VibeVoice's demo has them."""
        told = await to_thread.run_sync(server.speech.config, limiter=asking)
        found = await to_thread.run_sync(server.machine.devices, limiter=asking)
        return {**told, "devices": found["devices"]}

    @routes.get("/lexicon", response_model=LexiconTold, summary="How words are pronounced")
    async def lexicon() -> Any:
        """The user's lexicon; empty where there is none."""
        return await to_thread.run_sync(lambda: _lexicon(server), limiter=asking)

    @routes.put("/lexicon", response_model=LexiconTold, summary="Change how words are pronounced",
                responses=errors.problem_responses(400, 413, 422, 507))  # fmt: skip
    async def set_lexicon(wanted: LexiconText) -> Any:
        """The whole of it, as TOML; it holds from the next request on."""
        count = await to_thread.run_sync(server.speech.set_lexicon, wanted.text, limiter=asking)
        return {"text": wanted.text, "entries": count}

    return routes


def _lexicon(server: ServerState) -> dict[str, Any]:
    from anyrig.speech.lexicon import parse

    text = server.speech.lexicon()
    return {"text": text, "entries": len(parse(text, skip_patterns=True).entries)}


def _headers(sounding: Sounding, wanted: SpeechRequest) -> dict[str, str]:
    reading = sounding.reading
    asked = wanted.voice_name
    stands_in = asked not in ("", "default", reading.voice) and "+" not in asked
    voice = f"{reading.voice} (for {asked})" if stands_in else reading.voice
    headers = {"X-Anyrig-Engine": reading.engine, "X-Anyrig-Model": reading.engine,
               "X-Anyrig-Voice": voice}  # fmt: skip
    named = wanted.engine or wanted.model
    if named not in ("", reading.engine):
        headers["X-Anyrig-Note"] = stood_in(named, reading.engine)
    ignored = [*wanted.ignored, *reading.ignored]
    if ignored:
        headers["X-Anyrig-Ignored"] = ", ".join(ignored)
    return {name: text.encode("ascii", "replace").decode() for name, text in headers.items()}


async def _events(sounding: Sounding, first: bytes, num_characters: int) -> AsyncIterator[bytes]:
    """The sound as events; what breaks it off is told as one."""
    try:
        async for data in sounding.parts(first):
            yield _event("speech.audio.delta", audio=base64.b64encode(data).decode())
    except Exception as error:  # noqa: BLE001 - the answer has begun: it cannot be a status any more
        yield _event("error", error=errors.error_event(error)["error"])
        return
    # Characters stand for tokens: nothing here has tokens, and clients want numbers.
    yield _event("speech.audio.done", usage={
        "input_tokens": num_characters, "output_tokens": 0, "total_tokens": num_characters,
    })  # fmt: skip


def _event(kind: str, **more: Any) -> bytes:
    return f"data: {json.dumps({'type': kind, **more})}\n\n".encode()
