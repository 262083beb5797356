"""Slides of LibreOffice (odp): a page and a chapter for each slide, with its notes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, Chapter, Document
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.odt import build_metadata, refuse_locked
from anyrig.text.formats.office import read_attribute, read_part
from anyrig.text.formats.picture import read_cover
from anyrig.text.formats.plain import build_empty_error
from anyrig.text.formats.xml import local_name
from anyrig.text.formats.zipped import open_archive

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_FURNITURE = ("page-number", "footer", "header", "date-time", "page")
_UNREAD = ("annotation", "event-listeners", "forms", "page-thumbnail")
_SPACES = ("s", "tab", "line-break")


def read(path: Path, limits: Limits) -> Document:
    with open_archive(path, limits) as archive:
        refuse_locked(archive, limits)
        root = read_part(archive, "content.xml", limits)
        if root is None:
            raise InvalidInputError(
                f"{path.name} has no slides", hint="Open it in LibreOffice and save it again."
            )
        metadata = build_metadata(read_part(archive, "meta.xml", limits), "")
        cover = read_cover(archive, "Thumbnails/thumbnail.png")
    slides = [
        each
        for body in root.iter()
        if local_name(body) == "presentation"
        for each in body
        if local_name(each) == "page"
    ]
    chapters = tuple(_read_slide(slide, number) for number, slide in enumerate(slides, 1))
    if not any(block.text for chapter in chapters for block in chapter.blocks):
        raise build_empty_error(path.name)
    return Document(metadata, chapters, cover, "odp")


def _read_slide(slide: Element, number: int) -> Chapter:
    blocks = [replace(block, page=number) for block in _read_shapes(slide)]
    for notes in slide:
        if local_name(notes) == "notes":
            blocks += [Block(one.text, "note", page=number) for one in _read_shapes(notes)]
    title = next((block.text for block in blocks if block.kind == "heading"), "")
    return Chapter(title, tuple(blocks) or (Block("", page=number),))


def _read_shapes(root: Element) -> Iterator[Block]:
    """The texts of shapes in the order of the file, tables and descriptions of pictures."""
    waiting = list(reversed(root))
    while waiting:
        element = waiting.pop()
        name, kind = local_name(element), read_attribute(element, "class")
        if name in _UNREAD or name == "notes" or kind in _FURNITURE:
            continue
        if name == "frame" and kind == "title":
            if text := " ".join(filter(None, map(_join_text, _list_paragraphs(element)))):
                yield Block(text, "heading", 1)
        elif name == "table":
            yield from _read_table(element)
        elif name in ("p", "h"):
            if text := _join_text(element):
                in_list = any(local_name(above) == "list-item" for above in element.iterancestors())
                yield Block(text, "item" if in_list else "paragraph")
        elif name == "desc":
            if text := " ".join((element.text or "").split()):
                yield Block(text, "image")
        else:
            waiting.extend(reversed(element))


def _read_table(table: Element) -> Iterator[Block]:
    rows = [
        "\t".join(_join_text(cell) for cell in row if local_name(cell) == "table-cell")
        for row in table.iter()
        if local_name(row) == "table-row"
    ]
    if any(map(str.strip, rows)):
        yield Block("\n".join(rows), "table")


def _list_paragraphs(element: Element) -> Iterator[Element]:
    return (each for each in element.iter() if local_name(each) in ("p", "h"))


def _join_text(element: Element) -> str:
    parts: list[str] = []
    for each in element.iter():
        if each is not element and local_name(each) in (*_SPACES, "p"):
            parts.append(" ")
        parts.append(each.text or "")
        if each is not element:
            parts.append(each.tail or "")
    return " ".join("".join(parts).split())
