"""What a PDF says of itself: its information dictionary and its language."""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING

from anyrig.text.document import Metadata

if TYPE_CHECKING:
    import pypdfium2 as pdfium

# Titles that a program put there, not a person.
_NO_TITLE = re.compile(
    r"microsoft (?:word|powerpoint|excel|publisher)\b.*|powerpoint presentation"
    r"|(?:untitled|unbenannt|sans titre|document|dokument|layout|book|slide|presentation)[\s_-]*\d*"
    r"|.*\.(?:docx?|odt|rtf|txt|tex|dvi|ps|eps|indd|qxd|qxp|pdf|wpd|fm|p65|pmd|html?|xml|sxw)"
    r"|(?:about:blank|https?://|file:|[a-z]:\\).*|none|null|title|\W*",
    re.IGNORECASE,
)
_NO_AUTHOR = re.compile(
    r"(?:unknown|anonymous|user|admin(?:istrator)?|owner|author|root|none|null|\W*)", re.IGNORECASE
)
_YEAR = re.compile(r"(?:D:)?\s*((?:1[5-9]|20)\d\d)")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")


def read_metadata(document: pdfium.PdfDocument) -> Metadata:
    """What the file says of itself, less what its programs said."""
    said = {
        name: _clean(document.get_metadata_value(name))
        for name in ("Title", "Author", "Subject", "Keywords", "CreationDate")
    }
    year = _YEAR.match(said["CreationDate"])
    return Metadata(
        title=title_of(said["Title"]),
        authors=authors_of(said["Author"]),
        language=_language(document),
        year=year[1] if year else "",
        description=said["Subject"],
        subjects=tuple(
            word.strip() for word in re.split(r"[,;]", said["Keywords"]) if word.strip()
        ),
    )


def title_of(said: str) -> str:
    """A title, if a person wrote it."""
    return "" if _NO_TITLE.fullmatch(said) else said


def authors_of(said: str) -> tuple[str, ...]:
    """The people in an author's field."""
    found = (name.strip(" ,") for name in re.split(r"\s*(?:;|&|\band\b|\n)\s*", said))
    return tuple(name for name in found if not _NO_AUTHOR.fullmatch(name))


def _clean(said: str) -> str:
    kept = "".join(letter for letter in said if letter.isprintable() or letter.isspace())
    return " ".join(kept.split())[:2000]


def _language(document: pdfium.PdfDocument) -> str:
    """The catalog's `Lang`, where this PDFium tells it."""
    import pypdfium2.raw as api

    ask = getattr(api, "FPDFCatalog_GetLanguage", None)
    if ask is None:
        return ""
    length = ask(document.raw, None, 0)
    if not 2 < length <= 128:
        return ""
    room = ctypes.create_string_buffer(length)
    ask(document.raw, ctypes.cast(room, ctypes.POINTER(api.FPDF_WCHAR)), length)
    said = room.raw.decode("utf-16-le", "replace").rstrip("\x00").strip()
    return said if _LANGUAGE.fullmatch(said) else ""
