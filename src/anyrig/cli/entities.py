"""`anyrig entities`: the people, places, dates, amounts and numbers that documents name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from anyrig.cli import compute, entities_show, reading
from anyrig.cli import failed as lost
from anyrig.cli.context import Context
from anyrig.cli.show import Progress, print_warning
from anyrig.errors import InvalidInputError
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.entities.finder import Finder
    from anyrig.documents.entities.names import Namer
    from anyrig.placement import PlacementPlan
    from anyrig.services.entities import Source

HELP = """People, organisations, places, dates, amounts of money, percentages, e-mail addresses,
telephone, IBAN, tax and card numbers in documents, with their place. Numbers that have check digits
are verified, and told only if they hold."""
MIXED = True
_TEXTS = frozenset(
    ".txt .text .md .log .csv .tsv .html .htm .eml .epub .docx .odt .rtf .fb2 .mobi".split()
)
_BYTES_A_WORKER = 2_000_000


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="files, folders, or - for stdin")
    parser.add_argument("--text", metavar="TEXT", help="look at this text instead")
    parser.add_argument(
        "--kinds", metavar="LIST", help="only these, such as person,iban; --models lists them"
    )
    parser.add_argument(
        "--language", default="", metavar="CODE",
        help="en, fr, es, en-GB; found out for each paragraph when not given",
    )  # fmt: skip
    parser.add_argument(
        "--engine", default="auto", metavar="NAME", dest="names",
        help="what finds names: auto, grammar (no names), spacy, tokens or gliner",
    )  # fmt: skip
    parser.add_argument(
        "--model", default="", metavar="PATH_OR_NAME",
        help="a token-classification or GLiNER model as a folder or by its name on the hub, or a"
        " model of spaCy",
    )  # fmt: skip
    parser.add_argument(
        "--labels", default="", metavar="LIST",
        help="what a GLiNER model looks for, in words: 'disease,medicine'",
    )  # fmt: skip
    parser.add_argument(
        "--threshold", type=_share, default=0.5, metavar="X",
        help="the least score of a neural model's find, 0 to 1 (0.5)",
    )  # fmt: skip
    parser.add_argument(
        "--unchecked", action="store_true",
        help="also tell numbers that fail their check, and days that no calendar has, marked so",
    )  # fmt: skip
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--distinct", action="store_true", help="each thing once a document, with how often"
    )
    shape.add_argument(
        "--redact", action="store_true",
        help="write the text with each entity replaced by its kind, such as [PERSON]",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="PATH",
        help="write there: .csv, .tsv, .jsonl, .json, .txt; a folder for --redact of several files",
    )  # fmt: skip
    parser.add_argument("--models", action="store_true", help="list kinds and models of names")
    reading.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Find and show."""
    context = Context(options)
    if options.models:
        entities_show.models(as_json=options.json)
        return 0
    from anyrig.documents.entities.names import choose

    kinds = _kinds(options.kinds)
    labels = tuple(one.strip() for one in options.labels.split(",") if one.strip())
    namer = choose(options.names, model=options.model, labels=labels, threshold=options.threshold)
    sources = list(_sources(context))
    if not sources:
        raise InvalidInputError("nothing to look at", hint="Name a file, a folder, - or --text.")
    people = options.names != "grammar" and (kinds is None or "person" in kinds)
    out = entities_show.output(options, num_sources=len(sources), people=people)
    with _finder(context, namer, kinds, sources) as finder:
        return _work(context, finder, sources, out)


def _kinds(text: str | None) -> tuple[str, ...] | None:
    from anyrig.documents.entities.entity import kinds_of

    return kinds_of(text) if text is not None else None


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InvalidInputError(
            f"--threshold {text}", hint="Give a number from 0 to 1, such as 0.5."
        )
    return value


def _sources(context: Context) -> Iterator[Source]:
    from anyrig.services.entities import Source

    options = context.options
    if options.text is not None:
        yield Source("text", text=options.text)
    for name in options.files:
        if name == "-":
            yield Source("-", text=_stdin())
            continue
        yield from (Source(str(one), one) for one in reading.paths(context, [name]))


def _stdin() -> str:
    from anyrig.text.decode import decode

    return decode(sys.stdin.buffer.read(), "the input")


def _finder(
    context: Context, namer: Namer | None, kinds: tuple[str, ...] | None, sources: list[Source]
) -> Finder:
    from anyrig.documents.entities.finder import Finder, wants_names

    unchecked = context.options.unchecked
    if namer is None or not wants_names(namer, kinds):
        return Finder(None, kinds=kinds, unchecked=unchecked)
    from anyrig.memory.known_sizes import KnownBatchSizes

    return Finder(
        namer, placed=_placed(context, namer, sources), environment=context.environment,
        limits=KnownBatchSizes(context.folders.batch_limits), kinds=kinds, unchecked=unchecked,
    )  # fmt: skip


def _placed(context: Context, namer: Namer, sources: list[Source]) -> PlacementPlan:
    """Where names are found: as many processes as the documents are worth."""
    size = sum(_size(source) for source in sources)
    need = replace(namer.need, most_workers=max(1, size // _BYTES_A_WORKER))
    if need.gpu:
        return compute.placed(context, context.choose(), need)
    return compute.placed(context, context.choose_cpu(), need)


def _size(source: Source) -> int:
    try:
        return source.file.stat().st_size if source.file is not None else len(source.text)
    except OSError:
        return 0


def _work(
    context: Context, finder: Finder, sources: list[Source], out: entities_show.Output
) -> int:
    from anyrig.documents.entities.names import nameless
    from anyrig.services.entities import find

    mode = reading.mode(context)
    failed: list[lost.Failed] = []
    without: dict[str, None] = {}
    count = 0
    with Progress(len(sources), "entities") as progress, out, ExitStack() as stack:
        progress.step("loading" if finder.namer is not None else "reading")
        ocr = reading.ocr(context, stack) if mode != "never" and _has_pages(sources) else None
        told_all = find(
            sources, finder, language=context.options.language, ocr=ocr,
            limits=reading.limits(context), mode=mode,
        )  # fmt: skip
        for told in told_all:
            progress.step(told.source.name)
            progress.done()
            if told.error:
                error = InvalidInputError(told.error, hint=told.hint)
                failed.append(lost.Failed(told.source.name, error))
                continue
            progress.clear()
            entities_show.say_warnings(told)
            out.tell(told)
            count += len(told.entities)
            without |= dict.fromkeys(told.nameless)
        wanted = context.options.names != "grammar"
        missing = [nameless(finder.namer, one) for one in without if wanted]
        out.end(failed, missing)
        if len(failed) == len(sources):
            progress.close()
            return lost.end(failed, len(sources))  # within, so that no empty file is left
    for warning in missing:
        print_warning(warning)
    if context.options.redact and (finder.namer is None or not finder.namer.own_labels):
        print_warning(
            "names can be missed, as only grammars and small models looked for them: read it"
            " through before it leaves your hands, or give a larger model: --model"
        )
    if context.options.output and not context.options.json:
        things = f"{count:,} {'entity' if count == 1 else 'entities'}"
        texts = pluralize(len(sources) - len(failed), "text")
        print(f"{things} of {texts} in {context.options.output}")
    return lost.end(failed, len(sources))


def _has_pages(sources: list[Source]) -> bool:
    """Whether any may hold pictures of text: an engine of OCR takes time to choose."""
    files = [source.file for source in sources if source.file is not None]
    return any(file.suffix.lower() not in _TEXTS for file in files)
