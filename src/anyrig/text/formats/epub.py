"""EPUB 2 and 3, as the archives that people own are written, not just as they should be.

A chapter goes from its entry in the table of contents to the next, over as many files as that
takes. What stands before the first entry, files that the reading order sets aside, and files said
to be something of their own (a cover, a list of contents) are chapters too: nothing is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, Chapter, Document, Metadata, Role
from anyrig.text.formats import drm
from anyrig.text.formats.epub_package import (
    ContentsEntry,
    EpubContents,
    EpubMetadata,
    EpubPackage,
    ManifestItem,
    find_cover,
    read_contents,
    read_package,
)
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.markup import build_flow
from anyrig.text.formats.markup_elements import CssStyle, parse_style_sheets
from anyrig.text.formats.markup_line import MarkupFlow
from anyrig.text.formats.markup_notes import resolve_notes
from anyrig.text.formats.titles import RANK, parse_label
from anyrig.text.formats.xml import decode_page, local_name, parse_page
from anyrig.text.formats.zipped import open_archive

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_STYLE_BYTES = 1_000_000
_ALL_STYLE_BYTES = 10_000_000  # of a book whose pages all have other sheets
_FEW_LETTERS = 20  # a page, in a book whose pages are pictures


def read(path: Path, limits: Limits) -> Document:
    """An EPUB; `ProtectedFileError` if its seller has locked it."""
    with open_archive(path, limits) as archive:
        drm.refuse(archive, limits)
        book = read_package(archive, limits)
        table = read_contents(book, limits)
        pages = _pages(book, table)
        flows = _flows(book, pages, limits)
        about = EpubMetadata(book.root)
        picture = find_cover(book, table, about.cover_name, limits)
    metadata, languages = _languages(about.build(), [one for _, one in flows])
    written = resolve_notes([one for _, one in flows])
    aside = {item.path for item in book.aside}
    files = [
        EpubFile(
            item.path, _in_language(blocks, language), one.places, one.types, item.path in aside
        )
        for (item, one), blocks, language in zip(flows, written, languages, strict=True)
    ]
    _refuse_pictures(path.name, files)
    made = cut_chapters(_number_blocks(files), table, book.warnings)
    return Document(metadata, made, picture, "epub", tuple(dict.fromkeys(book.warnings)))


def _pages(book: EpubPackage, table: EpubContents) -> list[ManifestItem]:
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


def _flows(
    book: EpubPackage, pages: Sequence[ManifestItem], limits: Limits
) -> list[tuple[ManifestItem, MarkupFlow]]:
    """The pages that can be read; those that cannot are warned of."""
    styles = _StyleSheets(book)
    flows: list[tuple[ManifestItem, MarkupFlow]] = []
    broken: list[str] = []
    error: InvalidInputError | None = None
    left, tags, room = limits.characters, limits.book_tags, limits.book_bytes
    for item in pages:
        try:
            data = book.archive.read(item.path, limits.text_bytes)
            tags -= data.count(b"<")
            room -= len(data)
            root = parse_page(data, name=item.path, limits=limits)
        except InvalidInputError as one:
            error = one
            broken.append(f"{item.path} ({one})")
            continue
        read = build_flow(root, resolve=_Resolve(book, item.path), style=styles.of(item, root))
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

    def __init__(self, book: EpubPackage, path: str) -> None:
        self._book, self._path = book, path
        self._known: dict[str, str] = {}

    def __call__(self, href: str) -> str:
        key = self._known.get(href)
        if key is None:
            place = self._book.resolve(self._path, href)
            key = self._known[href] = place.key if place and place.fragment else ""
        return key


class _StyleSheets:
    """What the style sheets of pages hide; pages with the same sheets share it."""

    def __init__(self, book: EpubPackage) -> None:
        self._book = book
        self._known: dict[tuple[str, ...], CssStyle] = {}
        self._room = _ALL_STYLE_BYTES

    def of(self, item: ManifestItem, root: Element) -> CssStyle:
        """What those of one page hide; nothing once a book has had too many."""
        paths, inside = self._list_sheets(item, root)
        key = (*paths, *inside)
        if key not in self._known:
            sheets = [*(_sheet(self._book, path) for path in paths), *inside] if self._room else []
            self._room = max(0, self._room - sum(map(len, sheets)))
            self._known[key] = parse_style_sheets(sheets if self._room else [])
        return self._known[key]

    def _list_sheets(self, item: ManifestItem, root: Element) -> tuple[list[str], list[str]]:
        """The sheets that a page links to, and those within it."""
        paths: list[str] = []
        inside: list[str] = []
        head = next((each for each in root if local_name(each) == "head"), None)
        for element in head.iter() if head is not None else ():
            name = local_name(element)
            if name == "style":
                inside.append("".join(element.itertext())[:_STYLE_BYTES])
            elif name == "link" and "stylesheet" in (element.get("rel") or "").lower():
                place = self._book.resolve(item.path, element.get("href") or "")
                if place and place.path in self._book.archive:
                    paths.append(place.path)
        return list(dict.fromkeys(paths[:20])), inside


def _sheet(book: EpubPackage, path: str) -> str:
    if book.archive.size(path) > _STYLE_BYTES:
        return ""
    try:
        return decode_page(book.archive.read(path))
    except InvalidInputError:
        return ""


def _languages(metadata: Metadata, flows: Sequence[MarkupFlow]) -> tuple[Metadata, list[str]]:
    """The language of the book, and of each file where that is another.

    A mark that all files share is their template's more often than their author's, so what the
    book says of itself goes before it.
    """
    marked = Counter(one.language for one in flows if one.language and one.blocks)
    if not marked:
        return metadata, [""] * len(flows)
    common = marked.most_common(1)[0][0]
    if len(marked) == 1:
        return replace(metadata, language=metadata.language or common), [""] * len(flows)
    main = metadata.language or common
    languages = ["" if _same(one.language, main) else one.language for one in flows]
    return replace(metadata, language=main), languages


def _same(one: str, other: str) -> bool:
    return one.partition("-")[0].lower() == other.partition("-")[0].lower()


def _in_language(blocks: list[Block], language: str) -> list[Block]:
    if not language:
        return blocks
    return [block if block.language else replace(block, language=language) for block in blocks]


def _number_blocks(files: list[EpubFile]) -> list[EpubFile]:
    """Blocks with the page that they begin on, where the book has the pages of a printed one."""
    if not any(block.kind == "page" or block.inlines for file in files for block in file.blocks):
        return files
    number = 0
    made: list[EpubFile] = []
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


def _refuse_pictures(name: str, files: Sequence[EpubFile]) -> None:
    """Refuse a book whose pages are pictures, even if a few of them have a word on them."""
    letters = [
        sum(len(block.text) for block in file.blocks if block.kind not in _UNSPOKEN)
        for file in files
    ]
    silent = sum(count == 0 for count in letters)
    mostly = silent > 3 and silent >= 0.8 * len(letters) and sum(letters) < _FEW_LETTERS * silent
    if sum(letters) == 0 or mostly:
        raise InvalidInputError(
            f"there is no text in {name}: its pages are empty or pictures",
            hint="Read the pictures with OCR first, or get an edition with text.",
        )


# -- chapters --------------------------------------------------------------------------------------

ROLES: dict[str, Role] = {
    "cover": "cover", "doc-cover": "cover",
    "titlepage": "title", "title-page": "title", "halftitlepage": "title", "halftitle": "title",
    "toc": "contents", "doc-toc": "contents", "contents": "contents", "loi": "contents",
    "lot": "contents", "landmarks": "contents",
    # A dedication, an epigraph, a foreword and a preface are the author's words: body.
    "copyright-page": "front", "copyright": "front", "imprint": "front", "imprimatur": "front",
    "acknowledgments": "front", "acknowledgements": "front", "doc-acknowledgments": "front",
    "footnotes": "notes", "endnotes": "notes", "rearnotes": "notes", "doc-endnotes": "notes",
    "notes": "notes",
    "index": "back", "doc-index": "back", "bibliography": "back", "doc-bibliography": "back",
    "glossary": "back", "doc-glossary": "back", "colophon": "back", "doc-colophon": "back",
}  # fmt: skip
"""What EPUB calls a part -> what it is here."""
_ABOVE_HEADING = 300  # characters
_UNSPOKEN = ("page", "image", "rule")


@dataclass(frozen=True)
class EpubFile:
    """A file of the book, read."""

    path: str
    blocks: list[Block]
    places: dict[str, tuple[int, int]]
    types: tuple[str, ...] = ()
    aside: bool = False
    """Outside of the reading order."""


class _EpubStart(NamedTuple):
    """Where a chapter begins."""

    at: int
    title: str
    level: int
    source: str


def cut_chapters(
    files: Sequence[EpubFile], contents: EpubContents, warnings: list[str]
) -> tuple[Chapter, ...]:
    """All blocks of all files, in chapters.

    Args:
        files: in reading order, those set aside at the end.
        contents: the table of contents, and what files are said to be.
        warnings: where entries that lead nowhere are named.
    """
    blocks = [block for file in files for block in file.blocks]
    offsets = _offsets(files)
    listed = _list_starts(files, offsets, contents.entries, blocks, warnings)
    if len({start.at for start in listed}) < 2 and len(files) > 1 or not listed:
        listed = _merge_starts([*listed, *_by_headings(files, offsets, blocks)])
    starts = _with_files(files, offsets, listed, blocks, contents)
    ends = [start.at for start in starts[1:]] + [len(blocks)]
    made = [
        _chapter(start, blocks[start.at : end]) for start, end in zip(starts, ends, strict=True)
    ]
    roles = _roles(files, offsets, contents)
    return tuple(
        replace(chapter, role=roles.get(start.at) or _role(chapter, first=start.at == 0))
        for start, chapter in zip(starts, made, strict=True)
        if chapter.blocks
    )


def _offsets(files: Sequence[EpubFile]) -> list[int]:
    offsets = [0]
    for file in files:
        offsets.append(offsets[-1] + len(file.blocks))
    return offsets


def _chapter(start: _EpubStart, blocks: list[Block]) -> Chapter:
    title = start.title or next((each.text for each in blocks if each.kind == "heading"), "")
    return Chapter(title, tuple(blocks), start.level, source=start.source)


def _role(chapter: Chapter, first: bool) -> Role:
    """What a chapter is seen to be: all notes, or a picture in front of all."""
    kinds = {block.kind for block in chapter.blocks}
    if first and kinds == {"image"}:
        return "cover"
    return "notes" if kinds - {*_UNSPOKEN, "heading"} == {"note"} else "body"


def _list_starts(
    files: Sequence[EpubFile], offsets: list[int], entries: Sequence[ContentsEntry],
    blocks: list[Block], warnings: list[str],
) -> list[_EpubStart]:  # fmt: skip
    """Where the entries of the table of contents lead."""
    numbers = {file.path: number for number, file in reversed(list(enumerate(files)))}
    starts: list[_EpubStart] = []
    nowhere: list[str] = []
    for index, entry in enumerate(entries):
        number = numbers.get(entry.place.path) if entry.place else None
        if entry.place is None or number is None:
            nowhere.append(entry.title or "(no title)")
            continue
        is_part = any(below.level > entry.level for below in entries[index + 1 : index + 2])
        if not files[number].blocks and not is_part:
            continue  # a picture without words: its title must not go to what follows
        at, end = offsets[number], offsets[number + 1]
        place = files[number].places.get(entry.place.key)
        if place:
            # Headings that stand right above belong to what they name.
            at = _add_heading(min(at + place[0], end), at, entry.title, blocks)
        elif entry.place.fragment:
            nowhere.append(f"{entry.title} ({entry.place.key})")
        source = entry.place.key if place else entry.place.path
        starts.append(_EpubStart(at, entry.title, entry.level, source))
    if nowhere:
        listed = ", ".join(nowhere[:5]) + (" ..." if len(nowhere) > 5 else "")
        warnings.append(f"{len(nowhere)} entries of the contents lead nowhere: {listed}")
    return _merge_starts(starts)


def _add_heading(at: int, lowest: int, title: str, blocks: list[Block]) -> int:
    wanted = _letters(title)
    for above in range(at - 1, max(lowest, at - 3) - 1, -1):
        if blocks[above].kind in _UNSPOKEN:
            continue
        if blocks[above].kind == "heading" and wanted and _letters(blocks[above].text) == wanted:
            return above
        break
    return at


def _letters(text: str) -> str:
    return re.sub(r"\W", "", text).casefold()


def _merge_starts(starts: Sequence[_EpubStart]) -> list[_EpubStart]:
    """In order of place; a part and its first chapter at one place are one, with both titles."""
    merged: list[_EpubStart] = []
    for start in sorted(starts, key=lambda each: each.at):
        last = merged[-1] if merged else None
        if last is None or start.at > last.at:
            merged.append(start)
        elif start.title and start.level > last.level and start.title != last.title:
            title = f"{last.title}: {start.title}" if last.title else start.title
            merged[-1] = last._replace(title=title)
    return merged


def _by_headings(
    files: Sequence[EpubFile], offsets: list[int], blocks: list[Block]
) -> list[_EpubStart]:
    """Starts at the headings that cut the book into chapters."""
    counts = Counter(block.level for block in blocks if block.kind == "heading")
    if not counts:
        return [_EpubStart(at, "", 1, file.path) for at, file in zip(offsets, files, strict=False)]
    deepest = next((level for level in sorted(counts) if counts[level] > 1), min(counts))
    named = [one.level for one in blocks if one.kind == "heading" and _is_division(one.text)]
    deepest = max([deepest, *named])  # chapters under parts, whatever the parts are called
    ranks = {level: rank for rank, level in enumerate(sorted(counts), start=1)}
    starts: list[_EpubStart] = []
    number = 0
    for at, block in enumerate(blocks):
        while at >= offsets[number + 1]:
            number += 1
        if block.kind == "heading" and block.level <= deepest:
            first = at if starts and starts[-1].at >= offsets[number] else offsets[number]
            # A line above the first heading of a file goes with it; more is another's end.
            alone = sum(len(each.text) for each in blocks[first:at]) <= _ABOVE_HEADING
            begin = first if alone else at
            starts.append(_EpubStart(begin, block.text, ranks[block.level], files[number].path))
    return starts


def _is_division(text: str) -> bool:
    """Whether a heading calls itself a volume, a part or a chapter."""
    label = parse_label(text)
    return label is not None and RANK.get(label.sort, 9) <= RANK["chapter"]


def _with_files(
    files: Sequence[EpubFile], offsets: list[int], listed: Sequence[_EpubStart],
    blocks: list[Block], contents: EpubContents,
) -> list[_EpubStart]:  # fmt: skip
    """Starts of the files that are chapters though no entry leads to them."""
    starts = list(listed)
    known = {start.at for start in listed}
    first = min(known, default=0)
    current = 0  # the level of the heading that the chapter so far began with
    apart = True
    levels = {start.at: _heading_level(blocks, start.at) for start in listed}
    places = sorted(levels)
    position = 0
    for number, file in enumerate(files):
        at, end = offsets[number], offsets[number + 1]
        special = _is_special(file, contents)
        if file.blocks and at not in known:
            level = _heading_level(blocks, at)
            above = bool(level and current and level <= current)
            if at < first or special or apart or file.aside or above:
                starts.append(_EpubStart(at, "", 1, file.path))
                current = level
        while position < len(places) and places[position] < end:
            current = levels[places[position]]
            position += 1
        apart = special or file.aside
    return sorted(starts)


def _heading_level(blocks: list[Block], at: int) -> int:
    """The level of the heading that a chapter begins with, or 0."""
    for block in blocks[at : at + 5]:
        if block.kind == "heading":
            return block.level
        if block.kind not in _UNSPOKEN:
            break
    return 0


def _is_special(file: EpubFile, contents: EpubContents) -> bool:
    role = contents.roles.get(file.path, "")
    return (
        file.path == contents.navigation
        or role in ROLES
        or any(each in ROLES for each in file.types)
    )


def _roles(
    files: Sequence[EpubFile], offsets: list[int], contents: EpubContents
) -> dict[int, Role]:
    """What the chapters that begin at the head of a file are said to be."""
    roles: dict[int, Role] = {}
    for file, at in zip(files, offsets, strict=False):
        types = [*file.types, contents.roles.get(file.path, "")]
        if file.path == contents.navigation:
            types.insert(0, "toc")
        role = next((ROLES[each] for each in types if each in ROLES), None)
        if role and file.blocks:
            roles[at] = role
    return roles
