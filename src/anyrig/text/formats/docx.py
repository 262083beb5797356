"""Word's docx: paragraphs by their styles, with notes, tables, lists, text boxes and metadata.

Footnotes stand after the paragraph that refers to them, endnotes in a chapter at the end. Headers,
footers and comments are no part of the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, BlockKind, Chapter, Document, Role
from anyrig.text.formats import outline
from anyrig.text.formats.docx_runs import Paragraph
from anyrig.text.formats.docx_styles import Styles, is_numbered, outline_of
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.office import attribute, find_target, part, read_metadata
from anyrig.text.formats.paragraphs import is_rule
from anyrig.text.formats.runs import Run, Woven, table, woven
from anyrig.text.formats.xml import local
from anyrig.text.formats.zipped import opened

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_BLOCK_WRAPS = frozenset(
    "sdt sdtcontent customxml ins moveto alternatecontent choice body document".split()
)


def read(path: Path, limits: Limits) -> Document:
    """A docx as a document."""
    with opened(path, limits) as archive:
        main = find_target(archive, "", "officeDocument", limits) or "word/document.xml"
        root = part(archive, main, limits)
        if root is None:
            raise InvalidInputError(
                f"{path.name} has no text part", hint="Open it in Word and save it again as docx."
            )
        about, cover = read_metadata(archive, limits)
        styles = Styles(part(archive, find_target(archive, main, "styles", limits), limits))
        reader = _Reader(styles)
        for kind in ("footnote", "endnote"):
            notes = part(archive, find_target(archive, main, f"{kind}s", limits), limits)
            reader.keep_notes(kind, notes)
    chapters = reader.chapters(root)
    title = about.title or reader.title
    language = about.language or styles.language
    about = replace(about, title=title, language=language)
    return Document(about, tuple(chapters), cover, "docx", tuple(reader.warnings))


class _Reader:
    """One file on its way to blocks."""

    def __init__(self, styles: Styles) -> None:
        self._styles = styles
        self._notes: dict[str, Element] = {}
        self._numbers: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._fields: list[str] = []
        self._blocks: list[Block] = []
        self._roles: dict[int, Role] = {}
        self._listing = False
        self._depth = 0
        self.title = ""
        self.warnings: list[str] = []

    def keep_notes(self, kind: str, root: Element | None) -> None:
        """Remember the notes of a part until they are referred to."""
        for element in root if root is not None else ():
            if local(element) == kind and attribute(element, "type") in ("", "normal"):
                self._notes[f"{kind}-{attribute(element, 'id')}"] = element

    def chapters(self, root: Element) -> list[Chapter]:
        """All that the main part holds."""
        bodies = [element for element in root if local(element) == "body"] or [root]
        for body in bodies:
            self._take(body)
        last = [note for note in self._numbers if note.startswith("endnote-")]
        start = len(self._blocks)
        for note in last:
            self._add_note(note)
        self._roles.update(dict.fromkeys(range(start, len(self._blocks)), "notes"))
        return outline.chapters(self._blocks, self._roles)

    def _take(self, element: Element) -> None:
        for child in element:
            name = local(child)
            if name == "p":
                self._paragraph(child)
            elif name == "tbl":
                self._table(child)
            elif name == "altchunk":
                self.warnings.append("a part in another format, embedded in the file, is left out")
            elif name in _BLOCK_WRAPS:
                before, self._listing = self._listing, self._listing or _is_listing(child)
                self._take(_version(child, name))
                self._listing = before

    def _paragraph(self, element: Element) -> None:
        if not len(element):
            return  # people make room with thousands of them
        style, level, numbered = self._properties(element)
        walked = self._walked(element)
        lines = self._styles.is_verse(style) or self._styles.is_code(style)
        block = _block(
            woven(self._numbered(walked.runs), lines=lines), *self._kind(style, level, numbered)
        )
        listed = self._listing or walked.in_contents or self._styles.is_contents(style)
        if block.text:
            self._add(block, listed)
        if self._styles.is_title(style) and not self.title:
            self.title = block.text
        self._after(walked, block)

    def _walked(self, element: Element) -> Paragraph:
        walked = Paragraph(self._styles.language, self._fields)
        walked.walk(element)
        return walked

    def _properties(self, element: Element) -> tuple[str, int, bool]:
        """A paragraph's style, its level as a heading, and whether it is an item."""
        style, level, numbered = self._styles.default, -1, False
        for properties in element:
            if local(properties) == "ppr":
                level = outline_of(properties)
                numbered = is_numbered(properties)
                named = [attribute(each, "val") for each in properties if local(each) == "pstyle"]
                style = named[0] if named else style
        heading = level + 1 if 0 <= level < 9 else self._styles.level(style) if level < 0 else 0
        return style, heading, numbered or self._styles.is_numbered(style)

    def _kind(self, style: str, level: int, numbered: bool) -> tuple[BlockKind, int]:
        if self._styles.is_title(style):
            return "heading", 1
        if level and not self._styles.is_contents(style):
            return "heading", level
        kinds: tuple[tuple[bool, BlockKind], ...] = (
            (self._styles.is_verse(style), "poem"),
            (self._styles.is_code(style), "code"),
            (numbered, "item"),
            (self._styles.is_quote(style), "quote"),
        )
        return next((kind for holds, kind in kinds if holds), "paragraph"), 0

    def _add(self, block: Block, listed: bool) -> None:
        if listed:
            self._roles[len(self._blocks)] = "contents"
        before = self._blocks[-1] if self._blocks else None
        one = before and block.kind == before.kind and block.kind in ("code", "poem")
        if before and one and not listed and not block.inlines:
            # One stanza, one listing: Word makes each of its lines a paragraph.
            self._blocks[-1] = replace(before, text=f"{before.text}\n{block.text}")
        else:
            self._blocks.append(block)

    def _after(self, walked: Paragraph, block: Block) -> None:
        """What hangs on a paragraph: pictures, text boxes, footnotes."""
        for said in walked.pictures:
            self._blocks.append(Block(" ".join(said.split()), "image"))
        self._depth += 1
        if self._depth < 20:
            for box in walked.boxes:
                self._take(box)
        self._depth -= 1
        for inline in block.inlines:
            if inline.kind == "noteref" and inline.value.startswith("footnote-"):
                self._add_note(inline.value)

    def _numbered(self, runs: Iterable[Run]) -> Iterator[Run]:
        """The runs, references to notes with their numbers as Word prints them."""
        for run in runs:
            if run.kind != "noteref":
                yield run
            elif run.value in self._notes or run.value in self._numbers:
                kind = run.value.split("-")[0]
                if run.value not in self._numbers:
                    self._counts[kind] += 1
                    self._numbers[run.value] = self._counts[kind]
                yield run._replace(text=str(self._numbers[run.value]))

    def _add_note(self, note: str) -> None:
        element = self._notes.pop(note, None)
        if element is None:
            return
        for child in element.iter():
            if local(child) == "p":
                said = woven(self._numbered(self._walked(child).runs))
                if said.text:
                    self._blocks.append(
                        Block(
                            said.text, "note", language=said.language, id=note, inlines=said.inlines
                        )
                    )

    def _table(self, element: Element) -> None:
        rows = [[_cell(each) for each in _parts(row, "tc")] for row in _parts(element, "tr")]
        if len(rows) == 1 and len(rows[0]) == 1:
            for cell in _parts(next(_parts(element, "tr")), "tc"):
                self._take(cell)  # a frame around text, no table
            return
        met: list[Paragraph] = []
        filled: list[list[list[Run]]] = []
        for row in rows:
            filled.append([])
            for paragraphs in row:
                walked = [self._walked(each) for each in paragraphs]
                met += walked
                runs = [run for one in walked for run in (Run(" "), *self._numbered(one.runs))]
                filled[-1].append(runs)
        block = _block(table(filled), "table", 0)
        if block.text.strip():
            self._add(block, self._listing)
        for place, one in enumerate(met):
            self._after(one, block if place == len(met) - 1 else Block(""))


def _block(said: Woven, kind: BlockKind, level: int) -> Block:
    if kind == "paragraph" and is_rule(said.text):
        kind = "rule"
    return Block(said.text, kind, level, said.language, inlines=said.inlines)


def _cell(element: Element) -> list[Element]:
    """The paragraphs of a cell, those of tables inside it too."""
    return [each for each in element.iter() if local(each) == "p" and not _in_box(each, element)]


def _in_box(element: Element, top: Element) -> bool:
    for above in element.iterancestors():
        if above is top:
            return False
        if local(above) in ("txbxcontent", "del", "movefrom", "fallback"):
            return True
    return False


def _parts(element: Element, name: str) -> Iterator[Element]:
    """Rows or cells, also those inside content controls and insertions."""
    for child in element:
        kind = local(child)
        if kind == name:
            yield child
        elif kind in _BLOCK_WRAPS:
            yield from _parts(child, name)


def _version(element: Element, name: str) -> Element:
    if name == "alternatecontent" and len(element):
        return element[0]
    return element


def _is_listing(element: Element) -> bool:
    """Whether a content control is Word's own table of contents."""
    if local(element) != "sdt":
        return False
    return any(
        local(each) == "docpartgallery" and attribute(each, "val") == "Table of Contents"
        for properties in element
        if local(properties) == "sdtpr"
        for each in properties.iter()
    )
