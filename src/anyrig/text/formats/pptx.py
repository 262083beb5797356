"""Slides (pptx): a page and a chapter for each slide, with its notes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, Chapter, Document
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.office import (
    find_target,
    list_targets,
    read_attribute,
    read_metadata,
    read_part,
)
from anyrig.text.formats.plain import build_empty_error
from anyrig.text.formats.xml import local_name
from anyrig.text.formats.zipped import ZipArchive, open_archive

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_TITLES = ("title", "ctrtitle")
_FURNITURE = ("sldnum", "ftr", "dt", "hdr", "sldimg")
"""Placeholders that are the same on every slide, and the picture of the slide on its notes."""


def read(path: Path, limits: Limits) -> Document:
    with open_archive(path, limits) as archive:
        main = find_target(archive, "", "officeDocument", limits) or "ppt/presentation.xml"
        root = read_part(archive, main, limits)
        if root is None:
            raise InvalidInputError(
                f"{path.name} has no slides", hint="Open it in PowerPoint and save it again."
            )
        targets = list_targets(archive, main, limits)
        chapters: list[Chapter] = []
        warnings: list[str] = []
        for number, identifier in enumerate(_list_slides(root), 1):
            name = targets.get(identifier, "")
            slide = read_part(archive, name, limits) if name else None
            if slide is None:
                warnings.append(f"slide {number} is missing")
            else:
                chapters.append(_read_slide(archive, name, slide, number, limits))
        metadata, cover = read_metadata(archive, limits)
    if not any(block.text for chapter in chapters for block in chapter.blocks):
        raise build_empty_error(path.name)
    return Document(metadata, tuple(chapters), cover, "pptx", tuple(warnings))


def _list_slides(root: Element) -> Iterator[str]:
    """The relations of slides, in the order in which they are shown."""
    for element in root.iter():
        if local_name(element) == "sldid":
            yield next((str(v) for k, v in element.attrib.items() if str(k).endswith("}id")), "")


def _read_slide(
    archive: ZipArchive, name: str, slide: Element, number: int, limits: Limits
) -> Chapter:
    blocks = list(_read_shapes(slide, number))
    notes = read_part(archive, find_target(archive, name, "notesSlide", limits), limits)
    for block in _read_shapes(notes, number) if notes is not None else ():
        blocks.append(Block(block.text, "note", page=number))
    title = next((block.text for block in blocks if block.kind == "heading"), "")
    return Chapter(title, tuple(blocks) or (Block("", page=number),), source=name)


def _read_shapes(root: Element, number: int) -> Iterator[Block]:
    """The texts of shapes in the order of the file, tables and descriptions of pictures."""
    waiting = [root]
    while waiting:
        element = waiting.pop()
        name = local_name(element)
        if name == "sp":
            yield from _read_shape(element, number)
        elif name == "tbl":
            rows = [
                "\t".join(" ".join(_text(cell).split()) for cell in row if local_name(cell) == "tc")
                for row in element
                if local_name(row) == "tr"
            ]
            if any(map(str.strip, rows)):
                yield Block("\n".join(rows), "table", page=number)
        elif name == "pic":
            words = next(
                (read_attribute(e, "descr") for e in element.iter() if local_name(e) == "cnvpr"), ""
            )
            if any(map(str.isalnum, words)):
                yield Block(" ".join(words.split()), "image", page=number)
        elif name != "fallback":
            waiting.extend(reversed(element))


def _read_shape(shape: Element, number: int) -> Iterator[Block]:
    placeholder = next(
        (read_attribute(e, "type") for e in shape.iter() if local_name(e) == "ph"), None
    )
    kind = (placeholder or "").lower()
    if kind in _FURNITURE:
        return
    is_list = placeholder is not None and kind not in (*_TITLES, "subtitle")
    paragraphs = [" ".join(_text(e).split()) for e in shape.iter() if local_name(e) == "p"]
    paragraphs = [text for text in paragraphs if text]
    if kind in _TITLES and paragraphs:
        yield Block(" ".join(paragraphs), "heading", 1, page=number)
        return
    for text in paragraphs:
        yield Block(text, "item" if is_list and len(paragraphs) > 1 else "paragraph", page=number)


def _text(element: Element) -> str:
    parts: list[str] = []
    for each in element.iter():
        name = local_name(each)
        if name == "t":
            parts.append(each.text or "")
        elif name in ("br", "tab", "p"):
            parts.append(" ")
    return "".join(parts)
