"""`anyrig speak --captions` and `Rig().speak(...).words`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from anyrig import Rig
from anyrig.app import word_times
from anyrig.app.speech import TimedTake
from anyrig.transcription.engines import Recording, TranscribedLine, TranscribedWord, Transcript
from tests.conftest import Anyrig

TEXT = "Dr. Lee paid $3.50 for tea, and left. It was 1984.\n\nNobody came — nobody at all."


def _seconds(clock: str) -> float:
    hours, minutes, seconds = clock.replace(",", ".").split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def test_captions_lie_beside_the_audio_and_fit_it(anyrig: Anyrig, tmp_path: Path) -> None:
    target = tmp_path / "tea.flac"
    done = anyrig(
        "speak", TEXT, "--engine", "tone", "-o", str(target), "--captions", "srt,vtt,json"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == f"{tmp_path / 'tea.srt'}: 16 words, exact times"
    found = json.loads((tmp_path / "tea.json").read_text())
    audio, rate = soundfile.read(target)
    assert found["timing"] == "exact"
    assert found["duration"] == pytest.approx(len(audio) / rate, abs=0.001)
    words = found["words"]
    assert [TEXT[slice(*word["span"])] for word in words] == TEXT.replace("—", " ").split()
    assert [word["word"] for word in words] == TEXT.replace("—", " ").split()
    assert all(one["end"] <= two["start"] + 0.001 for one, two in pairwise(words))
    for word in words:
        heard = audio[round(word["start"] * rate) : round(word["end"] * rate)]
        assert np.abs(heard).max() > 0.02, word
    srt = (tmp_path / "tea.srt").read_text()
    times = [_seconds(clock) for clock in re.findall(r"\d+:\d\d:\d\d,\d\d\d", srt)]
    assert times == sorted(times)
    assert times[-1] <= found["duration"] + 1.0
    assert times[0] == pytest.approx(words[0]["start"], abs=0.06)
    assert (tmp_path / "tea.vtt").read_text().startswith("WEBVTT")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["-o", "-", "--captions", "srt"], "--captions writes files beside the audio file"),
        (["-o", "a.wav", "--captions", "ass"], "unknown captions 'ass'"),
    ],
)
def test_captions_that_cannot_be_written(
    anyrig: Anyrig, given: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = anyrig("speak", TEXT, "--engine", "tone", *given)
    assert done.returncode == 2
    assert problem in done.stderr
    assert not [*tmp_path.glob("*.wav"), *tmp_path.glob("*.srt")]


def test_words_in_python_add_up_over_sentences_pauses_and_paces() -> None:
    text = " ".join(f"Sentence {number} costs ${number}.25." for number in range(30))
    with Rig().speak(f"{text}\n\n{text}", engine="tone", rate=1.3, loudness=-30) as speech:
        assert speech.timing == "exact"
        words, audio = speech.words, speech.read()
        assert [word.text for word in words] == (text + " " + text).split()
        assert all(one.end_s <= two.start_s for one, two in pairwise(words))
        gaps = [two.start_s - one.end_s for one, two in pairwise(words)]
        assert max(gaps) == pytest.approx(0.6, abs=0.2)  # the pause of the paragraph
        for word in words:
            start, end = round(word.start_s * 24000), round(word.end_s * 24000)
            assert np.abs(audio[start:end]).max() > 0.1, word
        assert words[-1].end_s <= speech.audio_s


class FakeRecogniser:
    """Hears each word of a text for a share of the recording, but for some."""

    def __init__(self, texts: list[str]) -> None:
        self.texts, self.heard = iter(texts), list[Recording]()

    def transcribe(self, recordings: Iterable[Recording]) -> Iterator[Any]:
        for recording in recordings:
            self.heard.append(recording)
            words, whole_s = next(self.texts).split(), len(recording.samples) / recording.rate
            step = whole_s / max(1, len(words))
            timed = tuple(
                TranscribedWord(word, at * step, (at + 1) * step) for at, word in enumerate(words)
            )
            lines = (TranscribedLine(" ".join(words), 0.0, whole_s, timed),)
            yield SimpleNamespace(result=Transcript(" ".join(words), "en", lines))


def _listen_with(monkeypatch: pytest.MonkeyPatch, *texts: str) -> FakeRecogniser:
    fake = FakeRecogniser(list(texts))

    @contextmanager
    def borrow(*_: object) -> Iterator[FakeRecogniser]:
        yield fake

    monkeypatch.setattr(word_times, "_borrow_recogniser", borrow)
    return fake


def test_an_engine_without_durations_is_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _listen_with(monkeypatch, "The cattle is on it was 1984")
    with Rig().speak("The kettle is on. It was 1984.", engine="nanotts", language="en") as speech:
        assert [word.text for word in speech.words] == "The kettle is on. It was 1984.".split()
        assert speech.timing == "aligned"
        assert all(one.end_s <= two.start_s for one, two in pairwise(speech.words))
        assert speech.words[-1].end_s <= speech.audio_s
    assert len(fake.heard) == 1  # takes are heard together


def test_audio_in_which_nothing_is_recognised_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _listen_with(monkeypatch, "")
    with Rig().speak("The kettle.", engine="nanotts", language="en") as speech:
        with pytest.raises(Exception, match="no word times") as caught:
            _ = speech.words
        assert "hibari" in str(getattr(caught.value, "hint", ""))


@pytest.mark.slow
def test_aligned_times_are_near_the_exact_ones() -> None:
    """The default voice, whose times are known, heard as if they were not."""
    text = (
        "The harbour was quiet in the early morning. Dr. Lee paid $3.50 for the bread. She counted"
        " the gulls, and wondered how many would come back before the rain."
    )
    with Rig().speak(text) as speech:
        exact = speech.words
        speech.takes = [TimedTake(one.segment, one.start, one.end) for one in speech.takes]
        del speech.word_times
        aligned = speech.words
        assert speech.timing == "aligned"
    assert [word.span for word in aligned] == [word.span for word in exact]
    errors = [abs(one.start_s - two.start_s) for one, two in zip(exact, aligned, strict=True)]
    assert float(np.median(errors)) < 0.1
    assert max(errors) < 0.6
