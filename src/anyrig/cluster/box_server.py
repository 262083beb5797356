"""The coordinator's box: answers that are too large for the broker, put in once and taken out once.

    box = BoxServer(folder, key, [socket])
    box.start()

PUT /SHARD puts an answer there; the same shard again takes its place, as a shard may be done twice.
GET /SHARD reads it and DELETE /SHARD takes it out: whoever fetched it says so, as only they know
that it came whole. All ask for the key. What lies there is bounded in each answer, in all, and in
time, and nothing of it is ever looked into.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import re
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cluster.box import MOST_BYTES
from anyrig.cluster.link import RESULT_S
from anyrig.errors import WorkError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger(__name__)
MOST_IN_ALL = 8 << 30
"""Bytes that may lie there at once."""
_NAME = re.compile(r"[0-9a-f]{8,64}")
_BODY_S = 300.0
"""How long a body may take to come."""
_SWEEP_S = 30.0
_START_S, _END_S = 10.0, 5.0
_AT_ONCE = 256


class Box:
    """A folder of answers.

    Args:
        folder: holds nothing else; what is older than `ttl_s` is taken away.
        most_bytes: of one answer.
        most_in_all: of all that lie there.
        ttl_s: how long one lies there.
    """

    def __init__(
        self, folder: Path, *, most_bytes: int = MOST_BYTES, most_in_all: int = MOST_IN_ALL,
        ttl_s: float = RESULT_S,
    ) -> None:  # fmt: skip
        self.folder, self.most_bytes, self._ttl_s = folder, most_bytes, ttl_s
        self._most_in_all = most_in_all
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in folder.glob("*.part"):  # of a coordinator that was killed
            left.unlink(missing_ok=True)
        self.sweep()

    def path(self, name: str) -> Path | None:
        """Where an answer lies; None for what is no name of one."""
        return self.folder / f"{name}.json" if _NAME.fullmatch(name) else None

    def sweep(self) -> None:
        """Take away what nobody fetched."""
        before = time.time() - self._ttl_s
        for one in self.folder.iterdir():
            with contextlib.suppress(OSError):
                if one.stat().st_mtime < before:
                    one.unlink()

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more may lie there."""
        total = size
        for one in self.folder.iterdir():
            with contextlib.suppress(OSError):
                total += one.stat().st_size
        return total <= self._most_in_all


def app_of(box: Box, key: str) -> Starlette:
    """The box over HTTP."""
    from starlette.applications import Starlette
    from starlette.responses import FileResponse, PlainTextResponse
    from starlette.routing import Route

    async def alive(request: Request) -> Response:
        return PlainTextResponse("alive")

    async def answer(request: Request) -> Response:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
            return PlainTextResponse("the key is missing or wrong", 401)
        path = box.path(request.path_params["name"])
        if path is None:
            return PlainTextResponse("no name of a shard", 404)
        if request.method == "PUT":
            return await _put(box, path, request)
        if not path.exists():
            return PlainTextResponse("it is not here, or was fetched", 404)
        if request.method == "DELETE":
            path.unlink(missing_ok=True)
            return PlainTextResponse("gone")
        return FileResponse(path, media_type="application/json")

    return Starlette(
        routes=[
            Route("/health", alive, methods=["GET"]),
            Route("/{name}", answer, methods=["PUT", "GET", "DELETE"]),
        ]
    )


async def _put(box: Box, path: Path, request: Request) -> Response:
    from starlette.requests import ClientDisconnect
    from starlette.responses import PlainTextResponse

    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        return PlainTextResponse("say how long it is", 411)
    if int(length) > box.most_bytes:
        return PlainTextResponse(f"at most {box.most_bytes} bytes", 413)
    if not await asyncio.to_thread(box.has_room, int(length)):
        return PlainTextResponse("the box is full", 507)
    part = path.with_name(f"{path.stem}.{secrets.token_hex(4)}.part")
    try:
        size = 0
        with part.open("wb") as file:
            async with asyncio.timeout(_BODY_S):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > box.most_bytes:
                        return PlainTextResponse(f"at most {box.most_bytes} bytes", 413)
                    await asyncio.to_thread(file.write, chunk)
        part.replace(path)
    except ClientDisconnect:
        return PlainTextResponse("it did not come whole", 400)
    except TimeoutError:
        return PlainTextResponse("it took too long to come", 408)
    except OSError as error:
        log.warning("the box cannot keep an answer: %s", error)
        return PlainTextResponse("the disk does not take it", 507)
    finally:
        part.unlink(missing_ok=True)
    return PlainTextResponse("kept", 201)


class BoxServer:
    """The box on sockets that are bound already, in a thread of its own."""

    def __init__(self, box: Box, key: str, doors: Sequence[socket.socket]) -> None:
        import uvicorn

        self._box, self._doors = box, list(doors)
        config = uvicorn.Config(
            app_of(box, key), log_config=None, access_log=False, server_header=False,
            limit_concurrency=_AT_ONCE, timeout_keep_alive=5, timeout_graceful_shutdown=2,
            lifespan="off", ws="none",
        )  # fmt: skip
        self._server: Any = uvicorn.Server(config)
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._serve, name="anyrig-box", daemon=True),
            threading.Thread(target=self._sweeping, name="anyrig-box-sweep", daemon=True),
        ]

    def start(self) -> None:
        """Answer from now on."""
        for thread in self._threads:
            thread.start()
        end = time.monotonic() + _START_S
        while not self._server.started:
            if time.monotonic() > end or not self._threads[0].is_alive():
                raise WorkError("the box did not start", hint="-vv says more.")
            time.sleep(0.01)

    def close(self) -> None:
        """Answer no more."""
        self._end.set()
        self._server.should_exit = True
        for thread in self._threads:
            thread.join(timeout=_END_S)
        for door in self._doors:
            door.close()

    def _serve(self) -> None:
        self._server.run(sockets=self._doors)

    def _sweeping(self) -> None:
        while not self._end.wait(_SWEEP_S):
            try:
                self._box.sweep()
            except OSError as error:
                log.warning("the box could not be swept: %s", error)
