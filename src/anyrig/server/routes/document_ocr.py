"""Pictures of pages to text, to boxes, or to a PDF that can be searched."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from starlette.types import Receive, Scope, Send

from anyrig.server.access import Client
from anyrig.server.documents import Desk, Source, answer
from anyrig.server.errors import Problem
from anyrig.server.json_body import JsonRoute
from anyrig.server.schemas import documents as asked
from anyrig.server.schemas import documents_told as told
from anyrig.server.state import ServerState

_PDF = {"application/pdf": {"schema": {"type": "string", "format": "binary"}}}
_OLD_S = 3600.0


def router(server: ServerState, desk: Desk) -> APIRouter:
    """The routes."""
    from anyrig.server.routes.documents import Task, described, run, sent

    routes = APIRouter(route_class=JsonRoute)
    folder = server.data_folder / "made"
    _tidied(folder)
    task = Task(
        "ocr", "What stands on pictures of pages", asked.OcrOptions, told.Told[told.Pages],
        partial(_read, desk, folder), more=_PDF,
    )  # fmt: skip

    @routes.post("/ocr", **described(task))
    async def ocr(request: Request, body: asked.OcrAsked) -> Response:
        """Text, boxes of lines and words, or with format=pdf the file itself to be searched."""
        return await run(request, desk, task, body)

    sent(routes, server, desk, task)
    return routes


async def _read(
    desk: Desk, folder: Path, client: Client, sources: Sequence[Source],
    options: Mapping[str, Any],
) -> Any:  # fmt: skip
    form = options["format"]
    arguments = {name: value for name, value in options.items() if name != "format"}
    arguments["words"] = form == "json"
    if form != "pdf":
        return answer(await desk.each("ocr", sources, arguments))
    if len(sources) != 1:
        raise Problem(400, "a PDF is made of one file", hint="Send a request for each.")
    return await _pdf(desk, folder, sources[0], arguments)


async def _pdf(desk: Desk, folder: Path, source: Source, arguments: Mapping[str, Any]) -> Response:
    """The file with its words, deleted once it was sent."""
    place = folder / secrets.token_hex(16)
    path = place / "made.pdf"
    # With its folder: a clerk that is not done when the client leaves finds no place for it.
    remove = partial(shutil.rmtree, place, ignore_errors=True)
    try:
        await to_thread.run_sync(partial(place.mkdir, parents=True))
        rows = await desk.each("ocr", [source], {**arguments, "pdf": str(path)})
        answer(rows)  # raises what went wrong
    except BaseException:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(remove)
        raise
    name = f"{source.name.rpartition('.')[0] or source.name}.pdf"
    return _Once(path, media_type="application/pdf", filename=name)


class _Once(FileResponse):
    """A file that goes with its folder, whether it was sent or whoever asked has left."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            remove = partial(shutil.rmtree, Path(self.path).parent, ignore_errors=True)
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(remove)


def _tidied(folder: Path) -> None:
    """A folder of our own, without what an earlier server left behind when it was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    before = time.time() - _OLD_S
    for place in folder.iterdir():
        with contextlib.suppress(OSError):
            if place.stat().st_mtime < before:
                shutil.rmtree(place)
