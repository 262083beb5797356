"""`anyrig summarise`: documents in a few sentences, their own or those of a model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.app.summarise import (
    SummariseRequest,
    format_summary,
    list_failed,
    summaries_to_json,
    summarise,
)
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, paint, print_json, report_failed
from anyrig.cli.rig import open_rig
from anyrig.cli.text_input import read_input
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.app.rig import Rig

HELP = """Summarise documents in a few sentences. Without --model they are the text's own, chosen by
how much they say of the rest, in their order and with their place; that works offline in any
language. With --model FOLDER_OR_NAME, a sequence-to-sequence model (BART, T5, Pegasus) writes them:
a long text is summarised in windows, and the summaries of the windows are summarised again.
--by-chapter --bullets is an outline: each chapter with its sentences as a list, and their pages."""
MIXED = True


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, SummariseRequest)


def run(arguments: argparse.Namespace) -> int:
    """Summarise, and print each when it is done."""
    with EventPrinter() as events:
        rig = open_rig(arguments, events)
        request = _build_request(rig, arguments)
        made = []
        for one in summarise(rig, request, events):
            made.append(one)
            if one.error is None and not arguments.json and request.output is None:
                events.pause()
                named = len(request.files) > 1 or any(file.is_dir() for file in request.files)
                print(format_summary(one, _format_heading, request, named=named))
                sys.stdout.flush()
    failed = list_failed(made)
    if arguments.json:
        print_json(summaries_to_json(made))
    elif request.output is not None and len(failed) < len(made):
        count = len(made) - len(failed)
        print(f"{count} {'summary' if count == 1 else 'summaries'} in {request.output}")
    return report_failed(failed, len(made))


def _build_request(rig: Rig, arguments: argparse.Namespace) -> SummariseRequest:
    flags = read_flags(arguments, SummariseRequest)
    files = flags.get("files", ())
    if Path("-") not in files:
        return rig.request(SummariseRequest, **flags)
    if len(files) > 1:
        raise InvalidInputError("- and files were both given", hint="Give one or the other.")
    text = read_input("-")
    return rig.request(SummariseRequest, **{**flags, "files": (), "texts": text, "names": "-"})


def _format_heading(text: str, level: int) -> str:
    return paint(text, "bold")
