"""FictionBook 2 (fb2, also in a zip): sections as nested chapters, poems, cites, notes, cover."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, BlockKind, Chapter, Document, Metadata, Picture, Role
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.office import attribute
from anyrig.text.formats.paragraphs import is_rule
from anyrig.text.formats.plain import content
from anyrig.text.formats.runs import Run, table, woven
from anyrig.text.formats.xml import local, parse
from anyrig.text.formats.zipped import opened

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_NOTES = ("notes", "footnotes", "comments", "endnotes", "примечания", "сноски", "комментарии")
_INNER: dict[str, BlockKind] = {
    "epigraph": "quote", "cite": "quote", "annotation": "quote", "poem": "poem",
}  # fmt: skip
_LARGEST_COVER = 20_000_000  # characters of base64


def read(path: Path, limits: Limits) -> Document:
    """An fb2 as a document."""
    root = parse(_data(path, limits), name=path.name, limits=limits)
    if local(root) != "fictionbook":
        raise InvalidInputError(f"{path.name} is not a FictionBook file", hint="Pass an fb2 file.")
    reader = _Reader(_note_ids(root))
    for body in root:
        if local(body) == "body":
            reader.body(body)
    if not reader.chapters:
        raise InvalidInputError(f"{path.name} has no body", hint="Get another copy of the file.")
    return Document(_about(root), tuple(reader.chapters), _cover(root), "fb2")


def _data(path: Path, limits: Limits) -> bytes:
    with path.open("rb") as file:
        zipped = file.read(2) == b"PK"
    if not zipped:
        return content(path, limits)
    with opened(path, limits) as archive:
        books = [name for name in archive.names if name.lower().endswith((".fb2", ".xml"))]
        if not books:
            raise InvalidInputError(f"{path.name} contains no fb2", hint="Pass an fb2 file.")
        return archive.read(books[0], limits.text_bytes)


def _note_ids(root: Element) -> frozenset[str]:
    return frozenset(
        attribute(section, "id")
        for body in root
        if local(body) == "body" and _is_notes(body)
        for section in body.iter()
        if attribute(section, "id")
    )


def _is_notes(body: Element) -> bool:
    return attribute(body, "name").strip().lower() in _NOTES


class _Reader:
    """One file on its way to chapters."""

    def __init__(self, notes: frozenset[str]) -> None:
        self._notes = notes
        self.chapters: list[Chapter] = []

    def body(self, body: Element) -> None:
        """The chapters of one body; that of the notes is a single one."""
        if _is_notes(body):
            blocks = list(self._note_blocks(body))
            if blocks:
                self.chapters.append(Chapter(_title(body), tuple(blocks), role="notes"))
            return
        own = list(self._own(body, 1))
        if own:
            nested = any(local(child) == "section" for child in body)
            slight = nested and sum(len(block.text) for block in own) < 1000
            role: Role = "title" if slight else "body"
            self.chapters.append(Chapter(_title(body), tuple(own), role=role))
        for child in body:
            if local(child) == "section":
                self._section(child, 1)

    def _section(self, element: Element, level: int) -> None:
        """A section with its blocks, then those inside it; one without a title joins the last."""
        own = list(self._own(element, level))
        title = _title(element)
        inside = [child for child in element if local(child) == "section"]
        if title or not self.chapters or self.chapters[-1].role != "body":
            if own:
                self.chapters.append(
                    Chapter(title, tuple(own), level, source=attribute(element, "id"))
                )
        elif own:
            last = self.chapters[-1]
            self.chapters[-1] = Chapter(
                last.title, (*last.blocks, *own), last.level, last.role, last.source
            )
        for child in inside:
            self._section(child, level + 1 if title else level)

    def _own(self, element: Element, level: int) -> Iterator[Block]:
        for child in element:
            if local(child) != "section":
                yield from self._blocks(child, level, "paragraph")

    def _blocks(self, element: Element, level: int, kind: BlockKind) -> Iterator[Block]:
        """The blocks that one element makes."""
        name = local(element)
        if name == "title":
            yield from self._heading(element, level)
        elif name in ("p", "subtitle", "text-author", "date"):
            yield from self._paragraph(element, name, level, kind)
        elif name == "stanza":
            yield from self._stanza(element, level)
        elif name in ("table", "image", "code"):
            yield from self._set_apart(element, name)
        elif name != "empty-line":
            inner = _INNER.get(name, kind)
            for child in element:
                yield from self._blocks(child, level, inner)

    def _set_apart(self, element: Element, name: str) -> Iterator[Block]:
        if name == "table":
            yield from self._table(element)
        elif name == "image":
            yield from _image(element)
        else:
            yield Block("".join(map(str, element.itertext())).strip(), "code")

    def _heading(self, element: Element, level: int) -> Iterator[Block]:
        for child in element:
            said = woven(self._runs(child, ""))
            if said.text:
                yield Block(said.text, "heading", level, said.language, inlines=said.inlines)

    def _paragraph(
        self, element: Element, name: str, level: int, kind: BlockKind
    ) -> Iterator[Block]:
        said = woven(self._runs(element, attribute(element, "lang")))
        if not said.text:
            return
        rule = is_rule(said.text)
        if rule:
            yield Block(said.text, "rule")
        elif name == "subtitle":
            yield Block(said.text, "heading", level + 1, said.language, inlines=said.inlines)
        else:
            yield Block(said.text, kind, 0, said.language, inlines=said.inlines)

    def _stanza(self, element: Element, level: int) -> Iterator[Block]:
        """The lines of a stanza as one block."""
        lines: list[Run] = []
        for child in element:
            if local(child) in ("title", "subtitle"):
                yield from self._blocks(child, level + 1, "poem")
            elif local(child) == "v":
                lines += [*self._runs(child, attribute(child, "lang")), Run("\n")]
        said = woven(lines, lines=True)
        if said.text:
            yield Block(said.text, "poem", 0, said.language, inlines=said.inlines)

    def _table(self, element: Element) -> Iterator[Block]:
        rows = [
            [list(self._runs(cell, "")) for cell in row if local(cell) in ("td", "th")]
            for row in element.iter()
            if local(row) == "tr"
        ]
        said = table(rows)
        if said.text.strip():
            yield Block(said.text, "table", 0, said.language, inlines=said.inlines)

    def _runs(self, element: Element, language: str) -> Iterator[Run]:
        if element.text:
            yield Run(element.text.replace("\n", " "), language=language)
        for child in element:
            yield from self._run(child, attribute(child, "lang") or language)
            if child.tail:
                yield Run(child.tail.replace("\n", " "), language=language)

    def _run(self, child: Element, language: str) -> Iterator[Run]:
        name = local(child)
        if name == "image":
            return
        target = attribute(child, "href").lstrip("#") if name == "a" else ""
        if target and (target in self._notes or attribute(child, "type") == "note"):
            yield Run("".join(map(str, child.itertext())), "noteref", target)
        elif name in ("p", "v", "br"):
            yield Run(" ")
            yield from self._runs(child, language)
        else:
            yield from self._runs(child, language)

    def _note_blocks(self, body: Element) -> Iterator[Block]:
        for child in body:
            if local(child) != "section":
                yield from self._blocks(child, 1, "paragraph")
                continue
            note = attribute(child, "id")
            inner = [each for each in child if local(each) == "section"]
            if inner and not note:
                yield from self._note_blocks(child)
                continue
            for block in self._blocks(child, 2, "paragraph"):
                yield Block(block.text, "note", 0, block.language, note, 0, block.inlines)


def _image(element: Element) -> Iterator[Block]:
    said = attribute(element, "alt") or attribute(element, "title")
    if said.strip():
        yield Block(" ".join(said.split()), "image")


def _title(element: Element) -> str:
    """The lines of a section's title as one."""
    for child in element:
        if local(child) == "title":
            lines = ["".join(map(str, each.itertext())) for each in child]
            return ". ".join(" ".join(line.split()).rstrip(".") for line in lines if line.strip())
    return ""


def _about(root: Element) -> Metadata:
    info = _find(root, "title-info")
    if info is None:
        return Metadata()
    sequence = _find(info, "sequence")
    published = _find(root, "publish-info")
    annotation = _find(info, "annotation")
    year = _text(info, "date") or (_text(published, "year") if published is not None else "")
    found = re.search(r"\d{4}", year)
    return Metadata(
        title=_text(info, "book-title"),
        authors=tuple(_person(each) for each in info if local(each) == "author" and _person(each)),
        language=_text(info, "lang"),
        series=attribute(sequence, "name") if sequence is not None else "",
        series_index=attribute(sequence, "number") if sequence is not None else "",
        year=found[0] if found else "",
        description=" ".join(" ".join(annotation.itertext()).split())
        if annotation is not None
        else "",
        publisher=_text(published, "publisher") if published is not None else "",
        identifier=_text(published, "isbn") if published is not None else "",
        subjects=tuple(each.text for each in info if local(each) == "genre" and each.text),
    )


def _find(element: Element, name: str) -> Element | None:
    return next((each for each in element.iter() if local(each) == name), None)


def _text(element: Element, name: str) -> str:
    found = _find(element, name)
    return " ".join("".join(map(str, found.itertext())).split()) if found is not None else ""


def _person(element: Element) -> str:
    names = [_text(element, part) for part in ("first-name", "middle-name", "last-name")]
    return " ".join(name for name in names if name) or _text(element, "nickname")


def _cover(root: Element) -> Picture | None:
    page = _find(root, "coverpage")
    image = _find(page, "image") if page is not None else None
    if image is None:
        return None
    name = attribute(image, "href").lstrip("#")
    for each in root:
        if local(each) == "binary" and attribute(each, "id") == name:
            return _picture(each)
    return None


def _picture(element: Element) -> Picture | None:
    text = element.text or ""
    if len(text) > _LARGEST_COVER:
        return None
    try:
        data = base64.b64decode(text, validate=False)
    except (binascii.Error, ValueError):
        return None
    if data.startswith(b"\xff\xd8\xff"):
        return Picture(data, "image/jpeg")
    return Picture(data, "image/png") if data.startswith(b"\x89PNG") else None
