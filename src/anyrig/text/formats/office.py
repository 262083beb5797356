"""What docx and odt share: finding parts, and refusing what only looks like them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.document import Picture
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.xml import parse
from anyrig.text.formats.zipped import Zipped

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


def refuse_old(path: Path, limits: Limits) -> None:
    """Say what a file is that begins as Office's binary ones do: an old one, or a locked one."""
    with path.open("rb") as file:
        if file.read(8) != OLE:
            return
        data = file.read(min(limits.member_bytes, 50_000_000))
    if _ENCRYPTED in data:
        raise ProtectedFileError(
            f"{path.name} is encrypted with a password",
            hint="Open it in Word or LibreOffice, remove the password, and save it again.",
        )
    raise InvalidInputError(
        f"{path.name} is an old Word or Office file, not docx",
        hint="Open it in Word or LibreOffice and save it as docx.",
    )


def part(archive: Zipped, name: str, limits: Limits) -> Element | None:
    """The tree of a part, None where there is none."""
    member = archive.find(name) if name else None
    if member is None:
        return None
    data = archive.read(member, limits.text_bytes)
    if not data.strip():
        return None
    return parse(data, name=f"{member} in {archive.name}", limits=limits)


def attribute(element: Element, name: str) -> str:
    """An attribute by its name without a namespace, as strict and usual files differ in those."""
    for key, value in element.attrib.items():
        if str(key).rpartition("}")[2] == name:
            return str(value)
    return ""


def picture(archive: Zipped, name: str) -> Picture | None:
    """A picture of the archive, if it is of a kind that players show."""
    member = archive.find(name)
    if member is None or archive.size(member) > 20_000_000:
        return None
    data = archive.read(member)
    if data.startswith(b"\xff\xd8\xff"):
        return Picture(data, "image/jpeg")
    return Picture(data, "image/png") if data.startswith(b"\x89PNG") else None
