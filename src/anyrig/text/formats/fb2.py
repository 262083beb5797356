"""FictionBook 2 (fb2, also in a zip), renamed in place to the page of HTML that it is.

Sections are nested chapters, whatever their headings; the body of notes is one.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, Chapter, Document, Metadata, Picture
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.markup import read_blocks
from anyrig.text.formats.office import read_attribute
from anyrig.text.formats.paragraphs import is_rule
from anyrig.text.formats.picture import build_cover
from anyrig.text.formats.plain import read_content
from anyrig.text.formats.xml import local_name, parse
from anyrig.text.formats.zipped import open_archive

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_NOTES = ("notes", "footnotes", "comments", "endnotes", "примечания", "сноски", "комментарии")
_TAGS = {
    "epigraph": "blockquote", "cite": "blockquote", "annotation": "blockquote", "poem": "div",
    "stanza": "div", "v": "p", "text-author": "p", "date": "p", "p": "p", "table": "table",
    "tr": "tr", "td": "td", "th": "th", "sup": "sup", "sub": "sub", "empty-line": "script",
    "section": "section", "body": "div", "title": "div",
}  # fmt: skip
"""Element -> that of HTML; `script` is left out. All others are inline."""
_CLASSES = {"poem": "poem", "stanza": "stanza"}
_SLIGHT = 1000
"""Characters of a title page."""
_LARGEST_COVER = 20_000_000  # characters of base64


def read(path: Path, limits: Limits) -> Document:
    """An fb2 as a document."""
    root = parse(_data(path, limits), name=path.name, limits=limits)
    if local_name(root) != "fictionbook":
        raise InvalidInputError(f"{path.name} is not a FictionBook file", hint="Pass an fb2 file.")
    book = _Fb2Reader()
    cover, metadata = _cover(root), _about(root)
    for body in [each for each in root if local_name(each) == "body"]:
        book.add_body(body)
    if not book.chapters:
        raise InvalidInputError(f"{path.name} has no body", hint="Get another copy of the file.")
    return Document(metadata, book.chapters, cover, "fb2")


def _data(path: Path, limits: Limits) -> bytes:
    with path.open("rb") as file:
        zipped = file.read(2) == b"PK"
    if not zipped:
        return read_content(path, limits)
    with open_archive(path, limits) as archive:
        books = [name for name in archive.names if name.lower().endswith((".fb2", ".xml"))]
        if not books:
            raise InvalidInputError(f"{path.name} contains no fb2", hint="Pass an fb2 file.")
        return archive.read(books[0], limits.text_bytes)


class _Fb2Reader:
    def __init__(self) -> None:
        self._chapters: list[Chapter] = []
        self._blocks: list[list[Block]] = []
        """Of each chapter, with those of sections that joined it."""

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        return tuple(
            replace(chapter, blocks=tuple(blocks))
            for chapter, blocks in zip(self._chapters, self._blocks, strict=True)
        )

    def add_body(self, body: Element) -> None:
        """The chapters of one body; that of the notes is a single one."""
        if read_attribute(body, "name").strip().lower() in _NOTES:
            title = _title(body)
            _rename(body, notes=True)
            blocks, _ = read_blocks(body)
            if blocks:
                self._append(Chapter(title, (), role="notes"), blocks)
            return
        sections = _list_sections(body)
        _rename(body)
        for number, section in enumerate(sections):
            section.element.set("id", section.source or f"anyrig-{number}")
        blocks, places = read_blocks(body)
        starts = [places.get(str(one.element.get("id")), (len(blocks),))[0] for one in sections]
        starts[0] = 0
        for number, one in enumerate(sections):
            end = starts[number + 1] if number + 1 < len(sections) else len(blocks)
            own = blocks[starts[number] : end]
            if own:
                chapter = Chapter(one.title, (), one.level, source=one.source)
                self._add(chapter, own, is_body=number == 0, more=end < len(blocks))

    def _add(self, chapter: Chapter, blocks: list[Block], *, is_body: bool, more: bool) -> None:
        """A section without a title joins the last; what is above all of them is a title page."""
        last = self._chapters[-1] if self._chapters else None
        if is_body:
            is_title = more and sum(len(block.text) for block in blocks) < _SLIGHT
            self._append(replace(chapter, role="title" if is_title else "body"), blocks)
        elif chapter.title or last is None or last.role != "body":
            self._append(chapter, blocks)
        else:
            self._blocks[-1] += blocks

    def _append(self, chapter: Chapter, blocks: list[Block]) -> None:
        self._chapters.append(chapter)
        self._blocks.append(blocks)


class _Section(NamedTuple):
    element: Element
    level: int
    title: str
    source: str


def _list_sections(body: Element) -> list[_Section]:
    """A body and its sections, in order, at the level that their titles give them."""
    found = [_Section(body, 1, _title(body), "")]
    inner = {body: 1}
    for element in body.iter():
        above = element.getparent()
        if local_name(element) != "section" or above is None:
            continue
        level, title = inner.get(above, 1), _title(element)
        inner[element] = level + 1 if title else level
        found.append(_Section(element, level, title, read_attribute(element, "id")))
    return found


def _rename(body: Element, *, notes: bool = False) -> None:
    """Turn a body into HTML: headings by the depth of sections, notes as EPUB marks them."""
    depths = {body: 0}
    for element in list(body.iter()):
        name = local_name(element)
        if not name:
            continue
        above = element.getparent()
        depth = depths.get(above, 0) if above is not None else 0
        if len(element):
            depth += name == "section"
            depths[element] = depth
        _rename_one(element, name, max(depth, 1), notes=notes)
    if notes:
        body.set("role", "doc-endnotes")


def _rename_one(element: Element, name: str, depth: int, *, notes: bool) -> None:
    above = element.getparent()
    attributes = {"lang": read_attribute(element, "lang"), "class": _CLASSES.get(name, "")}
    tag = _TAGS.get(name, "span")
    if name == "section" and notes:
        attributes["id"] = read_attribute(element, "id")
        attributes["role"] = "doc-footnote" if attributes["id"] else ""
    elif name == "a":
        href = read_attribute(element, "href")
        is_note = read_attribute(element, "type") == "note"
        tag, attributes["href"] = "a", href if href.startswith("#") else ""
        attributes["role"] = "doc-noteref" if is_note and attributes["href"] else ""
    elif name == "image":
        tag = "img"
        attributes["alt"] = read_attribute(element, "alt") or read_attribute(element, "title")
    elif name == "table":
        attributes["role"] = "table"
    elif name == "code" and above is not None and above.tag in ("section", "div", "blockquote"):
        tag = "pre"
    elif name == "subtitle" or name == "p" and above is not None and above.get("class") == "title":
        is_line = is_rule("".join(map(str, element.itertext())))
        tag = "p" if is_line else f"h{min(depth + (name == 'subtitle'), 6)}"
    elif name == "title":
        attributes["class"] = "title"
    element.tag = tag
    element.attrib.clear()
    element.attrib.update({key: value for key, value in attributes.items() if value})


def _title(element: Element) -> str:
    """The lines of a section's title as one."""
    for child in element:
        if local_name(child) == "title":
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
        authors=tuple(
            _person(each) for each in info if local_name(each) == "author" and _person(each)
        ),
        language=_text(info, "lang"),
        series=read_attribute(sequence, "name") if sequence is not None else "",
        series_index=read_attribute(sequence, "number") if sequence is not None else "",
        year=found[0] if found else "",
        description=" ".join(" ".join(annotation.itertext()).split())
        if annotation is not None
        else "",
        publisher=_text(published, "publisher") if published is not None else "",
        identifier=_text(published, "isbn") if published is not None else "",
        subjects=tuple(each.text for each in info if local_name(each) == "genre" and each.text),
    )


def _find(element: Element, name: str) -> Element | None:
    return next((each for each in element.iter() if local_name(each) == name), None)


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
    name = read_attribute(image, "href").lstrip("#")
    for each in root:
        if local_name(each) == "binary" and read_attribute(each, "id") == name:
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
    return build_cover(data)
