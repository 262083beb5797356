"""Kept pages of a removed document are found by their words."""

from __future__ import annotations

from anyrig.documents.ocr.forget import pages_of
from anyrig.documents.ocr.page import Line, ReadPage
from anyrig.storage.cache import CacheEntry


def kept(key: str, *lines: str) -> CacheEntry:
    box = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
    page = ReadPage(tuple(Line(text, box, 1.0) for text in lines), 100, 100)
    return CacheEntry(key, page.to_bytes(), "page")


def test_pages_of_what_is_removed_go_and_others_stay() -> None:
    pages = [
        kept("whole", "The contract of the third of May is void", "and nobody has to pay for it."),
        kept("half known", "The contract of the third of May is vold", "and nobody has to pay it."),
        kept("other", "Dear Ann, the weather on the island", "has been kind to all of us."),
        kept("blank"),
        CacheEntry("odd", b"{}", "page"),
    ]
    texts = ["The contract of the third of May is void and nobody has to pay for it. Signed: Bo."]
    assert list(pages_of(texts, pages)) == ["whole", "half known"]
    assert list(pages_of([], pages)) == []


def test_a_page_of_one_word() -> None:
    assert list(pages_of(["Cover"], [kept("cover", "COVER"), kept("end", "Finis")])) == ["cover"]
