"""WS /stream: sound while it is made, as clients of VibeVoice's demo expect it; many at once."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import re
from typing import Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketState

from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError, OverloadedError
from anyrig.server import errors
from anyrig.server.json_body import parse
from anyrig.server.schemas.speech import LANGUAGE, log_frame
from anyrig.server.sounding import PCM_RATE, Sounding, Threads
from anyrig.server.speaking import Wish
from anyrig.server.state import ServerState

log = logging.getLogger(__name__)
_FRAME_BYTES = PCM_RATE * 2  # a second of sound
_FIRST_FRAME_S = 60.0
_DONE, _REFUSED, _FAILED, _BUSY = 1000, 1008, 1011, 1013
_FIELDS = ("text", "voice", "cfg", "steps", "language", "engine", "speed")


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["speech"])
    threads = Threads()

    @routes.websocket("/stream")
    async def stream(socket: WebSocket) -> None:
        """PCM in binary frames, events in text frames; the text in the query or the first frame."""
        await socket.accept()
        try:
            await _serve(server, socket, threads)
        except (WebSocketDisconnect, RuntimeError, TimeoutError) as error:
            # Starlette says RuntimeError when something is sent to one who has left.
            log.info("a listener left: %s", type(error).__name__)

    @routes.api_route("/stream", methods=["GET", "POST"], include_in_schema=False)
    async def plain() -> None:
        raise errors.Problem(
            426, "/stream is a WebSocket", hint="Open ws://.../stream, or POST /v1/audio/speech.",
            headers={"Upgrade": "websocket"},
        )  # fmt: skip

    return routes


async def _serve(server: ServerState, socket: WebSocket, threads: Threads) -> None:
    try:
        wish, ignored = await _wish(socket)
    except (AnyrigError, TimeoutError) as error:
        await _refuse(socket, error)
        return
    sounding = Sounding(server, wish, "pcm", threads)
    try:
        await _unless_gone(
            socket, lambda: _sound(socket, sounding, wish, ignored, server.settings.deadline_s)
        )
    finally:
        sounding.close()


async def _sound(
    socket: WebSocket, sounding: Sounding, wish: Wish, ignored: list[str], patience_s: float
) -> None:
    await _tell(
        socket, "backend_request_received", text_length=len(wish.text), voice=wish.voice or None,
        ignored=ignored,
    )  # fmt: skip
    try:
        data: bytes | None = await sounding.begin()
    except Exception as error:  # noqa: BLE001 - told to the client, whatever it is
        await _refuse(socket, error)
        return
    generated_s, first = 0.0, True
    try:
        while data is not None:
            for start in range(0, len(data), _FRAME_BYTES):
                frame = data[start : start + _FRAME_BYTES]
                async with asyncio.timeout(patience_s):  # one who takes nothing holds a model
                    await socket.send_bytes(frame)
                if first:
                    first = False
                    await _tell(socket, "backend_first_chunk_sent")
                chunk_s = len(frame) / 2 / PCM_RATE
                generated_s += chunk_s
                await _tell(socket, "model_progress", generated_sec=round(generated_s, 3),
                            chunk_sec=round(chunk_s, 3))  # fmt: skip
            data = await sounding.part()
    except (WebSocketDisconnect, RuntimeError, TimeoutError):
        raise
    except Exception as error:  # noqa: BLE001 - told to the client, whatever it is
        await _refuse(socket, error, event="generation_error")
        return
    await _tell(socket, "backend_stream_complete", generated_sec=round(generated_s, 3))
    await socket.close(_DONE)


async def _unless_gone(socket: WebSocket, work: Any) -> None:
    """Do some work until it is done or the client leaves; what they still send is not read."""
    failed: list[BaseException] = []
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - raised below, out of the group that would wrap it
            failed.append(error)
        group.cancel_scope.cancel()
    if failed:
        raise failed[0]


async def _wish(socket: WebSocket) -> tuple[Wish, list[str]]:
    """What is wanted, of the address or of a first frame of JSON; and what of it has no effect.

    `cfg` and `steps` would need a model of its own for each pair of them, or change everybody's.
    """
    told: dict[str, Any] = {name: socket.query_params.get(name) for name in _FIELDS}
    if told["text"] == "":
        raise InvalidInputError(
            "the text is empty",
            hint='Send ?text=... in the URL, or leave it out and send {"text": "..."} first.',
        )
    if told["text"] is None:
        async with asyncio.timeout(_FIRST_FRAME_S):
            message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        told |= await to_thread.run_sync(_frame, message.get("text") or "")
    texts = {name: str(value) for name, value in told.items() if value not in (None, "")}
    wish = Wish(
        texts.get("text", ""), _known(texts, "voice"), _known(texts, "engine"),
        _language(texts.get("language", "")), _speed(texts.get("speed", "1")),
    )  # fmt: skip
    return wish, [name for name in ("cfg", "steps") if name in texts]


def _known(texts: dict[str, str], name: str) -> str:
    value = texts.get(name, "")
    if len(value) > 300:
        raise InvalidInputError(f"{name} is too long", hint="Take one of GET /config.")
    return value


def _language(text: str) -> str:
    if text and not re.fullmatch(LANGUAGE, text):
        raise InvalidInputError("language is none", hint="Such as en, es or fr; auto finds it out.")
    return "" if text == "auto" else text


def _frame(text: str) -> dict[str, Any]:
    try:
        told = parse(text)
    except (ValueError, LimitExceededError):
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("text"), str):
        raise InvalidInputError(
            "no text was sent", hint='Send {"text": "..."} first, or ?text= in the URL.'
        )
    return {name: told[name] for name in _FIELDS if name in told}


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.25 <= value <= 4:
        raise InvalidInputError("speed is no speed", hint="It goes from 0.25 to 4.")
    return value


async def _refuse(socket: WebSocket, error: Exception, *, event: str = "backend_error") -> None:
    """Say what is wrong, and close."""
    busy = isinstance(error, OverloadedError)
    told = errors.error_event(InvalidInputError("no text came", hint="Send it at once.")
                             if isinstance(error, TimeoutError) else error)  # fmt: skip
    code = _BUSY if busy else _REFUSED if told["status"] < 500 else _FAILED
    await _tell(socket, "backend_busy" if busy else event, message=told["title"], hint=told["hint"])
    await socket.close(code, reason="Service busy" if busy else "")


async def _tell(socket: WebSocket, event: str, **data: Any) -> None:
    if socket.application_state is not WebSocketState.CONNECTED:
        return
    now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    await socket.send_text(json.dumps(log_frame(event, now, **data)))
