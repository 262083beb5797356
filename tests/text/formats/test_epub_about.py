"""What an EPUB says of itself, and its cover, in the ways of EPUB 2 and EPUB 3."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.text.document import About
from anyrig.text.files import read
from tests.text.epub_maker import JPEG, PNG, Page, epub

TEXT = Page("c.xhtml", "<h1>One</h1><p>Text of the book.</p>")


def about(tmp_path: Path, metadata: str, version: int = 3) -> About:
    return read(epub(tmp_path / "a.epub", [TEXT], metadata=metadata, version=version)).about


def test_epub_2_says_it_with_attributes(tmp_path: Path) -> None:
    assert about(
        tmp_path,
        """<dc:title>The Book</dc:title>
        <dc:creator opf:role="ill">Ilse</dc:creator>
        <dc:creator opf:role="aut" opf:file-as="Writer, Anna">Anna Writer</dc:creator>
        <dc:creator opf:role="aut">Bo Writer</dc:creator>
        <dc:contributor opf:role="trl">Tom</dc:contributor>
        <dc:language>en_GB</dc:language>
        <dc:date opf:event="modification">2020-01-01</dc:date>
        <dc:date opf:event="publication">1898</dc:date>
        <dc:description>&lt;p&gt;One &lt;b&gt;fine&lt;/b&gt; day.&lt;/p&gt;&lt;p&gt;Two&lt;/p&gt;
        </dc:description>
        <dc:publisher>House</dc:publisher><dc:rights>Public domain</dc:rights>
        <dc:subject>Fiction</dc:subject><dc:subject>Sea</dc:subject><dc:subject>Sea</dc:subject>
        <dc:identifier>other</dc:identifier><dc:identifier id="uid">urn:isbn:1</dc:identifier>
        <meta name="calibre:series" content="Saga"/>
        <meta name="calibre:series_index" content="2.0"/>""",
        version=2,
    ) == About(
        "The Book", ("Anna Writer", "Bo Writer"), "en-GB", "Saga", "2", "1898",
        "One fine day.\n\nTwo", "House", "urn:isbn:1", "Public domain", ("Fiction", "Sea"),
    )  # fmt: skip


def test_epub_3_refines(tmp_path: Path) -> None:
    said = about(
        tmp_path,
        """<dc:title id="s">A Subtitle</dc:title><dc:title id="t">Main &amp; Title</dc:title>
        <meta refines="#s" property="title-type">subtitle</meta>
        <meta refines="#t" property="title-type">main</meta>
        <dc:creator id="b">Second</dc:creator><dc:creator id="a">First</dc:creator>
        <dc:creator id="e">An Editor</dc:creator>
        <meta refines="#a" property="display-seq">1</meta>
        <meta refines="#b" property="display-seq">2</meta>
        <meta refines="#a" property="role" scheme="marc:relators">aut</meta>
        <meta refines="#e" property="role">edt</meta>
        <dc:language>und</dc:language><dc:language>fr</dc:language>
        <dc:date>2011-05-03T00:00:00Z</dc:date>
        <meta property="dcterms:modified">2024-01-01</meta>
        <meta property="belongs-to-collection" id="x">A Set</meta>
        <meta refines="#x" property="collection-type">set</meta>
        <meta property="belongs-to-collection" id="c">The Cycle</meta>
        <meta refines="#c" property="collection-type">series</meta>
        <meta refines="#c" property="group-position">1.5</meta>""",
    )
    assert said.title == "Main & Title"
    assert said.authors == ("First", "Second")
    assert (said.language, said.year) == ("fr", "2011")
    assert (said.series, said.series_index) == ("The Cycle", "1.5")


def test_what_is_not_said_is_empty(tmp_path: Path) -> None:
    said = about(tmp_path, "<dc:date>0101-01-01</dc:date><dc:creator> </dc:creator>")
    assert said == About(language="en")  # as its pages are marked


_ITEM = '<item id="img" href="pic.jpg" media-type="image/jpeg"{}/>'
_COVER_PAGE = Page("cover.xhtml", '<svg><image xlink:href="pic.jpg" '
                   'xmlns:xlink="http://www.w3.org/1999/xlink"/></svg>', title=None)  # fmt: skip
_COVERS = {
    "EPUB 3": {"manifest": _ITEM.format(' properties="cover-image"'), "pages": [TEXT]},
    "EPUB 2": {
        "manifest": _ITEM.format(""),
        "metadata": '<meta name="cover" content="img"/>',
        "pages": [TEXT],
    },
    "EPUB 2, by a page": {
        "manifest": _ITEM.format(""),
        "metadata": '<meta name="cover" content="p0"/>',
        "pages": [_COVER_PAGE, TEXT],
    },
    "guide": {
        "manifest": _ITEM.format(""),
        "guide": '<guide><reference type="cover" href="cover.xhtml"/></guide>',
        "pages": [TEXT, _COVER_PAGE],
    },
    "first page": {"manifest": _ITEM.format(""), "pages": [_COVER_PAGE, TEXT]},
    "name": {
        "manifest": _ITEM.format("").replace("img", "my-cover"), "pages": [TEXT]
    },
}  # fmt: skip


@pytest.mark.parametrize("way", _COVERS)
@pytest.mark.parametrize(("data", "kind"), [(JPEG, "image/jpeg"), (PNG, "image/png")])
def test_a_cover_is_found(tmp_path: Path, way: str, data: bytes, kind: str) -> None:
    options = dict(_COVERS[way])
    pages = options.pop("pages")
    path = epub(tmp_path / "a.epub", pages, files={"OEBPS/pic.jpg": data}, **options)  # type: ignore[arg-type]
    picture = read(path).cover
    assert picture is not None
    assert (picture.data, picture.media_type) == (data, kind)


@pytest.mark.parametrize("data", [b"no picture", b"", None])
def test_a_cover_that_is_none_is_left_out(tmp_path: Path, data: bytes | None) -> None:
    manifest = _ITEM.format(' properties="cover-image"')
    path = epub(tmp_path / "a.epub", [TEXT], manifest=manifest, files={"OEBPS/pic.jpg": data})
    assert read(path).cover is None
