"""The cover of an EPUB, by any of the ways that books name it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.text.document import Picture
from anyrig.text.formats.epub_contents import Contents
from anyrig.text.formats.epub_metadata import cover_name
from anyrig.text.formats.epub_package import Item, Package
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.xml import local, page

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_MOST_BYTES = 40_000_000
_LINK = "{http://www.w3.org/1999/xlink}href"


def cover(package: Package, contents: Contents, limits: Limits) -> Picture | None:
    """The first that can be had: EPUB 3's mark, EPUB 2's, the guide, a name, the first page."""
    tried: set[str] = set()
    for path in _candidates(package, contents, limits):
        if path in tried:
            continue
        tried.add(path)
        picture = _picture(package, path)
        if picture:
            return picture
    return None


def picture_type(data: bytes) -> str:
    """The media type of a picture by its first bytes; empty if it is none that players show."""
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def _candidates(package: Package, contents: Contents, limits: Limits) -> Iterator[str]:
    items = list(package.items.values())
    for item in items:
        if "cover-image" in item.properties:
            yield from _pictures_of(package, item, limits)
    name = cover_name(package.root)
    for item in items:
        if name and name in (item.id, item.href):
            yield from _pictures_of(package, item, limits)
    said = [path for path, role in contents.roles.items() if role in ("cover", "doc-cover")]
    for item in items:
        if item.path and item.path in said:
            yield from _pictures_of(package, item, limits)
    for item in items:
        if item.is_image and "cover" in f"{item.id} {item.path}".lower():
            yield item.path
    for item in package.pages[:1]:
        yield from _pictures_of(package, item, limits, alone=True)


def _pictures_of(
    package: Package, item: Item, limits: Limits, alone: bool = False
) -> Iterator[str]:
    """A picture itself, or the first one of a page."""
    if not item.path:
        return
    if item.is_image and item.media_type != "image/svg+xml":
        yield item.path
        return
    try:
        root = page(package.archive.read(item.path, 2_000_000), name=item.path, limits=limits)
    except InvalidInputError:
        return
    if alone and _says_much(root):
        return
    for element in root.iter():
        href = _source(element)
        place = package.resolve(item.path, href) if href else None
        if place and place.path in package.archive:
            yield place.path
            return


def _source(element: Element) -> str:
    name = local(element)
    if name == "img":
        return element.get("src") or ""
    if name == "image":
        return element.get(_LINK) or element.get("xlink:href") or element.get("href") or ""
    return (element.get("data") or "") if name == "object" else ""


def _says_much(root: Element) -> bool:
    body = next((each for each in root.iter() if local(each) == "body"), root)
    return len("".join(body.itertext()).split()) > 30


def _picture(package: Package, path: str) -> Picture | None:
    if path not in package.archive or package.archive.size(path) > _MOST_BYTES:
        return None
    try:
        data = package.archive.read(path)
    except InvalidInputError:
        return None
    kind = picture_type(data)
    return Picture(data, kind) if kind else None
