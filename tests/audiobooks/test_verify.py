"""A finished book, verified: what is right passes, and each fault is found in its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyrig.audiobooks.plan import NarrationPlan
from anyrig.audiobooks.verify import BookFinding, Report, verify
from anyrig.audiobooks.verify_audio import AudioMeter, Levels, find_preset
from anyrig.errors import InvalidInputError
from tests.audiobooks.spoken_book import TEXTS, Sound, plan, spoken, timeline, transcribe, write
from tests.speech.takes import RATE, sine


def checked(folder: Path, sound: Sound, name: str = "book.m4b", **more: object) -> Report:
    levels = more.pop("levels", None)
    path = write(folder / name, sound, **more)  # type: ignore[arg-type]
    return verify(path, plan(), timeline(sound), words="none", levels=levels)  # type: ignore[arg-type]


def told(report: Report) -> list[tuple[str, int]]:
    return [(found.kind, found.chapter) for found in report.problems]


def only(report: Report, kind: str) -> BookFinding:
    found = [one for one in report.problems if one.kind == kind]
    assert len(found) == 1, report.problems
    return found[0]


@pytest.mark.parametrize("name", ["book.m4b", "chapters"])
def test_nothing_is_wrong_with_a_good_book(tmp_path: Path, name: str) -> None:
    report = checked(tmp_path, spoken(), name)
    assert report.is_good, report.problems
    assert [row.title for row in report.chapters] == list(TEXTS)
    assert [row.chapter for row in report.chapters] == [1, 2, 3]
    for row in (*report.chapters, report.whole):
        assert -20 <= row.audio.lufs <= -18
        assert row.audio.true_peak_db < -3
    assert report.notes == ("the words were not transcribed",)
    assert report.to_json()["good"] is True
    last = report.format()[-1]
    assert last.startswith("no problem with the audio in 3 chapters")
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
    assert checked(tmp_path, sound, levels=patient).is_good


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
    assert only(report, "loudness").message.startswith("its loudness is -10")
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


def test_another_book_is_refused(tmp_path: Path) -> None:
    """Books of other programs, or made with other options, have no timeline."""
    sound = spoken()
    book = write(tmp_path / "book.m4b", sound[::-1])
    with pytest.raises(InvalidInputError, match="is not the book") as caught:
        verify(book, plan(), timeline(sound), words="none")
    assert "other programs" in caught.value.hint
    with pytest.raises(InvalidInputError, match="no such file"):
        verify(tmp_path / "none.m4b", plan(), timeline(sound))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="contains no audio"):
        verify(tmp_path / "empty", plan(), timeline(sound))


def test_chapters_that_are_missing_or_misnamed(tmp_path: Path) -> None:
    sound = spoken()
    first, second, third = TEXTS
    book = write(tmp_path / "book.m4b", sound, titles=[first, "A Bill", third])
    report = verify(book, plan(), timeline(sound), words="none")
    assert [found.message for found in report.problems] == [
        "it is called 'A Bill', not 'The Letter'"
    ]
    folder = write(tmp_path / "chapters", sound)
    next(folder.glob("03*.mp3")).unlink()
    report = verify(folder, plan(), timeline(sound), words="none")
    assert [found.message for found in report.problems] == ["'The Journey' is not in the folder"]


def test_a_chapter_whose_file_is_cut_is_too_short(tmp_path: Path) -> None:
    sound = spoken()
    cut = [list(rows) for rows in sound]
    cut[1] = cut[1][:3]
    folder = write(tmp_path / "chapters", cut)
    report = verify(folder, plan(), timeline(sound), words="none")
    assert set(told(report)) == {("duration", 2)}
    silent = [list(rows) for rows in sound]
    silent[1] = [row * 0 for row in silent[1]]
    report = verify(write(tmp_path / "book.m4b", silent), plan(), timeline(sound), words="none")
    assert told(report) == [("silence", 2)]


def test_acx_asks_for_other_things(tmp_path: Path) -> None:
    good = checked(tmp_path, spoken(), "chapters", levels=find_preset("acx"))
    assert good.is_good
    assert any("44.1 kHz and 192 kbit/s" in note for note in good.notes)
    chance = np.random.default_rng(5)
    noisy = [
        [row + chance.normal(0, 0.004, len(row)).astype(np.float32) for row in rows]
        for rows in spoken()
    ]
    noisy[2] = [row * np.float32(0.2) for row in noisy[2]]
    report = checked(tmp_path, noisy, levels=find_preset("acx"))
    assert {one for one in told(report) if one[0] == "noise"} == {("noise", n) for n in (1, 2)}
    assert [one for one in told(report) if one[0] == "loudness"] == [("loudness", 3)]
    with pytest.raises(InvalidInputError, match="unknown levels"):
        find_preset("loudest")


def test_figures_of_a_plain_tone() -> None:
    """A sine of full scale is -3.01 dB RMS by reckoning; one channel of 1 kHz, -3.01 LUFS."""
    gauge = AudioMeter(48000)
    for part in np.split(sine(10.0, 1000.0, 48000, 0.5), 50):
        gauge.add(part)
    found = gauge.measure()
    assert found.rms_db == pytest.approx(-9.03, abs=0.01)
    assert found.peak_db == pytest.approx(-6.02, abs=0.01)
    assert found.true_peak_db == pytest.approx(-6.02, abs=0.1)
    assert found.lufs == pytest.approx(-9.03, abs=0.1)
    assert found.clipped == ()
    assert found.dc == pytest.approx(0.0, abs=1e-4)


def test_clipping_that_was_made_quieter_is_seen_where_nothing_was_lost() -> None:
    gauge = AudioMeter(RATE)
    gauge.add(0.6 * np.clip(2 * sine(1.0, 220.0), -0.6, 0.6))
    assert len(gauge.measure().clipped) > 50


def test_wrong_words_are_found_in_their_segments(tmp_path: Path) -> None:
    sound = spoken()
    changed = [list(rows) for rows in sound]
    # The takes of two segments are those of others, cut or filled up to their lengths.
    changed[0][3] = np.resize(sound[2][1], len(sound[0][3]))
    changed[1][2] = changed[1][2] * 0
    progress: list[tuple[str, float, float]] = []
    report = verify(
        write(tmp_path / "chapters", changed), plan(), timeline(sound), words="all",
        transcribe=transcribe, on_progress=lambda *now: progress.append(now),
    )  # fmt: skip
    wrong = [found for found in report.problems if found.kind == "words"]
    assert [found.again for found in wrong] == [("1:4",), ("2:3",)]
    assert wrong[0].text == plan().parts[0].script.segments[3].text.strip()
    begins = sum(map(len, sound[0][:3])) / RATE
    assert wrong[0].in_chapter_s == pytest.approx(begins, abs=0.1)
    assert "'nothing' is heard" in wrong[1].message
    assert report.again == ("1:4", "2:3")
    assert report.unchecked == ()
    assert {stage for stage, _, _ in progress} == {"measuring", "listening"}
    assert all(done <= total + 1e-6 for _, done, total in progress)


def test_a_good_book_is_transcribed_without_a_finding(tmp_path: Path) -> None:
    sound = spoken()
    report = verify(
        write(tmp_path / "book.m4b", sound), plan(), timeline(sound), words="all",
        transcribe=transcribe,
    )  # fmt: skip
    assert report.is_good, report.problems
    assert report.whole.words == pytest.approx(150, abs=8)
    assert report.whole.errors <= 0.06 * report.whole.words


def test_a_sample_has_something_of_each_chapter(tmp_path: Path) -> None:
    sound = spoken()
    report = verify(
        write(tmp_path / "book.m4b", sound), plan(), timeline(sound), words="sample",
        sample_s=5.0, transcribe=transcribe,
    )  # fmt: skip
    assert all(0 < row.transcribed_s < 12 for row in report.chapters)


def test_what_cannot_be_transcribed_is_named(tmp_path: Path) -> None:
    sound = spoken()
    book = write(tmp_path / "book.m4b", sound)
    deaf = verify(book, plan(), timeline(sound), words="sample")
    assert deaf.unchecked == ("the words: no speech recognition is installed",)
    foreign = _in_language("tlh")
    report = verify(book, foreign, timeline(sound), words="all", transcribe=transcribe)
    (unchecked,) = report.unchecked  # once, not by chapter
    assert "does not support the language 'tlh'" in unchecked
    assert report.whole.transcribed_s == 0
    assert report.is_good, "nothing else is wrong"


def _in_language(code: str) -> NarrationPlan:
    parts = []
    for part in plan().parts:
        segments = tuple(
            replace(one, utterance=replace(one.utterance, language=code))
            for one in part.script.segments
        )
        parts.append(replace(part, script=replace(part.script, segments=segments)))
    return replace(plan(), parts=tuple(parts))
