"""`anyrig classify`: which label a text has, by names, by examples, or by a fine-tuned model."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import classify_keep, classify_show, classify_tune, compute, embedding, reading
from anyrig.cli.classify_read import Peeked
from anyrig.cli.context import Context
from anyrig.cli.devices import writable
from anyrig.cli.show import Progress
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.documents.classify.decide import Chooser, Ways
    from anyrig.documents.protocol import Vectors
    from anyrig.services.classify import Sorted, Source

HELP = """Sort documents by labels. `--labels invoice,letter` needs no examples: the names decide
(add a few words as 'invoice: a bill to pay', or --labels @FILE with one a line). `train EXAMPLES
--name bills` learns from a folder of folders, a CSV (text,label or file,label; a|b is two labels)
or JSON lines, and prints what cross-validation found; `--with bills` then sorts, `--with bills@2`
by an older version. `train EXAMPLES --fine-tune FOLDER` trains all weights of a model instead: for
many examples, see below. `--with FOLDER` takes such a model, or one of transformers, or its name
on the hub. --other allows the answer that no label fits. Without words it lists what was trained;
`show NAME` and `delete NAME` look after it. A long text counts as the mean of its passages. By
names alone, probabilities are a guide; of a trained classifier they are calibrated."""
MIXED = True
_ACTIONS = ("train", "list", "show", "delete")
_FORMATS = (".csv", ".jsonl")


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "words", nargs="*", metavar="FILE",
        help="files, folders, - for the standard input; or train, list, show, delete",
    )  # fmt: skip
    parser.add_argument("--labels", metavar="LIST", help="what a text may be: 'invoice,letter'")
    parser.add_argument(
        "--with", dest="by", metavar="NAME", help="a trained classifier, a folder, or owner/name"
    )
    parser.add_argument("--text", metavar="TEXT", action="append", help="sort this text as well")
    parser.add_argument("--lines", metavar="FILE", help="a text a line; - is the standard input")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a table there: .csv or .jsonl"
    )
    parser.add_argument("--multi", action="store_true", help="a text may have any number of labels")
    parser.add_argument("--other", action="store_true", help="no label is an answer as well")
    parser.add_argument(
        "--threshold", metavar="X", type=_share, default=0.0,
        help="a label needs this probability, 0 to 1 (0.5 with --multi)",
    )  # fmt: skip
    parser.add_argument(
        "--pool", choices=("mean", "vote"), default="mean",
        help="a long text is the mean of its passages' vectors, or of their answers",
    )  # fmt: skip
    parser.add_argument(
        "--template", metavar="TEXT", action="append",
        help="with --labels: a sentence with {} for the label, instead of three of ours",
    )  # fmt: skip
    training = parser.add_argument_group("training")
    training.add_argument(
        "--train", metavar="EXAMPLES", help="the same as the words `train EXAMPLES`"
    )
    training.add_argument("--name", metavar="NAME", help="what the classifier is called")
    training.add_argument(
        "--prior", choices=("even", "examples"), default="even",
        help="labels are equally common, or as common as among the examples",
    )  # fmt: skip
    classify_tune.arguments(parser)
    parser.add_argument("--list", action="store_true", help="list what was trained")
    parser.add_argument("--yes", action="store_true", help="do not ask before deleting")
    embedding.arguments(parser)
    reading.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Sort, train, list, show or delete."""
    context = Context(options)
    sorting = options.labels is not None or options.by is not None
    words = _words(options)
    if sorting and options.train is None:
        return _sort(context)
    action, *rest = words or [""]
    if options.list or action == "list" or not (action or options.text or options.lines):
        return classify_keep.list_(context)
    near = difflib.get_close_matches(action, _ACTIONS, n=1) if action not in _ACTIONS else []
    if near and not Path(action).expanduser().exists():
        raise InvalidInputError(
            f"no such thing as `anyrig classify {action}`",
            hint=f"Did you mean `anyrig classify {near[0]}`?",
        )
    if action not in _ACTIONS:
        raise InvalidInputError(
            "what are the labels?",
            hint="Say --labels 'invoice,letter', or --with NAME for a trained classifier; "
            "`anyrig classify train EXAMPLES --name NAME` makes one.",
        )
    if len(rest) != 1:
        what = "EXAMPLES --name NAME" if action == "train" else "NAME"
        raise InvalidInputError(
            f"`classify {action}` wants one word more", hint=f"anyrig classify {action} {what}"
        )
    if action == "train":
        return classify_keep.train(context, Path(rest[0]).expanduser())
    return (classify_keep.show if action == "show" else classify_keep.delete)(context, rest[0])


def _words(options: argparse.Namespace) -> list[str]:
    """What was said, --train put into words."""
    words: list[str] = list(options.words)
    if options.train is not None:
        if words or options.labels is not None or options.by is not None:
            raise InvalidInputError(
                "--train learns, and sorts nothing yet",
                hint="Sort in a second command, by --with NAME.",
            )
        return ["train", options.train]
    if options.fine_tune and words[:1] != ["train"]:
        raise InvalidInputError(
            "--fine-tune is a way to train",
            hint="anyrig classify --train EXAMPLES --fine-tune FOLDER",
        )
    return words


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InvalidInputError(
            f"--threshold {text}", hint="Give a number from 0 to 1, such as 0.6."
        )
    return value


# -- sorting ---------------------------------------------------------------------------------------


def _sort(context: Context) -> int:
    options = context.options
    if options.labels is not None and options.by is not None:
        raise InvalidInputError("--labels and --with are two ways", hint="Leave one of them out.")
    output = _output(options.output)
    sources = list(_sources(context))
    if not sources:
        raise InvalidInputError(
            "there is nothing to sort", hint="Name files, folders, or --text TEXT."
        )
    with ExitStack() as stack:
        peeked = Peeked(context, [one.file for one in sources if one.file is not None])
        title, flow = _flow(context, stack, sources, peeked)
        show = classify_show.Show(context, title, output)
        with Progress(len(sources), "text") as progress:
            for one in flow:
                progress.step(one.source.name)
                progress.done()
                show.one(one)
    return show.end()


def _flow(
    context: Context, stack: ExitStack, sources: Sequence[Source], peeked: Peeked
) -> tuple[str, Iterator[Sorted]]:
    """What sorts, in words, and its answers."""
    from anyrig.documents.classify.labels import labels
    from anyrig.services import classify

    options, ways = context.options, _ways(context.options)
    if options.labels is not None:
        named = labels(options.labels)
        vectors = peeked.vectors(stack, sources)
        by_name = _by_name(context, named, vectors)
        return f"labels by name, {vectors.model.name}", classify.classify(
            sources, by_name, vectors, peeked, ways
        )
    if tuned := classify_keep.fine_tuned(context):
        pool = stack.enter_context(classify_keep.workers(context, tuned))
        return f"the model {tuned.name}", classify.classify_by(sources, tuned, pool, peeked, ways)
    head = classify_keep.opened(context)
    if options.multi and head.kind == "one":
        raise InvalidInputError(
            f"{head.about.title} gives one label to a text",
            hint="Train it with --multi, from examples that have several.",
        )
    options.model = options.model or head.about.word
    vectors = peeked.vectors(stack, sources)
    return head.about.title, classify.classify(
        sources, classify.fitting(head, vectors), vectors, peeked, ways
    )


def _by_name(context: Context, named: Sequence[object], vectors: Vectors) -> Chooser:
    from anyrig.documents.classify.zero import TEMPLATES, ByName

    templates = tuple(context.options.template or TEMPLATES)
    for template in templates:
        if "{}" not in template:
            raise InvalidInputError(
                f"{template!r} has no place for a label", hint="Write {} in it."
            )
    kind = "many" if context.options.multi else "one"
    return ByName(named, vectors, kind=kind, templates=templates)  # type: ignore[arg-type]


def _ways(options: argparse.Namespace) -> Ways:
    from anyrig.documents.classify.decide import Ways

    return Ways(options.pool, options.other, options.threshold)


def _output(path: str | None) -> Path | None:
    if path is None:
        return None
    found = Path(path).expanduser()
    if found.suffix.lower() not in _FORMATS:
        raise InvalidInputError(
            f"{found.name} is no table", hint=f"End it in one of {', '.join(_FORMATS)}."
        )
    writable(found)
    return found


def _sources(context: Context) -> Iterator[Source]:
    """Everything that is to be sorted, in the order of the command line."""
    from anyrig.services.classify import Source

    options = context.options
    words = [word for word in options.words if word != "-"]
    for file in reading.paths(context, words) if words else ():
        yield Source(str(file), file=file)
    for number, text in enumerate(options.text or (), 1):
        yield Source(f"text {number}", text=text)
    if "-" in options.words:
        yield Source("standard input", text=sys.stdin.read())
    if options.lines:
        for number, line in enumerate(_lines(options.lines), 1):
            if line.strip():
                yield Source(f"line {number}", text=line)


def _lines(name: str) -> list[str]:
    if name == "-":
        return sys.stdin.read().splitlines()
    from anyrig.cli.voicing import read_text

    return read_text(Path(name).expanduser()).splitlines()
