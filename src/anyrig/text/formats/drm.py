"""Whether a book is locked by its seller: it is then refused, with one sentence that says by whom.

Locks are never opened here. Fonts that are only scrambled, as IDPF and Adobe do it, lock nothing:
the text is there for everyone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.xml import local_name, parse
from anyrig.text.formats.zipped import ZipArchive

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_SCRAMBLED_FONT = frozenset(
    ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
)
_TEXT = (".xhtml", ".html", ".htm", ".xml", ".opf", ".ncx", ".css", ".svg", ".xht")
_MOST_BYTES = 8_000_000
# What a rights file says, and whose lock it is then; the first that fits.
_RIGHTS = (
    (re.compile(rb"barnesandnoble|\bbn\.com", re.IGNORECASE), "Barnes & Noble's DRM"),
    (re.compile(rb"kdrm|kobo", re.IGNORECASE), "Kobo's DRM"),
    (re.compile(rb"adept|adobe|licenseToken|encryptedKey", re.IGNORECASE), "Adobe's DRM (ADEPT)"),
)
_HINT = "Open it in the seller's own program, or ask the seller for a copy without DRM."


def refuse(archive: ZipArchive, limits: Limits) -> None:
    """`ProtectedFileError` if an archive's text is locked.

    Args:
        archive: of an EPUB.
        limits: of what is read of it.
    """
    seller = _find_owner_of_lock(archive)
    if not seller and _is_encrypted(archive, limits):
        seller = "DRM of an unknown kind"
    if seller:
        raise ProtectedFileError(
            f"{archive.name} is protected by {seller}: it cannot be read", hint=_HINT
        )


def _find_owner_of_lock(archive: ZipArchive) -> str:
    """Whose lock the files beside the text speak of."""
    if _find(archive, "META-INF/sinf.xml"):
        return "Apple's DRM (FairPlay)"
    if _find(archive, "META-INF/license.lcpl"):
        return "Readium LCP"
    rights = _read(archive, "META-INF/rights.xml")
    for pattern, seller in _RIGHTS:
        if pattern.search(rights):
            return seller
    encryption = _read(archive, "META-INF/encryption.xml")
    if b"itunes.apple.com" in encryption:
        return "Apple's DRM (FairPlay)"
    return "Readium LCP" if b"readium.org/2014/01/lcp" in encryption else ""


def _is_encrypted(archive: ZipArchive, limits: Limits) -> bool:
    data = _read(archive, "META-INF/encryption.xml")
    if not data:
        return False
    try:
        root = parse(data, name="encryption.xml", limits=limits)
    except InvalidInputError:
        return False  # the text itself will show whether it can be read
    return any(_locks(element) for element in root.iter() if local_name(element) == "encrypteddata")


def _locks(encrypted: Element) -> bool:
    """Whether one entry is more than a scrambled font."""
    algorithm, target = "", ""
    for element in encrypted.iter():
        name = local_name(element)
        if name == "encryptionmethod" and not algorithm:
            algorithm = element.get("Algorithm") or ""
        elif name == "cipherreference":
            target = unquote(element.get("URI") or "").lower()
    return algorithm not in _SCRAMBLED_FONT or target.endswith(_TEXT)


def _read(archive: ZipArchive, name: str) -> bytes:
    member = _find(archive, name)
    if member is None or archive.size(member) > _MOST_BYTES:
        return b""
    return archive.read(member)


def _find(archive: ZipArchive, name: str) -> str | None:
    """A member, also where all of the book lies in one folder."""
    ending = f"/{name}".casefold()
    inside = (each for each in archive.names if each.casefold().endswith(ending))
    return archive.find(name) or next(inside, None)
