"""Books for the server, in a process of its own, as a book's file may be hostile."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app import books
from anyrig.app.book_chapters import extract_chapter, write_cached_chapter
from anyrig.app.books import BookRequest
from anyrig.app.compute import ComputeOptions
from anyrig.errors import InvalidInputError
from anyrig.options import list_options

if TYPE_CHECKING:
    from anyrig.app.events import Event
    from anyrig.cli.clerk import ClerkRoom
    from anyrig.text.document import Picture


def book_plan(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A book's chapters and durations, its warnings, and its cover as base64.

    Args:
        room: the clerk's.
        arguments: `arguments` of a job.
    """
    request = _request(room, arguments["arguments"])
    found = books.list_chapters(room.context.rig, request, _ignore)
    room.check()
    document = found.book.document
    return {
        **found.to_json(), "language": found.book.language, "voice": found.voice,
        "warnings": list(document.warnings), "picture": _picture(document.cover),
    }  # fmt: skip


def book_cover(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, str] | None:
    """A book's cover: `type`, and `data` in base64; None if it has none."""
    from anyrig.text.files import read

    document = read(Path(arguments["file"]))
    room.check()
    return _picture(document.cover)


def book_chapter(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Write the audio of a chapter.

    Args:
        room: the clerk's.
        arguments: `arguments` of the job, `number` of the chapter, `target` for the file; `made` is
            the finished book, of which `track` is used if takes are not cached any more.
    """
    target, rig = Path(arguments["target"]), room.context.rig
    try:
        request = _request(room, arguments["arguments"])
        book = room.keep(
            f"book plan {Path(arguments['arguments']['output']).stem}",
            lambda: nullcontext(books.plan_book(rig, request, _ignore)),
            version=str(arguments["arguments"]["output"]),
        )
        number = int(arguments["number"])
        seconds = write_cached_chapter(rig, request, book, number, target, room.check)
    except InvalidInputError:
        if not arguments.get("made"):
            raise
        made, track = Path(arguments["made"]), int(arguments["track"])
        seconds = extract_chapter(made, track, target, room.check)
    return {"file": str(target), "seconds": round(seconds, 3)}


def _request(room: ClerkRoom, arguments: Mapping[str, Any]) -> BookRequest:
    """The request of a job; the server's own flags about devices are its defaults."""
    given = {name: value for name, value in arguments.items() if name not in ("folder", "config")}
    for name, option in list_options(ComputeOptions).items():
        value = getattr(room.context.options, name, None)
        if value not in (None, "", False) and name not in given and option.excludes not in given:
            given[name] = value
    return room.context.rig.request(BookRequest, **{**given, "no_bench": True})


def _ignore(event: Event) -> None:
    pass


def _picture(picture: Picture | None) -> dict[str, str] | None:
    from anyrig.audiobooks.cover import prepare

    made, _ = prepare(picture)
    if made is None:
        return None
    return {"type": made.media_type, "data": base64.b64encode(made.data).decode("ascii")}
