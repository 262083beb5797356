"""Files and folders that a command is given, read: what all commands on documents share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

from anyrig.cli.context import Context
from anyrig.cli.show import print_warning
from anyrig.errors import InvalidInputError
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.reading import Mode, Reads, Unread
    from anyrig.text.formats.limits import Limits
    from anyrig.text.pages import Paged


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a command that reads files."""
    group = parser.add_argument_group("how files are read")
    group.add_argument(
        "--ocr", choices=("auto", "never", "always"),
        help="read the pictures of pages: auto where they have no usable text",
    )  # fmt: skip
    group.add_argument(
        "--type", metavar="LIST", default="", help="only files of these: pdf,docx,picture"
    )


def paths(context: Context, words: Sequence[str]) -> list[Path]:
    """The files that words name; a word about what was passed over."""
    from anyrig.text.folder import find, not_followed

    places = [Path(word).expanduser() for word in words]
    for place in places:
        if not place.exists():
            raise InvalidInputError(f"there is no file {place}", hint="Look at its name.")
    types = [word for word in context.options.type.split(",") if word.strip()]
    found = find(places, types=types)
    if found.skipped:
        named = ", ".join(dict.fromkeys(one.path.suffix or one.path.name for one in found.skipped))
        print_warning(
            f"{pluralize(len(found.skipped), 'file')} of other kinds left out: {named[:80]}"
        )
    for folder in found.unreadable:
        print_warning(f"{folder.path}: {folder.reason}")
    for warning in not_followed([one.path for one in found.outside]):
        print_warning(warning)
    return list(found.files)


def limits(context: Context) -> Limits:
    """How much a file may ask of the machine, as it was set."""
    from anyrig.app.documents import FileLimitOptions, build_limits

    return build_limits(context.request(FileLimitOptions))


def mode(context: Context) -> Mode:
    """When pictures are read: auto, never or always."""
    asked = getattr(context.options, "ocr", None) or context.loaded.settings.documents.ocr
    return cast("Mode", asked)


def read(context: Context, files: Iterable[Path]) -> Iterator[Paged | Unread]:
    """Every file in pages, in order; pictures by OCR where that is installed and wanted."""
    from anyrig.documents.reading import read_all

    how = mode(context)
    with ExitStack() as stack:
        reads = ocr(context, stack) if how != "never" else None
        yield from read_all(files, ocr=reads, limits=limits(context), mode=how)


def ocr(context: Context, stack: ExitStack) -> Reads | None:
    """What reads pictures, loaded when the first one comes; None where no engine is installed."""
    from anyrig.app.documents import FileOptions, open_ocr

    options = context.request(FileOptions, ocr=mode(context))
    return stack.enter_context(open_ocr(context.rig, options))
