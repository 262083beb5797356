"""A page as a browser shows it: one table of cases, and a law about all of them."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyrig.text.document import Block
from anyrig.text.formats.markup import build_blocks, build_flow
from anyrig.text.formats.xml import parse_page_text


def said(html: str) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in build_blocks(html)]


def one(html: str) -> Block:
    made = build_blocks(html)
    assert len(made) == 1, made
    return made[0]


SHOWN = [
    ("<p>One  two\n three</p>", "One two three"),
    ("<p>a<b>b</b>c <i>d</i>, e</p>", "abc d, e"),
    ('<p><span class="dropcap">T</span>he boy</p>', "The boy"),
    ('<p><img alt="O" src="o.png">nce upon</p>', "Once upon"),
    ("<p>co\u00adop foo<wbr>bar z\u200bw</p>", "coop foobar zw"),
    ("<p>&nbsp; Mr.&nbsp;Smith &#160;</p>", "Mr. Smith"),
    ("<p>10&nbsp;000 and 5&#8239;000</p>", "10\u00a0000 and 5\u00a0000"),
    ("<p>one<br></br>two & three", "one two & three"),
    ("<p>x<!-- no -->y</p>", "xy"),
    ("<p>漢<ruby>字<rp>(</rp><rt>じ</rt><rp>)</rp></ruby></p>", "漢字"),
    ("<p>H<sub>2</sub>O, 10<sup>6</sup> m<sup>2</sup> 21<sup>st</sup></p>", "H2O, 10⁶ m² 21st"),
    ("<p>say <q>no <q>yes</q></q>.</p>", "say “no ‘yes’”."),
    ('<p>let <math alttext="x squared"><mi>x</mi></math> be</p>', "let x squared be"),
    ("<p>a <span hidden>not</span><span style='display: none'>nor</span> b</p>", "a b"),
    ("<p>go<script>alert('no')</script><style>no{}</style> on</p>", "go on"),
    ("AT&T &amp; R&D &eacute; &nosuch; &#150; &copy 2", "AT&T & R&D é &nosuch; – © 2"),
    ("<p>3 < 4 and 5 > 2</p>", "3 < 4 and 5 > 2"),
    ("<p>a <span style='display:block'>b</span>c</p>", "a b c"),
    ("<object data='x'>instead</object>", "instead"),
    ("<p><![CDATA[as <it> is]]></p>", "as <it> is"),
]  # fmt: skip


def test_text_reads_as_a_browser_shows_it(subtests: pytest.Subtests) -> None:
    for html, text in SHOWN:
        with subtests.test(html=html, text=text):
            assert one(html).text == text


BLOCKS = [
    ("<div>one<div>two</div>three<p>four</p>five</div>",
     [("paragraph", each) for each in "one two three four five".split()]),
    ("<h1>Chapter<br>One</h1><h3>Sub</h3>", [("heading", "Chapter One"), ("heading", "Sub")]),
    ("<blockquote><p>a</p>b</blockquote>", [("quote", "a"), ("quote", "b")]),
    ("<ul><li>one<ul><li>two</li></ul>rest</li><li><p>a</p><p>b</p></li></ul>",
     [("item", each) for each in "one two rest a b".split()]),
    ("<dl><dt>Term</dt><dd>Meaning</dd></dl>", [("item", "Term"), ("item", "Meaning")]),
    ("<pre>\n  if x:\n\ty()\n\n</pre>", [("code", "  if x:\n\ty()")]),
    ("<p>a</p><hr><p>b</p>", [("paragraph", "a"), ("rule", ""), ("paragraph", "b")]),
    ("<p>a<br><br>b</p>", [("paragraph", "a"), ("paragraph", "b")]),
    ("<p>see <img alt='A cat' src='c.png'> there</p>",
     [("paragraph", "see there"), ("image", "A cat")]),
    ("<figure><img alt='A map'><figcaption>Fig. 1</figcaption></figure>",
     [("image", "A map"), ("paragraph", "Fig. 1")]),
    ("<img src='x.png'><img alt='IMG_1.JPG'><img alt=' '>", []),
    ("<svg><title>A drawing</title><path d='M0'/></svg>", [("image", "A drawing")]),
    ("<table><caption>C</caption><tr><th>A</th><th>B</th></tr><tr><td>1</td><td><p>x</p> y"
     "</td></tr></table>", [("paragraph", "C"), ("table", "A\tB\n1\tx y")]),
    ("<table><tr><td><h1>T</h1><p>text</p></td><td>side</td></tr></table>",
     [("heading", "T"), ("paragraph", "text"), ("paragraph", "side")]),
    ("<p>unclosed <b>bold<p>next</b> more", [("paragraph", "unclosed bold"),
                                             ("paragraph", "next more")]),
    ("", []),
]  # fmt: skip


def test_blocks_are_named_for_what_they_are(subtests: pytest.Subtests) -> None:
    for html, made in BLOCKS:
        with subtests.test(html=html, made=made):
            assert said(html) == made


@pytest.mark.parametrize(
    "html",
    [
        '<div class="poem"><p>one</p><p>two</p></div>',
        '<p class="verse">one<br/>\ntwo</p>',
        '<div class="poem"><div class="stanza"><i>one<br></i><span>two<br></span></div></div>',
        '<pre class="poem">one\ntwo</pre>',
    ],
)
def test_a_poem_keeps_its_lines(html: str) -> None:
    assert said(html) == [("poem", "one\ntwo")]


def test_stanzas_are_parted_and_lines_ended_by_hand_are_verse() -> None:
    html = '<div class="poem"><p>a<br>b</p><p>c<br>d</p></div>'
    assert said(html) == [("poem", "a\nb"), ("poem", "c\nd")]
    assert said("<p>Roses<br>are<br>red</p>") == [("poem", "Roses\nare\nred")]
    long = "a line as wide as the page that was broken off where the paper ended"
    assert said(f"<p>{long}<br>{long}<br>{long}</p>") == [("paragraph", " ".join([long] * 3))]


def test_heading_levels_are_kept() -> None:
    made = build_blocks("<h1>a</h1><h4>b</h4><div role='heading' aria-level='3'>c</div>")
    assert [block.level for block in made] == [1, 4, 3]


def test_languages_are_marked_where_they_change() -> None:
    made = build_blocks(
        '<html lang="en"><p xml:lang="fr">Oui</p><p>He said <i lang="de">nein danke</i>.</p>'
        '<p><span lang="la">Alea iacta est</span></p></html>'
    )
    assert [block.language for block in made] == ["fr", "", "la"]
    (inline,) = made[1].inlines
    assert (inline.kind, inline.value) == ("language", "de")
    assert made[1].text[inline.start : inline.end] == "nein danke"
    assert build_flow(parse_page_text('<html lang="en"><p>x</p></html>', name="")).language == "en"


@pytest.mark.parametrize(
    ("html", "text", "value"),
    [
        ('<p>some<span epub:type="pagebreak" id="p7" title="7"></span>thing</p>', "", "7"),
        ('<p>a <span class="pagenum">[Pg 12]</span> b</p>', "[Pg 12]", "12"),
        ('<p>a<span epub:type="pagebreak" id="page_ix"></span>b</p>', "", "ix"),
        ('<p>a<span class="pagenum" hidden>14</span>b</p>', "", "14"),
    ],
)
def test_a_page_begins_inside_a_paragraph(html: str, text: str, value: str) -> None:
    block = one(html)
    (inline,) = block.inlines
    assert (inline.kind, inline.value) == ("page", value)
    assert block.text[inline.start : inline.end] == text


def test_a_page_begins_between_paragraphs() -> None:
    html = '<p>a</p><div epub:type="pagebreak">5</div><p>b</p><span role="doc-pagebreak" id="pg6"/>'
    assert said(html) == [("paragraph", "a"), ("page", "5"), ("paragraph", "b"), ("page", "6")]


_NOTES = {
    "by type": ('<p>W<a epub:type="noteref" href="#n">1</a></p>'
                '<aside epub:type="footnote" id="n"><p>Note.</p></aside>'),
    "by role": ('<p>W<a role="doc-noteref" href="#n">*</a></p><p role="doc-footnote" id="n">N</p>'),
    "raised": '<p>W<sup><a href="#n">1</a></sup></p><p>Other</p><p id="n">1 Note.</p>',
    "bracketed": '<p>W<a href="#n">[1]</a></p><p><a id="n"></a>[1] Note.</p>',
    "by name": '<p>W<a href="#_ftn1" name="_ftnref1">1</a></p><div id="_ftn1"><p>Note.</p></div>',
    "definition": '<p>W<a href="#fn1">1</a></p><dl><dt id="fn1">1</dt><dd>Note.</dd></dl>',
    "a picture": '<p>W<a class="footnote" href="#n"><img alt=""></a></p><ol><li id="n">N</li></ol>',
}  # fmt: skip


@pytest.mark.parametrize("html", _NOTES.values(), ids=_NOTES.keys())
def test_a_reference_names_its_note(html: str) -> None:
    made = build_blocks(html)
    (reference,) = made[0].inlines
    assert reference.kind == "noteref"
    assert made[0].text[: reference.start] == "W"
    notes = [block for block in made if block.kind == "note"]
    assert notes
    assert {note.id for note in notes} == {reference.value}


def test_a_note_in_a_list_of_terms_is_whole() -> None:
    made = build_blocks(
        '<p>W<a href="#fn1">1</a></p><dl><dt id="fn1">1</dt><dd><p>One.</p><p>More.</p></dd>'
        "<dt>Term</dt><dd>Meaning.</dd></dl>"
    )
    assert [block.kind for block in made] == ["paragraph", "note", "note", "note", "item", "item"]
    assert {block.id for block in made[1:4]} == {"fn1"}


@pytest.mark.parametrize(
    "html",
    [
        '<ul><li><a href="#c">1</a></li></ul><h2 id="c">1</h2><p>x</p>',  # a table of contents
        '<p>See <a href="#c">chapter 2</a></p><p id="c">x</p>',
        '<p>At <a href="http://example.com/#n"><sup>1</sup></a></p><p id="n">x</p>',
        '<p>In <a href="#c">1984</a>.</p><p id="c">x</p>',
    ],
)
def test_other_links_are_no_references(html: str) -> None:
    made = build_blocks(html)
    assert all(block.kind != "note" and not block.inlines for block in made)


def test_a_list_of_notes_is_notes_but_for_its_heading() -> None:
    made = build_blocks(
        '<section epub:type="endnotes"><h2>Notes</h2><ol><li id="a"><p>One.</p><p>More.</p></li>'
        '<li id="b">Two.</li></ol></section>'
    )
    assert [(block.kind, block.id) for block in made] == [
        ("heading", ""), ("note", "a"), ("note", "a"), ("note", "b")
    ]  # fmt: skip


_WORDS = st.text("abc", min_size=1, max_size=4)
_INLINE = ["b", "i", "span", "a", "small"]
_BLOCK = ["p", "div", "blockquote", "li", "ul", "h2", "td", "tr", "table", "section", "pre"]


def _trees() -> st.SearchStrategy[str]:
    return st.recursive(
        st.one_of(_WORDS, st.just(" "), st.just("<br>")),
        lambda inner: st.builds(
            lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>",
            st.sampled_from(_INLINE + _BLOCK), st.lists(inner, max_size=4),
        ),
        max_leaves=30,
    )  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(_trees())
@example("<pre><blockquote>  a</blockquote></pre>")
@example("<pre><h2>  a  b</h2>  c</pre>")
def test_no_letter_is_lost_or_moved(html: str) -> None:
    root = parse_page_text(html, name="")
    shown = "".join("".join(root.itertext()).split())
    made = build_blocks(html)
    assert "".join("".join(block.text for block in made).split()) == shown
    for block in made:
        assert block.kind in ("poem", "code", "table") or "\n" not in block.text
        assert block.kind == "code" or "  " not in block.text
        assert all(0 <= each.start <= each.end <= len(block.text) for each in block.inlines)
