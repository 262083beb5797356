"""What speaks against a text, how overlaps are joined, and how transcripts are written."""

from __future__ import annotations

import json

import numpy as np
import pytest

from anyrig.recognise import guard
from anyrig.recognise.forms import FORMS, captions, paragraphs, plain, written
from anyrig.recognise.gather import Gap, Transcription
from anyrig.recognise.plain import kept_form, opened_form
from anyrig.recognise.protocol import RATE, Line, Transcript, Word
from anyrig.recognise.resample import Samples
from anyrig.recognise.stitch import stitched
from anyrig.text.captions_cut import LINE, width

LOOP = "thank you very much for watching " * 12
SAID = "The ship sailed from Liverpool on the fourth of July with three hundred passengers."


def noise(seconds: float) -> Samples:
    made = np.random.default_rng(1).standard_normal(round(seconds * RATE)) * 0.1
    return made.astype(np.float32)


def test_loops_and_haste_are_doubtful() -> None:
    assert guard.doubt(LOOP, 28.0) == guard.LOOPS
    assert guard.doubt("no, no, no, no, no, no, no, no, no, no, no, no, no!", 9.0) == guard.LOOPS
    assert guard.doubt(SAID, 1.0) == guard.HASTY
    assert guard.doubt(SAID, 6.0) == ""
    assert guard.doubt("No, no!", 0.1) == ""


def test_a_loop_is_heard_again_in_two_parts() -> None:
    sizes: list[int] = []

    def hear(samples: Samples) -> Transcript:
        sizes.append(len(samples))
        seconds = len(samples) / RATE
        text = LOOP if seconds > 15 else f"part of {seconds:.0f}"
        return Transcript(text, "en", (Line(text, 0.0, seconds),))

    heard = guard.careful(hear, noise(20))
    assert len(sizes) == 3
    assert sum(sizes[1:]) == sizes[0]
    assert "thank" not in heard.text
    assert heard.lines[1].start_s == pytest.approx(sizes[1] / RATE, abs=0.2)
    assert not any(line.doubt for line in heard.lines)


def test_a_loop_that_stays_is_flagged() -> None:
    def hear(samples: Samples) -> Transcript:
        return Transcript(LOOP, "en", (Line(LOOP.strip(), 0.0, len(samples) / RATE),))

    assert all(line.doubt == guard.LOOPS for line in guard.careful(hear, noise(20)).lines)


def test_words_heard_in_silence_are_dropped() -> None:
    samples = np.concatenate([noise(2), np.zeros(5 * RATE, np.float32)])
    lines = (Line("Hello.", 0.0, 2.0), Line("You", 4.0, 5.0))
    heard = guard.careful(lambda _: Transcript("Hello. You", "en", lines), samples)
    assert heard.text == "Hello."


def test_a_line_is_drawn_to_where_it_sounds() -> None:
    quiet = np.zeros(2 * RATE, np.float32)
    samples = np.concatenate([quiet, noise(3), quiet])
    first = Transcript("Hello.", "en", (Line("Hello.", 0.0, 7.0),))
    (line,) = guard.careful(lambda _: first, samples).lines
    assert line.start_s == pytest.approx(1.9, abs=0.06)
    assert line.end_s == pytest.approx(5.1, abs=0.06)


def test_overlaps_are_joined_by_their_words() -> None:
    before = [Line("and so they went down to the river", 20.0, 28.0)]
    after = [Line("to the river, where the boat lay.", 26.0, 31.0)]
    one, other = stitched(before, after, 26.0, 28.0)
    text = " ".join(line.text for line in (*one, *other))
    assert text.replace(",", "") == "and so they went down to the river where the boat lay."


def test_overlaps_without_a_common_word_are_cut_in_the_middle() -> None:
    words = tuple(Word(f"w{n}", float(n), n + 1.0) for n in range(10))
    others = tuple(Word(f"v{n}", 8.0 + n, 9.0 + n) for n in range(5))
    before = [Line(" ".join(w.text for w in words), 0.0, 10.0, words)]
    after = [Line(" ".join(w.text for w in others), 8.0, 13.0, others)]
    one, other = stitched(before, after, 8.0, 10.0)
    assert one[-1].text.endswith("w8")
    assert other[0].text == "v1 v2 v3 v4"


def transcription(*lines: Line) -> Transcription:
    return Transcription(
        "talk #1.mp3", 100.0, "en", "as asked for", (("en", 1.0),), "moonshine", "moonshine",
        lines, gaps=(Gap(80.0, 90.0, "no memory"),),
    )  # fmt: skip


LINES = (
    Line(SAID, 0.5, 6.0, avg_logprob=-0.2, no_speech_prob=0.01),
    Line("It was *cold* --> & <b>windy</b>.", 6.2, 8.0),
    Line("A " + "very " * 60 + "long story.", 12.0, 40.0, doubt="it repeats itself"),
)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_can_be_written(form: str) -> None:
    text = written(transcription(*LINES), form)  # type: ignore[arg-type]
    assert "Liverpool" in text
    assert written(transcription(), form) is not None  # type: ignore[arg-type]


def test_text_is_in_paragraphs() -> None:
    assert written(transcription(*LINES), "txt").count("\n\n") == 1, "after the pause of 4 s"
    assert written(transcription(), "txt") == ""
    many = [Line(SAID, float(n), n + 0.9) for n in range(30)]
    assert 2 < len(list(paragraphs(many))) < 10


def test_captions_fit_and_never_overlap() -> None:
    shown = captions(LINES)
    assert all(len(one.lines) <= 2 for one in shown)
    assert all(width(line) <= LINE for one in shown for line in one.lines)
    at = 0
    for one in shown:
        assert at <= one.start_ms < one.end_ms
        at = one.end_ms
    assert max(one.end_ms - one.start_ms for one in shown) <= 8000
    text = written(transcription(*LINES), "vtt")
    assert text.startswith("WEBVTT\n")
    assert "--&gt; &amp; &lt;b&gt;" in text
    assert "\r\n00:00:00,500 --> " in written(transcription(*LINES), "srt")


def test_captions_follow_the_times_of_words() -> None:
    words = tuple(Word(word, 2.0 * n, 2.0 * n + 1) for n, word in enumerate(("very " * 30).split()))
    shown = captions([Line(" ".join(w.text for w in words), 0.0, 60.0, words)])
    assert all(one.start_ms % 2000 == 0 for one in shown)


def test_markdown_is_escaped() -> None:
    text = written(transcription(*LINES), "md")
    assert text.startswith("# talk \\#1.mp3\n")
    assert "**[00:12]**" in text
    assert "\\*cold\\*" in text
    assert "Not heard: 01:20 to 01:30" in text


def test_programs_get_what_is_known() -> None:
    found = json.loads(json.dumps(plain(transcription(*LINES))))
    first, second, third = found["segments"]
    assert first["avg_logprob"] == -0.2
    assert first["confidence"] == pytest.approx(0.8187, abs=1e-3)
    assert second["avg_logprob"] is None
    assert third["doubt"] == "it repeats itself"
    assert found["not_heard"] == [{"start": 80.0, "end": 90.0, "why": "no memory"}]


def test_what_is_kept_comes_back_as_it_was() -> None:
    words = (Word("Hello", 0.0, 0.5, 0.9),)
    heard = Transcript("Hello", "en", (Line("Hello", 0.0, 0.5, words, -0.1),), (("en", 0.9),))
    assert opened_form(json.dumps(kept_form(heard)).encode()) == heard
    assert opened_form(b"{}") is None
    assert opened_form(b"not json") is None
