"""A file as an answer: whole, or a part of it; never shown, always to be saved under a good name.

`FileResponse` does the sending. What it refuses, it refuses in plain text; here refusals are
problems like all others, and a file that the client has already is not sent again.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import anyio.to_thread
from fastapi import Request
from fastapi.responses import FileResponse, Response

from anyrig.server.errors import Problem

TYPES: Mapping[str, str] = {
    ".m4b": "audio/mp4", ".m4a": "audio/mp4", ".mp3": "audio/mpeg", ".opus": "audio/ogg",
    ".ogg": "audio/ogg", ".flac": "audio/flac", ".wav": "audio/wav", ".aac": "audio/aac",
    ".srt": "application/x-subrip", ".vtt": "text/vtt; charset=utf-8",
    ".txt": "text/plain; charset=utf-8", ".md": "text/markdown; charset=utf-8",
    ".json": "application/json", ".jsonl": "application/x-ndjson", ".m3u": "audio/x-mpegurl",
    ".m3u8": "application/vnd.apple.mpegurl", ".epub": "application/epub+zip",
    ".png": "image/png", ".jpg": "image/jpeg",
}  # fmt: skip
_ONE = re.compile(r"\s*bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.ASCII | re.IGNORECASE)


def type_of(path: Path) -> str:
    """What a file is, by the ending that we gave it."""
    return TYPES.get(path.suffix.lower(), "application/octet-stream")


async def file_answer(
    request: Request, path: Path, name: str, *, media_type: str = "", inline: bool = False
) -> Response:
    """The file, or the part that `Range` asks for.

    Args:
        request: its headers say what is wanted.
        path: of the file.
        name: what it is saved as.
        media_type: of its content; by its ending when empty.
        inline: whether a browser may show it; sound and pictures alone.
    """
    try:
        found = await anyio.to_thread.run_sync(os.stat, path)
    except OSError as error:
        raise _gone() from error
    if not stat.S_ISREG(found.st_mode):
        raise _gone()
    etag = f'"{found.st_mtime_ns:x}-{found.st_size:x}"'
    headers = {
        "ETag": etag,
        "Content-Disposition": disposition(name, inline=inline),
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache",
    }
    given = request.headers.get("if-none-match", "")
    if etag in (one.strip().removeprefix("W/") for one in given.split(",")):
        return Response(status_code=304, headers=headers)
    condition = request.headers.get("if-range")
    asked = request.headers.get("range") if condition in (None, etag) else None
    if not _wants_part(asked, found.st_size):
        kept = [one for one in request.scope["headers"] if one[0] not in (b"range", b"if-range")]
        request.scope["headers"] = kept
    return FileResponse(
        path, headers=headers, media_type=media_type or type_of(path), stat_result=found
    )


def disposition(name: str, *, inline: bool = False) -> str:
    """RFC 6266: the name in plain letters for old clients, and as it is for all others."""
    kind = "inline" if inline else "attachment"
    plain = re.sub(r"[^\w .,()+-]", "_", name.encode("ascii", "replace").decode(), flags=re.ASCII)
    if plain == name:
        return f'{kind}; filename="{name}"'
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _wants_part(asked: str | None, size: int) -> bool:
    """Whether one part is asked for; 416 where there is none such.

    Whatever cannot be read is no range, and several at once are answered with the whole file, as
    RFC 9110 allows.
    """
    match = _ONE.fullmatch(asked) if asked else None
    if match is None:
        return False
    first, last = match[1], match[2]
    if (not first and not last) or (first and last and int(last) < int(first)):
        return False
    if (first and int(first) >= size) or (not first and int(last) == 0):
        raise Problem(
            416, "the file has no such part", hint=f"It has {size} bytes.",
            headers={"Content-Range": f"bytes */{size}"},
        )  # fmt: skip
    return True


def _gone() -> Problem:
    return Problem(404, "the file is gone", hint="Make it again.")
