"""The VITS engine over a folder as transformers saves it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from anyrig.errors import (
    InvalidInputError,
    MissingPackageError,
    MissingWeightsError,
    UnspeakableTextError,
)
from anyrig.placement import Placement
from anyrig.speech import contract
from anyrig.speech.engine import Utterance
from anyrig.speech.engines.vits import Vits
from tests.speech.conftest import place_on_cpu

LETTERS = "_abcdefghijklmnopqrstuvwxyzé '-"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights, in French."""
    from transformers import VitsConfig

    from anyrig.speech.models.vits import import_vits_model

    made = tmp_path_factory.mktemp("models") / "mms-tts-fra"
    torch.manual_seed(0)
    config = VitsConfig(
        vocab_size=len(LETTERS), hidden_size=32, num_hidden_layers=1, ffn_dim=32, flow_size=16,
        upsample_initial_channel=32, prior_encoder_num_wavenet_layers=1,
        posterior_encoder_num_wavenet_layers=1,
    )  # fmt: skip
    model = import_vits_model()(config)
    with torch.no_grad():
        model.decoder.conv_post.weight.mul_(0.05)
    model.save_pretrained(made)
    vocabulary = {letter: number for number, letter in enumerate(LETTERS)}
    (made / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    told = {"language": "fra", "phonemize": False, "is_uroman": False, "add_blank": True,
            "normalize": True, "pad_token": "_", "unk_token": "_",
            "tokenizer_class": "VitsTokenizer"}  # fmt: skip
    (made / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def placement() -> Placement:
    return place_on_cpu("torch")


@pytest.fixture(scope="module")
def subject(folder: Path, placement: Placement) -> contract.Subject:
    # A model that has learnt nothing gives every letter its one frame at any rate.
    return contract.Subject(Vits, placement, folder, half=(0.3, 1.0))


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_the_contract_of_vits(check: contract.Check, subject: contract.Subject) -> None:
    check(subject)


def test_the_language_is_the_tokenizers(folder: Path) -> None:
    found = Vits.find_weights(folder)
    assert found.languages == ("fr",)
    assert found.sample_rate == 16000


def test_nothing_to_say_is_refused(folder: Path, placement: Placement) -> None:
    engine = Vits(placement, folder=str(folder))
    with pytest.raises(UnspeakableTextError, match="supports no character"):
        engine.run([Utterance("漢字", "fr")])


def test_pickled_weights_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "vits"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(MissingWeightsError, match="pickled") as refused:
        Vits.find_weights(tmp_path)
    assert "model.safetensors" in refused.value.hint


def test_an_empty_folder_and_another_model_are_told_apart(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingWeightsError, match=r"model\.safetensors"):
        Vits.find_weights(tmp_path)
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "bark"}')
    with pytest.raises(InvalidInputError, match="bark"):
        Vits.find_weights(tmp_path)


def test_a_model_that_needs_roman_letters_says_so(
    folder: Path, tmp_path: Path, placement: Placement
) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    told = json.loads((folder / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**told, "is_uroman": True}))
    with pytest.raises(MissingPackageError, match="uroman"):
        Vits(placement, folder=str(tmp_path))
