"""The package of an EPUB: what it is made of, and in which order it is read.

Hrefs are looked up as forgiving reading systems do: percent signs, another case, backslashes,
and folders that are wrong while the name is right.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from anyrig.errors import InvalidInputError
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.xml import local_name, parse
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
    href: str
    media_type: str
    properties: frozenset[str]

    @property
    def is_page(self) -> bool:
        """Whether it may hold text."""
        return self.media_type in _PAGES or (
            self.path.lower().endswith(_PAGE_NAMES) and not self.media_type.startswith("image/")
        )

    @property
    def is_image(self) -> bool:
        """Whether it is a picture."""
        return self.media_type.startswith("image/")


@dataclass
class EpubPackage:
    """What the package file says."""

    archive: ZipArchive
    path: str
    root: Element
    items: dict[str, ManifestItem]
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
        path = self._found(base, plain) if plain else base
        return EpubPlace(path, unquote(fragment).strip())

    def _found(self, base: str, href: str) -> str:
        joined = _join_path(base, href)
        for wanted in (joined, _join_path(base, unquote(href)), href.lstrip("/"), unquote(href)):
            member = self.archive.find(wanted)
            if member:
                return member
        if not self._basenames:
            self._basenames.update(_unique_basenames(self.archive.names))
        return self._basenames.get(posixpath.basename(unquote(href)).casefold(), joined)

    def by_path(self, path: str) -> ManifestItem | None:
        """The item of a member."""
        return next((item for item in self.items.values() if item.path == path), None)


def read_package(archive: ZipArchive, limits: Limits) -> EpubPackage:
    """The package of an archive; without one, its pages in the order of their names."""
    path = _package_path(archive, limits)
    if not path:
        return _bare(archive)
    root = parse(archive.read(path, limits.text_bytes), name=path, limits=limits)
    made = EpubPackage(archive, path, root, {})
    if not path.lower().endswith(".opf"):
        made.warnings.append(f"the package file is called {path}")
    for element in iterate_children(root, "item"):
        item = _item(made, element)
        made.items.setdefault(item.id, item)
    _order(made)
    return made


def iterate_children(root: Element, name: str) -> Iterator[Element]:
    """All elements of a name, whatever their namespace."""
    return (element for element in root.iter() if local_name(element) == name)


def _package_path(archive: ZipArchive, limits: Limits) -> str:
    container = archive.find("META-INF/container.xml")
    if container:
        try:
            data = archive.read(container, limits.text_bytes)
            root = parse(data, name=container, limits=limits)
        except InvalidInputError:
            root = None
        for element in iterate_children(root, "rootfile") if root is not None else ():
            member = archive.find((element.get("full-path") or "").strip().lstrip("/"))
            if member:
                return member
    packages = [name for name in archive.names if name.lower().endswith(".opf") and _is_own(name)]
    # The nearest to the top: others may be left over in a folder.
    return min(packages, key=lambda name: (name.count("/"), name), default="")


def _is_own(name: str) -> bool:
    """Whether a member is the book's, and not what a Mac leaves beside each file."""
    return not name.startswith("__MACOSX/") and not posixpath.basename(name).startswith("._")


def _bare(archive: ZipArchive) -> EpubPackage:
    from lxml import etree

    endings = (".xhtml", ".html", ".htm")
    names = [name for name in archive.names if name.lower().endswith(endings) and _is_own(name)]
    if not names:
        raise InvalidInputError(
            f"{archive.name} is an EPUB without a package file and without pages",
            hint="Get another copy of the file: this one is incomplete, or not an EPUB.",
        )
    names.sort(key=lambda name: [int(part) if part.isdecimal() else part.casefold()
                                 for part in re.split(r"(\d{1,9})", name)])  # fmt: skip
    items = {
        name: ManifestItem(name, name, name, "application/xhtml+xml", frozenset()) for name in names
    }
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
    for element in iterate_children(package.root, "itemref"):
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
