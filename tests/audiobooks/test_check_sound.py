"""Levels, silences, clipping and holes are found where they are, and nothing in good sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anyrig.audiobooks.check import verify
from anyrig.audiobooks.check_report import Finding, Report
from anyrig.audiobooks.check_sound import PRESETS, Gauge, Levels, preset
from anyrig.errors import InvalidInputError
from tests.audiobooks.spoken_book import TEXTS, Sound, plan, spoken, write
from tests.speech.sound.takes import RATE, sine


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
    assert report.lines()[-1].startswith("nothing wrong in 3 chapters")


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


@pytest.mark.parametrize("name", ["book.m4b", "chapters"])
def test_clipping_is_found_in_its_chapter(tmp_path: Path, name: str) -> None:
    sound = spoken()
    sound[1] = [np.clip(row * 8, -1, 1) for row in sound[1]]
    report = checked(tmp_path, sound, name)
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
    with pytest.raises(InvalidInputError, match="no levels"):
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


def test_two_channels_are_as_loud_as_both(tmp_path: Path) -> None:
    one, two = Gauge(RATE, 1), Gauge(RATE, 2)
    wave = sine(3.0, 1000.0).reshape(-1, 1)
    one.add(wave)
    two.add(np.repeat(wave, 2, axis=1))
    assert two.sound().lufs == pytest.approx(one.sound().lufs + 3.01, abs=0.05)
    assert two.sound().rms_db == pytest.approx(one.sound().rms_db, abs=0.01)


def test_every_preset_is_called_by_its_name() -> None:
    assert all(levels.name == name for name, levels in PRESETS.items())
