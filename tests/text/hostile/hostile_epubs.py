"""EPUBs whose lists have no end, lead in circles, or lead out."""

# ruff: noqa: E501 - a hostile text is a line, however long
from __future__ import annotations

import struct
import zlib
from pathlib import Path

from tests.text.epub_maker import (
    CONTAINER,
    JPEG,
    PNG,
    Line,
    Page,
    epub,
    navigation,
    ncx,
    package,
    write,
)  # fmt: skip
from tests.text.hostile.hostile_archives import PAGES, STORY, honest
from tests.text.hostile.hostile_kinds import ALL, Hostile, hostile

TITLES = (
    "../../../escaped", "/etc/escaped", "C:\\escaped", "CON", "nul.mp3", "a" * 300, "\u202etxt.exe",
    "\U0001f4a3" * 80, "a/b\\c", "a\x07b\x1b[2Jc\x9b31m", ".", "..", "~", "-rf", "", "a\nb", "\u200b",
    "\u0301" * 200,
)  # fmt: skip
META = "<dc:title>A Book</dc:title><dc:language>en</dc:language>"


def _reference(count: int) -> str:
    return '<itemref idref="p0"/>' * count


@hostile("either")
def spine_of_one_page_100000_times(folder: Path) -> Path:
    return honest(folder / "book.epub", spine=_reference(100_000))


@hostile("either")
def spine_of_one_long_page_many_times(folder: Path) -> Path:
    long = Page("c1.xhtml", f"<p>{'It was a dark night, ' * 5_000}.</p>")
    return epub(folder / "book.epub", [long], spine=_reference(1000))


@hostile("either")
def one_page_under_10000_ids(folder: Path) -> Path:
    items = "".join(
        f'<item id="i{n}" href="c1.xhtml" media-type="application/xhtml+xml"/>'
        for n in range(10_000)
    )
    spine = "".join(f'<itemref idref="i{n}"/>' for n in range(10_000))
    return honest(folder / "book.epub", manifest=items, spine=spine)


@hostile("either")
def contents_of_100000_lines(folder: Path) -> Path:
    lines = [Line(f"Line {n}", f"c1.xhtml#a{n}") for n in range(100_000)]
    return honest(folder / "book.epub", contents=lines)


@hostile("either")
def ncx_of_40000_points_at_one_place(folder: Path) -> Path:
    lines = [Line(f"Line {n}", "c1.xhtml") for n in range(40_000)]
    return honest(folder / "book.epub", version=2, contents=lines)


@hostile("either")
def contents_with_anchors_for_every_word(folder: Path) -> Path:
    words = "".join(f'<p><a id="a{n}"/>Word {n}.</p>' for n in range(1_500))
    lines = [Line(f"Line {n}", f"c1.xhtml#a{n}") for n in range(1_500)]
    return epub(folder / "book.epub", [Page("c1.xhtml", words)], contents=lines)


@hostile("either")
def contents_that_nest_2000_deep(folder: Path) -> Path:
    deep = "<ol><li><a href='c1.xhtml'>x</a>" * 2000 + "</li></ol>" * 2000
    page = navigation([Line("One", "c1.xhtml")]).replace("<ol>", f"<ol>{deep[4:-5]}", 1)
    return honest(folder / "book.epub", files={"OEBPS/nav.xhtml": page})


@hostile("either")
def ncx_that_nests_20000_deep(folder: Path) -> Path:
    point = '<navPoint><navLabel><text>x</text></navLabel><content src="c1.xhtml"/>'
    made = ncx([]).replace("</navMap>", point * 20_000 + "</navPoint>" * 20_000 + "</navMap>")
    return honest(folder / "book.epub", version=2, files={"OEBPS/toc.ncx": made})


@hostile("either")
def navigation_of_itself(folder: Path) -> Path:
    made = navigation([Line("Contents", "nav.xhtml", (Line("Again", "nav.xhtml#nav"),))])
    return honest(
        folder / "book.epub", files={"OEBPS/nav.xhtml": made}, spine='<itemref idref="nav"/>'
    )


@hostile("either")
def fallbacks_in_a_circle(folder: Path) -> Path:
    items = (
        '<item id="x" href="x.bin" media-type="a/b" fallback="y"/>'
        '<item id="y" href="y.bin" media-type="a/b" fallback="x"/>'
    )
    return honest(folder / "book.epub", manifest=items, spine='<itemref idref="x"/>')


@hostile("either")
def metadata_that_refines_itself(folder: Path) -> Path:
    more = (
        '<meta id="a" refines="#b" property="belongs-to-collection">A</meta>'
        '<meta id="b" refines="#a" property="belongs-to-collection">B</meta>'
        '<meta refines="#a" property="group-position">1e999</meta>'
    )
    return honest(folder / "book.epub", metadata=META + more)


@hostile("either")
def hrefs_that_lead_out(folder: Path) -> Path:
    out = ["../../../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "http://127.0.0.1:9/x",
           "C:\\x", "%2e%2e/%2e%2e/etc/passwd", "a%00b", "//host/share", "\\\\host\\share"]  # fmt: skip
    items = "".join(
        f'<item id="o{n}" href="{href}" media-type="application/xhtml+xml"/>'
        for n, href in enumerate(out)
    )
    spine = "".join(f'<itemref idref="o{n}"/>' for n in range(len(out)))
    cover = '<meta name="cover" content="o0"/>'
    return honest(
        folder / "book.epub", manifest=items, spine=spine, metadata=META + cover,
        guide='<guide><reference type="cover" href="/etc/passwd"/></guide>',
    )  # fmt: skip


@hostile("read")
def hrefs_of_a_quarter_of_a_million_letters(folder: Path) -> Path:
    href = "../" * 80_000
    items = "".join(
        f'<item id="z{n}" href="{href}{n}" media-type="application/xhtml+xml"/>' for n in range(8)
    )
    spine = "".join(f'<itemref idref="z{n}"/>' for n in range(8))
    return honest(folder / "book.epub", manifest=items, spine=spine)


@hostile("either")
def container_that_leads_out(folder: Path) -> Path:
    leads = CONTAINER.format(path="../../../etc/passwd")
    return write(folder / "book.epub", {"META-INF/container.xml": leads, "OEBPS/c1.xhtml": STORY})


@hostile("either")
def container_without_a_package(folder: Path) -> Path:
    return honest(folder / "book.epub", files={"OEBPS/content.opf": None})


@hostile("either")
def no_container(folder: Path) -> Path:
    return honest(folder / "book.epub", files={"META-INF/container.xml": None})


@hostile("either")
def package_without_a_spine(folder: Path) -> Path:
    opf = package(PAGES, version=3, metadata=META)
    return honest(folder / "book.epub", files={"OEBPS/content.opf": opf[: opf.index("<spine")]})


@hostile("read")
def spine_items_that_are_missing(folder: Path) -> Path:
    pages = [*PAGES, Page("gone.xhtml", ""), Page("last.xhtml", "<p>The end of it.</p>")]
    return epub(folder / "book.epub", pages, files={"OEBPS/gone.xhtml": None})


@hostile("read")
def spine_of_ids_that_are_none(folder: Path) -> Path:
    spine = "".join(f'<itemref idref="none{n}"/>' for n in range(1000)) + "<itemref/>"
    return honest(folder / "book.epub", spine=spine)


@hostile("either")
def package_truncated(folder: Path) -> Path:
    opf = package(PAGES, version=3, metadata=META)
    return honest(folder / "book.epub", files={"OEBPS/content.opf": opf[: len(opf) // 2]})


@hostile("either")
def page_truncated_in_a_tag(folder: Path) -> Path:
    return honest(folder / "book.epub", files={"OEBPS/c1.xhtml": "<html><body><p>Some words <a hr"})


@hostile("either")
def package_in_a_false_encoding(folder: Path) -> Path:
    opf = package(PAGES, version=3, metadata=META)
    made = opf.replace('version="1.0"?>', 'version="1.0" encoding="utf-16"?>')
    return honest(folder / "book.epub", files={"OEBPS/content.opf": made})


@hostile("either")
def pages_in_false_encodings(folder: Path) -> Path:
    told = ("utf-16", "utf-7", "cp037", "zlib", "rot13", "idna", "unicode_escape", "base64",
            "x" * 39, "undefined", "hex", "punycode", "utf-32", "mbcs")  # fmt: skip
    body = "<html><body><p>Café \xe9\xed\xa0\x80 words and more.</p></body></html>"
    pages = [
        Page(
            f"e{n}.xhtml", "",
            raw=f'<?xml version="1.0" encoding="{name}"?>{body}'.encode("latin-1"),
        )
        for n, name in enumerate(told)
    ]  # fmt: skip
    return epub(folder / "book.epub", pages)


@hostile("either")
def pages_of_odd_bytes(folder: Path) -> Path:
    text = "<html><body><p>Some words.</p></body></html>"
    raws = [
        b"\xef\xbb\xbf" * 3 + text.encode(), b"\xff\xfe" + text.encode(), b"\xfe\xff",
        text.encode("utf-16-le"), text.encode("cp037"), bytes(1000), b"\xed\xa0\x80" * 100,
        text.encode("utf-16") + b"\xd8", b"\x00".join(text.encode()[n : n + 1] for n in range(44)),
        b"\xff\xfe\x00\x00" + text.encode("utf-32-le")[:-2], b"", b"\x1a", b"+ADw-script+AD4-",
    ]  # fmt: skip
    return epub(
        folder / "book.epub",
        [Page(f"b{n}.xhtml", "", raw=raw or b" ") for n, raw in enumerate(raws)],
    )


@hostile("read")
def titles_that_lead_out(folder: Path) -> Path:
    """Chapters become files with these names."""
    pages = [Page(f"t{n}.xhtml", "<p>It was night.</p>") for n in range(len(TITLES))]
    lines = [
        Line(title.replace("\x07", "&#7;").replace("\x1b", "").replace("\x00", ""), f"t{n}.xhtml")
        for n, title in enumerate(TITLES)
    ]
    return epub(
        folder / "book.epub", pages, contents=lines, metadata="<dc:title>../../x</dc:title>"
    )


@hostile("either")
def title_of_ten_million(folder: Path) -> Path:
    return honest(folder / "book.epub", metadata=f"<dc:title>{'x ' * 4_000_000}</dc:title>")


@hostile("either")
def forty_thousand_authors(folder: Path) -> Path:
    authors = "".join(f"<dc:creator>Author {n}</dc:creator>" for n in range(40_000))
    return honest(folder / "book.epub", metadata=META + authors)


@hostile("read")
def escape_sequences_in_titles(folder: Path) -> Path:
    """As they come through C1 controls, which XML allows, and through newlines."""
    bad = "Title\x9b2J\x9d0;x\x9c\u202e\u2028 of\n\n\nthe&#10;book&#13;"
    meta = f"<dc:title>{bad}</dc:title><dc:creator>{bad}</dc:creator><dc:description>{bad}</dc:description>"
    return honest(
        folder / "book.epub", metadata=meta, contents=[Line(bad.replace("&#10;", "\n"), "c1.xhtml")]
    )


def _bomb_png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packer = zlib.compressobj(9)
    data = packer.compress(bytes(1 << 24)) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def _covered(folder: Path, name: str, kind: str, data: bytes) -> Path:
    item = f'<item id="c" href="{name}" properties="cover-image" media-type="{kind}"/>'
    return honest(
        folder / "book.epub", manifest=item, files={f"OEBPS/{name}": data},
        metadata=META + '<meta name="cover" content="c"/>',
    )  # fmt: skip


@hostile("read")
def cover_of_900_million_pixels(folder: Path) -> Path:
    return _covered(folder, "c.png", "image/png", _bomb_png(30_000, 30_000))


@hostile("read")
def cover_of_absurd_size(folder: Path) -> Path:
    return _covered(folder, "c.png", "image/png", _bomb_png(0x7FFFFFFF, 0x7FFFFFFF))


@hostile("read")
def cover_cut_short(folder: Path) -> Path:
    return _covered(folder, "c.jpg", "image/jpeg", JPEG[:20])


@hostile("read")
def cover_that_is_another_thing(folder: Path) -> Path:
    return _covered(folder, "c.jpg", "image/jpeg", b"<html>" + PNG)


@hostile("read")
def cover_of_a_gif_that_lies(folder: Path) -> Path:
    return _covered(
        folder, "c.gif", "image/gif", b"GIF89a\xff\xff\xff\xff\xf7\x00\x00" + bytes(900)
    )


@hostile("read")
def cover_that_fetches(folder: Path) -> Path:
    svg = (
        '<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]><svg '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        '<image xlink:href="http://127.0.0.1:9/x.png"/><image xlink:href="file:///etc/passwd"/>'
        "<script>alert(1)</script>&x;</svg>"
    )
    return _covered(folder, "c.svg", "image/svg+xml", svg.encode())


@hostile("read")
def style_sheets_that_every_page_mixes_anew(folder: Path) -> Path:
    """Two hundred pages, each with twenty long sheets in another order."""
    sheets = {f"OEBPS/s{n}.css": ".a{display:none}" * 60_000 for n in range(21)}
    pages = [
        Page(
            f"c{n}.xhtml",
            "<p>It was night.</p>",
            head="".join(f'<link rel="stylesheet" href="s{(n * k) % 21}.css"/>' for k in range(21)),
        )
        for n in range(200)
    ]
    return epub(folder / "book.epub", pages, files=sheets)


@hostile("either")
def page_of_a_cover_that_leads_to_itself(folder: Path) -> Path:
    pages = [Page("cover.xhtml", '<img src="cover.xhtml"/><iframe src="cover.xhtml"/>'), *PAGES]
    return epub(
        folder / "book.epub",
        pages,
        guide='<guide><reference type="cover" href="cover.xhtml"/></guide>',
    )


NESTED = {
    "divisions": ("<div>", "x", "</div>", 100_000),
    "spans": ("<span>", "x", "</span>", 50_000),
    "lists": ("<ul><li>", "x", "</li></ul>", 10_000),
    "tables": ("<table><tr><td>", "x", "</td></tr></table>", 5_000),
    "quotes": ("<blockquote>", "x", "</blockquote>", 20_000),
    "emphasis": ("<b><i>", "x", "</i></b>", 20_000),
    "notes": ('<aside epub:type="footnote" id="a">', "x", "</aside>", 2_000),
    "few_divisions": ("<div>", "<p>word</p>", "</div>", 240),
    "few_tables": ("<table><tr><td>", "<p>word</p>", "</td></tr></table>", 60),
    "few_lists": ("<ul><li>word ", "<p>word</p>", "</li></ul>", 100),
}
FLOODS = {
    "empty_paragraphs": "<p></p>" * 25_000,
    "empty_paragraphs_within_the_limit": "<p/>" * 59_000,
    "line_breaks": "<p>word" + "<br/>" * 40_000 + "word</p>",
    "rules": "<hr/>" * 20_000,
    "empty_spans": "<p>" + "<span></span>" * 25_000 + "word</p>",
    "one_word_of_500000": f"<p>{'x' * 500_000}</p>",
    "one_sentence_of_100000_words": f"<p>{'word ' * 10_000}</p>",
    "cells": "<table>" + f"<tr>{'<td>x</td>' * 120}</tr>" * 120 + "</table>",
    "a_cell_that_spans_a_billion": '<table><tr><td colspan="1000000000" rowspan="999999999">x</td></tr></table>',
    "a_list_that_begins_absurdly": '<ol start="99999999999999999999"><li value="-1e9">x</li></ol>' * 2000,
    "references_to_one_note": '<p>word<a epub:type="noteref" href="#n">1</a></p>' * 5_000
    + '<aside epub:type="footnote" id="n"><p>The note.</p></aside>',
    "notes_that_name_one_another": "".join(
        f'<aside epub:type="footnote" id="n{n}"><p>x<a epub:type="noteref" href="#n{n + 1}">1</a></p></aside>'
        for n in range(5000)
    ),
    "backlinks": "".join(f'<p id="b{n}"><a href="#b{n - 1}">{n}</a> text</p>' for n in range(1_500)),
    "one_id_again_and_again": '<p id="a">x</p>' * 3_000,
    "languages": "".join(f'<p lang="x{n}">x <i lang="{"y" * 50}">y</i></p>' for n in range(1_500)),
    "attributes": "<p " + " ".join(f'a{n}="x"' for n in range(10_000)) + ">word</p>",
    "one_attribute_of_500000": f'<p title="{"x" * 500_000}">word</p>',
    "alternative_texts": f'<img alt="{"x " * 1000}" src="x"/>' * 150,
    "scripts_without_end": "<script>" * 5_000 + "<p>word</p>",
    "comments_without_end": "<p>word</p>" + "<!-- " * 10_000,
    "open_signs": "<p>word</p>" + "<" * 10_000,
    "ampersands": "<p>" + "&" * 30_000 + "</p>",
    "cdata": "<p>word</p>" + "<![CDATA[x" * 5_000,
    "page_breaks": '<span epub:type="pagebreak" title="1"/>' * 10_000 + "<p>word</p>",
    "ruby": "<p>" + "<ruby>a<rt>b</rt></ruby>" * 6_000 + "</p>",
    "mathematics": "<p>" + "<math><mrow>" * 100 + "x" + "</mrow></math>" * 100 + "</p>",
    "styles": "".join(f'<p style="display:none;{"a:b;" * 200}" class="{"c " * 200}">x</p>' for n in range(2000)),
    "headings": "<h1>x</h1>" * 2_500,
    "headings_of_all_levels": "".join(f"<h{n % 6 + 1}>Chapter {n}</h{n % 6 + 1}>" for n in range(2_000)),
}  # fmt: skip


def _listed() -> None:
    bodies = {f"nested_{name}": o * n + x + c * n for name, (o, x, c, n) in NESTED.items()}
    floods = {f"flood_of_{name}": body for name, body in FLOODS.items()}
    for name, body in (bodies | floods).items():

        def make(folder: Path, body: str = body) -> Path:
            return epub(folder / "book.epub", [Page("c1.xhtml", body), Page("c2.xhtml", STORY)])

        def bare(folder: Path, body: str = body) -> Path:
            path = folder / "book.html"
            path.write_text(f"<html><body>{body}<p>It was night.</p></body></html>")
            return path

        ALL[name] = Hostile(name, make, "either")
        slow = name in floods
        ALL[f"{name}_in_html"] = Hostile(f"{name}_in_html", bare, "either", slow)


_listed()
