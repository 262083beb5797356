"""Books for the server, in a clerk's process: plans, covers, and chapters that are made already.

A book's file may be hostile, so it is never opened in the server's own process. A job's arguments
are read as its command reads them; so a plan is the one that the job will have, and the takes of a
chapter are found in the store under the names that the job kept them by.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import book, speaker, voicing
from anyrig.cli.book_order import ordered
from anyrig.cli.context import Context
from anyrig.cli.parse import command_line
from anyrig.errors import InvalidInputError
from anyrig.services.jobs import words_of

if TYPE_CHECKING:
    from anyrig.app.document_worker import WorkerContext
    from anyrig.audiobooks.plan import Plan
    from anyrig.services.book import Order
    from anyrig.speech.maker import Spoken
    from anyrig.speech.script import Segment
    from anyrig.speech.synthesise import Tally
    from anyrig.text.document import Picture

_FLAGS = ("device", "strict", "precision", "profile", "memory_gb", "memory_fraction",
          "workers_per_device", "config")  # fmt: skip
FORMAT = "mp3"
"""Every browser plays it."""


def book_plan(room: WorkerContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a book will be: chapters, words, lengths; its cover as base64.

    Args:
        room: the clerk's.
        arguments: `arguments` of a job, as `services.jobs.check` gives them.
    """
    from anyrig.cli.book_list import listed
    from anyrig.services.book import opened

    context = _context(room, arguments["arguments"])
    order = ordered(context)
    document = opened(order)
    room.check()
    teller = book.teller_of(context, document)
    told = listed(context, order, document, teller)
    told["language"] = book.language_of(context, document)
    told["voice"] = speaker.voice_of(context, teller)
    told["authors"] = list(told["authors"])
    told["warnings"] = list(document.warnings)
    told["picture"] = _picture(document.cover)
    return told


def book_cover(room: WorkerContext, arguments: Mapping[str, Any]) -> dict[str, str] | None:
    """A book's cover: `type`, and `data` in base64; none where it has none.

    Args:
        room: the clerk's.
        arguments: `file` is the book's path.
    """
    from anyrig.text.files import read

    found = read(Path(arguments["file"]))
    room.check()
    return _picture(found.cover)


def book_chapter(room: WorkerContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The sound of a chapter whose takes are all there, written to a file.

    Args:
        room: the clerk's.
        arguments: `arguments` of the job, `number` of the chapter, `target` for the file; where the
            book is finished, `made` is its file, which serves where takes are gone.
    """
    target = Path(arguments["target"])
    try:
        seconds = _from_takes(room, arguments["arguments"], int(arguments["number"]), target)
    except InvalidInputError:
        if not arguments.get("made"):
            raise
        seconds = _from_book(room, Path(arguments["made"]), int(arguments["track"]), target)
    return {"file": str(target), "seconds": round(seconds, 3)}


def _context(room: WorkerContext, arguments: Mapping[str, Any]) -> Context:
    """The context that the job's command has."""
    _, options = command_line(words_of("book", arguments))
    given = {**room.options, "config": room.rig.config}
    for name in _FLAGS:
        if getattr(options, name, None) in (None, False):
            setattr(options, name, given.get(name))
    options.no_bench = True
    context = Context(options, room.rig.environment)
    context.machine = room.rig.machine
    return context


def _picture(picture: Picture | None) -> dict[str, str] | None:
    from anyrig.audiobooks.cover import prepare

    made, _ = prepare(picture)
    if made is None:
        return None
    return {"type": made.media_type, "data": base64.b64encode(made.data).decode("ascii")}


# -- a chapter of a book that is being made --------------------------------------------------------


def _from_takes(
    room: WorkerContext, arguments: Mapping[str, Any], number: int, target: Path
) -> float:  # fmt: skip
    from anyrig.audiobooks.make import record, sound
    from anyrig.cli.keep import keeping
    from anyrig.services.book import ceiling_dbtp, tags_of
    from anyrig.speech.shelf import Shelf
    from anyrig.speech.stage import Names

    context = _context(room, arguments)
    with room.rig.models.borrow(
        f"book plan {Path(arguments['output']).stem}",
        lambda: nullcontext(_planned(context)),
        version=str(arguments["output"]),
    ) as found:
        order, plan, teller = found
    parts = tuple(part for part in plan.parts if part.number == number)
    if not parts:
        raise InvalidInputError(
            f"the book has no chapter {number} that is spoken", hint="See the job's chapters."
        )
    one = replace(plan, parts=parts, silent=())
    size = sum(chapter.num_characters for chapter in plan.document.chapters)
    names = Names(teller.name, teller.found, voicing.placed(context, teller, size), teller.options)
    with keeping(context) as store:
        shelf = Shelf(store, teller.found.engine)
        kept: Any = _Kept(names, shelf, teller.found.sample_rate, room.check)
        recorded = record(one, kept, target_lufs=order.target_lufs, rests=order.rests)
        heard = sound(one, kept, recorded, ceiling_dbtp=ceiling_dbtp(order))
        _written(target, heard, kept.rate, f"{tags_of(order, plan).title}: {parts[0].title}")
    return recorded.timeline.duration_s


def _planned(context: Context) -> tuple[Order, Plan, speaker.Chosen]:
    from anyrig.services.book import opened

    order = ordered(context)
    document = opened(order)
    teller = book.teller_of(context, document)
    return order, book.planned(context, order, document, teller), teller


class _Kept:
    """Stands for a studio whose takes are all in the store; it makes none."""

    def __init__(self, names: Any, shelf: Any, rate: int, check: Callable[[], None]) -> None:
        self._names, self._shelf, self.rate, self._check = names, shelf, rate, check

    def num_kept(self, segments: Sequence[Segment]) -> int:
        """All of them."""
        return sum(len(segment.line.text) for segment in segments)

    def takes(
        self, segments: Sequence[Segment], *, tally: Tally | None = None, anew: bool = False
    ) -> Generator[Spoken]:
        """Each as it was kept."""
        from anyrig.speech.maker import Spoken

        for index, segment in enumerate(segments):
            self._check()
            kept = self._shelf.find(self._names.key(segment.line))
            if kept is None:
                raise InvalidInputError(
                    "that chapter is not made yet", hint="Listen to it when the job is past it."
                )
            spoken = Spoken(index, segment, kept.take, kept.problems, kept=True)
            if tally is not None:
                tally.add(spoken)
            yield spoken


# -- a chapter of a finished book ------------------------------------------------------------------


def _from_book(room: WorkerContext, made: Path, track: int, target: Path) -> float:
    """Cut out of the book's file."""
    from anyrig.audiobooks.listen import Reader, finished

    found = finished(made)
    if not 0 <= track < len(found.tracks):
        raise InvalidInputError("the book has no such chapter", hint="See the job's chapters.")
    part = found.tracks[track]
    with closing(Reader()) as reader:
        mono = (block.mean(axis=1) for block in reader.read(part.file, part.start, part.end))
        _written(target, _checked(room, mono), part.rate, part.title)
    return part.duration_s


def _checked(room: WorkerContext, parts: Iterable[Any]) -> Iterator[Any]:
    """The parts, for as long as somebody waits for them."""
    for part in parts:
        room.check()
        yield part


def _written(target: Path, parts: Any, rate: int, title: str) -> None:
    """The file, there at once or not at all."""
    from anyrig.speech.sound.encode import encoder

    target.parent.mkdir(parents=True, exist_ok=True)
    with encoder(target, FORMAT, rate, tags={"title": title}) as out:
        for samples in parts:
            out.write(samples)
