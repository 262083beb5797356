"""`anyrig ocr`: pictures of pages and scanned PDFs in, text or searchable PDFs out."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import compute, failed, reading
from anyrig.cli.context import Context
from anyrig.cli.keep import keeping
from anyrig.cli.show import Progress, print_json, print_warning
from anyrig.errors import InvalidInputError
from anyrig.text.labels import one_line
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.ocr.choose import Chosen
    from anyrig.documents.ocr.run import Pages
    from anyrig.documents.reading import Reads
    from anyrig.placement import PlacementPlan
    from anyrig.services.ocr import Done, Form, Order, Plan
    from anyrig.storage.cache import Cache

HELP = """Read the text on pictures of pages (png, jpg, tiff with all its pages, webp...) and in
scanned PDFs, in files or whole folders. Pages are levelled and turned upright by themselves. With
-o the text goes to a file, or to a folder for several; pdf keeps the pages as they are and lays
the words under them, so that they can be searched and copied; json and hocr have the boxes of lines
and words. Pages of a PDF that have text of their own keep it, unless --always. The engine is chosen
by a measurement that is made once, and --language helps it. What was read once is kept: a run that
was stopped goes on where it was."""
MIXED = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="pictures, PDFs, folders of them")
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="the file, or the folder for several"
    )
    parser.add_argument("--format", metavar="NAME", default="", help="txt, json, pdf or hocr")
    parser.add_argument(
        "--language", metavar="CODE", default="", help="of the pages, such as en, es or fr"
    )
    parser.add_argument(
        "--engine", metavar="NAME", default="auto", help="rapidocr, tesseract; auto measures"
    )
    parser.add_argument("--pages", metavar="LIST", default="", help="such as 1-3,7")
    parser.add_argument(
        "--dpi", type=int, metavar="N", default=0, help="at which pages of a PDF are drawn: 300"
    )
    parser.add_argument(
        "--always", action="store_true", help="read pages that have text of their own as well"
    )
    parser.add_argument("--fresh", action="store_true", help="read again what is kept already")
    parser.add_argument(
        "--type", metavar="LIST", default="", help="only files of these: pdf,picture"
    )
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Read the files."""
    from anyrig.services.ocr import plan_of

    context = Context(options)
    context.choose()  # a device that is not there is told of, whatever is kept
    files = _with_pages(reading.paths(context, options.files), options.files)
    if not files:
        raise InvalidInputError(
            "there is nothing to read", hint="Name a picture, a PDF or a folder."
        )
    form, targets = _targets(options, files)
    order = _order(options, files, form)
    language = _language(options.language)
    chosen = engine(context, language, options.engine)
    plan = plan_of(order, reading.limits(context))
    with ExitStack() as stack:
        store = None if options.fresh else stack.enter_context(keeping(context))
        reader = stack.enter_context(_reader(context, chosen, language, store, plan.num_pages))
        every = _read(context, plan, reader, form, targets)
    return _finish(context, chosen, every, targets)


# -- the engine, for this command and for those that read documents -------------------------------


def reads(context: Context, stack: ExitStack) -> Reads | None:
    """What reads pictures for other commands; None where no engine is installed."""
    from anyrig.errors import MissingPackageError

    try:
        chosen = engine(context, "")
    except MissingPackageError:
        return None
    store = stack.enter_context(keeping(context))
    return stack.enter_context(_reader(context, chosen, "", store))


def engine(context: Context, language: str, wanted: str = "auto") -> Chosen:
    """The engine for a language; both are measured once, unless --no-bench."""
    from anyrig.documents.ocr.choose import choose
    from anyrig.documents.ocr.sample import trial

    def opened(chosen: Chosen) -> Pages:
        print(f"Measuring {chosen.engine}, once (--no-bench leaves it out) ...", file=sys.stderr)
        return _reader(context, chosen, language, None, 2)

    return choose(
        language, context.environment, wanted=wanted, figures=context.folders.cache / "ocr.json",
        try_=trial(opened) if context.measures else None,
    )  # fmt: skip


def _reader(
    context: Context, chosen: Chosen, language: str, store: Cache | None, count: int = 1 << 30
) -> Pages:
    from anyrig.documents.ocr.run import Pages

    def seats() -> PlacementPlan:
        return compute.placed(context, context.choose(), chosen.need(count))

    return Pages(
        chosen, placed=seats, environment=context.environment, store=store, language=language
    )


# -- what was asked for ---------------------------------------------------------------------------


def _with_pages(files: list[Path], words: list[str]) -> list[Path]:
    """Files that may have pages to draw; others in a folder are counted and left out."""
    from anyrig.text.files import format_of_name
    from anyrig.text.formats.picture import FORMATS as PICTURES

    named = {Path(word).expanduser() for word in words}
    kept = [
        file for file in files
        if file in named or format_of_name(file.name) in (None, "", "pdf", *PICTURES)
    ]  # fmt: skip
    left = [file for file in files if file not in set(kept)]
    if left:
        endings = ", ".join(dict.fromkeys(file.suffix or file.name for file in left))
        print_warning(f"{pluralize(len(left), 'file')} without pages left out: {endings[:80]}")
    return kept


def _order(options: argparse.Namespace, files: list[Path], form: Form) -> Order:
    from anyrig.services.ocr import Order, numbers_of
    from anyrig.text.pages import DPI

    if options.dpi and not 36 <= options.dpi <= 1200:
        raise InvalidInputError(
            f"--dpi {options.dpi}", hint="Give a number from 36 to 1200, such as 300."
        )
    numbers_of(options.pages, 1 << 20)  # a slip of the pen is told before anything is opened
    return Order(
        tuple(files), options.pages, options.dpi or DPI, options.always, pictures=form == "pdf"
    )


def _language(text: str) -> str:
    code = text.strip().lower().partition("-")[0]
    if code in ("", "auto"):
        return ""
    if not (len(code) in (2, 3) and code.isalpha()):
        raise InvalidInputError(f"--language {text} is no code", hint="Give en, es, fr, de...")
    return code


def _targets(options: argparse.Namespace, files: list[Path]) -> tuple[Form, list[Path] | None]:
    """The format, and where each file's text goes; None where it is printed."""
    from anyrig.services.ocr import outputs

    output = Path(options.output).expanduser() if options.output else None
    named = [Path(name).expanduser() for name in options.files]
    single = len(files) == 1 and not named[0].is_dir()
    form = _form(options, output if single else None)
    if output is None:
        if form == "pdf":
            raise InvalidInputError("a PDF cannot be printed", hint="Name a file or a folder: -o.")
        return form, None
    folder = output.is_dir() or options.output.endswith(("/", "\\")) or not single
    if folder and output.is_file():
        raise InvalidInputError(f"{output} is a file", hint="Several texts need a folder.")
    targets = outputs(files, output, form) if folder else [output]
    there = {file.resolve() for file in files}
    for target in targets:
        if target.resolve() in there:
            raise InvalidInputError(
                f"{target} would be written over", hint="Name another place: -o."
            )
    return form, targets


def _form(options: argparse.Namespace, output: Path | None) -> Form:
    from anyrig.services.ocr import FORMS

    told = options.format.lower().lstrip(".")
    if not told and output is not None:
        folder = output.is_dir() or options.output.endswith(("/", "\\"))
        told = "" if folder else output.suffix.lower().lstrip(".")
        told = {"html": "hocr", "htm": "hocr", "text": "txt"}.get(told, told)
    for form in FORMS:
        if form == (told or "txt"):
            return form
    raise InvalidInputError(
        f"no format {told!r}", hint=f"There are {', '.join(FORMS)}, by the name or by --format."
    )


# -- reading and telling --------------------------------------------------------------------------


def _read(
    context: Context, plan: Plan, reader: Pages, form: Form, targets: list[Path] | None
) -> list[Done]:
    from anyrig.services.ocr import Done, only_texts, read_files, write

    every: list[Done] = []
    began, count = time.monotonic(), 0
    with Progress(max(1, plan.num_pages), "page") as progress:
        for one in read_files(plan, reader):
            if not isinstance(one, Done):
                progress.done()
                count += 1
                progress.step(f"{60 * count / max(time.monotonic() - began, 1e-3):.0f} a minute")
                continue
            if one.error is None and targets is not None:
                write(one, targets[len(every)], form)
            elif one.error is None and not context.options.json:
                _print(one, form, several=len(plan.files) > 1)
            every.append(only_texts(one))
    return every


def _print(one: Done, form: Form, *, several: bool) -> None:
    """What was read of a file; its name before it, where there are more."""
    from anyrig.services.ocr import written

    if several and form == "txt":
        print(f"==> {one_line(str(one.file), 200)} <==")
    sys.stdout.write(written(one, form))
    if several and form == "txt":
        print()
    sys.stdout.flush()


def _finish(context: Context, chosen: Chosen, every: list[Done], targets: list[Path] | None) -> int:
    """What was written; what could not be read, last."""
    broken = [failed.Failed(str(one.file), one.error) for one in every if one.error is not None]
    if context.options.json:
        print_json({**_report(chosen, every, targets), "failed": failed.plain(broken)})
    pages = [(one, page) for one in every for page in one.failed]
    for one, page in pages:
        print_warning(f"{one.file.name}, page {page.number}: {page.error}")
    if pages:
        print_warning(f"{pluralize(len(pages), 'page')} could not be read; the rest is done")
    count = sum(len(one.pages) - len(one.failed) for one in every)
    if targets is not None and count and not context.options.json:
        where = targets[0] if len(targets) == 1 else targets[0].parent
        print(f"{pluralize(count, 'page')} to {where}")
    return failed.end(broken, len(every)) or (1 if pages else 0)


def _report(chosen: Chosen, every: list[Done], targets: list[Path] | None) -> dict[str, Any]:
    from anyrig.services.ocr import json_of

    files = []
    for number, one in enumerate(every):
        if one.error is None:
            told = json_of(one)
            files.append(told if targets is None else {"output": str(targets[number]), **told})
    return {
        "engine": chosen.engine,
        "version": chosen.version,
        "reason": chosen.reason,
        "passed_over": list(chosen.passed_over),
        "files": files,
    }
