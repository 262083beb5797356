"""`anyrig transcribe` from the command line: files, folders, errors, JSON, jobs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import soundfile

from anyrig.errors import MissingWeightsError
from anyrig.transcription.compare import count_word_errors
from tests.conftest import Anyrig
from tests.speech.takes import RATE, said, sentences

TEXT = " ".join(sentences()[:3])


def record(path: Path) -> Path:
    parts = [said(text).samples for text in sentences()[:3]]
    rest = np.zeros(RATE // 2, np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.concatenate([one for part in parts for one in (part, rest)]), RATE)
    return path


def test_a_recording_is_written_down_and_kept(anyrig: Anyrig, tmp_path: Path) -> None:
    path = record(tmp_path / "talk.wav")
    first = anyrig("transcribe", str(path), "--language", "en")
    assert first.returncode == 0, first.stderr
    assert count_word_errors(TEXT, first.stdout).rate <= 0.1
    assert "times real time" in first.stderr
    made = anyrig("transcribe", str(path), "--language", "en", "-o", str(tmp_path / "talk.srt"))
    assert made.returncode == 0, made.stderr
    assert "1 of 1 segment cached" in made.stdout
    assert (tmp_path / "talk.srt").read_text(encoding="utf-8").startswith("1\n00:00:0")
    alone = anyrig("transcribe", str(tmp_path), "--language", "en")  # the only one of a folder
    assert alone.stdout == first.stdout, alone.stderr
    told = anyrig("transcribe", str(path), "--language", "en", "--json")
    last = json.loads(told.stdout.splitlines()[-1])
    assert last["event"] == "done"
    assert last["cached"] == 1
    assert last["transcripts"][0]["segments"][0]["start"] >= 0


def test_a_recording_that_is_cut_short_is_told(anyrig: Anyrig, tmp_path: Path) -> None:
    path = tmp_path / "half.wav"
    soundfile.write(path, np.zeros(16000 * 6), 16000)
    path.write_bytes(path.read_bytes()[: 16000 * 6])
    made = anyrig("transcribe", str(path))
    assert made.returncode == 0, made.stderr
    assert "warning: half.wav is truncated: 3.0 s of the 6.0 s in its header" in made.stderr


def test_mistakes_are_told(anyrig: Anyrig, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros(1600), 16000)
    soundfile.write(path.with_name("b.wav"), np.zeros(1600), 16000)
    for words, problem in (
        (["nothing.wav"], "no such file or folder: nothing.wav"),
        ([str(path), "-o", str(tmp_path / "a.docx")], "unknown format 'docx'"),
        ([str(path), "--model", "moonshine", "--translate"], "moonshine cannot translate"),
        ([str(path), str(path.with_name("b.wav"))], "2 transcripts cannot be printed"),
        ([str(path), "-o", str(path), "--format", "txt"], "a.wav is one of the recordings"),
    ):
        made = anyrig("transcribe", *words)
        assert made.returncode == 2, made.stderr
        assert problem in made.stderr
        assert "\ue000" not in made.stderr
        assert not made.stdout


def test_nothing_is_fetched_unasked(anyrig: Anyrig, tmp_path: Path) -> None:
    """The hub is a port where nobody listens: whoever goes there says so."""
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros(1600), 16000)
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hub")}
    for name in ("openai/whisper-nobody", "small"):
        words = ["transcribe", str(path), "--model", name]
        made = anyrig(*words, environment=nowhere)
        assert made.returncode == MissingWeightsError.exit_code, made.stderr
        assert "is not on this machine\n" in made.stderr
        assert "hint: Pass --fetch to download it" in made.stderr
    asked = anyrig(*words, "--fetch", environment=nowhere)
    assert asked.returncode == MissingWeightsError.exit_code
    assert "cannot be downloaded" in asked.stderr
