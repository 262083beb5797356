"""OpenDocument text (odt): headings by outline level, lists, tables, notes, frames and metadata.

Footnotes stand after the paragraph that refers to them, endnotes in a chapter at the end.
Annotations and deleted text are left out; insertions stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.document import Block, BlockKind, Chapter, Document, Metadata, Role
from anyrig.text.formats import outline
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.office import attribute, part, picture
from anyrig.text.formats.paragraphs import is_rule
from anyrig.text.formats.runs import Run, Woven, table, woven
from anyrig.text.formats.xml import local
from anyrig.text.formats.zipped import Zipped, opened

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_CONTENTS = frozenset(
    "table-of-content illustration-index table-index object-index user-index"
    " alphabetical-index bibliography".split()
)
_OUT = frozenset(
    "annotation annotation-end tracked-changes deletion page-number page-count sequence-decls"
    " forms index-title-template bookmark ruby-text variable-decls user-field-decls".split()
)
_MOST_SPACES = 100


def read(path: Path, limits: Limits) -> Document:
    """An odt as a document."""
    with opened(path, limits) as archive:
        _refuse_locked(archive, limits)
        root = part(archive, "content.xml", limits)
        if root is None:
            raise InvalidInputError(
                f"{path.name} has no text part", hint="Open it in LibreOffice and save it again."
            )
        styles = _Styles(root, part(archive, "styles.xml", limits))
        about = _about(part(archive, "meta.xml", limits), styles.language)
        cover = picture(archive, "Thumbnails/thumbnail.png")
    return Document(about, tuple(_Reader(styles).chapters(root)), cover, "odt")


def _refuse_locked(archive: Zipped, limits: Limits) -> None:
    manifest = part(archive, "META-INF/manifest.xml", limits)
    if manifest is None:
        return
    for each in manifest.iter():
        if local(each) in ("encryption-data", "encrypteddata", "keyinfo"):
            raise ProtectedFileError(
                f"{archive.name} is encrypted with a password",
                hint="Open it in LibreOffice, and save it again without a password.",
            )


class _Styles:
    """What styles are called and based on, and the languages they set."""

    def __init__(self, *roots: Element | None) -> None:
        self._parents: dict[str, str] = {}
        self._languages: dict[str, str] = {}
        self._levels: dict[str, int] = {}
        self.language = ""
        for root in roots:
            for element in root.iter() if root is not None else ():
                if local(element) == "style":
                    self._keep(element)
                elif local(element) == "default-style" and not self.language:
                    self.language = _language(element)

    def _keep(self, element: Element) -> None:
        name = attribute(element, "name")
        self._parents.setdefault(name, attribute(element, "parent-style-name"))
        self._languages.setdefault(name, _language(element))
        level = attribute(element, "default-outline-level")
        if level.isdecimal():
            self._levels.setdefault(name, int(level))

    def named(self, style: str) -> str:
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


class _Reader:
    """One file on its way to blocks."""

    def __init__(self, styles: _Styles) -> None:
        self._styles = styles
        self._blocks: list[Block] = []
        self._roles: dict[int, Role] = {}
        self._notes: list[Block] = []
        self._ends: list[Block] = []
        self._aside: list[Element] = []

    def chapters(self, root: Element) -> list[Chapter]:
        """All that the body holds."""
        for element in root.iter():
            if local(element) == "text" and local_parent(element) == "body":
                self._take(element, "paragraph")
        start = len(self._blocks)
        self._blocks += self._ends
        self._roles.update(dict.fromkeys(range(start, len(self._blocks)), "notes"))
        return outline.chapters(self._blocks, self._roles)

    def _take(self, element: Element, kind: BlockKind) -> None:
        for child in element:
            name = local(child)
            if name in ("p", "h"):
                self._paragraph(child, name, kind)
            elif name == "table":
                self._table(child)
            elif name in ("list", "list-item", "list-header"):
                self._take(child, "item")
            elif name in _CONTENTS:
                start = len(self._blocks)
                self._take(child, kind)
                self._roles.update(dict.fromkeys(range(start, len(self._blocks)), "contents"))
            elif name == "frame":
                self._frame(child)
            elif name not in _OUT:
                self._take(child, kind)  # sections, index bodies, text boxes, insertions

    def _paragraph(self, element: Element, name: str, kind: BlockKind) -> None:
        style = attribute(element, "style-name")
        level = attribute(element, "outline-level") if name == "h" else ""
        found = self._kind(self._styles.named(style), kind)
        said = self._said(element, lines=found in ("poem", "code"))
        if name == "h":
            deep = min(max(int(level), 1), 10) if level.isdecimal() and len(level) < 3 else 1
            self._add(said, "heading", deep, style)
        else:
            self._add(said, found, int("|title|" in f"|{self._styles.named(style)}|"), style)
        self._hang()

    def _kind(self, names: str, kind: BlockKind) -> BlockKind:
        kinds: tuple[tuple[str, BlockKind], ...] = (
            ("quot", "quote"),
            ("preformatted", "code"),
            ("verse", "poem"),
            ("poem", "poem"),
            ("poetry", "poem"),
        )
        if f"|{names}|".find("|title|") >= 0:
            return "heading"
        return next((found for word, found in kinds if word in names), kind)

    def _add(self, said: Woven, kind: BlockKind, level: int, style: str) -> None:
        if not said.text:
            return
        if kind == "paragraph" and is_rule(said.text):
            kind = "rule"
        language = said.language or self._styles.language_of(style)
        self._blocks.append(Block(said.text, kind, level, language, inlines=said.inlines))

    def _hang(self) -> None:
        """What was met inside a paragraph and is none of its words: notes, frames."""
        self._blocks += self._notes
        self._notes = []
        aside, self._aside = self._aside, []
        for frame in aside:
            self._frame(frame)

    def _said(self, element: Element, *, lines: bool = False) -> Woven:
        return woven(self._runs(element, ""), lines=lines)

    def _runs(self, element: Element, language: str) -> Iterator[Run]:
        if element.text:
            yield Run(_flat(element.text), language=language)
        for child in element:
            yield from self._run(child, language)
            if child.tail:
                yield Run(_flat(child.tail), language=language)

    def _run(self, child: Element, language: str) -> Iterator[Run]:
        name = local(child)
        if name == "s":
            count = attribute(child, "c")
            yield Run(" " * (min(int(count), _MOST_SPACES) if count.isdecimal() else 1))
        elif name in ("tab", "line-break"):
            yield Run(" " if name == "tab" else "\n")
        elif name == "note":
            yield self._note(child)
        elif name in ("frame", "a-frame"):
            self._aside.append(child)
        elif name not in _OUT:
            own = self._styles.language_of(attribute(child, "style-name"))
            yield from self._runs(child, own or language)

    def _note(self, element: Element) -> Run:
        name = attribute(element, "id") or f"note-{len(self._notes) + len(self._ends) + 1}"
        mark = ""
        for child in element:
            if local(child) == "note-citation":
                mark = "".join(child.itertext()).strip()
            elif local(child) == "note-body":
                kept = self._ends if attribute(element, "note-class") == "endnote" else self._notes
                kept.extend(self._note_blocks(child, name))
        return Run(mark or "*", "noteref", name)

    def _note_blocks(self, body: Element, name: str) -> list[Block]:
        made = []
        for each in _deep(body, "p", "h"):  # one inside another is said with it
            said = self._said(each)
            if said.text:
                made.append(Block(said.text, "note", 0, said.language, name, 0, said.inlines))
        return made

    def _table(self, element: Element) -> None:
        rows = [[list(_deep(cell, "p", "h")) for cell in row] for row in _rows(element)]
        filled = [
            [[run for each in cell for run in (Run(" "), *self._runs(each, ""))] for cell in row]
            for row in rows
        ]
        if len(rows) == 1 and len(rows[0]) == 1:
            for each in rows[0][0]:
                self._paragraph(each, local(each), "paragraph")
            return
        self._add(table(filled), "table", 0, "")
        self._hang()

    def _frame(self, element: Element) -> None:
        said: list[str] = []
        for child in element:
            if local(child) in ("title", "desc"):
                text = " ".join("".join(child.itertext()).split())
                if text and text not in said:
                    said.append(text)
        if said:
            self._blocks.append(Block(". ".join(said), "image"))
        for child in element:
            if local(child) == "text-box":
                self._take(child, "paragraph")


def local_parent(element: Element) -> str:
    """The name of what an element stands in."""
    above = element.getparent()
    return "" if above is None else local(above)


def _flat(text: str) -> str:
    """Line ends in the file are no line ends of the text."""
    return text.replace("\n", " ")


def _rows(element: Element) -> Iterator[list[Element]]:
    for row in _deep(element, "table-row"):
        yield [cell for cell in row if local(cell) == "table-cell"]


def _deep(element: Element, *names: str) -> Iterator[Element]:
    """The elements of some names below one, not those inside another of them."""
    stack = list(reversed(element))
    while stack:
        each = stack.pop()
        name = local(each)
        if name in names:
            yield each
        elif name not in _OUT:
            stack.extend(reversed(each))


def _language(element: Element) -> str:
    for each in element:
        if local(each) == "text-properties":
            language, country = attribute(each, "language"), attribute(each, "country")
            if language and language != "none":
                return f"{language}-{country}" if country not in ("", "none") else language
    return ""


def _about(root: Element | None, language: str) -> Metadata:
    said: dict[str, list[str]] = {}
    for each in root.iter() if root is not None else ():
        text = " ".join((each.text or "").split())
        if text:
            said.setdefault(local(each), []).append(text)

    def first(*names: str) -> str:
        return next((said[name][0] for name in names if name in said), "")

    author = first("creator", "initial-creator")
    initial = first("initial-creator")
    return Metadata(
        title=first("title"),
        authors=(initial or author,) if author else (),
        language=first("language") or language,
        description=first("description"),
        publisher=first("publisher"),
        subjects=tuple(said.get("keyword", ())) or tuple(said.get("subject", ())),
    )
