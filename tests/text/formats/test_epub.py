"""EPUBs as people own them: every way to write one, and many ways to write one wrong."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.document import Chapter, Document, Metadata
from anyrig.text.files import read
from tests.text.epub_maker import CONTAINER, PNG, Line, Page, epub, ncx, write

ONE = Page("c1.xhtml", "<h1>One</h1><p>First.</p>", title="Chapter One")
TWO = Page("c2.xhtml", "<h1>Two</h1><p>Second.</p>", title="Chapter Two")


def outline(document: Document) -> list[tuple[int, str]]:
    return [(chapter.level, chapter.title) for chapter in document.chapters]


def texts(chapter: Chapter) -> list[str]:
    return [block.text for block in chapter.blocks]


def every(document: Document) -> list[str]:
    return [text for chapter in document.chapters for text in texts(chapter)]


@pytest.mark.parametrize("version", [2, 3])
def test_levels_fragments_and_chapters_over_files(tmp_path: Path, version: int) -> None:
    part = Page("part.xhtml", "<h1>Part I</h1>")
    both = Page("both.xhtml", '<h2 id="a">A</h2><p>a1</p><h2><a id="b">B</a></h2><p>b1</p>')
    rest = Page("rest.xhtml", "<p>b2</p>")
    contents = [
        Line("Part I", "part.xhtml", (
            Line("A", "both.xhtml#a", (Line("A deep", "both.xhtml#b"),)),
        )),
        Line("End", "c1.xhtml"),
    ]  # fmt: skip
    document = read(
        epub(tmp_path / "a.epub", [part, both, rest, ONE], contents=contents, version=version)
    )
    assert outline(document) == [(1, "Part I"), (2, "A"), (3, "A deep"), (1, "End")]
    assert texts(document.chapters[1]) == ["A", "a1"]
    assert texts(document.chapters[2]) == ["B", "b1", "b2"]
    assert document.chapters[2].source == "OEBPS/both.xhtml#b"


def test_a_page_with_only_a_picture_does_not_name_the_next(tmp_path: Path) -> None:
    plate = Page("p.xhtml", '<p><img src="a.png" alt=""/></p>', title="Plate 1")
    document = read(epub(tmp_path / "a.epub", [plate, ONE, TWO]))
    assert outline(document) == [(1, "Chapter One"), (1, "Chapter Two")]
    contents = [Line("Part I", "p.xhtml", (Line("One", "c1.xhtml"),))]
    document = read(epub(tmp_path / "b.epub", [plate, ONE], contents=contents))
    assert outline(document) == [(1, "Part I: One")]


def test_what_no_entry_names_is_kept(tmp_path: Path) -> None:
    before = Page("t.xhtml", "<h1>Title</h1>", title=None)
    document = read(epub(tmp_path / "a.epub", [before, ONE, TWO]))
    assert outline(document) == [(1, "Title"), (1, "Chapter One"), (1, "Chapter Two")]
    after = Page("e.xhtml", "<h1>Unlisted</h1><p>x</p>", title=None)
    more = Page("f.xhtml", "<h2>A section</h2><p>y</p>", title=None)
    document = read(epub(tmp_path / "b.epub", [ONE, more, TWO, after]))
    assert outline(document) == [(1, "Chapter One"), (1, "Chapter Two"), (1, "Unlisted")]
    assert texts(document.chapters[0]) == ["One", "First.", "A section", "y"]


def test_entries_that_lead_nowhere_are_named_and_the_rest_read(tmp_path: Path) -> None:
    contents = [Line("One", "c1.xhtml"), Line("Gone", "no.xhtml"), Line("Two", "c2.xhtml#no")]
    document = read(epub(tmp_path / "a.epub", [ONE, TWO], contents=contents))
    assert outline(document) == [(1, "One"), (1, "Two")]
    (warning,) = document.warnings
    assert "2 entries" in warning
    assert "Gone" in warning


@pytest.mark.parametrize("version", [2, 3])
def test_without_contents_headings_cut_the_book(tmp_path: Path, version: int) -> None:
    pages = [Page("a.xhtml", "<h1>A</h1><p>a</p><h1>B</h1><p>b</p>"), Page("b.xhtml", "<p>b2</p>")]
    document = read(epub(tmp_path / "a.epub", pages, contents=[], version=version))
    assert outline(document) == [(1, "A"), (1, "B")]
    assert texts(document.chapters[1]) == ["B", "b", "b2"]


def test_without_contents_chapters_under_parts_are_chapters(tmp_path: Path) -> None:
    pages = [
        Page("a.xhtml", "<h1>Prologue</h1><p>a</p>"),
        Page("b.xhtml", "<h1>I</h1>"),
        Page("c.xhtml", "<h2>CHAPTER 1. Loomings</h2><p>b</p>"),
        Page("d.xhtml", "<h2>CHAPTER 2. The Carpet-Bag</h2><p>c</p><h3>At night</h3><p>d</p>"),
        Page("e.xhtml", "<h1>II</h1>"),
        Page("f.xhtml", "<h2>CHAPTER 3. The Inn</h2><p>e</p>"),
    ]
    document = read(epub(tmp_path / "a.epub", pages, contents=[]))
    assert outline(document) == [
        (1, "Prologue"), (1, "I"), (2, "CHAPTER 1. Loomings"), (2, "CHAPTER 2. The Carpet-Bag"),
        (1, "II"), (2, "CHAPTER 3. The Inn"),
    ]  # fmt: skip


def test_what_is_outside_of_the_order_comes_last(tmp_path: Path) -> None:
    notes = Page("n.xhtml", '<p id="n">1 A note.</p>', linear=False)
    one = Page("c1.xhtml", '<h1>One</h1><p>Word<sup><a href="n.xhtml#n">1</a></sup>.</p>')
    document = read(epub(tmp_path / "a.epub", [notes, one, TWO]))
    assert [chapter.role for chapter in document.chapters] == ["body", "body", "notes"]
    (reference,) = document.chapters[0].blocks[1].inlines
    note = document.chapters[2].blocks[0]
    assert (note.kind, note.id) == ("note", reference.value)
    assert note.id == "OEBPS/n.xhtml#n"


def test_missing_files_are_warned_of_and_the_rest_read(tmp_path: Path) -> None:
    path = epub(tmp_path / "a.epub", [ONE, TWO], files={"OEBPS/c1.xhtml": None},
                spine='<itemref idref="nobody"/>')  # fmt: skip
    document = read(path)
    assert every(document) == ["Two", "Second."]
    assert any("2 of 3 files are missing" in each for each in document.warnings)


def test_a_page_that_cannot_be_read_is_warned_of(tmp_path: Path) -> None:
    deep = Page("deep.xhtml", "<div>" * 5000 + "x")
    document = read(epub(tmp_path / "a.epub", [deep, ONE]))
    assert every(document) == ["One", "First."]
    assert any("deep.xhtml" in each and "too deep" in each for each in document.warnings)


def test_style_sheets_hide_and_set_lines(tmp_path: Path) -> None:
    head = '<link rel="stylesheet" href="css/s.css"/><style>p.gone { display:none }</style>'
    page = Page(
        "a.xhtml",
        '<p class="x">no</p><p class="gone">no</p><p>a<span class="l">b</span></p><p>'
        '<span class="drop">T</span>he</p>',
        head=head,
    )
    sheet = """/* .l{display:none} */ .x,
        .y { color: red; display : none }
        @media print { .l { display: block } } .drop { display: block; float: left }"""
    path = epub(tmp_path / "a.epub", [page], files={"OEBPS/css/s.css": sheet})
    assert every(read(path)) == ["a b", "The"]


def test_a_picture_in_front_is_the_cover(tmp_path: Path) -> None:
    front = Page("x.xhtml", '<img src="x.jpg" alt="A ship"/>', title=None)
    document = read(epub(tmp_path / "a.epub", [front, ONE, TWO]))
    assert [chapter.role for chapter in document.chapters] == ["cover", "body", "body"]


def test_parts_that_a_book_names_have_their_role(tmp_path: Path) -> None:
    pages = [
        Page("cover.xhtml", "<p>Cover</p>", title=None, body_type="cover"),
        Page("t.xhtml", "<p>The Title</p>", title=None),
        ONE,
        Page("i.xhtml", "<p>Index</p>", title=None, body_type="index"),
    ]
    guide = '<guide><reference type="title-page" href="t.xhtml" title="T"/></guide>'
    path = epub(tmp_path / "a.epub", pages, guide=guide, spine='<itemref idref="nav"/>')
    roles = [chapter.role for chapter in read(path).chapters]
    assert roles == ["cover", "title", "body", "back", "contents"]


def test_a_book_of_pictures_has_no_text(tmp_path: Path) -> None:
    pages = [Page(f"{n}.xhtml", f'<img src="{n}.jpg" alt="Page {n}"/>') for n in range(8)]
    with pytest.raises(InvalidInputError, match="no text in a.epub") as caught:
        read(epub(tmp_path / "a.epub", pages))
    assert "OCR" in caught.value.hint
    with pytest.raises(InvalidInputError, match="no text"):
        read(epub(tmp_path / "a.epub", [Page("t.xhtml", "<p>A Comic</p>"), *pages]))


_ODD = {
    "no mimetype": {"mimetype": None},
    "junk before": {"prefix": b"\x00junk" * 200},
    "broken container": {"files": {"META-INF/container.xml": "<container"}},
    "container to nowhere": {"files": {"META-INF/container.xml": CONTAINER.format(path="x.opf")}},
    "container of another case": {
        "files": {"META-INF/container.xml": CONTAINER.format(path="oebps/Content.OPF")}
    },
}


@pytest.mark.parametrize("how", _ODD)
def test_odd_archives_are_read(tmp_path: Path, how: str) -> None:
    path = epub(tmp_path / "a.epub", [ONE, TWO], **_ODD[how])  # type: ignore[arg-type]
    assert outline(read(path)) == [(1, "Chapter One"), (1, "Chapter Two")]


@pytest.mark.parametrize(
    "href",
    ["Text/My%20Page.xhtml", "text/my%20page.xhtml", "Text\\My Page.xhtml",
     "./Text/../Text/My%20Page.xhtml", "/OEBPS/Text/My Page.xhtml", "My%20Page.xhtml"],
)  # fmt: skip
def test_references_are_found_as_they_were_meant(tmp_path: Path, href: str) -> None:
    other = Page("x.xhtml", "<p>x</p>")
    path = epub(
        tmp_path / "a.epub",
        [Page(href, "<p>found</p>"), other],
        contents=[Line("It", f"{href}#top"), Line("X", "x.xhtml")],
        files={
            f"OEBPS/{href}": None,
            "OEBPS/Text/My Page.xhtml": '<html><body><p id="top">found</p></body></html>',
        },
    )
    document = read(path)
    assert outline(document) == [(1, "It"), (1, "X")]
    assert every(document) == ["found", "x"]


def test_a_book_without_a_package_is_read_by_name(tmp_path: Path) -> None:
    pages = {f"p{n}.html": f"<p>page {n}</p>" for n in (10, 9, 1)}
    document = read(write(tmp_path / "a.epub", pages))
    assert every(document) == ["page 1", "page 9", "page 10"]
    assert document.warnings


def test_a_book_zipped_with_its_folder_is_read(tmp_path: Path) -> None:
    epub(tmp_path / "a.epub", [ONE, TWO])
    with zipfile.ZipFile(tmp_path / "a.epub") as whole:
        members = {f"My Book/{name}": whole.read(name) for name in whole.namelist()}
    members |= {"__MACOSX/._content.opf": b"\x00\x05", "My Book/.DS_Store": b"\x00"}
    path = write(tmp_path / "b.epub", dict(members), mimetype=None)
    assert outline(read(path)) == [(1, "Chapter One"), (1, "Chapter Two")]
    members["My Book/META-INF/sinf.xml"] = b"<sinf/>"
    with pytest.raises(ProtectedFileError, match="Apple"):
        read(write(tmp_path / "c.epub", dict(members), mimetype=None))


def test_an_empty_spine_falls_back_to_the_list_of_files(tmp_path: Path) -> None:
    opf = (
        '<package><manifest><item id="a" href="c1.xhtml" media-type="application/xhtml+xml"/>'
        "</manifest><spine/></package>"
    )
    document = read(epub(tmp_path / "a.epub", [ONE], files={"OEBPS/content.opf": opf}))
    assert every(document) == ["One", "First."]


def test_a_broken_navigation_falls_back_to_the_ncx(tmp_path: Path) -> None:
    path = epub(
        tmp_path / "a.epub", [ONE, TWO],
        manifest='<item id="x" href="toc.ncx" media-type="application/x-dtbncx+xml"/>',
        files={"OEBPS/nav.xhtml": "<html><body><nav/></body></html>",
               "OEBPS/toc.ncx": ncx([Line("Uno", "c1.xhtml"), Line("Due", "c2.xhtml")])},
    )  # fmt: skip
    assert outline(read(path)) == [(1, "Uno"), (1, "Due")]


TEXT = Page("c.xhtml", "<h1>One</h1><p>Text of the book.</p>")


def about(tmp_path: Path, metadata: str, version: int = 3) -> Metadata:
    return read(epub(tmp_path / "a.epub", [TEXT], metadata=metadata, version=version)).metadata


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
    ) == Metadata(
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
def test_a_cover_is_found(tmp_path: Path, way: str) -> None:
    options = dict(_COVERS[way])
    pages = options.pop("pages")
    path = epub(tmp_path / "a.epub", pages, files={"OEBPS/pic.jpg": PNG}, **options)  # type: ignore[arg-type]
    picture = read(path).cover
    assert picture is not None
    assert (picture.data, picture.media_type) == (PNG, "image/png")


@pytest.mark.parametrize("data", [b"no picture", None])
def test_a_cover_that_is_none_is_left_out(tmp_path: Path, data: bytes | None) -> None:
    manifest = _ITEM.format(' properties="cover-image"')
    path = epub(tmp_path / "a.epub", [TEXT], manifest=manifest, files={"OEBPS/pic.jpg": data})
    assert read(path).cover is None


_LAUGHS = '<!DOCTYPE html [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><html><body>&b;</body></html>'
_REFUSED: dict[str, tuple[bytes, str]] = {
    "deep": (b"<div>" * 100_000, "too deep"),
    "entities": (_LAUGHS.encode(), "entity bomb"),
    "tags": (b"<i/>" * 700_000, "more than 600,000 tags"),
    "zeros": (b"\x00" * 30_000_000, "zip bomb"),
}


def attempt(path: Path) -> tuple[Document | None, str]:
    """What was read, or what was said; never what the last net says of a fault nobody foresaw."""
    try:
        return read(path), ""
    except InvalidInputError as error:
        message, hint = error.message, error.hint
    assert hint
    assert "cannot be read as" not in message
    return None, message


@pytest.mark.parametrize("harm", _REFUSED)
def test_a_page_made_to_do_harm(tmp_path: Path, harm: str) -> None:
    data, message = _REFUSED[harm]
    path = epub(tmp_path / "a.epub", [Page("c.xhtml", "", raw=data)])
    document, said = attempt(path)
    assert message in said
    assert document is None
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.epub", "home", "work"]


def test_damage_anywhere_is_an_error_or_a_reading(tmp_path: Path) -> None:
    whole = epub(
        tmp_path / "a.epub",
        [
            Page("c1.xhtml", '<h1>One</h1><p>Text<sup><a href="c2.xhtml#n">1</a></sup> and</p>'
                 "<table><tr><td>a</td><td>b</td></tr></table>"),
            Page("c2.xhtml", '<p id="n"><a href="c1.xhtml">1</a> A note.</p>'),
        ],
    ).read_bytes()  # fmt: skip
    chance = random.Random(5)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 3, 20))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        (tmp_path / "b.epub").write_bytes(bytes(data) or b"x")
        attempt(tmp_path / "b.epub")


_AES = "http://www.w3.org/2001/04/xmlenc#aes128-cbc"
_IDPF = "http://www.idpf.org/2008/embedding"
_ADOBE_FONT = "http://ns.adobe.com/pdf/enc#RC"


def encryption(*entries: tuple[str, str]) -> str:
    made = "".join(
        f'<enc:EncryptedData xmlns:enc="http://www.w3.org/2001/04/xmlenc#">'
        f'<enc:EncryptionMethod Algorithm="{algorithm}"/><enc:CipherData>'
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
    assert caught.value.message.startswith("book.epub is protected by ")
    assert "\n" not in caught.value.message
    assert "seller" in caught.value.hint


def test_scrambled_fonts_lock_nothing(tmp_path: Path) -> None:
    path = epub(
        tmp_path / "book.epub",
        [Page("c.xhtml", "<p>Free to read.</p>")],
        files={
            "META-INF/encryption.xml": encryption(
                (_IDPF, "OEBPS/fonts/a.otf"), (_ADOBE_FONT, "OEBPS/fonts/a.otf")
            ),
            "OEBPS/fonts/a.otf": b"\x01\x02",
            "iTunesMetadata.plist": "<plist/>",
            "META-INF/com.apple.ibooks.display-options.xml": "<display_options/>",
        },
    )
    assert read(path).chapters[0].blocks[0].text == "Free to read."


def test_text_scrambled_as_if_it_were_a_font_is_locked(tmp_path: Path) -> None:
    path = epub(
        tmp_path / "book.epub",
        [Page("c.xhtml", "<p>x</p>")],
        files={"META-INF/encryption.xml": encryption((_IDPF, "OEBPS/c.xhtml"))},
    )
    with pytest.raises(ProtectedFileError, match="unknown kind"):
        read(path)
