"""Summaries of files: by their own sentences, or by a model that writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from anyrig.documents.reading import Unread, textless
from anyrig.documents.summarise.chapters import chapters
from anyrig.documents.summarise.extract import Length, Summary, extract
from anyrig.errors import AnyrigError, InvalidInputError, Message, OptionRef
from anyrig.text.labels import one_line

if TYPE_CHECKING:
    from anyrig.documents.protocol import Vectors
    from anyrig.documents.summarise.write import Scribe, Written
    from anyrig.text.document import Document
    from anyrig.text.formats.limits import Limits

Tell = Callable[[str], None]


@dataclass(frozen=True)
class ChapterSummary:
    """A summary of a file, or of one of its chapters."""

    title: str
    """Of the chapter; empty for a whole file."""
    summary: Summary | Written


@dataclass(frozen=True)
class FileSummary:
    """The summaries of a file, or why there are none."""

    file: str
    summaries: tuple[ChapterSummary, ...] = ()
    warnings: tuple[str, ...] = ()
    error: AnyrigError | None = None


def summarise_files(
    files: Iterable[Document | Unread],
    *,
    length: Length,
    limits: Limits,
    by_chapter: bool = False,
    language: str = "",
    vectors: Callable[[], Vectors] | None = None,
    scribe: Callable[[], Scribe] | None = None,
    tell: Tell = lambda _: None,
) -> Iterator[FileSummary]:
    """A summary of each file, in order; one that cannot be read says why, and the rest go on.

    Args:
        files: as they were read.
        length: of each summary; of each chapter's, by chapters.
        limits: how much a file may ask of the machine.
        by_chapter: whether each chapter has a summary of its own.
        language: of the texts; found out when empty.
        vectors: opens a model that knows which sentences mean the like.
        scribe: opens a model that writes; it takes the place of sentences.
        tell: is told what is done now.
    """
    for one in files:
        name = str(one.path)
        if isinstance(one, Unread):
            yield FileSummary(name, error=one.error)
            continue
        tell(one_line(one.path.name, 80))
        try:
            read = _blank_images(one)
            if not any(map(str.isalnum, read.text)):
                read = one  # nothing but pictures: their descriptions are all there is
            parts = chapters(read, limits) if by_chapter else [read]
            summaries = tuple(
                ChapterSummary(
                    part.metadata.title if by_chapter else "",
                    _one(part, length, language, vectors, scribe, tell),
                )
                for part in parts
            )
        except AnyrigError as error:
            yield FileSummary(name, error=error)
            continue
        yield FileSummary(name, summaries, one.warnings)


def _blank_images(document: Document) -> Document:
    """With blanks for the descriptions of pictures, which are no prose; all offsets stay."""
    return replace(
        document,
        chapters=tuple(
            replace(
                chapter,
                blocks=tuple(
                    replace(block, text=" " * len(block.text)) if block.kind == "image" else block
                    for block in chapter.blocks
                ),
            )
            for chapter in document.chapters
        ),
    )


def _one(
    part: Document,
    length: Length,
    language: str,
    vectors: Callable[[], Vectors] | None,
    scribe: Callable[[], Scribe] | None,
    tell: Tell,
) -> Summary | Written:
    if not any(map(str.isalnum, part.text)):
        raise textless(part)
    if scribe is None:
        made = vectors() if vectors is not None else None
        step = partial(tell, one_line(part.path.name, 80))
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
    return scribe().summarise(
        part, words=words, language=language,
        tell=lambda done, total: tell(f"{one_line(part.path.name, 60)}: window {done} of {total}"),
    )  # fmt: skip
