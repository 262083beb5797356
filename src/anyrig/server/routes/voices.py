"""/voices: samples of voices, and whether one speaks the language of a text."""

from __future__ import annotations

from typing import Annotated

import anyio
from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.lexicons import get_lexicon_key
from anyrig.app.voices import LanguageCheck, check_language, find_sample
from anyrig.server.auth import get_client
from anyrig.server.documents import run_while_connected
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.routes.speech import LANGUAGE
from anyrig.server.state import ServerState
from anyrig.server.streaming import SpeechStream, StreamThreads

MAX_CHECKED = 20_000
"""Characters of a text that are looked at."""
_FORMAT, _MEDIA_TYPE = "mp3", "audio/mpeg"
_MAX_AGE_S = 3600
EngineName = Annotated[str, Path(max_length=200, examples=["kokoro"])]
_VoicePath = Annotated[str, Path(max_length=300, examples=["heart"])]
_Language = Annotated[
    str | None,
    Query(pattern=LANGUAGE, description="One that the voice speaks; its own if not given.",
          examples=["en"]),
]  # fmt: skip


class VoiceCheck(BaseModel):
    """A text, and the voice that is to speak it."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(max_length=MAX_CHECKED, examples=["Buenos días."])
    engine: str = Field(max_length=200, examples=["hibari"])
    voice: str = Field(max_length=300, examples=["heart"])


class CheckedVoice(BaseModel):
    """A voice that speaks the language of the text."""

    engine: str
    name: str


class VoiceCheckResult(BaseModel):
    """Whether the voice speaks the language of the text."""

    language: str = Field(description="Of the text; empty if that is not sure.")
    spoken: bool
    voices: list[CheckedVoice] = Field(description="Those that speak it, if the voice does not.")


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["speech"], route_class=JsonRoute)
    threads = StreamThreads()
    limiter = anyio.CapacityLimiter(2)

    @routes.get(
        "/voices/{engine}/{voice}/sample", summary="A sample of a voice", response_class=Response,
        responses={
            200: {
                "description": "It says a sentence in its language.",
                "content": {_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
            },
            **problem_responses(400, 404, 429, 501, 503),
        },
    )  # fmt: skip
    async def sample(
        request: Request, engine: EngineName, voice: _VoicePath, language: _Language = None
    ) -> Response:
        """A short sentence, as mp3. `default` is the engine's first voice for the language."""
        engines = await to_thread.run_sync(server.speech.list_engines, limiter=limiter)
        found = find_sample(engines, engine, voice, language or "")
        if found is None:
            raise Problem(404, "no such voice", hint="GET /config lists the voices.")
        key = get_lexicon_key(get_client(request))
        options = {**found._asdict(), "engine": engine, "lane": "live", "key": key}
        stream = SpeechStream(server, options, _FORMAT, threads)

        async def read() -> bytes:
            return b"".join([part async for part in stream.iter_parts(await stream.start())])

        try:
            audio = await run_while_connected(request, read())
        finally:
            stream.close()
        headers = {"Cache-Control": f"private, max-age={_MAX_AGE_S}"}
        return Response(audio, media_type=_MEDIA_TYPE, headers=headers)

    @routes.post("/voices/check", response_model=VoiceCheckResult,
                 summary="Check whether a voice speaks the language of a text")  # fmt: skip
    async def check(body: VoiceCheck) -> VoiceCheckResult:
        """Nothing is spoken, and no voice is loaded."""

        def work() -> LanguageCheck:
            return check_language(server.speech.list_engines(), body.text, body.engine, body.voice)

        found = await to_thread.run_sync(work, limiter=limiter)
        voices = [CheckedVoice(engine=one.engine, name=one.name) for one in found.voices]
        return VoiceCheckResult(language=found.language, spoken=found.is_spoken, voices=voices)

    return routes
