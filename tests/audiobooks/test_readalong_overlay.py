"""Any text, any marks, any segments: pages stay well-formed and clips stay in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from anyrig.audiobooks.plan import Plan
from anyrig.audiobooks.readalong_overlay import Track, by_part, clips, clock, overlay
from anyrig.audiobooks.readalong_pages import Piece, pages
from anyrig.audiobooks.timeline import Cue, Mark, Timeline
from anyrig.speech.protocol import Line
from anyrig.speech.script import Script, Segment
from anyrig.text.document import About, Block, BlockKind, Chapter, Document, Inline
from tests.audiobooks.readalong_book import part

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
def plans(draw: st.DrawFn) -> Plan:
    """A chapter cut anywhere, its stretches dealt to segments in any order."""
    chapter = Chapter(draw(TEXT), tuple(draw(st.lists(blocks(), max_size=5))))
    source = "\n\n".join(block.text for block in chapter.blocks)
    cuts = sorted({0, len(source), *draw(st.lists(st.integers(0, len(source)), max_size=8))})
    spans = list(zip(cuts, cuts[1:], strict=False))
    owners = [draw(st.integers(0, 3)) for _ in spans]
    segments = []
    for number in sorted(set(owners) - {0}):
        own = tuple(span for span, owner in zip(spans, owners, strict=True) if owner == number)
        segments.append(Segment(Line("x", "en"), own, "".join(source[a:b] for a, b in own)))
    script = Script(source, tuple(segments))
    document = Document(About(), (chapter,))
    return Plan(document, (part(chapter, 1, script),))


@given(plans(), st.lists(st.integers(0, 50), min_size=8, max_size=8))
def test_pages_are_well_formed_and_clips_in_order(plan: Plan, lengths: list[int]) -> None:
    at, cues = 7, []
    for number in reversed(range(len(plan.parts[0].script.segments))):
        cues.append(Cue(0, number, at, at + lengths[number], "", (0, 0)))
        at += lengths[number] + lengths[number + 4]
    times = Timeline(1000, (Mark("", 7, at + 3),), tuple(cues))
    (page,) = pages(plan, "en")
    root = etree.fromstring(page.xhtml.encode())
    ids = [each.attrib["id"] for each in root.iter("{*}*") if "id" in each.attrib]
    assert len(ids) == len(set(ids))
    assert {piece.id for piece in page.pieces} <= set(ids)
    made = clips(page.pieces, by_part(times)[0] if cues else (), times, 0)
    if made:
        assert (made[0].start_ms, made[-1].end_ms) == (0, at + 3 - 7)
        edges = [clip.start_ms for clip in made] + [made[-1].end_ms]
        assert edges == sorted(set(edges))
        track = Track("audio/a.m4a", "audio/mp4", made)
        assert track.duration_ms == at + 3 - 7
        assert len(etree.fromstring(overlay(page, track).encode())[0][0]) == len(made)


@given(plans())
def test_no_word_is_lost_or_told_twice(plan: Plan) -> None:
    (page,) = pages(plan, "en")
    body = etree.fromstring(page.xhtml.encode()).find(".//{*}body")
    assert body is not None
    shown = [c for c in "".join(body.itertext()) if c.isalnum()]
    written = [c for block in plan.parts[0].chapter.blocks for c in block.text if c.isalnum()]
    assert shown == written


def test_a_segment_over_two_paragraphs_shares_its_time_by_length() -> None:
    pieces = [Piece("s1", 0, 30), Piece("s1-2", 0, 10), Piece("s2", 1, 5)]
    times = Timeline(
        1000, (Mark("", 0, 500), Mark("", 500, 3000)),
        (Cue(1, 0, 600, 1400, "", (0, 0)), Cue(1, 1, 2000, 2900, "", (0, 0))),
    )  # fmt: skip
    made = clips(pieces, by_part(times)[1], times, 1)
    assert [(clip.piece.id, clip.start_ms, clip.end_ms) for clip in made] == [
        ("s1", 0, 700), ("s1-2", 700, 1500), ("s2", 1500, 2500),
    ]  # fmt: skip


def test_words_that_are_heard_out_of_order_are_lit_out_of_order() -> None:
    pieces = [Piece("s1", 0, 5), Piece("s2", 1, 5)]
    times = Timeline(
        1000, (Mark("", 0, 400),), (Cue(0, 1, 0, 100, "", (0, 0)), Cue(0, 0, 200, 300, "", (0, 0)))
    )
    made = clips(pieces, by_part(times)[0], times, 0)
    assert [clip.piece.id for clip in made] == ["s2", "s1"]


def test_a_clock() -> None:
    assert clock(0) == "0:00:00.000"
    assert clock(3_723_045) == "1:02:03.045"
    assert clock(360_000_000) == "100:00:00.000"
