"""`Rig.transcribe`, and what a server answers from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from anyrig import Rig
from anyrig.app.events import Event
from anyrig.app.transcription import (
    TranscriptionProgress,
    TranscriptionRequest,
    find_recordings,
    to_verbose_json,
)
from anyrig.errors import InvalidInputError, InvalidOptionError
from anyrig.options import request_from_json, request_to_json
from tests.speech.sound.takes import RATE, said, sentences


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = tmp_path / "talk.flac"
    soundfile.write(path, said(sentences()[0]).samples, RATE)
    return path


def test_a_recording_becomes_text_and_files(talk: Path, tmp_path: Path) -> None:
    events: list[Event] = []
    result = Rig().transcribe(talk, language="en", device="cpu", on_event=events.append)
    assert "lighthouse" in result.text
    result.save(tmp_path / "talk.vtt")
    assert (tmp_path / "talk.vtt").read_text(encoding="utf-8").startswith("WEBVTT")
    progress = [event for event in events if isinstance(event, TranscriptionProgress)]
    assert progress[-1].file == "talk.flac"
    assert progress[-1].heard_s > 0
    answer = to_verbose_json(result.transcripts[0], words=True)
    assert answer["task"] == "transcribe"
    assert answer["language"] == "en"
    assert answer["duration"] == pytest.approx(len(said(sentences()[0]).samples) / RATE, abs=0.01)
    segments, words = answer["segments"], answer["words"]
    assert isinstance(segments, list)
    wanted = {"id", "start", "end", "text", "avg_logprob", "no_speech_prob", "compression_ratio"}
    assert wanted <= set(segments[0])
    assert isinstance(words, list)
    assert words[0]["word"] == "The"
    assert np.isfinite([word["start"] for word in words]).all()
    again = Rig().transcribe(talk, language="en", device="cpu", output=tmp_path / "again.srt")
    assert again.transcripts[0].num_kept == 1
    assert again.files[0].outputs == (tmp_path / "again.srt",)


def test_one_bad_recording_of_two_is_reported_and_one_of_one_is_raised(
    talk: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.mp3"
    bad.write_bytes(b"no audio" * 99)
    with pytest.raises(InvalidInputError, match="bad.mp3 cannot be read"):
        Rig().transcribe(bad)
    result = Rig().transcribe(bad, talk, language="en", device="cpu")
    assert [one.file for one in result.failed] == [str(bad)]
    assert len(result.transcripts) == 1


def test_transcripts_of_the_same_name_get_different_ones(tmp_path: Path) -> None:
    for name in ("x/talk.mp3", "x/talk.wav", "y/one.wav", "z/one.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = find_recordings([tmp_path / "x", tmp_path / "y", tmp_path / "z"], lambda _: None)
    assert len({one.name for one in found}) == 4


def test_a_request_is_checked_and_survives_json() -> None:
    request = TranscriptionRequest(files=("a.mp3",), format=("SRT", ".txt"), word_times=True)  # type: ignore[arg-type]
    assert request.format == ("srt", "txt")
    assert request_from_json(TranscriptionRequest, request_to_json(request)) == request
    with pytest.raises(InvalidOptionError, match="`engine` must be one of moonshine"):
        TranscriptionRequest(files=(Path("a.mp3"),), engine="piper")  # type: ignore[arg-type]
