"""Captions: short lines, in time, never over each other, and files that players read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.audiobooks.captions import (
    build_book_captions,
    format_chapters_vtt,
    write_captions,
    write_chapter_captions,
)
from anyrig.audiobooks.record import ChapterSpan, Cue, Timeline
from anyrig.speech.engine import WordTime
from anyrig.text.captions import LINE, Caption, pieces, srt, vtt, width, wrap_lines

RATE = 24000
LONG = (
    "It was a bright cold day in April, and the clocks were striking thirteen; Winston Smith, his "
    "chin nuzzled into his breast in an effort to escape the vile wind, slipped quickly through "
    "the glass doors of Victory Mansions, though not quickly enough to prevent a swirl of gritty "
    "dust from entering along with him."
)


def book(
    *said: tuple[str, float, float], marks: tuple[ChapterSpan, ...] = (), **more: object
) -> Timeline:
    """Cues at those seconds, all in one chapter unless marks say otherwise."""
    end = round(RATE * (max((stop for _, _, stop in said), default=0.0) + 1))
    placed = marks or (ChapterSpan("One", 0, end),)
    cues = []
    for number, (text, start, stop) in enumerate(said):
        first, last = round(start * RATE), round(stop * RATE)
        part = next(n for n, mark in enumerate(placed) if first < mark.end)
        cues.append(Cue(part, number, first, last, text, (0, len(text)), **more))  # type: ignore[arg-type]
    return Timeline(RATE, placed, tuple(cues))


def seconds(caption: Caption) -> tuple[float, float]:
    return caption.start_ms / 1000, caption.end_ms / 1000


def test_a_long_segment_is_cut_where_one_pauses() -> None:
    shown = build_book_captions(book((LONG, 1.0, 19.0)))
    assert " ".join(line for caption in shown for line in caption.lines) == LONG
    assert all(len(caption.lines) <= 2 for caption in shown)
    assert all(len(line) <= LINE for caption in shown for line in caption.lines)
    assert sum(caption.lines[-1][-1] in ",;." for caption in shown) >= len(shown) // 2
    assert seconds(shown[0])[0] == 1.0
    assert seconds(shown[-1])[1] == 19.0
    for one, other in zip(shown, shown[1:], strict=False):
        assert one.end_ms == other.start_ms
    rates = [sum(map(len, c.lines)) / (c.end_ms - c.start_ms) for c in shown]
    assert max(rates) < 1.2 * min(rates), "time goes by letters"


def test_times_of_words_are_used() -> None:
    words = LONG.replace("thirteen", "13").split()
    spoken = []
    place = 2.0
    for word in " ".join(words).replace("13", "thirteen o'clock").split():
        spoken.append(WordTime(word.strip(",;.").lower(), place, place + 0.1))
        place += 0.9 if word == "thirteen" else 0.3
    end = place
    line = book((" ".join(words), 2.0, end), words=tuple(spoken))
    shown = build_book_captions(line)
    starts = {word.start_s: word.text for word in spoken}
    assert len(shown) >= 4
    for caption in shown:
        first = re.sub(r"\W", "", caption.lines[0].split()[0]).lower()
        begun = min(starts, key=lambda time: abs(time - caption.start_ms / 1000))
        assert abs(begun - caption.start_ms / 1000) < 0.002
        assert starts[begun] == first


def test_short_ones_stay_a_second_where_there_is_room() -> None:
    shown = build_book_captions(book(("Yes.", 1.0, 1.3), ("No.", 1.5, 1.9), ("Oh.", 4.0, 4.2)))
    assert [seconds(caption) for caption in shown] == [(1.0, 1.5), (1.5, 2.5), (4.0, 5.0)]


def test_slow_ones_are_cut_by_time() -> None:
    shown = build_book_captions(book(("One two three four five six seven eight.", 0.0, 24.0)))
    assert len(shown) == 4
    assert max(end - start for start, end in map(seconds, shown)) < 9
    assert len(build_book_captions(book(("Om.", 0.0, 30.0)))) == 1


def test_gaps_are_marked_and_empty_ones_left_out() -> None:
    shown = build_book_captions(book(("It is lost.", 1.0, 2.0), (LONG, 3.0, 4.0), is_gap=True))
    assert shown[0].lines == ("[Not spoken: It is lost.]",)
    assert " ".join(shown[1].lines).startswith("[Not spoken: It was a bright cold")
    assert len(shown) == 2
    assert build_book_captions(book((" \n ", 0.0, 1.0))) == []
    assert build_book_captions(Timeline(RATE, (), ())) == []


def test_a_chapters_own_times(tmp_path: Path) -> None:
    marks = (ChapterSpan("A", 0, 5 * RATE), ChapterSpan("B", 5 * RATE, 12 * RATE))
    line = book(("First.", 1.0, 3.0), ("Second.", 6.5, 8.0), ("Last.", 11.5, 11.8), marks=marks)
    files = write_chapter_captions([tmp_path / "1.mp3", tmp_path / "2.mp3"], line, ["vtt"])
    times = [re.findall(r"0([\d.]+) --> 00:0([\d:.]+)", file.read_text()) for file in files]
    assert times == [[("1.000", "0:03.000")], [("1.500", "0:03.000"), ("6.500", "0:07.000")]]


def test_srt_is_as_players_read_it() -> None:
    line = book(("Say <i>yes</i> --> {\\an8} & 5 < 6.", 3661.5, 3663.0), ("Ok.", 3663.5, 3665.0))
    made = srt(build_book_captions(line))
    assert made == (
        "1\r\n01:01:01,500 --> 01:01:03,000\r\n"
        "Say <\u2060i>yes<\u2060/i> → {\u2060\\an8} & 5 < 6.\r\n\r\n"
        "2\r\n01:01:03,500 --> 01:01:05,000\r\nOk.\r\n"
    )


def test_webvtt_is_valid() -> None:
    marks = (ChapterSpan("A --> B", 0, 5 * RATE), ChapterSpan("", 5 * RATE, 9 * RATE))
    line = book(("<b> & --> x", 0.0, 2.0), ("NOTE this", 6.0, 8.0), marks=marks)
    made = vtt(build_book_captions(line), ["A --> B", "Chapter 2"])
    assert made == (
        "WEBVTT\n\nNOTE A → B\n\n1\n00:00:00.000 --> 00:00:02.000\n&lt;b&gt; &amp; --&gt; x\n\n"
        "NOTE Chapter 2\n\n2\n00:00:06.000 --> 00:00:08.000\nNOTE this\n"
    )
    assert format_chapters_vtt(line) == (
        "WEBVTT\n\n1\n00:00:00.000 --> 00:00:05.000\nA --&gt; B\n\n"
        "2\n00:00:05.000 --> 00:00:09.000\nChapter 2\n"
    )


def test_files_lie_beside_the_book(tmp_path: Path) -> None:
    line = book(("Grüße 🎉", 0.0, 2.0))
    found = write_captions(tmp_path / "Mr. X.m4b", line)
    assert [path.name for path in found] == ["Mr. X.srt", "Mr. X.vtt", "Mr. X.chapters.vtt"]
    assert found[0].read_bytes().startswith(b"1\r\n00:00:00,000")
    assert "Grüße 🎉\r\n".encode() in found[0].read_bytes()
    assert found[1].read_bytes().startswith(b"WEBVTT\n\nNOTE One\n")
    (alone,) = write_chapter_captions([tmp_path / "01 a.mp3"], line, ["vtt"])
    assert alone.name == "01 a.vtt"


def test_ffmpeg_reads_them(tmp_path: Path) -> None:
    import av

    line = book((LONG, 1.0, 19.0), ("Last <one> & all.", 20.0, 22.0))
    shown = build_book_captions(line)
    for path in write_captions(tmp_path / "b.m4b", line)[:2]:
        with av.open(str(path)) as file:
            packets = [packet for packet in file.demux() if packet.size]
        assert len(packets) == len(shown)
        times = [round((packet.pts or 0) * packet.time_base * 1000) for packet in packets]
        assert times == [caption.start_ms for caption in shown]


@pytest.mark.parametrize(
    "text",
    ["word " * 60, "x" * 300, "これは長い文です。" * 20, "e\u0301" * 200],
)
def test_any_script_fits(text: str) -> None:
    text = text.strip()
    parts = pieces(text)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    for part in parts:
        lines = wrap_lines(part)
        assert lines is not None
        assert all(width(line) <= LINE for line in lines)
    assert len(parts) <= 2 * width(text) / (2 * LINE) + 1


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(max_size=250), st.integers(0, 3000), st.integers(0, 20_000)),
        max_size=8,
    ),
    st.integers(8000, 48000),
)
def test_nothing_overlaps_whatever_is_said(said: list[tuple[str, int, int]], rate: int) -> None:
    place, cues = 0, []
    for number, (text, pause, length) in enumerate(said):
        start = place + pause * rate // 1000
        place = start + length * rate // 1000
        cues.append(Cue(0, number, start, place, text, (0, len(text))))
    line = Timeline(rate, (ChapterSpan("x", 0, place + 1),), tuple(cues))
    shown = build_book_captions(line)
    end = 0
    for caption in shown:
        assert end <= caption.start_ms < caption.end_ms
        end = caption.end_ms
        assert 1 <= len(caption.lines) <= 2
        assert all(text and width(text) <= LINE for text in caption.lines)
    for block in vtt(shown).split("\n\n")[1:]:
        assert block.count("-->") == 1
    assert srt(shown).count("-->") == len(shown)
