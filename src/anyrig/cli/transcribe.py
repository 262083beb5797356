"""`anyrig transcribe`: recordings in, text out: plain, with times, as captions."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

from anyrig.cli import compute
from anyrig.cli import failed as lost
from anyrig.cli.context import Context
from anyrig.cli.keep import keeping
from anyrig.cli.show import print_warning
from anyrig.cli.transcribe_show import Show
from anyrig.errors import InvalidInputError
from anyrig.recognise.forms import FORMS, FormName, written
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.placement import PlacementPlan, Workload
    from anyrig.recognise.transcribe import Wishes
    from anyrig.services.transcribe import Done, Order
    from anyrig.storage.keys import JsonValue

HELP = """Write down what is said in recordings: wav, flac, mp3, ogg, opus, m4a, m4b, mp4, webm and
what else can be opened, of any length. The language is found out, or told with --language;
English is heard by moonshine and other languages by Whisper base, unless --model names a folder
or a model of the hub, which --fetch gets. With -o the text goes to a file, or to a folder for
several recordings; without, it is printed. txt has paragraphs, md times as well, srt and vtt are
captions, json has everything. What was heard once is kept: a run that was stopped goes on where it
was."""
MIXED = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="recordings, or folders that hold some"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="the file, or the folder for several recordings"
    )
    parser.add_argument(
        "--format", metavar="LIST", default="", help="txt, md, srt, vtt, json; several as srt,txt"
    )
    parser.add_argument(
        "--language", metavar="CODE", default="", help="what is spoken, such as en or es"
    )
    parser.add_argument(
        "--model", metavar="NAME", default="",
        help="a folder, a name on the hub, moonshine, whisper-base, or a size such as small",
    )  # fmt: skip
    parser.add_argument(
        "--fetch", action="store_true", help="get a model of the hub that is not here yet"
    )
    parser.add_argument(
        "--engine", metavar="NAME", default="", help="moonshine, whisper or transformers"
    )
    parser.add_argument("--translate", action="store_true", help="write it down in English")
    parser.add_argument(
        "--word-times", action="store_true", help="the times of words as well, by Whisper"
    )
    parser.add_argument("--fresh", action="store_true", help="hear again what is kept already")
    parser.add_argument("--queue", action="store_true", help="do it later: `anyrig jobs run` does")
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Transcribe."""
    context = Context(options)
    order = _ordered(options)
    wishes = _wishes(options)
    context.choose()  # a device that is not there is told of before any file, kept or not
    if options.queue:
        return _queue(context, order)
    return _transcribe(context, order, wishes)


def _transcribe(context: Context, order: Order, wishes: Wishes) -> int:
    from anyrig.recognise.transcribe import Transcriber
    from anyrig.services.transcribe import transcribe_files

    failed: list[Done] = []
    done: list[Done] = []
    with ExitStack() as stack:
        store = stack.enter_context(keeping(context))
        show = stack.enter_context(Show(context, len(order.sources)))
        transcriber = stack.enter_context(
            Transcriber(
                lambda need: seats(context, need),
                environment=context.environment,
                folder=str(Path(context.folders.models, "recognise")),
                store=store,
                wishes=wishes,
            )  # fmt: skip
        )
        for one in transcribe_files(order, transcriber, begin=show.begin, tell=show.progress):
            show.clear()
            if one.error is not None:
                failed.append(one)
            else:
                done.append(one)
                _print(context, order, one)
                show.through(one)
    return _finish(context, order, done, failed, show)


def _print(context: Context, order: Order, one: Done) -> None:
    """A transcript that goes to no file."""
    if order.output is None and not context.options.json and one.heard is not None:
        sys.stdout.write(written(one.heard, order.forms[0]))
        sys.stdout.flush()


def _finish(
    context: Context, order: Order, done: list[Done], failed: list[Done], show: Show
) -> int:
    """Everything that went wrong, at the end."""
    told = [lost.Failed(str(one.source.path), one.error) for one in failed if one.error is not None]
    if context.options.json:
        show.end(done, lost.plain(told), written_out=order.output is not None)
    gaps = sum(len(one.heard.gaps) for one in done if one.heard is not None)
    return lost.end(told, len(order.sources), "recording") or (1 if gaps else 0)


def seats(context: Context, need: Workload) -> PlacementPlan:
    """Where it runs; a model that has no way to a GPU goes to the CPU without a word about it."""
    if not need.gpu and not context.options.device:
        return compute.placed(context, context.choose_cpu(), need)
    return compute.placed(context, context.choose(), need)


# -- what was asked for ---------------------------------------------------------------------------


def _wishes(options: argparse.Namespace) -> Wishes:
    from anyrig.recognise.model import find
    from anyrig.recognise.transcribe import Wishes

    language = "" if options.language.lower() == "auto" else options.language
    wishes = Wishes(
        language, options.model, options.engine, options.translate, options.word_times,
        options.fresh, options.fetch,
    )  # fmt: skip
    if not (options.queue and options.model):
        find(
            wishes.model, language=language, engine=wishes.engine, translate=wishes.translate,
            fetch=wishes.fetch,
        )  # fmt: skip
    return wishes


def _ordered(options: argparse.Namespace) -> Order:
    from anyrig.services.transcribe import Order, links_out, sources_of
    from anyrig.text.folder import not_followed

    paths = [Path(name).expanduser() for name in options.files]
    for path in paths:
        if not path.exists():
            raise InvalidInputError(f"there is no file {path}", hint="Look at its name.")
    sources = sources_of(paths)
    for warning in not_followed(links_out(paths)):
        print_warning(warning)
    single = len(sources) == 1
    output = Path(options.output).expanduser() if options.output else None
    folder = output is not None and (output.is_dir() or options.output.endswith(("/", "\\")))
    forms = _forms(options.format, output if single and not folder else None)
    if output is None:
        if not single and not options.json and not options.queue:
            raise InvalidInputError(
                f"{pluralize(len(sources), 'recording')} and no place for their texts",
                hint="-o FOLDER, or --json.",
            )
        if len(forms) > 1 and not options.queue:
            raise InvalidInputError(
                "several formats cannot be printed", hint="Name a file or folder: -o."
            )
        return Order(sources, None, forms, single)
    if single and (folder or (paths[0].is_dir() and not output.suffix)):
        single = False
    if not single and output.is_file():
        raise InvalidInputError(f"{output} is a file", hint="Several transcripts need a folder.")
    return Order(sources, output, forms, single)


def _forms(text: str, output: Path | None) -> tuple[FormName, ...]:
    names = [name.strip().lower().lstrip(".") for name in text.split(",") if name.strip()]
    if not names and output is not None and output.suffix:
        names = [output.suffix.lower().lstrip(".")]
    for name in names:
        if name not in FORMS:
            told = f"There are {', '.join(FORMS)}, by the name or by --format."
            raise InvalidInputError(f"no format {name!r}", hint=told)
    return cast("tuple[FormName, ...]", tuple(dict.fromkeys(names or ["txt"])))


def _queue(context: Context, order: Order) -> int:
    """A job for each recording."""
    from anyrig.cli import jobs, jobs_show
    from anyrig.cli.show import print_json
    from anyrig.services.jobs import KINDS, check

    options = context.options
    queued = []
    with jobs.open_jobs(context) as held:
        for source in order.sources:
            asked: dict[str, JsonValue] = {}
            for name in KINDS["transcribe"].flags:
                value = getattr(options, name, None)
                if value not in (None, "", False, []):
                    asked[name] = value
            targets = order.targets(source) or {
                form: Path(f"{source.name.name}.{form}") for form in order.forms
            }
            first = next(iter(targets.values()))
            asked |= {
                "file": str(source.path), "output": str(first), "format": ",".join(targets)
            }  # fmt: skip
            first.absolute().parent.mkdir(parents=True, exist_ok=True)
            queued.append(held.submit("transcribe", check("transcribe", asked, Path.cwd())))
    if options.json:
        print_json([job.to_json() for job in queued])
        return 0
    for job in queued:
        print(f"{job.id}: {jobs_show.title(job)} is queued; `anyrig jobs run` works on it")
    return 0
