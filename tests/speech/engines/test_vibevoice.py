"""VibeVoice as an engine, with a small random model that speaks for as long as it may."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.placement import Placement
from anyrig.speech import contract
from anyrig.speech.engine import Utterance
from anyrig.speech.engines.vibevoice import VibeVoice
from anyrig.speech.models.vibevoice import generate
from benchmarks import vibevoice_reference as reference
from tests.speech.conftest import place_on_cpu

CODEC = {"downsampling_ratios": [8, 20, 20], "depths": [1, 1, 1, 1]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the hub would give it, with two samples of voices."""
    where = tmp_path_factory.mktemp("vibevoice")
    sizes = copy.deepcopy(reference.TINY)
    sizes["text_config"].update(vocab_size=300, tie_word_embeddings=False)
    for part in ("audio_config", "semantic_model_config"):
        sizes[part].update(CODEC)
    model = reference.build(sizes, "cpu", torch.float32)
    _talkative(model)
    model.save_pretrained(where)
    (where / "tokenizer.json").write_text(_tokenizer().to_str())
    (where / "voices").mkdir()
    rng = np.random.default_rng(0)
    for name, rate in (("en-Ada", 24000), ("zh-Bo", 16000)):
        sample = 0.1 * rng.standard_normal((rate, 2))
        soundfile.write(where / "voices" / f"{name}.wav", sample, rate)
    return where


def _talkative(model: Any) -> None:
    """A number in every input that only the audio token's score looks at."""
    inner = model.model
    with torch.no_grad():
        inner.language_model.embed_tokens.weight[:, 0] = 8.0
        inner.multi_modal_projector.linear_2.bias[0] = 8.0
        model.lm_head.weight.zero_()
        model.lm_head.weight[model.config.audio_token_id, 0] = 1.0


def _tokenizer() -> Tokenizer:
    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({sign: 10 + n for n, sign in enumerate(signs)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


@pytest.fixture(scope="module")
def placement() -> Placement:
    return place_on_cpu("torch")


@pytest.fixture(scope="module")
def subject(folder: Path, placement: Placement) -> Iterator[contract.Subject]:
    before = torch.get_num_threads()
    yield contract.Subject(VibeVoice, placement, folder, {"most_s": 20.0, "steps": 3})
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "check",
    [check for check in contract.CHECKS if check is not contract.check_longest_line],
    ids=lambda check: check.__name__,
)
def test_it_keeps_the_contract(check: contract.Check, subject: contract.Subject) -> None:
    check(subject)


def test_a_line_ends_at_the_longest_allowed(subject: contract.Subject) -> None:
    (take,) = subject.loaded.run([Utterance("word " * 200)])
    assert take.duration_s == pytest.approx(20.0, abs=3200 / 24000)


def test_the_prompt_is_token_for_token_the_published_one(subject: contract.Subject) -> None:
    made: Any = subject.loaded
    model, tokenizer = made._runtime.model, _tokenizer()
    voice = torch.randn(2, model.shape.text.hidden)
    given = made._runtime.prompts.build("Hello\n there.", voice)
    before = (
        " Transform the text provided by various speakers into speech output, utilizing the "
        "distinct voice of each respective speaker.\n Voice input:\n Speaker 0:"
    )
    after = "\n Text input:\n Speaker 0: Hello there.\n Speech output:\n"
    tokens = model.shape.tokens
    ids = [*tokenizer.encode(before).ids, tokens.begin_audio]
    rest = [tokens.end_audio, *tokenizer.encode(after).ids, tokens.begin_audio]
    wanted = [model.embed_tokens(torch.tensor(ids)), voice, model.embed_tokens(torch.tensor(rest))]
    assert torch.equal(given, torch.cat(wanted))


def test_a_quiet_sample_is_made_as_loud_as_the_model_wants() -> None:
    quiet = np.sin(np.arange(24000, dtype=np.float32)) * np.float32(0.001)
    assert np.sqrt(np.mean(generate.normalize_loudness(quiet) ** 2)) == pytest.approx(
        10 ** (-25 / 20), 1e-2
    )
    spike = np.zeros(24000, np.float32)
    spike[5] = 0.5
    assert np.abs(generate.normalize_loudness(spike)).max() == pytest.approx(1.0)


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingWeightsError) as error:
        VibeVoice.find_weights(tmp_path)
    assert "VibeVoice-1.5B-hf" in error.value.hint
    with pytest.raises(MissingWeightsError):
        VibeVoice.find_weights(None)


def test_another_model_is_refused(tmp_path: Path) -> None:
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    with pytest.raises(InvalidInputError, match="qwen2"):
        VibeVoice.find_weights(tmp_path)


def test_a_sample_that_is_no_sound_is_told(
    folder: Path, placement: Placement, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "voices" / "bad.wav").write_text("no sound")
    engine = VibeVoice(placement, folder=str(other), steps=2)
    with pytest.raises(InvalidInputError, match="is not a readable audio file"):
        engine.run([Utterance("So.", voice="bad")])
