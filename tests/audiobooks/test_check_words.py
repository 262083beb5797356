"""What a book says is heard by a real recogniser, and laid beside its text."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyrig.audiobooks.check import verify
from anyrig.audiobooks.check_hear import Listeners
from anyrig.audiobooks.check_words import Hearing
from anyrig.audiobooks.plan import Plan
from anyrig.devices.discover import discover
from tests.audiobooks.spoken_book import TEXTS, OneEar, plan, spoken, write
from tests.speech.sound.takes import RATE


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
    assert deaf.unchecked == ("the words: there is no recogniser",)
    foreign = _in_language("tlh")
    report = verify(book, foreign, words="all", ears=OneEar())
    (unchecked,) = report.unchecked  # once, not by chapter
    assert "no recogniser hears 'tlh'" in unchecked
    assert report.whole.heard_s == 0
    assert report.good, "nothing else is wrong"
    assert "not checked: words of chapters 1, 2, 3: " in "\n".join(report.lines())


def _in_language(code: str) -> Plan:
    parts = []
    for part in plan().parts:
        segments = tuple(
            replace(one, line=replace(one.line, language=code)) for one in part.script.segments
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
