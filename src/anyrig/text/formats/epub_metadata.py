"""What an EPUB says of itself, as EPUB 2 and EPUB 3 write it, and its cover."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.text.document import Metadata, Picture
from anyrig.text.formats.epub_contents import EpubContents
from anyrig.text.formats.epub_package import EpubPackage, ManifestItem
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.markup import build_blocks
from anyrig.text.formats.xml import local_name, parse_page, read_text

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_YEAR = re.compile(r"(?<!\d)([12]\d{3})(?!\d)")
_DATES = ("dcterms:issued", "dcterms:date")
_LONGEST = 20_000
_UNKNOWN = ("und", "mul", "zxx", "unknown", "none")


@dataclass
class _MetadataLine:
    """An element of the metadata, with what refines it."""

    name: str
    text: str
    id: str
    attributes: dict[str, str]
    refined: dict[str, str] = field(default_factory=dict)

    @property
    def order(self) -> float:
        return _number(self.refined.get("display-seq", ""))

    @property
    def role(self) -> str:
        role = self.attributes.get("role") or self.refined.get("role", "")
        return role.rpartition(":")[2].strip().lower()


def read_metadata(root: Element) -> Metadata:
    """The metadata of a package.

    Args:
        root: of the package file.
    """
    lines = _lines(root)
    series, index = _series(lines)
    return Metadata(
        title=_title(lines),
        authors=_authors(lines),
        language=_language(lines),
        series=series,
        series_index=index,
        year=_year(lines),
        description=_plain(_first(lines, "description")),
        publisher=_first(lines, "publisher"),
        identifier=_identifier(root, lines),
        rights=_first(lines, "rights"),
        subjects=tuple(dict.fromkeys(_texts(lines, "subject"))),
    )


def find_cover_name(root: Element) -> str:
    """The id of the cover as EPUB 2 names it, or empty."""
    for line in _lines(root):
        if line.name == "meta" and line.attributes.get("name", "").strip().lower() == "cover":
            return line.attributes.get("content", "").strip()
    return ""


def _lines(root: Element) -> list[_MetadataLine]:
    holder = next(
        (each for each in root.iter() if local_name(each) in ("metadata", "dc-metadata")), None
    )
    if holder is None:
        return []
    lines: list[_MetadataLine] = []
    refining: list[tuple[str, str, str]] = []
    for element in holder.iter():
        name = local_name(element)
        if not name or name in ("metadata", "dc-metadata", "x-metadata"):
            continue
        text = read_text(element, _LONGEST)
        attributes = {strip_namespace(key): value for key, value in element.attrib.items()}
        refines = attributes.get("refines", "").lstrip("#").strip()
        if refines:
            refining.append((refines, attributes.get("property", "").strip(), text))
        else:
            lines.append(_MetadataLine(name, text, attributes.get("id", ""), attributes))
    by_id = {line.id: line for line in lines if line.id}
    for target, key, text in refining:
        if target in by_id:
            by_id[target].refined.setdefault(key, text)
    return lines


def strip_namespace(key: str) -> str:
    """An attribute's name without a namespace or prefix."""
    return key.rpartition("}")[2].rpartition(":")[2]


def _texts(lines: list[_MetadataLine], name: str) -> list[str]:
    return [line.text for line in lines if line.name == name and line.text]


def _first(lines: list[_MetadataLine], name: str) -> str:
    return next(iter(_texts(lines, name)), "")


def _title(lines: list[_MetadataLine]) -> str:
    titles = [line for line in lines if line.name == "title" and line.text]
    main = [line for line in titles if line.refined.get("title-type", "") == "main"]
    plain = [line for line in titles if "title-type" not in line.refined]
    ordered = sorted(main or plain or titles, key=lambda line: line.order)
    return ordered[0].text if ordered else ""


def _authors(lines: list[_MetadataLine]) -> tuple[str, ...]:
    creators = sorted(
        (line for line in lines if line.name == "creator" and line.text),
        key=lambda line: line.order,
    )
    helping = [line for line in lines if line.name == "contributor" and line.text]
    chosen = [line for line in creators if line.role in ("aut", "author", "")]
    chosen = chosen or [line for line in helping if line.role == "aut"] or creators
    return tuple(dict.fromkeys(line.text for line in chosen))


def _language(lines: list[_MetadataLine]) -> str:
    for text in _texts(lines, "language"):
        code = text.replace("_", "-")
        if code.lower() not in _UNKNOWN:
            return code
    return ""


def _series(lines: list[_MetadataLine]) -> tuple[str, str]:
    metas = [line for line in lines if line.name == "meta"]
    held = [each for each in metas if each.attributes.get("property") == "belongs-to-collection"]
    held.sort(key=lambda each: each.refined.get("collection-type", "series") != "series")
    for line in held:
        if line.text:
            return line.text, _index(line.refined.get("group-position", ""))
    named = {
        line.attributes.get("name", "").strip().lower(): line.attributes.get("content", "").strip()
        for line in reversed(metas)
    }
    series = named.get("calibre:series", "")
    return series, _index(named.get("calibre:series_index", "")) if series else ""


def _index(written: str) -> str:
    """`3.0` is the third; `2.5` and `1.2.3` stay."""
    return re.sub(r"^(\d+)\.0+$", r"\1", written.strip())


def _year(lines: list[_MetadataLine]) -> str:
    dates = [line for line in lines if line.name in ("date", "issued") and line.text]
    dates.sort(key=lambda line: _date_rank(line.attributes.get("event", "").lower()))
    issued = [
        line.text for line in lines
        if line.name == "meta" and line.attributes.get("property") in _DATES
    ]  # fmt: skip
    for text in (*(line.text for line in dates), *issued):
        found = _YEAR.search(text)
        if found:
            return found[1]
    return ""


def _date_rank(event: str) -> int:
    ranks = {"original-publication": 0, "publication": 1, "": 2}
    return ranks.get(event, 9 if event in ("modification", "conversion") else 3)


def _identifier(root: Element, lines: list[_MetadataLine]) -> str:
    wanted = (root.get("unique-identifier") or "").strip()
    found = [line for line in lines if line.name == "identifier" and line.text]
    found.sort(key=lambda line: line.id != wanted)
    return found[0].text if found else ""


def _plain(description: str) -> str:
    """A description without its mark-up."""
    if "<" not in description and "&" not in description:
        return description
    return "\n\n".join(block.text for block in build_blocks(description) if block.text)


def _number(written: str) -> float:
    try:
        return float(written)
    except ValueError:
        return 1e9


# -- the cover -------------------------------------------------------------------------------------

_MOST_BYTES = 40_000_000
_LINK = "{http://www.w3.org/1999/xlink}href"


def find_cover(package: EpubPackage, contents: EpubContents, limits: Limits) -> Picture | None:
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


def detect_picture_type(data: bytes) -> str:
    """The media type of a picture by its first bytes; empty if it is none that players show."""
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def _candidates(package: EpubPackage, contents: EpubContents, limits: Limits) -> Iterator[str]:
    items = list(package.items.values())
    for item in items:
        if "cover-image" in item.properties:
            yield from _pictures_of(package, item, limits)
    name = find_cover_name(package.root)
    for item in items:
        if name and name in (item.id, item.href):
            yield from _pictures_of(package, item, limits)
    covers = [path for path, role in contents.roles.items() if role in ("cover", "doc-cover")]
    for item in items:
        if item.path and item.path in covers:
            yield from _pictures_of(package, item, limits)
    for item in items:
        if item.is_image and "cover" in f"{item.id} {item.path}".lower():
            yield item.path
    for item in package.pages[:1]:
        yield from _pictures_of(package, item, limits, alone=True)


def _pictures_of(
    package: EpubPackage, item: ManifestItem, limits: Limits, alone: bool = False
) -> Iterator[str]:
    """A picture itself, or the first one of a page."""
    if not item.path:
        return
    if item.is_image and item.media_type != "image/svg+xml":
        yield item.path
        return
    try:
        root = parse_page(package.archive.read(item.path, 2_000_000), name=item.path, limits=limits)
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
    name = local_name(element)
    if name == "img":
        return element.get("src") or ""
    if name == "image":
        return element.get(_LINK) or element.get("xlink:href") or element.get("href") or ""
    return (element.get("data") or "") if name == "object" else ""


def _says_much(root: Element) -> bool:
    body = next((each for each in root.iter() if local_name(each) == "body"), root)
    return len("".join(body.itertext()).split()) > 30


def _picture(package: EpubPackage, path: str) -> Picture | None:
    if path not in package.archive or package.archive.size(path) > _MOST_BYTES:
        return None
    try:
        data = package.archive.read(path)
    except InvalidInputError:
        return None
    kind = detect_picture_type(data)
    return Picture(data, kind) if kind else None
