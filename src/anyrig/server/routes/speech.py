"""Text to speech as OpenAI's API has it, as VibeVoice's demo streams it, and the lexicon."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import anyio
from anyio import to_thread
from fastapi import APIRouter, Request, Response, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocketState

from anyrig.app.access import check_no_paths, hide_folders
from anyrig.app.engines import EngineStatus
from anyrig.app.files import normalize_format
from anyrig.app.lexicons import get_lexicon_key
from anyrig.app.word_times import describe_word
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    LimitExceededError,
    OverloadedError,
    render,
)
from anyrig.server import errors
from anyrig.server.auth import get_client
from anyrig.server.documents import run_while_connected
from anyrig.server.errors import Problem
from anyrig.server.json_body import JsonRoute, PlainName, parse
from anyrig.server.openapi import EVENT
from anyrig.server.routes.models import MODEL_HEADERS, format_substitute, to_header
from anyrig.server.state import ServerState
from anyrig.server.streaming import (
    PCM_RATE,
    ClosingStreamResponse,
    SpeechStream,
    StreamThreads,
)
from anyrig.server.waiting import ClientDisconnected
from anyrig.speech.choose import TEST_ENGINE, describe_restriction
from anyrig.speech.word_times import WrittenWord

log = logging.getLogger(__name__)
AudioFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
MEDIA_TYPES: dict[AudioFormat, str] = {
    "mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac",
    "wav": "audio/wav", "pcm": "audio/pcm",
}  # fmt: skip
LANGUAGE = r"^(auto|[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*)$"
VoiceName = Annotated[PlainName, Field(max_length=300)]
_OPENAI_FIELDS = {"text": "input", "engine": "model", "rate": "speed", "set": "options"}
"""Options of a `LiveSpeechRequest` that are called otherwise here."""


def normalize_audio_format(value: Any) -> Any:
    return normalize_format(value) if isinstance(value, str) else value


class VoiceId(BaseModel):
    """A voice as newer clients name it."""

    id: VoiceName = Field(examples=["heart"])


class CreateSpeechRequest(BaseModel):
    """A text to speak. Other fields are accepted and named in the header X-Anyrig-Ignored."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {"model": "tts-1", "voice": "alloy", "input": "The kettle is on.",
                 "response_format": "mp3", "speed": 1.0}
            ]
        },
    )  # fmt: skip

    input: str = Field(min_length=1, description="The text, or SSML that begins with <speak.")
    model: PlainName = Field(
        "", max_length=200, description="An engine of GET /v1/models; OpenAI's are the default one."
    )
    voice: VoiceName | VoiceId = Field(
        "", description="Of GET /config; `a:2+b` blends two; OpenAI's names are voices like them.",
        examples=["alloy"],
    )  # fmt: skip
    response_format: Annotated[AudioFormat, BeforeValidator(normalize_audio_format)] = Field(
        "mp3", description="All are sent while they are made; pcm is 16 bit, mono, 24 kHz."
    )
    speed: float = Field(1.0, ge=0.25, le=4.0)
    stream_format: Literal["audio", "sse"] = Field(
        "audio", description="sse: events `speech.audio.delta` in base64, then `speech.audio.done`."
    )
    timestamps: bool = Field(
        False,
        description="With the times of written words: JSON with `audio` in base64 and `words`; with"
        " stream_format sse also events `speech.audio.words`.",
    )
    instructions: str | None = Field(None, description="Has no effect; a header says so.")
    language: str | None = Field(
        None, pattern=LANGUAGE, description="Detected if not given.", examples=["en"]
    )
    engine: PlainName | None = Field(
        None, max_length=200, description="As `model`, which it overrides."
    )
    lane: Literal["live", "bulk"] = Field(
        "live", description="`live`, or `bulk`: live requests are served first."
    )
    seed: int | None = Field(
        None,
        ge=0,
        lt=1 << 31,
        description="Another one is another take, if the engine has `varies_with_seed`.",
    )
    options: dict[str, bool | int | float | str] = Field(
        default_factory=dict, max_length=50, description="Of the engine: GET /config lists them.",
        examples=[{}],
    )  # fmt: skip

    @property
    def voice_name(self) -> str:
        return self.voice.id if isinstance(self.voice, VoiceId) else self.voice

    @property
    def engine_name(self) -> str:
        return self.engine or self.model

    @property
    def ignored(self) -> list[str]:
        """Fields that have no effect."""
        found = ["instructions"] if self.instructions else []
        return found + [name for name in (self.model_extra or {}) if name.isidentifier()][:20]


class SpokenWord(BaseModel):
    """A written word, and when it is heard."""

    word: str
    start: float = Field(description="In seconds from the beginning of the audio.")
    end: float
    span: tuple[int, int] = Field(description="From where to where it stands in `input`.")


class TimedSpeech(BaseModel):
    """Audio, and when each word of the text is heard."""

    audio: str = Field(description="In base64, in the requested format.")
    format: AudioFormat
    duration: float = Field(description="In seconds.")
    timing: Literal["exact", "aligned"] = Field(
        description="`exact`: durations of the engine. `aligned`: words that a recogniser heard."
    )
    words: list[SpokenWord]


class OptionInfo(BaseModel):
    """An option of an engine."""

    name: str
    default: bool | int | float | str
    help: str
    choices: list[str]
    low: float | None
    high: float | None


class EngineRow(BaseModel):
    """An engine on this machine."""

    name: str
    summary: str
    languages: list[str]
    ready: bool
    reason: str | None = Field(None, description="What it lacks, and how to get it.")
    licence: str
    licence_notice: str = Field(
        description="What to read before it is used, where its licence restricts the use."
    )
    varies_with_seed: bool = Field(description="Whether another seed gives another take.")
    options: list[OptionInfo] = Field(description="What `options` of a request may set.")


class VoiceRow(BaseModel):
    """A voice of an engine that is ready."""

    name: str
    engine: str
    language: str
    gender: str | None = None
    title: str | None = None
    region: str = Field(
        "", description="Of its accent, as a code of ISO 3166; empty if it has none."
    )
    short_title: str = Field("", description="Its title without the accent, if it has one.")


class DeviceSummary(BaseModel):
    """A device; GET /devices tells more."""

    id: str
    name: str
    kind: str
    usable: bool
    chosen: bool


class Config(BaseModel):
    """What a client can choose from; the first two fields as VibeVoice's demo has them."""

    voices: list[str]
    default_voice: str
    engines: list[EngineRow]
    devices: list[DeviceSummary]
    details: list[VoiceRow]


class LexiconText(BaseModel):
    """Pronunciations, as TOML."""

    text: str = Field(examples=['[[say]]\nword = "Kokoro"\nsay = "ko-KO-ro"\n'])


class LexiconResponse(LexiconText):
    """The current lexicon."""

    entries: int = Field(description="How many words and patterns it has.")


_BYTES = {"schema": {"type": "string", "format": "binary"}}
_EVENTS = {"schema": EVENT, "example": 'data: {"type":"speech.audio.delta"}\n\n'}
_TEXT_HEADER = {"schema": {"type": "string"}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The audio, sent while it is made; with `timestamps`, JSON at its end.",
        "model": TimedSpeech,
        "content": {**dict.fromkeys(MEDIA_TYPES.values(), _BYTES), "text/event-stream": _EVENTS},
        "headers": {
            "X-Anyrig-Engine": {"description": "The engine.", **_TEXT_HEADER},
            **MODEL_HEADERS,
            "X-Anyrig-Voice": {
                "description": "The voice, and the one of OpenAI's that was requested.",
                **_TEXT_HEADER,
            },
            "X-Anyrig-Ignored": {
                "description": "Fields of the request that have no effect.", **_TEXT_HEADER,
            },
        },
    },
    **errors.problem_responses(400, 413, 422, 429, 501, 503),
}  # fmt: skip


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["speech"], route_class=JsonRoute)
    threads, socket_threads = StreamThreads(), StreamThreads()
    limiter = anyio.CapacityLimiter(2)

    @routes.post(
        "/v1/audio/speech", summary="Speak a text", response_class=Response, responses=_RESPONSES
    )
    async def speak(request: Request, body: CreateSpeechRequest) -> Response:
        """As OpenAI's. Errors come as problems, before the first audio."""
        return await _speak(server, request, body, threads)

    @routes.get("/config", response_model=Config, summary="Voices, engines and devices")
    async def config(request: Request) -> Any:
        """What there is to choose from; the first two fields as VibeVoice's demo has them."""
        found = await to_thread.run_sync(_describe_config, server, limiter=limiter)
        return hide_folders(server.rig, get_client(request), found)

    @routes.get("/lexicon", response_model=LexiconResponse, summary="Get the lexicon")
    async def get_lexicon(request: Request) -> Any:
        """How words are pronounced, beside the owner's lexicon; empty if there is none.

        A key with the scope `admin`, or whoever needs none, gets the owner's.
        """
        client = get_client(request)
        text, count = await to_thread.run_sync(server.speech.lexicons.read, client, limiter=limiter)
        return {"text": text, "entries": count}

    @routes.put(
        "/lexicon", response_model=LexiconResponse, summary="Replace the lexicon",
        responses=errors.problem_responses(400, 413, 422, 507),
    )  # fmt: skip
    async def put_lexicon(request: Request, body: LexiconText) -> Any:
        """All of it, as TOML; it applies from the next request on, to this key alone.

        The owner's, which applies to all, is replaced with the scope `admin`.
        """
        client = get_client(request)
        count = await to_thread.run_sync(
            server.speech.lexicons.save, client, body.text, limiter=limiter
        )
        return {"text": body.text, "entries": count}

    @routes.websocket("/stream")
    async def stream(socket: WebSocket) -> None:
        """PCM in binary frames, events in text frames; the text in the query or the first frame."""
        await socket.accept()
        try:
            await _serve_socket(server, socket, socket_threads)
        except (WebSocketDisconnect, ClientDisconnected, RuntimeError, TimeoutError) as error:
            # Starlette raises RuntimeError if something is sent after the client disconnected.
            log.info("WebSocket client disconnected: %s", type(error).__name__)

    @routes.api_route("/stream", methods=["GET", "POST"], include_in_schema=False)
    async def stream_over_http() -> None:
        raise Problem(
            426, "/stream is a WebSocket", hint="Open ws://.../stream, or POST /v1/audio/speech.",
            headers={"Upgrade": "websocket"},
        )  # fmt: skip

    return routes


async def _speak(
    server: ServerState, request: Request, body: CreateSpeechRequest, threads: StreamThreads
) -> Response:
    options = {**build_options(request, body), "lane": body.lane, "timestamps": body.timestamps}
    stream, first = await open_stream(server, request, options, body.response_format, threads)
    headers = build_headers(stream, body)
    if body.timestamps and body.stream_format == "audio":
        audio, words = await read_timed(request, stream, first)
        found = TimedSpeech(
            audio=base64.b64encode(audio).decode(), format=body.response_format,
            duration=round(stream.session.num_samples / stream.session.sample_rate, 3),
            timing=stream.timing, words=[SpokenWord(**describe_word(word)) for word in words],
        )  # fmt: skip
        return Response(found.model_dump_json(), headers=headers, media_type="application/json")
    content = stream.iter_parts(first)
    media_type = MEDIA_TYPES[body.response_format]
    if body.stream_format == "sse":
        headers["Cache-Control"] = "no-store"
        content, media_type = _iter_events(stream, first, len(body.input)), "text/event-stream"
    elif body.response_format == "pcm":
        media_type += f";rate={PCM_RATE};channels=1"
    return ClosingStreamResponse(
        content, stream.close, server.settings.deadline_s, headers=headers, media_type=media_type
    )


async def open_stream(
    server: ServerState,
    request: Request,
    options: dict[str, Any],
    format: AudioFormat,
    threads: StreamThreads,
) -> tuple[SpeechStream, bytes]:
    """A stream and its first part; errors name fields as OpenAI's clients do."""
    stream = SpeechStream(server, options, format, threads)
    try:
        return stream, await run_while_connected(request, stream.start())
    except BaseException as error:
        stream.close()
        if isinstance(error, InvalidInputError):
            error.option = _OPENAI_FIELDS.get(error.option, error.option)
        raise


async def read_timed(
    request: Request, stream: SpeechStream, first: bytes
) -> tuple[bytes, list[WrittenWord]]:
    """All of the audio, and its words."""

    async def read() -> bytes:
        return b"".join([part async for part in stream.iter_parts(first)])

    try:
        return await run_while_connected(request, read()), stream.take_words()
    finally:
        stream.close()


def build_options(request: HTTPConnection, body: CreateSpeechRequest) -> dict[str, Any]:
    """Options of a `LiveSpeechRequest`; what is not given is left to the settings."""
    options: dict[str, Any] = {
        "text": body.input.replace("\0", " "), "voice": body.voice_name,
        "engine": body.engine_name, "key": get_lexicon_key(get_client(request)),
    }  # fmt: skip
    if body.language not in (None, "", "auto"):
        options["language"] = body.language
    if body.speed != 1.0:
        options["rate"] = body.speed
    if body.seed is not None:
        options["seed"] = body.seed
    if body.options:
        check_no_paths("set", body.options)
        options["set"] = body.options
    return options


def build_headers(stream: SpeechStream, body: CreateSpeechRequest) -> dict[str, str]:
    session, requested = stream.session, body.voice_name
    replaced = requested not in ("", "default", session.voice) and "+" not in requested
    headers = {
        "X-Anyrig-Engine": session.engine, "X-Anyrig-Model": session.engine,
        "X-Anyrig-Voice": f"{session.voice} (for {requested})" if replaced else session.voice,
    }  # fmt: skip
    if body.engine_name not in ("", session.engine):
        headers["X-Anyrig-Note"] = format_substitute(body.engine_name, session.engine)
    if ignored := body.ignored:
        headers["X-Anyrig-Ignored"] = ", ".join(ignored)
    return {name: to_header(text) for name, text in headers.items()}


async def _iter_events(
    stream: SpeechStream, first: bytes, num_characters: int
) -> AsyncIterator[bytes]:
    """The audio as server-sent events, and its words; an error in the middle is one as well."""
    try:
        async for data in stream.iter_parts(first):
            yield _format_event("speech.audio.delta", audio=base64.b64encode(data).decode())
            if words := stream.take_words():
                yield _format_words(stream, words)
        if words := stream.take_words():
            yield _format_words(stream, words)
    except Exception as error:  # noqa: BLE001 - the status was sent already
        yield _format_event("error", error=errors.error_event(error)["error"])
        return
    # Characters in place of tokens: there are none here, and clients expect numbers.
    usage = {"input_tokens": num_characters, "output_tokens": 0, "total_tokens": num_characters}
    yield _format_event("speech.audio.done", usage=usage)


def _format_words(stream: SpeechStream, words: list[WrittenWord]) -> bytes:
    described = [describe_word(word) for word in words]
    return _format_event("speech.audio.words", words=described, timing=stream.timing)


def _format_event(kind: str, **more: Any) -> bytes:
    return f"data: {json.dumps({'type': kind, **more})}\n\n".encode()


def _describe_config(server: ServerState) -> dict[str, Any]:
    engines = server.speech.list_engines()
    try:
        default_voice = server.speech.find_default_voice()[1]
    except AnyrigError:  # no engine is installed: `engines` says so
        default_voice = ""
    voices = [
        voice for one in engines if one.info.name != TEST_ENGINE for voice in one.voices
    ]  # fmt: skip
    return {
        "voices": list(dict.fromkeys(voice.name for voice in voices)),
        "default_voice": default_voice,
        "engines": [
            {
                "name": one.info.name, "summary": one.info.summary,
                "languages": list(one.languages or one.info.languages), "ready": one.is_ready,
                "reason": _format_problem(one),
                "licence": one.info.weights_licence or one.info.code_licence,
                "licence_notice": describe_restriction(one.info),
                "varies_with_seed": one.info.varies_with_seed,
                "options": [vars(option) for option in one.info.options],
            }
            for one in engines
        ],
        "details": [
            {**vars(voice), "gender": voice.gender or None, "title": voice.title or None}
            for voice in voices
        ],
        "devices": server.machine.devices()["devices"],
    }  # fmt: skip


def _format_problem(engine: EngineStatus) -> str | None:
    """What an engine lacks and how to get it, as two sentences; a command in them is marked."""
    problem, fix = render(engine.problem, "http"), render(engine.fix, "http")
    first, dot, rest = fix.partition(". ")
    fix = f"`{first}`{dot}{rest}" if first.startswith("anyrig ") else fix
    found = [one.rstrip(". ") for one in (problem, fix) if one]
    return ". ".join(found) + "." if found else None


# -- the WebSocket ---------------------------------------------------------------------------------

_FRAME_BYTES = 3200 * 2
"""A frame of VibeVoice-Realtime, as its demo sends them."""
_FIRST_FRAME_S = 60.0
_NORMAL, _POLICY_VIOLATION, _INTERNAL_ERROR, _TRY_AGAIN_LATER = 1000, 1008, 1011, 1013
_SOCKET_FIELDS = ("voice", "language", "engine", "speed")
_DEFAULT_GUIDANCE = 1.5


async def _serve_socket(server: ServerState, socket: WebSocket, threads: StreamThreads) -> None:
    try:
        body, diffusion = await _read_request(socket)
    except (AnyrigError, TimeoutError) as error:
        await _send_error(socket, error)
        return
    options = build_options(socket, body)
    ignored = diffusion.given
    if ignored:
        options["set"], ignored = await to_thread.run_sync(diffusion.apply, server, options)
    stream = SpeechStream(server, options, "pcm", threads)

    async def send() -> None:
        await _send_log(
            socket, "backend_request_received", text_length=len(body.input),
            cfg_scale=diffusion.guidance or _DEFAULT_GUIDANCE, inference_steps=diffusion.steps,
            voice=body.voice_name or None, ignored=ignored,
        )  # fmt: skip
        await _send_audio(socket, stream, server.settings.deadline_s)

    try:
        await run_while_connected(socket, send())
    finally:
        stream.close()


async def _send_audio(socket: WebSocket, stream: SpeechStream, send_s: float) -> None:
    try:
        data: bytes | None = await stream.start()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is sent to the client
        await _send_error(socket, error)
        return
    generated_s, is_first, waiting = 0.0, True, b""
    try:
        while data is not None or waiting:
            waiting += data or b""
            # All frames but the last are whole.
            while len(waiting) >= (_FRAME_BYTES if data is not None else 1):
                frame, waiting = waiting[:_FRAME_BYTES], waiting[_FRAME_BYTES:]
                async with asyncio.timeout(send_s):  # a client that accepts nothing holds a model
                    await socket.send_bytes(frame)
                if is_first:
                    is_first = False
                    await _send_log(socket, "backend_first_chunk_sent")
                chunk_s = len(frame) / 2 / PCM_RATE
                generated_s += chunk_s
                await _send_log(
                    socket, "model_progress", generated_sec=round(generated_s, 3),
                    chunk_sec=round(chunk_s, 3),
                )  # fmt: skip
            data = await stream.next_part() if data is not None else None
    except (WebSocketDisconnect, RuntimeError, TimeoutError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is sent to the client
        await _send_error(socket, error, event="generation_error")
        return
    await _send_log(socket, "backend_stream_complete", generated_sec=round(generated_s, 3))
    await socket.close(_NORMAL)


@dataclass(frozen=True)
class _Diffusion:
    """`cfg` and `steps` of a request; None where they are not given or mean nothing."""

    guidance: float | None
    steps: int | None
    given: list[str]

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> _Diffusion:
        """As VibeVoice's demo reads them: what is not a number above zero is the default."""
        names = [name for name in ("cfg", "steps") if given.get(name) not in (None, "")]
        guidance = steps = None
        with suppress(ValueError, TypeError, OverflowError):
            guidance = float(given.get("cfg", ""))
        with suppress(ValueError, TypeError, OverflowError):
            steps = int(given.get("steps", ""))
        if guidance is not None and not 0 < guidance < math.inf:
            guidance = None
        return cls(guidance, steps if steps is not None and steps > 0 else None, names)

    def apply(
        self, server: ServerState, options: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        """The engine's options with these, and which of them it does not have: it would need a
        model of its own for each value.
        """
        speech = server.speech
        values = {"cfg": ("guidance", self.guidance), "steps": ("steps", self.steps)}
        try:
            known = speech.find_utterance_options(speech.request(**options))
        except AnyrigError:  # an engine that does not exist: said when it is opened
            known = set()
        ignored = [name for name in self.given if values[name][0] not in known]
        used = {
            option: value
            for name, (option, value) in values.items()
            if value is not None and name not in ignored
        }
        return {**options.get("set", {}), **used}, ignored


async def _read_request(socket: WebSocket) -> tuple[CreateSpeechRequest, _Diffusion]:
    """The request, from the query or from a first frame of JSON."""
    given: dict[str, Any] = dict(socket.query_params)
    if "text" not in given:
        async with asyncio.timeout(_FIRST_FRAME_S):
            message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        given |= await to_thread.run_sync(_parse_message, message.get("text"))
    if not given["text"]:
        raise InvalidInputError(
            "the text is empty",
            hint='Send ?text=... in the URL, or leave it out and send {"text": "..."} first.',
        )
    fields = {name: given[name] for name in _SOCKET_FIELDS if given.get(name) not in (None, "")}
    try:
        body = CreateSpeechRequest.model_validate({"input": given["text"], **fields})
    except ValidationError as error:
        found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
        first = errors.list_invalid_fields(found)[0]
        raise InvalidInputError(first.title, hint="GET /config lists what is valid.") from None
    return body, _Diffusion.read(given)


def _parse_message(text: str | None) -> dict[str, Any]:
    """The first message of a client; None if it is binary."""
    found, problem = None, "the first message is binary"
    if text is not None:
        try:
            found, problem = parse(text), "the first message is not a JSON object with a text"
        except (ValueError, LimitExceededError) as error:
            problem = f"the first message is not valid JSON ({error})"
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise InvalidInputError(
            f"no text was sent: {problem}",
            hint='Send {"text": "..."} as text first, or ?text= in the URL.',
        )
    return found


async def _send_error(socket: WebSocket, error: Exception, *, event: str = "backend_error") -> None:
    """Report an error, and close."""
    is_busy = isinstance(error, OverloadedError)
    if isinstance(error, TimeoutError):
        error = InvalidInputError("no text was sent in time", hint="Send it at once.")
    problem = errors.error_event(error)
    event = "backend_busy" if is_busy else event
    await _send_log(socket, event, message=problem["title"], hint=problem["hint"])
    if is_busy:
        await socket.close(_TRY_AGAIN_LATER, reason="Service busy")
    else:
        await socket.close(_POLICY_VIOLATION if problem["status"] < 500 else _INTERNAL_ERROR)


async def _send_log(socket: WebSocket, event: str, **data: Any) -> None:
    """A text frame as clients of VibeVoice's demo read them."""
    if socket.application_state is not WebSocketState.CONNECTED:
        return
    now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    frame = {"type": "log", "event": event, "data": data, "timestamp": now}
    await socket.send_text(json.dumps(frame))
