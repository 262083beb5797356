"""EPUB 2 and 3, as the archives that people own are written, not just as they should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, Document, Metadata
from anyrig.text.formats import drm
from anyrig.text.formats.epub_chapters import File, chapters
from anyrig.text.formats.epub_contents import Contents, contents
from anyrig.text.formats.epub_cover import cover
from anyrig.text.formats.epub_metadata import read_metadata
from anyrig.text.formats.epub_package import Item, Package, package
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.markup import Flow, flow
from anyrig.text.formats.markup_elements import Style, style_of
from anyrig.text.formats.markup_notes import settled
from anyrig.text.formats.xml import decoded, local, page
from anyrig.text.formats.zipped import opened

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_SILENT = ("image", "page", "rule")
_STYLE_BYTES = 1_000_000
_ALL_STYLE_BYTES = 10_000_000  # of a book whose pages all have other sheets
_FEW_LETTERS = 20  # a page, in a book whose pages are pictures


def read(path: Path, limits: Limits) -> Document:
    """An EPUB; `ProtectedFileError` if its seller has locked it."""
    with opened(path, limits) as archive:
        drm.refuse(archive, limits)
        book = package(archive, limits)
        table = contents(book, limits)
        pages = _pages(book, table)
        flows = _flows(book, pages, limits)
        picture = cover(book, table, limits)
    said = read_metadata(book.root)
    said, languages = _languages(said, [one for _, one in flows])
    written = settled([one for _, one in flows])
    aside = {item.path for item in book.aside}
    files = [
        File(item.path, _in_language(blocks, language), one.places, one.types, item.path in aside)
        for (item, one), blocks, language in zip(flows, written, languages, strict=True)
    ]
    _refuse_pictures(path.name, files)
    made = chapters(_numbered(files), table, book.warnings)
    return Document(said, made, picture, "epub", tuple(dict.fromkeys(book.warnings)))


def _pages(book: Package, table: Contents) -> list[Item]:
    """What is read, in order: the spine, what it sets aside, what only the contents name."""
    pages = [*book.pages, *book.aside]
    known = {item.path for item in pages}
    by_path = {item.path: item for item in book.items.values() if item.is_page}
    for entry in table.entries:
        item = by_path.get(entry.place.path) if entry.place else None
        if item and item.path and item.path not in known:
            known.add(item.path)
            pages.append(item)
            book.aside.append(item)
    if not pages:
        raise InvalidInputError(
            f"{book.archive.name} has no pages in it",
            hint="Get another copy of the file: this one is incomplete.",
        )
    return pages


def _flows(book: Package, pages: Sequence[Item], limits: Limits) -> list[tuple[Item, Flow]]:
    """The pages that can be read; those that cannot are warned of."""
    styles = _Styles(book)
    flows: list[tuple[Item, Flow]] = []
    broken: list[str] = []
    error: InvalidInputError | None = None
    left, tags, room = limits.characters, limits.book_tags, limits.book_bytes
    for item in pages:
        try:
            data = book.archive.read(item.path, limits.text_bytes)
            tags -= data.count(b"<")
            room -= len(data)
            root = page(data, name=item.path, limits=limits)
        except InvalidInputError as one:
            error = one
            broken.append(f"{item.path} ({one})")
            continue
        read = flow(root, resolve=_Resolve(book, item.path), style=styles.of(item, root))
        flows.append((item, read))
        left -= sum(len(block.text) for block in read.blocks)
        if left < 0 or tags < 0 or room < 0:
            raise InvalidInputError(
                f"{book.archive.name} contains more than {limits.characters:,} characters of text, "
                f"{limits.book_tags:,} tags or {limits.book_bytes // 1_000_000} MB of pages",
                hint="No book is that long; get another copy of the file, or split it.",
            )
    if error and not flows:
        raise error
    if broken:
        listed = "; ".join(broken[:5]) + (" ..." if len(broken) > 5 else "")
        book.warnings.append(f"{len(broken)} files cannot be read: {listed}")
    return flows


class _Resolve:
    """References in one file as keys of what they name; the same are asked for often."""

    def __init__(self, book: Package, path: str) -> None:
        self._book, self._path = book, path
        self._known: dict[str, str] = {}

    def __call__(self, href: str) -> str:
        key = self._known.get(href)
        if key is None:
            place = self._book.resolve(self._path, href)
            key = self._known[href] = place.key if place and place.fragment else ""
        return key


class _Styles:
    """What the style sheets of pages hide; pages with the same sheets share it."""

    def __init__(self, book: Package) -> None:
        self._book = book
        self._known: dict[tuple[str, ...], Style] = {}
        self._room = _ALL_STYLE_BYTES

    def of(self, item: Item, root: Element) -> Style:
        """What those of one page hide; nothing once a book has had too many."""
        paths, inside = self._named(item, root)
        key = (*paths, *inside)
        if key not in self._known:
            sheets = [*(_sheet(self._book, path) for path in paths), *inside] if self._room else []
            self._room = max(0, self._room - sum(map(len, sheets)))
            self._known[key] = style_of(sheets if self._room else [])
        return self._known[key]

    def _named(self, item: Item, root: Element) -> tuple[list[str], list[str]]:
        """The sheets that a page links to, and those within it."""
        paths: list[str] = []
        inside: list[str] = []
        head = next((each for each in root if local(each) == "head"), None)
        for element in head.iter() if head is not None else ():
            name = local(element)
            if name == "style":
                inside.append("".join(element.itertext())[:_STYLE_BYTES])
            elif name == "link" and "stylesheet" in (element.get("rel") or "").lower():
                place = self._book.resolve(item.path, element.get("href") or "")
                if place and place.path in self._book.archive:
                    paths.append(place.path)
        return list(dict.fromkeys(paths[:20])), inside


def _sheet(book: Package, path: str) -> str:
    if book.archive.size(path) > _STYLE_BYTES:
        return ""
    try:
        return decoded(book.archive.read(path))
    except InvalidInputError:
        return ""


def _languages(said: Metadata, flows: Sequence[Flow]) -> tuple[Metadata, list[str]]:
    """The language of the book, and of each file where that is another.

    A mark that all files share is their template's more often than their author's, so what the
    book says of itself goes before it.
    """
    marked = Counter(one.language for one in flows if one.language and one.blocks)
    if not marked:
        return said, [""] * len(flows)
    common = marked.most_common(1)[0][0]
    if len(marked) == 1:
        return replace(said, language=said.language or common), [""] * len(flows)
    main = said.language or common
    languages = ["" if _same(one.language, main) else one.language for one in flows]
    return replace(said, language=main), languages


def _same(one: str, other: str) -> bool:
    return one.partition("-")[0].lower() == other.partition("-")[0].lower()


def _in_language(blocks: list[Block], language: str) -> list[Block]:
    if not language:
        return blocks
    return [block if block.language else replace(block, language=language) for block in blocks]


def _numbered(files: list[File]) -> list[File]:
    """Blocks with the page that they begin on, where the book has the pages of a printed one."""
    if not any(block.kind == "page" or block.inlines for file in files for block in file.blocks):
        return files
    number = 0
    made: list[File] = []
    for file in files:
        blocks: list[Block] = []
        for block in file.blocks:
            if block.kind == "page":
                number = _page_number(block.text)
            blocks.append(replace(block, page=number) if number else block)
            for inline in block.inlines:
                if inline.kind == "page":
                    number = _page_number(inline.value)
        made.append(replace(file, blocks=blocks))
    return made


def _page_number(label: str) -> int:
    return int(label) if label.isdecimal() and len(label) < 6 else 0


def _refuse_pictures(name: str, files: Sequence[File]) -> None:
    """Refuse a book whose pages are pictures, even if a few of them have a word on them."""
    letters = [
        sum(len(block.text) for block in file.blocks if block.kind not in _SILENT) for file in files
    ]
    silent = sum(count == 0 for count in letters)
    mostly = silent > 3 and silent >= 0.8 * len(letters) and sum(letters) < _FEW_LETTERS * silent
    if sum(letters) == 0 or mostly:
        raise InvalidInputError(
            f"there is no text in {name}: its pages are empty or pictures",
            hint="Read the pictures with OCR first, or get an edition with text.",
        )
