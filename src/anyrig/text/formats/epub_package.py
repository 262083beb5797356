"""The package of an EPUB: what it is made of, in which order it is read, what it says of itself.

Hrefs are looked up as forgiving reading systems do: percent signs, another case, backslashes,
and folders that are wrong while the name is right.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from lxml import etree

from anyrig.errors import InvalidInputError
from anyrig.text.document import Metadata, Picture
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.markup import build_blocks
from anyrig.text.formats.markup_elements import CssStyle, find_traits
from anyrig.text.formats.picture import read_cover
from anyrig.text.formats.xml import local_name, parse, parse_page, read_text
from anyrig.text.formats.zipped import ZipArchive

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_PAGES = frozenset(
    "application/xhtml+xml text/html application/x-dtbook+xml text/x-oeb1-document "
    "application/xml text/xml image/svg+xml".split()
)
_PAGE_NAMES = (".xhtml", ".html", ".htm", ".xht", ".xml", ".svg")
_LONGEST_HREF = 4_000
_REMOTE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{1,20}:")


class EpubPlace(NamedTuple):
    """What a reference names: a member of the archive, and an id in it."""

    path: str
    fragment: str = ""

    @property
    def key(self) -> str:
        """In one string."""
        return f"{self.path}#{self.fragment}"


@dataclass(frozen=True)
class ManifestItem:
    """A file of the book."""

    id: str
    path: str
    """Its name in the archive; empty if it is not there."""
    href: str = ""
    media_type: str = "application/xhtml+xml"
    properties: frozenset[str] = frozenset()

    @property
    def is_page(self) -> bool:
        """Whether it may hold text."""
        return self.media_type in _PAGES or (
            self.path.lower().endswith(_PAGE_NAMES) and not self.is_image
        )

    @property
    def is_image(self) -> bool:
        return self.media_type.startswith("image/")


@dataclass
class EpubPackage:
    """What the package file says."""

    archive: ZipArchive
    path: str
    root: Element
    items: dict[str, ManifestItem] = field(default_factory=dict)
    pages: list[ManifestItem] = field(default_factory=list)
    """In reading order."""
    aside: list[ManifestItem] = field(default_factory=list)
    """What stands outside of that order (`linear="no"`)."""
    warnings: list[str] = field(default_factory=list)
    _basenames: dict[str, str] = field(default_factory=dict)

    def resolve(self, base: str, href: str) -> EpubPlace | None:
        """What a reference in a file names; None if it leads out of the book.

        Args:
            base: the path of the file that it stands in.
            href: as it stands there.
        """
        href = href.strip().replace("\\", "/")
        if _REMOTE.match(href) or href.startswith("//") or len(href) > _LONGEST_HREF:
            return None
        plain, _, fragment = href.partition("#")
        plain = plain.partition("?")[0]
        path = self._find_member(base, plain) if plain else base
        return EpubPlace(path, unquote(fragment).strip())

    def _find_member(self, base: str, href: str) -> str:
        joined = _join_path(base, href)
        for wanted in (joined, _join_path(base, unquote(href)), href.lstrip("/"), unquote(href)):
            member = self.archive.find(wanted)
            if member:
                return member
        if not self._basenames:
            self._basenames.update(_unique_basenames(self.archive.names))
        return self._basenames.get(posixpath.basename(unquote(href)).casefold(), joined)


def read_package(archive: ZipArchive, limits: Limits) -> EpubPackage:
    """The package of an archive; without one, its pages in the order of their names."""
    path = _package_path(archive, limits)
    if not path:
        return _build_without_package(archive)
    root = parse(archive.read(path, limits.text_bytes), name=path, limits=limits)
    made = EpubPackage(archive, path, root)
    if not path.lower().endswith(".opf"):
        made.warnings.append(f"the package file is called {path}")
    for element in _iterate_named(root, "item"):
        item = _item(made, element)
        made.items.setdefault(item.id, item)
    _order(made)
    return made


def _iterate_named(root: Element, *names: str) -> Iterator[Element]:
    """All elements of some names, whatever their namespace."""
    return (element for element in root.iter() if local_name(element) in names)


def _package_path(archive: ZipArchive, limits: Limits) -> str:
    container = archive.find("META-INF/container.xml")
    if container:
        try:
            data = archive.read(container, limits.text_bytes)
            root = parse(data, name=container, limits=limits)
        except InvalidInputError:
            root = None
        for element in _iterate_named(root, "rootfile") if root is not None else ():
            member = archive.find((element.get("full-path") or "").strip().lstrip("/"))
            if member:
                return member
    packages = [name for name in archive.names if name.lower().endswith(".opf") and _is_own(name)]
    # The nearest to the top: others may be left over in a folder.
    return min(packages, key=lambda name: (name.count("/"), name), default="")


def _is_own(name: str) -> bool:
    """Whether a member is the book's, and not what a Mac leaves beside each file."""
    return not name.startswith("__MACOSX/") and not posixpath.basename(name).startswith("._")


def _build_without_package(archive: ZipArchive) -> EpubPackage:
    endings = (".xhtml", ".html", ".htm")
    names = [name for name in archive.names if name.lower().endswith(endings) and _is_own(name)]
    if not names:
        raise InvalidInputError(
            f"{archive.name} is an EPUB without a package file and without pages",
            hint="Get another copy of the file: this one is incomplete, or not an EPUB.",
        )
    names.sort(key=lambda name: [int(part) if part.isdecimal() else part.casefold()
                                 for part in re.split(r"(\d{1,9})", name)])  # fmt: skip
    items = {name: ManifestItem(name, name, name) for name in names}
    made = EpubPackage(archive, "", etree.Element("package"), items, list(items.values()))
    made.warnings.append("there is no package file: pages are read in the order of their names")
    return made


def _item(package: EpubPackage, element: Element) -> ManifestItem:
    href = (element.get("href") or "").strip()
    place = package.resolve(package.path, href) if href else None
    path = place.path if place and place.path in package.archive else ""
    return ManifestItem(
        (element.get("id") or href).strip(), path, href,
        (element.get("media-type") or "").strip().lower(),
        frozenset((element.get("properties") or "").split()),
    )  # fmt: skip


def _order(package: EpubPackage) -> None:
    """Fill in what is read, and in which order; each file once."""
    seen: set[str] = set()
    missing: list[str] = []
    num_named = 0
    for element in _iterate_named(package.root, "itemref"):
        num_named += 1
        name = (element.get("idref") or "").strip()
        item = package.items.get(name)
        if item is None or not item.path:
            missing.append(item.href if item else name)
        elif item.path not in seen and item.is_page:
            seen.add(item.path)
            later = (element.get("linear") or "yes").strip().lower() == "no"
            (package.aside if later else package.pages).append(item)
    if missing:
        listed = ", ".join(missing[:5]) + (" ..." if len(missing) > 5 else "")
        package.warnings.append(f"{len(missing)} of {num_named} files are missing: {listed}")
    if not package.pages and not package.aside:
        package.pages = [item for item in package.items.values() if item.path and item.is_page]
        if package.pages:
            package.warnings.append("no reading order is given: files are read as they are listed")


def _join_path(base: str, href: str) -> str:
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(base), href))
    while joined.startswith("../"):
        joined = joined[3:]
    return joined.lstrip("/")


def _unique_basenames(names: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(posixpath.basename(name).casefold(), []).append(name)
    return {base: where[0] for base, where in found.items() if len(where) == 1}


# -- the table of contents -------------------------------------------------------------------------

_NCX = "application/x-dtbncx+xml"
_MOST_ENTRIES = 20_000
_LONGEST_TITLE = 300


class ContentsEntry(NamedTuple):
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
    """The table of contents, of the navigation page (EPUB 3) or the NCX (EPUB 2).

    Where there are two it is the fuller, and the newer of equals.
    """
    navigation = next((each for each in package.items.values() if "nav" in each.properties), None)
    path = navigation.path if navigation else ""
    entries: list[ContentsEntry] = []
    roles = _read_guide(package)
    if path and (root := _parse_contents(package, path, limits)) is not None:
        entries = _read_navigation(package, path, root)
        roles |= _read_landmarks(package, path, root)
    older = _find_ncx(package)
    if older and len({entry.place for entry in entries}) < 2:
        root = _parse_contents(package, older, limits)
        found = _read_ncx(package, older, root) if root is not None else []
        entries = found if len(found) > len(entries) else entries
    return EpubContents(_remove_headings(entries), roles, path)


def _find_ncx(package: EpubPackage) -> str:
    spine = next(_iterate_named(package.root, "spine"), None)
    named = package.items.get((spine.get("toc") or "").strip()) if spine is not None else None
    if named and named.path:
        return named.path
    for item in package.items.values():
        if item.path and (item.media_type == _NCX or item.path.lower().endswith(".ncx")):
            return item.path
    return ""


def _parse_contents(package: EpubPackage, path: str, limits: Limits) -> Element | None:
    try:
        data = package.archive.read(path, limits.text_bytes)
        reader = parse if path.lower().endswith(".ncx") else parse_page
        return reader(data, name=path, limits=limits)
    except InvalidInputError as error:
        package.warnings.append(f"the table of contents cannot be read: {error}")
        return None


def _read_navigation(package: EpubPackage, path: str, root: Element) -> list[ContentsEntry]:
    navigations = list(_iterate_named(root, "nav"))
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
            has_link = next(_iterate_named(element, "a"), None) is not None
            if name == "a" or name == "span" and in_item and not has_link:
                href = element.get("href") if name == "a" else None
                place = package.resolve(path, href) if href else None
                entries.append(ContentsEntry(_title(element), max(depth, 1), place))
    return entries


def _read_ncx(package: EpubPackage, path: str, root: Element) -> list[ContentsEntry]:
    entries: list[ContentsEntry] = []
    depth, titles = 0, [""]
    top = next(_iterate_named(root, "navmap"), root)
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


def _remove_headings(entries: list[ContentsEntry]) -> list[ContentsEntry]:
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
        pictures = (image.get("alt") or "" for image in _iterate_named(element, "img"))
        text = " ".join(" ".join(pictures).split()) or (element.get("title") or "").strip()
    return text[:_LONGEST_TITLE]


def _types(element: Element) -> tuple[str, ...]:
    return find_traits("nav", element.attrib, CssStyle()).types


def _read_guide(package: EpubPackage) -> dict[str, str]:
    roles: dict[str, str] = {}
    for guide in _iterate_named(package.root, "guide"):
        for reference in _iterate_named(guide, "reference"):
            place = package.resolve(package.path, reference.get("href") or "")
            if place and (kind := (reference.get("type") or "").strip().lower()):
                roles.setdefault(place.path, kind)
    return roles


def _read_landmarks(package: EpubPackage, path: str, root: Element) -> dict[str, str]:
    roles: dict[str, str] = {}
    for navigation in _iterate_named(root, "nav"):
        for link in _iterate_named(navigation, "a") if "landmarks" in _types(navigation) else ():
            place = package.resolve(path, link.get("href") or "")
            types = _types(link)
            if place and types and not place.fragment:
                roles.setdefault(place.path, types[0])
    return roles


# -- what it says of itself ------------------------------------------------------------------------

_YEAR = re.compile(r"(?<!\d)([12]\d{3})(?!\d)")
_DATES = ("dcterms:issued", "dcterms:date")
_DATE_RANKS = {
    "original-publication": 0, "publication": 1, "": 2, "modification": 9, "conversion": 9,
}  # fmt: skip
_LONGEST = 20_000
_UNKNOWN = ("und", "mul", "zxx", "unknown", "none")


@dataclass
class _MetadataLine:
    """An element of the metadata."""

    name: str
    text: str
    attributes: dict[str, str]
    """Of `meta`, `property`, or `name` and `content`."""
    refined: dict[str, str] = field(default_factory=dict)
    """What other elements say of it."""

    @property
    def order(self) -> float:
        number = self.refined.get("display-seq", "").strip()
        return float(number) if re.fullmatch(r"\d+(\.\d*)?", number) else 1e9

    @property
    def role(self) -> str:
        role = self.attributes.get("role") or self.refined.get("role", "")
        return role.rpartition(":")[2].strip().lower()


class EpubMetadata:
    """The metadata of a package, as EPUB 2 and EPUB 3 write them."""

    def __init__(self, root: Element) -> None:
        self._unique = (root.get("unique-identifier") or "").strip()
        self._lines = _read_lines(root)
        metas = (line.attributes for line in reversed(self._named("meta")))
        self._metas = {
            each["name"].strip().lower(): each.get("content", "").strip()
            for each in metas
            if "name" in each
        }
        self.cover_name = self._metas.get("cover", "")
        """The id of the cover as EPUB 2 names it, or empty."""

    def build(self) -> Metadata:
        series, index = self._find_series()
        return Metadata(
            title=self._find_title(),
            authors=self._list_authors(),
            language=self._find_language(),
            series=series,
            series_index=re.sub(r"^(\d+)\.0+$", r"\1", index.strip()),
            year=self._find_year(),
            description=_remove_markup(self._first("description")),
            publisher=self._first("publisher"),
            identifier=self._find_identifier(),
            rights=self._first("rights"),
            subjects=tuple(dict.fromkeys(line.text for line in self._find_lines("subject"))),
        )

    def _named(self, name: str) -> list[_MetadataLine]:
        return [line for line in self._lines if line.name == name]

    def _find_lines(self, *names: str) -> list[_MetadataLine]:
        return [line for line in self._lines if line.name in names and line.text]

    def _first(self, name: str) -> str:
        return next((line.text for line in self._find_lines(name)), "")

    def _find_title(self) -> str:
        titles = self._find_lines("title")
        main = [line for line in titles if line.refined.get("title-type", "") == "main"]
        plain = [line for line in titles if "title-type" not in line.refined]
        ordered = sorted(main or plain or titles, key=lambda line: line.order)
        return ordered[0].text if ordered else ""

    def _list_authors(self) -> tuple[str, ...]:
        creators = sorted(self._find_lines("creator"), key=lambda line: line.order)
        chosen = [line for line in creators if line.role in ("aut", "author", "")]
        chosen = chosen or [line for line in self._find_lines("contributor") if line.role == "aut"]
        return tuple(dict.fromkeys(line.text for line in chosen or creators))

    def _find_language(self) -> str:
        codes = (line.text.replace("_", "-") for line in self._find_lines("language"))
        return next((code for code in codes if code.lower() not in _UNKNOWN), "")

    def _find_series(self) -> tuple[str, str]:
        held = [
            line
            for line in self._find_lines("meta")
            if line.attributes.get("property") == "belongs-to-collection"
        ]
        held.sort(key=lambda each: each.refined.get("collection-type", "series") != "series")
        if held:
            return held[0].text, held[0].refined.get("group-position", "")
        series = self._metas.get("calibre:series", "")
        return series, self._metas.get("calibre:series_index", "") if series else ""

    def _find_year(self) -> str:
        dates = self._find_lines("date", "issued")
        dates.sort(key=lambda line: _DATE_RANKS.get(line.attributes.get("event", "").lower(), 3))
        meta = self._find_lines("meta")
        issued = (each for each in meta if each.attributes.get("property") in _DATES)
        years = (_YEAR.search(line.text) for line in (*dates, *issued))
        return next((found[1] for found in years if found), "")

    def _find_identifier(self) -> str:
        found = self._find_lines("identifier")
        found.sort(key=lambda line: line.attributes.get("id", "") != self._unique)
        return found[0].text if found else ""


def _read_lines(root: Element) -> list[_MetadataLine]:
    holder = next(_iterate_named(root, "metadata", "dc-metadata"), None)
    lines: list[_MetadataLine] = []
    refining: list[tuple[str, str, str]] = []
    for element in holder.iter() if holder is not None else ():
        name = local_name(element)
        if not name or name in ("metadata", "dc-metadata", "x-metadata"):
            continue
        text = read_text(element, _LONGEST)
        attributes = {
            key.rpartition("}")[2].rpartition(":")[2]: value
            for key, value in element.attrib.items()
        }
        refines = attributes.get("refines", "").lstrip("#").strip()
        if refines:
            refining.append((refines, attributes.get("property", "").strip(), text))
        else:
            lines.append(_MetadataLine(name, text, attributes))
    by_id = {line.attributes["id"]: line for line in lines if line.attributes.get("id")}
    for target, key, text in refining:
        if target in by_id:
            by_id[target].refined.setdefault(key, text)
    return lines


def _remove_markup(description: str) -> str:
    if "<" not in description and "&" not in description:
        return description
    return "\n\n".join(block.text for block in build_blocks(description) if block.text)


# -- the cover -------------------------------------------------------------------------------------

_LINK = "{http://www.w3.org/1999/xlink}href"
_FEW_WORDS = 30
"""On a first page that is a cover."""


def find_cover(
    package: EpubPackage, contents: EpubContents, name: str, limits: Limits
) -> Picture | None:
    """The first that can be had: EPUB 3's mark, EPUB 2's, the guide, a name, the first page.

    Args:
        package: of the book.
        contents: of the book, which may say what is its cover.
        name: of the cover, as EPUB 2 has it.
        limits: of a page that holds the cover.
    """
    tried: set[str] = set()
    for path in _list_covers(package, contents, name, limits):
        if path not in tried and (picture := read_cover(package.archive, path)):
            return picture
        tried.add(path)
    return None


def _list_covers(
    package: EpubPackage, contents: EpubContents, name: str, limits: Limits
) -> Iterator[str]:
    items = [item for item in package.items.values() if item.path]
    covers = [path for path, role in contents.roles.items() if role in ("cover", "doc-cover")]
    marked: Iterable[ManifestItem] = (
        *(item for item in items if "cover-image" in item.properties),
        *(item for item in items if name and name in (item.id, item.href)),
        *(item for item in items if item.path in covers),
    )
    for item in marked:
        yield from _list_pictures(package, item, limits)
    for item in items:
        if item.is_image and "cover" in f"{item.id} {item.path}".lower():
            yield item.path
    for item in package.pages[:1]:
        yield from _list_pictures(package, item, limits, alone=True)


def _list_pictures(
    package: EpubPackage, item: ManifestItem, limits: Limits, alone: bool = False
) -> Iterator[str]:
    """A picture itself, or the first one of a page; `alone` where it says little."""
    if item.is_image and item.media_type != "image/svg+xml":
        yield item.path
        return
    try:
        root = parse_page(package.archive.read(item.path, 2_000_000), name=item.path, limits=limits)
    except InvalidInputError:
        return
    body = next(_iterate_named(root, "body"), root)
    if alone and len("".join(map(str, body.itertext())).split()) > _FEW_WORDS:
        return
    for element in root.iter():
        href = _find_source(element)
        place = package.resolve(item.path, href) if href else None
        if place and place.path in package.archive:
            yield place.path
            return


def _find_source(element: Element) -> str:
    name = local_name(element)
    if name == "img":
        return element.get("src") or ""
    if name == "image":
        return element.get(_LINK) or element.get("xlink:href") or element.get("href") or ""
    return (element.get("data") or "") if name == "object" else ""
