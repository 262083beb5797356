"""A tiny random Whisper through torch: its tokens are those of transformers, its lines are sane."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anyrig.audio import SPEECH_RATE as RATE
from anyrig.audio.samples import Samples
from anyrig.devices.choose import choose_device
from anyrig.devices.discovery import discover
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.placement import Placement, plan_placement
from anyrig.transcription.engines import Recording, TransformersWhisper
from anyrig.transcription.models import find_model
from anyrig.work.batching import BatchSizer
from anyrig.work.outcome import RunReport
from anyrig.work.retry import run_batches
from tests.transcription import tiny_whisper as tiny

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:std:UserWarning"
)
rng = np.random.default_rng(3)


def sound(seconds: float) -> Samples:
    time = np.arange(round(seconds * RATE)) / RATE
    swell = 0.2 + np.abs(np.sin(2 * np.pi * 1.5 * time))
    return (0.1 * swell * rng.standard_normal(len(time))).astype(np.float32)


SOUNDS = [sound(28), sound(5), sound(1)]


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights are never good: two tries of each are enough here."""
    monkeypatch.setattr("anyrig.transcription.engines._TEMPERATURES", (0.0, 0.6))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("tiny") / "whisper")


def placement(precision: str = "fp32") -> Placement:
    machine = discover({})
    need = find_need(precision)
    found = plan_placement(machine, choose_device(machine, ()), need, environment={}).placements[0]
    return replace(found, threads=1)


def find_need(precision: str) -> Any:
    from anyrig.placement import Workload

    return Workload("a tiny Whisper", libraries=("torch",), precisions=(precision,), gpu=False)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def engine(folder: Path) -> TransformersWhisper:
    return TransformersWhisper(placement(), model=str(folder))


def test_the_model_is_found_by_its_folder(folder: Path) -> None:
    found = find_model(str(folder))
    assert found.engine == "transformers"
    assert found.languages == ("en", "es", "fr")
    assert find_model(str(folder)).fingerprint == found.fingerprint
    with pytest.raises(InvalidInputError, match="does not support"):
        find_model(str(folder), language="de")
    with pytest.raises(InvalidInputError, match="not by whisper"):
        find_model(str(folder), engine="whisper")


def test_lines_are_in_order_and_within_each_recording(engine: TransformersWhisper) -> None:
    heard = engine.run([Recording(one, RATE, "es", "lines") for one in SOUNDS])
    for one, transcript in zip(SOUNDS, heard, strict=True):
        assert transcript.language == "es"
        at = 0.0
        for line in transcript.lines:
            assert at <= line.start_s <= line.end_s <= len(one) / RATE + 1e-6
            at = line.start_s
            assert line.compression_ratio is not None
            assert line.text
            assert "<|" not in line.text


def test_recordings_of_a_batch_have_languages_of_their_own(engine: TransformersWhisper) -> None:
    batch = [
        Recording(one, RATE, code, "lines")
        for one, code in zip(SOUNDS, ("fr", "en", ""), strict=True)
    ]
    heard = engine.run(batch)
    assert [one.language for one in heard[:2]] == ["fr", "en"]
    assert heard[2].language == heard[2].languages[0][0]


def test_a_recording_longer_than_a_window_is_transcribed_to_its_end(
    engine: TransformersWhisper,
) -> None:
    (heard,) = engine.run([Recording(sound(70), RATE, "en", "lines")])
    assert all(0 <= line.start_s <= line.end_s <= 70 for line in heard.lines)
    assert heard.lines[-1].end_s > 30


def test_a_window_is_transcribed_to_the_models_limit(tmp_path: Path) -> None:
    """Where the folder names none, transformers ends after 20 tokens: seven seconds of speech."""
    folder = tiny.make(tmp_path / "long", max_tokens=64)
    assert "max_length" not in json.loads((folder / "generation_config.json").read_text())
    engine = TransformersWhisper(placement(), model=str(folder))
    assert engine._model.generation_config.max_length == 64


def test_a_model_without_alignment_heads_has_no_word_times(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="no word times") as caught:
        TransformersWhisper(placement(), model=str(folder), words=True)
    assert caught.value.hint


def test_word_times_come_from_the_cross_attention(tmp_path: Path) -> None:
    folder = tiny.make(tmp_path / "words", alignment_heads=[[0, 0], [1, 1]])
    engine = TransformersWhisper(placement(), model=str(folder), words=True)
    (heard,) = engine.run([Recording(SOUNDS[1], RATE, "en", "lines")])
    assert heard.lines
    for line in heard.lines:
        assert " ".join(word.text for word in line.words).split() == line.text.split()
        assert all(0 <= word.start_s <= word.end_s <= 5.0 for word in line.words)


def test_the_language_is_found_out(engine: TransformersWhisper) -> None:
    (told,) = engine.run([Recording(SOUNDS[1], RATE, "", "language")])
    assert told.text == ""
    assert told.language == told.languages[0][0]
    assert sum(share for _, share in told.languages) == pytest.approx(1.0, abs=1e-4)
    (empty,) = engine.run([Recording(SOUNDS[1][:0], RATE, "", "lines")])
    assert empty.text == ""


def test_memory_that_runs_out_halves_the_batch(engine: TransformersWhisper, folder: Path) -> None:
    sizes: list[int] = []

    def tight(batch: Sequence[Recording]) -> list[Any]:
        sizes.append(len(batch))
        if len(batch) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [transcript.language for transcript in engine.run(batch)]

    report = RunReport()
    items = [Recording(one, RATE, "", "language") for one in SOUNDS]
    outcomes = list(
        run_batches(
            items,
            tight,
            cost=find_model(str(folder)).estimate_cost,
            sizer=BatchSizer(start=1e6),
            report=report,
        )
    )
    assert [outcome.failure for outcome in outcomes] == [None] * 3
    assert max(sizes) > 1
    assert report.num_out_of_memory >= 1


def test_a_model_of_one_language(tmp_path: Path) -> None:
    folder = tiny.make(tmp_path / "one", multilingual=False)
    assert find_model(str(folder)).languages == ("en",)
    with pytest.raises(InvalidInputError, match="cannot translate"):
        find_model(str(folder), translate=True)
    engine = TransformersWhisper(placement(), model=str(folder))
    (told,) = engine.run([Recording(SOUNDS[1], RATE, "", "lines")])
    assert told.language == "en"


def test_a_folder_without_a_model_is_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="contains no speech recognition model"):
        find_model(str(tmp_path))
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors", "generation_config.json"):
        (bare / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(MissingWeightsError, match="tokenizer"):
        TransformersWhisper(placement(), model=str(bare))
    (bare / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(MissingWeightsError, match="cannot load Whisper"):
        TransformersWhisper(placement(), model=str(bare))
