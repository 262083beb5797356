"""Pocket TTS as an engine, with a small random model; its frames beside transformers' generate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PocketTTSAudioTokenizerConfig,
    PocketTTSAudioTokenizerModel,
    PocketTTSConfig,
    PocketTTSForConditionalGeneration,
)

from anyrig.devices.discover import discover
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.placement import Placement
from anyrig.speech import contract
from anyrig.speech.engines.pocket import Pocket
from anyrig.speech.models import pocket
from anyrig.speech.models.pocket_codec import Decoding
from anyrig.speech.protocol import Line

WORDS = 256
SPECIAL = {
    "pad_token": "<pad>", "unk_token": "<unk>", "audio_prompt_token": "<voice>",
    "audio_latent_token": "<latent>", "audio_prompt_bos_token": "<begin_voice>",
    "audio_bos_token": "<begin_audio>",
}  # fmt: skip
TEMPLATE = (
    "{%- for message in messages %}{% for part in message['content'] %}"
    "{% if part['type'] == 'audio' %}<begin_voice><voice>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    "<begin_audio>"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("pocket")
    torch.manual_seed(0)
    ids = {name: WORDS + n for n, name in enumerate(SPECIAL)}
    config = PocketTTSConfig(
        vocab_size=WORDS + len(SPECIAL), hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=48, latent_dim=8, frame_rate=1.0,
        pad_token_id=ids["pad_token"], audio_prompt_token_id=ids["audio_prompt_token"],
        audio_latent_token_id=ids["audio_latent_token"],
        audio_prompt_bos_token_id=ids["audio_prompt_bos_token"],
        audio_bos_token_id=ids["audio_bos_token"],
        flow_head_config={"hidden_size": 24, "num_hidden_layers": 2, "latent_dim": 8,
                          "condition_dim": 32, "frequency_embedding_size": 16},
    )  # fmt: skip
    _save(PocketTTSForConditionalGeneration(config), where)
    codec = PocketTTSAudioTokenizerConfig(
        hidden_size=16, num_filters=2, upsampling_ratios=[8, 5, 3], upsample_groups=16,
        num_hidden_layers=1, intermediate_size=24, num_attention_heads=2, num_key_value_heads=2,
        latent_dim=8, latent_stride=16,
    )  # fmt: skip
    assert codec.frame_size == 1920
    _save(PocketTTSAudioTokenizerModel(codec), where / "audio_tokenizer")
    _write_tokenizer(where)
    (where / "voices").mkdir()
    rng = np.random.default_rng(0)
    soundfile.write(where / "voices" / "ada.wav", 0.1 * rng.standard_normal(12000), 16000)
    save_file({"latents": torch.randn(1, 5, 8)}, where / "voices" / "bo.safetensors")
    return where


def _save(model: Any, where: Path) -> None:
    """Random weights that let something through, saved."""
    source = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                spread = 0.8 * parameter[0].numel() ** -0.5
                parameter.normal_(0.0, spread, generator=source)
            elif "scale" in name:
                parameter.fill_(0.3)
        if hasattr(model, "eos_head"):  # it never ends by itself: a row's text is its limit
            model.eos_head.bias.fill_(-100.0)
    model.save_pretrained(where)


def _write_tokenizer(where: Path) -> None:
    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({sign: n for n, sign in enumerate(signs)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL.values()])
    (where / "tokenizer.json").write_text(made.to_str())
    told = {
        "tokenizer_class": "TokenizersBackend", "pad_token": SPECIAL["pad_token"],
        "unk_token": SPECIAL["unk_token"],
        "extra_special_tokens": {k: v for k, v in SPECIAL.items() if k.startswith("audio")},
    }  # fmt: skip
    (where / "tokenizer_config.json").write_text(json.dumps(told))
    (where / "chat_template.jinja").write_text(TEMPLATE)


@pytest.fixture(scope="module")
def placement() -> Placement:
    device = discover().cpu_device
    backend = next(backend for backend in device.backends if backend.library == "torch")
    return Placement(device, backend, threads=1)


@pytest.fixture(scope="module")
def subject(folder: Path, placement: Placement) -> Iterator[contract.Subject]:
    before = torch.get_num_threads()
    yield contract.Subject(Pocket, placement, folder)
    torch.set_num_threads(before)


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(check: contract.Check, subject: contract.Subject) -> None:
    check(subject)


@pytest.fixture(scope="module")
def quiet(folder: Path) -> pocket.Pocket:
    """Without noise, as generate does it with do_sample=False."""
    samples = {path.stem: path for path in (folder / "voices").iterdir()}
    return pocket.Pocket(folder, torch.device("cpu"), torch.float32, samples, temperature=0.0)


def test_frames_are_those_of_generate(quiet: pocket.Pocket) -> None:
    """Rows of unequal length, with unequal voices."""
    said = [pocket.Said("So it goes on.", "ada", 1), pocket.Said("No.", "bo", 2)]
    ours = torch.stack([latents for latents, _, _ in quiet._frames(said)], dim=1)
    inputs = quiet._inputs(said)
    with torch.inference_mode():
        out = quiet._model.generate(
            **inputs, do_sample=False, return_dict_in_generate=True, max_new_tokens=ours.shape[1]
        )
    for row, count in enumerate(out.audio_latents_mask.sum(-1).tolist()):
        torch.testing.assert_close(
            ours[row, :count], out.audio_latents[row, :count], atol=1e-5, rtol=1e-4
        )


def test_pieces_sound_as_they_do_within_the_whole(quiet: pocket.Pocket) -> None:
    codec = quiet._processor.audio_tokenizer
    latents = torch.randn(2, 40, 8, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        whole = codec.decode(latents).audio_values[:, 0]
    decoding = Decoding(codec)
    pieces = [decoding.feed(part) for part in torch.split(latents, [1, 2, 12, 25], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=1e-4)


def test_a_batch_is_the_same_as_each_alone(subject: contract.Subject) -> None:
    lines = [Line("So it goes.", seed=1), Line("No.", voice="bo", seed=2), Line("And on.")]
    for line, take in zip(lines, subject.made.run(lines), strict=True):
        (alone,) = subject.made.run([line])
        np.testing.assert_allclose(take.samples, alone.samples, atol=1e-4)


def test_a_row_ends_some_frames_after_the_model_says_so() -> None:
    rules = pocket.Rules(1, eos_threshold=-4.0, min_frames_before_eos=2)
    ending, heard = pocket._Ending(rules, tail=2, most=50), 0
    for score in (9.0, 9.0, -9.0, 9.0, -9.0, -9.0, -9.0):
        if ending.done:
            break
        ending.hear(score)
        heard += 1
    assert heard == 6


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingWeightsError) as error:
        Pocket.find(tmp_path)
    assert "eustlb/pocket-tts" in error.value.hint
    assert "audio_tokenizer/config.json" in error.value.message


def test_a_voice_of_another_model_is_refused(
    folder: Path, quiet: pocket.Pocket, tmp_path: Path
) -> None:
    save_file({"latents": torch.randn(5, 9)}, tmp_path / "far.safetensors")
    samples = {"far": tmp_path / "far.safetensors"}
    other = pocket.Pocket(folder, torch.device("cpu"), torch.float32, samples, temperature=0.0)
    with pytest.raises(InvalidInputError, match="another model"):
        other.speak([pocket.Said("So.", "far", 0)])
