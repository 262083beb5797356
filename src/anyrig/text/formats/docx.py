"""Word's docx as the page of HTML that it is: paragraphs by their styles, with notes and tables.

Footnotes stand after the paragraph that refers to them, endnotes in a chapter at the end. Headers,
footers and comments are no part of the text. Insertions are kept and deletions are not, as if all
changes had been accepted; hidden text and page numbers made by fields are left out.

Word writes the ids of its own styles in the user's language (`berschrift1`), their names always in
English (`heading 1`); an outline level counts whatever the name is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree

from anyrig.errors import InvalidInputError
from anyrig.text.document import Document
from anyrig.text.formats import html
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.markup import ElementWriter
from anyrig.text.formats.office import find_target, read_attribute, read_metadata, read_part
from anyrig.text.formats.xml import local_name
from anyrig.text.formats.zipped import open_archive

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


_WRAPS = frozenset(
    "sdt sdtcontent customxml ins moveto alternatecontent choice body document".split()
)
"""What stands around paragraphs, rows and cells, and says nothing."""
_DEEPEST_BOX = 20


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
        styles = _DocxStyles(
            read_part(archive, find_target(archive, main, "styles", limits), limits)
        )
        page = _DocxPage(styles)
        for kind in ("footnote", "endnote"):
            notes = read_part(archive, find_target(archive, main, f"{kind}s", limits), limits)
            page.keep_notes(kind, notes)
    body = page.build(root)
    about = replace(
        about, title=about.title or page.title, language=about.language or styles.language
    )
    document = html.build_document(body, path.name, "docx", about)
    return replace(document, cover=cover, warnings=tuple(page.warnings))


@dataclass
class _Attached:
    """What hangs on a paragraph and stands after it."""

    boxes: list[Element] = field(default_factory=list)
    pictures: dict[str, None] = field(default_factory=dict)
    """What is said of its pictures, each once."""
    notes: list[str] = field(default_factory=list)
    in_contents: bool = False
    """Whether some of the paragraph is the result of a field that lists the contents."""


class _DocxPage:
    """One file on its way to HTML."""

    def __init__(self, styles: _DocxStyles) -> None:
        self._styles = styles
        self._notes: dict[str, Element] = {}
        self._numbers: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._endnotes = etree.Element("section", {"role": "doc-endnotes"})
        self._fields: list[str] = []
        """Those that are open, outermost first; one may span paragraphs."""
        self._depth = 0
        self.title = ""
        self.warnings: list[str] = []

    def keep_notes(self, kind: str, root: Element | None) -> None:
        """Remember the notes of a part until they are referred to."""
        for element in root if root is not None else ():
            if local_name(element) == kind and read_attribute(element, "type") in ("", "normal"):
                self._notes[f"{kind}-{read_attribute(element, 'id')}"] = element

    def build(self, root: Element) -> Element:
        """All that the main part holds."""
        made = etree.Element("body")
        for body in [element for element in root if local_name(element) == "body"] or [root]:
            self._take(body, made)
        made.append(self._endnotes)
        return made

    def _take(self, element: Element, into: Element, *, listed: bool = False) -> None:
        for child in element:
            name = local_name(child)
            if name == "p":
                self._paragraph(child, into, listed)
            elif name == "tbl":
                self._table(child, into, listed)
            elif name == "altchunk":
                self.warnings.append("a part in another format, embedded in the file, is left out")
            elif name in _WRAPS:
                inner = _choose_version(child, name)
                self._take(inner, into, listed=listed or _is_listing(child))

    def _paragraph(self, element: Element, into: Element, listed: bool) -> None:
        if not len(element):
            return  # people make room with thousands of them
        style, level, numbered = self._read_properties(element)
        tag = _find_tag(style, level, numbered)
        made = etree.Element(tag)
        attached = self._fill(element, made)
        text = _read_text(made)
        if "title" in style.kinds and not self.title:
            self.title = text
        if text:
            if level > 6:
                made.set("aria-level", str(level))
            if listed or attached.in_contents or "contents" in style.kinds:
                into_list = etree.SubElement(into, "nav")
                into_list.append(made)
            elif tag in ("pre", "div"):
                _add_line(made, into)
            else:
                into.append(made)
        self._attach(attached, into)

    def _read_properties(self, element: Element) -> tuple[_StyleTraits, int, bool]:
        """What a paragraph's style makes of it, its level as a heading, whether it is an item."""
        name, level, numbered = self._styles.default, -1, False
        for properties in element:
            if local_name(properties) == "ppr":
                level, numbered = _read_outline_level(properties), _is_numbered(properties)
                named = (each for each in properties if local_name(each) == "pstyle")
                name = next((read_attribute(each, "val") for each in named), name)
        style = self._styles.find_traits(name)
        heading = level + 1 if 0 <= level < 9 else style.level if level < 0 else 0
        return style, heading, numbered or style.numbered

    def _attach(self, attached: _Attached, into: Element) -> None:
        for description in attached.pictures:
            etree.SubElement(into, "img", alt=description)
        self._depth += 1
        for box in attached.boxes if self._depth < _DEEPEST_BOX else ():
            self._take(box, into)
        self._depth -= 1
        for note in attached.notes:
            self._add_note(note, into if note.startswith("foot") else self._endnotes)

    def _add_note(self, note: str, into: Element) -> None:
        element = self._notes.pop(note, None)
        if element is None:
            return
        made = etree.SubElement(into, "aside", role="doc-footnote", id=note)
        for child in element.iter():
            if local_name(child) == "p":
                self._fill(child, etree.SubElement(made, "p"))

    def _table(self, element: Element, into: Element, listed: bool) -> None:
        rows = [list(_list_parts(row, "tc")) for row in _list_parts(element, "tr")]
        if len(rows) == 1 and len(rows[0]) == 1:
            self._take(rows[0][0], into, listed=listed)  # a frame around text, no table
            return
        table = etree.Element("table", role="table")
        met: list[_Attached] = []
        for row in rows:
            made = etree.SubElement(table, "tr")
            for cell in row:
                filled = etree.SubElement(made, "td")
                for paragraph in _list_cell(cell):
                    met.append(self._fill(paragraph, etree.SubElement(filled, "p")))
        if _read_text(table):
            (etree.SubElement(into, "nav") if listed else into).append(table)
        for one in met:
            self._attach(one, into)

    # Runs

    def _fill(self, paragraph: Element, made: Element) -> _Attached:
        """Write the runs of a paragraph into an element of HTML."""
        attached, writer = _Attached(), ElementWriter(made)
        stack: list[tuple[Element, str]] = [(child, "") for child in reversed(paragraph)]
        while stack:
            child, language = stack.pop()
            name = local_name(child)
            if name == "r":
                language, hidden = _read_run_properties(child)
                if hidden:
                    continue
            if name == "fldsimple" and _is_page(read_attribute(child, "instr")):
                continue
            if name in _INTO:
                inside = reversed(_choose_version(child, name))
                stack.extend((each, language) for each in inside if _is_shown(each, name))
            else:
                self._take_run(child, name, language, writer, attached)
        writer.close()
        return attached

    def _take_run(
        self, element: Element, name: str, language: str, writer: ElementWriter, attached: _Attached
    ) -> None:
        if name == "fldchar":
            self._change_field(read_attribute(element, "fldCharType"))
        elif name == "instrtext":
            if self._fields and len(self._fields[-1]) < 80:
                self._fields[-1] = (self._fields[-1] + (element.text or "")).lstrip()
        elif name in ("drawing", "pict", "object"):
            _read_drawing(element, attached)
        elif name in ("footnotereference", "endnotereference"):
            self._refer(f"{name[:-9]}-{read_attribute(element, 'id')}", writer, attached)
        else:
            attached.in_contents |= any(one.startswith("TOC") for one in self._fields)
            if not any(map(_is_page, self._fields)):
                self._write(element, name, language, writer)

    def _write(self, element: Element, name: str, language: str, writer: ElementWriter) -> None:
        if name in ("br", "cr") and read_attribute(element, "type") != "page":
            writer.append(etree.Element("br"))
            return
        own = language.split("-")[0].lower() == self._styles.language.split("-")[0].lower()
        writer.write(_read_sign(element, name), "" if own else language)

    def _change_field(self, kind: str) -> None:
        if kind == "begin":
            self._fields.append("")
        elif kind == "end" and self._fields:
            self._fields.pop()

    def _refer(self, note: str, writer: ElementWriter, attached: _Attached) -> None:
        """A reference to a note, with its number as Word prints it."""
        if note not in self._notes and note not in self._numbers:
            return
        kind = note.split("-")[0]
        if note not in self._numbers:
            self._counts[kind] += 1
            self._numbers[note] = self._counts[kind]
        reference = etree.Element("a", href=f"#{note}", role="doc-noteref")
        reference.text = str(self._numbers[note])
        writer.append(reference)
        attached.notes.append(note)


def _find_tag(style: _StyleTraits, level: int, numbered: bool) -> str:
    if "title" in style.kinds:
        return "h1"
    if level and "contents" not in style.kinds:
        return f"h{min(level, 6)}"
    if "poem" in style.kinds:
        return "div"
    if "code" in style.kinds:
        return "pre"
    return "li" if numbered else "blockquote" if "quote" in style.kinds else "p"


def _add_line(made: Element, into: Element) -> None:
    """A line of a stanza or a listing: Word makes a paragraph of each."""
    last = into[-1] if len(into) else None
    if last is None or last.tag != made.tag:
        last = etree.SubElement(into, str(made.tag), {"class": "poem"} if made.tag == "div" else {})
    elif made.tag == "pre":
        last[-1].tail = "\n"
    made.tag = "p" if made.tag == "div" else "code"
    last.append(made)


def _read_text(element: Element) -> str:
    return " ".join("".join(map(str, element.itertext())).split())


def _list_cell(element: Element) -> Iterator[Element]:
    """The paragraphs of a cell, those of tables inside it too."""
    for each in element.iter():
        if local_name(each) == "p" and not _is_in_box(each, element):
            yield each


def _is_in_box(element: Element, top: Element) -> bool:
    for above in element.iterancestors():
        if above is top:
            return False
        if local_name(above) in ("txbxcontent", "del", "movefrom", "fallback"):
            return True
    return False


def _list_parts(element: Element, name: str) -> Iterator[Element]:
    """Rows or cells, also those inside content controls and insertions."""
    for child in element:
        kind = local_name(child)
        if kind == name:
            yield child
        elif kind in _WRAPS:
            yield from _list_parts(child, name)


def _choose_version(element: Element, name: str) -> Element:
    """Of several versions of one thing the first that is understood."""
    if name != "alternatecontent" or not len(element):
        return element
    return next((each for each in element if local_name(each) == "choice"), element[0])


def _is_shown(element: Element, above: str) -> bool:
    """Whether it is no reading over a Japanese word."""
    return above != "ruby" or local_name(element) == "rubybase"


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


# -- styles ----------------------------------------------------------------------------------------

_HEADING = re.compile(r"heading\s*([1-9])|(?:überschrift|titre|título|titolo|kop)\s*([1-9])")
_KINDS = {
    "title": re.compile(r"title"),
    "contents": re.compile(
        r"toc\s*[1-9]|toc heading|table of (?:figures|authorities)|contents?\s*[1-9]"
    ),
    "quote": re.compile(r"(?:intense )?quote|block ?text|quotations?|zitat|citation"),
    "code": re.compile(r"html preformatted|(?:source )?code\b.*|preformatted text|macro text"),
    "poem": re.compile(r".*\b(?:verse|poem|poetry|stanza)\b.*"),
}
"""What paragraphs are, by the names of their styles and of those that these are based on."""
_DEEPEST = 30  # styles based on styles


class _DocxStyle(NamedTuple):
    """What a file says of one."""

    name: str = ""
    based_on: str = ""
    outline: int = -1
    """From 0; -1 where the style does not say."""
    numbered: bool = False


class _StyleTraits(NamedTuple):
    """What a style makes of a paragraph."""

    kinds: frozenset[str]
    level: int
    """Of a heading, from 1; 0 if it is none."""
    numbered: bool
    """Whether it is an item of a list by its style alone."""


class _DocxStyles:
    """All styles of a file."""

    def __init__(self, root: Element | None) -> None:
        self._styles: dict[str, _DocxStyle] = {}
        self._traits: dict[str, _StyleTraits] = {}
        self.language = ""
        """The file's own, where its defaults say it."""
        self.default = ""
        for element in root if root is not None else ():
            if local_name(element) == "style":
                name = read_attribute(element, "styleId")
                self._styles[name] = _read_style(element)
                is_default = read_attribute(element, "default") in ("1", "true")
                if is_default and read_attribute(element, "type") == "paragraph":
                    self.default = name
            elif local_name(element) == "docdefaults":
                languages = (each for each in element.iter() if local_name(each) == "lang")
                self.language = next((read_attribute(each, "val") for each in languages), "")

    def find_traits(self, style: str) -> _StyleTraits:
        """What a style says with those it is based on; asked for at every paragraph."""
        known = self._traits.get(style)
        if known is None:
            chain = tuple(self._iterate_parents(style))
            kinds = (
                kind
                for kind, pattern in _KINDS.items()
                if any(pattern.fullmatch(one.name) for one in chain)
            )
            level = next((level for one in chain if (level := _find_level(one)) >= 0), 0)
            known = _StyleTraits(frozenset(kinds), level, any(one.numbered for one in chain))
            self._traits[style] = known
        return known

    def _iterate_parents(self, style: str) -> Iterator[_DocxStyle]:
        """A style and those it is based on, the nearest first."""
        for _ in range(_DEEPEST):
            one = self._styles.get(style)
            if one is None:
                if style:
                    yield _DocxStyle(re.sub(r"(?<=[a-z])(?=\d)", " ", style.lower()))
                return
            yield one
            style = one.based_on


def _find_level(style: _DocxStyle) -> int:
    """Of a heading, from 1; 0 if it is text for sure, -1 where the style does not say."""
    if found := _HEADING.fullmatch(style.name):
        return int(found[1] or found[2])
    return style.outline + 1 if 0 <= style.outline < 9 else min(style.outline, 0)


def _read_style(element: Element) -> _DocxStyle:
    style = _DocxStyle()
    for child in element:
        kind = local_name(child)
        if kind == "name":
            style = style._replace(name=read_attribute(child, "val").strip().lower())
        elif kind == "basedon":
            style = style._replace(based_on=read_attribute(child, "val"))
        elif kind == "ppr":
            style = style._replace(outline=_read_outline_level(child), numbered=_is_numbered(child))
    return style


def _read_outline_level(properties: Element) -> int:
    """The outline level of a paragraph's properties, from 0; -1 where they do not say."""
    for child in properties:
        if local_name(child) == "outlinelvl":
            value = read_attribute(child, "val")
            return int(value) if value.isdecimal() and len(value) < 3 else -1
    return -1


def _is_numbered(properties: Element) -> bool:
    """Whether a paragraph's properties make it an item of a list."""
    for child in properties:
        if local_name(child) == "numpr":
            ids = [read_attribute(each, "val") for each in child if local_name(each) == "numid"]
            return bool(ids) and ids[0] != "0"
    return False


# -- runs ------------------------------------------------------------------------------------------

_INTO = frozenset(
    "hyperlink ins moveto smarttag sdt sdtcontent customxml bdo dir fldsimple rubybase ruby"
    " alternatecontent r".split()
)
_SIGNS = {"tab": " ", "ptab": " ", "br": " ", "nobreakhyphen": "\u2011"}
_PAGE_FIELDS = ("PAGE", "NUMPAGES", "PAGEREF", "SECTIONPAGES")
# The Greek of the font Symbol, at its Latin letters.
_SYMBOL = dict(
    zip(
        "ABGDEZHQIKLMNXOPRSTUFCYWabgdezhqiklmnxoprstufcyw",
        "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρστυφχψω",
        strict=True,
    )
)


def _read_drawing(element: Element, attached: _Attached) -> None:
    """The text boxes in a drawing, not those in a box already found nor in a second version."""
    stack = [element]
    while stack:
        each = stack.pop()
        name = local_name(each)
        if name == "txbxcontent":
            attached.boxes.append(each)
        elif name != "fallback":
            stack.extend(reversed(each))
    for each in element.iter():
        if local_name(each) in ("docpr", "shape"):
            words = (read_attribute(each, name) for name in ("descr", "alt", "title"))
            if description := next(filter(None, words), "").strip():
                attached.pictures[description] = None


def _read_run_properties(run: Element) -> tuple[str, bool]:
    """A run's language, and whether it is hidden."""
    language, hidden = "", False
    for properties in run:
        for each in properties if local_name(properties) == "rpr" else ():
            if local_name(each) == "lang":
                language = read_attribute(each, "val")
            elif local_name(each) in ("vanish", "specvanish"):
                hidden = read_attribute(each, "val") not in ("0", "false", "off")
    return language, hidden


def _read_sign(element: Element, name: str) -> str:
    if name == "t":
        return element.text or ""
    if name == "sym":
        return _read_symbol(read_attribute(element, "char"), read_attribute(element, "font"))
    if name in ("omath", "omathpara"):  # the signs of a formula in a row
        return " ".join(e.text for e in element.iter() if local_name(e) == "t" and e.text)
    return _SIGNS.get(name, "")


def _read_symbol(code: str, font: str) -> str:
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
