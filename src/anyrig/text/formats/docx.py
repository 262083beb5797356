"""Word's docx: paragraphs by their styles, with notes, tables, lists, text boxes and metadata.

Footnotes stand after the paragraph that refers to them, endnotes in a chapter at the end. Headers,
footers and comments are no part of the text. Insertions are kept and deletions are not, as if all
changes had been accepted; hidden text and page numbers made by fields are left out.

Word writes the ids of its own styles in the user's language (`berschrift1`), their names always in
English (`heading 1`); an outline level counts whatever the name is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import InvalidInputError
from anyrig.text.document import Block, BlockKind, Chapter, Document, Role
from anyrig.text.formats import outline
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.office import find_target, read_attribute, read_metadata, read_part
from anyrig.text.formats.paragraphs import is_rule
from anyrig.text.formats.runs import InlineRun, InlineText, build_table, join_runs
from anyrig.text.formats.xml import local_name
from anyrig.text.formats.zipped import open_archive

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


_BLOCK_WRAPS = frozenset(
    "sdt sdtcontent customxml ins moveto alternatecontent choice body document".split()
)


def read(path: Path, limits: Limits) -> Document:
    """A docx as a document."""
    with open_archive(path, limits) as archive:
        main = find_target(archive, "", "officeDocument", limits) or "word/document.xml"
        root = read_part(archive, main, limits)
        if root is None:
            raise InvalidInputError(
                f"{path.name} has no text part", hint="Open it in Word and save it again as docx."
            )
        about, cover = read_metadata(archive, limits)
        styles = DocxStyles(
            read_part(archive, find_target(archive, main, "styles", limits), limits)
        )
        reader = _DocxReader(styles)
        for kind in ("footnote", "endnote"):
            notes = read_part(archive, find_target(archive, main, f"{kind}s", limits), limits)
            reader.keep_notes(kind, notes)
    chapters = reader.chapters(root)
    title = about.title or reader.title
    language = about.language or styles.language
    about = replace(about, title=title, language=language)
    return Document(about, tuple(chapters), cover, "docx", tuple(reader.warnings))


class _DocxReader:
    """One file on its way to blocks."""

    def __init__(self, styles: DocxStyles) -> None:
        self._styles = styles
        self._notes: dict[str, Element] = {}
        self._numbers: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._fields: list[str] = []
        self._blocks: list[Block] = []
        self._lines: list[str] = []
        """Of the stanza or the listing that was added last."""
        self._first_line = 0
        self._roles: dict[int, Role] = {}
        self._listing = False
        self._depth = 0
        self.title = ""
        self.warnings: list[str] = []

    def keep_notes(self, kind: str, root: Element | None) -> None:
        """Remember the notes of a part until they are referred to."""
        for element in root if root is not None else ():
            if local_name(element) == kind and read_attribute(element, "type") in ("", "normal"):
                self._notes[f"{kind}-{read_attribute(element, 'id')}"] = element

    def chapters(self, root: Element) -> list[Chapter]:
        """All that the main part holds."""
        bodies = [element for element in root if local_name(element) == "body"] or [root]
        for body in bodies:
            self._take(body)
        last = [note for note in self._numbers if note.startswith("endnote-")]
        start = len(self._blocks)
        for note in last:
            self._add_note(note)
        self._join_lines()
        self._roles.update(dict.fromkeys(range(start, len(self._blocks)), "notes"))
        return outline.cut_at_headings(self._blocks, self._roles)

    def _take(self, element: Element) -> None:
        for child in element:
            name = local_name(child)
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
        walked = self._walk(element)
        lines = self._styles.is_verse(style) or self._styles.is_code(style)
        block = _block(
            join_runs(self._number_notes(walked.runs), lines=lines),
            *self._kind(style, level, numbered),
        )
        listed = self._listing or walked.in_contents or self._styles.is_contents(style)
        if block.text:
            self._add(block, listed)
        if self._styles.is_title(style) and not self.title:
            self.title = block.text
        self._after(walked, block)

    def _walk(self, element: Element) -> DocxParagraph:
        walked = DocxParagraph(self._styles.language, self._fields)
        walked.walk(element)
        return walked

    def _properties(self, element: Element) -> tuple[str, int, bool]:
        """A paragraph's style, its level as a heading, and whether it is an item."""
        style, level, numbered = self._styles.default, -1, False
        for properties in element:
            if local_name(properties) == "ppr":
                level = read_outline_level(properties)
                numbered = is_numbered(properties)
                named = [
                    read_attribute(each, "val")
                    for each in properties
                    if local_name(each) == "pstyle"
                ]
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
        if one and not listed and not block.inlines:
            # One stanza, one listing: Word makes each of its lines a paragraph.
            self._lines.append(block.text)
        else:
            self._join_lines()
            self._blocks.append(block)
            self._lines, self._first_line = [block.text], len(self._blocks) - 1

    def _join_lines(self) -> None:
        if len(self._lines) > 1:
            block = self._blocks[self._first_line]
            self._blocks[self._first_line] = replace(block, text="\n".join(self._lines))

    def _after(self, walked: DocxParagraph, block: Block) -> None:
        """What hangs on a paragraph: pictures, text boxes, footnotes."""
        for description in walked.pictures:
            self._blocks.append(Block(" ".join(description.split()), "image"))
        self._depth += 1
        if self._depth < 20:
            for box in walked.boxes:
                self._take(box)
        self._depth -= 1
        for inline in block.inlines:
            if inline.kind == "noteref" and inline.value.startswith("footnote-"):
                self._add_note(inline.value)

    def _number_notes(self, runs: Iterable[InlineRun]) -> Iterator[InlineRun]:
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
            if local_name(child) == "p":
                inline_text = join_runs(self._number_notes(self._walk(child).runs))
                if inline_text.text:
                    self._blocks.append(
                        Block(
                            inline_text.text,
                            "note",
                            language=inline_text.language,
                            id=note,
                            inlines=inline_text.inlines,
                        )
                    )

    def _table(self, element: Element) -> None:
        rows = [[_cell(each) for each in _parts(row, "tc")] for row in _parts(element, "tr")]
        if len(rows) == 1 and len(rows[0]) == 1:
            for cell in _parts(next(_parts(element, "tr")), "tc"):
                self._take(cell)  # a frame around text, no table
            return
        met: list[DocxParagraph] = []
        filled: list[list[list[InlineRun]]] = []
        for row in rows:
            filled.append([])
            for paragraphs in row:
                walked = [self._walk(each) for each in paragraphs]
                met += walked
                runs = [
                    run for one in walked for run in (InlineRun(" "), *self._number_notes(one.runs))
                ]
                filled[-1].append(runs)
        block = _block(build_table(filled), "table", 0)
        if block.text.strip():
            self._add(block, self._listing)
        for place, one in enumerate(met):
            self._after(one, block if place == len(met) - 1 else Block(""))


def _block(inline_text: InlineText, kind: BlockKind, level: int) -> Block:
    if kind == "paragraph" and is_rule(inline_text.text):
        kind = "rule"
    return Block(inline_text.text, kind, level, inline_text.language, inlines=inline_text.inlines)


def _cell(element: Element) -> list[Element]:
    """The paragraphs of a cell, those of tables inside it too."""
    return [
        each for each in element.iter() if local_name(each) == "p" and not _in_box(each, element)
    ]


def _in_box(element: Element, top: Element) -> bool:
    for above in element.iterancestors():
        if above is top:
            return False
        if local_name(above) in ("txbxcontent", "del", "movefrom", "fallback"):
            return True
    return False


def _parts(element: Element, name: str) -> Iterator[Element]:
    """Rows or cells, also those inside content controls and insertions."""
    for child in element:
        kind = local_name(child)
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
    if local_name(element) != "sdt":
        return False
    return any(
        local_name(each) == "docpartgallery" and read_attribute(each, "val") == "Table of Contents"
        for properties in element
        if local_name(properties) == "sdtpr"
        for each in properties.iter()
    )


_HEADING = re.compile(r"heading\s*([1-9])|(?:überschrift|titre|título|titolo|kop)\s*([1-9])")
_CONTENTS = re.compile(
    r"toc\s*[1-9]|toc heading|table of (?:figures|authorities)|contents?\s*[1-9]"
)
_QUOTE = re.compile(r"(?:intense )?quote|block ?text|quotations?|zitat|citation")
_CODE = re.compile(r"html preformatted|(?:source )?code\b.*|preformatted text|macro text")
_VERSE = re.compile(r".*\b(?:verse|poem|poetry|stanza)\b.*")
_DEEPEST = 30  # styles based on styles


# -- styles ----------------------------------------------------------------------------------------


class DocxStyle(NamedTuple):
    """What is known of one."""

    name: str = ""
    based_on: str = ""
    outline: int = -1
    """From 0; -1 where the style does not say."""
    numbered: bool = False


class DocxStyles:
    """All styles of a file."""

    def __init__(self, root: Element | None) -> None:
        self._styles: dict[str, DocxStyle] = {}
        self._chains: dict[str, tuple[DocxStyle, ...]] = {}
        self.language = ""
        """The file's own, where its defaults say it."""
        self.default = ""
        for element in root if root is not None else ():
            if local_name(element) == "style":
                self._styles[read_attribute(element, "styleId")] = _style(element)
                if read_attribute(element, "default") in ("1", "true") and _is_paragraph(element):
                    self.default = read_attribute(element, "styleId")
            elif local_name(element) == "docdefaults":
                self.language = _language(element)

    def level(self, style: str) -> int:
        """Of a heading, from 1; 0 if the style is none."""
        for one in self._chain(style):
            found = _HEADING.fullmatch(one.name)
            if found:
                return int(found[1] or found[2])
            if one.outline >= 0:
                return one.outline + 1 if one.outline < 9 else 0
        return 0

    def is_title(self, style: str) -> bool:
        """Whether it is the title of the whole."""
        return any(one.name == "title" for one in self._chain(style))

    def is_contents(self, style: str) -> bool:
        """Whether it is a line of a table of contents."""
        return any(_CONTENTS.fullmatch(one.name) for one in self._chain(style))

    def is_quote(self, style: str) -> bool:
        """Whether it is set apart as quoted."""
        return any(_QUOTE.fullmatch(one.name) for one in self._chain(style))

    def is_code(self, style: str) -> bool:
        """Whether it is set as a program's text is."""
        return any(_CODE.fullmatch(one.name) for one in self._chain(style))

    def is_verse(self, style: str) -> bool:
        """Whether its lines count."""
        return any(_VERSE.fullmatch(one.name) for one in self._chain(style))

    def is_numbered(self, style: str) -> bool:
        """Whether it is an item of a list by its style alone."""
        return any(one.numbered for one in self._chain(style))

    def _chain(self, style: str) -> tuple[DocxStyle, ...]:
        """A style and those it is based on, the nearest first; asked for at every paragraph."""
        known = self._chains.get(style)
        if known is None:
            known = self._chains[style] = tuple(self._iterate_parents(style))
        return known

    def _iterate_parents(self, style: str) -> Iterator[DocxStyle]:
        for _ in range(_DEEPEST):
            one = self._styles.get(style)
            if one is None:
                if style:
                    yield DocxStyle(re.sub(r"(?<=[a-z])(?=\d)", " ", style.lower()))
                return
            yield one
            style = one.based_on


def _style(element: Element) -> DocxStyle:
    name, based_on, outline, numbered = "", "", -1, False
    for child in element:
        kind = local_name(child)
        if kind == "name":
            name = read_attribute(child, "val").strip().lower()
        elif kind == "basedon":
            based_on = read_attribute(child, "val")
        elif kind == "ppr":
            outline = read_outline_level(child)
            numbered = is_numbered(child)
    return DocxStyle(name, based_on, outline, numbered)


def read_outline_level(properties: Element) -> int:
    """The outline level of a paragraph's properties, from 0; -1 where they do not say."""
    for child in properties:
        if local_name(child) == "outlinelvl":
            value = read_attribute(child, "val")
            return int(value) if value.isdecimal() and len(value) < 3 else -1
    return -1


def is_numbered(properties: Element) -> bool:
    """Whether a paragraph's properties make it an item of a list."""
    for child in properties:
        if local_name(child) == "numpr":
            ids = [read_attribute(each, "val") for each in child if local_name(each) == "numid"]
            return bool(ids) and ids[0] != "0"
    return False


def _is_paragraph(element: Element) -> bool:
    return read_attribute(element, "type") == "paragraph"


def _language(defaults: Element) -> str:
    for element in defaults.iter():
        if local_name(element) == "lang":
            return read_attribute(element, "val")
    return ""


_INTO = frozenset(
    "hyperlink ins moveto smarttag sdt sdtcontent customxml bdo dir fldsimple rubybase ruby"
    " alternatecontent choice r".split()
)
_SIGNS = {"tab": " ", "ptab": " ", "br": "\n", "cr": "\n", "nobreakhyphen": "\u2011"}
_PAGE_FIELDS = ("PAGE", "NUMPAGES", "PAGEREF", "SECTIONPAGES")
# The Greek of the font Symbol, at its Latin letters.
_SYMBOL = dict(
    zip(
        "ABGDEZHQIKLMNXOPRSTUFCYWabgdezhqiklmnxoprstufcyw",
        "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρστυφχψω",
        strict=True,
    )
)


# -- runs ------------------------------------------------------------------------------------------


class DocxParagraph:
    """The runs of one paragraph, with what else was met on the way."""

    def __init__(self, language: str = "", fields: list[str] | None = None) -> None:
        self.language = language
        """Of the file: a run in it is not marked."""
        self.fields = [] if fields is None else fields
        """The fields that are open, outermost first; one may span paragraphs."""
        self.runs: list[InlineRun] = []
        self.boxes: list[Element] = []
        """Text boxes that hang on the paragraph."""
        self.pictures: dict[str, None] = {}
        """What is said of its pictures, each once."""
        self.in_contents = False
        """Whether some of it is the result of a field that lists the contents."""

    def walk(self, element: Element) -> None:
        """Take up all that stands in an element."""
        stack: list[tuple[Element, str]] = [(child, "") for child in reversed(element)]
        while stack:
            child, language = stack.pop()
            name = local_name(child)
            if name == "r":
                language, hidden = _properties(child)
                if hidden:
                    continue
            if name == "fldsimple" and _is_page(read_attribute(child, "instr")):
                continue
            if name in _INTO:
                stack.extend((each, language) for each in reversed(_inside(child, name)))
            else:
                self._take(child, name, language)

    def _take(self, element: Element, name: str, language: str) -> None:
        if name == "fldchar":
            self._field(read_attribute(element, "fldCharType"))
        elif name == "instrtext":
            self._instruct(element.text or "")
        elif name in ("drawing", "pict", "object"):
            self._drawn(element)
        elif name in ("footnotereference", "endnotereference"):
            note = f"{name[:-9]}-{read_attribute(element, 'id')}"
            self.runs.append(InlineRun(note, "noteref", note))
        else:
            self._say(_text(element, name), language)

    def _say(self, text: str, language: str) -> None:
        self.in_contents = self.in_contents or any(field.startswith("TOC") for field in self.fields)
        if text and not any(map(_is_page, self.fields)):
            own = language.split("-")[0].lower() == self.language.split("-")[0].lower()
            self.runs.append(InlineRun(text, language="" if own else language))

    def _field(self, kind: str) -> None:
        if kind == "begin":
            self.fields.append("")
        elif kind == "end" and self.fields:
            self.fields.pop()

    def _instruct(self, text: str) -> None:
        if self.fields and len(self.fields[-1]) < 80:
            self.fields[-1] = (self.fields[-1] + text).lstrip()

    def _drawn(self, element: Element) -> None:
        self.boxes.extend(_boxes(element))
        for each in element.iter():
            if local_name(each) in ("docpr", "shape"):
                description = (
                    read_attribute(each, "descr")
                    or read_attribute(each, "alt")
                    or read_attribute(each, "title")
                )
                if description.strip():
                    self.pictures[description.strip()] = None


def _boxes(element: Element) -> Iterator[Element]:
    """The text boxes in a drawing, not those in a box already found nor in a second version."""
    stack = [element]
    while stack:
        each = stack.pop()
        name = local_name(each)
        if name == "txbxcontent":
            yield each
        elif name != "fallback":
            stack.extend(reversed(each))


def _inside(element: Element, name: str) -> list[Element]:
    """The children that count: of several versions of one thing the first that is understood."""
    children = list(element)
    if name == "alternatecontent":
        chosen = [each for each in children if local_name(each) == "choice"]
        return chosen[:1] or [each for fall in children for each in fall]
    if name == "ruby":
        return [each for each in children if local_name(each) == "rubybase"]
    return children


def _properties(run: Element) -> tuple[str, bool]:
    """A run's language, and whether it is hidden."""
    language, hidden = "", False
    for properties in run:
        if local_name(properties) != "rpr":
            continue
        for each in properties:
            if local_name(each) == "lang":
                language = read_attribute(each, "val")
            elif local_name(each) in ("vanish", "specvanish"):
                hidden = read_attribute(each, "val") not in ("0", "false", "off")
    return language, hidden


def _text(element: Element, name: str) -> str:
    if name == "t":
        return element.text or ""
    if name == "sym":
        return _symbol(read_attribute(element, "char"), read_attribute(element, "font"))
    if name == "br" and read_attribute(element, "type") == "page":
        return " "
    if name in ("omath", "omathpara"):
        return _formula(element)
    return _SIGNS.get(name, "")


def _formula(element: Element) -> str:
    """The signs of a formula in a row."""
    return " ".join(each.text for each in element.iter() if local_name(each) == "t" and each.text)


def _symbol(code: str, font: str) -> str:
    try:
        value = int(code, 16)
    except ValueError:
        return ""
    if 0xF000 <= value <= 0xF0FF:
        value -= 0xF000
        if font.lower() == "symbol":
            return _SYMBOL.get(chr(value), chr(value) if 32 <= value < 127 else "")
        return ""  # a picture font: nothing to say
    return chr(value) if 32 <= value < 0x110000 and not 0xD800 <= value < 0xE000 else ""


def _is_page(instruction: str) -> bool:
    words = instruction.split(None, 1)
    return bool(words) and words[0].upper() in _PAGE_FIELDS
