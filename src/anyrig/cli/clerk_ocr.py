"""A clerk's task that reads pictures of pages: as text, with boxes, or as a PDF to be searched."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import clerk_models
from anyrig.cli.clerk import ClerkRoom
from anyrig.errors import InvalidInputError, LimitExceededError

if TYPE_CHECKING:
    from anyrig.documents.ocr.pipeline import OcrFile, OcrPlan
    from anyrig.documents.ocr.run import Pages


def ocr(room: ClerkRoom, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What stands on the pages of a file, as the one row of a list.

    Arguments are `sources` (one), `language`, `engine`, `pages`, `dpi`, `always`, `words`, and
    `pdf`: a path to write a searchable PDF to.
    """
    from anyrig.documents.ocr.pipeline import PageOptions, plan_files

    (source,) = clerk_models.given(arguments)
    assert source.file is not None
    reader = clerk_models.pages(room, arguments["language"], arguments["engine"])
    options = PageOptions(
        arguments["pages"], arguments["dpi"], arguments["always"],
        keep_images=bool(arguments.get("pdf")),
    )  # fmt: skip
    plan = plan_files([source.file], options, clerk_models.limits(room))
    _check(plan)
    done = _read(room, plan, reader)
    if done.error is not None:
        message, hint = source.told(done.error.message), source.told(done.error.hint)
        raise type(done.error)(message, hint=hint)
    if arguments.get("pdf"):
        _write(done, Path(arguments["pdf"]))
    told = replace(done, path=Path(source.name)).to_json()
    if not arguments["words"]:
        for page in told["pages"]:
            page.pop("lines", None)
    return [{"result": {
        "format": told["format"], "pages": told["pages"], "failed": told["failed"],
        "text": "\n\n".join(page["text"] for page in told["pages"]),
        "engine": reader.chosen.engine,
    }}]  # fmt: skip


def _write(done: OcrFile, path: Path) -> None:
    """Only where there still is a place for it: the folder goes when whoever asked leaves."""
    if not path.parent.is_dir():
        raise InvalidInputError("nobody waits for this file any more", hint="Ask again.")
    done.write(path, "pdf")


def _check(plan: OcrPlan) -> None:
    if plan.num_pages > clerk_models.OCR_PAGES:
        raise LimitExceededError(
            f"{plan.num_pages} pictures of pages are more than one request reads",
            hint=f"Name some: pages=1-{clerk_models.OCR_PAGES}, and the others after that.",
        )


def _read(room: ClerkRoom, plan: OcrPlan, reader: Pages) -> OcrFile:
    from anyrig.documents.ocr.pipeline import OcrFile, read_files

    end = time.monotonic() + clerk_models.OCR_S
    found: OcrFile | None = None
    for number, one in enumerate(read_files(plan, reader), 1):
        room.check()
        if isinstance(one, OcrFile):
            found = one
        elif time.monotonic() > end:
            raise LimitExceededError(
                f"{number} of {plan.num_pages} pages took {clerk_models.OCR_S:.0f} s",
                hint="Name fewer pages in one request.",
            )
    assert found is not None
    return found
