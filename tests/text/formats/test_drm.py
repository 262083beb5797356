"""Books that their sellers have locked, and one whose fonts are only scrambled."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import ProtectedFileError
from anyrig.text.files import read
from tests.text.epub_maker import Page, epub

_AES = "http://www.w3.org/2001/04/xmlenc#aes128-cbc"
_IDPF = "http://www.idpf.org/2008/embedding"
_ADOBE_FONT = "http://ns.adobe.com/pdf/enc#RC"


def encryption(*entries: tuple[str, str], inside: str = "") -> str:
    made = "".join(
        f'<enc:EncryptedData xmlns:enc="http://www.w3.org/2001/04/xmlenc#">'
        f'<enc:EncryptionMethod Algorithm="{algorithm}"/>{inside}<enc:CipherData>'
        f'<enc:CipherReference URI="{target}"/></enc:CipherData></enc:EncryptedData>'
        for algorithm, target in entries
    )
    return (
        f'<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container">{made}</encryption>'
    )


_ADEPT = (
    '<adept:rights xmlns:adept="http://ns.adobe.com/adept"><licenseToken>'
    "<encryptedKey>AAAA</encryptedKey></licenseToken></adept:rights>"
)
_LOCKED = {
    "Adobe": {
        "META-INF/rights.xml": _ADEPT,
        "META-INF/encryption.xml": encryption((_AES, "OEBPS/c.xhtml")),
    },
    "Apple": {
        "META-INF/sinf.xml": '<fairplay:sinf xmlns:fairplay="http://itunes.apple.com/ns/epub"/>',
        "META-INF/encryption.xml": encryption((_AES, "OEBPS/c.xhtml")),
    },
    "Readium LCP": {
        "META-INF/license.lcpl": '{"id": "x"}',
        "META-INF/encryption.xml": encryption((_AES, "OEBPS/c.xhtml")),
    },
    "Barnes & Noble": {
        "META-INF/rights.xml": _ADEPT.replace("AAAA", "https://www.barnesandnoble.com/x"),
        "META-INF/encryption.xml": encryption((_AES, "OEBPS/c.xhtml")),
    },
    "Kobo": {"META-INF/rights.xml": '<rights><kdrm:kdrm xmlns:kdrm="http://kobo"/></rights>'},
    "unknown": {"META-INF/encryption.xml": encryption((_AES, "OEBPS/c.xhtml"))},
}


@pytest.mark.parametrize("seller", _LOCKED)
def test_a_locked_book_is_refused_with_one_sentence(tmp_path: Path, seller: str) -> None:
    scrambled = Page("c.xhtml", "", raw=bytes(range(256)) * 8)
    path = epub(tmp_path / "book.epub", [scrambled], files=_LOCKED[seller])
    with pytest.raises(ProtectedFileError, match=seller) as caught:
        read(path)
    assert caught.value.message.startswith("book.epub is locked by ")
    assert "\n" not in caught.value.message
    assert "seller" in caught.value.hint


@pytest.mark.parametrize("algorithm", [_IDPF, _ADOBE_FONT])
def test_scrambled_fonts_lock_nothing(tmp_path: Path, algorithm: str) -> None:
    path = epub(
        tmp_path / "book.epub",
        [Page("c.xhtml", "<p>Free to read.</p>")],
        files={
            "META-INF/encryption.xml": encryption((algorithm, "OEBPS/fonts/a.otf")),
            "OEBPS/fonts/a.otf": b"\x01\x02",
            "iTunesMetadata.plist": "<plist/>",
            "META-INF/com.apple.ibooks.display-options.xml": "<display_options/>",
        },
    )
    assert read(path).chapters[0].blocks[0].text == "Free to read."


def test_a_free_statement_of_rights_locks_nothing(tmp_path: Path) -> None:
    path = epub(
        tmp_path / "book.epub",
        [Page("c.xhtml", "<p>Free to read.</p>")],
        files={
            "META-INF/rights.xml": "<rights>In the public domain.</rights>",
            "META-INF/encryption.xml": "<encryption",
        },
    )
    assert read(path).chapters


def test_text_scrambled_as_if_it_were_a_font_is_locked(tmp_path: Path) -> None:
    path = epub(
        tmp_path / "book.epub",
        [Page("c.xhtml", "<p>x</p>")],
        files={"META-INF/encryption.xml": encryption((_IDPF, "OEBPS/c.xhtml"))},
    )
    with pytest.raises(ProtectedFileError, match="unknown kind"):
        read(path)
