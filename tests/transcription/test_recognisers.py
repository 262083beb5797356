"""What was said is heard: real models on real takes, in and out of a worker."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from anyrig.audio import SPEECH_RATE as RECOGNISED
from anyrig.audio.resample import resample
from anyrig.audio.samples import Samples
from anyrig.errors import InvalidInputError, MissingPackageError, MissingWeightsError
from anyrig.placement import PlacementPlan
from anyrig.speech.engines.hibari import Hibari
from anyrig.speech.prepare import SpeechOptions, prepare
from anyrig.speech.synthesis import Synthesizer
from anyrig.storage.weights import check_hashes
from anyrig.transcription.compare import count_word_errors
from anyrig.transcription.engines import FasterWhisper, Moonshine, Recording
from anyrig.transcription.models import assemble_whisper_base, find_model, find_verifier
from tests.speech.conftest import place_on_cpu
from tests.speech.takes import RATE, said, sentences

SPANISH = "El tren sale de la estación a las siete de la mañana."


@pytest.fixture(scope="module")
def moonshine() -> Moonshine:
    return Moonshine()


@pytest.fixture(scope="module")
def whisper_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assemble_whisper_base(tmp_path_factory.mktemp("models") / "whisper-base")


def test_moonshine_hears_what_was_said(moonshine: Moonshine) -> None:
    errors = words = 0
    batch = [Recording(said(text).samples, RATE, "en") for text in sentences()[:10]]
    for text, heard in zip(sentences(), moonshine.run(batch), strict=False):
        assert heard.language == "en"
        found = count_word_errors(text, heard.text)
        errors, words = errors + found.errors, words + found.words
    assert errors / words <= 0.03


def test_moonshine_hears_no_numbers_where_a_recording_ends_with_its_last_word(
    moonshine: Moonshine,
) -> None:
    text = "Two thirds of the land was covered with trees, and the rest was open grass."
    info = Hibari.info
    options = SpeechOptions(max_chars=info.max_chars, reads=info.reads, languages=("en",))
    script = prepare(text, options)
    plan = PlacementPlan((place_on_cpu(),))
    with Synthesizer(
        engine="hibari", weights=Hibari.find_weights(), plan=plan, environment=os.environ
    ) as synthesizer:
        chunks = synthesizer.read(script.segments).chunks()
        samples = np.concatenate([chunk.samples for chunk in chunks])
    heard = moonshine.run([Recording(samples, RATE, "en")])[0]
    assert count_word_errors(text, heard.text, "en").errors == 0, heard.text


def test_moonshine_hears_that_something_is_missing(moonshine: Moonshine) -> None:
    take = said(sentences()[0]).samples
    heard = moonshine.run([Recording(take[: len(take) // 2], RATE)])[0]
    assert count_word_errors(sentences()[0], heard.text).rate > 0.25
    assert moonshine.run([Recording(take[:0], RATE)])[0].text == ""


def test_a_recording_is_heard_the_same_whatever_came_before(moonshine: Moonshine) -> None:
    """Its detector of speech remembers; one that begins in the midst of it was heard with a You."""
    take = resample(said(sentences()[0]).samples, RATE, RECOGNISED)[RECOGNISED // 8 :]
    heard = [moonshine.run([Recording(take, RECOGNISED, "en", "lines")])[0] for _ in range(3)]
    assert heard[0] == heard[1] == heard[2]
    assert "You" not in heard[2].text


def test_whisper_hears_spanish(whisper_folder: Path) -> None:
    from py_nanotts import NanoTTS

    data = NanoTTS().speak(SPANISH, voice="es-ES")
    samples = np.frombuffer(data, dtype="<i2").astype(np.float32) / np.float32(32768)
    made = FasterWhisper(model=str(whisper_folder))
    told, found_out = made.run(
        [Recording(samples, 16000, "es"), Recording(_at_24k(samples), 24000, "")]
    )
    assert count_word_errors(SPANISH, told.text, "es").rate <= 0.2
    assert found_out.language == "es", "from another rate, and not told"


def _at_24k(samples: Samples) -> Samples:
    places = np.arange(len(samples) * 3 // 2) * 2 / 3
    made: Samples = np.interp(places, np.arange(len(samples)), samples).astype(np.float32)
    return made


def test_the_joined_model_is_checked(whisper_folder: Path, tmp_path: Path) -> None:
    assert assemble_whisper_base(whisper_folder) == whisper_folder
    assert not list(whisper_folder.glob("*.part"))
    copy = tmp_path / "copy"
    shutil.copytree(whisper_folder, copy)
    with (copy / "model.bin").open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    with pytest.raises(MissingWeightsError, match=r"model.bin .* SHA-256") as caught:
        assemble_whisper_base(copy)
    assert "--force-reinstall" in caught.value.hint
    assert not (copy / "model.bin").exists(), "the next run joins it anew"


def test_a_folder_for_ctranslate2_is_a_model_by_its_path(whisper_folder: Path) -> None:
    found = find_model(str(whisper_folder))
    assert found.engine == "whisper"
    assert found.is_multilingual
    assert found.build_factory("unused").options["model"] == str(whisper_folder)
    assert found.fingerprint
    with pytest.raises(InvalidInputError, match="is run by whisper"):
        find_model(str(whisper_folder), engine="transformers")


def test_each_language_has_its_verifier() -> None:
    with pytest.raises(InvalidInputError, match="'tlh'"):
        find_verifier("tlh")
    assert find_verifier("zh-TW").name == "whisper-base"


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moonshine_voice", None)
    with pytest.raises(MissingPackageError, match="moonshine_voice") as caught:
        find_verifier("en")
    assert caught.value.hint == "pip install 'anyrig[recognise]'"
    monkeypatch.setitem(sys.modules, "moonshine_voice.transcriber", None)
    with pytest.raises(MissingPackageError, match="moonshine needs"):
        Moonshine()


def test_other_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"other")
    with pytest.raises(MissingWeightsError, match="SHA-256"):
        check_hashes([(tmp_path / "weights", "0" * 64)], "some-package")
    with pytest.raises(MissingWeightsError, match="nothing"):
        check_hashes([(tmp_path / "nothing", "0" * 64)], "some-package")


def test_the_weights_of_a_folder_are_hashed_once_and_keep_their_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    weights = tmp_path / "model.bin"
    weights.write_bytes(b"weights")
    rows = [
        f"{name} {hashlib.sha256(data).hexdigest()}\n"
        for name, data in (("config.json", b"{}"), ("model.bin", b"weights"))
    ]
    fingerprint = hashlib.sha256("".join(rows).encode()).hexdigest()  # as 0.1.0 computed it
    assert find_model(str(tmp_path)).fingerprint == fingerprint
    state = weights.stat()
    weights.write_bytes(b"WEIGHTS")
    os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert find_model(str(tmp_path)).fingerprint == fingerprint  # it was not read again
    weights.write_bytes(b"other weights")
    assert find_model(str(tmp_path)).fingerprint != fingerprint
