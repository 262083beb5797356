"""`anyrig book`: a book in, a finished audiobook out."""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import book_keep, book_show, compute, fleet, speaker, voicing
from anyrig.cli.book_order import ordered
from anyrig.cli.context import Context
from anyrig.cli.devices import writable
from anyrig.cli.show import Progress, print_warning
from anyrig.errors import AnyrigError, InvalidInputError, UnsupportedLanguageError

if TYPE_CHECKING:
    from anyrig.audiobooks.cast import Casting
    from anyrig.audiobooks.plan import Plan
    from anyrig.services.book import Order
    from anyrig.text.document import Document

HELP = """Make an audiobook: EPUB, PDF, docx, odt, fb2, HTML, Markdown or text in, an m4b with
chapters, cover and tags out, or with --format a file for each chapter. --list shows the chapters
with their words and how long they will be; --sample 60s --voices a,b writes previews. A run that
was stopped or killed goes on where it was; only what changed is made again, and --again 3:17 makes
one sentence of chapter 3 anew. --verify BOOK.m4b SOURCE listens to a finished book."""
MIXED = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="the book; with --verify both")
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="the m4b, or the folder for a file a chapter"
    )
    parser.add_argument(
        "--format", metavar="NAME", help="m4b, or a file for each chapter: mp3, opus, flac, m4a"
    )
    parser.add_argument("--list", action="store_true", help="show the chapters and how long")
    parser.add_argument(
        "--speakers", action="store_true", help="show who speaks, to write a cast file by"
    )
    parser.add_argument("--chapters", metavar="LIST", default="", help="such as 3-7,9 or 5-")
    parser.add_argument("--sample", metavar="TIME", help="write previews of so long, such as 60s")
    parser.add_argument("--voices", metavar="LIST", help="with --sample: the voices to compare")
    parser.add_argument(
        "--again", metavar="LIST", action="append", default=[],
        help="make a segment anew, as chapter:segment, such as 3:17,4:2",
    )  # fmt: skip
    parser.add_argument(
        "--allow-gaps", action="store_true", help="write the book also where passages failed"
    )
    parser.add_argument("--fresh", action="store_true", help="make again what is kept already")
    parser.add_argument(
        "--queue", action="store_true", help="make it later: `anyrig jobs run` does"
    )
    parser.add_argument("--verify", action="store_true", help="check a finished book: BOOK SOURCE")
    parser.add_argument(
        "--words", choices=("none", "sample", "all"), default="sample",
        help="with --verify: how much is listened to; sample when not given",
    )  # fmt: skip
    parser.add_argument(
        "--levels", choices=("book", "acx"), default="book", help="what loudness is right"
    )
    _about(parser)
    _reading(parser)
    voicing.arguments(parser, ssml=False)
    fleet.arguments(parser)
    compute.arguments(parser)


def _about(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what the files say and carry")
    group.add_argument("--title", default="", metavar="TEXT", help="instead of the book's own")
    group.add_argument(
        "--untitled", default="", metavar="TEXT", help="the title of a book that has none"
    )
    group.add_argument("--author", default="", metavar="NAME", help="instead of the book's own")
    group.add_argument("--narrator", default="", metavar="NAME", help="instead of the voice's name")
    group.add_argument("--cover", metavar="FILE", help="a JPEG or PNG instead of the book's own")
    group.add_argument(
        "--captions", metavar="LIST", default="", help="srt, vtt or both, beside the book"
    )
    group.add_argument(
        "--read-along", action="store_true", help="an EPUB 3 too whose words light up as spoken"
    )
    group.add_argument(
        "--loudness", type=voicing.lufs, metavar="LUFS", help="-19 when not given, 0 as it is"
    )
    group.add_argument("--bitrate", metavar="N", help="such as 96k; m4b has 64k")


def _reading(parser: argparse.ArgumentParser) -> None:
    from anyrig.audiobooks.ways import CHOICES

    group = parser.add_argument_group("how it is read")
    group.add_argument("--cast", metavar="FILE", help="who speaks in which voice")
    told = {
        "notes": "footnotes", "tables": "tables", "images": "the words that stand for pictures",
        "poems": "poems", "code": "listings", "pages": "page numbers",
        "titles": "titles that only the contents have",
        "matter": "covers, copyright pages, contents",
        "foreign": "paragraphs that no voice here speaks",
    }  # fmt: skip
    for name, choices in CHOICES.items():
        group.add_argument(f"--{name}", choices=choices, help=told[name])


def run(options: argparse.Namespace) -> int:
    """Make it, show it, or check it; a program that reads events is told of an error as well."""
    try:
        return _run(Context(options))
    except AnyrigError as error:
        if options.json and not (options.list or options.sample or options.verify):
            book_show.tell_error(error)
        raise


def _run(context: Context) -> int:
    options = context.options
    if options.verify:
        from anyrig.cli import book_verify

        return book_verify.run(context)
    if len(options.files) != 1:
        raise InvalidInputError(
            "one book at a time", hint="`anyrig book FILE -o OUT.m4b`; --queue puts one in a queue."
        )
    if options.voices and not options.sample:
        raise InvalidInputError(
            "--voices compares previews", hint="Add --sample 60s; --voice NAME reads the book."
        )
    if options.again and options.fresh:
        raise InvalidInputError(
            "--fresh makes all again as it was", hint="Leave it out with --again."
        )
    order = ordered(context)
    if options.queue:
        return _queue(context, order)
    with Progress(1, "book") as progress:
        progress.step(f"reading {order.source.name}")
        document = opened(order)
    if options.sample:
        from anyrig.cli import book_sample

        return book_sample.run(context, order, document)
    teller = teller_of(context, document)
    if options.list or options.speakers:
        from anyrig.cli import book_list

        return book_list.run(context, order, document, teller)
    return _make(context, order, document, teller)


def _queue(context: Context, order: Order) -> int:
    from anyrig.app.books import BookRequest
    from anyrig.cli.jobs import print_queued
    from anyrig.cli.rig import open_rig
    from anyrig.options import list_options

    options = context.options
    if options.list or options.sample:
        raise InvalidInputError("only the making of a book is queued", hint="Leave --queue out.")
    _check_output(order)
    values = {name: getattr(options, name, None) for name in list_options(BookRequest)}
    given = {name: value for name, value in values.items() if value not in (None, "", False, [])}
    if "set" in given:
        given["set"] = dict(text.partition("=")[::2] for text in options.set)
    given |= {"file": order.source, "output": order.output}
    job = open_rig(options).jobs.submit("book", **given)
    return print_queued([job], as_json=options.json)


def _make(context: Context, order: Order, document: Document, teller: speaker.Chosen) -> int:
    from anyrig.services import book

    _check_output(order)
    size = sum(chapter.num_characters for chapter in document.chapters)
    with ExitStack() as stack:
        store = stack.enter_context(book_keep.keeping(context, order))
        # The workers load while the book is planned.
        studio = stack.enter_context(voicing.studio(context, teller, size, store))
        plan = planned(context, order, document, teller)
        order = replace(order, narrator=order.narrator or narrator_of(context, teller))
        show = stack.enter_context(book_show.Show(context, teller, plan))
        show.begin(order)
        _check_room(context, order, plan, studio.rate, studio.num_kept(plan.segments), teller)
        order.output.parent.mkdir(parents=True, exist_ok=True)
        try:
            made = book.make(order, plan, studio, store, tell=show.progress)
        except book.UnfinishedBookError as error:
            show.unfinished(error)
            raise
        for warning in studio.warnings:
            print_warning(warning)
    book_show.learn(context, teller, plan, made)
    show.end(order, made)
    return 0


def _check_output(order: Order) -> None:
    """That the book can be written as it shall be and where, before hours of work."""
    from anyrig.services.book import CHAPTER_FORMATS, readalong_path
    from anyrig.speech.sound.encode import FORMATS, check_bitrate

    made = FORMATS["m4a" if order.format == "m4b" else order.format]
    if order.bitrate is not None and made.bitrate:
        check_bitrate(made, order.bitrate)
    for path in (order.output, readalong_path(order)):
        if path.exists() and path.samefile(order.source):
            raise InvalidInputError(f"{path} is the book itself", hint="Name another file with -o.")
    folder = order.output if order.format in CHAPTER_FORMATS else order.output.parent
    there = folder.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise InvalidInputError(f"{there} is a file", hint="Name a folder there, or another place.")
    if order.format not in CHAPTER_FORMATS:
        _refuse_folders(order)
    if order.output.is_file():
        writable(order.output)
    elif not os.access(there, os.W_OK):
        raise InvalidInputError(
            f"cannot write into {there}: permission denied", hint="Name another folder."
        )


def _refuse_folders(order: Order) -> None:
    beside = (order.output.with_suffix(f".{kind}") for kind in order.captions)
    for path in (order.output, *beside):
        if path.is_dir():
            raise InvalidInputError(
                f"cannot write {path}: it is a folder", hint="Name another file."
            )


def _check_room(
    context: Context,
    order: Order,
    plan: Plan,
    rate: int,
    num_kept: int,
    teller: speaker.Chosen,
) -> None:
    from anyrig.cli.cache import store_path
    from anyrig.services.room import check_room

    known, pace = book_show.rate_of(context, teller), book_show.pace_of(context)
    check_room(
        order,
        known.audio_s(plan.num_characters, pace),
        known.audio_s(plan.num_characters - num_kept, pace),
        rate=rate,
        store_folder=store_path(context).parent,
    )


# -- who reads it, and what -----------------------------------------------------------------------


def opened(order: Order) -> Document:
    """The book; its reader's warnings are printed."""
    from anyrig.services import book

    document = book.opened(order)
    for warning in document.warnings:
        print_warning(warning)
    return document


def teller_of(context: Context, document: Document) -> speaker.Chosen:
    """Who reads a book: as asked for, else who has the voices of its cast, or its language."""
    options = context.options
    if options.cast and not (options.engine or options.voice):
        from anyrig.audiobooks.cast import load

        voices = load(Path(options.cast).expanduser()).voices
        if voices and not speaker.named_engine(context):
            return speaker.with_voices(context, voices)
    return speaker.chosen(context, language_of(context, document))


def language_of(context: Context, document: Document) -> str:
    """The book's language, as told or as found."""
    from anyrig.audiobooks import plan

    asked = context.options.language or context.loaded.settings.speech.language
    return str(asked) if asked != "auto" else plan.language_of(document)


def narrator_of(context: Context, teller: speaker.Chosen) -> str:
    """The voice's name, for the tags."""
    voice = speaker.voice_of(context, teller)
    named = next((one for one in teller.found.voices if one.name == voice or not voice), None)
    return (named.title or named.name) if named is not None else voice or teller.name


def planned(context: Context, order: Order, document: Document, teller: speaker.Chosen) -> Plan:
    """What will be spoken; warnings are printed."""
    from anyrig.audiobooks import plan as plans
    from anyrig.speech import tongues

    language = language_of(context, document)
    main = tongues.matched(language, teller.found.languages)
    if not main:
        foreign = tongues.refusal(language, teller.found.languages)
        raise speaker.refusal(context, foreign, teller)
    terms = voicing.terms_of(context, teller)
    try:
        plan = plans.plan_of(
            document, terms, main=main, ways=order.ways,
            chosen=plans.chosen(document, order.chapters, order.ways),
            casting=casting(context, teller, main),
        )  # fmt: skip
    except UnsupportedLanguageError as error:
        raise speaker.refusal(context, error, teller, insist=error.hint) from error
    voicing.check_voices(plan.segments, teller)
    fleet.check_voices(context, plan.segments)
    return plan


def casting(context: Context, teller: speaker.Chosen, language: str) -> Casting | None:
    """Who speaks in which voice, where a cast file was named; its voices are checked."""
    if not context.options.cast:
        return None
    from anyrig.audiobooks.cast import Casting, load

    people = load(Path(context.options.cast).expanduser())
    for voice in people.voices:
        speaker.checked_voice(voice, teller)
    spoken = {voice.name: (voice.language, *voice.also) for voice in teller.found.voices}
    return Casting(people, language, spoken)
