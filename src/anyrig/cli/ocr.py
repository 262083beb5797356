"""`anyrig ocr`: scanned pages and PDFs to text or searchable PDFs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from anyrig.app.ocr import OcrRequest, OcrResult, install_language, read_text
from anyrig.app.rig import Rig
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, failed_to_json, print_json, report_failed
from anyrig.cli.rig import open_rig
from anyrig.documents.ocr.pipeline import OcrFile
from anyrig.documents.ocr.tesseract import INSTALL, find_programs
from anyrig.errors import MissingPackageError
from anyrig.text.labels import one_line
from anyrig.units import pluralize

HELP = """Read the text of images of pages (png, jpg, tiff with all its pages, webp and others) and
of scanned PDFs, in files or whole folders. Pages are straightened and rotated automatically. With
-o the text is written to a file, or to a folder for several; pdf keeps the pages as they are and
adds a text layer, so that they can be searched and copied; json and hocr have the boxes of lines
and words. Pages of a PDF that have text of their own keep it, unless --always. Tesseract reads on a
CPU; RapidOCR reads on a GPU, Chinese and Japanese, and languages that Tesseract has no data for.
--get es downloads Tesseract's data for a language. Results are cached: a run that was interrupted
continues where it stopped."""
RESUME = "Pages that were read are cached: the same command continues."
MIXED = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--get", metavar="LANGUAGE", help="download Tesseract's data for a language, such as es"
    )
    parser.add_argument(
        "--from", metavar="FOLDER", dest="source", type=Path,
        help="with --get: a folder with the data, where there is no network",
    )  # fmt: skip
    add_flags(parser, OcrRequest)


def run(arguments: argparse.Namespace) -> int:
    with EventPrinter() as events:
        rig = open_rig(arguments, events)
        if arguments.get:
            return _get_language(rig, arguments, events)
        request = rig.request(OcrRequest, **read_flags(arguments, OcrRequest))
        is_printed = not request.output and not arguments.json

        def print_file(file: OcrFile, num_files: int) -> None:
            if is_printed and file.error is None:
                events.pause()
                _print_file(file, request, several=num_files > 1)

        result = read_text(rig, request, events, print_file)
    if arguments.json:
        print_json(_report(result))
    elif result.outputs:
        _print_outputs(result)
    return report_failed(result.failed, len(result.files)) or int(result.num_failed_pages > 0)


def _get_language(rig: Rig, arguments: argparse.Namespace, events: EventPrinter) -> int:
    path = install_language(rig, arguments.get, arguments.source, events)
    if arguments.json:
        print_json({"language": arguments.get, "file": str(path)})
        return 0
    if not find_programs(rig.environment):
        raise MissingPackageError(
            f"the data are in {path}, but Tesseract is not installed", hint=f"{INSTALL}."
        )
    print(f"{path}\nTry: anyrig ocr page.png --language {arguments.get}")
    return 0


def _print_file(file: OcrFile, request: OcrRequest, *, several: bool) -> None:
    format = request.format or "txt"
    if several and format == "txt":
        print(f"==> {one_line(str(file.path), 200)} <==")
    sys.stdout.write(file.to_text(format))
    if several and format == "txt":
        print()
    sys.stdout.flush()


def _print_outputs(result: OcrResult) -> None:
    count = sum(len(file.pages) - len(file.failed_pages) for file in result.files)
    where = result.outputs[0] if len(result.outputs) == 1 else result.outputs[0].parent
    if count:
        print(f"{pluralize(count, 'page')} written to {where}")


def _report(result: OcrResult) -> dict[str, Any]:
    files = []
    for number, file in enumerate(result.files):
        if file.error is None:
            output = {"output": str(result.outputs[number])} if result.outputs else {}
            files.append({**output, **file.to_json()})
    return {
        "engine": result.engine.engine,
        "version": result.engine.version,
        "reason": result.engine.reason,
        "passed_over": list(result.engine.passed_over),
        "files": files,
        "failed": failed_to_json(result.failed),
    }
