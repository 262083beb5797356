"""Several files as one document: files in order, or the pages that a manual's index leads to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.text import files
from anyrig.text.document import Block, Chapter, Document
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.plain import read_content
from anyrig.text.formats.xml import local_name, parse_page
from anyrig.text.sandbox import ReaderPool, ReadError

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_LIMITS = Limits()
_MAX_PAGES = 2_000
_FEWEST_PAGES = 3
_INDEX_SHARE = 0.5
"""Of the letters of an index page, those in links."""
_AROUND = ("contents", "front", "back")
_SUFFIXES = (".html", ".htm", ".xhtml", ".xht")
_NO_CHAPTERS = ("genindex", "py-modindex", "search", "searchindex", "sitemap")


def read_files(
    paths: Sequence[Path], limits: Limits = _LIMITS, *, follow_links: bool = False
) -> Document:
    """One document of several files, in the order given; of one page also those it leads to.

    Its metadata are those of the first. What surrounds the text of web pages (navigation, headers,
    footers) is taken from the first alone, as all pages have the same.
    """
    with ReaderPool(limits=limits) as pool:
        if follow_links and len(paths) == 1:
            paths = pool.list_linked_pages(paths[0])
        found = pool.read(paths, form="book")
        first = next(found)
        if isinstance(first, ReadError):
            raise first.error
        return _join(first, found, limits)


def _join(first: Document, others: Iterator[Document | ReadError], limits: Limits) -> Document:
    chapters = list(first.chapters)
    warnings = list(first.warnings)
    titles = {_text(chapter) for chapter in chapters if chapter.role == "title"}
    num_characters = sum(chapter.num_characters for chapter in chapters)
    for document in others:
        name = document.path.name
        if isinstance(document, ReadError):
            warnings.append(f"{name} was left out: {document.error.message}")
            continue
        num_characters += sum(chapter.num_characters for chapter in document.chapters)
        if num_characters > limits.characters:
            raise LimitExceededError(
                f"the files have more than {limits.characters:,} characters of text",
                hint="Make several books of them.",
                limit="characters",
            )
        warnings += [f"{name}: {warning}" for warning in document.warnings]
        for chapter in document.chapters:
            if document.format == "html" and chapter.role in _AROUND:
                continue
            if chapter.role == "title":  # of a page: "Chapter 2", or the name of the manual again
                if _text(chapter) in titles:
                    continue
                titles.add(_text(chapter))
                chapter = replace(chapter, role="body")
            chapters.append(_rename_notes(chapter, name))
    return replace(first, chapters=tuple(chapters), warnings=tuple(warnings))


def _text(chapter: Chapter) -> str:
    return " ".join(block.text for block in chapter.blocks)


def list_linked_pages(path: Path, limits: Limits) -> list[Path]:
    """The pages of a manual whose index a file is, itself first; the file alone if it is none.

    It parses in this process, as `files.read` does: `ReaderPool.list_linked_pages` is for others.
    Pages that name the next one (`<link rel="next">`) are followed; else the links of the page
    count, where they are most of it. Only pages in its folder and below are taken.
    """
    with files.guard_reading(path, limits):
        if files.detect_format(path, limits=limits) != "html":
            return [path]
        return _list_pages(path, limits)


def _list_pages(path: Path, limits: Limits) -> list[Path]:
    root = _parse(path, limits)
    folder = path.parent.resolve()
    linked = list(dict.fromkeys(_resolve_links(root, path, folder)))
    if len(linked) < _FEWEST_PAGES:
        return [path]
    starts_manual = not _find_relation(root, "prev") and bool(_find_relation(root, "next"))
    if not starts_manual and _measure_links(root) < _INDEX_SHARE:
        return [path]
    chain = _follow_next(path, root, folder, limits)
    return chain if len(chain) > _FEWEST_PAGES else [path, *linked[:_MAX_PAGES]]


def _parse(path: Path, limits: Limits) -> Element:
    return parse_page(read_content(path, limits), name=path.name, limits=limits)


def _follow_next(path: Path, root: Element, folder: Path, limits: Limits) -> list[Path]:
    found = {path.resolve(): path}
    here = path
    while len(found) < _MAX_PAGES:
        target = _resolve(_find_relation(root, "next"), here, folder)
        if target is None or target in found:
            break
        here = found[target] = target
        try:
            root = _parse(target, limits)
        except InvalidInputError:
            break  # its reader says what is wrong with it
    return [one for one in found.values() if one is path or one.stem not in _NO_CHAPTERS]


def _find_relation(root: Element, name: str) -> str:
    for element in root.iter():
        if (
            local_name(element) in ("link", "a")
            and name in (element.get("rel") or "").lower().split()
        ):
            return element.get("href") or ""
    return ""


def _resolve_links(root: Element, path: Path, folder: Path) -> Iterator[Path]:
    own = path.resolve()
    for element in root.iter():
        if local_name(element) == "a":
            target = _resolve(element.get("href") or "", path, folder)
            if target is not None and target != own and target.stem not in _NO_CHAPTERS:
                yield target


def _resolve(href: str, path: Path, folder: Path) -> Path | None:
    """A page in the folder or below it; None for all else, also where a link leads out."""
    parts = urlsplit(href.strip()) if len(href) < 2_000 else None
    if parts is None or parts.scheme or parts.netloc or not parts.path or "\0" in parts.path:
        return None
    name = unquote(parts.path)
    if not name.lower().endswith(_SUFFIXES) or os.path.isabs(name):
        return None
    target = (path.parent / name).resolve()
    return target if target.is_relative_to(folder) and target.is_file() else None


def _measure_links(root: Element) -> float:
    """How much of the letters of a page are in links."""
    body = next((each for each in root if local_name(each) == "body"), root)
    letters = sum(len("".join(text.split())) for text in map(str, body.itertext()))
    linked = sum(
        len("".join("".join(map(str, each.itertext())).split()))
        for each in body.iter()
        if local_name(each) == "a" and each.get("href")
    )
    return linked / letters if letters else 0.0


def _rename_notes(chapter: Chapter, name: str) -> Chapter:
    """Ids of notes are of one file: `fn1` of two pages are two notes."""

    def rename(block: Block) -> Block:
        inlines = tuple(
            replace(one, value=f"{name}#{one.value}") if one.kind == "noteref" else one
            for one in block.inlines
        )
        return replace(block, id=f"{name}#{block.id}" if block.id else "", inlines=inlines)

    blocks = tuple(
        rename(block) if block.id or block.inlines else block for block in chapter.blocks
    )
    return replace(chapter, blocks=blocks, source=chapter.source or name)
