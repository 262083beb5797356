"""OpenDocument text (odt), renamed in place to the page of HTML that it is, and read as one.

Footnotes stand after the paragraph that refers to them, endnotes in a chapter at the end.
Annotations and deleted text are left out; insertions stay.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lxml import etree

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.document import Document, Metadata
from anyrig.text.formats import html
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.office import read_attribute, read_part
from anyrig.text.formats.picture import read_cover
from anyrig.text.formats.xml import local_name
from anyrig.text.formats.zipped import ZipArchive, open_archive

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_TAGS = {
    "list": "ul", "list-item": "li", "list-header": "li", "table-row": "tr", "table-cell": "td",
    "line-break": "br", "ruby": "ruby", "ruby-text": "rt",
    **dict.fromkeys(
        "table-of-content illustration-index table-index object-index user-index"
        " alphabetical-index bibliography".split(),
        "nav",
    ),
    **dict.fromkeys(
        "annotation annotation-end tracked-changes deletion page-number page-count sequence-decls"
        " forms index-title-template bookmark variable-decls user-field-decls covered-table-cell"
        " script event-listeners".split(),
        "script",
    ),
}  # fmt: skip
"""Element -> that of HTML; `script` is left out. Others are `div`, or `span` within a paragraph."""
_HEADINGS = tuple(f"h{level}" for level in range(1, 7))
_PARAGRAPHS = ("p", "pre", "blockquote", *_HEADINGS)
_INLINE = (*_PARAGRAPHS, "span", "a", "ruby")
# What styles are called -> the element, and its class.
_STYLES = (("quot", "blockquote", ""), ("preformatted", "pre", ""), ("verse", "p", "poem"),
           ("poem", "p", "poem"), ("poetry", "p", "poem"))  # fmt: skip
_MOST_SPACES = 100


def read(path: Path, limits: Limits) -> Document:
    """An odt as a document."""
    with open_archive(path, limits) as archive:
        refuse_locked(archive, limits)
        root = read_part(archive, "content.xml", limits)
        if root is None:
            raise InvalidInputError(
                f"{path.name} has no text part", hint="Open it in LibreOffice and save it again."
            )
        styles = _OdtStyles(root, read_part(archive, "styles.xml", limits))
        about = build_metadata(read_part(archive, "meta.xml", limits), styles.language)
        cover = read_cover(archive, "Thumbnails/thumbnail.png")
    return replace(
        html.build_document(_OdtPage(styles).build(root), path.name, "odt", about), cover=cover
    )


def refuse_locked(archive: ZipArchive, limits: Limits) -> None:
    manifest = read_part(archive, "META-INF/manifest.xml", limits)
    if manifest is None:
        return
    for each in manifest.iter():
        if local_name(each) in ("encryption-data", "encrypteddata", "keyinfo"):
            raise ProtectedFileError(
                f"{archive.name} is encrypted with a password",
                hint="Open it in LibreOffice, and save it again without a password.",
            )


class _OdtStyles:
    """What styles are called and based on, and the languages they set."""

    def __init__(self, *roots: Element | None) -> None:
        self._parents: dict[str, str] = {}
        self._languages: dict[str, str] = {}
        self._levels: dict[str, int] = {}
        self.language = ""
        for root in roots:
            for element in root.iter() if root is not None else ():
                if local_name(element) == "style":
                    self._keep(element)
                elif local_name(element) == "default-style" and not self.language:
                    self.language = _language(element)

    def _keep(self, element: Element) -> None:
        name = read_attribute(element, "name")
        self._parents.setdefault(name, read_attribute(element, "parent-style-name"))
        self._languages.setdefault(name, _language(element))
        level = read_attribute(element, "default-outline-level")
        if level.isdecimal():
            self._levels.setdefault(name, int(level))

    def join_names(self, style: str) -> str:
        """All names a style goes by, its parents' too, in small letters."""
        names: list[str] = []
        while style and len(names) < 20:
            names.append(style.replace("_20_", " ").lower())
            style = self._parents.get(style, "")
        return "|".join(names)

    def language_of(self, style: str) -> str:
        """The language that a style sets, if it is not the file's own."""
        for _ in range(20):
            if not style:
                return ""
            found = self._languages.get(style, "")
            if found:
                own = found.split("-")[0] == self.language.split("-")[0]
                return "" if own else found
            style = self._parents.get(style, "")
        return ""


class _OdtPage:
    """The tree of a file, on its way to HTML."""

    def __init__(self, styles: _OdtStyles) -> None:
        self._styles = styles
        self._moved: list[tuple[Element, Element]] = []
        """What hangs in a paragraph and stands after it: notes and text boxes, with their tail."""
        self._endnotes = etree.Element("section", {"role": "doc-endnotes"})
        self._num_notes = 0
        self._names: dict[object, str] = {}
        self._languages: dict[str, str] = {}
        self._kinds: dict[str, tuple[str, str]] = {}

    def build(self, root: Element) -> Element:
        body = etree.Element("body")
        for element in root.iter():
            if local_name(element) == "text" and _name_above(element) == "body":
                body.append(element)
        for element in list(body.iterdescendants()):
            self._rename(element)
        last: dict[Element, Element] = {}
        for place, moved in self._moved:
            moved.tail = None
            last.get(place, place).addnext(moved)
            last[place] = moved
        if len(self._endnotes):
            body.append(self._endnotes)
        return body

    def _rename(self, element: Element) -> None:
        name = self._names.get(element.tag)
        if name is None:
            name = self._names[element.tag] = local_name(element)
        if not name or element.tag == "aside":  # of a note, which came before it
            return
        style = read_attribute(element, "style-name") if element.attrib else ""
        if style not in self._languages:
            self._languages[style] = self._styles.language_of(style)
        language = self._languages[style]
        if name in ("p", "h"):
            self._rename_paragraph(element, name, style)
        elif name == "note":
            self._rename_note(element)
        elif name == "table":
            self._rename_table(element)
        elif name == "frame":
            self._rename_frame(element)
        elif name in ("s", "tab"):
            count = read_attribute(element, "c")
            spaces = min(int(count), _MOST_SPACES) if count.isdecimal() else 1
            _become(element, "span")
            element.text = " " * spaces
        else:
            above = element.getparent()
            inline = above is not None and above.tag in _INLINE
            _become(element, _TAGS.get(name) or ("span" if inline else "div"))
        if language:
            element.set("lang", language)

    def _rename_paragraph(self, element: Element, name: str, style: str) -> None:
        if name == "h":
            level = read_attribute(element, "outline-level")
            deep = int(level) if level.isdecimal() and len(level) < 3 else 1
            _become(element, _HEADINGS[min(max(deep, 1), len(_HEADINGS)) - 1])
            return
        if style not in self._kinds:
            self._kinds[style] = self._find_kind(style)
        tag, kind = self._kinds[style]
        _become(element, tag)
        if kind:
            element.set("class", kind)

    def _find_kind(self, style: str) -> tuple[str, str]:
        """The element of paragraphs in a style, and its class."""
        names = self._styles.join_names(style)
        if "|title|" in f"|{names}|":
            return "h1", ""
        return next(((tag, kind) for word, tag, kind in _STYLES if word in names), ("p", ""))

    def _rename_note(self, element: Element) -> None:
        self._num_notes += 1
        identifier = read_attribute(element, "id") or f"note-{self._num_notes}"
        is_endnote = read_attribute(element, "note-class") == "endnote"
        _become(element, "a", href=f"#{identifier}", role="doc-noteref")
        for child in list(element):
            if local_name(child) == "note-body":
                _become(child, "aside", role="doc-footnote", id=identifier)
                if is_endnote:
                    child.tail = None
                    self._endnotes.append(child)
                else:
                    self._move(child, element)
        if not "".join(map(str, element.itertext())).strip():
            element.text = "*"

    def _rename_table(self, element: Element) -> None:
        rows = [each for each in element.iter() if local_name(each) == "table-row"]
        cells = [each for row in rows for each in row if local_name(each) == "table-cell"]
        # One of a single cell is a frame around text.
        if len(cells) == 1:
            _become(element, "div")
        else:
            _become(element, "table", role="table")

    def _rename_frame(self, element: Element) -> None:
        descriptions: dict[str, None] = {}
        for child in list(element):
            name = local_name(child)
            if name in ("title", "desc"):
                descriptions[" ".join("".join(map(str, child.itertext())).split())] = None
            elif name == "text-box":
                _become(child, "div")
                self._move(child, element)
        descriptions.pop("", None)
        _become(element, "img" if descriptions else "script", alt=". ".join(descriptions))

    def _move(self, moved: Element, element: Element) -> None:
        """Mark something to stand after the paragraph or the table that an element is in."""
        place = element
        for above in element.iterancestors():
            if above.tag in _PARAGRAPHS and place is element or above.tag == "table":
                place = above
        self._moved.append((place, moved))


def _become(element: Element, tag: str, **attributes: str) -> None:
    element.tag = tag
    if element.attrib:
        element.attrib.clear()
    if attributes:
        element.attrib.update(attributes)


def _name_above(element: Element) -> str:
    above = element.getparent()
    return "" if above is None else local_name(above)


def _language(element: Element) -> str:
    for each in element:
        if local_name(each) == "text-properties":
            language, country = read_attribute(each, "language"), read_attribute(each, "country")
            if language and language != "none":
                return f"{language}-{country}" if country not in ("", "none") else language
    return ""


def build_metadata(root: Element | None, language: str) -> Metadata:
    fields: dict[str, list[str]] = {}
    for each in root.iter() if root is not None else ():
        text = " ".join((each.text or "").split())
        if text:
            fields.setdefault(local_name(each), []).append(text)

    def first(*names: str) -> str:
        return next((fields[name][0] for name in names if name in fields), "")

    author = first("creator", "initial-creator")
    initial = first("initial-creator")
    return Metadata(
        title=first("title"),
        authors=(initial or author,) if author else (),
        language=first("language") or language,
        description=first("description"),
        publisher=first("publisher"),
        subjects=tuple(fields.get("keyword", ())) or tuple(fields.get("subject", ())),
    )
