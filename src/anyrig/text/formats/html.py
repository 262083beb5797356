"""A web page, saved as a file: what it shows, with what surrounds the text named as such.

Nothing of the page's text is left out. A `nav` is a chapter of role `contents`, what stands
before or after the one `main` (or `article`) and in the page's own `header` or `footer` is
`front` or `back`; an `aside` stays where it stands. Scripts and styles are no text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.text.document import Block, Document, Metadata, Role
from anyrig.text.formats import outline
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.markup import build_flow, mark_rules
from anyrig.text.formats.markup_line import MarkupFlow
from anyrig.text.formats.markup_notes import resolve_notes
from anyrig.text.formats.plain import build_empty_error, read_content
from anyrig.text.formats.xml import local_name, parse_page

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_AUTHORS = ("author", "dc.creator", "dcterms.creator", "citation_author", "article:author")
_ARIA = {
    "navigation": "nav", "search": "nav", "banner": "header", "contentinfo": "footer",
    "doc-toc": "nav", "doc-pagelist": "nav", "doc-endnotes": "endnotes",
}  # fmt: skip
# What Sphinx, DocBook, Texinfo and common web frameworks call what stands around the text.
_CLASSES = dict.fromkeys(
    "navheader navfooter nav-panel navbar breadcrumb breadcrumbs sphinxsidebar sidebar-nav toc"
    " toctree-wrapper table-of-contents pagination site-nav menu-main".split(),
    "nav",
) | {"site-footer": "footer", "site-header": "header"}
_TITLES = ("dc.title", "dcterms.title", "og:title", "citation_title")


def read(path: Path, limits: Limits) -> Document:
    """A page as a document."""
    root = parse_page(read_content(path, limits), name=path.name, limits=limits)
    return build_document(root, path.name, "html")


def build_document(root: Element, name: str, form: str, about: Metadata | None = None) -> Document:
    """A document from the tree of a page.

    Args:
        root: from `xml.page`.
        name: of the file, for errors.
        form: what `Document.format` says.
        about: what is known from elsewhere; the page's own head by default.
    """
    marked = list(_find_marked(root))
    read_flow = build_flow(root)
    blocks = resolve_notes([read_flow])[0]
    if form not in ("html", "md"):
        blocks = mark_rules(blocks)
    if not any(block.text for block in blocks):
        raise build_empty_error(name)
    chapters = outline.cut_at_headings(blocks, _roles(read_flow, blocks, marked))
    about = about or _about(root)
    titled = outline.find_title(chapters)
    if titled is not None:
        about = replace(about, title=about.title or chapters[titled].title)
        if form == "md":
            chapters = outline.remove_title(chapters, titled)
    return Document(about, tuple(chapters), format=form)


def _find_marked(root: Element) -> Iterator[tuple[str, str]]:
    """What surrounds the text, by an id that is given to it where it has none, and its name."""
    found = [(element, local_name(element)) for element in root.iter()]
    ids = (f"anyrig-{number}" for number in count(1))
    mains = [element for element, name in found if name == "main" or _is_main(element)]
    mains = mains or [element for element, name in found if name == "article"]
    for element, name in found:
        if kind := _surrounding(element, name):
            yield _id(element, ids), kind
    if len(mains) == 1:
        yield _id(mains[0], ids), "main"


def _surrounding(element: Element, name: str) -> str:
    """What an element is of the page around the text: `nav`, `header`, `footer`, or nothing."""
    if name == "nav" or name in ("header", "footer") and local_name(_above(element)) == "body":
        return name
    if not name or not element.attrib:
        return ""
    if kind := _ARIA.get((element.get("role") or "").lower()):
        return kind
    classes = (element.get("class") or "").lower().split()
    return next((_CLASSES[each] for each in classes if each in _CLASSES), "")


def _above(element: Element) -> Element:
    above = element.getparent()
    return element if above is None else above


def _is_main(element: Element) -> bool:
    return isinstance(element.tag, str) and element.get("role") == "main"


def _id(element: Element, ids: Iterator[str]) -> str:
    name = str(element.get("id") or "")
    if not name:
        name = next(ids)
        element.set("id", name)
    return name


def _roles(
    read_flow: MarkupFlow, blocks: list[Block], marked: list[tuple[str, str]]
) -> dict[int, Role]:
    spans: list[tuple[int, int, Role]] = []
    main = range(len(blocks))
    meant: dict[str, Role] = {
        "nav": "contents", "header": "front", "footer": "back", "endnotes": "notes",
    }  # fmt: skip
    for key, name in marked:
        first, end = read_flow.places.get(key, (0, 0))
        if name == "main" and _holds_most(blocks, first, end):
            main = range(first, min(end, len(blocks)))
        elif name in meant:
            spans.append((first, min(end, len(blocks)), meant[name]))
    roles = _find_innermost(spans, len(blocks))
    for at in (*range(main.start), *range(main.stop, len(blocks))):
        roles.setdefault(at, "front" if at < main.start else "back")
    whole = len(roles) >= len(blocks)
    notes = {at for at, block in enumerate(blocks) if block.kind == "note"}
    return (
        {}
        if whole
        else {at: role for at, role in roles.items() if role == "notes" or at not in notes}
    )


def _find_innermost(spans: list[tuple[int, int, Role]], num_blocks: int) -> dict[int, Role]:
    """The role of the last span that holds a block; nested ones cost no more than others."""
    roles: dict[int, Role] = {}
    free = list(range(num_blocks + 1))  # the next block without a role, or a step on the way to it
    for first, end, role in reversed(spans):
        at = first
        while at < end:
            if free[at] == at:
                roles[at] = role
                free[at] = at + 1
            else:
                free[at] = free[free[at]]
            at = free[at]
    return roles


def _holds_most(blocks: list[Block], first: int, end: int) -> bool:
    inside = sum(len(block.text) for block in blocks[first:end])
    return inside * 2 > sum(len(block.text) for block in blocks)


def _about(root: Element) -> Metadata:
    metas: dict[str, list[str]] = {}
    title = ""
    for element in root.iter():
        name = local_name(element)
        if name == "meta":
            key = (element.get("name") or element.get("property") or "").lower()
            text = " ".join((element.get("content") or "").split())
            if key and text:
                metas.setdefault(key, []).append(text)
        elif name == "title" and not title and local_name(_above(element)) == "head":
            title = " ".join("".join(map(str, element.itertext())).split())

    def first(*names: str) -> str:
        return next((metas[name][0] for name in names if name in metas), "")

    subjects = first("keywords", "dc.subject")
    return Metadata(
        title=first(*_TITLES[:2]) or title or first(*_TITLES[2:]),
        authors=tuple(metas.get(next((name for name in _AUTHORS if name in metas), ""), ())),
        language=_language(root) or first("dc.language", "language"),
        year=first("dc.date", "date", "citation_year")[:4],
        description=first("description", "dc.description", "og:description"),
        publisher=first("dc.publisher", "publisher"),
        rights=first("dc.rights", "copyright"),
        subjects=tuple(word.strip() for word in subjects.split(",") if word.strip()),
    )


def _language(root: Element) -> str:
    for element in (root, *(child for child in root if local_name(child) == "body")):
        for key, value in element.attrib.items():
            if str(key).rpartition("}")[2] in ("lang", "xml:lang") and value:
                return str(value)
    return ""
