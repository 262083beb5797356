"""A tiny random Whisper through torch: its tokens are those of transformers, its lines are sane."""

from __future__ import annotations

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
from anyrig.devices.discover import discover
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.placement import Placement, plan_placement
from anyrig.transcription.model import find
from anyrig.transcription.protocol import Recording
from anyrig.transcription.torch_whisper import TorchWhisper
from anyrig.transcription.whisper_decode import Vocabulary, decode, lines_of
from anyrig.work.batching import BatchSizer
from anyrig.work.outcome import RunReport
from anyrig.work.retry import run_batches
from tests.transcription import tiny_whisper as tiny

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
rng = np.random.default_rng(3)


def sound(seconds: float) -> Samples:
    time = np.arange(round(seconds * RATE)) / RATE
    swell = 0.2 + np.abs(np.sin(2 * np.pi * 1.5 * time))
    return (0.1 * swell * rng.standard_normal(len(time))).astype(np.float32)


SOUNDS = [sound(28), sound(5), sound(1)]


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights are never good: two tries of each are enough here."""
    monkeypatch.setattr("anyrig.transcription.torch_whisper.TEMPERATURES", (0.0, 0.6))


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
def engine(folder: Path) -> TorchWhisper:
    return TorchWhisper(placement(), model=str(folder))


def test_the_model_is_found_by_its_folder(folder: Path) -> None:
    found = find(str(folder))
    assert found.engine == "transformers"
    assert found.languages == ("en", "es", "fr")
    assert find(str(folder)).fingerprint == found.fingerprint
    with pytest.raises(InvalidInputError, match="does not support"):
        find(str(folder), language="de")
    with pytest.raises(InvalidInputError, match="not by whisper"):
        find(str(folder), engine="whisper")


def test_the_tokens_are_those_of_transformers(engine: TorchWhisper) -> None:
    model: Any = engine._model
    prompt = [tiny.START, tiny.LANGUAGES["en"], tiny.TRANSCRIBE]
    with torch.inference_mode():
        features = engine._extractor(SOUNDS, sampling_rate=RATE, return_tensors="pt").input_features
        _, hidden = engine._encoded(SOUNDS)
        ours = decode(model, hidden, [prompt] * 3, [30.0] * 3, engine.vocabulary)
        steering = [tiny.START, tiny.NO_SPEECH, tiny.TRANSLATE, tiny.TRANSCRIBE]
        theirs = model.generate(
            features, return_timestamps=True, language="en", task="transcribe", num_beams=1,
            do_sample=False, max_new_tokens=13, force_unique_generate_call=True,
            suppress_tokens=[*steering, *tiny.LANGUAGES.values()],
            attention_mask=torch.ones(features.shape[0], features.shape[-1], dtype=torch.long),
        )  # fmt: skip
    for mine, row in zip(ours, theirs.tolist(), strict=True):
        row = row[3:] if row[:3] == prompt else row
        assert mine.tokens == (row[: row.index(tiny.END)] if tiny.END in row else row)
        assert mine.avg_logprob <= 0


def test_lines_are_in_order_and_within_each_recording(engine: TorchWhisper) -> None:
    heard = engine.run([Recording(one, RATE, "es", "lines") for one in SOUNDS])
    for one, transcript in zip(SOUNDS, heard, strict=True):
        assert transcript.language == "es"
        at = 0.0
        for line in transcript.lines:
            assert at <= line.start_s <= line.end_s <= len(one) / RATE + 1e-6
            at = line.start_s
            assert line.avg_logprob is not None
            assert line.no_speech_prob is not None
            assert line.temperature is not None
            assert line.text
            assert "<|" not in line.text


def test_company_does_not_change_what_is_heard(engine: TorchWhisper) -> None:
    model: Any = engine._model
    prompt = [tiny.START, tiny.LANGUAGES["fr"], tiny.TRANSCRIBE]
    with torch.inference_mode():
        _, together = engine._encoded(SOUNDS)
        _, alone = engine._encoded(SOUNDS[1:2])
        all_of = decode(model, together, [prompt] * 3, [28.0, 5.0, 1.0], engine.vocabulary)
        one = decode(model, alone, [prompt], [5.0], engine.vocabulary)
    assert all_of[1].tokens == one[0].tokens


def test_the_language_is_found_out(engine: TorchWhisper) -> None:
    (told,) = engine.run([Recording(SOUNDS[1], RATE, "", "language")])
    assert told.text == ""
    assert told.language == told.languages[0][0]
    assert sum(share for _, share in told.languages) == pytest.approx(1.0, abs=1e-4)
    (empty,) = engine.run([Recording(SOUNDS[1][:0], RATE, "", "lines")])
    assert empty.text == ""


def test_memory_that_runs_out_halves_the_batch(engine: TorchWhisper, folder: Path) -> None:
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
            items, tight, cost=find(str(folder)).cost, sizer=BatchSizer(start=1e6), report=report
        )
    )
    assert [outcome.failure for outcome in outcomes] == [None] * 3
    assert max(sizes) > 1
    assert report.num_out_of_memory >= 1


def test_half_precision_that_overflows_is_made_again(folder: Path) -> None:
    engine = TorchWhisper(placement("bf16"), model=str(folder))
    engine._model.model.encoder.layer_norm.weight.data.fill_(float("inf"))
    (told,) = engine.run([Recording(SOUNDS[1], RATE, "", "language")])
    assert told.languages
    assert engine._full is not None


def test_a_model_of_one_language(tmp_path: Path) -> None:
    folder = tiny.make(tmp_path / "one", multilingual=False)
    assert find(str(folder)).languages == ("en",)
    with pytest.raises(InvalidInputError, match="cannot translate"):
        find(str(folder), translate=True)
    engine = TorchWhisper(placement(), model=str(folder))
    (told,) = engine.run([Recording(SOUNDS[1], RATE, "", "lines")])
    assert told.language == "en"


def test_tokens_of_time_part_lines(engine: TorchWhisper) -> None:
    known = engine.vocabulary
    word = engine._tokenizer.encode(" hello", add_special_tokens=False)
    first = known.first_time
    tokens = [first, *word, first + 100, first + 100, *word, *word]
    lines = lines_of(tokens, known, engine._tokenizer, 4.5)
    assert [(line.text, line.start_s, line.end_s) for line in lines] == [
        ("hello", 0.0, 2.0), ("hello hello", 2.0, 4.5),
    ]  # fmt: skip
    assert isinstance(known, Vocabulary)


def test_a_folder_without_a_model_is_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="contains no speech recognition model"):
        find(str(tmp_path))
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors", "generation_config.json"):
        (bare / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(MissingWeightsError, match="tokenizer"):
        TorchWhisper(placement(), model=str(bare))
    (bare / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(MissingWeightsError, match="cannot load Whisper"):
        TorchWhisper(placement(), model=str(bare))
