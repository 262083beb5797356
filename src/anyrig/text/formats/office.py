"""What docx, pptx and odt share: finding parts, and what Office files say of themselves."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import TYPE_CHECKING

from anyrig.text.document import Metadata, Picture
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.picture import read_cover
from anyrig.text.formats.xml import local_name, parse
from anyrig.text.formats.zipped import ZipArchive

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


def read_part(archive: ZipArchive, name: str, limits: Limits) -> Element | None:
    """The tree of a part, None where there is none."""
    member = archive.find(name) if name else None
    if member is None:
        return None
    data = archive.read(member, limits.text_bytes)
    if not data.strip():
        return None
    return parse(data, name=f"{member} in {archive.name}", limits=limits)


def read_attribute(element: Element, name: str) -> str:
    """An attribute by its name without a namespace, as strict and usual files differ in those."""
    for key, value in element.attrib.items():
        if str(key).rpartition("}")[2] == name:
            return str(value)
    return ""


def list_targets(archive: ZipArchive, of: str, limits: Limits) -> dict[str, str]:
    """The parts that another one names, by the ids of the relations."""
    return {
        read_attribute(each, "Id"): _resolve(of, read_attribute(each, "Target"))
        for each in _relations(archive, of, limits)
    }


def find_target(archive: ZipArchive, of: str, kind: str, limits: Limits) -> str:
    """The part that stands in a relation to another one, by the file's own table or by custom."""
    for each in _relations(archive, of, limits):
        if read_attribute(each, "Type").rpartition("/")[2] == kind:
            return _resolve(of, read_attribute(each, "Target"))
    return posixpath.join(posixpath.dirname(of), f"{kind}.xml") if of else ""


def _relations(archive: ZipArchive, of: str, limits: Limits) -> Iterable[Element]:
    folder, base = posixpath.split(of)
    root = read_part(archive, posixpath.join(folder, "_rels", f"{base}.rels"), limits)
    return () if root is None else root


def _resolve(of: str, target: str) -> str:
    if target.startswith("/"):
        return target.lstrip("/")
    return posixpath.normpath(posixpath.join(posixpath.dirname(of), target))


def read_metadata(archive: ZipArchive, limits: Limits) -> tuple[Metadata, Picture | None]:
    """What an Office file says of itself, and its preview."""
    core = find_target(archive, "", "core-properties", limits) or "docProps/core.xml"
    root = read_part(archive, core, limits)
    fields: dict[str, str] = {}
    for each in root if root is not None else ():
        fields.setdefault(local_name(each), " ".join((each.text or "").split()))
    authors = tuple(name.strip() for name in fields.get("creator", "").split(";") if name.strip())
    subjects = fields.get("keywords", "") or fields.get("subject", "")
    metadata = Metadata(
        title=fields.get("title", ""),
        authors=authors,
        language=fields.get("language", ""),
        description=fields.get("description", ""),
        identifier=fields.get("identifier", ""),
        subjects=tuple(word.strip() for word in subjects.split(",") if word.strip()),
    )
    shown = find_target(archive, "", "thumbnail", limits)
    return metadata, read_cover(archive, shown) if shown else None
