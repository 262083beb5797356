"""Documents in a few sentences: their own, or those of a model that writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.compute import ComputeOptions, place
from anyrig.app.documents import (
    FailedFile,
    SourceOptions,
    build_limits,
    list_sources,
    read_sources,
    report_warnings,
)
from anyrig.app.embedding import EmbeddingOptions, download_model, find_model, open_vectors
from anyrig.app.files import check_writable, write_text
from anyrig.events import OnEvent, ProgressEvent
from anyrig.options import list_options, option
from anyrig.text.language_names import language_code

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.protocol import Vectors
    from anyrig.documents.summarise.abstractive import AbstractiveSummarizer
    from anyrig.documents.summarise.files import ChapterSummary, FileSummary

SUMMARY_FORMATS = (".txt", ".md", ".json")
FormatHeading = Callable[[str, int], str]
"""A heading from its text and level."""


@dataclass(frozen=True, kw_only=True)
class SummariseRequest(SourceOptions):
    """Summaries."""

    files: tuple[Path, ...] = option(
        (), "files and folders; - is stdin", positional=True, http=False, metavar="FILE"
    )
    sentences: int | None = option(
        None, "number of sentences; default 5", ge=1, le=1_000_000, metavar="N",
        excludes="words",
    )  # fmt: skip
    words: int | None = option(
        None, "at most N words", ge=1, le=1_000_000, metavar="N", excludes="share"
    )
    share: float | None = option(
        None, "this fraction of the sentences", gt=0, le=1, metavar="X", excludes="sentences"
    )
    by_chapter: bool = option(False, "summarise each chapter of a book")
    model: str = option(
        "", "a model that writes summaries: a folder, or owner/name on the hub",
        metavar="FOLDER_OR_NAME",
    )  # fmt: skip
    fetch: bool = option(
        False, "download a model of the hub that is not on this machine", http=False
    )
    vectors: bool = option(False, "also use the embedding model to choose sentences")
    language: str = option(
        "", "language of the text; default: detected", normalize=language_code, metavar="CODE"
    )
    places: bool = option(False, "show the page and offset of each sentence")
    bullets: bool = option(
        False, "a list, with the page of each sentence where there are pages", http=False
    )
    output: Path | None = option(
        None, f"write the summaries to a file: {', '.join(SUMMARY_FORMATS)}", short="-o",
        http=False, metavar="FILE",
    )  # fmt: skip


def summarise(rig: Rig, request: SummariseRequest, on_event: OnEvent) -> Iterator[FileSummary]:
    """Summarise each file, in order. One that cannot be read has an error, and the others go on;
    the output is written when all are done.
    """
    from anyrig.documents.summarise.extract import Length
    from anyrig.documents.summarise.files import summarise_files

    rig.choose_cpu(request)  # warns of a device that does not exist, though only models use one
    if request.output is not None:
        check_writable(request.output, SUMMARY_FORMATS)
    sources = list_sources(request, on_event, "summarise")
    made: list[FileSummary] = []

    def report(detail: str) -> None:
        on_event(ProgressEvent("summarising", len(made), len(sources), detail))

    report("")
    with ExitStack() as stack:
        for one in summarise_files(
            (found for _, found in read_sources(rig, request, sources)),
            length=Length(request.sentences or 0, request.words or 0, request.share or 0.0),
            limits=build_limits(request),
            by_chapter=request.by_chapter,
            language=request.language,
            vectors=_get_vectors(rig, request, stack, on_event) if request.vectors else None,
            summarizer=_get_summarizer(rig, request, stack, on_event) if request.model else None,
            on_progress=report,
        ):
            report_warnings(one.file, one.warnings, on_event)
            made.append(one)
            yield one
    if request.output is not None and any(one.error is None for one in made):
        write_text(request.output, _format_file(request, request.output.suffix.lower(), made))


def list_failed(made: Iterable[FileSummary]) -> list[FailedFile]:
    return [FailedFile(one.file, one.error) for one in made if one.error is not None]


def _get_vectors(
    rig: Rig, request: SummariseRequest, stack: ExitStack, on_event: OnEvent
) -> Callable[[], Vectors]:
    """Opens the embedding model of the settings; `model` of the request is another."""
    compute = {name: getattr(request, name) for name in list_options(ComputeOptions)}
    options = rig.request(EmbeddingOptions, **compute, no_cache=request.private)

    def open_once() -> Vectors:
        model = find_model(rig, options, {}, on_event)
        return stack.enter_context(open_vectors(rig, options, model, on_event))

    return cache(open_once)


def _get_summarizer(
    rig: Rig, request: SummariseRequest, stack: ExitStack, on_event: OnEvent
) -> Callable[[], AbstractiveSummarizer]:
    """Opens the model that writes; it is found at once, and loaded for the first text."""
    from anyrig.documents.summarise.abstractive import find

    fetch = partial(download_model, on_event=on_event) if request.fetch else None
    model = find(request.model, models=rig.folders.models, fetch=fetch)

    def open_summarizer() -> AbstractiveSummarizer:
        from anyrig.documents.summarise.abstractive import AbstractiveSummarizer
        from anyrig.memory.known_sizes import KnownBatchSizes

        options = request
        if not any(gpu.usable for gpu in rig.machine.gpus):
            options = replace(request, no_bench=True)  # nothing to choose between
        plan = place(rig, rig.choose_device(options), model.need(), options)
        limits = KnownBatchSizes(rig.folders.batch_limits)
        return AbstractiveSummarizer(model, placed=plan, environment=rig.environment, limits=limits)

    def borrow_once() -> AbstractiveSummarizer:
        name = f"summaries {Path(request.model).name}"
        return stack.enter_context(
            rig.models.borrow(name, open_summarizer, version=str(model.folder))
        )

    return cache(borrow_once)


# -- as text and JSON ------------------------------------------------------------------------------


def _format_file(request: SummariseRequest, format: str, made: Sequence[FileSummary]) -> str:
    if format == ".json":
        return json.dumps(summaries_to_json(made), indent=2, ensure_ascii=False) + "\n"
    done = [one for one in made if one.error is None]
    is_markdown = format == ".md"

    def format_heading(text: str, level: int) -> str:
        return f"{'#' * level} {text}\n" if is_markdown else text

    named = len(done) > 1 or is_markdown
    return "\n".join(format_summary(one, format_heading, request, named=named) for one in done)


def format_summary(
    summary: FileSummary, format_heading: FormatHeading, request: SummariseRequest, *, named: bool
) -> str:
    """The summaries of a file as text, with a blank line behind each.

    Args:
        summary: of the file.
        format_heading: makes the headings.
        request: says whether sentences are a list, and have their place.
        named: whether the file's name is the first of them.
    """
    from anyrig.text.labels import one_line

    lines = [format_heading(one_line(summary.file), 1)] if named else []
    for chapter in summary.summaries:
        if chapter.title:
            lines.append(format_heading(one_line(chapter.title), 2))
        lines += [*_format_sentences(chapter, request), ""]
    return "\n".join(lines)


def _format_sentences(chapter: ChapterSummary, request: SummariseRequest) -> Iterator[str]:
    from anyrig.documents.summarise.extract import Summary
    from anyrig.text.tokens import split_text

    summary = chapter.summary
    bullet = "- " if request.bullets else ""
    if not isinstance(summary, Summary):
        spans = split_text(summary.text, request.language or "en") if bullet else ()
        for start, end in spans or [(0, len(summary.text))]:
            yield bullet + _clean(summary.text[start:end])
    elif not (request.places or bullet):
        yield _clean(summary.text)
    else:
        for one in summary.taken:
            page = f"page {one.page}" if one.page else ""
            place = ", ".join(filter(None, [page, f"{one.start}-{one.end}"]))
            before = f"[{place}] " if request.places else ""
            behind = f" ({page})" if page and not request.places else ""
            yield f"{bullet}{before}{_clean(one.text)}{behind}"


def _clean(text: str) -> str:
    """Text of others, without anything that could disturb a terminal."""
    from anyrig.text.labels import one_line

    return one_line(text, max(500, len(text)))


def summaries_to_json(made: Sequence[FileSummary]) -> dict[str, Any]:
    return {
        "documents": [
            {"file": one.file, "summaries": [summary_to_json(two) for two in one.summaries],
             "warnings": list(one.warnings)}
            for one in made if one.error is None
        ],
        "failed": [one.to_json() for one in list_failed(made)],
    }  # fmt: skip


def summary_to_json(chapter: ChapterSummary) -> dict[str, Any]:
    from anyrig.documents.summarise.extract import Summary

    summary = chapter.summary
    common = {
        "title": chapter.title, "text": summary.text, "language": summary.language,
        "method": summary.method, "num_words": summary.num_words,
    }  # fmt: skip
    if isinstance(summary, Summary):
        rows = [{**asdict(one), "page": one.page or None} for one in summary.taken]
        return {**common, "num_sentences": summary.num_sentences, "sentences": rows}
    windows = [asdict(one) for one in summary.parts]
    return {**common, "rounds": summary.rounds, "windows": windows}
