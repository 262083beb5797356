"""`anyrig book`: a book in, a finished audiobook out."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app import book_checks, book_listing, books
from anyrig.app.book_checks import SampleRequest, VerifyRequest
from anyrig.app.books import BookRequest, parse_output
from anyrig.audiobooks.progress import BookProgressEvent
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import PlainEventPrinter, format_table, print_json, print_line
from anyrig.cli.prompts import offer_voice
from anyrig.cli.rig import open_rig
from anyrig.errors import AnyrigError, InvalidInputError, MissingVoiceError, render
from anyrig.events import BookStartedEvent, BookUnfinishedEvent, Event, ProgressEvent
from anyrig.install import localize_install_commands
from anyrig.options import list_options
from anyrig.results import to_json
from anyrig.units import (
    format_bytes,
    format_duration,
    format_speed,
    format_time_left,
    pluralize,
    shorten,
)

if TYPE_CHECKING:
    from anyrig.app.book_checks import BookSample
    from anyrig.app.book_listing import ChapterList, Speakers
    from anyrig.app.books import PlannedBook
    from anyrig.app.rig import Rig
    from anyrig.audiobooks.make import BookResult
    from anyrig.audiobooks.progress import BookProgress
    from anyrig.events import FasterVoice

HELP = """Make an audiobook: EPUB, PDF, docx, odt, fb2, HTML, Markdown or text in, an m4b with
chapters, cover and tags out, or with --format one file per chapter. Several files are one book, in
the order given; so are the pages that a manual's index page links to. --list shows the chapters
with words and durations; --sample 60s --voices a,b writes previews. An interrupted run continues
where it was; only what changed is made again, and --again 3:17 makes one sentence of chapter 3
again. --verify BOOK.m4b SOURCE checks a finished book against its text."""
RESUME = "What was spoken is cached: the same command continues the book."
MIXED = True
_MAX_TITLES = 4


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="the book, or its files in order; with --verify: BOOK SOURCE",
    )
    parser.add_argument("-o", "--output", metavar="PATH", help=_help("output"))
    parser.add_argument("--list", action="store_true", help="list chapters and estimated durations")
    parser.add_argument(
        "--speakers", action="store_true", help="list speakers, to write a cast file"
    )
    parser.add_argument("--queue", action="store_true", help="queue it; `anyrig jobs run` runs it")
    parser.add_argument(
        "--verify", action="store_true", help="check a finished book against its source"
    )
    add_flags(parser, BookRequest, exclude=("file", "output"))
    for request in (SampleRequest, VerifyRequest):
        add_flags(parser, request, exclude=list_options(BookRequest))


def _help(name: str) -> str:
    return list_options(BookRequest)[name].help


def run(arguments: argparse.Namespace) -> int:
    has_events = arguments.json and not _is_document(arguments)
    with BookPrinter(json_lines=has_events) as printer:
        try:
            given = _read_arguments(arguments)
            rig = open_rig(arguments, printer)
            try:
                return _run(rig, arguments, dict(given), printer)
            except MissingVoiceError as error:
                offer_voice(error, rig, printer, ask=not arguments.json)
            return _run(rig, arguments, dict(given), printer)
        except AnyrigError as error:
            if has_events:  # a program that follows gets it as an event
                print_line("failed", {"error": error.message, "hint": error.hint})
            raise


def _is_document(arguments: argparse.Namespace) -> bool:
    """Whether --json prints one document, and not an event for each step."""
    return bool(arguments.list or arguments.verify or getattr(arguments, "sample", None))


def _run(
    rig: Rig, arguments: argparse.Namespace, given: dict[str, Any], printer: BookPrinter
) -> int:
    if arguments.verify:
        report = book_checks.verify_book(rig, rig.request(VerifyRequest, **given), printer)
        text = localize_install_commands(
            "\n".join(render(line, "command") for line in report.format())
        )
        _show(arguments, printer, report.to_json(), text)
        return 0 if report.is_good else 1
    if "sample" in given:
        samples = book_checks.sample_book(rig, rig.request(SampleRequest, **given), printer)
        _show(arguments, printer, {"samples": to_json(samples)}, _format_samples(samples))
        return 0
    request = rig.request(BookRequest, **given)
    if arguments.queue:
        from anyrig.cli.jobs import print_queued

        given["output"] = books.check_book(rig, request).path
        return print_queued([rig.jobs.submit("book", **given)], as_json=arguments.json)
    if arguments.speakers:
        speakers = book_listing.list_speakers(rig, request, printer)
        _show(arguments, printer, to_json(speakers), _format_speakers(speakers))
    elif arguments.list and request.chapters:
        book = books.plan_book(rig, request, printer)
        rows = _list_segments(book)
        data = {
            "engine": book.engine.name, "segments": rows, "omitted": dict(book.plan.count_omitted())
        }  # fmt: skip
        lines = [f"{row['chapter']}:{row['segment']:<4} {row['spoken']}" for row in rows]
        _show(arguments, printer, data, "\n".join(lines))
    elif arguments.list:
        found = book_listing.list_chapters(rig, request, printer)
        _show(arguments, printer, found.to_json(), _format_chapters(found))
    else:
        started = time.time()
        result = books.make_book(rig, request, printer)
        printer.pause()
        from anyrig.app.jobs import describe_book

        rig.jobs.record("book", {**given, "output": request.output}, describe_book(result), started)
        if arguments.json:
            print_line("done", result.to_json())
        else:
            print(_format_result(result))
    return 0


def _show(
    arguments: argparse.Namespace, printer: BookPrinter, data: dict[str, Any], text: str
) -> None:
    printer.pause()
    if arguments.json:
        print_json(data)
    else:
        print(text)


def _read_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that were given."""
    files = [Path(name).expanduser() for name in arguments.files]
    given = read_flags(arguments, VerifyRequest if arguments.verify else SampleRequest)
    if arguments.verify and len(files) < 2:
        raise InvalidInputError(
            "--verify needs the finished book and its source",
            hint="`anyrig book --verify BOOK.m4b SOURCE`; a folder of chapters works as well.",
        )
    if arguments.verify:
        given["finished"], *files = files
    given["file"], *more = files
    if more:
        given["more_files"] = tuple(more)
    given["follow_links"] = True
    if arguments.queue and (_is_document(arguments) or arguments.speakers):
        raise InvalidInputError("only the making of a book can be queued", hint="Omit --queue.")
    if "voices" in given and "sample" not in given:
        raise InvalidInputError(
            "--voices requires --sample", hint="Add --sample 60s; --voice NAME reads the book."
        )
    if arguments.output:
        given["output"] = parse_output(arguments.output, files[0], given.get("format"))
    return given


class BookPrinter(PlainEventPrinter):
    """Shows how far a book is: a line that is written over, lines in a log, or JSON lines."""

    _shown_stage = ""

    def __call__(self, event: Event) -> None:
        if self._json_lines and isinstance(event, BookStartedEvent | BookUnfinishedEvent):
            row = event.to_json()
            print_line(row.pop("event"), row)
        elif isinstance(event, BookStartedEvent):
            self.pause()
            _print_start(event)
        elif isinstance(event, BookProgressEvent) and not self._json_lines:
            if event.stage != self._shown_stage or event.done == event.total:
                self._next_line = 0.0  # now
            self._shown_stage = event.stage
            super().__call__(ProgressEvent(event.stage, detail=_format_progress(event.progress)))
        elif isinstance(event, BookProgressEvent) or not (
            self._json_lines and isinstance(event, ProgressEvent)
        ):
            super().__call__(event)


def _print_start(event: BookStartedEvent) -> None:
    guess = "" if event.is_measured else ", a guess until this voice was measured"
    duration = format_duration(event.estimated_audio_s)
    chapters = pluralize(len(event.chapters), "chapter")
    print(f"{event.title}: {chapters}, {duration} of speech{guess}", file=sys.stderr)
    if event.faster is not None:
        line = _describe_faster(event.engine, event.faster, event.estimated_audio_s)
        print(f"  {line}", file=sys.stderr)
    for one in event.left_out:
        what = ", ".join(one.titles[:_MAX_TITLES]) + ", ..." * (len(one.titles) > _MAX_TITLES)
        what = what or pluralize(one.count, one.what)
        print(f"  left out: {what} (--{one.option} {one.value} reads them)", file=sys.stderr)


def _describe_faster(engine: str, faster: FasterVoice, audio_s: float) -> str:
    """`kokoro takes about 1 min of one CPU core; --engine nanotts is about 58 times as fast`."""
    core = format_duration(faster.core_s_per_audio_s * audio_s)
    install = f", after: {faster.install}" if faster.install else ""
    return (
        f"{engine} takes about {core} of one CPU core ({faster.core_s_per_audio_s:g} s a second);"
        f" --engine {faster.engine} is about {faster.times_faster:.0f} times as fast{install}"
    )


def _format_progress(now: BookProgress) -> str:
    """`chapter 3/12 45 %, 44 times real time, 3 min left, cpu  Down the Rabbit-Hole`."""
    chapter = f"chapter {now.chapter}/{now.num_chapters} " if now.stage == "making" else ""
    parts = [f"{chapter}{now.done:.0%}"]
    if now.speed is not None:
        parts.append(format_speed(now.speed))
    if now.left is not None and now.left.high_s:
        parts.append(format_time_left(*now.left))
    elif now.stage == "making" and now.left is None and not now.devices:
        parts.append("loading")
    if len(now.devices) > 1:
        total = sum(now.devices.values()) or 1.0
        parts.append(" ".join(f"{name} {rate / total:.0%}" for name, rate in now.devices.items()))
    elif now.devices:
        parts.append(next(iter(now.devices)))
    return f"{', '.join(parts)}  {now.title}"


def _format_result(result: BookResult) -> str:
    audio_s = result.timeline.duration_s
    facts = [format_speed(audio_s, result.wall_s)]
    if result.num_cached:
        segments = pluralize(result.stats.num_segments, "segment")
        facts.append(f"{result.num_cached} of {segments} cached")
    if result.workers:
        facts.append(f"made by {result.workers}")
    size = sum(path.stat().st_size for path in result.files)
    place = result.files[0] if len(result.files) == 1 else result.target.path
    chapters = pluralize(len(result.plan.parts), "chapter")
    first = (
        f"{place}: {format_duration(audio_s)} of speech, {chapters}, {format_bytes(size)}, in"
        f" {format_duration(result.wall_s)} ({', '.join(facts)})"
    )
    return "\n".join([first, *map(str, result.extra_files)])


def _format_samples(samples: Sequence[BookSample]) -> str:
    return "\n".join(
        f"{one.file}: {' '.join(filter(None, (one.engine, one.voice)))},"
        f" {format_duration(one.audio_s)}"
        for one in samples
    )


def _format_chapters(found: ChapterList) -> str:
    about = found.book.document.metadata
    authors = f" by {', '.join(about.authors)}" if about.authors else ""
    series = f" ({f'{about.series} {about.series_index}'.rstrip()})" if about.series else ""
    rows = [("", "chapter", "words", "about", "")]
    for chapter in found.chapters:
        indent = "  " * (min(chapter.level, 6) - 1)
        note = "" if chapter.is_spoken else f"not read ({chapter.role})"
        title = indent + shorten(chapter.title, 60 - len(indent))
        duration = format_duration(chapter.estimated_s)
        rows.append((str(chapter.number), title, f"{chapter.words:,}", duration, note))
    guess = "" if found.is_measured else " (a guess: this voice has not been measured yet)"
    words, duration = pluralize(found.words, "word"), format_duration(found.estimated_s)
    lines = [f"{about.title}{authors}{series}", "", format_table(rows, right=(0, 2, 3)), ""]
    lines.append(f"{words}, about {duration} of speech{guess}")
    if found.to_make_s is not None and found.times_real_time is not None:
        speed = f"{format_speed(found.times_real_time)}, as last measured here"
        lines.append(f"about {format_duration(found.to_make_s)} to make, at {speed}")
    if found.faster is not None:
        lines.append(_describe_faster(found.book.engine.name, found.faster, found.estimated_s))
    return "\n".join(lines)


def _list_segments(book: PlannedBook) -> list[dict[str, Any]]:
    """Each segment under the number that --again takes."""
    return [
        {"chapter": part.number, "segment": number, "text": " ".join(segment.text.split()),
         "spoken": segment.spoken, "language": segment.utterance.language,
         "voice": segment.utterance.voice}
        for part in book.plan.parts
        for number, segment in enumerate(part.script.segments, 1)
    ]  # fmt: skip


def _format_speakers(found: Speakers) -> str:
    tables = []
    if found.roles:
        rows = [("role", "voice", "words", "speeches")]
        rows += [
            (one.role or "narrator", one.voice, f"{one.num_words:,}", f"{one.num_speeches:,}")
            for one in found.roles
        ]
        tables.append(format_table(rows, right=(2, 3)))
    if found.others:
        table = [("without a role", "speeches", "")]
        table += [(one.name, f"{one.num_speeches:,}", one.example) for one in found.others]
        tables.append(format_table(table, right=(1,)))
    return "\n\n".join(tables) or "No speakers were found; the narrator reads everything."
