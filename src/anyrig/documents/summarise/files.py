"""Summaries of files: by their own sentences, or by a model that writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from anyrig.documents.reading import build_textless_error
from anyrig.documents.summarise.extract import Length, Summary, extract
from anyrig.errors import AnyrigError, InvalidInputError, Message, OptionRef
from anyrig.text.labels import one_line
from anyrig.text.sandbox import ReadError

if TYPE_CHECKING:
    from anyrig.documents.protocol import Vectors
    from anyrig.documents.summarise.abstractive import AbstractiveSummarizer, WrittenSummary
    from anyrig.text.document import Chapter, Document
    from anyrig.text.formats.limits import Limits

Report = Callable[[str], None]
_FEWEST_LETTERS = 200
"""Of a chapter: a title page or a list of pictures has nothing to sum up."""
_NO_PROSE = ("page", "note", "image")
_SOME_PROSE = 40
"""Characters of a paragraph."""


@dataclass(frozen=True)
class ChapterSummary:
    """A summary of a file, or of one of its chapters."""

    title: str
    """Of the chapter; empty for a whole file."""
    summary: Summary | WrittenSummary


@dataclass(frozen=True)
class FileSummary:
    """The summaries of a file, or why there are none."""

    file: str
    summaries: tuple[ChapterSummary, ...] = ()
    warnings: tuple[str, ...] = ()
    error: AnyrigError | None = None


def summarise_files(
    files: Iterable[Document | ReadError],
    *,
    length: Length,
    limits: Limits,
    by_chapter: bool = False,
    language: str = "",
    vectors: Callable[[], Vectors] | None = None,
    summarizer: Callable[[], AbstractiveSummarizer] | None = None,
    on_progress: Report = lambda _: None,
) -> Iterator[FileSummary]:
    """A summary of each file, in order; one that cannot be read says why, and the rest go on.

    Args:
        files: as they were read.
        length: of each summary; of each chapter's, by chapters.
        limits: how much a file may ask of the machine.
        by_chapter: whether each chapter has a summary of its own.
        language: of the texts; detected when empty.
        vectors: opens a model that knows which sentences mean the like.
        summarizer: opens a model that writes; it takes the place of sentences.
        on_progress: receives what is done now.
    """
    for one in files:
        name = str(one.path)
        if isinstance(one, ReadError):
            yield FileSummary(name, error=one.error)
            continue
        on_progress(one_line(one.path.name, 80))
        try:
            read = _blank_other_than_prose(one)
            if not any(map(str.isalnum, read.text)):
                read = one  # nothing but pictures: their descriptions are all there is
            parts = split_chapters(read, limits) if by_chapter else [read]
            summaries = tuple(
                ChapterSummary(
                    part.metadata.title if by_chapter else "",
                    _summarise(part, length, language, vectors, summarizer, on_progress),
                )
                for part in parts
            )
        except AnyrigError as error:
            yield FileSummary(name, error=error)
            continue
        yield FileSummary(name, summaries, one.warnings)


def _blank_other_than_prose(document: Document) -> Document:
    """With blanks for descriptions of pictures, and for tables and the heads of messages where
    there is prose beside them; all offsets stay.
    """
    blocks = [block for chapter in document.chapters for block in chapter.blocks]
    has_prose = any(
        block.kind not in ("image", "table", "heading") and len(block.text) >= _SOME_PROSE
        for block in blocks
    )
    blank = ("image", "table") if has_prose else ("image",)
    return replace(
        document,
        chapters=tuple(
            replace(
                chapter,
                blocks=tuple(
                    replace(block, text=" " * len(block.text)) if block.kind in blank else block
                    for block in chapter.blocks
                ),
            )
            for chapter in document.chapters
        ),
    )


def _summarise(
    part: Document,
    length: Length,
    language: str,
    vectors: Callable[[], Vectors] | None,
    summarizer: Callable[[], AbstractiveSummarizer] | None,
    on_progress: Report,
) -> Summary | WrittenSummary:
    if not any(map(str.isalnum, part.text)):
        raise build_textless_error(part)
    if summarizer is None:
        made = vectors() if vectors is not None else None
        step = partial(on_progress, one_line(part.path.name, 80))
        return extract(part, length=length, language=language, vectors=made, on_step=step)
    if length.share:
        raise InvalidInputError(
            "a model that writes cannot be given a share of the sentences",
            hint=Message(
                "Give {words}, or leave {model} out.",
                words=OptionRef("words"),
                model=OptionRef("model"),
            ),
        )
    words = length.words or 25 * (length.sentences or 5)
    return summarizer().summarise(
        part, words=words, language=language,
        on_progress=lambda done, total: on_progress(
            f"{one_line(part.path.name, 60)}: window {done} of {total}"
        ),
    )  # fmt: skip


def split_chapters(document: Document, limits: Limits) -> list[Document]:
    """The chapters in order, each with its title; offsets are those within the chapter.

    A file that is read chapter by chapter has them already; of one with pages, or of plain text,
    the headings are sought. A file without any is one chapter.
    """
    found = [document] if document.has_pages else _split_by_titles(document)
    if len(found) < 2 and document.format in ("pdf", "txt"):
        found = _split_by_headings(document, limits) or found
    long = [one for one in found if sum(map(str.isalpha, one.text)) >= _FEWEST_LETTERS]
    return long or [document]


def _split_by_titles(document: Document) -> list[Document]:
    return [
        _take(document, tuple(run), title or document.metadata.title)
        for title, run in groupby(document.chapters, key=lambda chapter: chapter.title)
    ]


def _split_by_headings(document: Document, limits: Limits) -> list[Document]:
    from anyrig.text.sandbox import read_book

    try:
        whole = read_book(document.path, limits=limits)
    except AnyrigError:  # pages that only OCR can read: they have no headings to go by
        return []
    return [
        _take(document, (replace(chapter, blocks=prose),), chapter.title)
        for chapter in whole.chapters
        if chapter.role == "body"
        and (prose := tuple(b for b in chapter.blocks if b.kind not in _NO_PROSE))
    ]


def _take(document: Document, chapters: tuple[Chapter, ...], title: str) -> Document:
    return replace(
        document, chapters=chapters, metadata=replace(document.metadata, title=title), scans=()
    )
