"""`anyrig summarise`: documents in a few sentences, their own or those of a model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute, embedding, reading
from anyrig.cli import failed as lost
from anyrig.cli.context import Context
from anyrig.cli.devices import writable
from anyrig.cli.show import Progress, paint, print_json, print_warning
from anyrig.errors import InvalidInputError
from anyrig.text.labels import one_line
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.protocol import Vectors
    from anyrig.documents.reading import Unread
    from anyrig.documents.summarise.extract import Length, Summary
    from anyrig.documents.summarise.write import Scribe, Written
    from anyrig.services.summarise import Done, Told
    from anyrig.text.pages import Paged

HELP = """Documents in a few sentences. Without --model they are the text's own, chosen by how much
they say of the rest, in their order and with their place; that works offline in any language.
--model FOLDER_OR_NAME lets a sequence-to-sequence model (BART, T5, Pegasus) write instead: a long
text goes in windows, and the summaries of the windows are summed up again."""
MIXED = True
_FORMATS = (".txt", ".md", ".json")


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "places", nargs="+", metavar="FILE", help="files and folders, or - for standard input"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--sentences", type=_count, default=0, metavar="N", help="how many sentences (5)"
    )
    length.add_argument(
        "--words", type=_count, default=0, metavar="N", help="at most so many words"
    )
    length.add_argument(
        "--share", type=_share, default=0.0, metavar="X", help="this share of the sentences, 0 to 1"
    )
    parser.add_argument(
        "--by-chapter", action="store_true", help="a summary of each chapter: for books"
    )
    parser.add_argument(
        "--model", metavar="FOLDER_OR_NAME", default="", help="a model that writes summaries"
    )
    parser.add_argument(
        "--fetch", action="store_true", help="get a model of the hub that is not here yet"
    )
    parser.add_argument(
        "--vectors", action="store_true",
        help="weigh sentences by the embedding model as well as by their words",
    )  # fmt: skip
    parser.add_argument(
        "--language", metavar="CODE", default="", help="of the text; found out when not given"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=f"write there: {', '.join(_FORMATS)}"
    )
    parser.add_argument("--places", action="store_true", dest="show_places",
                        help="print the page and offset of each sentence")  # fmt: skip
    reading.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Summarise, and print as each is done."""
    from anyrig.services.summarise import summarise

    context = Context(options)
    context.choose_cpu()  # a device that is not there is told of, though only models use one
    length = _length(options)
    output = _output(options.output)
    names = _names(context, options.places)
    failed: list[lost.Failed] = []
    made: list[Done] = []
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(len(names), "document"))
        progress.step("reading")
        found = summarise(
            _read(context, names),
            length=length,
            limits=reading.limits(context),
            by_chapter=options.by_chapter,
            language=options.language,
            vectors=_vectors(context, stack) if options.vectors else None,
            scribe=_scribe(context, stack) if options.model else None,
            tell=progress.step,
        )
        for one in found:
            progress.done()
            if one.error is not None:
                failed.append(lost.Failed(one.file, one.error))
                continue
            progress.clear()
            for warning in one.warnings:
                print_warning(f"{one_line(one.file)}: {warning}")
            made.append(one)
            if not options.json and output is None:
                print(_text(one, _bold, several=len(names) > 1, places=options.show_places))
                sys.stdout.flush()
    return _finish(options, output, made, failed, len(names))


def _finish(
    options: argparse.Namespace,
    output: Path | None,
    made: Sequence[Done],
    failed: Sequence[lost.Failed],
    count: int,
) -> int:
    if output is not None and made:
        from anyrig.storage.files import write_atomic

        write_atomic(output, _written(options, output, made, failed))
    if options.json:
        print_json(_report(made, failed))
    elif output is not None and made:
        print(f"{pluralize(len(made), 'summary').replace('summarys', 'summaries')} in {output}")
    return lost.end(failed, count)


def _report(made: Sequence[Done], failed: Sequence[lost.Failed]) -> dict[str, Any]:
    return {"documents": [_plain(one) for one in made], "failed": lost.plain(failed)}


def _written(
    options: argparse.Namespace, output: Path, made: Sequence[Done], failed: Sequence[lost.Failed]
) -> str:
    """What goes into a file, by its ending."""
    ending = output.suffix.lower()
    if ending == ".json":
        return json.dumps(_report(made, failed), indent=2, ensure_ascii=False) + "\n"
    heading = _marked if ending == ".md" else _unmarked
    several = len(made) > 1 or ending == ".md"
    return "\n".join(
        _text(one, heading, several=several, places=options.show_places) for one in made
    )


def _bold(text: str, level: int) -> str:
    return paint(text, "bold")


def _marked(text: str, level: int) -> str:
    return f"{'#' * level} {text}\n"


def _unmarked(text: str, level: int) -> str:
    return text


def _text(done: Done, heading: Callable[[str, int], str], *, several: bool, places: bool) -> str:
    """The summaries of a file, one blank line behind each."""
    lines = [heading(one_line(done.file), 1)] if several else []
    for told in done.told:
        if told.title:
            lines.append(heading(one_line(told.title), 2))
        lines += [*_lines(told, places=places), ""]
    return "\n".join(lines)


def _lines(told: Told, *, places: bool) -> Iterator[str]:
    from anyrig.documents.summarise.extract import Summary

    summary = told.summary
    if not isinstance(summary, Summary):
        yield _shown(summary.text)
        return
    if not places:
        yield _shown(summary.text)
        return
    for one in summary.taken:
        page = f"page {one.page}, " if one.page else ""
        yield f"[{page}{one.start}-{one.end}] {_shown(one.text)}"


def _shown(text: str) -> str:
    """Text of others, without anything that could disturb a terminal."""
    return one_line(text, max(500, len(text)))


def _plain(done: Done) -> dict[str, Any]:
    return {
        "file": done.file,
        "summaries": [{"title": one.title, **plain_summary(one.summary)} for one in done.told],
        "warnings": list(done.warnings),
    }


def plain_summary(summary: Summary | Written) -> dict[str, Any]:
    """A summary for programs."""
    from dataclasses import asdict

    from anyrig.documents.summarise.extract import Summary

    common = {
        "text": summary.text, "language": summary.language, "method": summary.method,
        "num_words": summary.num_words,
    }  # fmt: skip
    if isinstance(summary, Summary):
        rows = [{**asdict(one), "page": one.page or None} for one in summary.taken]
        return {**common, "num_sentences": summary.num_sentences, "sentences": rows}
    windows = [asdict(one) for one in summary.parts]
    return {**common, "rounds": summary.rounds, "windows": windows}


# -- what was asked for ---------------------------------------------------------------------------


def _names(context: Context, places: Sequence[str]) -> list[Path | str]:
    """Files in order; `-` stays as it is."""
    if "-" in places:
        if len(places) > 1:
            raise InvalidInputError("- and files were both given", hint="Give one or the other.")
        return ["-"]
    found: list[Path | str] = list(reading.paths(context, places))
    if not found:
        raise InvalidInputError(
            "there is no document in there", hint="Name a folder with files in it."
        )
    return found


def _read(context: Context, names: Sequence[Path | str]) -> Iterator[Paged | Unread]:
    files = [name for name in names if isinstance(name, Path)]
    if files:
        yield from reading.read(context, files)
        return
    from anyrig.text.decode import decode
    from anyrig.text.pages import Page, Paged

    text = decode(sys.stdin.buffer.read(), "the input")
    yield Paged(Path("-"), "txt", (Page(text),))


def _output(name: str | None) -> Path | None:
    """Where summaries go; refused before the work if they cannot go there."""
    if not name:
        return None
    path = Path(name).expanduser()
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInputError(
            f"{path.name} is no format for summaries",
            hint=f"End it in one of {', '.join(_FORMATS)}.",
        )
    writable(path)
    return path


def _length(options: argparse.Namespace) -> Length:
    from anyrig.documents.summarise.extract import Length

    return Length(options.sentences, options.words, options.share)


def _count(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < value <= 1_000_000:
        raise InvalidInputError(f"{text} is no length", hint="Give a number above 0, such as 5.")
    return value


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise InvalidInputError(f"--share {text}", hint="Give a number from 0 to 1, such as 0.1.")
    return value


def _vectors(context: Context, stack: ExitStack) -> Callable[[], Vectors]:
    """The embedding model of the settings; `--model` here names one that writes."""
    chosen = argparse.Namespace(**{**vars(context.options), "model": None})
    own = Context(chosen, context.environment)
    return cache(lambda: stack.enter_context(embedding.vectors(own)))


def _scribe(context: Context, stack: ExitStack) -> Callable[[], Scribe]:
    """The model that writes: found at once, loaded when the first text is there."""
    from anyrig.documents.summarise.writer import find
    from anyrig.storage.weights import download_weights

    def get(repository: str, folder: Path) -> None:
        print(f"fetching {repository} ...", file=sys.stderr)
        download_weights(repository, folder)

    options = context.options
    writer = find(
        options.model, models=context.folders.models, fetch=get if options.fetch else None
    )

    def opened() -> Scribe:
        from anyrig.cli.pick import pick
        from anyrig.documents.summarise.write import Scribe
        from anyrig.memory.known_sizes import KnownBatchSizes

        if not any(gpu.usable for gpu in context.machine.gpus):
            options.no_bench = True  # there is nothing to choose by figures
        placed = compute.placed(context, pick(context), writer.need())
        return stack.enter_context(
            Scribe(
                writer,
                placed=placed,
                environment=context.environment,
                limits=KnownBatchSizes(context.folders.batch_limits),
            )  # fmt: skip
        )

    return cache(opened)
