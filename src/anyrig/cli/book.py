"""`anyrig book`: a book in, a finished audiobook out."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app import books
from anyrig.app.book_recording import parse_output
from anyrig.app.books import BookRequest, SampleRequest, VerifyRequest
from anyrig.app.events import (
    BookProgressEvent,
    BookStartedEvent,
    BookUnfinishedEvent,
    Event,
    ProgressEvent,
)
from anyrig.cli.escape import esc, escape_controls
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, format_table, print_json, print_line
from anyrig.cli.rig import open_rig
from anyrig.errors import AnyrigError, InvalidInputError, format_mentions
from anyrig.options import list_options
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.app.book_recording import BookResult
    from anyrig.app.books import ChapterList, PlannedBook, Speakers
    from anyrig.app.rig import Rig

HELP = """Make an audiobook: EPUB, PDF, docx, odt, fb2, HTML, Markdown or text in, an m4b with
chapters, cover and tags out, or with --format a file for each chapter. --list shows the chapters
with their words and durations; --sample 60s --voices a,b writes previews. A run that was stopped or
killed continues where it was; only what changed is made again, and --again 3:17 makes one sentence
of chapter 3 again. --verify BOOK.m4b SOURCE listens to a finished book."""
RESUME = "What was spoken is cached: the same command continues the book."
MIXED = True
_LIVE_S, _LOG_S = 0.2, 15.0
_MAX_TITLES = 4


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="the book; with --verify both")
    parser.add_argument("-o", "--output", metavar="PATH", help=_help("output"))
    parser.add_argument("--list", action="store_true", help="show the chapters and how long")
    parser.add_argument(
        "--speakers", action="store_true", help="show who speaks, to write a cast file by"
    )
    parser.add_argument("--queue", action="store_true", help="as a job, for `anyrig jobs run`")
    parser.add_argument("--verify", action="store_true", help="check a finished book: BOOK SOURCE")
    add_flags(parser, BookRequest, exclude=("file", "output"))
    for request in (SampleRequest, VerifyRequest):
        add_flags(parser, request, exclude=list_options(BookRequest))


def _help(name: str) -> str:
    return list_options(BookRequest)[name].help


def run(arguments: argparse.Namespace) -> int:
    has_events = arguments.json and not _is_document(arguments)
    with BookPrinter(json_lines=has_events) as printer:
        try:
            return _run(arguments, printer)
        except AnyrigError as error:
            if has_events:  # a program that follows gets it as an event
                message, hint = (format_mentions(t, "command") for t in (error.message, error.hint))
                print_line("failed", {"error": message, "hint": hint})
            raise


def _is_document(arguments: argparse.Namespace) -> bool:
    """Whether --json prints one document, and not an event for each step."""
    return bool(arguments.list or arguments.verify or getattr(arguments, "sample", None))


def _run(arguments: argparse.Namespace, printer: BookPrinter) -> int:
    given = _read_arguments(arguments)
    rig = open_rig(arguments, printer)
    if arguments.verify:
        return _verify(rig, rig.request(VerifyRequest, **given), arguments, printer)
    if "sample" in given:
        return _sample(rig, rig.request(SampleRequest, **given), arguments, printer)
    request = rig.request(BookRequest, **given)
    if arguments.queue:
        return _queue(rig, request, arguments, given)
    if arguments.speakers:
        _print_speakers(books.list_speakers(rig, request, printer), arguments, printer)
    elif arguments.list and request.chapters:
        _print_segments(books.plan_book(rig, request, printer), arguments, printer)
    elif arguments.list:
        _print_chapters(books.list_chapters(rig, request, printer), arguments, printer)
    else:
        _report(books.make_book(rig, request, printer), arguments, printer)
    return 0


def _verify(
    rig: Rig, request: VerifyRequest, arguments: argparse.Namespace, printer: BookPrinter
) -> int:
    report = books.verify_book(rig, request, printer)
    printer.pause()
    if arguments.json:
        print_json(report.plain())
    else:
        print("\n".join(format_mentions(line, "command") for line in report.lines()))
    return 0 if report.good else 1


def _sample(
    rig: Rig, request: SampleRequest, arguments: argparse.Namespace, printer: BookPrinter
) -> int:
    samples = books.sample_book(rig, request, printer)
    printer.pause()
    if arguments.json:
        print_json({"samples": [sample.to_json() for sample in samples]})
        return 0
    for sample in samples:
        reader = " ".join(filter(None, (sample.engine, sample.voice)))
        print(f"{sample.file}: {reader}, {format_duration(sample.audio_s)}")
    return 0


def _read_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that were given."""
    files = [Path(name).expanduser() for name in arguments.files]
    given = read_flags(arguments, VerifyRequest if arguments.verify else SampleRequest)
    given["file"] = files[-1]
    if arguments.verify and len(files) != 2:
        raise InvalidInputError(
            "--verify needs the finished book and its source",
            hint="`anyrig book --verify BOOK.m4b SOURCE`; a folder of chapters works as well.",
        )
    if arguments.verify:
        given["finished"] = files[0]
    elif len(files) != 1:
        raise InvalidInputError(
            "one book at a time", hint="`anyrig book FILE -o OUT.m4b`; --queue queues several."
        )
    if arguments.queue and (_is_document(arguments) or arguments.speakers):
        raise InvalidInputError("only the making of a book can be queued", hint="Omit --queue.")
    if "voices" in given and "sample" not in given:
        raise InvalidInputError(
            "--voices requires --sample", hint="Add --sample 60s; --voice NAME reads the book."
        )
    if arguments.output:
        given["output"] = parse_output(arguments.output, files[-1], given.get("format"))
    return given


def _queue(
    rig: Rig, request: BookRequest, arguments: argparse.Namespace, given: dict[str, Any]
) -> int:
    from anyrig.cli.jobs import print_queued

    target = books.check_book(rig, request)
    job = rig.jobs.submit("book", **{**given, "output": target.path})
    return print_queued([job], as_json=arguments.json)


class BookPrinter(EventPrinter):
    """Shows how far a book is: a line that is written over, lines in a log, or JSON lines."""

    _next_s = 0.0
    _stage = ""
    _has_line = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, BookStartedEvent | BookUnfinishedEvent):
            if self._json_lines:
                _print_event(event.to_json())
            elif isinstance(event, BookStartedEvent):
                self.pause()
                _print_start(event)
        elif isinstance(event, BookProgressEvent):
            self._show(event)
        elif isinstance(event, ProgressEvent):
            if self._is_terminal and not self._json_lines:
                place = f" {event.done}/{event.total}" if event.total else ""
                self._draw_line(f"{event.stage}{place} {event.detail}")
        else:
            super().__call__(event)

    def _show(self, event: BookProgressEvent) -> None:
        now = time.monotonic()
        if self._json_lines:
            self._print_line(event)
        elif now >= self._next_s or event.stage != self._stage or event.done == event.total:
            self._stage = event.stage
            self._next_s = now + (_LIVE_S if self._is_terminal else _LOG_S)
            if self._is_terminal:
                self._draw_line(_format_progress(event))
            else:
                print(_format_progress(event)[:200], file=sys.stderr, flush=True)

    def _draw_line(self, text: str) -> None:
        line = escape_controls(text)[: shutil.get_terminal_size().columns - 1]
        print(f"\r{esc(sys.stderr)}[2K{line}", end="", file=sys.stderr, flush=True)
        self._has_line = True

    def pause(self) -> None:
        if self._has_line:
            print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)
            self._has_line = False


def _print_event(data: dict[str, Any]) -> None:
    print_line(data.pop("event"), data)


def _print_start(event: BookStartedEvent) -> None:
    guess = "" if event.is_measured else ", a guess until this voice was measured"
    duration = format_duration(event.estimated_audio_s)
    chapters = pluralize(len(event.chapters), "chapter")
    print(f"{event.title}: {chapters}, {duration} of speech{guess}", file=sys.stderr)
    for one in event.left_out:
        what = ", ".join(one.titles[:_MAX_TITLES]) + ", ..." * (len(one.titles) > _MAX_TITLES)
        what = what or pluralize(one.count, one.what)
        print(f"  left out: {what} (--{one.option} {one.value} reads them)", file=sys.stderr)


def _format_progress(event: BookProgressEvent) -> str:
    """`chapter 3/12 45 %, 44 times real time, 3 min left, cpu  Down the Rabbit-Hole`."""
    is_writing = event.stage == "writing"
    what = "writing" if is_writing else f"chapter {event.chapter}/{event.num_chapters}"
    parts = [f"{what} {event.done / event.total:4.0%}"]
    if event.speed is not None:
        parts.append(f"{event.speed:.1f} times real time")
    if event.left_s:
        parts.append(f"{format_duration(event.left_s)} left")
    elif event.left_s is None and event.speed is None:
        parts.append("loading")
    if len(event.devices) > 1:
        total = sum(event.devices.values()) or 1.0
        parts.append(" ".join(f"{name} {rate / total:.0%}" for name, rate in event.devices.items()))
    elif event.devices:
        parts.append(next(iter(event.devices)))
    return f"{', '.join(parts)}  {event.detail}"


def _report(result: BookResult, arguments: argparse.Namespace, printer: BookPrinter) -> None:
    printer.pause()
    if arguments.json:
        print_line("done", result.to_json())
        return
    audio_s = result.timeline.duration_s
    facts = [f"{audio_s / result.wall_s if result.wall_s else 0.0:.1f} times real time"]
    if result.num_cached:
        segments = pluralize(result.tally.num_segments, "segment")
        facts.append(f"{result.num_cached} of {segments} cached")
    if result.workers:
        facts.append(f"made by {result.workers}")
    size = sum(path.stat().st_size for path in result.files)
    place = result.files[0] if len(result.files) == 1 else result.target.path
    chapters = pluralize(len(result.plan.parts), "chapter")
    print(
        f"{place}: {format_duration(audio_s)} of speech, {chapters}, {format_bytes(size)}, in"
        f" {format_duration(result.wall_s)} ({', '.join(facts)})"
    )
    for path in result.beside:
        print(path)


def _print_chapters(
    found: ChapterList, arguments: argparse.Namespace, printer: BookPrinter
) -> None:
    printer.pause()
    if arguments.json:
        print_json(found.to_json())
        return
    about = found.book.document.about
    authors = f" by {', '.join(about.authors)}" if about.authors else ""
    series = f" ({f'{about.series} {about.series_index}'.rstrip()})" if about.series else ""
    print(f"{about.title}{authors}{series}\n")
    rows = [("", "chapter", "words", "about", "")]
    for chapter in found.chapters:
        indent = "  " * (min(chapter.level, 6) - 1)
        note = "" if chapter.is_spoken else f"not read ({chapter.role})"
        title, duration = f"{indent}{chapter.title}"[:60], format_duration(chapter.estimated_s)
        rows.append((str(chapter.number), title, f"{chapter.words:,}", duration, note))
    print(format_table(rows, right=(0, 2, 3)))
    guess = "" if found.is_measured else " (a guess: this voice has not been measured yet)"
    words, duration = pluralize(found.words, "word"), format_duration(found.estimated_s)
    print(f"\n{words}, about {duration} of speech{guess}")
    if found.to_make_s is not None:
        speed = f"{found.times_real_time:.0f} times real time, as last measured here"
        print(f"about {format_duration(found.to_make_s)} to make, at {speed}")


def _print_segments(book: PlannedBook, arguments: argparse.Namespace, printer: BookPrinter) -> None:
    """Each segment under the number that --again takes."""
    printer.pause()
    rows = [
        {"chapter": part.number, "segment": number, "text": " ".join(segment.text.split()),
         "spoken": segment.line.text, "language": segment.line.language,
         "voice": segment.line.voice}
        for part in book.plan.parts
        for number, segment in enumerate(part.script.segments, 1)
    ]  # fmt: skip
    if arguments.json:
        omitted = dict(book.plan.omitted())
        print_json({"engine": book.engine.name, "segments": rows, "omitted": omitted})
        return
    for row in rows:
        print(f"{row['chapter']}:{row['segment']:<4} {row['spoken']}")


def _print_speakers(found: Speakers, arguments: argparse.Namespace, printer: BookPrinter) -> None:
    printer.pause()
    if arguments.json:
        roles, others = ([vars(one) for one in some] for some in (found.roles, found.others))
        print_json({"roles": roles, "others": others})
        return
    if found.roles:
        rows = [("role", "voice", "words", "speeches")]
        rows += [
            (one.role or "narrator", one.voice, f"{one.num_words:,}", f"{one.num_speeches:,}")
            for one in found.roles
        ]
        print(format_table(rows, right=(2, 3)), end="\n\n" if found.others else "\n")
    if found.others:
        table = [("without a role", "speeches", "")]
        table += [(one.name, f"{one.num_speeches:,}", one.example) for one in found.others]
        print(format_table(table, right=(1,)))
    if not found.roles and not found.others:
        print("No speakers were found; the narrator reads everything.")
