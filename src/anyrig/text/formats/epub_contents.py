"""The table of contents of an EPUB: of its navigation page (EPUB 3) or its NCX (EPUB 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree

from anyrig.errors import InvalidInputError
from anyrig.text.formats.epub_package import EpubPackage, EpubPlace, ManifestItem, iterate_children
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.markup_elements import CssStyle, find_traits
from anyrig.text.formats.xml import local_name, parse, parse_page, read_text

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_NCX = "application/x-dtbncx+xml"
_MOST_ENTRIES = 20_000
_LONGEST_TITLE = 300


@dataclass(frozen=True)
class ContentsEntry:
    """A line of the table of contents."""

    title: str
    level: int
    place: EpubPlace | None
    """None if it leads nowhere."""


class EpubContents(NamedTuple):
    """What is said of the parts of a book."""

    entries: list[ContentsEntry]
    roles: dict[str, str]
    """Path -> what it is said to be: `cover`, `toc`, `copyright-page`."""
    navigation: str
    """The path of the navigation page, or empty."""


def read_contents(package: EpubPackage, limits: Limits) -> EpubContents:
    """The table of contents; where there are two, the fuller, and the newer of equals."""
    navigation = next((each for each in package.items.values() if "nav" in each.properties), None)
    entries: list[ContentsEntry] = []
    roles = _guide(package)
    if navigation and navigation.path:
        root = _tree(package, navigation, limits)
        if root is not None:
            entries = _from_navigation(package, navigation.path, root)
            roles |= _landmarks(package, navigation.path, root)
    older = _ncx(package)
    if older and len({entry.place for entry in entries}) < 2:
        root = _tree(package, older, limits)
        found = _from_ncx(package, older.path, root) if root is not None else []
        entries = found if len(found) > len(entries) else entries
    path = navigation.path if navigation else ""
    return EpubContents(_without_headings(entries), roles, path)


def _ncx(package: EpubPackage) -> ManifestItem | None:
    spine = next(iterate_children(package.root, "spine"), None)
    named = package.items.get((spine.get("toc") or "").strip()) if spine is not None else None
    if named and named.path:
        return named
    for item in package.items.values():
        if item.path and (item.media_type == _NCX or item.path.lower().endswith(".ncx")):
            return item
    return None


def _tree(package: EpubPackage, item: ManifestItem, limits: Limits) -> Element | None:
    try:
        data = package.archive.read(item.path, limits.text_bytes)
        reader = parse if item.path.lower().endswith(".ncx") else parse_page
        return reader(data, name=item.path, limits=limits)
    except InvalidInputError as error:
        package.warnings.append(f"the table of contents cannot be read: {error}")
        return None


def _from_navigation(package: EpubPackage, path: str, root: Element) -> list[ContentsEntry]:
    navigations = list(iterate_children(root, "nav"))
    wanted = [each for each in navigations if {"toc", "doc-toc"} & set(_types(each))]
    unnamed = [each for each in navigations if not _types(each)]
    chosen = (wanted or unnamed or [root])[0]
    entries: list[ContentsEntry] = []
    depth = 0
    for event, element in etree.iterwalk(chosen, events=("start", "end")):
        name = local_name(element)
        if name in ("ol", "ul"):
            depth += 1 if event == "start" else -1
        elif event == "start" and len(entries) < _MOST_ENTRIES:
            parent = element.getparent()
            in_item = parent is not None and local_name(parent) == "li"
            if name == "a" or name == "span" and in_item and not _has_link(element):
                href = element.get("href") if name == "a" else None
                place = package.resolve(path, href) if href else None
                entries.append(ContentsEntry(_title(element), max(depth, 1), place))
    return entries


def _has_link(element: Element) -> bool:
    return next(iterate_children(element, "a"), None) is not None


def _from_ncx(package: EpubPackage, path: str, root: Element) -> list[ContentsEntry]:
    entries: list[ContentsEntry] = []
    depth, titles = 0, [""]
    top = next(iterate_children(root, "navmap"), root)
    for event, element in etree.iterwalk(top, events=("start", "end")):
        name = local_name(element)
        if name == "navpoint":
            depth += 1 if event == "start" else -1
            titles = [*titles, ""] if event == "start" else titles[:-1]
        elif event == "end" and name == "navlabel" and depth and not titles[-1]:
            titles[-1] = _title(element)
        elif event == "end" and name == "content" and depth and len(entries) < _MOST_ENTRIES:
            entries.append(
                ContentsEntry(titles[-1], depth, package.resolve(path, element.get("src") or ""))
            )
    return entries


def _without_headings(entries: list[ContentsEntry]) -> list[ContentsEntry]:
    """All but those that only stand above others: the levels below them tell of them."""
    after = [*entries[1:], None]
    return [
        entry
        for entry, below in zip(entries, after, strict=False)
        if entry.place or below is None or below.level <= entry.level
    ]


def _title(element: Element) -> str:
    text = " ".join(read_text(element, 2 * _LONGEST_TITLE).replace("\u00ad", "").split())
    if not text:
        pictures = (image.get("alt") or "" for image in iterate_children(element, "img"))
        text = " ".join(" ".join(pictures).split()) or (element.get("title") or "").strip()
    return text[:_LONGEST_TITLE]


def _types(element: Element) -> tuple[str, ...]:
    return find_traits("nav", element.attrib, CssStyle()).types


def _guide(package: EpubPackage) -> dict[str, str]:
    roles: dict[str, str] = {}
    for guide in iterate_children(package.root, "guide"):
        for reference in iterate_children(guide, "reference"):
            place = package.resolve(package.path, reference.get("href") or "")
            if place and (kind := (reference.get("type") or "").strip().lower()):
                roles.setdefault(place.path, kind)
    return roles


def _landmarks(package: EpubPackage, path: str, root: Element) -> dict[str, str]:
    roles: dict[str, str] = {}
    for navigation in iterate_children(root, "nav"):
        if "landmarks" not in _types(navigation):
            continue
        for link in iterate_children(navigation, "a"):
            place = package.resolve(path, link.get("href") or "")
            types = _types(link)
            if place and types and not place.fragment:
                roles.setdefault(place.path, types[0])
    return roles
