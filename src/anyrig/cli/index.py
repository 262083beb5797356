"""`anyrig index`: folders made searchable, and kept so."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import compute, embedding, index_forget, index_show, reading
from anyrig.cli.context import Context
from anyrig.cli.pick import agreed, can_ask
from anyrig.cli.show import Progress, print_json, print_warning
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.units import pluralize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anyrig.documents.index.forget import Removed
    from anyrig.documents.index.update import Indexed, Ways
    from anyrig.documents.model import Model
    from anyrig.documents.protocol import Vectors

HELP = """Index the files of folders so that `anyrig search` finds what is in them: PDF, Office
files, e-mails, tables, books, texts, and pictures through OCR. Only what changed is read again;
what was deleted is forgotten; a run that was stopped or killed goes on where it was. Without a
folder every folder of the index is brought up to date. --watch goes on with whatever changes.
--remove takes a file or folder out for good, from the index and from what is kept of it; a folder
stays out as a file does until --include lets it in again. What could not be read is named, and is
tried again when it changes, with --retry, or, where OCR was lacking, as soon as that is installed.
--status and --list show what is there. The exit code is 1 when a file could not be read in this
run; one that failed in an earlier run and did not change is named by --status alone."""
MIXED = True
DEFAULT = "default"
_ACTIONS = ("status", "list", "remove", "include", "drop")


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("places", nargs="*", metavar="FOLDER", help="folders, or single files")
    parser.add_argument(
        "--index", metavar="NAME", default=DEFAULT, help="which index; `default` when not given"
    )
    parser.add_argument("--watch", action="store_true", help="go on with whatever changes")
    parser.add_argument("--retry", action="store_true", help="try again what could not be read")
    parser.add_argument("--status", action="store_true", help="show what the index holds")
    parser.add_argument("--list", action="store_true", help="show every index")
    parser.add_argument(
        "--remove", action="store_true", help="take the named files or folders out for good"
    )
    parser.add_argument(
        "--include", action="store_true", help="let in again what was removed, and index it"
    )
    parser.add_argument("--drop", action="store_true", help="delete the whole index")
    parser.add_argument("--yes", action="store_true", help="do not ask before --drop")
    parser.add_argument("--queue", action="store_true", help="do it later: `anyrig jobs run` does")
    reading.arguments(parser)
    embedding.arguments(parser)
    compute.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Index, or look after an index; a program that reads events is told of an error as well."""
    try:
        return _run(Context(options))
    except AnyrigError as error:
        if options.json and not any(getattr(options, name) for name in _ACTIONS):
            index_show.tell_error(error)
        raise


def _run(context: Context) -> int:
    options = context.options
    given = [name for name in (*_ACTIONS, "watch", "queue") if getattr(options, name)]
    if len(given) > 1:
        raise InvalidInputError(
            f"--{given[0]} and --{given[1]} were both given", hint="Give one of them."
        )
    if given and given[0] in ("remove", "include", "queue") and not options.places:
        raise InvalidInputError(f"--{given[0]} needs a file or folder", hint="Name one behind it.")
    path = index_path(context)
    actions = {"list": _list, "status": _status, "drop": _drop, "remove": _remove,
               "include": _include, "queue": _queue}  # fmt: skip
    if given and given[0] in actions:
        return actions[given[0]](context, path)
    return _index(context, path)


def index_path(context: Context) -> Path:
    """Where the named index lies."""
    from anyrig.documents.index.database import path_of

    return path_of(context.folders.indexes, context.options.index)


def _named(context: Context) -> list[Path]:
    return [Path(word).expanduser() for word in context.options.places]


# -- indexing -------------------------------------------------------------------------------------


def _index(context: Context, path: Path) -> int:
    from anyrig.services import index as service

    began = time.monotonic()
    roots = service.places(_named(context))
    if not roots and not path.is_file():
        raise InvalidInputError(
            "no folder was named", hint="`anyrig index FOLDER` makes an index of it."
        )
    with ExitStack() as stack:
        how = _ways(context, stack)
        service.remember(path, roots)
        found, advice = model(context, path, roots, how)
        vectors = stack.enter_context(embedding.vectors(context, found=found))
        show = stack.enter_context(index_show.Show(context, path.stem, found.name, began, advice))
        show.begin([str(place) for place in _named(context)])
        if context.options.watch:
            return _watch(path, roots, vectors, how, show, reference(context, found))
        done = service.index(
            path, roots, vectors, how, tell=show.progress, reference=reference(context, found)
        )
        show.end(done)
        return 1 if done.failed else 0


def _watch(
    path: Path, roots: list[bytes], vectors: Vectors, how: Ways, show: index_show.Show, named: str
) -> int:
    from anyrig.services import index as service

    failed = False

    def told(done: Indexed) -> None:
        nonlocal failed
        failed = failed or bool(done.failed)
        show.end(done)
        show.watching()

    try:
        service.watch(path, roots, vectors, how, tell=show.progress, told=told, reference=named)
    except KeyboardInterrupt:
        show.stopped()
    return 1 if failed else 0


def model(context: Context, path: Path, roots: Sequence[bytes], how: Ways) -> tuple[Model, str]:
    """The model asked for, the one that the index has, or the one for the files' languages.

    With it a word about files whose languages it was not made for.
    """
    from anyrig.documents.model import by_language
    from anyrig.services.index import model_of

    known = bool(path.is_file() and model_of(path))
    auto = (context.options.model or context.loaded.settings.documents.model) in ("auto", "")
    if known or not auto:
        found = known_model(context, path) if known else embedding.model(context)
        # One that was made for all languages needs no look at the files.
        shares = _languages(path, roots, how) if found.languages else {}
    else:
        shares = _languages(path, roots, how)
        found = by_language(shares)
    return found, embedding.advise(found, shares)


def _languages(path: Path, roots: Sequence[bytes], how: Ways) -> Mapping[str, float]:
    """The languages of the index and of a few files in folders that are new to it."""
    from anyrig.documents.index.status import status
    from anyrig.services.index import languages

    tally: Counter[str] = Counter()
    new = list(roots)
    if path.is_file():
        told = status(path)
        tally.update({code: count for code, count in told.languages.items() if code})
        held = {os.fsencode(root) for root, count in told.roots if count}
        new = [root for root in roots if root not in held]
    if new or not tally:
        with Progress(1, "index") as progress:
            progress.step("looking at a few files for their languages")
            tally.update(languages(new or roots, how, tell=progress.step))
    return tally


def known_model(context: Context, path: Path) -> Model:
    """The model asked for, or the one that the index was made with."""
    from anyrig.documents.model import find
    from anyrig.services.index import model_of

    named = "" if context.options.model else model_of(path)
    if not named:
        return embedding.model(context)
    return find(named, models=context.folders.models)


def reference(context: Context, found: Model) -> str:
    """What the model is found by again: its name, or where its folder lies."""
    asked = context.options.model or context.loaded.settings.documents.model
    place = Path(asked).expanduser()
    packaged = asked in ("", "auto", found.name) or not place.exists()
    return found.name if packaged else str(place.resolve())


def _ways(context: Context, stack: ExitStack) -> Ways:
    from anyrig.services.index import ways

    mode = reading.mode(context)
    ocr = None if mode == "never" else reading.ocr(context, stack)
    types = [word for word in context.options.type.split(",") if word.strip()]
    return ways(
        ocr=ocr, mode=mode, limits=reading.limits(context), types=types,
        retry=context.options.retry,
    )  # fmt: skip


def _queue(context: Context, path: Path) -> int:
    from anyrig.cli import jobs

    for place in _named(context):
        if not place.exists():
            raise InvalidInputError(f"there is no folder {place}", hint="Name one that is there.")
    for place in _named(context):
        jobs.queue(context, "index", {"file": str(place.absolute())})
    return 0


# -- looking after it -----------------------------------------------------------------------------


def _list(context: Context, path: Path) -> int:
    from anyrig.documents.index.database import names, path_of
    from anyrig.documents.index.status import status

    folder = context.folders.indexes
    found, failed = [], False
    for name in names(folder):
        try:
            found.append(status(path_of(folder, name)))
        except AnyrigError as error:
            print_warning(f"{name}: {error.message}; {error.hint}")
            failed = True
    if context.options.json:
        print_json([index_show.plain_status(one) for one in found])
    else:
        index_show.print_list(found)
    return 1 if failed else 0


def _status(context: Context, path: Path) -> int:
    from anyrig.documents.index.status import status

    if not path.is_file():
        raise InvalidInputError(
            f"there is no index {path.stem!r}",
            hint="`anyrig index FOLDER` makes one; --list shows what there is.",
        )
    found = status(path)
    if context.options.json:
        print_json(index_show.plain_status(found))
    else:
        index_show.print_status(found)
    return 0


def _drop(context: Context, path: Path) -> int:
    from anyrig.services import index as service

    asks = path.is_file() and not context.options.yes and not context.options.json and can_ask()
    if asks and not agreed(f"Delete the index {path.stem}?"):
        print("Nothing was deleted.")
        return 0
    service.drop(path)
    if context.options.json:
        print_json({"index": path.stem, "dropped": True})
    else:
        print(f"{path.stem}: deleted")
    return 0


def _include(context: Context, path: Path) -> int:
    from anyrig.services import index as service

    count = service.include(path, _named(context))
    if not count:
        raise InvalidInputError(
            f"{context.options.places[0]} was not removed from the index {path.stem!r}",
            hint="`anyrig index --status` shows what was.",
        )
    context.options.places = []  # every folder of the index, these among them
    return _index(context, path)


def _remove(context: Context, path: Path) -> int:
    from anyrig.services import index as service

    with ExitStack() as stack:
        forget = index_forget.forgetting(context, path, stack)
        removed = service.remove(path, _named(context), forget)
    if context.options.json:
        print_json(_plain(removed, path))
        return 0
    unread = f" and {removed.num_unread:,} that could not be read" if removed.num_unread else ""
    files = pluralize(len(removed.files) - removed.num_unread, "file")
    print(
        f"{path.stem}: {files}{unread} removed,"
        f" with {pluralize(removed.num_texts, 'passage')} that stood nowhere else and "
        f"{pluralize(removed.num_cached, 'kept result')}"
    )
    for place in removed.excluded:
        print(f"  {place} stays out until `anyrig index --include {shlex.quote(str(place))}`")
    if not removed.clean:
        print_warning(
            "another process is reading the index: its log is cleared when that ends,"
            " or by --remove once more"
        )
    return 0


def _plain(removed: Removed, path: Path) -> dict[str, object]:
    return {
        "index": path.stem, "files": [str(one) for one in removed.files],
        "unread": removed.num_unread,
        "passages": removed.num_texts, "kept_vectors": removed.num_cached,
        "excluded": [str(one) for one in removed.excluded],
        "folders": [str(one) for one in removed.roots], "clean": removed.clean,
    }  # fmt: skip
