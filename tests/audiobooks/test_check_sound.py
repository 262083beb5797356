"""Finished books are checked: their sound, their words, their chapters."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyrig.audiobooks.check import verify
from anyrig.audiobooks.check_hear import Listeners
from anyrig.audiobooks.check_passages import Compared, Row, compare
from anyrig.audiobooks.check_report import Finding, Report
from anyrig.audiobooks.check_sound import Gauge, Levels, preset
from anyrig.audiobooks.check_words import Hearing
from anyrig.audiobooks.plan import Plan
from anyrig.devices.discover import discover
from anyrig.errors import InvalidInputError
from tests.audiobooks.spoken_book import TEXTS, OneEar, Sound, plan, spoken, write
from tests.speech.takes import RATE, sine


def checked(folder: Path, sound: Sound, name: str = "book.m4b", **more: object) -> Report:
    levels = more.pop("levels", None)
    path = write(folder / name, sound, **more)  # type: ignore[arg-type]
    return verify(path, plan(), words="none", levels=levels)  # type: ignore[arg-type]


def told(report: Report) -> list[tuple[str, int]]:
    return [(found.kind, found.chapter) for found in report.problems]


def only(report: Report, kind: str) -> Finding:
    found = [one for one in report.problems if one.kind == kind]
    assert len(found) == 1, report.problems
    return found[0]


@pytest.mark.parametrize("name", ["book.m4b", "chapters"])
def test_nothing_is_wrong_with_a_good_book(tmp_path: Path, name: str) -> None:
    report = checked(tmp_path, spoken(), name)
    assert report.good, report.problems
    assert [row.title for row in report.rows] == list(TEXTS)
    assert [row.chapter for row in report.rows] == [1, 2, 3]
    for row in (*report.rows, report.whole):
        assert -20 <= row.lufs <= -18
        assert row.true_peak_db < -3
        assert row.ms_per_character == pytest.approx(64, abs=8)
    assert report.notes == ("the words were not transcribed",)
    assert report.plain()["good"] is True
    last = report.lines()[-1]
    assert last.startswith("no problem with the sound in 3 chapters")
    assert last.endswith("; no words were checked")


def test_a_long_silence_is_found_with_its_time(tmp_path: Path) -> None:
    sound = spoken()
    sound[1][2] = np.concatenate([sound[1][2], np.zeros(6 * RATE, np.float32)])
    report = checked(tmp_path, sound)
    assert told(report) == [("silence", 2)]
    found = only(report, "silence")
    begins = sum(map(len, sound[0])) + sum(map(len, sound[1][:3])) - 6 * RATE
    assert found.start_s == pytest.approx(begins / RATE, abs=0.6)
    assert found.in_chapter_s == pytest.approx(
        begins / RATE - sum(map(len, sound[0])) / RATE, abs=1
    )
    patient = Levels(longest_silence_s=8.0)
    assert checked(tmp_path, sound, levels=patient).good


def test_clipping_is_found_in_its_chapter(tmp_path: Path) -> None:
    sound = spoken()
    sound[1] = [np.clip(row * 8, -1, 1) for row in sound[1]]
    report = checked(tmp_path, sound)
    assert only(report, "clipping").chapter == 2
    assert ("peak", 2) in told(report)
    assert not {chapter for _, chapter in told(report)} & {1, 3}


def test_a_book_that_is_too_loud_is_told_as_a_whole(tmp_path: Path) -> None:
    report = checked(tmp_path, [[row * np.float32(10**0.5) for row in rows] for rows in spoken()])
    assert only(report, "loudness").chapter == 0
    assert only(report, "loudness").said.startswith("its loudness is -10")
    assert {chapter for kind, chapter in told(report) if kind == "peak"} == {1, 2, 3}


def test_holes_and_a_wave_beside_the_middle(tmp_path: Path) -> None:
    sound = spoken()
    row = sound[0][1].copy()
    loud = int(np.argmax(np.convolve(np.abs(row), np.ones(4800), "same")))
    row[loud - 1200 : loud + 1200] = 0
    sound[0][1] = row
    sound[2] = [one + np.float32(0.05) for one in sound[2]]
    report = checked(tmp_path, sound)
    assert told(report) == [("dropout", 1), ("dc", 3)]
    at = (len(sound[0][0]) + loud) / RATE
    assert only(report, "dropout").start_s == pytest.approx(at, abs=0.1)


def test_chapters_that_are_missing_moved_or_misnamed(tmp_path: Path) -> None:
    sound = spoken()
    first, second, third = TEXTS
    dropped = checked(tmp_path, [sound[0], sound[2]], titles=[first, third])
    assert told(dropped) == [("chapters", 2)]
    assert "not in the file" in dropped.problems[0].said
    assert [row.chapter for row in dropped.rows] == [1, 3]
    turned = checked(tmp_path, sound[::-1], titles=[third, second, first])
    assert [found.said.split(" is ")[1] for found in turned.problems] == [
        "out of order: chapter 3 of the file", "out of order: chapter 1 of the file",
    ]  # fmt: skip
    named = checked(tmp_path, sound, titles=[first, "A Bill", third])
    assert [found.said for found in named.problems] == ["it is called 'A Bill', not 'The Letter'"]
    more = checked(tmp_path, [*sound, sound[0]], titles=[*TEXTS, "Thanks"])
    assert [found.said for found in more.problems] == [
        "'Thanks' is in the file, but not in the book"
    ]


def test_a_chapter_that_is_half_there_is_too_short(tmp_path: Path) -> None:
    sound = spoken()
    sound[1] = sound[1][:2]
    assert told(checked(tmp_path, sound)) == [("duration", 2)]
    sound[1] = [row * 0 for row in spoken()[1]]
    assert told(checked(tmp_path, sound)) == [("duration", 2), ("silence", 2)]


def test_acx_asks_for_other_things(tmp_path: Path) -> None:
    good = checked(tmp_path, spoken(), "chapters", levels=preset("acx"))
    assert good.good
    assert any("44.1 kHz and 192 kbit/s" in note for note in good.notes)
    chance = np.random.default_rng(5)
    noisy = [
        [row + chance.normal(0, 0.004, len(row)).astype(np.float32) for row in rows]
        for rows in spoken()
    ]
    noisy[2] = [row * np.float32(0.2) for row in noisy[2]]
    report = checked(tmp_path, noisy, levels=preset("acx"))
    assert {one for one in told(report) if one[0] == "noise"} == {("noise", n) for n in (1, 2)}
    assert [one for one in told(report) if one[0] == "loudness"] == [("loudness", 3)]
    with pytest.raises(InvalidInputError, match="unknown levels"):
        preset("loudest")


def test_figures_of_a_plain_tone() -> None:
    """A sine of full scale is -3.01 dB RMS by reckoning; one channel of 1 kHz, -3.01 LUFS."""
    gauge = Gauge(48000, 1)
    for part in np.split(sine(10.0, 1000.0, 48000, 0.5), 50):
        gauge.add(part.reshape(-1, 1))
    found = gauge.sound()
    assert found.rms_db == pytest.approx(-9.03, abs=0.01)
    assert found.peak_db == pytest.approx(-6.02, abs=0.01)
    assert found.true_peak_db == pytest.approx(-6.02, abs=0.1)
    assert found.lufs == pytest.approx(-9.03, abs=0.1)
    assert found.clipped == ()
    assert found.dc == pytest.approx(0.0, abs=1e-4)


def test_clipping_that_was_made_quieter_is_seen_where_nothing_was_lost() -> None:
    gauge = Gauge(RATE, 1)
    gauge.add(0.6 * np.clip(2 * sine(1.0, 220.0), -0.6, 0.6).reshape(-1, 1))
    assert len(gauge.sound().clipped) > 50


def sentence(chapter: int, number: int) -> str:
    return plan().parts[chapter - 1].script.segments[number - 1].text.strip()


def test_missing_doubled_and_moved_sentences_are_found_in_a_book_of_files(tmp_path: Path) -> None:
    sound = spoken()
    del sound[0][3]
    sound[1].insert(2, sound[1][2])
    sound[2][1], sound[2][2] = sound[2][2], sound[2][1]
    told: list[tuple[str, float, float]] = []
    report = verify(
        write(tmp_path / "chapters", sound), plan(), words="all", ears=OneEar(),
        tell=lambda *now: told.append(now),
    )  # fmt: skip
    missing, doubled, moved = report.problems
    assert (missing.kind, missing.chapter, missing.again) == ("missing", 1, ("1:4",))
    assert missing.text == sentence(1, 4)
    before = sum(map(len, sound[0][:3])) / RATE
    assert missing.in_chapter_s == pytest.approx(before, abs=1.5)
    assert (doubled.kind, doubled.chapter, doubled.again) == ("doubled", 2, ("2:3",))
    assert doubled.text == sentence(2, 3)
    assert (moved.kind, moved.chapter) == ("moved", 3)
    assert moved.again in (("3:2",), ("3:3",))
    assert report.again == (*missing.again, *doubled.again, *moved.again)
    assert report.recognisers == ("moonshine",)
    assert report.unchecked == ()
    assert {what for what, _, _ in told} == {"measuring", "listening", "listening again"}
    assert all(done <= total + 1e-6 for _, done, total in told)


def test_a_good_book_is_heard_without_a_finding(tmp_path: Path) -> None:
    """A file without chapters: what is heard is compared with all of the text."""
    book = tmp_path / "book.wav"
    import soundfile

    soundfile.write(book, np.concatenate([row for rows in spoken() for row in rows]), RATE)
    report = verify(book, plan(), words="all", ears=OneEar())
    assert [found.said for found in report.problems] == ["it has no chapters; there should be 3"]
    assert report.whole.words == pytest.approx(150, abs=5)
    assert report.whole.errors <= 0.06 * report.whole.words


def test_what_nobody_can_hear_is_said(tmp_path: Path) -> None:
    book = write(tmp_path / "book.m4b", spoken())
    deaf = verify(book, plan(), words="sample", ears=None)
    assert deaf.unchecked == ("the words: no speech recognition is installed",)
    foreign = _in_language("tlh")
    report = verify(book, foreign, words="all", ears=OneEar())
    (unchecked,) = report.unchecked  # once, not by chapter
    assert "no speech recognition model supports the language 'tlh'" in unchecked
    assert report.whole.heard_s == 0
    assert report.good, "nothing else is wrong"
    assert "not checked: words of chapters 1, 2, 3: " in "\n".join(report.lines())


def _in_language(code: str) -> Plan:
    parts = []
    for part in plan().parts:
        segments = tuple(
            replace(one, utterance=replace(one.utterance, language=code))
            for one in part.script.segments
        )
        parts.append(replace(part, script=replace(part.script, segments=segments)))
    return replace(plan(), parts=tuple(parts))


@pytest.mark.slow
def test_a_sample_hears_something_of_each_chapter_in_workers(tmp_path: Path) -> None:
    sound = spoken()
    sound[1] = sound[2]  # another chapter's words under this one's title
    ears = Listeners(discover(), environment=os.environ, folder=str(tmp_path / "models"))
    report = verify(
        write(tmp_path / "book.m4b", sound), plan(), words="sample", ears=ears,
        hearing=Hearing(sample_s=1.0),
    )  # fmt: skip
    assert all(row.heard_s > 5 for row in report.rows)
    assert {found.chapter for found in report.problems} == {2}
    assert {found.kind for found in report.problems} <= {"wrong", "missing", "extra", "words"}
    assert [row.title for row in report.rows] == list(TEXTS)


ALICE = Path(__file__).parent.parent / "texts" / "alice.txt"


def words() -> list[str]:
    return ALICE.read_text(encoding="utf-8").lower().split()


def row(text: str, segments: bool = False) -> Row:
    """What should be heard has a segment for each sentence; what was has a word each 0.4 s."""
    made, sentence = Row(), 0
    for at, word in enumerate(text.split()):
        made.add(word, (0, sentence) if segments else (0.4 * at, 0.4 * at + 0.4), "en")
        sentence += word.endswith((".", "!", "?"))
    return made


TEXT = (
    "The harbour lay quiet under a thin grey mist. Two fishermen were mending their nets. "
    "A white dog slept in the shade of an empty boat. They paid $3.50 for it in 1897. "
    "Nobody had seen the keeper of the lighthouse since Tuesday. Then a bell rang far away."
)


def against(heard: str, *, first: bool = True, last: bool = True) -> Compared:
    return compare(row(TEXT, segments=True), row(heard), first=first, last=last)


def test_what_is_heard_well_has_no_passages() -> None:
    found = against(TEXT.replace("$3.50", "three dollars and fifty cents").replace("grey", "gray"))
    assert found.passages == ()
    assert found.errors == 0
    slips = TEXT.replace("fishermen", "fisher men").replace("mist", "midst").replace("nets", "net")
    assert against(slips).passages == ()
    assert 1 <= against(slips).errors <= 3


def test_missing_doubled_and_changed_sentences() -> None:
    sentences = TEXT.replace(". ", ".|").split("|")
    found = against(" ".join(sentences[:2] + sentences[3:])).passages
    assert [(one.kind, one.segments) for one in found] == [("missing", ((0, 2),))]
    assert found[0].said == sentences[2]
    assert found[0].start_s == pytest.approx(0.4 * 15, abs=0.5)
    found = against(" ".join([*sentences[:3], *sentences[2:]])).passages
    assert [(one.kind, one.segments) for one in found] == [("doubled", ((0, 2),))]
    other = "A large horse stood under that tree and ate some grass."
    found = against(" ".join([*sentences[:2], other, *sentences[3:]])).passages
    assert [(one.kind, one.segments) for one in found] == [("wrong", ((0, 2),))]
    found = against(" ".join([*sentences[:2], other, *sentences[2:]])).passages
    assert [one.kind for one in found] == ["extra"]
    assert found[0].heard == other


def test_the_first_and_the_last_sentence_are_missed_too() -> None:
    sentences = TEXT.replace(". ", ".|").split("|")
    assert [one.segments for one in against(" ".join(sentences[1:])).passages] == [((0, 0),)]
    assert [one.segments for one in against(" ".join(sentences[:-1])).passages] == [((0, 5),)]
    middle = against(" ".join(sentences[1:-1]), first=False, last=False)
    assert middle.passages == ()
    assert middle.words == len(row(" ".join(sentences[1:-1])).words)


def test_a_stretch_is_found_in_a_long_text_or_is_lost() -> None:
    text = ALICE.read_text(encoding="utf-8").split()
    said = row(" ".join(text), segments=True)
    heard = row(" ".join(text[4000:4030] + text[4045:4090]))
    found = compare(said, heard, first=False, last=False)
    assert [one.kind for one in found.passages] == ["missing"]
    assert found.passages[0].said == " ".join(text[4030:4045])
    strange = row("Nothing of this was ever written by anybody in the whole of that little book")
    assert compare(said, strange, first=False, last=False).lost


def test_chinese_is_compared_by_letters() -> None:
    said, heard = Row(), Row()
    said.add("今天天气很好我们去公园散步吧。", (0, 0), "zh")
    heard.add("今天天气很好", (0.0, 2.0), "zh")
    found = compare(said, heard)
    assert [(one.kind, one.said) for one in found.passages] == [("missing", "我们去公园散步吧")]
    assert found.errors == 8


def test_a_number_that_was_heard_is_read_as_the_text_reads_it() -> None:
    said = Row()
    for word in "in nineteen eighty seven he paid one thousand dollars".split():
        said.add(word, (0, 0), "en")
    heard = said.beside()
    for at, word in enumerate("in 1987, he paid $1000".split()):
        heard.add(word, (at, at + 1), "en")
    assert heard.words == said.words
    plain = Row()
    plain.add("1987", (0, 1), "en")
    assert plain.words[0] == "one"
