"""The function that every door calls: bytes in, what OpenAI's clients expect out."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from anyrig.devices.choose import choose_device
from anyrig.devices.discover import discover
from anyrig.errors import InvalidInputError
from anyrig.placement import PlacementPlan, Workload, plan_placement
from anyrig.recognise.transcribe import Transcriber, Wishes
from anyrig.services.transcribe import transcribe_bytes, verbose
from tests.speech.sound.takes import RATE, said, sentences


def seats(need: Workload) -> PlacementPlan:
    machine = discover({})
    return plan_placement(machine, choose_device(machine, ()), need, environment={})


def test_bytes_become_what_clients_expect(tmp_path: Path) -> None:
    file = io.BytesIO()
    soundfile.write(file, said(sentences()[0]).samples, RATE, format="FLAC")
    with Transcriber(
        seats, environment=dict(os.environ), folder=str(tmp_path), wishes=Wishes(language="en")
    ) as transcriber:
        heard = transcribe_bytes(file.getvalue(), "upload.flac", transcriber)
        with pytest.raises(InvalidInputError, match="empty"):
            transcribe_bytes(b"", "upload", transcriber)
        with pytest.raises(InvalidInputError, match="upload cannot be read"):
            transcribe_bytes(b"nothing of the kind" * 99, "upload", transcriber)
    told = verbose(heard, words=True)
    assert told["task"] == "transcribe"
    assert told["language"] == "en"
    assert told["duration"] == pytest.approx(len(said(sentences()[0]).samples) / RATE, abs=0.01)
    assert "lighthouse" in str(told["text"])
    segments = told["segments"]
    assert isinstance(segments, list)
    wanted = {"id", "start", "end", "text", "avg_logprob", "no_speech_prob", "compression_ratio"}
    assert wanted <= set(segments[0])
    words = told["words"]
    assert isinstance(words, list)
    assert words[0]["word"] == "The"
    assert np.isfinite([word["start"] for word in words]).all()
