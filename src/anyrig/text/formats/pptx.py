"""Slides (pptx): a page and a chapter for each slide, with its notes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, Chapter, Document
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.office import attribute, find_target, list_targets, part, read_metadata
from anyrig.text.formats.plain import empty
from anyrig.text.formats.xml import local
from anyrig.text.formats.zipped import Zipped, opened

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_TITLES = ("title", "ctrtitle")
_FURNITURE = ("sldnum", "ftr", "dt", "hdr", "sldimg")
"""Placeholders that are the same on every slide, and the picture of the slide on its notes."""


def read(path: Path, limits: Limits) -> Document:
    with opened(path, limits) as archive:
        main = find_target(archive, "", "officeDocument", limits) or "ppt/presentation.xml"
        root = part(archive, main, limits)
        if root is None:
            raise InvalidInputError(
                f"{path.name} has no slides", hint="Open it in PowerPoint and save it again."
            )
        targets = list_targets(archive, main, limits)
        chapters: list[Chapter] = []
        warnings: list[str] = []
        for number, identifier in enumerate(_list_slides(root), 1):
            name = targets.get(identifier, "")
            slide = part(archive, name, limits) if name else None
            if slide is None:
                warnings.append(f"slide {number} is missing")
            else:
                chapters.append(_read_slide(archive, name, slide, number, limits))
        metadata, cover = read_metadata(archive, limits)
    if not any(block.text for chapter in chapters for block in chapter.blocks):
        raise empty(path.name)
    return Document(metadata, tuple(chapters), cover, "pptx", tuple(warnings))


def _list_slides(root: Element) -> Iterator[str]:
    """The relations of slides, in the order in which they are shown."""
    for element in root.iter():
        if local(element) == "sldid":
            yield next((str(v) for k, v in element.attrib.items() if str(k).endswith("}id")), "")


def _read_slide(archive: Zipped, name: str, slide: Element, number: int, limits: Limits) -> Chapter:
    blocks = list(_read_shapes(slide, number))
    notes = part(archive, find_target(archive, name, "notesSlide", limits), limits)
    for block in _read_shapes(notes, number) if notes is not None else ():
        blocks.append(Block(block.text, "note", page=number))
    title = next((block.text for block in blocks if block.kind == "heading"), "")
    return Chapter(title, tuple(blocks) or (Block("", page=number),), source=name)


def _read_shapes(root: Element, number: int) -> Iterator[Block]:
    """The texts of shapes in the order of the file, tables and descriptions of pictures."""
    waiting = [root]
    while waiting:
        element = waiting.pop()
        name = local(element)
        if name == "sp":
            yield from _read_shape(element, number)
        elif name == "tbl":
            rows = [
                "\t".join(" ".join(_text(cell).split()) for cell in row if local(cell) == "tc")
                for row in element
                if local(row) == "tr"
            ]
            if any(map(str.strip, rows)):
                yield Block("\n".join(rows), "table", page=number)
        elif name == "pic":
            words = next((attribute(e, "descr") for e in element.iter() if local(e) == "cnvpr"), "")
            if any(map(str.isalnum, words)):
                yield Block(" ".join(words.split()), "image", page=number)
        elif name != "fallback":
            waiting.extend(reversed(element))


def _read_shape(shape: Element, number: int) -> Iterator[Block]:
    placeholder = next((attribute(e, "type") for e in shape.iter() if local(e) == "ph"), None)
    kind = (placeholder or "").lower()
    if kind in _FURNITURE:
        return
    is_list = placeholder is not None and kind not in (*_TITLES, "subtitle")
    paragraphs = [" ".join(_text(e).split()) for e in shape.iter() if local(e) == "p"]
    paragraphs = [text for text in paragraphs if text]
    if kind in _TITLES and paragraphs:
        yield Block(" ".join(paragraphs), "heading", 1, page=number)
        return
    for text in paragraphs:
        yield Block(text, "item" if is_list and len(paragraphs) > 1 else "paragraph", page=number)


def _text(element: Element) -> str:
    parts: list[str] = []
    for each in element.iter():
        name = local(each)
        if name == "t":
            parts.append(each.text or "")
        elif name in ("br", "tab", "p"):
            parts.append(" ")
    return "".join(parts)
