"""What an element of a page is, by its name and by what its attributes say of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol

SKIPPED = frozenset(
    "head script style template noscript iframe audio video canvas select datalist textarea button "
    "input rt rp rtc annotation annotation-xml trigger metadata map".split()
)
"""What a browser does not show, and the readings above Japanese words."""
BLOCKS = frozenset(
    "html body p div section article aside header footer main nav h1 h2 h3 h4 h5 h6 hgroup "
    "blockquote ul ol menu dir li dl dt dd table caption thead tbody tfoot tr td th figure "
    "figcaption address details summary fieldset legend form center pre listing xmp hr "
    "search".split()
)
HEADINGS = {f"h{level}": level for level in range(1, 7)}
CONTAINERS = frozenset("html body div section article main header footer figure center".split())
"""Those in which text may stand next to paragraphs."""

_TYPE = "{http://www.idpf.org/2007/ops}type"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_NOTES = frozenset(
    "footnote endnote rearnote note doc-footnote doc-endnote footnotes endnotes rearnotes "
    "doc-endnotes doc-footnotes".split()
)
_MANY_NOTES = frozenset(
    "footnotes endnotes rearnotes doc-endnotes doc-footnotes notes footnote-list".split()
)
_PAGES = frozenset("pagebreak doc-pagebreak".split())
_PAGE_CLASSES = frozenset(
    "pagenum pagenumber page-number page_number page-num page_num pageno pgnum pagebreak-number "
    "x-ebookmaker-pageno newpage pg".split()
)
_POEMS = re.compile(r"(?:z3998:)?(?:poem|verse|song|hymn|lyrics|poetry)$")
_POEM_CLASS = re.compile(r"(?:poem|poetry|verses?|stanza|strophe|lyrics?|linegroup|lg)(?:$|[-_\d])")
_HIDING = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_BLOCKING = re.compile(r"display\s*:\s*(?:block|table|flex|list-item|grid)", re.IGNORECASE)
_AROUND = re.compile(r"^[\[({]?\s*(?:page|pg\.?|p\.|seite)?\s*|[\])}\s.]+$", re.IGNORECASE)
_DIGITS = re.compile(r"(\d+|[ivxlc]+)$", re.IGNORECASE)


class Attributes(Protocol):
    """Those of an element, as a tree has them."""

    def get(self, key: str, /) -> str | None:
        """One of them."""
        ...

    def items(self) -> Iterable[tuple[str, str]]:
        """All of them."""
        ...


class CssStyle(NamedTuple):
    """The little of style sheets that changes what is read: `.class`, `tag.class`, `#id`, `tag`."""

    hidden: frozenset[str] = frozenset()
    blocks: frozenset[str] = frozenset()


class ElementTraits(NamedTuple):
    """What an element's attributes say of it."""

    id: str = ""
    name: str = ""
    classes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    """Of `epub:type` and `role`, in small letters."""
    language: str = ""
    hidden: bool = False
    aside: bool = False
    """Hidden from those who listen only (`aria-hidden`)."""
    block: bool = False
    note: bool = False
    """Whether it is a note, or a list of them."""
    notes: bool = False
    """Whether it is a list of notes."""
    page: bool = False
    """Whether it marks the start of a printed page."""
    poem: bool = False
    """Whether it is a poem or a piece of one."""


NOTHING = ElementTraits()


def find_traits(tag: str, attributes: Attributes, style: CssStyle) -> ElementTraits:
    """The attributes of an element, read.

    Args:
        tag: its name, without a namespace.
        attributes: as the tree has them.
        style: of the page.
    """
    get = attributes.get
    classes = tuple((get("class") or "").lower().split())
    types = (get(_TYPE) or get("epub:type") or "").lower().split()
    # Of the roles only those of books: a web page's "note" is a box in the text.
    types += [each for each in (get("role") or "").lower().split() if each[:4] in ("doc-", "head")]
    inline_style = get("style") or ""
    names = _selectors(tag, classes, get("id") or "") if style.hidden or style.blocks else ()
    return ElementTraits(
        id=(get("id") or "").strip(),
        name=(get("name") or "").strip() if tag == "a" else "",
        classes=classes,
        types=tuple(types),
        language=(get(_LANGUAGE) or get("xml:lang") or get("lang") or "").strip(),
        hidden=_hides(get("hidden"), inline_style) or any(each in style.hidden for each in names),
        aside=(get("aria-hidden") or "").lower() == "true",
        block=bool(_BLOCKING.search(inline_style)) or any(each in style.blocks for each in names),
        note=not _NOTES.isdisjoint(types),
        notes=not _MANY_NOTES.isdisjoint(types),
        page=not (_PAGES.isdisjoint(types) and _PAGE_CLASSES.isdisjoint(classes)),
        poem=any(map(_POEMS.match, types)) or any(map(_POEM_CLASS.match, classes)),
    )


def page_label(traits: ElementTraits, attributes: Attributes, text: str) -> str:
    """The number of the page that an element begins, as it is printed."""
    for given in (attributes.get("title"), attributes.get("aria-label"), text):
        clean = _AROUND.sub("", (given or "").strip())
        if clean:
            return clean[:40]
    found = _DIGITS.search(traits.id or traits.name)
    return found[1].lstrip("0") if found else ""


def _hides(hidden: str | None, style: str) -> bool:
    return hidden is not None and hidden.lower() != "false" or bool(style and _HIDING.search(style))


def _selectors(tag: str, classes: tuple[str, ...], identity: str) -> tuple[str, ...]:
    named = tuple(name for each in classes for name in (f".{each}", f"{tag}.{each}"))
    return (*named, tag, f"#{identity}", f"{tag}#{identity}")


_SIMPLE = re.compile(r"(?:[a-z][a-z0-9]*)?(?:[.#][\w-]+)?$", re.IGNORECASE)


def parse_style_sheets(sheets: list[str]) -> CssStyle:
    """What style sheets hide and what they set on lines of its own."""
    hidden: set[str] = set()
    blocks: set[str] = set()
    for sheet in sheets:
        for rule in _without_comments(sheet).split("}"):
            head, _, body = rule.rpartition("{")
            if "display" not in body and "visibility" not in body:
                continue
            names = {each.strip() for each in re.split("[;{]", head)[-1].split(",")}
            simple = {_normalize_selector(each) for each in names if each and _SIMPLE.match(each)}
            if _HIDING.search(body):
                hidden |= simple
            elif _BLOCKING.search(body) and "float" not in body:  # that is a large first letter
                blocks |= simple
                hidden -= simple
    return CssStyle(frozenset(hidden), frozenset(blocks))


def _normalize_selector(selector: str) -> str:
    """Classes and tags in small letters; an id as it stands."""
    return selector if "#" in selector else selector.lower()


def _without_comments(sheet: str) -> str:
    kept, at = [], 0
    while (start := sheet.find("/*", at)) >= 0:
        kept.append(sheet[at:start])
        end = sheet.find("*/", start + 2)
        if end < 0:
            return " ".join(kept)
        at = end + 2
    return " ".join([*kept, sheet[at:]])
