"""Read-along books: whole, well-formed, every word there, and lit when it is heard."""

from __future__ import annotations

import io
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from PIL import Image

from anyrig.audiobooks.plan import NarrationPlan
from anyrig.audiobooks.readalong import (
    build_clips,
    build_pages,
    time_part_words,
    write_readalong,
)
from anyrig.audiobooks.readalong_epub import Highlight, OverlayTrack, build_overlay
from anyrig.audiobooks.record import ChapterSpan, Cue, Timeline
from anyrig.errors import StorageError
from anyrig.speech.engine import Utterance
from anyrig.speech.segment import Script, Segment
from anyrig.text.document import Block, BlockKind, Chapter, Document, Inline, Metadata, Picture
from tests.audiobooks.readalong_book import NAMES, Book, make, odd, part, plan, sound, timeline

EPUBCHECK = "/usr/share/java/epubcheck.jar"
EPUB_TYPE = f"{{{NAMES['e']}}}type"


def picture(format: str) -> Picture:
    made = io.BytesIO()
    Image.new("RGB", (60, 90), "navy").save(made, format)
    return Picture(made.getvalue(), f"image/{format.lower()}")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    folder = tmp_path_factory.mktemp("odd")
    return make(folder, odd(), narrator="Tone", cover=picture("WEBP"))


@pytest.mark.system("epubcheck", EPUBCHECK)
@pytest.mark.parametrize("words", [False, True])
def test_epubcheck_finds_nothing(tmp_path: Path, words: bool) -> None:
    make(tmp_path, odd(), narrator="Tone", cover=picture("PNG"), words=words)
    java = shutil.which("java")
    assert java, "epubcheck is here and java is not"
    done = subprocess.run(
        [java, "-XX:TieredStopAtLevel=1", "-jar", EPUBCHECK, str(tmp_path / "book.epub")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No errors or warnings detected" in done.stdout


def test_the_type_comes_first_and_sound_is_not_packed(book: Book) -> None:
    first = book.entries[0]
    assert (first.filename, first.compress_type, first.extra) == ("mimetype", 0, b"")
    assert book.files["mimetype"] == b"application/epub+zip"
    packed = {entry.filename for entry in book.entries if entry.compress_type}
    assert not any(name.endswith((".m4a", ".jpg")) for name in packed)
    assert all(entry.date_time == (1980, 1, 1, 0, 0, 0) for entry in book.entries)


def test_the_manifest_names_every_file_and_every_file_is_there(book: Book) -> None:
    listed = [f"EPUB/{item.attrib['href']}" for item in book.find(book.opf, "//o:item")]
    assert len(listed) == len(set(listed))
    others = {"mimetype", "META-INF/container.xml", "EPUB/package.opf"}
    assert set(listed) | others == set(book.files)


def test_every_clip_follows_on_the_last_and_names_words_that_are_there(book: Book) -> None:
    times = timeline(odd())
    for number in (1, 2, 4):
        pars = book.pars(number)
        mark = times.chapters[number - 1]
        assert pars[0].start_s == 0
        assert pars[-1].end_s == pytest.approx((mark.end - mark.start) / times.rate, abs=0.001)
        assert all(one.end_s == two.start_s for one, two in zip(pars, pars[1:], strict=False))
        assert all(par.start_s < par.end_s for par in pars)
        ids = book.page(number).xpath("//@id")
        assert isinstance(ids, list)
        assert len(ids) == len(set(map(str, ids)))
        for par in pars:
            page, _, name = par.text.partition("#")
            assert page == f"../text/part-{number:03d}.xhtml"
            assert name in ids
            assert f"EPUB/{par.audio.removeprefix('../')}" in book.files


def test_a_clip_begins_with_its_words(book: Book) -> None:
    times = timeline(odd())
    cues = [cue for cue in times.cues if cue.part == 0]
    starts = {par.text.partition("#")[2]: par.start_s for par in book.pars(1)}
    for cue in cues[1:]:
        assert starts[f"s{cue.segment + 1}"] == pytest.approx(cue.start / times.rate, abs=0.001)


def test_every_word_is_highlighted_when_it_is_heard(tmp_path: Path) -> None:
    text = "It was late — or was it?1 In 1984 the bells rang."
    note = Inline(24, 25, "noteref", "n")
    chapter = Chapter("One", (Block(text, inlines=(note,)), Block("A note.", "note", id="n")))
    of = plan(chapter)
    book, times = make(tmp_path, of, words=True), timeline(of, words=True)
    lit = book.lit(1)
    assert lit[:6] == ["It", "was", "late", "or", "was", "it?1"]
    assert lit[6:12] == ["In", "1984", "the", "bells", "rang.", "A"]
    starts = {words: par.start_s for words, par in zip(lit, book.pars(1), strict=True)}
    spoken = {word.text: word.start_s for cue in times.cues for word in cue.words}
    for written, said in (("late", "late"), ("1984", "nineteen"), ("bells", "bells")):
        assert starts[written] == pytest.approx(spoken[said], abs=0.001)
    assert text in book.text(1)


def test_words_inside_marks_are_whole_elements() -> None:
    text = "See page [12 b] and more words."
    marks = (Inline(0, 31, "language", "fr"), Inline(9, 15, "page", "12"))
    of = plan(Chapter("T", (Block(text, inlines=marks),)))
    times = timeline(of, words=True)
    (page,) = build_pages(of, "en", {0: time_part_words(of.parts[0], times.cues, times.rate)})
    assert [stop.label for stop in page.breaks] == ["12"]
    etree.fromstring(page.xhtml.encode())
    assert len(page.pieces) == 6


def test_a_part_that_nobody_speaks_has_no_overlay(book: Book) -> None:
    item = book.find(book.opf, "//o:item[@id='text-part-003']")[0]
    assert "media-overlay" not in item.attrib
    assert "EPUB/smil/part-003.smil" not in book.files
    assert "* * *" in book.text(3)


def test_all_text_is_there_and_what_is_spoken_is_lit_in_order(book: Book) -> None:
    first = odd().parts[0]
    for block in first.chapter.blocks:
        shown = "".join(c for c in block.text if c not in "\x00\x0b\x85\ud800\uffff\t\n")
        assert shown in book.text(1).replace("\n", ""), block.kind
    lit = "".join(book.lit(1)).replace("\n", "")
    spoken = "".join(segment.text for segment in first.script.segments)
    for character in "\x00\x0b\x85\ud800\uffff\t\n":
        spoken = spoken.replace(character, "")
    assert lit == spoken


def test_each_kind_of_block_has_its_element(book: Book) -> None:
    page = book.page(1)
    for path, count in {
        "//x:h1": 1, "//x:ul/x:li": 2, "//x:blockquote/x:p": 1, "//x:pre/x:code": 1,
        "//x:table/x:tr": 3, "//x:td": 6, "//x:p[@class='poem']//x:br": 4, "//x:figure": 1,
        "//x:hr": 1, "//x:aside": 2, "//x:aside[1]/x:p": 2,
    }.items():  # fmt: skip
        assert len(book.find(page, path)) == count, path
    assert book.find(page, "//x:p[@lang='he']")[0].get("dir") == "rtl"


def test_a_row_of_a_table_is_lit_as_a_whole_where_it_is_heard_so() -> None:
    chapter = Chapter("T", (Block("Hour\tTide\nSix\tHigh water", "table"),))
    made = plan(chapter).parts[0]
    line = made.script.segments[0].utterance
    rows = [Segment(line, ((0, 9),), "Hour\tTide"), Segment(line, ((10, 24),), "Six\tHigh water")]
    script = replace(made.script, segments=tuple(rows))
    whole = replace(plan(chapter), parts=(replace(made, script=script),))
    (page,) = build_pages(whole, "en")
    assert '<tr id="s1"><td>Hour</td><td>Tide</td></tr>' in page.xhtml
    assert [piece.id for piece in page.pieces] == ["s1", "s2"]
    halves = [Segment(line, ((0, 4),), "Hour"), Segment(line, ((5, 24),), "Tide\nSix\tHigh water")]
    script = replace(made.script, segments=tuple(halves))
    (page,) = build_pages(replace(whole, parts=(replace(made, script=script),)), "en")
    assert (
        '<tr><td><span id="s1">Hour</span></td><td><span id="s2">Tide</span></td></tr>'
        in page.xhtml
    )
    assert '<tr id="s2-2"><td>Six</td><td>High water</td></tr>' in page.xhtml


def test_a_sign_stays_a_link_inside_what_is_lit(book: Book) -> None:
    sign = book.find(book.page(1), "//x:span[@id='s2']/x:a")[0]
    assert (sign.text, sign.get(EPUB_TYPE)) == ("1", "noteref")
    assert sign.get("href") == "part-001.xhtml#n1"
    note = book.find(book.page(1), "//x:aside[@id='n1']")[0]
    assert "The first note" in "".join(note.itertext())
    french = book.find(book.page(1), "//x:span[@id='s2']/x:span[@lang='fr']")[0]
    assert french.text == "bonjour, mes amis."


def test_a_note_from_outside_comes_along_and_a_lost_one_is_no_link(book: Book) -> None:
    page = book.page(2)
    sign = book.find(page, "//x:a")[0]
    name = str(sign.get("href")).partition("#")[2]
    note = book.find(page, f"//x:aside[@id='{name}']")[0]
    assert "".join(note.itertext()).strip() == "A note from far away."
    assert [each.text for each in book.find(page, "//x:sup")] == ["3"]


def test_the_contents_are_nested_and_the_pages_listed(book: Book) -> None:
    nav = book.xml("EPUB/nav.xhtml")
    top = book.find(nav, "//x:nav[@e:type='toc']/x:ol/x:li/x:a")
    assert [each.text for each in top] == ["Part <One> & more", "The end"]
    inner = book.find(nav, "//x:nav[@e:type='toc']/x:ol/x:li/x:ol/x:li/x:a")
    assert [each.text for each in inner] == ["2", "Silence"]
    listed = book.find(nav, "//x:nav[@e:type='page-list']//x:a")
    assert [each.text for each in listed] == ["12", "13", "14"]
    for each in listed:
        address, _, name = each.attrib["href"].partition("#")
        assert book.find(book.xml(f"EPUB/{address}"), f"//*[@id='{name}']")


def test_jumping_levels_make_no_empty_lists(tmp_path: Path) -> None:
    levels = (2, 4, 3, 4, 1, 1, 2)
    chapters = [
        Chapter(f"T{at}", (Block("Some words."),), level) for at, level in enumerate(levels)
    ]
    book = make(tmp_path, plan(*chapters))
    nav = book.xml("EPUB/nav.xhtml")
    depth = {
        each.text: len(list(each.iterancestors("{*}ol")))
        for each in book.find(nav, "//x:nav[@e:type='toc']//x:a")
    }
    assert depth == {"T0": 1, "T1": 2, "T2": 2, "T3": 3, "T4": 1, "T5": 1, "T6": 2}
    assert not book.find(nav, "//x:ol[not(x:li)]")


def test_what_the_book_says_of_itself(book: Book) -> None:
    def one(path: str) -> str:
        return book.find(book.opf, path)[0].text or ""

    assert one("//dc:title") == "Odd & <strange>"
    assert [each.text for each in book.find(book.opf, "//dc:creator")] == ["Ann Author"]
    assert one("//dc:language") == "en"  # what it claims is no language
    assert one("//o:meta[@property='belongs-to-collection']") == "The Oddities"
    assert one("//o:meta[@property='group-position']") == "2"
    assert one("//o:meta[@property='media:narrator']") == "Tone"
    assert one("//o:meta[@property='media:active-class']") == "-epub-media-overlay-active"
    assert b".-epub-media-overlay-active" in book.files["EPUB/style.css"]


def test_a_book_without_a_name_or_a_cover(tmp_path: Path) -> None:
    chapter = Chapter("\x01", (Block("Some words."),))
    book = make(tmp_path, plan(chapter, about=Metadata()), cover=Picture(b"\xff\xd8\xffbroken"))
    assert book.find(book.opf, "//dc:title")[0].text == "Untitled"
    assert book.find(book.page(1), "//x:title")[0].text == "1"
    assert not any("cover" in name for name in book.files)


def test_the_same_book_is_the_same_bytes(tmp_path: Path) -> None:
    of, times = odd(), timeline(odd())
    audio = sound(tmp_path, times, ".mp3")
    for name in ("one.epub", "two.epub"):
        write_readalong(tmp_path / name, of, times, audio)
    assert (tmp_path / "one.epub").read_bytes() == (tmp_path / "two.epub").read_bytes()


def test_nothing_is_left_where_the_sound_is_missing(tmp_path: Path) -> None:
    of = plan(Chapter("One", (Block("Some words."),)))
    target = tmp_path / "out" / "book.epub"
    target.parent.mkdir()
    target.write_text("the old one")
    with pytest.raises(StorageError) as told:
        write_readalong(target, of, timeline(of), [tmp_path / "gone.m4a"])
    assert told.value.hint
    assert [path.name for path in target.parent.iterdir()] == ["book.epub"]
    assert target.read_text() == "the old one"


def test_a_book_from_the_right(tmp_path: Path) -> None:
    chapter = Chapter("שלום", (Block("שלום עולם."),))
    of = plan(chapter, about=Metadata("ספר", language="he"), main="he")
    book = make(tmp_path, of)
    assert book.page(1).get("dir") == "rtl"
    assert book.find(book.opf, "//o:spine")[0].get("page-progression-direction") == "rtl"


def test_marks_at_edges_are_neither_lost_nor_doubled() -> None:
    text = "One. Two."
    marks = tuple(Inline(at, at, "page", str(at)) for at in range(len(text) + 1))
    (page,) = build_pages(plan(Chapter("T", (Block(text, inlines=marks),))), "en")
    assert [stop.label for stop in page.breaks] == [str(at) for at in range(len(text) + 1)]


KINDS: tuple[BlockKind, ...] = (
    "paragraph", "heading", "quote", "item", "poem", "code", "table", "note", "image", "rule",
    "page",
)  # fmt: skip
ANY = st.characters(exclude_categories=())
TEXT = st.text(st.one_of(st.sampled_from("a. <&>\"'\n\t\x00]"), ANY), max_size=30)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    text = draw(TEXT)
    edges = st.integers(0, len(text))
    kinds = st.sampled_from(("noteref", "page", "language"))
    values = st.sampled_from(("a", "fr", "", '"<x>"'))
    inlines = draw(st.lists(st.builds(_inline, edges, edges, kinds, values), max_size=4))
    return Block(
        text, draw(st.sampled_from(KINDS)), draw(st.integers(-1, 9)),
        draw(st.sampled_from(("", "fr", "x y", "ar"))), draw(st.sampled_from(("", "a", "b"))),
        inlines=tuple(sorted(inlines, key=lambda mark: mark.start)),
    )  # fmt: skip


def _inline(one: int, two: int, kind: str, value: str) -> Inline:
    return Inline(min(one, two), max(one, two), kind, value)  # type: ignore[arg-type]


@st.composite
def plans(draw: st.DrawFn) -> NarrationPlan:
    """A chapter cut anywhere, its stretches dealt to segments in any order."""
    chapter = Chapter(draw(TEXT), tuple(draw(st.lists(blocks(), max_size=5))))
    source = "\n\n".join(block.text for block in chapter.blocks)
    cuts = sorted({0, len(source), *draw(st.lists(st.integers(0, len(source)), max_size=8))})
    spans = list(zip(cuts, cuts[1:], strict=False))
    owners = [draw(st.integers(0, 3)) for _ in spans]
    segments = []
    for number in sorted(set(owners) - {0}):
        own = tuple(span for span, owner in zip(spans, owners, strict=True) if owner == number)
        segments.append(Segment(Utterance("x", "en"), own, "".join(source[a:b] for a, b in own)))
    script = Script(source, tuple(segments))
    document = Document(Metadata(), (chapter,))
    return NarrationPlan(document, (part(chapter, 1, script),))


@given(plans(), st.lists(st.integers(0, 50), min_size=8, max_size=8))
def test_pages_are_well_formed_and_clips_in_order(plan: NarrationPlan, lengths: list[int]) -> None:
    at, cues = 7, []
    for number in reversed(range(len(plan.parts[0].script.segments))):
        cues.append(Cue(0, number, at, at + lengths[number], "", (0, 0)))
        at += lengths[number] + lengths[number + 4]
    times = Timeline(1000, (ChapterSpan("", 7, at + 3),), tuple(cues))
    (page,) = build_pages(plan, "en")
    root = etree.fromstring(page.xhtml.encode())
    ids = [each.attrib["id"] for each in root.iter("{*}*") if "id" in each.attrib]
    assert len(ids) == len(set(ids))
    assert {piece.id for piece in page.pieces} <= set(ids)
    made = build_clips(page.pieces, times.group_cues()[0] if cues else (), times, 0)
    if made:
        assert (made[0].start_ms, made[-1].end_ms) == (0, at + 3 - 7)
        edges = [clip.start_ms for clip in made] + [made[-1].end_ms]
        assert edges == sorted(set(edges))
        track = OverlayTrack("audio/a.m4a", "audio/mp4", made)
        assert track.duration_ms == at + 3 - 7
        assert len(etree.fromstring(build_overlay(page, track).encode())[0][0]) == len(made)


@given(plans())
def test_no_word_is_lost_or_told_twice(plan: NarrationPlan) -> None:
    (page,) = build_pages(plan, "en")
    body = etree.fromstring(page.xhtml.encode()).find(".//{*}body")
    assert body is not None
    shown = [c for c in "".join(body.itertext()) if c.isalnum()]
    written = [c for block in plan.parts[0].chapter.blocks for c in block.text if c.isalnum()]
    assert shown == written


def test_a_segment_over_two_paragraphs_shares_its_time_by_length() -> None:
    pieces = [Highlight("s1", 0, 30), Highlight("s1-2", 0, 10), Highlight("s2", 1, 5)]
    times = Timeline(
        1000, (ChapterSpan("", 0, 500), ChapterSpan("", 500, 3000)),
        (Cue(1, 0, 600, 1400, "", (0, 0)), Cue(1, 1, 2000, 2900, "", (0, 0))),
    )  # fmt: skip
    made = build_clips(pieces, times.group_cues()[1], times, 1)
    assert [(clip.piece.id, clip.start_ms, clip.end_ms) for clip in made] == [
        ("s1", 0, 700), ("s1-2", 700, 1500), ("s2", 1500, 2500),
    ]  # fmt: skip
