"""A file to pages and their pictures, in this process: what `apart.py` has done in another.

Formats with pages give those (a PDF, a TIFF), a message gives itself and what is attached to it,
the others their chapters. A plain text stays as it is, letter for letter, so that an offset in it
is one in the file.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError
from anyrig.text import files
from anyrig.text.document import Chapter
from anyrig.text.formats import picture
from anyrig.text.formats.limits import Limits
from anyrig.text.garbage import fault
from anyrig.text.labels import one_line
from anyrig.text.pages import Page, Paged, placed

Told = Callable[[int, int], None]
_MOST_WARNINGS = 100
_SMALL = 60_000
"""Pixels of a picture inside a message that is no page: a logo, an icon."""
_PICTURE = "a picture without a text layer"
_BETWEEN = "\n\n"
_NO_CHARACTER = re.compile("[\x00\ud800-\udfff]")  # what neither UTF-8 nor a database takes


@dataclass(frozen=True)
class _Place:
    """Where the picture of a message's page lies: in which attachment, on which of its pages."""

    attachment: int
    number: int


def paged(path: Path, limits: Limits, told: Told) -> Paged:
    """A file in pages by its own text.

    Args:
        path: of a regular file.
        limits: how much it may ask of the machine.
        told: called as pages are read, with the number of the page and of all.
    """
    with files.guarded(path, limits):
        form = files.format_of(path, limits=limits)
        made = _read(path, form, limits, told)
        return _finished(made, limits)


def drawn(path: Path, numbers: Sequence[int], dpi: int, limits: Limits) -> Iterator[bytes]:
    """Pages as PNG, one for each number.

    The first that cannot be drawn ends them by `InvalidInputError`.
    """
    with files.guarded(path, limits):
        form = files.format_of(path, limits=limits)
        if form == "pdf":
            from anyrig.text.formats import pdf_pages

            yield from pdf_pages.drawn(path, list(numbers), dpi, limits)
        elif form in picture.FORMATS:
            yield from picture.drawn(path, form, list(numbers), limits)
        elif form == "eml":
            yield from _drawn_attachments(path, numbers, dpi, limits)
        else:
            raise InvalidInputError(
                f"{path.name} has no pages that can be drawn", hint="Pass a PDF or a picture."
            )


def _read(path: Path, form: str, limits: Limits, told: Told) -> Paged:
    if form == "pdf":
        return _pdf(path, limits, told)
    if form in picture.FORMATS:
        return _picture(path, form, limits)
    if form == "eml":
        return _message(path, limits, told)[0]
    if form == "txt":
        return _plain(path, limits)
    document = files.read(path, limits=limits)
    found = tuple(page for chapter in document.chapters if (page := _chapter(chapter)).text)
    about = document.about
    return Paged(path, form, found, about.language, about.title, document.warnings)


def _chapter(chapter: Chapter) -> Page:
    """Its blocks with a blank line between; page numbers are no text."""
    kept = [block for block in chapter.blocks if block.text.strip() and block.kind != "page"]
    spans: dict[str, list[tuple[int, int]]] = {"image": [], "heading": []}
    start = 0
    for block in kept:
        if block.kind in spans:
            spans[block.kind].append((start, start + len(block.text)))
        start += len(block.text) + len(_BETWEEN)
    text = _BETWEEN.join(block.text for block in kept)
    pictures, headings = tuple(spans["image"]), tuple(spans["heading"])
    return Page(text, title=chapter.title, pictures=pictures, headings=headings)


def _plain(path: Path, limits: Limits) -> Paged:
    from anyrig.text.decode import decode
    from anyrig.text.formats.plain import content, empty, refuse_binary

    text = decode(content(path, limits), path.name).removeprefix("\ufeff")
    refuse_binary(text, path.name)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise empty(path.name)
    bad = fault(text)
    warnings = (f"the text of {path.name} may be of no use: {bad}",) if bad else ()
    return Paged(path, "txt", (Page(text),), warnings=warnings)


def _pdf(path: Path, limits: Limits, told: Told) -> Paged:
    from anyrig.text.formats import pdf_pages

    found = pdf_pages.read(path, limits, told)
    made = [
        Page(
            "" if leaf.lack else leaf.text,
            number,
            title=leaf.title,
            source="text" if leaf.text and not leaf.lack else "none",
            lack=leaf.lack,
            layer=leaf.text if leaf.lack else "",
        )
        for number, leaf in enumerate(found.leaves, 1)
    ]
    about = found.about
    return Paged(path, "pdf", tuple(made), about.language, about.title, tuple(found.warnings))


def _picture(path: Path, form: str, limits: Limits) -> Paged:
    count = picture.num_pages(path, form, limits)
    made = tuple(Page("", n, source="none", lack=_PICTURE) for n in range(1, count + 1))
    moving = form != "tiff" and picture.is_animation(path, form, limits)
    said = (f"{path.name} is an animation; only its first picture is taken",) if moving else ()
    return Paged(path, form, made, warnings=said)


def _message(path: Path, limits: Limits, told: Told) -> tuple[Paged, list[_Place | None]]:
    """A message and what is attached to it; and where the picture of each page lies."""
    from anyrig.text.formats import eml

    found: list[Page] = []
    places: list[_Place | None] = []
    warnings: list[str] = []
    threads = [each for top in eml.messages(path, limits) for each in eml.thread(top)]
    at = 0
    for message in threads:
        text = "\n\n".join(block.text for block in message.blocks)
        found.append(Page(text, title=message.subject))
        places.append(None)
        warnings += message.warnings
        for attachment in message.attachments:
            inner = _attached(attachment, limits, told, warnings)
            found += inner
            places += [_Place(at, page.number) for page in inner]
            at += 1
            _check_pages(len(found), path, limits)
    if not any(page.text or page.lack for page in found):
        raise InvalidInputError(f"{path.name} has no text in it", hint="Pass a file with text.")
    numbered = found if len(found) == 1 else [replace(p, number=n) for n, p in enumerate(found, 1)]
    said = tuple(warnings)
    title = threads[0].subject if threads else ""
    return Paged(path, "eml", tuple(numbered), "", title, said), places


def _check_pages(count: int, path: Path, limits: Limits) -> None:
    if count > limits.pages:
        raise LimitExceededError(
            f"{path.name} has more than {limits.pages:,} pages with its attachments",
            hint="Save the attachments by themselves.",
            limit="pages",
        )


def _attached(attachment: object, limits: Limits, told: Told, warnings: list[str]) -> list[Page]:
    from anyrig.text.formats import eml

    assert isinstance(attachment, eml.Attachment)
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = eml.saved(attachment, Path(folder))
            form = files.format_of(path, limits=limits)
            if attachment.inside and form in picture.FORMATS and _is_small(path, form, limits):
                warnings.append("small pictures inside the message, as logos are, were left out")
                return []
            inner = paged(path, _below(form, limits), told)
        except AnyrigError as error:
            warnings.append(eml.said_of(attachment, error))
            return []
    warnings.extend(f"{attachment.name}: {said}" for said in inner.warnings)
    return [
        replace(page, title=f"{attachment.name}: {page.title}" if page.title else attachment.name)
        for page in inner.pages
    ]


def _is_small(path: Path, form: str, limits: Limits) -> bool:
    width, height = picture.size_of(path, form, limits)
    return width * height < _SMALL


def _below(form: str, limits: Limits) -> Limits:
    """The limits of an attachment: a message that is attached as a file stands one deeper."""
    if form != "eml":
        return limits
    if limits.depth <= 0:
        raise InvalidInputError("it is a message in too many others", hint="Save it by itself.")
    return replace(limits, depth=limits.depth - 1)


def _drawn_attachments(
    path: Path, numbers: Sequence[int], dpi: int, limits: Limits
) -> Iterator[bytes]:
    """Pages of what is attached to a message; each run of one attachment's is drawn at once."""
    from anyrig.text.formats import eml

    _, places = _message(path, limits, lambda _page, _of: None)
    threads = [each for top in eml.messages(path, limits) for each in eml.thread(top)]
    attachments = [one for message in threads for one in message.attachments]

    def place_of(number: int) -> _Place:
        place = places[number - 1] if 1 <= number <= len(places) else None
        if place is None:
            raise InvalidInputError(
                f"{path.name} has no picture of page {number}", hint="Give another."
            )
        return place

    for at, run in groupby(map(place_of, numbers), key=lambda place: place.attachment):
        with tempfile.TemporaryDirectory() as folder:
            file = eml.saved(attachments[at], Path(folder))
            below = _below(files.format_of(file, limits=limits), limits)
            yield from drawn(file, [place.number for place in run], dpi, below)


def _finished(made: Paged, limits: Limits) -> Paged:
    """With offsets, titles that can be shown, and no more text than there may be."""
    found = placed(
        replace(
            page,
            text=_NO_CHARACTER.sub("\ufffd", page.text),
            layer=_NO_CHARACTER.sub("\ufffd", page.layer),
            title=one_line(page.title),
        )
        for page in made.pages
    )
    num_characters = sum(len(page.text) for page in found)
    if num_characters > limits.characters:
        raise LimitExceededError(
            f"{made.file.name} contains {num_characters:,} characters of text",
            hint="Split it.",
            limit="characters",
        )
    warnings = tuple(dict.fromkeys(one_line(said, 1000) for said in made.warnings))
    return replace(
        made,
        pages=found,
        title=one_line(made.title),
        language=one_line(made.language, 40),
        warnings=warnings[:_MOST_WARNINGS],
    )
