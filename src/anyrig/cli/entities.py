"""`anyrig entities`: people, places, dates, amounts and numbers that documents name."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from anyrig.app.documents import find_files
from anyrig.app.entities import (
    EntitiesRequest,
    EntitiesResult,
    FoundEntities,
    find_entities,
    format_found,
)
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, format_table, paint, print_json, report_failed
from anyrig.cli.rig import open_rig
from anyrig.cli.text_input import read_input
from anyrig.errors import InvalidInputError, Message, OptionRef
from anyrig.units import pluralize

HELP = """Find people, organisations, places, dates, amounts of money, percentages, e-mail
addresses, telephone, IBAN, tax and card numbers in documents, with their position. Numbers that
have check digits are verified, and reported only if they are valid. --models lists the kinds and
the models that find names. - reads the standard input."""
MIXED = True
_OTHER_COLUMNS = 46
"""Width of the table without the entities' texts."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text", metavar="TEXT", help="search this text")
    parser.add_argument("--models", action="store_true", help="list kinds and models of names")
    add_flags(parser, EntitiesRequest)


def run(arguments: argparse.Namespace) -> int:
    with EventPrinter() as events:
        rig = open_rig(arguments, events)
        if arguments.models:
            return _list_models(is_json=arguments.json)
        given = read_flags(arguments, EntitiesRequest)
        texts = {} if arguments.text is None else {"text": arguments.text}
        files = given.pop("files", ())
        if Path("-") in files:
            texts["-"] = read_input("-")
        request = rig.request(
            EntitiesRequest, files=[file for file in files if file != Path("-")],
            texts=list(texts.values()), names=list(texts), **given,
        )  # fmt: skip
        _check_printable(request, is_json=arguments.json)
        found = []
        for one in find_entities(rig, request, events):
            found.append(one)
            if one.error is None and request.output is None and not arguments.json:
                events.pause()
                _print(one, request)
    result = EntitiesResult(tuple(found))
    if arguments.json and request.output is None:
        print_json(result.to_json(distinct=request.distinct))
    elif request.output is not None and not arguments.json:
        _print_summary(result, request)
    return report_failed(result.failed, len(found))


def _check_printable(request: EntitiesRequest, *, is_json: bool) -> None:
    if not request.redact:
        return
    if is_json:
        raise InvalidInputError(
            Message("{redact} writes text, not JSON", redact=OptionRef("redact")),
            hint="Leave one of them out.",
        )
    files = find_files(request.files, request.type, lambda _: None)
    if request.output is None and len(files) + len(request.texts) > 1:
        raise InvalidInputError(
            "several redacted texts cannot be printed",
            hint=Message("Pass a folder with {output}.", output=OptionRef("output")),
        )


def _print(found: FoundEntities, request: EntitiesRequest) -> None:
    if request.redact:
        sys.stdout.write(found.redacted.removesuffix("\n") + "\n")
    else:
        width = max(24, shutil.get_terminal_size((120, 24)).columns - _OTHER_COLUMNS)
        title, *lines = format_found(found, distinct=request.distinct, width=width).split("\n")
        sys.stdout.write("\n".join([paint(title, "bold"), *lines]))
    sys.stdout.flush()


def _print_summary(result: EntitiesResult, request: EntitiesRequest) -> None:
    num_texts = len(result.sources) - len(result.failed)
    count = sum(len(one.entities) for one in result.sources)
    entities = f"{count:,} {'entity' if count == 1 else 'entities'}"
    if num_texts:
        print(f"{entities} of {pluralize(num_texts, 'text')} in {request.output}")


def _list_models(*, is_json: bool) -> int:
    from anyrig.documents.entities.entity import CHECKED, NAMES
    from anyrig.documents.entities.ner_models import SPACY_MODELS, is_installed

    rows: list[dict[str, str]] = [
        {"model": one.module, "language": one.language, "licence": one.licence,
         "install": "" if is_installed(one.module) and is_installed("spacy") else one.install}
        for one in SPACY_MODELS
    ]  # fmt: skip
    if is_json:
        models = [{**one, "installed": not one["install"]} for one in rows]
        print_json({"names": NAMES, "checked": CHECKED, "models": models})
        return 0
    print(f"by grammar, without a model: {', '.join(CHECKED)}")
    print(f"by a model: {', '.join(NAMES)}\n")
    print(format_table([[*list(one.values())[:3], one["install"] or "installed"] for one in rows]))
    print("\nAny token-classification or GLiNER model works as well: --model FOLDER_OR_NAME.")
    return 0
