"""`anyrig analyse`: what a folder holds, on the terminal, as JSON, or as a page of HTML."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import compute, embedding, failed, reading
from anyrig.cli.analyse_show import plain, printed
from anyrig.cli.context import Context
from anyrig.cli.show import Progress, print_json, print_warning
from anyrig.errors import InvalidInputError
from anyrig.text.labels import one_line
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.analyse.folder import Analysis
    from anyrig.documents.protocol import Vectors

HELP = """What documents hold: languages, key phrases, near-duplicates with what differs, clusters
with names, passages in common, and how each reads. Give a folder, or files. -o writes a page of
HTML with plots, one file that needs no network; --similar FILE lists the documents most like one.
Documents are compared by the vectors of an embedding model, or, with --no-vectors, by the words
they share, which needs no model. A file that cannot be read is named, and the rest go on."""
MIXED = True
_MOST_NAMED = 10


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("places", nargs="+", metavar="FOLDER", help="folders and files")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the report there: .html")
    parser.add_argument(
        "--similar", metavar="FILE", help="also list the documents most like this one"
    )
    parser.add_argument("--title", metavar="TEXT", default="", help="of the report")
    parser.add_argument(
        "--no-vectors", action="store_true", help="compare by words alone: no model, less time"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another one may cut clusters another way"
    )
    reading.arguments(parser)
    embedding.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Analyse, and tell."""
    context = Context(options)
    output = _output(options.output)
    similar = _existing(options.similar) if options.similar else None
    files = reading.paths(context, options.places)
    if not files:
        raise InvalidInputError(
            "there is no document in there", hint="Name a folder with files in it."
        )
    found = _analysed(context, files, similar)
    if output is not None and found.docs:
        _write(output, found)
    if options.json:
        print_json({**plain(found), "failed": failed.plain(_left(found))})
    elif found.docs:
        print(printed(found))
        if output is not None:
            print(f"\nThe report is in {output}")
    return _finish(found)


def _analysed(context: Context, files: Sequence[Path], similar: Path | None) -> Analysis:
    from anyrig.services.analyse import analyse

    options = context.options
    with ExitStack() as stack:
        progress: list[Progress] = []

        def tell(what: str, done: int, total: int) -> None:
            if not progress:
                progress.append(stack.enter_context(Progress(total, "step")))
            progress[0].reach(done)
            progress[0].step(what)

        def model(languages: Mapping[str, float]) -> Vectors:
            return stack.enter_context(embedding.vectors(context, languages=languages))

        return analyse(
            files,
            read=lambda paths: reading.read(context, paths),
            root=_root(options.places),
            title=options.title,
            model=None if options.no_vectors else model,
            similar_to=similar,
            seed=options.seed,
            tell=tell,
        )


def _root(places: Sequence[str]) -> Path | None:
    """The one folder that was given."""
    first = Path(places[0]).expanduser()
    return first if len(places) == 1 and first.is_dir() else None


def _existing(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.exists():
        raise InvalidInputError(f"there is no file {path}", hint="Look at its name.")
    if not path.is_file():
        raise InvalidInputError(
            f"--similar {one_line(name)} is no file", hint="Give the path of a document."
        )
    return path


def _output(name: str | None) -> Path | None:
    """Where the report goes; refused before the work if it cannot go there."""
    if not name:
        return None
    path = Path(name).expanduser()
    if path.is_dir():
        raise InvalidInputError(f"{name} is a folder", hint="-o names a file, such as report.html.")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(
            f"{name} is no name of a page", hint="End it in .html; --json prints data instead."
        )
    return path


def _write(path: Path, found: Analysis) -> None:
    from anyrig.documents.analyse.report import html
    from anyrig.storage.files import write_atomic

    write_atomic(path, html(found))


def _finish(found: Analysis) -> int:
    """Name what was left out; an error where nothing could be read."""
    told = [f"{doc.facts.name}: {one}" for doc in found.docs for one in doc.facts.warnings]
    for words in told[:_MOST_NAMED]:
        print_warning(words)
    if len(told) > _MOST_NAMED:
        print_warning(
            f"and {pluralize(len(told) - _MOST_NAMED, 'more warning')}; --json has them all"
        )
    return failed.end(_left(found), len(found.left) + len(found.docs))


def _left(found: Analysis) -> list[failed.Failed]:
    return [
        failed.Failed(one.name, InvalidInputError(one.why, hint=one.hint)) for one in found.left
    ]
